"""The closed loop over real sockets: who is sent what and when.

Times are compared with the stub's own log, which reads the same clock.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_specgate.adapters import load
from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.adapters.transport import StampingTransport
from pytest_specgate.core.profile import RequestProfile

if TYPE_CHECKING:
    from collections.abc import Sequence

    import httpx

    from pytest_specgate.core.records import RequestRecord
    from tests.adapters.conftest import Reply, RunPoint, Seen, Stub

COMPLETIONS = "/v1/completions"
PATIENCE_S = 20.0


def errors(records: Sequence[RequestRecord]) -> list[str | None]:
    """Return what went wrong, request by request."""
    return [record.error for record in records]


@pytest.mark.parametrize("concurrency", [1, 8, 32])
def test_each_worker_has_its_own_connection_and_all_work_at_once(
    stub: Stub, run_point: RunPoint, concurrency: int
) -> None:
    """With c workers there are c connections, c requests in flight as soon as that many are there, and never more."""
    everybody = threading.Barrier(concurrency)

    def wait_for_all(_: Seen) -> Reply:
        everybody.wait(PATIENCE_S)
        return stub.good()

    stub.on(COMPLETIONS, *[wait_for_all] * concurrency, stub.good())
    records = run_point(stub.target, count=3 * concurrency, at=concurrency).requests

    assert errors(records) == [None] * (3 * concurrency)
    assert len({seen.peer for seen in stub.posted()}) == stub.connections == concurrency
    assert max(seen.in_flight for seen in stub.posted()) == concurrency


def test_nothing_but_the_bodies_is_sent(stub: Stub, run_point: RunPoint) -> None:
    """The server sees one request for each body, and no other request and no connection without one."""
    stub.on(COMPLETIONS, stub.good())
    run_point(stub.target, count=4, at=4)

    assert [(seen.method, seen.path) for seen in stub.seen] == [("POST", COMPLETIONS)] * 4
    assert stub.connections == 4


def test_bodies_are_sent_in_order_as_they_are(stub: Stub, run_point: RunPoint) -> None:
    """One worker sends the bodies one after another, byte for byte, each after the end of the last answer."""
    stub.on(COMPLETIONS, stub.good())
    records = run_point(stub.target, count=5).requests
    log = stub.posted()

    assert [seen.body for seen in log] == [b'{"number": %d}' % number for number in range(5)]
    assert [record.index for record in records] == [0, 1, 2, 3, 4]
    assert [record.body_sha256 for record in records] == [hashlib.sha256(seen.body).hexdigest() for seen in log]
    assert all(before.ended_ns < after.received_ns for before, after in itertools.pairwise(log))


def test_bodies_of_any_bytes_are_sent_as_they_are(stub: Stub) -> None:
    """The client does not read what it sends."""
    bodies = [bytes(range(256)), b"\xed\xb2\x80", b"\n"]
    profile = RequestProfile(input_tokens=8, output_tokens=2, requests={1: 3})
    stub.on(COMPLETIONS, stub.good())
    load = HttpLoadDriver().run_point(stub.target, bodies, at=1, profile=profile)

    assert [seen.body for seen in stub.posted()] == bodies
    assert [record.body_sha256 for record in load.requests] == [hashlib.sha256(body).hexdigest() for body in bodies]


def test_a_worker_takes_the_next_body_when_its_own_request_ended(stub: Stub, run_point: RunPoint) -> None:
    """While one answer lasts, the other worker sends all that is left: the loop is closed, there are no waves."""
    others_done = threading.Event()

    def last_of_all(_: Seen) -> Reply:
        others_done.wait(PATIENCE_S)
        return stub.good()

    def release(seen: Seen) -> Reply:
        if seen.body == b'{"number": 5}':
            others_done.set()
        return stub.good()

    stub.on(COMPLETIONS, last_of_all, release)
    records = run_point(stub.target, count=6, at=2).requests
    per_worker = Counter(seen.peer for seen in stub.posted())

    assert sorted(per_worker.values()) == [1, 5]
    assert [record.index for record in records] == [0, 1, 2, 3, 4, 5]
    assert [record.sent_s for record in records] == sorted(record.sent_s for record in records)


def test_waiting_for_a_free_worker_is_not_part_of_ttft(stub: Stub, run_point: RunPoint) -> None:
    """Case 37: with 8 requests at once and 1 worker, each clock starts when the request before has ended."""
    stub.on(COMPLETIONS, stub.good())
    records = run_point(stub.target, count=8).requests

    for before, after in itertools.pairwise(records):
        assert before.closed_s is not None
        assert before.sent_s + before.closed_s < after.sent_s


def test_case_37_a_slow_first_answer_does_not_delay_the_clocks_of_others(stub: Stub, run_point: RunPoint) -> None:
    """Case 37, variant: while one answer is held back the others wait unsent, and none of them counts that wait."""
    held = threading.Event()

    def hold(_: Seen) -> Reply:
        held.wait(0.2)
        return stub.good()

    stub.on(COMPLETIONS, hold, stub.good())
    records = run_point(stub.target, count=8).requests

    assert records[0].ttft_s is not None
    assert records[0].ttft_s >= 0.2
    assert all(record.sent_s > records[0].sent_s + 0.2 for record in records[1:])


def test_what_the_server_counted_is_kept(stub: Stub, run_point: RunPoint) -> None:
    """A good answer's record holds the server's counts, its token events, its finish reason and a hash of its text."""
    end = (stub.token("b", finish_reason="length"), stub.usage(9, 5), b"data: [DONE]\n\n")
    stub.on(COMPLETIONS, stub.stream(stub.token("a"), stub.token(""), *end))
    (record,) = run_point(stub.target).requests

    assert (record.status, record.error, record.finish_reason) == (200, None, "length")
    assert (record.prompt_tokens, record.output_tokens, record.token_events) == (9, 5, 3)
    assert record.text_sha256 == hashlib.sha256(b"ab").hexdigest()
    assert record.due_s is None


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(("temperature", "kept"), [(0.0, True), (0.8, False)])
def test_answers_of_greedy_requests_are_kept(
    stub: Stub, run_point: RunPoint, *, temperature: float, kept: bool, processes: int
) -> None:
    """Under greedy sampling a record holds the answer itself, from every process; sampled answers are not kept."""
    stub.on(COMPLETIONS, stub.good())
    records = run_point(stub.target, count=4, at=2, temperature=temperature, client_processes=processes).requests

    assert [record.text for record in records] == ["ab" if kept else None] * 4


@pytest.mark.parametrize(("at", "temperature", "kept"), [("2 T=0", 0.8, True), ("2 T=0.8", 0.0, False)])
def test_answers_are_kept_by_the_temperature_of_their_level(
    stub: Stub, run_point: RunPoint, *, at: str, temperature: float, kept: bool
) -> None:
    """Whether answers can be compared is a question of the level, and its workers are those of its load."""
    stub.on(COMPLETIONS, stub.good())
    records = run_point(stub.target, count=4, at=at, temperature=temperature).requests

    assert [record.text for record in records] == ["ab" if kept else None] * 4


def test_answers_are_kept_without_secrets(stub: Stub, run_point: RunPoint) -> None:
    """A token that the model says is not stored; the hash is that of what it said."""
    said = "use hf_abcdefghijklmnop1234 for it"
    end = (stub.token("", finish_reason="length"), stub.usage(9, 5), b"data: [DONE]\n\n")
    stub.on(COMPLETIONS, stub.stream(stub.token(said), *end))
    (record,) = run_point(stub.target).requests

    assert record.text == "use [redacted] for it"
    assert record.text_sha256 == hashlib.sha256(said.encode()).hexdigest()


def test_gaps_are_those_between_token_events_of_complete_answers(stub: Stub, run_point: RunPoint) -> None:
    """Each complete answer of n token events has n - 1 gaps, which sum up to its decode time; a failed one has none."""
    cut = stub.stream(*[stub.token("a")] * 9, end="cut")
    stub.on(COMPLETIONS, stub.good(), cut, stub.stream(*[stub.token("a")] * 4, b"data: [DONE]\n\n"))
    load = run_point(stub.target, count=3)
    spans = [record.last_token_s - record.ttft_s for record in load.requests if record.last_token_s and record.ttft_s]
    complete = [spans[0], spans[2]]

    assert load.gaps is not None
    assert load.gaps.count == 1 + 3
    assert load.gaps.sum_s == pytest.approx(np.sum(complete))
    assert load.gaps.p50_s <= load.gaps.p90_s <= load.gaps.p95_s <= load.gaps.p99_s <= load.gaps.max_s


def test_without_token_events_there_are_no_gaps(stub: Stub, run_point: RunPoint) -> None:
    """A point of failed requests has no gaps; that is not the same as gaps of 0."""
    stub.on(COMPLETIONS, stub.text("no", status=503))

    assert run_point(stub.target).gaps is None


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    "variables",
    [{"HTTP_PROXY": "http://127.0.0.1:9"}, {"ALL_PROXY": "http://h:x"}, {"ALL_PROXY": "socks5://127.0.0.1:9"}],
    ids=["unreachable", "malformed", "socks"],
)
def test_case_24_proxies_of_the_environment_are_ignored(
    stub: Stub, run_point: RunPoint, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], processes: int
) -> None:
    """Case 24: whatever proxy variables say, requests go straight to the server, from all processes of the client."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setenv(name.lower(), value)
    stub.on(COMPLETIONS, stub.good())
    load = run_point(stub.target, count=2, at=2, client_processes=processes)

    assert errors(load.requests) == [None, None]
    assert load.client.processes == processes


