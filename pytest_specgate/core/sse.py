"""Server-sent events: reads of a response body in, timed token events out. No sockets, no clock.

The wire format is the standard's (WHATWG HTML, "Server-sent events"): lines end in CR, LF or CRLF, a blank line
ends an event, comment lines start with a colon, several ``data`` lines are joined with a newline.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DONE: Final = "[DONE]"


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """One network read of a response body.

    Attributes:
        at_s: when the bytes arrived, in seconds after the request was sent.
        data: the bytes, without transfer framing.
    """

    at_s: float
    data: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """One dispatched event: its data, and the time of the read that completed it."""

    at_s: float
    data: str


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """What one streamed answer was, in time.

    Attributes:
        token_events: seconds after the send of every token event; a role-only event is none, an event with empty
            text is one.
        first_text_s: seconds to the first event with visible text, `None` if there was none.
        closed_s: seconds to the last read, `None` if nothing arrived.
        text: the answer.
        prompt_tokens: the server's count, `None` if it sent no usage.
        output_tokens: the server's count, `None` if it sent no usage or counted nothing.
        finish_reason: as sent, `None` if the stream ended without one.
        error: why the answer does not count, `None` if it is complete.
    """

    token_events: tuple[float, ...]
    first_text_s: float | None
    closed_s: float | None
    text: str
    prompt_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    error: str | None


class Decoder:
    """Incremental decoder of an event stream; feed it bytes, get the data of completed events."""

    def __init__(self) -> None:
        self._pending = b""
        self._after_cr = False
        self._first_line = True
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[str]:
        """Take the bytes of one read and yield the data of every event that they complete.

        Raises:
            UnicodeDecodeError: a line is not UTF-8.
        """
        if not data:
            return
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        lines = (self._pending + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._pending = lines.pop()
        for line in lines:
            yield from self._line(line.decode("utf-8"))

    def _line(self, line: str) -> Iterator[str]:
        if self._first_line:
            line = line.removeprefix("\ufeff")
            self._first_line = False
        if not line:
            if self._data:
                yield "\n".join(self._data)
            self._data = []
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))


def events(reads: Iterable[Read]) -> Iterator[Event]:
    """Yield the events of a stream of reads, in order."""
    decoder = Decoder()
    for read in reads:
        for data in decoder.feed(read.data):
            yield Event(read.at_s, data)


@dataclasses.dataclass(slots=True)
class _Answer:
    """What has been seen of an answer so far."""

    token_events: list[float] = dataclasses.field(default_factory=list)
    first_text_s: float | None = None
    text: list[str] = dataclasses.field(default_factory=list)
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None
    error: str | None = None
    done: bool = False

    def take(self, event: Event) -> None:
        if event.data.strip() == DONE:
            self.done = True
            return
        try:
            body = json.loads(event.data)
        except (ValueError, RecursionError):
            self.error = self.error or f"an event is not JSON: {event.data[:80]!r}"
            return
        if not isinstance(body, dict):
            self.error = self.error or f"an event is no JSON object: {event.data[:80]!r}"
            return
        if body.get("error") or body.get("object") == "error":
            self.error = self.error or _error_text(body.get("error") or body)
        self._take_usage(body.get("usage"))
        choices = body.get("choices") or []
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            self.error = self.error or f"an event has choices of another form: {event.data[:80]!r}"
            return
        for choice in choices:
            self._take_choice(choice, at_s=event.at_s)

    def _take_usage(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        self.prompt_tokens = _count(usage.get("prompt_tokens")) or self.prompt_tokens
        self.output_tokens = _count(usage.get("completion_tokens")) or self.output_tokens

    def _take_choice(self, choice: dict[str, Any], *, at_s: float) -> None:
        reason = choice.get("finish_reason")
        self.finish_reason = reason if isinstance(reason, str) and reason else self.finish_reason
        delta = choice.get("delta")
        payload = delta if isinstance(delta, dict) else choice
        texts = [payload[key] for key in ("text", "content", "reasoning", "reasoning_content") if payload.get(key)]
        if not all(isinstance(text, str) for text in texts):
            self.error = self.error or f"an event has text of another form: {texts!r:.80}"
            return
        if not texts and "role" in payload and not payload.get("tool_calls"):
            return
        self.token_events.append(at_s)
        if texts and self.first_text_s is None:
            self.first_text_s = at_s
        self.text += texts

    def failure(self) -> str | None:
        if not self.token_events and self.done:
            return "the stream ended without a token event"
        if self.done or (self.token_events and self.finish_reason and self.output_tokens is not None):
            return None
        return f"truncated: the stream ended after {len(self.token_events)} token events without an end mark"


def timeline(reads: Iterable[Read], *, failure: str | None = None) -> Timeline:
    """Turn the reads of one answer into its timeline.

    Args:
        reads: what arrived, in order.
        failure: what went wrong outside the stream (a lost connection, a time-out), if anything did.
    """
    answer = _Answer()
    kept = list(reads)
    try:
        for event in events(kept):
            answer.take(event)
    except UnicodeDecodeError as error:
        answer.error = answer.error or f"the stream is not UTF-8: {error.reason}"
    return Timeline(
        token_events=tuple(answer.token_events),
        first_text_s=answer.first_text_s,
        closed_s=kept[-1].at_s if kept else None,
        text=_whole("".join(answer.text)),
        prompt_tokens=answer.prompt_tokens,
        output_tokens=answer.output_tokens,
        finish_reason=answer.finish_reason,
        error=answer.error or failure or answer.failure(),
    )


def _whole(text: str) -> str:
    """Join halves of characters that came in two events; a half that stays alone becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _error_text(error: object) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return f"the server sent an error event: {message or json.dumps(error)}"
