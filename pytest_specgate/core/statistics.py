"""The decision rule: paired differences of rounds in, bounds and a three-way decision out.

Everything here is arithmetic on signed differences, of logarithms or of shares. Signs are already turned so that
positive means "the candidate is better". The arithmetic itself stands in `pytest_specgate.core.rule`, for many runs at
once: what is simulated and what judges is one piece of code.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_specgate.core.noise import LOG
from pytest_specgate.core.plan import Claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.noise import Noise, Scale
    from pytest_specgate.core.plan import Plan
    from pytest_specgate.core.rule import Bounds

Decision: TypeAlias = Literal["PASS", "FAIL", "INCONCLUSIVE", "CONTINUE"]


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """One look at the rounds so far.

    Attributes:
        decision: PASS, FAIL, INCONCLUSIVE, or CONTINUE to the next look.
        reason: in words.
        mean: mean of the signed differences.
        lower: bound of PASS, `None` when there is no noise estimate yet.
        upper: bound of FAIL, likewise.
        pass_upper: upper bound at the level of PASS, likewise: what an equivalence needs.
        fail_lower: lower bound at the level of FAIL, likewise.
        sd: standard deviation used, likewise.
        df: its degrees of freedom; 0 when there is none.
        source: where the standard deviation came from.
        f_ratio: own variance / calibrated variance, `None` when one of them is missing.
        order_effect: drift per boot in the units of the differences, when one was found significant.
        decision_chance: predicted chance of a decision by n_max, `None` where it was not needed.
        flags: what a reader should know besides; no flag changes the decision.
    """

    decision: Decision
    reason: str
    mean: float
    lower: float | None = None
    upper: float | None = None
    pass_upper: float | None = None
    fail_lower: float | None = None
    sd: float | None = None
    df: float = 0.0
    source: str = "none"
    f_ratio: float | None = None
    order_effect: float | None = None
    decision_chance: float | None = None
    flags: tuple[str, ...] = ()


def look(  # noqa: PLR0913  - what is judged, against what, and what is known of the noise
    ratios: Sequence[float],
    *,
    delta: float,
    noise: Noise,
    plan: Plan,
    candidate_first: Sequence[bool] | None = None,
    gain: float | None = None,
    scale: Scale = LOG,
) -> Look:
    """Judge the rounds so far.

    Args:
        ratios: signed differences, round by round.
        delta: margin; negative when a gain is asked for.
        noise: calibrated or declared noise.
        plan: the looks of this threshold.
        candidate_first: whether a round booted the candidate first; `None` means every second one, as planned.
        gain: largest gain that an equivalence allows; `None` for a claim about losses only.
        scale: of the differences.
    """
    n = len(ratios)
    mean = math.fsum(ratios) / n
    if not plan.looks:
        return Look("INCONCLUSIVE", "noise unknown: no calibration and n_max < 3", mean)
    if n > plan.rounds:
        raise ValueError(f"{n} rounds, but the plan of this threshold ends with {plan.rounds}")
    if n not in plan.looks:
        following = next(rounds for rounds in plan.looks if rounds >= n)
        return Look("CONTINUE", f"next look at {following} rounds", mean)
    import numpy as np  # noqa: PLC0415  - a fifth of a second that only a verdict may cost

    from pytest_specgate.core import rule  # noqa: PLC0415

    order = [i % 2 == 1 for i in range(n)] if candidate_first is None else candidate_first
    found = rule.bounds(
        np.array([ratios], dtype=np.float64),
        np.array(order, dtype=np.bool_),
        sigma=np.array([noise.sigma]),
        nu=noise.df,
        scale=scale,
        claim=Claim(delta, gain),
        plan=plan,
    )
    return _told(found, mean)


def _told(found: Bounds, mean: float) -> Look:
    """Put the look at a single run into words."""
    from pytest_specgate.core import rule  # noqa: PLC0415  - imported by its only caller already

    chance, drift, ratio = (float(one[0]) for one in (found.chance, found.order.drift, found.spread.ratio))
    words: dict[int, tuple[Decision, str]] = {
        rule.PASS: ("PASS", "lower bound within the margin"),
        rule.FAIL: ("FAIL", "upper bound beyond the margin"),
        rule.INCONCLUSIVE: ("INCONCLUSIVE", "the interval contains the margin"),
        rule.FUTILE: ("INCONCLUSIVE", f"futile: chance of a decision by n_max {chance:.3f}"),
        rule.CONTINUE: ("CONTINUE", "next look"),
    }
    decision, reason = words[int(found.decision[0])]
    source = rule.SOURCES[int(found.spread.source[0])]
    drifts, removed = bool(found.order.significant[0]), bool(found.order.removed[0])
    if removed:
        source += f", order effect {100 * drift:+.2f} % per boot removed"
    too_large = (f"order effect too large to remove: {100 * drift:+.2f} % per boot",) if drifts and not removed else ()
    return Look(
        decision=decision,
        reason=reason,
        mean=mean,
        lower=float(found.lower[0]),
        upper=float(found.upper[0]),
        pass_upper=float(found.pass_upper[0]),
        fail_lower=float(found.fail_lower[0]),
        sd=math.sqrt(found.spread.variance[0]),
        df=float(found.spread.df[0]),
        source=source,
        f_ratio=None if math.isnan(ratio) else ratio,
        order_effect=drift if drifts else None,
        decision_chance=None if math.isnan(chance) else chance,
        flags=too_large,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval of a mean signed difference.

    Attributes:
        mean: of the differences.
        low: lower end.
        high: upper end.
    """

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether a change was shown."""
        return self.low > 0 or self.high < 0


def interval(
    differences: Sequence[float], *, noise: Noise, tail: float, candidate_first: Sequence[bool], scale: Scale = LOG
) -> Interval | None:
    """Return the two-sided interval of a mean, with the variance that `look` would use; `None` without any variance.

    Args:
        differences: signed, round by round.
        noise: known beforehand.
        tail: level of each side.
        candidate_first: whether a round booted the candidate first.
        scale: of the differences.
    """
    if len(differences) < 2 and not noise.df:
        return None
    import numpy as np  # noqa: PLC0415  - a fifth of a second that only a verdict may cost

    from pytest_specgate.core import rule  # noqa: PLC0415

    x, order = np.array([differences], dtype=np.float64), np.array(candidate_first, dtype=np.bool_)
    spread, _ = rule.spread_of(x, order, sigma=np.array([noise.sigma]), nu=noise.df, scale=scale)
    error = math.sqrt(max(float(spread.variance[0]), scale.least_sd**2) / len(differences))
    half, mean = float(rule.quantile(tail, spread.df)[0]) * error, math.fsum(differences) / len(differences)
    return Interval(mean, mean - half, mean + half)


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
