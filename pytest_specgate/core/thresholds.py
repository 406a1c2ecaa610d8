"""Thresholds: the claims of a gate, each about one metric and one load level, or about a pair as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from pytest_specgate.core import statistics
from pytest_specgate.core.baseline_threshold import BaselineThreshold
from pytest_specgate.core.declared import declaration
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.floors import CALIBRATED, NoiseFloor, floor_is_calibrated
from pytest_specgate.core.levels import Level, level_id, level_label
from pytest_specgate.core.metrics import compared, metric
from pytest_specgate.core.noise import (
    LOG,
    NORMAL_975,
    UNKNOWN_NOISE,
    Noise,
    Scale,
    floor_of,
    linear_scale,
)
from pytest_specgate.core.plan import Claim
from pytest_specgate.core.units import amount_text, rounded_down

if TYPE_CHECKING:
    from typing import Self

    from pytest_specgate.core.metrics import Metric

__all__ = ["CALIBRATED", "BaselineThreshold", "NoiseFloor"]

OUTPUTS_AGREE: Final = "outputs_agree"
"""Kind, and metric, of the claim that two arms give the same answers."""

FASTER_ONLY_UP_TO: Final = "faster_only_up_to"
"""Kind of the claim about the curve over all load levels."""

LIMITS: Final = ("at_least", "at_most")
"""Kinds of claims about a value of the candidate alone."""

CURVE_METRIC: Final = "output_throughput"
"""Metric of a curve where none is named."""

CALIBRATED_MARGIN_DF: Final = 5.0
"""Degrees of freedom below which a calibrated floor is no margin: it would be chance itself."""

_WORDS: Final = {
    "not_worse": "not worse by more than",
    "better": "better by at least",
    "equivalent": "within",
    "at_least": "at least",
    "at_most": "at most",
}


@declaration
class Threshold:
    """A claim about the change of one metric at one point, judged by an interval.

    Attributes:
        metric: key in the metric table.
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``, either with a temperature as ``"8 T=0.8"``.
        kind: ``not_worse``, ``better`` or ``equivalent``.
        fraction: largest loss still called "not worse", smallest gain called "better", or half-width of what is called
            "equivalent"; `None` for the calibrated floor.
        floor: noise floor; `None` when none was named: then a calibration is used where there is one.
        allowance: loss in the metric's unit that is tolerated in any case; 0.0 for none.
        points: whether `fraction` is in points of a share instead of relative to it.
    """

    metric: str
    at: Level
    kind: Literal["not_worse", "better", "equivalent"]
    fraction: Annotated[float, Field(ge=0)] | None
    floor: NoiseFloor | None = None
    allowance: Annotated[float, Field(ge=0)] = 0.0
    points: bool = False

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str) -> str:
        return compared(name)

    @model_validator(mode="after")
    def _one_scale(self) -> Self:
        if self.points and metric(self.metric).unit != "share":
            raise ValueError(f"points belong to shares, and {self.metric} is none: write its margin in percent")
        if self.points and self.fraction == 0 and self.kind != "better":
            raise ValueError(f"a margin of 0 points on {self.metric} is finer than any share: write more than 0")
        if not self.points and metric(self.metric).unit == "share" and floor_is_calibrated(self.floor):
            raise ValueError(f"calibrations of {self.metric} are in points: write its margin in points, as '2pp'")
        if self.points and self.allowance:
            raise ValueError(f"the margin of {self.metric} in points is absolute itself: leave the allowance out")
        floor = self.floor
        if floor is not None and floor.fraction is not None and floor.points != self.points:
            raise ValueError(f"the margin and the noise floor of {self.metric} have two units: write both in one")
        if self.fraction is None and floor is None:
            raise ValueError("a margin that is a calibrated floor needs that floor as noise")
        return self

    @property
    def id(self) -> str:
        """Name within the gate: ``c32-output_throughput-not_worse``."""
        return f"{level_id(self.at)}-{self.metric}-{self.kind}"

    @property
    def row(self) -> Metric:
        """The metric's row in the table."""
        return metric(self.metric)

    def scale(self, *, samples: int = 1) -> Scale:
        """Return the scale of differences; that of a share knows no finer step than one of its samples."""
        return linear_scale(1 / max(1, samples)) if self.points else LOG

    def margin_on(self, noise: Noise) -> float:
        """Return the margin as a fraction; the calibrated floor where it is that.

        Raises:
            UsageError: the margin is the calibrated floor, and there is no calibration good enough for it.
        """
        if self.fraction is not None:
            return self.fraction
        if noise.df < CALIBRATED_MARGIN_DF:
            there = f"the calibration has {rounded_down(noise.df)}" if noise.df else "there is no calibration"
            raise UsageError(
                f"the margin of {self.id} is the calibrated floor, which needs {CALIBRATED_MARGIN_DF:g} degrees of "
                f"freedom, and {there}: run pytest --specgate-calibrate (again: boots add up)"
            )
        return noise.sigma * NORMAL_975 if self.points else floor_of(noise.sigma)

    def claim_on(self, noise: Noise, *, reference: float | None = None) -> Claim:
        """Return the claim in the units of differences.

        Args:
            noise: known beforehand, for a margin that is the calibrated floor.
            reference: geometric mean of the reference so far, for an allowance; `None` leaves it out.
        """
        margin, higher = self.margin_on(noise), self.row.higher_is_better
        if self.kind == "better":
            return Claim(-margin if self.points else statistics.log_gain(margin, higher_is_better=higher))
        delta = margin if self.points else statistics.log_margin(margin, higher_is_better=higher)
        if self.allowance and reference is not None:
            allowed = min(self.allowance / reference, 1 - 1e-9) if higher else self.allowance / reference
            delta = max(delta, statistics.log_margin(allowed, higher_is_better=higher))
        if self.kind == "not_worse":
            return Claim(delta)
        # What is gained and what is lost are the same change of the metric, and not the same step of its logarithm.
        gain = margin if self.points else -statistics.log_gain(margin, higher_is_better=higher)
        return Claim(delta, abs(gain))

    def raw_of(self, delta: float) -> float:
        """Return a margin in the units of differences as a fraction of the metric, or of a share."""
        return delta if self.points else abs(statistics.raw_change(-delta, higher_is_better=self.row.higher_is_better))

    def limit_on(self, noise: Noise) -> float:
        """Return the raw change at the margin, a fraction: -0.15 for a throughput that may fall by 15 %."""
        sign = 1 if self.row.higher_is_better == (self.kind == "better") else -1
        return sign * self.margin_on(noise)

    @property
    def declared_limit(self) -> float | None:
        """The raw change at the margin; `None` where only a calibration tells it."""
        return None if self.fraction is None else self.limit_on(UNKNOWN_NOISE)

    @property
    def claim(self) -> str:
        """What is to be shown, in words."""
        return f"{self.row.label} at {level_label(self.at)} {_WORDS[self.kind]} {self.margin_words}"

    @property
    def margin_words(self) -> str:
        """The margin with its unit: ``5 %``, ``5 % or 1 ms``, ``2 points``."""
        unit = "points" if self.points else "%"
        margin = "its calibrated floor" if self.fraction is None else f"{100 * self.fraction:g} {unit}"
        return f"{margin} or {amount_text(self.row.unit, self.allowance)}" if self.allowance else margin


