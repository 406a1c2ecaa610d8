"""One job at a time on a machine, or on each of its devices: the others wait, and are told for whom."""

from __future__ import annotations

import contextlib
import datetime as dt
import fcntl
import json
import math
import os
import platform
import re
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.adapters.processes import wait_until
from pytest_specgate.adapters.state import boot_id
from pytest_specgate.core.errors import ServerStartError, UsageError
from pytest_specgate.core.secret_words import redacted_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self

_POLL_S = 0.2
_TELL_AGAIN_S = 60.0
_LONGEST_COMMAND: Final = 200
_OF_ENGINES: Final = re.compile(r"specgate[-_]engine[-_](?:args|command|env)(=|$)")
"""What servers are given need not be read by those who wait, and may be secret."""


class MachineLock:
    """The right to measure on this machine, for one job of this user at a time.

    A job that names no devices has the machine for itself. Jobs that name devices run side by side as long as they name
    different ones. A lock ends with its process, however that ends. Whoever has it may take it again, as often as it is
    given back; one job has one object of this class, used in one thread.

    The files are one a device, in a folder of one user, and of one machine: their names hold the id of its last boot,
    which its containers share. Jobs of different users do not see each other.
    ``flock`` is used as it is, since jobs that name devices share the lock of the machine.

    Args:
        devices: names of devices, separated by commas (``"0,1"``), each always written in the same way; `None` for the
            whole machine.
        folder: see `lock_folder`; it is made when it is first needed.
        wait_s: longest time to wait for others; infinity for as long as it takes.
        say: shows a line to the user.

    Raises:
        UsageError: no device is named.
    """

    def __init__(self, devices: str | None, *, folder: Path, wait_s: float, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._wait_s = wait_s
        self._say = say
        self._names = None if devices is None else sorted({name.strip() for name in devices.split(",")} - {""})
        if self._names == []:
            raise UsageError(f"the lock names no device in {devices!r}: write them as 0,1, or leave the option out")
        self._held: list[int] = []
        self._place: int | None = None
        self._depth = 0
        _LOCKS.add(self)

    def __enter__(self) -> Self:
        if self._depth == 0:
            self._acquire()
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._release()

    @property
    def _what(self) -> str:
        return "this machine" if self._names is None else f"device {', '.join(self._names)} of this machine"

    def _acquire(self) -> None:
        """Take the lock.

        Raises:
            ServerStartError: others had it all the time, or its folder cannot be used.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._taken() or self._taken_later():
                return
            raise ServerStartError(
                f"{self._what} was in use for {self._wait_s:g} s by {self._holders()}: run it later, or raise "
                f"--specgate-lock-wait"
            )
        except OSError as error:
            raise ServerStartError(
                f"{self._what} cannot be locked: {error}; set SPECGATE_STATE_DIR to a folder on this machine"
            ) from error
        finally:
            self._leave_queue()

    def _taken_later(self) -> bool:
        """Try again until the limit."""
        started_s = told_s = time.monotonic()
        if self._wait_s > 0:
            self._tell()
        while wait_until(started_s + self._wait_s, pause_s=min(_POLL_S, self._wait_s)):
            if self._taken():
                self._say(f"{self._what} is free now")
                return True
            if time.monotonic() - told_s >= _TELL_AGAIN_S:
                told_s = time.monotonic()
                self._tell()
        return False

    def _tell(self) -> None:
        limit = "" if math.isinf(self._wait_s) else f" up to {self._wait_s:g} s"
        self._say(f"waiting{limit} for {self._what}, in use by {self._holders()}")

    def _plan(self) -> Iterator[tuple[Path, int]]:
        """Give what has to be locked, and how: the machine first, shared by those who name devices."""
        yield self._path("machine"), fcntl.LOCK_EX if self._names is None else fcntl.LOCK_SH
        for name in self._names or ():
            yield self._path(f"device-{re.sub(r'[^A-Za-z0-9.]', '_', name)}"), fcntl.LOCK_EX

    def _path(self, name: str) -> Path:
        # The folder may be of several machines; containers of one machine have host names of their own.
        return self._folder / f"{boot_id() or platform.node()}-{name}.lock"

    def _taken(self) -> bool:
        """Take all or none, so that two who need the same two never wait for each other."""
        try:
            if not self._queued():
                return False
            for path, kind in self._plan():
                handle = _locked(path, kind)
                if handle is None:
                    self._release()
                    return False
                self._held.append(handle)
        except BaseException:
            self._release()
            raise
        finally:
            if self._names is not None:
                self._leave_queue()
        return True

    def _queued(self) -> bool:
        """Take a place in the queue: who waits for the whole machine keeps it, and lets no device begin anew."""
        if self._place is None:
            self._place = _locked(self._path("queue"), fcntl.LOCK_EX if self._names is None else fcntl.LOCK_SH)
        return self._place is not None

    def _leave_queue(self) -> None:
        if self._place is not None:
            _unlock(self._place, named=self._names is None)
            self._place = None

    def _release(self) -> None:
        while self._held:
            handle = self._held.pop()
            _unlock(handle, named=self._names is None or bool(self._held))

    def forget(self) -> None:
        """Drop all without giving it back: this is a fork, and its parent has the lock."""
        for handle in (*self._held, *([] if self._place is None else [self._place])):
            os.close(handle)
        self._held, self._place = [], None

    def _holders(self) -> str:
        """Say who has what is needed: of the machine as a whole, whoever has any of its devices."""
        wanted = [path for path, _ in self._plan()]
        if self._names is None:
            wanted += sorted(self._folder.glob(f"{self._path('device-').stem}*.lock"))
        found = list(dict.fromkeys(filter(None, map(_holder_of, wanted))))
        if self._place is None and (first := _holder_of(self._path("queue"))) is not None:
            found.append(f"{first}, which waits for all of it")
        return " and ".join(found) or "a job that does not say who it is"


_LOCKS: Final[weakref.WeakSet[MachineLock]] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in tuple(_LOCKS):
        lock.forget()


# A fork of a user's test would keep the lock for as long as it lives.
os.register_at_fork(after_in_child=_forget_all)


def _locked(path: Path, kind: int) -> int | None:
    """Return a handle on a file that is locked now, `None` when others have it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
        if kind == fcntl.LOCK_EX:
            _write(handle, json.dumps(_this_job()))
    except BlockingIOError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return handle


def _unlock(handle: int, *, named: bool) -> None:
    """Give a lock back, whoever else may have inherited its handle.

    Args:
        handle: on the file.
        named: whether the file says who has it.
    """
    with contextlib.suppress(OSError):
        if named:
            _write(handle, "")
    fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def _this_job() -> dict[str, Any]:
    command = redacted_command(_shown(sys.argv))
    now = dt.datetime.now().astimezone().isoformat(timespec="seconds")
    return {"pid": os.getpid(), "command": command[:_LONGEST_COMMAND], "since": now}


def _shown(words: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command line without what servers are given."""
    hidden = False
    for word in words:
        given = _OF_ENGINES.search(word)
        yield "..." if hidden else word if given is None else f"{word[: given.end()]}{'...' if given[1] else ''}"
        hidden = not hidden and given is not None and not given[1]


def _write(handle: int, text: str) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, text.encode(), 0)


def _holder_of(path: Path) -> str | None:
    """Return who has locked a file for itself, `None` when nobody has."""
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                job = json.load(file)
                return f"pid {job['pid']} since {job['since']} ({job['command']})"
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None
