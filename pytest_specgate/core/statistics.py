"""The decision rule: paired log ratios of rounds in, bounds and a three-way decision out.

Everything here is arithmetic on log values. Signs are already turned so that positive means "the candidate is better".
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

ALPHA_PASS: Final = 0.05
ALPHA_FAIL: Final = 0.05
ALPHA_F: Final = 0.10
ORDER_LEVEL: Final = 0.99
ORDER_CAP: Final = 0.02
FUTILITY: Final = 0.10
DECLARED_DF: Final = 5.0
SIGMA_MIN: Final = 0.0005
SLACK: Final = 1e-9
NORMAL_975: Final = 1.959964
"""Two-sided 95 % point of the normal distribution, as the definition of a noise floor fixes it."""

Decision: TypeAlias = Literal["PASS", "FAIL", "INCONCLUSIVE", "CONTINUE"]


@dataclasses.dataclass(frozen=True, slots=True)
class Noise:
    """What is known, from outside this run, about the scatter of a single paired log ratio.

    Attributes:
        sigma: its standard deviation, in log units.
        df: degrees of freedom behind it; 0 means that nothing is known.
    """

    sigma: float
    df: float


UNKNOWN_NOISE: Final = Noise(sigma=0.0, df=0.0)


def declared_noise(floor: float) -> Noise:
    """Return the noise of a declared floor: 95 % of single-round A/A differences lie within ±floor (a fraction)."""
    return Noise(sigma=math.log1p(floor) / NORMAL_975, df=DECLARED_DF)


def floor_of(sigma: float) -> float:
    """Return the floor, as a fraction, that a standard deviation of a single log ratio amounts to."""
    return math.expm1(NORMAL_975 * sigma)


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """When a threshold is judged, and how often its error rates are shared.

    Attributes:
        looks: numbers of rounds after which it is judged; the last is n_max; empty when it can never be decided.
        family: number m of interval thresholds declared in its gate.
    """

    looks: tuple[int, ...]
    family: int = 1

    @property
    def rounds(self) -> int:
        """n_max: rounds at the last look."""
        return self.looks[-1]

    @property
    def pass_tail(self) -> float:
        """One-sided level of the PASS bound at each look."""
        return ALPHA_PASS / len(self.looks)

    @property
    def fail_tail(self) -> float:
        """One-sided level of the FAIL bound at each look: shared by all looks and all thresholds of the gate."""
        return ALPHA_FAIL / (len(self.looks) * self.family)


def looks(n_max: int, noise: Noise) -> tuple[int, ...]:
    """Return the looks of a run of at most `n_max` rounds; empty when its noise can never be known."""
    calibrated = noise.df >= 3
    if n_max <= 2:
        return (n_max,) if calibrated else ()
    first = 2 if calibrated else min(4, n_max)
    return tuple(sorted({*range(first, n_max + 1, 2), n_max}))


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """The variance a look uses, and where it came from.

    Attributes:
        variance: of one paired log ratio.
        df: its degrees of freedom.
        source: in words, for the report.
        f_ratio: own variance / calibrated variance; `None` when one of them is missing.
    """

    variance: float
    df: float
    source: str
    f_ratio: float | None = None


def choose(sum_of_squares: float, df: float, noise: Noise) -> Spread:
    """Pool a run's own scatter with the calibration, unless the run contradicts it.

    The larger of own and pooled variance is used; the own one alone when an F test at 10 % says that the rounds
    scatter more than the calibration allows.
    """
    from scipy import special  # noqa: PLC0415  - 170 ms that only a verdict may cost

    if noise.df == 0:
        return Spread(sum_of_squares / df, df, "own (no calibration)")
    if df == 0:
        return Spread(noise.sigma**2, noise.df, "calibrated")
    own = sum_of_squares / df
    ratio = own / max(noise.sigma, SIGMA_MIN) ** 2
    if special.fdtrc(df, noise.df, ratio) < ALPHA_F:
        return Spread(own, df, "own (calibration rejected)", ratio)
    pooled = (sum_of_squares + noise.df * noise.sigma**2) / (df + noise.df)
    source = "own > calibrated" if own > pooled else "pooled"
    return Spread(max(pooled, own), df + noise.df, source, ratio)


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """One look at the rounds so far.

    Attributes:
        decision: PASS, FAIL, INCONCLUSIVE, or CONTINUE to the next look.
        reason: in words.
        mean: mean of the signed log ratios.
        lower: lower bound, `None` when there is no noise estimate yet.
        upper: upper bound, likewise.
        sd: standard deviation used, likewise.
        df: its degrees of freedom; 0 when there is none.
        source: where the standard deviation came from.
        f_ratio: own variance / calibrated variance, `None` when one of them is missing.
        order_effect: drift per boot in log units, when one was found significant.
        decision_chance: predicted chance of a decision by n_max, `None` where it was not needed.
        flags: what a reader should know besides; no flag changes the decision.
    """

    decision: Decision
    reason: str
    mean: float
    lower: float | None = None
    upper: float | None = None
    sd: float | None = None
    df: float = 0.0
    source: str = "none"
    f_ratio: float | None = None
    order_effect: float | None = None
    decision_chance: float | None = None
    flags: tuple[str, ...] = ()


def look(
    ratios: Sequence[float],
    *,
    delta: float,
    noise: Noise,
    plan: Plan,
    candidate_first: Sequence[bool] | None = None,
) -> Look:
    """Judge the rounds so far.

    Args:
        ratios: signed log ratios, round by round.
        delta: margin in log units; negative when a gain is asked for.
        noise: calibrated or declared noise.
        plan: the looks of this threshold.
        candidate_first: whether a round booted the candidate first; `None` means every second one, as planned.
    """
    n = len(ratios)
    mean = math.fsum(ratios) / n
    if not plan.looks:
        return Look("INCONCLUSIVE", "noise unknown: no calibration and n_max < 3", mean)
    if n > plan.rounds:
        raise ValueError(f"{n} rounds, but the plan of this threshold ends with {plan.rounds}")
    following = next(rounds for rounds in plan.looks if rounds >= n)
    if n not in plan.looks:
        return Look("CONTINUE", f"next look at {following} rounds", mean)
    order = [i % 2 == 1 for i in range(n)] if candidate_first is None else candidate_first
    spread, order_effect, flags = _spread(ratios, order, mean=mean, noise=noise)
    variance = max(spread.variance, SIGMA_MIN**2)
    lower = mean - _t(plan.pass_tail, spread.df) * math.sqrt(variance / n)
    upper = mean + _t(plan.fail_tail, spread.df) * math.sqrt(variance / n)
    chance = _decision_chance(mean, delta=delta, variance=variance, df=spread.df, n=n, plan=plan)
    decision, reason = _decide(lower, upper, delta=delta, n=n, df=spread.df, chance=chance, plan=plan)
    return Look(
        decision=decision,
        reason=reason,
        mean=mean,
        lower=lower,
        upper=upper,
        sd=math.sqrt(variance),
        df=spread.df,
        source=spread.source,
        f_ratio=spread.f_ratio,
        order_effect=order_effect,
        decision_chance=chance,
        flags=flags,
    )


def _decide(  # noqa: PLR0913  - the rule reads these seven numbers
    lower: float, upper: float, *, delta: float, n: int, df: float, chance: float | None, plan: Plan
) -> tuple[Decision, str]:
    if lower >= -delta - SLACK:
        return "PASS", "lower bound within the margin"
    if upper < -delta - SLACK:
        return "FAIL", "upper bound beyond the margin"
    if n == plan.rounds:
        return "INCONCLUSIVE", "the interval contains the margin"
    if df >= 3 and chance is not None and chance < FUTILITY:
        return "INCONCLUSIVE", f"futile: chance of a decision by n_max {chance:.3f}"
    return "CONTINUE", "next look"


def _spread(
    ratios: Sequence[float], order: Sequence[bool], *, mean: float, noise: Noise
) -> tuple[Spread, float | None, tuple[str, ...]]:
    """Return the variance to use, the order effect if one was found, and flags."""
    n = len(ratios)
    squares = math.fsum((x - mean) ** 2 for x in ratios)
    spread = choose(squares, n - 1, noise)
    candidate_first = [ratio for ratio, first in zip(ratios, order, strict=True) if first]
    reference_first = [ratio for ratio, first in zip(ratios, order, strict=True) if not first]
    if min(len(reference_first), len(candidate_first)) < 2:
        return spread, None, ()
    gap = _mean(reference_first) - _mean(candidate_first)
    within = max(0.0, squares - len(reference_first) * len(candidate_first) / n * gap**2)
    clean = choose(within, n - 2, noise)
    drift = gap / 2
    limit = _t(1 - ORDER_LEVEL, clean.df) * math.sqrt(max(clean.variance, SIGMA_MIN**2) / n)
    if abs(drift) <= limit:
        return spread, None, ()
    if abs(drift) > ORDER_CAP:
        return spread, drift, (f"order effect too large to remove: {100 * drift:+.2f} % per boot",)
    source = f"{clean.source}, order effect {100 * drift:+.2f} % per boot removed"
    return dataclasses.replace(clean, source=source), drift, ()


def _decision_chance(  # noqa: PLR0913  - one formula, seven symbols
    mean: float, *, delta: float, variance: float, df: float, n: int, plan: Plan
) -> float | None:
    """Predict the chance that the remaining rounds bring a decision; `None` when none remain."""
    from scipy import special  # noqa: PLC0415  - 170 ms that only a verdict may cost

    remaining = plan.rounds - n
    if remaining <= 0:
        return None
    half = math.sqrt(variance / plan.rounds)
    pass_half = _t(plan.pass_tail, df + remaining) * half
    fail_half = _t(plan.fail_tail, df + remaining) * half
    width = math.sqrt(variance * (1 / n - 1 / plan.rounds))
    chance = special.ndtr((mean + delta - pass_half) / width) + special.ndtr((-delta - fail_half - mean) / width)
    return float(chance)


def _t(tail: float, df: float) -> float:
    """Return the upper `tail` quantile of Student's t; `df` may be fractional."""
    from scipy import special  # noqa: PLC0415  - 170 ms that only a verdict may cost

    return float(special.stdtrit(df, 1 - tail))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def log_margin(fraction: float, *, higher_is_better: bool) -> float:
    """Return the margin of a largest tolerated loss in log units."""
    return -math.log1p(-fraction) if higher_is_better else math.log1p(fraction)


def log_gain(fraction: float, *, higher_is_better: bool) -> float:
    """Return the margin, negative, of a gain that is asked for, in log units."""
    return -math.log1p(fraction) if higher_is_better else math.log1p(-fraction)


def raw_change(log_ratio: float, *, higher_is_better: bool) -> float:
    """Return a signed log ratio as the raw change of the metric, a fraction: +0.2 is 20 % more of it."""
    return math.expm1(log_ratio if higher_is_better else -log_ratio)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive values."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))
