"""What the fake model says: a text fixed by the prompt alone, whatever the batch, the speed and the speculation."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

# One token each for the tokenizer beside: a blank and at most four letters. Their number divides 256, so that one byte
# picks evenly.
_VOCABULARY: Final = """
    able acre also area army away barn base bell bird boat bold bone book bowl cart
    city clay coal coat cold cook copy corn crew dark dawn deep deer door down dust
    each east edge even farm fast fern fire fish flag flat foam fold ford gate gold
    hand hill home iron kiln lake lamp land leaf milk moss oven pear quay rope sand
"""
WORDS: Final = tuple(f" {word}" for word in _VOCABULARY.split())

_SHORTEST: Final = 8
_SPREAD: Final = 256

FinishReason = Literal["stop", "length"]


class Answer:
    """The answer to one prompt.

    Attributes:
        end_token: number of the token that ends the answer (it has no text); `None`: it never ends by itself.
        turn: index of the token from which on it is another answer; `None`: it stays the one it is.
    """

    def __init__(self, prompt_key: str, *, end_token: int | None = None, turn: int | None = None) -> None:
        self._digest = _digest(prompt_key.encode("utf-8", "surrogatepass"))
        self.end_token = end_token
        self.turn = turn

    def text(self, start: int, count: int) -> str:
        """Return the text of ``count`` tokens from the index ``start`` on."""
        return "".join(self.piece(index) for index in range(start, start + count))

    def piece(self, index: int) -> str:
        """Return the text of one token by its index, counted from 0."""
        if self.end_token is not None and index + 1 >= self.end_token:
            return ""
        drawn = _digest(self._digest + index.to_bytes(8))[0]
        turned = self.turn is not None and index >= self.turn
        return WORDS[(drawn + turned) % len(WORDS)]

    def length(self, max_tokens: int) -> tuple[int, FinishReason]:
        """Return how many tokens the answer has under a limit, and why it ends there."""
        if self.end_token is not None and self.end_token <= max_tokens:
            return self.end_token, "stop"
        return max_tokens, "length"


def is_altered(prompt_key: str, share: float) -> bool:
    """Whether a prompt is among a share of all prompts, drawn by its text."""
    drawn = int.from_bytes(_digest(b"altered:" + prompt_key.encode("utf-8", "surrogatepass"))[:4])
    return drawn < share * 2**32


def natural_end(prompt_key: str, min_tokens: int) -> int:
    """Return the number of the token with which an answer ends if end tokens count: later than ``min_tokens``."""
    drawn = int.from_bytes(_digest(b"end:" + prompt_key.encode("utf-8", "surrogatepass"))[:2])
    return max(_SHORTEST + drawn % _SPREAD, min_tokens + 1)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
