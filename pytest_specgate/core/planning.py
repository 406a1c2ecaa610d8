"""The planner: how many rounds a claim needs, and what a number of rounds can show.

Everything is a distance from the margin in units of sigma, the standard deviation of one paired difference. A claim is
decided by look n with a certain power when that distance reaches `need`; the formula was fitted to simulations of the
rule, and lies within 0.3 sigma of them, from four rounds on within 0.1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.noise import DECLARED_DF, LOG, UNKNOWN_NOISE, Noise, floor_of
from pytest_specgate.core.plan import CALIBRATED_DF, Plan, looks

if TYPE_CHECKING:
    from pytest_specgate.core.plan import Claim
    from pytest_specgate.core.statistics import Look

POWER: Final = 0.80
"""Chance with which a planned claim is to be decided; a gate of m thresholds asks 1 - 0.2 / m of each."""

MOST_ROUNDS: Final = 20
"""A claim that needs more rounds than this has the wrong margin."""

_PRICE: Final = {1: 0.0, 2: 0.95, 3: 0.35, 4: 0.35}
_LATE_PRICE: Final = 0.20
_PESSIMISTIC: Final = 0.20


def need(rounds: int, *, plan: Plan, df: float, tail: float, power: float = POWER) -> float:
    """Return the distance from the margin, in sigma, that is decided by a look with some power.

    Args:
        rounds: at the look.
        plan: the looks that share the error rates.
        df: degrees of freedom of what is known of the noise beforehand.
        tail: one-sided level of the bound at each look: that of PASS or of FAIL.
        power: chance of the decision.

    Raises:
        ValueError: one round without any knowledge of the noise shows nothing.
    """
    if df + rounds <= 1:
        raise ValueError("one round without a noise estimate decides nothing")
    assert rounds <= plan.rounds, "a look lies within its plan"
    return (_t(tail, df + rounds - 1) + _z(power) + _price(rounds)) / math.sqrt(rounds)


def power_of(family: int) -> float:
    """Return the power that each of m thresholds needs so that all of them together have the usual one."""
    return 1 - (1 - POWER) / family


def rounds_for(delta: float, *, noise: Noise, n_max: int, family: int = 1, effect: float = 0.0) -> int | None:
    """Return the first look by which a claim is expected to pass, `None` if there is none within `n_max`.

    Args:
        delta: margin of the claim.
        noise: known beforehand.
        n_max: rounds at most.
        family: number of thresholds of the gate.
        effect: true difference that is expected; 0 where the arms are equal.
    """
    plan = Plan(looks(n_max, noise), family)
    for rounds in plan.looks:
        wanted = need(rounds, plan=plan, df=noise.df, tail=plan.pass_tail, power=power_of(family))
        if delta + effect >= wanted * _believed(noise):
            return rounds
    return None


def smallest_margin(*, noise: Noise, n_max: int, family: int = 1) -> float | None:
    """Return the smallest margin worth declaring; `None` where no look can ever decide.

    Args:
        noise: known beforehand; of a run, its standard deviation with the degrees of freedom known beforehand.
        n_max: rounds at most.
        family: number of thresholds of the gate.
    """
    plan = Plan(looks(n_max, noise), family)
    if not plan.looks:
        return None
    return need(n_max, plan=plan, df=noise.df, tail=plan.pass_tail, power=power_of(family)) * _believed(noise)


def detectable(delta: float, *, noise: Noise, n_max: int, family: int = 1) -> float | None:
    """Return the loss that is called FAIL with 80 % power: the minimum detectable effect; `None` if there is none."""
    plan = Plan(looks(n_max, noise), family)
    if not plan.looks:
        return None
    return delta + need(n_max, plan=plan, df=noise.df, tail=plan.fail_tail) * _believed(noise)


def pessimistic(noise: Noise) -> Noise:
    """Return a noise as large as it may well be: in one of five calibrations the true one is larger than this."""
    from scipy import special  # noqa: PLC0415  - 170 ms that only a plan may cost

    if noise.df == 0:
        return UNKNOWN_NOISE
    # The lower quantile of chi squared.
    scale = noise.df / (2 * float(special.gammaincinv(noise.df / 2, _PESSIMISTIC)))
    return Noise(noise.sigma * math.sqrt(scale), noise.df)


def rounds_after(look: Look, *, claim: Claim, rounds: int, noise: Noise, family: int = 1) -> int | None:
    """Return how many rounds a new run of an undecided claim needs in all; `None` for more than anybody should ask.

    Args:
        look: at the rounds so far.
        claim: what is to be shown; of an equivalence the nearer of its two ends counts.
        rounds: so far.
        noise: known beforehand.
        family: number of thresholds of the gate.
    """
    if look.sd is None:
        return max(4, rounds + rounds % 2 + 2) if noise.df < CALIBRATED_DF else rounds + 1
    ends = [look.mean + claim.delta, *([] if claim.gain is None else [claim.gain - look.mean])]
    distance = min(ends)
    for total in range(rounds + 2 - rounds % 2, MOST_ROUNDS + 1, 2):
        plan = Plan(looks(total, noise), family)
        tail = plan.pass_tail if distance >= 0 else plan.fail_tail
        wanted = _t(tail, look.df + total - rounds) + _z(POWER) + _price(total)
        if abs(distance) >= wanted * look.sd / math.sqrt(total):
            return total
    return None


def break_even_floor(mean: float, *, delta: float) -> float:
    """Return the largest declared floor, a fraction, under which one round would be decided by itself."""
    return floor_of(abs(mean + delta) / _t(Plan((1,)).pass_tail, DECLARED_DF))


def _believed(noise: Noise) -> float:
    """Return the standard deviation that the rule would use: none below the least is believed."""
    return max(noise.sigma, LOG.least_sd)


def _price(rounds: int) -> float:
    """Return what the F test and the larger of two variances cost at a look, in sigma times the root of rounds."""
    return _PRICE.get(rounds, _LATE_PRICE)


def _t(tail: float, df: float) -> float:
    from pytest_specgate.core.rule import quantile  # noqa: PLC0415  - 170 ms that only a plan may cost

    return float(quantile(tail, df))


def _z(power: float) -> float:
    from scipy import special  # noqa: PLC0415  - likewise

    return float(special.ndtri(power))
