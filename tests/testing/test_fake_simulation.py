"""The engines on made-up time."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specgate.core.errors import UsageError
from pytest_specgate.testing import FakeSettings, SimulatedRequest, simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.testing import FakeTruth, RequestTruth

HEALTHY = FakeSettings(step_s=1.0)
PROMPTS = [f"{number} boxes were carried to the north greenhouse" for number in range(12)]


def requests(number: int = 12, output_tokens: int = 24) -> list[SimulatedRequest]:
    """Make requests that all arrive at once."""
    return [SimulatedRequest(prompt, output_tokens) for prompt in PROMPTS[:number]]


def ends(truth: FakeTruth) -> list[float]:
    """Return the time of the last token of each request."""
    return [request.event_times_s[-1] for request in truth.requests]


def test_times_follow_from_the_settings() -> None:
    """One request alone: a prefill, then a step for each further token, at times known beforehand."""
    fake = FakeSettings(step_s=1.0, prefill_s_per_token=0.5)
    (request,) = simulate(fake, requests=[SimulatedRequest([1, 2], 3, arrives_s=10.0)]).truth.requests

    assert request.arrived_s == 10.0
    assert request.event_times_s == (12.0, 13.0, 14.0)
    assert request.event_tokens == (1, 1, 1)
    assert (request.number, request.engine, request.body_sha256) == (1, 0, None)


def test_requests_of_one_time_share_a_batch() -> None:
    """All that arrive at once are in the first step; one that arrives during a step waits for the next."""
    late = SimulatedRequest("late", 2, arrives_s=0.5)
    truth = simulate(HEALTHY, requests=[*requests(2, 3), late]).truth

    assert [request.event_times_s for request in truth.requests] == [(1, 2, 3), (1, 2, 3), (2, 3)]
    assert truth.taken_s == 3.0


def test_limited_concurrency_sends_the_next_when_one_ends() -> None:
    """Two at a time: the third begins when one of the first two is over."""
    truth = simulate(HEALTHY, requests=requests(4, 5), concurrency=2).truth

    assert [request.arrived_s for request in truth.requests] == [0, 0, 5, 5]
    assert ends(truth) == [5, 5, 10, 10]


def test_concurrency_beyond_the_requests_is_all_at_once() -> None:
    """More slots than requests change nothing."""
    assert ends(simulate(HEALTHY, requests=requests(2, 3), concurrency=9).truth) == [3, 3]


def test_concurrency_must_be_positive() -> None:
    """Nothing under way would never end."""
    with pytest.raises(UsageError, match=r"concurrency=0"):
        simulate(requests=requests(1), concurrency=0)


@settings(max_examples=50)
@given(
    k=st.integers(0, 5),
    engines=st.integers(1, 3),
    concurrency=st.none() | st.integers(1, 6),
    max_num_seqs=st.integers(1, 4),
    late_s=st.sampled_from([0.0, 0.5]),
    share=st.floats(0, 1),
)
def test_pages_tell_the_truth_of_a_healthy_server(  # noqa: PLR0913  - what is drawn
    *,
    counters: Callable[[str], dict[str, float]],
    k: int,
    engines: int,
    concurrency: int | None,
    max_num_seqs: int,
    late_s: float,
    share: float,
) -> None:
    """Whatever is simulated, the difference of the pages is the sum of the truth, and that of its requests."""
    done = simulate(
        FakeSettings(step_s=1.0, counters_late_s=late_s, draft_share=share),
        requests=requests(),
        concurrency=concurrency,
        draft_tokens=k,
        data_parallel_size=engines,
        max_num_seqs=max_num_seqs,
        settle_s=late_s,
    )
    before, after = counters(done.page_before), counters(done.page_after)
    accepted = sum(request.accepted_tokens for request in done.truth.requests)
    steps = sum(request.decode_steps for request in done.truth.requests)

    assert after["generation_tokens_total"] - before["generation_tokens_total"] == 12 * 24
    assert after["num_requests_running"] == 0
    assert after["inter_token_latency_seconds_count"] == steps
    assert after.get("spec_decode_num_accepted_tokens_total", 0) == accepted
    assert sum(sum(request.event_tokens) for request in done.truth.requests) == 12 * 24
    assert sum(engine.accepted_tokens for engine in done.truth.engines) == accepted
    for engine in done.truth.engines:
        assert after[f"generation_tokens_total:{engine.engine}"] == engine.output_tokens


def test_the_second_page_lags_where_counters_are_late(counters: Callable[[str], dict[str, float]]) -> None:
    """Right after the last token the page still misses the last steps; a later page has them."""
    fake = FakeSettings(step_s=1.0, counters_late_s=0.2)
    early = counters(simulate(fake, requests=requests(3, 5)).page_after)
    later = counters(simulate(fake, requests=requests(3, 5), settle_s=0.2).page_after)

    assert (early["generation_tokens_total"], early["num_requests_running"]) == (12, 3)
    assert (later["generation_tokens_total"], later["num_requests_running"]) == (15, 0)


def test_slow_first_requests_are_late_by_the_set_time() -> None:
    """Only the first ones, and only up to their first token."""
    fake = FakeSettings(step_s=1.0, slow_first_requests=2, slow_first_s=0.5)
    truth = simulate(fake, requests=requests(3, 2), concurrency=1).truth
    waits = [request.event_times_s[0] - request.arrived_s for request in truth.requests]

    assert waits == [1.5, 1.5, 1.0]
    assert {b - a for request in truth.requests for a, b in itertools.pairwise(request.event_times_s)} == {1.0}


def test_foreign_requests_are_in_the_counters_only(counters: Callable[[str], dict[str, float]]) -> None:
    """Somebody else's request comes with each one past the limit; no list has it, the totals tell it apart."""
    fake = FakeSettings(foreign_after_requests=2, foreign_output_tokens=5)
    done = simulate(fake, requests=requests(4), concurrency=1)
    (engine,) = done.truth.engines

    assert len(done.truth.requests) == 4
    assert (engine.requests, engine.foreign_requests, engine.foreign_output_tokens) == (6, 2, 10)
    assert counters(done.page_after)["generation_tokens_total"] == 4 * 24 + 10
    assert counters(done.page_after)["prompt_tokens_total"] == sum(r.prompt_tokens for r in done.truth.requests) + 32


