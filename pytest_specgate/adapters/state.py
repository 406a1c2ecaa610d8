"""What runs on this machine for this user, kept in files: the next run ends what a killed one left behind."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import platform
import signal
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import psutil
from pydantic import ValidationError

from pytest_specgate.adapters.processes import DEFAULT_LIMITS, StopLimits, living, session_members, wait_gone
from pytest_specgate.adapters.supervisor import process_stat
from pytest_specgate.core.errors import ServerError, UsageError
from pytest_specgate.core.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

_VERSION: Final = 1
_TICKS_S: Final = 100
_FORGOTTEN_S: Final = 30 * 86400.0
_QUIET_S = 1.0
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """Return what this machine's kernel calls its last boot, in all containers alike; `None` where it does not tell."""
    with contextlib.suppress(OSError):
        return _BOOT_ID.read_text(encoding="utf-8").strip() or None
    return None


def state_folder(environment: Mapping[str, str]) -> Path:
    """Tell where it is kept what runs: the files of servers in its ``servers``, the locks in its ``locks``.

    That is `SPECGATE_STATE_DIR`, else `pytest-specgate` under `XDG_STATE_HOME` (ignored when empty or relative, as its
    standard says), else `~/.local/state/pytest-specgate`. It is one a user: users do not see each other's servers.

    Args:
        environment: the environment variables to read.

    Raises:
        UsageError: `SPECGATE_STATE_DIR` is empty, or there is no home folder to fall back to.
    """
    own = environment.get("SPECGATE_STATE_DIR")
    if own is not None:
        if not own.strip():
            raise UsageError("SPECGATE_STATE_DIR is empty: name a folder or unset it")
        return Path(own).expanduser().absolute()
    shared = Path(environment.get("XDG_STATE_HOME", ""))
    if shared.is_absolute():
        return shared / "pytest-specgate"
    try:
        home = Path(environment.get("HOME") or Path.home())
    except RuntimeError:
        raise UsageError("there is no home folder to note servers in: set SPECGATE_STATE_DIR to a folder") from None
    return home / ".local" / "state" / "pytest-specgate"


