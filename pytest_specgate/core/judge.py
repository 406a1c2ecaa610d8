"""Judging: verdicts of a gate's thresholds, from what a window has measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core import identity, outputs, statistics, validity
from pytest_specgate.core.confounds import attached_of, unlisted_differences
from pytest_specgate.core.flags import flags
from pytest_specgate.core.gate import Threshold
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.records import Failure
from pytest_specgate.core.rounds import Rounds
from pytest_specgate.core.verdict import Outcome, Verdict, change_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.gate import AnyThreshold, Gate, OutputsThreshold
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, WindowRecord
    from pytest_specgate.core.rounds import Side
    from pytest_specgate.core.statistics import Look

OPEN: Final = "open"
"""Reason code of a threshold that the next look may decide."""

_MARK: Final = {"not_worse": "margin", "better": "asked for"}
_WHY: Final = {
    ("PASS", "not_worse"): "the loss is bounded within the margin",
    ("PASS", "better"): "the gain is bounded above what was asked for",
    ("FAIL", "not_worse"): "the whole interval lies beyond the margin",
    ("FAIL", "better"): "the whole interval falls short of what was asked for",
}


def judge(gate: Gate, record: WindowRecord, *, final: bool = True) -> tuple[Verdict, ...]:
    """Judge every threshold of a gate from what a window has measured so far.

    Args:
        gate: the claims.
        record: the measurements.
        final: whether the window has stopped; until then a threshold that the next look may decide is `OPEN`.
    """
    failure = pair_problem(gate.pair, record)
    verdicts = tuple(
        _invalid(gate, threshold, failure) if failure else _judge_any(gate, threshold, record, final=final)
        for threshold in gate.thresholds
    )
    return tuple(_stopped(verdict, verdicts) for verdict in verdicts) if final else verdicts


def needs_more_rounds(verdicts: Sequence[Verdict]) -> bool:
    """Whether a gate wants another round: nothing failed or invalid, and a threshold still open."""
    decided = any(verdict.outcome in {Outcome.FAIL, Outcome.INVALID} for verdict in verdicts)
    return not decided and any(verdict.reason == OPEN for verdict in verdicts)


def identity_of(pair: ArmPair, record: WindowRecord) -> identity.IdentityReport:
    """Compare the request profiles of all boots that a pair is judged by."""
    return identity.compare([boot for both in record.rounds_of(pair) for boot in both])


def pair_problem(pair: ArmPair, record: WindowRecord) -> Failure | None:
    """Return why no figure of a pair may be shown or judged, `None` if they may."""
    arms = {arm.name: arm for arm in pair.arms}
    found = [boot for boots_of_arm in record.boots_for(pair) for boot in boots_of_arm]
    boots = sorted(found, key=lambda boot: (boot.round, boot.position))
    for boot in boots:
        problem = validity.boot_problem(arms[boot.arm], boot, record.profile)
        if problem is not None:
            return problem
    if (drifted := validity.drifted_between(boots)) is not None:
        return drifted
    if not record.rounds_of(pair):
        return Failure(reason="not-measured", message=f"the window ended before both arms of {pair.title} ran")
    report = identity_of(pair, record)
    if not report.identical:
        return Failure(reason="profile-mismatch", message=report.sentence, detail=_fields(report))
    return unlisted_differences(pair, record) if record.strict else None


def first_point_problem(pair: ArmPair, record: WindowRecord, *, at: Level | None = None) -> Failure | None:
    """Return the first reason why a point of a pair cannot be judged, gated or not; `None` if all can.

    Args:
        pair: the arms.
        record: the measurements.
        at: the load level to look at; `None` for all.
    """
    points = record.profile.points if at is None else (at,)
    found = (_problem_at(pair, both, record, at=level) for both in record.rounds_of(pair) for level in points)
    return next((problem for problem in found if problem is not None), None)


def _problem_at(
    pair: ArmPair, both: tuple[BootRecord, BootRecord], record: WindowRecord, *, at: Level, per_chunk: bool = False
) -> Failure | None:
    """Return why the point of one round cannot be judged: by itself in one arm, or across the two."""
    reference, candidate = (boot.point(at) for boot in both)
    assert reference is not None, "boot_problem() refuses boots without the point"
    assert candidate is not None, "likewise"
    for arm, point in zip(pair.arms, (reference, candidate), strict=True):
        if (problem := validity.point_problem(arm, point, record.profile)) is not None:
            return problem
    return validity.across_arms(pair, (reference, candidate), record.profile, per_chunk=per_chunk)


def _fields(report: identity.IdentityReport) -> str:
    lines = []
    for found in report.differences:
        left, right = identity.shortened(found.left, found.right)
        lines += [found.field, f"    {found.left_boot}: {left}", f"    {found.right_boot}: {right}"]
        lines.append(f"    {found.remedy}")
    return "\n".join(lines)


def _judge_any(gate: Gate, threshold: AnyThreshold, record: WindowRecord, *, final: bool) -> Verdict:
    if isinstance(threshold, Threshold):
        return _judge_one(gate, threshold, record, final=final)
    return _judge_outputs(gate, threshold, record, final=final)


def _judge_outputs(gate: Gate, threshold: OutputsThreshold, record: WindowRecord, *, final: bool) -> Verdict:
    """Judge whether the arms give the same answers, by a count in every round that ran."""
    for both in record.rounds_of(gate.pair):
        problem = _problem_at(gate.pair, both, record, at=threshold.at)
        if problem is not None:
            return _invalid(gate, threshold, problem)
    if (reason := outputs.incomparable(record.profile)) is not None:
        return _invalid(gate, threshold, Failure(reason="not-comparable", message=reason))
    return _from_counts(gate, threshold, record, final=final)


def _from_counts(gate: Gate, threshold: OutputsThreshold, record: WindowRecord, *, final: bool) -> Verdict:
    """Judge by the worst round; a second one is asked for, since without it nobody knows the floor."""
    found = outputs.by_round(gate.pair, record, at=threshold.at)
    worst = min(found.rounds, key=lambda one: one.share)
    agree = worst.share >= threshold.share
    outcome, reason = (Outcome.PASS, "outputs-agree") if agree else (Outcome.FAIL, "outputs-differ")
    if not final and len(found.rounds) < min(2, gate.pair.rounds):
        outcome, reason = Outcome.INCONCLUSIVE, OPEN
    of = f", in the worst of {len(found.rounds)} rounds" if len(found.rounds) > 1 else ""
    return Verdict(
        **_head(gate, threshold),
        outcome=outcome,
        reason=reason,
        summary=(
            f"{outcome}: {worst.words} answers at {level_label(threshold.at)} equal ({100 * worst.share:.4g} %){of}, "
            f"asked for at least {100 * threshold.share:g} %"
        ),
        shares=tuple(one.share for one in found.rounds),
        rounds=len(found.rounds),
        samples=worst.compared,
        flags=(*found.doubts(gate.pair, threshold.share), *_attached(gate.pair, record)),
    )


def _judge_one(gate: Gate, threshold: Threshold, record: WindowRecord, *, final: bool) -> Verdict:
    """Judge a threshold whose boots are all usable.

    A window that stopped between two looks keeps the verdict of the last one.
    """
    rounds = Rounds()
    per_chunk = metric(threshold.metric).per_chunk
    for both in record.rounds_of(gate.pair):
        problem = _problem_at(gate.pair, both, record, at=threshold.at, per_chunk=per_chunk)
        for arm, boot, side in zip(gate.pair.arms, both, (rounds.reference, rounds.candidate), strict=True):
            problem = problem or _take(side, arm, boot, threshold=threshold, record=record)
        if problem is not None:
            return _invalid(gate, threshold, problem)
        reference, candidate = both
        rounds.candidate_first.append(candidate.position < reference.position)
    if (verdict := _from_nothing(gate, threshold, rounds)) is not None:
        return verdict
    looks = [rounds_seen for rounds_seen in gate.plan(threshold).looks if rounds_seen <= len(rounds.candidate_first)]
    verdict = _from_look(gate, threshold, rounds.first(looks[-1]) if final and looks else rounds)
    return verdict.model_copy(update={"flags": (*verdict.flags, *_attached(gate.pair, record))})


def _attached(pair: ArmPair, record: WindowRecord) -> Iterator[str]:
    """Say what a verdict rests on without proof."""
    for arm in pair.arms:
        if unproved := attached_of(arm.name, record):
            yield f"{arm.name} was attached, so this is not proved: {'; '.join(unproved)}"


def _take(side: Side, arm: Arm, boot: BootRecord, *, threshold: Threshold, record: WindowRecord) -> Failure | None:
    """Add the value of one boot to its side, or return why there is none."""
    point = boot.point(threshold.at)
    assert point is not None, "boot_problem() refuses boots without the point"
    missing = side.take(threshold.metric, point, record.profile)
    return Failure(reason="missing-metric", message=f"arm {arm.name} {missing}") if missing else None


def _from_nothing(gate: Gate, threshold: Threshold, rounds: Rounds) -> Verdict | None:
    """Judge rounds in which a metric is 0, of which no ratio can be formed; `None` when it never is.

    A rate that fell to nothing is the largest loss there is, and measured: it fails. A reference that has nothing is no
    measure for anything.
    """
    row = metric(threshold.metric)
    of = f"{row.label} at {level_label(threshold.at)}"
    if 0 in rounds.reference.values:
        text = f"{of} is 0 in {gate.pair.reference.name}, so there is nothing to compare with"
        return _invalid(gate, threshold, Failure(reason="reference-is-zero", message=text))
    if 0 not in rounds.candidate.values:
        return None
    return Verdict(
        **_head(gate, threshold),
        outcome=Outcome.FAIL,
        reason="fell-to-zero",
        summary=f"FAIL: {of} fell to 0: {change_words(-1.0, metric_name=row.name)}",
        reference=statistics.geometric_mean(rounds.reference.values),
        candidate=0.0,
        change=-1.0,
        rounds=len(rounds.candidate.values),
        samples=min(rounds.reference.samples + rounds.candidate.samples),
    )


def _from_look(gate: Gate, threshold: Threshold, rounds: Rounds) -> Verdict:
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
        reference=statistics.geometric_mean(rounds.reference.values),
        candidate=statistics.geometric_mean(rounds.candidate.values),
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
        samples=min(rounds.reference.samples + rounds.candidate.samples),
        flags=tuple(flags(threshold, gate.pair.profile, change=change, look=look, rounds=rounds)),
    )


def _head(gate: Gate, threshold: AnyThreshold) -> dict[str, Any]:
    return {
        "gate": gate.id,
        "threshold": threshold.id,
        "pair": gate.pair.title,
        "metric": threshold.metric,
        "at": threshold.at,
        "kind": threshold.kind,
        "limit": threshold.limit,
        "claim": threshold.claim,
        "rounds_planned": gate.pair.rounds,
        "family": gate.family,
    }


def _invalid(gate: Gate, threshold: AnyThreshold, failure: Failure) -> Verdict:
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
    return f"{outcome}: {row.label} at {level_label(threshold.at)} {changed}{span}, {limit}: {why}"


def _noise_words(threshold: Threshold, look: Look) -> str:
    if threshold.floor is None:
        return look.source
    words = look.source.replace("calibrated", "declared").replace("calibration", "declared floor")
    return f"{words}; floor {100 * threshold.floor.fraction:g} % ({threshold.floor.source})"


def _stopped(verdict: Verdict, verdicts: Sequence[Verdict]) -> Verdict:
    """Close a threshold that is still open when its gate stops."""
    if verdict.reason != OPEN:
        return verdict
    cause = next((other for other in verdicts if other.outcome in {Outcome.FAIL, Outcome.INVALID}), None)
    why = f"{cause.threshold} is {cause.outcome}" if cause else "the window ended"
    summary = f"INCONCLUSIVE: {verdict.claim}: stopped at round {verdict.rounds} of {verdict.rounds_planned}: {why}"
    return verdict.model_copy(update={"reason": "stopped", "summary": summary})
