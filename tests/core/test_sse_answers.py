"""What an answer says: text, reasoning and tool calls, joined so that equal answers are equal texts, and no others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_specgate.core.sse import Read, Timeline, timeline

END = 'data: {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 31}}\n\ndata: [DONE]\n\n'


def _delta(finish_reason: str | None = None, **delta: object) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish_reason}]})}\n\n"


def _seen(stream: str) -> Timeline:
    return timeline([Read(0.01, stream.encode())])


def _call(name: str | None = None, arguments: str | None = None, *, index: int = 0, **other: object) -> dict[str, Any]:
    return {"index": index, "function": {"name": name, "arguments": arguments}, **other}


def _said(*deltas: dict[str, Any]) -> str:
    seen = _seen("".join(_delta(**delta) for delta in deltas) + _delta("tool_calls") + END)

    assert seen.error is None
    return seen.text


def test_what_a_tool_call_says_is_part_of_the_answer() -> None:
    """Name and arguments stand behind the text, parted from it by control characters; ids are drawn by chance."""
    begun, ended = _call("weather", '{"city":', id="call-1", type="function"), _call(arguments='"Rome"}')
    said = _said({"content": "Let me"}, {"content": " see."}, {"tool_calls": [begun]}, {"tool_calls": [ended]})

    assert said == 'Let me see.\x1etool call\x1fweather\x1f{"city":"Rome"}'


def test_other_tool_calls_are_other_answers() -> None:
    """Other arguments, another function, another order, or the same words as text: none is the same answer."""
    rome, oslo = _call("weather", "Rome"), _call("weather", "Oslo")
    second = {"index": 1}
    answers: list[list[dict[str, Any]]] = [
        [{"tool_calls": [rome]}],
        [{"tool_calls": [oslo]}],
        [{"tool_calls": [_call("news", "Rome")]}],
        [{"tool_calls": [rome, {**oslo, **second}]}],
        [{"tool_calls": [oslo, {**rome, **second}]}],
        [{"tool_calls": [_call("weatherRome")]}],
        [{"content": "weatherRome"}],
        [{"reasoning": "weatherRome"}],
        [{"reasoning": "weather", "content": "Rome"}],
        [{"content": "weather", "tool_calls": [_call("", "Rome")]}],
        [{"reasoning": "weather", "tool_calls": [_call("", "Rome")]}],
        [{}],
    ]

    assert len({_said(*deltas) for deltas in answers}) == len(answers)


def test_reasoning_and_answer_of_one_event_keep_their_order() -> None:
    """An event of several tokens may end the reasoning and begin the answer: the text is that of single tokens."""
    single = _said({"reasoning": "a"}, {"reasoning": "b"}, {"content": "c"}, {"content": "d"})

    assert _said({"content": "cd", "reasoning": "ab"}) == single == "ab\x1eanswer\x1fcd"
    assert _said({"reasoning": "a"}, {"reasoning": "b", "content": "c"}, {"content": "d"}) == single


def test_a_name_in_every_event_of_a_call_is_one_name() -> None:
    """Servers that repeat the function's name beside each piece of its arguments mean one call."""
    said = _said({"tool_calls": [_call("weather", "Ro")]}, {"tool_calls": [_call("weather", "me")]})

    assert said == "\x1etool call\x1fweather\x1fRome"


def test_calls_side_by_side_stand_in_the_order_of_their_numbers() -> None:
    """Pieces of two calls may come in turns: each call is whole, and the first comes first."""
    said = _said(
        {"tool_calls": [_call("b", "1", index=1)]},
        {"tool_calls": [_call("a", "2"), _call(arguments="3", index=1)]},
        {"tool_calls": [_call(arguments="4")]},
    )

    assert said == "\x1etool call\x1fa\x1f24\x1etool call\x1fb\x1f13"


@pytest.mark.parametrize(
    "calls",
    [
        {"index": 0},
        ["f"],
        [{"function": "f"}],
        [{"function": {"arguments": {"city": "Rome"}}}],
        [{"function": {"name": 5}}],
        [{"index": "a"}],
    ],
)
def test_tool_calls_of_another_form_fail_the_request(calls: object) -> None:
    """What cannot be read cannot be compared: the request fails and quotes it."""
    seen = _seen(_delta(tool_calls=calls) + END)

    assert (seen.error or "").startswith("an event has tool calls of another form: ")
    assert seen.token_events == ()
