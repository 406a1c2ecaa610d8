"""What is stored of metrics that a project adds to the table: their definitions, and their values at each point.

A record, a baseline and a calibration stand for themselves: they are read where nobody has the functions that computed
these values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from pytest_specgate.core.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterable

Unit: TypeAlias = Literal["s", "tokens/s", "requests/s", "tokens/s/GPU", "tokens", "requests", "share", "events"]
Better: TypeAlias = Literal["higher", "lower"]

NAME: Final = r"[a-z][a-z0-9_]{0,59}"
"""Names of metrics: they stand in ids of tests, in keys of JSON and in names of files."""

SERIES: Final = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
"""Names of series of a metrics page."""

Words: TypeAlias = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=200)]
"""Text in one line that cannot steer a terminal: a record may come from anywhere."""


class MetricDefinition(Stored):
    """A metric that a project has added to the table, as it was defined when its values were computed.

    Attributes:
        name: key in gate files, without unit.
        label: in tables; empty for the name with spaces.
        unit: of its values.
        better: which direction is better.
        formula: what it is, in words: values of two formulas are never compared.
        series: names of the series of ``/metrics`` that it reads besides those that every record has.
        minimum_requests: of a point, below which it has no value.
    """

    name: Annotated[str, Field(pattern=f"^{NAME}$")]
    label: Words = ""
    unit: Unit
    better: Better
    formula: Annotated[Words, Field(min_length=1)]
    series: tuple[Annotated[str, Field(pattern=f"^{SERIES}$")], ...] = ()
    minimum_requests: Annotated[int, Field(ge=1)] = 1

    @property
    def compared(self) -> dict[str, JsonValue]:
        """What must be equal for two values to be of one metric: not how it is shown, or when it has no value."""
        return {
            "name": self.name,
            "unit": self.unit,
            "better": self.better,
            "formula": self.formula,
            "series": [*sorted(self.series)],
        }


class AddedValue(Stored):
    """The value of an added metric at one point of one boot, or why there is none.

    Attributes:
        value: in the metric's unit; `None` when it could not be computed.
        missing: why it could not; `None` when it could.
        n: of how many requests it was taken.
    """

    value: Annotated[float, Field(ge=0)] | None
    missing: str | None = None
    n: Annotated[int, Field(ge=0)] = 0


def redefined(some: Iterable[MetricDefinition], others: Iterable[MetricDefinition]) -> frozenset[str]:
    """Return the names of the metrics that are defined on both sides, and not alike."""
    known = {one.name: one.compared for one in some}
    return frozenset(one.name for one in others if known.get(one.name, one.compared) != one.compared)
