"""From bytes to records: the same whether parsed at the end or by and by, and never more kept than allowed."""

from __future__ import annotations

import array
import asyncio
import hashlib
import itertools
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.adapters import collect
from pytest_specgate.adapters.collect import Attempt, Collector, chunk_gaps, percentile
from pytest_specgate.adapters.transport import Exchange
from pytest_specgate.core.sse import Read, TimelineBuilder, timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specgate.core.records import RequestRecord

STARTED_NS = 5_000_000_000
DONE = b"data: [DONE]\n\n"
EVENTS = (
    b'data: {"choices":[{"text":"a"}]}\n\n',
    'data: {"choices":[{"text":"漢"}]}\n\n'.encode(),
    b'data: {"choices":[{"text":"","finish_reason":"length"}]}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":2}}\n\n',
    b": ping\n\n",
    b'data: {"error":{"message":"engine died"}}\n\n',
    b"data: {\n\n",
    b"\xff\n\n",
    DONE,
)


def exchange_of(
    reads: Sequence[bytes], *, status: int = 200, sent_ns: int = STARTED_NS, step_ns: int = 1_000
) -> Exchange:
    """Return an exchange whose reads came at equal distances after its sending."""
    exchange = Exchange()
    exchange.sent_ns, exchange.status = sent_ns, status
    for place, data in enumerate(reads, start=1):
        exchange.take(sent_ns + place * step_ns, data)
    return exchange


def attempts_of(answers: Sequence[Sequence[bytes]]) -> list[Attempt]:
    """Return attempts that got these answers."""
    return [
        Attempt(index, b"%d" % index, exchange=exchange_of(reads, sent_ns=STARTED_NS + index))
        for index, reads in enumerate(answers)
    ]


def finished(attempts: Sequence[Attempt]) -> tuple[list[RequestRecord], array.array[float]]:
    """Return what a collector makes of attempts that are parsed at the end."""

    async def work() -> tuple[list[RequestRecord], array.array[float]]:
        collector = Collector(started_ns=STARTED_NS)
        for attempt in attempts:
            collector.add(attempt)
        return collector.finish()

    return asyncio.run(work())


def relieved(
    attempts: Sequence[Attempt], *, kept_bytes: int, turns: int | None = None
) -> tuple[list[RequestRecord], array.array[float]]:
    """Return what a collector makes of attempts that it parses by and by, cancelled after so many turns of the loop."""

    async def work() -> tuple[list[RequestRecord], array.array[float]]:
        collector = Collector(started_ns=STARTED_NS, kept_bytes=kept_bytes)
        task = asyncio.ensure_future(collector.relieve())
        for attempt in attempts:
            collector.add(attempt)
            await asyncio.sleep(0)
        if turns is None:
            while collector._waiting_bytes > kept_bytes:  # noqa: ASYNC110  - the collector tells nobody
                await asyncio.sleep(0)
        for _ in range(turns or 0):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return collector.finish()

    return asyncio.run(work())


answers = st.lists(st.lists(st.sampled_from(EVENTS), max_size=80), min_size=1, max_size=6)


@given(answers=answers, kept_bytes=st.integers(0, 3000), turns=st.one_of(st.none(), st.integers(0, 20)))
def test_records_do_not_depend_on_when_they_are_parsed(
    answers: list[list[bytes]], kept_bytes: int, turns: int | None
) -> None:
    """Whether parsed at the end, by and by, or broken off half-way: the same records in order, and the same gaps."""
    direct, direct_gaps_s = finished(attempts_of(answers))
    records, gaps_s = relieved(attempts_of(answers), kept_bytes=kept_bytes, turns=turns)

    assert [record.index for record in direct] == list(range(len(answers)))
    assert records == direct
    assert sorted(gaps_s) == sorted(direct_gaps_s)


