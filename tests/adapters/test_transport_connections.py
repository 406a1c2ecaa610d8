"""Connections of the measuring transport over real sockets: opened, used again, replaced, given up, and closed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import socketserver
import threading
import time
from typing import TYPE_CHECKING
from unittest import mock

import httpx
import pytest

from pytest_specgate.adapters import transport
from pytest_specgate.adapters.transport import EXCHANGE, Exchange, StampingTransport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any, TypeAlias

    from tests.adapters.conftest import Reply, Seen, Stub, Target

    Script: TypeAlias = Callable[[socket.socket, int], None]
    Serve: TypeAlias = Callable[[Script], "Raw"]

PATIENCE_S = 20.0
COMPLETIONS = "/v1/completions"
LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nhello world"


class Raw(socketserver.ThreadingTCPServer):
    """A server that speaks no HTTP by itself: a script has each connection, and its number, for itself."""

    daemon_threads = False

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.connections = 0
        self._script = script

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to the script."""
        del client_address
        number, self.connections = self.connections, self.connections + 1
        request.settimeout(PATIENCE_S)
        with contextlib.suppress(ConnectionError):
            self._script(request, number)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that starts a raw server."""
    with contextlib.ExitStack() as stack:

        def start(script: Script) -> Raw:
            server = stack.enter_context(Raw(script))
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return server

        yield start


def read_request(connection: socket.socket) -> bytes:
    """Read a request with the body ``{}``; return nothing when the client has left."""
    data = b""
    while not data.endswith(b"\r\n\r\n{}"):
        read = connection.recv(65536)
        if not read:
            return b""
        data += read
    return data


def using(url: str, work: Callable[[httpx.AsyncClient], Awaitable[None]], *, timeout_s: float | None = None) -> None:
    """Run something with a client."""

    async def run() -> None:
        timeout = httpx.Timeout(timeout_s, connect=PATIENCE_S)
        async with httpx.AsyncClient(transport=StampingTransport(), base_url=url, timeout=timeout) as client:
            await work(client)

    asyncio.run(asyncio.wait_for(run(), 2 * PATIENCE_S))


def posted(url: str, *, count: int = 1) -> list[httpx.Response | httpx.TransportError]:
    """Send requests one after another and return what became of each."""
    outcomes: list[httpx.Response | httpx.TransportError] = []

    async def work(client: httpx.AsyncClient) -> None:
        for _ in range(count):
            try:
                outcomes.append(await client.post(COMPLETIONS, content=b"{}"))
            except httpx.TransportError as error:
                outcomes.append(error)

    using(url, work)
    return outcomes


def test_one_connection_carries_one_request_after_another(stub: Stub) -> None:
    """Requests of one client share a connection."""
    stub.on(COMPLETIONS, stub.stream(b"hello ", b"world"))
    outcomes = posted(stub.target.url, count=3)

    assert [isinstance(outcome, httpx.Response) and outcome.content for outcome in outcomes] == [b"hello world"] * 3
    assert stub.connections == 1


def test_big_bodies_go_both_ways(stub: Stub) -> None:
    """Requests and answers that no buffer holds arrive whole, and their bytes are counted."""
    body = bytes(range(256)) * 32_768
    echoed: list[httpx.Response] = []

    async def work(client: httpx.AsyncClient) -> None:
        echoed.append(await client.post(COMPLETIONS, content=body))

    stub.on(COMPLETIONS, lambda seen: stub.stream(seen.body[: len(body) // 2], seen.body[len(body) // 2 :]))
    using(stub.target.url, work)
    exchange: Exchange = echoed[0].extensions[EXCHANGE]

    assert echoed[0].content == body
    assert exchange.size == len(body)
    assert len(list(exchange.reads())) > 2


def test_a_connection_that_the_server_closed_while_idle_is_replaced(serve: Serve) -> None:
    """The close of an idle connection costs no request: the next one goes out on a new connection."""

    def one_answer(connection: socket.socket, _: int) -> None:
        read_request(connection)
        connection.sendall(LENGTH)

    server = serve(one_answer)
    statuses: list[int] = []

    async def work(client: httpx.AsyncClient) -> None:
        stamping = client._transport
        assert isinstance(stamping, StampingTransport)
        for _ in range(3):
            statuses.append((await client.post(COMPLETIONS, content=b"{}")).status_code)
            while stamping._connection is not None and stamping._connection.usable:  # noqa: ASYNC110  - tells nobody
                await asyncio.sleep(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "_STALE_S", 10 * PATIENCE_S)
        using(server.url, work)

    assert statuses == [200, 200, 200]
    assert server.connections == 3


def test_a_connection_that_was_idle_for_long_is_replaced(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is idle for longer than servers keep connections is not trusted, though it looks open."""
    assert transport._STALE_S < 5, "common servers close a connection that was idle for 5 s"
    monkeypatch.setattr(transport, "_STALE_S", 0.0)
    stub.on(COMPLETIONS, stub.stream(b"x"))
    outcomes = posted(stub.target.url, count=3)

    assert [isinstance(outcome, httpx.Response) for outcome in outcomes] == [True] * 3
    assert stub.connections == 3


