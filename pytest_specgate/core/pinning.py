"""What a gate file can hold a draft horizon to: claims that follow from what was measured, and what was lost.

A gain or a loss is shown here where the advice shows it: at the same level, which all comparisons of one objective
share. So no file says of a horizon what the advice beside it does not.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import planning
from pytest_specgate.core.advice import OBJECTIVES, TAIL, comparable
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.horizon_records import window_horizons
from pytest_specgate.core.levels import level_label, level_order
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.noise import UNKNOWN_NOISE, floor_of
from pytest_specgate.core.plan import CALIBRATED_DF
from pytest_specgate.core.statistics import interval, raw_change
from pytest_specgate.core.stored_gates import declared_floors
from pytest_specgate.core.verdict import change_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.advice import Advice, HorizonFigures
    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.floors import NoiseFloor
    from pytest_specgate.core.horizon_records import DrafterHorizons
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PairRecord, WindowRecord
    from pytest_specgate.core.statistics import Interval

_FAMILY: Final = len(OBJECTIVES)
"""Claims of the gate that share its error rates."""

_ROUNDS_UNKNOWN: Final = 4
"""Rounds where nothing tells the noise well enough beforehand, so that they have to."""

_MARGIN_UNKNOWN: Final = 0.1
_FLOORS: Final = 1.5
"""Least margin, in noise floors: the claim is to stop a loss, and not the noise."""

_TOO_MUCH: Final = ", but too large for a margin"
_GUESS: Final = "; nothing tells its noise, so the margin is a guess"
_UNSURE: Final = "; nothing tells its noise, so its rounds may not show that again"


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """What a gate file says of one metric, or why it says nothing.

    Attributes:
        metric: its name.
        at: load level.
        kind: ``better`` or ``not_worse``; `None` where nothing is claimed, since that was lost.
        fraction: gain or margin.
        words: what was measured, for a comment.
        won: whether the horizon was shown to be better than off, as the advice shows it.
    """

    metric: str
    at: Level
    kind: str | None
    fraction: float
    words: str
    won: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Met:
    """A horizon and off, which met in one window.

    Attributes:
        k: the horizon.
        off: arm without speculation.
        arm: arm of the horizon.
        found: what the window tells of horizons.
        compared: what they are compared by, each metric with its load level.
        floors: that were declared, by metric.
        pair: of the record, where the two are one.
        rounds: of the gate.
        profile: the load.
        told: advice by objective, at whose level a gain or a loss is shown.
    """

    k: int
    off: Arm
    arm: Arm
    found: DrafterHorizons
    compared: Mapping[str, Level]
    floors: Mapping[str, NoiseFloor]
    pair: PairRecord | None
    rounds: int
    profile: RequestProfile
    told: Sequence[Advice] = ()

    def claims(self) -> tuple[Claim, ...]:
        """Return what is claimed of each metric.

        Raises:
            UsageError: of none of them anything can be claimed, since the horizon has lost in all of them.
        """
        found = tuple(self._claim(name, at) for name, at in self.compared.items())
        if not any(one.kind for one in found):
            lost = ", ".join(f"{metric(one.metric).label} at {level_label(one.at)} {one.words}" for one in found)
            raise UsageError(f"no gate file pins k={self.k}, of which nothing can be claimed against off: {lost}")
        return found

    def noise(self, name: str) -> Noise:
        """Return what is known of the noise of a paired difference."""
        return self.found.noise.get(name, UNKNOWN_NOISE)

    def _claim(self, name: str, at: Level) -> Claim:
        """Return a claim below what was measured: half of a gain, or a margin that its noise can decide.

        A gain is claimed where it was shown, and where the noise lets the rounds of the gate show half of it again.
        """
        gains = self._gains(name)
        gain = math.fsum(gains.values()) / len(gains)
        higher = metric(name).higher_is_better
        within = self._interval(name, gains)
        won, beaten = within is not None and within.low > 0, within is not None and within.high < 0
        shown = "" if won or beaten else ", no change shown"
        words = f"{change_words(raw_change(gain, higher_is_better=higher), metric_name=name)}{shown}"
        if beaten or -gain > self._floor(name):
            return Claim(name, at, None, 0.0, f"{words}{_TOO_MUCH if shown else ''}", won)
        if within is not None and won and (claimed := self._claimable(name, gain, least=within.low)):
            return Claim(name, at, "better", claimed, f"{words}{'' if self.noise(name).df else _UNSURE}", won)
        included = "; the margin includes it, as noise" if gain < 0 else ""
        margin = math.ceil(100 * _loss(max(0.0, -gain) + self._decidable(name), higher=higher) - 1e-9) / 100
        if margin >= 1:
            return Claim(name, at, None, 0.0, f"{words}; its noise is too large for a margin below 100 %", won)
        return Claim(name, at, "not_worse", margin, f"{words}{included}{'' if self.noise(name).df else _GUESS}", won)

    def _claimable(self, name: str, gain: float, *, least: float) -> float:
        """Return the part of a gain that a horizon can be held to, in whole per cent; 0 where its noise hides it.

        Args:
            name: of the metric.
            gain: that was measured, in log units.
            least: that was shown, in log units.
        """
        room = gain - self._decidable(name)
        if room <= 0:
            return 0.0
        sign = 1.0 if metric(name).higher_is_better else -1.0
        half, *ends = (abs(math.expm1(sign * log)) for log in (gain, room, least))
        return math.floor(100 * min(half / 2, *ends) + 1e-9) / 100

    def _gains(self, name: str) -> dict[int, float]:
        """Return the log ratios by which the horizon is better than off, by round."""
        off, arm = (_by_round(self.found, k, name, self.compared[name]) for k in (0, self.k))
        sign = 1 if metric(name).higher_is_better else -1
        return {number: sign * math.log(arm[number] / off[number]) for number in sorted(off.keys() & arm.keys())}

    def _interval(self, name: str, gains: Mapping[int, float]) -> Interval | None:
        off, arm = (_figures(self.found, k, self.compared[name]) for k in (0, self.k))
        assert off is not None, "it has a gain"
        assert arm is not None, "likewise"
        places = [dict(zip(one.rounds, one.places, strict=True)) for one in (off, arm)]
        first = [places[1][number] < places[0][number] for number in gains]
        return interval(list(gains.values()), noise=self.noise(name), tail=self._tail(name), candidate_first=first)

    def _tail(self, name: str) -> float:
        """Return the level of each side of an interval; where no advice has looked there, by the same rule."""
        at = self.compared[name]
        told = {
            duel.tail
            for one in self.told
            for duel in one.duels
            if (duel.window, duel.metric, duel.at) == (self.found.window, name, at)
        }
        return min(told, default=TAIL / _meetings(self.found, name, at))

    def _floor(self, name: str) -> float:
        """Return the noise floor of a metric, in log units; that of the guessed margin where nothing tells it."""
        noise = self.noise(name)
        return math.log1p(floor_of(noise.sigma)) if noise.df else math.log1p(_MARGIN_UNKNOWN) / _FLOORS

    def _decidable(self, name: str) -> float:
        """Return the smallest margin, in log units, that the rounds of the gate can decide: at least 1.5 floors.

        Where nothing tells the noise, or the rounds can decide no margin at all, it is the guessed one.
        """
        noise, floor = self.noise(name), self.floors.get(name)
        smallest = planning.smallest_margin(noise=noise, n_max=self.rounds, family=_FAMILY) if noise.df else None
        if smallest is None:
            return math.log1p(_MARGIN_UNKNOWN)
        declared = 0.0 if floor is None or floor.fraction is None else math.log1p(_FLOORS * floor.fraction)
        return max(smallest, declared)


def met_off(  # noqa: PLR0913  - the record, which horizon of it, and what is told of it
    record: WindowRecord,
    *,
    k: int,
    path: str,
    told: Sequence[Advice] = (),
    arm: str | None = None,
    floors: Mapping[str, NoiseFloor] | None = None,
) -> Met:
    """Return a horizon and off as they met in a window.

    Args:
        record: of the window.
        k: the horizon.
        path: where the record lies.
        told: advice by objective, at whose level a gain or a loss is shown.
        arm: name of the horizon's arm, where a window has several drafters.
        floors: noise floors by metric, which replace what the record tells.

    Raises:
        UsageError: the horizon is off, the window has not both of them with figures at a common load level.
    """
    if k < 1:
        raise UsageError("no gate file pins k=0: where speculation is off there is nothing to hold it to")
    drafters = window_horizons(record, path, floors=floors).drafters
    both = (one for one in drafters if {0, k} <= one.arms.keys() and arm in (None, one.arms[k]))
    found = next(both, None)
    if found is None:
        raise UsageError(f"{path} has no two readable arms, off and k={k}, so no gate file can be written from it")
    arms = {one.name: one for one in record.arms}
    off, own = arms[found.arms[0]], arms[found.arms[k]]
    compared = _compared(found, k=k)
    if not compared:
        raise UsageError(f"{path} has no load level at which off and k={k} can be compared")
    pair = next((one for one in record.pairs if (one.reference, one.candidate) == (off.name, own.name)), None)
    rounds = 2 if pair is None else pair.rounds
    known = all(found.noise.get(name, UNKNOWN_NOISE).df >= CALIBRATED_DF for name in compared)
    return Met(
        k, off, own, found, compared, {**_largest_floors(record), **(floors or {})}, pair,
        rounds if known else max(rounds, _ROUNDS_UNKNOWN), record.profile, told,
    )  # fmt: skip


def _compared(found: DrafterHorizons, *, k: int) -> dict[str, Level]:
    """Return what the two can be compared by: of one user's speed the lowest load level, of the others the highest."""
    levels: dict[str, Level] = {}
    for what, name in OBJECTIVES.items():
        shared = [
            at for at in _alike(found) if _by_round(found, 0, name, at).keys() & _by_round(found, k, name, at).keys()
        ]
        if shared:
            levels[name] = shared[0] if what == "per-user speed" else shared[-1]
    return levels


