"""Changes as people read them."""

from __future__ import annotations


def signed(fraction: float) -> str:
    """Return a fraction in percent with its sign: one decimal below a thousand, and no negative zero."""
    value = round(100 * fraction, 1) + 0.0
    return f"{value:+.1f}" if abs(value) < 1000 else f"{value:+.0f}"
