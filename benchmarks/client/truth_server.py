"""A completions server that is known to be on time: the measure that load clients are held against.

Run it with ``python -m benchmarks.client.truth_server``; it prints its address as one line of JSON and serves until it
is terminated. It streams every answer on a fixed schedule, one write per event, from
bytes made beforehand, and keeps a log of when each request had been read and each token event was written.

All times are of the monotonic clock, in nanoseconds. On Linux that clock is one for all processes, so that a client's
stamps can be held against the log directly.
"""

from __future__ import annotations

import argparse
import array
import collections
import contextlib
import dataclasses
import gc
import heapq
import json
import os
import re
import select
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.client.answers import STREAM_HEAD, Answer, answer_of, models_page, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_REQUEST_ID = re.compile(rb"\r\nx-request-id: *([^\r]+)", re.IGNORECASE)
_USER = re.compile(rb'"user": ?"([^"]+)"')
_MAX_TOKENS = re.compile(rb'"max_tokens": ?(\d+)')
_READ_BYTES = 1 << 18
# So much of each, then of the next: nothing that is due waits for long behind a crowd of something else.
_WRITES_AT_ONCE = 64
_READS_AT_ONCE = 64
_ANSWERS_AT_ONCE = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """When token events are due after the request has been read.

    Attributes:
        ttft_ns: the first one.
        interval_ns: each further one after the one before it.
        tokens: number of them, where a request names none.
    """

    ttft_ns: int
    interval_ns: int
    tokens: int


@dataclasses.dataclass(slots=True, eq=False)
class Connection:
    """One client connection: what was received and not yet answered, what could not be written yet."""

    socket: socket.socket
    received: bytes = b""
    unsent: bytes = b""

    @property
    def closed(self) -> bool:
        """Whether the client is gone."""
        return self.socket.fileno() < 0


@dataclasses.dataclass(slots=True, eq=False)
class Stream:
    """One answer while it is written; it stays in the log afterwards."""

    connection: Connection
    request_id: str | None
    answer: Answer
    read_ns: int
    begun_ns: array.array[int]
    ended_ns: array.array[int]


