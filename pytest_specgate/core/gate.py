"""Gates: thresholds on one arm pair, checked when declared, judged from a window record."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, field_validator

from pytest_specgate.core import identity, statistics, validity
from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.declared import declaration
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.metrics import Measured, bunched_sends, measure, metric
from pytest_specgate.core.profile import check_point
from pytest_specgate.core.records import Failure
from pytest_specgate.core.verdict import Outcome, Verdict, change_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.records import BootRecord, WindowRecord
    from pytest_specgate.core.statistics import Look, Noise

OPEN: Final = "open"
"""Reason code of a threshold that the next look may decide."""

_MARK: Final = {"not_worse": "margin", "better": "asked for"}
_WHY: Final = {
    ("PASS", "not_worse"): "the loss is bounded within the margin",
    ("PASS", "better"): "the gain is bounded above what was asked for",
    ("FAIL", "not_worse"): "the whole interval lies beyond the margin",
    ("FAIL", "better"): "the whole interval falls short of what was asked for",
}


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
        at: concurrency.
        kind: ``not_worse`` or ``better``.
        fraction: largest loss still called "not worse", or smallest gain called "better".
        floor: declared noise floor; `None` when none was declared.
    """

    metric: str
    at: Annotated[int, Field(gt=0)]
    kind: Literal["not_worse", "better"]
    fraction: Annotated[float, Field(ge=0)]
    floor: NoiseFloor | None = None

    @field_validator("metric")
    @classmethod
    def _known(cls, name: str) -> str:
        return metric(name).name

    @property
    def id(self) -> str:
        """Name within the gate: ``c32-output_throughput-not_worse``."""
        return f"c{self.at}-{self.metric}-{self.kind}"

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
        return f"{metric(self.metric).label} at c={self.at} {words} {100 * self.fraction:g} %"


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
    thresholds: tuple[Threshold, ...] = Field(min_length=1)

    def plan(self, threshold: Threshold) -> statistics.Plan:
        """Return when a threshold is judged, and what shares its error rates."""
        return statistics.Plan(statistics.looks(self.pair.rounds, threshold.noise), family=len(self.thresholds))

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
            self._check_support(threshold)

    def _check_support(self, threshold: Threshold) -> None:
        row = metric(threshold.metric)
        count = self.pair.profile.requests[threshold.at]
        if count < row.minimum_requests:
            raise UsageError(
                f"{row.name} at c={threshold.at} needs {row.minimum_requests} requests, the profile has {count}: "
                f"raise requests[{threshold.at}]"
            )
        if row.source == "server counters" and not all(arm.speculates for arm in self.pair.arms):
            raise UsageError(f"{row.name} compares two speculative arms, and one arm of {self.pair.title} is none")
        if threshold.kind == "not_worse" and row.higher_is_better and threshold.fraction >= 1:
            raise UsageError(f"margin of {100 * threshold.fraction:g} % on {row.name} allows it to vanish")
        if threshold.kind == "better" and not row.higher_is_better and threshold.fraction >= 1:
            raise UsageError(f"{row.name} cannot fall by {100 * threshold.fraction:g} %")
        if not statistics.looks(self.pair.rounds, threshold.noise):
            raise UsageError(
                f"threshold {threshold.id} can never be decided with rounds={self.pair.rounds}: raise rounds to 3 or "
                f"more, or declare a floor (noise=noise_floor('2%', source='...'))"
            )


@dataclasses.dataclass(slots=True)
class _Side:
    """One arm of a threshold: its values and how bunched its sends were, round by round."""

    values: list[float] = dataclasses.field(default_factory=list)
    bunching: list[float] = dataclasses.field(default_factory=list)

    def bunched(self) -> float | None:
        return math.fsum(self.bunching) / len(self.bunching) if self.bunching else None


@dataclasses.dataclass(slots=True)
class _Rounds:
    """What a threshold is judged by."""

    reference: _Side = dataclasses.field(default_factory=_Side)
    candidate: _Side = dataclasses.field(default_factory=_Side)
    candidate_first: list[bool] = dataclasses.field(default_factory=list)

    def ratios(self, *, higher_is_better: bool) -> tuple[float, ...]:
        sign = 1 if higher_is_better else -1
        pairs = zip(self.reference.values, self.candidate.values, strict=True)
        return tuple(sign * math.log(candidate / reference) for reference, candidate in pairs)


