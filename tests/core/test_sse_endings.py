"""How streams say that something went wrong, and what still counts after their end."""

from __future__ import annotations

import json

import pytest

from pytest_specgate.core.sse import Decoder, Read, Timeline, timeline

DONE = "data: [DONE]\n\n"


def _event(name: str = "", **body: object) -> str:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(body)}\n\n"


def _text(text: str, finish_reason: str | None = None) -> str:
    return _event(choices=[{"index": 0, "text": text, "finish_reason": finish_reason}])


USAGE = _event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2})
GOOD = _text("a") + _text("b", "length") + USAGE


def _seen(stream: str) -> Timeline:
    return timeline([Read(0.1, stream.encode())])


def test_case_13_an_event_that_is_called_error() -> None:
    """Case 13: the name of an event may be all that says error."""
    seen = _seen(_text("a") + _event("error", message="engine died", code=500) + USAGE + DONE)

    assert seen.error == 'the server sent an error event: {"message": "engine died", "code": 500}'


def test_a_name_is_of_its_own_event_only() -> None:
    """An error event that a comment-like block follows does not lend its name to the next."""
    decoder = Decoder()
    names = [(data, decoder.event_name) for data in decoder.feed(b"event: error\n\ndata: a\n\nevent: x\ndata: b\n\n")]

    assert names == [("a", ""), ("b", "x")]


@pytest.mark.parametrize("error", [{}, "", 0, []])
def test_case_13_an_error_that_says_nothing_is_one(error: object) -> None:
    """Case 13: a key `error` that is not null is an error, however little it says."""
    assert _seen(_text("a") + _event(error=error) + USAGE + DONE).error is not None


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_the_server_gave_up_is_failed(reason: str) -> None:
    """Finish reasons `abort` and `error` end no answer that counts."""
    seen = _seen(_text("a") + _text("b", reason) + USAGE + DONE)

    assert seen.error == f"the server ended the answer with finish reason {reason}"


def test_nothing_counts_after_the_end_mark() -> None:
    """What follows ``[DONE]`` belongs to no answer: neither its tokens nor its usage, nor its errors."""
    late = _text("late") + _event(error={"message": "x"}) + _event(choices=[], usage={"completion_tokens": 99})
    seen = timeline([Read(0.1, (GOOD + DONE).encode()), Read(0.5, late.encode())])

    assert (seen.text, seen.output_tokens, seen.error) == ("ab", 2, None)
    assert seen.token_events == (0.1, 0.1)


def test_a_body_that_is_no_stream_is_quoted() -> None:
    """A server that answers 200 with something else is quoted: its message says what is wrong."""
    assert _seen('{"error": "no such adapter"}').error == 'the answer is no event stream: {"error": "no such adapter"}'


def test_reasoning_under_both_names_is_said_once() -> None:
    """A server that sends a reasoning delta under its old and its new name says it once."""
    stream = _event(choices=[{"delta": {"reasoning": "r", "reasoning_content": "r"}, "finish_reason": "stop"}])

    assert _seen(stream + USAGE + DONE).text == "r\x1eanswer\x1f"


@pytest.mark.parametrize("count", [2**53 + 1, 10**400, -1, 1.5, "2"])
def test_a_count_that_no_server_means_is_none(count: object) -> None:
    """Counts beyond every answer are unknown counts, and break nothing."""
    usage = f'data: {{"choices": [], "usage": {{"completion_tokens": {json.dumps(count)}}}}}\n\n'

    assert _seen(_text("a", "stop") + usage + DONE).output_tokens is None