def test_an_answer_whose_parsing_is_broken_off_is_parsed_again() -> None:
    """The end of a point may come in the middle of a long answer: its record is whole, each event counted once."""
    long = [*[EVENTS[0]] * 1_000, DONE]

    async def work() -> tuple[list[RequestRecord], array.array[float]]:
        collector = Collector(started_ns=STARTED_NS, kept_bytes=0)
        task = asyncio.ensure_future(collector.relieve())
        collector.add(Attempt(0, b"0", exchange=exchange_of(long)))
        for _ in range(4):
            await asyncio.sleep(0)
        assert not collector._waiting, "it is being parsed"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return collector.finish()

    assert asyncio.run(work()) == finished(attempts_of([long]))


@given(answers=answers)
def test_a_record_is_what_the_parser_makes_of_the_reads(answers: list[list[bytes]]) -> None:
    """Times, counts and errors are those of the timeline; hashes are those of text and body."""
    records, _ = finished(attempts_of(answers))

    for record, reads in zip(records, answers, strict=True):
        seen = timeline(Read(place * 1_000 / 1e9, data) for place, data in enumerate(reads, start=1))
        assert record.error == seen.error
        assert record.token_events == len(seen.token_events)
        assert record.ttft_s == (seen.token_events[0] if seen.token_events else None)
        assert record.last_token_s == (seen.token_events[-1] if seen.token_events else None)
        assert (record.first_text_s, record.closed_s) == (seen.first_text_s, seen.closed_s)
        assert (record.prompt_tokens, record.output_tokens) == (seen.prompt_tokens, seen.output_tokens)
        assert record.finish_reason == seen.finish_reason
        assert record.text_sha256 == hashlib.sha256(seen.text.encode()).hexdigest()
        assert record.body_sha256 == hashlib.sha256(b"%d" % record.index).hexdigest()
        assert record.sent_s == record.index / 1e9


def test_gaps_are_those_of_complete_answers_only() -> None:
    """Known stamps give known gaps; an answer that failed contributes none."""
    good = exchange_of([EVENTS[0], EVENTS[1], EVENTS[4], EVENTS[0], DONE], step_ns=2_000_000)
    bad = exchange_of([EVENTS[0], EVENTS[1], EVENTS[5]], step_ns=7_000_000)
    _, gaps_s = finished([Attempt(0, b"", exchange=good), Attempt(1, b"", exchange=bad)])

    assert list(gaps_s) == pytest.approx([0.002, 0.004])


@given(st.lists(st.floats(1e-9, 1e4), min_size=1))
def test_gaps_are_summarised_as_numpy_does(values: list[float]) -> None:
    """Count, sum, percentiles and maximum are those of numpy."""
    gaps = chunk_gaps(array.array("d", values))

    assert gaps is not None
    assert (gaps.count, gaps.max_s) == (len(values), max(values))
    assert gaps.sum_s == pytest.approx(np.sum(values))
    assert (gaps.p50_s, gaps.p90_s, gaps.p95_s, gaps.p99_s) == tuple(np.percentile(values, (50, 90, 95, 99)))


def test_nothing_has_no_gaps_and_a_percentile_of_0() -> None:
    """Gaps that do not exist are absent; lateness that was never measured is 0."""
    assert chunk_gaps(array.array("d")) is None
    assert percentile([], 0.99) == 0
    assert percentile([1.0, 3.0], 0.5) == 2


def test_answers_are_kept_up_to_the_limit_and_parsed_beyond_it() -> None:
    """However many answers come, no more bytes are kept than the limit once the collector had its turns."""

    async def work() -> list[int]:
        collector = Collector(started_ns=STARTED_NS, kept_bytes=10_000)
        task = asyncio.ensure_future(collector.relieve())
        kept = []
        for attempt in attempts_of([[EVENTS[0] * 20, DONE]] * 50):
            collector.add(attempt)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            kept.append(sum(waiting.exchange.size for waiting in collector._waiting))
        task.cancel()
        records, _ = collector.finish()
        assert len(records) == 50
        return kept

    kept = asyncio.run(work())

    assert max(kept) <= 10_000
    assert kept[0] > 0
    assert max(kept) > 5_000, "what fits is kept: parsing it would delay others"


