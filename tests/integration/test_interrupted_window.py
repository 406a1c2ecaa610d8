"""Case 134: runs that end while a window is being measured: nothing of its servers is left, and it is told what is."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from pytest_specgate.adapters.storage import load_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.conftest import GateFolder

_PATIENCE_S: Final = 60.0

# What the server forks goes into a session of its own, and is left to whoever adopts it.
_ENGINE: Final = """\
    import os, pathlib, subprocess, sys

    from pytest_specgate.testing.main import main

    WORK = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    with pathlib.Path("pids.txt").open("a") as file:
        print(os.getpid(), subprocess.Popen(WORK, stdout=subprocess.DEVNULL, start_new_session=True).pid, file=file)
    raise SystemExit(main())
    """

# A plugin of the user that ends runs, by what it likes: a time limit, say.
_ENDS_RUNS: Final = """
import signal

import pytest

signal.signal(signal.SIGUSR1, lambda *_: pytest.exit("out of time", 5))
"""

_WINDOW: Final = """\
    LONG = load(output_tokens=4, requests={1: 4, 2: 400})


    @gate(pair(arm("first"), arm("second", step_s=0.1, seed=1), profile=LONG), SPEED)
    def test_gate(): pass


    def test_never_runs(): pass
    """

_DIES: Final = """\
    LOAD = load(requests={1: 4})


    @gate(pair(arm("dies", die_after_requests=4), arm("second", seed=1), profile=LOAD), SPEED)
    def test_gate(): pass


    @gate(pair(arm("third", seed=2), arm("fourth", seed=3), profile=LOAD), SPEED)
    def test_never_runs(): pass
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


def _second_arm_is_loaded(folder: Path) -> bool:
    logs = folder.glob("*/*/*-second.log")
    return any(log.read_text(encoding="utf-8").count('"POST /v1/completions') >= 8 for log in logs)


def _ended_by(number: signal.Signals, gates: GateFolder) -> tuple[int, str]:
    """End a run by a signal while the second arm of its window is under load; return exit status and output."""
    with (gates.folder / "output.txt").open("wb") as stream:
        process = subprocess.Popen(
            gates.command(engine="python engine.py"),
            cwd=gates.folder,
            env=gates.environment(),
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _until(lambda: process.poll() is not None or _second_arm_is_loaded(gates.folder), "the load never began")
        process.send_signal(number)
        code = process.wait(_PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    return code, (gates.folder / "output.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("number", "exit_code"),
    [(signal.SIGINT, 2), (signal.SIGTERM, 2), (signal.SIGUSR1, 5)],
    ids=["interrupt", "terminate", "pytest.exit"],
)
def test_case_134_a_window_that_is_interrupted_leaves_no_server(
    gate_folder: GateFolder, number: signal.Signals, exit_code: int
) -> None:
    """Server and fork end with the run, no other test runs, and the record of what was measured is there."""
    gate_folder.write("engine.py", _ENGINE)
    gate_folder.write("test_long.py", _WINDOW)
    patient = (gate_folder.folder / "conftest.py").read_text(encoding="utf-8")
    gate_folder.write("conftest.py", patient + _ENDS_RUNS)
    code, output = _ended_by(number, gate_folder)
    pids = _pids(gate_folder)
    [path] = gate_folder.folder.glob("specgate-results/*/record.json")
    record = load_record(path)

    assert (code, len(pids)) == (exit_code, 4), output
    assert not any(map(_lives, pids))
    assert gate_folder.end_servers() == ()
    assert "test_never_runs PASSED" not in output
    assert ([boot.arm for boot in record.boots], record.finished) == (["first"], False)


def test_case_134_a_first_failure_that_is_one_too_many_leaves_no_server(gate_folder: GateFolder) -> None:
    """`--maxfail=1`: a server that dies in the middle of its window ends the run; what it had forked ends with it."""
    gate_folder.write("engine.py", _ENGINE)
    gate_folder.write("test_dies.py", _DIES)
    run = gate_folder.run("--maxfail=1", engine="python engine.py")
    pids = _pids(gate_folder)

    assert (run.exit_code, run.counts) == (1, {"failed": 1}), run.output
    assert [boot.failure.reason for boot in run.record.boots if boot.failure] == ["server-died"]
    assert not any(map(_lives, pids))
    assert run.survivors == ()
