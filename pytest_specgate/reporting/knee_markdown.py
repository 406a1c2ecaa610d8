"""Advice on draft horizons as a Markdown table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.reporting.knee_words import change_sentences, crossing_sentence, duel_sentence
from pytest_specgate.reporting.markup import prose, row
from pytest_specgate.reporting.window_knee import window_knee

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
    return "" if knee is None else "".join(f"{line}\n" for line in _lines(knee))


def _lines(knee: Knee) -> Iterator[str]:
    yield from ("#### Which k", "")
    several = len(knee.advice) > 1
    head = [*(["drafter"] if several else []), "objective", "k", "told by", "rests on", "would change it"]
    yield from (row(head), row(["---"] * len(head)))
    for drafter, found in knee.advice.items():
        for one in found:
            yield row([*([prose(drafter)] if several else []), *_cells(one)])
    yield ""
    for source in knee.sources:
        for level in source.at(None):
            yield from (f"* {prose(crossing_sentence(one))}" for one in source.curves_at(level.at))
    yield ""


def _cells(one: ObjectiveAdvice) -> Iterator[str]:
    found = one.advice
    load = "" if found.at is None else f" at {level_label(found.at)}"
    yield prose(found.objective)
    yield f"**{prose(one.words)}**"
    yield prose("the cut alone" if found.basis == "cut" else f"{metric(found.metric).label}{load}")
    rests = [*(duel_sentence(duel, named=False) for duel in found.duels), *(f"noise: {words}" for words in one.noise)]
    yield "<br>".join(map(prose, rests)) or "-"
    yield "<br>".join(map(prose, change_sentences(one))) or "-"
