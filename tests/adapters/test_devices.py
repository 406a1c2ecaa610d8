"""Memory of devices: nobody else's before a start, nobody's after a stop; unknown is no error."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.adapters import devices
from pytest_specgate.adapters.devices import DeviceUser, NvidiaMemory, refuse_busy, require_released
from pytest_specgate.core.errors import ServerError, ServerStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

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

    assert str(caught.value) == (
        "9.0 GiB of device 0 still in use 0 s after the server was ended, by process 12 "
        "(raise --specgate-stop-limit if it needs longer)"
    )
    assert not isinstance(caught.value, ServerStartError)


class NvidiaError(Exception):
    """Whatever the library complains of."""


class Library(types.ModuleType):
    """NVIDIA's library as far as it is used: two devices with ids, the second one with a part of its own.

    Args:
        failing: the name of a function that fails, without its ``nvml``.
        second_form: whether the driver tells what it keeps for itself.
    """

    def __init__(self, *, failing: str = "", second_form: bool = True) -> None:
        super().__init__("pynvml")
        self.second_form = second_form
        self.open = 0
        functions: dict[str, Callable[..., Any]] = {
            "Init": lambda: self._opened(1),
            "Shutdown": lambda: self._opened(-1),
            "DeviceGetCount": lambda: 2,
            "DeviceGetHandleByIndex": lambda index: index,
            "DeviceGetUUID": ["GPU-1234abcd-0", "GPU-1299abcd-0"].__getitem__,
            "DeviceGetHandleByUUID": self._by_uuid,
            "DeviceGetMemoryInfo": self._memory,
            "DeviceGetComputeRunningProcesses": self._processes,
        }
        if failing:
            functions[failing] = self._fail
        vars(self).update({f"nvml{name}": value for name, value in functions.items()})
        vars(self).update(nvmlMemory_v2=2, NVMLError=NvidiaError)

    def _fail(self, *_: Any) -> None:
        raise NvidiaError("GPU is lost")

    def _opened(self, change: int) -> None:
        self.open += change

    def _by_uuid(self, uuid: str) -> int:
        if uuid != "MIG-5":
            raise NvidiaError("not found")
        return 5

    def _memory(self, handle: int, version: int = 1) -> Any:
        if version == 2 and not self.second_form:
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


@pytest.fixture
def said() -> list[str]:
    """What the user was told."""
    return []


@pytest.fixture
def with_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have files of GPUs."""
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(devices, "_DEVICE_FILES", tmp_path)


@pytest.fixture
def without_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this machine have neither files of GPUs nor their tool."""
    (tmp_path / "nvidiactl").touch()
    monkeypatch.setattr(devices, "_DEVICE_FILES", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_memory_and_users_are_asked_of_the_library(library: Library, said: list[str]) -> None:
    """By device, without what the driver keeps for itself; the library is closed after each question."""
    memory = NvidiaMemory(say=said.append)

    assert memory.used_bytes() == {"0": 2, "1": 1002}
    assert memory.users() == (DeviceUser("0", 10, 5), DeviceUser("1", 11, None))
    assert (library.open, said) == (0, [])


@pytest.mark.parametrize("library", [{"second_form": False}], indirect=True)
def test_older_drivers_are_asked_in_their_way(library: Library, said: list[str]) -> None:
    """A driver that does not tell what it keeps for itself still tells what is used."""
    assert NvidiaMemory(say=said.append).used_bytes() == {"0": 1, "1": 1001}


@pytest.mark.parametrize(
    ("names", "used"),
    [
        (["1"], {"1": 1002}),
        (["GPU-1299", "0"], {"GPU-1299": 1002, "0": 2}),
        (["GPU-1234abcd-0"], {"GPU-1234abcd-0": 2}),
        (["MIG-5"], {"MIG-5": 5002}),
        ([], {}),
    ],
    ids=["number", "short-id", "id", "part", "none"],
)
def test_only_named_devices_are_looked_at(
    library: Library, said: list[str], names: list[str], used: dict[str, int]
) -> None:
    """By number or id, which may be cut short, as in CUDA_VISIBLE_DEVICES."""
    memory = NvidiaMemory(names, say=said.append)

    assert (memory.used_bytes(), memory.unknown_device()) == (used, None)


@pytest.mark.parametrize("name", ["7", "GPU-9", "GPU-12", "gpu0", "cuda:0", "", "MIG-6"])
def test_a_device_that_does_not_exist_is_told(library: Library, said: list[str], name: str, with_gpus: None) -> None:
    """CUDA would not complain of a wrong name, and nobody would know that nothing was checked."""
    memory = NvidiaMemory(["0", name], say=said.append)

    assert memory.unknown_device() == f"this machine has no device {name}, only 0, 1"
    assert (memory.used_bytes(), memory.users()) == (None, ())
    assert [line.rpartition(": ")[2] for line in said] == [f"this machine has no device {name}, only 0, 1"]


@pytest.mark.parametrize(
    "library", [{"failing": "Init"}, {"failing": "DeviceGetCount"}, {"failing": "DeviceGetMemoryInfo"}], indirect=True
)
def test_memory_that_cannot_be_read_is_told_once(library: Library, said: list[str], with_gpus: None) -> None:
    """A driver that answers nothing stops no run, but it is known that nothing was checked."""
    memory = NvidiaMemory(say=said.append)

    assert [memory.used_bytes(), memory.used_bytes(), memory.unknown_device()] == [None] * 3
    assert said == ["this machine has GPUs, but it cannot be checked whether their memory is free: GPU is lost"]
    assert library.open == 0


def test_gpus_without_the_extra_are_told_once(
    said: list[str], with_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts come from the tool of the driver then; memory is not checked, and the remedy is named."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    memory = NvidiaMemory(["0"], say=said.append)

    assert [memory.used_bytes(), memory.users(), memory.used_bytes()] == [None, (), None]
    assert said == [
        "this machine has GPUs, but it cannot be checked whether their memory is free: install the extra `nvidia`"
    ]


def test_the_tool_of_the_driver_is_a_sign_of_gpus(
    said: list[str], without_gpus: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some systems have no such files."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    tool = tmp_path / "nvidia-smi"
    tool.touch()
    tool.chmod(0o755)
    NvidiaMemory(say=said.append).used_bytes()

    assert len(said) == 1


def test_without_gpus_there_is_nothing_to_tell(
    said: list[str], without_gpus: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most machines have no such device, and do not install the extra."""
    monkeypatch.setitem(sys.modules, "pynvml", None)
    memory = NvidiaMemory(["0"], say=said.append)

    assert (memory.used_bytes(), memory.users(), memory.unknown_device(), said) == (None, (), None, [])


def test_a_job_without_devices_asks_nobody(said: list[str], with_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever hides all of them runs on CPU."""
    monkeypatch.setitem(sys.modules, "pynvml", None)

    assert (NvidiaMemory([], say=said.append).used_bytes(), said) == ({}, [])
