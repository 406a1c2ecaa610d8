"""What is told of a window while it runs: lines of a log, or one line that is shown anew."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.progress import WatchedProgress, unwatched
from pytest_specgate.core.progress import Begun, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_specgate.adapters.live_line import Parts

BEGUN = Begun("k4", "round 1 of 2: k4", "starting its server", after=("off",))


class Screen:
    """Somebody who watches: what was said, and what the line was whenever it was shown."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.shown: list[str] = []
        self.now_s = 0.0
        self.progress = WatchedProgress(self.said.append, clock_s=lambda: self.now_s, earlier={"k4": 60.0, "off": 30.0})

    @contextlib.contextmanager
    def watch(self, parts: Callable[[], Parts]) -> Iterator[Callable[[], None]]:
        """Show the line whenever it is asked for."""
        yield lambda: self.shown.append("".join(parts()))

    def run(self) -> None:
        """Let a boot begin, send its warm-up and a point, and end."""
        self.progress.begin(BEGUN)
        self.progress.step(Step("warm-up", requests=4))
        self.now_s = 20.0
        self.progress.step(Step("point", at=8, requests=32))
        self.progress.say("a word besides")
        self.progress.end(failed=False)


def test_a_log_gets_every_step_as_a_line() -> None:
    """Where nothing is rewritten, boots and points are lines, and what is over at once is none."""
    screen = Screen()
    with screen.progress.shown(unwatched):
        screen.run()

    assert screen.said == ["round 1 of 2: k4: starting its server", "k4: c=8, 32 requests", "a word besides"]


def test_a_terminal_gets_every_step_in_one_line() -> None:
    """Where a line is rewritten, steps are shown there, with the time that is left, and other words are lines."""
    screen = Screen()
    with screen.progress.shown(screen.watch):
        screen.run()

    assert screen.said == ["a word besides"]
    assert screen.shown == [
        "round 1 of 2: k4: starting its server, about 90 s left",
        "round 1 of 2: k4: warm-up, 4 requests, about 90 s left",
        "round 1 of 2: k4: c=8, 32 requests, about 70 s left",
    ]


def test_after_the_block_nothing_is_shown() -> None:
    """Who has stopped to watch, also because of an error, is told by lines again."""
    screen = Screen()
    with pytest.raises(KeyError), screen.progress.shown(screen.watch):
        raise KeyError
    screen.progress.begin(BEGUN)

    assert screen.shown == []
    assert screen.said == ["round 1 of 2: k4: starting its server"]


def test_what_a_boot_took_is_known_when_it_has_ended() -> None:
    """A boot of twenty seconds makes the next one of its arm as long."""
    screen = Screen()
    with screen.progress.shown(unwatched):
        screen.run()
        screen.progress.begin(Begun("k4", "round 2 of 2: k4", "starting its server"))

    assert "".join(screen.progress.parts()).endswith("starting its server, about 20 s left")


def test_a_step_before_any_boot_is_told_all_the_same() -> None:
    """A line without an arm is better than none."""
    screen = Screen()
    screen.progress.step(Step("prompts", words="making prompts"))

    assert screen.said == ["making prompts"]
    assert screen.progress.parts() == ("", "", "")
