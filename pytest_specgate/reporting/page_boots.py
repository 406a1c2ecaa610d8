"""The pictures of a window's boots: when each of them ran, and whether their figures drift from boot to boot."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.reporting import svg
from pytest_specgate.reporting.figures import percent
from pytest_specgate.reporting.plots import colour, shape
from pytest_specgate.reporting.svg import Scale, marker, node, path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from xml.etree.ElementTree import Element

WIDTH: Final = 360.0
DRIFT_HEIGHT: Final = 190.0

_ROW: Final = 20.0
_NAME: Final = 14
"""Letters of an arm's name that fit beside its bar."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One boot.

    Attributes:
        number: its place in the window, from 1.
        arm: its name.
        style: of the arm, as in all plots of the window.
        start_s: of its server, after the start of the window.
        ready_s: its first answered completion; `None` when that never came.
        end_s: when its server was gone, as far as that is known.
        problem: why it cannot be judged; empty where nothing is wrong.
    """

    number: int
    arm: str
    style: int
    start_s: float
    ready_s: float | None
    end_s: float
    problem: str = ""

    def text(self) -> str:
        """Return its times as text."""
        ready = "never ready" if self.ready_s is None else f"ready after {self.ready_s - self.start_s:.0f} s"
        return f"boot {self.number}, {self.arm}: from {self.start_s:.0f} s to {self.end_s:.0f} s, {ready}"


def timeline(bars: Sequence[Bar], *, name: str, title: str) -> str:
    """Draw boots below each other over time: starting up in a light shade, then serving.

    Args:
        bars: in the order in which they ran.
        name: of the picture, unique in its page.
        title: what is drawn.
    """
    unit, length = ("min", 60.0) if max(bar.end_s for bar in bars) >= 300 else ("s", 1.0)
    labels = [f"{bar.number} {cut(bar.arm)}" for bar in bars]
    left = 8 + max(map(svg.text_width, labels))
    scale = Scale((0, max(bar.end_s for bar in bars) or 1.0), (left, WIDTH - 10))
    bottom = 6 + _ROW * len(bars)
    rows = [
        part
        for place, (bar, label) in enumerate(zip(bars, labels, strict=True))
        for part in _bar(bar, label, scale, top=4 + _ROW * place)
    ]
    return svg.picture(
        *_time_axis(scale, bottom=bottom, unit=unit, length=length),
        *rows,
        name=name,
        width=WIDTH,
        height=bottom + 32,
        title=title,
        description=f"{'. '.join(bar.text() for bar in bars)}.",
        kind="plot timeline",
    )


def cut(text: str, *, most: int = _NAME) -> str:
    """Return a text that fits, with an ellipsis where its middle is missing: names of arms differ at their ends."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[head + 1 - most :]}"


def _time_axis(scale: Scale, *, bottom: float, unit: str, length: float) -> Iterator[Element]:
    ticks = svg.linear_ticks(0, scale.domain[1] / length, most=6)
    texts = svg.tick_texts(ticks)
    for tick in ticks:
        place = scale(tick * length)
        yield node("path", class_="grid", d=path([(place, 2), (place, bottom)]))
    for middle, text in svg.spread((scale(tick * length), text) for tick, text in zip(ticks, texts, strict=True)):
        yield node("text", text, class_="tick", x=middle, y=bottom + 14, text_anchor="middle")
    across = sum(scale.places) / 2
    yield node("text", f"since the first start [{unit}]", class_="axis", x=across, y=bottom + 28, text_anchor="middle")


