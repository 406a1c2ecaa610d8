"""A server that dies under load without a broken connection: the load ends, and what was not answered has failed."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.load import LEFT, Sender, Share
from pytest_specgate.adapters.transport import StampingTransport
from pytest_specgate.core.errors import ServerDiedError

if TYPE_CHECKING:
    from pytest_specgate.core.levels import Level
    from tests.adapters.conftest import Reply, RunPoint, Seen, Stub, Target

COMPLETIONS = "/v1/completions"
PATIENCE_S = 600.0
"""Longer than anybody waits for a test: whoever does not notice the death runs into the test run's own limit."""


@pytest.fixture
def dead() -> threading.Event:
    """Set when the server has died."""
    return threading.Event()


@pytest.fixture
def mortal(stub: Stub, target_at: type[Target], dead: threading.Event) -> Target:
    """The stub as a server that is dead when the event is set; its sockets stay open."""

    class Mortal(target_at):  # type: ignore[misc, valid-type]
        def ensure_alive(self, *, wait_s: float = 0.0) -> None:
            del wait_s
            if dead.is_set():
                raise ServerDiedError("its server left with exit code 3")

    server: Target = Mortal(stub.target.url)
    return server


@pytest.mark.parametrize("load_of", [(2, 1), (2, 2), ("1000/s", 1), ("1000/s", 2)], ids=str)
def test_case_71_a_death_that_breaks_no_connection_ends_the_load(
    stub: Stub, run_point: RunPoint, mortal: Target, dead: threading.Event, load_of: tuple[Level, int]
) -> None:
    """Case 71: five of twenty requests were answered, so fifteen failed: those that were open, and those never sent."""

    def silent(_: Seen) -> Reply:
        dead.set()
        return stub.stream(end="silence")

    at, processes = load_of
    stub.on(COMPLETIONS, *[stub.good()] * 5, silent)
    load = run_point(mortal, count=20, at=at, timeout_s=PATIENCE_S, client_processes=processes)
    errors = [record.error for record in load.requests]

    assert [record.index for record in load.requests] == list(range(20))
    assert (errors.count(None), errors.count(LEFT)) == (5, 15)
    assert len({record.body_sha256 for record in load.requests}) == 20


def test_an_attached_server_is_not_asked_while_its_load_runs(
    stub: Stub, run_point: RunPoint, mortal: Target, dead: threading.Event
) -> None:
    """Its process is elsewhere, and a question would be load: its requests alone tell what becomes of it."""
    dead.set()
    stub.on(COMPLETIONS, stub.good())
    load = run_point(dataclasses.replace(mortal, attached=True), count=4)

    assert [record.error for record in load.requests] == [None] * 4


def test_a_watch_ends_with_its_load(stub: Stub, run_point: RunPoint) -> None:
    """No thread is left, whatever became of the point."""
    stub.on(COMPLETIONS, stub.good())
    run_point(stub.target, count=2)

    assert not [thread for thread in threading.enumerate() if thread.name == "specgate-watch"]


def test_a_death_while_connecting_ends_the_load(
    run_point: RunPoint, mortal: Target, dead: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full queue of connections answers nobody: none of the requests was sent."""

    async def never(*_: object) -> None:
        dead.set()
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(StampingTransport, "connect", never)
    load = run_point(mortal, count=3, at=2, timeout_s=PATIENCE_S)

    assert [record.error for record in load.requests] == [LEFT] * 3


def test_a_load_may_be_stopped_more_than_once(stub: Stub) -> None:
    """Before the start or after it, the second time changes nothing."""

    async def work() -> int:
        async with Sender(Share(stub.target.url, {0: b"{}"}, workers=1, timeout_s=PATIENCE_S), iter([0])) as sender:
            sender.stop()
            sender.stop()
            result = await sender.run(started_ns=perf_counter_ns())
            sender.stop()
            return len(result.requests)

    stub.on(COMPLETIONS, stub.stream(end="silence"))

    assert asyncio.run(work()) <= 1
