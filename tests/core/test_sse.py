"""Streams as servers really send them: what counts as a token, when, and what counts as an answer."""

from __future__ import annotations

import json

import pytest

from pytest_specgate.core.sse import Read, Timeline, timeline

DONE = "data: [DONE]\n\n"


def _event(**body: object) -> str:
    return f"data: {json.dumps(body)}\n\n"


def _text(text: str, finish_reason: str | None = None) -> str:
    return _event(choices=[{"index": 0, "text": text, "finish_reason": finish_reason}])


def _delta(finish_reason: str | None = None, **delta: object) -> str:
    return _event(choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])


def _usage(prompt_tokens: int, completion_tokens: int) -> str:
    return _event(choices=[], usage={"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens})


def _timeline(*stream: tuple[float, str], failure: str | None = None) -> Timeline:
    """Read a stream of (milliseconds, text of one network read)."""
    return timeline((Read(at / 1000, text.encode()) for at, text in stream), failure=failure)


@pytest.mark.parametrize("content", ["", None])
def test_case_1_role_event_is_no_token(content: str | None) -> None:
    """Case 1: TTFT is the time of the first token event, not that of the role event before it."""
    seen = _timeline(
        (50, _delta(role="assistant", content=content)),
        (200, _delta(content="A")),
        (220, _delta(content="B")),
        (240, _delta("length", content="C") + _usage(8, 3) + DONE),
    )

    assert seen.token_events == (0.2, 0.22, 0.24)
    assert (seen.text, seen.output_tokens, seen.error) == ("ABC", 3, None)


@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_case_3_reasoning_counts_as_text(key: str) -> None:
    """Case 3: reasoning deltas are token events, under either of their names."""
    stream = [(100.0 * n, _delta(**{key: "r"})) for n in range(1, 10)]

    seen = _timeline(*stream, (1000, _delta("stop", content="x") + _usage(10, 10) + DONE))

    assert (seen.token_events[0], seen.token_events[-1], len(seen.token_events)) == (0.1, 1.0, 10)
    assert seen.first_text_s == 0.1


def test_case_5_tool_calls_are_token_events() -> None:
    """Case 5: tool-call deltas carry tokens although they have no text, and the count is the server's."""
    seen = _timeline(
        (435.8, _delta(content="x")),
        (619.4, _delta(tool_calls=[{"index": 0}])),
        (801.8, _delta("tool_calls", tool_calls=[{"index": 0}]) + _usage(20, 31) + DONE),
    )

    assert seen.token_events == (0.4358, 0.6194, 0.8018)
    assert (seen.output_tokens, seen.error) == (31, None)


def test_case_5_an_answer_of_tool_calls_only_is_complete() -> None:
    """Case 5: a stream without any text, but with tool calls, is a success; the first may come with the role."""
    seen = _timeline(
        (10, _delta(role="assistant", content=None, tool_calls=[{"index": 0}])),
        (20, _delta("tool_calls", tool_calls=[{"index": 0}]) + _usage(20, 31) + DONE),
    )

    assert (seen.token_events, seen.first_text_s, seen.error) == ((0.01, 0.02), None, None)


def test_case_7_comments_and_ids_dispatch_nothing() -> None:
    """Case 7: a comment block and an id line give no event of their own."""
    stream = "id: 7\n" + _text("a") + ": ping\n\n" + "id: 8\n" + _text("b", "length") + _usage(1, 2) + DONE

    seen = _timeline((10, stream))

    assert (seen.text, len(seen.token_events), seen.error) == ("ab", 2, None)


def test_case_9_one_byte_a_read() -> None:
    """Case 9: an event cut into single bytes has its exact text and the time of the read that completed it."""
    text = "café 漢"
    event = f"data: {json.dumps({'choices': [{'index': 0, 'text': text}]}, ensure_ascii=False)}\n\n".encode()
    reads = [Read(float(at), bytes([byte])) for at, byte in enumerate(event)]

    seen = timeline([*reads, Read(1000.0, (_usage(2, 2) + DONE).encode())])

    assert (seen.text, seen.token_events, seen.error) == (text, (float(len(event) - 1),), None)


def test_case_11_unicode_line_separators_are_text() -> None:
    """Case 11: only CR and LF end a line; other characters that look like line ends stay in the text."""
    text = "a\u2028b\u0085c\u000bd"
    event = json.dumps({"choices": [{"text": text}]}, ensure_ascii=False)

    seen = _timeline((5, f"data: {event}\n\n" + _usage(1, 4) + DONE))

    assert (seen.text, seen.error) == (text, None)


def test_case_12_event_lines_and_several_data_lines() -> None:
    """Case 12: an event name is no obstacle, and several data lines are joined with a newline."""
    stream = 'event: message\ndata: {"choices":[{"text":\ndata: "a"}]}\n\n' + _usage(1, 1) + DONE

    seen = _timeline((5, stream))

    assert (seen.text, len(seen.token_events), seen.error) == ("a", 1, None)


def test_case_13_error_event_in_a_good_response() -> None:
    """Case 13: an error event makes the request fail with its message, although `[DONE]` follows."""
    error = {"message": "engine died", "type": "InternalServerError", "code": 500}

    seen = _timeline((100, _text("a")), (120, _text("b")), (140, _event(error=error) + DONE))

    assert seen.error == "the server sent an error event: engine died"


@pytest.mark.parametrize(
    ("error", "words"), [("out of memory", "out of memory"), ({"code": 500}, '{"code": 500}'), (["x"], "['x']")]
)
def test_case_13_error_events_without_a_message(error: object, words: str) -> None:
    """Case 13: whatever form an error event has, the request fails and what was sent is shown."""
    seen = _timeline((5, _event(error=error) + DONE))

    assert seen.error == f"the server sent an error event: {words}"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"object": "error", "message": "engine died", "code": 500}, "engine died"),
        ({"object": "error", "error": {"message": "engine died"}}, "engine died"),
        ({"object": "error", "code": 500}, '{"object": "error", "code": 500}'),
    ],
)
def test_case_13_error_events_of_the_old_form(body: dict[str, object], words: str) -> None:
    """Case 13: an error object without the key `error` fails the request as well, also after tokens."""
    for before in ("", _text("a", "length") + _usage(1, 1)):
        seen = _timeline((5, before + _event(**body) + DONE))

        assert seen.error == f"the server sent an error event: {words}"


