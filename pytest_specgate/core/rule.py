"""The arithmetic of one look, for many runs at once: a verdict is a run of one, a simulation is a hundred thousand.

Imported when a verdict is computed, and not before: numpy and scipy cost a fifth of a second.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

if TYPE_CHECKING:
    from pytest_specgate.core.noise import Scale
    from pytest_specgate.core.plan import Claim, Plan

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int8]

ALPHA_F: Final = 0.10
ORDER_LEVEL: Final = 0.99
FUTILITY: Final = 0.10
FUTILITY_DF: Final = 3.0
SLACK: Final = 1e-9

SOURCES: Final = (
    "own (no calibration)",
    "calibrated",
    "own (calibration rejected)",
    "pooled",
    "own > calibrated",
)
"""Where a variance came from, by code."""

PASS, FAIL, INCONCLUSIVE, FUTILE, CONTINUE = range(5)
"""Codes of decisions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """The variance that each run uses.

    Attributes:
        variance: of one paired difference, shape (runs,).
        df: its degrees of freedom.
        source: code of where it came from.
        ratio: own variance / calibrated variance; NaN where one of them is missing.
    """

    variance: Floats
    df: Floats
    source: Codes
    ratio: Floats


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """What the order of boots did to each run.

    Attributes:
        drift: per boot, shape (runs,); NaN where no order occurred twice.
        significant: whether it is more than noise.
        removed: whether it was taken out of the variance.
    """

    drift: Floats
    significant: Flags
    removed: Flags


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """One look at each run.

    Attributes:
        mean: of the signed differences, shape (runs,).
        spread: the variance in use, with the least that is believed.
        order: effect of the order of boots.
        lower: bound of PASS.
        upper: bound of FAIL.
        pass_upper: upper bound at the level of PASS, for equivalence.
        fail_lower: lower bound at the level of FAIL, likewise.
        chance: predicted chance of a decision by the last look; NaN at the last.
        decision: code.
    """

    mean: Floats
    spread: Spread
    order: Order
    lower: Floats
    upper: Floats
    pass_upper: Floats
    fail_lower: Floats
    chance: Floats
    decision: Codes


def quantile(tail: float, df: Floats | float) -> Floats:
    """Return the upper `tail` quantile of Student's t; degrees of freedom may be fractional."""
    found: Floats = np.asarray(special.stdtrit(df, 1 - tail), dtype=np.float64)
    return found


def choose(squares: Floats, own_df: float, *, sigma: Floats, nu: float, least_sd: float) -> Spread:
    """Pool a run's own scatter with the calibration, unless the run contradicts it.

    The larger of own and pooled variance is used; the own one alone when an F test at 10 % says that the rounds scatter
    more than the calibration allows.

    Args:
        squares: sum of squares about the mean, shape (runs,).
        own_df: its degrees of freedom.
        sigma: calibrated standard deviation, shape (runs,).
        nu: its degrees of freedom; 0 for none.
        least_sd: standard deviation below which the calibration is not believed in the test.
    """
    nothing = np.full_like(squares, np.nan)
    if nu == 0:
        return Spread(squares / own_df, np.full_like(squares, own_df), _codes(squares, 0), nothing)
    if own_df == 0:
        return Spread(sigma**2, np.full_like(squares, nu), _codes(squares, 1), nothing)
    own = squares / own_df
    ratio = own / np.maximum(sigma, least_sd) ** 2
    rejected = special.fdtrc(own_df, nu, ratio) < ALPHA_F
    pooled = (squares + nu * sigma**2) / (own_df + nu)
    return Spread(
        variance=np.where(rejected, own, np.maximum(pooled, own)),
        df=np.where(rejected, own_df, own_df + nu),
        source=np.where(rejected, 2, np.where(own > pooled, 4, 3)).astype(np.int8),
        ratio=ratio,
    )


def _codes(like: Floats, code: int) -> Codes:
    return np.full(like.shape, code, dtype=np.int8)


