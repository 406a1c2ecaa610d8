"""One process of load: workers on an event loop, each with an `httpx.AsyncClient`, hence a connection, of its own.

While a point runs, nothing but stamping and sending happens here: no parsing, no garbage collection. A heartbeat
measures how late timers fire, which is how late a read may have been stamped.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import dataclasses
import gc
import math
import time
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, Self

import httpx

from pytest_specgate.adapters.collect import Attempt, Collector, percentile
from pytest_specgate.adapters.transport import EXCHANGE, StampingTransport
from pytest_specgate.core.profile import ENDPOINT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from pytest_specgate.core.records import RequestRecord

CONNECT_S: Final = 10.0
_HEARTBEAT_S: Final = 0.010
_WHOLE: Final = 10
"""A whole answer may take so many times the silence that is waited for: keep-alive comments must not hold a gate."""

LEFT: Final = "the server had left"
"""Why requests fail that were open, or not yet sent, when the load was stopped."""

_HEADERS: Final = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    # A compressed stream would be stamped when a block is full, not when its tokens arrive.
    "accept-encoding": "identity",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Share:
    """The part of a point that one process sends.

    Attributes:
        url: base address of the server.
        bodies: what may have to be sent, by place in the sending order.
        workers: closed-loop workers of this process; in an open loop, connections opened beforehand.
        timeout_s: longest silence of the server that is waited for.
        due_s: when each request is due, in an open loop, after the start of the point; empty in a closed loop.
        keep_text: whether the answers themselves are wanted.
        keep_times: whether the time of every token event is wanted.
        path: where requests are sent to.
    """

    url: str
    bodies: Mapping[int, bytes]
    workers: int
    timeout_s: float
    due_s: Mapping[int, float] = dataclasses.field(default_factory=dict)
    keep_text: bool = False
    keep_times: bool = False
    path: str = ENDPOINT


@dataclasses.dataclass(frozen=True, slots=True)
class ShareResult:
    """What one process brings back.

    Attributes:
        requests: those that it sent, in sending order.
        gaps_s: between the token events of complete answers.
        lags_s: how late each heartbeat was.
        wall_s: from the start of the point to the end of its last answer.
        cpu_s: CPU time of this process in that time.
    """

    requests: Sequence[RequestRecord]
    gaps_s: array.array[float]
    lags_s: array.array[float]
    wall_s: float
    cpu_s: float

    @property
    def cpu_share(self) -> float:
        """CPU time / wall: 1 is a process that never rested."""
        return self.cpu_s / self.wall_s if self.wall_s else 0.0

    def lag_s(self, q: float) -> float:
        """Return the percentile q of the lateness of heartbeats."""
        return percentile(self.lags_s, q)


class Sender:
    """Runs one process's share of a point.

    Args:
        share: what to send.
        tickets: places in the sending order, as this process gets to them: an iterator that several processes may draw
            from, so that requests are sent in order whoever sends them.
    """

    def __init__(self, share: Share, tickets: Iterator[int]) -> None:
        self._share = share
        self._tickets = tickets
        self._timeout = httpx.Timeout(share.timeout_s, connect=CONNECT_S)
        self._stack = contextlib.AsyncExitStack()
        self._idle: list[_Client] = []
        self._stopped = False
        self._limit: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        """Open the connections before the clock runs; a server that cannot be reached shows in the requests."""
        count = min(self._share.workers, len(self._share.bodies))
        try:
            self._idle = [await self._client() for _ in range(count)]
            async with self._until_stopped():
                await asyncio.gather(*(client.connect() for client in self._idle))
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    def stop(self) -> None:
        """Give up what is open and send nothing more: the server has left, whoever may still hold its sockets."""
        if self._limit is not None and not self._stopped:
            self._limit.reschedule(asyncio.get_running_loop().time())
        self._stopped = True

    @contextlib.asynccontextmanager
    async def _until_stopped(self) -> AsyncIterator[None]:
        """Run a block to its end, or until somebody wants a stop."""
        limit = asyncio.timeout(0 if self._stopped else None)
        try:
            async with limit:
                self._limit = limit
                yield
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self._limit = None

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._stack.aclose()

    async def _client(self) -> _Client:
        transport = StampingTransport()
        client = httpx.AsyncClient(
            base_url=self._share.url, headers=_HEADERS, timeout=self._timeout, transport=transport, trust_env=False
        )
        await self._stack.enter_async_context(client)
        return _Client(client, transport, url=httpx.URL(self._share.url), path=self._share.path)

    async def run(self, *, started_ns: int) -> ShareResult:
        """Send everything and return what came back.

        Args:
            started_ns: start of the point on the monotonic clock; it may lie ahead.
        """
        share = self._share
        collector = Collector(started_ns=started_ns, keep_text=share.keep_text, keep_times=share.keep_times)
        lags_s: array.array[float] = array.array("d")
        await asyncio.sleep(max(0.0, (started_ns - perf_counter_ns()) / 1e9))
        with _garbage_collection_off():
            cpu_s = time.process_time()
            aside = [asyncio.ensure_future(_heartbeat(lags_s)), asyncio.ensure_future(collector.relieve())]
            try:
                async with self._until_stopped():
                    await (
                        self._open_loop(collector, started_ns) if self._share.due_s else self._closed_loop(collector)
                    )
            finally:
                for task in aside:
                    task.cancel()
            wall_s, cpu_s = (perf_counter_ns() - started_ns) / 1e9, time.process_time() - cpu_s
            await _ended(aside)
        requests, gaps_s = collector.finish()
        return ShareResult(requests, gaps_s, lags_s, wall_s, cpu_s)

    async def _closed_loop(self, collector: Collector) -> None:
        await asyncio.gather(*(self._work(client, collector) for client in self._idle))

    async def _work(self, client: _Client, collector: Collector) -> None:
        for index in self._tickets:
            attempt = Attempt(index, self._share.bodies[index])
            try:
                await client.send(attempt)
            finally:
                collector.add(attempt)

    async def _open_loop(self, collector: Collector, started_ns: int) -> None:
        """Send each request when it is due, whatever has become of those before it."""
        async with asyncio.TaskGroup() as group:
            for index, due_s in sorted(self._share.due_s.items(), key=lambda item: item[1]):
                await asyncio.sleep(max(0.0, due_s - (perf_counter_ns() - started_ns) / 1e9))
                group.create_task(self._arrive(Attempt(index, self._share.bodies[index], due_s=due_s), collector))

    async def _arrive(self, attempt: Attempt, collector: Collector) -> None:
        client = self._idle.pop() if self._idle else await self._client()
        try:
            await client.send(attempt)
        finally:
            collector.add(attempt)
        self._idle.append(client)


class _Client:
    """One connection's client."""

    def __init__(self, client: httpx.AsyncClient, transport: StampingTransport, *, url: httpx.URL, path: str) -> None:
        self._client = client
        self._transport = transport
        self._url = url
        self._path = path

    async def connect(self) -> None:
        with contextlib.suppress(httpx.TransportError):
            await self._transport.connect(self._url, self._client.timeout.as_dict())

    async def send(self, attempt: Attempt) -> None:
        """Send one request and keep what comes back with it, also when it breaks off."""
        limit_s = _WHOLE * (self._client.timeout.read or math.inf)
        request = self._client.build_request("POST", self._path, content=attempt.body)
        try:
            async with asyncio.timeout(limit_s):
                response = await self._client.send(request, stream=True)
            await response.aclose()
        except TimeoutError:
            attempt.failure = f"the answer had not ended after {limit_s:g} s"
        except httpx.HTTPError as error:
            attempt.failure = f"{type(error).__name__}: {error}".rstrip(": ")
        except asyncio.CancelledError:
            attempt.failure = LEFT
            raise
        finally:
            attempt.exchange = request.extensions.get(EXCHANGE, attempt.exchange)


