"""The metric table, and the arithmetic of every row, on requests whose times are known."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters, metrics
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.metrics import METRICS, Metric, decode_rate, e2e, measure, metric, tpot, ttft

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord, RequestRecord
    from tests.core.conftest import Build

ROWS = [pytest.param(row, id=name) for name, row in METRICS.items()]
SUFFIXES = {"s": "_s", "tokens/s": "_tokens_per_s", "requests/s": "_per_s", "tokens": "_tokens", "share": ""}


def _timed(build: type[Build], *, first: float, last: float, tokens: int | None) -> RequestRecord:
    return build.request(ttft_s=first, last_token_s=last, output_tokens=tokens)


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


def test_case_26_one_chunk_is_not_one_token(build: type[Build]) -> None:
    """Case 26: with five chunks of 17 tokens TPOT is 10 ms and the decode rate 100 tokens/s."""
    request = build.request(ttft_s=0.100, last_token_s=0.260, output_tokens=17, token_events=5)

    assert tpot(request) == pytest.approx(0.010)
    assert decode_rate(request) == pytest.approx(100)


def test_case_29_single_token_answers_have_no_tpot(build: type[Build]) -> None:
    """Case 29: TPOT of answers of 1, 1 and 11 tokens has one value, and says so when more are needed."""
    requests = [_timed(build, first=0.1, last=last, tokens=n) for last, n in ((0.1, 1), (0.1, 1), (0.3, 11))]

    assert [tpot(request) for request in requests] == [None, None, pytest.approx(0.020)]
    assert [decode_rate(request) for request in requests[:2]] == [None, None]
    assert measure("tpot_p50", build.point(requests)).missing == "1 requests have a value, p50 needs 10"


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [("tpot_p50", 0.50, 0.45), ("tpot_p50", 0.50, 0.50), ("ttft_p50", 0.0, 1.0), ("decode_rate_p50", 0.5, 0.45)],
)
def test_case_30_impossible_times_are_no_value(build: type[Build], *, name: str, first: float, last: float) -> None:
    """Case 30: one request with a negative or zero time leaves the metric without a value."""
    requests = [*(build.request(index) for index in range(10)), _timed(build, first=first, last=last, tokens=10)]

    measured = measure(name, build.point(requests))

    assert measured.value is None
    assert "impossible time" in (measured.missing or "")


def test_case_31_tpot_is_not_latency_over_tokens(build: type[Build]) -> None:
    """Case 31: TPOT leaves out the time to the first token."""
    assert tpot(_timed(build, first=1.0, last=2.0, tokens=11)) == pytest.approx(0.100)


def test_case_32_output_throughput_without_the_prompt(build: type[Build]) -> None:
    """Case 32: output throughput counts output tokens only."""
    request = build.request(ttft_s=1.0, last_token_s=4.0, prompt_tokens=50_000, output_tokens=100)

    assert measure("output_throughput", build.point([request])).value == pytest.approx(25)


def test_case_33_decode_rate_over_the_decode_window(build: type[Build]) -> None:
    """Case 33: the decode rate is (tokens - 1) over first to last token, whenever the stream closed."""
    request = build.request(ttft_s=3.0, last_token_s=5.0, closed_s=6.0, output_tokens=41)

    assert decode_rate(request) == pytest.approx(20)


def test_case_34_failures_are_not_averaged_in(build: type[Build]) -> None:
    """Case 34: failed requests enter no figure, neither as 0 nor otherwise."""
    good = [_timed(build, first=0.1, last=0.8, tokens=11) for _ in range(10)]

    measured = measure("e2e_p50", build.point([*good, build.failed(), build.failed()]))

    assert measured.value == pytest.approx(0.8)


@pytest.mark.parametrize("name", [name for name in METRICS if METRICS[name].source == "client"])
def test_case_35_everything_failed(build: type[Build], name: str) -> None:
    """Case 35: a point of which every request failed has no figure at all, and each says why."""
    measured = measure(name, build.point([build.failed(index) for index in range(10)]))

    assert measured.value is None
    assert measured.missing


def test_case_41_tpot_is_weighted_by_request(build: type[Build]) -> None:
    """Case 41: TPOT is one value a request, whatever its number of tokens."""
    short, long = _timed(build, first=0.1, last=0.2, tokens=2), _timed(build, first=0.1, last=1.1, tokens=101)

    assert [tpot(short), tpot(long)] == [pytest.approx(0.100), pytest.approx(0.010)]


@pytest.mark.parametrize("tokens", [None, 0])
def test_an_unknown_token_count_has_no_tpot(build: type[Build], tokens: int | None) -> None:
    """Without the server's count there is no TPOT and no decode rate, and no throughput either."""
    request = _timed(build, first=0.1, last=1.1, tokens=tokens)

    assert (tpot(request), decode_rate(request)) == (None, None)


