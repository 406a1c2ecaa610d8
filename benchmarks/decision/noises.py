"""What machines do besides scattering normally: boots in the order of time, and the calibration that preceded them."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.decision.simulation import SIGMA, Floats, Known, calibrated, candidate_first
from pytest_specgate.core.noise import arm_noise

if TYPE_CHECKING:
    from collections.abc import Callable

NU: Final = 10
DRIFT: Final = 0.01
COMMON: Final = 0.01
SLOW_SHARE: Final = 0.15
SLOW: Final = math.log(0.8)
_BOOT: Final = SIGMA / math.sqrt(2)


@dataclasses.dataclass(frozen=True, slots=True)
class Boots:
    """Values of the boots of equal arms, as logarithms.

    Attributes:
        reference: shape (runs, rounds).
        candidate: likewise.
        known: what calibrations of ten differences said beforehand.
    """

    reference: Floats
    candidate: Floats
    known: Known


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of noise.

    Attributes:
        name: in tables.
        series: draws boots in the order of time: generator and shape (series, boots) in, values out.
        seen: whether the calibration was made under the same noise; otherwise under normal noise.
        quieter: by how much the calibration was quieter than the run.
        candidate_only: whether the reference has normal noise.
        margin: against which gates are judged.
    """

    name: str
    series: Callable[[np.random.Generator, tuple[int, int]], Floats]
    seen: bool = True
    quieter: float = 1.0
    candidate_only: bool = False
    margin: float = 0.01

    def boots(self, generator: np.random.Generator, *, runs: int, rounds: int) -> Boots:
        """Draw gates between equal arms, with alternating order of boots."""
        series = self.series(generator, (runs, 2 * rounds)).reshape(runs, rounds, 2)
        swapped = candidate_first(rounds)
        reference = np.where(swapped, series[:, :, 1], series[:, :, 0])
        candidate = np.where(swapped, series[:, :, 0], series[:, :, 1])
        if self.candidate_only:
            reference = normal(generator, (runs, rounds))
        return Boots(reference, candidate, Known(self._calibration(generator, runs) / self.quieter, NU))

    def _calibration(self, generator: np.random.Generator, runs: int) -> Floats:
        if not self.seen:
            return calibrated(generator, (runs,), nu=NU)
        windows = self.series(generator, (runs * NU, 2)).reshape(runs, NU, 2)
        return np.array([arm_noise(run).sigma for run in windows.tolist()])


def normal(generator: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Boots that scatter normally."""
    return _BOOT * generator.standard_normal(shape)


def heavy_tails(generator: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Student's t with three degrees of freedom, of the same standard deviation."""
    return _BOOT * generator.standard_t(3, shape) / math.sqrt(3)


def drifting(generator: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Every boot is faster than the one before, by 1 %."""
    return normal(generator, shape) + DRIFT * np.arange(shape[1])


def slow_boots(generator: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Some boots are slower by 20 %."""
    return normal(generator, shape) + SLOW * (generator.random(shape) < SLOW_SHARE)


def sticky(generator: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Each boot resembles the one before: autoregressive, 0.7."""
    return _autoregressive(generator, shape, lag=1, coefficient=0.7)


def sticky_rounds(generator: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """The difference of a round resembles that of the round before: autoregressive, 0.5."""
    found = normal(generator, shape)
    arms = [_autoregressive(generator, (shape[0], shape[1] // 2), lag=1, coefficient=0.5) for _ in range(2)]
    swapped = candidate_first(shape[1] // 2)
    found[:, ::2] = np.where(swapped, arms[1], arms[0])
    found[:, 1::2] = np.where(swapped, arms[0], arms[1])
    return found


def shared(generator: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Both boots of a round are disturbed alike, by 1 %."""
    rounds = COMMON * generator.standard_normal((shape[0], shape[1] // 2))
    return normal(generator, shape) + np.repeat(rounds, 2, axis=1)


def _autoregressive(generator: np.random.Generator, shape: tuple[int, int], *, lag: int, coefficient: float) -> Floats:
    fresh = normal(generator, shape)
    found = fresh.copy()
    for boot in range(lag, shape[1]):
        found[:, boot] = coefficient * found[:, boot - lag] + math.sqrt(1 - coefficient**2) * fresh[:, boot]
    return found


SCENARIOS: Final = (
    Scenario("normal", normal),
    Scenario("normal, margin about the noise floor", normal, margin=2 * SIGMA),
    Scenario("t3 tails", heavy_tails),
    Scenario("drift of 1 % a boot", drifting),
    Scenario("drift of 1 % a boot, calibration without", drifting, seen=False),
    Scenario("15 % of boots slower by 20 %", slow_boots),
    Scenario("15 % of boots slower by 20 %, calibration without", slow_boots, seen=False),
    Scenario("boots correlated, 0.7", sticky),
    Scenario("rounds correlated, 0.5", sticky_rounds),
    Scenario("disturbance of 1 % shared by a round", shared),
    Scenario("calibration half as noisy", normal, quieter=2.0),
)
SLOW_CANDIDATE: Final = Scenario("slow boots of the candidate only", slow_boots, seen=False, candidate_only=True)
