"""Which k to run, by what counts, from windows in which horizons met.

Two horizons are compared only where they ran in one window. One is beaten where another is better there by more than
the noise; who is beaten by nobody is left, and all that are left are the advice. A window in which two never met cannot
tell them apart, so the advice may be a range; it names what it rests on, and which measurement would change it.

All intervals of one objective hold together: the more pairs are compared, the wider each of them is.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core.levels import level_order, rate_per_s, temperature_of
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise
from pytest_specgate.core.promises import promises
from pytest_specgate.core.statistics import geometric_mean, interval

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pytest_specgate.core.horizon import Crossing, Horizon
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.promises import Promise
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

TAIL: Final = 0.025
"""Level of each side of all intervals of one objective together."""


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
        gain: log ratio by which the first is better, with its interval; `None` where nothing tells the noise.
        rounds: in which both were booted.
        tail: level of each side of the interval.
    """

    window: str
    at: Level
    metric: str
    first: int
    second: int
    values: tuple[float, float]
    gain: Interval | None
    rounds: int
    tail: float = TAIL

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
        contradictions: horizons each of which another one of them beats, so that windows contradict each other.
        promising: horizons that nobody measured, and that may be as good as the best that is left, the best prediction
            first.
        unpredicted: horizons that nobody measured, where nothing predicts what counts.
        of_rate: whether there are arrival rates alone, under which throughput is what arrives.
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
    contradictions: tuple[tuple[int, ...], ...] = ()
    promising: tuple[Promise, ...] = ()
    unpredicted: tuple[int, ...] = ()
    of_rate: bool = False

    @property
    def words(self) -> str:
        """The advice in few words: ``k=4``, ``k=3 to 4``, ``off or k=3``, ``nothing tells``."""
        return horizon_words(self.ks)

    @property
    def rules_out(self) -> bool:
        """Whether any horizon that was looked at is left no more."""
        return self.basis == "cut" or {*self.ks} != {*self.candidates}


def horizon_words(ks: Sequence[int]) -> str:
    """Return horizons in few words: as a range only where all whole numbers of it are among them.

    Args:
        ks: rising.
    """
    drafting = [k for k in ks if k]
    texts = [f"{k}" for k in drafting]
    if len(drafting) > 1 and drafting[-1] - drafting[0] == len(drafting) - 1:
        texts = [f"{drafting[0]} to {drafting[-1]}"]
    listed = " or ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
    named = [*(["off"] if 0 in ks else []), *([f"k={listed}"] if listed else [])]
    return " or ".join(named) or "nothing tells"


def pinned(told: Sequence[Advice]) -> int | None:
    """Return the horizon that a gate file should hold every later run to; `None` where nothing has beaten off.

    Of those that are left for a single user and draft, it is the one that the fewest other objectives rule out; of
    several such ones the best for that user, or else the shortest. One that was never compared with another is none of
    them, whatever curves tell of it: a gate holds later runs to what was measured.

    Args:
        told: advice in the order of `OBJECTIVES`.
    """
    if not any(0 in one.candidates and 0 not in one.ks for one in told):
        return None
    first = told[0]
    compared = {k for one in told if one.basis == "measured" for k in one.candidates}
    drafting = [k for k in first.ks if k and k in compared]
    return min(drafting, key=lambda k: (len(rulings(told, k)), k != first.best, k), default=None)


def rulings(told: Iterable[Advice], k: int) -> tuple[tuple[Advice, tuple[int, ...]], ...]:
    """Return the advice that rules a horizon out, each with the horizons that beat it there, rising."""
    return tuple((one, _beating(k, one.duels)) for one in told if k in one.candidates and k not in one.ks)


def _beating(k: int, duels: Iterable[Duel]) -> tuple[int, ...]:
    won = {(duel.first, duel.second) for duel in duels if duel.is_decided}
    return tuple(sorted({first for first, second in won if second == k} - _below(k, won)))