@declaration
class LimitThreshold:
    """A claim about the value of a metric of the candidate, in every boot: compared as a number, without an interval.

    Attributes:
        metric: key in the metric table.
        at: load level.
        kind: ``at_least`` or ``at_most``.
        value: the limit, in the metric's unit; a value equal to it keeps it.
    """

    metric: str
    at: Level
    kind: Literal["at_least", "at_most"]
    value: Annotated[float, Field(ge=0)]

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str) -> str:
        return metric(name).name

    @model_validator(mode="after")
    def _directed(self) -> Self:
        row = metric(self.metric)
        if row.gated and row.higher_is_better != (self.kind == "at_least"):
            good, other = ("higher", "at_least") if row.higher_is_better else ("lower", "at_most")
            raise ValueError(f"{self.kind} bounds {self.metric} on its good side, since {good} is better: use {other}")
        return self

    @property
    def id(self) -> str:
        """Name within the gate: ``c8-ttft_p50-at_most``."""
        return f"{level_id(self.at)}-{self.metric}-{self.kind}"

    @property
    def row(self) -> Metric:
        """The metric's row in the table."""
        return metric(self.metric)

    @property
    def declared_limit(self) -> float:
        """The limit, in the metric's unit."""
        return self.value

    def keeps(self, value: float) -> bool:
        """Whether a value is within the limit, equality included."""
        slack = 1e-9 * max(abs(value), abs(self.value))
        return value >= self.value - slack if self.kind == "at_least" else value <= self.value + slack

    @property
    def claim(self) -> str:
        """What is to be shown, in words."""
        words = f"{_WORDS[self.kind]} {amount_text(self.row.unit, self.value)}"
        return f"{self.row.label} at {level_label(self.at)} {words} in every boot of the candidate"


