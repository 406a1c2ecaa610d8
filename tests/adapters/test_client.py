"""The closed-loop client over real sockets: who is sent what and when, and what becomes of bad answers.

Times are compared with the stub's own log, which reads the same clock.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.client import ClosedLoopClient
from pytest_specgate.core.profile import RequestProfile, encode_body, request_body
from pytest_specgate.testing import FakeSettings, fake_vllm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.records import RequestRecord
    from tests.adapters.conftest import Reply, Seen, Stub, Target

COMPLETIONS = "/v1/completions"
DONE = b"data: [DONE]\n\n"
PATIENCE_S = 20.0


def token(text: str, *, finish_reason: str | None = None) -> bytes:
    """Return the event of one decode step."""
    choice = {"index": 0, "text": text, "finish_reason": finish_reason}
    return f"data: {json.dumps({'choices': [choice]}, ensure_ascii=False)}\n\n".encode()


def usage(prompt_tokens: int, output_tokens: int) -> bytes:
    """Return the event that carries the server's counts."""
    counts = {"prompt_tokens": prompt_tokens, "completion_tokens": output_tokens}
    return f"data: {json.dumps({'choices': [], 'usage': counts})}\n\n".encode()


GOOD = (token("a"), token("b", finish_reason="length"), usage(8, 2), DONE)


def send(
    server: Server, *, count: int = 1, concurrency: int = 1, timeout_s: float = PATIENCE_S
) -> tuple[RequestRecord, ...]:
    """Send numbered bodies."""
    profile = RequestProfile(
        input_tokens=8, output_tokens=2, requests={concurrency: max(count, concurrency)}, request_timeout_s=timeout_s
    )
    bodies = [json.dumps({"number": number}).encode() for number in range(count)]
    return ClosedLoopClient().run_point(server, bodies, concurrency=concurrency, profile=profile)


def numbers(seen: Sequence[Seen]) -> list[int]:
    """Return which bodies the stub got, in the order of arrival."""
    return [json.loads(one.body)["number"] for one in seen]


def errors(records: Sequence[RequestRecord]) -> list[str | None]:
    """Return what went wrong, request by request."""
    return [record.error for record in records]


@pytest.mark.parametrize("concurrency", [1, 8, 32])
def test_each_worker_has_its_own_connection_and_all_work_at_once(stub: Stub, concurrency: int) -> None:
    """With c workers there are c connections, c requests in flight as soon as that many are there, and never more."""
    everybody = threading.Barrier(concurrency)

    def wait_for_all(_: Seen) -> Reply:
        everybody.wait(PATIENCE_S)
        return stub.stream(*GOOD)

    stub.on(COMPLETIONS, *[wait_for_all] * concurrency, stub.stream(*GOOD))
    records = send(stub.target, count=3 * concurrency, concurrency=concurrency)

    assert errors(records) == [None] * (3 * concurrency)
    assert len({seen.peer for seen in stub.posted()}) == stub.connections == concurrency
    assert max(seen.in_flight for seen in stub.posted()) == concurrency


def test_connections_are_opened_before_the_clock_runs(stub: Stub) -> None:
    """Every connection has carried a request for the health page before the first completion is sent on any."""
    stub.on(COMPLETIONS, stub.stream(*GOOD))
    send(stub.target, count=4, concurrency=4)

    assert [seen.path for seen in stub.seen] == ["/health"] * 4 + [COMPLETIONS] * 4
    assert {seen.peer for seen in stub.seen[:4]} == {seen.peer for seen in stub.seen[4:]}


def test_bodies_are_sent_in_order_as_they_are(stub: Stub) -> None:
    """One worker sends the bodies one after another, byte for byte, each after the end of the last answer."""
    stub.on(COMPLETIONS, stub.stream(*GOOD))
    records = send(stub.target, count=5)
    log = stub.posted()

    assert [seen.body for seen in log] == [b'{"number": %d}' % number for number in range(5)]
    assert [record.index for record in records] == [0, 1, 2, 3, 4]
    assert [record.body_sha256 for record in records] == [hashlib.sha256(seen.body).hexdigest() for seen in log]
    assert all(before.ended_ns < after.received_ns for before, after in itertools.pairwise(log))