def advice(  # noqa: PLR0913  - figures, and all that is known besides
    figures: Sequence[HorizonFigures],
    *,
    noise: Mapping[tuple[str, str], Noise],
    crossings: Sequence[Crossing] = (),
    predicted: Mapping[tuple[str, Level], Sequence[Horizon]],
    ends: Mapping[str, tuple[Level, Level] | None] | None = None,
    looks: int = 1,
) -> tuple[Advice, ...]:
    """Return which k to run, one objective after another.

    Args:
        figures: of all windows, of one drafter.
        noise: of a paired difference, by window and metric; what is not there is told by the rounds alone.
        crossings: of the acceptance curves, for where no two horizons met.
        predicted: what each horizon gives and costs, by window and level.
        ends: lowest and highest load level of each window's profile; of others they are those of the figures.
        looks: how often figures of one window are looked at, so that all of them together err as seldom as one would.
    """
    levels = _loads(figures, ends or {})
    known = _Known(noise, crossings, predicted, looks)
    return tuple(_advice(objective, figures, levels, known) for objective in OBJECTIVES)


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """What advice is given by, besides figures; see `advice`."""

    noise: Mapping[tuple[str, str], Noise]
    crossings: Sequence[Crossing]
    predicted: Mapping[tuple[str, Level], Sequence[Horizon]]
    looks: int


def comparable(levels: Iterable[Level], ends: tuple[Level, Level] | None) -> tuple[Level, ...]:
    """Return the levels that differ in load alone, rising: of one temperature, and concurrencies where there are any.

    Args:
        levels: of one window.
        ends: lowest and highest load level of its profile; without any, or where nothing of their temperature is
            there, the levels themselves tell.
    """
    found = sorted({*levels}, key=level_order)
    heats = {temperature_of(at) for at in ends or ()}
    alike = [at for at in found if temperature_of(at) in heats]
    if not alike:
        coldest = min((temperature_of(at) or 0.0 for at in found), default=0.0)
        alike = [at for at in found if (temperature_of(at) or 0.0) == coldest]
    return tuple([at for at in alike if rate_per_s(at) is None] or alike)


def _loads(
    figures: Sequence[HorizonFigures], ends: Mapping[str, tuple[Level, Level] | None]
) -> frozenset[tuple[str, Level]]:
    """Return the levels of each window that differ in load alone."""
    by_window: dict[str, set[Level]] = {}
    for one in figures:
        by_window.setdefault(one.window, set()).add(one.at)
    return frozenset((window, at) for window, own in by_window.items() for at in comparable(own, ends.get(window)))


def _advice(
    objective: Objective, figures: Sequence[HorizonFigures], loads: Collection[tuple[str, Level]], known: _Known
) -> Advice:
    name = OBJECTIVES[objective]
    having = [one for one in figures if name in one.values and (one.window, one.at) in loads]
    at = _level(objective, having)
    if objective == "batch throughput" and at is not None and rate_per_s(at) is not None:
        return Advice(objective, name, None, (), None, "nothing", of_rate=True)
    here = [one for one in having if one.at == at]
    duels = tuple(_duels(here, name, known))
    if at is None or not duels:
        return _by_cut(objective, name, known.crossings)
    # Only who met somebody was compared with anything.
    candidates = tuple(sorted({k for duel in duels for k in (duel.first, duel.second)}))
    left, contradictions = _left(candidates, duels)
    strangers = tuple(_strangers(left, duels))
    rows = {one.window: known.predicted.get((one.window, at), ()) for one in here}
    predicts = objective != "latency"
    return Advice(
        objective, name, at, left, None if strangers else _best(left, duels), "measured", candidates, duels, strangers,
        contradictions,
        promising=_promising(here, name, rows, left, known) if predicts else (),
        unpredicted=() if predicts else _unpredicted(rows.values(), {one.k for one in here}),
    )  # fmt: skip


def _level(objective: Objective, figures: Sequence[HorizonFigures]) -> Level | None:
    """Return the load at which an objective is looked at; one of another window may be a rate, and is none of these."""
    levels = sorted({one.at for one in figures}, key=level_order)
    kept = [at for at in levels if rate_per_s(at) is None] or levels
    if not kept:
        return None
    return kept[0] if objective == "per-user speed" else kept[-1]


def _duels(figures: Sequence[HorizonFigures], name: str, known: _Known) -> Iterator[Duel]:
    met = [
        (one, other, shared)
        for one, other in itertools.combinations(figures, 2)
        if one.window == other.window and one.k != other.k and (shared := sorted({*one.rounds} & {*other.rounds}))
    ]
    for one, other, shared in met:
        noise = known.noise.get((one.window, name), UNKNOWN_NOISE)
        yield _duel(one, other, name, shared, noise, tail=TAIL / (len(met) * known.looks))


