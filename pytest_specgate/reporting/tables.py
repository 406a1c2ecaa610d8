"""Tables for the terminal."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from pytest_specgate.core import counters, statistics, validity
from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.decode_figures import pooled_steps
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.judge import figure_problem, first_point_problem
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import HEADLINE, Measured, measure, metric
from pytest_specgate.core.noise import NORMAL_975, floor_of
from pytest_specgate.core.percent import signed
from pytest_specgate.core.speculation import pool
from pytest_specgate.core.thresholds import FASTER_ONLY_UP_TO, LIMITS, OUTPUTS_AGREE
from pytest_specgate.core.units import amount_text
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.figures import number, span, two_digits, unit_text, value_text
from pytest_specgate.reporting.gate_names import gate_names, once, with_gate
from pytest_specgate.reporting.layout import Narrowing, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.metrics import Metric
    from pytest_specgate.core.records import BootRecord, PointRecord, WindowRecord
    from pytest_specgate.core.verdict import Verdict

_ROUNDS_SHOWN = 3


def pair_table(pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict], *, columns: int | None = None) -> str:
    """Return the table of a pair: both arms, the change, its interval and the outcome, by point and metric.

    Only for pairs whose request profiles were found identical.

    Args:
        pair: the arms.
        record: what was measured.
        verdicts: on this pair; where several gates judge it, each outcome is told with its gate.
        columns: width of the terminal; `None` for any width.
    """
    # What is claimed of a baseline stands in a table of its own: its changes are of another kind.
    own = [verdict for verdict in verdicts if verdict.kind != NOT_WORSE_THAN_BASELINE]
    names = gate_names(own)
    rows = [row for at in record.profile.points for row in _point_rows(pair, record, own, names=names, at=at)]
    arms = [arm.name for arm in pair.arms]
    table = Table(
        ("load", "metric", *arms, "change", "by round", "interval", "outcome"),
        ("right", "left", "right", "right", "left", "left", "left", "left"),
        tuple(tuple(row.cells) for row in rows),
    )
    narrowings = [
        Narrowing((5,), "changes by round"),
        Narrowing((7,), "claims", tuple(row.words for row in rows)),
        Narrowing((6,), "intervals"),
        Narrowing((2, 3), "values of both arms", slack=8),
    ]
    return table.text(columns, narrowings=narrowings)


@dataclasses.dataclass(frozen=True, slots=True)
class _TableRow:
    """A row of a pair's table.

    Attributes:
        cells: of all columns.
        words: what became of its thresholds, without what they claim, for narrow terminals.
    """

    cells: Sequence[str]
    words: str = "-"


def point_notes(pair: ArmPair, record: WindowRecord) -> Iterator[str]:
    """Say why points of a pair are not judged, each in one line below the table, which would grow too wide for it."""
    for at in record.profile.points:
        problem = first_point_problem(pair, record, at=at)
        if problem is not None:
            yield one_line(f"not judged ({problem.reason}): {problem.message}")


def _point_rows(
    pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict], *, names: Mapping[str, str], at: Level
) -> Iterable[_TableRow]:
    here = [verdict for verdict in verdicts if verdict.at == at]
    problem = first_point_problem(pair, record, at=at)
    if problem is not None:
        text = one_line(f"not judged ({problem.reason}), see below")
        yield _TableRow([level_label(at), text, *["-"] * 5, Outcome.INVALID], Outcome.INVALID)
        return
    limits = [verdict for verdict in here if verdict.kind in LIMITS]
    gated = [verdict.metric for verdict in here if verdict.kind != OUTPUTS_AGREE and verdict not in limits]
    shown = dict.fromkeys((*HEADLINE, *gated))
    for place, name in enumerate(shown):
        label = level_label(at) if place == 0 else ""
        own = [verdict for verdict in here if verdict.metric == name]
        yield _judged_row([label, *_row(pair, record, own, name=name, at=at)], own, names)
    for verdict in limits:
        if verdict.metric not in shown:
            yield _judged_row(["", *_limit_row(verdict)], [verdict], names)
    for verdict in here:
        if verdict.kind == OUTPUTS_AGREE:
            worst = f"{100 * min(verdict.shares):.4g} %" if verdict.shares else "-"
            cells = ["", "equal answers", "-", "-", worst, shares_text(verdict)]
            yield _judged_row(cells, [verdict], names)


def _judged_row(cells: Sequence[str], verdicts: Sequence[Verdict], names: Mapping[str, str]) -> _TableRow:
    """Return a row with its intervals and outcomes, in the same order below one another."""
    told = [(_interval(verdict), with_gate(told_outcome(verdict), verdict, names), verdict) for verdict in verdicts]
    # Two claims of one gate may be one claim, declared twice.
    kept = {(interval, outcome): verdict for interval, outcome, verdict in reversed(told)}
    order = list(reversed(kept.items()))
    intervals, outcomes = once([key[0] for key, _ in order]), "\n".join(key[1] for key, _ in order)
    words = "\n".join(with_gate(_short_outcome(verdict), verdict, names) for _, verdict in order)
    return _TableRow([*cells, intervals or "-", outcomes or "-"], words or "-")


def _limit_row(verdict: Verdict) -> list[str]:
    """Return the row of a metric that is only bounded: the worst boot of the candidate, and no comparison."""
    row = metric(verdict.metric)
    worst = "-" if verdict.candidate is None else value_text(row, verdict.candidate)
    return [f"{row.label} [{unit_text(row)}]", "-", worst, "worst boot", "-"]


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
    """Values of a metric in both arms, round by round."""

    reference: list[float]
    candidate: list[float]

    @property
    def rounds(self) -> list[float]:
        return [c / r - 1 for r, c in zip(self.reference, self.candidate, strict=True)]

    @property
    def sides(self) -> tuple[float, float]:
        """The mean of each arm; a rate that fell to 0 in a round has no other mean."""
        return statistics.geometric_mean(self.reference), (
            0.0 if 0 in self.candidate else statistics.geometric_mean(self.candidate)
        )

    @property
    def mean(self) -> float:
        reference, candidate = self.sides
        return candidate / reference - 1


def _row(pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict], *, name: str, at: Level) -> list[str]:
    row = metric(name)
    head = [f"{row.label} [{unit_text(row)}]"]
    change = _change(pair, record, row, at=at)
    problem = figure_problem(pair, record, verdicts, metric_name=name, at=at)
    if problem is not None and not isinstance(change, str):
        change = one_line(f"not judged ({problem.reason})")
    if isinstance(change, str):
        return [*head, "-", "-", change, "-"]
    values = [value_text(row, side) for side in change.sides]
    if any(verdict.points for verdict in verdicts):
        points = [c - r for r, c in zip(change.reference, change.candidate, strict=True)]
        words = change_words(math.fsum(points) / len(points), metric_name=name, points=True)
        return [*head, *values, words, _rounds(points)]
    return [*head, *values, change_words(change.mean, metric_name=name), _rounds(change.rounds)]


def _change(pair: ArmPair, record: WindowRecord, row: Metric, *, at: Level) -> _Change | str:
    """Return the values of both arms, or why there are none."""
    sides: tuple[list[float], list[float]] = ([], [])
    for both in record.rounds_of(pair):
        for side, boot in zip(sides, both, strict=True):
            point = boot.point(at)
            found = measure(row.name, point, record.profile) if point is not None else Measured(None, "not measured")
            if found.value is None or found.value < 0 or (found.value == 0 and side is sides[0]):
                return found.missing or f"its value is {found.value}"
            side.append(found.value)
    return _Change(*sides)


def _rounds(changes: Sequence[float]) -> str:
    if len(changes) <= _ROUNDS_SHOWN:
        return "  ".join(map(signed, changes))
    return f"{signed(min(changes))} to {signed(max(changes))}"


def _interval(verdict: Verdict) -> str:
    return span(verdict.change_low, verdict.change_high, points=verdict.points)


def told_outcome(verdict: Verdict) -> str:
    """Return an outcome with its claim in few words, and whether the test expected it."""
    return f"{verdict.outcome} ({claim_text(verdict)}){_expected(verdict)}"


def _short_outcome(verdict: Verdict) -> str:
    return f"{verdict.outcome}{_expected(verdict)}"


def _expected(verdict: Verdict) -> str:
    return ", expected" if verdict.expected and verdict.accepted else ""


def claim_text(verdict: Verdict) -> str:
    """Return a threshold's claim in few words: ``not worse than -15 %``, ``at most 200 ms``."""
    if verdict.kind == FASTER_ONLY_UP_TO:
        return f"better only up to {level_label(verdict.at)}"
    words = kind_words(verdict)
    if verdict.limit is None:
        return words
    if verdict.kind == OUTPUTS_AGREE:
        return f"at least {100 * verdict.limit:.4g} %"
    if verdict.kind in LIMITS:
        return f"{words} {amount_text(metric(verdict.metric).unit, verdict.limit)}"
    unit = "points" if verdict.points else "%"
    if verdict.kind == "equivalent":
        return f"within ±{100 * abs(verdict.limit):.4g} {unit}"
    against = " against its baseline" if verdict.kind == NOT_WORSE_THAN_BASELINE else ""
    return f"{words.removesuffix(against)} than {100 * verdict.limit:+.4g} {unit}{against}"


