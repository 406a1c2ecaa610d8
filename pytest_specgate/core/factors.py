"""The factored verdict: which of the things that make up a speed has moved.

The mean decode speed of a stream is tokens per step x steps per second, both from the same counters; output throughput
has a third factor, the number of sequences that decode at a time: the share of their time that streams spend decoding,
times their number. Logarithms of factors add up, so what is left of the
gated change is the part that the gated figure does not share with them: first tokens, or a median instead of a mean.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.quantities import NotMeasuredError, span_s
from pytest_specgate.core.statistics import interval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.plan import Plan
    from pytest_specgate.core.records import PointRecord
    from pytest_specgate.core.statistics import Interval

ALPHA: Final = 0.05
TOKENS_PER_STEP: Final = "tokens per step"
STEPS_PER_SECOND: Final = "steps per second"
DECODING: Final = "sequences decoding"


@dataclasses.dataclass(frozen=True, slots=True)
class Factor:
    """One factor of a speed, over all rounds.

    Attributes:
        name: of the factor.
        reference: geometric mean of the reference arm.
        candidate: likewise of the candidate.
        change: interval of the log ratio, descriptive; `None` while nothing is known of the noise.
        moved: whether a change was shown, at a level shared by all factors.
        mean: of the log ratios.
    """

    name: str
    reference: float
    candidate: float
    change: Interval | None
    moved: bool
    mean: float


@dataclasses.dataclass(frozen=True, slots=True)
class Factors:
    """The factors of a gated speed.

    Attributes:
        factors: in the order in which they multiply.
        residual: mean log ratio of the gated speed minus the sum of those of its factors.
    """

    factors: tuple[Factor, ...]
    residual: float


def names_of(metric_name: str) -> tuple[str, ...]:
    """Return the factors of a metric; none for one that is no speed."""
    if metric_name.startswith("output_throughput"):
        return (TOKENS_PER_STEP, STEPS_PER_SECOND, DECODING)
    speeds = ("decode_rate", "tpot")
    return (TOKENS_PER_STEP, STEPS_PER_SECOND) if metric_name.startswith(speeds) else ()


def factors(  # noqa: PLR0913  - what moved, what is known of its noise, and when it is judged
    metric_name: str,
    rounds: Sequence[tuple[PointRecord, PointRecord]],
    *,
    gated: float,
    noise: Mapping[str, Noise],
    plan: Plan,
    candidate_first: Sequence[bool],
) -> Factors | None:
    """Split the change of a speed into those of its factors; `None` where it has none, or counters do not tell them.

    Args:
        metric_name: the gated metric.
        rounds: points of reference and candidate, round by round.
        gated: mean signed log ratio of the gated metric, positive when the candidate is better.
        noise: known beforehand, by factor.
        plan: the looks of the threshold.
        candidate_first: whether a round booted the candidate first.
    """
    names = names_of(metric_name)
    try:
        values = [[tuple(_VALUES[name](point) for point in both) for both in rounds] for name in names]
    except (ScrapeError, NotMeasuredError):
        return None
    if not names or not all(value > 0 for factor in values for both in factor for value in both):
        return None
    found = [
        _factor(name, both, noise=noise[name], plan=plan, candidate_first=candidate_first, count=len(names))
        for name, both in zip(names, values, strict=True)
    ]
    return Factors(tuple(found), gated - math.fsum(factor.mean for factor in found))


def _factor(  # noqa: PLR0913  - likewise
    name: str,
    values: Sequence[tuple[float, ...]],
    *,
    noise: Noise,
    plan: Plan,
    candidate_first: Sequence[bool],
    count: int,
) -> Factor:
    ratios = [math.log(candidate / reference) for reference, candidate in values]
    looks = max(1, len(plan.looks))
    shown, strict = (
        interval(ratios, noise=noise, tail=tail, candidate_first=candidate_first)
        for tail in (ALPHA / (2 * looks), ALPHA / (2 * looks * count))
    )
    reference, candidate = (
        math.exp(math.fsum(math.log(both[side]) for both in values) / len(values)) for side in (0, 1)
    )
    moved = strict is not None and strict.excludes_zero
    return Factor(name, reference, candidate, shown, moved, math.fsum(ratios) / len(ratios))


def _tokens_per_step(point: PointRecord) -> float:
    return point.counters.tokens_per_step() or 0.0


def _steps_per_second(point: PointRecord) -> float:
    seconds = point.counters.step_time_s()
    return 1 / seconds if seconds else 0.0


def _decoding(point: PointRecord) -> float:
    """Return how many sequences decoded at a time, on average over the point."""
    return point.counters.decode_seconds() / span_s(point)


_VALUES: Final[Mapping[str, Callable[[PointRecord], float]]] = {
    TOKENS_PER_STEP: _tokens_per_step,
    STEPS_PER_SECOND: _steps_per_second,
    DECODING: _decoding,
}
