"""The tables of operating characteristics of one threshold under normal noise."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.decision.markdown import grid
from benchmarks.decision.simulation import SIGMA, Draws, Known, Rates, at_distance, calibrated, decide, rates
from pytest_specgate.core.noise import NORMAL_975, declared_noise, floor_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

NUS: Final = (0, 3, 5, 10, 20)
DISTANCES: Final = (0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 12)
FAMILY: Final = 8
FAMILY_NUS: Final = (0, 5, 10, 20)
FAMILY_DISTANCES: Final = (0, -0.5, -1, -1.5, -2, -2.5, -3, -4, -5, -6)
MARGINS: Final = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5)
EFFECTS: Final = (1, 0.5, 0, -0.25, -0.5, -1, -1.5, -2, -3)
OTHER_ROUNDS: Final = ((0, 4), (0, 6), (0, 8), (10, 2), (10, 4), (10, 6), (10, 8))
FLOOR_NUS: Final = (3, 5, 10, 20)
FLOOR_EFFECTS: Final = (0, -0.5, -1, -1.5, -2, -3)
WRONG_BY: Final = (0.5, 1, 1.5, 2, 3)
WRONG_EFFECTS: Final = (0, -1, -2, -3)
WORN: Final = (0.5, 1, 1.5, 2, 3, 5)


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Rates by row and column.

    Attributes:
        name: also that of the published table, where there is one.
        about: what stands in it, one paragraph.
        cells: rates by row and column.
        only_failed: whether a cell shows the share that failed, and nothing else.
    """

    name: str
    about: str
    cells: Mapping[str, Mapping[str, Rates]]
    only_failed: bool = False

    def markdown(self) -> str:
        """Return the table as Markdown."""
        columns = list(next(iter(self.cells.values())))
        rows = ([row, *(self._text(cells[column]) for column in columns)] for row, cells in self.cells.items())
        return f"### {self.name}\n\n{self.about}\n\n{grid(['', *columns], rows)}"

    def _text(self, cell: Rates) -> str:
        if self.only_failed:
            return f"{100 * cell.failed:.1f}"
        return f"{100 * cell.passed:.1f} / {100 * cell.failed:.1f}, {cell.rounds:.2f}"


def all_tables(draws: Draws) -> Iterator[Table]:
    """Simulate one table after the other."""
    yield by_distance(draws)
    yield of_families(draws)
    yield by_margin(draws, nu=10)
    yield by_margin(draws, nu=0)
    yield by_rounds(draws)
    yield of_measured_floors(draws)
    yield of_wrong_floors(draws)
    yield of_wrong_calibrations(draws)


def by_distance(draws: Draws) -> Table:
    """Everything in one variable."""
    return Table(
        name="Table 1",
        about=(
            "u = (true effect + margin) / sigma: 0 is the margin, margin / sigma is no change. For negative u swap "
            "PASS and FAIL. n_max = 6."
        ),
        cells={f"u = {u:g}": {nu_label(nu): at_distance(draws, nu=nu, n_max=6, u=u) for nu in NUS} for u in DISTANCES},
    )


def of_families(draws: Draws) -> Table:
    """How often one of eight thresholds fails."""
    return Table(
        name="Table 1b",
        about=f"FAIL % of one threshold in a gate of {FAMILY}. PASS is as in table 1.",
        cells={
            nu_label(nu): {
                f"u = {u:g}": at_distance(draws, nu=nu, n_max=6, u=u, family=FAMILY) for u in FAMILY_DISTANCES
            }
            for nu in FAMILY_NUS
        },
        only_failed=True,
    )


def by_margin(draws: Draws, *, nu: int) -> Table:
    """Table 1 read as margins and effects."""
    return Table(
        name=f"Table 2, {nu_label(nu)}",
        about="By r = margin / sigma and by the true effect in margins d. n_max = 6.",
        cells={
            f"r = {r:g}": {
                effect_label(effect, "d"): at_distance(draws, nu=nu, n_max=6, u=r * (1 + effect)) for effect in EFFECTS
            }
            for r in MARGINS
        },
    )


