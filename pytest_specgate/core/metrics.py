"""The metric table: every figure that can be shown or gated, declared once.

A value that could not be measured is `None` with a reason, never 0.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from pytest_specgate.core.errors import ScrapeError, UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.core.records import PointRecord, RequestRecord

DEFINITION_VERSION: Final = 1
"""Raised when a formula changes: figures of different definitions are never compared."""

Unit: TypeAlias = Literal["s", "tokens/s", "requests/s", "tokens", "share"]
Direction: TypeAlias = Literal["higher", "lower"]


class NotMeasuredError(Exception):
    """A metric has no value at a point; the text says why. Raised and caught inside the core."""


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table.

    Attributes:
        name: key in gate files, without unit.
        label: in tables.
        unit: of the value.
        better: which direction is better.
        formula: in words.
        source: who measured it.
        value: computes it from a point.
        quantile: for a percentile over requests, its share; `None` for anything else.
    """

    name: str
    label: str
    unit: Unit
    better: Direction
    formula: str
    source: Literal["client", "server counters"]
    value: Callable[[PointRecord], float]
    quantile: float | None = None

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self.better == "higher"

    @property
    def minimum_requests(self) -> int:
        """Requests below which the metric is not supported: N * min(q, 1 - q) >= 5 for a percentile."""
        return 1 if self.quantile is None else _needed(self.quantile)

    @property
    def stored_key(self) -> str:
        """Key in stored files: the name with its unit."""
        suffix = {"s": "_s", "tokens/s": "_tokens_per_s", "requests/s": "_per_s", "tokens": "_tokens", "share": ""}
        return self.name + suffix[self.unit]


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A metric's value at one point of one boot, or why there is none."""

    value: float | None
    missing: str | None = None


def _needed(q: float) -> int:
    return math.ceil(round(5 / min(q, 1 - q), 6))


def ttft(request: RequestRecord) -> float:
    """Request sent to first token event, in seconds; NaN when there was none."""
    return _known(request.ttft_s)


def tpot(request: RequestRecord) -> float | None:
    """(Last - first token event) / (output tokens - 1), in seconds.

    `None` for an answer of one token, which has no such time; NaN when a part of it is missing.
    """
    if request.output_tokens == 1:
        return None
    if not request.output_tokens:
        return math.nan
    return (_known(request.last_token_s) - _known(request.ttft_s)) / (request.output_tokens - 1)


def decode_rate(request: RequestRecord) -> float | None:
    """1 / TPOT, in tokens per second: the speed a user feels; infinite, hence refused, for a TPOT of 0."""
    seconds = tpot(request)
    if seconds is None:
        return None
    return 1 / seconds if seconds else math.inf


def e2e(request: RequestRecord) -> float:
    """Request sent to last token event, in seconds; NaN when there was none."""
    return _known(request.last_token_s)


def _known(value: float | None) -> float:
    """Return a time that every complete answer has; a missing one must be seen, not left out."""
    return math.nan if value is None else value


BUNCH_S: Final = 0.010
"""Sends closer together than this reach the scheduler as one batch."""


def bunched_sends(point: PointRecord) -> float | None:
    """Return the share of sends, after the first wave, that come within `BUNCH_S` of another one.

    In a closed loop with equal output lengths an arm that advances in lockstep ends, and so sends, in bunches, which
    are then prefilled as one batch; an arm that speculates sends one by one. Their TTFT compares these rhythms as much
    as it compares prefill. `None` for a single worker, or when there is no second wave.
    """
    sends = sorted(request.sent_s for request in point.requests)[point.concurrency :]
    if point.concurrency < 2 or len(sends) < 2:
        return None
    gaps = [later - earlier for earlier, later in itertools.pairwise(sends)]
    near = [min(before, after) < BUNCH_S for before, after in zip([math.inf, *gaps], [*gaps, math.inf], strict=True)]
    return sum(near) / len(near)


def _percentile(quantity: Callable[[RequestRecord], float | None], q: float) -> Callable[[PointRecord], float]:
    def compute(point: PointRecord) -> float:
        found = [(request.index, value) for request in point.completed if (value := quantity(request)) is not None]
        if len(found) < _needed(q):
            raise NotMeasuredError(f"{len(found)} requests have a value, p{100 * q:g} needs {_needed(q)}")
        impossible = next((entry for entry in found if not math.isfinite(entry[1]) or entry[1] <= 0), None)
        if impossible is not None:
            raise NotMeasuredError(f"request {impossible[0]} has an impossible value: {impossible[1]:g}")
        return float(np.quantile([value for _, value in found], q))

    return compute


