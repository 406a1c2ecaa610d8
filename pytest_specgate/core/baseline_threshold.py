"""The claim that today's window is not worse than those that were accepted before."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from pytest_specgate.core import statistics
from pytest_specgate.core.baselines import entry_id
from pytest_specgate.core.declared import declaration
from pytest_specgate.core.floors import NoiseFloor, floor_is_calibrated
from pytest_specgate.core.levels import Level, level_label
from pytest_specgate.core.metrics import compared, metric

if TYPE_CHECKING:
    from typing import Self

    from pytest_specgate.core.metrics import Metric

NOT_WORSE_THAN_BASELINE: Final = "not_worse_than_baseline"
"""Kind of the claim about windows that were accepted before."""


@declaration
class BaselineThreshold:
    """A claim about today's window and those that a baseline holds, judged once, at the end of the window.

    Attributes:
        metric: key in the metric table.
        at: load level.
        fraction: the largest loss that is still called "not worse".
        mode: ``relative`` compares the change between the arms of today with that of the baseline, so that the level of
            the machine cancels; ``absolute`` compares the level of the candidate.
        cross_window: declared floor across windows, for a baseline of fewer than three; `None` where none was named.
        points: whether `fraction` is in points of a share.
        engine: ``same`` if a baseline of another engine build says nothing; ``any`` compares across builds.
        mode_named: whether the mode is what its author wrote, and not what follows from where the claim stands; it is
            never stored, and two claims that differ in it are the same.
    """

    metric: str
    at: Level
    fraction: Annotated[float, Field(ge=0)]
    mode: Literal["relative", "absolute"] = "relative"
    cross_window: NoiseFloor | None = None
    points: bool = False
    engine: Literal["any", "same"] = "any"
    mode_named: Annotated[bool, Field(exclude=True)] = dataclasses.field(default=True, compare=False, repr=False)

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str) -> str:
        return compared(name)

    @model_validator(mode="after")
    def _one_scale(self) -> Self:
        if self.points and self.row.unit != "share":
            raise ValueError(f"points belong to shares, and {self.metric} is none: write its margin in percent")
        if self.points and not self.fraction:
            raise ValueError(f"a margin of 0 points on {self.metric} is finer than any share: write more than 0")
        floor = self.cross_window
        if floor_is_calibrated(floor):
            raise ValueError(
                "calibrations are of boots within one window and say nothing of two: declare the floor across windows, "
                "as noise_floor('3%', source='...')"
            )
        if floor is not None and floor.points != self.points:
            raise ValueError(f"the margin and the floor of {self.metric} have two units: write both in one")
        if self.fraction >= 1 and not self.points and self.row.higher_is_better:
            raise ValueError(f"margin of {100 * self.fraction:g} % on {self.metric} allows it to vanish")
        return self

    @property
    def kind(self) -> str:
        """``not_worse_than_baseline``."""
        return NOT_WORSE_THAN_BASELINE

    @property
    def id(self) -> str:
        """Name within the gate: ``c8-output_throughput-not_worse_than_baseline``, with its mode if it is absolute."""
        mode = "" if self.mode == "relative" else f"-{self.mode}"
        return f"{self.entry_id}-{self.kind}{mode}"

    @property
    def entry_id(self) -> str:
        """Name of its entry in the baseline file: ``c8-output_throughput``, the same for both modes."""
        return entry_id(self.metric, at=self.at)

    @property
    def row(self) -> Metric:
        """The metric's row in the table."""
        return metric(self.metric)

    @property
    def delta(self) -> float:
        """The margin in the units of differences: log units, or points of a share."""
        if self.points:
            return self.fraction
        return statistics.log_margin(self.fraction, higher_is_better=self.row.higher_is_better)

    def raw(self, difference: float) -> float:
        """Return a signed difference as a raw change of the metric, a fraction, or points of a share."""
        higher = self.row.higher_is_better
        if self.points:
            return difference if higher else -difference
        return statistics.raw_change(difference, higher_is_better=higher)

    @property
    def declared_limit(self) -> float:
        """The raw change at the margin, a fraction: -0.15 for a throughput that may fall by 15 %."""
        return self.raw(-self.delta)

    @property
    def claim(self) -> str:
        """What is to be shown, in words."""
        unit = "points" if self.points else "%"
        of = "the change between the arms" if self.mode == "relative" else "the candidate"
        margin = f"not worse than its baseline by more than {100 * self.fraction:g} {unit}"
        return f"{self.row.label} at {level_label(self.at)} {margin} ({self.mode}: {of})"
