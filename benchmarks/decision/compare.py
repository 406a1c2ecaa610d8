"""Comparison with the published figures, within what two simulations may differ by."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.decision.simulation import Rates
    from benchmarks.decision.tables import Table

SAMPLES: Final = 200_000
"""Runs behind each published figure."""

ROUNDING: Final = 0.0005
"""Half the last digit of a published share."""

ROUNDS: Final = 0.02
"""What mean rounds may differ by."""

_PUBLISHED: Final = Path(__file__).with_name("published.json")


def count_published() -> int:
    """Return how many figures are published."""
    cells = [cell for rows in _published().values() for row in rows.values() for cell in row.values()]
    return sum(figure is not None for cell in cells for figure in cell)


def disagreements(tables: Iterable[Table]) -> Iterator[str]:
    """Name every published cell that the simulation does not reproduce."""
    simulated = {table.name: table.cells for table in tables}
    for name, rows in _published().items():
        for row, cells in rows.items():
            for column, figures in cells.items():
                found = simulated[name][row][column]
                yield from (f"{name}, {row}, {column}: {text}" for text in _wrong(figures, found))


def allowed(published: float, simulated: float, *, samples: int) -> bool:
    """Whether two shares agree: three standard errors of their difference, and the rounding of what is published."""
    error = math.sqrt(published * (1 - published) * (1 / SAMPLES + 1 / samples))
    return abs(published - simulated) <= 3 * error + ROUNDING


def _wrong(figures: list[float | None], found: Rates) -> Iterator[str]:
    passed, failed, rounds = figures
    for word, percent, share in (("PASS", passed, found.passed), ("FAIL", failed, found.failed)):
        if percent is not None and not allowed(percent / 100, share, samples=found.samples):
            yield f"{word} {100 * share:.3f} %, published {percent:g} %"
    if rounds is not None and abs(rounds - found.rounds) > ROUNDS:
        yield f"{found.rounds:.3f} rounds, published {rounds:g}"


def _published() -> dict[str, dict[str, dict[str, list[float | None]]]]:
    found: dict[str, dict[str, dict[str, list[float | None]]]] = json.loads(_PUBLISHED.read_text())
    return found
