"""Gates: thresholds on one arm pair, checked when declared, judged from a window record."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pydantic import Field

from pytest_specgate.core import planning
from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.declared import declaration
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.known import known_noise
from pytest_specgate.core.levels import level_label, temperature_of
from pytest_specgate.core.noise import UNKNOWN_NOISE
from pytest_specgate.core.plan import Plan, looks
from pytest_specgate.core.profile import check_point
from pytest_specgate.core.thresholds import (
    AnyThreshold,
    BaselineThreshold,
    CurveThreshold,
    LimitThreshold,
    OutputsThreshold,
    Threshold,
)
from pytest_specgate.core.units import amount_text, rounded_down, rounded_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.metrics import Metric
    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.records import ArmNoise
    from pytest_specgate.core.thresholds import IntervalThreshold


_SLACK: Final = 1e-9
"""Of a bound and what is compared with it, both of which are rounded."""


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
    def intervals(self) -> tuple[IntervalThreshold, ...]:
        """The thresholds that rest on an interval, and so share the error rates of the gate."""
        return tuple(threshold for threshold in self.thresholds if isinstance(threshold, Threshold | CurveThreshold))

    @property
    def family(self) -> int:
        """Number m of thresholds that rest on an interval, those across windows included."""
        return len(self.intervals) + len(self.baselines)

    @property
    def baselines(self) -> tuple[BaselineThreshold, ...]:
        """The thresholds that are judged against windows accepted before."""
        return tuple(threshold for threshold in self.thresholds if isinstance(threshold, BaselineThreshold))

    def plan(self, threshold: IntervalThreshold, noises: Sequence[ArmNoise] = ()) -> Plan:
        """Return when a threshold is judged, and what shares its error rates.

        Args:
            threshold: of this gate.
            noises: calibrations of this machine.
        """
        return Plan(looks(self.pair.rounds, self._weakest(threshold, noises)), family=self.family)

    def _weakest(self, threshold: IntervalThreshold, noises: Sequence[ArmNoise]) -> Noise:
        """Return the noise of which least is known: of a curve that of its worst known level."""
        levels = self._levels_of(threshold) if isinstance(threshold, CurveThreshold) else (threshold.at,)
        found = [known_noise(threshold, self.pair, noises, at=at).noise for at in levels]
        return min(found, key=lambda noise: noise.df)

    def _levels_of(self, threshold: CurveThreshold) -> tuple[Level, ...]:
        profile = self.pair.profile
        return profile.points_at_temperature(profile.temperature_at(threshold.at))

    def check(self) -> None:
        """Refuse what can never give a verdict, whatever is known of the noise.

        Raises:
            UsageError: an unknown point, a duplicate, a percentile of too few requests, a claim without its metric.
        """
        seen: set[str] = set()
        for threshold in self.thresholds:
            if threshold.id in seen:
                raise UsageError(f"threshold {threshold.id} is declared twice; one claim per metric, point and kind")
            seen.add(threshold.id)
            check_point(self.pair.profile, threshold.at)
            if isinstance(threshold, OutputsThreshold):
                self._check_greedy(threshold)
            elif isinstance(threshold, CurveThreshold):
                self._check_curve(threshold)
            else:
                self._check_support(threshold, at=threshold.at)
                self._check_position(threshold)
                self._check_limit(threshold)
                self._check_worst(threshold)
        self._check_directions()

    def _check_greedy(self, threshold: OutputsThreshold) -> None:
        if not self.pair.profile.greedy_at(threshold.at):
            own = temperature_of(threshold.at)
            cure = "set temperature=0 in the profile" if own is None else "claim it of a level of temperature 0"
            raise UsageError(
                f"threshold {threshold.id} compares answers, and at "
                f"temperature={self.pair.profile.temperature_at(threshold.at):g} each is drawn by chance: {cure}, or "
                f"leave the threshold out"
            )

    def _check_curve(self, threshold: CurveThreshold) -> None:
        points = self._levels_of(threshold)
        if threshold.at == points[-1]:
            of = "" if points == self.pair.profile.points else " at this temperature"
            raise UsageError(
                f"threshold {threshold.id} claims something of the levels beyond {level_label(threshold.at)}, and the "
                f"profile has none{of}: add one to requests"
            )
        for at in points:
            self._check_support(threshold, at=at)

    def _check_support(
        self, threshold: Threshold | LimitThreshold | CurveThreshold | BaselineThreshold, *, at: Level
    ) -> None:
        row = threshold.row
        count = self.pair.profile.requests[at]
        if count < row.minimum_requests:
            raise UsageError(
                f"{row.name} at {level_label(at)} needs {row.minimum_requests} requests, "
                f"the profile has {count}: raise requests[{at!r}]"
            )
        if row.name == "goodput" and not self.pair.profile.goodput_limits:
            raise UsageError("goodput needs limits: give the profile goodput_limits={'ttft': '500ms', 'tpot': '50ms'}")
        if _is_of_candidate(threshold):
            self._check_candidate(row)
            return
        if row.needs_speculation and not all(arm.speculates for arm in self.pair.arms):
            raise UsageError(f"{row.name} compares two speculative arms, and one arm of {self.pair.title} is none")
        if row.per_chunk and len({arm.draft_horizon for arm in self.pair.arms}) > 1:
            raise UsageError(
                f"{row.name} is a time per chunk, and a chunk holds several tokens under speculation, so it cannot be "
                f"gated for {self.pair.title}: use {row.name.replace('inter_chunk', 'tpot')}"
            )
        if isinstance(threshold, Threshold):
            _check_margin(threshold, row)

    def _check_candidate(self, row: Metric) -> None:
        if row.needs_speculation and not self.pair.candidate.speculates:
            raise UsageError(f"{row.name} exists in speculative arms only, and {self.pair.candidate.name} is none")

    def _check_position(self, threshold: Threshold | LimitThreshold | BaselineThreshold) -> None:
        """Refuse a draft position that an arm never drafts."""
        position = threshold.row.position
        if position is None:
            return
        for arm in (self.pair.candidate,) if _is_of_candidate(threshold) else self.pair.arms:
            k = arm.draft_horizon
            if k is not None and position > k:
                raise UsageError(
                    f"threshold {threshold.id} is about draft position {position}, and {arm.name} drafts {k} tokens: "
                    f"positions are counted from 1 to {k}"
                )

    def _check_limit(self, threshold: Threshold | LimitThreshold | BaselineThreshold) -> None:
        """Refuse a limit that every boot keeps, or that none can reach."""
        arm, row = self.pair.candidate, threshold.row
        ends = row.ends(_horizon(arm))
        if ends is None or not isinstance(threshold, LimitThreshold) or ends[0] < threshold.value <= ends[1]:
            return
        low, high = f"{ends[0]:g}", amount_text(row.unit, ends[1])
        within = f"between {low} and {high}" if ends[0] < ends[1] else f"at {high}"
        horizon = f" (k={arm.draft_horizon or 0})" if row.unit == "tokens" else ""
        cure = f"write more than {low}, and {high} at most" if ends[0] < ends[1] else "leave it out"
        raise UsageError(
            f"threshold {threshold.id} asks for at least {amount_text(row.unit, threshold.value)}, which "
            f"{'every boot keeps' if threshold.value <= ends[0] else 'no boot can reach'}: {row.label} of {arm.name} "
            f"lies {within}{horizon}: {cure}"
        )

    def _check_worst(self, threshold: Threshold | LimitThreshold | BaselineThreshold) -> None:
        """Refuse what can never fail, or never pass, since the metric always lies between two values."""
        if isinstance(threshold, LimitThreshold):
            return
        arms = (self.pair.candidate,) if _is_of_candidate(threshold) else self.pair.arms
        ends = [one for arm in arms if (one := _ends(threshold.row, arm)) is not None]
        if len(ends) < len(arms):
            return
        most, given = _greatest(threshold, ends), threshold.fraction or 0.0
        if isinstance(threshold, Threshold):
            given = max(given, threshold.allowance / ends[0][1])
        if given < most - _SLACK:
            return
        never = "pass" if threshold.kind == "better" else "fail"
        why = " and ".join(_range_words(threshold.row, arm) for arm in arms)
        raise UsageError(
            f"threshold {threshold.id} can never {never}: {threshold.row.label} of {why}, so "
            f"{_greatest_words(threshold, most)}"
        )

    def _check_directions(self) -> None:
        """Refuse claims that exclude each other: better by 50 % and equivalent within 5 %."""
        claims = {(one.metric, one.at): one for one in self.thresholds if getattr(one, "kind", "") == "equivalent"}
        for threshold in self.thresholds:
            other = claims.get((threshold.metric, threshold.at))
            if other is None or not isinstance(threshold, Threshold) or threshold.kind != "better":
                continue
            if isinstance(other, Threshold) and (threshold.fraction or 0.0) > (other.fraction or 0.0):
                raise UsageError(f"{threshold.id} and {other.id} exclude each other: leave one out")

    def check_decidable(self, noises: Sequence[ArmNoise] = (), *, attached: Sequence[str] = ()) -> None:
        """Refuse thresholds that can never be decided with their rounds and what is known of their noise.

        Args:
            noises: calibrations of this machine.
            attached: arms of the pair whose servers run elsewhere, and give one round.

        Raises:
            UsageError: nothing is known of the noise, and there are too few rounds to see it.
        """
        for threshold in self.intervals:
            if not self.plan(threshold, noises).looks:
                known = known_noise(threshold, self.pair, noises).noise.df
                few = f" with more boots, {rounded_down(known)} degrees of freedom are too few" if known else ""
                ways = f"raise rounds to 3 or more, calibrate{few} (pytest --specgate-calibrate), or declare a floor"
                if attached:
                    ways = (
                        f"{' and '.join(attached)} is attached and not booted anew, which is one round: declare a floor"
                    )
                raise UsageError(
                    f"threshold {threshold.id} can never be decided with rounds={self.pair.rounds}: {ways} "
                    f"(noise=noise_floor('2%', source='...'))"
                )
            if isinstance(threshold, Threshold):
                threshold.margin_on(known_noise(threshold, self.pair, noises).noise)

    def too_fine(self, noises: Sequence[ArmNoise] = ()) -> Iterator[str]:
        """Name margins that are finer than rounds and noise can decide, as far as the noise is known beforehand."""
        for threshold in self.intervals:
            noise = (
                known_noise(threshold, self.pair, noises).noise if isinstance(threshold, Threshold) else UNKNOWN_NOISE
            )
            if not noise.df or not isinstance(threshold, Threshold) or threshold.kind == "better":
                continue
            smallest = planning.smallest_margin(noise=noise, n_max=self.pair.rounds, family=self.family)
            claim = threshold.claim_on(noise)
            if smallest is not None and not threshold.allowance and claim.delta < smallest:
                unit = "points" if threshold.points else "%"
                yield (
                    f"the margin of {threshold.id}, {threshold.margin_words}, is finer than can be decided here with "
                    f"rounds={self.pair.rounds} in four of five healthy runs: the smallest usable one is "
                    f"{rounded_up(100 * threshold.raw_of(smallest))} {unit}"
                )


def _ends(row: Metric, arm: Arm) -> tuple[float, float] | None:
    """Return between which values a metric of an arm lies; `None` where nothing bounds it on either side."""
    ends, least = row.ends(_horizon(arm)), row.ends(0)
    # However many tokens an arm drafts, it gives no fewer than one that drafts none.
    return ends or (least and (least[0], math.inf))


def _greatest(threshold: Threshold | BaselineThreshold, ends: Sequence[tuple[float, float]]) -> float:
    """Return the greatest loss, gain or change that is possible, a fraction or points of a share.

    Args:
        threshold: a claim on one arm, or on the change between two; of a bounded metric more is better.
        ends: between which values the metric lies: of that one, or of the reference and the candidate.
    """
    if isinstance(threshold, BaselineThreshold):
        if threshold.points:
            return math.fsum(high - low for low, high in ends)
        return 1 - math.prod(low / high for low, high in ends)
    (low, high), (candidate_low, candidate_high) = ends
    if threshold.points:
        loss, gain = high - candidate_low, candidate_high - low
    else:
        loss, gain = 1 - candidate_low / high, candidate_high / low - 1 if low else math.inf
    return {"not_worse": loss, "better": gain, "equivalent": max(loss, gain)}[threshold.kind]


def _greatest_words(threshold: Threshold | BaselineThreshold, most: float) -> str:
    """Return how much a claim can be about, and what to write instead."""
    what = {"better": "gain", "equivalent": "change"}.get(threshold.kind, "loss")
    if most < _SLACK:
        return f"there is no {what}: leave it out"
    cure = {"better": "ask for less", "equivalent": "write a width of less"}.get(
        threshold.kind, "write a margin of less"
    )
    if isinstance(threshold, Threshold) and threshold.allowance:
        cure = "write a margin and an allowance of less"
    return f"the greatest {what} is {rounded_down(100 * most)} {'points' if threshold.points else '%'}: {cure}"


def _range_words(row: Metric, arm: Arm) -> str:
    """Return between which values a metric of an arm lies."""
    ends = _ends(row, arm)
    assert ends is not None, "what has no bounds is not refused"
    low, high = ends
    if high == math.inf:
        return f"{arm.name} lies at {amount_text(row.unit, low)} or more"
    horizon = f" (k={_horizon(arm)})" if row.unit == "tokens" else ""
    within = f"between {low:g} and {amount_text(row.unit, high)}" if low < high else f"at {amount_text(row.unit, high)}"
    return f"{arm.name} lies {within}{horizon}"


def _horizon(arm: Arm) -> int | None:
    """Return how many tokens an arm drafts: none without speculation; `None` where it does not declare it."""
    return arm.draft_horizon if arm.speculates else 0


def _is_of_candidate(threshold: AnyThreshold) -> bool:
    """Whether a claim is about figures of the candidate only."""
    absolute = isinstance(threshold, BaselineThreshold) and threshold.mode == "absolute"
    return absolute or isinstance(threshold, LimitThreshold)


def _check_margin(threshold: Threshold, row: Metric) -> None:
    """Refuse margins that allow everything, or ask for what cannot be."""
    if threshold.fraction is None or threshold.fraction < 1 or threshold.points:
        return
    if threshold.kind == "not_worse" and row.higher_is_better:
        raise UsageError(f"margin of {100 * threshold.fraction:g} % on {row.name} allows it to vanish")
    if threshold.kind == "better" and not row.higher_is_better:
        raise UsageError(f"{row.name} cannot fall by {100 * threshold.fraction:g} %")
    if threshold.kind == "equivalent":
        raise UsageError(f"equivalent within {100 * threshold.fraction:g} % allows {row.name} to vanish, or to double")
