"""The metric table in the documentation is the one in the code."""

from __future__ import annotations

from pathlib import Path

from pytest_specgate.core.metrics import METRICS
from pytest_specgate.reporting.reference import metric_reference

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_documented_table_is_the_table() -> None:
    """Whoever changes a row changes the page, too."""
    assert metric_reference() in PAGE.read_text(encoding="utf-8")


def test_every_metric_has_a_row() -> None:
    """One line a metric, after the two lines of the head; all draft positions share the last one."""
    rows = metric_reference().splitlines()[2:]

    assert [row.split("`")[1] for row in rows] == [*METRICS, "acceptance_rate_position_N"]