def _alike(found: DrafterHorizons) -> list[Level]:
    """Return the levels that were measured between the ends of a load, rising: of one kind and one temperature."""
    return sorted(comparable([one.at for one in found.figures], found.ends), key=level_order)


def _figures(found: DrafterHorizons, k: int, at: Level) -> HorizonFigures | None:
    return next((one for one in found.figures if (one.k, one.at) == (k, at)), None)


def _by_round(found: DrafterHorizons, k: int, name: str, at: Level) -> dict[int, float]:
    one = _figures(found, k, at)
    return {} if one is None else dict(zip(one.rounds, one.values.get(name, ()), strict=False))


def _meetings(found: DrafterHorizons, name: str, at: Level) -> int:
    """Return how many pairs of horizons shared a round at a load level, and so are compared there."""
    here = [one for one in found.figures if one.at == at and name in one.values]
    return sum(
        1 for one, other in itertools.combinations(here, 2) if one.k != other.k and {*one.rounds} & {*other.rounds}
    )


def _loss(log: float, *, higher: bool) -> float:
    """Return a loss in log units as a fraction of the metric."""
    return abs(math.expm1(-log if higher else log))


def _largest_floors(record: WindowRecord) -> dict[str, NoiseFloor]:
    """Return the floor of each metric: of several that were declared, the largest."""
    floors: dict[str, NoiseFloor] = {}
    for name, floor in declared_floors(record):
        known = floors.get(name)
        if known is None or (known.fraction or 0.0) < (floor.fraction or 0.0):
            floors[name] = floor
    return floors
