"""Judging: verdicts of a gate's thresholds, from what a window has measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core import identity, validity
from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.confounds import other_start, undecided, unlisted_differences
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.sweeps import never_booted
from pytest_specgate.core.thresholds import BaselineThreshold, CurveThreshold, LimitThreshold, OutputsThreshold
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.core.verdict_curve import judge_curve
from pytest_specgate.core.verdict_interval import judge_interval
from pytest_specgate.core.verdict_limit import judge_limit
from pytest_specgate.core.verdict_outputs import judge_outputs
from pytest_specgate.core.verdict_parts import OPEN, invalid, problem_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.core.verdict import Verdict

NOT_BOOTED: Final = "not-booted"
"""Code of the reason why a pair has no figures though nothing went wrong: a sweep ruled one of its arms out."""


def judge(gate: Gate, record: WindowRecord, *, final: bool = True) -> tuple[Verdict, ...]:
    """Judge every threshold of a gate from what a window has measured so far.

    Args:
        gate: the claims.
        record: the measurements.
        final: whether the window has stopped; until then a threshold that the next look may decide is `OPEN`.
    """
    failure = pair_problem(gate.pair, record)
    if failure is not None and final and record.stopped and not any(record.boots_for(gate.pair)):
        return tuple(_not_begun(gate, threshold, record) for threshold in gate.thresholds)
    if failure is not None and not final and undecided(failure, gate.pair, record):
        return tuple(_undecided(gate, threshold, failure) for threshold in gate.thresholds)
    verdicts = tuple(
        invalid(gate, threshold, failure) if failure else _judge_any(gate, threshold, record, final=final)
        for threshold in gate.thresholds
    )
    if not final:
        return verdicts
    if (gate.baselines or gate.pair.alone) and failure is None and cut_short(gate, record):
        verdicts = tuple(_part_of_it(verdict) if _asks_for_all(gate, verdict) else verdict for verdict in verdicts)
    if gate.pair.alone and len(record.rounds_of(gate.pair)) < gate.pair.rounds:
        # Whatever ended it, a sibling that failed included: the boots that were declared are the sample.
        verdicts = tuple(_part_of_it(verdict) if verdict.outcome == Outcome.PASS else verdict for verdict in verdicts)
    return tuple(_stopped(verdict, verdicts, record) for verdict in verdicts)


def cut_short(gate: Gate, record: WindowRecord) -> bool:
    """Whether a window was stopped while a gate still wanted rounds: it is no whole window then."""
    return bool(record.stopped) and wants_rounds(gate, record)


def wants_rounds(gate: Gate, record: WindowRecord) -> bool:
    """Whether a gate wants another round, as far as it was measured; an arm alone is booted as often as was declared.

    Limits are judged by one boot where a pair is compared; of an arm alone all boots are the sample.
    """
    verdicts = judge(gate, record, final=False)
    if not gate.pair.alone:
        return needs_more_rounds(verdicts)
    decided = any(verdict.outcome in {Outcome.FAIL, Outcome.INVALID} for verdict in verdicts)
    return not decided and len(record.rounds_of(gate.pair)) < gate.pair.rounds


def _asks_for_all(gate: Gate, verdict: Verdict) -> bool:
    """Whether a claim is about a whole window: one about a baseline, and any about an arm alone."""
    return gate.pair.alone or verdict.kind == NOT_WORSE_THAN_BASELINE


def _part_of_it(verdict: Verdict) -> Verdict:
    """Leave a claim open that a part of a window cannot support."""
    if verdict.outcome in {Outcome.INVALID, Outcome.INCONCLUSIVE}:
        return verdict
    return verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "reason": OPEN})


def needs_more_rounds(verdicts: Sequence[Verdict]) -> bool:
    """Whether a gate wants another round: nothing failed or invalid, and a threshold still open."""
    decided = any(verdict.outcome in {Outcome.FAIL, Outcome.INVALID} for verdict in verdicts)
    return not decided and any(verdict.reason == OPEN for verdict in verdicts)


def identity_of(pair: ArmPair, record: WindowRecord) -> identity.IdentityReport:
    """Compare the request profiles of all boots that a pair is judged by."""
    if pair.alone:
        return identity.compare([boot for boot, _ in record.rounds_of(pair)], arms=1)
    return identity.compare([boot for both in record.rounds_of(pair) for boot in both])


def not_booted(pair: ArmPair, record: WindowRecord) -> Failure | None:
    """Return why an arm of a pair never had to be booted, as a sweep tells it; `None` where it was, or had to be."""
    name = next((arm.name for arm in pair.arms if arm.name in never_booted(record)), None)
    return None if name is None else Failure(reason=NOT_BOOTED, message=record.ruled_out[name])


def pair_problem(pair: ArmPair, record: WindowRecord) -> Failure | None:
    """Return why no figure of a pair may be shown or judged, `None` if they may."""
    if (unneeded := not_booted(pair, record)) is not None:
        return unneeded
    arms = {arm.name: arm for arm in pair.arms}
    sides = record.boots_for(pair)
    found = [boot for side in (sides[:1] if pair.alone else sides) for boot in side]
    boots = sorted(found, key=lambda boot: (boot.round, boot.position))
    for boot in boots:
        problem = validity.boot_problem(arms[boot.arm], boot, record.profile)
        if problem is not None:
            return problem
    if (drifted := validity.drifted_between(boots)) is not None:
        return drifted
    if not record.rounds_of(pair):
        who = pair.title if pair.alone else f"both arms of {pair.title}"
        return Failure(reason="not-measured", message=f"the window ended before {who} ran")
    report = identity_of(pair, record)
    # One boot of one arm has nothing to be compared with.
    if not report.identical and not (pair.alone and len(found) == 1):
        return Failure(reason="profile-mismatch", message=report.sentence, detail=_fields(report))
    return unlisted_differences(pair, record) if record.strict else other_start(pair, record)


def first_point_problem(pair: ArmPair, record: WindowRecord, *, at: Level | None = None) -> Failure | None:
    """Return the first reason why a point of a pair cannot be judged, gated or not; `None` if all can.

    Args:
        pair: the arms.
        record: the measurements.
        at: the load level to look at; `None` for all.
    """
    points = record.profile.points if at is None else (at,)
    found = (problem_at(pair, both, record, at=level) for both in record.rounds_of(pair) for level in points)
    return next((problem for problem in found if problem is not None), None)


def figure_problem(
    pair: ArmPair, record: WindowRecord, verdicts: Iterable[Verdict], *, metric_name: str, at: Level
) -> Failure | None:
    """Return why no figure of a metric may be shown at a load level that can be judged; `None` if they may.

    Whatever shows a metric asks this, after `pair_problem` and `first_point_problem`: what a verdict calls INVALID has
    no figures anywhere.

    Args:
        pair: the arms.
        record: the measurements.
        verdicts: on this pair, of whatever gate.
        metric_name: key in the metric table.
        at: load level.
    """
    if metric(metric_name).per_chunk:
        found = (problem_at(pair, both, record, at=at, per_chunk=True) for both in record.rounds_of(pair))
        if (problem := next((problem for problem in found if problem is not None), None)) is not None:
            return problem
    for verdict in verdicts:
        # A baseline that does not fit says nothing against what was measured today.
        refused = verdict.outcome == Outcome.INVALID and verdict.kind != NOT_WORSE_THAN_BASELINE
        if refused and (verdict.metric, verdict.at) == (metric_name, at):
            return Failure(reason=verdict.reason or "invalid", message=verdict.summary)
    return None


def _fields(report: identity.IdentityReport) -> str:
    lines = []
    for found in report.differences:
        left, right = identity.shortened(found.left, found.right)
        lines += [found.field, f"    {found.left_boot}: {left}", f"    {found.right_boot}: {right}"]
        lines.append(f"    {found.remedy}")
    return "\n".join(lines)


def _judge_any(gate: Gate, threshold: AnyThreshold, record: WindowRecord, *, final: bool) -> Verdict:
    if isinstance(threshold, OutputsThreshold):
        return judge_outputs(gate, threshold, record, final=final)
    if isinstance(threshold, LimitThreshold):
        return judge_limit(gate, threshold, record)
    if isinstance(threshold, BaselineThreshold):
        # It brings numpy and scipy, which cost a fifth of a second that only a verdict may.
        from pytest_specgate.core.verdict_baseline import judge_baseline  # noqa: PLC0415

        return judge_baseline(gate, threshold, record, final=final)
    if isinstance(threshold, CurveThreshold):
        return judge_curve(gate, threshold, record, final=final)
    return judge_interval(gate, threshold, record, final=final)


def _not_begun(gate: Gate, threshold: AnyThreshold, record: WindowRecord) -> Verdict:
    """Leave a threshold undecided for which not a single boot was begun."""
    left = invalid(gate, threshold, Failure(reason="stopped", message=""))
    summary = f"INCONCLUSIVE: {threshold.claim}: nothing was measured: {record.stopped}"
    return left.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "summary": summary})


def _undecided(gate: Gate, threshold: AnyThreshold, failure: Failure) -> Verdict:
    """Leave a threshold open until another boot of each arm tells differences from noise."""
    left = invalid(gate, threshold, failure)
    return left.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "reason": OPEN})


def _stopped(verdict: Verdict, verdicts: Sequence[Verdict], record: WindowRecord) -> Verdict:
    """Close a threshold that is still open when its gate stops."""
    if verdict.reason != OPEN:
        return verdict
    cause = next((other for other in verdicts if other.outcome in {Outcome.FAIL, Outcome.INVALID}), None)
    why = f"{cause.threshold} is {cause.outcome}" if cause else record.stopped or "the window ended"
    so_far = ""
    if verdict.change is not None:
        so_far = f", {change_words(verdict.change, metric_name=verdict.metric, points=verdict.points)} until then"
    place = f"round {verdict.rounds} of {verdict.rounds_planned}"
    summary = f"INCONCLUSIVE: {verdict.claim}: stopped at {place}{so_far}: {why}"
    return verdict.model_copy(update={"reason": "stopped", "summary": summary})
