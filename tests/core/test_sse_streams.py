"""Whole streams: real captures replayed, and the independence of the result from how the network cuts it."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.sse import Read, events, timeline

if TYPE_CHECKING:
    from tests.core.conftest import Captured

STREAM = (
    'data: {"choices":[{"index":0,"text":"caf\u00e9 \u6f22"}]}\r\n\r\n'
    ': ping\r\rid: 8\rdata:{"choices":[{"index":0,\r\ndata:"text":"b"}]}\n\n'
    'event: message\ndata: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}\r\r'
    'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}\n\r\n'
    "data: [DONE]\r\n\r\n"
).encode()
CUTS = st.lists(st.integers(0, len(STREAM)), max_size=40).map(sorted)
"""Places to cut at; a place that occurs twice makes an empty read."""


def _cut(stream: bytes, cuts: list[int]) -> list[Read]:
    """Cut a stream into reads; the time of a read is the number of bytes that have arrived with it."""
    ends = [*cuts, len(stream)]
    return [Read(float(end), stream[start:end]) for start, end in itertools.pairwise([0, *ends])]


@given(CUTS)
def test_any_cut_gives_the_same_events_and_text(cuts: list[int]) -> None:
    """However a stream is cut into reads, its events, text and counts are the same."""
    whole, parts = _cut(STREAM, []), _cut(STREAM, cuts)

    assert [event.data for event in events(parts)] == [event.data for event in events(whole)]
    assert timeline(parts).text == "café 漢b"
    assert (timeline(parts).output_tokens, timeline(parts).error) == (5, None)


@given(CUTS)
def test_an_event_has_the_time_of_the_read_that_completes_it(cuts: list[int]) -> None:
    """An event is dispatched by the first read that holds the last byte it needs."""
    parts = _cut(STREAM, cuts)
    completed_at = [event.at_s for event in events(_cut(STREAM, list(range(1, len(STREAM)))))]

    expected = [next(read.at_s for read in parts if read.at_s >= needed) for needed in completed_at]

    assert [event.at_s for event in events(parts)] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("completions_c8_14", (170.501, 2252.07, 35, 134, 64, "length"), id="first token without text"),
        pytest.param("chat_01", (66.808, 530.865, 11, 37, 14, "stop"), id="chat that ends by itself"),
        pytest.param("sigkill_engine", (138.788, 1471.941, 21, None, None, None), id="engine killed"),
        pytest.param("sigkill_server", (114.193, 1454.778, 22, None, None, None), id="server killed"),
    ],
)
def test_real_stream(captured: type[Captured], *, name: str, expected: tuple[object, ...]) -> None:
    """A captured stream gives the times, counts and finish reason that were noted when it was captured."""
    seen = timeline(captured.reads(name))

    first, last = (round(1000 * at, 3) for at in (seen.token_events[0], seen.token_events[-1]))
    counts = (len(seen.token_events), seen.prompt_tokens, seen.output_tokens, seen.finish_reason)
    assert (first, last, *counts) == expected


@pytest.mark.parametrize(
    ("name", "sha256"),
    [
        ("completions_c8_14", "3a2c6bd93b71e1a8b5a45d6c1e8f99d6198143a8c62becca194d38361a38ae49"),
        ("chat_01", "981662b0ea0486c659a60856f4f8c4ebb7eab6a4d65c870fdff66740a42d58ef"),
        ("sigkill_engine", "b6fd45cf9840670dcbd43c24755c25a57117c3a1c1815c943c0b68dd727f1b57"),
        ("sigkill_server", "30d979e069d685969fb5dd128bfb3b903aa24c172c993496273d2dc2168f9775"),
    ],
)
def test_text_of_a_real_stream(captured: type[Captured], *, name: str, sha256: str) -> None:
    """The text of a captured stream is the one noted when it was captured, to the byte."""
    seen = timeline(captured.reads(name))

    assert hashlib.sha256(seen.text.encode()).hexdigest() == sha256


def test_first_token_and_first_visible_text_differ(captured: type[Captured]) -> None:
    """A real first token without text lies 57 ms before the first visible text."""
    seen = timeline(captured.reads("completions_c8_14"))

    assert (seen.token_events[0], seen.first_text_s) == (0.170501, 0.227085)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("sigkill_engine", "the server sent an error event: EngineCore encountered an issue."),
        ("sigkill_server", "truncated: the stream ended after 22 token events without an end mark"),
    ],
)
def test_streams_of_killed_servers_are_failures(captured: type[Captured], *, name: str, error: str) -> None:
    """Neither a killed engine, which still sends `[DONE]`, nor a killed server leaves a complete answer."""
    seen = timeline(captured.reads(name))

    assert (seen.error or "").startswith(error)


@given(st.lists(st.integers(0, 13_000), max_size=60).map(sorted))
def test_a_real_stream_survives_any_cut(captured: type[Captured], cuts: list[int]) -> None:
    """A captured stream cut elsewhere has the same text and counts."""
    stream = b"".join(read.data for read in captured.reads("completions_c8_14"))

    seen = timeline(_cut(stream, [cut for cut in cuts if cut < len(stream)]))

    assert (len(seen.token_events), seen.output_tokens, seen.error) == (35, 64, None)
    assert hashlib.sha256(seen.text.encode()).hexdigest().startswith("3a2c6bd93b71e1a8")
