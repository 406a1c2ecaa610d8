"""Streams and times of public fault reports, all the way to the figure: what came over the wire, and what is said."""

from __future__ import annotations

import itertools
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_specgate.core.judge import judge
from pytest_specgate.core.metrics import METRICS, Measured, measure
from pytest_specgate.core.quantities import decode_rate, tpot, ttft
from pytest_specgate.core.records import ChunkGaps
from pytest_specgate.core.sse import Read, Timeline, timeline
from pytest_specgate.core.validity import point_problem
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.records import PointRecord, RequestRecord
    from tests.core.conftest import Build

DONE = "data: [DONE]\n\n"


def _event(**body: object) -> str:
    return f"data: {json.dumps(body)}\n\n"


def _text(text: str, finish_reason: str | None = None) -> str:
    return _event(choices=[{"index": 0, "text": text, "finish_reason": finish_reason}])


def _delta(finish_reason: str | None = None, **delta: object) -> str:
    return _event(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])


def _usage(prompt_tokens: int, completion_tokens: int) -> str:
    return _event(choices=[], usage={"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens})


def _stream(*reads: tuple[float, str]) -> Timeline:
    """Return the timeline of a stream of (milliseconds, text of one network read)."""
    return timeline(Read(at / 1000, text.encode()) for at, text in reads)


def _answer(build: type[Build], seen: Timeline, *, index: int = 0) -> RequestRecord:
    """Return the record that the client makes of a timeline."""
    return build.request(
        index,
        error=seen.error,
        ttft_s=seen.token_events[0] if seen.token_events else None,
        last_token_s=seen.token_events[-1] if seen.token_events else None,
        first_text_s=seen.first_text_s,
        closed_s=seen.closed_s,
        prompt_tokens=seen.prompt_tokens,
        output_tokens=seen.output_tokens,
        token_events=len(seen.token_events),
        finish_reason=seen.finish_reason,
    )


def _gaps(*answers: Sequence[float]) -> ChunkGaps:
    """Return the gaps of the token events of several answers."""
    found = [later - earlier for events in answers for earlier, later in itertools.pairwise(events)]
    names = {"p50_s": 0.5, "p90_s": 0.9, "p95_s": 0.95, "p99_s": 0.99}
    quantiles = {name: float(np.quantile(found, q)) for name, q in names.items()}
    return ChunkGaps(count=len(found), sum_s=math.fsum(found), max_s=max(found), **quantiles)


def _point(build: type[Build], *streams: Timeline) -> PointRecord:
    point = build.point([_answer(build, seen, index=index) for index, seen in enumerate(streams)])
    return point.model_copy(update={"gaps": _gaps(*(seen.token_events for seen in streams))})


def _value(build: type[Build], name: str, point: PointRecord) -> float:
    found = measure(name, point, build.profile())
    assert found.value is not None, found.missing
    return found.value


@pytest.mark.parametrize("content", ["", None])
def test_case_1_the_clock_stops_at_the_first_token(build: type[Build], content: str | None) -> None:
    """Case 1: TTFT 200 ms, TPOT 20 ms, two gaps of 20 ms, 3 tokens; the role event at 50 ms is none of them."""
    seen = _stream(
        (50, _delta(role="assistant", content=content)),
        (200, _delta(content="A")),
        (220, _delta(content="B")),
        (240, _delta("length", content="C") + _usage(8, 3) + DONE),
    )
    answer, point = _answer(build, seen), _point(build, seen)

    assert ttft(answer) == 0.2
    assert tpot(answer) == pytest.approx(0.020)
    assert (answer.output_tokens, answer.token_events) == (3, 3)
    assert measure("inter_chunk_mean", point, build.profile()).n == 2
    assert _value(build, "inter_chunk_mean", point) == pytest.approx(0.020)


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_case_3_reasoning_is_part_of_the_answer(build: type[Build], key: str) -> None:
    """Case 3: TTFT 100 ms, TPOT 100 ms and 10 tokens/s, under either name of the key."""
    reads = [(100.0 * n, _delta(**{key: "r"})) for n in range(1, 10)]
    answer = _answer(build, _stream(*reads, (1000, _delta("stop", content="x") + _usage(10, 10) + DONE)))

    assert ttft(answer) == 0.1
    assert tpot(answer) == pytest.approx(0.1)
    assert decode_rate(answer) == pytest.approx(10)


def test_case_5_tokens_inside_tool_calls(build: type[Build]) -> None:
    """Case 5: 31 tokens of which only the first has text: TTFT 435.8 ms, TPOT 366.0 / 30 = 12.2 ms."""

    def counted(count: int) -> dict[str, int]:
        return {"prompt_tokens": 20, "completion_tokens": count}

    call: dict[str, Any] = {"delta": {"tool_calls": [{"index": 0}]}}
    ended = {**call, "finish_reason": "tool_calls"}
    seen = _stream(
        (435.8, _event(choices=[{"delta": {"content": "x"}}], usage=counted(1))),
        (619.4, _event(choices=[call], usage=counted(17))),
        (801.8, _event(choices=[ended], usage=counted(31)) + _usage(20, 31) + DONE),
    )
    answer = _answer(build, seen)

    assert (answer.output_tokens, ttft(answer)) == (31, 0.4358)
    assert tpot(answer) == pytest.approx(0.0122)


@pytest.mark.parametrize(
    "reads",
    [
        ('data:{"choices":[{"text":"a"}]}\r', "\n\r\ndata:[DONE]\r\n\r\n"),
        ('data:{"choices":[{"text":"a"}]}\r\n', "\r\ndata:[DONE]\r\n\r\n"),
        ('data:{"choices":[{"text":"a"}]}\r', "\rdata:[DONE]\r\r"),
        ('data:{"choices":[{"text":"a"}]}\r\rdata:[DONE]\r', "\r"),
        ('data:{"choices":[{"text":"a"}]}\n', "\ndata:[DONE]\n\n"),
    ],
)
def test_case_8_a_chunk_and_the_end_in_every_form(reads: tuple[str, str]) -> None:
    """Case 8: one chunk "a" and a proper end, with CRLF, bare CR and LF, also with CR and LF in different reads."""
    seen = _stream(*enumerate(reads))

    assert (seen.text, len(seen.token_events), seen.error) == ("a", 1, None)


def test_case_18_an_answer_that_nobody_counted(build: type[Build]) -> None:
    """Case 18: without usage TPOT and throughput are missing, from neither 4 chunks nor 16 tokens, and INVALID."""
    seen = _stream((100, _text("a")), (120, _text("b")), (140, _text("c")), (160, _text("d", "length") + DONE))
    pair = build.pair(requests={1: 10}, output_tokens=16)
    point = build.point([_answer(build, seen, index=index) for index in range(10)])

    for name in ("tpot_p50", "tpot_pooled", "decode_rate_p50", "output_throughput", "tokens_per_chunk"):
        assert measure(name, point, pair.profile).value is None
    problem = point_problem(pair.reference, point, pair.profile)
    assert problem is not None
    assert problem.reason == "no-usage"


def test_case_20_usage_that_comes_late(build: type[Build]) -> None:
    """Case 20: TPOT (1000 - 100) / 9 = 100 ms and an end at 1000 ms, although the stream closed at 1351 ms."""
    reads = [(100.0 * n, _text("x", "length" if n == 10 else None)) for n in range(1, 11)]
    point = _point(build, _stream(*reads, (1350, _usage(4, 10)), (1351, DONE)))

    assert _value(build, "tpot_mean", point) == pytest.approx(0.1)
    assert _value(build, "e2e_mean", point) == 1.0
    assert point.requests[0].closed_s == 1.351


def test_case_22_the_longest_silence_is_a_setting_of_ours(build: type[Build]) -> None:
    """Case 22: ten minutes by default, not the 5 s of an HTTP library; it is a field of the request profile."""
    with_default, patient = build.profile(), build.profile(request_timeout_s=1200.0)

    assert with_default.request_timeout_s == 600.0
    assert with_default.fingerprint() != patient.fingerprint()


def test_case_26_seventeen_tokens_in_five_chunks(build: type[Build]) -> None:
    """Case 26: TPOT 10 ms, 100 tokens/s, gaps of 40 ms under their own name, 17 tokens and not 5."""
    reads = [(at, _text("x")) for at in (100, 140, 180, 220)]
    point = _point(build, _stream(*reads, (260, _text("x", "length") + _usage(4, 17) + DONE)))

    assert _value(build, "tpot_mean", point) == pytest.approx(0.010)
    assert decode_rate(point.requests[0]) == pytest.approx(100)
    assert _value(build, "inter_chunk_mean", point) == pytest.approx(0.040)
    assert (point.requests[0].output_tokens, _value(build, "tokens_per_chunk", point)) == (17, 3.4)
    assert METRICS["inter_chunk_mean"].label == "inter-chunk latency mean"


def test_case_29_only_answers_that_decoded_have_a_tpot(build: type[Build]) -> None:
    """Case 29: of 1, 1 and 11 tokens TPOT is 20 ms with n = 1, not 6.67 with n = 3; its p50 is missing."""
    answers = [
        build.request(index, ttft_s=0.1, first_text_s=0.1, last_token_s=last, output_tokens=tokens)
        for index, (last, tokens) in enumerate([(0.1, 1), (0.1, 1), (0.3, 11)])
    ]
    point = build.point(answers)

    for name in ("tpot_mean", "tpot_pooled"):
        assert _value(build, name, point) == pytest.approx(0.020)
        assert measure(name, point, build.profile()).n == 1
    for name in ("tpot_p50", "decode_rate_p50"):
        assert measure(name, point, build.profile()) == Measured(None, "1 requests have a value, and 10 are needed")


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"ttft_s": 0.50, "last_token_s": 0.45, "output_tokens": 10}, "its last token event came at 0.45 s"),
        ({"ttft_s": 0.0, "last_token_s": 0.45, "output_tokens": 10}, "its first token event came at 0 s"),
    ],
)
def test_case_30_a_record_that_cannot_be(build: type[Build], times: dict[str, Any], words: str) -> None:
    """Case 30: INVALID with the request named; a TPOT of -5.6 ms or 0 passes nothing."""
    profile = build.profile(output_tokens=10)
    odd = build.request(3, **{**times, "first_text_s": None})
    good = [build.request(index, output_tokens=10) for index in (0, 1, 2, *range(4, 11))]
    point = build.point([*good[:3], odd, *good[3:-1]])

    problem = point_problem(build.arm(), point, profile)

    assert problem is not None
    assert problem.reason == "impossible-value"
    assert f"request 3 has impossible values: {words}" in problem.message


