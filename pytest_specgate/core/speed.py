"""The factors of a gated speed, as a verdict carries them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specgate.core import factors as factored
from pytest_specgate.core.known import calibrated_noise
from pytest_specgate.core.noise import UNKNOWN_NOISE
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.core.verdict import FactorVerdict

if TYPE_CHECKING:
    from pytest_specgate.core.factors import Factor
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.records import PointRecord, WindowRecord
    from pytest_specgate.core.thresholds import Threshold

_METRICS = {factored.TOKENS_PER_STEP: "tokens_per_step", factored.STEPS_PER_SECOND: "step_time"}


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
    metric = _METRICS.get(name)
    if metric is None:
        return UNKNOWN_NOISE
    return calibrated_noise(metric, gate.pair, record.noise, at=threshold.at).noise


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
