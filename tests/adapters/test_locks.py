"""One job at a time on a machine or a device; the others are told for whom they wait."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from math import inf
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters import locks, state
from pytest_specgate.adapters.locks import MachineLock
from pytest_specgate.core.errors import ServerStartError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    MakeLock: TypeAlias = Callable[..., MachineLock]

PATIENCE_S = 30.0
HOLDS = """
import sys, time
from pathlib import Path
from pytest_specgate.adapters.locks import MachineLock

with MachineLock(None, folder=Path(sys.argv[1]), wait_s=0, say=print):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def said() -> list[str]:
    """What the user was told."""
    return []


@pytest.fixture
def make_lock(tmp_path: Path, said: list[str]) -> MakeLock:
    """A function that makes the lock of another job: of the whole machine, or of devices."""

    def make(
        devices: str | None = None, *, wait_s: float = 0.0, say: Callable[[str], None] = said.append
    ) -> MachineLock:
        return MachineLock(devices, folder=tmp_path / "locks", wait_s=wait_s, say=say)

    return make


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the machine for itself."""
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "locks")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_job_waits_visibly_until_the_first_one_is_gone(
    holder: subprocess.Popen[str], make_lock: MakeLock, said: list[str], tmp_path: Path
) -> None:
    """The holder is named at once; when it dies, however that comes about, the lock is free."""

    def say(line: str) -> None:
        said.append(line)
        holder.kill()

    with make_lock(wait_s=PATIENCE_S, say=say):
        pass

    waiting, free = said
    assert waiting.startswith(f"waiting up to 30 s for this machine, in use by pid {holder.pid} since 20")
    assert waiting.endswith(f"(-c {tmp_path / 'locks'})")
    assert free == "this machine is free now"


def test_a_job_that_waited_too_long_fails_clearly(holder: subprocess.Popen[str], make_lock: MakeLock) -> None:
    """Who has the machine is in the one sentence, and the lock of that one stays."""
    for wait_s in (0, 0.3):
        with pytest.raises(ServerStartError) as caught, make_lock(wait_s=wait_s):
            pass

        assert str(caught.value).startswith(f"this machine was in use for {wait_s:g} s by pid {holder.pid} since 20")
        assert str(caught.value).endswith("): run it later, or raise --specgate-lock-wait")


def test_no_waiting_is_announced_where_there_is_none(make_lock: MakeLock, said: list[str]) -> None:
    """A free machine, or one that is not waited for, says nothing."""
    with make_lock(wait_s=PATIENCE_S), pytest.raises(ServerStartError), make_lock(wait_s=0):
        pass

    assert said == []


def test_the_holder_is_named_again_now_and_then(
    make_lock: MakeLock, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is looked at hours later shows that the job still waits."""
    monkeypatch.setattr(locks, "_TELL_AGAIN_S", 0.0)
    with make_lock(), pytest.raises(ServerStartError), make_lock(wait_s=0.5):
        pass

    assert len(said) >= 2
    assert all(line.startswith(f"waiting up to 0.5 s for this machine, in use by pid {os.getpid()} ") for line in said)


