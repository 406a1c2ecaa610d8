"""How much a load client adds to what it measures, held against a server that knows the truth.

Clients take turns within one run, in an order that reverses with every repetition, so that whatever else the machine
does hits all of them alike. A point at which the server itself was late says nothing about a client: it is repeated,
and if the server is late again and again it is left out and reported as such.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.client.driving import Load
from benchmarks.client.figures import Figures, figures_of, ideal_wall_s, medians
from benchmarks.client.processes import Client, Truth, run_client, truth_server
from benchmarks.client.reporting import busy_cpu_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.client.reporting import Report, Settings

TTFT_S = 0.050
INTERVAL_S = 0.010
TOKENS = 64
PER_WORKER = 4
_TRIES = 3

# Wall time over the ideal in percent, and lateness of TTFT p99 in milliseconds, at most.
_TARGETS: dict[int, tuple[float, float | None]] = {
    8: (0.5, 3.0),
    32: (1.0, 10.0),
    64: (1.5, 15.0),
    128: (3.0, 30.0),
    256: (5.0, None),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """One point of one client, measured once.

    Attributes:
        client: its name.
        concurrency: workers.
        repeat: number of the repetition, from 0.
        figures: what was found.
        other_cpus: CPUs that everything but client, server and benchmark kept busy meanwhile.
        counts: whether the server was on time and the machine was as quiet as asked for.
    """

    client: str
    concurrency: int
    repeat: int
    figures: Figures
    other_cpus: float
    counts: bool


def test_accuracy(settings: Settings, report: Report) -> None:
    """Every client measures every point; the table shows how far off each of them is."""
    clients = settings.clients()
    with truth_server(ttft_s=TTFT_S, interval_s=INTERVAL_S) as truth:
        points = list(_points(truth, clients, settings))
    rows = [
        _row(client.name, concurrency, [point for point in points if _is(point, client, concurrency)])
        for concurrency in settings.points
        for client in clients
    ]
    figures = {"server_scheduling": truth.scheduling, "points": [dataclasses.asdict(point) for point in points]}
    report.add("client-accuracy", rows, figures=figures, notes=_notes(points, truth))

    assert points


def _points(truth: Truth, clients: Sequence[Client], settings: Settings) -> Iterator[Point]:
    for repeat in range(settings.repeats):
        for concurrency in settings.points:
            for client in clients[:: -1 if repeat % 2 else 1]:
                yield from _tried(truth, client, settings, concurrency=concurrency, repeat=repeat)


def _tried(truth: Truth, client: Client, settings: Settings, *, concurrency: int, repeat: int) -> Iterator[Point]:
    """Measure a point until it counts, a few times at most."""
    for _ in range(_TRIES):
        figures, other_cpus = _measured(truth, client, concurrency=concurrency)
        counts = figures.server_on_time and other_cpus <= settings.other_cpus
        point = Point(client.name, concurrency, repeat, figures, other_cpus=other_cpus, counts=counts)
        yield point
        if point.counts:
            return


def _measured(truth: Truth, client: Client, *, concurrency: int) -> tuple[Figures, float]:
    """Measure a point; return its figures, and the CPUs that other programs kept busy."""
    load = Load(truth.url, concurrency=concurrency, per_worker=PER_WORKER, tokens=TOKENS)
    truth.reset()
    own, started_s, busy_s = _own_cpu_s(), time.perf_counter(), busy_cpu_s()
    finished = run_client(client, load)
    own, elapsed_s, busy_s = _own_cpu_s() - own, time.perf_counter() - started_s, busy_cpu_s() - busy_s
    log = truth.log()
    others_s = busy_s - finished.process_cpu_s - log["cpu_s"] - own
    ideal_s = ideal_wall_s(load, ttft_s=TTFT_S, interval_s=INTERVAL_S)
    figures = figures_of(finished.outcome, log, tokens=TOKENS, ideal_s=ideal_s)
    return figures, max(0.0, others_s / elapsed_s)


def _own_cpu_s() -> float:
    times = psutil.Process().cpu_times()
    return float(times.user + times.system)


def _is(point: Point, client: Client, concurrency: int) -> bool:
    return point.client == client.name and point.concurrency == concurrency


def _row(client: str, concurrency: int, points: Sequence[Point]) -> dict[str, Any]:
    """Return a row of the table: medians over the points that count."""
    counted = [point for point in points if point.counts]
    row: dict[str, Any] = {"c": concurrency, "client": client, "counted": f"{len(counted)} of {len(points)}"}
    if not counted:
        return row
    middle = medians([point.figures for point in counted])
    return {
        **row,
        "wall %": middle.wall_percent,
        "server's wall %": middle.server_wall_percent,
        "TTFT p50 late ms": middle.ttft_p50_ms,
        "TTFT p99 late ms": middle.ttft_p99_ms,
        "stamp p99 late ms": middle.stamp_p99_ms,
        "TPOT p50 off us": middle.tpot_p50_us,
        "TPOT p99 off us": middle.tpot_p99_us,
        "CPU s": middle.cpu_s,
        "CPUs": middle.cpus,
        "server p99 late ms": middle.server_late_p99_ms,
        "other CPUs": statistics.median(point.other_cpus for point in counted),
        "target": _target(middle, concurrency) if client == "specgate" else None,
    }


def _target(figures: Figures, concurrency: int) -> str | None:
    """Say whether the targets of a concurrency are reached."""
    if concurrency not in _TARGETS:
        return None
    wall_percent, ttft_ms = _TARGETS[concurrency]
    reached = figures.wall_percent <= wall_percent and (ttft_ms is None or figures.ttft_p99_ms <= ttft_ms)
    asked = f"{wall_percent:g} %" if ttft_ms is None else f"{wall_percent:g} %, {ttft_ms:g} ms"
    return f"{asked}: {'reached' if reached else 'NOT reached'}"


def _notes(points: Sequence[Point], truth: Truth) -> list[str]:
    uncounted = sum(not point.counts for point in points)
    ideal_s = PER_WORKER * (TTFT_S + (TOKENS - 1) * INTERVAL_S)
    return [
        f"Medians of the points that count. {uncounted} of {len(points)} do not: the server was late, or others busy.",
        f"{PER_WORKER} requests a worker, TTFT {TTFT_S:g} s, {TOKENS} events, one every {INTERVAL_S:g} s.",
        f"Ideal wall: {ideal_s:.2f} s.",
        f"The system let the server run: {truth.scheduling}.",
    ]
