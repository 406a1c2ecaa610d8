"""Amounts with their units: how gate files write them, and how reports show them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.declared import fraction_of, seconds_of
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from pytest_specgate.core.metric_definitions import Unit

_AMOUNT: Final = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>\S.*?|)\s*")
_POINTS: Final = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?:pp|points?)\s*")
_SPELLINGS: Final[dict[Unit, tuple[str, ...]]] = {
    "tokens/s": ("tokens/s", "tok/s"),
    "tokens/s/GPU": ("tokens/s/GPU", "tok/s/GPU"),
    "requests/s": ("requests/s", "/s"),
    "tokens": ("tokens", "tok", ""),
    "requests": ("requests",),
    "events": ("", "times"),
}


def amount_of(name: str, text: object, unit: Unit) -> float:
    """Read an amount with its unit, in the unit of a metric: ``"200ms"``, ``"250 tokens/s"``, ``"60%"``, ``"0"``.

    Args:
        name: what the user called it, for the message.
        text: what the user wrote.
        unit: of the metric.

    Raises:
        UsageError: there is no unit, another one, or no number.
    """
    if unit == "s":
        return seconds_of(name, text)
    match = _AMOUNT.fullmatch(text) if isinstance(text, str) else None
    if unit == "share":
        if match is not None and not match["unit"] and float(match["number"]) <= 1:
            number = _plain(100 * float(match["number"]), 6)
            raise UsageError(f"{name}={text!r} has no unit: write {name}='{number}%' if you mean that share of 1")
        return fraction_of(name, text)
    if match is None or match["unit"] not in _SPELLINGS[unit] or not math.isfinite(float(match["number"])):
        example = f"3 {_SPELLINGS[unit][0]}".strip()
        raise UsageError(f"{name}={text!r} is no amount of this metric: write a number with its unit, as {example!r}")
    return float(match["number"])


def rounded_up(value: float, *, digits: int = 2) -> str:
    """Return a number that is safe to be adopted as a limit: rounded up, to some significant digits."""
    if not value:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    return _plain(math.ceil(value / step - 1e-9) * step, digits)


def rounded_down(value: float) -> str:
    """Return a number that was not quite reached, to two decimals, never rounded up to the one that was asked for."""
    return f"{math.floor(100 * value) / 100:g}"


def points_of(text: object) -> float | None:
    """Read points of a share, ``"2pp"`` or ``"2 points"``, as a fraction (0.02); `None` for anything else."""
    match = _POINTS.fullmatch(text) if isinstance(text, str) else None
    return float(match["number"]) / 100 if match else None


def amount_text(unit: Unit, value: float, *, digits: int = 6) -> str:
    """Return an amount as a gate file would write it: ``200 ms``, ``250 tokens/s``, ``60 %``.

    Args:
        unit: of the amount.
        value: in that unit.
        digits: significant ones; digits before the point are never rounded away.
    """
    if unit == "s":
        return f"{_plain(1000 * value, digits)} ms" if value < 1 else f"{_plain(value, digits)} s"
    if unit == "share":
        return f"{_plain(100 * value, digits)} %"
    return _plain(value, digits) if unit == "events" else f"{_plain(value, digits)} {unit}"


def measured_text(unit: Unit, value: float) -> str:
    """Return a measured amount, to four significant digits."""
    return amount_text(unit, value, digits=4)


def _plain(value: float, digits: int) -> str:
    """Return a number without an exponent."""
    decimals = max(0, digits - 1 - math.floor(math.log10(value))) if value else 0
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