@pytest.mark.parametrize("body", [{"error": None}, {"object": "text_completion"}])
def test_case_13_an_event_without_an_error_is_none(body: dict[str, object]) -> None:
    """Case 13: an empty error and an object of another kind are no error."""
    seen = _timeline((5, _event(**body, choices=[{"text": "a", "finish_reason": "length"}]) + _usage(1, 1) + DONE))

    assert (seen.text, seen.error) == ("a", None)


def test_the_first_error_is_the_one_named() -> None:
    """An error that follows another does not hide it, and a lost connection afterwards does not either."""
    seen = _timeline((5, _event(error="first") + _event(error="second") + "data: {\n\n"), failure="connection lost")

    assert seen.error == "the server sent an error event: first"


def test_case_15_clean_close_without_an_end_mark_is_truncated() -> None:
    """Case 15: text that stops without finish reason, usage or end mark is a failed request."""
    seen = _timeline((5, _text("a")), (9, _text("b")))

    assert seen.error == "truncated: the stream ended after 2 token events without an end mark"
    assert seen.closed_s == 0.009


def test_case_15_finish_reason_and_usage_stand_for_an_end_mark() -> None:
    """Case 15: a stream with both finish reason and usage is complete without `[DONE]`."""
    seen = _timeline((5, _text("a")), (9, _text("b", "length") + _usage(1, 2)))

    assert seen.error is None


def test_case_15_an_event_that_was_cut_off_is_none() -> None:
    """Case 15: bytes after the last complete event are not guessed at."""
    seen = _timeline((5, _text("a") + _text("b").rstrip()))

    assert (seen.text, seen.error is None) == ("a", False)


def test_case_16_null_and_zero_usage_do_not_count() -> None:
    """Case 16: the last usage with numbers in it counts, whatever empty ones came before."""
    empty = [_event(choices=[{"text": "x"}], usage=None)] * 3
    zero = [_event(choices=[{"text": "x"}], usage={"completion_tokens": 0})] * 2

    seen = _timeline((5, "".join([*empty, *zero, _usage(9, 12), DONE])))

    assert (seen.prompt_tokens, seen.output_tokens) == (9, 12)


def test_case_16_a_zero_after_the_count_does_not_erase_it() -> None:
    """Case 16: usage of zero that trails the real one leaves it standing."""
    seen = _timeline((5, _text("x", "length") + _usage(9, 12) + _usage(0, 0) + DONE))

    assert (seen.prompt_tokens, seen.output_tokens) == (9, 12)


@pytest.mark.parametrize("count", [True, "12", 12.0, -3])
def test_a_count_that_is_no_number_is_none(count: object) -> None:
    """A usage count of another type than a whole positive number is unknown, not guessed."""
    seen = _timeline((5, _text("x", "length") + _event(choices=[], usage={"completion_tokens": count}) + DONE))

    assert seen.output_tokens is None


def test_case_18_without_usage_the_count_is_unknown() -> None:
    """Case 18: neither chunks nor the length asked for stand in for a token count."""
    seen = _timeline((100, _text("a")), (120, _text("b")), (140, _text("c")), (160, _text("d", "length") + DONE))

    assert (seen.output_tokens, seen.error, len(seen.token_events)) == (None, None, 4)


