"""What is kept of an answer: times of its chunks where they are asked for, none of its text where that is refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.client import _NOT_KEPT, HttpLoadDriver
from pytest_specgate.adapters.collect import Attempt, Collector
from pytest_specgate.adapters.storage import FileStore, load_record
from pytest_specgate.adapters.transport import Exchange
from pytest_specgate.core.arms import Arm
from pytest_specgate.core.chunk_times import decode
from pytest_specgate.core.counters import CounterPage, Sample
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import BootRecord, ClientRecord, PointRecord, RequestRecord, WindowRecord

if TYPE_CHECKING:
    from pathlib import Path

    from tests.adapters.conftest import Reply, Stub

COMPLETIONS = "/v1/completions"
HEADLINE = b'{"choices": [{"text": "Gold found in the garden"}]}'
GOLD = "Gold"
"""A word of the answer that must not be found anywhere."""

STARTED_NS = 5_000_000_000


def sent(
    stub: Stub, *replies: Reply, processes: int = 1, keep_answers: bool = True, chunk_times: bool = False
) -> tuple[RequestRecord, ...]:
    """Return the records of greedy requests, one a reply."""
    profile = RequestProfile(
        input_tokens=8, output_tokens=2, requests={processes: len(replies)}, client_processes=processes
    )
    stub.on(COMPLETIONS, *replies)
    driver = HttpLoadDriver(keep_answers=keep_answers, chunk_times=chunk_times)
    return driver.run_point(stub.target, [b"{}"] * len(replies), at=processes, profile=profile).requests


@pytest.mark.parametrize("processes", [1, 2])
def test_the_time_of_every_token_event_is_kept(stub: Stub, processes: int) -> None:
    """There are as many times as token events, the first is TTFT and the last that of the last, from any process."""
    tokens = [stub.token("a") for _ in range(5)]
    whole = stub.stream(*tokens, stub.token("", finish_reason="length"), stub.usage(8, 6), b"data: [DONE]\n\n")
    records = sent(stub, whole, whole, stub.stream(*tokens[:3], end="cut"), processes=processes, chunk_times=True)

    assert sorted(record.token_events for record in records) == [3, 6, 6]
    for record in records:
        times_s = decode(record.chunk_times or "")
        assert len(times_s) == record.token_events
        assert times_s[0] == pytest.approx(record.ttft_s, abs=1e-6)
        assert times_s[-1] == pytest.approx(record.last_token_s, abs=1e-6)
        assert list(times_s) == sorted(times_s)


def test_a_request_without_a_token_event_has_no_times(stub: Stub) -> None:
    """A refused request has nothing to keep, and says it as one whose times were not wanted."""
    (record,) = sent(stub, stub.json({"error": {"message": "no"}}, status=400), chunk_times=True)

    assert (record.token_events, record.chunk_times) == (0, None)


def test_times_are_not_kept_unless_they_are_asked_for(stub: Stub) -> None:
    """A record of a session without the option is as long as it ever was."""
    (record,) = sent(stub, stub.good())

    assert record.chunk_times is None
    assert record.text == "ab"


def test_times_are_whole_when_an_answer_is_parsed_while_others_stream() -> None:
    """Whether parsed by and by or at the end, every event has its time; each counts from the send of its request."""
    exchange = Exchange()
    exchange.sent_ns, exchange.status = STARTED_NS, 200
    for place in range(1, 1001):
        exchange.take(STARTED_NS + place * 1_234_567, b'data: {"choices":[{"text":"a"}]}\n\n')

    async def parsed() -> RequestRecord:
        collector = Collector(started_ns=STARTED_NS, keep_times=True, kept_bytes=0)
        task = asyncio.ensure_future(collector.relieve())
        collector.add(Attempt(0, b"0", exchange=exchange))
        while not collector._records:  # noqa: ASYNC110  - the collector tells nobody
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (record,) = collector.finish()[0]
        return record

    found = decode(asyncio.run(parsed()).chunk_times or "")

    assert found == pytest.approx([place * 1.234567e-3 for place in range(1, 1001)], abs=0.51e-6)


@pytest.mark.parametrize("processes", [1, 2])
def test_answers_that_are_not_wanted_leave_their_hashes(stub: Stub, processes: int) -> None:
    """Without texts, all else of a record is as with them: hash, counts and times."""
    records = sent(stub, stub.good(), stub.good(), processes=processes, keep_answers=False)

    assert [record.text for record in records] == [None, None]
    assert {record.text_sha256 for record in records} == {hashlib.sha256(b"ab").hexdigest()}
    assert [(record.error, record.token_events, record.output_tokens) for record in records] == [(None, 2, 2)] * 2


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"data: " + HEADLINE[:-1] + b"\n\n", "an event is not JSON"),
        (b'data: ["Gold found in the garden"]\n\n', "an event is no JSON object"),
        (b'data: {"choices": "Gold found in the garden"}\n\n', "an event has choices of another form"),
        (b'data: {"choices": [{"text": ["Gold found in the garden"]}]}\n\n', "an event has text of another form"),
        (
            b'data: {"choices": [{"delta": {"tool_calls": ["Gold found in the garden"]}}]}\n\n',
            "an event has tool calls of another form",
        ),
        (b'data: {"error": {"message": "cannot parse: Gold found"}}\n\n', "the server sent an error event"),
        (b'event: error\ndata: cannot parse "Gold found"\n\n', "the server sent an error event"),
        (HEADLINE, "the answer is no event stream"),
        (b"data: " + HEADLINE + b"\n\n", "truncated"),
        (b'data: {"choices": [{"text": "Gold \xff"}]}\n\n', "the stream is not UTF-8"),
    ],
)
def test_no_error_quotes_an_answer_that_is_not_wanted(stub: Stub, body: bytes, error: str, processes: int) -> None:
    """What went wrong is told up to where it may begin to quote; with answers kept it is told in full."""
    replies = [stub.stream(body)] * processes
    full = sent(stub, *replies, processes=processes)
    bare = sent(stub, *replies, processes=processes, keep_answers=False)

    assert [record.error for record in bare] == [error + _NOT_KEPT] * processes
    assert GOLD not in "".join(record.model_dump_json() for record in bare)
    assert all(str(record.error).startswith(f"{error}: ") for record in full)


def test_an_error_that_quotes_nothing_stays_whole(stub: Stub) -> None:
    """Where there is no colon there is no quotation, and nothing is said of one."""
    (record,) = sent(stub, stub.stream(b"data: [DONE]\n\n"), keep_answers=False)

    assert record.error == "the stream ended without a token event"


def test_a_refusal_is_no_answer(stub: Stub) -> None:
    """What a server says of its refusal is needed to mend it, and was said before the model said anything."""
    reply = stub.json({"error": {"message": "prompt too long: 9 tokens"}}, status=400)
    (record,) = sent(stub, reply, keep_answers=False)

    assert record.error == "HTTP 400: prompt too long: 9 tokens"


def test_a_server_that_cannot_be_reached_is_named_in_full(stub: Stub) -> None:
    """Where no answer began there is none to quote."""
    (record,) = sent(stub, stub.stream(end="cut"), keep_answers=False)

    assert record.status is None
    assert not str(record.error).endswith(_NOT_KEPT)


def test_a_record_has_a_line_for_each_request(tmp_path: Path) -> None:
    """One request, and one page of counters, is one line of the file, whatever line breaks and braces its text has."""
    texts = ("plain", "two\nlines {\n       }", '\\n      } "quoted": [')
    record = _window(tuple(_request(number, text) for number, text in enumerate(texts)))
    path = tmp_path / "window" / "record.json"
    FileStore(path.parent).save(record)
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line.rstrip(",")) for line in lines if line.startswith('      { "index": ')]

    assert [row["text"] for row in rows] == list(texts)
    assert len([line for line in lines if line.startswith('      "samples": [ { "name": ')]) == 2
    assert max(len(line) - len(line.lstrip(" ")) for line in lines) == 6
    assert load_record(path) == record
    assert json.loads(path.read_text(encoding="utf-8")) == record.model_dump(mode="json")


def _request(index: int, text: str) -> RequestRecord:
    return RequestRecord(
        index=index,
        due_s=None,
        sent_s=0.25,
        status=200,
        error=None,
        ttft_s=0.1,
        first_text_s=0.1,
        last_token_s=0.3,
        closed_s=0.3,
        prompt_tokens=8,
        output_tokens=3,
        token_events=3,
        finish_reason="length",
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        text=text,
        body_sha256="1" * 64,
    )


def _window(requests: tuple[RequestRecord, ...]) -> WindowRecord:
    page = CounterPage(samples=(Sample(name="vllm:generation_tokens_total", labels={"engine": "0"}, value=1.5),))
    client = ClientRecord(
        processes=1,
        wall_s=10.0,
        cpu_s=0.5,
        busiest_cpu_share=0.05,
        lag_p50_s=0.001,
        lag_p95_s=0.002,
        lag_p99_s=0.002,
        lag_max_s=0.004,
        late_sends_p95_s=None,
    )
    point = PointRecord(
        at=1,
        requests=requests,
        gaps=None,
        client=client,
        before=page,
        after=page,
        gpus=None,
        other_cpu_share=None,
        repetitiveness=None,
    )
    boot = BootRecord(
        arm="off",
        round=1,
        position=0,
        pairs=(),
        command="serve",
        started_at="2026-11-29T12:00:01+00:00",
        boot_s=30.5,
        profile={},
        resolved={},
        points=(point,),
    )
    return WindowRecord(
        created_at="2026-11-29T12:00:00.123+00:00",
        finished=True,
        arms=(Arm("off", model="folder"),),
        pairs=(),
        profile=RequestProfile(input_tokens=8, output_tokens=3, requests={1: 10}),
        host={},
        engine={},
        boots=(boot,),
    )
