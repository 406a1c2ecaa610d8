"""The curve verdict: at which load levels a candidate is faster, at which slower, and where the sign changes.

All levels of one temperature are judged together, with simultaneous two-sided intervals at t(1 - 0.05 / (2 K P)) for K
looks and P levels: the chance that the curve shows a change of sign that is none is below 5 %. No mean over levels
decides anything.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_specgate.core.levels import level_label, level_order
from pytest_specgate.core.plan import ALPHA_FAIL, ALPHA_PASS
from pytest_specgate.core.statistics import interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.plan import Plan
    from pytest_specgate.core.statistics import Interval

Sign: TypeAlias = Literal["better", "worse", "not shown"]


@dataclasses.dataclass(frozen=True, slots=True)
class CurvePoint:
    """One level of a curve.

    Attributes:
        at: load level.
        shown: interval of the mean signed difference; `None` while nothing is known of the noise.
        sign: what it shows.
        refuted: whether the opposite of what is claimed is shown, at the level of FAIL.
    """

    at: Level
    shown: Interval | None
    sign: Sign
    refuted: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Curve:
    """A candidate against its reference over all load levels of one temperature.

    Attributes:
        points: in rising order of load.
        last: the level up to which the candidate is claimed to be better.
    """

    points: tuple[CurvePoint, ...]
    last: Level

    @property
    def supported(self) -> bool:
        """Whether every level up to the last is shown better, and every one beyond is shown worse."""
        return all(point.sign == self._claimed(point.at) for point in self.points)

    @property
    def refuted(self) -> bool:
        """Whether some level is shown to be the opposite of what is claimed of it."""
        return any(point.refuted for point in self.points)

    def _claimed(self, at: Level) -> Sign:
        return "better" if level_order(at) <= level_order(self.last) else "worse"

    @property
    def words(self) -> str:
        """What the curve shows: ``better up to c=8, not shown worse at c=32``."""
        better = [point for point in self.points if point.sign == "better"]
        others = [point for point in self.points if point.sign != "better"]
        up_to = better and all(level_order(point.at) < level_order(other.at) for point in better for other in others)
        if up_to:
            texts = [f"better up to {level_label(better[-1].at)}"]
        else:
            texts = [f"better at {level_label(point.at)}" for point in better]
        for point in others:
            claimed = self._claimed(point.at)
            shown = point.sign if point.sign != "not shown" else f"not shown {claimed}"
            texts.append(f"{shown} at {level_label(point.at)}")
        return ", ".join(texts)


def curve(
    differences: Mapping[Level, Sequence[float]],
    *,
    last: Level,
    noise: Mapping[Level, Noise],
    plan: Plan,
    candidate_first: Sequence[bool],
) -> Curve:
    """Judge load levels together.

    Args:
        differences: signed log ratios by round, for every level.
        last: the level up to which the candidate is claimed to be better.
        noise: known beforehand, by level.
        plan: the looks, and what shares the error rate of FAIL.
        candidate_first: whether a round booted the candidate first.
    """
    sides = 2 * len(plan.looks) * len(differences)
    points = []
    for at in sorted(differences, key=level_order):
        shown, wide = (
            interval(differences[at], noise=noise[at], tail=tail, candidate_first=candidate_first)
            for tail in (ALPHA_PASS / sides, ALPHA_FAIL / (sides * plan.family))
        )
        claimed_better = level_order(at) <= level_order(last)
        refuted = wide is not None and (wide.high < 0 if claimed_better else wide.low > 0)
        points.append(CurvePoint(at, shown, _sign(shown), refuted))
    return Curve(tuple(points), last)


def _sign(shown: Interval | None) -> Sign:
    if shown is None or not shown.excludes_zero:
        return "not shown"
    return "better" if shown.low > 0 else "worse"
