"""The bytes that the truth server answers with, made before any request comes: vLLM's shape, chunk by chunk."""

from __future__ import annotations

import dataclasses
import functools
import json

MODEL = "truth"
_WORDS = ("a", " model", " answers", " one", " word", " at", " a", " time", ",", " and", " then", " it", " stops")
_PROMPT_TOKENS = 128

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: truth\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
END_OF_BODY = b"0\r\n\r\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """One streamed answer, framed for the wire.

    Attributes:
        events: the token events, each one HTTP chunk.
        closing: what follows the last of them at once: usage, end mark, end of the body.
    """

    events: tuple[bytes, ...]
    closing: tuple[bytes, ...]


@functools.cache
def answer_of(tokens: int) -> Answer:
    """Return the answer of so many token events."""
    events = [_token_event(index, last=index == tokens - 1) for index in range(tokens)]
    usage = {
        "prompt_tokens": _PROMPT_TOKENS,
        "total_tokens": _PROMPT_TOKENS + tokens,
        "completion_tokens": tokens,
    }
    closing = (_chunk(_event_text({**_head(), "choices": [], "usage": usage})), _chunk("data: [DONE]\n\n"), END_OF_BODY)
    return Answer(tuple(map(_chunk, events)), closing)


def stream_text(tokens: int) -> str:
    """Return the event stream of an answer without transfer framing, as a client's parser sees it."""
    parts = (*answer_of(tokens).events, *answer_of(tokens).closing)
    return "".join(part.partition(b"\r\n")[2].removesuffix(b"\r\n").decode() for part in parts)


def plain(body: bytes, *, status: str = "200 OK") -> bytes:
    """Return a whole response with a JSON body."""
    head = (
        f"HTTP/1.1 {status}\r\nserver: truth\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def models_page() -> bytes:
    """Return the body of ``/v1/models``."""
    card = {"id": MODEL, "object": "model", "created": 0, "owned_by": "vllm", "root": MODEL, "max_model_len": 8192}
    return json.dumps({"object": "list", "data": [card]}).encode()


def _head() -> dict[str, object]:
    return {"id": f"cmpl-{0:032x}", "object": "text_completion", "created": 1767225600, "model": MODEL}


def _token_event(index: int, *, last: bool) -> str:
    choice = {
        "index": 0,
        "text": _WORDS[index % len(_WORDS)],
        "logprobs": None,
        "finish_reason": "length" if last else None,
        "stop_reason": None,
        "token_ids": None,
    }
    return _event_text({**_head(), "choices": [choice], "usage": None})


def _event_text(body: dict[str, object]) -> str:
    return f"data: {json.dumps(body, separators=(',', ':'))}\n\n"


def _chunk(text: str) -> bytes:
    data = text.encode()
    return b"%x\r\n%b\r\n" % (len(data), data)
