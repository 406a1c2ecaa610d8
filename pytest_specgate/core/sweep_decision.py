"""Which horizons of a sweep need no further boot, from what was measured so far.

Tokens per step of every horizon come from the acceptance of the longest one. What a step of it takes is not known: on a
device that is bound by memory it may cost no more than one of off, and rise late only, once the batch fills the device.
So, before it is booted, a horizon is ruled out only where a scout was faster than it could be **in a step as short as
one of off**, for one user and for a full server. Of the others no more than `ArmSweep.most` are booted, those first
that are predicted best, with step times on the line between off and the longest horizon: an order, and no bound.

Once measured, a horizon boots no more where others beat it by more than the noise in everything that can be wanted.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.advice import OBJECTIVES, advice
from pytest_specgate.core.horizon import horizons
from pytest_specgate.core.horizon_records import window_horizons
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.noise import floor_of
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.core.sweeps import horizon_of
from pytest_specgate.core.verdict import change_words

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pytest_specgate.core.advice import Advice, Duel
    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.horizon import Horizon
    from pytest_specgate.core.horizon_records import DrafterHorizons
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.sweeps import ArmSweep

_HERE: Final = "this window"


def ruled_out_of(sweeps: Sequence[ArmSweep], record: WindowRecord, *, kept: Collection[str] = ()) -> dict[str, str]:
    """Return which arms need no further boot by any sweep that has them, by name, and why; earlier ones included.

    Args:
        sweeps: of the window.
        record: what was measured so far.
        kept: names of arms that something else wants whole.
    """
    found = [(sweep, ruled_out(sweep, record, kept=kept)) for sweep in sweeps]
    named = dict.fromkeys(name for _, reasons in found for name in reasons)
    new = {
        name: " / ".join(dict.fromkeys(reasons[name] for sweep, reasons in found if _has(sweep, name)))
        for name in named
        if all(name in reasons for sweep, reasons in found if _has(sweep, name))
    }
    return {**record.ruled_out, **{name: why for name, why in new.items() if name not in record.ruled_out}}


def _has(sweep: ArmSweep, name: str) -> bool:
    return any(arm.name == name for arm in sweep.arms)


def ruled_out(sweep: ArmSweep, record: WindowRecord, *, kept: Collection[str] = ()) -> dict[str, str]:
    """Return which arms of a sweep need no further boot, by name, with the reason as one sentence.

    Nothing is ruled out where the scouts were not booted, failed, or cannot be read.

    Args:
        sweep: the arms.
        record: what was measured so far.
        kept: names of arms that something else wants whole.
    """
    found = _horizons_of(sweep, record)
    if found is None:
        return {}
    out = {**_not_promising(sweep, record, found, kept=kept), **_beaten(sweep, found)}
    mine = {arm.name for arm in sweep.arms} - {*kept}
    return {name: why for name, why in out.items() if name in mine}


def _horizons_of(sweep: ArmSweep, record: WindowRecord) -> DrafterHorizons | None:
    """Return what was measured of the horizons of a sweep; `None` if one of its scouts is not among it."""
    drafters = window_horizons(record, _HERE).drafters
    wanted = {horizon_of(arm): arm.name for arm in sweep.scouts}
    return next((one for one in drafters if wanted.items() <= one.arms.items()), None)


@dataclasses.dataclass(frozen=True, slots=True)
class _Prospects:
    """What horizons promise at one load level.

    Attributes:
        at: the level.
        rows: by k.
        best: the faster scout.
        floor: share by which a prediction may be too low for the noise; `None` where nothing tells the noise.
    """

    at: Level
    rows: Mapping[int, Horizon]
    best: int
    floor: float | None

    def speed(self, k: int) -> float:
        """Return the predicted or measured speed, in tokens/s of one stream."""
        speed = self.rows[k].speed_tokens_per_s
        assert speed is not None, "between the scouts every step time is known"
        return speed.value

    def favourable(self, k: int) -> float:
        """Return the speed in a step as short as one of off, noise included; infinite where nothing bounds it."""
        most, off = self.rows[k].tokens_per_step.high, self.rows[0].step_time_s
        assert off is not None, "off is a scout"
        return math.inf if most is None or self.floor is None else most / off.value * (1 + self.floor)

    def cannot_win(self, k: int) -> bool:
        """Whether the best scout is faster even then."""
        return self.favourable(k) < self.speed(self.best)


def _not_promising(
    sweep: ArmSweep, record: WindowRecord, found: DrafterHorizons, *, kept: Collection[str]
) -> dict[str, str]:
    """Return the arms that were not booted yet and need not be."""
    left = [arm for arm in sweep.arms if not record.boots_of(arm.name)]
    left = [arm for arm in left if arm.name not in {*kept, *record.ruled_out}]
    ends = _ends(sweep, found)
    if not left or ends is None:
        return {}
    out = {arm.name: _cannot_win_words(horizon_of(arm), ends) for arm in left if _cannot_win(arm, ends)}
    left = [arm for arm in left if arm.name not in out]
    chosen = _most_promising([horizon_of(arm) for arm in left], ends, most=sweep.most)
    rest = [arm for arm in left if horizon_of(arm) not in chosen]
    return {**out, **{arm.name: _slower_words(horizon_of(arm), chosen, ends) for arm in rest}}


def _ends(sweep: ArmSweep, found: DrafterHorizons) -> tuple[_Prospects, _Prospects] | None:
    """Return what horizons promise at the lowest and at the highest load; `None` where a scout tells nothing there."""
    lowest, highest = sweep.ends
    low = _prospects(sweep, found, at=lowest, name=OBJECTIVES["per-user speed"])
    high = _prospects(sweep, found, at=highest, name=OBJECTIVES["batch throughput"])
    return None if low is None or high is None else (low, high)


def _prospects(sweep: ArmSweep, found: DrafterHorizons, *, at: Level, name: str) -> _Prospects | None:
    measured = found.measured.get(at, ())
    scouts = [horizon_of(arm) for arm in sweep.scouts]
    if any(not one.step_times_s for one in measured) or not {*scouts} <= {one.k for one in measured}:
        return None
    rows = {row.k: row for row in horizons(measured, up_to=scouts[1])}
    noise = found.noise.get(name)
    floor = floor_of(noise.sigma) if noise is not None and noise.df else None
    prospects = _Prospects(at, rows, scouts[0], floor)
    return dataclasses.replace(prospects, best=max(scouts, key=prospects.speed))


def _cannot_win(arm: Arm, ends: tuple[_Prospects, _Prospects]) -> bool:
    return all(end.cannot_win(horizon_of(arm)) for end in ends)


def _most_promising(ks: Sequence[int], ends: tuple[_Prospects, _Prospects], *, most: int) -> list[int]:
    """Return the horizons that are predicted best: at the lowest and at the highest load, in turn."""
    orders = [sorted(ks, key=end.speed, reverse=True) for end in ends]
    return list(dict.fromkeys(itertools.chain.from_iterable(zip(*orders, strict=True))))[:most]


def _cannot_win_words(k: int, ends: tuple[_Prospects, _Prospects]) -> str:
    texts = [
        f"{end.favourable(k):.4g} tokens/s a stream at {level_label(end.at)}, where {_name(end.best)} has "
        f"{end.speed(end.best):.4g}"
        for end in _distinct(ends)
    ]
    floors = {f"{100 * (end.floor or 0.0):.3g} %" for end in ends}
    return (
        f"k={k} can give at most {', and '.join(texts)} (upper end of the 95 % interval of its tokens per step, in a "
        f"step that is assumed to take no less than one of off, and the noise floor of {' and '.join(sorted(floors))} "
        f"in its favour)"
    )


def _slower_words(k: int, chosen: Sequence[int], ends: tuple[_Prospects, _Prospects]) -> str:
    texts = []
    for end in _distinct(ends):
        best = max(chosen, key=end.speed)
        slower = 1 - end.speed(k) / end.speed(best)
        texts.append(f"{100 * slower:.1f} % slower than k={best} at {level_label(end.at)}")
    return (
        f"k={k} is predicted {', and '.join(texts)} (from the acceptance of the longest horizon, with step times on "
        f"the line between off and that one), and no more than {len(chosen)} besides the scouts are booted"
    )


def _distinct(ends: tuple[_Prospects, _Prospects]) -> tuple[_Prospects, ...]:
    """Return the ends, or the one where the load has a single level."""
    return ends if ends[0].at != ends[1].at else ends[:1]


def _beaten(sweep: ArmSweep, found: DrafterHorizons) -> dict[str, str]:
    """Return the arms that others beat by more than the noise, whatever is wanted; nothing if it was not all told."""
    noise = {(found.window, name): known for name, known in found.noise.items()}
    # Every round is a look at all pairs, and all looks together are to err as seldom as one would.
    given = advice(found.figures, noise=noise, predicted={}, ends={found.window: sweep.ends}, looks=sweep.rounds)
    compared = dict(sweep.compared)
    told = [one for one in given if one.metric in compared]
    if any(one.at != compared[one.metric] for one in told):
        return {}
    out = {}
    for k, name in found.arms.items():
        lost = [_worst(k, one) for one in told]
        if k and all(lost):
            out[name] = f"k={k} is beaten {'; '.join(_lost_words(duel) for duel in lost if duel is not None)}"
    return out


def _worst(k: int, told: Advice) -> Duel | None:
    """Return the decided duel in which a horizon lost most; `None` where it lost none."""
    lost = [duel for duel in told.duels if duel.is_decided and duel.second == k]
    return max(lost, key=lambda duel: duel.gain.mean if duel.gain is not None else 0.0, default=None)


def _lost_words(duel: Duel) -> str:
    row = metric(duel.metric)
    words = change_words(duel.change, metric_name=duel.metric)
    assert duel.gain is not None, "a decided duel has one"
    ends = sorted(raw_change(end, higher_is_better=row.higher_is_better) for end in (duel.gain.low, duel.gain.high))
    span = " .. ".join(f"{100 * end:+.1f}" for end in ends)
    rounds = f"{duel.rounds} round{'' if duel.rounds == 1 else 's'}"
    return f"at {level_label(duel.at)} by {_name(duel.first)} ({row.label} {words}, {span} %, {rounds})"


def _name(k: int) -> str:
    return f"k={k}" if k else "off"
