"""The pictures of a claim: its interval against its margin, its rounds one by one, and the factors of its speed.

Better is to the right, or up, whatever the direction of the metric is; changes keep their sign.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.reporting import svg
from pytest_specgate.reporting.svg import Scale, marker, node, path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from xml.etree.ElementTree import Element

WIDTH: Final = 360.0

_LEFT: Final = 12.0
_HEAD: Final = 18.0
_ROW: Final = 28.0
_FOOT: Final = 30.0
_REACH: Final = 1.2
"""How far an interval is drawn beyond what else there is to see, in widths of that; what is longer ends in an arrow."""

_FINEST: Final = 1e-12
"""Width of values below which they are one: no axis has ticks so close together."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One interval.

    Attributes:
        estimate: the middle; `None` where there are only single values.
        low: lower end; `None` where there is no interval.
        high: upper end.
        dots: single rounds or boots.
        label: what tells it from other rows; empty for a single one.
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    dots: tuple[float, ...] = ()
    label: str = ""

    @property
    def values(self) -> tuple[float, ...]:
        """All that must be seen, but for the ends of the interval."""
        return (*self.dots, *(() if self.estimate is None else (self.estimate,)))


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What a claim allows, and how its values are told.

    Attributes:
        rows: what was found.
        least: smallest value that the claim allows; `None` where it allows any.
        most: largest one.
        zero: where nothing changes; `None` where no change is claimed.
        higher_is_better: direction of the metric.
        text: a value as text, with its unit.
        mark: what the end of the claim is called: ``margin``.
        tick: a round value as text, where `text` would round it; `None` for the same.
    """

    rows: tuple[Row, ...]
    least: float | None
    most: float | None
    zero: float | None
    higher_is_better: bool
    text: Callable[[float], str]
    mark: str = "margin"
    tick: Callable[[float], str] | None = None

    @property
    def ends(self) -> tuple[float, ...]:
        """The ends of the claim."""
        return tuple(end for end in (self.least, self.most) if end is not None)

    def tick_text(self, value: float) -> str:
        """Return a round value as text."""
        return (self.tick or self.text)(value)

    def domain(self, *, room: float = 0.1) -> tuple[float, float]:
        """Return what a picture shows: all values, the ends of the claim, and intervals as far as they are short."""
        fixed = (() if self.zero is None else (self.zero,)) + self.ends
        seen = [*fixed, *(value for row in self.rows for value in row.values)]
        low, high = min(seen), max(seen)
        span = max(high - low, 1e-6 * max(abs(low), abs(high)))
        span = span if span > _FINEST else 0.01
        ends = [end for row in self.rows for end in (row.low, row.high) if end is not None]
        low = max(min([low, *ends]), low - _REACH * span)
        high = min(max([high, *ends]), high + _REACH * span)
        pad = room * (high - low if high - low > _FINEST else span)
        return low - pad, high + pad

    def beyond(self, domain: tuple[float, float]) -> Iterator[tuple[float, float]]:
        """Yield the parts of a domain that the claim does not allow."""
        if self.least is not None and self.least > domain[0]:
            yield domain[0], self.least
        if self.most is not None and self.most < domain[1]:
            yield self.most, domain[1]

    def words(self) -> str:
        """Return its figures as text."""
        rows = "; ".join(filter(None, (self._row_words(row) for row in self.rows)))
        ends = " and ".join(map(self.text, self.ends))
        return f"{rows or 'no figure'}. {self.mark.capitalize()} {ends}." if ends else f"{rows or 'no figure'}."

    def _row_words(self, row: Row) -> str:
        parts = [] if row.estimate is None else [f"estimate {self.text(row.estimate)}"]
        if row.low is not None and row.high is not None:
            parts.append(f"interval {self.text(row.low)} to {self.text(row.high)}")
        if row.dots:
            parts.append(f"one by one {', '.join(map(self.text, row.dots))}")
        return f"{row.label}: {', '.join(parts)}" if row.label else ", ".join(parts)


def strip(claim: Claim, *, name: str, title: str) -> str:
    """Draw intervals, one a row, against what the claim allows: what it does not allow is hatched.

    Args:
        claim: with one row or more.
        name: of the picture, unique in its page.
        title: what is drawn.
    """
    domain = claim.domain()
    label = max((svg.text_width(row.label) for row in claim.rows), default=0)
    places = (_LEFT + (label + 8 if label else 0), WIDTH - _LEFT)
    scale = Scale(domain, places if claim.higher_is_better else (places[1], places[0]))
    bottom = _HEAD + _ROW * len(claim.rows)
    return svg.picture(
        *_shades(claim, scale, top=_HEAD, bottom=bottom),
        *_below(claim, scale, top=_HEAD, bottom=bottom, places=places),
        *(part for place, row in enumerate(claim.rows) for part in _row(row, claim, scale, top=_HEAD + _ROW * place)),
        name=name,
        width=WIDTH,
        height=bottom + _FOOT,
        title=title,
        description=claim.words(),
        kind="strip",
    )


def _shades(claim: Claim, scale: Scale, *, top: float, bottom: float) -> Iterator[Element]:
    """Yield what the claim does not allow, and its ends with their values."""
    for part in claim.beyond(scale.domain):
        left, right = sorted(map(scale, part))
        yield node("rect", class_="beyond", x=left, y=top, width=right - left, height=bottom - top)
    for end in claim.ends:
        yield node("path", class_="margin", d=path([(scale(end), top - 4), (scale(end), bottom)]))
    labels = sorted((scale(end), claim.text(end)) for end in claim.ends)
    for middle, text in labels:
        shown = f"{claim.mark} {text}" if len(labels) == 1 else text
        yield node("text", shown, class_="end", x=_held(middle, shown), y=top - 7, text_anchor="middle")


def _held(middle: float, text: str) -> float:
    """Return the middle of a text that is moved so far that it stays within the picture."""
    half = svg.text_width(text) / 2
    return min(max(middle, half + 1), WIDTH - half - 1)


def _below(claim: Claim, scale: Scale, *, top: float, bottom: float, places: tuple[float, float]) -> Iterator[Element]:
    """Yield the zero line, ticks, and which way is better."""
    if claim.zero is not None:
        yield node("path", class_="zero", d=path([(scale(claim.zero), top), (scale(claim.zero), bottom)]))
    yield node("path", class_="notch", d=path([(places[0], bottom), (places[1], bottom)]))
    ticks = svg.linear_ticks(*scale.domain, most=6)
    labels = sorted((scale(tick), claim.tick_text(tick)) for tick in ticks)
    for tick in ticks:
        yield node("path", class_="notch", d=path([(scale(tick), bottom), (scale(tick), bottom + 3)]))
    for middle, text in svg.spread(((middle, text) for middle, text in labels if _held(middle, text) == middle), gap=8):
        yield node("text", text, class_="tick", x=middle, y=bottom + 14, text_anchor="middle")
    yield node("text", "\N{LEFTWARDS ARROW} worse", class_="axis", x=places[0], y=bottom + 27, text_anchor="start")
    yield node("text", "better \N{RIGHTWARDS ARROW}", class_="axis", x=places[1], y=bottom + 27, text_anchor="end")


def _row(row: Row, claim: Claim, scale: Scale, *, top: float) -> Iterator[Element]:
    middle = top + (10 if row.estimate is not None else _ROW / 2)
    below = top + (21 if row.estimate is not None else _ROW / 2)
    if row.label:
        yield node("text", row.label, class_="tick", x=_LEFT, y=middle + 4)
    if row.low is not None and row.high is not None:
        yield from _bar(row.low, row.high, scale, height=middle)
    for place, dot in enumerate(row.dots, start=1):
        tip = node("title", f"{place}: {claim.text(dot)}")
        yield node("circle", tip, class_="round", cx=scale(scale.within(dot)), cy=below, r=2.6)
    if row.estimate is not None:
        tip = node("title", f"estimate {claim.text(row.estimate)}")
        yield node("path", tip, class_="estimate", d=marker("diamond", scale(row.estimate), middle, radius=4.6))


def _bar(low: float, high: float, scale: Scale, *, height: float) -> Iterator[Element]:
    """Yield a lying interval; an end that does not fit is an arrow."""
    inner = Scale(scale.domain, scale.places)
    ends = [inner(inner.within(end)) for end in (low, high)]
    yield node("path", class_="interval", d=path([(ends[0], height), (ends[1], height)]))
    outwards = math.copysign(1, ends[0] - ends[1]) if ends[0] != ends[1] else -1.0
    for end, place, side in zip((low, high), ends, (outwards, -outwards), strict=True):
        if inner.within(end) == end:
            yield node("path", class_="interval", d=path([(place, height - 5), (place, height + 5)]))
        else:
            tip = [(place - 5 * side, height - 5), (place, height), (place - 5 * side, height + 5)]
            yield node("path", class_="interval", d=path(tip))


ROUNDS_HEIGHT: Final = 190.0


def by_round(claim: Claim, *, name: str, title: str) -> str:
    """Draw the rounds of a claim one after the other, with mean and interval, against what the claim allows.

    Args:
        claim: with a single row, which has a dot for each round.
        name: of the picture, unique in its page.
        title: what is drawn.
    """
    (row,) = claim.rows
    domain, count = claim.domain(), len(row.dots)
    top, bottom = 14.0, ROUNDS_HEIGHT - 34
    y = Scale(domain, (bottom, top) if claim.higher_is_better else (top, bottom))
    ticks = svg.linear_ticks(*domain, most=6)
    left = 8 + max(svg.text_width(claim.tick_text(tick)) for tick in ticks)
    x = Scale((0.5, count + 0.5), (left, WIDTH - 12))
    return svg.picture(
        *_round_frame(claim, x, y, ticks=ticks),
        *_round_mean(row, claim, x, y),
        *_round_dots(row, claim, x, y),
        name=name,
        width=WIDTH,
        height=ROUNDS_HEIGHT,
        title=title,
        description=claim.words(),
        kind="plot rounds",
    )


def _round_frame(claim: Claim, x: Scale, y: Scale, *, ticks: Sequence[float]) -> Iterator[Element]:
    left, right = x.places
    for part in claim.beyond(y.domain):
        upper, lower = sorted(map(y, part))
        yield node("rect", class_="beyond", x=left, y=upper, width=right - left, height=lower - upper)
    for tick in ticks:
        kind = "zero" if tick == claim.zero else "grid"
        yield node("path", class_=kind, d=path([(left, y(tick)), (right, y(tick))]))
        yield node("text", claim.tick_text(tick), class_="tick", x=left - 6, y=y(tick) + 3.6, text_anchor="end")
    for end in claim.ends:
        yield node("path", class_="margin", d=path([(left, y(end)), (right, y(end))]))
    numbers = [(x(number), f"{number}") for number in range(1, len(claim.rows[0].dots) + 1)]
    for middle, text in svg.spread(numbers):
        yield node("text", text, class_="tick", x=middle, y=ROUNDS_HEIGHT - 18, text_anchor="middle")
    yield node("text", "round", class_="axis", x=(left + right) / 2, y=ROUNDS_HEIGHT - 4, text_anchor="middle")


def _round_mean(row: Row, claim: Claim, x: Scale, y: Scale) -> Iterator[Element]:
    left, right = x.places
    if row.low is not None and row.high is not None:
        upper, lower = sorted(y(y.within(end)) for end in (row.low, row.high))
        yield node("rect", class_="band", x=left, y=upper, width=right - left, height=max(lower - upper, 0.5))
    if row.estimate is not None:
        tip = node("title", f"estimate {claim.text(row.estimate)}")
        yield node("path", tip, class_="mean", d=path([(left, y(row.estimate)), (right, y(row.estimate))]))


def _round_dots(row: Row, claim: Claim, x: Scale, y: Scale) -> Iterator[Element]:
    for place, dot in enumerate(row.dots, start=1):
        tip = node("title", f"round {place}: {claim.text(dot)}")
        yield node("circle", tip, class_="round", cx=x(place), cy=y(dot), r=4)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One factor of a change.

    Attributes:
        name: of the factor.
        change: its logarithm: these add up.
        text: the change as people read it.
        total: whether it is the whole change instead of a part of it.
        shown: whether a change was shown.
    """

    name: str
    change: float
    text: str
    total: bool = False
    shown: bool = True


