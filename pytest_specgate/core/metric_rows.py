"""The rows of the metric table: what a metric is, and how each of those that come with the package is declared."""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core import estimators
from pytest_specgate.core.estimators import needed
from pytest_specgate.core.quantities import decode_rate, e2e, first_text, tpot, ttft
from pytest_specgate.core.speculation import LEAST_DRAFTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.metric_definitions import MetricDefinition, Unit

Direction: TypeAlias = Literal["higher", "lower", "neither"]
Counted: TypeAlias = Literal["requests", "gaps", "decode steps", "drafts"]

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

_AT_POSITION: Final = "acceptance_rate_position_"
_NO_POSITION: Final = re.compile(r"acceptance_(?:rate_)?(?:at_)?pos[a-z]*_?0*")
_MISSPELT: Final = re.compile(r".*pos[a-z]*_?(?P<number>[1-9][0-9]{0,3})")
_POSITION: Final = re.compile(rf"{_AT_POSITION}(?P<number>[1-9][0-9]{{0,3}})")


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
        minimum_n: least number of these for a value: N * min(q, 1 - q) >= 5 for a percentile, 20 drafts for acceptance,
            else 1.
        compute: the value at a point, and its n.
        needs_speculation: whether it exists in speculative arms only.
        per_chunk: whether it is of chunks, which hold several tokens under speculation: never gated across arms whose
            tokens per chunk differ.
        definition: of a metric that a project has added; `None` for a row of the table.
        position: draft position that it is about, from 1; `None` for a metric of no position.
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
    position: int | None = None

    @property
    def higher_is_better(self) -> bool:
        """Whether more of it is better."""
        return self.better == "higher"

    @property
    def gated(self) -> bool:
        """Whether a threshold may name it."""
        return self.better != "neither"

    def ends(self, k: int | None) -> tuple[float, float] | None:
        """Return between which values it always lies, of an arm that drafts k tokens; `None` where nothing tells.

        Args:
            k: draft horizon; 0 without speculation; `None` where the arm does not declare it.
        """
        if self.source != "server counters" or self.unit not in {"share", "tokens"}:
            return None
        if self.unit == "share":
            return 0.0, 1.0
        return None if k is None else (1.0, k + 1.0)

    @property
    def minimum_requests(self) -> int:
        """Requests of a point below which the metric is never supported."""
        return self.minimum_n if self.counted == "requests" else 1

    @property
    def stored_key(self) -> str:
        """Key in stored files: the name with its unit."""
        return self.name + _SUFFIX[self.unit]


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
            "acceptance_rate", "share", "higher", "drafts",
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
        of_drafts = counted == "drafts"
        yield _ratio(
            name=name,
            label=name.replace("_", " "),
            unit=unit,
            better=better,
            formula=formula,
            weighting=f"each {'draft token' if name == 'acceptance_rate' else counted.removesuffix('s')} once",
            source="server counters",
            compute=(estimators.of_drafts if of_drafts else estimators.of_counters)(reading),
            counted=counted,
            minimum_n=LEAST_DRAFTS if of_drafts else 1,
            needs_speculation=of_drafts,
        )


def declared_rows() -> Iterator[Metric]:
    """Yield every row of the table, in its order."""
    for rows in (_throughputs, _over_requests, _of_points, _of_chunks, _of_counters):
        yield from rows()


def _of_position(number: str, *, compute: estimators.Estimator, position: int | None = None) -> Metric:
    """Return the row of one draft position; of number N the one that stands for all of them."""
    return _ratio(
        name=f"{_AT_POSITION}{number}",
        label=f"acceptance at position {number}",
        unit="share",
        better="higher",
        formula=f"draft tokens accepted at draft position {number}, from 1 / drafts",
        weighting="each draft once",
        source="server counters",
        compute=compute,
        counted="drafts",
        minimum_n=LEAST_DRAFTS,
        needs_speculation=True,
        position=position,
    )


EVERY_POSITION: Final = _of_position("N", compute=estimators.stored(f"{_AT_POSITION}N"))
"""What the metrics of draft positions have in common: there is one for every position, and none of this name."""


@functools.cache
def _row_of_position(position: int) -> Metric:
    return _of_position(f"{position}", compute=estimators.accepted_at(position), position=position)


def position_metrics(k: int | None) -> tuple[str, ...]:
    """Return the names of the metrics of the draft positions of a horizon; none where speculation is off."""
    return tuple(f"{_AT_POSITION}{position}" for position in range(1, (k or 0) + 1))


def is_of_position(name: str) -> bool:
    """Whether a name is that of a metric of a draft position, or stands for all of them."""
    return name == EVERY_POSITION.name or _POSITION.fullmatch(name) is not None


def of_position(name: str) -> Metric | None:
    """Return the row of a metric of a draft position; `None` for any other name."""
    found = _POSITION.fullmatch(name)
    return None if found is None else _row_of_position(int(found["number"]))


def looks_like_position(name: str) -> bool:
    """Whether a name is that of no draft position, and was to be one: position 0, or without a number."""
    return name == EVERY_POSITION.name or _NO_POSITION.fullmatch(name) is not None


def misspelt_position(name: str) -> str | None:
    """Return the metric of the draft position whose number a misspelt name ends with; `None` where there is none."""
    found = _MISSPELT.fullmatch(name)
    return None if found is None else f"{_AT_POSITION}{found['number']}"
