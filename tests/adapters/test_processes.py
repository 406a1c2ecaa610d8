"""Process trees of ours: what they print, and that nothing of them, and nothing else, is ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_specgate.adapters import processes
from pytest_specgate.adapters.processes import Child, wait_until
from pytest_specgate.core.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Protocol

    class Start(Protocol):
        """Starts a child that runs a script."""

        def __call__(
            self, script: str, *arguments: object, environment: Mapping[str, str] = ..., secrets: Sequence[str] = ...
        ) -> Child:
            """Return the child once its script says that it is ready."""


PATIENCE_S = 20.0
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
    deadline_s = time.monotonic() + PATIENCE_S
    while child.exit_code() is None:
        assert wait_until(deadline_s, pause_s=0.01), "the script never left"
    return child.exit_code() or 0


def lives(pid: int) -> bool:
    """Whether a process runs: one that waits for its parent to ask does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short limits for children that do not want to leave; what is killed may take its time."""
    for limit in ("_INTERRUPT_S", "_TERMINATE_S"):
        monkeypatch.setattr(processes, limit, 0.1)
    patient = psutil.wait_procs
    monkeypatch.setattr(psutil, "wait_procs", lambda procs, timeout: patient(procs, timeout if timeout > 2 else 0.2))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts children; what a test leaves of them is ended."""
    children: list[Child] = []

    def start_one(
        script: str, *arguments: object, environment: Mapping[str, str] = os.environ, secrets: Sequence[str] = ()
    ) -> Child:
        command = [sys.executable, "-S", "-c", script, *map(str, arguments)]
        log = tmp_path / "logs" / f"{len(children)}.log"
        child = Child(command, environment=environment, log=log, secrets=secrets)
        children.append(child)
        until_ready(child)
        return child

    yield start_one
    for child in children:
        for pid in child.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child._process.wait(PATIENCE_S)


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


def test_case_132_control_characters_do_not_get_into_the_tail(start: Start) -> None:
    """Colours, NUL, non-characters and broken UTF-8 are taken out; line ends of progress bars become lines."""
    data = b"\x1b[31mred\x1b[0m\x00 \xef\xbf\xbe\xed\xa0\x80 \x9b2J tab\tend\r\nhalf\rfull\n"
    child = start(f"import os; os.write(1, {data!r})")
    until_left(child)

    assert child.log_tail().splitlines() == ["red \ufffd\ufffd\ufffd \ufffd2J tab\tend", "half", "full"]


def test_secrets_do_not_get_into_the_tail(start: Start) -> None:
    """An access token that a server prints is replaced; the log on disk stays as it was written."""
    child = start("print('using hf_abcdefghijklmnopqrst from http://me:pass@proxy/')")
    until_left(child)

    assert child.log_tail() == "using [redacted] from http://[redacted]@proxy/"
    assert "hf_abcdefghijklmnopqrst" in child.log.read_text()


def test_secrets_that_are_named_do_not_get_into_the_tail(start: Start) -> None:
    """Texts without any telling form are cut out wherever they stand, a longer one before a shorter one within it."""
    child = start("print('key=open sesame, opened with sesame or open')", secrets=("open sesame", "sesame"))
    until_left(child)

    assert child.log_tail() == "key=[redacted], opened with [redacted] or open"
    assert "open sesame" in child.log.read_text()


def test_a_log_is_for_its_user_only(start: Start) -> None:
    """It holds what the server printed, secrets included."""
    assert start(DEAF).log.stat().st_mode & 0o777 == 0o600