def test_case_31_a_second_to_the_first_token(build: type[Build]) -> None:
    """Case 31: TTFT 1 s, last token at 2 s, 11 tokens: TPOT 100 ms, not 181.8."""
    point = build.point([build.request(ttft_s=1.0, first_text_s=1.0, last_token_s=2.0, output_tokens=11)])

    assert _value(build, "tpot_mean", point) == pytest.approx(0.100)


def test_case_32_the_prompt_is_no_output(build: type[Build]) -> None:
    """Case 32: 100 tokens in 4 s are 25 tokens/s, whatever the 50 000 of the prompt; no metric adds them up."""
    answer = build.request(ttft_s=1.0, last_token_s=4.0, prompt_tokens=50_000, output_tokens=100)
    point = build.point([answer])

    assert _value(build, "output_throughput", point) == 25.0
    values = [measure(name, point, build.profile()).value for name in METRICS]
    assert not any(value is not None and value > 1000 for value in values)


def test_case_33_a_long_first_token(build: type[Build]) -> None:
    """Case 33: 41 tokens evenly from 3 s to 5 s are 20 tokens/s, whatever came before and after."""
    answer = build.request(ttft_s=3.0, last_token_s=5.0, closed_s=6.0, output_tokens=41)

    assert decode_rate(answer) == 20.0


