"""What becomes of bad answers: each is one failed request, with the server's own words, and never sent again."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.core.profile import RequestProfile, encode_body, request_body
from pytest_specgate.testing import FakeSettings, fake_vllm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import RequestRecord
    from tests.adapters.conftest import RunPoint, Stub, Target

COMPLETIONS = "/v1/completions"
DONE = b"data: [DONE]\n\n"
PATIENCE_S = 20.0


def errors(records: Sequence[RequestRecord]) -> list[str | None]:
    """Return what went wrong, request by request."""
    return [record.error for record in records]


def test_case_21_a_refused_request_is_not_sent_again(stub: Stub, run_point: RunPoint) -> None:
    """Case 21: HTTP 503 is a failed request with the server's words, and the next request is the next body."""
    stub.on(COMPLETIONS, stub.text("overloaded", status=503), stub.text("again", status=503), stub.good())
    records = run_point(stub.target, count=3).requests

    assert stub.numbers() == [0, 1, 2]
    assert [record.status for record in records] == [503, 503, 200]
    assert errors(records) == ["HTTP 503: overloaded", "HTTP 503: again", None]


@pytest.mark.parametrize("end", ["cut", "silence"])
def test_a_request_that_broke_off_is_not_sent_again(stub: Stub, run_point: RunPoint, end: str) -> None:
    """Also after a lost connection or a timeout, one body is one request."""
    broken = stub.stream(end="cut") if end == "cut" else stub.stream(end="silence")
    stub.on(COMPLETIONS, broken, stub.good())
    records = run_point(stub.target, count=2, timeout_s=0.3 if end == "silence" else PATIENCE_S).requests

    assert stub.numbers() == [0, 1]
    assert [record.error is None for record in records] == [False, True]


@pytest.mark.parametrize("status", [204, 307, 404, 500])
def test_only_http_200_is_an_answer(stub: Stub, run_point: RunPoint, status: int) -> None:
    """Any other status fails the request, a redirection is not followed, and what the body holds is no stream."""
    stub.on(COMPLETIONS, stub.text("data: [DONE]\n\n" if status != 204 else "", status=status))
    (record,) = run_point(stub.target).requests

    assert str(record.error).startswith(f"HTTP {status}")
    assert (record.status, record.token_events) == (status, 0)
    assert len(stub.seen) == 1


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
def test_case_79_the_message_of_a_refusal_is_shown(stub: Stub, run_point: RunPoint, body: object, shown: str) -> None:
    """Case 79: HTTP 400 with a JSON body gives a failed request without times, and the body's own message."""
    stub.on(COMPLETIONS, stub.json(body, status=400))
    (record,) = run_point(stub.target).requests

    assert record.error == f"HTTP 400: {shown}"
    assert (record.ttft_s, record.output_tokens, record.token_events) == (None, None, 0)


def test_an_endless_refusal_is_cut(stub: Stub, run_point: RunPoint) -> None:
    """A page of text in an error body does not become the message."""
    stub.on(COMPLETIONS, stub.text("<html>" + "x " * 5000, status=500))
    (record,) = run_point(stub.target).requests

    assert record.error is not None
    assert record.error.startswith("HTTP 500: <html>x x")
    assert len(record.error) < 400


def test_case_13_an_error_event_fails_the_request(stub: Stub, run_point: RunPoint) -> None:
    """Case 13: an answer with HTTP 200 that carries an error event is failed, with the event's message."""
    body = {"error": {"message": "engine died", "type": "InternalServerError", "code": 500}}
    event = f"data: {json.dumps(body)}\n\n".encode()
    stub.on(COMPLETIONS, stub.stream(stub.token("a"), stub.token("b"), event, DONE))
    load = run_point(stub.target)

    assert load.requests[0].status == 200
    assert load.requests[0].error == "the server sent an error event: engine died"
    assert load.gaps is None


def test_case_15_an_answer_without_an_end_mark_is_truncated(stub: Stub, run_point: RunPoint) -> None:
    """Case 15: a properly closed stream without an end mark is a failed request, not a fast one."""
    stub.on(COMPLETIONS, stub.stream(stub.token("a"), stub.token("b")))
    (record,) = run_point(stub.target).requests

    assert record.error == "truncated: the stream ended after 2 token events without an end mark"


def test_case_15_finish_reason_and_usage_end_an_answer_too(stub: Stub, run_point: RunPoint) -> None:
    """Case 15, variant: without the end mark, finish reason and counts together make an answer complete."""
    stub.on(COMPLETIONS, stub.stream(stub.token("a", finish_reason="length"), stub.usage(8, 1)))

    assert errors(run_point(stub.target).requests) == [None]


@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_connection_that_is_cut_fails_its_request_only(stub: Stub, run_point: RunPoint, events: int) -> None:
    """A connection closed in the middle of an answer fails that request; the worker goes on with a new connection."""
    end = (stub.usage(8, 2),) if events == 2 else ()
    stub.on(COMPLETIONS, stub.stream(*[stub.token("a")] * events, *end, end="cut"), stub.good())
    broken, good = run_point(stub.target, count=2).requests

    assert broken.error is not None
    assert broken.error.startswith("RemoteProtocolError: ")
    assert broken.token_events == events
    assert good.error is None
    assert stub.numbers() == [0, 1]