def judge(gate: Gate, record: WindowRecord, *, final: bool = True) -> tuple[Verdict, ...]:
    """Judge every threshold of a gate from what a window has measured so far.

    Args:
        gate: the claims.
        record: the measurements.
        final: whether the window has stopped; until then a threshold that the next look may decide is `OPEN`.
    """
    failure = _pair_problem(gate, record)
    verdicts = tuple(
        _invalid(gate, threshold, failure) if failure else _judge_one(gate, threshold, record)
        for threshold in gate.thresholds
    )
    return tuple(_stopped(verdict, verdicts) for verdict in verdicts) if final else verdicts


def needs_more_rounds(verdicts: Sequence[Verdict]) -> bool:
    """Whether a gate wants another round: nothing failed or invalid, and a threshold still open."""
    decided = any(verdict.outcome in {Outcome.FAIL, Outcome.INVALID} for verdict in verdicts)
    return not decided and any(verdict.reason == OPEN for verdict in verdicts)


def paired_boots(pair: ArmPair, record: WindowRecord) -> tuple[tuple[BootRecord, BootRecord], ...]:
    """Return the boots that a pair is judged by: reference and candidate, round by round."""
    return record.paired_boots(pair.reference.name, pair.candidate.name)


def identity_of(pair: ArmPair, record: WindowRecord) -> identity.IdentityReport:
    """Compare the request profiles of all boots that a pair is judged by."""
    return identity.compare([boot for both in paired_boots(pair, record) for boot in both])


def _pair_problem(gate: Gate, record: WindowRecord) -> Failure | None:
    """Return why no threshold of the pair may be judged, `None` if they may."""
    rounds = paired_boots(gate.pair, record)
    for both in rounds:
        for arm, boot in zip(gate.pair.arms, both, strict=True):
            problem = validity.boot_problem(arm, boot, record.profile)
            if problem is not None:
                return problem
    if not rounds:
        return Failure(reason="not-measured", message=f"the window ended before both arms of {gate.pair.title} ran")
    report = identity_of(gate.pair, record)
    if not report.identical:
        return Failure(reason="profile-mismatch", message=report.sentence, detail=_fields(report))
    return None


def _fields(report: identity.IdentityReport) -> str:
    lines = []
    for found in report.differences:
        left, right = identity.shortened(found.left, found.right)
        lines += [found.field, f"    {found.left_boot}: {left}", f"    {found.right_boot}: {right}"]
    return "\n".join(lines)


def _judge_one(gate: Gate, threshold: Threshold, record: WindowRecord) -> Verdict:
    """Judge a threshold whose boots are all usable."""
    rounds = _Rounds()
    for reference, candidate in paired_boots(gate.pair, record):
        for arm, boot, side in zip(
            gate.pair.arms, (reference, candidate), (rounds.reference, rounds.candidate), strict=True
        ):
            problem = _take(side, arm, boot, threshold=threshold, record=record)
            if problem is not None:
                return _invalid(gate, threshold, problem)
        rounds.candidate_first.append(candidate.position < reference.position)
    return _from_look(gate, threshold, rounds)


def _take(side: _Side, arm: Arm, boot: BootRecord, *, threshold: Threshold, record: WindowRecord) -> Failure | None:
    """Add the value of one boot to its side, or return why there is none."""
    point = boot.point(threshold.at)
    assert point is not None, "boot_problem() refuses boots without the point"
    problem = validity.point_problem(arm, point, record.profile)
    if problem is not None:
        return problem
    measured = measure(threshold.metric, point)
    if measured.value is None or measured.value <= 0:
        return _missing(threshold, arm_name=arm.name, measured=measured)
    side.values.append(measured.value)
    if (share := bunched_sends(point)) is not None:
        side.bunching.append(share)
    return None


def _missing(threshold: Threshold, *, arm_name: str, measured: Measured) -> Failure:
    why = measured.missing or f"its value is {measured.value}"
    return Failure(reason="missing-metric", message=f"arm {arm_name} at c={threshold.at}: no {threshold.metric}: {why}")


