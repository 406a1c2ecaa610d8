"""From bytes on the wire to request records: parsed when a request has ended, outside the receive loop."""

from __future__ import annotations

import array
import asyncio
import contextlib
import dataclasses
import hashlib
import itertools
import json
from typing import TYPE_CHECKING, Final

import httpx
import numpy as np

from pytest_specgate.adapters.transport import Exchange
from pytest_specgate.core.chunk_times import encode
from pytest_specgate.core.records import ChunkGaps, RequestRecord
from pytest_specgate.core.sse import Read, Timeline, TimelineBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEPT_BYTES: Final = 64 * 2**20
"""Answers are kept unparsed up to this size: parsing them while others stream would delay those."""

_REFUSAL_BYTES: Final = 8192
"""Of a refusal this much is looked at: its message stands at the beginning."""

_SLICE: Final = 32
"""Reads that are parsed before the loop gets its turn again: some 0.3 ms."""


@dataclasses.dataclass(slots=True)
class Attempt:
    """One request of a point; there is never a second attempt at it.

    Attributes:
        index: place in the sending order.
        body: what is sent.
        due_s: when an open loop means to send it, after the start of the point.
        exchange: what went over the wire.
        failure: what went wrong outside the stream.
    """

    index: int
    body: bytes
    due_s: float | None = None
    exchange: Exchange = dataclasses.field(default_factory=Exchange)
    failure: str | None = None


class Collector:
    """Turns ended attempts into records, whose errors may hold secrets yet.

    Args:
        started_ns: start of the point on the monotonic clock.
        keep_text: whether records carry the answers themselves.
        keep_times: whether records carry the time of every token event.
        kept_bytes: size up to which answers are kept for `finish`.
    """

    def __init__(
        self,
        *,
        started_ns: int,
        keep_text: bool = False,
        keep_times: bool = False,
        kept_bytes: int = _KEPT_BYTES,
    ) -> None:
        self._started_ns = started_ns
        self._keep_text = keep_text
        self._keep_times = keep_times
        self._kept_bytes = kept_bytes
        self._waiting: list[Attempt] = []
        self._waiting_bytes = 0
        self._full = asyncio.Event()
        self._records: list[RequestRecord] = []
        self._times_s: dict[int, array.array[float]] = {}
        self._gaps_s = array.array("d")

    def add(self, attempt: Attempt) -> None:
        """Take an attempt that has ended."""
        self._waiting.append(attempt)
        self._waiting_bytes += attempt.exchange.size
        if self._waiting_bytes > self._kept_bytes:
            self._full.set()

    async def relieve(self) -> None:
        """Parse whenever too much is kept, a little at a time, until cancelled: memory stays bounded."""
        while True:
            await self._full.wait()
            while self._waiting_bytes > self._kept_bytes:
                await self._parse_by_and_by(self._pop())
            self._full.clear()

    async def _parse_by_and_by(self, attempt: Attempt) -> None:
        builder = TimelineBuilder()
        try:
            for place, (at_s, data) in enumerate(_readable(attempt), start=1):
                builder.feed(Read(at_s, data))
                if place % _SLICE == 0:
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.add(attempt)
            raise
        self._keep(attempt, builder)

    def finish(self) -> tuple[list[RequestRecord], array.array[float]]:
        """Parse what is left; return all records in sending order, and the gaps between token events, in seconds."""
        while self._waiting:
            attempt = self._pop()
            builder = TimelineBuilder()
            for at_s, data in _readable(attempt):
                builder.feed(Read(at_s, data))
            self._keep(attempt, builder)
        records = map(self._timed, self._records) if self._keep_times else self._records
        return sorted(records, key=lambda record: record.index), self._gaps_s

    def _timed(self, record: RequestRecord) -> RequestRecord:
        times_s = self._times_s.get(record.index)
        return record.model_copy(update={"chunk_times": encode(times_s)}) if times_s else record

    def _pop(self) -> Attempt:
        attempt = self._waiting.pop()
        self._waiting_bytes -= attempt.exchange.size
        return attempt

    def _keep(self, attempt: Attempt, builder: TimelineBuilder) -> None:
        refused = _refusal(attempt.exchange) if _refused(attempt.exchange) else None
        seen = builder.finish(failure=refused or attempt.failure)
        self._records.append(_record(attempt, seen, started_ns=self._started_ns, keep_text=self._keep_text))
        if self._keep_times:
            # Compressing thousands of them takes a millisecond, which would delay what still streams.
            self._times_s[attempt.index] = array.array("d", seen.token_events)
        if seen.error is None:
            self._gaps_s.extend(later - earlier for earlier, later in itertools.pairwise(seen.token_events))
        attempt.exchange.clear()


def chunk_gaps(gaps_s: array.array[float]) -> ChunkGaps | None:
    """Summarise the gaps between token events; `None` when there is none."""
    if not gaps_s:
        return None
    gaps = np.frombuffer(gaps_s, dtype=np.float64)
    p50, p90, p95, p99 = (float(value) for value in np.quantile(gaps, (0.5, 0.9, 0.95, 0.99)))
    return ChunkGaps(
        count=len(gaps),
        sum_s=float(gaps.sum()),
        p50_s=p50,
        p90_s=p90,
        p95_s=p95,
        p99_s=p99,
        max_s=float(gaps.max()),
    )


def percentile(values: Sequence[float], q: float) -> float:
    """Return the numpy-linear percentile q, 0 of nothing."""
    return float(np.quantile(values, q)) if len(values) else 0.0


def _refused(exchange: Exchange) -> bool:
    return exchange.status not in {0, httpx.codes.OK}


def _readable(attempt: Attempt) -> list[tuple[float, bytes]]:
    """Return the reads of an answer that is a stream; the body of a refusal is none."""
    return [] if _refused(attempt.exchange) else list(attempt.exchange.reads())


def _record(attempt: Attempt, seen: Timeline, *, started_ns: int, keep_text: bool) -> RequestRecord:
    """Turn a parsed attempt into a record."""
    exchange, events = attempt.exchange, seen.token_events
    return RequestRecord(
        index=attempt.index,
        due_s=attempt.due_s,
        sent_s=(exchange.sent_ns - started_ns) / 1e9 if exchange.sent_ns else attempt.due_s or 0.0,
        status=exchange.status or None,
        error=None if seen.error is None else seen.error.encode("utf-8", "replace").decode(),
        ttft_s=events[0] if events else None,
        first_text_s=seen.first_text_s,
        last_token_s=events[-1] if events else None,
        closed_s=exchange.closed_s,
        prompt_tokens=seen.prompt_tokens,
        output_tokens=seen.output_tokens,
        token_events=len(events),
        finish_reason=seen.finish_reason,
        text_sha256=hashlib.sha256(seen.text.encode()).hexdigest(),
        text=seen.text if keep_text else None,
        body_sha256=hashlib.sha256(attempt.body).hexdigest(),
        speculation=seen.speculation,
        speculation_problem=seen.speculation_problem,
    )


def _refusal(exchange: Exchange) -> str:
    """Name the HTTP status and what the server said about it."""
    text = exchange.body()[:_REFUSAL_BYTES].decode("utf-8", errors="replace")
    message: object = text
    with contextlib.suppress(ValueError, RecursionError):
        body = json.loads(text)
        error = body.get("error", body) if isinstance(body, dict) else body
        message = error.get("message", error) if isinstance(error, dict) else error
    return f"HTTP {exchange.status}: {message}"