def test_a_missing_token_count_leaves_no_throughput(build: type[Build]) -> None:
    """One request without usage makes the tokens of the point unknown, not smaller."""
    requests = [build.request(0), build.request(1, output_tokens=None)]

    measured = measure("output_throughput", build.point(requests))

    assert measured == metrics.Measured(None, "the server sent no usage for some requests, so their tokens are unknown")


@pytest.mark.parametrize("time", ["ttft_s", "last_token_s"])
def test_a_request_without_token_events_has_no_tpot(build: type[Build], time: str) -> None:
    """A request without a first or last token event has no time per token."""
    assert tpot(build.request().model_copy(update={time: None})) is None


def test_latencies_of_a_request(build: type[Build]) -> None:
    """TTFT is the time of the first token event, E2E latency that of the last."""
    request = _timed(build, first=0.25, last=1.5, tokens=5)

    assert (ttft(request), e2e(request)) == (0.25, 1.5)


def test_throughput_lasts_from_first_send_to_last_token(build: type[Build]) -> None:
    """Throughput is over first send to last token event, whoever sent first and whoever ended last."""
    requests = [
        build.request(0, sent_s=1.0, ttft_s=0.5, last_token_s=4.0),
        build.request(1, sent_s=2.0, ttft_s=0.5, last_token_s=2.5),
        build.request(2, sent_s=3.5, ttft_s=0.5, last_token_s=1.0),
    ]
    point = build.point(requests)

    assert measure("output_throughput", point).value == pytest.approx(33 / 4)
    assert measure("request_throughput", point).value == pytest.approx(3 / 4)


def test_a_point_of_no_length_has_no_throughput(build: type[Build]) -> None:
    """A point whose last token came at its first send has no throughput."""
    measured = measure("request_throughput", build.point([_timed(build, first=0.0, last=0.0, tokens=2)]))

    assert measured == metrics.Measured(None, "the point lasted 0 s")


def test_percentiles_interpolate_linearly(build: type[Build]) -> None:
    """A percentile is numpy's linear one over the requests of a point."""
    requests = [_timed(build, first=0.1 * n, last=9.0, tokens=5) for n in range(1, 13)]

    assert measure("ttft_p50", build.point(requests)).value == pytest.approx(0.65)


def test_speculation_metrics_come_from_counters(build: type[Build]) -> None:
    """Acceptance and tokens per step are those of the counters around the point."""
    point = build.point([build.request(n) for n in range(10)], speculation=build.drafted(10, k=4))

    figures = [measure(name, point).value for name in ("acceptance_rate", "acceptance_length", "tokens_per_step")]

    assert figures == [pytest.approx(60 / 160), pytest.approx(2.5), pytest.approx(2.5)]


@pytest.mark.parametrize("name", ["acceptance_rate", "acceptance_length"])
def test_case_48_no_acceptance_without_drafts(build: type[Build], name: str) -> None:
    """Case 48: acceptance is missing, not 0, when speculation is off and when nothing was drafted."""
    requests = [build.request(n) for n in range(10)]
    idle = dataclasses.replace(build.drafted(10, k=4), drafts=0, draft_tokens=0, accepted_tokens=0)

    off, inactive = build.point(requests), build.point(requests, speculation=idle)

    expected = metrics.Measured(None, "nothing was drafted or decoded between the two scrapes")
    assert measure(name, off) == measure(name, inactive) == expected


def test_case_46_a_reset_counter_gives_no_figure(build: type[Build]) -> None:
    """Case 46: a counter that went back leaves its metrics without a value, and is named."""
    point = build.point([build.request(0)])
    swapped = point.model_copy(update={"before": point.after, "after": point.before})

    measured = measure("tokens_per_step", swapped)

    assert measured.value is None
    assert f"counter reset: {counters.FINISHED}" in (measured.missing or "")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_no_number_is_missing(
    build: type[Build], monkeypatch: pytest.MonkeyPatch, *, value: float
) -> None:
    """Whatever a formula gives, NaN and infinity never leave the table."""

    def compute(point: PointRecord) -> float:
        return value

    odd = dataclasses.replace(METRICS["output_throughput"], value=compute)
    monkeypatch.setitem(METRICS, "output_throughput", odd)

    assert measure("output_throughput", build.point([build.request()])).missing == f"output_throughput is {value}"


def test_case_89_a_nan_time_is_impossible(build: type[Build]) -> None:
    """Case 89: a NaN that slipped into a record is no value, and does not vanish in a percentile."""
    requests = [build.request(n) for n in range(10)]
    broken = requests[0].model_copy(update={"ttft_s": math.nan})

    assert "impossible time" in (measure("ttft_p50", build.point([broken, *requests])).missing or "")
