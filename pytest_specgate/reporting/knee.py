"""Draft horizons as text: acceptance by position, what each horizon gives and costs, and which k to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.knee import COUNTED
from pytest_specgate.core.levels import level_label
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.knee_words import (
    ASSUMED,
    DRAFTED,
    advice_head,
    arms_words,
    basis_words,
    change_sentences,
    crossing_sentences,
    duel_sentence,
    estimate_text,
    evidence_lines,
    k_text,
    notes,
    origin_words,
    place_text,
    ruled_out_lines,
    source_notes,
    speed_words,
)
from pytest_specgate.reporting.layout import Narrowing, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.horizon import Horizon
    from pytest_specgate.core.knee import Knee, KneeCurve, KneeSource, LevelHorizons
    from pytest_specgate.core.levels import Level


def knee_lines(knee: Knee, *, at: Sequence[Level] | None = None, columns: int | None = None) -> Iterator[str]:
    """Yield all that is told of draft horizons; identity stands before any figure.

    Args:
        knee: what is told.
        at: load levels to be shown; `None` for the lowest and the highest one.
        columns: width of the terminal; `None` for any width.
    """
    yield from (one_line(f"left out: {path}: {why.message} ({why.reason})") for path, why in knee.left_out)
    yield from dict.fromkeys(one_line(f"{one.source}: {one.unfinished}") for one in knee.sources if one.unfinished)
    for source in knee.sources:
        yield from source_lines(source, at=at, columns=columns)
        yield ""
    if any(source.levels for source in knee.sources):
        yield one_line(ASSUMED)
    yield from advice_lines(knee)


def source_lines(
    source: KneeSource, *, at: Sequence[Level] | None = None, columns: int | None = None, titled: bool = True
) -> Iterator[str]:
    """Yield what one window tells of one drafter, or one file of counters of its own.

    Args:
        source: of the figures.
        at: load levels to be shown; `None` for the lowest and the highest one.
        columns: width of the terminal; `None` for any width.
        titled: whether file, drafter and identity are told, and what nobody can prove; a report has told them before.
    """
    shown = source.at(at)
    if titled:
        yield from map(one_line, _title(source))
    for level in shown:
        if curves := source.curves_at(level.at):
            yield from ("", one_line(f"acceptance by position{place_text(level)}, accepted / drafts"))
            yield position_table(curves, columns=columns)
            yield from map(one_line, crossing_sentences(curves))
            yield from map(one_line, basis_words(curves))
    if shown:
        yield from ("", "horizons: what each gives and costs")
        yield horizon_table(shown, columns=columns)
    if titled and at is None and (others := [one.at for one in source.levels if one not in shown and one.at]):
        yield f"also measured, and shown with --at: {', '.join(map(level_label, others))}"
    if source.drafted_only:
        yield DRAFTED
    yield from map(one_line, source_notes([source]) if titled else ruled_out_lines([source]))


def _title(source: KneeSource) -> Iterator[str]:
    if source.identity is None:
        yield f"counters: {source.source}; they tell neither drafter nor load"
        return
    yield f"window: {source.source}"
    yield source.identity
    yield arms_words(source)


def position_table(curves: Sequence[KneeCurve], *, columns: int | None = None) -> str:
    """Return the rates of some curves by position, with a mark where they are under the cut."""
    headers = ("position", *(f"{k_text(one.k)} [%]" for one in curves))
    longest = max(one.k for one in curves)
    rows = tuple((f"{place + 1}", *(_rate(one, place) for one in curves)) for place in range(longest))
    table = Table(headers, ("right", *["left"] * len(curves)), rows)
    short = [tuple(_rate(one, place, interval=False) for place in range(longest)) for one in curves]
    narrowings = [
        Narrowing((place,), f"intervals of {k_text(one.k)}", cells)
        for place, (one, cells) in enumerate(zip(curves, short, strict=True), start=1)
    ]
    return table.text(columns, narrowings=narrowings)


def _rate(one: KneeCurve, place: int, *, interval: bool = True) -> str:
    if place >= one.k:
        return "-"
    rate = one.curve.rates[place]
    mark = " <" if rate.value < one.crossing.cut else ""
    text = f"{100 * rate.value:.1f}"
    if interval and rate.low is not None and rate.high is not None:
        text += f" [{100 * rate.low:.1f} .. {100 * rate.high:.1f}]"
    return f"{text}{mark}"


def horizon_table(levels: Sequence[LevelHorizons], *, columns: int | None = None) -> str:
    """Return what each horizon gives and costs, load by load."""
    headers = ("load", "k", "tokens/step", "from", "step [ms]", "from", "tokens/s", "how")
    rows = tuple(row for level in levels for row in _level_rows(level))
    table = Table(headers, ("right", "right", "left", "left", "left", "left", "left", "left"), rows)
    brief = [tuple(cell.partition(" [")[0] for cell in column) for column in zip(*rows, strict=True)]
    narrowings = [
        *(Narrowing((place,), f"intervals of {headers[place]}", brief[place]) for place in (2, 4)),
        Narrowing((3, 5), "where figures come from"),
        Narrowing((6,), "intervals of speeds", brief[6]),
        Narrowing((4,), "step times"),
    ]
    return table.text(columns, narrowings=narrowings)


def _level_rows(level: LevelHorizons) -> Iterator[tuple[str, ...]]:
    load = "-" if level.at is None else level_label(level.at)
    for place, row in enumerate(level.rows):
        yield (load if place == 0 else "", k_text(row.k), *horizon_cells(row, level))


def horizon_cells(row: Horizon, level: LevelHorizons) -> tuple[str, ...]:
    """Return what a horizon gives and costs, with where each figure comes from."""
    return (
        estimate_text(row.tokens_per_step),
        origin_words(row, level),
        estimate_text(row.step_time_s, scale=1000),
        row.step_from or "-",
        estimate_text(row.speed_tokens_per_s),
        speed_words(row),
    )


def advice_lines(knee: Knee) -> Iterator[str]:
    """Yield which k to run for each objective, what that rests on, and what would change it."""
    named = len({source.source for source in knee.sources}) > 1
    for drafter, found in knee.advice.items():
        yield from ("", one_line(f"which k, {'by curves alone' if drafter == COUNTED else drafter}"))
        for one in found:
            yield one_line(advice_head(one))
            yield from (one_line(f"rests on: {duel_sentence(duel, named=named)}") for duel in one.advice.duels)
            yield from map(one_line, evidence_lines(one))
            yield from (one_line(f"would change it: {sentence}") for sentence in change_sentences(one))
    yield from map(one_line, notes(knee))
