"""A child process with all its descendants: started in a session of its own, ended to the last one."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, NoReturn

import psutil

from pytest_specgate.core.errors import ServerError
from pytest_specgate.core.records import REDACTED, redacted_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

_INTERRUPT_S = 20.0
_TERMINATE_S = 10.0
_KILL_S = 10.0
_FOLLOW_S = 2.0
_TAIL_BYTES = 4_000_000
_TAIL_LINES = 30
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\x7f-\x9f]")
_ANSWERED = re.compile(r'"(GET|POST|HEAD) [^"]*" 2\d\d\b')


class Child:
    """One process tree of ours.

    Only processes that were seen as descendants of the child, or that live in its session, are ever signalled;
    `psutil` tells a process from a later one with the same id by its start time.

    Args:
        command: what to start.
        environment: the child's whole environment.
        log: file for everything it prints.
        secrets: texts that are never shown, whoever prints them.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], log: Path, secrets: Sequence[str] = ()
    ) -> None:
        self.log = log
        self._secrets = tuple(secrets)
        log.parent.mkdir(parents=True, exist_ok=True)
        # What a server prints may hold secrets that only it knows: nobody else reads it.
        with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:  # noqa: PTH123  - no mode in Path.open
            self._process = subprocess.Popen(
                list(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._seen: set[psutil.Process] = set()

    @property
    def pid(self) -> int:
        """Process id of the child itself, also its session id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return the exit status of the child, `None` while it lives; -9 means ended by signal 9."""
        return self._process.poll()

    def processes(self) -> frozenset[int]:
        """Look for descendants, remember them, and return the ids of all that were seen and still live."""
        with contextlib.suppress(psutil.Error):
            child = psutil.Process(self.pid)
            self._seen |= {child, *child.children(recursive=True)}
        self._seen |= set(_session_members(self.pid))
        return frozenset(process.pid for process in _living(self._seen))

    def log_tail(self) -> str:
        """Return the last lines that the child printed, without control characters and secrets.

        Access lines of requests that went well are left out: they would push the cause out of sight.
        """
        try:
            with self.log.open("rb") as file:
                start = max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
                file.seek(start)
                text = file.read().decode("utf-8", errors="replace")
        except OSError:
            return ""
        # A beginning in the middle of a line could hide what gives a secret away.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        text = text.partition("\n")[2] if start else text
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        text = redacted_text(_CONTROL.sub("", text))
        lines = [line for line in text.splitlines() if not _ANSWERED.search(line)]
        return "\n".join(lines[-_TAIL_LINES:])

    def stop(self) -> None:
        """End the child and all its descendants; quiet when they are gone already.

        Raises:
            ServerError: some process survived even SIGKILL.
        """
        try:
            self.processes()
            self._ask_to_end()
        finally:
            # Also when the user loses patience and interrupts again.
            self.processes()
            self._end_descendants()

    def _ask_to_end(self) -> None:
        for number, limit_s in ((signal.SIGINT, _INTERRUPT_S), (signal.SIGTERM, _TERMINATE_S)):
            if self._process.poll() is not None:
                return
            self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(limit_s)

    def _end_descendants(self) -> None:
        """Give what is left a moment to follow its parent, then end it.

        The child itself is waited for by the object that started it: whoever waits first takes its exit status.
        """
        descendants = [process for process in self._seen if process.pid != self.pid]
        if self._process.poll() is None:
            self._process.kill()
        _, alive = psutil.wait_procs(_living(descendants), timeout=_FOLLOW_S)
        for process in alive:
            with contextlib.suppress(psutil.Error):
                process.kill()
        _, alive = psutil.wait_procs(alive, timeout=_KILL_S)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_S)
        survivors = _living([*alive, *(process for process in self._seen if process.pid == self.pid)])
        if survivors:
            names = ", ".join(f"{process.pid}" for process in survivors)
            raise ServerError(f"processes {names} of the server could not be ended", log_tail=self.log_tail())


def _session_members(session: int) -> list[psutil.Process]:
    """Return the living processes of a session: descendants whose parent has left are found here only."""
    members = []
    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) == session:
                members.append(psutil.Process(pid))
    return members


def _living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
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
