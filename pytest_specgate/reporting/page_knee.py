"""The section of a page that tells which k: acceptance by position, what each horizon promises, and the advice."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core.advice import pinned
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.levels import level_id, level_label
from pytest_specgate.reporting import plots
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.basis_words import basis_sentences, short_drafts_sentence
from pytest_specgate.reporting.knee import horizon_cells
from pytest_specgate.reporting.knee_words import (
    ASSUMED,
    advice_head,
    change_sentences,
    crossing_sentences,
    duel_sentence,
    evidence_lines,
    k_text,
    notes,
    place_text,
    source_notes,
)
from pytest_specgate.reporting.page_pair import Figure
from pytest_specgate.reporting.page_tables import Table
from pytest_specgate.reporting.plots import Cell, Line
from pytest_specgate.reporting.snippet import gate_snippet
from pytest_specgate.reporting.window_knee import pin_lines, pin_notes, window_knee

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.knee import Knee, KneeCurve, KneeSource, LevelHorizons
    from pytest_specgate.reporting.page_figures import Figures

_HOW = "filled: measured, or of measured figures; hollow: predicted; bars: 95 % intervals"


@dataclasses.dataclass(frozen=True, slots=True)
class AdviceView:
    """Advice for one objective.

    Attributes:
        head: the objective with its advice.
        duels: what it rests on, its noise among it.
        changes: what would change it.
    """

    head: str
    duels: tuple[str, ...]
    changes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class DrafterView:
    """One drafter, in the order in which a page shows it.

    Attributes:
        drafter: its name.
        advice: one an objective.
        figures: the plots.
        crossings: where curves fall under the cut, and what intervals are taken over.
        table: what each horizon gives and costs.
        notes: what is not proved of attached arms, and why a sweep booted some arms no more, or never.
    """

    drafter: str
    advice: tuple[AdviceView, ...]
    figures: tuple[Figure, ...]
    crossings: tuple[str, ...]
    table: Table
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PinView:
    """The gate file of one drafter.

    Attributes:
        command: that writes it.
        text: of it, or why there is none, as a comment.
        notes: which objectives rule its horizon out.
    """

    command: str
    text: str
    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class KneeView:
    """What a window tells of draft horizons.

    Attributes:
        drafters: each of them.
        assumed: what predictions assume.
        notes: what else a reader should know.
        pins: what writes a gate file for what a sweep has found.
        problem: why there is nothing of all that; empty where there is.
    """

    drafters: tuple[DrafterView, ...] = ()
    assumed: str = ""
    notes: tuple[str, ...] = ()
    pins: tuple[PinView, ...] = ()
    problem: str = ""


def knee_view(figures: Figures, *, name: str) -> KneeView | None:
    """Return what a window tells of draft horizons as a page shows it; `None` where no two of them met.

    Args:
        figures: of the window.
        name: unique in its page.
    """
    knee = window_knee(figures.window.record, figures.window.path)
    if knee is None:
        return None
    if isinstance(knee, str):
        return KneeView(problem=one_line(knee))
    drafters = tuple(
        _drafter(source, knee, figures, name=f"{name}-knee-{number}") for number, source in enumerate(knee.sources, 1)
    )
    pins = tuple(_pins(knee, figures)) if figures.window.record.sweeps else ()
    return KneeView(drafters, ASSUMED, tuple(notes(knee)), pins)


def _pins(knee: Knee, figures: Figures) -> Iterator[PinView]:
    record, path = figures.window.record, figures.window.path
    for drafter, command in pin_lines(knee, record, path):
        told = [one.advice for one in knee.advice[drafter]]
        k = pinned(told)
        assert k is not None, "its command pins it"
        try:
            text = gate_snippet(record, told, k=k, path=path, arm=_arm_of(knee, drafter, k))
        except UsageError as error:
            text = f"# {one_line(str(error))}"
        yield PinView(command, text, tuple(pin_notes(knee, drafter)))


def _arm_of(knee: Knee, drafter: str, k: int) -> str | None:
    return next((source.arms[k] for source in knee.sources if source.drafter == drafter and k in source.arms), None)


def _drafter(source: KneeSource, knee: Knee, figures: Figures, *, name: str) -> DrafterView:
    assert source.drafter is not None, "a window tells its drafters"
    shown = source.at(None)
    curves = [one for level in shown for one in source.curves_at(level.at)]
    return DrafterView(
        source.drafter,
        tuple(
            AdviceView(
                advice_head(one),
                (*(duel_sentence(duel, named=False) for duel in one.advice.duels), *evidence_lines(one)),
                tuple(change_sentences(one)),
            )
            for one in knee.advice[source.drafter]
        ),
        tuple(_figures(source, knee, figures, name=name)),
        (*_crossings(source), *_basis(curves)),
        _table(shown),
        tuple(source_notes([source])),
    )


def _crossings(source: KneeSource) -> Iterator[str]:
    for level in source.at(None):
        yield from crossing_sentences(source.curves_at(level.at))


def _basis(curves: Sequence[KneeCurve]) -> Iterator[str]:
    """Yield what intervals are taken over, and how short drafts were: each curve with its load, which no head tells."""
    named = [(f"{k_text(one.k)}{place_text(one)}", one.curve) for one in curves]
    yield from basis_sentences(named, link="of")
    yield from (short_drafts_sentence(name, curve) for name, curve in named if curve.short_drafts)


def _figures(source: KneeSource, knee: Knee, figures: Figures, *, name: str) -> Iterator[Figure]:
    shown = source.at(None)
    for level in shown:
        lines = [_curve_line(one, source, figures) for one in source.curves_at(level.at)]
        title = f"acceptance by position and the cut at {_label(level)}"
        place = f"{name}-{_id(level)}"
        legend = tuple((line.name, plots.swatch(line.style)) for line in lines)
        yield Figure(
            title,
            plots.by_position(lines, name=place, title=title, cut=knee.cut),
            f"dashed: {100 * knee.cut:g} % of drafts; bars: 95 % intervals",
            legend,
        )
    lines = [line for number, level in enumerate(shown) if (line := _speed_line(level, number)).cells]
    if lines:
        title = "speed of one stream by k"
        legend = tuple((line.name, plots.swatch(line.style)) for line in lines)
        picture = plots.over_horizons(lines, name=f"{name}-speed", title=title, unit="tokens/s")
        yield Figure(f"{title} [tokens/s]", picture, _HOW, legend)


def _label(level: LevelHorizons) -> str:
    assert level.at is not None, "a window tells its load levels"
    return level_label(level.at)


def _id(level: LevelHorizons) -> str:
    assert level.at is not None, "a window tells its load levels"
    return level_id(level.at).replace(".", "_")


def _curve_line(one: KneeCurve, source: KneeSource, figures: Figures) -> Line:
    """Return the rates of a curve as the line of its arm, in the colour that it has in all plots of the window."""
    arm = source.arms[one.k]
    cells = (
        Cell(place, f"{place}", rate.value, low=rate.low, high=rate.high)
        for place, rate in enumerate(one.curve.rates, start=1)
    )
    return Line(arm, figures.style(arm), tuple(cells))


def _speed_line(level: LevelHorizons, style: int) -> Line:
    cells = (
        Cell(row.k, k_text(row.k).removeprefix("k="), speed.value, low=speed.low, high=speed.high,
             hollow=not row.is_measured)
        for row in level.rows
        if (speed := row.speed_tokens_per_s) is not None
    )  # fmt: skip
    return Line(_label(level), style, tuple(cells))


def _table(levels: tuple[LevelHorizons, ...]) -> Table:
    headers = ("load", "k", "tokens/step", "from", "step [ms]", "from", "tokens/s", "how")
    rows = tuple((_label(level), k_text(row.k), *horizon_cells(row, level)) for level in levels for row in level.rows)
    return Table("Draft horizons: what each gives and costs, with 95 % intervals", headers, rows)
