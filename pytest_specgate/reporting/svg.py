"""What plots are drawn with: scales, ticks, paths and elements of SVG. Pure: values in, text out.

Colours are no matter of this module: elements carry classes, and the page's style sheet gives these their colours, so
that a plot follows the reader's theme.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final, TypeAlias
from xml.etree import ElementTree as ET

from pytest_specgate.reporting.baselines import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Point: TypeAlias = tuple[float, float]

FONT: Final = 11.0
"""Height of the text of a plot, in its own units; the style sheet says the same."""

_LETTER: Final = 0.62
"""Width of a letter over the height of its text: the fonts of plots are monospaced."""

_STEPS: Final = (1.0, 2.0, 5.0, 10.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """Values to places along one axis.

    Attributes:
        domain: the values at both ends, the smaller one first.
        places: where these two lie.
        log: whether equal ratios, not equal differences, are equally far apart; the domain is positive then.
    """

    domain: tuple[float, float]
    places: tuple[float, float]
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        (low, high), (start, end) = map(self._unrolled, self.domain), self.places
        return start + (end - start) * (self._unrolled(value) - low) / (high - low)

    def value(self, place: float) -> float:
        """Return the value at a place."""
        (low, high), (start, end) = map(self._unrolled, self.domain), self.places
        unrolled = low + (high - low) * (place - start) / (end - start)
        return math.exp(unrolled) if self.log else unrolled

    def within(self, value: float) -> float:
        """Return a value, or the end of the domain that it lies beyond."""
        return min(max(value, self.domain[0]), self.domain[1])

    def _unrolled(self, value: float) -> float:
        return math.log(value) if self.log else value


def linear_ticks(low: float, high: float, *, most: int = 6) -> tuple[float, ...]:
    """Return round values within two ends, at most so many, equally far apart; 0 is one of them where it lies within.

    Args:
        low: the lower end.
        high: the upper end, above the lower one.
        most: how many there may be, 4 or more: fewer might leave none.
    """
    least = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in _STEPS if power * factor >= least * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return tuple(place * step for place in range(first, last + 1))


def log_ticks(low: float, high: float, *, most: int = 6) -> tuple[float, ...]:
    """Return round values within two positive ends, at most so many, for a logarithmic axis.

    They are 1, 2 and 5 times powers of ten, or fewer of them where that is too many; none where no such value lies
    within.
    """
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    sparse = (((1,), every) for every in itertools.count(1))
    for factors, every in itertools.chain((((1, 2, 5), 1), ((1, 3), 1)), sparse):
        found = [factor * 10.0**power for power in powers if power % every == 0 for factor in factors]
        kept = tuple(value for value in found if low * (1 - 1e-9) <= value <= high * (1 + 1e-9))
        if len(kept) <= most:
            return kept
    raise AssertionError("one power in ever so many is at most one value")


def rounded_out(low: float, high: float, *, most: int = 6) -> tuple[float, float]:
    """Return the next round values outside two ends: the domain of an axis that ends with a tick on both sides."""
    if low == high:
        pad = abs(low) / 10 or 1.0
        low, high = low - pad, high + pad
    ticks = linear_ticks(low, high, most=most)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)


def tick_texts(ticks: Sequence[float], *, sign: bool = False) -> tuple[str, ...]:
    """Return ticks as text, all with as many decimals as one of them needs; 0 has none.

    Args:
        ticks: the values.
        sign: whether values above 0 show it, as changes do.
    """
    decimals = max(map(_decimals, ticks), default=0)
    form = f"{'+' if sign else ''}.{decimals}f"
    return tuple(f"{value:{form}}" if value else "0" for value in ticks)


def _decimals(value: float) -> int:
    near = (count for count in range(9) if math.isclose(round(value, count), value, rel_tol=1e-6))
    return next(near, 9)


def text_width(text: str, *, size: float = FONT) -> float:
    """Return how wide a text is drawn, about: its font is monospaced."""
    return len(text) * size * _LETTER


def spread(labels: Iterable[tuple[float, str]], *, gap: float = 4.0) -> Iterator[tuple[float, str]]:
    """Yield those labels that do not touch the one before them; the last one is always among them.

    Args:
        labels: middle and text, by rising middle.
        gap: least distance between two of them.
    """
    listed = list(labels)
    kept: list[tuple[float, str]] = []
    for middle, text in reversed(listed):
        right = kept[-1][0] - text_width(kept[-1][1]) / 2 if kept else math.inf
        if middle + text_width(text) / 2 + gap <= right:
            kept.append((middle, text))
    yield from reversed(kept)


def coordinate(value: float) -> str:
    """Return a place as text, to a hundredth of a unit."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def path(points: Iterable[Point], *, closed: bool = False) -> str:
    """Return the data of a path through some points; empty for none."""
    data = "L".join(f"{coordinate(x)} {coordinate(y)}" for x, y in points)
    return f"M{data}{'Z' if closed else ''}" if data else ""