def test_case_34_failures_stored_with_zeros(build: type[Build]) -> None:
    """Case 34: 800, 800 and two failures stored with 0: mean 800, n = 2, and the point is INVALID before that."""
    good = [build.request(index, last_token_s=0.8, ttft_s=0.1) for index in range(2)]
    bad = [build.request(index, error="HTTP 500", ttft_s=0.0, last_token_s=0.0) for index in (2, 3)]
    profile = build.profile(requests={1: 4})
    point = build.point([*good, *bad])

    assert measure("e2e_mean", point, profile) == Measured(0.8, n=2)
    problem = point_problem(build.arm(), point, profile)
    assert problem is not None
    assert (problem.reason, "2 of 4 requests failed" in problem.message) == ("failed-requests", True)


def test_case_35_nothing_but_failures(build: type[Build]) -> None:
    """Case 35: ten times HTTP 500: every figure is null with a reason, and the verdict INVALID, never PASS or 0."""
    pair = build.pair()
    record = build.edited_point(
        build.window(pair, [1.0] * 2, [1.0] * 2),
        arm="k4",
        edit=lambda _: build.point([build.failed(index) for index in range(10)]),
    )
    point = record.boots_of("k4")[0].point(1)
    assert point is not None

    [verdict] = judge(build.gate(pair, build.threshold("ttft_p50")), record)

    found = [measure(name, point, pair.profile) for name, row in METRICS.items() if row.source == "client"]
    assert all(one.value is None and one.missing and one.n == 0 for one in found)
    assert (verdict.outcome, verdict.candidate) == (Outcome.INVALID, None)


