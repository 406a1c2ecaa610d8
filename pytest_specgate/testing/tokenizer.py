"""A tokenizer without a vocabulary file: deterministic, sub-word-like, the same in every process."""

from __future__ import annotations

import functools
import hashlib
import re
import string
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

VOCABULARY_SIZE: Final = 49152

# Every character matches one of the branches, so the pieces of a text, joined, are the text.
_PIECE: Final = re.compile(
    r"""
      [ ]?[^\W\d_]{1,4}     # up to four letters with the blank before them
    | \d                    # digits one by one
    | \n
    | [ ]{1,8}(?=[ ])       # indentation; the last blank belongs to the word after it
    | .                     # punctuation and everything else one by one
    """,
    re.VERBOSE | re.DOTALL,
)


def split_pieces(text: str) -> list[str]:
    """Cut a text into the pieces that are its tokens; joined, they are the text again."""
    return _PIECE.findall(text)


@functools.lru_cache(maxsize=65536)
def token_id(piece: str) -> int:
    """Return the id of a piece: a hash, so two processes agree on it whatever they saw before."""
    digest = hashlib.blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) % VOCABULARY_SIZE


class Tokenizer:
    """Encodes texts, and decodes ids of the pieces it has encoded.

    Ids are hashes, so two pieces may share one; the piece seen last is then what the id decodes to. Numbering pieces
    in the order seen would avoid that, but would make ids differ from process to process.
    """

    def __init__(self) -> None:
        self._pieces: dict[int, str] = {}

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text."""
        pieces = split_pieces(text)
        ids = [token_id(piece) for piece in pieces]
        self._pieces.update(zip(ids, pieces, strict=True))
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids; an id never seen becomes a made-up word of four letters."""
        return "".join(self.piece(number) for number in ids)

    def piece(self, number: int) -> str:
        """Return the piece that an id stands for."""
        return self._pieces.get(number) or _made_up(number)


def _made_up(number: int) -> str:
    letters = ""
    for _ in range(4):
        number, letter = divmod(number, len(string.ascii_lowercase))
        letters += string.ascii_lowercase[letter]
    return f" {letters}"
