"""How many tokens a decode step gives where only some steps draft.

A share d of all tokens comes from steps that draft, L tokens from each (acceptance length), the rest from steps that
give one::

    T = 1 / ((1 - d) + d / L)         d = (1 - 1 / T) / (1 - 1 / L)

tokens per step. What the ends of answers cut off of drafts lowers d.
"""

from __future__ import annotations

from typing import Final

_ROUNDING: Final = 1e-9


def mixed(share: float, length: float) -> float:
    """Return tokens per step.

    Args:
        share: of tokens that come from steps that draft, a fraction.
        length: tokens of a step that drafted.
    """
    return length if share == 1 else 1 / ((1 - share) + share / length)


def drafted_share(tokens_per_step: float, length: float) -> float | None:
    """Return the share of tokens that come from steps that draft; `None` where these give one token, as all do.

    Args:
        tokens_per_step: output tokens of a decode step, drafted or not.
        length: tokens of a step that drafted.
    """
    saved = 1 - 1 / length
    if not saved:
        return None
    share = max(0.0, (1 - 1 / tokens_per_step) / saved)
    # The quotient of two rounded figures.
    return share if share < 1 - _ROUNDING else 1.0
