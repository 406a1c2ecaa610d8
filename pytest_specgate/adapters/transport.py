"""An httpx transport that measures: every network read is stamped in the socket's own callback.

httpx's default transport wakes a task for every chunk of a stream and parses HTTP in Python on the way, which delays
the stamps of all other streams of the process: with 128 of them, first tokens were seen up to 27 ms late. Here a read
costs one clock reading and one call of a parser in C, no task wakes before the answer is whole, and what the bytes mean
is found out afterwards.
"""

from __future__ import annotations

import array
import asyncio
import time
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

import httptools
import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

EXCHANGE: Final = "exchange"
"""Key of `httpx.Response.extensions` under which the stamps are found."""

_STALE_S: Final = 2.0
"""A connection idle for longer is replaced before it is used: servers close idle ones, and might do so just then."""


class Exchange:
    """One request and its answer on the wire; times are of the monotonic clock, in nanoseconds.

    Attributes:
        sent_ns: when the request was handed to the socket; 0 when it never was.
        status: HTTP status of the answer; 0 when none came.
    """

    __slots__ = ("_data", "_ends", "_stamps", "sent_ns", "status")

    def __init__(self) -> None:
        self.sent_ns = 0
        self.status = 0
        self._stamps = array.array("q")
        self._ends = array.array("L")
        self._data = bytearray()

    def take(self, at_ns: int, data: bytes) -> None:
        """Keep a piece of the body with the time of the read that brought it."""
        self._data += data
        self._stamps.append(at_ns)
        self._ends.append(len(self._data))

    @property
    def closed_s(self) -> float | None:
        """Seconds from the sending to the last read of the body; `None` when none came."""
        return (self._stamps[-1] - self.sent_ns) / 1e9 if self._stamps else None

    @property
    def size(self) -> int:
        """Bytes of the body so far."""
        return len(self._data)

    def reads(self) -> Iterator[tuple[float, bytes]]:
        """Yield seconds after the sending, and bytes, of every piece of the body."""
        start = 0
        for at_ns, end in zip(self._stamps, self._ends, strict=True):
            yield (at_ns - self.sent_ns) / 1e9, bytes(self._data[start:end])
            start = end

    def body(self) -> bytes:
        """Return the whole body."""
        return bytes(self._data)

    def clear(self) -> None:
        """Forget the body; httpx's objects refer to each other, and would keep it until the collector runs again."""
        self._data.clear()
        del self._stamps[:], self._ends[:]