class Mark(Stored):
    """One process for ever: an id is given away again, but not together with its start time.

    Attributes:
        pid: process id.
        started: clock ticks from the boot of the machine to the start of the process.
    """

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Mark | None:
        """Return the mark of a process, `None` when there is none of that id."""
        stat = process_stat(pid)
        if stat is not None:
            return cls(pid=pid, started=stat.started)
        # Without the files of Linux, the same with what `psutil` knows.
        with contextlib.suppress(psutil.Error):
            return cls(pid=pid, started=round(psutil.Process(pid).create_time() * _TICKS_S))
        return None

    def process(self) -> psutil.Process | None:
        """Return the process while it lives and is this user's, `None` for a stranger that has its id now."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            # The mark is taken last: from there on `psutil` itself notices when the id is given away.
            if process.uids().real == os.getuid() and Mark.of(self.pid) == self and living([process]):
                return process
        return None


class Machine(Stored):
    """Where process ids mean something: folders of users are shared by machines and containers."""

    host: str
    boot: str
    namespace: str

    @classmethod
    def this(cls) -> Machine:
        """Return this machine since its last boot, as seen from this container."""
        boot, namespace = boot_id() or str(int(psutil.boot_time())), ""
        with contextlib.suppress(OSError):
            namespace = str(Path("/proc/self/ns/pid").readlink())
        return cls(host=platform.node(), boot=boot, namespace=namespace)


class Entry(Stored):
    """One running server.

    Attributes:
        schema_version: of the file.
        machine: where it runs.
        uid: whose it is.
        owner: the process that wanted it, and stops it.
        supervisor: its supervising process.
        processes: all of its processes that were seen.
        command: what was started, without secrets.
        started_at: wall-clock time in ISO 8601 with zone.
    """

    schema_version: Literal[1] = _VERSION
    machine: Machine
    uid: int
    owner: Mark
    supervisor: Mark | None
    processes: tuple[Mark, ...]
    command: str
    started_at: str


class Note:
    """The file of one running server.

    Args:
        path: of the file.
        entry: what it says at first.
        say: told, once, when the file cannot be written: the server runs all the same.
    """

    def __init__(self, path: Path, entry: Entry, *, say: Callable[[str], None]) -> None:
        self._path = path
        self._entry = entry
        self._say = say
        self._write()

    def update(self, pids: Iterable[int]) -> None:
        """Add processes; those that were seen before stay."""
        known = {mark.pid for mark in self._entry.processes}
        new = tuple(mark for mark in map(Mark.of, sorted(set(pids) - known)) if mark is not None)
        if new:
            self._entry = self._entry.model_copy(update={"processes": (*self._entry.processes, *new)})
            self._write()

    def remove(self) -> None:
        """Forget the server: nothing of it runs any more."""
        _remove(self._path)

    def _write(self) -> None:
        try:
            # Written whole or not at all, and for this user only.
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=".")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(self._entry.model_dump_json(indent=1))
            Path(name).replace(self._path)
        except OSError as error:
            self._say(
                f"a server cannot be noted in {self._path.parent}, so a killed run could leave it behind: {error}"
            )
            self._say = lambda _: None


class ServerNotes:
    """The files of all servers of this user.

    Args:
        folder: ``servers`` in `state_folder`; it is made when it is first needed.
        say: shows a line to the user.
        limits: how long each step of ending what was left behind may take.
    """

    def __init__(self, folder: Path, *, say: Callable[[str], None], limits: StopLimits = DEFAULT_LIMITS) -> None:
        self._folder = folder
        self._say = say
        self._limits = limits

    def add(self, pids: Iterable[int], *, supervisor: int, command: str) -> Note:
        """Note a server that runs.

        Args:
            pids: its processes.
            supervisor: its supervising process.
            command: what was started, without secrets.
        """
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = Mark.of(os.getpid())
        assert owner is not None, "this process lives"
        entry = Entry(
            machine=Machine.this(),
            uid=os.getuid(),
            owner=owner,
            supervisor=Mark.of(supervisor),
            processes=tuple(mark for mark in map(Mark.of, sorted(pids)) if mark is not None),
            command=command,
            started_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        )
        return Note(self._folder / f"{uuid.uuid4().hex}.json", entry, say=self._say)

    def reap(self) -> None:
        """End what runs of servers whose owner is gone, and say so; files that cannot be read are removed.

        Files of other machines and containers are let alone for a month; then nobody comes back for them.

        Raises:
            ServerError: some process survived even SIGKILL: nothing is to be started beside it.
        """
        for path in sorted(self._folder.glob("*.json")):
            entry = self._read(path)
            if entry is not None and _orphaned(entry):
                self._end(entry)
                _remove(path)
            elif entry is not None and entry.machine != Machine.this() and _is_old(path):
                # Nobody will come back to a container that is gone.
                _remove(path)
        for half in self._folder.glob(".*"):
            if _is_old(half):
                _remove(half)

    def _read(self, path: Path) -> Entry | None:
        try:
            return Entry.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            self._say(f"{path}, the note of a server, cannot be read: {error}")
            return None
        except ValidationError as error:
            if _of_another_version(error):
                return None
            self._say(f"{path}, the note of a server, is broken and was removed: {error.errors()[0]['msg']}")
            _remove(path)
            return None

    def _end(self, entry: Entry) -> None:
        """End what is left of a server."""
        if entry.machine != Machine.this():
            return
        self._await_supervisor(entry)
        left = _left_of(entry)
        if not left:
            return
        pids = _listed(left)
        for number, limit_s in ((signal.SIGTERM, self._limits.terminate_s), (signal.SIGKILL, self._limits.kill_s)):
            # What was left may have started something since, or have left something behind.
            left |= _left_of(entry)
            for process in living(left):
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
            self._await(left, limit_s, entry)
        survivors = living(left | _left_of(entry))
        if survivors:
            raise ServerError(
                f"processes {_listed(survivors)} {_whose(entry)} could not be ended, so nothing is started while they "
                f"live"
            )
        self._say(f"ended process {pids} {_whose(entry)}")

    def _await_supervisor(self, entry: Entry) -> None:
        """Let a supervising process that lives do its work: it began when its owner was gone."""
        supervisor = entry.supervisor and entry.supervisor.process()
        if supervisor:
            self._await([supervisor], self._limits.asking_s, entry)

    def _await(self, processes: Collection[psutil.Process], limit_s: float, entry: Entry) -> None:
        """Wait until processes are gone, so long at most; when that lasts, say for whom."""
        quiet_s = min(_QUIET_S, limit_s)
        wait_gone(processes, quiet_s)
        if limit_s > quiet_s and (left := living(processes)):
            self._say(f"waiting up to {limit_s:g} s for the end of process {_listed(left)} {_whose(entry)}")
            wait_gone(processes, limit_s - quiet_s)


def _listed(processes: Iterable[psutil.Process]) -> str:
    return ", ".join(map(str, sorted(process.pid for process in processes)))


def _whose(entry: Entry) -> str:
    return f"of a server that an earlier run left behind (since {entry.started_at}: {entry.command})"


def _remove(path: Path) -> None:
    # Another run may have removed it, and a folder that cannot be written must stop nobody.
    with contextlib.suppress(OSError):
        path.unlink()


def _is_old(path: Path) -> bool:
    """Whether a file was written longer ago than any server runs."""
    with contextlib.suppress(OSError):
        return time.time() - path.stat().st_mtime > _FORGOTTEN_S
    return False


def _of_another_version(error: ValidationError) -> bool:
    return any(problem["loc"] == ("schema_version",) for problem in error.errors())


def _orphaned(entry: Entry) -> bool:
    """Whether the owner of a server is gone for certain: of other machines and containers nothing is known here."""
    here = Machine.this()
    if entry.uid != os.getuid() or entry.machine.host != here.host:
        return False
    if entry.machine.boot != here.boot:
        return True
    return entry.machine.namespace == here.namespace and entry.owner.process() is None


def _left_of(entry: Entry) -> set[psutil.Process]:
    """Return what lives of a server: processes that were noted, what they started, and who shares their sessions."""
    marks = [*entry.processes, *([entry.supervisor] if entry.supervisor else [])]
    left = {process for process in (mark.process() for mark in marks) if process is not None}
    for process in tuple(left):
        with contextlib.suppress(psutil.Error):
            left |= set(process.children(recursive=True))
    leaders = {mark.pid for mark in entry.processes}
    return left.union(*(session_members(pid, known=left) for pid in leaders))
