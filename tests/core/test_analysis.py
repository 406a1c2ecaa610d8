"""Analyses of captured pages and streams: what is known, what is not, and what must not be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.analysis import analyse_counters, analyse_stream
from pytest_specgate.core.counters import CounterPage
from pytest_specgate.core.sse import Read

if TYPE_CHECKING:
    from tests.core.conftest import Build, Captured


def _event(text: str, at_s: float, *, reason: str | None = None, count: object = None) -> Read:
    body: dict[str, object] = {"choices": [{"text": text, "finish_reason": reason}]}
    if count is not None:
        body["usage"] = {"completion_tokens": count}
    return Read(at_s, f"data: {json.dumps(body)}\n\n".encode())


DONE = Read(1.0, b"data: [DONE]\n\n")


def test_pages_without_a_counter_have_no_figure_of_it(captured: type[Captured]) -> None:
    """A figure whose counters the pages lack is unknown, and the others are there."""
    before, after = captured.page("ngram_k4_after_warmup"), captured.page("ngram_k4_after_c1")
    pages = [
        CounterPage(samples=tuple(one for one in page.samples if not one.name.startswith(counters.STEPS[0])))
        for page in (before, after)
    ]
    found = analyse_counters(*pages)

    assert (found.valid, found.speculation, found.generation_tokens) == (True, "on", 512)
    assert (found.decode_steps, found.tokens_per_step, found.drafted_share, found.cut_tokens) == (None,) * 4


def test_a_server_without_speculation(build: type[Build]) -> None:
    """Counters of an arm without speculation say so, and have a step of one token."""
    found = analyse_counters(*build.snapshots([build.request(index) for index in range(4)]))

    assert (found.valid, found.speculation, found.drafts, found.tokens_per_step) == (True, "off", None, 1.0)


def test_an_expected_horizon_without_speculation(build: type[Build]) -> None:
    """Who expects k=4 and gets pages without speculation counters gets no figures."""
    found = analyse_counters(*build.snapshots([build.request()]), k=4)

    assert (found.valid, found.reason, found.generation_tokens) == (False, "arm-not-as-declared", None)


def test_pages_in_the_wrong_order(captured: type[Captured]) -> None:
    """The later page first is a counter that went back."""
    found = analyse_counters(captured.page("ngram_k4_after_c1"), captured.page("ngram_k4_after_warmup"))

    assert (found.valid, found.reason) == (False, "counters-unreadable")


def test_pages_with_a_part_of_the_counters_are_checked_as_far_as_they_go(build: type[Build]) -> None:
    """Speculation counters alone still contradict themselves."""
    positions = (3, 5)
    values = {counters.DRAFTS: 10.0, counters.DRAFT_TOKENS: 20.0, counters.ACCEPTED_TOKENS: 8.0}
    before = build.page(dict.fromkeys(values, 0.0), positions=(0, 0), finished={})
    found = analyse_counters(before, build.page(values, positions=positions, finished={}))

    assert (found.valid, found.reason) == (False, "counter-identity")
    assert "accepted tokens rise with the position" in str(found.message)


def test_answers_in_one_read_have_no_time_a_token() -> None:
    """Tokens that came in one read have nothing between them: no TPOT, not one of 0."""
    found = analyse_stream([_event("ab", 0.5, reason="length", count=2), DONE])

    assert (found.valid, found.output_tokens, found.tpot_s, found.decode_rate_tokens_per_s) == (True, 2, None, None)
    assert (found.inter_chunk_p50_s, found.inter_chunk_max_s, found.tokens_per_chunk) == (None, None, 2.0)


def test_an_answer_of_one_token_and_one_without_usage_have_no_tpot() -> None:
    """TPOT needs two tokens, and a count of them."""
    one = analyse_stream([_event("a", 0.5, reason="length", count=1), DONE])
    uncounted = analyse_stream([_event("a", 0.5), _event("b", 0.6, reason="length"), DONE])

    assert (one.tpot_s, one.chunk_tokens) == (None, (1,))
    assert (uncounted.output_tokens, uncounted.tpot_s, uncounted.tokens_per_chunk) == (None, None, None)
    assert uncounted.inter_chunk_p50_s == pytest.approx(0.1)


@pytest.mark.parametrize("counts", [(5, 3), (None, 2), ("1", 2)])
def test_running_counts_that_tell_nothing(counts: tuple[object, object]) -> None:
    """Counts that fall, or are not in every event, tell no tokens of events."""
    reads = [_event("a", 0.1, count=counts[0]), _event("b", 0.2, reason="length", count=counts[1]), DONE]

    assert analyse_stream(reads).chunk_tokens is None


def test_nothing_arrived() -> None:
    """A capture without bytes is a truncated answer without times."""
    found = analyse_stream([Read(0.1, b"")])

    assert (found.valid, found.reads, found.events, found.token_events, found.ttft_s) == (False, 0, 0, 0, None)


@pytest.mark.parametrize("data", [b"data: \xff\n\n", b"data: nonsense\n\n", b"data: " + b"[" * 100_000 + b"\n\n"])
def test_events_that_cannot_be_read_are_an_answer_that_failed(data: bytes) -> None:
    """Bytes that are no text, and data that is no JSON, make an invalid answer and no traceback."""
    found = analyse_stream([_event("a", 0.1), Read(0.2, data), DONE])

    assert not found.valid
    assert found.token_events == 1
