"""What a session checks of its devices: before servers start, after they have ended, and with what it was told."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.adapters.devices import DeviceUser
from pytest_specgate.adapters.locks import MachineLock
from pytest_specgate.adapters.processes import DEFAULT_LIMITS, StopLimits
from pytest_specgate.adapters.running import RunningServer
from pytest_specgate.adapters.server import VllmEngine
from pytest_specgate.core.arms import Arm
from pytest_specgate.core.errors import ServerError, ServerStartError, UsageError
from pytest_specgate.options import GateOptions
from pytest_specgate.wiring import LocalWiring

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.adapters.conftest import MakeEngine

    MakeWiring = Callable[..., LocalWiring]

STUB = Path(__file__).parent / "stubs" / "serves.py"
GIB = 2**30
TINY = Arm("off", model="tiny")


class Memory:
    """Port `DeviceMemory`: a device that this process uses; a test says what comes after the server."""

    def __init__(self, used: int) -> None:
        self.used = used
        self.after: list[int] = []

    def used_bytes(self) -> dict[str, int]:
        """Return what is used."""
        if self.after:
            self.used = self.after.pop(0)
        return {"0": self.used}

    def users(self) -> tuple[DeviceUser, ...]:
        """Return this process, which has all of it."""
        return (DeviceUser("0", os.getpid(), self.used),)


def engine_with(make_engine: MakeEngine, memory: Memory, *, memory_s: float) -> VllmEngine:
    """Return an engine of a stub that waits so long for memory to come back."""
    options = make_engine(STUB.read_text(encoding="utf-8"))._options
    limits = StopLimits(interrupt_s=1, terminate_s=1, follow_s=0.1, port_s=5, memory_s=memory_s)
    return VllmEngine(dataclasses.replace(options, limits=limits, memory=memory))


def test_what_was_used_before_the_start_may_be_used_after_it(make_engine: MakeEngine) -> None:
    """More than comes and goes by itself, so that it counts that it was there before."""
    memory = Memory(8 * GIB)
    engine = engine_with(make_engine, memory, memory_s=0)
    with engine.start(TINY):
        memory.after = [70 * GIB, 9 * GIB]
        memory.used_bytes()

    assert memory.used == 9 * GIB
    with pytest.raises(ServerError, match=r"^2\.0 GiB of device 0 still in use 0 s "), engine.start(TINY):
        memory.used = 11 * GIB


def test_memory_that_comes_back_slowly_is_waited_for(make_engine: MakeEngine) -> None:
    """Drivers give it back some time after the last process is gone."""
    memory = Memory(0)
    with engine_with(make_engine, memory, memory_s=20).start(TINY):
        memory.after = [70 * GIB, 70 * GIB, 30 * GIB, 0]

    assert memory.after == []


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """NVIDIA's library on a machine with two GPUs; somebody else uses the second one."""
    library = types.ModuleType("pynvml")
    functions: dict[str, Any] = {
        "Init": lambda: None,
        "Shutdown": lambda: None,
        "DeviceGetCount": lambda: 2,
        "DeviceGetHandleByIndex": lambda index: index,
        "DeviceGetUUID": ["GPU-1234abcd", "GPU-5678abcd"].__getitem__,
        "DeviceGetMemoryInfo": lambda handle: types.SimpleNamespace(used=handle * 70 * GIB),
        "DeviceGetComputeRunningProcesses": lambda _: [],
    }
    vars(library).update({f"nvml{name}": value for name, value in functions.items()}, NVMLError=KeyError)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    return library


@pytest.fixture
def wiring(tmp_path: Path) -> Iterator[MakeWiring]:
    """A function that wires a session with options to a stub; what it has started is stopped at the end."""
    with contextlib.ExitStack() as stack:

        def make(environment: dict[str, str] | None = None, **options: Any) -> LocalWiring:
            found = GateOptions(
                engine_python=Path(sys.executable),
                engine_command=("python", "-S", str(STUB)),
                results=tmp_path / "results",
                rounds=None,
                **{"start_limit_s": 20.0, "lock_wait_s": 0.1, **options},
            )
            inherited = {"PATH": os.environ["PATH"], "SPECGATE_STATE_DIR": str(tmp_path / "state")}
            wiring = LocalWiring(
                found, root=tmp_path, say=lambda _: None, environment={**inherited, **(environment or {})}
            )
            stack.callback(wiring.stop_server)
            return wiring

        yield make


def test_a_session_locks_what_it_uses_and_notes_what_it_starts(wiring: MakeWiring, tmp_path: Path) -> None:
    """Another job that wants the same device waits, one that wants another does not; a killed run can be cleaned up."""
    wiring(devices="0").server(TINY)
    state = tmp_path / "state"
    same, other = (MachineLock(name, folder=state / "locks", wait_s=0, say=print) for name in ("0", "1"))

    assert len(list((state / "servers").glob("*.json"))) == 1
    with pytest.raises(ServerStartError, match="device 0 of this machine was in use"), same:
        pass
    with other:
        pass


def test_a_session_gives_its_servers_the_time_to_stop_that_it_was_told(wiring: MakeWiring) -> None:
    """Large models need longer than the default."""
    server = wiring(stop_limit_s=7).server(TINY)

    assert isinstance(server, RunningServer)
    assert server.child._limits == DEFAULT_LIMITS.scaled(7)


@pytest.mark.usefixtures("library")
def test_a_session_looks_at_its_own_devices_only(wiring: MakeWiring) -> None:
    """The one that somebody else uses is another job's; a job that has the machine cannot be measured beside it."""
    busy = r"^70\.0 GiB of device 1 in use before the start"
    for options in ({"devices": "0"}, {"environment": {"CUDA_VISIBLE_DEVICES": "0"}}):
        session = wiring(**options)
        session.server(TINY)
        session.stop_server()
    for options in ({}, {"devices": "1"}, {"engine_env": {"CUDA_VISIBLE_DEVICES": "GPU-56"}}):
        with pytest.raises(ServerStartError, match=busy.replace("1", "(1|GPU-56)")):
            wiring(**options).server(TINY)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("devices", "env", "sentence"),
    [
        ("0,7", {}, "--specgate-devices=0,7: this machine has no device 7, only 0, 1"),
        ("gpu0", {}, "--specgate-devices has 'gpu0', which names no device: write 0 or GPU-1b2c, as CUDA does"),
        ("0", {"CUDA_VISIBLE_DEVICES": "1"}, "arm off sets CUDA_VISIBLE_DEVICES=1, and 1 is no device of this job (0)"),
    ],
)
def test_wrong_devices_are_told_before_anything_starts(
    wiring: MakeWiring, tmp_path: Path, devices: str, env: dict[str, str], sentence: str
) -> None:
    """Nothing is booted on a device that nobody has locked."""
    with pytest.raises(UsageError) as caught:
        wiring(devices=devices).server(Arm("off", model="tiny", env=env))

    assert str(caught.value).startswith(sentence)
    assert list((tmp_path / "results").rglob("*.log")) == []


@pytest.mark.usefixtures("library")
def test_an_arm_that_runs_elsewhere_may_show_what_it_likes(wiring: MakeWiring) -> None:
    """Its devices are not of this machine: the attempt ends because nobody answers there."""
    arm = Arm("off", model="tiny", env={"CUDA_VISIBLE_DEVICES": "7"})
    session = wiring(devices="0", attach={"off": "http://127.0.0.1:9"}, start_limit_s=0.1)

    with pytest.raises(ServerStartError, match="the attached server at"):
        session.server(arm)