def node(tag: str, *children: ET.Element | str | None, **attributes: float | str | None) -> ET.Element:
    """Return an element.

    Args:
        tag: its name.
        children: elements, and texts before the first of them; `None` is left out.
        attributes: ``class_`` stands for ``class``, ``text_anchor`` for ``text-anchor``; numbers are places, `None` is
            left out.
    """
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    element = ET.Element(
        tag, {name: one_line(value) if isinstance(value, str) else coordinate(value) for name, value in named.items()}
    )
    for child in children:
        if isinstance(child, str):
            element.text = (element.text or "") + one_line(child)
        elif child is not None:
            element.append(child)
    return element


def picture(  # noqa: PLR0913  - what every picture must have
    *children: ET.Element | None,
    name: str,
    width: float,
    height: float,
    title: str,
    description: str,
    kind: str = "plot",
) -> str:
    """Return a whole picture as text, which stands in a page as it is.

    Args:
        children: what it shows.
        name: unique in its page: ids are made of it.
        width: of its own coordinates; the page scales it.
        height: likewise.
        title: what it is, for those who do not see it.
        description: what it shows, figures included, likewise.
        kind: class of the whole picture.
    """
    ids = [f"{name}-title", f"{name}-desc"]
    root = node(
        "svg",
        node("title", title, id=ids[0]),
        node("desc", description, id=ids[1]),
        *children,
        class_=kind,
        role="img",
        aria_labelledby=" ".join(ids),
        viewBox=f"0 0 {coordinate(width)} {coordinate(height)}",
    )
    return text_of(root)


def text_of(element: ET.Element) -> str:
    """Return an element as it stands in a page."""
    return ET.tostring(element, encoding="unicode")


MARKERS: Final = ("circle", "square", "triangle", "diamond", "wedge", "plus", "hexagon", "star")
"""Shapes of points: the arms of a plot differ in them as they do in colour."""


def marker(shape: str, x: float, y: float, *, radius: float = 4.0) -> str:
    """Return the data of a path around a place, in one of the `MARKERS`; all of them are about equally large."""
    if shape == "circle":
        r, left = coordinate(radius), coordinate(x - radius)
        around = f"a{r} {r} 0 1 0"
        return f"M{left} {coordinate(y)}{around} {coordinate(2 * radius)} 0{around} {coordinate(-2 * radius)} 0Z"
    return path(((x + radius * dx, y + radius * dy) for dx, dy in _OUTLINES[shape]), closed=True)


def _regular(corners: int, *, turned: float = 0.0, radius: float = 1.0) -> tuple[Point, ...]:
    angles = (2 * math.pi * place / corners + math.radians(turned - 90) for place in range(corners))
    return tuple((radius * math.cos(angle), radius * math.sin(angle)) for angle in angles)


def _star() -> tuple[Point, ...]:
    tips = zip(_regular(5, radius=1.5), _regular(5, turned=36, radius=0.65), strict=True)
    return tuple(itertools.chain.from_iterable(tips))


_ARM: Final = 0.36
_OUTLINES: Final[dict[str, tuple[Point, ...]]] = {
    "square": _regular(4, turned=45, radius=1.25),
    "triangle": _regular(3, radius=1.35),
    "diamond": _regular(4, radius=1.35),
    "wedge": _regular(3, turned=60, radius=1.35),
    "plus": (
        (-_ARM, -1.25), (_ARM, -1.25), (_ARM, -_ARM), (1.25, -_ARM), (1.25, _ARM), (_ARM, _ARM),
        (_ARM, 1.25), (-_ARM, 1.25), (-_ARM, _ARM), (-1.25, _ARM), (-1.25, -_ARM), (-_ARM, -_ARM),
    ),
    "hexagon": _regular(6, radius=1.15),
    "star": _star(),
}  # fmt: skip
