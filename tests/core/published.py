"""The figures of a published study, as data, and how its tests read them."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core.ceiling import ceiling
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.speculation import SpeculationDelta

if TYPE_CHECKING:
    from pytest_specgate.core.ceiling import Ceiling

HERE: Final = Path(__file__).parents[1] / "data" / "published"


def data(name: str) -> dict[str, Any]:
    """Return one file of the published figures."""
    found: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return found


def by_id(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return rows by their names, of which none stands twice."""
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


WINDOWS: Final = by_id(data("windows")["comparisons"])
CURVES: Final = by_id(data("acceptance")["curves"])
CEILING: Final = data("ceiling")
OTHERS: Final = data("others")
FINDINGS: Final = data("findings")

RECOMPUTED: Final = [name for name, row in WINDOWS.items() if row["percent"] and row["reference"]]
"""Comparisons whose percentage and whose values are printed."""

NOT_PUBLISHED: Final = [name for name, row in WINDOWS.items() if row["percent"] and not row["reference"]]
"""Comparisons of which the percentage alone is printed."""


def rounded(value: Decimal, printed: str) -> Decimal:
    """Round as many digits off as were printed."""
    return value.quantize(Decimal(printed), ROUND_HALF_UP)


def unrounded(printed: str) -> tuple[Decimal, Decimal]:
    """Return the least and the greatest value that rounds to what was printed."""
    value = Decimal(printed)
    half = Decimal((0, (5,), int(value.as_tuple().exponent) - 1))
    return value - half, value + half


def change_percent(row: dict[str, Any], reference: Decimal, candidate: Decimal) -> Decimal:
    """Return the change in percent of the reference, positive where the candidate is better."""
    change = 100 * (candidate / reference - 1)
    return change if metric(row["metric"]).higher_is_better else -change


def value_of(name: str, key: str = "candidate") -> float:
    """Return what an arm of a comparison measured."""
    return float(WINDOWS[name][key])


def counts_of(name: str) -> SpeculationDelta:
    """Return the counters of a curve."""
    row = CURVES[name]
    positions = row["accepted_per_position"] or row["chosen_per_position"]
    return SpeculationDelta(row["drafts"], row["draft_tokens"], row["accepted_tokens"], tuple(positions))


def ceiling_of_k4() -> Ceiling:
    """Return what the product computes from the published step time and acceptance length."""
    return ceiling(
        step_time_s=float(CEILING["step_time_ms"]) / 1000,
        tokens_per_step=float(CEILING["acceptance_length"]),
        k=CEILING["k"],
        target_tokens_per_s=float(CEILING["target_tokens_per_s"]),
    )
