"""Runs that are killed in the middle of a load: nothing of their servers is left."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Final

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.conftest import GateFolder

_PATIENCE_S: Final = 60.0

# What the server forks goes into a session of its own, and is left to whoever adopts it. OWN_FORKS: how deaf it is.
_ENGINE: Final = """\
    import os, pathlib, subprocess, sys

    from pytest_specgate.testing.main import main

    WORK = f"import signal, time; {os.environ.get('OWN_FORKS')}; time.sleep(600)"
    FORKS = (
        "import subprocess, sys; core = [sys.executable, '-S', '-c', sys.argv[1]]; "
        "print(subprocess.Popen(core, stdout=subprocess.DEVNULL, start_new_session=True).pid)"
    )
    pids = [str(os.getpid())]
    if "OWN_FORKS" in os.environ:
        command = [sys.executable, "-S", "-c", FORKS, WORK]
        pids.append(subprocess.run(command, stdout=subprocess.PIPE, text=True, start_new_session=True).stdout.strip())
    with pathlib.Path("pids.txt").open("a") as file:
        print(*pids, file=file)
    raise SystemExit(main())
    """

_DEAF: Final = "[signal.signal(number, signal.SIG_IGN) for number in (2, 15)]"

_LONG_LOAD: Final = """\
    LONG = load(output_tokens=4, requests={{1: 400}})
    FORKS, DEAF = {{"OWN_FORKS": {fork!r}}}, {{"step_s": 0.1, "ignore_sigint": {deaf}, "ignore_sigterm": {deaf}}}


    @gate(pair(arm("endless", env=FORKS, **DEAF), arm("other", env=FORKS, **DEAF, seed=1), profile=LONG), SPEED)
    def test_gate(): pass
    """

_KILLED_SERVER: Final = """\
    import os, signal

    from pytest_specgate.core.errors import ServerDiedError

    def test_killed(vllm_server):
        server = vllm_server(arm("one", env={"OWN_FORKS": "0"}))
        assert len(server.process_ids()) == 2
        os.kill(server.child.pid, signal.SIGKILL)
        with pytest.raises(ServerDiedError, match="exit code -9"):
            server.ensure_alive(wait_s=30)
        assert len(server.process_ids()) == 1


    def test_next(vllm_server):
        assert len(vllm_server(arm("two", seed=1)).process_ids()) == 1
    """


def _pids(gates: GateFolder) -> list[int]:
    """Return the processes of all servers that were started: of each the API server, and what it has forked."""
    return [int(pid) for pid in (gates.folder / "pids.txt").read_text(encoding="utf-8").split()]


def _lives(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def _until(reached: Callable[[], bool], what: str) -> None:
    give_up_s = time.monotonic() + _PATIENCE_S
    while not reached():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.02)


@pytest.fixture(params=["obedient", "deaf"])
def under_load(request: pytest.FixtureRequest, gate_folder: GateFolder) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose first server answers a long load; what it has forked is as deaf as it is."""
    deaf = request.param == "deaf"
    gate_folder.write("engine.py", _ENGINE)
    gate_folder.write("test_long.py", _LONG_LOAD.format(deaf=deaf, fork=_DEAF if deaf else "0"))

    def loaded() -> bool:
        logs = gate_folder.folder.glob("*/*/*-endless.log")
        return any(log.read_text(encoding="utf-8").count('"POST /v1/completions') >= 3 for log in logs)

    with (gate_folder.folder / "output.txt").open("wb") as stream:
        process = subprocess.Popen(
            gate_folder.command(engine="python engine.py"),
            cwd=gate_folder.folder,
            env=gate_folder.environment({"SPECGATE_STATE_DIR": str(gate_folder.folder / "state")}),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _until(loaded, "the load never began")
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_killed_run_leaves_nothing(under_load: subprocess.Popen[bytes], gate_folder: GateFolder) -> None:
    """SIGKILL of pytest during a load: server and fork end, however deaf, and wherever the fork has gone."""
    pids = _pids(gate_folder)
    assert len(pids) == 2
    assert all(map(_lives, pids))
    under_load.kill()
    under_load.wait(_PATIENCE_S)

    _until(lambda: not any(map(_lives, pids)), f"of {pids} some live on")
    assert gate_folder.end_servers() == ()


@pytest.mark.parametrize("under_load", ["obedient"], indirect=True)
def test_an_interrupted_run_leaves_no_fork(under_load: subprocess.Popen[bytes], gate_folder: GateFolder) -> None:
    """Two interrupts one after the other: the run ends, and what the server has forked does, too."""
    pids = _pids(gate_folder)
    under_load.send_signal(signal.SIGINT)
    under_load.send_signal(signal.SIGINT)
    code = under_load.wait(_PATIENCE_S)

    _until(lambda: not any(map(_lives, pids)), f"of {pids} some live on")
    assert code != 0
    assert gate_folder.end_servers() == ()


def test_a_killed_server_leaves_no_engine(gate_folder: GateFolder) -> None:
    """As captured of a real one: the API server is killed, and what it has forked lives on until the next start."""
    gate_folder.write("engine.py", _ENGINE)
    gate_folder.write("test_killed.py", _KILLED_SERVER)
    run = gate_folder.run(engine="python engine.py")

    assert (run.exit_code, run.counts) == (0, {"passed": 2})
    assert not any(map(_lives, _pids(gate_folder)))


@pytest.mark.parametrize("arguments", [(), ("--maxfail=1",)], ids=["exit", "maxfail"])
def test_case_134_a_run_that_ends_early_leaves_no_fork(gate_folder: GateFolder, arguments: tuple[str, ...]) -> None:
    """Case 134: `pytest.exit` in a test, or a first failure that is one too many, ends server and fork."""
    ends = "assert False" if arguments else 'pytest.exit("enough", 3)'
    gate_folder.write("engine.py", _ENGINE)
    gate_folder.write(
        "test_early.py",
        f"""\
    def test_ends_the_run(vllm_server):
        assert len(vllm_server(arm("one", env={{"OWN_FORKS": "0"}})).process_ids()) == 2
        {ends}


    def test_never_runs(): pass
    """,
    )
    run = gate_folder.run(*arguments, engine="python engine.py")

    assert run.exit_code == (1 if arguments else 3)
    assert not any(map(_lives, _pids(gate_folder)))


_IMMORTAL: Final = """\
    import contextlib, os, signal

    import psutil

    from pytest_specgate.adapters.listeners import answers

    SPEEDS = (SPEED, not_worse("request_throughput", at=1, margin="90%", noise=FLOOR))
    SEND, PIDS, PORTS = psutil.Process.send_signal, [], []


    # Not by its arguments: the tests that ask for a server would be put together here.
    def test_cannot_be_ended(request):
        server = request.getfixturevalue("vllm_server")(arm("deaf", ignore_sigterm=True, ignore_sigint=True))
        PIDS.append(server.pid)
        PORTS.append(int(server.url.rpartition(":")[2]))
        # As a process that hangs in the kernel: no signal reaches it.
        os.kill(server.child.supervisor_pid, signal.SIGSTOP)
        psutil.Process.send_signal = lambda *_: None


    {first}


    def test_server(vllm_server): vllm_server(arm("two", seed=2))
    def test_again(vllm_server): vllm_server(arm("two", seed=2))


    @gate(pair(arm("a", seed=3), arm("b", seed=4), profile=load(requests={{1: 3}})), *SPEEDS)
    def test_gate(): pass


    def test_ends():
        psutil.Process.send_signal = SEND
        os.kill(PIDS[0], signal.SIGKILL)
        with contextlib.suppress(psutil.NoSuchProcess):
            while psutil.Process(PIDS[0]).status() != psutil.STATUS_ZOMBIE:
                pass
        # The kernel may close the sockets of its last thread a little later.
        while answers(PORTS[0]):
            pass


    def test_afterwards(request):
        assert request.getfixturevalue("vllm_server")(arm("two", seed=2)).process_ids()
    """

_GATE_FIRST: Final = """@gate(pair(arm("c", seed=5), arm("d", seed=6)), *SPEEDS)
    def test_first(): pass
    """


@pytest.mark.parametrize("first", ["", _GATE_FIRST], ids=["fixture", "gate"])
def test_nothing_is_booted_beside_a_server_that_cannot_be_ended(gate_folder: GateFolder, first: str) -> None:
    """Neither the fixture nor a window starts anything while it lives, and each test has the same reason."""
    gate_folder.write("test_immortal.py", _IMMORTAL.format(first=first))
    run = gate_folder.run("--specgate-stop-limit=0.4", engine=gate_folder.recorded_engine())
    refused = [case for name, case in run.cases.items() if name.startswith(("test_first", "test_server", "test_again"))]
    gated = [case for name, case in run.cases.items() if name.startswith("test_gate")]
    reasons = {str(case.failure).partition("\n")[0].removeprefix("Failed: ") for case in refused}

    assert run.exit_code == 1, run.output
    assert [word for word, _ in run.lifetimes].count("began") == 2
    assert len(refused) == (4 if first else 2)
    assert len(reasons) == 1
    assert "of the server could not be ended, so nothing is started while they live" in reasons.pop()
    assert len(gated) == 2
    assert all("INVALID (server-not-stopped): arm a: processes " in str(case.failure) for case in gated)
    assert run.cases["test_afterwards"].failure is None