class TruthServer:
    """One thread, one loop: write what is due, read what came, sleep until the next is due."""

    def __init__(self, schedule: Schedule, *, port: int = 0) -> None:
        """Listen on the loopback interface; port 0 takes a free one."""
        self._schedule = schedule
        self._listener = socket.create_server(("127.0.0.1", port), backlog=4096)
        self._listener.settimeout(0)
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        self._handlers: dict[int, Callable[[int], None]] = {self._listener.fileno(): self._accept}
        self._due: list[tuple[int, int, Stream]] = []
        self._arrived: collections.deque[tuple[Connection, bytes, int]] = collections.deque()
        self._stopped = False
        self._reset()

    @property
    def url(self) -> str:
        """Base address, without a slash at its end."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def stop(self, *_: object) -> None:
        """End the loop; a signal handler."""
        self._stopped = True

    def stop_with(self, descriptor: int) -> None:
        """End the loop when the other side of a pipe closes, so that a killed parent leaves no server behind."""
        self._poll.register(descriptor, select.EPOLLIN | select.EPOLLHUP)
        self._handlers[descriptor] = self.stop

    def serve(self) -> None:
        """Serve until stopped."""
        while not self._stopped:
            self._write_due()
            self._answer_arrived()
            # Polling with a time-out would round it up to milliseconds; `select` has microseconds.
            select.select([self._poll], [], [], self._patience_s())
            for descriptor, event in self._poll.poll(0, _READS_AT_ONCE):
                self._handlers[descriptor](event)
        self._listener.close()

    def _patience_s(self) -> float:
        if self._arrived:
            return 0.0
        return max(0.0, (self._due[0][0] - time.monotonic_ns()) / 1e9) if self._due else 1.0

    def _write_due(self) -> None:
        """Write the events whose time has come, the earliest first."""
        heap, clock = self._due, time.monotonic_ns
        for _ in range(_WRITES_AT_ONCE):
            if not heap or heap[0][0] > clock():
                return
            due_ns, number, stream = heap[0]
            if stream.connection.closed:
                heapq.heappop(heap)
                continue
            written = len(stream.begun_ns)
            stream.begun_ns.append(clock())
            self._send(stream.connection, stream.answer.events[written])
            stream.ended_ns.append(clock())
            if written + 1 < len(stream.answer.events):
                heapq.heapreplace(heap, (due_ns + self._schedule.interval_ns, number, stream))
            else:
                heapq.heappop(heap)
                for data in stream.answer.closing:
                    self._send(stream.connection, data)

    def _send(self, connection: Connection, data: bytes) -> None:
        """Write, and keep what the client is too slow to take."""
        if connection.unsent:
            connection.unsent += data
            return
        try:
            sent = connection.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._close(connection)
            return
        if sent < len(data):
            connection.unsent = data[sent:]
            self._choked += 1
            self._poll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)

    def _flush(self, connection: Connection) -> None:
        data, connection.unsent = connection.unsent, b""
        self._poll.modify(connection.socket, select.EPOLLIN)
        self._send(connection, data)

    def _accept(self, _: int) -> None:
        with contextlib.suppress(BlockingIOError):
            accepted, _address = self._listener.accept()
            accepted.settimeout(0)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(accepted)
            self._handlers[accepted.fileno()] = lambda event: self._serve(connection, event)
            self._poll.register(accepted, select.EPOLLIN)

    def _close(self, connection: Connection) -> None:
        """Forget a client; what it would still get leaves the schedule when it is due."""
        if connection.closed:
            return
        self._handlers.pop(connection.socket.fileno(), None)
        self._poll.unregister(connection.socket)
        connection.socket.close()

    def _serve(self, connection: Connection, event: int) -> None:
        if event & select.EPOLLOUT:
            self._flush(connection)
        if event & ~select.EPOLLOUT:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        read_ns = time.monotonic_ns()
        if not data:
            self._close(connection)
            return
        connection.received += data
        # Answering comes later: a crowd of requests would else be stamped as slowly as they are answered.
        while (request := _take_request(connection)) is not None:
            self._arrived.append((connection, request, read_ns))

    def _answer_arrived(self) -> None:
        for _ in range(min(_ANSWERS_AT_ONCE, len(self._arrived))):
            connection, request, read_ns = self._arrived.popleft()
            if not connection.closed:
                self._answer(connection, request, read_ns=read_ns)

    def _answer(self, connection: Connection, request: bytes, *, read_ns: int) -> None:
        route = b" ".join(request.split(b" ", 2)[:2])
        if route == b"POST /v1/completions":
            self._begin(connection, request, read_ns=read_ns)
        elif route in self._pages:
            self._send(connection, plain(self._pages[route]()))
        else:
            self._send(connection, plain(b'{"error":"no such page"}', status="404 Not Found"))

    @property
    def _pages(self) -> Mapping[bytes, Callable[[], bytes]]:
        return {
            b"GET /health": lambda: b"{}",
            b"GET /v1/models": models_page,
            b"GET /log": self._log_page,
            b"POST /reset": self._reset,
        }

    def _begin(self, connection: Connection, request: bytes, *, read_ns: int) -> None:
        """Send the head of an answer and put its first event on the schedule."""
        named = _REQUEST_ID.search(request) or _USER.search(request)
        asked = _MAX_TOKENS.search(request)
        stream = Stream(
            connection,
            request_id=named[1].decode("latin-1") if named else None,
            answer=answer_of(int(asked[1]) if asked else self._schedule.tokens),
            read_ns=read_ns,
            begun_ns=array.array("q"),
            ended_ns=array.array("q"),
        )
        self._streams.append(stream)
        heapq.heappush(self._due, (read_ns + self._schedule.ttft_ns, len(self._streams), stream))
        self._send(connection, STREAM_HEAD)

    def _reset(self) -> bytes:
        """Start a new log."""
        self._streams: list[Stream] = []
        self._choked = 0
        self._cpu_at_reset_s = time.process_time()
        return b"{}"

    def _log_page(self) -> bytes:
        """Return the log since the last reset, and the CPU seconds that serving took."""
        cpu_s = time.process_time() - self._cpu_at_reset_s
        requests = [
            {
                "id": stream.request_id,
                "read_ns": stream.read_ns,
                "due_ns": [stream.read_ns + after for after in self._offsets_ns(len(stream.begun_ns))],
                "begun_ns": list(stream.begun_ns),
                "ended_ns": list(stream.ended_ns),
                "whole": len(stream.begun_ns) == len(stream.answer.events),
            }
            for stream in self._streams
        ]
        return json.dumps({"cpu_s": cpu_s, "choked": self._choked, "requests": requests}).encode()

    def _offsets_ns(self, count: int) -> range:
        first, step = self._schedule.ttft_ns, self._schedule.interval_ns
        return range(first, first + count * step, step)


def _take_request(connection: Connection) -> bytes | None:
    """Take one whole request off what was received; `None` while it is incomplete."""
    received = connection.received
    head_end = received.find(b"\r\n\r\n")
    if head_end < 0:
        return None
    length = _LENGTH.search(received, 0, head_end)
    end = head_end + 4 + (int(length[1]) if length else 0)
    if len(received) < end:
        return None
    connection.received = received[end:]
    return received[:end]


def _take_precedence() -> str:
    """Ask to run before the clients, as a server on a machine of its own would; return what the system allowed."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return "real time"
    return "as any process"


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(prog="truth_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--stop-with-stdin", action="store_true", help="end when standard input, a pipe, closes")
    parser.add_argument("--ttft-s", type=float, default=0.050)
    parser.add_argument("--interval-s", type=float, default=0.010)
    parser.add_argument("--tokens", type=int, default=64, help="where a request names no max_tokens")
    options = parser.parse_args()
    schedule = Schedule(round(options.ttft_s * 1e9), round(options.interval_s * 1e9), options.tokens)
    server = TruthServer(schedule, port=options.port)
    answer_of(schedule.tokens)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.stop)
    if options.stop_with_stdin:
        server.stop_with(sys.stdin.fileno())
    started = {"url": server.url, "pid": os.getpid(), "scheduling": _take_precedence()}
    sys.stdout.write(json.dumps(started) + "\n")
    sys.stdout.flush()
    gc.disable()
    server.serve()


if __name__ == "__main__":
    main()
