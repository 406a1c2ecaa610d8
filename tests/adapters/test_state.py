"""What runs is noted in files; what killed runs left behind is ended, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specgate.adapters.processes import StopLimits, wait_until
from pytest_specgate.adapters.state import Machine, Mark, ServerNotes, state_folder
from pytest_specgate.core.errors import ServerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_S = 30.0
LIMITS = StopLimits(interrupt_s=0.1, terminate_s=0.1, follow_s=0.1)
LEAVES_BEHIND = """
import os, sys, time
from pathlib import Path
from pytest_specgate.adapters.processes import Child, StopLimits
from pytest_specgate.adapters.state import ServerNotes

folder = Path(sys.argv[1])
deaf = "import signal, time; [signal.signal(number, signal.SIG_IGN) for number in (2, 15)]; "
engine = f"{deaf}print(1, flush=True); time.sleep(600)"
script = f"import subprocess, sys; {deaf}subprocess.Popen([sys.executable, '-S', '-c', {engine!r}]); time.sleep(600)"
command, limits = [sys.executable, "-S", "-c", script], StopLimits(600, 600)
child = Child(command, environment=os.environ, log=folder / "log", limits=limits)
while child.log_tail() != "1":
    time.sleep(0.01)
note = ServerNotes(folder / "servers", say=print).add([child.pid], supervisor=child.supervisor_pid, command="serve x")
if "whole" in sys.argv:
    note.update(child.processes())
(folder / "pids").write_text(f"{child.supervisor_pid} {' '.join(map(str, child.processes()))}")
(folder / "pids").rename(folder / "ready")
time.sleep(600)
"""


def lives(pid: int) -> bool:
    """Whether a process runs: one that waits for its parent to ask does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture
def said() -> list[str]:
    """What the user was told."""
    return []


@pytest.fixture
def notes(tmp_path: Path, said: list[str]) -> ServerNotes:
    """The notes of the next run, which has no patience."""
    return ServerNotes(tmp_path / "servers", say=said.append, limits=LIMITS)


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], list[Path]]:
    """A function that lists all files of notes."""
    return lambda: list((tmp_path / "servers").glob("*.json"))


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that only sleeps."""
    with subprocess.Popen(["/bin/sleep", "600"], start_new_session=True) as process:
        yield process
        process.kill()


@pytest.fixture
def entry(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> Callable[..., Path]:
    """A function that writes a note: the sleeper is a server whose owner is gone, but for what is said otherwise."""

    def write(**changes: Any) -> Path:
        mark = Mark.of(sleeper.pid)
        assert mark is not None
        fields = {
            "schema_version": 1,
            "machine": Machine.this().model_dump(),
            "uid": os.getuid(),
            "owner": {"pid": os.getpid(), "started": 1},
            "supervisor": None,
            "processes": [mark.model_dump()],
            "command": "serve x",
            "started_at": "2026-01-02T03:04:05+00:00",
        }
        path = tmp_path / "servers" / "noted.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**fields, **changes}))
        return path

    return write


@pytest.fixture(params=["server-only", "whole"])
def left_behind(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[int]]:
    """A deaf server and its deaf child, whose owner and supervising process were killed at once."""
    command = [sys.executable, "-c", LEAVES_BEHIND, str(tmp_path), request.param]
    with subprocess.Popen(command, start_new_session=True) as owner:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (tmp_path / "ready").exists():
            assert wait_until(deadline_s, pause_s=0.02), "the owner never started its server"
        supervisor, *pids = map(int, (tmp_path / "ready").read_text().split())
        # Stopped, so that it cannot end the server when its parent is gone.
        os.kill(supervisor, signal.SIGSTOP)
        owner.kill()
        owner.wait(PATIENCE_S)
        os.kill(supervisor, signal.SIGKILL)
        while lives(supervisor):
            assert wait_until(deadline_s, pause_s=0.02), "the supervising process lives on"
        kept = [psutil.Process(pid) for pid in pids]
        yield pids
        for process in kept:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def test_what_a_killed_run_left_behind_is_ended_and_told(
    left_behind: list[int], notes: ServerNotes, said: list[str], files: Callable[[], list[Path]]
) -> None:
    """Owner and supervising process killed, server and engine deaf: the next start ends both, and says so once."""
    assert all(map(lives, left_behind))
    notes.reap()
    notes.reap()

    assert not any(map(lives, left_behind))
    (line,) = said
    assert line.startswith(f"ended process {', '.join(map(str, sorted(left_behind)))} of a server that an earlier run ")
    assert line.endswith(": serve x)")
    assert files() == []


def test_a_supervising_process_that_is_at_work_is_waited_for(
    entry: Callable[..., Path], tmp_path: Path, said: list[str]
) -> None:
    """It ends its server by itself, and there is nothing to say of that."""
    with subprocess.Popen(["/bin/sleep", "0.3"]) as supervisor:
        mark = Mark.of(supervisor.pid)
        assert mark is not None
        path = entry(supervisor=mark.model_dump(), processes=[])
        ServerNotes(tmp_path / "servers", say=said.append).reap()
        code = supervisor.wait(PATIENCE_S)

    assert (code, path.exists(), said) == (0, False, [])


def test_a_supervising_process_that_hangs_is_ended(
    entry: Callable[..., Path], notes: ServerNotes, said: list[str], sleeper: subprocess.Popen[bytes]
) -> None:
    """Whoever waits for it is told for what; when its time is over, it is ended with all that it watches."""
    mark = Mark.of(sleeper.pid)
    assert mark is not None
    entry(supervisor=mark.model_dump(), processes=[])
    ServerNotes(notes._folder, say=said.append, limits=StopLimits(0.1, 0.1, 0, 1)).reap()

    assert sleeper.wait(PATIENCE_S) == -signal.SIGTERM
    waiting, ended = said
    assert waiting == (
        f"waiting up to 1.2 s for the end of process {sleeper.pid} of a server that an earlier run left behind "
        "(since 2026-01-02T03:04:05+00:00: serve x)"
    )
    assert ended.startswith(f"ended process {sleeper.pid} of a server ")


def test_a_server_whose_owner_lives_is_left_alone(
    notes: ServerNotes, said: list[str], sleeper: subprocess.Popen[bytes], files: Callable[[], list[Path]]
) -> None:
    """Two runs side by side do not end each other's servers."""
    note = notes.add([sleeper.pid], supervisor=sleeper.pid, command="serve x")
    notes.reap()
    noted = files()
    note.remove()
    note.remove()

    assert sleeper.poll() is None
    assert (len(noted), files(), said) == (1, [], [])