def kind_words(verdict: Verdict) -> str:
    """Return what kind of claim a threshold is, in words that stand behind the name of its metric."""
    if verdict.kind == NOT_WORSE_THAN_BASELINE:
        return "not worse against its baseline"
    return "at least" if verdict.kind == OUTPUTS_AGREE else verdict.kind.replace("_", " ")


def shares_text(verdict: Verdict) -> str:
    """Return the shares of equal answers: each by its own, or of many rounds the least and the greatest."""
    if len(verdict.shares) <= _ROUNDS_SHOWN:
        return "  ".join(f"{100 * share:.4g} %" for share in verdict.shares) or "-"
    return f"{100 * min(verdict.shares):.4g} to {100 * max(verdict.shares):.4g} %"


@dataclasses.dataclass(frozen=True, slots=True)
class ArmBoots:
    """An arm with those of its boots whose figures may be shown."""

    arm: Arm
    boots: tuple[BootRecord, ...]


def speculation_table(readable: Sequence[ArmBoots], record: WindowRecord, *, columns: int | None = None) -> str:
    """Return what speculative arms drafted and accepted at each point, all their boots pooled."""
    rows = [
        row
        for entry in readable
        if entry.arm.speculates
        for at in record.profile.points
        if (row := _speculation_row(entry, record, at=at)) is not None
    ]
    if not rows:
        return ""
    headers = (
        "arm", "load", "step [ms]", "tokens/step", "drafted", "acceptance length", "rate", "draft length",
        "by position",
    )  # fmt: skip
    table = Table(headers, ("left", *["right"] * 7, "left"), tuple(map(tuple, rows)))
    return table.text(columns, narrowings=Narrowing.of(headers, 8, 7, 4, 2, 6))


