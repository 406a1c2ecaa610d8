"""The factors of a gated speed, as a verdict carries them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core import factors as factored
from pytest_specgate.core.horizon_noise import declared_known, of_steps
from pytest_specgate.core.known import calibrated_noise
from pytest_specgate.core.noise import UNKNOWN_NOISE
from pytest_specgate.core.plan import CALIBRATED_DF
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.core.stored_gates import declared_floors, readable_claims
from pytest_specgate.core.verdict import FactorVerdict

if TYPE_CHECKING:
    from pytest_specgate.core.factors import Factor
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.known import Known
    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.records import PointRecord, WindowRecord
    from pytest_specgate.core.thresholds import Threshold

_OF_STEPS: Final = ("step_time", "decode_rate_p50")
"""Metrics whose noise tells that of a step time."""


def factor_fields(
    gate: Gate, threshold: Threshold, record: WindowRecord, *, gated: float, count: int
) -> dict[str, Any]:
    """Return the factors of a speed of a pair in which an arm speculates, as fields of its verdict; else none.

    Args:
        gate: of the threshold.
        threshold: the claim.
        record: the measurements.
        gated: mean signed log ratio of the gated metric.
        count: of rounds that were judged.
    """
    pair = gate.pair
    if threshold.points or threshold.row.definition is not None or not any(arm.speculates for arm in pair.arms):
        return {}
    rounds = record.rounds_of(pair)[:count]
    points = [tuple(boot.point(threshold.at) for boot in both) for both in rounds]
    found = factored.factors(
        threshold.metric,
        [_both(both) for both in points],
        gated=gated,
        noise={name: _noise(name, gate, threshold, record) for name in factored.names_of(threshold.metric)},
        plan=gate.plan(threshold, record.noise),
        candidate_first=[candidate.position < reference.position for reference, candidate in rounds],
    )
    if found is None:
        return {}
    return {"factors": tuple(map(_verdict, found.factors)), "residual": found.residual}


def _both(points: tuple[PointRecord | None, ...]) -> tuple[PointRecord, PointRecord]:
    reference, candidate = points
    assert reference is not None, "boot_problem() refuses boots without the point"
    assert candidate is not None, "likewise"
    return reference, candidate


def _noise(name: str, gate: Gate, threshold: Threshold, record: WindowRecord) -> Noise:
    """Return what is known beforehand of the noise of a factor; of step times by the rule of draft horizons."""
    if name == factored.STEPS_PER_SECOND:
        found = {metric: _known(metric, gate, threshold, record) for metric in _OF_STEPS}
        return of_steps({metric: known for metric, known in found.items() if known.noise.df})
    if name == factored.TOKENS_PER_STEP:
        return _known("tokens_per_step", gate, threshold, record).noise
    return UNKNOWN_NOISE


def _known(metric: str, gate: Gate, threshold: Threshold, record: WindowRecord) -> Known:
    """Return what is known of a metric of the pair: calibrated well, or else the largest floor that is declared."""
    calibrated = calibrated_noise(metric, gate.pair, record.noise, at=threshold.at)
    # A gate that cannot be read tells nothing of noise, and is no reason not to judge by others.
    claims = (*gate.thresholds, *readable_claims(record))
    floors = [floor for name, floor in declared_floors(record, claims=claims) if name == metric]
    if not floors or (calibrated.whole and calibrated.noise.df >= CALIBRATED_DF):
        return calibrated
    return declared_known(max(floors, key=lambda floor: floor.noise.sigma))


def _verdict(factor: Factor) -> FactorVerdict:
    low, high = (None, None) if factor.change is None else (factor.change.low, factor.change.high)
    return FactorVerdict(
        name=factor.name,
        reference=factor.reference,
        candidate=factor.candidate,
        change=raw_change(factor.mean, higher_is_better=True),
        change_low=None if low is None else raw_change(low, higher_is_better=True),
        change_high=None if high is None else raw_change(high, higher_is_better=True),
        moved=factor.moved,
    )
