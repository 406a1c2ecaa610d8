"""Memory of accelerators: whether others use it before a start, and whether it is back after a stop."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pytest_specgate.adapters.nvml import UnknownDeviceError, device_handles, nvml_library, nvml_opened
from pytest_specgate.adapters.processes import wait_until
from pytest_specgate.core.errors import ServerError, ServerStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

_POLL_S = 0.25
_DEVICE_FILES = Path("/dev")
_SLACK_BYTES: Final = 2**30
"""What drivers and monitors come and go with: less than a server, more than an empty context."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceUser:
    """A process that uses memory of a device.

    Attributes:
        device: name of the device, as in `DeviceMemory.used_bytes`.
        pid: process id; it may be of another container's count.
        used_bytes: memory of the device; `None` where the driver does not tell.
    """

    device: str
    pid: int
    used_bytes: int | None


class DeviceMemory(Protocol):
    """Tells how much memory of accelerators is used."""

    def used_bytes(self) -> dict[str, int] | None:
        """Return the bytes in use by device, whoever uses them; `None` where that is unknown."""

    def users(self) -> tuple[DeviceUser, ...]:
        """Return the processes that compute on the devices, as far as they can be seen from here."""


class NvidiaMemory:
    """Port `DeviceMemory`: NVIDIA's own library, of the extra ``nvidia``; without it nothing is known.

    Where there are GPUs whose memory cannot be read, that is told once: nobody checks then that they are free.

    Args:
        names: of the devices, as in `nvml.device_handles`; `None` for all of them.
        say: shows a line to the user.
    """

    def __init__(self, names: Sequence[str] | None = None, *, say: Callable[[str], None]) -> None:
        self._names = names
        self._say = say
        self._told = False

    def unknown_device(self) -> str | None:
        """Return what is wrong with the names, `None` where nothing is, or nobody can tell."""
        with contextlib.suppress(Exception):
            library = nvml_library()
            with nvml_opened(library):
                try:
                    device_handles(library, self._names)
                except UnknownDeviceError as error:
                    return str(error)
        return None

    def used_bytes(self) -> dict[str, int] | None:
        """Return the bytes in use by device; `None` where they cannot be read."""
        return self._read(_used)

    def users(self) -> tuple[DeviceUser, ...]:
        """Return the processes that compute on the devices; none where they cannot be seen."""
        found = self._read(lambda nvml, handle: list(nvml.nvmlDeviceGetComputeRunningProcesses(handle))) or {}
        return tuple(
            DeviceUser(name, process.pid, process.usedGpuMemory)
            for name, running in found.items()
            for process in running
        )

    def _read(self, read: Callable[[Any, Any], T]) -> dict[str, T] | None:
        """Read something of each device, `None` where it cannot be read."""
        if self._names is not None and not self._names:
            return {}
        try:
            library = nvml_library()
            with nvml_opened(library):
                handles = device_handles(library, self._names)
                return {name: read(library, handle) for name, handle in handles.items()}
        except Exception as error:  # noqa: BLE001  - no library, no driver, no device: all mean that nothing is known
            self._tell(error)
            return None

    def _tell(self, error: Exception) -> None:
        """Tell once that nothing is known; of machines without GPUs there is nothing to be known."""
        if self._told or not has_gpus():
            return
        self._told = True
        why = "install the extra `nvidia`" if isinstance(error, ImportError) else str(error) or type(error).__name__
        self._say(f"this machine has GPUs, but it cannot be checked whether their memory is free: {why}")


def has_gpus() -> bool:
    """Return whether this machine shows signs of NVIDIA's GPUs, other than what their library says."""
    return any(_DEVICE_FILES.glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


def _used(nvml: Any, handle: Any) -> int:
    with contextlib.suppress(nvml.NVMLError, AttributeError, TypeError):
        # The first form counts what the driver keeps for itself as used; older drivers have no second.
        return int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)


def refuse_busy(memory: DeviceMemory, *, ours: frozenset[int], limit_s: float) -> None:
    """Make sure that nobody else uses the devices before a server is started.

    Args:
        memory: of the devices.
        ours: ids of processes of this job, which may have memory.
        limit_s: how long to wait for memory that is being given back.

    Raises:
        ServerStartError: a device is in use, and by whom.
    """
    deadline_s = time.monotonic() + limit_s
    while busy := _foreign(memory, ours):
        if not wait_until(deadline_s, pause_s=_POLL_S):
            whose = _named(memory, set(busy), without=ours)
            raise ServerStartError(f"{_sizes(busy)} in use before the start, by {whose}: measuring needs it free")


def _foreign(memory: DeviceMemory, ours: frozenset[int]) -> dict[str, int]:
    """Return the bytes by device that are not ours, where there are more than come and go."""
    used = memory.used_bytes() or {}
    own = [user for user in memory.users() if user.pid in ours] if any(_busy(used)) else []
    for user in own:
        used = {**used, user.device: used[user.device] - (user.used_bytes or 0)}
    return {device: used[device] for device in _busy(used)}


def _busy(used: Mapping[str, int]) -> list[str]:
    return [device for device, size in used.items() if size > _SLACK_BYTES]


def require_released(memory: DeviceMemory, *, before: Mapping[str, int] | None, limit_s: float) -> None:
    """Make sure that a server that was ended has given its memory back.

    Args:
        memory: of the devices.
        before: bytes in use by device before the server was started; `None` where that is unknown.
        limit_s: how long to wait for it.

    Raises:
        ServerError: more is used than before, and by whom.
    """
    deadline_s = time.monotonic() + limit_s
    while more := _more(memory.used_bytes(), before):
        if not wait_until(deadline_s, pause_s=_POLL_S):
            raise ServerError(
                f"{_sizes(more)} still in use {limit_s:g} s after the server was ended, by {_named(memory, set(more))} "
                "(raise --specgate-stop-limit if it needs longer)"
            )


def _more(now: Mapping[str, int] | None, before: Mapping[str, int] | None) -> dict[str, int]:
    """Return the bytes by device that came into use, where there are more than come and go."""
    if now is None or before is None:
        return {}
    grown = {device: size - before.get(device, 0) for device, size in now.items()}
    return {device: grown[device] for device in _busy(grown)}


def _sizes(used: Mapping[str, int]) -> str:
    return ", ".join(f"{size / 2**30:.1f} GiB of device {device}" for device, size in used.items())


def _named(memory: DeviceMemory, devices: set[str], *, without: frozenset[int] = frozenset()) -> str:
    pids = sorted({user.pid for user in memory.users() if user.device in devices} - without)
    return f"process {', '.join(map(str, pids))}" if pids else "a process that cannot be seen from here"
