"""Figures of a window as levels that windows are compared by: signed logarithms, or shares."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Literal, Protocol

from pytest_specgate.core.metrics import metric

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.baselines import BaselineEntry, BaselineValues


class Compared(Protocol):
    """By what windows are compared; claims about baselines are one of these."""

    @property
    def metric(self) -> str:
        """Key in the metric table."""

    @property
    def mode(self) -> str:
        """``relative`` for the change between the arms, ``absolute`` for the level of the candidate."""

    @property
    def points(self) -> bool:
        """Whether shares are compared by their difference instead of by their ratio."""


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """By what the windows of an entry are compared where no claim says it."""

    metric: str
    mode: Literal["relative", "absolute"]
    points: bool

    @classmethod
    def of(cls, entry: BaselineEntry, *, mode: Literal["relative", "absolute"] = "relative") -> View:
        """Return how an entry is looked at; one without a reference has a level of its candidate only."""
        return cls(entry.metric, mode if entry.latest.reference else "absolute", metric(entry.metric).unit == "share")


def differences(by: Compared, values: BaselineValues) -> tuple[float, ...]:
    """Return the signed differences of a window by round, of logarithms or of shares; empty for a single arm."""
    pairs = zip(values.reference, values.candidate, strict=False)
    if by.points:
        return tuple(_sign(by) * (candidate - reference) for reference, candidate in pairs)
    return tuple(_sign(by) * math.log(candidate / reference) for reference, candidate in pairs)


def level_of(by: Compared, values: BaselineValues) -> float:
    """Return the signed mean of a window: of its differences, or of the level of its candidate."""
    return mean(differences(by, values)) if by.mode == "relative" else arm_level(by, values.candidate)


def arm_level(by: Compared, figures: Sequence[float]) -> float:
    """Return the signed mean level of an arm, of logarithms or of shares."""
    return _sign(by) * mean(figures if by.points else [math.log(figure) for figure in figures])


def shown_level(by: Compared, level: float) -> float:
    """Return a signed level as people read it: candidate over reference, a difference of shares, or a value."""
    unsigned = _sign(by) * level
    return unsigned if by.points else math.exp(unsigned)


def mean(values: Sequence[float]) -> float:
    """Return the plain mean."""
    return math.fsum(values) / len(values)


def _sign(by: Compared) -> int:
    return 1 if metric(by.metric).higher_is_better else -1
