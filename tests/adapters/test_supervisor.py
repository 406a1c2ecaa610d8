"""The supervising process: what it imports, what it looks at, and what becomes of a server whose parent is killed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_specgate.adapters import processes, supervisor
from pytest_specgate.adapters.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 30.0
HEAVY = ("asyncio", "dataclasses", "inspect", "pathlib", "psutil", "pydantic", "pytest_specgate", "typing", "urllib")
OWNER = """
import json, os, sys, time
from pathlib import Path
from pytest_specgate.adapters.processes import Child, StopLimits

folder = Path(sys.argv[1])
child = Child(
    [sys.executable, "-S", "-c", (folder / "server.py").read_text(), str(folder)],
    environment=os.environ,
    log=folder / "log",
    limits=StopLimits(*([0.1, 0.1] if "brisk" in sys.argv else [600, 600]), follow_s=0.1, abandoned_s=0.1),
)
while not (folder / "grandchild").exists():
    time.sleep(0.01)
holder = os.fork() if "fork" in sys.argv else 0
if "fork" in sys.argv and not holder:
    # It has all that its parent had, the line to the supervising process included.
    time.sleep(600)
told = {"server": child.pid, "supervisor": child.supervisor_pid, "holder": holder}
(folder / "told").write_text(json.dumps(told))
(folder / "told").rename(folder / "owner")
time.sleep(600)
"""
DEAF_TREE = """
import os, signal, subprocess, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
script = '''
import os, sys, time
with open(sys.argv[1] + "/number", "w") as file:
    print(os.getpid(), file=file)
os.rename(sys.argv[1] + "/number", sys.argv[1] + "/grandchild")
time.sleep(600)
'''
subprocess.Popen([sys.executable, "-S", "-c", script, sys.argv[1]], start_new_session=True)
time.sleep(600)
"""


@dataclasses.dataclass
class Owner:
    """A process that has started a deaf server, whose deaf child is in a session of its own."""

    process: subprocess.Popen[bytes]
    server: int
    supervisor: int
    holder: int
    grandchild: int

    @property
    def tree(self) -> tuple[int, ...]:
        """Everything that must not outlive the owner."""
        return (self.server, self.supervisor, self.grandchild)


def lives(pid: int) -> bool:
    """Whether a process runs: one that waits for its parent to ask does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def until_gone(*pids: int) -> None:
    """Wait until processes have left."""
    deadline_s = time.monotonic() + PATIENCE_S
    while left := [pid for pid in pids if lives(pid)]:
        assert wait_until(deadline_s, pause_s=0.02), f"{left} live on"


@pytest.fixture(params=["plain", "fork"])
def owner(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Owner]:
    """An owner; it may have forked a process that has all its files, too."""
    (tmp_path / "server.py").write_text(DEAF_TREE)
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), request.param]) as process:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (tmp_path / "owner").exists():
            assert wait_until(deadline_s, pause_s=0.02), "the owner never started its server"
        told = json.loads((tmp_path / "owner").read_text())
        yield Owner(process, **told, grandchild=int((tmp_path / "grandchild").read_text()))
        process.kill()
        if told["holder"]:
            os.kill(told["holder"], signal.SIGKILL)


def test_a_killed_owner_leaves_nothing(owner: Owner) -> None:
    """SIGKILL of pytest: its server, deaf as it is, and what hides in another session are gone soon after."""
    assert all(map(lives, owner.tree))
    owner.process.kill()
    until_gone(*owner.tree)

    assert owner.holder == 0 or lives(owner.holder)


def test_an_interrupt_at_the_terminal_reaches_neither_server_nor_supervisor(owner: Owner) -> None:
    """Both are in sessions of their own, so that we decide when they are asked to leave."""
    sessions = {os.getsid(pid) for pid in (owner.server, owner.supervisor)}

    assert sessions == {owner.server, owner.supervisor}
    assert os.getsid(owner.process.pid) not in sessions


@pytest.mark.parametrize("owner", ["brisk"], indirect=True)
def test_a_supervising_process_can_be_asked_to_leave(owner: Owner) -> None:
    """SIGTERM to it ends the server, asked first; other signals do nothing."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(owner.supervisor, number)
    assert all(map(lives, owner.tree))
    os.kill(owner.supervisor, signal.SIGTERM)
    until_gone(*owner.tree)

    assert owner.process.poll() is None


def test_the_supervising_process_imports_nothing_heavy() -> None:
    """It stands in hundredths of a second: only small modules of the standard library, none of ours."""
    code = f"{processes._CODE}\nprint(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(supervisor.__file__)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in run.stdout.split()}

    assert sorted(loaded & set(HEAVY)) == []
    assert {"subprocess", "ctypes"} <= loaded <= {*sys.stdlib_module_names, "__main__"}


def test_the_working_directory_cannot_get_into_the_supervising_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with modules of the same names does not break the start of a server."""
    for name in ("json", "subprocess", "ctypes"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = processes.Child(["/bin/sh", "-c", "exit 3"], environment={}, log=tmp_path / "log")

    assert child.wait(PATIENCE_S) == 3
    child.stop()


def test_a_process_is_described_whatever_its_name(tmp_path: Path) -> None:
    """Parentheses and blanks in the name of a program do not confuse its description."""
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "600"], start_new_session=True) as process:
        stat = supervisor.process_stat(process.pid)
        found = supervisor.descendants(os.getpid())
        process.kill()

    assert stat is not None
    assert (stat.parent, stat.session) == (os.getpid(), process.pid)
    assert found[process.pid] == stat.started
    assert supervisor.process_stat(process.pid) is None


def test_a_process_that_ended_is_no_descendant() -> None:
    """What only waits to be asked for its status cannot be ended, and is no survivor."""
    with subprocess.Popen(["/bin/true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        found = supervisor.descendants(os.getpid())

    assert process.pid not in found


@pytest.mark.parametrize("handles", [True, False], ids=["handle", "no-handle"])
def test_only_the_process_that_was_meant_is_signalled(monkeypatch: pytest.MonkeyPatch, handles: bool) -> None:
    """A process that has the id, but started at another time, is left alone."""
    if not handles:
        monkeypatch.setattr(supervisor, "_handle_on", lambda _: None)
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        stat = supervisor.process_stat(process.pid)
        assert stat is not None
        supervisor.send_signal(process.pid, signal.SIGKILL, started=stat.started + 1)
        spared = lives(process.pid)
        supervisor.send_signal(process.pid, signal.SIGKILL, started=stat.started)
        code = process.wait(PATIENCE_S)
    supervisor.send_signal(process.pid, signal.SIGKILL, started=stat.started)

    assert (spared, code) == (True, -signal.SIGKILL)


def test_systems_without_handles_on_processes_are_served_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older kernel has none, and another one knows no such call; a process that is gone is another matter."""

    def refuse(_: int) -> int:
        raise OSError(38, "Function not implemented")

    with pytest.raises(ProcessLookupError):
        supervisor._handle_on(2**22)
    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert supervisor._handle_on(os.getpid()) is None
    monkeypatch.delattr(os, "pidfd_open")

    assert supervisor._handle_on(os.getpid()) is None
