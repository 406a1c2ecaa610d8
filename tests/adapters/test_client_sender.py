"""One process's share of a point: connections before the clock, stamps on the machine's clock, health, giving up."""

from __future__ import annotations

import array
import asyncio
import contextlib
import dataclasses
import gc
import os
import signal
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING

import httpx
import pytest

from pytest_specgate.adapters import load, transport
from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.adapters.collect import Collector
from pytest_specgate.adapters.load import Sender, Share, ShareResult
from pytest_specgate.adapters.transport import Exchange, StampingTransport
from pytest_specgate.core.profile import RequestProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.adapters.conftest import Reply, Seen, Stub, Target

COMPLETIONS = "/v1/completions"
PATIENCE_S = 20.0


def share_of(server: Target, *, count: int, workers: int = 1, due_s: dict[int, float] | None = None) -> Share:
    """Return a share of numbered bodies."""
    bodies = {number: b'{"number": %d}' % number for number in range(count)}
    return Share(server.url, bodies, workers=workers, timeout_s=PATIENCE_S, due_s=due_s or {})


def run(share: Share, tickets: Iterator[int] | None = None, *, started_ns: int | None = None) -> ShareResult:
    """Run a share, by default from now on."""

    async def work() -> ShareResult:
        async with Sender(share, iter(share.bodies) if tickets is None else tickets) as sender:
            return await sender.run(started_ns=perf_counter_ns() if started_ns is None else started_ns)

    return asyncio.run(work())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread brings about."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  - threads set no events of the loop
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("workers", "count", "opened"), [(4, 8, 4), (8, 3, 3), (1, 0, 0)], ids=["workers", "few-bodies", "nothing"]
)
def test_connections_are_opened_before_the_clock_runs(stub: Stub, workers: int, count: int, opened: int) -> None:
    """Every worker that gets a request has its connection, without a request on it, before the point starts."""
    share = share_of(stub.target, count=count, workers=workers)
    before: list[tuple[int, list[Seen]]] = []

    async def work() -> None:
        async with Sender(share, iter(share.bodies)) as sender:
            await until(lambda: stub.connections == opened)
            before.append((stub.connections, list(stub.seen)))
            await sender.run(started_ns=perf_counter_ns())

    stub.on(COMPLETIONS, stub.good())
    asyncio.run(work())

    assert before == [(opened, [])]
    assert stub.connections == opened
    assert len(stub.posted()) == count


def test_an_open_loop_starts_with_connections_too(stub: Stub) -> None:
    """The connections opened beforehand are those that the arrivals use."""
    due_s = dict.fromkeys(range(6), 0.0)
    share = dataclasses.replace(share_of(stub.target, count=6, due_s=due_s), workers=4)
    everybody = threading.Barrier(6)

    def wait_for_all(_: Seen) -> Reply:
        everybody.wait(PATIENCE_S)
        return stub.good()

    async def work() -> ShareResult:
        async with Sender(share, iter(())) as sender:
            await until(lambda: stub.connections == 4)
            assert not stub.seen
            return await sender.run(started_ns=perf_counter_ns())

    stub.on(COMPLETIONS, wait_for_all)
    result = asyncio.run(work())

    assert [record.error for record in result.requests] == [None] * 6
    assert stub.connections == 6


def test_stamps_bracket_those_of_the_server(stub: Stub) -> None:
    """On the machine's clock: sent before the server received it, first token after the server wrote it, in order."""

    def hold(_: Seen) -> Reply:
        threading.Event().wait(0.01)
        return stub.good()

    stub.on(COMPLETIONS, hold)
    started_ns = perf_counter_ns()
    result = run(share_of(stub.target, count=3), started_ns=started_ns)
    ended_ns = perf_counter_ns()

    for record, seen in zip(result.requests, stub.posted(), strict=True):
        assert record.ttft_s is not None
        assert record.first_text_s == record.ttft_s
        assert record.last_token_s is not None
        assert record.closed_s is not None
        sent_ns = started_ns + record.sent_s * 1e9
        assert started_ns < sent_ns < seen.received_ns
        assert seen.answered_ns < sent_ns + record.ttft_s * 1e9
        assert record.ttft_s <= record.last_token_s <= record.closed_s
        assert sent_ns + record.closed_s * 1e9 < ended_ns


def test_a_start_that_lies_ahead_is_waited_for(stub: Stub) -> None:
    """Nothing is sent before the start, and times count from it."""
    stub.on(COMPLETIONS, stub.good())
    started_ns = perf_counter_ns() + 50_000_000
    result = run(share_of(stub.target, count=1), started_ns=started_ns)

    assert stub.posted()[0].received_ns > started_ns
    assert 0 < result.requests[0].sent_s <= (stub.posted()[0].received_ns - started_ns) / 1e9


def test_the_wall_time_covers_the_answers_and_the_cpu_time_is_in_it(stub: Stub) -> None:
    """The wall time of a point reaches from its start to the end of its last answer."""
    stub.on(COMPLETIONS, stub.good())
    result = run(share_of(stub.target, count=2))
    last = result.requests[-1]

    assert last.closed_s is not None
    assert result.wall_s >= last.sent_s + last.closed_s
    assert result.cpu_s >= 0
    assert result.cpu_share == result.cpu_s / result.wall_s


def test_a_point_that_took_no_time_has_no_cpu_share() -> None:
    """A share of nothing is 0, not an error."""
    nothing: array.array[float] = array.array("d")

    assert ShareResult((), nothing, nothing, wall_s=0.0, cpu_s=0.0).cpu_share == 0


