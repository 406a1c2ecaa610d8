"""How a point is split among processes, and how what they bring back is put together: nothing lost, nothing twice."""

from __future__ import annotations

import array
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.adapters.client import WORKERS_PER_PROCESS, _merged, _shares
from pytest_specgate.adapters.load import ShareResult
from pytest_specgate.core.arrivals import arrival_times_s
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import RequestRecord

URL = "http://127.0.0.1:9"


def profile_of(processes: int | None) -> RequestProfile:
    """Return a profile with a number of client processes."""
    return RequestProfile(
        input_tokens=8, output_tokens=2, requests={1: 1}, client_processes=processes, request_timeout_s=7.5
    )


def record(index: int, *, due_s: float | None = None, sent_s: float = 0.0) -> RequestRecord:
    """Return the record of a request that came to nothing."""
    nothing = dict.fromkeys(("status", "error", "ttft_s", "first_text_s", "last_token_s", "closed_s", "finish_reason"))
    return RequestRecord(
        index=index,
        due_s=due_s,
        sent_s=sent_s,
        prompt_tokens=None,
        output_tokens=None,
        token_events=0,
        text_sha256="",
        text=None,
        body_sha256="",
        **nothing,
    )


def result(
    *records: RequestRecord, gaps_s: tuple[float, ...] = (), wall_s: float = 1.0, cpu_s: float = 0
) -> ShareResult:
    """Return what a process brings back, with heartbeats that were 0, 1, ..., 100 ms late, times its wall time."""
    lags_s = array.array("d", [wall_s * late / 1000 for late in range(101)])
    return ShareResult(records, array.array("d", gaps_s), lags_s, wall_s=wall_s, cpu_s=cpu_s)


@given(workers=st.integers(1, 600), count=st.integers(0, 100), processes=st.one_of(st.none(), st.integers(1, 64)))
def test_all_workers_of_a_closed_loop_are_there_once(workers: int, count: int, processes: int | None) -> None:
    """Every process has workers and any body; together they have as many workers as the level says."""
    bodies = [b"%d" % number for number in range(count)]
    shares = _shares(URL, bodies, at=workers, profile=profile_of(processes))

    assert sum(share.workers for share in shares) == workers
    assert all(share.workers >= 1 for share in shares)
    assert all(share.bodies == dict(enumerate(bodies)) for share in shares)
    assert all((share.url, share.timeout_s, share.due_s) == (URL, 7.5, {}) for share in shares)
    assert max(share.workers for share in shares) - min(share.workers for share in shares) <= 1


@given(count=st.integers(2, 200), processes=st.one_of(st.none(), st.integers(1, 64)))
def test_all_requests_of_an_open_loop_are_there_once(count: int, processes: int | None) -> None:
    """Each request is in the share of one process, with its body and its due time, however many processes there are."""
    bodies = [b"%d" % number for number in range(count)]
    shares = _shares(URL, bodies, at="10/s", profile=profile_of(processes))
    due_s = dict(itertools.chain.from_iterable(share.due_s.items() for share in shares))

    assert sorted(itertools.chain.from_iterable(share.bodies for share in shares)) == list(range(count))
    assert all(share.bodies[index] == bodies[index] for share in shares for index in share.bodies)
    assert all(share.bodies.keys() == share.due_s.keys() for share in shares)
    assert [due_s[index] for index in range(count)] == list(arrival_times_s(10, count, burstiness=1, seed=0))
    assert all(share.workers >= 1 for share in shares)


@pytest.mark.parametrize(
    ("at", "asked", "processes"),
    [
        (1, None, 1),
        (WORKERS_PER_PROCESS, None, 1),
        (WORKERS_PER_PROCESS + 1, None, 2),
        (3 * WORKERS_PER_PROCESS, None, 3),
        (3 * WORKERS_PER_PROCESS, 1, 1),
        (2, 5, 2),
        ("500/s", None, 1),
        ("500/s", 40, 40),
    ],
)
def test_the_number_of_processes_follows_the_workers_unless_it_is_set(
    at: int | str, asked: int | None, processes: int
) -> None:
    """One process carries 128 workers; the profile's own number counts more; no process would have nothing to do."""
    assert len(_shares(URL, [b""] * 1000, at=at, profile=profile_of(asked))) == processes


def test_health_is_that_of_the_worst_process() -> None:
    """CPU time is the sum; wall time, busiest process and lateness are the worst of all processes."""
    merged = _merged([result(record(0), wall_s=2.0, cpu_s=1.0), result(record(1), wall_s=1.0, cpu_s=0.75)]).client

    assert (merged.processes, merged.wall_s, merged.cpu_s) == (2, 2.0, 1.75)
    assert merged.busiest_cpu_share == 0.75
    assert merged.lag_p50_s == pytest.approx(0.100)
    assert merged.lag_p99_s == pytest.approx(0.198)
    assert merged.lag_max_s == pytest.approx(0.200)
    assert merged.late_sends_p95_s is None


def test_a_point_too_short_for_a_heartbeat_has_no_lateness() -> None:
    """Without heartbeats, lateness is 0."""
    nothing = array.array("d")
    merged = _merged([ShareResult((), nothing, nothing, wall_s=0.001, cpu_s=0.0)])

    assert (merged.client.lag_p50_s, merged.client.lag_max_s) == (0, 0)
    assert (merged.requests, merged.gaps) == ((), None)


@given(gaps_s=st.lists(st.lists(st.floats(1e-6, 1e3), max_size=30), min_size=1, max_size=4).filter(any))
def test_gaps_of_all_processes_are_summarised_as_numpy_does(gaps_s: list[list[float]]) -> None:
    """Each gap counts once, whichever process saw it."""
    pooled = np.concatenate([np.asarray(some, dtype=float) for some in gaps_s])
    gaps = _merged([result(gaps_s=tuple(some)) for some in gaps_s]).gaps

    assert gaps is not None
    assert (gaps.count, gaps.max_s) == (len(pooled), pooled.max())
    assert gaps.sum_s == pytest.approx(pooled.sum())
    assert (gaps.p50_s, gaps.p90_s, gaps.p95_s, gaps.p99_s) == tuple(np.percentile(pooled, (50, 90, 95, 99)))


def test_records_and_late_sends_are_put_together_in_sending_order() -> None:
    """Records come back by index; lateness is a percentile over all processes' requests."""
    odd = [record(index, due_s=index, sent_s=index + 0.5) for index in (1, 3)]
    even = [record(index, due_s=index, sent_s=index + 0.1) for index in (0, 2)]
    merged = _merged([result(*odd), result(*even)])

    assert [request.index for request in merged.requests] == [0, 1, 2, 3]
    assert merged.client.late_sends_p95_s == pytest.approx(np.percentile([0.5, 0.5, 0.1, 0.1], 99))