async def _ended(cancelled: Sequence[asyncio.Future[None]]) -> None:
    """Wait for cancelled tasks to end; what one of them failed of is raised."""
    for outcome in await asyncio.gather(*cancelled, return_exceptions=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, asyncio.CancelledError):
            raise outcome


async def _heartbeat(lags_s: array.array[float]) -> None:
    """Note how late each beat of a fixed grid comes; beats that a stall swallowed count as what they would have been.

    With one beat a wake-up a stall of half a second would be one sample, and the quiet seconds around it hundreds.
    """
    clock = asyncio.get_running_loop().time
    due_s = clock() + _HEARTBEAT_S
    try:
        while True:
            await asyncio.sleep(due_s - clock())
            due_s = _beat(lags_s, due_s=due_s, now_s=clock())
    finally:
        # A stall that lasts up to the end of the point counts, too.
        _beat(lags_s, due_s=due_s, now_s=clock())


def _beat(lags_s: array.array[float], *, due_s: float, now_s: float) -> float:
    """Note every beat that has been due, and return when the next one is."""
    while due_s <= now_s:
        lags_s.append(now_s - due_s)
        due_s += _HEARTBEAT_S
    return due_s


@contextlib.contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Keep collections out of the receive loop; what they would free is freed afterwards.

    Nothing is collected beforehand either: an interrupt that arrives while a finaliser runs is lost.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
