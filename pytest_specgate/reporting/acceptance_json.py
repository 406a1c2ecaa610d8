"""Acceptance of one arm as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.acceptance_report import (
    AcceptanceFigures,
    AcceptanceLevel,
    AcceptanceReport,
    PositionAcceptance,
)
from pytest_specgate.core.confounds import attached_sentence
from pytest_specgate.core.judge import identity_of, pair_problem
from pytest_specgate.core.levels import level_label
from pytest_specgate.reporting.acceptance import acceptance_of
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.record_json import verdict_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.acceptance import AcceptanceCurve, Estimate
    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.acceptance import LevelAcceptance


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
    levels = () if problem is not None else acceptance_of(pair, record, verdicts).levels
    return AcceptanceReport(
        valid=problem is None and all(level.curve is not None for level in levels),
        reason=None if problem is None else problem.reason,
        message=None if problem is None else one_line(problem.message),
        arm=arm.name,
        k=arm.draft_horizon or 0,
        record=record_path,
        gate_file=gate_file,
        boots=len(record.boots_of(arm.name)),
        finished=record.finished,
        stopped=record.stopped,
        identity=None if problem is not None else identity_of(pair, record).sentence,
        unproved=attached_sentence(arm.name, record),
        levels=tuple(_level(level, record) for level in levels),
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


def _level(level: LevelAcceptance, record: WindowRecord) -> AcceptanceLevel:
    return AcceptanceLevel(
        load=level_label(level.at),
        temperature=record.profile.temperature_at(level.at),
        valid=level.curve is not None,
        message=level.missing or None,
        figures=None if level.curve is None else _figures(level.curve, level.tokens_per_step),
    )


def _figures(curve: AcceptanceCurve, steps: Estimate | None) -> AcceptanceFigures:
    counts, length, rate = curve.counts, curve.acceptance_length, curve.acceptance_rate
    return AcceptanceFigures(
        k=curve.k,
        basis=curve.basis,
        samples=counts.drafts if curve.basis == "drafts" else len(curve.samples),
        drafts=counts.drafts,
        draft_tokens=counts.draft_tokens,
        accepted_tokens=counts.accepted_tokens,
        short_draft_tokens=curve.short_drafts,
        draft_length=counts.draft_tokens / counts.drafts,
        acceptance_length=length.value,
        acceptance_length_low=length.low,
        acceptance_length_high=length.high,
        acceptance_rate=rate.value,
        acceptance_rate_low=rate.low,
        acceptance_rate_high=rate.high,
        tokens_per_step=None if steps is None else steps.value,
        tokens_per_step_low=None if steps is None else steps.low,
        tokens_per_step_high=None if steps is None else steps.high,
        positions=_positions(curve),
    )


def _positions(curve: AcceptanceCurve) -> tuple[PositionAcceptance, ...]:
    by_position = zip(curve.counts.accepted_per_position, curve.rates, curve.per_proposed(), strict=True)
    return tuple(
        PositionAcceptance(
            position=position,
            accepted_tokens=accepted,
            rate=rate.value,
            rate_low=rate.low,
            rate_high=rate.high,
            of_proposed_low=low,
            of_proposed_high=high,
        )
        for position, (accepted, rate, (low, high)) in enumerate(by_position, start=1)
    )
