"""Memory of accelerators: whether others use it before a start, and whether it is back after a stop."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from pytest_specgate.adapters.processes import wait_until
from pytest_specgate.core.errors import ServerError, ServerStartError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_POLL_S = 0.25
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

    Args:
        devices: indices or ids, separated by commas, as in ``CUDA_VISIBLE_DEVICES``; `None` for all of them.
    """

    def __init__(self, devices: str | None = None) -> None:
        self._names = None if devices is None else [name.strip() for name in devices.split(",") if name.strip()]

    def used_bytes(self) -> dict[str, int] | None:
        """Return the bytes in use by device; `None` without the library, its driver or the named devices."""
        with _library() as nvml:
            if nvml is None:
                return None
            handles = self._handles(nvml)
            return {name: _used(nvml, handle) for name, handle in handles.items()}
        return None

    def users(self) -> tuple[DeviceUser, ...]:
        """Return the processes that compute on the devices; none where they cannot be seen."""
        found: list[DeviceUser] = []
        with _library() as nvml:
            if nvml is not None:
                for name, handle in self._handles(nvml).items():
                    running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
                    found += [DeviceUser(name, process.pid, process.usedGpuMemory) for process in running]
        return tuple(found)

    def _handles(self, nvml: Any) -> dict[str, Any]:
        names = self._names
        if names is None:
            names = [str(index) for index in range(nvml.nvmlDeviceGetCount())]
        return {name: _handle(nvml, name) for name in names}


def _handle(nvml: Any, name: str) -> Any:
    if name.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)


def _used(nvml: Any, handle: Any) -> int:
    with contextlib.suppress(nvml.NVMLError, AttributeError, TypeError):
        # The first form counts what the driver keeps for itself as used; older drivers have no second.
        return int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)


@contextlib.contextmanager
def _library() -> Iterator[Any]:
    """Give the library while it is in use, `None` where there is none; its own errors end the block quietly."""
    try:
        # It is an extra, which only machines with such devices have.
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001  - no library, no driver, no device: all mean that nothing is known
        yield None
        return
    try:
        with contextlib.suppress(nvml.NVMLError):
            yield nvml
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


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
                f"{_sizes(more)} still in use {limit_s:g} s after the server was ended, by {_named(memory, set(more))}"
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
