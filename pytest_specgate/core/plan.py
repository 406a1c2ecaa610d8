"""When a threshold is judged: after which numbers of rounds, and what shares its error rates."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_specgate.core.noise import Noise

ALPHA_PASS: Final = 0.05
ALPHA_FAIL: Final = 0.05
CALIBRATED_DF: Final = 3.0
"""Degrees of freedom from which a noise estimate is good enough for a look at two rounds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What is to be shown of the signed difference of two arms.

    Attributes:
        delta: it is at least -delta; negative when a gain is asked for.
        gain: and at most this, for a claim of equivalence; `None` for one about losses only.
    """

    delta: float
    gain: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """When a threshold is judged, and how often its error rates are shared.

    Attributes:
        looks: numbers of rounds after which it is judged; the last is n_max; empty when it can never be decided.
        family: number m of interval thresholds declared in its gate.
    """

    looks: tuple[int, ...]
    family: int = 1

    @property
    def rounds(self) -> int:
        """n_max: rounds at the last look."""
        return self.looks[-1]

    @property
    def pass_tail(self) -> float:
        """One-sided level of the PASS bound at each look."""
        return ALPHA_PASS / len(self.looks)

    @property
    def fail_tail(self) -> float:
        """One-sided level of the FAIL bound at each look: shared by all looks and all thresholds of the gate."""
        return ALPHA_FAIL / (len(self.looks) * self.family)


def looks(n_max: int, noise: Noise) -> tuple[int, ...]:
    """Return the looks of a run of at most `n_max` rounds; empty when its noise can never be known."""
    calibrated = noise.df >= CALIBRATED_DF
    if n_max <= 2:
        return (n_max,) if calibrated else ()
    first = 2 if calibrated else min(4, n_max)
    return tuple(sorted({*range(first, n_max + 1, 2), n_max}))
