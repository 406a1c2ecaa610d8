"""What the rule gets wrong, and how many rounds it takes: a few cells of the published table, simulated with its code.

The whole table is `benchmarks/decision`; this is enough of it to notice that somebody changed the rule.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pytest

from pytest_specgate.core import rule
from pytest_specgate.core.noise import LOG, Noise
from pytest_specgate.core.plan import Claim, Plan, looks

RUNS: Final = 30_000
PUBLISHED_RUNS: Final = 200_000
SIGMA: Final = 0.004
ROUNDS_SD: Final = 1.8
"""More than the standard deviation of the rounds that a run takes."""


def simulate(u: float, *, nu: float, family: int = 1) -> tuple[float, float, float]:
    """Return shares of PASS and FAIL, and mean rounds, when the truth lies `u` sigma on the good side of the margin."""
    generator = np.random.default_rng([20261202, round(100 * abs(u)), round(nu), family])
    x = SIGMA * generator.standard_normal((RUNS, 6))
    sigma = SIGMA * np.sqrt(generator.chisquare(nu, RUNS) / nu) if nu else np.zeros(RUNS)
    plan, claim = Plan(looks(6, Noise(SIGMA, nu)), family), Claim(u * SIGMA)
    decision, rounds, still = np.full(RUNS, rule.CONTINUE, dtype=np.int8), np.zeros(RUNS), np.arange(RUNS)
    for n in plan.looks:
        order = np.arange(n) % 2 == 1
        found = rule.bounds(x[still, :n], order, sigma=sigma[still], nu=nu, scale=LOG, claim=claim, plan=plan)
        decision[still], rounds[still] = found.decision, n
        still = still[found.decision == rule.CONTINUE]
    return float(np.mean(decision == rule.PASS)), float(np.mean(decision == rule.FAIL)), float(rounds.mean())


def error(share: float) -> float:
    """Return what a simulated share may differ from a published one: three standard errors, and the rounding."""
    return 3 * math.sqrt(share * (1 - share) * (1 / PUBLISHED_RUNS + 1 / RUNS)) + 0.0005


@pytest.mark.parametrize(
    ("u", "nu", "passed", "failed", "rounds"),
    [
        pytest.param(0, 0, 4.5, 4.5, 4.45, id="at the margin, uncalibrated"),
        pytest.param(0, 3, 3.2, 3.2, 3.70, id="at the margin, 3 df"),
        pytest.param(0, 10, 3.0, 3.0, 4.17, id="at the margin, 10 df"),
        pytest.param(1, 5, 51.1, 0.0, 4.33, id="1 sigma within, 5 df"),
        pytest.param(2, 0, 97.5, 0.0, 4.47, id="2 sigma within, uncalibrated"),
        pytest.param(2, 10, 97.6, 0.0, 3.15, id="2 sigma within, 10 df"),
        pytest.param(-1.5, 20, 0.0, 87.7, 3.75, id="1.5 sigma beyond, 20 df"),
        pytest.param(-2, 10, 0.0, 97.6, 3.15, id="2 sigma beyond, 10 df"),
    ],
)
def test_a_threshold_errs_as_rarely_as_published(
    u: float, nu: float, passed: float, *, failed: float, rounds: float
) -> None:
    """PASS, FAIL and mean rounds of one threshold are the published ones, within what a simulation may differ by."""
    found_passed, found_failed, found_rounds = simulate(u, nu=nu)

    assert found_passed == pytest.approx(passed / 100, abs=error(passed / 100))
    assert found_failed == pytest.approx(failed / 100, abs=error(failed / 100))
    assert found_rounds == pytest.approx(rounds, abs=3 * ROUNDS_SD / math.sqrt(RUNS) + 0.005)


@pytest.mark.parametrize(("u", "nu", "failed"), [(0, 10, 0.4), (-2, 10, 83.4), (-2, 0, 66.0)])
def test_one_of_eight_thresholds_fails_as_published(u: float, nu: float, failed: float) -> None:
    """A threshold among eight has an eighth of the error rate of FAIL, and is called FAIL as often as published."""
    _, found, _ = simulate(u, nu=nu, family=8)

    assert found == pytest.approx(failed / 100, abs=error(failed / 100))
