"""Verdicts of limits: the value of a metric in every boot of the candidate, compared as a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core import validity
from pytest_specgate.core.flags import of_load
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import measure
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.units import amount_text, measured_text
from pytest_specgate.core.verdict import Outcome, Verdict
from pytest_specgate.core.verdict_parts import attached, head, invalid, problem_at

if TYPE_CHECKING:
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.metrics import Measured
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import LimitThreshold


def judge_limit(gate: Gate, threshold: LimitThreshold, record: WindowRecord) -> Verdict:
    """Judge a limit: any boot beyond it fails, and no round is asked for beyond those that the gate runs anyway."""
    for both in record.rounds_of(gate.pair):
        problem = problem_at(gate.pair, both, record, at=threshold.at)
        if problem is not None:
            return invalid(gate, threshold, problem)
    found: list[Measured] = []
    # A boot whose partner never came is one of the candidate, too.
    for boot in record.boots_for(gate.pair)[1]:
        point = boot.point(threshold.at)
        assert point is not None, "boot_problem() refuses boots without the point"
        if (problem := validity.point_problem(gate.pair.candidate, point, record.profile)) is not None:
            return invalid(gate, threshold, problem)
        found.append(measure(threshold.metric, point, record.profile))
    missing = next((one.missing for one in found if one.value is None), None)
    if missing is not None:
        text = f"arm {gate.pair.candidate.name} at {level_label(threshold.at)}: no {threshold.metric}: {missing}"
        return invalid(gate, threshold, Failure(reason="missing-metric", message=text))
    return _from_values(gate, threshold, record, found=found)


def _from_values(gate: Gate, threshold: LimitThreshold, record: WindowRecord, *, found: list[Measured]) -> Verdict:
    values = tuple(one.value for one in found if one.value is not None)
    beyond = [value for value in values if not threshold.keeps(value)]
    outcome, reason = (Outcome.FAIL, "beyond-limit") if beyond else (Outcome.PASS, "within-limit")
    worst = (min if threshold.kind == "at_least" else max)(values)
    unit, count = threshold.row.unit, f"{len(values)} boot{'s' if len(values) != 1 else ''}"
    side = "short of it" if threshold.kind == "at_least" else "beyond it"
    told = f"{len(beyond)} of {count} {side}" if beyond else f"kept in {count}"
    limit = f"{threshold.kind.replace('_', ' ')} {amount_text(unit, threshold.value)}"
    return Verdict(
        **head(gate, threshold),
        outcome=outcome,
        reason=reason,
        summary=(
            f"{outcome}: {threshold.row.label} at {level_label(threshold.at)} of {gate.pair.candidate.name} "
            f"{measured_text(unit, worst)} in its worst boot, {limit}: {told}"
        ),
        candidate=worst,
        values=values,
        rounds=len(values),
        samples=min(one.n for one in found),
        flags=(*of_load(gate.pair), *attached(gate.pair, record)),
    )
