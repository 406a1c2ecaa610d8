"""Gates: thresholds on one arm pair, checked when declared, judged from a window record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field, field_validator

from pytest_specgate.core import statistics
from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.declared import declaration
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.levels import Level, level_id, level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.profile import check_point

if TYPE_CHECKING:
    from pytest_specgate.core.statistics import Noise


OUTPUTS_AGREE: Final = "outputs_agree"
"""Kind, and metric, of the claim that two arms give the same answers."""


@declaration
class NoiseFloor:
    """A declared noise floor: 95 % of single-round A/A differences lie within ±fraction.

    Attributes:
        fraction: half-width of the floor; 0.004 is 0.4 %.
        source: where the figure comes from, quoted in every report that rests on it.
    """

    fraction: float = Field(gt=0, lt=1)
    source: str = Field(min_length=3)

    @property
    def noise(self) -> Noise:
        """The floor as a standard deviation with its degrees of freedom."""
        return statistics.declared_noise(self.fraction)


@declaration
class Threshold:
    """One claim about one metric at one point.

    Attributes:
        metric: key in the metric table.
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``.
        kind: ``not_worse`` or ``better``.
        fraction: largest loss still called "not worse", or smallest gain called "better".
        floor: declared noise floor; `None` when none was declared.
    """

    metric: str
    at: Level
    kind: Literal["not_worse", "better"]
    fraction: Annotated[float, Field(ge=0)]
    floor: NoiseFloor | None = None

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str) -> str:
        row = metric(name)
        if not row.gated:
            raise ValueError(f"{name} has no better direction: it is shown, and cannot be gated")
        return row.name

    @property
    def id(self) -> str:
        """Name within the gate: ``c32-output_throughput-not_worse``."""
        return f"{level_id(self.at)}-{self.metric}-{self.kind}"

    @property
    def delta(self) -> float:
        """The margin in log units; negative when a gain is asked for."""
        higher = metric(self.metric).higher_is_better
        of = statistics.log_margin if self.kind == "not_worse" else statistics.log_gain
        return of(self.fraction, higher_is_better=higher)

    @property
    def limit(self) -> float:
        """The raw change at the margin, a fraction: -0.15 for a throughput that may fall by 15 %."""
        sign = 1 if metric(self.metric).higher_is_better == (self.kind == "better") else -1
        return sign * self.fraction

    @property
    def noise(self) -> Noise:
        """What is known of the noise before the run."""
        return self.floor.noise if self.floor else statistics.UNKNOWN_NOISE

    @property
    def claim(self) -> str:
        """What is to be shown, in words."""
        words = "not worse by more than" if self.kind == "not_worse" else "better by at least"
        return f"{metric(self.metric).label} at {level_label(self.at)} {words} {100 * self.fraction:g} %"


@declaration
class OutputsThreshold:
    """The claim that both arms give the same answers at one point: a count, and no estimate with an interval.

    Attributes:
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``.
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
    def limit(self) -> float:
        """The least share, a fraction."""
        return self.share

    @property
    def claim(self) -> str:
        """What is to be shown, in words."""
        return f"answers at {level_label(self.at)} equal in at least {100 * self.share:g} % of each round"


AnyThreshold: TypeAlias = Threshold | OutputsThreshold
"""A claim of a gate."""


@declaration
class Gate:
    """One arm pair and its thresholds.

    Attributes:
        id: file path, qualified name and parameters of the test function.
        pair: the arms and their load.
        thresholds: the claims, in the order in which they were written.
    """

    id: str
    pair: ArmPair
    thresholds: tuple[AnyThreshold, ...] = Field(min_length=1)

    @property
    def family(self) -> int:
        """Number m of thresholds that rest on an interval, and so share the error rates of the gate."""
        return sum(isinstance(threshold, Threshold) for threshold in self.thresholds)

    def plan(self, threshold: Threshold) -> statistics.Plan:
        """Return when a threshold is judged, and what shares its error rates."""
        return statistics.Plan(statistics.looks(self.pair.rounds, threshold.noise), family=self.family)

    def check(self) -> None:
        """Refuse what can never give a verdict.

        Raises:
            UsageError: an unknown point, a duplicate, a percentile of too few requests, an undecidable threshold.
        """
        seen: set[str] = set()
        for threshold in self.thresholds:
            if threshold.id in seen:
                raise UsageError(f"threshold {threshold.id} is declared twice; one claim per metric, point and kind")
            seen.add(threshold.id)
            check_point(self.pair.profile, threshold.at)
            if isinstance(threshold, Threshold):
                self._check_support(threshold)
            else:
                self._check_greedy(threshold)

    def _check_greedy(self, threshold: OutputsThreshold) -> None:
        if not self.pair.profile.greedy:
            raise UsageError(
                f"threshold {threshold.id} compares answers, and at temperature={self.pair.profile.temperature:g} each "
                f"is drawn by chance: set temperature=0 in the profile, or leave the threshold out"
            )

    def _check_support(self, threshold: Threshold) -> None:
        row = metric(threshold.metric)
        count = self.pair.profile.requests[threshold.at]
        if count < row.minimum_requests:
            raise UsageError(
                f"{row.name} at {level_label(threshold.at)} needs {row.minimum_requests} requests, "
                f"the profile has {count}: raise requests[{threshold.at!r}]"
            )
        if row.needs_speculation and not all(arm.speculates for arm in self.pair.arms):
            raise UsageError(f"{row.name} compares two speculative arms, and one arm of {self.pair.title} is none")
        if row.per_chunk and len({arm.draft_horizon for arm in self.pair.arms}) > 1:
            raise UsageError(
                f"{row.name} is a time per chunk, and a chunk holds several tokens under speculation, so it cannot be "
                f"gated for {self.pair.title}: use {row.name.replace('inter_chunk', 'tpot')}"
            )
        if row.name == "goodput" and not self.pair.profile.goodput_limits:
            raise UsageError("goodput needs limits: give the profile goodput_limits={'ttft': '500ms', 'tpot': '50ms'}")
        if threshold.kind == "not_worse" and row.higher_is_better and threshold.fraction >= 1:
            raise UsageError(f"margin of {100 * threshold.fraction:g} % on {row.name} allows it to vanish")
        if threshold.kind == "better" and not row.higher_is_better and threshold.fraction >= 1:
            raise UsageError(f"{row.name} cannot fall by {100 * threshold.fraction:g} %")
        if not statistics.looks(self.pair.rounds, threshold.noise):
            raise UsageError(
                f"threshold {threshold.id} can never be decided with rounds={self.pair.rounds}: raise rounds to 3 or "
                f"more, or declare a floor (noise=noise_floor('2%', source='...'))"
            )