def usable_points(entry: ArmBoots, record: WindowRecord, *, at: Level) -> list[PointRecord]:
    """Return the points of an arm at a load level, none where one of them is INVALID: the others are not the load."""
    points = [point for boot in entry.boots if (point := boot.point(at)) is not None]
    problems = (validity.point_problem(entry.arm, point, record.profile) for point in points)
    return [] if any(problem is not None for problem in problems) else points


def _speculation_row(entry: ArmBoots, record: WindowRecord, *, at: Level) -> list[str] | None:
    usable = usable_points(entry, record, at=at)
    deltas = [delta for point in usable if (delta := point.counters.speculation()) is not None]
    if not deltas:
        return None
    pooled = pool(deltas)
    ratios = (pooled.acceptance_length, pooled.acceptance_rate, pooled.draft_length)
    texts = ["-" if ratio is None else number(ratio) for ratio in ratios]
    positions = " ".join(f"{rate:.3f}" for rate in pooled.per_position_rates)
    return [entry.arm.name, level_label(at), *_pace(usable, drafts=pooled.drafts), *texts, positions]


def _pace(points: Sequence[PointRecord], *, drafts: int) -> list[str]:
    """Return step time, tokens per step and drafted share; dashes where the server does not count its steps."""
    found = pooled_steps(points)
    if found is None:
        return ["-", "-", "-"]
    steps, tokens, seconds = found
    return [number(1000 * seconds / steps), number(tokens / steps), f"{100 * drafts / steps:.0f} %"]


def load_table(readable: Sequence[ArmBoots], record: WindowRecord, *, columns: int | None = None) -> str:
    """Return how each point pressed and how the client bore it: means over boots, and the worst lateness."""
    rows = []
    for entry in readable:
        pressed = {at: usable_points(entry, record, at=at) for at in record.profile.points}
        shown = [_load_row(points, record, at=at) for at, points in pressed.items() if points]
        rows += [[entry.arm.name if place == 0 else "", *row] for place, row in enumerate(shown)]
    headers = (
        "arm", "load", "in flight", "tokens/chunk", "preempted", "prefix hits", "client CPU", "client lag p99 [ms]",
    )  # fmt: skip
    table = Table(headers, ("left", *["right"] * 7), tuple(map(tuple, rows)))
    narrowings = Narrowing.of(headers, 5, 4, 6, 3, 7)
    return table.text(columns, narrowings=narrowings) if rows else ""


def _load_row(points: Sequence[PointRecord], record: WindowRecord, *, at: Level) -> list[str]:
    found = {
        name: [value for point in points if (value := measure(name, point, record.profile).value) is not None]
        for name in ("achieved_concurrency", "tokens_per_chunk")
    }
    means = [number(math.fsum(values) / len(values)) if values else "-" for values in found.values()]
    busy = math.fsum(point.client.cpu_s for point in points) / math.fsum(point.client.wall_s for point in points)
    lag_s = max(point.client.lag_p99_s for point in points)
    return [level_label(at), *means, *_pressure(points), f"{100 * busy:.0f} %", f"{1000 * lag_s:.1f}"]


def _pressure(points: Sequence[PointRecord]) -> list[str]:
    """Return preemptions and prefix-cache hits; counters that cannot be read say nothing."""
    try:
        preempted = sum(point.counters.count(counters.PREEMPTIONS) for point in points)
        hits = max(point.counters.prefix_hit_rate() or 0.0 for point in points)
    except ScrapeError:
        return ["-", "-"]
    return [f"{preempted}", f"{100 * hits:.1f} %"]


def noise_line(verdict: Verdict) -> str:
    """Say what an interval rests on."""
    if verdict.sd is None or verdict.df is None:
        return f"noise: {verdict.noise or 'unknown'}"
    ratio = "" if verdict.f_ratio is None else f", own variance {verdict.f_ratio:.2f} times that known before"
    unit, floor = ("points", NORMAL_975 * verdict.sd) if verdict.points else ("%", floor_of(verdict.sd))
    return (
        f"noise: sd of a round {two_digits(100 * verdict.sd)} {unit} (floor {two_digits(100 * floor)} {unit}), "
        f"df {verdict.df:g}: {verdict.noise}{ratio}"
    )