def test_half_a_line_is_not_in_the_tail(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the look back begins in the middle of a line, its rest is left out: what names a secret may be missing."""
    monkeypatch.setattr(processes, "_TAIL_BYTES", 40)
    child = start("print('api_key=' + 'x' * 60); print('the cause')")
    until_left(child)

    assert child.log_tail() == "the cause"


def test_the_tail_is_the_end_of_a_long_log(start: Start) -> None:
    """Of megabytes, thirty lines come back, the last ones."""
    child = start("for i in range(40_000): print('line', i, 'x' * 50)")
    until_left(child)
    lines = child.log_tail().splitlines()

    assert len(lines) == 30
    assert lines[-1].startswith("line 39999 ")
    assert lines[0].startswith("line 39970 ")


def test_requests_that_went_well_do_not_push_the_cause_out_of_the_tail(start: Start) -> None:
    """Access lines of good answers are left out of the tail; those of bad ones, and all else, stay."""
    access = 'INFO: 127.0.0.1:5 - "POST /v1/completions HTTP/1.1"'
    lines = ["cause", *[f"{access} 200 OK"] * 60, f"{access} 503 Service Unavailable", 'said "ready" 200 times']
    child = start(f"print({chr(10).join(lines)!r})")
    until_left(child)

    assert child.log_tail().splitlines() == ["cause", *lines[-2:]]


def test_megabytes_of_good_answers_do_not_hide_the_cause(start: Start) -> None:
    """After 3 MB of access lines, the last thing that the server said is still found."""
    access = 'INFO:     127.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK'
    child = start(f"print('the cause'); [print({access!r}) for _ in range(45_000)]")
    until_left(child)

    assert child.log.stat().st_size > 3_000_000
    assert child.log_tail() == "the cause"


def test_a_log_that_is_gone_has_no_tail(start: Start) -> None:
    """Someone who cleans up the folder does not break the report."""
    child = start(DEAF)
    child.log.unlink()

    assert child.log_tail() == ""


@pytest.mark.parametrize(("deaf_to", "obeyed"), [((), "SIGINT"), (("SIGINT",), "SIGTERM")])
def test_children_are_asked_before_they_are_killed(
    start: Start, impatient: None, deaf_to: tuple[str, ...], obeyed: str
) -> None:
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
    child = start(script)
    child.stop()

    assert child.exit_code() == 0
    assert child.log_tail().splitlines()[-1] == f"left on {obeyed}"


def test_case_66_a_deaf_child_and_its_deaf_child_are_gone(
    start: Start, impatient: None, bystander: subprocess.Popen[bytes], tmp_path: Path
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


def test_case_66_offspring_whose_parent_obeys_is_gone_too(start: Start, impatient: None, tmp_path: Path) -> None:
    """Case 66: the parent leaves on the first signal, and the child it leaves behind is ended."""
    child = start(f"{PRELUDE}\noffspring({LOCKS!r})\ntime.sleep(600)", tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    child.stop()

    assert not lives(grandchild)


def test_case_66_offspring_of_a_killed_parent_is_found_by_its_session(
    start: Start, impatient: None, tmp_path: Path
) -> None:
    """An engine that outlives its killed API server is nobody's child any more, and is still found and ended."""
    child = start(f"{PRELUDE}\noffspring({LOCKS!r})\ntime.sleep(600)", tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    child._seen.clear()
    os.kill(child.pid, signal.SIGKILL)
    child._process.wait(PATIENCE_S)
    assert lives(grandchild)
    assert child.processes() == {grandchild}
    child.stop()

    assert not lives(grandchild)


def test_offspring_in_a_session_of_its_own_is_ended_once_it_was_seen(
    start: Start, impatient: None, tmp_path: Path
) -> None:
    """A worker that leads a session of its own is remembered from when its parent still lived."""
    child = start(f"{PRELUDE}\noffspring({LOCKS!r}, start_new_session=True)\ntime.sleep(600)", tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    child.stop()

    assert not lives(grandchild)


def test_case_127_stopping_twice_is_quiet(start: Start, impatient: None) -> None:
    """Case 127: a second stop, and one of a child that has left by itself, do nothing."""
    stopped, left = start(DEAF), start("print('bye')")
    until_left(left)
    for child in (stopped, stopped, left, left):
        child.stop()

    assert left.exit_code() == 0
    assert stopped.processes() == left.processes() == frozenset()


def test_the_exit_code_of_a_child_that_was_killed_is_its_signal(start: Start, impatient: None) -> None:
    """A child that ignored every request to leave did not leave with code 0."""
    child = start(DEAF)
    child.stop()

    assert child.exit_code() == -signal.SIGKILL


def test_an_impatient_user_leaves_nothing_behind(start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second interrupt, while the child is asked to leave, passes through after all of the tree was killed."""
    child = start(f"{PRELUDE}\ndeaf()\noffspring({LOCKS!r})\ntime.sleep(600)", tmp_path / "lock")
    grandchild = int((tmp_path / "lock").read_text())
    wait = subprocess.Popen.wait

    def interrupted(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout == processes._INTERRUPT_S:
            raise KeyboardInterrupt
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        child.stop()

    assert child.exit_code() == -signal.SIGKILL
    assert not lives(grandchild)


def test_case_125_what_cannot_be_ended_is_named(start: Start, impatient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that survives even the last signal is an error with its id, not a silent leak."""
    child = start(DEAF)
    monkeypatch.setattr(processes, "_KILL_S", 0.1)
    with monkeypatch.context() as broken:
        broken.setattr(psutil.Process, "kill", lambda _: None)
        broken.setattr(subprocess.Popen, "kill", lambda _: None)
        with pytest.raises(ServerError) as caught:
            child.stop()

    assert str(caught.value) == f"processes {child.pid} of the server could not be ended"
    assert caught.value.log_tail == "ready"


def test_waiting_ends_at_the_deadline() -> None:
    """There is time left before the deadline, and none after it."""
    assert wait_until(time.monotonic() + PATIENCE_S, pause_s=0)
    assert not wait_until(time.monotonic() - 1, pause_s=0)
