"""Facts about GPUs, from both readers, and what is said where there are none."""

from __future__ import annotations

import os
import sys
import types
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.adapters import nvml
from pytest_specgate.adapters.nvml import NvmlReader, SmiReader, gpu_facts, gpu_reader, nvml_library, throttling
from pytest_specgate.core.hosts import facts_of, host_class, inapplicable, known, stored, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_specgate.core.hosts import Fact

TOTAL = 143_771 * 2**20
USED = 4 * 2**20

STABLE_ROW = "NVIDIA H200, 570.86.15, 143771, 700.00, 1980, Disabled, Enabled, {0}, GPU-{0}"
VOLATILE_ROW = "4, 31, 1980, 0x0000000000000004, {0}, GPU-{0}"

FACTS: dict[str, Any] = {
    "gpus": ["NVIDIA H200", "NVIDIA H200"],
    "gpu_driver": "570.86.15",
    "gpu_memory_bytes": [TOTAL, TOTAL],
    "gpu_power_limit_w": [700, 700],
    "gpu_clock_limits_mhz": [1980, 1980],
    "gpu_mig": [False, False],
    "gpu_ecc": [True, True],
    "gpu_memory_used_bytes": [USED, USED],
    "gpu_temperatures_c": [31, 31],
    "gpu_clocks_mhz": [1980, 1980],
    "gpu_throttling": ["power cap", "power cap"],
    "gpu_processes": [1, 0],
    "gpu_devices": ["0", "1"],
}
OF_THE_READER = ("gpu_reader", "gpu_throttled_s")


class NvmlError(Exception):
    """What the library raises."""


class NotSupportedError(NvmlError):
    """A GPU without that feature."""


class LibraryNotFoundError(NvmlError):
    """No driver on this machine."""


COMPUTED = {
    "nvmlInit",
    "nvmlShutdown",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetComputeRunningProcesses",
}


