"""The tables of a page, as rows of text: a pair by load level and metric, speculation, load and client, boots."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import counters
from pytest_specgate.core.decode_figures import pooled_steps
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import HEADLINE, measure, metric
from pytest_specgate.core.percent import signed
from pytest_specgate.core.rounds import rounds_at
from pytest_specgate.core.statistics import geometric_mean
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import change_words
from pytest_specgate.reporting.figures import number, span, unit_text, value_text
from pytest_specgate.reporting.tables import claim_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.metrics import Metric
    from pytest_specgate.core.records import PointRecord
    from pytest_specgate.core.rounds import Rounds
    from pytest_specgate.reporting.page_figures import Figures
    from pytest_specgate.reporting.page_verdicts import Card

INTERVALS: Final = ("not_worse", "better", "equivalent")
"""Kinds of claims that stand beside a metric's change between the arms."""

NOTHING: Final = "\N{EN DASH}"
_ROUNDS_SHOWN: Final = 4


@dataclasses.dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric of both arms at one load level.

    Attributes:
        metric: its name, with unit.
        reference: value of the reference arm.
        candidate: value of the candidate arm.
        change: of the candidate, in words of direction; or why there is none.
        rounds: the change round by round.
        interval: of the claims about it.
        cards: of these claims.
    """

    metric: str
    reference: str
    candidate: str
    change: str
    rounds: str
    interval: str
    cards: tuple[Card, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class LevelRows:
    """One load level of a pair.

    Attributes:
        load: its label.
        problem: why it is not judged; empty where it is. Then there are no rows.
        rows: one a metric.
    """

    load: str
    problem: str
    rows: tuple[MetricRow, ...]


def pair_levels(pair: ArmPair, figures: Figures, cards: Sequence[Card]) -> Iterator[LevelRows]:
    """Yield the table of a pair, level by level; only for pairs whose request profiles were found identical.

    Args:
        pair: the arms.
        figures: of its window.
        cards: of the pair's verdicts.
    """
    record = figures.window.record
    for at in record.profile.points:
        problem = figures.point_problem(pair, at)
        if problem is not None:
            yield LevelRows(level_label(at), f"not judged ({problem.reason}): {problem.message}", ())
            continue
        here = [one for one in cards if one.verdict.at == at and one.verdict.kind in INTERVALS]
        shown = dict.fromkeys((*HEADLINE, *(one.verdict.metric for one in here)))
        rows = (
            _metric_row(pair, figures, [one for one in here if one.verdict.metric == name], name=name, at=at)
            for name in shown
        )
        yield LevelRows(level_label(at), "", tuple(rows))


def _metric_row(pair: ArmPair, figures: Figures, cards: Sequence[Card], *, name: str, at: Level) -> MetricRow:
    row = metric(name)
    label = f"{row.label} [{unit_text(row)}]"
    rounds = rounds_at(pair, figures.window.record, metric_name=name, at=at)
    refused = figures.figure_problem(pair, at, name)
    missing = "" if refused is None else f"not judged ({refused.reason})"
    if isinstance(rounds, Failure):
        missing = missing or rounds.message.partition(": ")[2]
    elif min(*rounds.reference.values, *rounds.candidate.values) <= 0:
        missing = missing or "0 in a boot, and so no ratio"
    if isinstance(rounds, Failure) or missing:
        return MetricRow(label, NOTHING, NOTHING, missing, NOTHING, NOTHING, tuple(cards))
    reference, candidate = rounds.reference.values, rounds.candidate.values
    left, right = (value_text(row, geometric_mean(side)) for side in (reference, candidate))
    intervals = dict.fromkeys(
        span(one.verdict.change_low, one.verdict.change_high, points=one.verdict.points)
        for one in cards
        if one.verdict.change_low is not None
    )
    points = any(one.verdict.points for one in cards)
    mean, by_round = _changes(row, rounds, points=points)
    return MetricRow(label, left, right, mean, by_round, ", ".join(intervals) or NOTHING, tuple(cards))


def _changes(row: Metric, rounds: Rounds, *, points: bool) -> tuple[str, str]:
    """Return the change of a metric in words, and that of its rounds: in points of a share, or relative."""
    reference, candidate = rounds.reference.values, rounds.candidate.values
    pairs = list(zip(reference, candidate, strict=True))
    found = [right - left if points else right / left - 1 for left, right in pairs]
    mean = math.fsum(found) / len(found) if points else geometric_mean(candidate) / geometric_mean(reference) - 1
    words = change_words(mean, metric_name=row.name, points=points)
    if len(found) <= _ROUNDS_SHOWN:
        return words, "  ".join(map(signed, found))
    return words, f"{signed(min(found))} to {signed(max(found))}"


def outcome_text(card: Card) -> str:
    """Return the outcome of a claim with the claim in few words."""
    return f"{card.word} ({claim_text(card.verdict)})"


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table of texts.

    Attributes:
        caption: what it is, and what its figures rest on.
        headers: of its columns.
        rows: their cells; those of the first columns are headers of their row.
        heads: how many these are.
    """

    caption: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    heads: int = 2


