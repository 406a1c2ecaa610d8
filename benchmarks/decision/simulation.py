"""The shipped rule on many simulated gates at once: whatever decides here is the product's own code.

Rounds are normal with a standard deviation of 0.4 %, in log units, and boots alternate. A calibration is drawn for
every run: its variance is that of the rounds times chi squared over its degrees of freedom.
"""

from __future__ import annotations

import dataclasses
import functools
import zlib
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_specgate.core import rule
from pytest_specgate.core.noise import LOG, Noise
from pytest_specgate.core.plan import Claim, Plan, looks

Floats: TypeAlias = NDArray[np.float64]

SIGMA: Final = 0.004
"""Standard deviation of one paired difference."""


@dataclasses.dataclass(frozen=True, slots=True)
class Draws:
    """How much is simulated, and from where.

    Attributes:
        samples: simulated runs of every cell.
        seed: of everything.
    """

    samples: int
    seed: int

    def generator(self, *name: object) -> np.random.Generator:
        """Return the generator of one cell: cells do not depend on the order in which they are simulated."""
        return np.random.default_rng([self.seed, zlib.crc32(repr(name).encode())])

    def share(self, fraction: float) -> Draws:
        """Return draws of a fraction of the samples, for what is dearer to simulate."""
        return Draws(max(100, round(self.samples * fraction)), self.seed)


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """What each run knows of its noise beforehand.

    Attributes:
        sigma: standard deviation of one paired difference, shape (runs,).
        nu: its degrees of freedom; 0 when nothing is known.
    """

    sigma: Floats
    nu: float

    def plan(self, n_max: int, *, family: int = 1) -> Plan:
        """Return the looks of a run of at most `n_max` rounds."""
        return Plan(looks(n_max, Noise(SIGMA, self.nu)), family)


@dataclasses.dataclass(frozen=True, slots=True)
class Ends:
    """How runs ended.

    Attributes:
        decision: code of `pytest_specgate.core.rule`, shape (runs,).
        rounds: that were measured, shape (runs,).
    """

    decision: NDArray[np.int8]
    rounds: NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """What became of all runs of a cell.

    Attributes:
        passed: share that passed.
        failed: share that failed; the rest was not decided.
        rounds: mean number of rounds.
        samples: number of runs.
    """

    passed: float
    failed: float
    rounds: float
    samples: int

    @property
    def undecided(self) -> float:
        """Share that ended INCONCLUSIVE."""
        return max(0.0, 1 - self.passed - self.failed)

    @property
    def mirrored(self) -> Rates:
        """The same at the other side of the margin."""
        return Rates(self.failed, self.passed, self.rounds, self.samples)


def rates(ends: Ends) -> Rates:
    """Count how runs ended."""
    passed, failed = (float(np.mean(ends.decision == code)) for code in (rule.PASS, rule.FAIL))
    return Rates(passed, failed, float(ends.rounds.mean()), len(ends.rounds))


def candidate_first(rounds: int) -> rule.Flags:
    """Return the order of boots: it reverses every round."""
    flags: rule.Flags = np.arange(rounds) % 2 == 1
    return flags


def bounds(x: Floats, *, known: Known, delta: float, plan: Plan) -> rule.Bounds:
    """Look at each run once, after all rounds that it is given."""
    order, claim = candidate_first(x.shape[1]), Claim(delta)
    return rule.bounds(x, order, sigma=known.sigma, nu=known.nu, scale=LOG, claim=claim, plan=plan)


def decide(x: Floats, *, known: Known, delta: float, plan: Plan) -> Ends:
    """Run gates of one threshold to their ends.

    Args:
        x: signed differences, shape (runs, rounds), with as many rounds as the plan may ask for.
        known: of the noise.
        delta: margin.
        plan: the looks.
    """
    ends = Ends(np.full(len(x), rule.CONTINUE, dtype=np.int8), np.zeros(len(x), dtype=np.int64))
    still = np.arange(len(x))
    for rounds in plan.looks:
        found = bounds(x[still, :rounds], known=Known(known.sigma[still], known.nu), delta=delta, plan=plan)
        ends.decision[still], ends.rounds[still] = found.decision, rounds
        still = still[found.decision == rule.CONTINUE]
    return ends


def calibrated(generator: np.random.Generator, shape: tuple[int, ...], *, nu: float) -> Floats:
    """Draw the standard deviations that calibrations find; zeros without one."""
    found: Floats = SIGMA * np.sqrt(generator.chisquare(nu, shape) / nu) if nu else np.zeros(shape)
    return found


@functools.cache
def at_distance(draws: Draws, *, nu: float, n_max: int, u: float, family: int = 1) -> Rates:
    """Simulate one cell.

    Args:
        draws: samples and seed.
        nu: degrees of freedom of the calibration; 0 for none.
        n_max: rounds at most.
        u: distance of the truth from the margin in standard deviations of a round; positive is on the good side.
        family: number of thresholds that share the error rate of FAIL.
    """
    if family == 1 and u < 0:
        # One threshold treats both sides alike: the same runs, seen in a mirror.
        return at_distance(draws, nu=nu, n_max=n_max, u=-u).mirrored
    generator = draws.generator("distance", nu, n_max, u, family)
    x = SIGMA * generator.standard_normal((draws.samples, n_max))
    known = Known(calibrated(generator, (draws.samples,), nu=nu), nu)
    return rates(decide(x, known=known, delta=u * SIGMA, plan=known.plan(n_max, family=family)))
