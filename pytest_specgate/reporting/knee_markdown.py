"""Advice on draft horizons as a Markdown table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.reporting.knee_words import (
    advice_head,
    arms_words,
    change_sentences,
    crossing_sentences,
    duel_sentence,
    evidence_lines,
    source_notes,
)
from pytest_specgate.reporting.markup import code, prose, row
from pytest_specgate.reporting.window_knee import pin_lines, pin_notes, window_knee

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.knee import Knee, ObjectiveAdvice
    from pytest_specgate.core.records import WindowRecord


def knee_table(record: WindowRecord, path: str) -> str:
    """Return which k to run for each objective, and what that rests on; empty where no two horizons met.

    Args:
        record: of the window.
        path: where it lies.
    """
    knee = window_knee(record, path)
    if isinstance(knee, str):
        return f"{prose(knee)}\n\n"
    return "" if knee is None else "".join(f"{line}\n" for line in _lines(knee, record, path))


def _lines(knee: Knee, record: WindowRecord, path: str) -> Iterator[str]:
    yield from ("#### Which k", "")
    yield from (f"{prose(arms_words(source))}\n" for source in knee.sources)
    several = len(knee.advice) > 1
    head = [*(["drafter"] if several else []), "objective", "k", "told by", "rests on", "would change it"]
    yield from (row(head), row(["---"] * len(head)))
    for drafter, found in knee.advice.items():
        for one in found:
            yield row([*([prose(drafter)] if several else []), *_cells(one)])
    yield ""
    for source in knee.sources:
        for level in source.at(None):
            yield from (f"* {prose(sentence)}" for sentence in crossing_sentences(source.curves_at(level.at)))
    yield from (f"* {prose(line)}" for line in source_notes(knee.sources))
    for drafter, command in pin_lines(knee, record, path):
        yield f"* pin it: {code(command)}"
        yield from (f"* {prose(note)}" for note in pin_notes(knee, drafter))
    yield ""


def _cells(one: ObjectiveAdvice) -> Iterator[str]:
    found = one.advice
    load = "" if found.at is None else f" at {level_label(found.at)}"
    yield prose(found.objective)
    _, _, told = advice_head(one).partition("): ")
    yield f"**{prose(one.words)}**{prose(told.removeprefix(one.words))}"
    yield prose("the cut alone" if found.basis == "cut" else f"{metric(found.metric).label}{load}")
    rests = [*(duel_sentence(duel, named=False) for duel in found.duels), *evidence_lines(one)]
    yield "<br>".join(map(prose, rests)) or "-"
    yield "<br>".join(map(prose, change_sentences(one))) or "-"