def test_a_worker_takes_the_next_body_when_its_own_request_ended(stub: Stub) -> None:
    """While one answer lasts, the other worker sends all that is left: the loop is closed, there are no waves."""
    others_done = threading.Event()

    def last_of_all(_: Seen) -> Reply:
        others_done.wait(PATIENCE_S)
        return stub.stream(*GOOD)

    def release(seen: Seen) -> Reply:
        if numbers([seen]) == [5]:
            others_done.set()
        return stub.stream(*GOOD)

    stub.on(COMPLETIONS, last_of_all, release)
    records = send(stub.target, count=6, concurrency=2)
    per_worker = Counter(seen.peer for seen in stub.posted())

    assert errors(records) == [None] * 6
    assert sorted(per_worker.values()) == [1, 5]
    assert [record.index for record in records] == [0, 1, 2, 3, 4, 5]
    assert [record.sent_s for record in records] == sorted(record.sent_s for record in records)


def test_times_bracket_those_of_the_server(stub: Stub) -> None:
    """A first token is stamped after the server wrote it, counted from a send before the server received anything."""

    def hold(_: Seen) -> Reply:
        threading.Event().wait(0.02)
        return stub.stream(*GOOD)

    stub.on(COMPLETIONS, hold)
    records = send(stub.target, count=3)

    for record, seen in zip(records, stub.posted(), strict=True):
        assert record.ttft_s is not None
        assert record.last_token_s is not None
        assert record.closed_s is not None
        assert record.ttft_s * 1e9 > seen.answered_ns - seen.received_ns
        assert record.ttft_s <= record.last_token_s <= record.closed_s


def test_waiting_for_a_free_worker_is_not_part_of_ttft(stub: Stub) -> None:
    """Case 37: each request's clock starts when its worker sends it, which is after the end of the one before."""
    stub.on(COMPLETIONS, stub.stream(*GOOD))
    records = send(stub.target, count=8)

    for before, after in itertools.pairwise(records):
        assert before.closed_s is not None
        assert before.sent_s + before.closed_s < after.sent_s


def test_what_the_server_counted_is_kept(stub: Stub) -> None:
    """A good answer's record holds the server's counts, its token events, its finish reason and a hash of its text."""
    stub.on(COMPLETIONS, stub.stream(token("a"), token(""), token("b", finish_reason="length"), usage(9, 5), DONE))
    (record,) = send(stub.target)

    assert (record.status, record.error, record.finish_reason) == (200, None, "length")
    assert (record.prompt_tokens, record.output_tokens, record.token_events) == (9, 5, 3)
    assert record.text_sha256 == hashlib.sha256(b"ab").hexdigest()


@pytest.mark.parametrize(
    "variables",
    [{"HTTP_PROXY": "http://127.0.0.1:9"}, {"ALL_PROXY": "http://h:x"}, {"ALL_PROXY": "socks5://127.0.0.1:9"}],
    ids=["unreachable", "malformed", "socks"],
)
def test_case_24_proxies_of_the_environment_are_ignored(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    """Case 24: whatever proxy variables say, requests go straight to the server."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stub.on(COMPLETIONS, stub.stream(*GOOD))
    records = send(stub.target)

    assert errors(records) == [None]


def test_case_21_a_refused_request_is_not_sent_again(stub: Stub) -> None:
    """Case 21: HTTP 503 is a failed request with the server's words, and the next request is the next body."""
    stub.on(COMPLETIONS, stub.text("overloaded", status=503), stub.stream(*GOOD))
    records = send(stub.target, count=2)

    assert numbers(stub.posted()) == [0, 1]
    assert [record.status for record in records] == [503, 200]
    assert errors(records) == ["HTTP 503: overloaded", None]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"error": {"message": "min_p is not supported with speculation"}}, "min_p is not supported with speculation"),
        ({"error": "min_p is not supported"}, "min_p is not supported"),
        ({"detail": "Unprocessable"}, "{'detail': 'Unprocessable'}"),
        (["odd"], "['odd']"),
    ],
    ids=["vllm", "plain", "other", "list"],
)
def test_case_79_the_message_of_a_refusal_is_shown(stub: Stub, body: object, shown: str) -> None:
    """Case 79: HTTP 400 with a JSON body gives a failed request without times, and the body's own message."""
    stub.on(COMPLETIONS, stub.json(body, status=400))
    (record,) = send(stub.target)

    assert record.error == f"HTTP 400: {shown}"
    assert (record.ttft_s, record.output_tokens, record.token_events) == (None, None, 0)


