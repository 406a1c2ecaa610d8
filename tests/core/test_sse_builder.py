"""Building the timeline of an answer read by read, and what is left of one that cannot be read."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.sse import Decoder, Read, TimelineBuilder, timeline

DONE = b"data: [DONE]\n\n"


def _event(**body: object) -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}\n\n".encode()


def _text(text: str) -> bytes:
    return _event(choices=[{"index": 0, "text": text, "finish_reason": None}])


TEXTS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8), min_size=1, max_size=6)
"""Texts of events, with whatever looks like the end of a line to others."""


@st.composite
def _cut_streams(draw: st.DrawFn) -> tuple[list[str], bytes, list[int]]:
    """Draw an answer, its bytes, and where the network cuts them."""
    texts = draw(TEXTS)
    usage = _event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": len(texts)})
    ends = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    stream = b"".join([*map(_text, texts), usage, DONE]).replace(b"\n", ends)
    return texts, stream, sorted(draw(st.lists(st.integers(0, len(stream)), max_size=30)))


@given(_cut_streams())
def test_any_answer_survives_any_cut(answer: tuple[list[str], bytes, list[int]]) -> None:
    """Whatever an answer says and wherever it is cut, text, counts and end are those that were sent."""
    texts, stream, cuts = answer
    reads = [Read(float(end), stream[start:end]) for start, end in itertools.pairwise([0, *cuts, len(stream)])]

    seen = timeline(reads)

    assert (seen.text, len(seen.token_events), seen.error) == ("".join(texts), len(texts), None)
    assert (seen.prompt_tokens, seen.output_tokens) == (3, len(texts))
    assert list(seen.token_events) == sorted(seen.token_events)
    assert seen.closed_s == float(len(stream))


@given(_cut_streams())
def test_a_builder_is_fed_as_the_reads_come(answer: tuple[list[str], bytes, list[int]]) -> None:
    """Feeding reads one by one gives what the whole stream gives at once."""
    _, stream, cuts = answer
    reads = [Read(float(end), stream[start:end]) for start, end in itertools.pairwise([0, *cuts, len(stream)])]
    builder = TimelineBuilder()
    for read in reads:
        builder.feed(read)

    assert builder.finish() == timeline(reads)


PARTS = st.fixed_dictionaries({key: st.text("ab", max_size=4) for key in ("reasoning", "content", "name", "arguments")})
"""What an answer says, part by part."""


def _spoken(parts: dict[str, str], *, chunk: int) -> str:
    """Return the text of an answer whose tokens, single characters, come some in an event."""
    tokens = [(part, character) for part, text in parts.items() for character in text]
    stream = b""
    for few in (tokens[start : start + chunk] for start in range(0, len(tokens), chunk)):
        said = {part: "".join(character for of, character in few if of == part) for part in parts}
        function = {"name": said.pop("name"), "arguments": said.pop("arguments")}
        calls = [{"index": 0, "function": function}] if any(function.values()) else []
        stream += _event(choices=[{"index": 0, "delta": {**said, "tool_calls": calls}}])
    return timeline([Read(0.1, stream + DONE)]).text


@given(PARTS, st.integers(2, 9))
def test_tokens_in_one_event_say_what_single_ones_say(parts: dict[str, str], chunk: int) -> None:
    """However many tokens come in an event, and of whatever parts, the text of the answer is the same."""
    parts = {**parts, "name": parts["name"] and "f"}

    assert _spoken(parts, chunk=chunk) == _spoken(parts, chunk=1)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=10).map(sorted))
def test_no_bytes_break_the_reader(stream: bytes, cuts: list[int]) -> None:
    """Whatever a server sends, the answer is complete or has an error; nothing is raised."""
    places = [cut for cut in cuts if cut <= len(stream)]
    reads = [Read(float(end), stream[start:end]) for start, end in itertools.pairwise([0, *places, len(stream)])]

    seen = timeline(reads)

    assert seen.error is not None
    assert seen.token_events == ()


def test_nothing_is_looked_at_behind_bytes_that_are_no_stream() -> None:
    """After broken UTF-8 nothing counts as a token, but the stream's end is that of its last read."""
    builder = TimelineBuilder()
    builder.feed(Read(0.1, _text("a")))
    builder.feed(Read(0.2, b"data: \xff\n\n"))
    builder.feed(Read(0.3, _text("b") + DONE))
    seen = builder.finish()

    assert (seen.text, seen.token_events, seen.closed_s) == ("a", (0.1,), 0.3)
    assert (seen.error or "").startswith("the stream is not UTF-8")


def test_events_of_a_read_before_its_broken_line_count() -> None:
    """What came whole before the broken line of the same read is kept."""
    seen = timeline([Read(0.1, _text("a") + b"data: \xff\n\n" + _text("b"))])

    assert (seen.text, len(seen.token_events)) == ("a", 1)


def test_a_failure_does_not_hide_what_the_stream_said() -> None:
    """The stream's own error is named before that of the connection, and the connection's before a missing end."""
    failed = TimelineBuilder()
    failed.feed(Read(0.1, _event(error={"message": "engine died"})))
    cut = TimelineBuilder()
    cut.feed(Read(0.1, _text("a")))

    assert failed.finish(failure="ReadError").error == "the server sent an error event: engine died"
    assert cut.finish(failure="ReadError").error == "ReadError"
    assert cut.finish().error == "truncated: the stream ended after 1 token events without an end mark"


def test_an_endless_error_is_cut() -> None:
    """An error event of a megabyte is shown by its beginning: it goes into every record and report."""
    seen = timeline([Read(0.1, _event(error={"message": "x" * 1_000_000}) + DONE)])

    assert (seen.error or "").startswith("the server sent an error event: xxx")
    assert len(seen.error or "") < 5000


@pytest.mark.parametrize("end", [b"", b"\n", b"data: b", b"data: b\n"])
def test_an_event_without_its_blank_line_is_none(end: bytes) -> None:
    """Only a blank line dispatches an event, and the end of the stream does not stand for one."""
    assert list(Decoder().feed(b"data: a\n\n" + end)) == ["a"]
