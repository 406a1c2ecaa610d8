"""What is known of the noise of a measurement before it is made: declared, or calibrated by A/A windows.

All values are in log units unless a scale says otherwise, and are those of **one** paired difference between a boot of
the reference and a boot of the candidate: a single boot scatters by a factor of the square root of 2 less.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DECLARED_DF: Final = 5.0
"""Degrees of freedom that a declared floor is worth."""

ONE_ARM_DF: Final = 5.0
"""Most degrees of freedom when only one of the two arms was calibrated."""

NORMAL_975: Final = 1.959964
"""Two-sided 95 % point of the normal distribution, as the definition of a noise floor fixes it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Noise:
    """What is known, from outside this run, about the scatter of a single paired difference.

    Attributes:
        sigma: its standard deviation.
        df: degrees of freedom behind it; 0 means that nothing is known.
    """

    sigma: float
    df: float


UNKNOWN_NOISE: Final = Noise(sigma=0.0, df=0.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """On which scale differences are formed.

    Attributes:
        linear: whether they are plain differences (of shares, in points) instead of differences of logarithms.
        least_sd: standard deviation below which none is believed.
        order_cap: largest drift per boot that is taken out of the variance; 0 takes none out.
        mode_gap: distance between neighbouring boots of one arm below which no two boot modes are suspected.
    """

    linear: bool
    least_sd: float
    order_cap: float
    mode_gap: float


LOG: Final = Scale(linear=False, least_sd=0.0005, order_cap=0.02, mode_gap=0.03)


def linear_scale(resolution: float) -> Scale:
    """Return the scale of a share: plain differences, no finer than its resolution."""
    return Scale(linear=True, least_sd=resolution, order_cap=0.0, mode_gap=0.0)


def declared_noise(floor: float, *, linear: bool = False) -> Noise:
    """Return the noise of a declared floor: 95 % of single-round A/A differences lie within ±floor.

    Args:
        floor: a fraction, or points of a share on the linear scale.
        linear: whether it is of the linear scale.
    """
    width = floor if linear else math.log1p(floor)
    return Noise(sigma=width / NORMAL_975, df=DECLARED_DF)


def floor_of(sigma: float) -> float:
    """Return the floor, as a fraction, that a standard deviation of a single log ratio amounts to."""
    return math.expm1(NORMAL_975 * sigma)


def arm_noise(windows: Iterable[Sequence[float]]) -> Noise:
    """Estimate the noise of a paired difference from A/A windows of one arm.

    It is the mean square of the differences between neighbouring boots, about zero and not about their mean: the truth
    is zero, and a drift counts as noise. Neighbouring differences share a boot, so they are worth less than their
    number: 2 (k - 1)^2 / (3 k - 4) degrees of freedom for a window of k boots.

    Args:
        windows: values (logarithms, or shares) of the boots of each window, in the order in which they ran; windows of
            fewer than two boots say nothing.
    """
    used = [list(window) for window in windows if len(window) >= 2]
    if not used:
        return UNKNOWN_NOISE
    squares = math.fsum((later - earlier) ** 2 for window in used for earlier, later in itertools.pairwise(window))
    count = sum(len(window) - 1 for window in used)
    df = math.fsum(2 * (len(window) - 1) ** 2 / (3 * len(window) - 4) for window in used)
    return Noise(math.sqrt(squares / count), df)


def pair_noise(reference: Noise, candidate: Noise) -> Noise:
    """Combine the calibrations of two arms into the noise of their paired difference (Welch-Satterthwaite).

    With one arm only its noise is taken for both, and counts for no more than 5 degrees of freedom.
    """
    known = [noise for noise in (reference, candidate) if noise.df > 0]
    if len(known) < 2:
        return Noise(known[0].sigma, min(known[0].df, ONE_ARM_DF)) if known else UNKNOWN_NOISE
    left, right = (noise.sigma**2 for noise in known)
    weights = left**2 / reference.df + right**2 / candidate.df
    df = (left + right) ** 2 / weights if weights else reference.df + candidate.df
    return Noise(math.sqrt((left + right) / 2), df)


def with_runs(noise: Noise, runs: Iterable[Sequence[float]]) -> Noise:
    """Add the scatter of earlier gate runs of the same pair, point and metric to a calibration.

    All of them have to be given, whatever their verdicts were; then the sum of their squares over the sum of their
    degrees of freedom is unbiased although each run stopped when it pleased.
    """
    used = [list(run) for run in runs if len(run) >= 2]
    df = sum(len(run) - 1 for run in used)
    if not df:
        return noise
    squares = math.fsum((value - math.fsum(run) / len(run)) ** 2 for run in used for value in run)
    return Noise(math.sqrt((noise.df * noise.sigma**2 + squares) / (noise.df + df)), noise.df + df)