class FakeLibrary:
    """The functions of ``pynvml`` that are used, for some H200.

    Args:
        gpus: number of GPUs.
        failing: errors by name of function.
        answers: of further functions and constants, or other ones.
    """

    NVMLError = NvmlError
    NVMLError_NotSupported = NotSupportedError
    NVMLError_LibraryNotFound = LibraryNotFoundError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, *, gpus: int = 2, failing: Mapping[str, Exception] | None = None, **answers: Any) -> None:
        self.opened = 0
        self._failing = failing or {}
        self._answers: dict[str, Any] = {
            "nvmlDeviceGetCount": gpus,
            "nvmlSystemGetDriverVersion": b"570.86.15",
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=TOTAL, used=USED),
            "nvmlDeviceGetEnforcedPowerLimit": 700_000,
            "nvmlDeviceGetMaxClockInfo": 1980,
            "nvmlDeviceGetMigMode": [0, 1],
            "nvmlDeviceGetEccMode": [1, 0],
            "nvmlDeviceGetTemperature": 31,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 0x5,
        }
        self._answers |= answers

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml") and name not in {*self._answers, *self._failing, *COMPUTED}:
            raise AttributeError(name)
        return self._answers[name] if name.startswith("NVML_") else lambda *arguments: self._call(name, arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name in self._failing:
            raise self._failing[name]
        if name in {"nvmlInit", "nvmlShutdown"}:
            self.opened += 1 if name == "nvmlInit" else -1
            return None
        if name == "nvmlDeviceGetHandleByIndex":
            return arguments[0]
        if name == "nvmlDeviceGetUUID":
            return f"GPU-{arguments[0]}"
        if name == "nvmlDeviceGetComputeRunningProcesses":
            return [types.SimpleNamespace(pid=pid) for pid in ((1, os.getpid()) if arguments[0] == 0 else ())]
        answer = self._answers[name]
        return answer(*arguments) if callable(answer) else answer


@pytest.fixture
def tool(tmp_path: Path) -> Any:
    """A function that makes a program of what it answers to each of the three questions, and with which exit code."""

    def make(stable: str, volatile: str = "", processes: str = "", *, code: int = 0) -> str:
        path = tmp_path / "nvidia-smi"
        path.write_text(
            f"#!/bin/sh\ncase $1 in\n*name*) cat <<'X'\n{stable}\nX\n;;\n*used*) cat <<'X'\n{volatile}\nX\n;;\n"
            f"*) cat <<'X'\n{processes}\nX\nesac\nexit {code}\n"
        )
        path.chmod(0o755)
        return str(path)

    return make


def told(facts: dict[str, Fact]) -> dict[str, Any]:
    """Return facts as a record stores them, without what tells of their reader."""
    return stored({name: fact for name, fact in facts.items() if name not in OF_THE_READER})


def two(row: str) -> str:
    """Return a row for each of two GPUs."""
    return f"{row.format(0)}\n{row.format(1)}"


def test_the_library_tells_everything() -> None:
    """Texts that are bytes in older versions, milliwatts, masks; and it is closed again."""
    library = FakeLibrary()

    assert told(NvmlReader(library).read()) == FACTS
    assert library.opened == 0


def test_the_tool_tells_the_same(tool: Any) -> None:
    """A machine is of one class, whichever reader it has."""
    ours = f"GPU-0, {os.getpid()}"
    facts = SmiReader(tool(two(STABLE_ROW), two(VOLATILE_ROW), f"GPU-0, 1\n{ours}")).read()

    assert told(facts) == FACTS
    assert host_class(facts_of(told(facts))) == host_class(facts_of(told(NvmlReader(FakeLibrary()).read())))
    assert host_class(facts_of(told(facts))).startswith("h200x2-")


def test_what_a_gpu_does_not_have_is_not_applicable(tool: Any) -> None:
    """Consumer cards have neither partitions nor error correction."""
    absent = {"nvmlDeviceGetMigMode": NotSupportedError("no"), "nvmlDeviceGetEccMode": NotSupportedError("no")}
    by_library = NvmlReader(FakeLibrary(failing=absent)).read()
    by_tool = SmiReader(
        tool("RTX 4090, 570, 24564, 450.00, 3105, [N/A], [Not Supported], 0, GPU-0", "1, 2, 3, [N/A], 0, GPU-0")
    ).read()

    for facts in (by_library, by_tool):
        assert facts["gpu_mig"] == facts["gpu_ecc"] == inapplicable("not supported")
    assert by_tool["gpu_throttling"] == inapplicable("not supported")
    assert by_tool["gpu_processes"] == known([0])


def test_an_error_of_the_library_is_told_with_its_fact() -> None:
    """The others are read all the same."""
    facts = NvmlReader(
        FakeLibrary(
            failing={
                "nvmlDeviceGetName": NvmlError("GPU is lost"),
                "nvmlSystemGetDriverVersion": NvmlError("no permission"),
            }
        )
    ).read()

    assert (facts["gpus"].state, facts["gpus"].why) == ("error", "GPU is lost")
    assert (facts["gpu_driver"].state, facts["gpu_driver"].why) == ("error", "no permission")
    assert facts["gpu_power_limit_w"] == known([700, 700])


@pytest.mark.parametrize(
    ("library", "state", "why"),
    [
        (FakeLibrary(failing={"nvmlInit": LibraryNotFoundError("no library")}), "not applicable", "no NVIDIA driver"),
        (FakeLibrary(failing={"nvmlInit": NvmlError("driver mismatch")}), "error", "driver mismatch"),
        (FakeLibrary(failing={"nvmlDeviceGetCount": NvmlError("unknown error")}), "error", "unknown error"),
        (FakeLibrary(gpus=0), "not applicable", "no GPU"),
    ],
    ids=["no-driver", "broken-driver", "no-answer", "no-gpu"],
)
def test_no_gpu_and_a_broken_driver_are_two_things(library: FakeLibrary, state: str, why: str) -> None:
    """A machine without GPUs is fine; one that lost them is not."""
    facts = NvmlReader(library).read()

    assert {name: (fact.state, fact.why) for name, fact in facts.items()} == {"gpus": (state, why)}


@pytest.mark.parametrize(
    ("text", "code", "state", "why"),
    [
        ("No devices were found", 6, "not applicable", "no GPU"),
        ("", 0, "not applicable", "no GPU"),
        ("", 9, "error", "nvidia-smi, exit code 9: no message"),
        ("driver not loaded", 9, "error", "nvidia-smi, exit code 9: driver not loaded"),
        ("a, b", 0, "error", "nvidia-smi, exit code 0: a, b"),
    ],
)
def test_a_tool_without_gpus_is_told_from_a_broken_one(tool: Any, text: str, code: int, state: str, why: str) -> None:
    """Its last words are kept."""
    facts = SmiReader(tool(text, code=code)).read()

    assert (facts["gpus"].state, facts["gpus"].why) == (state, why)


def test_a_tool_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    """A broken install of the tool is no machine without GPUs."""
    assert SmiReader(str(tmp_path / "nvidia-smi")).read()["gpus"].state == "error"


def test_a_tool_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that hangs does not hang the run."""
    path = tmp_path / "nvidia-smi"
    path.write_text("#!/bin/sh\nexec sleep 600\n")
    path.chmod(0o755)
    monkeypatch.setattr(nvml, "_TOOL_LIMIT_S", 0.1)

    assert "timed out" in SmiReader(str(path)).read()["gpus"].why


def test_a_field_that_the_tool_does_not_know_costs_no_other(tool: Any) -> None:
    """What changes by itself is asked apart, and a word in place of a number is unknown."""
    facts = SmiReader(tool(STABLE_ROW.replace("1980", "fast").format(0), "bad field", "bad, table, here")).read()

    assert facts["gpus"] == known(["NVIDIA H200"])
    assert facts["gpu_clock_limits_mhz"].state == "unknown"
    assert {facts[name].state for name in ("gpu_temperatures_c", "gpu_throttling", "gpu_processes")} == {"error"}


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (0, ""),
        (1, ""),
        (0x2, ""),
        (0x100, ""),
        (0x4, "power cap"),
        (0x48, "hardware slowdown, hardware thermal slowdown"),
        (2**40, ""),
    ],
)
def test_reasons_for_a_low_clock_are_named(mask: int, text: str) -> None:
    """An idle GPU is not throttled, and clocks that its owner has set are no trouble."""
    assert throttling(mask) == text


def test_the_library_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is installed, no tool is started."""
    library: Any = FakeLibrary()
    monkeypatch.setitem(sys.modules, "pynvml", library)

    assert gpu_facts()["gpu_driver"] == known("570.86.15")


def test_the_tool_is_asked_where_there_is_no_library(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver brings it along."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", tool(two(STABLE_ROW)).rpartition("/")[0] + ":/usr/bin:/bin")

    assert gpu_facts()["gpu_driver"] == known("570.86.15")


def test_a_machine_without_either_has_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not applicable, and not unknown."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert gpu_facts() == {"gpus": inapplicable("no NVIDIA driver")}


@pytest.mark.parametrize(("devices", "name"), [(["1"], "1"), (["GPU-1"], "GPU-1")], ids=["number", "id"])
def test_only_the_devices_of_the_job_are_described(tool: Any, devices: list[str], name: str) -> None:
    """Two jobs side by side: the other's device is in use, and nothing of that is said to this one."""
    by_library = NvmlReader(FakeLibrary(), devices=devices).read()
    by_tool = SmiReader(tool(two(STABLE_ROW), two(VOLATILE_ROW), "GPU-0, 1"), devices=devices).read()

    for facts in (by_library, by_tool):
        assert facts["gpus"] == known(["NVIDIA H200"])
        assert (facts["gpu_devices"], facts["gpu_processes"]) == (known([name]), known([0]))
        assert facts["gpu_throttling"] == known(["power cap"])


def test_a_device_that_is_not_there_is_an_error_of_the_facts(tool: Any) -> None:
    """Neither those of another device nor none: its name is said."""
    by_library = NvmlReader(FakeLibrary(), devices=["0", "7"]).read()
    by_tool = SmiReader(tool(two(STABLE_ROW), two(VOLATILE_ROW)), devices=["0", "7"]).read()

    for facts in (by_library, by_tool):
        assert {name: fact.state for name, fact in facts.items()} == {"gpus": "error"}
        assert facts["gpus"].why == "this machine has no device 7, only 0, 1"


def test_a_record_tells_who_read_the_gpus(tool: Any) -> None:
    """The tool of the driver does not tell whether memory is free, so nothing was checked."""
    assert NvmlReader(FakeLibrary()).read()["gpu_reader"] == known("NVML")
    assert SmiReader(tool(two(STABLE_ROW))).read()["gpu_reader"] == known("nvidia-smi")


def test_a_library_that_renamed_a_function_is_asked_by_its_new_name() -> None:
    """The old one may be gone; where neither is there, that one fact is an error, and nothing else."""
    new: dict[str, Any] = {"nvmlDeviceGetCurrentClocksEventReasons": 0x8}
    library = FakeLibrary(**new)
    neither = FakeLibrary()
    del neither._answers["nvmlDeviceGetCurrentClocksThrottleReasons"]
    facts = NvmlReader(neither).read()

    assert NvmlReader(library).read()["gpu_throttling"] == known(["hardware slowdown"] * 2)
    assert (facts["gpu_throttling"].state, facts["gpus"].state) == ("error", "value")


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetCount", "nvmlShutdown", "nvmlDeviceGetEccMode"])
def test_whatever_the_library_does_ends_no_measurement(name: str) -> None:
    """Errors that are none of its own, too: a version that lacks a function, or a library that was replaced."""
    facts = NvmlReader(FakeLibrary(failing={name: RuntimeError("version mismatch")})).read()

    assert {fact.why for fact in facts.values() if fact.state == "error"} <= {"version mismatch"}


def test_a_package_that_warns_when_it_is_imported_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older package of that name says that it is old; runs with warnings as errors are measured all the same."""
    (tmp_path / "pynvml.py").write_text("import warnings\nwarnings.warn('old', FutureWarning)\nVALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nvml_library()
    # Not by monkeypatch, which would put it back in the end.
    del sys.modules["pynvml"]

    assert found.VALUE == 1


def test_a_package_that_cannot_be_imported_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in it: the tool of the driver is asked instead."""
    (tmp_path / "pynvml.py").write_text("raise OSError('no shared object')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert gpu_reader() is None
    with pytest.raises(ImportError, match=r"^pynvml cannot be imported: no shared object$"):
        nvml_library()


def test_clocks_that_were_held_down_under_load_are_known_afterwards() -> None:
    """A GPU is idle when it is read, before a boot and after it: what it counts meanwhile tells of the load."""
    counted = {0: 5_000_000_000, 1: 7}

    def status(gpu: int, policy: int) -> Any:
        if policy > 1:
            raise NotSupportedError
        return types.SimpleNamespace(violationTime=counted[policy] if gpu == 0 else 0)

    policies = {"POWER": 0, "THERMAL": 1, "BOARD_LIMIT": 3}
    constants: dict[str, Any] = {f"NVML_PERF_POLICY_{name}": number for name, number in policies.items()}
    reader = NvmlReader(FakeLibrary(nvmlDeviceGetViolationStatus=status, **constants))
    first = reader.read()
    counted |= {0: 7_500_000_000, 1: 3}
    second = reader.read()

    assert first["gpu_throttled_s"] == unknown("counted from this reading on")
    assert second["gpu_throttled_s"] == known([{"power": 2.5, "temperature": 0.0}, {"power": 0.0, "temperature": 0.0}])


def test_a_gpu_that_counts_no_time_is_not_said_to_be_well() -> None:
    """Not applicable is no zero."""
    assert NvmlReader(FakeLibrary()).read()["gpu_throttled_s"] == inapplicable("not supported")


def test_another_reader_can_be_given() -> None:
    """For other makes of accelerators, and for tests."""
    assert gpu_facts(NvmlReader(FakeLibrary(gpus=1)))["gpus"] == known(["NVIDIA H200"])
