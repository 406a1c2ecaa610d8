"""One line of a terminal that is rewritten every second, or of a log that is repeated every minute, beside a load.

The process that sends a load stamps its network reads itself, so what runs beside it must be short. One refresh takes
0.012 ms (p99 0.023 ms) on a shared two-core host, and even a hundred a second do not change how late an event loop
wakes (`benchmarks/terminal/live_line.py`). A terminal that takes nothing (Ctrl-S, a slow line) is not waited for.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self, TypeAlias

    Parts: TypeAlias = tuple[str, str, str]

PREFIX: Final = "specgate: "
EVERY_S: Final = 1.0
PLAIN_EVERY_S: Final = 60.0
ERASE: Final = "\r\x1b[K"
_COLUMNS: Final = 80
_JOIN_S: Final = 2.0


class LiveLine:
    """The line, from entering its block until leaving it.

    Args:
        descriptor: where it is written to; closed in the end.
        parts: gives what it says: what goes on, since when, how long it may still take; all empty for nothing.
        rewritten: whether it is rewritten in place every second; else it is repeated as a line of its own, after each
            minute in which nothing else was said.
        clock_s: a clock that never goes back.
    """

    def __init__(
        self,
        descriptor: int,
        parts: Callable[[], Parts],
        *,
        rewritten: bool,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._descriptor = descriptor
        self._parts = parts
        self.rewritten = rewritten
        self._clock_s = clock_s
        self._said_s = clock_s()
        self._shown = ""
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="specgate-live-line", daemon=True)
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLOUT)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(_JOIN_S)
        with self._lock:
            self._erase()
        os.close(self._descriptor)

    def refresh(self) -> None:
        """Bring it up to date now."""
        with self._lock:
            if self.rewritten:
                self._rewrite()
            elif self._clock_s() - self._said_s >= PLAIN_EVERY_S:
                self._repeat()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Keep it away while something else is written, which starts at the beginning of a line and ends one."""
        with self._lock:
            self._erase()
            yield
            self._said_s = self._clock_s()
            if self.rewritten:
                self._rewrite()

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            self.refresh()

    def _rewrite(self) -> None:
        text = fitted(self._parts(), columns=self._columns() - 1)
        if text != self._shown and self._write(f"\r{text}\x1b[K"):
            self._shown = text

    def _repeat(self) -> None:
        text = "".join(self._parts())
        if text and self._write(f"{PREFIX}{text}\n"):
            self._said_s = self._clock_s()

    def _erase(self) -> None:
        # What comes next is waited for in any case.
        if self._shown and self._write(ERASE, wait=True):
            self._shown = ""

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._descriptor).columns or _COLUMNS
        except OSError:
            return _COLUMNS

    def _write(self, text: str, *, wait: bool = False) -> bool:
        """Write, by default if that needs no waiting; a terminal that has gone away is no error of a measurement."""
        try:
            if not wait and not self._ready.poll(0):
                return False
            os.write(self._descriptor, text.encode("ascii", "replace"))
        except OSError:
            return False
        return True


def fitted(parts: Parts, *, columns: int) -> str:
    """Return a line that fits: the longest that does of several, and if none does the beginning of the shortest."""
    head, so_far, left = parts
    if not head:
        return ""
    lines = (f"{PREFIX}{head}{so_far}{left}", f"{head}{so_far}{left}", f"{head}{left}", head)
    return next((line for line in lines if len(line) <= columns), head[:columns])
