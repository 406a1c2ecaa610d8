"""The chat API of the fake: conversations become prompts by a template, and answers come as deltas."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from pytest_specgate.testing.messages import (
    SYSTEM_FINGERPRINT,
    AnswerRequest,
    compact,
    event,
    text_and_reason,
    usage_and_end,
)

if TYPE_CHECKING:
    from pytest_specgate.testing.answers import FinishReason

_BEFORE_CONTENT: Final = b',"choices":[{"index":0,"delta":{"content":'
_BEFORE_REASON: Final = b'},"logprobs":null,"finish_reason":'
_AFTER_REASON: Final = b',"token_ids":null}]'


class ChatPart(BaseModel):
    """A piece of a message; only text is understood."""

    model_config = ConfigDict(frozen=True)

    text: str


class ChatMessage(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(frozen=True)

    role: str
    content: str | list[ChatPart]

    @property
    def text(self) -> str:
        """What was said."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


Conversation = Annotated[list[ChatMessage], Field(min_length=1)]


def render(messages: list[ChatMessage], *, add_generation_prompt: bool) -> str:
    """Return what the template of the fake model makes of a conversation."""
    turns = [f"<|{message.role}|>\n{message.text}\n" for message in messages]
    return "".join([*turns, "<|assistant|>\n"] if add_generation_prompt else turns)


class ChatRequest(AnswerRequest):
    """The fields of a chat request that change what the fake does; others are accepted and ignored."""

    messages: Conversation
    max_completion_tokens: PositiveInt | None = None
    add_generation_prompt: bool = True

    @property
    def output_limit(self) -> int:
        """Most tokens the answer may have; the newer of the two names wins, as in vLLM."""
        return super().output_limit if self.max_completion_tokens is None else self.max_completion_tokens

    def single_prompt(self) -> str:
        """Return the rendered conversation."""
        return render(self.messages, add_generation_prompt=self.add_generation_prompt)


class TokenizeChatRequest(BaseModel):
    """The body of ``POST /tokenize`` for a conversation."""

    model: str | None = None
    messages: Conversation
    add_generation_prompt: bool = True
    return_token_strs: bool = False

    @property
    def prompt(self) -> str:
        """The rendered conversation."""
        return render(self.messages, add_generation_prompt=self.add_generation_prompt)


def has_messages(body: bytes) -> bool:
    """Whether a JSON body is about a conversation."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and "messages" in value


class ChatMessages:
    """The events and the body that answer one chat request."""

    def __init__(self, *, identifier: str, created_s: int, model: str) -> None:
        self._head = {"id": identifier, "object": "chat.completion", "created": created_s, "model": model}
        self._chunk = {**self._head, "object": "chat.completion.chunk"}
        self._before_content = b"data: " + compact(self._chunk).removesuffix(b"}") + _BEFORE_CONTENT

    @property
    def opening(self) -> bytes:
        """The event that names the role, before any token."""
        delta = {"role": "assistant", "content": ""}
        return event(
            {**self._chunk, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}
        )

    def token_event(
        self, text: str, finish_reason: FinishReason | None, usage_so_far: dict[str, int] | None = None
    ) -> bytes:
        """Return the event of one decode step."""
        told = text_and_reason(text, finish_reason, between=_BEFORE_REASON)
        return b"".join([self._before_content, told, _AFTER_REASON, usage_and_end(usage_so_far)])

    def usage_event(self, total: dict[str, int], metrics: dict[str, Any] | None = None) -> bytes:
        """Return the event after the last token: no choice, the usage of the whole answer, and its metrics if any."""
        told = {} if metrics is None else {"metrics": metrics}
        return event({**self._chunk, "choices": [], "usage": total, "system_fingerprint": SYSTEM_FINGERPRINT, **told})

    def body(
        self, text: str, finish_reason: FinishReason, total: dict[str, int], metrics: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the answer to a request that does not stream."""
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "logprobs": None,
            "finish_reason": finish_reason,
            "stop_reason": None,
        }
        return {
            **self._head,
            "choices": [choice],
            "system_fingerprint": SYSTEM_FINGERPRINT,
            "usage": {**total, "prompt_tokens_details": None},
            "metrics": metrics,
        }
