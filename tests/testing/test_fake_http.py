"""The fake's HTTP on the wire: connections, framing, clients that leave."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pytest_specgate.testing import FakeSettings, RunningFake, fake_vllm
from pytest_specgate.testing.http_server import HttpConnection, HttpRequest, HttpResponse

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server() -> Iterator[RunningFake]:
    """A healthy server."""
    with fake_vllm(FakeSettings(step_s=0.0005)) as running:
        yield running


def connect(server: RunningFake) -> socket.socket:
    """Open a connection to a server."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def exchange(server: RunningFake, sent: bytes) -> bytes:
    """Send bytes on a connection of their own and return all that comes until the server closes it."""
    received = b""
    with connect(server) as client:
        client.sendall(sent)
        while data := client.recv(65536):
            received += data
    return received


def completion(**fields: Any) -> dict[str, Any]:
    """Make a request body."""
    return {"model": "fake-model", "prompt": "Hello there", "max_tokens": 24, "ignore_eos": True, **fields}


def test_requests_share_a_connection(server: RunningFake) -> None:
    """Two requests sent at once over one socket get two answers in order; the second closes, as asked."""
    received = exchange(
        server,
        b"GET /version HTTP/1.1\r\nhost: x\r\n\r\nGET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )

    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b'{"version":') < received.rindex(b"HTTP/1.1 200 OK")


def test_every_event_is_a_chunk_of_its_own(server: RunningFake) -> None:
    """On the wire each event is one chunk of the transfer coding, ended by the last chunk."""
    body = json.dumps(completion(stream=True)).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    answer_head, _, rest = exchange(server, head.encode() + body).partition(b"\r\n\r\n")
    *chunks, last, empty, nothing = rest.split(b"\r\n")

    assert b"transfer-encoding: chunked" in answer_head.lower()
    assert len(chunks) == 2 * 25
    assert all(chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") for chunk in chunks[1::2])
    assert [int(size, 16) for size in chunks[::2]] == [len(chunk) for chunk in chunks[1::2]]
    assert (last, empty, nothing) == (b"0", b"", b"")


def test_what_is_no_http_is_cut_off(server: RunningFake) -> None:
    """Bytes that are no request end the connection and harm nobody else."""
    assert exchange(server, b"\x00\x01\x02 nonsense\r\n\r\n") == b""
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_expected_continue_is_sent(server: RunningFake) -> None:
    """A client that waits for leave to send its body gets it."""
    body = b'{"prompt": "word"}'
    head = f"POST /tokenize HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {len(body)}\r\n\r\n"
    with connect(server) as client:
        client.sendall(head.encode())
        leave = client.recv(65536)
        client.sendall(body)
        answer = client.recv(65536)

    assert leave.startswith(b"HTTP/1.1 100")
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("streamed", [True, False])
def test_client_that_leaves_aborts_its_request(*, streamed: bool) -> None:
    """A request whose client went away ends as aborted, long before its tokens are through."""
    aborted = re.compile(r'finished_reason="abort".*} 1\.0')
    with fake_vllm(FakeSettings(step_s=0.02)) as slow:
        body = completion(max_tokens=2000, stream=streamed)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{slow.url}/v1/completions", json=body, timeout=httpx.Timeout(10, read=0.01))
        pages = (httpx.get(f"{slow.url}/metrics").text for _ in range(500))
        page = next((page for page in pages if aborted.search(page)), "")

    assert 'vllm:num_requests_running{engine="0",model_name="fake-model"} 0.0' in page
    assert 'finished_reason="length",model_name="fake-model"} 0.0' in page


def test_broken_handler_cuts_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """An error nobody expected closes the connection, so that no client waits for ever, and is logged."""

    async def broken(request: HttpRequest) -> HttpResponse:
        raise LookupError(request.path)

    async def ask() -> bytes:
        served = await asyncio.get_running_loop().create_server(lambda: HttpConnection(broken, set()), "127.0.0.1", 0)
        async with served:
            reader, writer = await asyncio.open_connection(*served.sockets[0].getsockname())
            writer.write(b"GET /somewhere HTTP/1.1\r\nhost: x\r\n\r\n")
            received = await reader.read()
            writer.close()
            await writer.wait_closed()
            return received

    assert asyncio.run(ask()) == b""
    assert "LookupError: /somewhere" in caplog.text