def spread_of(x: Floats, candidate_first: Flags, *, sigma: Floats, nu: float, scale: Scale) -> tuple[Spread, Order]:
    """Return the variance of each run, and what the order of its boots did.

    A drift of both arms within a round is cancelled by the alternating order in the mean, but not in the scatter: a
    significant one of at most the cap is taken out of it.

    Args:
        x: signed differences, shape (runs, rounds).
        candidate_first: whether a round booted the candidate first, shape (rounds,).
        sigma: calibrated standard deviation, shape (runs,).
        nu: its degrees of freedom.
        scale: of the differences.
    """
    rounds = x.shape[1]
    squares = ((x - x.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    plain = choose(squares, rounds - 1, sigma=sigma, nu=nu, least_sd=scale.least_sd)
    first, second = x[:, ~candidate_first], x[:, candidate_first]
    p, q = first.shape[1], second.shape[1]
    never = np.zeros(len(x), dtype=np.bool_)
    if min(p, q) < 2 or not scale.order_cap:
        return plain, Order(np.full(len(x), np.nan), never, never)
    gap = first.mean(axis=1) - second.mean(axis=1)
    within = np.maximum(0.0, squares - p * q / rounds * gap**2)
    clean = choose(within, rounds - 2, sigma=sigma, nu=nu, least_sd=scale.least_sd)
    error = np.sqrt(np.maximum(clean.variance, scale.least_sd**2) / rounds)
    significant = np.abs(gap / 2) > quantile(1 - ORDER_LEVEL, clean.df) * error
    removed = significant & (np.abs(gap / 2) <= scale.order_cap)
    pairs = zip(dataclasses.astuple(clean), dataclasses.astuple(plain), strict=True)
    return Spread(*(np.where(removed, one, other) for one, other in pairs)), Order(gap / 2, significant, removed)


def bounds(  # noqa: PLR0913  - one rule, and each is a symbol of it
    x: Floats,
    candidate_first: Flags,
    *,
    sigma: Floats,
    nu: float,
    scale: Scale,
    claim: Claim,
    plan: Plan,
) -> Bounds:
    """Look at each run once.

    Args:
        x: signed differences, shape (runs, rounds so far).
        candidate_first: whether a round booted the candidate first, shape (rounds so far,).
        sigma: calibrated standard deviation, shape (runs,).
        nu: its degrees of freedom; 0 for none, and then two rounds at least are needed.
        scale: of the differences.
        claim: what is to be shown.
        plan: the looks, and what shares their error rates.
    """
    rounds = x.shape[1]
    mean = x.mean(axis=1)
    spread, order = spread_of(x, candidate_first, sigma=sigma, nu=nu, scale=scale)
    spread = dataclasses.replace(spread, variance=np.maximum(spread.variance, scale.least_sd**2))
    error = np.sqrt(spread.variance / rounds)
    to_pass, to_fail = (quantile(tail, spread.df) * error for tail in (plan.pass_tail, plan.fail_tail))
    chance = _chance(mean, spread, rounds=rounds, claim=claim, plan=plan)
    passed, failed = mean - to_pass >= -claim.delta - SLACK, mean + to_fail < -claim.delta - SLACK
    if claim.gain is not None:
        passed &= mean + to_pass <= claim.gain + SLACK
        failed |= mean - to_fail > claim.gain + SLACK
    futile = (spread.df >= FUTILITY_DF) & (chance < FUTILITY)
    undecided = np.where(futile, FUTILE, CONTINUE) if rounds < plan.rounds else _codes(mean, INCONCLUSIVE)
    return Bounds(
        mean=mean,
        spread=spread,
        order=order,
        lower=mean - to_pass,
        upper=mean + to_fail,
        pass_upper=mean + to_pass,
        fail_lower=mean - to_fail,
        chance=chance,
        decision=np.where(passed, PASS, np.where(failed, FAIL, undecided)).astype(np.int8),
    )


def _chance(mean: Floats, spread: Spread, *, rounds: int, claim: Claim, plan: Plan) -> Floats:
    """Predict the chance that the remaining rounds bring a decision; NaN when none remain."""
    remaining = plan.rounds - rounds
    if remaining <= 0:
        return np.full_like(mean, np.nan)
    half = np.sqrt(spread.variance / plan.rounds)
    to_pass, to_fail = (quantile(tail, spread.df + remaining) * half for tail in (plan.pass_tail, plan.fail_tail))
    width = np.sqrt(spread.variance * (1 / rounds - 1 / plan.rounds))
    low, high = (mean + claim.delta - to_pass) / width, (-claim.delta - to_fail - mean) / width
    if claim.gain is None:
        return np.asarray(special.ndtr(low) + special.ndtr(high), dtype=np.float64)
    top, beyond = (claim.gain - to_pass - mean) / width, (mean - claim.gain - to_fail) / width
    inside = np.maximum(0.0, special.ndtr(low) + special.ndtr(top) - 1)
    return np.asarray(inside + special.ndtr(high) + special.ndtr(beyond), dtype=np.float64)
