"""Single figures as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core.percent import signed

if TYPE_CHECKING:
    from pytest_specgate.core.metrics import Metric


_SCALES: Final = {"s": 1000, "share": 100}


def value_text(row: Metric, value: float) -> str:
    """Return a metric's value in the unit people read: milliseconds for times, percent for shares."""
    return number(value * _SCALES.get(row.unit, 1))


def unit_text(row: Metric) -> str:
    """Return the unit that `value_text` uses."""
    return {"s": "ms", "share": "%"}.get(row.unit, row.unit)


def number(value: float) -> str:
    """Return a figure with four significant digits, and no exponent in the usual range."""
    if value >= 1000:
        return f"{value:.0f}"
    # 99.996 has four significant digits as 100.0, and must not become 100.00.
    rounded = float(f"{value:.4g}")
    decimals = next((digits for limit, digits in ((1000, 0), (100, 1), (10, 2), (1, 3)) if rounded >= limit), 4)
    return f"{value:.{decimals}f}"


def percent(fraction: float) -> str:
    """Return a signed percentage."""
    return f"{signed(fraction)} %"


def span(low: float | None, high: float | None, *, points: bool = False) -> str:
    """Return an interval of changes, or a dash where there is none.

    Args:
        low: its lower end, a fraction.
        high: its upper end.
        points: whether the changes are in points of a share instead of relative.
    """
    if low is None or high is None:
        return "-"
    return f"{signed(low)} .. {signed(high)} {'points' if points else '%'}"


def two_digits(value: float) -> str:
    """Return a figure with two significant digits, and no exponent where it is large."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2g}"