def test_an_endless_refusal_is_cut(stub: Stub) -> None:
    """A page of text in an error body does not become the message."""
    stub.on(COMPLETIONS, stub.text("<html>" + "x" * 5000, status=500))
    (record,) = send(stub.target)

    assert record.error is not None
    assert record.error.startswith("HTTP 500: <html>xxx")
    assert len(record.error) < 400


def test_case_13_an_error_event_fails_the_request(stub: Stub) -> None:
    """Case 13: an answer with HTTP 200 that carries an error event is failed, with the event's message."""
    body = {"error": {"message": "engine died", "type": "InternalServerError", "code": 500}}
    event = f"data: {json.dumps(body)}\n\n".encode()
    stub.on(COMPLETIONS, stub.stream(token("a"), token("b"), event, DONE))
    (record,) = send(stub.target)

    assert record.status == 200
    assert record.error == "the server sent an error event: engine died"


def test_case_15_an_answer_without_an_end_mark_is_truncated(stub: Stub) -> None:
    """Case 15: a properly closed stream without an end mark is a failed request, not a fast one."""
    stub.on(COMPLETIONS, stub.stream(token("a"), token("b")))
    (record,) = send(stub.target)

    assert record.error == "truncated: the stream ended after 2 token events without an end mark"


def test_case_15_finish_reason_and_usage_end_an_answer_too(stub: Stub) -> None:
    """Case 15, variant: without the end mark, finish reason and counts together make an answer complete."""
    stub.on(COMPLETIONS, stub.stream(*GOOD[:-1]))
    records = send(stub.target)

    assert errors(records) == [None]


@pytest.mark.parametrize(("chunks", "events"), [((), 0), (GOOD[:1], 1), (GOOD[:3], 2)], ids=["head", "text", "usage"])
def test_a_connection_that_is_cut_fails_its_request_only(stub: Stub, chunks: tuple[bytes, ...], events: int) -> None:
    """A connection closed in the middle of an answer fails that request; the worker goes on with a new connection."""
    stub.on(COMPLETIONS, stub.stream(*chunks, end="cut"), stub.stream(*GOOD))
    broken, good = send(stub.target, count=2)

    assert broken.error is not None
    assert broken.error.startswith("RemoteProtocolError: ")
    assert broken.token_events == events
    assert good.error is None
    assert numbers(stub.posted()) == [0, 1]


@pytest.mark.parametrize("chunks", [(), GOOD[:2]], ids=["from-the-start", "mid-stream"])
def test_silence_is_waited_for_as_long_as_the_profile_says(stub: Stub, chunks: tuple[bytes, ...]) -> None:
    """Case 22: the longest silence is the profile's setting, before the first byte as well as between two."""
    stub.on(COMPLETIONS, stub.stream(*chunks, end="silence"))
    (record,) = send(stub.target, timeout_s=0.2)

    assert record.error == "ReadTimeout"
    assert record.finish_reason == ("length" if chunks else None)