def test_a_note_of_a_process_that_is_gone_ends_nobody(
    entry: Callable[..., Path], notes: ServerNotes, said: list[str], sleeper: subprocess.Popen[bytes]
) -> None:
    """Who was given the id of a server later is a stranger: the start time differs, and only the note goes."""
    path = entry(processes=[{"pid": sleeper.pid, "started": 1}], supervisor={"pid": sleeper.pid, "started": 2})
    notes.reap()

    assert sleeper.poll() is None
    assert (path.exists(), said) == (False, [])


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"machine": {**Machine.this().model_dump(), "boot": "another"}}, False),
        ({"machine": {**Machine.this().model_dump(), "host": "another"}}, True),
        ({"machine": {**Machine.this().model_dump(), "namespace": "another"}}, True),
        ({"uid": os.getuid() + 1}, True),
        ({"schema_version": 2}, True),
    ],
    ids=["boot", "host", "namespace", "user", "schema"],
)
def test_notes_that_do_not_mean_processes_of_here_end_nobody(
    entry: Callable[..., Path],
    notes: ServerNotes,
    sleeper: subprocess.Popen[bytes],
    changes: dict[str, Any],
    kept: bool,
) -> None:
    """Another boot's note is old; another machine's, container's, user's or version's belongs to somebody else."""
    path = entry(**changes)
    notes.reap()

    assert sleeper.poll() is None
    assert path.exists() == kept


