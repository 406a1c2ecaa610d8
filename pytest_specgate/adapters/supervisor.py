"""The supervising process of one server: it stands between us and the server, and outlives us until the server is gone.

`pytest_specgate.adapters.processes.Child` runs `main` in an interpreter of its own, which imports nothing but the
standard library, so that it is there in hundredths of a second. It is a *child subreaper*: whatever the server starts,
in whatever session, becomes this process's child when its own parent ends, so nothing can get out of its sight.

The talk is one line a word. On stdin: the job, as JSON; then ``stop`` (end everything, asking first) and ``kill`` (end
everything at once). The end of stdin, or of the parent, means ``stop`` with little patience. On stdout, JSON objects:
``{"pid", "adopts"}`` or ``{"error"}``, ``{"exit"}`` when the server has left, ``{"survivors"}`` at the end. When the
server and all that it started have left by themselves, this process leaves, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import json
import os
import select
import signal
import subprocess
import time

TYPE_CHECKING = False
"""Known to type checkers; the module `typing` would be a tenth of the time to start."""
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CONTROL, REPORTS, LOG = 0, 1, 2
"""File descriptors: where words come from, where reports go to, where the server prints to."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_WITHOUT_NOTICE_S = 1.0
_KILL_AGAIN_S = 0.1
_ZOMBIE = "Z"


class ProcessStat:
    """What the kernel tells of a process.

    Attributes:
        state: one letter; ``Z`` has ended and waits to be asked for its status.
        parent: process id of its parent.
        session: id of its session.
        started: when it started, in clock ticks since the boot: with the id, the name of one process for ever.
    """

    __slots__ = ("parent", "session", "started", "state")

    def __init__(self, text: str) -> None:
        # The name of the program stands in parentheses, and may hold any characters.
        fields = text[text.rindex(")") + 2 :].split()
        self.state = fields[0]
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.started = int(fields[19])


def process_stat(pid: int) -> ProcessStat | None:
    """Return what the kernel tells of a process, `None` when there is no such process or no such kernel."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  - pathlib starts slowly
            return ProcessStat(file.read())
    except (OSError, ValueError, IndexError):
        return None


def descendants(root: int) -> dict[int, int]:
    """Return the living descendants of a process: process id to start time."""
    children: dict[int, list[tuple[int, ProcessStat]]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):  # noqa: PTH208  - pathlib starts slowly
            if name.isdigit() and (stat := process_stat(int(name))) is not None:
                children.setdefault(stat.parent, []).append((int(name), stat))
    found: dict[int, int] = {}
    ahead = [root]
    while ahead:
        for pid, stat in children.pop(ahead.pop(), ()):
            ahead.append(pid)
            if stat.state != _ZOMBIE:
                found[pid] = stat.started
    return found


def send_signal(pid: int, number: int, *, started: int) -> None:
    """Signal a process, if it is still the one that started then: nobody who was given its id later is signalled."""
    with contextlib.suppress(OSError):
        # A handle on the process comes first: what it names cannot change between the look and the signal.
        handle = _handle_on(pid)
        try:
            stat = process_stat(pid)
            if stat is not None and stat.started == started:
                os.kill(pid, number) if handle is None else signal.pidfd_send_signal(handle, number)
        finally:
            if handle is not None:
                os.close(handle)


def _handle_on(pid: int) -> int | None:
    """Return a handle on a process, `None` where the system has none to give.

    Raises:
        OSError: there is no such process.
    """
    try:
        return os.pidfd_open(pid)
    except AttributeError:
        return None
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return None
        raise


def _prctl(option: int, value: int) -> bool:
    """Set a property of this process; return whether that worked."""
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


def _end_with(supervisor: int) -> None:
    """In the server, before its program: be asked to end when its supervisor is killed."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:
        os._exit(1)


def _report(**facts: object) -> None:
    # Nobody may be left to read it.
    with contextlib.suppress(OSError):
        os.write(REPORTS, json.dumps(facts).encode() + b"\n")


def _start(job: dict[str, Any]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        job["command"],
        env=job["environment"],
        stdin=subprocess.DEVNULL,
        stdout=LOG,
        stderr=LOG,
        start_new_session=True,
        preexec_fn=functools.partial(_end_with, os.getpid()),  # noqa: PLW1509  - this process has one thread
    )


