"""Metrics that a project adds to the table: declared in its conftest.py, computed at each point when it is measured."""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, field_validator

from pytest_specgate.core.declared import declaration
from pytest_specgate.core.errors import SpecgateError, UsageError
from pytest_specgate.core.metric_definitions import NAME, SERIES, AddedValue, Better, MetricDefinition, Unit, Words
from pytest_specgate.core.metrics import METRICS, added_row, is_of_position
from pytest_specgate.core.quantities import NotMeasuredError
from pytest_specgate.core.records import PointRecord
from pytest_specgate.core.redaction import redacted_text
from pytest_specgate.core.thresholds import OUTPUTS_AGREE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LONGEST_REASON: Final = 300
_LARGEST: Final = 1e15
"""Nothing in a window comes to more: larger values are mistakes, and whatever shows them suffers."""

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that steer a terminal or turn text round, and are not seen themselves."""


@declaration
class AddedMetric:
    """A metric that a project adds to the table, for its gates to name like any other.

    Its value is computed once, when a point was measured, and is stored with its definition: the record is judged
    later, and elsewhere, without this function.

    Attributes:
        name: key in gate files, without unit: small letters, digits and ``_``.
        unit: of its values, as other metrics have it: ``"s"``, ``"tokens/s"``, ``"share"``, ...
        better: ``"higher"`` or ``"lower"``.
        formula: what it is, in words. Values of two formulas are never compared: change it with the function.
        compute: returns its value at a point, from all that was measured there; `None`, or whatever it raises, leaves
            it without a value at this point.
        label: in tables; empty for the name with spaces.
        series: names of the series of ``/metrics`` that it reads, as ``vllm:request_queue_time_seconds_sum``: they are
            kept in the counters before and after each point.
        minimum_requests: of a point, below which it has no value: a gate on fewer is refused when it is collected.

    Raises:
        UsageError: the name is taken or no name, the unit is unknown, a direction is missing, a series is no name.
    """

    name: str
    unit: Unit
    better: Better
    formula: Annotated[Words, Field(min_length=1)]
    compute: Callable[[PointRecord], float | None]
    label: Words = ""
    series: tuple[str, ...] = ()
    minimum_requests: Annotated[int, Field(ge=1)] = 1

    @field_validator("name")
    @classmethod
    def _free(cls, name: str) -> str:
        if not re.fullmatch(NAME, name):
            raise ValueError(f"{name!r} is no name of a metric: use small letters, digits and _, as 'queue_time_mean'")
        if name in METRICS or is_of_position(name) or name == OUTPUTS_AGREE:
            raise ValueError(f"there is a metric {name!r} already: choose another name")
        return name

    @field_validator("label", "formula")
    @classmethod
    def _seen(cls, text: str) -> str:
        unseen = sorted({f"U+{ord(one):04X}" for one in text if unicodedata.category(one) in _UNSEEN})
        if unseen:
            raise ValueError(f"{unseen[0]} is a character that nobody sees: leave it out")
        return text

    @field_validator("series")
    @classmethod
    def _named(cls, series: tuple[str, ...]) -> tuple[str, ...]:
        for name in series:
            if not re.fullmatch(SERIES, name):
                raise ValueError(
                    f"{name!r} is no name of a series: write it as /metrics has it, without labels, as "
                    f"'vllm:request_queue_time_seconds_sum'"
                )
        return series

    @property
    def definition(self) -> MetricDefinition:
        """What is stored of it."""
        return MetricDefinition(
            name=self.name,
            label=self.label,
            unit=self.unit,
            better=self.better,
            formula=self.formula,
            series=self.series,
            minimum_requests=self.minimum_requests,
        )


def together(known: Mapping[str, AddedMetric], further: Iterable[object]) -> dict[str, AddedMetric]:
    """Return added metrics with some more, by name.

    Raises:
        UsageError: one of them is none, or has the name of another one, its key in stored files, or its label.
    """
    found = dict(known)
    keys = {row.stored_key: name for name, row in METRICS.items()}
    for one in further:
        if not isinstance(one, AddedMetric):
            raise UsageError(f"a metric is added as AddedMetric(...), got {type(one).__name__}")
        if one.name in found:
            raise UsageError(f"metric {one.name} is added twice: one name, one metric")
        found[one.name] = one
    for name, one in found.items():
        key = added_row(one.definition).stored_key
        if (taken := keys.setdefault(key, name)) != name:
            raise UsageError(f"metric {name} would be stored as {key}, as {taken} is: rename it")
    _refuse_taken_labels(found)
    return found


def _refuse_taken_labels(added: Mapping[str, AddedMetric]) -> None:
    """Refuse a metric that tables would show as another one.

    Raises:
        UsageError: two have one label.
    """
    taken = {_plain(row.label): name for name, row in METRICS.items()}
    for name, one in added.items():
        label = added_row(one.definition).label
        if (other := taken.setdefault(_plain(label), name)) != name:
            raise UsageError(f"metric {name} would be shown as {label!r}, as {other} is: give it another label")


def _plain(label: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", label).casefold().split())


@dataclasses.dataclass(frozen=True, slots=True)
class MetricFunctions:
    """Port `AddedMetrics`: the functions that a project has given.

    Attributes:
        added: the metrics.
    """

    added: tuple[AddedMetric, ...] = ()

    @property
    def series(self) -> frozenset[str]:
        """Names of all series that they read."""
        return frozenset(name for one in self.added for name in one.series)

    def definitions(self) -> tuple[MetricDefinition, ...]:
        """Return what is stored of them once."""
        return tuple(one.definition for one in self.added)

    def values(self, point: PointRecord) -> dict[str, AddedValue]:
        """Compute them at a point; what a function does wrong is why its metric has no value there."""
        return {one.name: _value(one, point) for one in self.added}


def _value(one: AddedMetric, point: PointRecord) -> AddedValue:
    count = len(point.completed)
    if count < one.minimum_requests:
        return AddedValue(value=None, missing=f"{count} requests completed, and {one.minimum_requests} are needed")
    try:
        return AddedValue(value=_number(one.compute(point)), n=count)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except (NotMeasuredError, SpecgateError) as error:
        return AddedValue(value=None, missing=_reason(str(error)))
    except BaseException as error:  # noqa: BLE001  - pytest.skip() in there must not skip a gate
        return AddedValue(value=None, missing=_reason(f"its function failed: {type(error).__name__}: {error}"))


def _number(found: object) -> float:
    """Return what a function returned as a number.

    Raises:
        NotMeasuredError: it is none that a metric can have.
    """
    if found is None:
        raise NotMeasuredError("its function returned None")
    if isinstance(found, bool) or not isinstance(found, numbers.Real):
        raise NotMeasuredError(f"its function returned a {type(found).__name__}, and a number is wanted")
    value = float(found)
    if not math.isfinite(value) or value < 0:
        raise NotMeasuredError(f"its function returned {value:g}, which no metric can be")
    if value > _LARGEST:
        raise NotMeasuredError(f"its function returned {value:g}, and more than {_LARGEST:g} is no measurement")
    return value


def _reason(text: str) -> str:
    """Return what was said as one line without secrets, and without halves of characters, which no file can hold."""
    whole = text.encode("utf-8", "backslashreplace").decode()
    return redacted_text(" ".join(whole.split()))[:_LONGEST_REASON]
