"""The figures of a window that a page may draw, by arm and load level: those of valid boots and points, no others."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import identity
from pytest_specgate.core.judge import NOT_BOOTED, figure_problem, first_point_problem, pair_problem
from pytest_specgate.core.levels import concurrency_of, level_label, level_order, rate_per_s, without_temperature
from pytest_specgate.core.metrics import is_metric, measure
from pytest_specgate.core.metrics import metric as row_of
from pytest_specgate.core.rounds import rounds_at
from pytest_specgate.core.speculation import pool
from pytest_specgate.core.statistics import geometric_mean
from pytest_specgate.core.stored import Failure
from pytest_specgate.reporting.plots import Cell, Levels, Line
from pytest_specgate.reporting.window_pairs import no_figures, verdicts_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, PointRecord
    from pytest_specgate.core.speculation import SpeculationDelta
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.session_report import ReportedWindow

LEVEL: Final = 0.95
"""Of the intervals over boots."""

_OF_SPECULATION: Final = ("acceptance_rate", "acceptance_length")
"""The metrics that tell what was drafted and accepted: where one of them is INVALID, none of it is shown."""

_FIELDS: Final = 3
"""Number of fields of the request profile that are named where arms got other requests."""


@dataclasses.dataclass(frozen=True)
class Figures:
    """What of a window may be shown.

    Attributes:
        window: what was measured and judged.
    """

    window: ReportedWindow

    @functools.cached_property
    def _problems(self) -> Mapping[str, Failure | None]:
        # By key: two pairs of the same arms have one title.
        return {pair.key: pair_problem(pair, self.window.record) for pair in self.window.pairs}

    def problem(self, pair: ArmPair) -> Failure | None:
        """Return why no figure of a pair may be shown; `None` if they may."""
        return self._problems[pair.key]

    @functools.cached_property
    def _point_problems(self) -> Mapping[tuple[str, Level], Failure | None]:
        return {
            (pair.key, at): first_point_problem(pair, self.window.record, at=at)
            for pair in self.readable
            for at in self.levels
        }

    def point_problem(self, pair: ArmPair, at: Level) -> Failure | None:
        """Return why a valid pair cannot be judged at a load level; `None` if it can."""
        return self._point_problems[pair.key, at]

    @functools.cached_property
    def _verdicts(self) -> Mapping[str, Sequence[Verdict]]:
        return {pair.key: verdicts_on(pair, self.window.judged) for pair in self.window.pairs}

    def figure_problem(self, pair: ArmPair, at: Level, metric: str) -> Failure | None:
        """Return why no figure of a metric may be shown at a level of a pair that can be judged; `None` if they may."""
        return figure_problem(pair, self.window.record, self._verdicts[pair.key], metric_name=metric, at=at)

    @functools.cached_property
    def readable(self) -> tuple[ArmPair, ...]:
        """The pairs whose figures may be shown."""
        return tuple(pair for pair in self.window.pairs if self.problem(pair) is None)

    @functools.cached_property
    def arms(self) -> tuple[Arm, ...]:
        """All arms of the window's pairs, in the order in which they were declared."""
        paired = {arm.name for pair in self.window.pairs for arm in pair.arms}
        return tuple(arm for arm in self.window.record.arms if arm.name in paired)

    def style(self, arm: str) -> int:
        """Return the number of an arm in the legend."""
        return next(place for place, one in enumerate(self.arms) if one.name == arm)

    @functools.cached_property
    def levels(self) -> tuple[Level, ...]:
        """The load levels, concurrencies first, each kind rising."""
        return tuple(sorted(self.window.record.profile.points, key=level_order))

    def drawn(self, *, open_loop: bool) -> tuple[Level, ...]:
        """Return the load levels of one kind that lie on one line: those of the profile's own temperature.

        Where none has it, those of the lowest. A load has one place on the line, whatever its temperature.
        """
        profile = self.window.record.profile
        kind = [at for at in self.levels if (rate_per_s(at) is not None) == open_loop]
        temperatures = sorted({profile.temperature_at(at) for at in kind})
        taken = profile.temperature if profile.temperature in temperatures else next(iter(temperatures), None)
        return tuple(at for at in kind if profile.temperature_at(at) == taken)

    @functools.cached_property
    def _judged(self) -> Mapping[tuple[str, Level], Sequence[tuple[ArmPair, Sequence[BootRecord]]]]:
        """The valid pairs of an arm that can be judged at a level, each with the boots of the arm in whole rounds."""
        found: dict[tuple[str, Level], list[tuple[ArmPair, Sequence[BootRecord]]]] = {}
        for pair in self.readable:
            rounds = self.window.record.rounds_of(pair)
            for at in self.levels:
                if self.point_problem(pair, at) is None:
                    for arm, boots in zip(pair.arms, zip(*rounds, strict=True), strict=True):
                        found.setdefault((arm.name, at), []).append((pair, boots))
        return found

    def boots(self, arm: str, at: Level, *metrics: str) -> tuple[BootRecord, ...]:
        """Return the boots of an arm whose figures at a load level may be shown, by round.

        These are the boots of whole rounds of a valid pair that can be judged at this level, and no verdict on which
        calls one of the metrics INVALID.
        """
        found: dict[int, BootRecord] = {}
        for pair, boots in self._judged.get((arm, at), ()):
            if all(self.figure_problem(pair, at, metric) is None for metric in metrics):
                found |= {boot.round: boot for boot in boots}
        return tuple(found[number] for number in sorted(found))

    def points(self, arm: str, at: Level, *metrics: str) -> tuple[PointRecord, ...]:
        """Return their points."""
        found = (boot.point(at) for boot in self.boots(arm, at, *metrics))
        return tuple(point for point in found if point is not None)

    @functools.cached_property
    def loads(self) -> tuple[tuple[Arm, ...], ...]:
        """The arms that are shown, in groups of those that got the same requests: only these share a picture.

        The arms of a pair did. Pairs of one window without a common arm have one declared load, but may serve other
        models, whose servers are sent, read and answer other things.
        """
        found: list[tuple[BootRecord, list[Arm]]] = []
        for arm in self.arms:
            boot = self._boot_of(arm)
            if boot is None:
                continue
            mine = next((arms for first, arms in found if identity.compare((first, boot)).identical), None)
            if mine is None:
                found.append((boot, [arm]))
            else:
                mine.append(arm)
        return tuple(tuple(arms) for _, arms in found)

    def _boot_of(self, arm: Arm) -> BootRecord | None:
        return next((boot for at in self.levels for boot in self.boots(arm.name, at)), None)

    def apart(self) -> Iterator[str]:
        """Say which arms got other requests than the first ones, and in what these differ."""
        firsts = [self._boot_of(arms[0]) for arms in self.loads]
        names = [", ".join(arm.name for arm in arms) for arms in self.loads]
        for other, boot in list(zip(names, firsts, strict=True))[1:]:
            assert firsts[0] is not None, "loads() has arms with boots only"
            assert boot is not None, "likewise"
            fields = [difference.field for difference in identity.compare((firsts[0], boot)).differences]
            more = [f"{len(fields) - _FIELDS} more"] if len(fields) > _FIELDS else []
            told = ", ".join([*fields[:_FIELDS], *more])
            yield f"{other} got other requests than {names[0]} ({told}): they are drawn apart, and not to be compared."

    def left_out(self) -> Iterator[str]:
        """Say which arms and points are shown nowhere, and why, each reason once."""
        found: dict[str, list[str]] = {}
        for what, problem in self._left_out():
            why = f"left out ({problem.reason}): {problem.message}"
            found.setdefault(no_figures(problem) if problem.reason == NOT_BOOTED else why, []).append(what)
        for why, names in found.items():
            yield f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {why}"

    def _left_out(self) -> Iterator[tuple[str, Failure]]:
        for arm in self.arms:
            # By name: the arms of a record have lost their secrets.
            mine = [pair for pair in self.window.pairs if arm.name in {one.name for one in pair.arms}]
            valid = [pair for pair in mine if pair in self.readable]
            if not valid:
                problem = self.problem(mine[0])
                assert problem is not None, "the pair is not readable"
                yield arm.name, problem
                continue
            for at in self.levels:
                problem = None if self.boots(arm.name, at) else self.point_problem(valid[0], at)
                if problem is not None:
                    yield f"{arm.name} at {level_label(at)}", problem
                else:
                    yield from self._refused(arm, at)

    def _refused(self, arm: Arm, at: Level) -> Iterator[tuple[str, Failure]]:
        """Yield the metrics of a point that are shown nowhere since a verdict calls them INVALID."""
        pairs = [pair for pair, _ in self._judged.get((arm.name, at), ())]
        claimed = [one.metric for pair in pairs for one in self._verdicts[pair.key] if one.at == at]
        for name in dict.fromkeys(one for one in claimed if is_metric(one)):
            problems = [self.figure_problem(pair, at, name) for pair in pairs]
            found = [problem for problem in problems if problem is not None]
            if found and len(found) == len(pairs):
                yield f"{row_of(name).label} of {arm.name} at {level_label(at)}", found[0]

    def values(self, arm: str, at: Level, metric: str) -> tuple[float, ...]:
        """Return a metric of an arm's boots, by round; nothing unless each of them has it."""
        found = [measure(metric, point, self.window.record.profile).value for point in self.points(arm, at, metric)]
        known = tuple(value for value in found if value is not None)
        return known if len(known) == len(found) else ()

    def missing(self, metric: str) -> Iterator[str]:
        """Say at which valid points a metric has no value, and why."""
        for arm in self.arms:
            for at in self.levels:
                points = self.points(arm.name, at, metric)
                found = [measure(metric, point, self.window.record.profile) for point in points]
                why = next((one.missing for one in found if one.value is None), None)
                if why is not None:
                    yield f"{arm.name} at {level_label(at)}: no {metric}: {why}"

    def lines(self, metric: str, arms: Sequence[Arm], *, open_loop: bool = False) -> tuple[Line, ...]:
        """Return a metric over load levels of one kind, a line for each of some arms that has any."""
        levels = self.drawn(open_loop=open_loop)
        values = {(arm.name, at): self.values(arm.name, at, metric) for arm in arms for at in levels}
        halves = {at: half_width([values[arm.name, at] for arm in arms]) for at in levels}
        lines = []
        for arm in arms:
            cells = tuple(_cell(at, values[arm.name, at], halves[at]) for at in levels if values[arm.name, at])
            if cells:
                lines.append(Line(arm.name, self.style(arm.name), cells))
        return tuple(lines)

    def along(self, *, open_loop: bool) -> Levels | None:
        """Return the load levels of one kind that are drawn; `None` where there is none."""
        levels, profile = self.drawn(open_loop=open_loop), self.window.record.profile
        if not levels:
            return None
        several = len({profile.temperature_at(at) for at in self.levels}) > 1
        of = f" at temperature {profile.temperature_at(levels[0]):g}" if several else ""
        return Levels(
            f"{'arrival rate [requests/s]' if open_loop else 'concurrency'}{of}",
            {_place(at): _tick(at) for at in levels},
        )

    def changes(self, pair: ArmPair, metric: str, *, open_loop: bool = False) -> Iterator[Cell]:
        """Yield the change of a metric of a valid pair at each load level of one kind that is drawn, as fractions."""
        record = self.window.record
        for at in self.drawn(open_loop=open_loop):
            if self.point_problem(pair, at) is not None:
                continue
            if self.figure_problem(pair, at, metric) is not None:
                continue
            rounds = rounds_at(pair, record, metric_name=metric, at=at)
            if not isinstance(rounds, Failure) and min(*rounds.reference.values, *rounds.candidate.values) > 0:
                ratios = [
                    right / left for left, right in zip(rounds.reference.values, rounds.candidate.values, strict=True)
                ]
                values = tuple(ratio - 1 for ratio in ratios)
                yield Cell(_place(at), _tick(at), geometric_mean(ratios) - 1, values)

    def speculation(self, arm: str, at: Level) -> SpeculationDelta | None:
        """Return what an arm drafted and accepted at a load level, all boots pooled; `None` without speculation."""
        points = self.points(arm, at, *_OF_SPECULATION)
        deltas = [delta for point in points if (delta := point.counters.speculation()) is not None]
        return pool(deltas) if deltas else None

    def acceptance(self, at: Level, arms: Sequence[Arm]) -> tuple[Line, ...]:
        """Return the share of drafts accepted by position, a line for each speculative one of some arms."""
        lines = []
        for arm in arms:
            pooled = self.speculation(arm.name, at)
            rates = pooled.per_position_rates if pooled is not None else ()
            cells = tuple(Cell(place, f"{place}", rate) for place, rate in enumerate(rates, start=1))
            if cells:
                lines.append(Line(arm.name, self.style(arm.name), cells))
        return tuple(lines)