def test_the_lock_file_names_its_holder_while_it_is_held(
    make_lock: MakeLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process, command without secrets, and since when; afterwards nobody. Nobody else may read it."""
    monkeypatch.setattr(sys, "argv", ["pytest", "--api-key", "open sesame"])
    with make_lock():
        (path,) = (tmp_path / "locks").glob("*-machine.lock")
        job = json.loads(path.read_text())
        mode = path.stat().st_mode & 0o777

    assert (job["pid"], job["command"], mode) == (os.getpid(), "pytest --api-key '[redacted]'", 0o600)
    assert [file.read_text() for file in path.parent.iterdir()] == ["", ""]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--specgate-engine-env=A_KEY=own B='own c'", "x"], "--specgate-engine-env=... x"),
        (["--specgate-engine-args", "--api-key own", "x"], "--specgate-engine-args ... x"),
        (["-o", "specgate_engine_command=serve --api-key own"], "-o specgate_engine_command=..."),
        (["--override-ini=specgate_engine_env=A_KEY=own"], "--override-ini=specgate_engine_env=..."),
        (["--specgate-devices=0", "--api-key=own x"], "--specgate-devices=0 '--api-key=[redacted]'"),
    ],
)
def test_what_servers_are_given_is_in_no_lock_file(
    make_lock: MakeLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], shown: str
) -> None:
    """Whoever waits needs to know which job it is, not its keys."""
    monkeypatch.setattr(sys, "argv", ["pytest", *words])
    with make_lock():
        (path,) = (tmp_path / "locks").glob("*-machine.lock")
        command = json.loads(path.read_text())["command"]

    assert command == f"pytest {shown}"


@pytest.fixture
def forked() -> Iterator[Callable[[], int]]:
    """A function that forks this process; the forks only sleep."""
    pids: list[int] = []

    def fork() -> int:
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        pids.append(pid)
        return pid

    yield fork
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("devices", [None, "0,1"])
def test_a_fork_of_the_holder_does_not_keep_the_lock(
    make_lock: MakeLock, forked: Callable[[], int], devices: str | None
) -> None:
    """What a user's test forks may live for long: the lock is free when its holder has given it back."""
    with make_lock(devices):
        forked()
    with make_lock():
        pass


def test_a_fork_of_a_killed_holder_does_not_keep_the_lock(make_lock: MakeLock, tmp_path: Path) -> None:
    """Nobody gave the lock back, and still its end is that of its holder."""
    source = HOLDS.replace("import sys, time", "import os, sys, time").replace(
        "    time.sleep(600)", "    print(os.fork(), flush=True)\n    time.sleep(600)"
    )
    command = [sys.executable, "-c", source, str(tmp_path / "locks")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.kill()
        process.wait(PATIENCE_S)
        try:
            with make_lock():
                pass
        finally:
            os.killpg(process.pid, signal.SIGKILL)

    assert lines[0] == "held\n"


def test_a_fork_gives_nothing_back(make_lock: MakeLock) -> None:
    """The end of its copy of the block leaves the lock to its parent."""
    lock = make_lock()
    with lock:
        pid = os.fork()
        if pid == 0:
            lock.__exit__(None, None, None)
            os._exit(0)
        os.waitpid(pid, 0)
        with pytest.raises(ServerStartError), make_lock():
            pass


def test_devices_do_not_begin_anew_while_somebody_waits_for_all_of_them(make_lock: MakeLock) -> None:
    """Jobs that take turns on a device would never leave the machine to whoever needs it as a whole."""
    waits, go_on, held = threading.Event(), threading.Event(), threading.Event()

    def whole() -> None:
        with make_lock(wait_s=PATIENCE_S, say=lambda _: waits.set()):
            held.set()
            go_on.wait(PATIENCE_S)

    thread = threading.Thread(target=whole)
    with make_lock("0"):
        thread.start()
        assert waits.wait(PATIENCE_S)
        with pytest.raises(ServerStartError) as caught, make_lock("1"):
            pass
    assert held.wait(PATIENCE_S)
    go_on.set()
    thread.join(PATIENCE_S)
    with make_lock("1"):
        pass

    assert "), which waits for all of it: run it later" in str(caught.value)


def test_who_gives_up_waiting_for_the_machine_leaves_the_queue(make_lock: MakeLock) -> None:
    """Others may begin again."""
    with make_lock("0"):
        with pytest.raises(ServerStartError), make_lock(wait_s=0.3):
            pass
        with make_lock("1"):
            pass


def test_a_holder_may_take_its_lock_again(make_lock: MakeLock) -> None:
    """A window holds it, and so does each server in the window; it is free when both have given it back."""
    lock = make_lock()
    with lock:
        with lock:
            pass
        with pytest.raises(ServerStartError), make_lock():
            pass
    with make_lock():
        pass


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        (None, None, False),
        (None, "0", False),
        ("0", None, False),
        ("0", "1", True),
        ("0,1", "2,3", True),
        ("0, 1", "1 ,2", False),
        ("GPU-1/a", "GPU-1/a", False),
        ("GPU-1", "GPU-2", True),
    ],
)
def test_jobs_of_different_devices_run_side_by_side(
    make_lock: MakeLock, first: str | None, second: str | None, fits: bool
) -> None:
    """Whoever names devices shares the machine with those who name others, and with nobody who wants all of it."""
    refused = contextlib.nullcontext() if fits else pytest.raises(ServerStartError, match=f"by pid {os.getpid()} since")
    with make_lock(first):
        with refused, make_lock(second):
            pass
        # What was tried in vain has taken nothing away, and left nothing behind.
        with pytest.raises(ServerStartError), make_lock(first):
            pass
    with make_lock(second):
        pass


