"""The metric table: every row complete, with its unit, its direction and the requests that it needs."""

from __future__ import annotations

import pytest

from pytest_specgate.core import metrics
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.metrics import METRICS, Metric, metric

ROWS = [pytest.param(row, id=name) for name, row in METRICS.items()]
SUFFIXES = {"s": "_s", "tokens/s": "_tokens_per_s", "requests/s": "_per_s", "tokens": "_tokens", "share": ""}


@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_complete(row: Metric) -> None:
    """Every metric has a label, a formula in words, a unit, a direction and a source."""
    assert metric(row.name) is row
    assert all([row.label, row.formula, row.unit, row.source])
    assert row.better in {"higher", "lower"}
    assert row.higher_is_better == (row.better == "higher")


@pytest.mark.parametrize("row", ROWS)
def test_stored_keys_carry_the_unit(row: Metric) -> None:
    """The key in files is the name with its unit; a share has none."""
    assert row.stored_key == row.name + SUFFIXES[row.unit]


@pytest.mark.parametrize("row", ROWS)
def test_minimum_number_of_requests(row: Metric) -> None:
    """A percentile q asks for the smallest n with n * min(q, 1 - q) >= 5, anything else for one request."""
    if row.quantile is None:
        assert row.minimum_requests == 1
        return
    tail = min(row.quantile, 1 - row.quantile)

    assert row.minimum_requests * tail >= 5 - 1e-9
    assert (row.minimum_requests - 1) * tail < 5


@pytest.mark.parametrize(
    ("name", "needed"), [("ttft_p50", 10), ("ttft_p90", 50), ("ttft_p95", 100), ("ttft_p99", 500), ("tpot_p99", 500)]
)
def test_case_38_published_minimum(name: str, needed: int) -> None:
    """Case 38: p50 needs 10 requests, p90 50, p95 100 and p99 500."""
    assert metric(name).minimum_requests == needed


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("decode_rate_p50", "higher"),
        ("output_throughput", "higher"),
        ("request_throughput", "higher"),
        ("acceptance_rate", "higher"),
        ("acceptance_length", "higher"),
        ("tokens_per_step", "higher"),
        ("tpot_p50", "lower"),
        ("ttft_p50", "lower"),
        ("e2e_p99", "lower"),
    ],
)
def test_case_92_directions_come_from_the_table(name: str, better: str) -> None:
    """Case 92: each metric's direction is declared, not guessed from its name."""
    assert metric(name).better == better


def test_percentiles_lie_on_the_bad_side() -> None:
    """Latencies have high percentiles, rates low ones: the tail that hurts."""
    assert {"ttft_p99", "tpot_p95", "e2e_p90", "decode_rate_p1", "decode_rate_p5", "decode_rate_p10"} <= set(METRICS)
    assert not {"ttft_p1", "decode_rate_p99"} & set(METRICS)


def test_headline_rows_exist() -> None:
    """What every table shows is in the table of metrics."""
    assert set(metrics.HEADLINE) <= set(METRICS)


@pytest.mark.parametrize(
    ("name", "nearest"), [("ttft_50", "ttft_p50"), ("output_troughput", "output_throughput"), ("decode_rate", "")]
)
def test_an_unknown_metric_names_the_nearest(name: str, nearest: str) -> None:
    """A misspelt metric is a usage error that names what was probably meant."""
    with pytest.raises(UsageError, match=f"there is no metric '{name}'.*{nearest}"):
        metric(name)
