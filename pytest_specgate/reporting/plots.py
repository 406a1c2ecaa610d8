"""The plots of a page, each from plain values: over load, over positions of a draft, over rounds, over time.

Nothing here knows a record. What is drawn lies where its scale says, has its figures as a tooltip, and stands as text
in the description of its picture.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Final

from pytest_specgate.reporting import svg
from pytest_specgate.reporting.figures import number, percent
from pytest_specgate.reporting.svg import MARKERS, Point, Scale, marker, node, path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from xml.etree.ElementTree import Element

WIDTH: Final = 360.0
HEIGHT: Final = 232.0
STYLES: Final = 8
"""Number of colours in the style sheet; beyond it they come again, with another dash."""

DASHES: Final = ("", "7 3", "2 3", "9 3 2 3", "13 4", "5 5", "2 3 2 7", "11 3 2 3 2 3")

_BOTTOM: Final = HEIGHT - 34
_TOP: Final = 12.0
_RIGHT: Final = WIDTH - 12
_DODGE: Final = 7.0
_LOG_FROM: Final = 12.0
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """What the boots of one arm measured at one place of the x axis.

    Attributes:
        x: the place, a positive number: concurrency, arrival rate, position of a draft token.
        label: the place as text.
        mean: of the boots.
        values: of single boots (of a change: rounds), in the order in which they ran.
        low: lower end of the interval of the mean; `None` where there is none.
        high: upper end.
        hollow: whether it is drawn hollow, since nobody measured it.
    """

    x: float
    label: str
    mean: float
    values: tuple[float, ...] = ()
    low: float | None = None
    high: float | None = None
    hollow: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One arm of a plot.

    Attributes:
        name: of the arm.
        style: its number in the legend, from 0: it has the same colour, marker and dash in all plots of a window.
        cells: by rising x.
        tone: class of its colour where it is not that of an arm.
    """

    name: str
    style: int
    cells: tuple[Cell, ...]
    tone: str = ""

    def text(self) -> str:
        """Return its figures as text."""
        return f"{self.name}: {', '.join(f'{cell.label} {number(cell.mean)}' for cell in self.cells)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Levels:
    """The load levels of one kind, measured or not.

    Attributes:
        name: what they are: ``concurrency``.
        labels: each as text, by its place: a positive number.
    """

    name: str
    labels: Mapping[float, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Tips:
    """How tooltips tell the values of a plot.

    Attributes:
        text: returns a value with its unit.
        one: what a single value is of: a ``boot``, or a ``round``.
    """

    text: Callable[[float], str]
    one: str = "boot"


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """A scale with its ticks as they are shown."""

    scale: Scale
    ticks: tuple[tuple[float, str], ...]


def colour(style: int) -> str:
    """Return the class that gives an arm its colour."""
    return f"arm-{style % STYLES + 1}"


def dash(style: int) -> str | None:
    """Return the dashes of an arm's lines; `None` for a whole line."""
    return DASHES[(style + style // STYLES) % len(DASHES)] or None


def shape(style: int) -> str:
    """Return the marker of an arm."""
    return MARKERS[(style + style // STYLES) % len(MARKERS)]


def swatch(style: int, *, tone: str = "") -> str:
    """Return the sample of a line and its marker that stands in a legend; it says nothing by itself."""
    data = path([(1, 8), (35, 8)])
    line = node("path", class_="line", d=data, stroke_dasharray=dash(style))
    point = node("path", class_="mark", d=marker(shape(style), 18, 8))
    group = node("g", line, point, class_=tone or colour(style))
    return svg.text_of(node("svg", group, class_="swatch", viewBox="0 0 36 16", aria_hidden="true"))


def over_load(lines: Sequence[Line], levels: Levels, *, name: str, title: str, unit: str) -> str:
    """Draw a metric of all arms over load levels, equal ratios of load equally far apart.

    Args:
        lines: one an arm, with a cell or more.
        levels: all that were asked for: a line ends where one of them has no cell.
        name: of the picture, unique in its page.
        title: what is drawn, without unit.
        unit: of the values.
    """
    y = _values([cell for line in lines for cell in line.cells])
    x = _level_axis(levels, left=_left(y), lines=len(lines))
    tips = Tips(lambda value: f"{number(value)} {unit}")
    drawn = [_line(line, x, y, tips, shift=shift) for line, shift in zip(lines, _shifts(x, len(lines)), strict=True)]
    scale = ", logarithmic" if y.scale.log else ""
    return svg.picture(
        *_frame(x, y, along=levels.name),
        *drawn,
        name=name,
        width=WIDTH,
        height=HEIGHT,
        title=f"{title} over {levels.name}",
        description=f"{title} in {unit}{scale}. {'. '.join(line.text() for line in lines)}.",
    )


def change_over_load(lines: Sequence[Line], levels: Levels, *, name: str, title: str) -> str:
    """Draw changes against a reference over load levels, with the line at which nothing changes.

    Args:
        lines: one a metric of which more is better; the values are fractions.
        levels: all that were asked for.
        name: of the picture, unique in its page.
        title: what is drawn.
    """
    cells = [cell for line in lines for cell in line.cells]
    seen = [0.0, *(value for cell in cells for value in (cell.mean, *cell.values))]
    low, high = svg.rounded_out(100 * min(seen), 100 * max(seen))
    ticks = svg.linear_ticks(low, high)
    texts = [f"{text} %" for text in svg.tick_texts(ticks, sign=True)]
    places = [tick / 100 for tick in ticks]
    y = Axis(Scale((low / 100, high / 100), (_BOTTOM, _TOP)), tuple(zip(places, texts, strict=True)))
    x = _level_axis(levels, left=_left(y), lines=len(lines))
    tips = Tips(percent, one="round")
    drawn = [_line(line, x, y, tips, shift=shift) for line, shift in zip(lines, _shifts(x, len(lines)), strict=True)]
    words = [f"{line.name}: {', '.join(f'{c.label} {percent(c.mean)}' for c in line.cells)}" for line in lines]
    return svg.picture(
        *_frame(x, y, along=levels.name),
        *drawn,
        name=name,
        width=WIDTH,
        height=HEIGHT,
        title=f"{title} over {levels.name}",
        description=f"{'. '.join(words)}.",
    )


def by_position(lines: Sequence[Line], *, name: str, title: str, cut: float | None = None) -> str:
    """Draw which share of drafts had the token of each position accepted, for all speculative arms at one load level.

    Args:
        lines: one an arm; the values are shares. With intervals they stand beside each other.
        name: of the picture, unique in its page.
        title: what is drawn.
        cut: share at which a line is drawn; `None` for none.
    """
    cells = [cell for line in lines for cell in line.cells]
    y = Axis(Scale((0, 1), (_BOTTOM, _TOP)), tuple((tick / 100, f"{tick} %") for tick in range(0, 101, 20)))
    x = _counted_axis(cells, left=_left(y))
    tips = Tips(lambda value: f"{100 * value:.1f} % of drafts")
    shifts = [0.0] * len(lines) if all(cell.low is None for cell in cells) else _shifts(x, len(lines))
    drawn = [_line(line, x, y, tips, shift=shift) for line, shift in zip(lines, shifts, strict=True)]
    texts = [f"{line.name}: {', '.join(f'{100 * cell.mean:.1f} %' for cell in line.cells)}" for line in lines]
    texts += [] if cut is None else [f"The cut lies at {100 * cut:g} %"]
    return svg.picture(
        *_frame(x, y, along="position in the draft, from 1"),
        None
        if cut is None
        else node("path", class_="margin", d=path([(_left(y), y.scale(cut)), (_RIGHT, y.scale(cut))])),
        *drawn,
        name=name,
        width=WIDTH,
        height=HEIGHT,
        title=title,
        description=f"Share of drafts whose token was accepted, by position. {'. '.join(texts)}.",
    )


def over_horizons(lines: Sequence[Line], *, name: str, title: str, unit: str) -> str:
    """Draw a figure of all draft horizons, those that nobody measured hollow.

    Args:
        lines: one a load level; a cell for each horizon that it is known of.
        name: of the picture, unique in its page.
        title: what is drawn, without unit.
        unit: of the values.
    """
    cells = [cell for line in lines for cell in line.cells]
    y = _values(cells)
    x = _counted_axis(cells, left=_left(y))
    tips = Tips(lambda value: f"{number(value)} {unit}")
    drawn = [_line(line, x, y, tips, shift=shift) for line, shift in zip(lines, _shifts(x, len(lines)), strict=True)]
    return svg.picture(
        *_frame(x, y, along="draft horizon k"),
        *drawn,
        name=name,
        width=WIDTH,
        height=HEIGHT,
        title=title,
        description=f"{title} in {unit}. {'. '.join(line.text() for line in lines)}.",
    )


def _counted_axis(cells: Sequence[Cell], *, left: float) -> Axis:
    """Return the axis of something that is counted, as positions and horizons are, with a tick for each."""
    ticks = dict.fromkeys((cell.x, cell.label) for cell in sorted(cells, key=lambda cell: cell.x))
    places = [place for place, _ in ticks]
    return Axis(Scale((places[0] - 0.5, places[-1] + 0.5), (left, _RIGHT)), tuple(ticks))


def _values(cells: Sequence[Cell]) -> Axis:
    """Return the axis of values: from 0, or logarithmic where they are far apart.

    Every boot lies within, and intervals do as far as they are not much wider than these.
    """
    seen = [value for cell in cells for value in (cell.mean, *cell.values)]
    low, high = min(seen), max(seen)
    ends = [end for cell in cells for end in (cell.low, cell.high) if end is not None]
    if low > 0 and high / low >= _LOG_FROM:
        low, high = max(min([low, *ends]), low / 2), min(max([high, *ends]), high * 2)
        low, high = low / 1.08, high * 1.08
        ticks = svg.log_ticks(low, high)
        texts = [text for tick in ticks for text in svg.tick_texts([tick])]
        return Axis(Scale((low, high), (_BOTTOM, _TOP), log=True), tuple(zip(ticks, texts, strict=True)))
    reach = (high - low) or abs(high) or 1.0
    low, high = max(min([low, *ends]), low - reach / 2), min(max([high, *ends]), high + reach / 2)
    domain = svg.rounded_out(min(low, 0.0), high)
    ticks = svg.linear_ticks(*domain)
    return Axis(Scale(domain, (_BOTTOM, _TOP)), tuple(zip(ticks, svg.tick_texts(ticks), strict=True)))


def _left(y: Axis) -> float:
    """Return where the inner of a plot begins: the ticks of its values need their place."""
    return 8 + max((svg.text_width(text) for _, text in y.ticks), default=0)


def _level_axis(levels: Levels, *, left: float, lines: int) -> Axis:
    """Return the axis of load levels; a single one lies in the middle, and arms at the outer ones have their room."""
    low, high = min(levels.labels), max(levels.labels)
    room = 10 + _DODGE * (lines - 1) / 2
    domain = (low, high) if high > low else (low / 2, high * 2)
    return Axis(Scale(domain, (left + room, _RIGHT - room), log=True), tuple(sorted(levels.labels.items())))


def _shifts(x: Axis, count: int) -> list[float]:
    """Return how far aside each arm is drawn, so that those at one level do not cover each other."""
    places = [x.scale(tick) for tick, _ in x.ticks]
    room = min((later - earlier for earlier, later in itertools.pairwise(places)), default=60.0)
    step = min(_DODGE, 0.5 * room / max(1, count - 1))
    return [step * (place - (count - 1) / 2) for place in range(count)]


def _frame(x: Axis, y: Axis, *, along: str) -> Iterator[Element]:
    """Yield grid, ticks and the name of the x axis."""
    left, right = _left(y), _RIGHT
    for tick, text in y.ticks:
        place = y.scale(tick)
        kind = "zero" if tick == 0 else "grid"
        yield node("path", class_=kind, d=path([(left, place), (right, place)]))
        yield node("text", text, class_="tick", x=left - 6, y=place + 3.6, text_anchor="end")
    if y.scale.log:
        yield node("text", "logarithmic", class_="axis", x=left + 4, y=_TOP - 3)
    for tick, _ in x.ticks:
        yield node("path", class_="notch", d=path([(x.scale(tick), _BOTTOM), (x.scale(tick), _BOTTOM + 4)]))
    for middle, text in svg.spread((x.scale(tick), text) for tick, text in x.ticks):
        yield node("text", text, class_="tick", x=middle, y=_BOTTOM + 16, text_anchor="middle")
    yield node("text", along, class_="axis", x=(left + right) / 2, y=HEIGHT - 4, text_anchor="middle")


def _line(line: Line, x: Axis, y: Axis, tips: Tips, *, shift: float) -> Element:
    """Draw one arm or metric: its intervals, its single boots or rounds, and its means, joined."""
    places = [(x.scale(cell.x) + shift, y.scale(cell.mean)) for cell in line.cells]
    data = "".join(path(part) for part in _unbroken(line, places, x) if len(part) > 1)
    joined = node("path", class_="line", d=data, stroke_dasharray=dash(line.style)) if data else None
    marks: list[Element] = []
    for cell, (across, height) in zip(line.cells, places, strict=True):
        marks += list(whisker(cell.low, cell.high, y.scale, across))
        marks += [
            node("circle", _tip(line, cell, tips.text(value), of=f"{tips.one} {place}, "),
                 class_="dot", cx=across, cy=y.scale(value), r=2)
            for place, value in enumerate(cell.values if len(cell.values) > 1 else (), start=1)
        ]  # fmt: skip
        tip = _tip(line, cell, tips.text(cell.mean))
        kind = "mark hollow" if cell.hollow else "mark"
        marks.append(node("path", tip, class_=kind, d=marker(shape(line.style), across, height)))
    return node("g", joined, *marks, class_=line.tone or colour(line.style))


def _unbroken(line: Line, places: Sequence[Point], x: Axis) -> Iterator[list[Point]]:
    """Yield the parts of a line: it ends before a tick that has no cell, since nothing is known there."""
    found = dict(zip((cell.x for cell in line.cells), places, strict=True))
    for there, ticks in itertools.groupby((tick for tick, _ in x.ticks), key=found.__contains__):
        if there:
            yield [found[tick] for tick in ticks]


def _tip(line: Line, cell: Cell, text: str, *, of: str = "") -> Element:
    return node("title", f"{line.name}, {of}{cell.label}: {text}")


def whisker(low: float | None, high: float | None, scale: Scale, across: float) -> Iterator[Element]:
    """Yield an upright interval; an end beyond the axis is cut off and has no bar."""
    if low is None or high is None:
        return
    ends = [scale(scale.within(end)) for end in (low, high)]
    yield node("path", class_="whisker", d=path([(across, ends[0]), (across, ends[1])]))
    for end, place in zip((low, high), ends, strict=True):
        if scale.within(end) == end:
            yield node("path", class_="whisker", d=path([(across - 3, place), (across + 3, place)]))
