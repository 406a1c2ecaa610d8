"""A supervising process that does not listen, or cannot be ended, keeps nobody waiting for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import psutil

from pytest_specgate.adapters import processes
from pytest_specgate.adapters.processes import Child, StopLimits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

PATIENCE_S = 30.0
BRISK = StopLimits(interrupt_s=0.1, terminate_s=0.1, follow_s=0.1, kill_s=0.1)


def ends(work: Callable[[], object]) -> bool:
    """Whether something ends at all."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return not thread.is_alive()


def test_a_job_that_nobody_takes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment of more than a pipe holds, and a supervising process that never reads it."""
    monkeypatch.setattr(processes, "_CODE", "import time; time.sleep(600)")
    monkeypatch.setattr(processes, "_START_S", 0.2)
    errors: list[OSError] = []

    def start() -> None:
        try:
            Child([sys.executable], environment={"LARGE": "x" * 500_000}, log=tmp_path / "log", limits=BRISK)
        except OSError as error:
            errors.append(error)

    assert ends(start)
    assert [str(error) for error in errors] == ["its supervising process does not start"]


def test_a_supervising_process_that_cannot_be_ended_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that waits for a device, say, does not even end when it is killed; the server itself is ended."""
    sleeps = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    child = Child(sleeps, environment=os.environ, log=tmp_path / "log", limits=BRISK)
    os.kill(child.supervisor_pid, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(processes, "_KILL_S", 0.1)
        patch.setattr(subprocess.Popen, "kill", lambda _: None)
        ended = ends(child.stop)
    os.kill(child.supervisor_pid, signal.SIGKILL)

    assert ended
    assert child.exit_code() == -signal.SIGKILL
    assert not psutil.pid_exists(child.pid) or psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