def by_rounds(draws: Draws) -> Table:
    """Other numbers of rounds."""
    return Table(
        name="Table 3",
        about="With other n_max.",
        cells={
            f"{nu_label(nu)}, n_max = {n_max}, r = {r}": {
                effect_label(effect, "d"): at_distance(draws, nu=nu, n_max=n_max, u=r * (1 + effect))
                for effect in (0, -0.5, -1, -2)
            }
            for nu, n_max in OTHER_ROUNDS
            for r in (2, 3)
        },
    )


def of_measured_floors(draws: Draws) -> Table:
    """Margins that are themselves an estimate."""
    return Table(
        name="Margin = measured floor",
        about="The margin is the floor that the calibration found; effects are in true floors phi.",
        cells={
            nu_label(nu): {
                effect_label(effect, " phi"): _measured_floor(draws, nu=nu, effect=effect) for effect in FLOOR_EFFECTS
            }
            for nu in FLOOR_NUS
        },
    )


def _measured_floor(draws: Draws, *, nu: float, effect: float) -> Rates:
    generator = draws.generator("measured floor", nu, effect)
    known = Known(calibrated(generator, (draws.samples,), nu=nu), nu)
    x = SIGMA * (generator.standard_normal((draws.samples, 6)) + NORMAL_975 * effect)
    # Each run has a margin of its own: it is added to the rounds, and the claim is that nothing is lost.
    return rates(decide(x + NORMAL_975 * known.sigma[:, np.newaxis], known=known, delta=0.0, plan=known.plan(6)))


def of_wrong_floors(draws: Draws) -> Table:
    """Floors that somebody declared, and that are wrong."""
    return Table(
        name="Declared floor wrong by k",
        about="The true noise is k times the declared one, and the margin is the declared floor phi.",
        cells={
            f"k = {k:g}, {'adaptive' if n_max > 1 else 'rounds = 1'}": {
                effect_label(effect, " phi"): _wrong_floor(draws, k=k, n_max=n_max, effect=effect)
                for effect in WRONG_EFFECTS
            }
            for k in WRONG_BY
            for n_max in (6, 1)
        },
    )


def _wrong_floor(draws: Draws, *, k: float, n_max: int, effect: float) -> Rates:
    generator = draws.generator("wrong floor", k, n_max, effect)
    noise = declared_noise(floor_of(SIGMA))
    margin = NORMAL_975 * noise.sigma
    x = k * SIGMA * generator.standard_normal((draws.samples, n_max)) + effect * margin
    known = Known(np.full(draws.samples, noise.sigma), noise.df)
    return rates(decide(x, known=known, delta=margin, plan=known.plan(n_max)))


def of_wrong_calibrations(draws: Draws) -> Table:
    """Calibrations that were quieter, or noisier, than the run."""
    return Table(
        name="Calibration wrong by k",
        about=(
            "The true noise is k times that of which the calibration (nu_c = 10) is a sample; the margin d is 1.96 "
            "standard deviations of the latter."
        ),
        cells={
            f"k = {k:g}": {effect_label(effect, "d"): _wrong(draws, k=k, effect=effect) for effect in (0, -1, -2, -3)}
            for k in WORN
        },
    )


def _wrong(draws: Draws, *, k: float, effect: float) -> Rates:
    generator = draws.generator("wrong calibration", k, effect)
    margin = NORMAL_975 * SIGMA
    x = k * SIGMA * generator.standard_normal((draws.samples, 6)) + effect * margin
    known = Known(calibrated(generator, (draws.samples,), nu=10), 10)
    return rates(decide(x, known=known, delta=margin, plan=known.plan(6)))


def nu_label(nu: float) -> str:
    """Name what is known of the noise."""
    return f"nu_c = {nu:g}" if nu else "uncalibrated"


def effect_label(effect: float, unit: str) -> str:
    """Name a true effect."""
    return f"{effect:+g}{unit}" if effect else "A/A"
