"""Noise floors as gate files declare them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from pytest_specgate.core.declared import declaration
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise, declared_noise


@declaration
class NoiseFloor:
    """A noise floor: 95 % of single-round A/A differences lie within ±fraction.

    Attributes:
        fraction: half-width of the floor; 0.004 is 0.4 %, or 0.4 points of a share. `None` for the calibrated one.
        source: where the figure comes from, quoted in every report that rests on it.
        points: whether it is in points of a share.
    """

    fraction: Annotated[float, Field(gt=0, lt=1)] | None
    source: str = Field(min_length=3)
    points: bool = False

    @property
    def noise(self) -> Noise:
        """The declared floor as a standard deviation with its degrees of freedom; nothing for the calibrated one."""
        return UNKNOWN_NOISE if self.fraction is None else declared_noise(self.fraction, linear=self.points)

    @property
    def words(self) -> str:
        """The floor with its source: ``0.4 % (six A/A windows)``."""
        if self.fraction is None:
            return "the calibrated floor"
        return f"{100 * self.fraction:g} {'points' if self.points else '%'} ({self.source})"


def floor_is_calibrated(floor: NoiseFloor | None) -> bool:
    """Whether a floor is the one that a calibration has measured."""
    return floor is not None and floor.fraction is None


CALIBRATED: Final = NoiseFloor(None, "calibrated by A/A windows")
"""The floor that ``--specgate-calibrate`` has measured for a host class."""
