"""HTTP as it may come over a connection: whatever the cuts between reads, the same answer, stamped read by read.

No socket is needed for that: the reads that follow a request are played to the transport as the event loop would.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, TypeAlias

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_specgate.adapters import transport
from pytest_specgate.adapters.transport import EXCHANGE, Exchange, StampingTransport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

End: TypeAlias = "Exception | str"

PATIENCE_S = 20.0
OK = b"HTTP/1.1 200 OK\r\n"
LENGTH = OK + b"content-length: 11\r\n\r\nhello world"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
EXTENDED = OK + (
    b"Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
    b'5;name=value\r\nhello\r\n006;a="b;c"\r\n world\r\n0;last\r\nX-Sum: 11\r\nX-Other: 3\r\n\r\n'
)
UNTIL_CLOSE = OK + b"content-type: text/plain\r\n\r\nhello world"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>; rel=preload\r\n\r\n" + CHUNKED
OFFERED = OK + b"Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 11\r\n\r\nhello world"
WHOLE = {
    "length": LENGTH,
    "chunked": CHUNKED,
    "extended": EXTENDED,
    "until-close": UNTIL_CLOSE,
    "interim": INTERIM,
    "interim-until-close": b"HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n" + UNTIL_CLOSE,
    "offered-upgrade": OFFERED,
}


class Line(asyncio.Transport):
    """The socket's side of one connection: plays a script of reads once a request was written.

    Args:
        reads: what arrives, read by read.
        end: what follows them: ``"open"``, nothing; ``"close"``, the peer's orderly close; an error, its loss.
    """

    def __init__(self, reads: Sequence[bytes], end: End = "open") -> None:
        super().__init__()
        self.written = b""
        self.aborted = False
        self._script = (reads, end)
        self._protocol: asyncio.Protocol | None = None

    def connect(self, protocol: asyncio.Protocol) -> None:
        """Become the transport of a protocol."""
        self._protocol = protocol
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Take a request, and answer it in a while."""
        self.written += bytes(data)
        asyncio.get_running_loop().call_soon(self._play)

    def is_closing(self) -> bool:
        """Tell whether this side has closed it."""
        return self.aborted

    def abort(self) -> None:
        """Close it; the protocol hears of that later."""
        if not self.aborted:
            self.aborted = True
            asyncio.get_running_loop().call_soon(self._lose, None)

    def _lose(self, error: Exception | None) -> None:
        assert self._protocol is not None
        self._protocol.connection_lost(error)

    def _play(self) -> None:
        assert self._protocol is not None
        reads, end = self._script
        for read in reads:
            try:
                self._protocol.data_received(read)
            except Exception as error:  # noqa: BLE001  - so does asyncio
                end = error
        if end != "open":
            self.aborted = True
            self._lose(end if isinstance(end, Exception) else None)