def test_all_holders_of_devices_are_named(make_lock: MakeLock) -> None:
    """Who wants the machine waits for each of them; one job is named once."""
    with make_lock("0,1"), make_lock("2"), pytest.raises(ServerStartError) as caught, make_lock():
        pass

    assert str(caught.value).count(f"pid {os.getpid()}") == 1


def test_a_holder_that_does_not_say_who_it_is_still_holds(make_lock: MakeLock, tmp_path: Path) -> None:
    """A file that somebody emptied breaks no sentence."""
    with make_lock():
        (path,) = (tmp_path / "locks").glob("*-machine.lock")
        for text in ("", "[]", "{}"):
            path.write_text(text)
            with pytest.raises(ServerStartError, match="by a job that does not say who it is: "), make_lock():
                pass


def test_an_interrupt_while_waiting_takes_nothing(make_lock: MakeLock) -> None:
    """Who loses patience does not have the lock."""

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt(line)

    with (
        make_lock(),
        pytest.raises(KeyboardInterrupt, match=r"^waiting for this"),
        make_lock(wait_s=inf, say=interrupt),
    ):
        pass
    with make_lock():
        pass


def test_a_lock_is_released_for_a_job_that_waits_for_it(make_lock: MakeLock) -> None:
    """The end of the block is enough: nobody has to die."""
    waits, held = threading.Event(), threading.Event()

    def second() -> None:
        with make_lock(wait_s=PATIENCE_S, say=lambda _: waits.set()):
            held.set()

    thread = threading.Thread(target=second)
    with make_lock():
        thread.start()
        assert waits.wait(PATIENCE_S)
        assert not held.is_set()
    thread.join(PATIENCE_S)

    assert held.is_set()


def test_containers_of_one_machine_meet(make_lock: MakeLock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each container has a host name of its own; the folder that all of them have mounted is enough."""
    with make_lock():
        monkeypatch.setattr(platform, "node", lambda: "another")
        with pytest.raises(ServerStartError, match="this machine was in use"), make_lock():
            pass


@pytest.mark.parametrize("text", [None, "\n"])
def test_machines_do_not_meet_in_a_folder_that_they_share(
    make_lock: MakeLock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Another kernel has another lock; where it does not tell its boot, the host name stands for it."""
    told = tmp_path / "boot_id"
    with make_lock("0"):
        monkeypatch.setattr(state, "_BOOT_ID", told)
        if text is not None:
            told.write_text(text)
        with make_lock():
            monkeypatch.setattr(platform, "node", lambda: "another")
            with make_lock():
                told.write_text("b1946ac9\n")
                with make_lock():
                    pass

    assert (tmp_path / "locks" / "another-machine.lock").exists()
    assert (tmp_path / "locks" / "b1946ac9-machine.lock").exists()


def test_a_lock_of_no_device_is_refused(make_lock: MakeLock) -> None:
    """An empty list is a mistake, and not the whole machine."""
    with pytest.raises(UsageError, match="names no device in ' , '"):
        make_lock(" , ")


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """The sentence says what to do about it."""
    (tmp_path / "file").touch()
    lock = MachineLock(None, folder=tmp_path / "file" / "locks", wait_s=0, say=print)
    with (
        pytest.raises(ServerStartError, match=r"^this machine cannot be locked: .* set SPECGATE_STATE_DIR to a "),
        lock,
    ):
        pass