def _bar(bar: Bar, label: str, scale: Scale, *, top: float) -> Iterator[Element]:
    ready = bar.end_s if bar.ready_s is None else min(bar.ready_s, bar.end_s)
    tip = node("title", f"{bar.text()}{f'; {bar.problem}' if bar.problem else ''}")
    yield node("text", label, class_="tick", x=scale.places[0] - 6, y=top + 12, text_anchor="end")
    starting, serving = (
        node("rect", class_=kind, x=scale(start), y=top + 3, width=max(scale(end) - scale(start), 0.5), height=_ROW - 8)
        for kind, start, end in (("starting", bar.start_s, ready), ("serving", ready, bar.end_s))
    )
    cross = None
    if bar.problem:
        cross = node(
            "text", "\N{MULTIPLICATION X}", class_="cross", x=scale(bar.end_s) - 2, y=top + 13, text_anchor="end"
        )
    yield node("g", tip, starting, serving, cross, class_=colour(bar.style))


@dataclasses.dataclass(frozen=True, slots=True)
class Deviation:
    """How far a boot's figures lie from the mean of its arm.

    Attributes:
        number: place of the boot in the window, from 1.
        arm: its name.
        style: of the arm.
        mean: over load levels, a fraction.
        levels: at each level, a fraction.
    """

    number: int
    arm: str
    style: int
    mean: float
    levels: tuple[float, ...]


def drift(found: Sequence[Deviation], *, boots: int, name: str, title: str) -> str:
    """Draw how far boots lie from the mean of their arm, in the order in which they ran.

    Args:
        found: those with figures.
        boots: of the window in all.
        name: of the picture, unique in its page.
        title: what is drawn.
    """
    reach = max(0.005, *(abs(value) for one in found for value in (one.mean, *one.levels)))
    low, high = svg.rounded_out(-100 * reach, 100 * reach, most=6)
    ticks = svg.linear_ticks(low, high, most=7)
    texts = [f"{text} %" for text in svg.tick_texts(ticks, sign=True)]
    left = 8 + max(map(svg.text_width, texts))
    x = Scale((0.5, boots + 0.5), (left, WIDTH - 12))
    y = Scale((low / 100, high / 100), (DRIFT_HEIGHT - 34, 12))
    return svg.picture(
        *_drift_frame(x, y, ticks=list(zip(ticks, texts, strict=True)), boots=boots),
        *_joined(found, x, y),
        *(_deviation(one, x, y) for one in found),
        name=name,
        width=WIDTH,
        height=DRIFT_HEIGHT,
        title=title,
        description=f"{'. '.join(f'boot {one.number}, {one.arm}: {percent(one.mean)}' for one in found)}.",
    )


def _drift_frame(x: Scale, y: Scale, *, ticks: Sequence[tuple[float, str]], boots: int) -> Iterator[Element]:
    left, right = x.places
    for tick, text in ticks:
        place = y(tick / 100)
        yield node("path", class_="grid" if tick else "zero", d=path([(left, place), (right, place)]))
        yield node("text", text, class_="tick", x=left - 6, y=place + 3.6, text_anchor="end")
    for middle, text in svg.spread((x(number), f"{number}") for number in range(1, boots + 1)):
        yield node("text", text, class_="tick", x=middle, y=DRIFT_HEIGHT - 18, text_anchor="middle")
    yield node("text", "boot", class_="axis", x=(left + right) / 2, y=DRIFT_HEIGHT - 4, text_anchor="middle")


def _joined(found: Sequence[Deviation], x: Scale, y: Scale) -> Iterator[Element]:
    for style in dict.fromkeys(one.style for one in found):
        places = [(x(one.number), y(one.mean)) for one in found if one.style == style]
        if len(places) > 1:
            yield node("g", node("path", class_="line faint", d=path(places)), class_=colour(style))


def _deviation(one: Deviation, x: Scale, y: Scale) -> Element:
    tip = node("title", f"boot {one.number}, {one.arm}: {percent(one.mean)} from the mean of its arm")
    dots = [node("circle", class_="dot", cx=x(one.number), cy=y(value), r=2) for value in one.levels]
    mark = node("path", tip, class_="mark", d=marker(shape(one.style), x(one.number), y(one.mean)))
    return node("g", *(dots if len(dots) > 1 else ()), mark, class_=colour(one.style))
