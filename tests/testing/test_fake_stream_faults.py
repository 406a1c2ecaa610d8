"""Faults of streams: stalls, early ends, cuts; as a client sees them and as the truth has them."""

from __future__ import annotations

import itertools
import json
import socket
from typing import TYPE_CHECKING, Literal

import httpx
import pytest

from pytest_specgate.testing import FakeSettings, RunningFake, fake_vllm
from pytest_specgate.testing.http_server import half_written

if TYPE_CHECKING:
    from collections.abc import Callable


def raw_stream(server: RunningFake) -> bytes:
    """Ask for 24 tokens over a bare socket and return all bytes of the answer until the server closes."""
    fields = {"model": "fake-model", "prompt": "x", "max_tokens": 24, "ignore_eos": True, "stream": True}
    body = json.dumps(fields).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    host, _, port = server.url.removeprefix("http://").partition(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=20) as client:
        client.sendall(head.encode() + body)
        while data := client.recv(65536):
            received += data
    return received


def test_a_stalled_stream_goes_on(ask: Callable[..., httpx.Response]) -> None:
    """The stream stops for at least the set time after the set event, then brings everything; earlier ones do not."""
    settings = FakeSettings(stall_after_requests=1, stall_after_events=3, stall_s=0.3)
    with fake_vllm(settings) as server:
        texts = [ask(server).text for _ in range(2)]
        healthy, stalled = server.truth().requests
    gaps = [b - a for a, b in itertools.pairwise(stalled.event_times_s)]

    assert [text.count('"choices":[{') for text in texts] == [24, 24]
    assert all(text.endswith("data: [DONE]\n\n") for text in texts)
    assert gaps[2] >= 0.2999
    assert healthy.event_tokens == stalled.event_tokens


def test_a_stall_may_last_for_ever(page_when: Callable[..., dict[str, float]]) -> None:
    """Without a time the rest never comes, while the engine finishes and counts; leaving the block ends the server."""
    with fake_vllm(FakeSettings(stall_after_requests=0, stall_after_events=2)) as server:
        with pytest.raises(httpx.ReadTimeout):
            ask_briefly(server)
        page = page_when(server, lambda page: page["request_success_total:length"] == 1)
        (request,) = server.truth().requests

    assert page["generation_tokens_total"] == 24
    assert (len(request.event_tokens), request.output_tokens, request.finish_reason) == (2, 24, "length")
    assert server.process.returncode == 0


def ask_briefly(server: RunningFake) -> None:
    """Stream 24 tokens and give up as soon as nothing comes for a while."""
    body = {"model": "fake-model", "prompt": "x", "max_tokens": 24, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=httpx.Timeout(20, read=0.3)) as answer:
        answer.read()


def test_case_15_a_truncated_stream_ends_in_good_order(
    ask: Callable[..., httpx.Response], counters: Callable[[str], dict[str, float]]
) -> None:
    """Case 15: some events, then the end of the body, without reason, usage or end mark; it counts as aborted."""
    with fake_vllm(FakeSettings(truncate_after_requests=1, truncate_after_events=4)) as server:
        healthy, truncated = ask(server), ask(server)
        again = ask(server, stream=False)
        page = counters(server.metrics())
    events = [json.loads(line.removeprefix("data: ")) for line in truncated.text.split("\n\n")[:-1]]

    assert healthy.text.endswith("data: [DONE]\n\n")
    assert len(events) == 4
    assert {event["choices"][0]["finish_reason"] for event in events} == {None}
    assert again.json()["usage"]["completion_tokens"] == 24
    assert (page["request_success_total:abort"], page["request_success_total:length"]) == (1, 2)


def test_a_truncated_stream_may_have_all_its_tokens(ask: Callable[..., httpx.Response]) -> None:
    """An answer shorter than the fault is truncated after its last token event: usage and end mark are missing."""
    with fake_vllm(FakeSettings(truncate_after_requests=0, truncate_after_events=100)) as server:
        events = [json.loads(line.removeprefix("data: ")) for line in ask(server).text.split("\n\n")[:-1]]

    assert len(events) == 24
    assert events[-1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("inside", ["chunk", "event"])
def test_a_cut_stream_breaks_off_in_an_event(
    inside: Literal["chunk", "event"], ask: Callable[..., httpx.Response]
) -> None:
    """The client has whole events, then half of one, and then no connection any more; later requests are cut, too."""
    settings = FakeSettings(cut_after_requests=1, cut_after_events=5, cut_inside=inside)
    with fake_vllm(settings) as server:
        healthy = ask(server)
        with pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"):
            ask(server)
        _, _, body = raw_stream(server).partition(b"\r\n\r\n")
        truth = server.truth()
    *chunks, last = body.split(b"data: ")

    assert healthy.text.endswith("data: [DONE]\n\n")
    assert len(chunks) == 1 + 5
    assert not last.endswith((b"0\r\n\r\n", b"\n\n\r\n"))
    assert last.endswith(b"\r\n") is (inside == "event")
    assert [len(request.event_tokens) for request in truth.requests] == [24, 5, 5]


def test_half_of_a_chunk_is_framed_as_asked() -> None:
    """A chunk announces all of its event but brings half; or it is whole and the event is not."""
    assert half_written(b"data: 0123456789\n\n", inside="chunk").raw == b"12\r\ndata: 012"
    assert half_written(b"data: 0123456789\n\n", inside="event").raw == b"9\r\ndata: 012\r\n"


def test_case_82_the_first_requests_are_slow(
    ask: Callable[..., httpx.Response], counters: Callable[[str], dict[str, float]]
) -> None:
    """Case 82: the first token of the first requests is late by at least the set time, in a stream or not."""
    with fake_vllm(FakeSettings(slow_first_requests=2, slow_first_s=0.25)) as server:
        ask(server)
        ask(server, stream=False)
        page = counters(server.metrics())
        first = server.truth().requests[0]

    assert first.event_times_s[0] - first.arrived_s >= 0.2499
    assert page["time_to_first_token_seconds_sum"] >= 2 * 0.2499


def test_old_protocol_gets_no_chunks() -> None:
    """A client of HTTP/1.0 gets the bare events until the connection ends."""
    body = b'{"model": "fake-model", "prompt": "x", "max_tokens": 3, "ignore_eos": true, "stream": true}'
    with fake_vllm() as server:
        host, _, port = server.url.removeprefix("http://").partition(":")
        received = b""
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(b"POST /v1/completions HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            while data := client.recv(65536):
                received += data
    head, _, events = received.partition(b"\r\n\r\n")

    assert b"chunked" not in head.lower()
    assert [event[:6] for event in events.split(b"\n\n")] == [b"data: "] * 4 + [b""]