def test_foreign_requests_may_come_by_the_clock() -> None:
    """One each so many seconds, whether there are requests or not."""
    fake = FakeSettings(step_s=1.0, foreign_every_s=3.0, foreign_output_tokens=1)
    truth = simulate(fake, requests=requests(1, 10)).truth

    assert truth.engines[0].foreign_requests == 3


@pytest.mark.parametrize(
    ("fault", "reason", "written", "given_out"),
    [
        ({"error_after_requests": 1}, "error", 1, 1),
        ({"truncate_after_requests": 1, "truncate_after_events": 3}, "abort", 3, 4),
        ({"cut_after_requests": 1, "cut_after_events": 4}, "abort", 4, 5),
    ],
)
def test_broken_answers_end_early(fault: dict[str, int], reason: str, written: int, given_out: int) -> None:
    """A request past the limit gets so many events, ends for this reason, and makes room for the next."""
    fake = FakeSettings.model_validate({"step_s": 1.0, **fault})
    first, second, third = simulate(fake, requests=requests(3, 9), concurrency=1).truth.requests

    assert (first.finish_reason, len(first.event_tokens)) == ("length", 9)
    for broken in (second, third):
        assert (broken.finish_reason, len(broken.event_tokens), broken.output_tokens) == (reason, written, given_out)


def test_a_cached_prompt_is_in_the_truth(counters: Callable[[str], dict[str, float]]) -> None:
    """The second request with the same long prompt finds its full blocks, and waits less for its first token."""
    fake = FakeSettings(step_s=1.0, prefill_s_per_token=0.01, prefix_caching=True)
    done = simulate(fake, requests=[SimulatedRequest(list(range(100)), 2)] * 2, concurrency=1)
    first, second = done.truth.requests
    page = counters(done.page_after)

    assert (first.cached_prompt_tokens, second.cached_prompt_tokens) == (0, 96)
    assert second.event_times_s[0] - second.arrived_s == pytest.approx(1.04)
    assert (page["prefix_cache_queries_total"], page["prefix_cache_hits_total"]) == (200, 96)
    assert (page["prompt_tokens_total"], page["prompt_tokens_cached_total"]) == (200, 96)


def test_each_engine_has_its_requests() -> None:
    """Two engines share the requests, and the label of a request's engine is in the truth."""
    truth = simulate(HEALTHY, requests=requests(6, 4), data_parallel_size=2).truth

    assert [request.engine for request in truth.requests] == [0, 1, 0, 1, 0, 1]
    assert [engine.output_tokens for engine in truth.engines] == [12, 12]


def test_the_same_simulation_has_the_same_result() -> None:
    """Nothing depends on the clock, the process or chance."""
    first, second = (simulate(requests=requests(), concurrency=3, draft_tokens=4) for _ in range(2))

    assert first == second


def test_identities_hold_for_every_request() -> None:
    """Tokens given out are the first one, one a step, and what was accepted, without what the end cut off."""

    def balance(request: RequestTruth) -> int:
        return 1 + request.decode_steps + request.accepted_tokens - request.cut_tokens

    truth = simulate(FakeSettings(draft_lengths=(4, 1), draft_share=0.6), requests=requests(), draft_tokens=4).truth

    assert [balance(request) for request in truth.requests] == [24] * 12
    assert any(request.cut_tokens for request in truth.requests)
    assert truth.engines[0].draft_tokens < 4 * truth.engines[0].drafts
