"""The arithmetic of every metric, on requests whose times are known."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.estimators import Estimate
from pytest_specgate.core.metrics import METRICS, Measured, measure
from pytest_specgate.core.quantities import bunched_sends, decode_rate, e2e, tpot, ttft

if TYPE_CHECKING:
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PointRecord, RequestRecord
    from tests.core.conftest import Build


def _measure(build: type[Build], name: str, point: PointRecord) -> Measured:
    return measure(name, point, build.profile())


def _timed(build: type[Build], *, first: float, last: float, tokens: int | None) -> RequestRecord:
    return build.request(ttft_s=first, last_token_s=last, output_tokens=tokens)


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
    assert _measure(build, "tpot_p50", build.point(requests)).missing == "1 requests have a value, and 10 are needed"


@pytest.mark.parametrize(
    ("name", "times", "shown"),
    [
        ("tpot_p50", (0.50, 0.45), "-0.005"),
        ("tpot_p50", (0.50, 0.50), "0"),
        ("decode_rate_p50", (0.50, 0.45), "-200"),
        ("decode_rate_p50", (0.50, 0.50), "inf"),
        ("ttft_p50", (0.0, 1.0), "0"),
        ("ttft_p50", (-0.1, 1.0), "-0.1"),
        ("e2e_p50", (0.5, -0.5), "-0.5"),
    ],
)
def test_case_30_impossible_times_are_no_value(
    build: type[Build], *, name: str, times: tuple[float, float], shown: str
) -> None:
    """Case 30: one request with a negative or zero time leaves the metric without a value, and is named."""
    first, last = times
    odd = build.request(7, ttft_s=first, last_token_s=last, output_tokens=11)

    measured = _measure(build, name, build.point([*(build.request(index) for index in range(10)), odd]))

    assert measured == Measured(None, f"request 7 has an impossible value: {shown}")


def test_the_first_impossible_request_is_named(build: type[Build]) -> None:
    """Of several requests with an impossible time the first in sending order is named."""
    odd = [build.request(index, ttft_s=0.0) for index in (4, 2)]

    measured = _measure(build, "ttft_p50", build.point([*(build.request() for _ in range(10)), *odd]))

    assert measured.missing == "request 4 has an impossible value: 0"


def test_case_31_tpot_is_not_latency_over_tokens(build: type[Build]) -> None:
    """Case 31: TPOT leaves out the time to the first token."""
    assert tpot(_timed(build, first=1.0, last=2.0, tokens=11)) == pytest.approx(0.100)


def test_case_32_output_throughput_without_the_prompt(build: type[Build]) -> None:
    """Case 32: output throughput counts output tokens only."""
    request = build.request(ttft_s=1.0, last_token_s=4.0, prompt_tokens=50_000, output_tokens=100)

    assert _measure(build, "output_throughput", build.point([request])).value == pytest.approx(25)


def test_case_33_decode_rate_over_the_decode_window(build: type[Build]) -> None:
    """Case 33: the decode rate is (tokens - 1) over first to last token, whenever the stream closed."""
    request = build.request(ttft_s=3.0, last_token_s=5.0, closed_s=6.0, output_tokens=41)

    assert decode_rate(request) == pytest.approx(20)


def test_case_34_failures_are_not_averaged_in(build: type[Build]) -> None:
    """Case 34: failed requests enter no figure, neither as 0 nor with the times they had before they failed."""
    good = [_timed(build, first=0.1, last=0.8, tokens=11) for _ in range(10)]
    cut = [build.request(index, error="truncated", last_token_s=5.0) for index in range(12)]

    point = build.point([*good, *cut, build.failed()])

    assert _measure(build, "e2e_p50", point).value == pytest.approx(0.8)
    assert _measure(build, "request_throughput", point).value == pytest.approx(10 / 0.8)


@pytest.mark.parametrize("name", [name for name in METRICS if METRICS[name].source == "client"])
def test_case_35_everything_failed(build: type[Build], name: str) -> None:
    """Case 35: a point of which every request failed has no figure at all, and each says why."""
    measured = _measure(build, name, build.point([build.failed(index) for index in range(10)]))

    assert measured.value is None
    assert measured.missing


def test_case_41_tpot_is_weighted_by_request(build: type[Build]) -> None:
    """Case 41: TPOT is one value a request, whatever its number of tokens."""
    short, long = _timed(build, first=0.1, last=0.2, tokens=2), _timed(build, first=0.1, last=1.1, tokens=101)

    assert [tpot(short), tpot(long)] == [pytest.approx(0.100), pytest.approx(0.010)]


@pytest.mark.parametrize("tokens", [None, 0])
@pytest.mark.parametrize("name", ["tpot_p50", "decode_rate_p50"])
def test_an_unknown_token_count_is_seen(build: type[Build], *, name: str, tokens: int | None) -> None:
    """An answer without the server's count has no TPOT, which is not the same as an answer of one token."""
    odd = build.request(3, output_tokens=tokens)

    measured = _measure(build, name, build.point([*(build.request(index) for index in range(10)), odd]))

    assert (math.isnan(tpot(odd) or 0.0), math.isnan(decode_rate(odd) or 0.0)) == (True, True)
    assert measured == Measured(None, "request 3 has an impossible value: nan")