def over(lines: Sequence[Line], work: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    """Run something with a client whose connections are these lines, one after another."""

    async def run() -> None:
        unused = iter(lines)

        async def connect(factory: Callable[[], asyncio.Protocol], *_: object) -> tuple[Line, asyncio.Protocol]:
            line, protocol = next(unused), factory()
            line.connect(protocol)
            return line, protocol

        async with httpx.AsyncClient(transport=StampingTransport(), base_url="http://h", timeout=None) as client:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(asyncio.get_running_loop(), "create_connection", connect)
                await work(client)

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def answer(reads: Sequence[bytes], end: End = "open") -> httpx.Response:
    """Return the answer that these reads make."""
    answers: list[httpx.Response] = []

    async def work(client: httpx.AsyncClient) -> None:
        answers.append(await client.post("/", content=b"{}"))

    over([Line(reads, end)], work)
    return answers[0]


def breakage(line: Line) -> tuple[httpx.TransportError, Exchange]:
    """Return the error that a line leads to, and what was there of the answer."""
    errors: list[httpx.TransportError] = []

    async def work(client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.TransportError) as caught:
            await client.post("/", content=b"{}")
        errors.append(caught.value)

    over([line], work)
    return errors[0], errors[0].request.extensions[EXCHANGE]


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """Cut bytes into reads."""
    edges = sorted({0, len(data), *(place % len(data) for place in places)})
    return [data[start:end] for start, end in itertools.pairwise(edges)]


@given(name=st.sampled_from(sorted(WHOLE)), places=st.lists(st.integers(0, 400), max_size=40))
@example(name="chunked", places=range(400))
@example(name="extended", places=range(400))
@example(name="interim", places=range(400))
def test_any_cut_of_an_answer_gives_the_same_answer(name: str, places: Sequence[int]) -> None:
    """Bodies of each kind of framing come out whole, with stamps that never decrease, wherever reads begin and end."""
    response = answer(cut(WHOLE[name], places), "close" if name.endswith("until-close") else "open")
    exchange: Exchange = response.extensions[EXCHANGE]
    times, pieces = zip(*exchange.reads(), strict=True)

    assert (response.status_code, response.content) == (200, b"hello world")
    assert b"".join(pieces) == exchange.body() == b"hello world"
    assert exchange.size == 11
    assert list(times) == sorted(times)
    assert times[0] >= 0
    assert times[-1] == exchange.closed_s


@given(chunks=st.lists(st.binary(min_size=1, max_size=300), min_size=1), places=st.lists(st.integers(0, 2**16)))
def test_chunks_of_any_bytes_come_out_as_they_were(chunks: list[bytes], places: list[int]) -> None:
    """Bytes that look like framing are body when they stand in a chunk."""
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    data = OK + b"Transfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"

    assert answer(cut(data, places)).content == b"".join(chunks)


def test_every_read_has_one_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is read once before the sending and once a read: chunks of one read have one time."""
    ticks = itertools.count(1_000, 1_000)
    monkeypatch.setattr(transport, "perf_counter_ns", lambda: next(ticks))
    head = OK + b"transfer-encoding: chunked\r\n\r\n"
    response = answer([head, b"1\r\na\r\n1\r\nb\r\n", b"2\r\nc", b"d\r\n", b"0\r\n\r\n"])
    exchange: Exchange = response.extensions[EXCHANGE]

    assert exchange.sent_ns == 1_000
    assert list(exchange.reads()) == [(2e-6, b"a"), (2e-6, b"b"), (3e-6, b"c"), (4e-6, b"d")]
    assert exchange.closed_s == 4e-6


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", 304),
        (OK + b"Content-Length: 0\r\n\r\n", 200),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200),
        (b"HTTP/1.1 599 \r\nContent-Length: 0\r\n\r\n", 599),
    ],
    ids=["204", "304", "length", "chunked", "odd-status"],
)
def test_an_empty_answer_is_whole_with_its_head(head: bytes, status: int) -> None:
    """Answers without a body end at once; nothing is waited for, and there is no time of a read."""
    response = answer([head])
    exchange: Exchange = response.extensions[EXCHANGE]

    assert (response.status_code, response.content) == (status, b"")
    assert (exchange.closed_s, exchange.size, list(exchange.reads())) == (None, 0, [])


def test_an_answer_without_framing_may_be_empty() -> None:
    """A head without a length, then the close, is an empty answer."""
    assert answer([OK + b"\r\n"], "close").content == b""


@pytest.mark.parametrize(
    ("reads", "seen"),
    [
        ([], (0, b"")),
        ([b"HTTP/1.1 2"], (0, b"")),
        ([OK + b"content-length: 1"], (0, b"")),
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], (0, b"")),
        ([LENGTH[:-1]], (200, b"hello worl")),
        ([CHUNKED[:-5]], (200, b"hello world")),
        ([CHUNKED[:-15]], (200, b"hello")),
        ([CHUNKED[:-9]], (200, b"hello wor")),
    ],
    ids=["nothing", "status", "headers", "interim", "length", "last-chunk", "size", "chunk"],
)
@pytest.mark.parametrize(
    ("end", "error", "words"),
    [
        ("close", httpx.RemoteProtocolError, "closed the connection in the middle of the answer"),
        (ConnectionResetError(104, "reset by peer"), httpx.ReadError, "reset by peer"),
    ],
    ids=["close", "reset"],
)
def test_an_answer_that_breaks_off_is_an_error(
    reads: list[bytes], seen: tuple[int, bytes], end: End, error: type[httpx.TransportError], words: str
) -> None:
    """A close or a loss before the end is an error that says so; what had come is kept with its status."""
    raised, exchange = breakage(Line(reads, end))

    assert type(raised) is error
    assert words in str(raised)
    assert (exchange.status, exchange.body()) == seen
    assert exchange.sent_ns > 0


def test_a_reset_ends_an_answer_without_framing_as_an_error() -> None:
    """Only an orderly close ends a body that lasts until the close."""
    raised, exchange = breakage(Line([UNTIL_CLOSE], ConnectionResetError(104, "reset by peer")))

    assert isinstance(raised, httpx.ReadError)
    assert exchange.body() == b"hello world"


@pytest.mark.parametrize(
    "reads",
    [
        [b"SSH-2.0-OpenSSH_9.6\r\n"],
        [b"hello\r\n", b"and more\r\n"],
        [b"\x16\x03\x01\x00\x00"],
        [OK + b"transfer-encoding: chunked\r\n\r\nxyz\r\n"],
        [OK + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"],
        [b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nabc"],
    ],
    ids=["ssh", "text", "tls", "chunk-size", "two-lengths", "upgrade"],
)
def test_what_is_no_http_is_an_error(reads: list[bytes]) -> None:
    """Other protocols, broken framing, an upgrade nobody asked for: the request fails, the connection is closed."""
    line = Line(reads)
    raised, _ = breakage(line)

    assert isinstance(raised, httpx.RemoteProtocolError)
    assert str(raised).startswith("the answer is no HTTP: ")
    assert line.aborted


def test_requests_go_over_the_wire_whole() -> None:
    """The request line has path and query; the header says host and length; the body follows byte for byte."""
    line = Line([LENGTH])

    async def work(client: httpx.AsyncClient) -> None:
        await client.post("/v1/completions?a=%20b", content=b"\x00{}\xff", headers={"X-One": "1"})

    over([line], work)
    head, _, body = line.written.partition(b"\r\n\r\n")
    first, *fields = head.split(b"\r\n")

    assert first == b"POST /v1/completions?a=%20b HTTP/1.1"
    assert {b"Host: h", b"Content-Length: 4", b"X-One: 1"} <= set(fields)
    assert body == b"\x00{}\xff"


def posted(first: Line, second: Line, *, count: int = 2) -> list[httpx.Response]:
    """Return the answers to requests that are sent one after another, with a second connection if it is asked for."""
    answers: list[httpx.Response] = []

    async def work(client: httpx.AsyncClient) -> None:
        answers.extend([await client.post("/", content=b"{}") for _ in range(count)])

    over([first, second], work)
    return answers


def test_a_connection_is_used_again() -> None:
    """Framed answers and interim ones leave the connection open for the next request, which has its own exchange."""
    first, second = Line([INTERIM]), Line([])
    answers = posted(first, second, count=3)

    assert [response.content for response in answers] == [b"hello world"] * 3
    assert len({id(response.extensions[EXCHANGE]) for response in answers}) == 3
    assert (first.written.count(b"POST"), second.written) == (3, b"")


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(lambda: Line([UNTIL_CLOSE], "close"), id="until-close"),
        pytest.param(lambda: Line([LENGTH], "close"), id="closed-idle"),
        pytest.param(lambda: Line([LENGTH], ConnectionResetError(104, "reset by peer")), id="reset-idle"),
        pytest.param(lambda: Line([OK + b"Connection: close\r\n" + LENGTH[len(OK) :]]), id="connection-close"),
        pytest.param(lambda: Line([LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0")]), id="http-1.0"),
    ],
)
def test_a_connection_that_ends_with_its_answer_is_replaced(first: Callable[[], Line]) -> None:
    """After an answer that is the last of its connection, said or done, the next request has a new connection."""
    before, after = first(), Line([CHUNKED])
    answers = posted(before, after)

    assert [(response.status_code, response.content) for response in answers] == [(200, b"hello world")] * 2
    assert before.aborted
    assert before.written.count(b"POST") == after.written.count(b"POST") == 1


@pytest.mark.parametrize("first", [LENGTH, CHUNKED], ids=["length", "chunked"])
@pytest.mark.parametrize("apart", [False, True], ids=["same-read", "next-read"])
@pytest.mark.parametrize(
    "more",
    [b"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nabc", b"HTTP/1.1 408 Request Time", b"junk", b"\x00"],
    ids=["answer", "half", "junk", "zero"],
)
def test_what_follows_an_answer_is_nobodys(first: bytes, more: bytes, *, apart: bool) -> None:
    """Bytes after an answer change neither it nor the next one, which comes over a new connection."""
    before, after = Line([first, more] if apart else [first + more]), Line([LENGTH])
    answers = posted(before, after)

    assert [(response.status_code, response.content) for response in answers] == [(200, b"hello world")] * 2
    assert before.aborted
    assert after.written.count(b"POST") == 1


def test_a_connection_that_is_lost_at_once_fails_its_request() -> None:
    """A server that accepts and closes before the request is sent costs that request, not an endless wait."""
    line = Line([])
    line.aborted = True
    raised, exchange = breakage(line)

    assert isinstance(raised, httpx.ReadError)
    assert (exchange.sent_ns, exchange.status) == (0, 0)
