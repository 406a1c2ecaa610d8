"""How much of a report is shown, and tables that fit a terminal."""

from __future__ import annotations

import dataclasses
import enum
import textwrap
from typing import TYPE_CHECKING, Final

from tabulate import tabulate

if TYPE_CHECKING:
    from collections.abc import Sequence

_NARROWEST: Final = 10
_WORDS: Final = 12
"""Columns in which an outcome with the name of its gate can still be read."""

_LINE_UP: Final = 2


class Detail(enum.IntEnum):
    """How much a reader wants to see, as pytest counts its ``-q`` and ``-v``."""

    OUTCOME = -2
    """One line."""
    SHORT = -1
    """What was judged, and what stands beside it where it is not PASS."""
    NORMAL = 0
    LONG = 1
    """Also what each boot measured, and how its server was started."""

    @classmethod
    def of(cls, verbosity: int) -> Detail:
        """Return what a verbosity asks for."""
        return cls(min(cls.LONG, max(cls.OUTCOME, verbosity)))


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """What a report is made for.

    Attributes:
        detail: how much is shown.
        columns: width of the terminal; `None` where lines may be of any length, as in a log or a file.
    """

    detail: Detail = Detail.NORMAL
    columns: int | None = None


FULL: Final = View()


@dataclasses.dataclass(frozen=True, slots=True)
class Narrowing:
    """What a table gives up where it does not fit.

    Attributes:
        places: of the columns, from 0.
        what: what is given up, in words.
        cells: shorter ones for each row of the one column; `None` leaves the columns out.
        slack: so many columns too many are rather wrapped.
    """

    places: tuple[int, ...]
    what: str
    cells: tuple[str, ...] | None = None
    slack: int = 0

    @classmethod
    def of(cls, headers: Sequence[str], *places: int) -> list[Narrowing]:
        """Return what leaves columns out, one after the other."""
        return [cls((place,), headers[place]) for place in places]


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table before it is written.

    Attributes:
        headers: headings of the columns.
        align: ``left`` or ``right``, of each column.
        rows: cells, which may have several lines.
    """

    headers: tuple[str, ...]
    align: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self, columns: int | None = None, *, narrowings: Sequence[Narrowing] = ()) -> str:
        """Return the table, so that it fits so many columns.

        What is worth least is left out first, and said in a line below; in the end cells of text are wrapped.
        """
        table, text, given_up = self, self.written(), list[Narrowing]()
        for narrowing in narrowings:
            if columns is None or _width(text) <= columns + narrowing.slack:
                break
            given_up.append(narrowing)
            table = self.without(given_up)
            text = table.written()
        if columns is not None:
            text = table.wrapped(columns).written()
        said = ", ".join(narrowing.what for narrowing in given_up)
        return f"{text}\n(not shown in {columns} columns: {said})" if said else text

    def written(self) -> str:
        """Return the table as wide as it is."""
        return tabulate(self.rows, headers=self.headers, colalign=self.align, disable_numparse=True, tablefmt="simple")

    def without(self, given_up: Sequence[Narrowing]) -> Table:
        """Return the table with columns left out, and others with shorter cells."""
        table = self
        for narrowing in given_up:
            if narrowing.cells is not None:
                table = table.with_cells(narrowing.places[0], narrowing.cells)
        out = {place for narrowing in given_up if narrowing.cells is None for place in narrowing.places}
        kept = [place for place in range(len(self.headers)) if place not in out]
        headers, align, *rows = (tuple(row[place] for place in kept) for row in (self.headers, self.align, *table.rows))
        return Table(headers, align, tuple(rows))

    def with_cells(self, place: int, cells: Sequence[str]) -> Table:
        """Return the table with other cells in a column."""
        rows = ((*row[:place], cell, *row[place + 1 :]) for row, cell in zip(self.rows, cells, strict=True))
        return dataclasses.replace(self, rows=tuple(rows))

    def wrapped(self, columns: int) -> Table:
        """Return the table with cells of text wrapped, as far as that is of use: the last ones, or else the widest."""
        table = self
        left = [place for place, align in enumerate(self.align) if align == "left"]
        for _ in left:
            excess = _width(table.written()) - columns
            last, widest = left[-1], max(left, key=table.width_of)
            place = last if table.width_of(last) - excess >= _WORDS else widest
            if excess <= 0 or table.width_of(place) <= _NARROWEST:
                break
            room = max(_NARROWEST, table.width_of(place) - excess)
            table = table.with_cells(place, [_filled(row[place], room) for row in table.rows])
        return table

    def width_of(self, place: int) -> int:
        """Return the width of the widest cell of a column."""
        return max((_width(row[place]) for row in self.rows), default=0)


def _width(text: str) -> int:
    return max(map(len, text.splitlines()), default=0)


def _filled(cell: str, room: int) -> str:
    return "\n".join(textwrap.fill(line, room, subsequent_indent=" " * _LINE_UP) for line in cell.splitlines())
