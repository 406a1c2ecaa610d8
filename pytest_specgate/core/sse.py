"""Server-sent events: reads of a response body in, timed token events out. No sockets, no clock.

The wire format is the standard's (WHATWG HTML, "Server-sent events"): lines end in CR, LF or CRLF, a blank line
ends an event, comment lines start with a colon, several ``data`` lines are joined with a newline.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core.request_speculation import read_request_speculation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_specgate.core.request_speculation import RequestSpeculation

DONE: Final = "[DONE]"

_ERROR_LENGTH: Final = 4000
"""Of an endless error this much is kept; whoever shows it redacts it and cuts it shorter."""

_MOST_TOKENS: Final = 2**53
"""Counts beyond what a float holds exactly are no counts."""

_CONTENT_KEYS: Final = ("text", "content")
"""Where the answer proper stands: completions, chat."""

_REASONING_KEYS: Final = ("reasoning", "reasoning_content")
"""Where what reasoning parsers split off stands, in both spellings."""

# Control characters that no model writes: what is text cannot be taken for a mark.
_ANSWER_MARK: Final = "\x1eanswer\x1f"
_CALL_MARK: Final = "\x1etool call\x1f"
_NAME_END: Final = "\x1f"


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
        text: all that the answer says: its reasoning, its text and its tool calls, as `Said` spells them.
        prompt_tokens: the server's count, `None` if it sent no usage.
        output_tokens: the server's count, `None` if it sent no usage or counted nothing.
        finish_reason: as sent, `None` if the stream ended without one.
        error: why the answer does not count, `None` if it is complete.
        speculation: what it drafted and accepted; `None` where the server does not tell, or is not believed.
        speculation_problem: why the server is not believed; `None` where it is, and where it told nothing.
    """

    token_events: tuple[float, ...]
    first_text_s: float | None
    closed_s: float | None
    text: str
    prompt_tokens: int | None
    output_tokens: int | None
    finish_reason: str | None
    error: str | None
    speculation: RequestSpeculation | None = None
    speculation_problem: str | None = None


class Decoder:
    """Incremental decoder of an event stream; feed it bytes, get the data of completed events."""

    def __init__(self) -> None:
        self._pending = b""
        self._after_cr = False
        self._first_line = True
        self._data: list[str] = []
        self._name = ""
        self.event_name = ""
        """Name of the event whose data was yielded last; empty for an unnamed one."""

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
            self.event_name, self._name = self._name, ""
            if self._data:
                yield "\n".join(self._data)
            self._data = []
            return
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
        elif name == "event":
            self._name = value.removeprefix(" ")

    @property
    def unfinished(self) -> bytes:
        """What follows the last complete line."""
        return self._pending


def events(reads: Iterable[Read]) -> Iterator[Event]:
    """Yield the events of a stream of reads, in order."""
    decoder = Decoder()
    for read in reads:
        for data in decoder.feed(read.data):
            yield Event(read.at_s, data)


class Said:
    """All that an answer says, part by part, whatever events it came in.

    Where an event begins and ends is a matter of serving: an event of several tokens may hold the end of the reasoning
    and the start of the answer. So each part is joined by itself, and the parts follow each other in one fixed order.
    """

    def __init__(self) -> None:
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._names: dict[int, str] = {}
        self._arguments: dict[int, list[str]] = {}

    def add(self, payload: dict[str, Any]) -> bool:
        """Take what one event says, and return whether any of it is visible text.

        Raises:
            ValueError: text or tool calls have another form; nothing is taken.
        """
        content, reasoning = _texts(payload, _CONTENT_KEYS), _texts(payload, _REASONING_KEYS)
        calls = _calls(payload)
        self._content += content
        self._reasoning += reasoning[:1] if len(set(reasoning)) == 1 else reasoning
        for index, name, arguments in calls:
            self._call(index, name, arguments=arguments)
        return bool(content or reasoning)

    def _call(self, index: int, name: str, *, arguments: str) -> None:
        known = self._names.setdefault(index, "")
        # Some servers repeat the name in every event of a call.
        self._names[index] = known if name == known else known + name
        self._arguments.setdefault(index, []).append(arguments)

    @property
    def text(self) -> str:
        """The reasoning, the text and the tool calls in the order of their numbers, parted by control characters.

        A text alone is itself. Reasoning ends in ``U+001E answer U+001F``; each tool call is ``U+001E tool call
        U+001F``, the function's name, ``U+001F`` and its arguments as sent. Ids of calls are drawn by chance: left out.
        """
        parts = [*self._reasoning, _ANSWER_MARK] if self._reasoning else []
        parts += self._content
        for index, name in sorted(self._names.items()):
            parts += [_CALL_MARK, name, _NAME_END, *self._arguments[index]]
        return _whole("".join(parts))