@declaration
class CurveThreshold:
    """The claim that the candidate is better up to a load level, and worse at every level beyond it.

    Attributes:
        at: the last level at which it is faster.
        metric: what "faster" is measured by.
        floor: noise floor, as of `Threshold`.
    """

    at: Level
    metric: str = CURVE_METRIC
    floor: NoiseFloor | None = None

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str) -> str:
        row = metric(name)
        if not row.gated or row.unit == "events":
            raise ValueError(f"{name} has no better direction, or no ratio: a curve cannot be drawn of it")
        return row.name

    @field_validator("floor")
    @classmethod
    def _relative(cls, floor: NoiseFloor | None) -> NoiseFloor | None:
        if floor is not None and floor.points:
            raise ValueError("a curve is judged by ratios: write its noise floor in percent")
        return floor

    @property
    def kind(self) -> str:
        """``faster_only_up_to``."""
        return FASTER_ONLY_UP_TO

    @property
    def id(self) -> str:
        """Name within the gate: ``c8-output_throughput-faster_only_up_to``."""
        return f"{level_id(self.at)}-{self.metric}-{self.kind}"

    @property
    def row(self) -> Metric:
        """The metric's row in the table."""
        return metric(self.metric)

    @property
    def declared_limit(self) -> None:
        """A curve has no limit: it tells better from worse."""
        return

    @property
    def claim(self) -> str:
        """What is to be shown, in words."""
        return f"{self.row.label} better up to {level_label(self.at)}, and worse at every level beyond"


@declaration
class OutputsThreshold:
    """The claim that both arms give the same answers at one point: a count, and no estimate with an interval.

    Attributes:
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``, either with a temperature as ``"8 T=0.8"``.
        share: of the answers of every round that must be equal; 0.99 is 99 %.
    """

    at: Level
    share: float

    @field_validator("share")
    @classmethod
    def _possible(cls, share: float) -> float:
        if not 0 < share <= 1:
            raise ValueError(f"at_least='{100 * share:g}%': a share of equal answers lies above 0 % and up to 100 %")
        return share

    @property
    def metric(self) -> str:
        """What it is about; no row of the metric table, since it is no figure of one arm."""
        return OUTPUTS_AGREE

    @property
    def kind(self) -> str:
        """``outputs_agree``."""
        return OUTPUTS_AGREE

    @property
    def id(self) -> str:
        """Name within the gate: ``c8-outputs_agree``."""
        return f"{level_id(self.at)}-{OUTPUTS_AGREE}"

    @property
    def declared_limit(self) -> float:
        """The least share, a fraction."""
        return self.share

    @property
    def claim(self) -> str:
        """What is to be shown, in words."""
        return f"answers at {level_label(self.at)} equal in at least {100 * self.share:g} % of each round"


IntervalThreshold: TypeAlias = Threshold | CurveThreshold
"""A claim that rests on intervals, and so shares the error rates of its gate."""

AnyThreshold: TypeAlias = Threshold | LimitThreshold | CurveThreshold | OutputsThreshold | BaselineThreshold
"""A claim of a gate."""
