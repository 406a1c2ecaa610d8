"""The metric table: every figure that can be shown or gated, declared once.

A value that could not be measured is `None` with a reason, never 0. Everything that names, checks, shows or stores
metrics asks `metric` for one and `rows` for all: a project may have added some of its own, which are known while a
block of `with_added` lasts. Their values were computed when they were measured, and are read from the points.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core import estimators
from pytest_specgate.core.errors import RecordError, UsageError, nearest
from pytest_specgate.core.estimators import needed
from pytest_specgate.core.quantities import NotMeasuredError, decode_rate, e2e, first_text, tpot, ttft

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_specgate.core.metric_definitions import MetricDefinition, Unit
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PointRecord

DEFINITION_VERSION: Final = 2
"""Raised when a formula changes: figures of different definitions are never compared."""

Direction: TypeAlias = Literal["higher", "lower", "neither"]
Counted: TypeAlias = Literal["requests", "gaps", "decode steps", "drafts", "draft tokens"]

_SUFFIX: Final[dict[Unit, str]] = {
    "s": "_s",
    "tokens/s": "_tokens_per_s",
    "tokens/s/GPU": "_tokens_per_s",
    "requests/s": "_per_s",
    "tokens": "_tokens",
    "requests": "_requests",
    "share": "",
    "events": "",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table.

    Attributes:
        name: key in gate files, without unit.
        label: in tables.
        unit: of the value.
        better: which direction is better; a metric without one is shown, and never gated.
        estimator: the statistic: a percentile (numpy-linear), a mean, or a ratio of sums.
        formula: in words.
        weighting: what counts once.
        source: who measured it.
        counted: what the value is taken of, and `minimum_n` counts.
        minimum_n: least number of these for a value: N * min(q, 1 - q) >= 5 for a percentile, else 1.
        compute: the value at a point, and its n.
        needs_speculation: whether it exists in speculative arms only.
        per_chunk: whether it is of chunks, which hold several tokens under speculation: never gated across arms whose
            tokens per chunk differ.
        definition: of a metric that a project has added; `None` for a row of the table.
    """

    name: str
    label: str
    unit: Unit
    better: Direction
    estimator: str
    formula: str
    weighting: str
    source: Literal["client", "server counters", "added"]
    compute: estimators.Estimator
    counted: Counted = "requests"
    minimum_n: int = 1
    needs_speculation: bool = False
    per_chunk: bool = False
    definition: MetricDefinition | None = None

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self.better == "higher"

    @property
    def gated(self) -> bool:
        """Whether a threshold may name it."""
        return self.better != "neither"

    @property
    def minimum_requests(self) -> int:
        """Requests of a point below which the metric is never supported."""
        return self.minimum_n if self.counted == "requests" else 1

    @property
    def stored_key(self) -> str:
        """Key in stored files: the name with its unit."""
        return self.name + _SUFFIX[self.unit]


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A metric's value at one point of one boot, or why there is none.

    Attributes:
        value: in the metric's unit; `None` when it was not measured.
        missing: why it was not.
        n: of how many requests (gaps, steps, drafts) it was taken.
    """

    value: float | None
    missing: str | None = None
    n: int = 0


_OVER_REQUESTS: Final[tuple[tuple[str, str, estimators.Quantity, Unit, Direction, str], ...]] = (
    ("ttft", "TTFT", ttft, "s", "lower", "request sent to first token event"),
    ("first_text", "first text", first_text, "s", "lower", "request sent to first visible text"),
    ("tpot", "TPOT", tpot, "s", "lower", "(last - first token event) / (output tokens - 1)"),
    ("e2e", "E2E latency", e2e, "s", "lower", "request sent to last token event"),
    ("decode_rate", "decode rate", decode_rate, "tokens/s", "higher", "1 / TPOT"),
)
_TAILS: Final[dict[Direction, tuple[float, ...]]] = {"lower": (0.5, 0.9, 0.95, 0.99), "higher": (0.5, 0.1, 0.05, 0.01)}
"""Percentiles look at the bad end: the upper one of a time, the lower one of a rate."""

_of_client = functools.partial(Metric, source="client")
_ratio = functools.partial(Metric, estimator="ratio of sums")


def _over_requests() -> Iterator[Metric]:
    """Percentiles of every quantity of a request; means of times, but not of rates, which a mean would flatter."""
    for name, label, quantity, unit, better, formula in _OVER_REQUESTS:
        rows = {_percentile_name(q): (estimators.percentile(quantity, q), needed(q)) for q in _TAILS[better]}
        if better == "lower":
            rows["mean"] = (estimators.mean(quantity), 1)
        for estimator, (compute, minimum) in rows.items():
            yield _of_client(
                name=f"{name}_{estimator}",
                label=f"{label} {estimator}",
                unit=unit,
                better=better,
                estimator=estimator,
                formula=formula,
                weighting="each request once",
                compute=compute,
                minimum_n=minimum,
            )


def _percentile_name(q: float) -> str:
    return f"p{100 * q:g}"


def _throughputs() -> Iterator[Metric]:
    rows: tuple[tuple[str, str, Unit, str, estimators.Estimator], ...] = (
        ("output_throughput", "output throughput", "tokens/s", "output tokens", estimators.output_throughput),
        (
            "output_throughput_per_gpu", "output throughput per GPU", "tokens/s/GPU", "output tokens / GPUs",
            estimators.throughput_per_gpu,
        ),
        ("request_throughput", "request throughput", "requests/s", "requests", estimators.request_throughput),
        ("goodput", "goodput", "requests/s", "requests within every limit of the profile", estimators.goodput),
    )  # fmt: skip
    for name, label, unit, what, compute in rows:
        yield _ratio(
            name=name,
            label=label,
            unit=unit,
            better="higher",
            formula=f"{what} / (first send to last token event of the point)",
            weighting="each output token once" if unit.startswith("tokens") else "each request once",
            source="client",
            compute=compute,
        )


def _of_chunks() -> Iterator[Metric]:
    rows = {_percentile_name(q): (estimators.gap_percentile(q), needed(q)) for q in _TAILS["lower"]}
    for estimator, (compute, minimum) in {**rows, "mean": (estimators.gap_mean, 1)}.items():
        yield _of_client(
            name=f"inter_chunk_{estimator}",
            label=f"inter-chunk latency {estimator}",
            unit="s",
            better="lower",
            estimator=estimator,
            formula="gap between successive token events of an answer",
            weighting="each gap once, over all answers",
            compute=compute,
            counted="gaps",
            minimum_n=minimum,
            per_chunk=True,
        )


def _of_points() -> Iterator[Metric]:
    rows: tuple[tuple[str, str, Unit, Direction, str, str, estimators.Estimator], ...] = (
        (
            "tpot_pooled", "TPOT pooled", "s", "lower",
            "sum of (last - first token event) / sum of (output tokens - 1)",
            "each output token once", estimators.tpot_pooled,
        ),
        (
            "achieved_concurrency", "achieved concurrency", "requests", "neither",
            "sum of E2E latencies / (first send to last token event of the point): requests in flight on average",
            "each second once", estimators.achieved_concurrency,
        ),
        (
            "tokens_per_chunk", "tokens per chunk", "tokens", "neither", "output tokens / token events",
            "each token event once", estimators.tokens_per_chunk,
        ),
    )  # fmt: skip
    for name, label, unit, better, formula, weighting, compute in rows:
        yield _ratio(
            name=name,
            label=label,
            unit=unit,
            better=better,
            formula=formula,
            weighting=weighting,
            source="client",
            compute=compute,
        )


def _of_counters() -> Iterator[Metric]:
    rows: tuple[tuple[str, Unit, Direction, Counted, str, estimators.Reading], ...] = (
        (
            "acceptance_rate", "share", "higher", "draft tokens",
            "accepted draft tokens / draft tokens", estimators.acceptance_rate,
        ),
        (
            "acceptance_length", "tokens", "higher", "drafts",
            "1 + accepted draft tokens / drafts", estimators.acceptance_length,
        ),
        (
            "tokens_per_step", "tokens", "higher", "decode steps",
            "(generation tokens - first tokens) / decode steps of sequences, drafted or not",
            estimators.tokens_per_step,
        ),
        (
            "step_time", "s", "lower", "decode steps",
            "sum of inter-token latencies / their number, as the server counts them", estimators.step_time,
        ),
        (
            "preemptions", "events", "lower", "requests",
            "requests that the scheduler took back from running, for want of KV-cache blocks", estimators.preemptions,
        ),
    )  # fmt: skip
    for name, unit, better, counted, formula, reading in rows:
        yield _ratio(
            name=name,
            label=name.replace("_", " "),
            unit=unit,
            better=better,
            formula=formula,
            weighting=f"each {counted.removesuffix('s')} once",
            source="server counters",
            compute=estimators.of_counters(reading),
            counted=counted,
            needs_speculation=name.startswith("acceptance"),
        )


METRICS: Final = {
    row.name: row for rows in (_throughputs, _over_requests, _of_points, _of_chunks, _of_counters) for row in rows()
}
HEADLINE: Final = ("output_throughput", "ttft_p50", "tpot_p50", "decode_rate_p50", "e2e_p50")
"""The rows every table shows, gated or not."""


_NOTHING: Final[Mapping[str, Metric]] = MappingProxyType({})
_ADDED: Final[ContextVar[Mapping[str, Metric]]] = ContextVar("added metrics", default=_NOTHING)


@contextlib.contextmanager
def with_added(definitions: Iterable[MetricDefinition]) -> Iterator[None]:
    """Know some added metrics, and no others, while a block lasts: in this thread, and not for whoever else runs.

    Raises:
        RecordError: one has the name of a row of the table, or of another one.
    """
    added: dict[str, Metric] = {}
    for one in definitions:
        if one.name in METRICS:
            raise RecordError(
                f"{one.name} was added to the table by the project that measured it, and is a row of it in this "
                f"pytest-specgate: use the version that measured it"
            )
        if one.name in added:
            raise RecordError(f"metric {one.name} is defined twice, and nobody knows which of the two is meant")
        added[one.name] = added_row(one)
    token = _ADDED.set(MappingProxyType(added))
    try:
        yield
    finally:
        _ADDED.reset(token)


def rows() -> Mapping[str, Metric]:
    """Return all metrics that are known here: those of the table, then those that were added."""
    return {**METRICS, **_ADDED.get()}


def added_definitions() -> tuple[MetricDefinition, ...]:
    """Return the definitions of the metrics that were added."""
    return tuple(row.definition for row in _ADDED.get().values() if row.definition is not None)


def added_row(definition: MetricDefinition) -> Metric:
    """Return an added metric as a row beside those of the table."""
    return Metric(
        name=definition.name,
        label=definition.label or definition.name.replace("_", " "),
        unit=definition.unit,
        better=definition.better,
        estimator="added",
        formula=definition.formula,
        weighting="as its function has it",
        source="added",
        compute=estimators.stored(definition.name),
        minimum_n=definition.minimum_requests,
        definition=definition,
    )


def compared(name: str) -> str:
    """Return the name of a metric whose change can be judged.

    Raises:
        UsageError: there is no such metric.
        ValueError: it has no better direction, or is a count, which has no ratio.
    """
    row = metric(name)
    if not row.gated:
        raise ValueError(f"{name} has no better direction: it is shown, and cannot be gated")
    if row.unit == "events":
        raise ValueError(f"{name} is a count, which has no ratio: use at_most({name!r}, limit='0')")
    return row.name


def metric(name: str) -> Metric:
    """Return the row of the table with this name.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    row = METRICS.get(name) or _ADDED.get().get(name)
    if row is None:
        raise UsageError(f"there is no metric {name!r}{nearest(name, rows())}")
    return row


def measure(name: str, point: PointRecord, profile: RequestProfile) -> Measured:
    """Compute a metric at a point; a value that cannot be had comes back as a reason."""
    try:
        found = metric(name).compute(point, profile)
    except NotMeasuredError as error:
        return Measured(None, str(error))
    if not math.isfinite(found.value):
        return Measured(None, f"{name} is {found.value}")
    return Measured(found.value, n=found.n)