def _duel(  # noqa: PLR0913  - two horizons, by what they are compared, and how surely
    one: HorizonFigures, other: HorizonFigures, name: str, shared: Sequence[int], noise: Noise, *, tail: float
) -> Duel:
    higher = metric(name).higher_is_better
    means = [geometric_mean(_in_rounds(side, name, shared)) for side in (one, other)]
    first, second = (one, other) if (means[0] >= means[1]) == higher else (other, one)
    pairs = zip(_in_rounds(first, name, shared), _in_rounds(second, name, shared), strict=True)
    gains = [math.log(a / b) * (1 if higher else -1) for a, b in pairs]
    places = zip(_places(first, shared), _places(second, shared), strict=True)
    gain = interval(gains, noise=noise, tail=tail, candidate_first=[a < b for a, b in places])
    values = tuple(geometric_mean(_in_rounds(side, name, shared)) for side in (first, second))
    return Duel(one.window, one.at, name, first.k, second.k, (values[0], values[1]), gain, len(shared), tail)


def _in_rounds(figures: HorizonFigures, name: str, rounds: Sequence[int]) -> list[float]:
    by_round = dict(zip(figures.rounds, figures.values[name], strict=True))
    return [by_round[number] for number in rounds]


def _places(figures: HorizonFigures, rounds: Sequence[int]) -> list[int]:
    by_round = dict(zip(figures.rounds, figures.places, strict=True))
    return [by_round[number] for number in rounds]


def _left(candidates: Sequence[int], duels: Sequence[Duel]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return who is left, and groups of horizons each of which others of its group beat.

    Windows contradict each other where decided duels run in a circle: nobody in it is beaten by another one of it.
    """
    won = {(duel.first, duel.second) for duel in duels if duel.is_decided}
    below = {k: _below(k, won) for k in candidates}
    beaten = {second for first, second in won if first not in below[second]}
    left = tuple(k for k in candidates if k not in beaten)
    circles = (tuple(sorted(other for other in below[k] if k in below[other])) for k in left)
    return left, tuple(dict.fromkeys(circle for circle in circles if circle))


def _below(k: int, won: Collection[tuple[int, int]]) -> frozenset[int]:
    """Return whom a horizon beats, or beats by way of others; itself, where duels run in a circle."""
    found: set[int] = set()
    new = {k}
    while new:
        new = {second for first, second in won if first in new} - found
        found |= new
    return frozenset(found)


def _strangers(left: Sequence[int], duels: Iterable[Duel]) -> Iterator[tuple[int, int]]:
    met = {frozenset((duel.first, duel.second)) for duel in duels}
    return (both for both in itertools.combinations(left, 2) if frozenset(both) not in met)


def _best(left: Sequence[int], duels: Sequence[Duel]) -> int | None:
    wins = {(duel.first, duel.second) for duel in duels}
    ahead = [k for k in left if all(other == k or (other, k) not in wins for other in left)]
    return ahead[0] if len(ahead) == 1 else None


def _promising(
    here: Sequence[HorizonFigures], name: str, rows: Mapping[str, Sequence[Horizon]], left: Sequence[int], known: _Known
) -> tuple[Promise, ...]:
    """Return horizons that nobody measured, and that may be as good as the best that is left in the same window."""
    from pytest_specgate.core.horizon import over_boots  # noqa: PLC0415  - 100 ms that only advice may cost

    measured = {one.k for one in here}
    found: dict[int, Promise] = {}
    for window, own in rows.items():
        noise = known.noise.get((window, name), UNKNOWN_NOISE)
        # What counts for one user is the speed of a stream, which the rows themselves have.
        values = None if name == OBJECTIVES["per-user speed"] else {
            one.k: over_boots(one.values[name], noise=noise) for one in here if one.window == window
        }  # fmt: skip
        for one in promises(window, own, left=left, measured=measured, throughputs=values):
            found.setdefault(one.k, one)
    return tuple(sorted(found.values(), key=lambda one: one.figure.value, reverse=True))


def _unpredicted(windows: Iterable[Sequence[Horizon]], measured: Collection[int]) -> tuple[int, ...]:
    """Return horizons that nobody measured, up to the longest that somebody did."""
    return tuple(sorted({row.k for rows in windows for row in rows if 0 < row.k < max(measured)} - {*measured}))


def _by_cut(objective: Objective, name: str, crossings: Sequence[Crossing]) -> Advice:
    """Return what curves alone tell: how far drafting may pay for one user; of a load they tell nothing."""
    if objective != "per-user speed" or not crossings:
        return Advice(objective, name, None, (), None, "nothing")
    least = min(one.least for one in crossings)
    most = max(one.most for one in crossings)
    ks = tuple(range(least, most + 1))
    return Advice(objective, name, None, ks, ks[0] if len(ks) == 1 else None, "cut", ks)
