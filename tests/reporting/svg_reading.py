"""What a picture says, read from its text: where its marks lie, and which values its ticks give these places."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Callable

BASELINE: Final = 3.6
"""How far below the middle of a tick its text stands."""


def parsed(picture: str) -> ET.Element:
    """Return a picture as elements."""
    return ET.fromstring(picture)


def having(picture: ET.Element, name: str, tag: str = "*") -> list[ET.Element]:
    """Return the elements of a class, in the order in which they are drawn."""
    return [one for one in picture.iter() if name in one.get("class", "").split() and tag in {"*", one.tag}]


def points(data: str) -> list[tuple[float, float]]:
    """Return the corners of a path of straight lines."""
    numbers = list(map(float, re.findall(r"-?\d+(?:\.\d+)?", data)))
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def centre(mark: ET.Element) -> tuple[float, float]:
    """Return the middle of a circle or of a marker."""
    if mark.tag == "circle":
        return float(mark.get("cx", "nan")), float(mark.get("cy", "nan"))
    data = mark.get("d", "")
    if "a" in data:
        (left, height), radius = points(data.partition("a")[0])[0], float(re.findall(r"a([\d.]+)", data)[0])
        return left + radius, height
    corners = points(data)
    return tuple(math.fsum(axis) / len(corners) for axis in zip(*corners, strict=True))  # type: ignore[return-value]


def tip(mark: ET.Element) -> str:
    """Return what is told where a reader points at a mark."""
    return mark.findtext("title", "")


def values_along_y(picture: ET.Element, *, log: bool = False) -> Callable[[float], float]:
    """Return what turns a height into a value, by the ticks of the axis of values alone."""
    ticks = [one for one in having(picture, "tick", "text") if one.get("text-anchor") == "end"]
    known = [(float(one.get("y", "nan")) - BASELINE, _number(one.text or "")) for one in ticks]
    return _interpolated(known, log=log)


def values_along_x(picture: ET.Element, *, log: bool = False) -> Callable[[float], float]:
    """Return what turns a place into a value, by the ticks below a picture alone."""
    ticks = [one for one in having(picture, "tick", "text") if one.get("text-anchor") == "middle"]
    known = [(float(one.get("x", "nan")), _number(one.text or "")) for one in ticks]
    return _interpolated(known, log=log)


def _number(text: str) -> float:
    found = re.match(r"[+-]?\d+(?:\.\d+)?", text)
    assert found is not None, f"{text!r} is no tick"
    return float(found[0])


def _interpolated(known: list[tuple[float, float]], *, log: bool) -> Callable[[float], float]:
    (first, low), (last, high) = min(known), max(known)

    def value(place: float) -> float:
        share = (place - first) / (last - first)
        return low * (high / low) ** share if log else low + (high - low) * share

    return value
