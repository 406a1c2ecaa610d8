"""Verdicts about answers: a count in every round, and no estimate with an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core import outputs
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import Outcome, Verdict
from pytest_specgate.core.verdict_parts import OPEN, attached, head, invalid, problem_at

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import OutputsThreshold


def judge_outputs(gate: Gate, threshold: OutputsThreshold, record: WindowRecord, *, final: bool) -> Verdict:
    """Judge whether the arms give the same answers, by a count in every round that ran."""
    for both in record.rounds_of(gate.pair):
        problem = problem_at(gate.pair, both, record, at=threshold.at)
        if problem is not None:
            return invalid(gate, threshold, problem)
    if (reason := outputs.incomparable(record.profile, [threshold.at])) is not None:
        return invalid(gate, threshold, Failure(reason="not-comparable", message=reason))
    return _from_counts(gate, threshold, record, final=final)


def _from_counts(gate: Gate, threshold: OutputsThreshold, record: WindowRecord, *, final: bool) -> Verdict:
    """Judge by the worst round; a second one is asked for, since without it nobody knows the floor."""
    found = outputs.by_round(gate.pair, record, at=threshold.at)
    outcome, reason, why = _outcome(gate.pair, found, share=threshold.share)
    if not final and len(found.rounds) < min(2, gate.pair.rounds):
        outcome, reason = Outcome.INCONCLUSIVE, OPEN
    of = f", in the worst of {len(found.rounds)} rounds" if len(found.rounds) > 1 else ""
    return Verdict(
        **head(gate, threshold),
        outcome=outcome,
        reason=reason,
        summary=(
            f"{outcome}: {found.worst.words} answers at {level_label(threshold.at)} equal "
            f"({100 * found.worst.share:.4g} %){of}, asked for at least {100 * threshold.share:g} %{why}"
        ),
        shares=tuple(one.share for one in found.rounds),
        rounds=len(found.rounds),
        samples=found.worst.compared,
        flags=(*(() if why else found.doubts(gate.pair, threshold.share)), *attached(gate.pair, record)),
    )


def _outcome(pair: ArmPair, found: outputs.PointOutputs, *, share: float) -> tuple[Outcome, str, str]:
    """Return outcome, reason code, and what is to be said of arms that do not repeat their own answers."""
    if found.worst.share >= share:
        return Outcome.PASS, "outputs-agree", ""
    if found.repeatable(share):
        return Outcome.FAIL, "outputs-differ", ""
    why = f": no arm can be held to more than it repeats of its own answers, {found.itself(pair)}"
    return Outcome.INCONCLUSIVE, "outputs-not-repeatable", why
