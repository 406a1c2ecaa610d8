"""What a window does right now, and how long it may still take.

Nothing is made up: the time of a boot is that of the boots of its arm in this window, else that of an earlier window,
and where one arm that is still to come is unknown, no time is told at all.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core.levels import level_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specgate.core.levels import Level

Doing: TypeAlias = Literal["prompts", "warm-up", "point", "stopping"]
"""What a boot does once its server runs; before that it starts one."""

_STEP_S: Final = 10
_SHORT_S: Final = 90
_HOUR_S: Final = 3600
_LONG_S: Final = 100 * 60
_LONGEST_S: Final = 1e9
"""No boot takes thirty years: a clock was put back."""


@dataclasses.dataclass(frozen=True, slots=True)
class Begun:
    """A boot that begins, and what may come after it.

    Attributes:
        arm: name of the arm that is booted.
        place: which of its boots it is, in words: ``round 1 of 2: k4``, ``boot 3 of 6 of off``.
        doing: what its start does, in words: ``starting its server``.
        number: which boot of the window it is, from 1.
        after: arms of the boots that come after it, at most.
        in_round: how many of these belong to its round, which is ended once it was begun.
        sure: whether all of them come unless something fails: nothing can be decided before.
        until_s: when the time budget ends, on the clock that everything here is told by; `None` without one.
        window: which window of the session it belongs to, in words; empty where there is one only.
    """

    arm: str
    place: str
    doing: str = ""
    number: int = 1
    after: tuple[str, ...] = ()
    in_round: int = 0
    sure: bool = True
    until_s: float | None = None
    window: str = ""

    @property
    def boots(self) -> int:
        """Boots of the window at most."""
        return self.number + len(self.after)

    @property
    def full_place(self) -> str:
        """The place, with the window where there are several."""
        return f"{self.window}, {self.place}" if self.window else self.place

    @property
    def line(self) -> str:
        """What a log says of its beginning."""
        return f"{self.full_place}: {self.doing}"


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What a boot does once its server runs.

    Attributes:
        doing: the kind of step.
        words: what it is, for people: ``making prompts of 16 tokens from prose``.
        at: load level of a point; `None` for others.
        requests: how many are sent; 0 for steps that send none.
    """

    doing: Doing
    words: str = ""
    at: Level | None = None
    requests: int = 0

    @property
    def text(self) -> str:
        """The step in a few words: ``c=8, 32 requests``."""
        what = self.words or self.doing if self.at is None else level_label(self.at)
        return f"{what}, {self.requests} request{'s' if self.requests != 1 else ''}" if self.requests else what

    def line(self, arm: str) -> str:
        """Return what a log says of it in a boot of an arm; nothing of steps that are too short for a line."""
        if self.doing == "prompts":
            return self.text
        return f"{arm}: {self.text}" if self.doing == "point" else ""


@dataclasses.dataclass(frozen=True, slots=True)
class Left:
    """How long a window may still take.

    Attributes:
        seconds: never below 0.
        at_most: whether it may well be less: something can be decided early, or a time budget ends.
    """

    seconds: float
    at_most: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Forecast:
    """What is known of a running window: where it is, and what its boots took. Each event gives a new one.

    Attributes:
        earlier: seconds of a boot by arm, of an earlier window.
        took: seconds of the boots of this one, by arm; those that failed tell nothing of others.
        boot: that began last; `None` before the first.
        began_s: when it began.
        running: whether it still does.
        step: what it does; `None` while its server starts.
        step_began_s: since when.
    """

    earlier: Mapping[str, float] = dataclasses.field(default_factory=dict)
    took: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    boot: Begun | None = None
    began_s: float = 0.0
    running: bool = False
    step: Step | None = None
    step_began_s: float = 0.0

    def begun(self, boot: Begun, *, now_s: float) -> Forecast:
        """Return what is known when a boot has begun."""
        return dataclasses.replace(self, boot=boot, began_s=now_s, running=True, step=None, step_began_s=now_s)

    def stepped(self, step: Step, *, now_s: float) -> Forecast:
        """Return what is known when a boot goes on with its next step."""
        return dataclasses.replace(self, step=step, step_began_s=now_s)

    def ended(self, *, now_s: float, failed: bool) -> Forecast:
        """Return what is known when a boot has ended."""
        if self.boot is None or failed:
            return dataclasses.replace(self, running=False)
        arm = self.boot.arm
        took = {**self.took, arm: (*self.took.get(arm, ()), now_s - self.began_s)}
        return dataclasses.replace(self, running=False, took=took)

    def expected_s(self, arm: str) -> float | None:
        """Return how long a boot of an arm takes, by those of this window or an earlier one; `None` if none tells."""
        own = self.took.get(arm, ())
        value = math.fsum(own) / len(own) if own else self.earlier.get(arm)
        return value if value is not None and 0 <= value < _LONGEST_S else None

    def left(self, now_s: float) -> Left | None:
        """Return how long the window may still take; `None` where that is not known."""
        if self.boot is None:
            return None
        arms = (self.boot.arm, *self.boot.after) if self.running else self.boot.after
        expected = [self.expected_s(arm) for arm in arms]
        known = [value for value in expected if value is not None]
        if len(known) != len(expected):
            return None
        if self.running:
            known[0] = max(0.0, known[0] - max(0.0, now_s - self.began_s))
        return self._within(known, now_s)

    def _within(self, seconds: list[float], now_s: float) -> Left:
        """Return the time of the boots to come, cut by a time budget: a round that was begun is ended all the same."""
        assert self.boot is not None, "of a boot only"
        most, at_most = math.fsum(seconds), not self.boot.sure
        if self.boot.until_s is None:
            return Left(most, at_most)
        least = math.fsum(seconds[: self.boot.in_round + self.running])
        budget = max(least, self.boot.until_s - now_s)
        return Left(min(most, budget), at_most or budget < most)

    def text(self, now_s: float) -> str:
        """Return the line of a waiting user: where the window is, since when, and how long it may still take."""
        return "".join(self.parts(now_s))

    def parts(self, now_s: float) -> tuple[str, str, str]:
        """Return that line in its parts, the longest first: a narrow terminal shows less of them."""
        if self.boot is None:
            return "", "", ""
        what = self.boot.doing if self.step is None else self.step.text
        return f"{self.boot.full_place}: {what}", self._so_far_text(now_s), self._left_text(now_s)

    def _so_far_text(self, now_s: float) -> str:
        seconds = now_s - self.step_began_s
        return f", {exact_text(seconds)} so far" if seconds >= 1 else ""

    def _left_text(self, now_s: float) -> str:
        left = self.left(now_s)
        if left is None or left.seconds == 0:
            return ""
        of = " of this window" if self.boot is not None and self.boot.window else ""
        return f", {'at most' if left.at_most else 'about'} {rough_text(left.seconds)}{of} left"


def exact_text(seconds: float) -> str:
    """Return a time to the second: ``50 s``, ``1 min 10 s``, ``1 h 5 min``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < _HOUR_S:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // _HOUR_S} h {whole % _HOUR_S // 60} min"


def rough_text(seconds: float) -> str:
    """Return a time as nobody knows it better, rounded up: ``40 s``, ``4 min``, ``2 h 10 min``."""
    if seconds <= _SHORT_S:
        return f"{_STEP_S * math.ceil(seconds / _STEP_S)} s"
    if seconds <= _LONG_S:
        return f"{math.ceil(seconds / 60)} min"
    tens = math.ceil(seconds / 600)
    hours, rest = divmod(10 * tens, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"
