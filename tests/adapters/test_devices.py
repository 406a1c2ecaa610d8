"""Memory of devices: nobody else's before a start, nobody's after a stop; unknown is no error."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.adapters.devices import DeviceUser, NvidiaMemory, refuse_busy, require_released
from pytest_specgate.core.errors import ServerError, ServerStartError

if TYPE_CHECKING:
    from collections.abc import Sequence

GIB = 2**30


class Memory:
    """Port `DeviceMemory`: says one reading after the other, and the last one for ever."""

    def __init__(self, *readings: dict[str, int] | None, users: Sequence[DeviceUser] = ()) -> None:
        self._readings = list(readings)
        self._users = tuple(users)

    def used_bytes(self) -> dict[str, int] | None:
        """Return the next reading."""
        return self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]

    def users(self) -> tuple[DeviceUser, ...]:
        """Return the users."""
        return self._users


@pytest.mark.parametrize(
    "memory",
    [
        Memory(None),
        Memory({}),
        Memory({"0": GIB, "1": 0}),
        Memory({"0": 9 * GIB}, {"0": GIB}),
        Memory({"0": 9 * GIB}, users=[DeviceUser("0", 7, 5 * GIB), DeviceUser("0", 8, 3 * GIB)]),
    ],
    ids=["unknown", "none", "monitors", "soon", "ours"],
)
def test_devices_that_nobody_else_uses_are_accepted(memory: Memory) -> None:
    """Nothing to be seen, what monitors take, what is given back soon, and our own."""
    refuse_busy(memory, ours=frozenset({7, 8}), limit_s=5)


def test_a_device_that_others_use_is_refused() -> None:
    """Measuring beside them would tell of them; who they are is said, and ours are not among them."""
    users = [DeviceUser("1", 7, GIB), DeviceUser("1", 12, 9 * GIB), DeviceUser("1", 9, None), DeviceUser("0", 5, GIB)]
    with pytest.raises(ServerStartError) as caught:
        refuse_busy(Memory({"0": GIB, "1": 11 * GIB}, users=users), ours=frozenset({7}), limit_s=0)

    assert (
        str(caught.value) == "10.0 GiB of device 1 in use before the start, by process 9, 12: measuring needs it free"
    )


def test_users_that_cannot_be_seen_are_users() -> None:
    """From inside a container the driver shows the memory, but not whose it is."""
    with pytest.raises(ServerStartError, match="by a process that cannot be seen from here: "):
        refuse_busy(Memory({"0": 11 * GIB}), ours=frozenset(), limit_s=0)


@pytest.mark.parametrize(
    ("memory", "before"),
    [
        (Memory(None), {"0": 0}),
        (Memory({"0": 9 * GIB}), None),
        (Memory({"0": 9 * GIB}), {"0": 8 * GIB}),
        (Memory({"0": 9 * GIB}, {"0": 9 * GIB}, {"0": 1}), {"0": 0}),
    ],
    ids=["unknown", "unknown-before", "as-before", "soon"],
)
def test_memory_that_is_back_is_accepted(memory: Memory, before: dict[str, int] | None) -> None:
    """What is unknown cannot be required; what was used before is not ours; drivers may take their time."""
    require_released(memory, before=before, limit_s=5)


def test_memory_that_does_not_come_back_is_told() -> None:
    """How much, of which device, and who has it."""
    memory = Memory({"0": 9 * GIB, "1": 2 * GIB}, users=[DeviceUser("0", 12, 9 * GIB)])
    with pytest.raises(ServerError) as caught:
        require_released(memory, before={"1": 2 * GIB}, limit_s=0)

    assert str(caught.value) == "9.0 GiB of device 0 still in use 0 s after the server was ended, by process 12"
    assert not isinstance(caught.value, ServerStartError)


class NvidiaError(Exception):
    """Whatever the library complains of."""


class Library(types.ModuleType):
    """NVIDIA's library as far as it is used: two devices, of which the second one is called GPU-b, too."""

    def __init__(self, *, broken: str = "", second_form: bool = True) -> None:
        super().__init__("pynvml")
        self.broken = broken
        self.second_form = second_form
        self.open = 0
        names: dict[str, Any] = {"Init": self._init, "Shutdown": self._shutdown, "DeviceGetMemoryInfo": self._memory}
        names |= {"DeviceGetHandleByIndex": self._by_index, "DeviceGetHandleByUUID": {"GPU-b": 1}.__getitem__}
        names |= {"DeviceGetCount": lambda: 2, "DeviceGetComputeRunningProcesses": self._processes}
        vars(self).update(
            {f"nvml{name}": value for name, value in names.items()}, nvmlMemory_v2=2, NVMLError=NvidiaError
        )

    def _init(self) -> None:
        if self.broken == "driver":
            raise NvidiaError
        self.open += 1

    def _shutdown(self) -> None:
        self.open -= 1

    def _by_index(self, index: int) -> int:
        if index > 1:
            raise NvidiaError
        return index

    def _memory(self, handle: int, version: int = 1) -> Any:
        if self.broken == "memory" or (version == 2 and not self.second_form):
            raise NvidiaError
        return types.SimpleNamespace(used=handle * 1000 + version)

    def _processes(self, handle: int) -> Any:
        return [types.SimpleNamespace(pid=10 + handle, usedGpuMemory=None if handle else 5)]


@pytest.fixture
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Library:
    """The library, as it is found when it is imported."""
    library = Library(**getattr(request, "param", {}))
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


def test_memory_and_users_are_asked_of_the_library(library: Library) -> None:
    """By device, without what the driver keeps for itself; the library is closed after each question."""
    memory = NvidiaMemory()

    assert memory.used_bytes() == {"0": 2, "1": 1002}
    assert memory.users() == (DeviceUser("0", 10, 5), DeviceUser("1", 11, None))
    assert library.open == 0


@pytest.mark.parametrize("library", [{"second_form": False}], indirect=True)
def test_older_drivers_are_asked_in_their_way(library: Library) -> None:
    """A driver that does not tell what it keeps for itself still tells what is used."""
    assert NvidiaMemory().used_bytes() == {"0": 1, "1": 1001}


def test_only_named_devices_are_looked_at(library: Library) -> None:
    """By index or id, as in CUDA_VISIBLE_DEVICES."""
    assert NvidiaMemory("1").used_bytes() == {"1": 1002}
    assert NvidiaMemory("GPU-b, 0").used_bytes() == {"GPU-b": 1002, "0": 2}
    assert NvidiaMemory("").used_bytes() == {}


@pytest.mark.parametrize("library", [{"broken": "driver"}, {"broken": "memory"}], indirect=True)
def test_a_library_that_fails_means_unknown(library: Library) -> None:
    """No driver, or a driver that answers nothing, is no error."""
    memory = NvidiaMemory()

    assert memory.used_bytes() is None
    assert library.open == 0


def test_a_device_that_does_not_exist_means_unknown(library: Library) -> None:
    """A wrong number is for the engine to complain of."""
    assert NvidiaMemory("5").used_bytes() is None
    assert NvidiaMemory("5").users() == ()


def test_without_the_library_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most machines have no such device, and do not install the extra."""
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert NvidiaMemory().used_bytes() is None
    assert NvidiaMemory().users() == ()
