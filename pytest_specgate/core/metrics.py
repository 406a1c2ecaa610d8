"""The metric table: every figure that can be shown or gated, declared once.

A value that could not be measured is `None` with a reason, never 0. Everything that names, checks, shows or stores
metrics asks `metric` for one and `rows` for all: a project may have added some of its own, which are known while a
block of `with_added` lasts. Their values were computed when they were measured, and are read from the points.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import estimators
from pytest_specgate.core.errors import RecordError, UsageError, nearest
from pytest_specgate.core.metric_rows import (
    EVERY_POSITION,
    Metric,
    declared_rows,
    is_of_position,
    looks_like_position,
    misspelt_position,
    of_position,
    position_metrics,
)
from pytest_specgate.core.quantities import NotMeasuredError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_specgate.core.metric_definitions import MetricDefinition
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PointRecord

__all__ = ["EVERY_POSITION", "METRICS", "Metric", "is_of_position", "measure", "metric", "position_metrics", "rows"]

DEFINITION_VERSION: Final = 2
"""Raised when a formula changes: figures of different definitions are never compared."""


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


METRICS: Final = {row.name: row for row in declared_rows()}
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
        if one.name in METRICS or is_of_position(one.name):
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

    Metrics of draft positions are no rows of the table, which has one for all of them: any position has one.

    Raises:
        UsageError: there is none; the message names the nearest.
    """
    row = METRICS.get(name) or _ADDED.get().get(name) or of_position(name)
    if row is None:
        raise UsageError(f"there is no metric {name!r}{_hint(name)}")
    return row


def is_metric(name: str) -> bool:
    """Whether there is a metric of this name."""
    return name in METRICS or name in _ADDED.get() or of_position(name) is not None


def _hint(name: str) -> str:
    if looks_like_position(name):
        first = position_metrics(1)[0]
        return f": draft positions are counted from 1, as k is, and each has its own, as {first}"
    if (meant := misspelt_position(name)) is not None:
        # The nearest of all names may be that of another position.
        return nearest(name, [meant])
    return nearest(name, rows())


def measure(name: str, point: PointRecord, profile: RequestProfile) -> Measured:
    """Compute a metric at a point; a value that cannot be had comes back as a reason."""
    try:
        found = metric(name).compute(point, profile)
    except NotMeasuredError as error:
        return Measured(None, str(error))
    if not math.isfinite(found.value):
        return Measured(None, f"{name} is {found.value}")
    return Measured(found.value, n=found.n)
