"""The metric table as users read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from pytest_specgate.core.metrics import EVERY_POSITION, METRICS

if TYPE_CHECKING:
    from pytest_specgate.core.metrics import Metric


def metric_reference() -> str:
    """Return the metric table in Markdown: a row for each metric, in their order, then one for all draft positions."""
    headers = ["metric", "stored as", "unit", "better", "estimator", "formula", "weighting", "source", "least n"]
    rows = [_row(row) for row in (*METRICS.values(), EVERY_POSITION)]
    return tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)


def _row(row: Metric) -> list[str]:
    least = f"{row.minimum_n} {row.counted}" if row.minimum_n > 1 else f"1 {row.counted.removesuffix('s')}"
    return [
        f"`{row.name}`",
        f"`{row.stored_key}`",
        row.unit,
        row.better if row.gated else "shown only",
        row.estimator,
        row.formula,
        row.weighting,
        row.source,
        least,
    ]
