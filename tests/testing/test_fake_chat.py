"""The chat API of the fake: deltas after a role, a template that counts, and the same faults as in completions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytest_specgate.core.sse import Read, timeline
from pytest_specgate.testing import FakeSettings, fake_vllm
from pytest_specgate.testing.chat import ChatMessage, ChatPart, has_messages, render
from pytest_specgate.testing.tokenizer import split_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.testing import RunningFake

TALK = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Why is the sky blue?"}]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningFake]:
    """A running fake."""
    with fake_vllm(FakeSettings(step_s=0.0005)) as running:
        yield running


def _chat(server: RunningFake, **fields: Any) -> httpx.Response:
    body = {"model": "fake-model", "messages": TALK, "max_completion_tokens": 12, "ignore_eos": True, **fields}
    return httpx.post(f"{server.url}/v1/chat/completions", json=body)


def _events(answer: httpx.Response) -> list[dict[str, Any]]:
    lines = answer.text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def test_a_stream_begins_with_the_role_and_ends_with_usage(server: RunningFake) -> None:
    """A role without text, then one delta a step, then the usage without a choice."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    role, *deltas, usage = _events(_chat(server, stream=True, stream_options=options))

    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [event["usage"]["completion_tokens"] for event in deltas] == [*range(1, 13)]
    assert [event["choices"][0]["finish_reason"] for event in deltas] == [None] * 11 + ["length"]
    assert all(event["choices"][0]["delta"]["content"] for event in deltas)
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 12)
    assert {event["object"] for event in (role, *deltas, usage)} == {"chat.completion.chunk"}


def test_our_own_reader_takes_the_stream(server: RunningFake) -> None:
    """The role is no token event; twelve deltas are twelve, and the counts are the server's."""
    answer = _chat(server, stream=True, stream_options={"include_usage": True})
    seen = timeline([Read(0.5, answer.content)])

    assert (len(seen.token_events), seen.output_tokens, seen.finish_reason, seen.error) == (12, 12, "length", None)


def test_an_answer_in_one_body(server: RunningFake) -> None:
    """Without a stream the message comes whole, and says what the stream says."""
    whole = _chat(server).json()
    *deltas, _ = _events(_chat(server, stream=True, stream_options={"include_usage": True}))
    streamed = "".join(event["choices"][0]["delta"]["content"] for event in deltas)

    assert whole["choices"][0]["message"] == {"role": "assistant", "content": streamed}
    assert whole["object"] == "chat.completion"
    assert whole["usage"]["completion_tokens"] == 12


def test_tokens_of_a_conversation_are_those_of_its_template(server: RunningFake) -> None:
    """``/tokenize`` with messages counts what the answer's usage counts: the rendered conversation."""
    told = httpx.post(f"{server.url}/tokenize", json={"messages": TALK, "return_token_strs": True}).json()
    usage = _chat(server).json()["usage"]
    rendered = render([ChatMessage.model_validate(turn) for turn in TALK], add_generation_prompt=True)

    assert rendered == "<|system|>\nBe short.\n<|user|>\nWhy is the sky blue?\n<|assistant|>\n"
    assert told["count"] == len(told["tokens"]) == usage["prompt_tokens"] == len(split_pieces(rendered))
    assert "".join(told["token_strs"]) == rendered


def test_the_start_of_the_answer_can_be_left_out(server: RunningFake) -> None:
    """Without a generation prompt the template ends with the last turn, in both places."""
    fields = {"add_generation_prompt": False}
    told = httpx.post(f"{server.url}/tokenize", json={"messages": TALK, **fields}).json()

    assert told["count"] == _chat(server, **fields).json()["usage"]["prompt_tokens"]
    assert told["count"] < httpx.post(f"{server.url}/tokenize", json={"messages": TALK}).json()["count"]


@pytest.mark.parametrize(
    ("limits", "tokens"),
    [({"max_completion_tokens": 5}, 5), ({"max_completion_tokens": None, "max_tokens": 7}, 7), ({"max_tokens": 9}, 12)],
)
def test_either_name_limits_the_answer(server: RunningFake, limits: dict[str, int | None], *, tokens: int) -> None:
    """The older name counts only where the newer one is not given."""
    assert _chat(server, **limits).json()["usage"]["completion_tokens"] == tokens


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"messages": []}, "body.messages"),
        ({"messages": [{"content": "x"}]}, "body.messages.0.role"),
        ({"n": 2}, "body.n"),
        ({"stream_options": {"include_usage": True}}, "body"),
    ],
)
def test_requests_that_cannot_be_answered_are_refused(
    server: RunningFake, fields: dict[str, Any], *, place: str
) -> None:
    """No message, one without a role, two answers at once, stream options without a stream: HTTP 400."""
    answer = _chat(server, **fields)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == place


def test_an_unknown_model_is_refused(server: RunningFake) -> None:
    """The model of a chat request is checked like that of a completion."""
    assert _chat(server, model="other").status_code == 404


def test_parts_of_a_message_are_joined() -> None:
    """A message may come in parts."""
    message = ChatMessage(role="user", content=[ChatPart(text="a"), ChatPart(text="b")])

    assert render([message], add_generation_prompt=False) == "<|user|>\nab\n"


@pytest.mark.parametrize(
    ("body", "found"), [(b'{"messages": 1}', True), (b'{"prompt": "x"}', False), (b"[]", False), (b"{", False)]
)
def test_bodies_about_conversations_are_told_from_others(body: bytes, *, found: bool) -> None:
    """Only an object with messages is about a conversation; what is no JSON is for others to refuse."""
    assert has_messages(body) is found


def test_faults_strike_chat_streams_alike() -> None:
    """A programmed failure of the engine is an error event here too, after the role and a token."""
    with fake_vllm(FakeSettings(step_s=0.0005, error_after_requests=1)) as broken:
        first, second = (
            timeline([Read(0.5, _chat(broken, stream=True, stream_options={"include_usage": True}).content)])
            for _ in range(2)
        )

    assert first.error is None
    assert second.error is not None
    assert "EngineCore" in second.error
