"""The end of servers: nothing of them is left, and the machine is as it was, or it is said what is not."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specgate.adapters import server as adapter
from pytest_specgate.adapters.devices import DeviceUser
from pytest_specgate.adapters.leftovers import Leftovers
from pytest_specgate.adapters.locks import MachineLock
from pytest_specgate.adapters.processes import Child, StopLimits
from pytest_specgate.adapters.server import VllmEngine
from pytest_specgate.adapters.state import ServerNotes
from pytest_specgate.core.arms import Arm
from pytest_specgate.core.errors import ServerDiedError, ServerError, ServerStartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.adapters.running import RunningServer
    from tests.adapters.conftest import MakeEngine, Stub

PATIENCE_S = 20.0
SERVES = (Path(__file__).parent / "stubs" / "serves.py").read_text(encoding="utf-8")
BRISK = StopLimits(interrupt_s=1, terminate_s=1, follow_s=0.1, port_s=0.2, memory_s=0)
GIB = 2**30
ENGINE_CORE = {"STUB_ENGINE_CORE": "1"}
"""The variable of an arm beside whose server another process works."""


def start_error(engine: VllmEngine, arm: Arm) -> ServerStartError:
    """Start an arm that cannot start, and return what is said about it."""
    with pytest.raises(ServerStartError) as caught, engine.start(arm):
        pass
    return caught.value


def tiny(name: str = "off", **fields: Any) -> Arm:
    """Return an arm of a model that no folder holds."""
    return Arm(name, **{"model": "tiny", **fields})


@pytest.fixture
def free_port(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """A function that says which port is taken for a free one."""
    return lambda port: monkeypatch.setattr(adapter, "_free_port", lambda: port)


@pytest.fixture
def said() -> list[str]:
    """What the user was told."""
    return []


@pytest.fixture
def with_options(make_engine: MakeEngine, said: list[str]) -> MakeEngine:
    """A function that makes an engine of a program with further options; it stops its servers briskly."""

    def make(source: str, **options: Any) -> VllmEngine:
        engine = make_engine(source)
        changed = dataclasses.replace(engine._options, **{"limits": BRISK, "say": said.append, **options})
        return VllmEngine(changed)

    return make


def test_an_engine_that_outlives_its_killed_server_is_ended(with_options: MakeEngine) -> None:
    """As captured of a real one: the API server is killed, its engine core lives on; leaving the block ends it."""
    with with_options(SERVES).start(tiny(env=ENGINE_CORE)) as server:
        pids = server.process_ids()
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(ServerDiedError, match="exit code -9"):
            server.ensure_alive(wait_s=PATIENCE_S)
        orphans = server.process_ids()

    assert (len(pids), orphans) == (2, pids - {server.pid})
    assert server.process_ids() == frozenset()
    assert not any(map(psutil.pid_exists, pids))


def test_a_port_that_is_still_answered_is_told(
    with_options: MakeEngine, stub: Stub, free_port: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something outside the server's tree holds its port after the end: nobody boots beside it."""
    stub.on("/v1/models", stub.json({"data": [{"id": "tiny"}]}))
    stub.on("/v1/completions", stub.json({}))
    free_port(stub.server_address[1])
    monkeypatch.setattr(adapter, "_refuse_stranger", lambda *_: None)
    with pytest.raises(ServerError) as caught, with_options("import time; time.sleep(600)").start(tiny()):
        pass

    port = stub.server_address[1]
    assert str(caught.value) == (
        f"port {port} was not free 0.2 s after the server was ended, by process {os.getpid()} (raise "
        "--specgate-stop-limit if it needs longer)"
    )
    assert type(caught.value) is ServerError


def test_a_port_that_is_answered_hides_no_cause(
    with_options: MakeEngine, stub: Stub, free_port: Callable[[int], None], said: list[str]
) -> None:
    """What failed first is raised; what is still wrong afterwards is told beside it."""
    free_port(stub.server_address[1])
    error = start_error(with_options("raise SystemExit(3)"), tiny())

    assert error.exit_code == 3
    assert [line.partition(" after ")[0] for line in said] == [f"port {stub.server_address[1]} was not free 0.2 s"]


