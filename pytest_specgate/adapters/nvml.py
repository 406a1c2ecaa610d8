"""Facts about NVIDIA GPUs: through NVML where ``nvidia-ml-py`` is installed, else from ``nvidia-smi``."""

from __future__ import annotations

import importlib
import shutil
import subprocess
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytest_specgate.core.hosts import Fact, failed, inapplicable, known, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import JsonValue

_MIB: Final = 2**20
_TOOL: Final = "nvidia-smi"
_TOOL_LIMIT_S: Final = 20.0

_THROTTLING: Final = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Reasons of NVML for a clock below the highest; 1 is an idle GPU, which is none."""

_STABLE_FIELDS: Final = {
    "gpus": "name",
    "gpu_driver": "driver_version",
    "gpu_memory_bytes": "memory.total",
    "gpu_power_limit_w": "enforced.power.limit",
    "gpu_clock_limits_mhz": "clocks.max.sm",
    "gpu_mig": "mig.mode.current",
    "gpu_ecc": "ecc.mode.current",
}
_VOLATILE_FIELDS: Final = {
    "gpu_memory_used_bytes": "memory.used",
    "gpu_temperatures_c": "temperature.gpu",
    "gpu_clocks_mhz": "clocks.sm",
    "gpu_throttling": "clocks_throttle_reasons.active",
}


class GpuReader(Protocol):
    """Reads facts about all GPUs of this machine."""

    def read(self) -> dict[str, Fact]:
        """Return the facts by name; each value is a list with one entry for each GPU, the driver's excepted."""


def gpu_facts(reader: GpuReader | None = None) -> dict[str, Fact]:
    """Return what is known of this machine's GPUs, by the best reader that there is.

    Args:
        reader: another one.
    """
    found = reader or _reader()
    return found.read() if found is not None else {"gpus": inapplicable("no NVIDIA driver")}


def _reader() -> GpuReader | None:
    try:
        return NvmlReader(importlib.import_module("pynvml"))
    except ImportError:
        tool = shutil.which(_TOOL)
        return SmiReader(tool) if tool is not None else None


