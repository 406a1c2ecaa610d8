"""Facts about GPUs, from both readers, and what is said where there are none."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.adapters import nvml
from pytest_specgate.adapters.nvml import NvmlReader, SmiReader, gpu_facts, throttling
from pytest_specgate.core.hosts import facts_of, host_class, inapplicable, known, stored

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pytest_specgate.core.hosts import Fact

TOTAL = 143_771 * 2**20
USED = 4 * 2**20

STABLE_ROW = "NVIDIA H200, 570.86.15, 143771, 700.00, 1980, Disabled, Enabled, GPU-{0}"
VOLATILE_ROW = "4, 31, 1980, 0x0000000000000004"

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
}


class NvmlError(Exception):
    """What the library raises."""


class NotSupportedError(NvmlError):
    """A GPU without that feature."""


class LibraryNotFoundError(NvmlError):
    """No driver on this machine."""


class FakeLibrary:
    """The functions of ``pynvml`` that are used, for some H200.

    Args:
        gpus: number of GPUs.
        failing: errors by name of function.
    """

    NVMLError = NvmlError
    NVMLError_NotSupported = NotSupportedError
    NVMLError_LibraryNotFound = LibraryNotFoundError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, *, gpus: int = 2, failing: Mapping[str, NvmlError] | None = None) -> None:
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

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self._call(name, arguments)

    def _call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if name in self._failing:
            raise self._failing[name]
        if name in {"nvmlInit", "nvmlShutdown"}:
            self.opened += 1 if name == "nvmlInit" else -1
            return None
        if name == "nvmlDeviceGetHandleByIndex":
            return arguments[0]
        if name == "nvmlDeviceGetComputeRunningProcesses":
            return ["process"] if arguments[0] == 0 else []
        return self._answers[name]


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
    """Return facts as a record stores them."""
    return stored(facts)


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
    facts = SmiReader(tool(two(STABLE_ROW), two(VOLATILE_ROW), "GPU-0, 4711")).read()

    assert told(facts) == FACTS
    assert host_class(facts_of(told(facts))) == host_class(facts_of(told(NvmlReader(FakeLibrary()).read())))
    assert host_class(facts_of(told(facts))).startswith("h200x2-")


def test_what_a_gpu_does_not_have_is_not_applicable(tool: Any) -> None:
    """Consumer cards have neither partitions nor error correction."""
    absent = {"nvmlDeviceGetMigMode": NotSupportedError("no"), "nvmlDeviceGetEccMode": NotSupportedError("no")}
    by_library = NvmlReader(FakeLibrary(failing=absent)).read()
    by_tool = SmiReader(
        tool("RTX 4090, 570, 24564, 450.00, 3105, [N/A], [Not Supported], GPU-0", "1, 2, 3, [N/A]")
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
    facts = SmiReader(tool(STABLE_ROW.replace("1980", "fast"), "bad field", "bad, table, here")).read()

    assert facts["gpus"] == known(["NVIDIA H200"])
    assert facts["gpu_clock_limits_mhz"].state == "unknown"
    assert {facts[name].state for name in ("gpu_temperatures_c", "gpu_throttling", "gpu_processes")} == {"error"}


@pytest.mark.parametrize(
    ("mask", "text"),
    [(0, ""), (1, ""), (0x4, "power cap"), (0x48, "hardware slowdown, hardware thermal slowdown"), (2**40, "")],
)
def test_reasons_for_a_low_clock_are_named(mask: int, text: str) -> None:
    """An idle GPU is not throttled."""
    assert throttling(mask) == text


def test_the_library_is_preferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is installed, no tool is started."""
    library: Any = FakeLibrary()
    monkeypatch.setitem(sys.modules, "pynvml", library)

    assert gpu_facts()["gpu_driver"] == known("570.86.15")


def test_the_tool_is_asked_where_there_is_no_library(tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver brings it along."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", tool(STABLE_ROW).rpartition("/")[0] + ":/usr/bin:/bin")

    assert gpu_facts()["gpu_driver"] == known("570.86.15")


def test_a_machine_without_either_has_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not applicable, and not unknown."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert gpu_facts() == {"gpus": inapplicable("no NVIDIA driver")}


def test_another_reader_can_be_given() -> None:
    """For other makes of accelerators, and for tests."""
    assert gpu_facts(NvmlReader(FakeLibrary(gpus=1)))["gpus"] == known(["NVIDIA H200"])
