"""Gates of several thresholds, with the run control of the product: the look at which a run stops has the word."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.decision.markdown import grid
from benchmarks.decision.simulation import SIGMA, Draws, Ends, Floats, Known, Rates, bounds, rates
from pytest_specgate.core import rule

if TYPE_CHECKING:
    from pytest_specgate.core.plan import Plan

NU: Final = 10
ROUNDS: Final = 6
CASES: Final = ((1, 0.0), (4, 0.0), (4, 0.5), (8, 0.0), (8, 0.5), (16, 0.0), (16, 0.5))
MARGINS: Final = (2, 2.5, 3)
COLUMNS: Final = (
    "r",
    "m",
    "rho",
    "A/A: PASS",
    "A/A: rounds",
    "one at -1d: PASS",
    "one at -2d: PASS",
    "one at -2d: FAIL",
    "all at -1d: FAIL",
    "the same, FAIL not divided by m",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """One kind of gate.

    Attributes:
        thresholds: how many.
        correlation: of the noise between them.
        distances: of the truth from the margin, in standard deviations, threshold by threshold.
        family: number that shares the error rate of FAIL.
    """

    thresholds: int
    correlation: float
    distances: tuple[float, ...]
    family: int


def markdown(draws: Draws) -> str:
    """Simulate all gates, and return the table."""
    rows = (_row(draws, r=r, m=m, rho=rho) for r in MARGINS for m, rho in CASES)
    return (
        f"### Gates of m thresholds\n\nIn percent, and mean rounds. nu_c = {NU}, n_max = {ROUNDS}; rho is the "
        f"correlation of the noise between thresholds, in the run as in its calibration. {draws.samples} samples a "
        f"cell.\n\n{grid(COLUMNS, rows)}"
    )


def _row(draws: Draws, *, r: float, m: int, rho: float) -> tuple[str, ...]:
    equal = _simulate(draws, Scene(m, rho, (r,) * m, m))
    once = _simulate(draws, Scene(m, rho, (0.0, *(r,) * (m - 1)), m))
    twice = _simulate(draws, Scene(m, rho, (-r, *(r,) * (m - 1)), m))
    worse, uncorrected = (_simulate(draws, Scene(m, rho, (0.0,) * m, family)) for family in (m, 1))
    return (
        *(f"{value:g}" for value in (r, m, rho)),
        f"{100 * equal.passed:.1f}",
        f"{equal.rounds:.2f}",
        f"{100 * once.passed:.1f}",
        f"{100 * twice.passed:.2f}",
        *(f"{100 * found.failed:.1f}" for found in (twice, worse, uncorrected)),
    )


def _simulate(draws: Draws, scene: Scene) -> Rates:
    generator = draws.generator(scene)
    x = _noise(generator, draws.samples, scene, count=ROUNDS) + SIGMA * np.array(scene.distances)[:, np.newaxis]
    equal = _noise(generator, draws.samples, scene, count=NU)
    known = Known(np.sqrt((equal**2).mean(axis=2)), NU)
    return rates(run(x, known=known, plan=known.plan(ROUNDS, family=scene.family)))


def _noise(generator: np.random.Generator, runs: int, scene: Scene, *, count: int) -> Floats:
    """Draw differences of equal arms, shape (runs, thresholds, count), correlated between thresholds."""
    common = generator.standard_normal((runs, 1, count))
    own = generator.standard_normal((runs, scene.thresholds, count))
    found: Floats = SIGMA * (np.sqrt(scene.correlation) * common + np.sqrt(1 - scene.correlation) * own)
    return found


def run(x: Floats, *, known: Known, plan: Plan) -> Ends:
    """Run gates to their ends: a FAIL stops, and so does a look that leaves nothing open.

    Args:
        x: distances from the margin, round by round, shape (runs, thresholds, rounds).
        known: of the noise; its standard deviations have the shape (runs, thresholds).
        plan: the looks of all thresholds.
    """
    ends = Ends(np.full(len(x), rule.CONTINUE, dtype=np.int8), np.zeros(len(x), dtype=np.int64))
    still = np.arange(len(x))
    for rounds in plan.looks:
        flat = x[still, :, :rounds].reshape(-1, rounds)
        found = bounds(flat, known=Known(known.sigma[still].reshape(-1), known.nu), delta=0.0, plan=plan)
        decisions = found.decision.reshape(len(still), -1)
        ends.decision[still], ends.rounds[still] = _word(decisions), rounds
        still = still[ends.decision[still] == rule.CONTINUE]
    return ends


def _word(decisions: rule.Codes) -> rule.Codes:
    """Return the word of each gate, or that it goes on."""
    failed, passed = (decisions == rule.FAIL).any(axis=1), (decisions == rule.PASS).all(axis=1)
    still = (decisions == rule.CONTINUE).any(axis=1)
    rest = np.where(still, rule.CONTINUE, rule.INCONCLUSIVE)
    return np.where(failed, rule.FAIL, np.where(passed, rule.PASS, rest)).astype(np.int8)