def test_a_port_with_a_leftover_is_not_used(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers there already would be taken for our server."""
    monkeypatch.setattr(adapter, "answers", lambda _: True)
    monkeypatch.setattr(adapter, "holder_of", lambda _: "process 12")
    error = start_error(make_engine(SERVES), tiny())

    assert re.fullmatch(r"port \d+ is in use already, by process 12", str(error))


class Memory:
    """Port `DeviceMemory`: a device whose memory a test fills."""

    def __init__(self) -> None:
        self.used = 0

    def used_bytes(self) -> dict[str, int]:
        """Return what is used."""
        return {"0": self.used}

    def users(self) -> tuple[DeviceUser, ...]:
        """Return a process that is not ours."""
        return (DeviceUser("0", 1, self.used),)


def test_a_device_in_use_is_refused_before_the_start(with_options: MakeEngine, tmp_path: Path) -> None:
    """Nothing is started beside somebody else's work."""
    memory = Memory()
    memory.used = 8 * GIB
    error = start_error(with_options(SERVES, memory=memory), tiny())

    assert str(error) == "8.0 GiB of device 0 in use before the start, by process 1: measuring needs it free"
    assert not (tmp_path / "logs").exists()


def test_memory_that_does_not_come_back_is_an_error_of_the_stop(with_options: MakeEngine) -> None:
    """The next arm would have less of the device than this one had."""
    memory = Memory()
    with pytest.raises(ServerError) as caught, with_options(SERVES, memory=memory).start(tiny()) as server:
        memory.used = 8 * GIB

    assert str(caught.value).startswith(
        "8.0 GiB of device 0 still in use 0 s after the server was ended, by process 1 "
    )
    assert type(caught.value) is ServerError
    assert not psutil.pid_exists(server.pid)


def test_memory_that_comes_back_is_no_error(with_options: MakeEngine) -> None:
    """What was used before the start may be used after it, and a driver may take its time to give the rest back."""
    memory = Memory()
    memory.used = GIB
    later = threading.Timer(0.3, lambda: setattr(memory, "used", 3 * GIB // 2))
    with with_options(SERVES, memory=memory, limits=dataclasses.replace(BRISK, memory_s=PATIENCE_S)).start(tiny()):
        memory.used = 8 * GIB
        later.start()
    later.join()

    assert memory.used == 3 * GIB // 2


def test_a_server_is_noted_while_it_runs(with_options: MakeEngine, tmp_path: Path, said: list[str]) -> None:
    """All its processes, its supervising process, and its command without secrets are in a file, which then goes."""
    notes = ServerNotes(tmp_path / "servers", say=said.append)
    arm = tiny(args={"api_key": "open-sesame"}, env=ENGINE_CORE)
    with with_options(SERVES, notes=notes).start(arm) as server:
        (path,) = (tmp_path / "servers").iterdir()
        noted = json.loads(path.read_text())
        pids = server.process_ids()

    assert {mark["pid"] for mark in noted["processes"]} == pids
    assert (noted["supervisor"]["pid"], noted["owner"]["pid"]) == (server.child.supervisor_pid, os.getpid())
    assert noted["command"] == server.command
    assert "open-sesame" not in json.dumps(noted)
    assert (list((tmp_path / "servers").iterdir()), said) == ([], [])


def test_what_an_earlier_run_left_behind_is_ended_before_a_start(with_options: MakeEngine) -> None:
    """The notes are read before anything else is looked at."""
    done: list[str] = []

    class Notes:
        def reap(self) -> None:
            done.append("reaped")

    class BusyMemory(Memory):
        def used_bytes(self) -> dict[str, int]:
            done.append("asked for memory")
            return {"0": 8 * GIB}

    start_error(with_options(SERVES, notes=Notes(), memory=BusyMemory()), tiny())

    assert done[:2] == ["reaped", "asked for memory"]


def test_a_server_that_could_not_be_ended_stays_noted(
    with_options: MakeEngine, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run is to try again."""
    notes = ServerNotes(tmp_path / "servers", say=said.append)
    limits = dataclasses.replace(BRISK, interrupt_s=0, terminate_s=0, follow_s=0, kill_s=0)
    engine = with_options(SERVES, notes=notes, limits=limits)

    def hamper(server: RunningServer) -> None:
        os.kill(server.child.supervisor_pid, signal.SIGSTOP)
        monkeypatch.setattr(psutil.Process, "send_signal", lambda *_: None)

    with pytest.raises(ServerError, match="could not be ended"), engine.start(tiny(env=ENGINE_CORE)) as server:
        hamper(server)
    monkeypatch.undo()
    left = [path.name for path in (tmp_path / "servers").iterdir()]
    server.child.stop()

    assert len(left) == 1
    assert server.process_ids() == frozenset()


def test_nothing_is_started_beside_a_server_that_could_not_be_ended(
    with_options: MakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every further start of the session is refused with the reason of the first, until its processes are gone."""
    limits = dataclasses.replace(BRISK, interrupt_s=0, terminate_s=0, follow_s=0, kill_s=0)
    leftovers = Leftovers()
    first, second = (with_options(SERVES, leftovers=leftovers, limits=limits) for _ in range(2))

    def hamper(server: RunningServer) -> None:
        os.kill(server.child.supervisor_pid, signal.SIGSTOP)
        broken.setattr(psutil.Process, "send_signal", lambda *_: None)

    with monkeypatch.context() as broken:
        with pytest.raises(ServerError) as caught, first.start(tiny(env=ENGINE_CORE)) as server:
            hamper(server)
        logs = list((tmp_path / "logs").iterdir())
        for engine in (first, second):
            with pytest.raises(ServerError) as refused, engine.start(tiny("other")):
                pass

            assert (str(refused.value), type(refused.value)) == (str(caught.value), ServerError)
        assert list((tmp_path / "logs").iterdir()) == logs
    server.child.stop()
    with second.start(tiny("other")) as other:
        other.ensure_alive()


def test_a_second_server_waits_for_the_lock_of_the_first(with_options: MakeEngine, tmp_path: Path) -> None:
    """Two windows on one machine do not run at once; whoever holds the lock starts as many servers as it likes."""
    own, other = (MachineLock(None, folder=tmp_path / "locks", wait_s=0, say=print) for _ in range(2))
    with own, with_options(SERVES, lock=own).start(tiny()):
        error = start_error(with_options(SERVES, lock=other), tiny())
    with with_options(SERVES, lock=other).start(tiny()):
        pass

    assert str(error).startswith(f"this machine was in use for 0 s by pid {os.getpid()} since ")


def test_a_system_that_does_not_tell_of_orphans_is_told_once(
    with_options: MakeEngine, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user knows that a process may leak where nobody can adopt it."""
    monkeypatch.setattr(Child, "adopts", False)
    engine = with_options(SERVES)
    for _ in range(2):
        with engine.start(tiny()):
            pass

    assert said == [
        "this system does not tell of orphans: a process that leaves its server's session can leak",
    ]