def test_idleness_counts_from_the_end_of_the_last_answer(stub: Stub) -> None:
    """A connection that has just been used is not old, however long its answer took."""
    answered_s: list[float] = []

    def note(_: Seen) -> Reply:
        answered_s.append(time.monotonic())
        return stub.stream(b"x")

    async def work(client: httpx.AsyncClient) -> None:
        stamping = client._transport
        assert isinstance(stamping, StampingTransport)
        await client.post(COMPLETIONS, content=b"{}")

        assert stamping._connection is not None
        assert stamping._connection.used_s >= answered_s[0]

    stub.on(COMPLETIONS, note)
    using(stub.target.url, work)


def test_a_reset_in_the_middle_is_a_read_error(serve: Serve) -> None:
    """A reset is told from a close, and the next request opens a new connection."""

    def reset_once(connection: socket.socket, number: int) -> None:
        while read_request(connection):
            if not number:
                connection.sendall(LENGTH[:-3])
                # What is unread when a socket closes makes it a reset; lingering for 0 s does so always.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                connection.close()
                return
            connection.sendall(LENGTH)

    server = serve(reset_once)
    broken, good = posted(server.url, count=2)

    assert isinstance(broken, httpx.ReadError)
    assert "reset" in str(broken)
    assert isinstance(good, httpx.Response)
    assert server.connections == 2


def test_nobody_listens(nobody: Target) -> None:
    """A refused connection is a connect error, and no request was sent."""
    (outcome,) = posted(nobody.url)

    assert isinstance(outcome, httpx.ConnectError)
    assert outcome.request.extensions[EXCHANGE].sent_ns == 0


def test_a_connection_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connect timeout is an error of its own, which names the address."""

    async def work(client: httpx.AsyncClient) -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", lambda *_: never)
        request = client.post(COMPLETIONS, content=b"{}", timeout=httpx.Timeout(None, connect=0.001))
        with pytest.raises(httpx.ConnectTimeout, match=r"127\.0\.0\.1:9 in time"):
            await asyncio.wait_for(request, 5)

        assert never.cancelled()

    using("http://127.0.0.1:9", work)


def test_only_plain_http_is_spoken() -> None:
    """An address with TLS is refused before anything is opened."""
    (outcome,) = posted("https://127.0.0.1:9")

    assert isinstance(outcome, httpx.UnsupportedProtocol)


@pytest.mark.parametrize("chunks", [(), (b"x",)], ids=["from-the-start", "mid-stream"])
def test_silence_fails_and_closes(stub: Stub, chunks: tuple[bytes, ...]) -> None:
    """A server that is silent for longer than the read timeout fails the request; the connection is closed."""
    stub.on(COMPLETIONS, stub.stream(*chunks, end="silence"))

    async def work(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.ReadTimeout, match=r"silent for 0\.2 s") as caught:
            await client.post(COMPLETIONS, content=b"{}")
        left = await asyncio.to_thread(stub.closed.acquire, timeout=PATIENCE_S)

        assert caught.value.request.extensions[EXCHANGE].body() == b"".join(chunks)
        assert (left, stub.seen[0].left) == (True, True)

    using(stub.target.url, work, timeout_s=0.2)


class Clock:
    """A clock that is set by hand, with the alarms that were asked of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self.alarms: list[tuple[float, Callable[[], None]]] = []
        self.handle = mock.Mock()
        monkeypatch.setattr(transport, "perf_counter_ns", lambda: round(self.now_s * 1e9))
        monkeypatch.setattr(loop, "call_later", self._call_later)

    def _call_later(self, delay_s: float, callback: Callable[[], None]) -> mock.Mock:
        self.alarms.append((self.now_s + delay_s, callback))
        return self.handle

    def ring(self) -> float:
        """Go to the time of the last alarm, let it ring, and return that time."""
        self.now_s, callback = self.alarms.pop()
        callback()
        return self.now_s