@pytest.mark.parametrize(
    "reads",
    [
        [b'data:{"choices":[{"text":"a"}]}\r', b"\n\r\n", b"data:[DONE]\r\n\r\n"],
        [b'data:{"choices":[{"text":"a"}]}\r', b"\r", b"data:[DONE]\r\r"],
    ],
    ids=["crlf", "cr"],
)
def test_case_8_line_ends_may_be_split_over_reads(stub: Stub, reads: list[bytes]) -> None:
    """Case 8: CRLF and CR end lines, also with CR and LF in different reads."""
    stub.on(COMPLETIONS, stub.stream(*reads))
    (record,) = send(stub.target)

    assert (record.error, record.token_events) == (None, 1)


def test_case_9_bytes_may_come_one_by_one(stub: Stub) -> None:
    """Case 9: events and characters that are split over reads come out whole."""
    answer = b"".join((token("café 漢"), usage(2, 2), DONE))
    stub.on(COMPLETIONS, stub.stream(*(bytes([byte]) for byte in answer)), stub.stream(answer))
    split, whole = send(stub.target, count=2)

    assert (split.error, split.token_events, split.output_tokens) == (None, 1, 2)
    assert split.text_sha256 == whole.text_sha256 == hashlib.sha256("café 漢".encode()).hexdigest()


def test_a_server_that_cannot_be_reached_fails_every_request(nobody: Target) -> None:
    """Connection refused is the failure of each request: none is left out, none has a status or a time."""
    records = send(nobody, count=3, concurrency=2)

    assert [record.index for record in records] == [0, 1, 2]
    assert [(record.status, record.ttft_s, record.closed_s) for record in records] == [(None, None, None)] * 3
    assert all(error is not None and error.startswith("ConnectError: ") for error in errors(records))


def test_nothing_to_send_gives_no_records(stub: Stub) -> None:
    """A point without requests (a profile without warm-up) opens no connection."""
    assert send(stub.target, count=0) == ()
    assert stub.connections == 0


@pytest.mark.parametrize(
    "secret", ["hf_abcdefghijklmnopqrstuvwx", "sk-abcdefghijklmnopqrstuvwx", "Bearer abcdefghijklmnop"]
)
def test_secrets_do_not_get_into_error_texts(stub: Stub, secret: str) -> None:
    """A server that repeats an access token in its error body does not get it into the record."""
    stub.on(
        COMPLETIONS,
        stub.json({"error": {"message": f"invalid key {secret} given"}}, status=401),
        stub.stream(f"data: {json.dumps({'error': {'message': f'bad {secret}'}})}\n\n".encode(), DONE),
    )
    records = send(stub.target, count=2)

    for error in errors(records):
        assert error is not None
        assert secret.removeprefix("Bearer ") not in error
        assert "[redacted]" in error


def test_requests_say_what_they_want(stub: Stub) -> None:
    """Bodies are JSON, answers are asked for as uncompressed events: a compressed one would be stamped late."""
    stub.on(COMPLETIONS, stub.stream(*GOOD))
    send(stub.target)
    (seen,) = stub.posted()

    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["accept"] == "text/event-stream"
    assert seen.headers["accept-encoding"] == "identity"


def test_a_server_that_dies_half_way_leaves_the_rest_failed(target_at: type[Target]) -> None:
    """Case 71: against the fake vLLM, the requests before its death are complete and all others failed."""
    profile = RequestProfile(input_tokens=4, output_tokens=8, requests={1: 12})
    body = encode_body(request_body(profile, model="fake-model", prompt="Seven gates"))
    with fake_vllm(FakeSettings(step_s=0.0005, die_after_requests=5)) as server:
        records = ClosedLoopClient().run_point(target_at(server.url), [body] * 12, concurrency=1, profile=profile)
        code = server.process.wait(PATIENCE_S)

    assert code == 1
    assert [record.error is None for record in records] == [True] * 5 + [False] * 7
    assert {record.output_tokens for record in records[:5]} == {8}
