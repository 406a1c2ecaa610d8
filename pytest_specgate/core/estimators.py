"""Estimators: how the value of a metric is taken of a point."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from pytest_specgate.core import counters
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.quantities import (
    NotMeasuredError,
    decode_time,
    e2e,
    is_good,
    output_tokens,
    span_s,
    tpot,
)
from pytest_specgate.core.speculation import too_few_drafts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PointRecord, RequestRecord

# Were drafts independent, the 95 % interval of a rate of 50 % would still be 30 % to 70 %; of fewer nothing is learnt.


class Estimate(NamedTuple):
    """A metric's value at a point, and of how many things (requests, gaps, steps) it was taken."""

    value: float
    n: int


Estimator: TypeAlias = "Callable[[PointRecord, RequestProfile], Estimate]"
Quantity: TypeAlias = "Callable[[RequestRecord], float | None]"
Reading: TypeAlias = "Callable[[PointRecord], tuple[float | None, int]]"


def needed(q: float) -> int:
    """Return how many values the percentile q needs: N * min(q, 1 - q) >= 5."""
    return math.ceil(round(5 / min(q, 1 - q), 6))


def _values(point: PointRecord, quantity: Quantity, *, minimum: int = 1) -> list[float]:
    """Return a quantity of every complete request that has one.

    Raises:
        NotMeasuredError: too few, or one that cannot be.
    """
    found = [(request.index, value) for request in point.completed if (value := quantity(request)) is not None]
    if len(found) < minimum:
        raise NotMeasuredError(f"{len(found)} requests have a value, and {minimum} are needed")
    for index, value in found:
        if not math.isfinite(value) or value <= 0:
            raise NotMeasuredError(f"request {index} has an impossible value: {value:g}")
    return [value for _, value in found]


def percentile(quantity: Quantity, q: float) -> Estimator:
    """Take the numpy-linear percentile q over requests."""

    def compute(point: PointRecord, _: RequestProfile) -> Estimate:
        values = _values(point, quantity, minimum=needed(q))
        return Estimate(float(np.quantile(values, q)), len(values))

    return compute


def mean(quantity: Quantity) -> Estimator:
    """Take the mean over requests."""

    def compute(point: PointRecord, _: RequestProfile) -> Estimate:
        values = _values(point, quantity)
        return Estimate(math.fsum(values) / len(values), len(values))

    return compute


def tpot_pooled(point: PointRecord, _: RequestProfile) -> Estimate:
    """Decode time of all requests / their output tokens but the first."""
    several = len(_values(point, tpot))
    seconds = math.fsum(decode_time(request) for request in point.completed if request.output_tokens != 1)
    return Estimate(seconds / (output_tokens(point) - len(point.completed)), several)


def output_throughput(point: PointRecord, _: RequestProfile) -> Estimate:
    """Output tokens / time of the point."""
    return Estimate(output_tokens(point) / span_s(point), len(point.completed))


def throughput_per_gpu(point: PointRecord, profile: RequestProfile) -> Estimate:
    """Output throughput / number of GPUs of the server."""
    if not point.gpus:
        where = "the server runs on no GPU" if point.gpus == 0 else "the server does not tell its number of GPUs"
        raise NotMeasuredError(where)
    whole = output_throughput(point, profile)
    return Estimate(whole.value / point.gpus, whole.n)


def request_throughput(point: PointRecord, _: RequestProfile) -> Estimate:
    """Complete requests / time of the point."""
    return Estimate(len(point.completed) / span_s(point), len(point.completed))


def goodput(point: PointRecord, profile: RequestProfile) -> Estimate:
    """Complete requests within every limit / time of the point."""
    limits = profile.goodput_limits_s
    if not limits:
        raise NotMeasuredError("the profile has no goodput_limits")
    good = sum(is_good(request, limits) for request in point.completed)
    return Estimate(good / span_s(point), len(point.completed))


def achieved_concurrency(point: PointRecord, _: RequestProfile) -> Estimate:
    """Requests in flight on average (Little's law)."""
    in_flight = math.fsum(_values(point, e2e))
    return Estimate(in_flight / span_s(point), len(point.completed))


