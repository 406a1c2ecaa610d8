"""Tables as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, with a line end after the last row."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
