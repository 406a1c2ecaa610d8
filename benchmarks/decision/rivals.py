"""Other ways to decide, for comparison: each gives an interval of the difference, or a word at once."""

from __future__ import annotations

import functools
import itertools
import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import special

from benchmarks.decision.simulation import Ends, rates
from pytest_specgate.core import rule

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from benchmarks.decision.noises import Boots
    from benchmarks.decision.simulation import Floats, Rates

TRIES: Final = 3
BOOTSTRAP_ROUNDS: Final = 5
_TAIL: Final = 0.025


def naive(x: Floats, delta: float) -> Rates:
    """One round against the limit."""
    passed: rule.Flags = x[:, 0] >= -delta
    return rates(_ends(passed, ~passed, rounds=1))


def best_of_three(x: Floats, delta: float) -> Rates:
    """Measure anew until it is green, three times at most."""
    green = x[:, :TRIES] >= -delta
    passed: rule.Flags = np.asarray(green.any(axis=1), dtype=np.bool_)
    ends = _ends(passed, ~passed, rounds=TRIES)
    return rates(Ends(ends.decision, np.where(passed, green.argmax(axis=1) + 1, TRIES)))


def welch(boots: Boots, *, rounds: int) -> tuple[Floats, Floats]:
    """Return bounds of Welch's unpaired test, 5 % at either side."""
    arms = (boots.candidate[:, :rounds], boots.reference[:, :rounds])
    variances = [arm.var(axis=1, ddof=1) / rounds for arm in arms]
    total = variances[0] + variances[1]
    df = total**2 * (rounds - 1) / (variances[0] ** 2 + variances[1] ** 2)
    mean, half = arms[0].mean(axis=1) - arms[1].mean(axis=1), rule.quantile(0.05, df) * np.sqrt(total)
    return mean - half, mean + half


def bootstrap_of_medians(boots: Boots) -> tuple[Floats, Floats]:
    """Return BCa bounds of the ratio of medians, 2.5 % at either side, from all resamples of five rounds."""
    picks, weights = _resamples()
    arms = [arm[:, :BOOTSTRAP_ROUNDS] for arm in (boots.candidate, boots.reference)]
    found = np.median(arms[0], axis=1) - np.median(arms[1], axis=1)
    values = np.median(arms[0][:, picks], axis=2) - np.median(arms[1][:, picks], axis=2)
    below, equal = values < found[:, np.newaxis], np.isclose(values, found[:, np.newaxis], rtol=0, atol=1e-12)
    bias = special.ndtri(np.clip((below & ~equal) @ weights + equal @ weights / 2, 1e-9, 1 - 1e-9))
    order = np.argsort(values, axis=1)
    ranked, cumulated = np.take_along_axis(values, order, axis=1), np.cumsum(weights[order], axis=1)
    acceleration = _acceleration(*arms)
    bounds = []
    for z in (special.ndtri(_TAIL), -special.ndtri(_TAIL)):
        share = special.ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))
        index = np.minimum((cumulated < share[:, np.newaxis] - 1e-12).sum(axis=1), len(weights) - 1)
        bounds.append(np.take_along_axis(ranked, index[:, np.newaxis], axis=1)[:, 0])
    return bounds[0], bounds[1]


def by_interval(bounds: tuple[Floats, Floats], *, effect: float, delta: float, rounds: int) -> Rates:
    """Judge by bounds of equal arms, shifted by a true effect."""
    lower, upper = bounds
    passed: rule.Flags = lower + effect >= -delta
    failed: rule.Flags = upper + effect < -delta
    return rates(_ends(passed, failed, rounds=rounds))


@functools.cache
def _resamples() -> tuple[NDArray[np.int64], Floats]:
    """Return the resamples of five rounds that differ, and how probable each is."""
    picks = list(itertools.combinations_with_replacement(range(BOOTSTRAP_ROUNDS), BOOTSTRAP_ROUNDS))
    ways = [
        math.factorial(BOOTSTRAP_ROUNDS) / math.prod(math.factorial(pick.count(one)) for one in set(pick))
        for pick in picks
    ]
    return np.array(picks), np.array(ways) / BOOTSTRAP_ROUNDS**BOOTSTRAP_ROUNDS


def _acceleration(candidate: Floats, reference: Floats) -> Floats:
    left_out = [
        np.median(np.delete(candidate, one, axis=1), axis=1) - np.median(np.delete(reference, one, axis=1), axis=1)
        for one in range(BOOTSTRAP_ROUNDS)
    ]
    apart = np.mean(left_out, axis=0) - np.array(left_out)
    squares = (apart**2).sum(axis=0)
    found: Floats = (apart**3).sum(axis=0) / (6 * np.maximum(squares, 1e-30) ** 1.5)
    return found


def _ends(passed: rule.Flags, failed: rule.Flags, *, rounds: int) -> Ends:
    decision = np.where(passed, rule.PASS, np.where(failed, rule.FAIL, rule.INCONCLUSIVE)).astype(np.int8)
    return Ends(decision, np.full(len(decision), rounds, dtype=np.int64))
