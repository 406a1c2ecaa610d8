"""The rule across windows: today's window against those that were accepted as a baseline.

Two windows differ by more than the noise within one: the machine, its neighbours, its temperature. So their difference
is judged by how far earlier windows lie apart, once, at the end of a run; the noise within a window is never used for
it. Imported when a baseline is judged, and not before: numpy and scipy cost a fifth of a second.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from scipy import special

from pytest_specgate.core.noise import DECLARED_DF, LOG, NORMAL_975
from pytest_specgate.core.plan import ALPHA_FAIL, ALPHA_PASS
from pytest_specgate.core.rule import SLACK, Codes, Floats, quantile, spread_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.noise import Noise, Scale

LEAST_WINDOWS: Final = 3
"""Windows from which their own spread is known well enough."""

_POWER: Final = 0.80

PASS, FAIL, INCONCLUSIVE = range(3)
"""Codes of decisions."""

CrossDecision: TypeAlias = Literal["PASS", "FAIL", "INCONCLUSIVE"]
_WORDS: Final[tuple[CrossDecision, ...]] = ("PASS", "FAIL", "INCONCLUSIVE")


@dataclasses.dataclass(frozen=True, slots=True)
class CrossBounds:
    """Today's windows against their baselines, many at once.

    Attributes:
        difference: today's mean minus that of the baseline, signed, positive when today is better; shape (runs,).
        lower: bound of PASS.
        upper: bound of FAIL.
        decision: code.
    """

    difference: Floats
    lower: Floats
    upper: Floats
    decision: Codes


@dataclasses.dataclass(frozen=True, slots=True)
class CrossLook:
    """Today's window against its baseline.

    Attributes:
        decision: PASS, FAIL or INCONCLUSIVE.
        reason: in words.
        difference: today's mean minus that of the baseline, signed, positive when today is better.
        lower: bound of PASS; `None` where nothing is known of the noise across windows.
        upper: bound of FAIL, likewise.
        sd: of a difference of today's window to the baseline, likewise.
        df: its degrees of freedom; 0 when there are none.
        source: where it comes from.
        smallest_margin: smallest margin that so many windows can decide, in log units; `None` where unknown.
        window_sd: of a single window, likewise.
        stale: whether today is better than the baseline by more than the margin: its figures are of another time.
    """

    decision: CrossDecision
    reason: str
    difference: float
    lower: float | None = None
    upper: float | None = None
    sd: float | None = None
    df: float = 0.0
    source: str = "none"
    smallest_margin: float | None = None
    window_sd: float | None = None
    stale: bool = False


def cross_bounds(
    today: Floats, windows: Floats, *, delta: float, extra: Floats | float = 0.0, family: int = 1
) -> CrossBounds:
    """Judge many runs, each against the same number of windows.

    Args:
        today: signed mean of today's window, shape (runs,).
        windows: those of its baseline, shape (runs, windows); three or more.
        delta: margin in log units.
        extra: variance that today's window has beyond that of a window of the baseline: fewer rounds, say.
        family: number of thresholds of the gate.
    """
    count = windows.shape[1]
    spread = windows.var(axis=1, ddof=1) * (1 + 1 / count) + extra
    return _bounds(today - windows.mean(axis=1), np.sqrt(spread), df=count - 1.0, delta=delta, family=family)


def _bounds(difference: Floats, sd: Floats, *, df: float, delta: float, family: int) -> CrossBounds:
    lower = difference - quantile(ALPHA_PASS, df) * sd
    upper = difference + quantile(ALPHA_FAIL / family, df) * sd
    failed = np.where(upper < -delta - SLACK, FAIL, INCONCLUSIVE)
    decision = np.where(lower >= -delta - SLACK, PASS, failed).astype(np.int8)
    return CrossBounds(difference, lower, upper, decision)


def upper_quantile(df: float, *, family: int) -> float:
    """Return the quantile of the bound of FAIL."""
    return float(quantile(ALPHA_FAIL / family, df))


def round_variance(
    differences: Sequence[float], *, noise: Noise, candidate_first: Sequence[bool], scale: Scale = LOG
) -> float | None:
    """Return the variance of one round, by the rounds of a window and a calibration; `None` if nothing tells it.

    Args:
        differences: signed, round by round.
        noise: calibrated.
        candidate_first: whether a round booted the candidate first.
        scale: of the differences.
    """
    if len(differences) < 2 and not noise.df:
        return None
    x, order = np.array([differences], dtype=np.float64), np.array(candidate_first, dtype=np.bool_)
    spread, _ = spread_of(x, order, sigma=np.array([noise.sigma]), nu=noise.df, scale=scale)
    return max(float(spread.variance[0]), scale.least_sd**2)


@dataclasses.dataclass(frozen=True, slots=True)
class WindowMean:
    """The mean of one window.

    Attributes:
        value: mean signed log ratio of its rounds (relative), or signed mean log of one arm (absolute).
        rounds: that it was taken of.
    """

    value: float
    rounds: int


def cross_look(  # noqa: PLR0913  - today, the baseline, and what is known of both
    today: WindowMean,
    windows: Sequence[WindowMean],
    *,
    delta: float,
    within: float | None = 0.0,
    declared: float | None = None,
    family: int = 1,
    linear: bool = False,
    least_sd: float = LOG.least_sd,
) -> CrossLook:
    """Judge today's window against those of a baseline.

    Args:
        today: of this run.
        windows: accepted into the baseline; one or more.
        delta: margin in log units.
        within: variance of one round of today's window; half of it for the level of a single arm; `None` where nothing
            tells it.
        declared: declared floor across windows, a fraction: 95 % of the differences of two windows lie within it.
        family: number of thresholds of the gate.
        linear: whether values are shares, and the declared floor points of them, instead of logarithms.
        least_sd: standard deviation of one round below which none is believed: windows that agree to the last digit
            are no proof that the next one will.

    Raises:
        ValueError: there is no window to compare with.
    """
    if not windows:
        raise ValueError("a baseline has at least one window")
    means = np.array([window.value for window in windows])
    difference, count = today.value - float(means.mean()), len(windows)
    if count >= LEAST_WINDOWS:
        harmonic = count / math.fsum(1 / window.rounds for window in windows)
        spread = max(float(means.var(ddof=1)), least_sd**2 / harmonic)
        short = max(0.0, 1 / today.rounds - 1 / harmonic)
        if short and within is None:
            return CrossLook("INCONCLUSIVE", "noise of a single round unknown", difference)
        variance = spread * (1 + 1 / count) + (within or 0.0) * short
        df, source = count - 1.0, f"{count} windows"
    elif declared is not None:
        spread = ((declared if linear else math.log1p(declared)) / NORMAL_975) ** 2 / 2
        variance, df, source = spread * (1 + 1 / count), DECLARED_DF, "declared floor across windows"
    else:
        return CrossLook(
            "INCONCLUSIVE", f"noise across windows unknown: {count} of {LEAST_WINDOWS} windows", difference
        )
    found = _bounds(np.array([difference]), np.array([math.sqrt(variance)]), df=df, delta=delta, family=family)
    decision = _WORDS[int(found.decision[0])]
    lower = float(found.lower[0])
    smallest = (float(quantile(ALPHA_PASS, df)) + float(special.ndtri(_POWER))) * math.sqrt(spread * (1 + 1 / count))
    return CrossLook(
        decision=decision,
        reason=_REASONS[decision],
        difference=difference,
        lower=lower,
        upper=float(found.upper[0]),
        sd=math.sqrt(variance),
        df=df,
        source=source,
        smallest_margin=smallest,
        window_sd=math.sqrt(spread),
        stale=lower > delta,
    )


_REASONS: Final[dict[CrossDecision, str]] = {
    "PASS": "lower bound within the margin",
    "FAIL": "upper bound beyond the margin",
    "INCONCLUSIVE": "the interval contains the margin",
}