class TimelineBuilder:
    """Builds the timeline of one answer, read by read.

    Bytes that are no event stream end the building: what follows them is not looked at, and the answer has an error.
    """

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._token_events: list[float] = []
        self._first_text_s: float | None = None
        self._closed_s: float | None = None
        self._said = Said()
        self._prompt_tokens: int | None = None
        self._output_tokens: int | None = None
        self._finish_reason: str | None = None
        self._error: str | None = None
        self._speculation: RequestSpeculation | None = None
        self._speculation_problem: str | None = None
        self._events = 0
        self._done = False
        self._unreadable = False

    def feed(self, read: Read) -> None:
        """Take one read; its time is that of every event that it completes."""
        self._closed_s = read.at_s
        if self._unreadable:
            return
        try:
            for data in self._decoder.feed(read.data):
                self._take(data, at_s=read.at_s)
        except UnicodeDecodeError as error:
            self._unreadable = True
            self._fail(f"the stream is not UTF-8: {error.reason}")

    def finish(self, *, failure: str | None = None) -> Timeline:
        """Return the timeline.

        Args:
            failure: what went wrong outside the stream (a lost connection, a time-out), if anything did.
        """
        return Timeline(
            token_events=tuple(self._token_events),
            first_text_s=self._first_text_s,
            closed_s=self._closed_s,
            text=self._said.text,
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            finish_reason=self._finish_reason,
            error=self._error or failure or self._shortcoming(),
            speculation=self._speculation,
            speculation_problem=self._speculation_problem,
        )

    def _fail(self, error: str) -> None:
        self._error = self._error or error

    def _take(self, data: str, *, at_s: float) -> None:
        if self._done:
            return
        self._events += 1
        if data.strip() == DONE:
            self._done = True
            return
        if self._decoder.event_name == "error":
            self._fail(f"the server sent an error event: {data[:_ERROR_LENGTH]}")
            return
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            self._fail(f"an event is not JSON: {data[:80]!r}")
            return
        if not isinstance(body, dict):
            self._fail(f"an event is no JSON object: {data[:80]!r}")
            return
        if (body.get("error") is not None and body["error"] is not False) or body.get("object") == "error":
            self._fail(_error_text(body.get("error") or body))
        self._take_usage(body.get("usage"))
        self._take_metrics(body.get("metrics"))
        choices = body.get("choices") or []
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            self._fail(f"an event has choices of another form: {data[:80]!r}")
            return
        for choice in choices:
            self._take_choice(choice, at_s=at_s)

    def _take_usage(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        self._prompt_tokens = _count(usage.get("prompt_tokens")) or self._prompt_tokens
        self._output_tokens = _count(usage.get("completion_tokens")) or self._output_tokens

    def _take_metrics(self, metrics: object) -> None:
        """Take what is told of the speculation; what is told last is of the whole answer."""
        told = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
        if told is None:
            return
        self._speculation = self._speculation_problem = None
        try:
            self._speculation = read_request_speculation(told)
        except ValueError as error:
            self._speculation_problem = str(error)

    def _take_choice(self, choice: dict[str, Any], *, at_s: float) -> None:
        reason = choice.get("finish_reason")
        self._finish_reason = _whole(reason) if isinstance(reason, str) and reason else self._finish_reason
        if self._finish_reason in {"abort", "error"}:
            self._fail(f"the server ended the answer with finish reason {self._finish_reason}")
        delta = choice.get("delta")
        payload = delta if isinstance(delta, dict) else choice
        try:
            visible = self._said.add(payload)
        except ValueError as error:
            self._fail(f"an event has {error}")
            return
        if not visible and "role" in payload and not payload.get("tool_calls"):
            return
        self._token_events.append(at_s)
        if visible and self._first_text_s is None:
            self._first_text_s = at_s

    def _shortcoming(self) -> str | None:
        count = len(self._token_events)
        if not self._events and self._decoder.unfinished:
            start = self._decoder.unfinished[:_ERROR_LENGTH].decode("utf-8", "replace")
            return f"the answer is no event stream: {start}"
        if not count and self._done:
            return "the stream ended without a token event"
        if self._done or (count and self._finish_reason and self._output_tokens is not None):
            return None
        return f"truncated: the stream ended after {count} token events without an end mark"


def timeline(reads: Iterable[Read], *, failure: str | None = None) -> Timeline:
    """Turn the reads of one answer into its timeline.

    Args:
        reads: what arrived, in order.
        failure: what went wrong outside the stream (a lost connection, a time-out), if anything did.
    """
    builder = TimelineBuilder()
    for read in reads:
        builder.feed(read)
    return builder.finish(failure=failure)


def _texts(payload: dict[str, Any], keys: tuple[str, ...]) -> list[str]:
    texts = [payload[key] for key in keys if payload.get(key)]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"text of another form: {texts!r:.80}")
    return texts


def _calls(payload: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Return number, name and arguments of the tool calls of an event, as far as it has them."""
    calls = payload.get("tool_calls") or []
    if not isinstance(calls, list) or not all(map(_is_call, calls)):
        raise ValueError(f"tool calls of another form: {calls!r:.80}")
    functions = [(call.get("index") or 0, call.get("function") or {}) for call in calls]
    return [(index, function.get("name") or "", function.get("arguments") or "") for index, function in functions]


def _is_call(call: object) -> bool:
    function = (call.get("function") or {}) if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return False
    texts = [function.get(key) or "" for key in ("name", "arguments")]
    return isinstance(call.get("index") or 0, int) and all(isinstance(text, str) for text in texts)


def _whole(text: str) -> str:
    """Join halves of characters that came in two events; a half that stays alone becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 < value <= _MOST_TOKENS else None


def _error_text(error: object) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return f"the server sent an error event: {str(message or json.dumps(error))[:_ERROR_LENGTH]}"