class NvmlReader:
    """Reads through NVML.

    Args:
        library: the module ``pynvml`` of ``nvidia-ml-py``.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def read(self) -> dict[str, Fact]:
        """Return the facts by name."""
        library = self._library
        try:
            library.nvmlInit()
        except library.NVMLError as error:
            absent = isinstance(error, library.NVMLError_LibraryNotFound)
            return {"gpus": inapplicable("no NVIDIA driver") if absent else failed(str(error))}
        try:
            return self._facts()
        finally:
            library.nvmlShutdown()

    def _facts(self) -> dict[str, Fact]:
        library = self._library
        try:
            handles = [library.nvmlDeviceGetHandleByIndex(number) for number in range(library.nvmlDeviceGetCount())]
        except library.NVMLError as error:
            return {"gpus": failed(str(error))}
        if not handles:
            return {"gpus": inapplicable("no GPU")}
        each = {name: self._each(handles, read) for name, read in self._fields().items()}
        driver = self._each([None], lambda _: _text(library.nvmlSystemGetDriverVersion()))
        return {**each, "gpu_driver": known(driver.value[0]) if isinstance(driver.value, list) else driver}

    def _fields(self) -> Mapping[str, Callable[[Any], JsonValue]]:
        nvml = self._library
        return {
            "gpus": lambda gpu: _text(nvml.nvmlDeviceGetName(gpu)),
            "gpu_memory_bytes": lambda gpu: int(nvml.nvmlDeviceGetMemoryInfo(gpu).total),
            "gpu_power_limit_w": lambda gpu: round(nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000),
            "gpu_clock_limits_mhz": lambda gpu: int(nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            "gpu_mig": lambda gpu: bool(nvml.nvmlDeviceGetMigMode(gpu)[0]),
            "gpu_ecc": lambda gpu: bool(nvml.nvmlDeviceGetEccMode(gpu)[0]),
            "gpu_memory_used_bytes": lambda gpu: int(nvml.nvmlDeviceGetMemoryInfo(gpu).used),
            "gpu_temperatures_c": lambda gpu: int(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
            "gpu_clocks_mhz": lambda gpu: int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            "gpu_throttling": lambda gpu: throttling(int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))),
            "gpu_processes": lambda gpu: len(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
        }

    def _each(self, handles: Sequence[Any], read: Callable[[Any], JsonValue]) -> Fact:
        """Read one fact of all GPUs; one that a GPU does not have is not applicable to the machine."""
        try:
            return known([read(handle) for handle in handles])
        except self._library.NVMLError as error:
            absent = isinstance(error, self._library.NVMLError_NotSupported)
            return inapplicable("not supported") if absent else failed(str(error))


class SmiReader:
    """Reads the output of ``nvidia-smi``.

    Args:
        tool: path of the program.
    """

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def read(self) -> dict[str, Fact]:
        """Return the facts by name."""
        stable = self._asked("--query-gpu", (*_STABLE_FIELDS.values(), "uuid"))
        if isinstance(stable, Fact):
            return {"gpus": stable}
        facts = {name: _column(name, [row[place] for row in stable]) for place, name in enumerate(_STABLE_FIELDS)}
        driver = facts["gpu_driver"].value
        facts["gpu_driver"] = known(driver[0]) if isinstance(driver, list) else facts["gpu_driver"]
        return {**facts, **self._volatile(), "gpu_processes": self._processes([row[-1] for row in stable])}

    def _volatile(self) -> dict[str, Fact]:
        rows = self._asked("--query-gpu", tuple(_VOLATILE_FIELDS.values()))
        if isinstance(rows, Fact):
            return dict.fromkeys(_VOLATILE_FIELDS, rows)
        return {name: _column(name, [row[place] for row in rows]) for place, name in enumerate(_VOLATILE_FIELDS)}

    def _processes(self, gpus: Sequence[str]) -> Fact:
        rows = self._asked("--query-compute-apps", ("gpu_uuid", "pid"))
        if isinstance(rows, Fact):
            return known([0 for _ in gpus]) if rows.state == "not applicable" else rows
        return known([sum(row[0] == gpu for row in rows) for gpu in gpus])

    def _asked(self, query: str, fields: tuple[str, ...]) -> list[list[str]] | Fact:
        """Return the rows of a table, or why there is none."""
        command = [self._tool, f"{query}={','.join(fields)}", "--format=csv,noheader,nounits"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_LIMIT_S, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            return failed(f"{_TOOL}: {error}")
        said = [line.strip() for line in (answer.stdout or answer.stderr).splitlines() if line.strip()]
        if "No devices were found" in "".join(said) or (not said and answer.returncode == 0):
            return inapplicable("no GPU")
        rows = [[cell.strip() for cell in line.split(",")] for line in said]
        if answer.returncode or any(len(row) != len(fields) for row in rows):
            return failed(f"{_TOOL}, exit code {answer.returncode}: {(said or ['no message'])[-1]}")
        return rows


def _column(name: str, cells: Sequence[str]) -> Fact:
    """Return one fact of all GPUs from the cells of a table."""
    if any(cell.strip("[]") in {"N/A", "Not Supported"} for cell in cells):
        return inapplicable("not supported")
    try:
        return known([_cell(name, cell) for cell in cells])
    except ValueError:
        return unknown(f"{_TOOL} says {', '.join(cells)}")


def _cell(name: str, cell: str) -> JsonValue:
    if name in {"gpus", "gpu_driver"}:
        return cell
    if name == "gpu_throttling":
        return throttling(int(cell, 16))
    if name in {"gpu_mig", "gpu_ecc"}:
        return {"Enabled": True, "Disabled": False}.get(cell, cell)
    number = round(float(cell))
    return number * _MIB if name.endswith("_bytes") else number


def throttling(mask: int) -> str:
    """Return the reasons in a bit mask of NVML, comma-separated; an empty text where the clock is free."""
    return ", ".join(reason for bit, reason in _THROTTLING.items() if mask & bit)


def _text(value: str | bytes) -> str:
    """Return a text that older versions of the library give as bytes."""
    return value.decode() if isinstance(value, bytes) else value