def test_a_connection_that_is_cut_in_the_middle_of_an_event_leaves_it_out(stub: Stub, run_point: RunPoint) -> None:
    """Half an event is no token event; the times of those before it are kept with the failed request."""
    stub.on(COMPLETIONS, stub.stream(stub.token("a"), stub.token("b")[:-3], end="cut"))
    (record,) = run_point(stub.target).requests

    assert str(record.error).startswith("RemoteProtocolError: ")
    assert record.token_events == 1
    assert record.ttft_s is not None
    assert record.closed_s is not None
    assert record.last_token_s == record.ttft_s <= record.closed_s


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("events", [0, 1], ids=["from-the-start", "mid-stream"])
def test_silence_is_waited_for_as_long_as_the_profile_says(
    stub: Stub, run_point: RunPoint, events: int, processes: int
) -> None:
    """Case 22: the longest silence is the profile's setting, before the first byte as well as between two."""
    stub.on(COMPLETIONS, stub.stream(*[stub.token("a", finish_reason="length")] * events, end="silence"))
    records = run_point(stub.target, count=2, at=2, timeout_s=0.2, client_processes=processes).requests

    assert errors(records) == ["ReadTimeout: the server was silent for 0.2 s"] * 2
    assert [record.finish_reason for record in records] == ["length" if events else None] * 2


@pytest.mark.parametrize(
    "reads",
    [
        [b'data:{"choices":[{"text":"a"}]}\r', b"\n\r\n", b"data:[DONE]\r\n\r\n"],
        [b'data:{"choices":[{"text":"a"}]}\r', b"\r", b"data:[DONE]\r\r"],
    ],
    ids=["crlf", "cr"],
)
def test_case_8_line_ends_may_be_split_over_reads(stub: Stub, run_point: RunPoint, reads: list[bytes]) -> None:
    """Case 8: CRLF and CR end lines, also with CR and LF in different reads."""
    stub.on(COMPLETIONS, stub.stream(*reads))
    (record,) = run_point(stub.target).requests

    assert (record.error, record.token_events) == (None, 1)


def test_case_9_bytes_may_come_one_by_one(stub: Stub, run_point: RunPoint) -> None:
    """Case 9: events and characters that are split over reads come out whole."""
    answer = b"".join((stub.token("café 漢"), stub.usage(2, 2), DONE))
    stub.on(COMPLETIONS, stub.stream(*(bytes([byte]) for byte in answer)), stub.stream(answer))
    split, whole = run_point(stub.target, count=2).requests

    assert (split.error, split.token_events, split.output_tokens) == (None, 1, 2)
    assert split.text_sha256 == whole.text_sha256 == hashlib.sha256("café 漢".encode()).hexdigest()


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("at", [2, "100/s"])
def test_a_server_that_cannot_be_reached_fails_every_request(
    nobody: Target, run_point: RunPoint, at: Level, processes: int
) -> None:
    """Connection refused is the failure of each request: none is left out, none has a status or a time."""
    records = run_point(nobody, count=3, at=at, client_processes=processes).requests

    assert [record.index for record in records] == [0, 1, 2]
    assert [(record.status, record.ttft_s, record.closed_s) for record in records] == [(None, None, None)] * 3
    assert all(error is not None and error.startswith("ConnectError: ") for error in errors(records))


@pytest.mark.parametrize(
    "secret", ["hf_abcdefghijklmnopqrstuvwx", "sk-abcdefghijklmnopqrstuvwx", "Bearer abcdefghijklmnop"]
)
def test_secrets_do_not_get_into_error_texts(stub: Stub, run_point: RunPoint, secret: str) -> None:
    """A server that repeats an access token in its error body does not get it into the record."""
    stub.on(
        COMPLETIONS,
        stub.json({"error": {"message": f"invalid key {secret} given"}}, status=401),
        stub.stream(f"data: {json.dumps({'error': {'message': f'bad {secret}'}})}\n\n".encode(), DONE),
    )
    records = run_point(stub.target, count=2).requests

    for error in errors(records):
        assert error is not None
        assert secret.removeprefix("Bearer ") not in error
        assert "[redacted]" in error


@pytest.mark.parametrize("processes", [1, 2])
def test_secrets_of_a_server_do_not_get_into_error_texts(
    stub: Stub, run_point: RunPoint, target_at: type[Target], processes: int
) -> None:
    """What the server was given is cut as a whole, also where the text that is shown ends in the middle of it."""

    class Given(target_at):  # type: ignore[misc, valid-type]
        def cleaned(self, text: str) -> str:
            return text.replace("open sesame", "[redacted]")

    event = json.dumps({"error": {"message": "x" * 1965 + "open sesame"}})
    stub.on(
        COMPLETIONS,
        stub.json({"error": {"message": "x" * 295 + "open sesame"}}, status=401),
        stub.stream(f"data: {event}\n\n".encode(), DONE),
    )
    records = run_point(Given(stub.target.url), count=2, client_processes=processes).requests

    for error in errors(records):
        assert str(error).endswith(("x[reda", "x[re"))


def test_a_server_that_dies_half_way_leaves_the_rest_failed(target_at: type[Target]) -> None:
    """Case 71: against the fake vLLM, the requests before its death are complete and all others failed."""
    profile = RequestProfile(input_tokens=4, output_tokens=8, requests={1: 12})
    body = encode_body(request_body(profile, model="fake-model", prompt="Seven gates"))
    with fake_vllm(FakeSettings(step_s=0.0005, die_after_requests=5)) as server:
        records = HttpLoadDriver().run_point(target_at(server.url), [body] * 12, at=1, profile=profile).requests
        code = server.process.wait(PATIENCE_S)

    assert code == 1
    assert [record.error is None for record in records] == [True] * 5 + [False] * 7
    assert {record.output_tokens for record in records[:5]} == {8}
