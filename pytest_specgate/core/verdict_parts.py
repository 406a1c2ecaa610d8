"""What verdicts of every kind have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core import validity
from pytest_specgate.core.confounds import attached_sentence
from pytest_specgate.core.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, WindowRecord
    from pytest_specgate.core.stored import Failure
    from pytest_specgate.core.thresholds import AnyThreshold

OPEN: Final = "open"
"""Reason code of a threshold that the next look may decide."""


def head(gate: Gate, threshold: AnyThreshold, *, limit: float | None = None) -> dict[str, Any]:
    """Return the fields of a verdict that tell what was claimed.

    Args:
        gate: of the threshold.
        threshold: the claim.
        limit: where the claim ends, as `Verdict.limit` has it; `None` for what was declared.
    """
    return {
        "gate": gate.id,
        "threshold": threshold.id,
        "pair": gate.pair.title,
        "metric": threshold.metric,
        "at": threshold.at,
        "kind": threshold.kind,
        "limit": threshold.declared_limit if limit is None else limit,
        "claim": threshold.claim,
        "rounds_planned": gate.pair.rounds,
        "family": gate.family,
    }


def invalid(gate: Gate, threshold: AnyThreshold, failure: Failure) -> Verdict:
    """Return the verdict of a measurement that must not be judged."""
    return Verdict(
        **head(gate, threshold),
        outcome=Outcome.INVALID,
        reason=failure.reason,
        summary=failure.message,
        detail=failure.detail,
    )


def problem_at(
    pair: ArmPair, both: tuple[BootRecord, BootRecord], record: WindowRecord, *, at: Level, per_chunk: bool = False
) -> Failure | None:
    """Return why the point of one round cannot be judged: by itself in one arm, or across the two."""
    reference, candidate = (boot.point(at) for boot in both)
    assert reference is not None, "boot_problem() refuses boots without the point"
    assert candidate is not None, "likewise"
    if pair.alone:
        return validity.point_problem(pair.candidate, candidate, record.profile)
    for arm, point in zip(pair.arms, (reference, candidate), strict=True):
        if (problem := validity.point_problem(arm, point, record.profile)) is not None:
            return problem
    return validity.across_arms(pair, (reference, candidate), record.profile, per_chunk=per_chunk)


def attached(pair: ArmPair, record: WindowRecord) -> Iterator[str]:
    """Say what a verdict rests on without proof."""
    for arm in pair.own_arms:
        if sentence := attached_sentence(arm.name, record):
            yield sentence