def _place(at: Level) -> float:
    return concurrency_of(at) or rate_per_s(at) or 1.0


def _tick(at: Level) -> str:
    return f"{without_temperature(at)}"


def _cell(at: Level, values: Sequence[float], half: float | None) -> Cell:
    place, label = _place(at), _tick(at)
    if min(values) <= 0:
        return Cell(place, label, math.fsum(values) / len(values), tuple(values))
    mean = geometric_mean(values)
    if half is None or len(values) < 2:
        return Cell(place, label, mean, tuple(values))
    factor = math.exp(half / math.sqrt(len(values)))
    return Cell(place, label, mean, tuple(values), mean / factor, mean * factor)


def degrees(arms: Sequence[Sequence[float]]) -> int:
    """Return the degrees of freedom of the scatter within arms."""
    return sum(len(values) - 1 for values in arms if values)


def half_width(arms: Sequence[Sequence[float]]) -> float | None:
    """Return t times the standard deviation of one boot, in log units; `None` where no arm has a second boot.

    The scatter of boots is pooled over the arms of a load level: two boots of one arm alone tell next to nothing.

    Args:
        arms: values of the boots, by arm.
    """
    usable = [values for values in arms if values and min(values) > 0]
    df = degrees(usable)
    if not df:
        return None
    import numpy as np  # noqa: PLC0415  - a fifth of a second that only intervals may cost

    from pytest_specgate.core import rule  # noqa: PLC0415

    logs = [np.log(np.array(values)) for values in usable]
    squares = math.fsum(float(((one - one.mean()) ** 2).sum()) for one in logs)
    return float(rule.quantile((1 - LEVEL) / 2, np.array(float(df)))) * math.sqrt(squares / df)