def _from_look(gate: Gate, threshold: Threshold, rounds: _Rounds) -> Verdict:
    higher = metric(threshold.metric).higher_is_better
    plan = gate.plan(threshold)
    ratios = rounds.ratios(higher_is_better=higher)
    look = statistics.look(
        ratios, delta=threshold.delta, noise=threshold.noise, plan=plan, candidate_first=rounds.candidate_first
    )
    outcome = Outcome.INCONCLUSIVE if look.decision == "CONTINUE" else Outcome(look.decision)
    change = statistics.raw_change(look.mean, higher_is_better=higher)
    low, high = _interval(look, higher_is_better=higher)
    return Verdict(
        **_head(gate, threshold),
        outcome=outcome,
        reason=_reason(look),
        summary=_summary(threshold, outcome, change=change, interval=(low, high), look=look),
        reference=_geometric_mean(rounds.reference.values),
        candidate=_geometric_mean(rounds.candidate.values),
        ratios=ratios,
        change=change,
        change_low=low,
        change_high=high,
        rounds=len(ratios),
        sd=look.sd,
        df=look.df,
        noise=_noise_words(threshold, look),
        f_ratio=look.f_ratio,
        looks=len(plan.looks),
        order_effect=look.order_effect,
        flags=tuple(_flags(threshold, change=change, look=look, rounds=rounds)),
    )


def _head(gate: Gate, threshold: Threshold) -> dict[str, Any]:
    return {
        "threshold": threshold.id,
        "pair": gate.pair.title,
        "metric": threshold.metric,
        "at": threshold.at,
        "kind": threshold.kind,
        "limit": threshold.limit,
        "claim": threshold.claim,
        "rounds_planned": gate.pair.rounds,
        "family": len(gate.thresholds),
    }


def _invalid(gate: Gate, threshold: Threshold, failure: Failure) -> Verdict:
    return Verdict(
        **_head(gate, threshold),
        outcome=Outcome.INVALID,
        reason=failure.reason,
        summary=failure.message,
        detail=failure.detail,
    )


def _interval(look: Look, *, higher_is_better: bool) -> tuple[float | None, float | None]:
    if look.lower is None or look.upper is None:
        return None, None
    ends = [statistics.raw_change(bound, higher_is_better=higher_is_better) for bound in (look.lower, look.upper)]
    return min(ends), max(ends)


def _reason(look: Look) -> str:
    if look.decision == "CONTINUE":
        return OPEN
    if look.decision == "INCONCLUSIVE" and look.lower is None:
        return "noise-unknown"
    if look.reason.startswith("futile"):
        return "futile"
    return {"PASS": "within-margin", "FAIL": "beyond-margin", "INCONCLUSIVE": "interval-contains-margin"}[look.decision]


def _summary(
    threshold: Threshold, outcome: Outcome, *, change: float, interval: tuple[float | None, float | None], look: Look
) -> str:
    row = metric(threshold.metric)
    low, high = interval
    span = "" if low is None or high is None else f", interval {100 * low:+.1f} to {100 * high:+.1f} %"
    changed = change_words(change, metric_name=row.name)
    limit = f"{_MARK[threshold.kind]} {100 * threshold.limit:+.3g} %"
    why = _WHY.get((look.decision, threshold.kind), look.reason)
    return f"{outcome}: {row.label} at c={threshold.at} {changed}{span}, {limit}: {why}"


def _noise_words(threshold: Threshold, look: Look) -> str:
    if threshold.floor is None:
        return look.source
    words = look.source.replace("calibrated", "declared").replace("calibration", "declared floor")
    return f"{words}; floor {100 * threshold.floor.fraction:g} % ({threshold.floor.source})"


def _flags(threshold: Threshold, *, change: float, look: Look, rounds: _Rounds) -> Iterator[str]:
    """Say what a reader should know besides; nothing here changes an outcome."""
    yield from look.flags
    gain = change if metric(threshold.metric).higher_is_better else 1 / (1 + change) - 1
    if threshold.kind == "not_worse" and gain > 0.10:
        yield "more than 10 % better on a claim of 'not worse': check that both arms did the same work"
    reference, candidate = rounds.reference.bunched(), rounds.candidate.bunched()
    if threshold.metric.startswith("ttft") and reference is not None and candidate is not None:
        yield (
            f"sends after the first wave that came in bunches: reference {100 * reference:.0f} %, candidate "
            f"{100 * candidate:.0f} %; where these differ, TTFT compares the rhythms of the arms and not only prefill"
        )


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _stopped(verdict: Verdict, verdicts: Sequence[Verdict]) -> Verdict:
    """Close a threshold that is still open when its gate stops."""
    if verdict.reason != OPEN:
        return verdict
    cause = next((other for other in verdicts if other.outcome in {Outcome.FAIL, Outcome.INVALID}), None)
    why = f"{cause.threshold} is {cause.outcome}" if cause else "the window ended"
    summary = f"INCONCLUSIVE: {verdict.claim}: stopped at round {verdict.rounds} of {verdict.rounds_planned}: {why}"
    return verdict.model_copy(update={"reason": "stopped", "summary": summary})