def speculation_table(figures: Figures) -> Table:
    """Return what speculative arms drafted and accepted at each level, all boots pooled."""
    headers = (
        "arm",
        "load",
        "step [ms]",
        "tokens/step",
        "drafted",
        "acceptance length",
        "acceptance rate",
        "draft length",
    )
    rows = []
    for arm in figures.arms:
        for at in figures.levels:
            pooled = figures.speculation(arm.name, at)
            if pooled is not None and arm.speculates:
                ratios = (pooled.acceptance_length, pooled.acceptance_rate, pooled.draft_length)
                texts = [NOTHING if ratio is None else number(ratio) for ratio in ratios]
                pace = _pace(figures.points(arm.name, at), drafts=pooled.drafts)
                rows.append((arm.name, level_label(at), *pace, *texts))
    return Table("Speculation, from counter deltas of each point, all rounds pooled", headers, tuple(rows))


def _pace(points: Sequence[PointRecord], *, drafts: int) -> tuple[str, ...]:
    """Return step time, tokens per step and drafted share, where the server counts its steps."""
    found = pooled_steps(points)
    if found is None:
        return (NOTHING,) * 3
    steps, tokens, seconds = found
    return number(1000 * seconds / steps), number(tokens / steps), f"{100 * drafts / steps:.0f} %"


def load_table(figures: Figures) -> Table:
    """Return how each point pressed, and how the client bore it."""
    headers = (
        "arm", "load", "in flight", "tokens/chunk", "preempted", "prefix hits", "client CPU", "client lag p99 [ms]",
        "others' CPU",
    )  # fmt: skip
    rows = [
        (arm.name, level_label(at), *_load_cells(figures, arm, at))
        for arm in figures.arms
        for at in figures.levels
        if figures.points(arm.name, at)
    ]
    return Table("Load and client, mean over boots; lag is that of the worst boot", headers, tuple(rows))


def _load_cells(figures: Figures, arm: Arm, at: Level) -> tuple[str, ...]:
    points, profile = figures.points(arm.name, at), figures.window.record.profile
    found = [
        [measure(name, point, profile).value for point in figures.points(arm.name, at, name)]
        for name in ("achieved_concurrency", "tokens_per_chunk")
    ]
    known = [[value for value in values if value is not None] for values in found]
    means = [number(math.fsum(values) / len(values)) if values else NOTHING for values in known]
    busy = math.fsum(point.client.cpu_s for point in points) / math.fsum(point.client.wall_s for point in points)
    lag_s = max(point.client.lag_p99_s for point in points)
    others = [point.other_cpu_share for point in points if point.other_cpu_share is not None]
    shared = f"{math.fsum(others) / len(others):.2f}" if others else NOTHING
    return (*means, *_pressure(points), f"{100 * busy:.0f} %", f"{1000 * lag_s:.1f}", shared)


def _pressure(points: Sequence[PointRecord]) -> tuple[str, str]:
    """Return preemptions and prefix-cache hits; counters that cannot be read say nothing."""
    try:
        preempted = sum(point.counters.count(counters.PREEMPTIONS) for point in points)
        hits = max(point.counters.prefix_hit_rate() or 0.0 for point in points)
    except ScrapeError:
        return NOTHING, NOTHING
    return f"{preempted}", f"{100 * hits:.1f} %"
