"""Process trees of ours: what they print, and that all of them, and nothing else, is ended."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_specgate.adapters import processes
from pytest_specgate.adapters.processes import Child, StopLimits, wait_gone, wait_until
from pytest_specgate.core.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Protocol

    class Start(Protocol):
        """Starts a child that runs a script."""

        def __call__(
            self,
            script: str,
            *arguments: object,
            environment: Mapping[str, str] = ...,
            secrets: Sequence[str] = ...,
            limits: StopLimits = ...,
        ) -> Child:
            """Return the child once its script says that it is ready."""


PATIENCE_S = 20.0
IMPATIENT = StopLimits(interrupt_s=0.1, terminate_s=0.1, follow_s=0.1)
"""Short limits for children that do not want to leave; what is killed may take its time."""
PRELUDE = """
import os, signal, subprocess, sys, time
def ready():
    print("ready", flush=True)
def deaf():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
def offspring(script, **options):
    return subprocess.Popen([sys.executable, "-S", "-c", script, *sys.argv[1:]], **options)
"""
DEAF = PRELUDE + "deaf(); ready(); time.sleep(600)"
LOCKS = f"""{PRELUDE}
import fcntl
deaf()
held = open(sys.argv[1], "w")
fcntl.flock(held, fcntl.LOCK_EX)
print(os.getpid(), file=held, flush=True)
ready()
time.sleep(600)
"""
"""A grandchild that ignores polite signals, holds a lock, and writes its id into the locked file."""


def until_ready(child: Child) -> None:
    """Wait until the script of a child has said that it is ready, or has left."""
    deadline_s = time.monotonic() + PATIENCE_S
    while "ready" not in child.log_tail() and child.exit_code() is None:
        assert wait_until(deadline_s, pause_s=0.01), "the script never became ready"


def until_left(child: Child) -> int:
    """Wait until a child has left by itself, and return its exit code."""
    code = child.wait(PATIENCE_S)
    assert code is not None, "the script never left"
    return code


def lives(pid: int) -> bool:
    """Whether a process runs: one that waits for its parent to ask does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts children; what a test leaves of them is ended."""
    children: list[Child] = []

    def start_one(
        script: str,
        *arguments: object,
        environment: Mapping[str, str] = os.environ,
        secrets: Sequence[str] = (),
        limits: StopLimits = IMPATIENT,
    ) -> Child:
        command = [sys.executable, "-S", "-c", script, *map(str, arguments)]
        log = tmp_path / "logs" / f"{len(children)}.log"
        child = Child(command, environment=environment, log=log, secrets=secrets, limits=limits)
        children.append(child)
        until_ready(child)
        return child

    yield start_one
    for child in children:
        child.stop()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else, with the same command and the same parent."""
    command = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, start_new_session=True) as process:
        yield process
        process.kill()


def test_a_child_has_the_environment_it_is_given_and_no_other(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 73: the environment reaches the child unchanged, and nothing of this process slips in."""
    monkeypatch.setenv("OF_THE_PARENT", "1")
    script = "import os; print(sorted((k, v) for k, v in os.environ.items() if k != 'LC_CTYPE'))"
    child = start(script, environment={"HF_HUB_OFFLINE": "1", "VLLM_X": "a b"})
    until_left(child)

    assert child.log_tail() == "[('HF_HUB_OFFLINE', '1'), ('VLLM_X', 'a b')]"


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[None]:
    """Something to read on this process's own input, as if it were typed."""
    (tmp_path / "typed").write_text("typed")
    before = os.dup(0)
    with (tmp_path / "typed").open() as file:
        os.dup2(file.fileno(), 0)
    yield
    os.dup2(before, 0)
    os.close(before)


def test_a_child_prints_to_its_log_and_reads_nothing(start: Start, typed: None) -> None:
    """Both streams of output end in the file, in order; input is empty, so that no child waits for a terminal."""
    child = start("import sys; print('out', flush=True); print('err', file=sys.stderr); print(repr(sys.stdin.read()))")
    until_left(child)

    assert child.log.read_text() == "out\nerr\n''\n"


def test_a_child_leads_a_session_of_its_own(start: Start) -> None:
    """An interrupt typed at the terminal reaches pytest, not the server: pytest ends it in its own time."""
    child = start(DEAF)

    assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid != os.getsid(0)


@pytest.mark.parametrize(("script", "code"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)])
def test_the_exit_code_is_told(start: Start, script: str, code: int) -> None:
    """A code of its own, or the negative number of the signal that ended it."""
    assert until_left(start(script)) == code


def test_a_living_child_has_no_exit_code(start: Start) -> None:
    """No code while it runs."""
    assert start(DEAF).exit_code() is None


