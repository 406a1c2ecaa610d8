"""The open loop over real sockets: requests arrive on their own schedule, whatever the server does."""

from __future__ import annotations

import itertools
import json
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_specgate.adapters import client
from pytest_specgate.core.arrivals import arrival_times_s

if TYPE_CHECKING:
    from tests.adapters.conftest import Reply, RunPoint, Seen, Stub

COMPLETIONS = "/v1/completions"
PATIENCE_S = 20.0


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize(("rate", "burstiness"), [("200/s", 1.0), ("400/s", 0.2), ("100.5/s", 50.0)])
def test_requests_are_sent_when_they_are_due_and_never_before(
    stub: Stub, run_point: RunPoint, rate: str, burstiness: float, processes: int
) -> None:
    """The schedule is that of the profile's rate, burstiness and seed, shared by all processes; none is early."""
    stub.on(COMPLETIONS, stub.good())
    load = run_point(stub.target, count=20, at=rate, burstiness=burstiness, order_seed=7, client_processes=processes)
    due_s = [record.due_s for record in load.requests]

    assert due_s == list(arrival_times_s(float(rate[:-2]), 20, burstiness=burstiness, seed=7))
    assert all(record.due_s is not None and record.sent_s >= record.due_s for record in load.requests)
    assert [record.error for record in load.requests] == [None] * 20
    assert sorted(stub.numbers()) == list(range(20))
    assert load.client.processes == processes


def test_by_the_servers_clock_none_is_early(stub: Stub, run_point: RunPoint) -> None:
    """No request arrives before the start of the point and its due time have passed."""
    stub.on(COMPLETIONS, stub.good())
    before_ns = perf_counter_ns()
    load = run_point(stub.target, count=10, at="100/s")
    received_ns = {json.loads(seen.body)["number"]: seen.received_ns for seen in stub.posted()}

    for record in load.requests:
        assert record.due_s is not None
        assert received_ns[record.index] - before_ns > record.due_s * 1e9


@pytest.mark.parametrize("processes", [1, 2])
def test_arrivals_do_not_wait_for_answers(stub: Stub, run_point: RunPoint, processes: int) -> None:
    """A server that answers only once all 80 requests are there gets them all, more than were connected beforehand."""
    everybody = threading.Barrier(80)

    def wait_for_all(_: Seen) -> Reply:
        everybody.wait(PATIENCE_S)
        return stub.good()

    stub.on(COMPLETIONS, wait_for_all)
    load = run_point(stub.target, count=80, at="1000/s", client_processes=processes)

    assert [record.error for record in load.requests] == [None] * 80
    assert max(seen.in_flight for seen in stub.posted()) == stub.connections == 80


def test_a_connection_carries_the_next_arrival_when_it_is_free(stub: Stub, run_point: RunPoint) -> None:
    """Arrivals that do not overlap need no connections but those opened beforehand."""
    stub.on(COMPLETIONS, stub.good())
    load = run_point(stub.target, count=60, at="500/s", burstiness=100.0)

    assert [record.error for record in load.requests] == [None] * 60
    assert len({seen.peer for seen in stub.posted()}) < 60
    assert stub.connections >= client._OPENED_BEFOREHAND


def test_failures_do_not_stop_the_arrivals(stub: Stub, run_point: RunPoint) -> None:
    """Refused requests and lost connections are failed requests; all others arrive as they would have."""
    refused, cut = stub.text("overloaded", status=503), stub.stream(stub.token("a"), end="cut")
    stub.on(COMPLETIONS, *itertools.chain.from_iterable([(refused, cut, stub.good())] * 4))
    load = run_point(stub.target, count=12, at="300/s")
    errors = [record.error for record in load.requests]

    assert sorted(stub.numbers()) == list(range(12))
    assert [record.index for record in load.requests] == list(range(12))
    assert errors.count(None) == errors.count("HTTP 503: overloaded") == 4
    assert sum(str(error).startswith("RemoteProtocolError: ") for error in errors) == 4


def test_late_sends_are_told(stub: Stub, run_point: RunPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the schedule began a second ago, every send is late by a second less its due time; that is told."""
    monkeypatch.setattr(client, "perf_counter_ns", lambda: perf_counter_ns() - 1_000_000_000)
    stub.on(COMPLETIONS, stub.good())
    load = run_point(stub.target, count=10, at="100/s")
    late_s = [record.sent_s - record.due_s for record in load.requests if record.due_s is not None]

    assert load.client.late_sends_p95_s == pytest.approx(np.quantile(late_s, 0.95))
    assert min(late_s) >= 1 - 0.09
    assert len(late_s) == 10


def test_a_closed_loop_has_no_late_sends(stub: Stub, run_point: RunPoint) -> None:
    """Where nothing is due, lateness is absent, not 0."""
    stub.on(COMPLETIONS, stub.good())

    assert run_point(stub.target).client.late_sends_p95_s is None


def test_the_same_seed_gives_the_same_arrivals(stub: Stub, run_point: RunPoint) -> None:
    """Two points of one profile have one schedule; another seed has another."""
    stub.on(COMPLETIONS, stub.good())
    first, again, other = (
        [record.due_s for record in run_point(stub.target, count=5, at="500/s", order_seed=seed).requests]
        for seed in (3, 3, 4)
    )

    assert first == again
    assert first != other
