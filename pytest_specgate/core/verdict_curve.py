"""Verdicts of curves: at which load levels a candidate is better, judged together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.curve import curve
from pytest_specgate.core.flags import of_company, of_load
from pytest_specgate.core.known import known_noise
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.rounds import Rounds, rounds_at
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import CurveVerdict, Outcome, Verdict
from pytest_specgate.core.verdict_parts import OPEN, attached, head, invalid, problem_at

if TYPE_CHECKING:
    from pytest_specgate.core.curve import Curve, CurvePoint
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import CurveThreshold


def judge_curve(gate: Gate, threshold: CurveThreshold, record: WindowRecord, *, final: bool) -> Verdict:
    """Judge all load levels of a pair together that have the temperature of the claim."""
    found: dict[Level, Rounds] = {}
    profile = record.profile
    for at in profile.points_at_temperature(profile.temperature_at(threshold.at)):
        rounds = _rounds(gate, threshold, record, at=at)
        if isinstance(rounds, Failure):
            return invalid(gate, threshold, rounds)
        found[at] = rounds
    return _from_rounds(gate, threshold, record, found=found, final=final)


def _rounds(gate: Gate, threshold: CurveThreshold, record: WindowRecord, *, at: Level) -> Rounds | Failure:
    for both in record.rounds_of(gate.pair):
        per_chunk = threshold.row.per_chunk
        if (problem := problem_at(gate.pair, both, record, at=at, per_chunk=per_chunk)) is not None:
            return problem
    rounds = rounds_at(gate.pair, record, metric_name=threshold.metric, at=at)
    if isinstance(rounds, Rounds) and 0 in [*rounds.reference.values, *rounds.candidate.values]:
        text = f"{threshold.row.label} is 0 at {level_label(at)}, so no ratio can be formed: use at_least for it"
        return Failure(reason="fell-to-zero", message=text)
    return rounds


def _from_rounds(
    gate: Gate, threshold: CurveThreshold, record: WindowRecord, *, found: dict[Level, Rounds], final: bool
) -> Verdict:
    known = {at: known_noise(threshold, gate.pair, record.noise, at=at) for at in found}
    plan = gate.plan(threshold, record.noise)
    order = next(iter(found.values())).candidate_first
    looks = [count for count in plan.looks if count <= len(order)]
    # Between two looks nothing is judged; a window that stopped there keeps what its last look said.
    judged = looks[-1] if looks and (final or len(order) in plan.looks) else 0
    head_ = head(gate, threshold)
    if not judged:
        reason = OPEN if plan.looks else "noise-unknown"
        text = f"INCONCLUSIVE: {threshold.claim}: " + (
            f"next look at {next((count for count in plan.looks if count > len(order)), plan.rounds)} rounds"
            if plan.looks
            else "nothing is known of the noise"
        )
        return Verdict(**head_, outcome=Outcome.INCONCLUSIVE, reason=reason, summary=text, rounds=len(order))
    higher = threshold.row.higher_is_better
    shown = curve(
        {at: rounds.first(judged).differences(higher_is_better=higher) for at, rounds in found.items()},
        last=threshold.at,
        noise={at: one.noise for at, one in known.items()},
        plan=plan,
        candidate_first=order[:judged],
    )
    outcome, reason = _outcome(shown, judged=judged, last_look=plan.rounds)
    return Verdict(
        **head_,
        outcome=outcome,
        reason=reason,
        summary=f"{outcome}: {threshold.row.label} {shown.words}, claimed {threshold.claim}",
        curve=tuple(
            _point(point, threshold.metric, ratios=found[point.at].first(judged).differences(higher_is_better=higher))
            for point in shown.points
        ),
        rounds=judged,
        noise="; ".join(dict.fromkeys(one.words for one in known.values() if one.words)) or "own (no calibration)",
        looks=len(plan.looks),
        samples=min(min(rounds.reference.samples + rounds.candidate.samples) for rounds in found.values()),
        flags=(
            *of_load(gate.pair),
            *of_company(next(iter(found.values())).first(judged)),
            *attached(gate.pair, record),
        ),
    )


def _outcome(shown: Curve, *, judged: int, last_look: int) -> tuple[Outcome, str]:
    if shown.supported:
        return Outcome.PASS, "curve-shown"
    if shown.refuted:
        return Outcome.FAIL, "curve-refuted"
    return Outcome.INCONCLUSIVE, "curve-not-shown" if judged == last_look else OPEN


def _point(point: CurvePoint, name: str, *, ratios: tuple[float, ...]) -> CurveVerdict:
    higher = metric(name).higher_is_better
    shown = point.shown
    ends = [] if shown is None else [raw_change(end, higher_is_better=higher) for end in (shown.low, shown.high)]
    change = None if shown is None else raw_change(shown.mean, higher_is_better=higher)
    return CurveVerdict(
        at=point.at,
        sign=point.sign,
        ratios=ratios,
        change=change,
        change_low=min(ends, default=None),
        change_high=max(ends, default=None),
    )
