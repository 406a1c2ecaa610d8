"""NVIDIA's GPUs: the one way to NVML, and facts, from ``nvidia-smi`` where ``nvidia-ml-py`` is not installed."""

from __future__ import annotations

import contextlib
import importlib
import shutil
import subprocess
import warnings
from typing import TYPE_CHECKING, Any, Final, Protocol

import psutil

from pytest_specgate.core.hosts import Fact, failed, inapplicable, known, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

_MIB: Final = 2**20
_TOOL: Final = "nvidia-smi"
_TOOL_LIMIT_S: Final = 20.0

_THROTTLING: Final = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Reasons of NVML for a clock below the highest that are trouble.

Not among them: 1 is an idle GPU; 2 and 0x100 are settings of its owner, in force for good on many machines.
"""

_HELD_BY: Final = {
    "power": "NVML_PERF_POLICY_POWER",
    "temperature": "NVML_PERF_POLICY_THERMAL",
    "sync boost": "NVML_PERF_POLICY_SYNC_BOOST",
    "board limit": "NVML_PERF_POLICY_BOARD_LIMIT",
    "reliability": "NVML_PERF_POLICY_RELIABILITY",
}
"""What NVML counts the time of, in nanoseconds, for which it holds a clock down."""

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


class UnknownDeviceError(LookupError):
    """This machine has no device of that name."""


class GpuReader(Protocol):
    """Reads facts about GPUs of this machine."""

    def read(self) -> dict[str, Fact]:
        """Return the facts by name; each value is a list with one entry for each GPU, the driver's excepted.

        ``gpu_processes`` counts processes that this one has not started; ``gpu_throttled_s`` is since the last call.
        """


def nvml_library() -> Any:
    """Return the module ``pynvml`` of ``nvidia-ml-py``.

    Raises:
        ImportError: it is not installed, or cannot be imported.
    """
    try:
        with warnings.catch_warnings():
            # An older package of that name warns of itself, and does as well.
            warnings.simplefilter("ignore")
            return importlib.import_module("pynvml")
    except Exception as error:
        raise ImportError(f"pynvml cannot be imported: {error}") from error


@contextlib.contextmanager
def nvml_opened(library: Any) -> Iterator[None]:
    """Keep NVML open during the block.

    Args:
        library: as `nvml_library` returns it.

    Raises:
        Exception: the library's own error; there is no driver, say.
    """
    library.nvmlInit()
    try:
        yield
    finally:
        with contextlib.suppress(Exception):
            library.nvmlShutdown()


def device_handles(library: Any, names: Sequence[str] | None) -> dict[str, Any]:
    """Return NVML's handles of devices by name, in the order of the names.

    Args:
        library: as `nvml_library` returns it, and open.
        names: as in ``CUDA_VISIBLE_DEVICES``: numbers in the order of the bus, ids that may be cut short, or ids of
            MIG devices; `None` for all GPUs, whose names are their numbers.

    Raises:
        UnknownDeviceError: there is no such device, or more than one.
        Exception: the library's own error.
    """
    gpus = [library.nvmlDeviceGetHandleByIndex(number) for number in range(library.nvmlDeviceGetCount())]
    numbered = {str(number): gpu for number, gpu in enumerate(gpus)}
    if names is None:
        return numbered
    return {name: _handle(library, name, numbered=numbered) for name in names}


def _handle(library: Any, name: str, *, numbered: Mapping[str, Any]) -> Any:
    if name in numbered:
        return numbered[name]
    if name.startswith("MIG-"):
        with contextlib.suppress(library.NVMLError):
            return library.nvmlDeviceGetHandleByUUID(name)
    found = [gpu for gpu in numbered.values() if _is_start(name, _text(library.nvmlDeviceGetUUID(gpu)))]
    if len(found) != 1:
        raise UnknownDeviceError(f"this machine has no device {name}, only {', '.join(numbered) or 'none at all'}")
    return found[0]


def _is_start(name: str, uuid: str) -> bool:
    """Whether a name is an id, perhaps cut short."""
    return name.startswith("GPU-") and uuid.startswith(name)


def own_processes() -> frozenset[int]:
    """Return the ids of this process and all that it has started."""
    own = psutil.Process()
    return frozenset({own.pid, *(process.pid for process in own.children(recursive=True))})


def gpu_facts(reader: GpuReader | None = None) -> dict[str, Fact]:
    """Return what is known of this machine's GPUs, by the best reader that there is.

    Args:
        reader: another one.
    """
    found = reader or gpu_reader()
    return found.read() if found is not None else {"gpus": inapplicable("no NVIDIA driver")}


def gpu_reader(devices: Sequence[str] | None = None) -> GpuReader | None:
    """Return the best reader of GPUs that there is, `None` without any.

    Args:
        devices: those it reads, as in `device_handles`.
    """
    try:
        return NvmlReader(nvml_library(), devices=devices)
    except ImportError:
        tool = shutil.which(_TOOL)
        return SmiReader(tool, devices=devices) if tool is not None else None


class NvmlReader:
    """Reads through NVML.

    Args:
        library: as `nvml_library` returns it.
        devices: those it reads, as in `device_handles`.
    """

    def __init__(self, library: Any, *, devices: Sequence[str] | None = None) -> None:
        self._library = library
        self._devices = devices
        self._held_ns: list[dict[str, int]] | None = None

    def read(self) -> dict[str, Fact]:
        """Return the facts by name."""
        try:
            with nvml_opened(self._library):
                return self._facts(device_handles(self._library, self._devices))
        except Exception as error:  # noqa: BLE001  - whatever a driver does, it must not end a measurement
            absent = self._is(error, "NVMLError_LibraryNotFound")
            return {"gpus": inapplicable("no NVIDIA driver") if absent else failed(_said(error))}

    def _facts(self, handles: Mapping[str, Any]) -> dict[str, Fact]:
        if not handles:
            return {"gpus": inapplicable("no GPU")}
        gpus = list(handles.values())
        driver = self._each([None], lambda _: _text(self._library.nvmlSystemGetDriverVersion()))
        return {
            **{name: self._each(gpus, read) for name, read in self._fields().items()},
            "gpu_driver": known(driver.value[0]) if isinstance(driver.value, list) else driver,
            "gpu_devices": known(list(handles)),
            "gpu_reader": known("NVML"),
            "gpu_throttled_s": self._throttled(gpus),
        }

    def _fields(self) -> Mapping[str, Callable[[Any], JsonValue]]:
        nvml = self._library
        ours = own_processes()
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
            "gpu_throttling": lambda gpu: throttling(_clock_reasons(nvml, gpu)),
            "gpu_processes": lambda gpu: sum(
                process.pid not in ours for process in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)
            ),
        }

    def _each(self, gpus: Sequence[Any], read: Callable[[Any], JsonValue]) -> Fact:
        """Read one fact of all GPUs; one that a GPU does not have is not applicable to the machine."""
        try:
            return known([read(gpu) for gpu in gpus])
        except Exception as error:  # noqa: BLE001  - versions of the library lack functions, and drivers lack features
            return inapplicable("not supported") if self._is(error, "NVMLError_NotSupported") else failed(_said(error))

    def _is(self, error: Exception, kind: str) -> bool:
        return isinstance(error, getattr(self._library, kind, ()))

    def _throttled(self, gpus: Sequence[Any]) -> Fact:
        """Return, by reason, for how many seconds clocks were held down since the last reading.

        A GPU is idle when it is read, before a boot and after it; only what it counts tells of the load between.
        """
        now = [self._counted_ns(gpu) for gpu in gpus]
        before, self._held_ns = self._held_ns, now
        if not any(now):
            return inapplicable("not supported")
        if before is None or [set(held) for held in before] != [set(held) for held in now]:
            return unknown("counted from this reading on")
        return known(
            [
                {reason: round(max(0, held[reason] - earlier[reason]) / 1e9, 3) for reason in held}
                for earlier, held in zip(before, now, strict=True)
            ]
        )

    def _counted_ns(self, gpu: Any) -> dict[str, int]:
        counted: dict[str, int] = {}
        for reason, policy in _HELD_BY.items():
            # Few GPUs count all of them, and older libraries know none.
            with contextlib.suppress(Exception):
                status = self._library.nvmlDeviceGetViolationStatus(gpu, getattr(self._library, policy))
                counted[reason] = int(status.violationTime)
        return counted


class SmiReader:
    """Reads the output of ``nvidia-smi``.

    Args:
        tool: path of the program.
        devices: those it reads, as in `device_handles`; it does not know MIG devices.
    """

    def __init__(self, tool: str, *, devices: Sequence[str] | None = None) -> None:
        self._tool = tool
        self._devices = devices

    def read(self) -> dict[str, Fact]:
        """Return the facts by name."""
        stable = self._of_devices(tuple(_STABLE_FIELDS.values()))
        if isinstance(stable, Fact):
            return {"gpus": stable}
        if not stable:
            return {"gpus": inapplicable("no GPU")}
        rows = list(stable.values())
        facts = {name: _column(name, [row[place] for row in rows]) for place, name in enumerate(_STABLE_FIELDS)}
        driver = facts["gpu_driver"].value
        return {
            **facts,
            **self._volatile(),
            "gpu_driver": known(driver[0]) if isinstance(driver, list) else facts["gpu_driver"],
            "gpu_devices": known(list(stable)),
            "gpu_processes": self._processes([row[-1] for row in rows]),
            "gpu_reader": known(_TOOL),
            "gpu_throttled_s": unknown(f"{_TOOL} does not tell"),
        }

    def _volatile(self) -> dict[str, Fact]:
        found = self._of_devices(tuple(_VOLATILE_FIELDS.values()))
        if isinstance(found, Fact):
            return dict.fromkeys(_VOLATILE_FIELDS, found)
        rows = list(found.values())
        return {name: _column(name, [row[place] for row in rows]) for place, name in enumerate(_VOLATILE_FIELDS)}

    def _of_devices(self, fields: tuple[str, ...]) -> dict[str, list[str]] | Fact:
        """Return the rows of the devices by name, each with number and id at its end, or why there are none."""
        rows = self._asked("--query-gpu", (*fields, "index", "uuid"))
        if isinstance(rows, Fact):
            return rows
        numbered = {row[-2]: row for row in rows}
        if self._devices is None:
            return numbered
        found = {name: [row for row in rows if name == row[-2] or _is_start(name, row[-1])] for name in self._devices}
        missing = [name for name, own in found.items() if len(own) != 1]
        if missing:
            return failed(f"this machine has no device {', '.join(missing)}, only {', '.join(numbered)}")
        return {name: own[0] for name, own in found.items()}

    def _processes(self, gpus: Sequence[str]) -> Fact:
        rows = self._asked("--query-compute-apps", ("gpu_uuid", "pid"))
        if isinstance(rows, Fact):
            return known([0 for _ in gpus]) if rows.state == "not applicable" else rows
        ours = {str(pid) for pid in own_processes()}
        return known([sum(row[0] == gpu and row[1] not in ours for row in rows) for gpu in gpus])

    def _asked(self, query: str, fields: tuple[str, ...]) -> list[list[str]] | Fact:
        """Return the rows of a table, or why there is none."""
        command = [self._tool, f"{query}={','.join(fields)}", "--format=csv,noheader,nounits"]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_LIMIT_S, check=False)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return failed(f"{_TOOL}: {error}")
        said = [line.strip() for line in (answer.stdout or answer.stderr).splitlines() if line.strip()]
        if "No devices were found" in "".join(said) or (not said and answer.returncode == 0):
            return inapplicable("no GPU")
        rows = [[cell.strip() for cell in line.split(",")] for line in said]
        if answer.returncode or any(len(row) != len(fields) for row in rows):
            return failed(f"{_TOOL}, exit code {answer.returncode}: {(said or ['no message'])[-1]}")
        return rows


def _clock_reasons(nvml: Any, gpu: Any) -> int:
    """Return the mask of reasons for a low clock; the library has renamed what tells it."""
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    ask = next((found for name in names if (found := getattr(nvml, name, None))), None)
    if ask is None:
        raise AttributeError("this version of the library does not tell")
    return int(ask(gpu))


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


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
