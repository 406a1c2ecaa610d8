"""Baselines as text: how today's window stands to those accepted before, and what an update changes."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from tabulate import tabulate

from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.baseline_values import View, level_of, shown_level
from pytest_specgate.core.baselines import EROSION, NO_BASELINE, STALE
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.percent import signed
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.reporting.figures import number, span, unit_text, value_text
from pytest_specgate.reporting.layout import Narrowing, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_specgate.core.baseline_update import EntryChange, Update
    from pytest_specgate.core.baseline_values import Compared
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.thresholds import BaselineThreshold
    from pytest_specgate.core.verdict import BaselineVerdict, Verdict

_DAY: Final = 10


def baseline_lines(
    verdicts: Sequence[Verdict], *, names: Mapping[str, str] | None = None, columns: int | None = None
) -> Iterator[str]:
    """Return how a pair stands to its baseline, by claim; nothing where no claim is about one.

    Args:
        verdicts: of the pair.
        names: of its gates, by id, where several judge it.
        columns: width of the terminal; `None` for any width.
    """
    own = [verdict for verdict in verdicts if verdict.kind == NOT_WORSE_THAN_BASELINE]
    if not own:
        return
    headers = (
        "load", "metric", "baseline", "today", "windows", "change", "interval", "since last", "since first", "outcome"
    )  # fmt: skip
    align = ("right", "left", "right", "right", "right", "left", "left", "left", "left", "left")
    yield "against the baseline (relative: candidate / reference; absolute: the candidate)"
    rows = (_row(verdict, (names or {}).get(verdict.gate, "")) for verdict in own)
    narrowings = Narrowing.of(headers, 8, 7, 4, 6)
    yield Table(headers, align, tuple(map(tuple, rows))).text(columns, narrowings=narrowings)


def _row(verdict: Verdict, gate: str) -> list[str]:
    row, found = metric(verdict.metric), verdict.baseline
    head = [level_label(verdict.at), row.label]
    reason = f" ({verdict.reason})" if verdict.outcome != Outcome.PASS else ""
    outcome = " ".join(filter(None, [f"{verdict.outcome}{reason}", gate]))
    if found is None or verdict.change is None:
        return [*head, *["-"] * 7, outcome]
    changes = (verdict.change, found.since_latest, found.since_anchor)
    since = [change_words(change, metric_name=verdict.metric, points=verdict.points) for change in changes]
    interval = span(verdict.change_low, verdict.change_high, points=verdict.points)
    values = [_level(verdict, found, value) for value in (found.level, found.today)]
    return [*head, *values, f"{len(found.windows)}", since[0], interval, *since[1:], outcome]


def level_text(by: Compared, value: float) -> str:
    """Return a level of a window with its unit: a ratio, points of a share, or a value of the candidate."""
    if by.mode == "absolute":
        row = metric(by.metric)
        return f"{value_text(row, value)} {unit_text(row)}"
    return f"{signed(value)} points" if by.points else f"x {number(value)}"


def one_line(text: str) -> str:
    """Return a text of a file as one line that cannot steer a terminal: ids and reasons are whatever somebody wrote."""
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _level(verdict: Verdict, found: BaselineVerdict, value: float) -> str:
    return level_text(View(verdict.metric, found.mode, verdict.points), value)


def baseline_evidence(verdict: Verdict, gate: Gate) -> Iterator[str]:
    """Yield what a verdict about a baseline rests on."""
    found = verdict.baseline
    if found is None:
        yield f"claim: {verdict.claim}"
        return
    words = {"relative": f"{gate.pair.candidate.name} / {gate.pair.reference.name}", "absolute": "candidate"}
    values = [_level(verdict, found, value) for value in (found.today, found.level)]
    series = ", ".join(_level(verdict, found, value) for value in found.windows)
    yield f"{words[found.mode]}: {values[0]} today, {values[1]} in its baseline (by window, oldest first: {series})"
    since = [
        change_words(change, metric_name=verdict.metric, points=verdict.points)
        for change in (found.since_latest, found.since_anchor)
    ]
    yield f"since the last accepted window ({found.latest_at[:_DAY]}): {since[0]}"
    yield f"since the first one ({found.anchor_at[:_DAY]}): {since[1]}"
    if verdict.sd is not None and verdict.df is not None:
        yield f"noise: sd of the difference {100 * verdict.sd:.2g} %, df {verdict.df:g}; {verdict.noise}"
    yield f"claim: {verdict.claim}"
    if verdict.smallest_margin is not None:
        unit = "points" if verdict.points else "%"
        yield (
            f"with these windows the smallest usable margin is {100 * verdict.smallest_margin:.2g} {unit}: "
            f"more windows make it smaller, more rounds of one window hardly do"
        )
    yield f"baseline: {found.path}"


def baseline_steps(verdict: Verdict, *, record_path: str, again: str) -> Iterator[str]:
    """Yield what to run next for a claim about a baseline that was not supported."""
    accept = f"specgate baseline accept {shlex.quote(record_path)}"
    if verdict.reason == NO_BASELINE:
        yield f"make this window its baseline: {accept} --reason '...'"
        return
    if verdict.reason == STALE:
        yield f"start anew with this window (the first one stays as its anchor): {accept} --replace --reason '...'"
    elif verdict.reason == EROSION:
        yield f"look at the series: specgate baseline history {shlex.quote(verdict.gate)}"
        yield f"if the loss is meant: {accept} --replace --new-anchor --accept-regression --reason '...'"
    elif verdict.outcome == Outcome.INCONCLUSIVE:
        yield f"add this window to the baseline, whatever its figures: {accept} --reason '...'"
    else:
        yield f"look at the windows it is compared with: specgate baseline history {shlex.quote(verdict.gate)}"
        # Appended to windows of another level it would only widen their spread, until nothing can be decided.
        yield f"if the change is meant, start anew from here: {accept} --replace --accept-regression --reason '...'"
    yield f"measure again (a new sample, not a correction): {again}"


def closed_text(verdict: Verdict, *, again: str) -> str:
    """Return the whole message of a claim whose baseline cannot be used; nothing was measured for it.

    Args:
        verdict: of the claim.
        again: command that runs its whole gate, so that all entries of the baseline come from one window.
    """
    first = verdict.summary if verdict.outcome != Outcome.INVALID else f"INVALID ({verdict.reason}): {verdict.summary}"
    lines = [first, *(f"    {line}" for line in verdict.detail.splitlines())]
    if verdict.reason == "no-baseline":
        lines.append(f"    write it: {again} --specgate-baseline=new --specgate-baseline-reason='...'")
        lines.append("    or let such claims be skipped: --specgate-missing-baseline=skip")
    lines.append("    nothing was measured for it")
    return "\n".join(lines)


def update_lines(update: Update) -> Iterator[str]:
    """Return what an update changes, entry by entry, before anything is written."""
    headers = ["entry", "what", "windows", "baseline", "today", "change", "since last", "since first", "would be"]
    align = ("left", "left", "right", "right", "right", "left", "left", "left", "left")
    rows = [row for change in update.changes for row in _change_rows(change)]
    yield f"baseline of {one_line(update.gate)} on {update.after.host_class}"
    yield tabulate(rows, headers=headers, colalign=align, disable_numparse=True, tablefmt="simple")
    yield from (f"regression: {sentence}" for sentence in update.regressions)


def _change_rows(change: EntryChange) -> Iterator[list[str]]:
    before = len(change.before.windows) if change.before is not None else 0
    windows = f"{before} -> {len(change.after.windows)}" if change.kind != "kept" else f"{before}"
    for claim in change.claims:
        verdict = next((one for one in change.verdicts if one.threshold == claim.id), None)
        found = verdict.baseline if verdict is not None else None
        if verdict is None or found is None or verdict.change is None:
            today = "-" if change.kind == "kept" else _today(change, claim)
            yield [change.entry_id, change.kind, windows, "-", today, "-", "-", "-", verdict.reason if verdict else "-"]
            continue
        since = [
            change_words(one, metric_name=verdict.metric, points=verdict.points)
            for one in (verdict.change, found.since_latest, found.since_anchor)
        ]
        levels = [_level(verdict, found, value) for value in (found.level, found.today)]
        yield [change.entry_id, change.kind, windows, *levels, *since, str(verdict.outcome)]


def _today(change: EntryChange, claim: BaselineThreshold) -> str:
    return level_text(claim, shown_level(claim, level_of(claim, change.after.latest)))


def written_text(update: Update, *, path: str) -> str:
    """Return what was written, in one sentence, and how to look at it."""
    return f"{changes_text(update)}: {path} (next: git add {shlex.quote(path)} && git diff --cached)"


def changes_text(update: Update) -> str:
    """Return what becomes of each entry that does not stay as it is."""
    return ", ".join(f"{change.entry_id} {change.kind}" for change in update.changes if change.kind != "kept")
