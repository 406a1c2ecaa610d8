"""Estimators of a whole point: throughput by GPU, goodput, gaps between chunks, concurrency, steps of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.metrics import METRICS, Measured, measure
from pytest_specgate.core.quantities import bunched_sends, first_text, is_good, span_s
from pytest_specgate.core.records import ChunkGaps
from pytest_specgate.core.speculation import SpeculationDelta

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord
    from tests.core.conftest import Build

GAPS = ChunkGaps(count=500, sum_s=20.0, p50_s=0.030, p90_s=0.060, p95_s=0.070, p99_s=0.090, max_s=0.200)
"""Enough gaps for every percentile."""


def _measure(build: type[Build], name: str, point: PointRecord, **profile: object) -> Measured:
    return measure(name, point, build.profile(**profile))


def _point(build: type[Build], count: int = 10, **changes: Any) -> PointRecord:
    """Return a point of alike requests, all sent at once."""
    return build.point([build.request(index) for index in range(count)]).model_copy(update=changes)


def test_first_text_is_later_than_the_first_token(build: type[Build]) -> None:
    """A first token without text is not what a reader sees first: both have percentiles and a mean of their own."""
    requests = [build.request(index, ttft_s=0.1, first_text_s=0.1 + 0.01 * index) for index in range(11)]
    point = build.point(requests)

    assert _measure(build, "ttft_p50", point).value == 0.1
    assert _measure(build, "first_text_p50", point).value == pytest.approx(0.15)
    assert _measure(build, "first_text_mean", point) == Measured(pytest.approx(0.15), n=11)  # type: ignore[arg-type]


def test_an_answer_without_visible_text_leaves_no_first_text(build: type[Build]) -> None:
    """One complete answer of tool calls only: first text is missing for the point, not shorter without it."""
    requests = [build.request(index) for index in range(10)]
    point = build.point([*requests, build.request(10, first_text_s=None)])

    assert _measure(build, "first_text_p50", point) == Measured(None, "request 10 has an impossible value: nan")
    assert first_text(requests[0]) == 0.1


def test_a_mean_needs_one_value(build: type[Build]) -> None:
    """A single request has a mean, and says that it is of one."""
    assert _measure(build, "ttft_mean", _point(build, 1)) == Measured(0.1, n=1)
    assert _measure(build, "ttft_mean", _point(build, 0)).missing == "0 requests have a value, and 1 are needed"


def test_pooled_tpot_weighs_by_tokens(build: type[Build]) -> None:
    """100 ms for one token and 1 s for a hundred: 1.1 s / 101, with n the answers that decoded at all."""
    requests = [
        build.request(0, ttft_s=0.1, last_token_s=0.2, output_tokens=2),
        build.request(1, ttft_s=0.1, last_token_s=1.1, output_tokens=101),
        build.request(2, ttft_s=0.1, last_token_s=0.1, output_tokens=1),
    ]

    found = _measure(build, "tpot_pooled", build.point(requests))

    assert found.value == pytest.approx(1.1 / 101)
    assert found.n == 2


def test_pooled_tpot_of_single_tokens_is_missing(build: type[Build]) -> None:
    """Answers that all end with their first token have no decode time to pool."""
    requests = [build.request(index, ttft_s=0.1, last_token_s=0.1, output_tokens=1) for index in range(3)]

    assert _measure(build, "tpot_pooled", build.point(requests)).missing == "0 requests have a value, and 1 are needed"


@pytest.mark.parametrize(("gpus", "value"), [(1, 100.0), (2, 50.0), (8, 12.5)])
def test_throughput_per_gpu(build: type[Build], *, gpus: int, value: float) -> None:
    """Output throughput is shared out over the GPUs of the server."""
    found = _measure(build, "output_throughput_per_gpu", _point(build, gpus=gpus))

    assert found.value == pytest.approx(value)
    assert found.n == 10


@pytest.mark.parametrize(
    ("gpus", "why"), [(0, "the server runs on no GPU"), (None, "the server does not tell its number of GPUs")]
)
def test_no_throughput_per_gpu_without_gpus(build: type[Build], *, gpus: int | None, why: str) -> None:
    """On a CPU, and where the number is unknown, the figure is missing: it is not that of one GPU."""
    assert _measure(build, "output_throughput_per_gpu", _point(build, gpus=gpus)) == Measured(None, why)


LIMITS = {"ttft": "100ms", "tpot": "50ms", "e2e": "1s"}


@pytest.mark.parametrize(
    ("times", "good"),
    [
        ({}, True),
        ({"ttft_s": 0.1}, True),
        ({"ttft_s": 0.101}, False),
        ({"last_token_s": 0.61}, False),
        ({"last_token_s": 0.05 + 0.05 * 10}, True),
        ({"ttft_s": 0.1, "last_token_s": 1.1}, False),
        ({"output_tokens": 1, "last_token_s": 0.05}, True),
    ],
)
def test_a_good_request_keeps_every_limit(build: type[Build], *, times: dict[str, Any], good: bool) -> None:
    """TTFT, TPOT and E2E latency at most at their limits; one token has no TPOT to exceed."""
    request = build.request(**{"ttft_s": 0.05, "last_token_s": 0.5, **times})

    assert is_good(request, build.profile(goodput_limits=LIMITS).goodput_limits_s) == good


def test_goodput_counts_good_requests_over_the_whole_time(build: type[Build]) -> None:
    """Seven of ten good ones in 2 s are 3.5 requests/s: the time of the others counts."""
    good = [build.request(index, ttft_s=0.1, first_text_s=0.1, last_token_s=1.0) for index in range(7)]
    slow = [build.request(index, ttft_s=0.1, first_text_s=0.1, last_token_s=2.0) for index in (7, 8, 9)]

    found = _measure(build, "goodput", build.point([*good, *slow]), goodput_limits={"e2e": "1s"})

    assert found == Measured(3.5, n=10)


def test_goodput_of_nothing_good_is_zero(build: type[Build]) -> None:
    """That no request kept its limit was measured: it is 0, and not missing."""
    assert _measure(build, "goodput", _point(build), goodput_limits={"ttft": "1ms"}) == Measured(0.0, n=10)


def test_goodput_needs_limits(build: type[Build]) -> None:
    """Without limits every request would be good, which nobody asked."""
    assert _measure(build, "goodput", _point(build)).missing == "the profile has no goodput_limits"


def test_goodput_of_uncounted_answers_is_missing(build: type[Build]) -> None:
    """Whether an answer kept its TPOT cannot be told without its tokens: the figure is missing, and not lower."""
    requests = [build.request(index, output_tokens=None) for index in range(10)]

    found = _measure(build, "goodput", build.point(requests), goodput_limits={"tpot": "1s"})

    assert found.value is None


def test_achieved_concurrency_is_littles_law(build: type[Build]) -> None:
    """Two workers, of which one idles in the second half: 3 s of answers in 2 s are 1.5 in flight."""
    requests = [
        build.request(0, sent_s=0.0, last_token_s=1.0),
        build.request(1, sent_s=0.0, last_token_s=1.0),
        build.request(2, sent_s=1.0, last_token_s=1.0),
    ]

    assert _measure(build, "achieved_concurrency", build.point(requests, at=2)) == Measured(1.5, n=3)


def test_tokens_per_chunk(build: type[Build]) -> None:
    """Tokens of all answers over their token events: 2 x 11 tokens in 5 + 6 events."""
    requests = [build.request(0, token_events=5), build.request(1, token_events=6)]

    assert _measure(build, "tokens_per_chunk", build.point(requests)) == Measured(2.0, n=2)


def test_no_chunks_have_no_tokens(build: type[Build]) -> None:
    """Without a token event there is nothing to divide by."""
    point = build.point([build.request(0, token_events=0)])

    assert _measure(build, "tokens_per_chunk", point) == Measured(None, "there is no token event")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inter_chunk_p50", 0.030),
        ("inter_chunk_p90", 0.060),
        ("inter_chunk_p95", 0.070),
        ("inter_chunk_p99", 0.090),
        ("inter_chunk_mean", 0.040),
    ],
)
def test_gaps_between_chunks(build: type[Build], *, name: str, value: float) -> None:
    """Percentiles and the mean are those of all gaps of the point, and n is their number."""
    assert _measure(build, name, _point(build, gaps=GAPS)) == Measured(value, n=500)


@pytest.mark.parametrize(
    ("name", "needed"), [("inter_chunk_p50", 10), ("inter_chunk_p95", 100), ("inter_chunk_p99", 500)]
)
def test_a_percentile_of_too_few_gaps_is_missing(build: type[Build], *, name: str, needed: int) -> None:
    """Gaps are counted as requests are: N * min(q, 1 - q) >= 5."""
    few = GAPS.model_copy(update={"count": needed - 1})

    found = _measure(build, name, _point(build, gaps=few))

    assert found == Measured(None, f"there are {needed - 1} gaps between chunks, and {needed} are needed")
    assert _measure(build, name, _point(build, gaps=GAPS.model_copy(update={"count": needed}))).value is not None


@pytest.mark.parametrize("name", [name for name, row in METRICS.items() if row.per_chunk])
def test_no_gaps_have_no_figures(build: type[Build], name: str) -> None:
    """A point of single chunks has no gap, which is not a gap of 0."""
    found = _measure(build, name, _point(build))

    none = {"inter_chunk_mean": "there is no gap between chunks"}
    needed = METRICS[name].minimum_n
    assert found.missing == none.get(name, f"there are 0 gaps between chunks, and {needed} are needed")


def test_steps_of_the_server(build: type[Build]) -> None:
    """Ten answers of eleven tokens in 40 steps: 2.5 tokens a step of 250 ms; without drafts 1 of 100 ms."""
    requests = [build.request(index) for index in range(10)]
    drafted, plain = build.point(requests, speculation=build.drafted(10, k=4)), build.point(requests)

    assert _measure(build, "tokens_per_step", drafted) == Measured(2.5, n=40)
    assert _measure(build, "step_time", drafted).value == pytest.approx(0.25)
    assert _measure(build, "step_time", plain).value == pytest.approx(0.1)
    assert _measure(build, "tokens_per_step", plain) == Measured(1.0, n=100)


def test_acceptance_says_of_how_much(build: type[Build]) -> None:
    """The rate of draft tokens and the length are both of so many drafts."""
    point = build.point([build.request(index) for index in range(10)], speculation=build.drafted(10, k=4))

    assert _measure(build, "acceptance_rate", point) == Measured(60 / 160, n=40)
    assert _measure(build, "acceptance_length", point) == Measured(2.5, n=40)


@pytest.mark.parametrize("name", ["acceptance_rate", "acceptance_length", "acceptance_rate_position_1"])
@pytest.mark.parametrize(
    ("drafts", "told"), [(1, "there is 1 draft, and 20 are needed"), (19, "there are 19 drafts, and 20 are needed")]
)
def test_acceptance_of_too_few_drafts_is_missing(build: type[Build], name: str, *, drafts: int, told: str) -> None:
    """One draft, and all but one of the least number, are no figure; the least number is one."""
    few, enough = (
        build.point([build.request(0)], speculation=SpeculationDelta(count, 4 * count, count, (count, 0, 0, 0)))
        for count in (drafts, 20)
    )

    cure = ": send more requests, or ask for more output tokens"
    assert _measure(build, name, few) == Measured(None, f"{told}{cure}")
    assert _measure(build, name, enough).n == 20


def test_a_server_that_does_not_count_its_steps(build: type[Build]) -> None:
    """Without the histogram what needs it is missing with the counter's name; what the client knows is there."""
    point = _point(build)
    pages = {
        name: page.model_copy(
            update={"samples": tuple(one for one in page.samples if counters.STEPS[0] not in one.name)}
        )
        for name, page in (("before", point.before), ("after", point.after))
    }
    silent = point.model_copy(update=pages)

    assert f"no series {counters.STEPS[0]}" in (_measure(build, "step_time", silent).missing or "")
    assert _measure(build, "tpot_p50", silent).value == pytest.approx(0.1)


def test_an_open_loop_is_not_bunched(build: type[Build]) -> None:
    """Sends of an open loop follow their own schedule: how bunched they are says nothing of the server."""
    requests = [build.request(index, sent_s=0.0) for index in range(8)]

    assert bunched_sends(build.point(requests, at="4/s")) is None
    assert bunched_sends(build.point(requests, at=2)) == 1.0


def test_a_failed_request_starts_the_clock_too(build: type[Build]) -> None:
    """A point begins with its first send, whatever became of it."""
    failed = build.failed(0).model_copy(update={"sent_s": 0.0})

    assert span_s(build.point([failed, build.request(1, sent_s=1.0, last_token_s=2.0)])) == 3.0
