"""Acceptance of one arm as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.acceptance_report import AcceptanceReport
from pytest_specgate.core.confounds import attached_sentence
from pytest_specgate.core.judge import identity_of, pair_problem
from pytest_specgate.reporting.acceptance_levels import levels_of
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.record_json import verdict_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict


def acceptance_report(
    pair: ArmPair,
    record: WindowRecord,
    verdicts: Sequence[Verdict],
    *,
    record_path: str,
    gate_file: str,
) -> AcceptanceReport:
    """Return what a window tells of the acceptance of an arm.

    Args:
        pair: of the arm alone.
        record: what was measured.
        verdicts: on the pair.
        record_path: where the record lies.
        gate_file: where the probe lies as a gate file.
    """
    problem, arm = pair_problem(pair, record), pair.candidate
    levels = () if problem is not None else levels_of(pair, record, verdicts)
    readable = [level for level in levels if level.valid]
    told = problem if problem is not None or readable else levels[0]
    return AcceptanceReport(
        valid=bool(levels) and len(readable) == len(levels),
        reason=None if told is None else told.reason,
        message=None if told is None else one_line(told.message or ""),
        arm=arm.name,
        k=arm.draft_horizon or 0,
        record=record_path,
        gate_file=gate_file,
        boots=len(record.boots_of(arm.name)),
        finished=record.finished,
        stopped=record.stopped,
        identity=None if problem is not None else identity_of(pair, record).sentence,
        unproved=attached_sentence(arm.name, record),
        levels=levels,
        limits=tuple(verdict_json(verdict.model_dump(mode="json")) for verdict in verdicts),
    )


def unmeasured_report(arm: Arm, *, message: str) -> AcceptanceReport:
    """Return what is told of an arm that could not be measured."""
    return AcceptanceReport(
        valid=False,
        reason="not-measured",
        message=message,
        arm=arm.name,
        k=arm.draft_horizon or 0,
        record=None,
        gate_file=None,
        boots=0,
        finished=False,
        stopped="",
        identity=None,
        unproved=None,
        levels=(),
        limits=(),
    )
