"""How many events a second the parser of event streams takes: the decoder alone, and the whole way to a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.client.answers import stream_text
from pytest_specgate.core.sse import Decoder, Read, timeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_benchmark.fixture import BenchmarkFixture

    from benchmarks.client.reporting import Report

TOKENS = 1024
# The token events, and usage and end mark.
EVENTS = TOKENS + 2
_STREAM = stream_text(TOKENS).encode()
_EVENTS = [event + b"\n\n" for event in _STREAM.split(b"\n\n") if event]
_HALVES = [half for event in _EVENTS for half in (event[: len(event) // 2], event[len(event) // 2 :])]

STREAMS = {
    "one read an event": _EVENTS,
    "two reads an event": _HALVES,
    "reads of 64 KiB": [_STREAM[start : start + 65536] for start in range(0, len(_STREAM), 65536)],
}


@pytest.mark.parametrize("name", STREAMS)
def test_decoder(benchmark: BenchmarkFixture, report: Report, name: str) -> None:
    """The decoder finds every event, however the stream is cut."""
    count = benchmark(_decode, STREAMS[name])
    _report_speed(benchmark, report, what="decoder", stream=name)

    assert count == EVENTS


@pytest.mark.parametrize("name", STREAMS)
def test_timeline(benchmark: BenchmarkFixture, report: Report, name: str) -> None:
    """The timeline has every token event, however the stream is cut."""
    reads = [Read(number * 0.01, data) for number, data in enumerate(STREAMS[name])]
    seen = benchmark(timeline, reads)
    _report_speed(benchmark, report, what="timeline", stream=name)

    assert len(seen.token_events) == TOKENS
    assert seen.error is None


def _decode(pieces: Sequence[bytes]) -> int:
    decoder = Decoder()
    return sum(1 for piece in pieces for _ in decoder.feed(piece))


def _report_speed(benchmark: BenchmarkFixture, report: Report, *, what: str, stream: str) -> None:
    """Report events per second, unless this run measures nothing (``--benchmark-disable``)."""
    if benchmark.stats is None:
        return
    per_s = round(EVENTS / benchmark.stats.stats.median)
    benchmark.extra_info["events_per_s"] = per_s
    report.add("client-parser", [{"what": what, "stream": stream, "events/s": f"{per_s:,}"}])