def test_what_is_parsed_lets_go_of_its_bytes() -> None:
    """An attempt whose record is there keeps no answer."""
    attempts = attempts_of([[EVENTS[0], DONE]] * 3)
    finished(attempts)

    assert [attempt.exchange.size for attempt in attempts] == [0, 0, 0]


def test_a_long_answer_is_parsed_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two turns of the loop, 32 reads are parsed and no more: others are stamped in between."""
    fed = itertools.count()
    feed: Callable[[TimelineBuilder, Read], None] = TimelineBuilder.feed
    seen = 0

    def counting(builder: TimelineBuilder, read: Read) -> None:
        nonlocal seen
        seen = next(fed) + 1
        feed(builder, read)

    async def work() -> list[int]:
        collector = Collector(started_ns=STARTED_NS, kept_bytes=0)
        task = asyncio.ensure_future(collector.relieve())
        collector.add(Attempt(0, b"", exchange=exchange_of([EVENTS[0]] * 1_000)))
        progress = []
        while seen < 1_000:
            await asyncio.sleep(0)
            progress.append(seen)
        task.cancel()
        return progress

    monkeypatch.setattr(TimelineBuilder, "feed", counting)
    progress = asyncio.run(work())
    steps = [later - earlier for earlier, later in itertools.pairwise([0, *progress])]

    assert max(steps) == collect._SLICE == 32


def test_an_attempt_that_was_never_sent_has_the_time_it_was_due() -> None:
    """A connection that could not be opened leaves no time of sending; an arrival keeps its due time."""
    (closed, arrival), _ = finished(
        [Attempt(0, b"", failure="ConnectError: no"), Attempt(1, b"", due_s=1.5, failure="ConnectError: no")]
    )

    assert (closed.error, closed.status, closed.due_s) == ("ConnectError: no", None, None)
    assert (arrival.sent_s, arrival.due_s) == (1.5, 1.5)
    assert (arrival.ttft_s, arrival.closed_s) == (None, None)


def test_the_events_of_a_stream_that_broke_off_are_kept_with_its_failure() -> None:
    """A failure from outside the stream does not erase what was seen; an error in the stream goes before it."""
    broken = Attempt(0, b"", exchange=exchange_of(EVENTS[:2]), failure="ReadError: lost")
    told = Attempt(1, b"", exchange=exchange_of([EVENTS[0], EVENTS[5]]), failure="ReadError: lost")
    (first, second), _ = finished([broken, told])

    assert (first.error, first.token_events) == ("ReadError: lost", 2)
    assert second.error == "the server sent an error event: engine died"


def test_the_body_of_a_refusal_is_its_message_and_no_stream() -> None:
    """A refusal has a status, a message and the time of its last read; its body is not parsed as events."""
    ((record,), _) = finished([Attempt(0, b"", exchange=exchange_of([EVENTS[0], DONE], status=500), failure="x")])

    assert str(record.error).startswith('HTTP 500: data: {"choices"')
    assert (record.status, record.token_events, record.ttft_s) == (500, 0, None)


@pytest.mark.parametrize("kept_bytes", [0, 10**9], ids=["by-and-by", "at-the-end"])
def test_refusals_are_parsed_by_and_by_too(kept_bytes: int) -> None:
    """What a refusal says does not depend on when it is read."""
    body = json.dumps({"error": {"message": "no such model"}}).encode()
    attempts = [Attempt(index, b"", exchange=exchange_of([body], status=404)) for index in range(3)]
    records, _ = relieved(attempts, kept_bytes=kept_bytes)

    assert [record.error for record in records] == ["HTTP 404: no such model"] * 3