def test_case_37_waiting_for_a_slot_is_not_waiting_for_the_server(build: type[Build]) -> None:
    """Case 37: eight requests ready at once, one at a time, 500 ms each: TTFT 500 ms for every one of them."""
    answers = [
        build.request(index, sent_s=0.5 * index, ttft_s=0.5, first_text_s=0.5, last_token_s=0.5) for index in range(8)
    ]
    point = build.point(answers)

    assert {ttft(answer) for answer in point.requests} == {0.5}
    assert _value(build, "ttft_mean", point) == 0.5
    assert _value(build, "achieved_concurrency", point) == 1.0


def test_case_38_tails_of_a_few_values(build: type[Build]) -> None:
    """Case 38: p99 of three values and p95 of ten are missing with what they need; the method is numpy's linear one."""
    three = [build.request(index, ttft_s=0.010 * (index + 1)) for index in range(3)]
    ten = [build.request(index, ttft_s=0.001 * (index + 1)) for index in range(10)]
    many = [build.request(index, ttft_s=0.010 * (index % 3 + 1)) for index in range(501)]

    tail = measure("ttft_p99", build.point(three), build.profile())
    assert tail == Measured(None, "3 requests have a value, and 500 are needed")
    assert (
        measure("ttft_p95", build.point(ten), build.profile()).missing == "10 requests have a value, and 100 are needed"
    )
    assert float(np.quantile([10, 20, 30], 0.99)) == pytest.approx(29.8)
    assert _value(build, "ttft_p99", build.point(many)) == pytest.approx(0.030)


def test_case_40_one_event_seen_by_two_metrics(build: type[Build]) -> None:
    """Case 40: TPOT 10 -> 12.5 ms and decode rate 100 -> 80 tokens/s at 22 %: each raw change beside its own margin.

    A tolerance is one of the raw change, so +25 % is beyond +22 % and -20 % is not beyond -22 %: what differs is shown.
    The slowdown is one: 1.25 in both; margins of the same slowdown, +22 % and -18.03 %, give the same verdict.
    """
    pair = build.pair()
    record = build.window(pair, [10.0] * 2, [8.0] * 2)
    margins = {"tpot_p50": 0.22, "decode_rate_p50": 0.22}

    time, rate = judge(build.gate(pair, *(build.threshold(name, margin=at) for name, at in margins.items())), record)
    [alike] = judge(build.gate(pair, build.threshold("decode_rate_p50", margin=1 - 1 / 1.22)), record)

    assert [time.reference, time.candidate] == pytest.approx([0.010, 0.0125])
    assert [rate.reference, rate.candidate] == pytest.approx([100, 80])
    assert "worse +25.0 %" in time.summary
    assert "margin +22 %" in time.summary
    assert "worse -20.0 %" in rate.summary
    assert "margin -22 %" in rate.summary
    assert [math.exp(-verdict.ratios[0]) for verdict in (time, rate)] == [pytest.approx(1.25)] * 2
    assert (time.outcome, rate.outcome, alike.outcome) == (Outcome.FAIL, Outcome.PASS, Outcome.FAIL)


def test_case_41_two_weightings_of_the_same_answers(build: type[Build]) -> None:
    """Case 41: 2 tokens 100 ms apart and 101 tokens 10 ms apart: 55 ms by request, 1100 / 101 = 10.9 ms by token."""
    short, long = [0.1, 0.2], [0.1 + 0.01 * n for n in range(101)]
    answers = [
        build.request(index, ttft_s=events[0], last_token_s=events[-1], output_tokens=len(events))
        for index, events in enumerate((short, long))
    ]
    point = build.point(answers).model_copy(update={"gaps": _gaps(short, long)})

    assert _value(build, "tpot_mean", point) == pytest.approx(0.055)
    assert _value(build, "tpot_pooled", point) == pytest.approx(1.1 / 101)
    assert _value(build, "inter_chunk_mean", point) == pytest.approx(1.1 / 101)
    assert measure("inter_chunk_mean", point, build.profile()).n == 101
    assert METRICS["tpot_mean"].weighting == "each request once"
    assert METRICS["tpot_pooled"].weighting == "each output token once"
    assert METRICS["inter_chunk_mean"].weighting == "each gap once, over all answers"
