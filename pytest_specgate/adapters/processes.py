"""A child process with all its descendants: started in a session of its own, ended to the last one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import psutil

from pytest_specgate.adapters import supervisor
from pytest_specgate.adapters.server_log import ServerLog, last_words
from pytest_specgate.core.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

_START_S = 60.0
_KILL_S = 10.0
_POLL_S = 0.02
_CODE: Final = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("pytest_specgate.adapters.supervisor", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.main()
"""
"""What the supervising process runs: this one file, isolated from working directory, paths and variables."""


@dataclasses.dataclass(frozen=True, slots=True)
class StopLimits:
    """How long each step of ending a server may take, in seconds.

    The server is asked with SIGINT, then with SIGTERM, then killed; what it leaves behind may follow by itself, is
    asked in the same way, then killed.

    Attributes:
        interrupt_s: for the server, after SIGINT.
        terminate_s: for the server, after SIGTERM.
        follow_s: for all that the server left: to follow by itself, after SIGINT, and after SIGTERM.
        kill_s: for what was killed.
        abandoned_s: at most for each step before the kill when the process that wanted the server is gone.
        port_s: for the port to be free again once all processes are gone.
        memory_s: for the memory of devices to be free again once all processes are gone.
    """

    interrupt_s: float = 20.0
    terminate_s: float = 10.0
    follow_s: float = 2.0
    kill_s: float = 10.0
    abandoned_s: float = 5.0
    port_s: float = 10.0
    memory_s: float = 60.0

    def scaled(self, interrupt_s: float) -> StopLimits:
        """Return limits for servers that need more, or less, time after SIGINT: all steps grow by the same factor.

        Only what is waited for when the process that wanted the server is gone stays as it is.
        """
        factor = interrupt_s / self.interrupt_s
        steps = {name: value * factor for name, value in dataclasses.asdict(self).items() if name != "abandoned_s"}
        return dataclasses.replace(self, **steps)

    @property
    def asking_s(self) -> float:
        """All steps together: more time than an end that goes as it should can take."""
        return self.interrupt_s + self.terminate_s + 3 * self.follow_s + self.killing_s

    @property
    def killing_s(self) -> float:
        """The last step, and time to tell of it."""
        return self.kill_s + self.follow_s


DEFAULT_LIMITS: Final = StopLimits()