def tokens_per_chunk(point: PointRecord, _: RequestProfile) -> Estimate:
    """Output tokens / token events."""
    chunks = sum(request.token_events for request in point.completed)
    if not chunks:
        raise NotMeasuredError("there is no token event")
    return Estimate(output_tokens(point) / chunks, len(point.completed))


def gap_percentile(q: float) -> Estimator:
    """Take the numpy-linear percentile q over the gaps between chunks."""

    def compute(point: PointRecord, _: RequestProfile) -> Estimate:
        if point.gaps is None or point.gaps.count < needed(q):
            count = point.gaps.count if point.gaps else 0
            raise NotMeasuredError(f"there are {count} gaps between chunks, and {needed(q)} are needed")
        return Estimate(getattr(point.gaps, f"p{100 * q:g}_s"), point.gaps.count)

    return compute


def gap_mean(point: PointRecord, _: RequestProfile) -> Estimate:
    """Take the mean over the gaps between chunks."""
    if point.gaps is None:
        raise NotMeasuredError("there is no gap between chunks")
    return Estimate(point.gaps.sum_s / point.gaps.count, point.gaps.count)


def stored(name: str) -> Estimator:
    """Take the value that was computed when the point was measured, by a function that nobody may have now."""

    def compute(point: PointRecord, _: RequestProfile) -> Estimate:
        found = point.added.get(name)
        if found is None:
            raise NotMeasuredError("it was not computed when this was measured")
        if found.value is None:
            raise NotMeasuredError(found.missing or "nothing tells why")
        return Estimate(found.value, found.n)

    return compute


def of_counters(reading: Reading) -> Estimator:
    """Read a server's counters; what they cannot say is not measured."""

    def compute(point: PointRecord, _: RequestProfile) -> Estimate:
        try:
            value, n = reading(point)
        except ScrapeError as error:
            raise NotMeasuredError(str(error)) from error
        if value is None:
            raise NotMeasuredError("nothing was drafted or decoded between the two scrapes")
        return Estimate(value, n)

    return compute


def of_drafts(reading: Reading) -> Estimator:
    """Read what a server counts of its drafts; of too few of them there is no acceptance."""

    def compute(point: PointRecord, profile: RequestProfile) -> Estimate:
        found = of_counters(reading)(point, profile)
        if missing := too_few_drafts(found.n):
            raise NotMeasuredError(f"{missing}: send more requests, or ask for more output tokens")
        return found

    return compute


def acceptance_rate(point: PointRecord) -> tuple[float | None, int]:
    """Accepted / draft tokens, of so many drafts."""
    speculation = point.counters.speculation()
    return (speculation.acceptance_rate, speculation.drafts) if speculation else (None, 0)


def acceptance_length(point: PointRecord) -> tuple[float | None, int]:
    """Tokens of a step that drafted, of so many drafts."""
    speculation = point.counters.speculation()
    return (speculation.acceptance_length, speculation.drafts) if speculation else (None, 0)


def accepted_at(position: int) -> Estimator:
    """Take the share of drafts that were accepted at a draft position, from 1: of so many drafts."""

    def reading(point: PointRecord) -> tuple[float | None, int]:
        speculation = point.counters.speculation()
        if speculation is None or not speculation.drafts:
            return None, 0
        rates = speculation.per_position_rates
        if position > len(rates):
            raise NotMeasuredError(f"the server counts {len(rates)} draft positions, and this is number {position}")
        return rates[position - 1], speculation.drafts

    return of_drafts(reading)


def tokens_per_step(point: PointRecord) -> tuple[float | None, int]:
    """Tokens of a decode step, drafted or not, of so many steps."""
    return point.counters.tokens_per_step(), point.counters.decode_steps()


def step_time(point: PointRecord) -> tuple[float | None, int]:
    """Seconds of a decode step of a sequence, of so many steps."""
    return point.counters.step_time_s(), point.counters.decode_steps()


def preemptions(point: PointRecord) -> tuple[float | None, int]:
    """Times that the scheduler took a running request back, among so many requests."""
    done = len(point.completed)
    return float(point.counters.count(counters.PREEMPTIONS)) if done else None, done
