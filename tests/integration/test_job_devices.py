"""Two jobs side by side on one machine with GPUs: each locks, shows, checks and describes its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder

# The first GPU is another job's, and full; the second one is free, and its clock is held down while it works.
_LIBRARY: Final = """\
    from types import SimpleNamespace

    class NVMLError(Exception): pass

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU, NVML_PERF_POLICY_POWER = 1, 0, 0
    held = [0]

    def status(gpu, policy):
        held[0] += gpu * 5_000_000_000
        return SimpleNamespace(violationTime=held[0])

    nvmlInit = nvmlShutdown = lambda: None
    nvmlDeviceGetCount = lambda: 2
    nvmlDeviceGetHandleByIndex = lambda index: index
    nvmlDeviceGetUUID = lambda gpu: f"GPU-{gpu}"
    nvmlDeviceGetName = lambda gpu: "NVIDIA H200"
    nvmlDeviceGetMemoryInfo = lambda gpu: SimpleNamespace(total=140 * 2**30, used=(1 - gpu) * 70 * 2**30)
    nvmlDeviceGetComputeRunningProcesses = lambda gpu: [] if gpu else [SimpleNamespace(pid=1, usedGpuMemory=70 * 2**30)]
    nvmlDeviceGetCurrentClocksEventReasons = lambda gpu: 0x102 if gpu else 0x8
    nvmlDeviceGetViolationStatus = status
    """

_GATE: Final = """\
    @gate(pair(arm("off"), arm("more", seed=1)), SPEED)
    def test_gate(): pass
    """


def test_a_job_tells_of_its_own_devices(gate_folder: GateFolder) -> None:
    """Neither is the other's full one refused, nor is anything said of it; clocks held down under load are."""
    gate_folder.write("pynvml.py", _LIBRARY)
    gate_folder.write("test_gate.py", _GATE)
    run = gate_folder.run("--specgate-devices=1")
    record = run.record

    assert (record.host["gpus"], record.host["gpu_devices"]) == (["NVIDIA H200"], ["1"]), run.output
    assert [boot.failure for boot in record.boots] == [None] * 4
    assert all("CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=PCI_BUS_ID " in boot.command for boot in record.boots)
    assert [line for line in run.summary.splitlines() if "throttled" in line or "other processes (" in line] == [
        "host: GPU 1 was throttled while it worked: power"
    ]


def test_a_device_that_is_not_there_stops_the_session(gate_folder: GateFolder) -> None:
    """A usage error in one sentence, and nothing was booted."""
    gate_folder.write("pynvml.py", _LIBRARY)
    gate_folder.write("test_gate.py", _GATE)
    run = gate_folder.run("--specgate-devices=0,7")

    assert run.exit_code == 4
    assert "--specgate-devices=0,7: this machine has no device 7, only 0, 1" in run.output
    assert (run.logs, run.records) == ([], ())