class Child:
    """One process tree of ours, under a supervising process that outlives this one until all of the tree has ended.

    Only processes that were seen as descendants of the supervising process are ever signalled; `psutil` tells a process
    from a later one with the same id by its start time. A child that nobody stops is ended when this object, or this
    process, is gone, however that came about.

    Args:
        command: what to start.
        environment: the child's whole environment.
        log: file for everything it prints.
        secrets: texts that are never shown, whoever prints them.
        limits: how long each step of its end may take.

    Raises:
        OSError: the command cannot be run.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        log: Path,
        secrets: Sequence[str] = (),
        limits: StopLimits = DEFAULT_LIMITS,
    ) -> None:
        self.log = log
        self._printed = ServerLog(log, secrets=secrets)
        self._limits = limits
        self._seen: set[psutil.Process] = set()
        log.parent.mkdir(parents=True, exist_ok=True)
        # What a server prints may hold secrets that only it knows: nobody else reads it.
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:  # noqa: PTH123  - no mode in Path.open
            self._line = _Line(output)
        self._process = self._line.process
        job = {"command": list(command), "environment": dict(environment), "limits": dataclasses.asdict(limits)}
        try:
            self._line.begin({**job, "parent": os.getpid()})
            self._watcher = psutil.Process(self._process.pid)
            self._own = _processes_of(self.pid)
        except BaseException:
            self._line.end(limits.asking_s)
            raise

    @property
    def pid(self) -> int:
        """Process id of the child itself, also its session id."""
        pid: int = self._line.facts["pid"]
        return pid

    @property
    def supervisor_pid(self) -> int:
        """Process id of the supervising process, which is no part of the tree."""
        return self._process.pid

    @property
    def adopts(self) -> bool:
        """Whether descendants are found wherever they go; else only in the child's session, or if they were seen."""
        return bool(self._line.facts["adopts"])

    @property
    def abandoned(self) -> bool:
        """Whether the supervising process left before the child did: somebody killed it."""
        self._line.hear(0)
        return self._line.silent and "exit" not in self._line.facts

    def exit_code(self) -> int | None:
        """Return the exit status of the child, `None` while it lives; -9 means ended by signal 9.

        An `abandoned` child counts as left, also when it is deaf and lives: nobody would end it if this process were
        killed. The status of its supervising process stands for its own, which nobody knows.
        """
        if self.abandoned:
            return self._line.status()
        code: int | None = self._line.facts.get("exit")
        return code

    def left(self, when: str = "") -> str | None:
        """Say how the child left, as a sentence with its last words, `None` while it lives.

        Args:
            when: completes "its server left", as " while starting,".
        """
        code = self.exit_code()
        if code is None:
            return None
        if self.abandoned:
            return f"the process that supervises its server left with exit code {code}, so the server is ended"
        return f"its server left{when} with exit code {code}{last_words(self.log_tail())}"

    def wait(self, limit_s: float) -> int | None:
        """Wait until the child has left, so long at most; return its exit status, `None` when it still lives."""
        deadline_s = time.monotonic() + limit_s
        while (code := self.exit_code()) is None and (left_s := deadline_s - time.monotonic()) > 0:
            # Silence is no news, and would be heard at once.
            time.sleep(_POLL_S) if self._line.silent else self._line.hear(left_s)
        return code

    def processes(self) -> frozenset[int]:
        """Look for descendants, remember them, and return the ids of all that were seen and still live."""
        with contextlib.suppress(psutil.Error):
            self._seen |= set(self._watcher.children(recursive=True))
        if self._line.silent or not self.adopts:
            self._seen |= session_members(self.pid, known=[*self._own, *self._seen])
        return frozenset(process.pid for process in living(self._seen))

    def log_head(self) -> str:
        """Return the beginning of what the child printed, without control characters and secrets, in whole lines."""
        return self._printed.head()

    def log_tail(self) -> str:
        """Return the last lines that the child printed, without control characters and secrets; see `ServerLog`."""
        return self._printed.tail()

    def cleaned(self, text: str) -> str:
        """Return a text that the child may have said without control characters and secrets."""
        return self._printed.cleaned(text)

    def stop(self) -> None:
        """End the child and all its descendants; quiet when they are gone already.

        Raises:
            ServerError: some process survived even SIGKILL.
        """
        try:
            self.processes()
            self._line.say("stop")
            self._line.hear_out(self._limits.asking_s)
        finally:
            # Also when the user loses patience and interrupts again.
            self._line.say("kill")
            self._line.hear_out(self._limits.killing_s)
            self._end_the_rest()

    def _end_the_rest(self) -> None:
        """End what the supervising process left, if anything: somebody may have killed it, or stopped it."""
        self.processes()
        self._line.end(0)
        for number, limit_s in ((signal.SIGTERM, self._limits.follow_s), (signal.SIGKILL, self._limits.kill_s)):
            self.processes()
            for process in living(self._seen):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
            wait_gone(self._seen, limit_s)
        survivors = sorted(process.pid for process in living(self._seen))
        if survivors:
            names = ", ".join(map(str, survivors))
            raise ServerError(
                f"processes {names} of the server could not be ended, so nothing is started while they live",
                log_tail=self.log_tail(),
            )


