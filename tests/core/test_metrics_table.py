"""The metric table: every row complete, with its unit, its direction and the requests that it needs."""

from __future__ import annotations

import pytest

from pytest_specgate.core import metrics
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.metrics import METRICS, Metric, metric

ROWS = [pytest.param(row, id=name) for name, row in METRICS.items()]
SUFFIXES = {
    "s": "_s",
    "tokens/s": "_tokens_per_s",
    "tokens/s/GPU": "_tokens_per_s",
    "requests/s": "_per_s",
    "tokens": "_tokens",
    "requests": "_requests",
    "share": "",
    "events": "",
}
SHOWN_ONLY = {"achieved_concurrency", "tokens_per_chunk"}
PERCENTILES = [pytest.param(row, id=name) for name, row in METRICS.items() if row.estimator.startswith("p")]
OTHERS = [pytest.param(row, id=name) for name, row in METRICS.items() if not row.estimator.startswith("p")]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_is_complete(row: Metric) -> None:
    """Every metric has a label, a statistic, a formula and a weighting in words, a unit, a direction and a source."""
    assert metric(row.name) is row
    assert all([row.label, row.estimator, row.formula, row.weighting, row.unit, row.source, row.counted])
    assert row.better in {"higher", "lower", "neither"}
    assert row.higher_is_better == (row.better == "higher")


@pytest.mark.parametrize("row", ROWS)
def test_only_what_has_a_better_direction_is_gated(row: Metric) -> None:
    """A figure that is neither good nor bad is shown and never gated; everything else may be."""
    assert (row.better == "neither") == (row.name in SHOWN_ONLY)
    assert row.gated == (row.name not in SHOWN_ONLY)


@pytest.mark.parametrize("row", ROWS)
def test_stored_keys_carry_the_unit(row: Metric) -> None:
    """The key in files is the name with its unit; a share has none."""
    assert row.stored_key == row.name + SUFFIXES[row.unit]


@pytest.mark.parametrize("row", PERCENTILES)
def test_minimum_number_of_a_percentile(row: Metric) -> None:
    """A percentile q asks for the smallest n with n * min(q, 1 - q) >= 5, of requests or of gaps."""
    q = float(row.estimator.removeprefix("p")) / 100
    tail = min(q, 1 - q)

    assert row.minimum_n * tail >= 5 - 1e-9
    assert (row.minimum_n - 1) * tail < 5
    assert row.name.endswith(f"_{row.estimator}")


@pytest.mark.parametrize("row", OTHERS)
def test_minimum_number_of_anything_else(row: Metric) -> None:
    """A mean and a ratio need one value, and acceptance 20 drafts, however few requests gave them."""
    assert row.estimator in {"mean", "ratio of sums"}
    assert (row.minimum_n, row.minimum_requests) == (20 if row.counted == "drafts" else 1, 1)


def test_gaps_are_no_requests() -> None:
    """A percentile over gaps asks for gaps; how many requests give them is not known beforehand."""
    row = metric("inter_chunk_p99")

    assert (row.counted, row.minimum_n, row.minimum_requests) == ("gaps", 500, 1)


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
        ("goodput", "higher"),
        ("output_throughput_per_gpu", "higher"),
        ("step_time", "lower"),
        ("first_text_p90", "lower"),
        ("tpot_pooled", "lower"),
        ("inter_chunk_mean", "lower"),
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


def test_no_mean_of_a_rate() -> None:
    """Means are of times: that of a rate would let one fast request outweigh many slow ones."""
    assert {name for name in METRICS if name.endswith("_mean")} == {
        "ttft_mean",
        "first_text_mean",
        "tpot_mean",
        "e2e_mean",
        "inter_chunk_mean",
    }


def test_rows_of_chunks_say_so() -> None:
    """Only gaps between chunks are times per chunk; only acceptance needs speculation in both arms."""
    rows = {name for name, row in METRICS.items() if row.per_chunk}

    assert rows == {name for name in METRICS if name.startswith("inter_chunk_")}
    assert {name for name, row in METRICS.items() if row.needs_speculation} == {"acceptance_rate", "acceptance_length"}


def test_rows_of_the_server_say_what_they_count() -> None:
    """A figure of the server's counters names them as its source and what it is taken of."""
    counted = {name: row.counted for name, row in METRICS.items() if row.source == "server counters"}

    assert counted == {
        "acceptance_rate": "drafts",
        "acceptance_length": "drafts",
        "tokens_per_step": "decode steps",
        "step_time": "decode steps",
        "preemptions": "requests",
    }


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
