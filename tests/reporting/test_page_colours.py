"""The style sheet of a page: colours that everybody can read and tell apart, in both themes."""

from __future__ import annotations

import importlib.resources
import itertools
import math
import re
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.reporting import svg
from pytest_specgate.reporting.plots import STYLES

if TYPE_CHECKING:
    from collections.abc import Sequence

CSS: Final = (importlib.resources.files("pytest_specgate.reporting") / "templates" / "page.css").read_text("utf-8")

TEXTS: Final = ("ink", "soft", "link", "pass", "fail", "inconclusive", "invalid", "expected", "hatch")
GROUNDS: Final = ("ground", "paper", "faint")

SIGHTS: Final[dict[str, tuple[tuple[float, float, float], ...]]] = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no green": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "no blue": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
"""What is seen of linear red, green and blue, after Machado, Oliveira and Fernandes (2009), at full severity."""


def palette(theme: str) -> dict[str, str]:
    """Return the colours of a theme by their names; dark ones replace light ones of the same name."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    )
    return light if theme == "light" else {**light, **dark}


def linear(colour: str) -> list[float]:
    """Return linear red, green and blue of a colour."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, as WCAG has it."""
    light, dark = sorted(
        (sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))
         for colour in (one, other)), reverse=True,
    )  # fmt: skip
    return (light + 0.05) / (dark + 0.05)


def lab(parts: Sequence[float]) -> tuple[float, float, float]:
    """Return a colour as CIE L*a*b*, in which distances are about as large as they look."""
    r, g, b = (min(1.0, max(0.0, part)) for part in parts)
    white = ((0.4124, 0.3576, 0.1805, 0.95047), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.08883))
    x, y, z = ((r * a + g * c + b * d) / whole for a, c, d, whole in white)
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, sight: str) -> tuple[float, float, float]:
    """Return how a colour looks to somebody."""
    parts = linear(colour)
    return lab([sum(weight * part for weight, part in zip(row, parts, strict=True)) for row in SIGHTS[sight]])


themes = pytest.mark.parametrize("theme", ["light", "dark"])


@themes
@pytest.mark.parametrize("text", TEXTS)
def test_texts_can_be_read(theme: str, text: str) -> None:
    """Every colour of text has the contrast of WCAG's AA, 4.5, on every ground."""
    colours = palette(theme)

    assert min(contrast(colours[text], colours[ground]) for ground in GROUNDS) >= 4.5


@themes
def test_lines_can_be_seen(theme: str) -> None:
    """Every colour of an arm has the contrast that WCAG's AA asks of what is drawn, 3, on the paper of plots."""
    colours = palette(theme)

    assert min(contrast(colours[f"arm-{number}"], colours["paper"]) for number in range(1, STYLES + 1)) >= 3


@themes
@pytest.mark.parametrize("sight", SIGHTS)
def test_arms_can_be_told_apart(theme: str, sight: str) -> None:
    """Any two arms differ clearly for readers with every kind of colour vision; 10 is seen at a glance."""
    colours = [seen(palette(theme)[f"arm-{number}"], sight) for number in range(1, STYLES + 1)]

    assert min(math.dist(one, other) for one, other in itertools.combinations(colours, 2)) > 20


def test_texts_of_plots_are_as_large_as_the_plots_believe() -> None:
    """Labels are spread by the width of their letters, so the style sheet must not make them larger."""
    assert re.findall(r"svg text \{[^}]*font-size: (\d+)px", CSS) == [f"{svg.FONT:g}"]


def test_every_arm_has_a_colour() -> None:
    """The style sheet has as many colours as plots use, in both themes."""
    for theme in ("light", "dark"):
        assert len({palette(theme)[f"arm-{number}"] for number in range(1, STYLES + 1)}) == STYLES
    assert set(re.findall(r"\.arm-(\d) \{", CSS)) == {f"{number}" for number in range(1, STYLES + 1)}