def test_a_slow_but_steady_stream_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is on silence, counted from the last read, and not on the answer: it may last longer than that."""

    async def run() -> tuple[list[float], Exchange, Clock]:
        clock = Clock(asyncio.get_running_loop(), monkeypatch)
        connection = transport._Connection()
        connection.connection_made(mock.Mock(asyncio.Transport, **{"is_closing.return_value": False}))
        task = asyncio.ensure_future(connection.exchange(b"", patience_s=10))
        await asyncio.sleep(0)
        rings = []
        for at_s, read in [(106, LENGTH[:40]), (112, LENGTH[40:42]), (119, LENGTH[42:43])]:
            clock.now_s = at_s
            connection.data_received(read)
            rings.append(clock.ring())
        clock.now_s = 125
        connection.data_received(LENGTH[43:])
        return rings, await task, clock

    rings, exchange, clock = asyncio.run(run())

    assert rings == [110, 116, 122]
    clock.handle.cancel.assert_called_once()
    assert exchange.body() == b"hello world"
    assert exchange.closed_s == 25


def test_silence_is_counted_from_the_last_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 10 s allowed and a read after 6 s, the request fails after 16 s of its life, not after 10."""

    async def run() -> list[float]:
        clock = Clock(asyncio.get_running_loop(), monkeypatch)
        connection = transport._Connection()
        connection.connection_made(mock.Mock(asyncio.Transport, **{"is_closing.return_value": False}))
        task = asyncio.ensure_future(connection.exchange(b"", patience_s=10))
        await asyncio.sleep(0)
        clock.now_s = 106
        connection.data_received(LENGTH[:40])
        rings = [clock.ring(), clock.ring()]
        with pytest.raises(httpx.ReadTimeout):
            await task
        assert not clock.alarms, "nobody is waiting any more"
        return rings

    assert asyncio.run(run()) == [110, 116]


def test_cancelling_closes_the_connection(stub: Stub) -> None:
    """A request that is given up leaves no open socket, and the next one has a connection of its own."""
    arrived = threading.Event()

    def silent(_: Seen) -> Reply:
        arrived.set()
        return stub.stream(end="silence")

    stub.on(COMPLETIONS, silent, stub.stream(b"hello"))

    async def work(client: httpx.AsyncClient) -> None:
        task = asyncio.ensure_future(client.post(COMPLETIONS, content=b"{}"))
        await asyncio.to_thread(arrived.wait, PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        left = await asyncio.to_thread(stub.closed.acquire, timeout=PATIENCE_S)

        assert (left, stub.seen[0].left) == (True, True)
        assert (await client.post(COMPLETIONS, content=b"{}")).content == b"hello"

    using(stub.target.url, work)
    gc.collect()

    assert stub.connections == 2


def test_cancelling_while_a_connection_is_opened_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Giving up while connecting gives the connection attempt up, too."""

    async def work(client: httpx.AsyncClient) -> None:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", lambda *_: never)
        task = asyncio.ensure_future(client.post(COMPLETIONS, content=b"{}"))
        while not never._callbacks:  # noqa: ASYNC110  - nothing else tells of a waiter
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert never.cancelled()

    using("http://127.0.0.1:9", work)


def test_closing_an_unused_transport_does_nothing() -> None:
    """A transport that never connected can be closed, as often as one likes."""

    async def run() -> None:
        stamping = StampingTransport()
        await stamping.aclose()
        await stamping.aclose()

    asyncio.run(run())