STEP_HEIGHT: Final = 24.0


def waterfall(steps: Sequence[Step], *, name: str, title: str) -> str:
    """Draw factors below each other, each where the one before ended: their logarithms add up to the whole change.

    Args:
        steps: the parts, and the whole, which begins at no change.
        name: of the picture, unique in its page.
        title: what is drawn.
    """
    ends, reached = [], 0.0
    for step in steps:
        start = 0.0 if step.total else reached
        reached = start + step.change
        ends.append((start, reached))
    low, high = (pick(0.0, *(pick(both) for both in ends)) for pick in (min, max))
    pad = 0.02 * ((high - low) or 1.0)
    left = 8 + max(svg.text_width(step.name) for step in steps)
    room = 8 + max(svg.text_width(step.text) for step in steps)
    scale = Scale((low - pad, high + pad), (left, WIDTH - room - 4))
    height = STEP_HEIGHT * len(steps) + 8
    zero = node("path", class_="zero", d=path([(scale(0), 2), (scale(0), height - 2)]))
    rows = [
        part
        for place, (step, both) in enumerate(zip(steps, ends, strict=True))
        for part in _step(step, both, scale, top=4 + STEP_HEIGHT * place)
    ]
    words = ", ".join(f"{step.name} {step.text}" for step in steps)
    return svg.picture(
        zero, *rows, name=name, width=WIDTH, height=height, title=title, description=f"{words}.", kind="strip"
    )


def _step(step: Step, ends: tuple[float, float], scale: Scale, *, top: float) -> Iterator[Element]:
    left, right = sorted(map(scale, ends))
    kind = "total" if step.total else "faster" if step.change > 0 else "slower"
    shown = kind if step.shown else f"{kind} unshown"
    middle = top + STEP_HEIGHT / 2 + 3.6
    yield node("text", step.name, class_="tick", x=left_of(scale), y=middle, text_anchor="end")
    bar = node("title", f"{step.name} {step.text}")
    yield node("rect", bar, class_=shown, x=left, y=top + 4, width=max(right - left, 1.0), height=STEP_HEIGHT - 8)
    yield node("text", step.text, class_="value", x=WIDTH - 4, y=middle, text_anchor="end")


def left_of(scale: Scale) -> float:
    """Return where labels before a scale end."""
    return scale.places[0] - 6