def test_case_20_usage_after_the_last_token_moves_only_the_close() -> None:
    """Case 20: the last token's time is that of its event; usage and end mark only close the stream."""
    stream = [(100.0 * n, _text("x", "length" if n == 10 else None)) for n in range(1, 11)]

    seen = _timeline(*stream, (1350, _usage(4, 10)), (1351, DONE))

    assert (seen.token_events[0], seen.token_events[-1], seen.closed_s) == (0.1, 1.0, 1.351)


def test_empty_text_is_a_token_event_but_no_visible_text() -> None:
    """An incomplete character comes as empty text: a token, but not yet anything to see."""
    seen = _timeline((5, _text("")), (9, _text("漢", "length") + _usage(1, 2) + DONE))

    assert (seen.token_events, seen.first_text_s) == ((0.005, 0.009), 0.009)


@pytest.mark.parametrize(
    ("data", "error"),
    [("{", "an event is not JSON: '{'"), ("[1]", "an event is no JSON object: '[1]'"), ("7", "an event is no JSON")],
)
def test_events_that_are_no_json_objects_fail_the_request(data: str, error: str) -> None:
    """An event that cannot be understood fails the request and is quoted."""
    seen = _timeline((5, f"data: {data}\n\n" + DONE))

    assert (seen.error or "").startswith(error)


@pytest.mark.parametrize("choices", [["x"], [None], [{"text": "a"}, 5], 5, {"a": 1}, "x", True])
def test_choices_that_are_no_list_of_objects_fail_the_request(choices: object) -> None:
    """Choices of another form are a failed request that quotes them, and no token event."""
    seen = _timeline((5, _event(choices=choices) + DONE))

    assert (seen.error or "").startswith('an event has choices of another form: \'{"choices": ')
    assert seen.token_events == ()


@pytest.mark.parametrize("body", [{}, {"choices": None}, {"choices": []}])
def test_events_without_choices_are_no_fault(body: dict[str, object]) -> None:
    """An event that has no choices, such as one with usage only, is no token event and no fault."""
    seen = _timeline((5, _text("a", "length") + _event(**body) + _usage(1, 1) + DONE))

    assert (len(seen.token_events), seen.error) == (1, None)


def test_usage_beside_broken_choices_still_counts() -> None:
    """What the server counted is kept of an event whose choices are broken."""
    seen = _timeline((5, _event(choices=5, usage={"prompt_tokens": 4, "completion_tokens": 2}) + DONE))

    assert (seen.prompt_tokens, seen.output_tokens) == (4, 2)


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(DONE, id="end mark only"),
        pytest.param(_usage(4, 2) + DONE, id="usage only"),
        pytest.param(_delta(role="assistant", content="") + DONE, id="role only"),
        pytest.param(_delta("length", role="assistant") + _usage(4, 2) + DONE, id="role, reason and usage"),
    ],
)
def test_a_stream_without_a_token_event_is_no_answer(stream: str) -> None:
    """A stream that ends as it should but brings no token is no complete answer."""
    seen = _timeline((5, stream))

    assert (seen.token_events, seen.error) == ((), "the stream ended without a token event")


def test_case_15_without_a_token_event_reason_and_usage_are_no_end() -> None:
    """Case 15: finish reason and usage stand for an end mark only where there was a token."""
    seen = _timeline((5, _delta("length", role="assistant") + _usage(4, 2)))

    assert seen.error == "truncated: the stream ended after 0 token events without an end mark"


@pytest.mark.parametrize("stream", ["", DONE, _text("a")])
def test_a_failure_outside_names_what_the_stream_lacks(stream: str) -> None:
    """A lost connection is the reason also where the stream by itself would be truncated or empty."""
    assert _timeline((5, stream), failure="connection lost").error == "connection lost"


def test_broken_bytes_do_not_hide_the_first_error() -> None:
    """A line of broken UTF-8 after an error event does not replace its message."""
    seen = timeline([Read(0.1, _event(error={"message": "engine died"}).encode() + b"data: \xff\n\n")])

    assert seen.error == "the server sent an error event: engine died"


def test_bytes_that_are_no_utf8_fail_the_request() -> None:
    """A line of broken UTF-8 fails the request; what came before it keeps its times."""
    seen = timeline([Read(0.1, _text("a").encode()), Read(0.2, b"data: \xff\n\n")])

    assert seen.token_events == (0.1,)
    assert (seen.error or "").startswith("the stream is not UTF-8")


def test_a_failure_outside_the_stream_fails_the_request() -> None:
    """A lost connection is the reason when the stream itself names none, even after a complete answer."""
    seen = _timeline((5, _text("a", "length") + _usage(1, 1) + DONE), failure="connection lost")

    assert seen.error == "connection lost"


def test_nothing_arrived() -> None:
    """A stream without a read has no times at all, and is truncated."""
    seen = _timeline()

    assert (seen.token_events, seen.first_text_s, seen.closed_s) == ((), None, None)
    assert seen.error == "truncated: the stream ended after 0 token events without an end mark"