def test_a_process_of_another_user_is_never_ours(
    entry: Callable[..., Path],
    notes: ServerNotes,
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though id and start time are those of the note, what runs as somebody else is left alone."""
    entry()
    ids = psutil.Process().uids()
    monkeypatch.setattr(psutil.Process, "uids", lambda _: ids._replace(real=ids.real + 1))
    notes.reap()

    assert sleeper.poll() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "\0", '{"schema_version": 1}'])
def test_a_broken_note_is_told_and_removed(
    entry: Callable[..., Path], notes: ServerNotes, said: list[str], text: str
) -> None:
    """Half a file stops nobody from measuring."""
    path = entry()
    path.write_text(text)
    notes.reap()

    assert not path.exists()
    assert [line.partition(":")[0] for line in said] == [f"{path}, the note of a server, is broken and was removed"]


def test_a_note_that_cannot_be_read_is_told(entry: Callable[..., Path], notes: ServerNotes, said: list[str]) -> None:
    """Whatever is in the way, the run goes on."""
    path = entry()
    path.unlink()
    path.mkdir()
    notes.reap()

    assert [line.partition(":")[0] for line in said] == [f"{path}, the note of a server, cannot be read"]


def test_a_note_is_for_its_user_only(notes: ServerNotes, files: Callable[[], list[Path]]) -> None:
    """What was started is nobody else's business."""
    notes.add([os.getpid()], supervisor=os.getpid(), command="serve x")
    (path,) = files()

    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_note_grows_by_processes(
    notes: ServerNotes, files: Callable[[], list[Path]], sleeper: subprocess.Popen[bytes]
) -> None:
    """Processes that are seen later are added; those that were seen stay, those that are gone are not added."""
    note = notes.add([os.getpid()], supervisor=os.getpid(), command="serve x")
    (path,) = files()
    before = path.stat().st_ino
    note.update([os.getpid()])
    unchanged = path.stat().st_ino == before
    note.update([sleeper.pid, 2**22])

    assert unchanged
    assert [mark["pid"] for mark in json.loads(path.read_text())["processes"]] == [os.getpid(), sleeper.pid]
    assert [other for other in path.parent.iterdir() if other != path] == []


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path: Path, said: list[str]) -> None:
    """The server runs all the same: only its note is missing."""
    (tmp_path / "file").touch()
    notes = ServerNotes(tmp_path / "file" / "servers", say=said.append)
    note = notes.add([], supervisor=os.getpid(), command="serve x")
    note.update([os.getpid()])
    note.remove()
    notes.reap()

    (line,) = said
    assert line.startswith(
        f"a server cannot be noted in {tmp_path}/file/servers, so a killed run could leave it behind"
    )


def test_what_cannot_be_ended_is_named_and_stays_noted(
    entry: Callable[..., Path],
    notes: ServerNotes,
    said: list[str],
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A survivor stops whoever would start something beside it, and the next run tries again."""
    path = entry()
    monkeypatch.setattr(psutil.Process, "send_signal", lambda *_: None)
    with pytest.raises(ServerError) as caught:
        ServerNotes(path.parent, say=said.append, limits=StopLimits(0, 0, 0, 0)).reap()

    assert (path.exists(), said) == (True, [])
    assert str(caught.value) == (
        f"processes {sleeper.pid} of a server that an earlier run left behind (since 2026-01-02T03:04:05+00:00: "
        "serve x) could not be ended, so nothing is started while they live"
    )


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"SPECGATE_STATE_DIR": "/a/b", "XDG_STATE_HOME": "/c", "HOME": "/d"}, "/a/b"),
        ({"XDG_STATE_HOME": "/c", "HOME": "/d"}, "/c/pytest-specgate"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/d"}, "/d/.local/state/pytest-specgate"),
        ({"XDG_STATE_HOME": "", "HOME": "/d"}, "/d/.local/state/pytest-specgate"),
    ],
)
def test_where_it_is_kept_what_runs(environment: dict[str, str], folder: str) -> None:
    """The user's own variable, else the standard's, else the standard's default."""
    assert state_folder(environment) == Path(folder)


def test_an_empty_folder_of_state_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of CI that expands to nothing must not switch anything; neither is there a folder of nobody."""

    def homeless() -> Path:
        raise RuntimeError

    with pytest.raises(UsageError, match="SPECGATE_STATE_DIR is empty"):
        state_folder({"SPECGATE_STATE_DIR": " "})
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(UsageError, match="set SPECGATE_STATE_DIR"):
        state_folder({})


def test_systems_without_files_of_processes_are_served_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is marked by what `psutil` knows of its start, and told from others just so."""
    monkeypatch.setattr("pytest_specgate.adapters.state.process_stat", lambda _: None)
    mark = Mark.of(os.getpid())

    assert mark is not None
    assert mark.process() == psutil.Process()
    assert mark.model_copy(update={"started": 1}).process() is None
    assert Mark.of(2**22) is None
