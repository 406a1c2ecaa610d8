"""What a client's point is worth: its figures held against the server's log. Pure arithmetic."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.client.driving import Load, Outcome, Seen

_Pair: TypeAlias = "tuple[Seen, dict[str, Any]]"
_LATE_LIMIT_MS = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """One point of one client. Errors are what the client says less what the server's log says: above 0 is late.

    Attributes:
        wall_percent: first sending to last token event, as the client saw it, over the ideal.
        server_wall_percent: first request read to last event written, as the server saw it, over the ideal.
        ttft_p50_ms: error of TTFT, which in the log lies between the request read and the first event written.
        ttft_p99_ms: the same.
        tpot_p50_us: error of TPOT, in microseconds a token.
        tpot_p99_us: the same, of its absolute value.
        stamp_p99_ms: first token event stamped after it was written; `None` where the client's clock is its own.
        cpu_s: CPU seconds of the point.
        cpus: CPUs that the client kept busy on average.
        server_late_p99_ms: how late the server wrote.
        server_cpu_s: CPU seconds of the server.
        choked: writes that the client was too slow to take at once.
    """

    wall_percent: float
    server_wall_percent: float
    ttft_p50_ms: float
    ttft_p99_ms: float
    tpot_p50_us: float
    tpot_p99_us: float
    stamp_p99_ms: float | None
    cpu_s: float
    cpus: float
    server_late_p99_ms: float
    server_cpu_s: float
    choked: int

    @property
    def server_on_time(self) -> bool:
        """Whether lateness is the client's."""
        return self.server_late_p99_ms <= _LATE_LIMIT_MS


def ideal_wall_s(load: Load, *, ttft_s: float, interval_s: float) -> float:
    """Return how long the point takes with a client that costs no time."""
    return load.per_worker * (ttft_s + (load.tokens - 1) * interval_s)


def figures_of(outcome: Outcome, log: dict[str, Any], *, tokens: int, ideal_s: float) -> Figures:
    """Hold a client's outcome against the server's log.

    Raises:
        ValueError: the log has other requests than the client, or not whole ones.
    """
    pairs = _pairs(outcome, log, tokens=tokens)
    entries = [entry for _, entry in pairs]
    ttft_ms = [seen.ttft_s * 1e3 - (entry["begun_ns"][0] - entry["read_ns"]) / 1e6 for seen, entry in pairs]
    tpot_us = [_tpot_error_us(seen, entry) for seen, entry in pairs]
    return Figures(
        wall_percent=100 * (outcome.wall_s / ideal_s - 1),
        server_wall_percent=100 * (_server_wall_s(entries) / ideal_s - 1),
        ttft_p50_ms=percentile(ttft_ms, 50),
        ttft_p99_ms=percentile(ttft_ms, 99),
        tpot_p50_us=percentile(tpot_us, 50),
        tpot_p99_us=percentile(list(map(abs, tpot_us)), 99),
        stamp_p99_ms=_stamp_p99_ms(pairs),
        cpu_s=outcome.cpu_s,
        cpus=outcome.cpu_s / outcome.wall_s,
        server_late_p99_ms=percentile(_lateness_ms(entries), 99),
        server_cpu_s=log["cpu_s"],
        choked=log["choked"],
    )


def _pairs(outcome: Outcome, log: dict[str, Any], *, tokens: int) -> list[_Pair]:
    """Put what the client saw beside what the server did, request by request."""
    logged = {entry["id"]: entry for entry in log["requests"] if entry["id"]}
    if set(logged) != {seen.request_id for seen in outcome.requests}:
        raise ValueError(f"the client has {len(outcome.requests)} requests, the server's log {len(logged)} others")
    if not all(entry["whole"] and len(entry["begun_ns"]) == tokens for entry in logged.values()):
        raise ValueError(f"the server's log has answers that are not {tokens} token events long")
    return [(seen, logged[seen.request_id]) for seen in outcome.requests]


def _tpot_error_us(seen: Seen, entry: dict[str, Any]) -> float:
    stamps_ns = entry["begun_ns"]
    return float((seen.last_s - seen.ttft_s) * 1e6 - (stamps_ns[-1] - stamps_ns[0]) / 1e3) / (len(stamps_ns) - 1)


def percentile(values: Sequence[float], q: float) -> float:
    """Return a percentile, with linear interpolation, q from 0 to 100."""
    return float(np.percentile(values, q))


def medians(points: Sequence[Figures]) -> Figures:
    """Return the figures of several points of one client, each the median."""
    columns: dict[str, list[Any]] = {
        name: [getattr(point, name) for point in points] for name in Figures.__dataclass_fields__
    }
    middle: dict[str, Any] = {
        name: None if None in column else float(np.median(column)) for name, column in columns.items()
    }
    return Figures(**middle)


def _server_wall_s(entries: Sequence[dict[str, Any]]) -> float:
    return float(max(entry["begun_ns"][-1] for entry in entries) - min(entry["read_ns"] for entry in entries)) / 1e9


def _lateness_ms(entries: Sequence[dict[str, Any]]) -> list[float]:
    """Return how long after its due time each event was out."""
    pairs = itertools.chain.from_iterable(zip(entry["ended_ns"], entry["due_ns"], strict=True) for entry in entries)
    return [(ended - due) / 1e6 for ended, due in pairs]


def _stamp_p99_ms(pairs: Sequence[_Pair]) -> float | None:
    if not all(seen.absolute for seen, _ in pairs):
        return None
    return percentile([(seen.sent_s + seen.ttft_s) * 1e3 - entry["begun_ns"][0] / 1e6 for seen, entry in pairs], 99)