class _Body(httpx.AsyncByteStream):
    """The body of an answer that is there already."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._exchange.body()


class _Connection(asyncio.Protocol):
    """One TCP connection, which carries one exchange at a time."""

    def __init__(self) -> None:
        self.used_s = time.monotonic()
        self._transport: asyncio.Transport | None = None
        self._whole: asyncio.Future[None] | None = None
        self._exchange = Exchange()
        self._now_ns = 0
        self._patience_s: float | None = None
        self._watch: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """Whether a request may be sent on it."""
        open_ = self._transport is not None and not self._transport.is_closing()
        return open_ and time.monotonic() - self.used_s < _STALE_S

    async def exchange(self, request: bytes, *, patience_s: float | None) -> Exchange:
        """Send a request and return once its answer is whole.

        Raises:
            httpx.TransportError: the connection broke, the answer is no HTTP, or the server stayed silent for longer
                than `patience_s`; ``request.extensions`` has the exchange so far.
        """
        assert self._transport is not None, "exchanges follow connection_made()"
        if self._transport.is_closing():
            raise httpx.ReadError("the server closed the connection before the request was sent")
        self._whole = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._framed = False
        self._patience_s = patience_s
        self._exchange.sent_ns = self._now_ns = perf_counter_ns()
        self._transport.write(request)
        self._watch_silence()
        try:
            await self._whole
        except BaseException:
            self.close()
            raise
        finally:
            if self._watch is not None:
                self._watch.cancel()
            self.used_s = time.monotonic()
        return self._exchange

    def prepare(self, exchange: Exchange) -> None:
        """Set the exchange that the next answer is written to."""
        self._exchange = exchange

    def close(self) -> None:
        """Drop the connection."""
        assert self._transport is not None, "only what was opened is closed"
        self._transport.abort()

    def _watch_silence(self) -> None:
        """Fail when nothing was read for too long; else look again when that could next be the case."""
        if self._patience_s is None:
            return
        left_s = self._patience_s - (perf_counter_ns() - self._now_ns) / 1e9
        if left_s <= 0:
            self._fail(httpx.ReadTimeout(f"the server was silent for {self._patience_s:g} s"))
            return
        self._watch = asyncio.get_running_loop().call_later(left_s, self._watch_silence)

    def _fail(self, error: Exception) -> None:
        if self._whole is not None and not self._whole.done():
            self._whole.set_exception(error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Stamp a read first, then let the parser cut it."""
        self._now_ns = perf_counter_ns()
        if self._ended:
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            # The parser wraps whatever leaves a callback: an interrupt, too, which must not end as a failed request.
            raise (error.__context__ or error) from None
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx.RemoteProtocolError(f"the answer is no HTTP: {error}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End an answer that lasts until the connection closes; break any other."""
        if exc is None and self._exchange.status and not self._framed:
            self.on_message_complete()
        elif exc is None:
            self._fail(httpx.RemoteProtocolError("the server closed the connection in the middle of the answer"))
        else:
            self._fail(httpx.ReadError(f"the connection was lost: {exc}"))

    @property
    def _ended(self) -> bool:
        """Whether no answer is waited for: what comes now belongs to no request."""
        return self._whole is None or self._whole.done()

    def on_message_begin(self) -> None:
        """Drop the connection when another answer follows that nobody asked for."""
        if self._ended:
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note whether the answer says where it ends."""
        del value
        self._framed = self._framed or name.lower() in {b"content-length", b"transfer-encoding"}

    def on_headers_complete(self) -> None:
        """Note the status; interim answers have none that counts."""
        if self._ended:
            return
        status = self._parser.get_status_code()
        self._exchange.status = status if status >= httpx.codes.OK else 0

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        if not self._ended:
            self._exchange.take(self._now_ns, body)

    def on_message_complete(self) -> None:
        """Wake the task that waits, unless this was an interim answer."""
        if self._whole is None or self._whole.done():
            return
        if not self._exchange.status:
            self._framed = False
            return
        self._whole.set_result(None)
        if not self._parser.should_keep_alive():
            self.close()


class StampingTransport(httpx.AsyncBaseTransport):
    """Plain HTTP/1.1 to one server, one connection, one request at a time, no proxies, no retries.

    The answer is handed out when it is whole. Its `Exchange` is in ``extensions["exchange"]`` of the response, and,
    since an answer that breaks off has no response, of the request.
    """

    def __init__(self) -> None:
        self._connection: _Connection | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its answer.

        Raises:
            httpx.TransportError: no connection, a broken one, silence, or an answer that is no HTTP.
        """
        exchange = Exchange()
        request.extensions = {**request.extensions, EXCHANGE: exchange}
        timeouts = request.extensions.get("timeout", {})
        data = _head(request) + await request.aread()
        connection = await self.connect(request.url, timeouts)
        connection.prepare(exchange)
        await connection.exchange(data, patience_s=timeouts.get("read"))
        return httpx.Response(exchange.status, stream=_Body(exchange), extensions={EXCHANGE: exchange})

    async def connect(self, url: httpx.URL, timeouts: Mapping[str, float | None]) -> _Connection:
        """Return the open connection, or open one.

        Raises:
            httpx.TransportError: it cannot be opened, in time or at all.
        """
        if self._connection is not None and self._connection.usable:
            return self._connection
        await self.aclose()
        if url.scheme != "http":
            raise httpx.UnsupportedProtocol(f"load is sent over plain http, not {url.scheme}")
        opening = asyncio.get_running_loop().create_connection(_Connection, url.host, url.port or 80)
        try:
            async with asyncio.timeout(timeouts.get("connect")):
                _, connection = await opening
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection to {url.host}:{url.port} in time") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        self._connection = connection
        return connection

    async def aclose(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _head(request: httpx.Request) -> bytes:
    """Return the request line and the header fields as they go over the wire."""
    lines = [request.method.encode() + b" " + request.url.raw_path + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in request.headers.raw]
    return b"\r\n".join([*lines, b"", b""])