class _Line:
    """The supervising process, and the line to it.

    Attributes:
        process: the supervising process.
        facts: all that was reported.
        silent: whether nothing more will be reported: the process is gone.
    """

    def __init__(self, output: IO[bytes]) -> None:
        heard, self._words = os.pipe()
        self._reports, told = os.pipe()
        # A line that is forgotten must end its server, and not leak.
        self._hang_up = weakref.finalize(self, os.close, self._words)
        self._stop_listening = weakref.finalize(self, os.close, self._reports)
        command = [sys.executable, "-I", "-c", _CODE, str(supervisor.__file__)]
        try:
            self.process = subprocess.Popen(command, stdin=heard, stdout=told, stderr=output, start_new_session=True)
        finally:
            os.close(heard)
            os.close(told)
        self.facts: dict[str, Any] = {}
        self.silent = False
        self._part = b""
        self._poll = select.poll()
        self._poll.register(self._reports, select.POLLIN)
        # Who does not listen must not keep this process waiting.
        os.set_blocking(self._words, False)
        self._room = select.poll()
        self._room.register(self._words, select.POLLOUT)

    def begin(self, job: dict[str, Any]) -> None:
        """Hand the job over, and return once the server has been started.

        Raises:
            OSError: it cannot be started.
        """
        deadline_s = time.monotonic() + _START_S
        self.say(json.dumps(job), limit_s=_START_S)
        while not (self.silent or self.facts) and (left_s := deadline_s - time.monotonic()) > 0:
            self.hear(left_s)
        if "pid" not in self.facts:
            number, text, file = self.facts.get("error", (None, "its supervising process does not start", None))
            raise OSError(text) if number is None else OSError(number, text, file)

    def say(self, words: str, *, limit_s: float = 0.0) -> None:
        """Say a line; nobody may be there to hear it, or listen so long."""
        data = f"{words}\n".encode()
        deadline_s = time.monotonic() + limit_s
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            while data and self._hang_up.alive:
                self._room.poll(max(0.0, deadline_s - time.monotonic()) * 1e3)
                data = data[os.write(self._words, data) :]

    def hear(self, wait_s: float) -> None:
        """Take in what was reported; when there is nothing new, wait for it so long."""
        while not self.silent and self._poll.poll(max(0.0, wait_s * 1e3)):
            data = os.read(self._reports, 65536)
            self.silent = not data
            *lines, self._part = (self._part + data).split(b"\n")
            for line in lines:
                self.facts.update(json.loads(line))
            wait_s = 0

    def hear_out(self, limit_s: float) -> None:
        """Listen until the process is gone, so long at most."""
        deadline_s = time.monotonic() + limit_s
        while not self.silent and (left_s := deadline_s - time.monotonic()) > 0:
            self.hear(left_s)

    def end(self, patience_s: float) -> None:
        """Hang up, which ends the server, and make sure that the process is gone."""
        self._hang_up()
        self.hear_out(patience_s)
        if not self.silent:
            self.process.kill()
        self.status()
        self.silent = True
        self._stop_listening()

    def status(self) -> int:
        """Return the exit status of the process, which is about to leave; that of a killed one if it cannot."""
        try:
            return self.process.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL


def _processes_of(pid: int) -> tuple[psutil.Process, ...]:
    """Return the process of an id, as a tuple; an empty one when it has left already."""
    with contextlib.suppress(psutil.Error):
        return (psutil.Process(pid),)
    return ()


def session_members(session: int, *, known: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Return the living processes of a session: descendants whose parent has left are found here only.

    A session is ours as long as one of the processes that are known to be ours is in it: its id is not given away
    before.
    """
    if not any(_session(process.pid) == session for process in living(known)):
        return set()
    return {process for pid in psutil.pids() if _session(pid) == session for process in _processes_of(pid)}


def _session(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


def wait_gone(processes: Iterable[psutil.Process], limit_s: float) -> None:
    """Wait until none of these processes runs any more, so long at most."""
    deadline_s = time.monotonic() + limit_s
    while living(processes) and wait_until(deadline_s, pause_s=_POLL_S):
        pass


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those processes that run; one that only waits to be asked for its status does not."""
    living = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
    return living


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an interrupt, so that servers are stopped when CI cancels the run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # What is ignored stays so: `nohup` means that the run goes on after the terminal is gone.
    heeded = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) != signal.SIG_IGN]
    earlier = {number: signal.signal(number, _interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> NoReturn:
    del frame
    raise KeyboardInterrupt(f"signal {signal.Signals(number).name}")


def wait_until(deadline_s: float, *, pause_s: float) -> bool:
    """Pause once, and return whether the monotonic deadline still lies ahead."""
    time.sleep(pause_s)
    return time.monotonic() < deadline_s