def test_nothing_to_send_gives_no_records(stub: Stub, run_point: RunPoint) -> None:
    """A point without requests (a profile without warm-up) opens no connection."""
    load = run_point(stub.target, count=0)

    assert (load.requests, load.gaps) == ((), None)
    assert stub.connections == 0


def test_requests_say_what_they_want(stub: Stub, run_point: RunPoint) -> None:
    """Bodies are JSON, answers are asked for as uncompressed events: a compressed one would be stamped late."""
    stub.on(COMPLETIONS, stub.good())
    run_point(stub.target)
    (seen,) = stub.posted()

    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["accept"] == "text/event-stream"
    assert seen.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("at", [1, "100/s"])
def test_case_22_the_silence_that_is_waited_for_is_the_profiles(
    stub: Stub, run_point: RunPoint, monkeypatch: pytest.MonkeyPatch, at: int | str
) -> None:
    """Case 22: the read timeout of every request is the profile's; httpx's own, of 5 s, is nowhere in force."""
    timeouts = []

    class Noting(StampingTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            timeouts.append(request.extensions["timeout"])
            return await super().handle_async_request(request)

    monkeypatch.setattr(load, "StampingTransport", Noting)
    stub.on(COMPLETIONS, stub.good())
    run_point(stub.target, count=2, at=at, timeout_s=601.5)

    assert [timeout["read"] for timeout in timeouts] == [601.5, 601.5]
    assert RequestProfile(input_tokens=8, output_tokens=2, requests={1: 1}).request_timeout_s == 600
