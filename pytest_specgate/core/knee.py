"""Which k: what curves and windows tell of draft horizons, put together, and which measurement would tell more."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.acceptance import AcceptanceCurve
from pytest_specgate.core.advice import advice, comparable
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.horizon import CUT, Measured, crossing, horizons
from pytest_specgate.core.knee_changes import changes_of, is_open, telling
from pytest_specgate.core.knee_families import family_names
from pytest_specgate.core.levels import level_label, level_order
from pytest_specgate.core.speculation import SpeculationDelta

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_specgate.core.advice import Advice
    from pytest_specgate.core.analysis import CounterAnalysis
    from pytest_specgate.core.horizon import Crossing, Horizon
    from pytest_specgate.core.horizon_records import DrafterHorizons, WindowHorizons
    from pytest_specgate.core.knee_changes import Change
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.stored import Failure

COUNTED: Final = "of counters"
"""Name of the drafter of curves that do not tell it, where no window does."""


@dataclasses.dataclass(frozen=True, slots=True)
class CountedCurve:
    """Acceptance that counters tell, of whatever load they were taken around.

    Attributes:
        source: where the file lies.
        curve: acceptance by position.
        tokens_per_step: output tokens of a decode step; `None` where no steps were counted.
        step_time_s: seconds of a decode step; `None` likewise.
    """

    source: str
    curve: AcceptanceCurve
    tokens_per_step: float | None
    step_time_s: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """A window that tells of horizons.

    Attributes:
        source: where its record lies.
        told: what it tells.
        load: fingerprint of its request profile.
        host_class: of its machine.
        noise: what is known of the noise of each metric, in words.
        ruled_out: why a sweep booted an arm no more, or never, by its name.
        unbooted: horizons that sweeps ruled out before their first boot.
        differences: in what the servers of two arms differ besides what was declared and allowed, by their names.
        unproved: what nobody can prove of arms that were attached, a sentence each, by name.
        build: fingerprint of the engines that served it.
    """

    source: str
    told: WindowHorizons
    load: str = ""
    host_class: str = ""
    noise: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ruled_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unbooted: tuple[int, ...] = ()
    differences: Mapping[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    unproved: Mapping[str, str] = dataclasses.field(default_factory=dict)
    build: str = ""

    @property
    def unfinished(self) -> str:
        """Why it ended early, as a sentence; empty where it ran to its end."""
        if self.told.stopped:
            return f"the window was stopped before its last round: {self.told.stopped}"
        return "" if self.told.finished else "the window did not run to its end"

    @property
    def is_invalid(self) -> bool:
        """Whether nothing of it may be looked at, for a reason."""
        return self.told.is_invalid


@dataclasses.dataclass(frozen=True, slots=True)
class KneeCurve:
    """Acceptance by position of one horizon at one load level.

    Attributes:
        k: the horizon.
        at: load level; `None` where it is not told.
        curve: the rates.
        crossing: where they fall under the cut.
    """

    k: int
    at: Level | None
    curve: AcceptanceCurve
    crossing: Crossing


@dataclasses.dataclass(frozen=True, slots=True)
class LevelHorizons:
    """What each horizon gives and costs at one load level.

    Attributes:
        at: load level; `None` where it is not told.
        rows: horizons, rising.
        curves: horizons of the curves that were measured, rising.
    """

    at: Level | None
    rows: tuple[Horizon, ...]
    curves: tuple[int, ...]

    def told_by(self, k: int) -> int:
        """Return the horizon whose curve tells of another one: the nearest longer one, or else the longest."""
        return min((length for length in self.curves if length >= k), default=self.curves[-1])


@dataclasses.dataclass(frozen=True, slots=True)
class KneeSource:
    """One drafter in one window, or one file of counters.

    Attributes:
        source: where the file lies.
        drafter: its name; `None` for counters, which do not tell it.
        identity: whether all boots got the same requests, as a sentence; `None` for counters.
        arms: name of each horizon's arm; of counters none.
        curves: by level, then horizon.
        levels: horizons by level.
        drafted_only: whether no decode steps were counted, so that tokens per step are those of steps that drafted.
        ruled_out: why a sweep booted an arm no more, or never, by its name.
        unfinished: why its window ended early, as a sentence; empty where it ran to its end.
        unproved: what nobody can prove of its arms, as sentences.
        ends: lowest and highest load level of its profile, where it is told.
    """

    source: str
    drafter: str | None
    identity: str | None
    arms: Mapping[int, str]
    curves: tuple[KneeCurve, ...]
    levels: tuple[LevelHorizons, ...]
    drafted_only: bool = False
    ruled_out: Mapping[str, str] = dataclasses.field(default_factory=dict)
    unfinished: str = ""
    unproved: tuple[str, ...] = ()
    ends: tuple[Level, Level] | None = None

    def at(self, levels: Sequence[Level] | None) -> tuple[LevelHorizons, ...]:
        """Return the horizons at some load levels; without any at the lowest and the highest one of one temperature."""
        if levels is not None:
            return tuple(one for one in self.levels if one.at is None or one.at in levels)
        kept = comparable([one.at for one in self.levels if one.at is not None], self.ends)
        alike = [one for one in self.levels if one.at is None or one.at in kept]
        return tuple(dict.fromkeys((*alike[:1], *alike[-1:])))

    def curves_at(self, at: Level | None) -> tuple[KneeCurve, ...]:
        """Return the curves of a load level."""
        return tuple(one for one in self.curves if one.at == at)


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectiveAdvice:
    """Advice for one objective, and what would change it.

    Attributes:
        advice: which k.
        changes: measurements that would change it.
        noise: what is known of the noise of its metric, in words; none where no two horizons met.
        differences: in what the servers of two horizons that met differ besides what was declared and allowed.
        is_open: whether a curve did not fall under the cut where it was measured, so that longer horizons may do.
    """

    advice: Advice
    changes: tuple[Change, ...]
    noise: tuple[str, ...]
    is_open: bool
    differences: tuple[tuple[int, int, str], ...] = ()

    @property
    def words(self) -> str:
        """The advice in few words."""
        return f"{self.advice.words}{' or longer' if self.is_open else ''}"

    @property
    def tells(self) -> bool:
        """Whether any horizon was ruled out."""
        return self.advice.rules_out and not (self.is_open and 0 in self.advice.ks)


@dataclasses.dataclass(frozen=True, slots=True)
class Knee:
    """What all inputs together tell.

    Attributes:
        cut: rate by position below which a position is taken for waste.
        sources: what was looked at.
        left_out: why something was not, each with the file.
        advice: by drafter, one an objective.
        loads: whether windows were measured under more than one load.
        hosts: whether they were on more than one class of machine.
        builds: whether more than one build of the engine served them.
    """

    cut: float
    sources: tuple[KneeSource, ...]
    left_out: tuple[tuple[str, Failure], ...]
    advice: Mapping[str, tuple[ObjectiveAdvice, ...]]
    loads: bool = False
    hosts: bool = False
    builds: bool = False

    @property
    def tells(self) -> bool:
        """Whether any horizon was ruled out for any objective."""
        return any(one.tells for found in self.advice.values() for one in found)


def counted_curve(found: CounterAnalysis, source: str) -> CountedCurve:
    """Return the curve that counters tell.

    Args:
        found: what two metrics pages say.
        source: where that lies.

    Raises:
        UsageError: they show no draft, or contradict themselves.
    """
    if not found.valid:
        raise UsageError(f"{source} is INVALID ({found.reason}) and can source nothing: {found.message}")
    counts = (found.drafts, found.draft_tokens, found.accepted_tokens, found.accepted_per_position)
    if not found.drafts or None in counts:
        raise UsageError(f"{source} tells of no draft: take counters around traffic of a server that speculates")
    delta = SpeculationDelta(
        found.drafts, found.draft_tokens or 0, found.accepted_tokens or 0, found.accepted_per_position or ()
    )
    try:
        return CountedCurve(source, AcceptanceCurve(delta), found.tokens_per_step, found.step_time_s)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error


def knee_of(
    windows: Sequence[MeasuredWindow],
    counted: Sequence[CountedCurve] = (),
    *,
    cut: float = CUT,
    up_to: int | None = None,
) -> Knee:
    """Return what windows and curves tell of draft horizons.

    Args:
        windows: that were measured.
        counted: curves of other instruments.
        cut: rate by position below which a position is taken for waste.
        up_to: longest horizon to be told of; `None` for the longest that was measured.

    Raises:
        UsageError: the cut is none, or the longest horizon cannot be.
    """
    drafters = list(_told_apart(windows))
    names = list(dict.fromkeys(told.drafter for _, told in drafters))
    sources = [_of_window(told, window, cut, up_to) for window, told in drafters]
    own = [_of_counters(one, cut, up_to) for one in counted]
    # Counters do not tell their drafter. Who gives them beside windows of a single one means that one.
    shared = own if len(names) == 1 else []
    found = {
        name: _objectives([(window, told) for window, told in drafters if told.drafter == name],
                          [*(one for one in sources if one.drafter == name), *shared])
        for name in names
    }  # fmt: skip
    if own and not shared:
        found[COUNTED] = _objectives([], own)
    read = [window for window in windows if window.told.drafters]
    return Knee(
        cut,
        (*sources, *own),
        tuple((window.source, failure) for window in windows for failure in window.told.left_out),
        found,
        loads=len({window.load for window in read}) > 1,
        hosts=len({window.host_class for window in read}) > 1,
        builds=len({window.build for window in read if window.build}) > 1,
    )


def _told_apart(windows: Sequence[MeasuredWindow]) -> Iterator[tuple[MeasuredWindow, DrafterHorizons]]:
    """Yield the drafters of windows under names that tell them apart."""
    names = family_names([window.told.drafters for window in windows])
    for window, own in zip(windows, names, strict=True):
        for told, name in zip(window.told.drafters, own, strict=True):
            yield window, dataclasses.replace(told, drafter=name)


def check_levels(sources: Sequence[KneeSource], levels: Sequence[Level]) -> None:
    """Refuse load levels that no window has.

    Raises:
        UsageError: one of them is not there.
    """
    there = sorted({one.at for source in sources for one in source.levels if one.at is not None}, key=level_order)
    for at in levels:
        if at not in there:
            known = ", ".join(map(level_label, there)) or "none"
            raise UsageError(f"nothing was measured at {level_label(at)}: load levels are {known}")


def _of_window(told: DrafterHorizons, window: MeasuredWindow, cut: float, up_to: int | None) -> KneeSource:
    levels = sorted(told.measured, key=level_order)
    return KneeSource(
        told.window,
        told.drafter,
        told.identity,
        told.arms,
        tuple(curve for at in levels for curve in _curves(told.measured[at], at, cut)),
        tuple(_level(told.measured[at], at, up_to) for at in levels),
        ruled_out=window.ruled_out,
        unfinished=window.unfinished,
        unproved=tuple(sentence for name, sentence in window.unproved.items() if name in told.arms.values()),
        ends=told.ends,
    )


def _of_counters(one: CountedCurve, cut: float, up_to: int | None) -> KneeSource:
    curve = one.curve
    tokens = curve.acceptance_length.value if one.tokens_per_step is None else one.tokens_per_step
    measured = (Measured(curve.k, tokens, () if one.step_time_s is None else (one.step_time_s,), curve),)
    return KneeSource(
        one.source,
        None,
        None,
        {},
        tuple(_curves(measured, None, cut)),
        (_level(measured, None, up_to),),
        drafted_only=one.tokens_per_step is None,
    )


def _curves(measured: Sequence[Measured], at: Level | None, cut: float) -> Iterator[KneeCurve]:
    for one in sorted(measured, key=lambda one: one.k):
        if one.curve is not None:
            yield KneeCurve(one.k, at, one.curve, crossing(one.curve, cut))


def _level(measured: Sequence[Measured], at: Level | None, up_to: int | None) -> LevelHorizons:
    ks = tuple(sorted(one.k for one in measured if one.curve is not None))
    return LevelHorizons(at, horizons(measured, up_to=max(up_to or 0, ks[-1])), ks)


def _objectives(
    drafters: Sequence[tuple[MeasuredWindow, DrafterHorizons]], sources: Sequence[KneeSource]
) -> tuple[ObjectiveAdvice, ...]:
    crossings = telling([one for source in sources if (one := _crossing_of(source)) is not None])
    noise = {(told.window, name): known for _, told in drafters for name, known in told.noise.items()}
    predicted = {
        (source.source, level.at): level.rows for source in sources for level in source.levels if level.at is not None
    }
    figures = [one for _, told in drafters for one in told.figures]
    words = {(told.window, name): text for window, told in drafters for name, text in window.noise.items()}
    ends = {told.window: told.ends for _, told in drafters}
    found = advice(figures, noise=noise, crossings=crossings, predicted=predicted, ends=ends)
    unbooted = {k for window, _ in drafters for k in window.unbooted}
    return tuple(
        ObjectiveAdvice(
            one,
            tuple(changes_of(one, noise=noise, crossings=crossings, unbooted=unbooted)),
            tuple(dict.fromkeys(words[key] for duel in one.duels if (key := (duel.window, duel.metric)) in words)),
            is_open(one, crossings),
            tuple(dict.fromkeys(_differences(one, drafters))),
        )
        for one in found
    )


def _differences(
    one: Advice, drafters: Sequence[tuple[MeasuredWindow, DrafterHorizons]]
) -> Iterator[tuple[int, int, str]]:
    """Yield in what the servers of horizons that met differ besides what was declared and allowed."""
    for duel in one.duels:
        ks = (min(duel.first, duel.second), max(duel.first, duel.second))
        for window, told in drafters:
            names = (told.arms.get(ks[0], ""), told.arms.get(ks[1], ""))
            if told.window == duel.window and names in window.differences:
                yield (*ks, window.differences[names])


def _crossing_of(source: KneeSource) -> Crossing | None:
    """Return where the longest curve of a source at its lowest load falls under the cut."""
    shown = source.at(None)
    return source.curves_at(shown[0].at)[-1].crossing if shown else None
