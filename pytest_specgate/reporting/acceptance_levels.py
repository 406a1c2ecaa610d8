"""Acceptance by load level as JSON: the same figures wherever an arm that was measured alone is told of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.acceptance_report import AcceptanceFigures, AcceptanceLevel, PositionAcceptance
from pytest_specgate.core.levels import level_label
from pytest_specgate.reporting.acceptance import acceptance_of
from pytest_specgate.reporting.baselines import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.acceptance import AcceptanceCurve, Estimate
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.acceptance import LevelAcceptance


def levels_of(pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict]) -> tuple[AcceptanceLevel, ...]:
    """Return what the candidate of a pair accepted at each load level; where that may not be read, why.

    Args:
        pair: of a speculative arm alone; as such it can be judged.
        record: what was measured.
        verdicts: on the pair.
    """
    return tuple(_level(level, record) for level in acceptance_of(pair, record, verdicts).levels)


def _level(level: LevelAcceptance, record: WindowRecord) -> AcceptanceLevel:
    return AcceptanceLevel(
        load=level_label(level.at),
        temperature=record.profile.temperature_at(level.at),
        valid=level.curve is not None,
        reason=None if level.problem is None else level.problem.reason,
        message=None if level.problem is None else one_line(level.problem.message),
        figures=None if level.curve is None else _figures(level.curve, level.tokens_per_step),
    )


def _figures(curve: AcceptanceCurve, steps: Estimate | None) -> AcceptanceFigures:
    counts, length, rate = curve.counts, curve.acceptance_length, curve.acceptance_rate
    return AcceptanceFigures(
        k=curve.k,
        basis=curve.basis,
        samples=curve.sampled,
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