def _span(point: PointRecord) -> float:
    """First send to last token event of a point, in seconds."""
    ends = [request.sent_s + e2e(request) for request in point.completed]
    if not ends:
        raise NotMeasuredError("no request completed")
    if not all(map(math.isfinite, ends)):
        raise NotMeasuredError("a complete answer has no last token event")
    seconds = max(ends) - min(request.sent_s for request in point.requests)
    if seconds <= 0:
        raise NotMeasuredError(f"the point lasted {seconds:g} s")
    return seconds


def _output_throughput(point: PointRecord) -> float:
    counts = [request.output_tokens for request in point.completed]
    if any(count is None for count in counts):
        raise NotMeasuredError("the server sent no usage for some requests, so their tokens are unknown")
    return sum(count for count in counts if count is not None) / _span(point)


def _request_throughput(point: PointRecord) -> float:
    return len(point.completed) / _span(point)


def _from_counters(read: Callable[[PointRecord], float | None]) -> Callable[[PointRecord], float]:
    def compute(point: PointRecord) -> float:
        try:
            value = read(point)
        except ScrapeError as error:
            raise NotMeasuredError(str(error)) from error
        if value is None:
            raise NotMeasuredError("nothing was drafted or decoded between the two scrapes")
        return value

    return compute


def _acceptance_rate(point: PointRecord) -> float | None:
    speculation = point.counters.speculation()
    return speculation.acceptance_rate if speculation else None


def _acceptance_length(point: PointRecord) -> float | None:
    speculation = point.counters.speculation()
    return speculation.acceptance_length if speculation else None


def _percentiles() -> list[Metric]:
    families: tuple[tuple[str, str, Callable[[RequestRecord], float | None], Unit, Direction, str], ...] = (
        ("ttft", "TTFT", ttft, "s", "lower", "request sent to first token event"),
        ("tpot", "TPOT", tpot, "s", "lower", "(last - first token event) / (output tokens - 1), per request"),
        ("e2e", "E2E latency", e2e, "s", "lower", "request sent to last token event"),
        ("decode_rate", "decode rate", decode_rate, "tokens/s", "higher", "1 / TPOT, per request"),
    )
    return [
        Metric(
            name=f"{name}_p{100 * q:g}",
            label=f"{label} p{100 * q:g}",
            unit=unit,
            better=better,
            formula=f"{formula}; numpy-linear p{100 * q:g} over the requests of a point",
            source="client",
            value=_percentile(quantity, q),
            quantile=q,
        )
        for name, label, quantity, unit, better, formula in families
        for q in ((0.5, 0.9, 0.95, 0.99) if better == "lower" else (0.5, 0.1, 0.05, 0.01))
    ]


def _table() -> dict[str, Metric]:
    rows = [
        Metric(
            name="output_throughput",
            label="output throughput",
            unit="tokens/s",
            better="higher",
            formula="output tokens of a point / (first send to last token event)",
            source="client",
            value=_output_throughput,
        ),
        Metric(
            name="request_throughput",
            label="request throughput",
            unit="requests/s",
            better="higher",
            formula="completed requests of a point / (first send to last token event)",
            source="client",
            value=_request_throughput,
        ),
        *_percentiles(),
        Metric(
            name="acceptance_rate",
            label="acceptance rate",
            unit="share",
            better="higher",
            formula="accepted / draft tokens over the point",
            source="server counters",
            value=_from_counters(_acceptance_rate),
        ),
        Metric(
            name="acceptance_length",
            label="acceptance length",
            unit="tokens",
            better="higher",
            formula="1 + accepted tokens / drafts over the point",
            source="server counters",
            value=_from_counters(_acceptance_length),
        ),
        Metric(
            name="tokens_per_step",
            label="tokens per step",
            unit="tokens",
            better="higher",
            formula="(generation tokens - requests) / decode steps over the point",
            source="server counters",
            value=_from_counters(lambda point: point.counters.tokens_per_step()),
        ),
    ]
    return {row.name: row for row in rows}


METRICS: Final = _table()
HEADLINE: Final = ("output_throughput", "ttft_p50", "tpot_p50", "decode_rate_p50", "e2e_p50")
"""The rows every table shows, gated or not."""


def metric(name: str) -> Metric:
    """Return the row of the table with this name.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    if name not in METRICS:
        raise UsageError(f"there is no metric {name!r}{nearest(name, METRICS)}")
    return METRICS[name]


def measure(name: str, point: PointRecord) -> Measured:
    """Compute a metric at a point; a value that cannot be had comes back as a reason."""
    try:
        value = metric(name).value(point)
    except NotMeasuredError as error:
        return Measured(None, str(error))
    if not math.isfinite(value):
        return Measured(None, f"{name} is {value}")
    return Measured(value)
