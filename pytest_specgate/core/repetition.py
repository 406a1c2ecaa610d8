"""How much a prompt repeats itself: what n-gram drafting lives on, and what any draft model finds easy.

The figure is the share of a prompt's 4-grams of tokens that stand somewhere earlier in the same prompt::

    repetitiveness = 1 - distinct 4-grams / 4-grams

This is the measure seq-rep-4 of Welleck et al., "Neural Text Generation with Unlikelihood Training" (ICLR 2020),
taken of prompts instead of continuations. N-gram drafting (prompt lookup) proposes what followed the earlier occurrence
of the last few tokens, so this is the share of places at which it finds one of four tokens within the prompt. Of a
prompt set the 4-grams of all prompts are pooled; nothing is looked up across prompts, as drafting does not either. 0 is
a text that never repeats itself; the same sentence over and over comes near 1. Acceptance differs by a factor near 3.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LENGTH: Final = 4
"""Tokens that are looked up together."""


def repetitiveness(prompts: Iterable[Sequence[int]]) -> float | None:
    """Return the share of 4-grams that stand earlier in the same prompt, over all prompts.

    Args:
        prompts: the token ids of each.

    Returns:
        A fraction from 0 to 1; `None` when no prompt has four tokens.
    """
    distinct = total = 0
    for tokens in prompts:
        grams = list(zip(*(itertools.islice(tokens, start, None) for start in range(LENGTH)), strict=False))
        distinct += len(set(grams))
        total += len(grams)
    return 1 - distinct / total if total else None
