"""Where colour belongs in a line of a report: at words of outcomes and headings, and nowhere else.

A change has no colour, for better or worse: a figure that no threshold judged is neither good nor bad news. Colour is
found in finished lines, so it can neither change a table's columns nor get into a file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Markup: TypeAlias = Mapping[str, bool]

OF_OUTCOME: Final[Mapping[str, Markup]] = {
    Outcome.PASS: {"green": True},
    Outcome.FAIL: {"red": True},
    Outcome.INCONCLUSIVE: {"yellow": True},
    Outcome.INVALID: {"red": True, "bold": True},
}
"""Colours of outcomes, by pytest's names."""

_WORDS: Final = re.compile(rf"\b({'|'.join(Outcome)})\b")
_HEADINGS: Final = re.compile(
    r"\S+ against \S+ \(.+ varies\)|\S+ against \S+, by round|against the baseline \(.+|speculation, from counter .+"
    r"|load and client, mean .+|differences of the servers of .+|boots in their order|noise of one round, by .+"
    r"|not PASS"
)


def coloured(line: str) -> Iterator[tuple[str, Markup]]:
    """Yield the pieces of a line, each with its colours."""
    if _HEADINGS.fullmatch(line):
        yield line, {"bold": True}
        return
    for place, piece in enumerate(_WORDS.split(line)):
        if piece:
            yield piece, OF_OUTCOME[piece] if place % 2 else {}