def test_a_missing_token_count_leaves_no_throughput(build: type[Build]) -> None:
    """One request without usage makes the tokens of the point unknown, not smaller."""
    requests = [build.request(0), build.request(1, output_tokens=None)]

    measured = _measure(build, "output_throughput", build.point(requests))

    assert measured == Measured(None, "the server sent no usage for some requests, so their tokens are unknown")


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"ttft_s": None}, ("ttft_p50", "tpot_p50", "decode_rate_p50")),
        ({"last_token_s": None}, ("e2e_p50", "tpot_p50", "decode_rate_p50")),
    ],
)
def test_a_missing_time_is_seen(build: type[Build], *, changes: dict[str, Any], names: tuple[str, ...]) -> None:
    """A complete answer without a first or last token event leaves what needs it without a value, and is named."""
    odd = build.request(10, **changes)
    point = build.point([*(build.request(index) for index in range(10)), odd])

    for name in names:
        assert _measure(build, name, point) == Measured(None, "request 10 has an impossible value: nan")


def test_an_answer_without_any_token_event_is_not_left_out(build: type[Build]) -> None:
    """Two of twelve complete answers without a token event are named, not silently missing from a percentile."""
    empty = [build.request(n, ttft_s=None, last_token_s=None, output_tokens=None, token_events=0) for n in (10, 11)]
    point = build.point([*(build.request(index) for index in range(10)), *empty])

    for name in ("ttft_p50", "e2e_p50", "tpot_p50", "decode_rate_p50"):
        assert _measure(build, name, point) == Measured(None, "request 10 has an impossible value: nan")
    assert (math.isnan(ttft(empty[0])), math.isnan(e2e(empty[0]))) == (True, True)


def test_answers_of_one_token_are_left_out_of_a_percentile(build: type[Build]) -> None:
    """Beside enough others, an answer of one token has no time per token and hides none."""
    single = [build.request(n, ttft_s=0.1, last_token_s=0.1, output_tokens=1) for n in (10, 11)]
    point = build.point([*(build.request(index) for index in range(10)), *single])

    assert _measure(build, "tpot_p50", point).value == pytest.approx(0.1)
    assert _measure(build, "decode_rate_p50", point).value == pytest.approx(10)


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

    assert _measure(build, "output_throughput", point).value == pytest.approx(33 / 4)
    assert _measure(build, "request_throughput", point).value == pytest.approx(3 / 4)


def test_a_point_of_no_length_has_no_throughput(build: type[Build]) -> None:
    """A point whose last token came at its first send has no throughput."""
    measured = _measure(build, "request_throughput", build.point([_timed(build, first=0.0, last=0.0, tokens=2)]))

    assert measured == Measured(None, "the point lasted 0 s")


def test_percentiles_interpolate_linearly(build: type[Build]) -> None:
    """A percentile is numpy's linear one over the requests of a point."""
    requests = [_timed(build, first=0.1 * n, last=9.0, tokens=5) for n in range(1, 13)]

    assert _measure(build, "ttft_p50", build.point(requests)).value == pytest.approx(0.65)