class Supervisor:
    """Watches one server, its descendants and the parent.

    Args:
        job: ``parent`` (process id), ``limits`` (`StopLimits` as a mapping).
        server: the started server; whoever waits for any child takes its status, so it is never asked itself.
        woken: where a byte arrives for every signal.
    """

    def __init__(self, job: dict[str, Any], server: subprocess.Popen[bytes], *, woken: int) -> None:
        self._limits: dict[str, float] = job["limits"]
        self._parent: int = job["parent"]
        self._server = server
        self._woken = woken
        self._server_lives = True
        self._childless = False
        self._asked = False
        self._abandoned = False
        self._hurry = False
        self._words = b""
        self._poll = select.poll()
        for source in (CONTROL, woken):
            self._poll.register(source, select.POLLIN)
        self._watching = self._watch_parent()

    def _watch_parent(self) -> int | None:
        """Return a handle that tells of the parent's end, `None` where there is none: then it is looked for."""
        with contextlib.suppress(OSError):
            handle = _handle_on(self._parent)
            if handle is not None:
                self._poll.register(handle, select.POLLIN)
            return handle
        return None

    def ask(self, *_: object) -> None:
        """Note that somebody wants the end: the handler of SIGTERM."""
        self._asked = True

    def run(self) -> None:
        """Watch until the server and all its descendants have left, or are to be ended; end them; tell what is left."""
        self._notice_parent()
        self._reap()
        while not (self._childless or self._asked):
            self._wait(None)
        if not self._childless:
            self._end()
        _report(survivors=sorted(descendants(os.getpid())))

    def _wait(self, limit_s: float | None) -> None:
        """Sleep until something happens, or the limit; take in what has happened."""
        if self._watching is None:
            limit_s = _WITHOUT_NOTICE_S if limit_s is None else min(limit_s, _WITHOUT_NOTICE_S)
        for source, _ in self._poll.poll(None if limit_s is None else max(0.0, limit_s * 1e3)):
            if source == self._woken:
                os.read(source, 4096)
            elif source == CONTROL:
                self._hear(os.read(source, 4096))
            else:
                self._poll.unregister(source)
        self._notice_parent()
        self._reap()

    def _hear(self, data: bytes) -> None:
        if not data:
            self._poll.unregister(CONTROL)
            self._asked = self._abandoned = True
        *words, self._words = (self._words + data).split(b"\n")
        self._asked = self._asked or bool(words)
        self._hurry = self._hurry or b"kill" in words

    def _notice_parent(self) -> None:
        if os.getppid() != self._parent:
            self._asked = self._abandoned = True

    def _reap(self) -> None:
        """Take the status of every child that has ended; orphans that were adopted are among them."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                self._childless = False
                return
            if pid == self._server.pid:
                self._server_lives = False
                self._server.returncode = os.waitstatus_to_exitcode(status)
                _report(exit=self._server.returncode)

    def _end(self) -> None:
        """Ask the server, then kill it; let the rest follow, ask it, then kill it."""
        limits = self._limits
        for number, limit_s in ((signal.SIGINT, limits["interrupt_s"]), (signal.SIGTERM, limits["terminate_s"])):
            self._signal_server(number)
            self._until(lambda: not self._server_lives, limit_s)
        self._signal_server(signal.SIGKILL)
        self._until(lambda: self._childless, limits["follow_s"])
        for number in (signal.SIGINT, signal.SIGTERM):
            if not (self._childless or self._hurry):
                self._signal_all(number)
                self._until(lambda: self._childless, limits["follow_s"])
        give_up_s = time.monotonic() + limits["kill_s"]
        while not self._childless and time.monotonic() < give_up_s:
            # Again and again: what is killed may have started something meanwhile.
            self._signal_all(signal.SIGKILL)
            self._wait(_KILL_AGAIN_S)

    def _signal_server(self, number: int) -> None:
        # Nobody else can have its id: its status was not taken yet.
        if self._server_lives and not (self._hurry and number != signal.SIGKILL):
            os.kill(self._server.pid, number)

    @staticmethod
    def _signal_all(number: int) -> None:
        for pid, started in descendants(os.getpid()).items():
            send_signal(pid, number, started=started)

    def _until(self, done: Callable[[], bool], limit_s: float) -> None:
        began_s = time.monotonic()
        while not done() and (left_s := began_s + self._bounded(limit_s) - time.monotonic()) > 0:
            self._wait(left_s)

    def _bounded(self, limit_s: float) -> float:
        """Return how long to wait: nobody may be left to wait for, and somebody may have lost patience meanwhile."""
        if self._hurry:
            return 0.0
        return min(limit_s, self._limits["abandoned_s"]) if self._abandoned else limit_s


def _read_job() -> dict[str, Any] | None:
    text = b""
    while not text.endswith(b"\n"):
        data = os.read(CONTROL, 65536)
        if not data:
            return None
        text += data
    job: dict[str, Any] = json.loads(text)
    return job


def _nothing(*_: object) -> None:
    """Handle a signal by waking up: unlike an ignored signal, a handled one is not passed on to the server."""


def _hear_signals() -> int:
    """Make every signal wake this process, and none end it; return where they arrive."""
    woken, waking = os.pipe()
    for end in (woken, waking):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, _nothing)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return woken


def main() -> None:
    """Start and supervise one server, as stdin says."""
    woken = _hear_signals()
    adopts = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    job = _read_job()
    if job is None:
        return
    try:
        server = _start(job)
    except OSError as error:
        _report(error=[error.errno, error.strerror, error.filename])
        return
    except (ValueError, subprocess.SubprocessError) as error:
        _report(error=[None, str(error), None])
        return
    supervisor = Supervisor(job, server, woken=woken)
    signal.signal(signal.SIGTERM, supervisor.ask)
    _report(pid=server.pid, adopts=adopts)
    supervisor.run()
