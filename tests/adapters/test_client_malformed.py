"""Whatever a server sends, a request becomes a record: it breaks no run, and is no good answer by accident."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import RequestRecord

if TYPE_CHECKING:
    from tests.adapters.conftest import Stub

COMPLETIONS = "/v1/completions"
PROFILE = RequestProfile(input_tokens=8, output_tokens=2, requests={1: 1})


def send(stub: Stub, *, processes: int = 1) -> RequestRecord:
    """Send requests, and return the record of one as it comes back from a file."""
    profile = dataclasses.replace(PROFILE, client_processes=processes)
    record = HttpLoadDriver().run_point(stub.target, [b"{}"] * processes, at=processes, profile=profile).requests[-1]
    return RequestRecord.model_validate_json(record.model_dump_json())


@pytest.mark.parametrize(
    "event",
    [
        "not JSON",
        "[]",
        "5",
        '{"choices": [null]}',
        '{"choices": ["x"]}',
        '{"choices": 5}',
        '{"error": {"message": "\\ud83d"}}',
        '{"error": "plain"}',
        '{"error": {"code": 500}}',
        '{"error": true}',
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_a_malformed_event_fails_its_request(stub: Stub, event: str) -> None:
    """An event of another shape is the failure of its request, also when the stream ends as it should."""
    stub.on(COMPLETIONS, stub.stream(f"data: {event}\n\n".encode(), b"data: [DONE]\n\n"))

    assert send(stub).error


@pytest.mark.parametrize(
    "event",
    [
        '{"choices": [{"text": "a", "finish_reason": 5}]}',
        '{"choices": [{"text": "a", "finish_reason": {"x": 1}}]}',
        '{"choices": [{"text": 5}]}',
        '{"choices": [{"text": "\\ud83d"}]}',
        '{"choices": [{"text": "a"}], "usage": {"completion_tokens": 1e999}}',
        '{"choices": [{"text": "a"}], "usage": {"completion_tokens": true}}',
        '{"choices": [{"text": "a"}], "usage": [1]}',
    ],
)
def test_an_odd_field_is_not_believed(stub: Stub, event: str) -> None:
    """Half a character, a reason that is no text and a count that is no number leave no count in the record."""
    stub.on(COMPLETIONS, stub.stream(f"data: {event}\n\n".encode(), b"data: [DONE]\n\n"))
    record = send(stub)

    assert (record.output_tokens, record.finish_reason) == (None, None)


def test_bytes_that_are_no_text_fail_the_request(stub: Stub) -> None:
    """A stream that is not UTF-8 is a failed request."""
    stub.on(COMPLETIONS, stub.stream(b'data: {"choices": [{"text": "\xff"}]}\n\n', b"data: [DONE]\n\n"))

    assert "not UTF-8" in str(send(stub).error)


def test_a_plain_answer_instead_of_a_stream_is_quoted(stub: Stub) -> None:
    """A server that ignores `stream` gives an answer without events, and so without times."""
    stub.on(COMPLETIONS, stub.json({"choices": [{"text": "a"}], "usage": {"completion_tokens": 1}}))
    record = send(stub)

    assert str(record.error).startswith('the answer is no event stream: {"choices": [{"text": "a"}]')
    assert record.ttft_s is None


@pytest.mark.parametrize("processes", [1, 2])
def test_half_a_character_as_finish_reason_can_be_stored(stub: Stub, processes: int) -> None:
    """A reason that no file can hold does not break the point, whichever process got it."""
    event = b'data: {"choices": [{"text": "a", "finish_reason": "\\ud83d"}]}\n\n'
    stub.on(COMPLETIONS, stub.stream(event, b"data: [DONE]\n\n"))

    assert send(stub, processes=processes).finish_reason != "\ud83d"


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    "body",
    ["[" * 100_000, "[" * 990 + "]" * 990, '{"error": {"message": ' + "[" * 900 + "]" * 900 + "}}"],
    ids=["open", "closed", "message"],
)
def test_a_deeply_nested_refusal_is_a_record(stub: Stub, body: str, status: int) -> None:
    """JSON that is nested deeper than Python reads is a failed request like any other."""
    stub.on(COMPLETIONS, stub.text(body, status=status))

    assert send(stub).error


@pytest.mark.parametrize("message", ["\ud83d", "a\x1b[31mb\x00", "\ufffe"])
def test_a_refusal_with_odd_characters_is_a_record(stub: Stub, message: str) -> None:
    """Half a character, or control characters, in an error body can be stored."""
    stub.on(COMPLETIONS, stub.json({"error": {"message": message}}, status=400))

    assert str(send(stub).error).startswith("HTTP 400: ")


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", json.dumps({"error": None}).encode()])
def test_a_refusal_without_a_message_is_a_record(stub: Stub, body: bytes) -> None:
    """The status is told in any case."""
    stub.on(COMPLETIONS, stub.raw(body, status=500))

    assert str(send(stub).error).startswith("HTTP 500: ")
