"""Comparisons of two windows as text, and as JSON."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from tabulate import tabulate

from pytest_specgate.core.comparison import INDICATIVE
from pytest_specgate.core.comparison_rule import REFERENCE_MOVED
from pytest_specgate.core.identity import shortened
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import HEADLINE, metric
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.core.verdict_baseline import NO_NOISE
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.figures import percent, span, unit_text, value_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.comparison import Comparison, Row

_HEADS: Final = {"relative": "the change between the arms, then and now", "absolute": "its level"}
_LEVELS: Final = ("reference", "candidate")
_CHANGES: Final = ("change", "change_low", "change_high", "margin")
_JUDGE: Final = (
    "two windows have no spread of their own, so nothing is passed or failed: declare how far two windows of the same "
    "code lie apart, and what loss is tolerated: --cross-window '3%' --source '...' --margin '5%'"
)


def comparison_lines(found: Comparison) -> Iterator[str]:
    """Return a comparison as text: identity first, then figures, then the word."""
    yield from (found.identity,) if found.identity else ()
    if found.unproved:
        yield one_line(f"not proved: {'; '.join(found.unproved)}")
    if not found.valid:
        yield _indented(f"INVALID ({found.reason}): {found.message}")
        yield from _fields(found)
        return
    yield from (one_line(f"note: {note}") for note in found.notes)
    for (subject, mode), rows in itertools.groupby(found.rows, key=lambda row: (row.subject, row.mode)):
        listed = list(rows)
        shown = [row for row in listed if mode == found.mode or row.metric in ("", *HEADLINE)]
        yield ""
        if subject:
            yield one_line(f"{subject} ({mode}: {_HEADS[mode]})")
        yield from _section(shown, found)
        if len(shown) < len(listed):
            yield one_line(f"{len(listed) - len(shown)} more figures of {subject}: --json")
    yield ""
    *counts, last = _outcome_lines(found)
    yield from map(one_line, counts)
    yield one_line("; ".join([last, *found.caveats]))


def _indented(text: str) -> str:
    """Return a text of which only the first line stands at the margin: what files say must not look like a result."""
    return "\n    ".join(map(one_line, text.split("\n")))


def _fields(found: Comparison) -> Iterator[str]:
    """Show each field that differs, with both values."""
    for one in found.differences:
        left, right = map(one_line, shortened(one.reference, one.candidate))
        yield f"    {one_line(one.field)}"
        yield f"        reference: {left}"
        yield f"        candidate: {right}"


def _section(rows: Sequence[Row], found: Comparison) -> Iterator[str]:
    """Return the table of a pair, of an arm or of two files, and below it why some of its figures are not compared."""
    named = [row for row in rows if row.metric]
    judged = any(row.outcome is not None for row in named)
    loads = any(row.at is not None for row in named)
    lines = [_line(row, found) for row in named]
    # A pair has a reference and a candidate of its own.
    windows = [f"{name} window" if rows and rows[0].subject else name for name in _LEVELS]
    headers = ["load", "metric", *windows, "change", "interval", "outcome"]
    align = ["right", "left", "right", "right", "left", "left", "left"]
    kept = [place for place, name in enumerate(headers) if (name != "load" or loads) and (name != "interval" or judged)]
    if lines:
        yield tabulate(
            [[line[place] for place in kept] for line in _loads_once(lines)],
            headers=[headers[place] for place in kept],
            colalign=[align[place] for place in kept],
            disable_numparse=True,
            tablefmt="simple",
        )
    for reason, message in dict.fromkeys((_where(row), row.message) for row in rows if _apart(row)):
        yield _indented(f"not compared ({reason}): {message}")


def _apart(row: Row) -> bool:
    """Whether two figures are not compared, for a reason."""
    return bool(row.reason) and row.change is None


def _where(row: Row) -> str:
    load = f" at {level_label(row.at)}" if row.at is not None and not row.metric else ""
    return f"{row.reason}{load}"


def _loads_once(lines: Sequence[list[str]]) -> Iterator[list[str]]:
    """Name a load level in the first of its lines only."""
    before = ""
    for line in lines:
        yield ["", *line[1:]] if line[0] == before else line
        before = line[0]


def _line(row: Row, found: Comparison) -> list[str]:
    declared = metric(row.metric)
    label = f"{declared.label} [{unit_text(declared)}]" if row.mode == "absolute" else declared.label
    levels = ["-" if value is None else _level(row, value) for value in (row.reference, row.candidate)]
    change = f"not compared ({row.reason})" if _apart(row) else _change(row)
    interval = span(row.change_low, row.change_high)
    return ["" if row.at is None else level_label(row.at), label, *levels, change, interval, _word(row, found)]


def _level(row: Row, value: float) -> str:
    """Return a level in the unit people read, or the change between two arms."""
    if row.mode == "relative":
        return change_words(value - 1, metric_name=row.metric)
    return value_text(metric(row.metric), value)


def _change(row: Row) -> str:
    if row.change is None:
        return "-"
    if metric(row.metric).gated:
        return change_words(row.change, metric_name=row.metric)
    # A change of nothing has no sign, and arithmetic may give it one.
    return percent(round(row.change, 6) + 0.0)


def _word(row: Row, found: Comparison) -> str:
    if row.outcome is None:
        return "-" if found.floor or row.change is None else "indicative"
    if row.margin is None:
        return row.outcome
    hidden = f"{row.reason}, " if row.reason == REFERENCE_MOVED else ""
    return f"{row.outcome} ({hidden}not worse than {100 * row.margin:+.4g} %)"


def _outcome_lines(found: Comparison) -> Iterator[str]:
    """Count the claims by their outcome, the worst last, as the word of the whole."""
    if found.reason == NO_NOISE:
        yield f"{found.outcome} ({INDICATIVE}): {_JUDGE}"
        return
    if found.reason:
        yield f"{found.outcome} ({found.reason}): {found.message}"
        return
    judged = [row for row in found.rows if row.outcome is not None]
    for outcome in (Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.INVALID, Outcome.FAIL):
        alike = [row for row in judged if row.outcome == outcome]
        if alike:
            names = "" if outcome == Outcome.PASS else f": {'; '.join(_names(alike))}"
            yield f"{outcome}: {len(alike)} of {len(judged)}{names}"
    if found.floor:
        yield f"judged by a floor across windows of {found.floor}: {found.outcome}"


def _names(rows: Sequence[Row]) -> Iterator[str]:
    """Name some figures, those of one pair or arm at one load together."""
    for (subject, at), alike in itertools.groupby(rows, key=lambda row: (row.subject, row.at)):
        place = " at ".join([subject] * bool(subject) + ([level_label(at)] if at is not None else []))
        labels = ", ".join(metric(row.metric).label for row in alike if row.metric)
        yield f"{place}: {labels}" if place and labels else place or labels


def comparison_json(found: Comparison) -> dict[str, JsonValue]:
    """Return a comparison as one JSON object: units in the names of levels, changes as fractions.

    What is not valid says why, and has no figures.
    """
    stored: dict[str, JsonValue] = found.model_dump(mode="json")
    rows: list[JsonValue] = [_row_json(row) for row in found.rows]
    return {**stored, "rows": rows}


def _row_json(row: Row) -> dict[str, JsonValue]:
    stored: dict[str, JsonValue] = row.model_dump(mode="json", exclude={*_LEVELS, *_CHANGES})
    if not row.valid:
        return stored
    declared = metric(row.metric)
    unit = "_ratio" if row.mode == "relative" else declared.stored_key.removeprefix(declared.name)
    levels: dict[str, JsonValue] = {f"{name}{unit}": getattr(row, name) for name in _LEVELS}
    return {**stored, **levels, **{name: getattr(row, name) for name in _CHANGES}}
