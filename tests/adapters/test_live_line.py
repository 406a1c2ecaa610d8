"""The line that is rewritten on a terminal, or repeated in a log: short, erased in time, and in nobody's way."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import termios
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters import live_line
from pytest_specgate.adapters.live_line import ERASE, PREFIX, LiveLine, fitted

if TYPE_CHECKING:
    from collections.abc import Iterator

WHERE = ("round 1 of 2: k4: c=32", ", 1 min 10 s so far", ", about 4 min left")
NOTHING = ("", "", "")


class Log:
    """A pipe that stands for what pytest writes to, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        self.now_s = 0.0
        self.parts = WHERE

    def line(self, *, rewritten: bool) -> LiveLine:
        """Return a line that is written here."""
        return LiveLine(os.dup(self.writing), lambda: self.parts, rewritten=rewritten, clock_s=lambda: self.now_s)

    def fill(self) -> None:
        """Write until nothing more is taken."""
        os.set_blocking(self.writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(self.writing, b"x" * 65536)
        os.set_blocking(self.writing, True)

    def text(self) -> str:
        """Return what was written since this was last asked for."""
        try:
            return os.read(self.reading, 65536).decode()
        except BlockingIOError:
            return ""


@pytest.fixture
def log() -> Iterator[Log]:
    """A pipe of its own."""
    one = Log()
    yield one
    os.close(one.reading)
    os.close(one.writing)


def test_it_is_rewritten_in_place_and_erased_in_the_end(log: Log) -> None:
    """Each state returns to the beginning of the line and clears what a longer one left; the end clears it all."""
    with log.line(rewritten=True) as line:
        line.refresh()
        log.parts = ("round 1 of 2: k4: stopping its server", "", "")
        line.refresh()

    assert log.text() == (
        f"\r{PREFIX}{''.join(WHERE)}\x1b[K\r{PREFIX}round 1 of 2: k4: stopping its server\x1b[K{ERASE}"
    )


def test_it_is_erased_when_measuring_fails(log: Log) -> None:
    """An error leaves no half of it on the screen."""

    def fail() -> None:
        with log.line(rewritten=True) as line:
            line.refresh()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert log.text().endswith(f"\x1b[K{ERASE}")


def test_what_does_not_change_is_not_written_again(log: Log) -> None:
    """Two looks at one state are one write."""
    with log.line(rewritten=True) as line:
        line.refresh()
        log.text()
        line.refresh()

        assert log.text() == ""


def test_nothing_to_say_writes_nothing(log: Log) -> None:
    """Before the first boot there is no line, and so nothing to erase."""
    log.parts = NOTHING
    with log.line(rewritten=True) as line:
        line.refresh()

    assert log.text() == ""


def test_it_makes_room_for_other_lines(log: Log) -> None:
    """It is gone before another line begins, and back when that has ended."""
    with log.line(rewritten=True) as line:
        line.refresh()
        log.text()
        with line.away():
            os.write(log.writing, b"specgate: a server died\n")

        assert log.text() == f"{ERASE}specgate: a server died\n\r{PREFIX}{''.join(WHERE)}\x1b[K"


def test_a_log_gets_one_line_a_minute(log: Log) -> None:
    """It is repeated when nothing else was said for a minute, never rewritten, and not erased."""
    with log.line(rewritten=False) as line:
        for log.now_s in (30.0, 59.0, 60.0, 61.0, 119.0, 120.0):
            line.refresh()

    assert log.text() == 2 * f"{PREFIX}{''.join(WHERE)}\n"


def test_a_minute_begins_anew_with_every_other_line(log: Log) -> None:
    """Who has just said something need not repeat where the window is."""
    with log.line(rewritten=False) as line:
        log.now_s = 59.0
        with line.away():
            pass
        log.now_s = 118.0
        line.refresh()

        assert log.text() == ""


def test_it_refreshes_itself(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to ask for it."""
    monkeypatch.setattr(live_line, "EVERY_S", 0.001)
    os.set_blocking(log.reading, True)
    with log.line(rewritten=True):
        found = os.read(log.reading, 65536).decode()

    assert found.startswith(f"\r{PREFIX}round 1 of 2: k4")


def test_a_terminal_that_takes_nothing_is_not_waited_for(log: Log) -> None:
    """A full pipe, as of a terminal stopped with Ctrl-S, holds up no refresh; it is tried again later."""
    with log.line(rewritten=True) as line:
        log.fill()
        line.refresh()
        while "x" in log.text():
            pass
        line.refresh()

        assert log.text() == f"\r{PREFIX}{''.join(WHERE)}\x1b[K"


def test_a_terminal_that_has_gone_away_is_no_error(log: Log) -> None:
    """A closed connection ends no measurement."""
    reading, writing = os.pipe()
    os.close(reading)
    with LiveLine(writing, lambda: WHERE, rewritten=True) as line:
        line.refresh()

    assert log.text() == ""


def test_it_fits_the_terminal_as_it_is_now() -> None:
    """On 60 columns it leaves out what they cannot show, and never reaches the last one, where a line would wrap."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
        with LiveLine(os.dup(theirs), lambda: WHERE, rewritten=True) as line:
            line.refresh()
            shown = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.close(theirs)

    assert shown == "\rround 1 of 2: k4: c=32, 1 min 10 s so far, about 4 min left\x1b[K"


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (69, "specgate: round 1 of 2: k4: c=32, 1 min 10 s so far, about 4 min left"),
        (68, "round 1 of 2: k4: c=32, 1 min 10 s so far, about 4 min left"),
        (58, "round 1 of 2: k4: c=32, about 4 min left"),
        (39, "round 1 of 2: k4: c=32"),
        (20, "round 1 of 2: k4: c="),
        (1, "r"),
        (0, ""),
    ],
)
def test_narrow_terminals_show_less(columns: int, line: str) -> None:
    """The name of the tool goes first, then the time of the step; where the window is stays."""
    assert fitted(WHERE, columns=columns) == line


def test_nothing_fits_everywhere() -> None:
    """No place, no line."""
    assert fitted(NOTHING, columns=80) == ""
