"""A small HTTP/1.1 server: keep-alive, chunked streams, one write for each chunk, cancellation when a client leaves."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import email.utils
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, cast

import h11

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class HttpRequest:
    """A complete request.

    Attributes:
        method: the verb.
        target: path and query, as sent.
        body: the whole body.
        received_s: time of the monotonic clock at which its end had been read.
    """

    method: str
    target: str
    body: bytes
    received_s: float

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        """What follows the question mark of the target."""
        return self.target.partition("?")[2]


@dataclasses.dataclass(frozen=True, slots=True)
class Cut:
    """The last bytes of a connection that breaks in the middle of a stream, as they go to the socket."""

    raw: bytes


def half_written(chunk: bytes, *, inside: Literal["chunk", "event"]) -> Cut:
    """Return the first half of what a chunk holds, in a chunk that announces all of it or in a whole one of its own."""
    half = chunk[: len(chunk) // 2]
    return Cut(_framed(half) if inside == "event" else _framed(chunk).removesuffix(chunk[len(half) :] + b"\r\n"))


def _framed(chunk: bytes) -> bytes:
    """Return a chunk of the transfer coding."""
    return b"%x\r\n%b\r\n" % (len(chunk), chunk)


@dataclasses.dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer whose body is known, or a stream of chunks.

    Attributes:
        body: the whole body, or a generator of chunks, each written to the socket as soon as it is there. The
            generator is sent the time of the monotonic clock right before that.
        content_type: media type of the body.
        status: HTTP status.
    """

    body: bytes | AsyncGenerator[bytes | Cut, float]
    content_type: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK


class HttpConnection(asyncio.Protocol):
    """One connection of a client. asyncio sets TCP_NODELAY on it.

    The answer is made in a task, which is cancelled when the connection is lost.
    """

    def __init__(
        self, handler: Callable[[HttpRequest], Awaitable[HttpResponse]], connections: set[HttpConnection]
    ) -> None:
        self._handler = handler
        self._connections = connections
        self._parser = h11.Connection(h11.SERVER)
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._received_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the socket."""
        self._transport = cast("asyncio.Transport", transport)
        self._peer = "{}:{}".format(*transport.get_extra_info("peername", ("unknown", 0)))
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel what was being answered."""
        del exc
        self._connections.discard(self)
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._parser.receive_data(data)
        self._parse()

    def drop(self) -> None:
        """Close the socket at once, in the middle of an answer if there is one."""
        self._transport.abort()

    def _parse(self) -> None:
        try:
            while self._take(self._parser.next_event()):
                pass
        except h11.RemoteProtocolError as error:
            _logger.warning("Invalid HTTP request received: %s", error)
            self._transport.close()

    def _take(self, event: object) -> bool:
        """Handle one parser event and tell whether to ask for the next."""
        if isinstance(event, h11.Request):
            self._request = event
            self._body.clear()
        elif isinstance(event, h11.Data):
            self._body += event.data
        elif isinstance(event, h11.EndOfMessage):
            self._received_s = time.monotonic()
            self._task = asyncio.get_running_loop().create_task(self._answer())
        else:
            if self._parser.they_are_waiting_for_100_continue:
                self._send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
            return False
        return True

    async def _answer(self) -> None:
        try:
            await self._exchange()
        except Exception:
            _logger.exception("Exception in the fake server; the connection is cut")
            self.drop()

    async def _exchange(self) -> None:
        head = cast("h11.Request", self._request)
        request = HttpRequest(
            head.method.decode(), head.target.decode("latin-1"), bytes(self._body), received_s=self._received_s
        )
        response = await self._handler(request)
        status = f"{response.status.value} {response.status.phrase}"
        _logger.info('%s - "%s %s HTTP/1.1" %s', self._peer, request.method, request.target, status)
        if isinstance(response.body, bytes):
            self._send_head(response, ("content-length", str(len(response.body))))
            self._send(h11.Data(data=response.body))
        else:
            self._send_head(response, ("transfer-encoding", "chunked"))
            if not await self._stream(response.body):
                self._transport.close()
                return
        self._finish()

    async def _stream(self, chunks: AsyncGenerator[bytes | Cut, float]) -> bool:
        """Write chunks until they end, and tell whether they did so in good order.

        Their frames are made here: the parser's way is slower, and knows no half chunks.
        """
        chunked = self._parser.their_http_version == b"1.1"
        async with contextlib.aclosing(chunks):
            with contextlib.suppress(StopAsyncIteration):
                chunk = await anext(chunks)
                while not isinstance(chunk, Cut):
                    data = _framed(chunk) if chunked else chunk
                    written_s = time.monotonic()
                    self._transport.write(data)
                    chunk = await chunks.asend(written_s)
                self._transport.write(chunk.raw)
                return False
        return True

    def _send_head(self, response: HttpResponse, framing: tuple[str, str]) -> None:
        headers = [
            ("date", email.utils.formatdate(usegmt=True)),
            ("server", "uvicorn"),
            ("content-type", response.content_type),
            ("vary", "Origin"),
            framing,
        ]
        self._send(h11.Response(status_code=response.status.value, reason=response.status.phrase, headers=headers))

    def _send(self, event: h11.Event) -> None:
        data = self._parser.send(event)
        if data:
            self._transport.write(data)

    def _finish(self) -> None:
        """End the answer and turn to the next request of the connection."""
        self._task = None
        self._send(h11.EndOfMessage())
        if self._parser.our_state is h11.MUST_CLOSE:
            self._transport.close()
            return
        self._parser.start_next_cycle()
        self._parse()
