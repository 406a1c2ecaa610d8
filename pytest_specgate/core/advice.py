"""Which k to run, by what counts, from windows in which horizons met.

Two horizons are compared only where they ran in one window. One is beaten where another is better there by more than
the noise; who is beaten by nobody is left, and all that are left are the advice. A window in which two never met cannot
tell them apart, so the advice may be a range; it names what it rests on, and which measurement would change it.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core.levels import level_order, temperature_of
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise
from pytest_specgate.core.statistics import geometric_mean, interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_specgate.core.horizon import Crossing, Horizon
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.statistics import Interval

Objective: TypeAlias = Literal["per-user speed", "batch throughput", "latency"]
Basis: TypeAlias = Literal["measured", "cut", "nothing"]
"""What advice rests on: horizons that met in a window, the cut of acceptance curves, or nothing at all."""

OBJECTIVES: Final[dict[Objective, str]] = {
    "per-user speed": "decode_rate_p50",
    "batch throughput": "output_throughput",
    "latency": "ttft_p50",
}
"""What counts, and the metric that it is told by: the first at the lowest load, the others at the highest."""

_TAIL: Final = 0.025


@dataclasses.dataclass(frozen=True, slots=True)
class HorizonFigures:
    """Figures of one horizon in one window at one load level, by boot.

    Attributes:
        window: where its record lies.
        arm: name of the arm.
        k: horizon; 0 without speculation.
        at: load level.
        rounds: of the boots.
        places: of the boots in their rounds, from 0.
        values: by metric; one a boot. A metric that cannot be had is missing.
    """

    window: str
    arm: str
    k: int
    at: Level
    rounds: tuple[int, ...]
    places: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class Duel:
    """Two horizons that met in a window.

    Attributes:
        window: where its record lies.
        at: load level.
        metric: that is compared.
        first: horizon whose mean is better.
        second: the other one.
        values: geometric means of both, in the metric's unit.
        gain: log ratio by which the first is better, with its 95 % interval; `None` where nothing tells the noise.
        rounds: in which both were booted.
    """

    window: str
    at: Level
    metric: str
    first: int
    second: int
    values: tuple[float, float]
    gain: Interval | None
    rounds: int

    @property
    def is_decided(self) -> bool:
        """Whether the first is better by more than the noise."""
        return self.gain is not None and self.gain.low > 0

    @property
    def change(self) -> float:
        """Raw change of the metric from the second to the first, a fraction."""
        return self.values[0] / self.values[1] - 1


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """Which k to run for one objective.

    Attributes:
        objective: what counts.
        metric: that tells it.
        at: load level; `None` where no load was compared.
        ks: horizons that are left, rising; 0 is speculation off; empty where nothing tells.
        best: the one with the best mean among those that are left, where all of them met; else `None`.
        basis: what it rests on.
        candidates: horizons that were looked at, rising.
        duels: between horizons that met.
        strangers: pairs of horizons that are left and never met in one window.
        promising: horizons that nobody measured, and that may be faster than what is left by what is predicted.
    """

    objective: Objective
    metric: str
    at: Level | None
    ks: tuple[int, ...]
    best: int | None
    basis: Basis
    candidates: tuple[int, ...] = ()
    duels: tuple[Duel, ...] = ()
    strangers: tuple[tuple[int, int], ...] = ()
    promising: tuple[Horizon, ...] = ()

    @property
    def words(self) -> str:
        """The advice in few words: ``k=4``, ``k=3 to 4``, ``off or k=3``, ``nothing tells``."""
        return horizon_words(self.ks, candidates=self.candidates)


def horizon_words(ks: Sequence[int], *, candidates: Sequence[int] = ()) -> str:
    """Return horizons in few words; neighbours among those that were looked at become a range.

    Args:
        ks: rising.
        candidates: that were looked at; `ks` themselves where none are named.
    """
    looked_at = sorted({*candidates, *ks} - {0})
    places = [looked_at.index(k) for k in ks if k]
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    texts = [f"{looked_at[run[0]]} to {looked_at[run[-1]]}" if len(run) > 1 else f"{looked_at[run[0]]}" for run in runs]
    named = [*(["off"] if 0 in ks else []), *([f"k={' or '.join(texts)}"] if texts else [])]
    return " or ".join(named) or "nothing tells"


def advice(
    figures: Sequence[HorizonFigures],
    *,
    noise: Mapping[tuple[str, str], Noise],
    crossings: Sequence[Crossing] = (),
    predicted: Mapping[tuple[str, Level], Sequence[Horizon]],
) -> tuple[Advice, ...]:
    """Return which k to run, one objective after another.

    Args:
        figures: of all windows, of one drafter.
        noise: of a paired difference, by window and metric; what is not there is told by the rounds alone.
        crossings: of the acceptance curves, for where no two horizons met.
        predicted: what each horizon gives and costs, by window and level.
    """
    return tuple(_advice(objective, figures, noise, crossings, predicted) for objective in OBJECTIVES)


def _advice(
    objective: Objective,
    figures: Sequence[HorizonFigures],
    noise: Mapping[tuple[str, str], Noise],
    crossings: Sequence[Crossing],
    predicted: Mapping[tuple[str, Level], Sequence[Horizon]],
) -> Advice:
    name = OBJECTIVES[objective]
    having = [one for one in figures if name in one.values]
    at = _level(objective, having)
    here = [one for one in having if one.at == at]
    duels = tuple(_duels(here, name, noise))
    if at is None or not duels:
        return _by_cut(objective, name, crossings)
    # Only who met somebody was compared with anything.
    candidates = tuple(sorted({k for duel in duels for k in (duel.first, duel.second)}))
    beaten = _beaten(duels)
    left = tuple(k for k in candidates if k not in beaten)
    met = {frozenset((duel.first, duel.second)) for duel in duels}
    strangers = tuple(both for both in itertools.combinations(left, 2) if frozenset(both) not in met)
    promising = tuple(_promising(predicted, here, left, at)) if objective == "per-user speed" else ()
    best = None if strangers else _best(left, duels)
    return Advice(objective, name, at, left, best, "measured", candidates, duels, strangers, promising)


def _level(objective: Objective, figures: Sequence[HorizonFigures]) -> Level | None:
    """Return the load at which an objective is looked at: of levels that differ in temperature alone, the coldest."""
    levels = {one.at for one in figures}
    coldest = min((temperature_of(at) or 0.0 for at in levels), default=0.0)
    kept = sorted((at for at in levels if (temperature_of(at) or 0.0) == coldest), key=level_order)
    if not kept:
        return None
    return kept[0] if objective == "per-user speed" else kept[-1]


def _duels(figures: Sequence[HorizonFigures], name: str, noise: Mapping[tuple[str, str], Noise]) -> Iterator[Duel]:
    for one, other in itertools.combinations(figures, 2):
        if one.window == other.window and one.k != other.k:
            shared = sorted(set(one.rounds) & set(other.rounds))
            if shared:
                yield _duel(one, other, name, shared, noise.get((one.window, name), UNKNOWN_NOISE))


def _duel(one: HorizonFigures, other: HorizonFigures, name: str, shared: Sequence[int], noise: Noise) -> Duel:
    higher = metric(name).higher_is_better
    means = [geometric_mean(_in_rounds(side, name, shared)) for side in (one, other)]
    first, second = (one, other) if (means[0] >= means[1]) == higher else (other, one)
    pairs = zip(_in_rounds(first, name, shared), _in_rounds(second, name, shared), strict=True)
    gains = [math.log(a / b) * (1 if higher else -1) for a, b in pairs]
    places = zip(_places(first, shared), _places(second, shared), strict=True)
    gain = interval(gains, noise=noise, tail=_TAIL, candidate_first=[a < b for a, b in places])
    values = tuple(geometric_mean(_in_rounds(side, name, shared)) for side in (first, second))
    return Duel(one.window, one.at, name, first.k, second.k, (values[0], values[1]), gain, len(shared))


def _in_rounds(figures: HorizonFigures, name: str, rounds: Sequence[int]) -> list[float]:
    by_round = dict(zip(figures.rounds, figures.values[name], strict=True))
    return [by_round[number] for number in rounds]


def _places(figures: HorizonFigures, rounds: Sequence[int]) -> list[int]:
    by_round = dict(zip(figures.rounds, figures.places, strict=True))
    return [by_round[number] for number in rounds]


def _beaten(duels: Iterable[Duel]) -> frozenset[int]:
    """Return who lost a decided duel that no other window turns round: windows that contradict each other say none."""
    won = {(duel.first, duel.second) for duel in duels if duel.is_decided}
    return frozenset(second for first, second in won if (second, first) not in won)


def _best(left: Sequence[int], duels: Sequence[Duel]) -> int | None:
    wins = {(duel.first, duel.second) for duel in duels}
    ahead = [k for k in left if all(other == k or (other, k) not in wins for other in left)]
    return ahead[0] if len(ahead) == 1 else None


def _promising(
    predicted: Mapping[tuple[str, Level], Sequence[Horizon]],
    figures: Sequence[HorizonFigures],
    left: Sequence[int],
    at: Level,
) -> Iterator[Horizon]:
    """Yield horizons that nobody measured, and that may be faster than all that are left in the same window."""
    everywhere = {one.k for one in figures}
    seen: set[int] = set()
    for window in dict.fromkeys(one.window for one in figures):
        rows = predicted.get((window, at), ())
        speeds = [row.speed_tokens_per_s.value for row in rows if row.k in left and row.speed_tokens_per_s is not None]
        for row in rows:
            speed = row.speed_tokens_per_s
            if row.k in everywhere | seen or speed is None or not speeds:
                continue
            if (speed.value if speed.high is None else speed.high) > max(speeds):
                seen.add(row.k)
                yield row


def _by_cut(objective: Objective, name: str, crossings: Sequence[Crossing]) -> Advice:
    """Return what curves alone tell: how far drafting may pay for one user; of a load they tell nothing."""
    if objective != "per-user speed" or not crossings:
        return Advice(objective, name, None, (), None, "nothing")
    least = min(one.least for one in crossings)
    most = max(one.most for one in crossings)
    ks = tuple(range(least, most + 1))
    return Advice(objective, name, None, ks, ks[0] if len(ks) == 1 else None, "cut", ks)