def test_speculation_metrics_come_from_counters(build: type[Build]) -> None:
    """Acceptance and tokens per step are those of the counters around the point."""
    point = build.point([build.request(n) for n in range(10)], speculation=build.drafted(10, k=4))

    figures = [
        _measure(build, name, point).value for name in ("acceptance_rate", "acceptance_length", "tokens_per_step")
    ]

    assert figures == [pytest.approx(60 / 160), pytest.approx(2.5), pytest.approx(2.5)]


@pytest.mark.parametrize("name", ["acceptance_rate", "acceptance_length"])
def test_case_48_no_acceptance_without_drafts(build: type[Build], name: str) -> None:
    """Case 48: acceptance is missing, not 0, when speculation is off and when nothing was drafted."""
    requests = [build.request(n) for n in range(10)]
    idle = dataclasses.replace(build.drafted(10, k=4), drafts=0, draft_tokens=0, accepted_tokens=0)

    off, inactive = build.point(requests), build.point(requests, speculation=idle)

    expected = Measured(None, "nothing was drafted or decoded between the two scrapes")
    assert _measure(build, name, off) == _measure(build, name, inactive) == expected


def test_case_46_a_reset_counter_gives_no_figure(build: type[Build]) -> None:
    """Case 46: a counter that went back leaves its metrics without a value, and is named."""
    point = build.point([build.request(0)])
    swapped = point.model_copy(update={"before": point.after, "after": point.before})

    measured = _measure(build, "tokens_per_step", swapped)

    assert measured.value is None
    assert "counter reset: vllm:" in (measured.missing or "")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_figure_that_is_no_number_is_missing(
    build: type[Build], monkeypatch: pytest.MonkeyPatch, *, value: float
) -> None:
    """Whatever a formula gives, NaN and infinity never leave the table."""

    def compute(point: PointRecord, profile: RequestProfile) -> Estimate:
        return Estimate(value, 1)

    odd = dataclasses.replace(METRICS["output_throughput"], compute=compute)
    monkeypatch.setitem(METRICS, "output_throughput", odd)

    assert (
        _measure(build, "output_throughput", build.point([build.request()])).missing == f"output_throughput is {value}"
    )


def test_case_89_a_nan_time_is_impossible(build: type[Build]) -> None:
    """Case 89: a NaN or infinity that slipped into a record is no value, and does not vanish in a percentile."""
    requests = [build.request(n) for n in range(10)]

    for value, shown in ((math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")):
        broken = requests[3].model_copy(update={"ttft_s": value})
        point = build.point(requests).model_copy(update={"requests": (*requests, broken)})
        measured = _measure(build, "ttft_p50", point)

        assert measured == Measured(None, f"request 3 has an impossible value: {shown}")


@pytest.mark.parametrize(
    ("at", "sends", "share"),
    [
        pytest.param(2, (0, 0, 1.000, 1.005, 2.000, 2.005), 1.0, id="lockstep"),
        pytest.param(2, (0, 0, 1.0, 1.1, 1.2, 1.3), 0.0, id="one by one"),
        pytest.param(2, (0, 0, 1.0, 1.001, 1.5, 2.0), 0.5, id="half of them"),
        pytest.param(2, (0, 0, 1.0, 1.011), 0.0, id="just apart"),
        pytest.param(2, (0, 0, 0.01, 0.02), 0.0, id="as far apart as counts"),
        pytest.param(2, (1.0, 0, 0, 1.001), 1.0, id="in any order"),
        pytest.param(1, (0, 1, 2, 3), None, id="one worker"),
        pytest.param(2, (0, 0, 1), None, id="no second wave"),
    ],
)
def test_bunched_sends(build: type[Build], *, at: int, sends: tuple[float, ...], share: float | None) -> None:
    """The share of sends after the first wave that come within 10 ms of another one."""
    requests = [build.request(index, sent_s=float(sent)) for index, sent in enumerate(sends)]

    assert bunched_sends(build.point(requests, at=at)) == share
