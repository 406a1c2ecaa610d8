"""A stub HTTP server that replays scripts over real sockets, and engines that start small programs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import http.server
import itertools
import json
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, ClassVar

import pytest

from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.adapters.server import EngineOptions, VllmEngine
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.redaction import redacted_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal, Protocol, TypeAlias

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.records import PointLoad

    End: TypeAlias = Literal["complete", "hangup", "cut", "silence"]
    MakeEngine: TypeAlias = Callable[..., VllmEngine]
    Script: TypeAlias = Callable[["Seen"], "Reply"]

    class RunPoint(Protocol):
        """Sends numbered bodies to a server and returns what the load client brings back."""

        def __call__(
            self, server: Server, *, count: int = 1, at: Level = 1, timeout_s: float = ..., **profile: Any
        ) -> PointLoad:
            """Run a point of `count` requests."""


COMPLETIONS = "/v1/completions"
PATIENCE_S = 20.0
"""Longest wait for something that always comes: only a broken test waits that long."""


@dataclasses.dataclass(frozen=True)
class Target:
    """Port `Server`: an address, and nothing behind it that could die."""

    url: str
    model: str = "tiny"
    command: str = "stub"
    boot_s: float = 0.0
    attached: bool = False

    def ensure_alive(self, *, wait_s: float = 0.0) -> None:
        """Do nothing."""

    def log_tail(self) -> str:
        """Return nothing."""
        return ""

    def startup_log(self) -> str:
        """Return nothing: there is no process."""
        return ""

    def process_ids(self) -> frozenset[int]:
        """Return nothing."""
        return frozenset()

    def cleaned(self, text: str) -> str:
        """Return a text without secrets: none was given."""
        return redacted_text(text)


@dataclasses.dataclass(frozen=True)
class Reply:
    """What the stub answers.

    Attributes:
        chunks: the body, each chunk written to the socket on its own.
        status: HTTP status.
        end: how the answer ends: properly, properly but with the connection closed afterwards, with the connection cut,
            or never.
        content_type: media type.
    """

    chunks: Iterable[bytes] = ()
    status: int = 200
    end: End = "complete"
    content_type: str = "text/event-stream"


@dataclasses.dataclass(slots=True)
class Seen:
    """One request as the stub saw it; times are of the clock that the client reads, in nanoseconds.

    Attributes:
        left: whether the client closed the connection while the stub kept silent.
    """

    peer: tuple[str, int]
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    in_flight: int
    received_ns: int
    answered_ns: int = 0
    ended_ns: int = 0
    left: bool = False


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = PATIENCE_S
    server: Stub

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        seen = self.server.received(self, body)
        reply = self.server.script(seen)
        self._send(reply, seen)

    do_POST = do_GET  # noqa: N815  - the base class looks for this name

    def log_message(self, *_: object) -> None:
        pass

    def _send(self, reply: Reply, seen: Seen) -> None:
        head = functools.cache(lambda: self._send_head(reply))
        for chunk in reply.chunks:
            head()
            seen.answered_ns = seen.answered_ns or perf_counter_ns()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if reply.end == "silence":
            self._stay_silent(seen)
        self.server.ended(seen)
        if reply.end in {"complete", "hangup"}:
            head()
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = reply.end != "complete"

    def _stay_silent(self, seen: Seen) -> None:
        """Wait until the client leaves, or the test is over."""
        while not self.server.closing.is_set() and not seen.left:
            seen.left = bool(select.select([self.connection], [], [], 0.01)[0])

    def _send_head(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("content-type", reply.content_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()


class Stub(http.server.ThreadingHTTPServer):
    """A server whose answers are scripts, by path; what no script answers is HTTP 404.

    Attributes:
        seen: every request, in the order of arrival.
        connections: number of connections that were opened.
        closed: can be acquired once for each connection that was closed.
        closing: set when the test is over.
    """

    daemon_threads = False
    request_queue_size = 1024
    CONNECTION_ERRORS: ClassVar = (ConnectionError, TimeoutError)

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[Seen] = []
        self.connections = 0
        self.closed = threading.Semaphore(0)
        self.closing = threading.Event()
        self.unexpected: list[BaseException] = []
        self._scripts: dict[str, Script] = {"/health": lambda _: Reply()}
        self._in_flight = 0
        self._lock = threading.Lock()

    @property
    def target(self) -> Target:
        """The stub as a server of the port."""
        return Target(f"http://127.0.0.1:{self.server_address[1]}")

    def on(self, path: str, *replies: Reply | Script) -> None:
        """Answer the n-th request for a path with the n-th reply, all further ones with the last."""
        queue = itertools.chain(replies, itertools.repeat(replies[-1]))

        def script(seen: Seen) -> Reply:
            with self._lock:
                reply = next(queue)
            return reply if isinstance(reply, Reply) else reply(seen)

        self._scripts[path] = script

    @staticmethod
    def token(text: str, *, finish_reason: str | None = None) -> bytes:
        """Return the event of one decode step."""
        choice = {"index": 0, "text": text, "finish_reason": finish_reason}
        return f"data: {json.dumps({'choices': [choice]}, ensure_ascii=False)}\n\n".encode()

    @staticmethod
    def usage(prompt_tokens: int, output_tokens: int) -> bytes:
        """Return the event that carries the server's counts."""
        counts = {"prompt_tokens": prompt_tokens, "completion_tokens": output_tokens}
        return f"data: {json.dumps({'choices': [], 'usage': counts})}\n\n".encode()

    @classmethod
    def good(cls) -> Reply:
        """Return a complete answer of two tokens."""
        return cls.stream(cls.token("a"), cls.token("b", finish_reason="length"), cls.usage(8, 2), b"data: [DONE]\n\n")

    @staticmethod
    def stream(*chunks: bytes, end: End = "complete") -> Reply:
        """Return an answer of events."""
        return Reply(chunks, end=end)

    @staticmethod
    def json(value: Any, *, status: int = 200) -> Reply:
        """Return a JSON answer."""
        return Reply((json.dumps(value).encode(),), status=status, content_type="application/json")

    @staticmethod
    def raw(body: bytes, *, status: int = 200) -> Reply:
        """Return an answer of these bytes."""
        return Reply((body,) if body else (), status=status, content_type="text/plain; charset=utf-8")

    @classmethod
    def text(cls, text: str, *, status: int = 200) -> Reply:
        """Return a text answer."""
        return cls.raw(text.encode(), status=status)

    def posted(self) -> list[Seen]:
        """Return the requests with a body, in the order of arrival."""
        return [seen for seen in self.seen if seen.method == "POST"]

    def numbers(self) -> list[int]:
        """Return which of the numbered bodies arrived, in that order."""
        return [json.loads(seen.body)["number"] for seen in self.posted()]

    def script(self, seen: Seen) -> Reply:
        """Return the answer to a request."""
        answer = self._scripts.get(seen.path)
        return Reply(status=404) if answer is None else answer(seen)

    def received(self, handler: _Handler, body: bytes) -> Seen:
        """Write a request down."""
        with self._lock:
            posted = handler.command == "POST"
            self._in_flight += posted
            seen = Seen(
                peer=handler.client_address,
                method=handler.command,
                path=handler.path,
                headers={name.lower(): value for name, value in handler.headers.items()},
                body=body,
                in_flight=self._in_flight,
                received_ns=perf_counter_ns(),
            )
            self.seen.append(seen)
        return seen

    def ended(self, seen: Seen) -> None:
        """Write the end of an answer down, before the client can know of it."""
        with self._lock:
            self._in_flight -= seen.method == "POST"
            seen.ended_ns = perf_counter_ns()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Count connections."""
        self.connections += 1
        return super().get_request()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        super().shutdown_request(request)
        self.closed.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what went wrong in a handler; clients may leave."""
        del request, client_address
        error = sys.exception()
        if error is not None and not isinstance(error, self.CONNECTION_ERRORS):
            self.unexpected.append(error)


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A stub server that runs while the test does."""
    with Stub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()

    assert not server.unexpected


@pytest.fixture(scope="session")
def run_point() -> RunPoint:
    """A function that sends numbered bodies with the load client."""

    def run(
        server: Server, *, count: int = 1, at: Level = 1, timeout_s: float = PATIENCE_S, **profile: Any
    ) -> PointLoad:
        least = at if isinstance(at, int) else 2
        load = RequestProfile(
            input_tokens=8, output_tokens=2, requests={at: max(count, least)}, request_timeout_s=timeout_s, **profile
        )
        bodies = [json.dumps({"number": number}).encode() for number in range(count)]
        return HttpLoadDriver().run_point(server, bodies, at=at, profile=load)

    return run


@pytest.fixture
def nobody() -> Iterator[Target]:
    """An address at which nothing listens."""
    with contextlib.closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        yield Target(f"http://127.0.0.1:{bound.getsockname()[1]}")


@pytest.fixture(scope="session")
def target_at() -> type[Target]:
    """A function from an address to a server of the port."""
    return Target


@pytest.fixture(params=[signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def harmless(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that would end this process, and during the test does nothing."""
    number: signal.Signals = request.param
    before = signal.signal(number, lambda *_: None)
    yield number
    signal.signal(number, before)


@pytest.fixture
def make_engine(tmp_path: Path) -> MakeEngine:
    """A function that makes an engine; its environment has what a process needs to run, and no proxy.

    It takes the engine command, by default that of the fake vLLM, or the source of a small program to be started.
    """

    def make(
        command: tuple[str, ...] | str = ("python", "-m", "pytest_specgate.testing.fake_vllm"),
        *,
        start_limit_s: float = PATIENCE_S,
        python: str = sys.executable,
        **env: str,
    ) -> VllmEngine:
        inherited = {name: value for name, value in os.environ.items() if name == "PATH" or name.startswith("COV")}
        options = EngineOptions(
            python=Path(python),
            command=(sys.executable, "-S", "-c", command) if isinstance(command, str) else command,
            environment={**inherited, **env},
            start_limit_s=start_limit_s,
            log_folder=tmp_path / "logs",
        )
        return VllmEngine(options)

    return make
