"""The prefix cache of an engine, as a model: which blocks of prompts are there, not what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def block_chain(tokens: Sequence[int], block_size: int) -> tuple[int, ...]:
    """Return one key for each full block of a prompt; it stands for the block and all blocks before it."""
    chain: list[int] = []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        chain.append(hash((chain[-1] if chain else 0, *tokens[start : start + block_size])))
    return tuple(chain)


class PrefixCache:
    """Blocks of earlier prompts; the ones used longest ago are dropped first.

    As in vLLM, a prompt is found as far as its leading full blocks are there, and never as a whole: its last token must
    be computed to get the first one of the answer. Blocks of answers are not kept here.

    Args:
        block_size: tokens of a block.
        capacity: most blocks kept.
    """

    def __init__(self, block_size: int, *, capacity: int) -> None:
        self._block_size = block_size
        self._capacity = capacity
        self._blocks: dict[int, None] = {}

    def admit(self, chain: Sequence[int], prompt_tokens: int) -> int:
        """Return how many leading tokens of a prompt are there, and keep all its full blocks from now on."""
        usable = chain[: (prompt_tokens - 1) // self._block_size]
        found = next((index for index, key in enumerate(usable) if key not in self._blocks), len(usable))
        # The head of a prompt is worth more than its tail, so it is touched last.
        for key in reversed(chain):
            self._blocks.pop(key, None)
            self._blocks[key] = None
        while len(self._blocks) > self._capacity:
            del self._blocks[next(iter(self._blocks))]
        return found * self._block_size