def test_a_blocked_loop_shows_in_the_heartbeat(stub: Stub) -> None:
    """When something keeps the event loop busy for 60 ms, a heartbeat of every 10 ms was at least 50 ms late."""

    def tickets() -> Iterator[int]:
        yield 0
        until_ns = perf_counter_ns() + 60_000_000
        while perf_counter_ns() < until_ns:
            pass
        yield 1

    stub.on(COMPLETIONS, stub.good())
    result = run(share_of(stub.target, count=2), tickets())

    assert result.lag_s(1.0) >= 0.050
    assert sum(lag >= 0.010 for lag in result.lags_s) >= 4, "a stall counts for as long as it lasted, not once"
    assert result.lag_s(1.0) == max(result.lags_s)
    assert min(result.lags_s) >= 0


def test_a_stall_up_to_the_end_of_a_point_counts(stub: Stub) -> None:
    """A loop that is kept busy until the point is over was late, though no beat came after it."""

    def tickets() -> Iterator[int]:
        yield 0
        until_ns = perf_counter_ns() + 60_000_000
        while perf_counter_ns() < until_ns:
            pass

    stub.on(COMPLETIONS, stub.good())
    result = run(share_of(stub.target, count=1), tickets())

    assert result.lag_s(1.0) >= 0.045


def test_keep_alive_comments_do_not_hold_a_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that says nothing, again and again, is no silence; the whole answer has a limit of its own."""
    monkeypatch.setattr(load, "_WHOLE", 1)

    async def ping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while not left.is_set():
                writer.write(b"8\r\n: ping\n\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        gone.set()

    async def work() -> ShareResult:
        async with await asyncio.start_server(ping, "127.0.0.1", 0) as server:
            url = "http://{}:{}".format(*server.sockets[0].getsockname())
            async with Sender(Share(url, {0: b"{}"}, workers=1, timeout_s=0.3), iter([0])) as sender:
                result = await sender.run(started_ns=perf_counter_ns())
            left.set()
            await gone.wait()
            return result

    left, gone = asyncio.Event(), asyncio.Event()
    [record] = asyncio.run(work()).requests

    assert record.error == "the answer had not ended after 0.3 s"


def test_heartbeats_go_on_for_as_long_as_the_point(stub: Stub) -> None:
    """An answer of half a second is watched all along, not only at its beginning."""

    def hold(_: Seen) -> Reply:
        threading.Event().wait(0.3)
        return stub.good()

    stub.on(COMPLETIONS, hold)
    result = run(share_of(stub.target, count=1))

    assert len(result.lags_s) > 1
    assert len(result.lags_s) * 0.010 <= result.wall_s


def test_giving_up_while_connecting_leaves_no_connection_open(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt while connections are opened closes those that are open already."""
    attempts = []
    connect = StampingTransport.connect

    async def second_never(self: StampingTransport, *arguments: object) -> object:
        attempts.append(self)
        if len(attempts) == 2:
            await asyncio.get_running_loop().create_future()
        return await connect(self, *arguments)  # type: ignore[arg-type]

    async def work() -> None:
        share = share_of(stub.target, count=2, workers=2)
        task = asyncio.ensure_future(Sender(share, iter(())).__aenter__())
        await until(lambda: stub.connections == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    monkeypatch.setattr(StampingTransport, "connect", second_never)
    asyncio.run(work())
    gc.collect()

    assert stub.closed.acquire(timeout=PATIENCE_S / 2), "the stub itself gives up later than that"


@pytest.mark.parametrize("due_s", [{}, dict.fromkeys(range(4), 0.0)], ids=["closed", "open"])
def test_an_interrupt_ends_the_point_and_closes_its_connections(stub: Stub, due_s: dict[int, float]) -> None:
    """Ctrl-C while answers last is not swallowed, and the server sees all connections close."""
    arrived = threading.Barrier(4, action=lambda: os.kill(os.getpid(), signal.SIGINT))

    def silent(_: Seen) -> Reply:
        arrived.wait(PATIENCE_S)
        return stub.stream(end="silence")

    stub.on(COMPLETIONS, silent)
    with pytest.raises(KeyboardInterrupt):
        run(share_of(stub.target, count=8 if not due_s else 4, workers=4, due_s=due_s))
    gc.collect()

    assert [stub.closed.acquire(timeout=PATIENCE_S) for _ in range(4)] == [True] * 4
    assert [seen.left for seen in stub.posted()] == [True] * 4


@pytest.mark.parametrize("callback", ["body", "headers"])
def test_an_interrupt_inside_the_parser_is_not_swallowed(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, callback: str
) -> None:
    """SIGTERM interrupts the main thread wherever it is: also in a callback of the parser, it ends the point."""

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt("signal SIGTERM")

    if callback == "body":
        monkeypatch.setattr(Exchange, "take", interrupted)
    else:
        monkeypatch.setattr(transport._Connection, "on_headers_complete", interrupted)
    stub.on(COMPLETIONS, stub.good())
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        run(share_of(stub.target, count=3))

    assert len(stub.posted()) == 1


def test_a_fault_of_the_collector_is_not_swallowed(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """When parsing aside fails, the point fails: it does not come back with records missing."""

    async def broken(_: Collector) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Collector, "relieve", broken)
    stub.on(COMPLETIONS, stub.good())
    with pytest.raises(ZeroDivisionError):
        run(share_of(stub.target, count=3))


def test_a_request_that_cannot_be_built_ends_the_point(target_at: type[Target]) -> None:
    """An address that is none is an error of the run, not of every request."""
    profile = RequestProfile(input_tokens=8, output_tokens=2, requests={1: 1})
    with pytest.raises(httpx.InvalidURL):
        HttpLoadDriver().run_point(target_at("http://[::1"), [b"{}"], at=1, profile=profile)
