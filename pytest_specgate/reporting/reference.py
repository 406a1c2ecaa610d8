"""The metric table as users read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from pytest_specgate.core.metrics import METRICS

if TYPE_CHECKING:
    from pytest_specgate.core.metrics import Metric


def metric_reference() -> str:
    """Return the metric table in Markdown: one row a metric, in the order of the table."""
    headers = ["metric", "stored as", "unit", "better", "estimator", "formula", "weighting", "source", "least n"]
    return tabulate([_row(row) for row in METRICS.values()], headers=headers, tablefmt="github", disable_numparse=True)


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