@pytest.mark.parametrize(("deaf_to", "obeyed"), [((), "SIGINT"), (("SIGINT",), "SIGTERM")])
def test_children_are_asked_before_they_are_killed(start: Start, deaf_to: tuple[str, ...], obeyed: str) -> None:
    """An interrupt comes first, as for a server in a terminal; a child that ignores it is asked to terminate."""
    script = f"""{PRELUDE}
def leave(number, frame):
    print("left on", signal.Signals(number).name, flush=True)
    sys.exit(0)
for name in ("SIGINT", "SIGTERM"):
    signal.signal(getattr(signal, name), signal.SIG_IGN if name in {deaf_to!r} else leave)
ready()
time.sleep(600)
"""
    child = start(script, limits=StopLimits(interrupt_s=0.1 if deaf_to else PATIENCE_S, terminate_s=PATIENCE_S))
    child.stop()

    assert child.exit_code() == 0
    assert child.log_tail().splitlines()[-1] == f"left on {obeyed}"


def test_case_66_a_deaf_child_and_its_deaf_child_are_gone(
    start: Start, bystander: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """Case 66: what ignores every polite signal is killed, with its offspring and its locks; bystanders live on."""
    child = start(f"{PRELUDE}\ndeaf()\noffspring({LOCKS!r})\ntime.sleep(600)", tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    assert child.processes() == {child.pid, grandchild}
    child.stop()

    assert child.exit_code() == -signal.SIGKILL
    assert not lives(child.pid)
    assert not lives(grandchild)
    assert child.processes() == frozenset()
    assert bystander.poll() is None
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_case_66_offspring_whose_parent_obeys_is_gone_too(start: Start, tmp_path: Path) -> None:
    """Case 66: the parent leaves on the first signal, and the child it leaves behind is ended."""
    child = start(f"{PRELUDE}\noffspring({LOCKS!r})\ntime.sleep(600)", tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    child.stop()

    assert not lives(grandchild)


def test_case_66_offspring_of_a_killed_parent_is_found(start: Start, tmp_path: Path) -> None:
    """An engine that outlives its killed API server is nobody's child any more, and is still found and ended."""
    child = start(f"{PRELUDE}\noffspring({LOCKS!r})\ntime.sleep(600)", tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    os.kill(child.pid, signal.SIGKILL)
    assert until_left(child) == -signal.SIGKILL
    assert lives(grandchild)
    assert child.processes() == {grandchild}
    child.stop()

    assert not lives(grandchild)


def test_case_66_offspring_that_hides_in_a_session_of_its_own_is_found(start: Start, tmp_path: Path) -> None:
    """Case 66: twice in a new session, its parent gone, deaf, never seen before: it is ended all the same."""
    between = f"{PRELUDE}\noffspring({LOCKS!r}, start_new_session=True)"
    script = f"{PRELUDE}\noffspring({between!r}, start_new_session=True).wait()\ntime.sleep(600)"
    child = start(script, tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    assert os.getsid(grandchild) == grandchild
    child.stop()

    assert not lives(grandchild)


def test_what_a_child_left_behind_is_asked_before_it_is_killed(start: Start, tmp_path: Path) -> None:
    """An orphan gets a chance to clear away what it holds, before it is killed."""
    orphan = f"""{PRELUDE}
def leave(number, frame):
    print("left on", signal.Signals(number).name, flush=True)
    sys.exit(0)
signal.signal(signal.SIGINT, leave)
ready()
time.sleep(600)
"""
    child = start(f"{PRELUDE}\noffspring({orphan!r})\ntime.sleep(600)", limits=StopLimits(follow_s=1))
    os.kill(child.pid, signal.SIGKILL)
    until_left(child)
    child.stop()

    assert child.log_tail().splitlines()[-1] == "left on SIGINT"


def test_a_tree_whose_supervising_process_was_killed_is_still_ended(start: Start, tmp_path: Path) -> None:
    """Without it nobody adopts: its child counts as left, and what was seen, or is in its session, is ended here."""
    child = start(f"{PRELUDE}\ndeaf()\noffspring({LOCKS!r})\ntime.sleep(600)", tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    os.kill(child.supervisor_pid, signal.SIGKILL)
    assert child.wait(PATIENCE_S) == -signal.SIGKILL
    assert child.processes() == {child.pid, grandchild}
    child.stop()

    assert not lives(child.pid)
    assert not lives(grandchild)


def test_a_child_whose_supervising_process_was_killed_is_asked_to_leave(start: Start) -> None:
    """Nobody may be left to stop it: the system itself sends SIGTERM in that case."""
    child = start(PRELUDE + "ready(); time.sleep(600)")
    os.kill(child.supervisor_pid, signal.SIGKILL)

    assert child.wait(PATIENCE_S) == -signal.SIGKILL
    wait_gone(child._own, PATIENCE_S)
    assert not lives(child.pid)
    assert child.left() == "the process that supervises its server left with exit code -9, so the server is ended"


def test_a_child_that_is_forgotten_is_ended(start: Start, tmp_path: Path) -> None:
    """Nobody stops it, and nothing refers to it any more: its tree does not live on."""
    script = f"{PRELUDE}\ndeaf()\noffspring({LOCKS!r})\ntime.sleep(600)"
    command = [sys.executable, "-S", "-c", script, str(tmp_path / "lock")]
    child = Child(command, environment=os.environ, log=tmp_path / "log", limits=StopLimits(abandoned_s=0.1))
    until_ready(child)
    process, pids = child._process, child.processes()
    del child
    gc.collect()
    process.wait(PATIENCE_S)

    assert len(pids) == 2
    assert not any(map(lives, pids))


def test_a_process_that_left_by_itself_leaves_no_supervising_process(start: Start) -> None:
    """When nothing is left to supervise, that process leaves, too."""
    child = start("print('bye')")
    until_left(child)

    assert child._process.wait(PATIENCE_S) == 0


def test_a_command_that_cannot_be_run_leaves_no_supervising_process(tmp_path: Path) -> None:
    """The error is the system's own, as if the command had been run from here."""
    with pytest.raises(FileNotFoundError, match="'/no/such/program'"):
        Child(["/no/such/program"], environment={}, log=tmp_path / "log")
    with pytest.raises(OSError, match="embedded null byte"):
        Child([sys.executable, "a\0b"], environment={}, log=tmp_path / "log")

    assert psutil.Process().children(recursive=True) == []


def test_signals_that_are_ignored_here_are_not_ignored_there(start: Start) -> None:
    """Under ``nohup``, or in the background of a script, a server can still be asked to leave."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = start("import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)")
        until_left(child)
    finally:
        signal.signal(signal.SIGINT, before)

    assert child.log_tail() == "True"


def test_where_orphans_are_not_adopted_the_session_tells_of_them(start: Start, tmp_path: Path) -> None:
    """Without the help of the system, who is in the child's session is found as long as one of ours is in it."""
    child = start(f"{PRELUDE}\noffspring({LOCKS!r})\ntime.sleep(600)", tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    assert child.adopts
    child._line.facts["adopts"] = False
    child._watcher = psutil.Process()

    assert {child.pid, grandchild} <= child.processes()


def test_an_impatient_user_leaves_nothing_behind(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second interrupt, while the child is asked to leave, passes through after all of the tree was killed."""
    limits = StopLimits(interrupt_s=600, terminate_s=600, follow_s=600)
    child = start(f"{PRELUDE}\ndeaf()\noffspring({LOCKS!r})\ntime.sleep(600)", tmp_path / "lock", limits=limits)
    grandchild = int((tmp_path / "lock").read_text())
    hear_out = processes._Line.hear_out

    def interrupted(line: processes._Line, limit_s: float) -> None:
        if limit_s == limits.asking_s:
            raise KeyboardInterrupt
        hear_out(line, limit_s)

    monkeypatch.setattr(processes._Line, "hear_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        child.stop()

    assert child.exit_code() == -signal.SIGKILL
    assert not lives(grandchild)


def test_case_125_what_cannot_be_ended_is_named(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that survives even the last signal is an error with its id, not a silent leak."""
    child = start(DEAF, limits=StopLimits(0.1, 0.1, 0.1, 0.1))
    # Neither the supervising process nor this one can signal.
    os.kill(child.supervisor_pid, signal.SIGSTOP)
    with monkeypatch.context() as broken:
        broken.setattr(psutil.Process, "send_signal", lambda *_: None)
        with pytest.raises(ServerError) as caught:
            child.stop()

    assert str(caught.value) == (
        f"processes {child.pid} of the server could not be ended, so nothing is started while they live"
    )
    assert caught.value.log_tail == "ready"


def test_limits_grow_together() -> None:
    """Who gives a server three times as long after SIGINT gives three times as long to all that follows."""
    limits = StopLimits().scaled(60)
    steps = (limits.interrupt_s, limits.terminate_s, limits.follow_s, limits.kill_s, limits.port_s, limits.memory_s)

    assert steps == (60, 30, 6, 30, 30, 180)
    assert limits.abandoned_s == StopLimits().abandoned_s


def test_waiting_ends_at_the_deadline() -> None:
    """There is time left before the deadline, and none after it."""
    assert wait_until(time.monotonic() + PATIENCE_S, pause_s=0)
    assert not wait_until(time.monotonic() - 1, pause_s=0)
