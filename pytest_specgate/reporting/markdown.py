"""What a run has to report, as Markdown for a pull-request comment and for the summary of a CI job."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.hosts import describe, facts_of, host_class
from pytest_specgate.core.judge import identity_of, pair_problem
from pytest_specgate.core.levels import level_told
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.thresholds import FASTER_ONLY_UP_TO, LIMITS, OUTPUTS_AGREE
from pytest_specgate.core.units import amount_text
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.core.verdict_parts import invalid
from pytest_specgate.reporting.engines import engine_lines
from pytest_specgate.reporting.evidence import counted
from pytest_specgate.reporting.figures import span, unit_text, value_text
from pytest_specgate.reporting.gate_names import item_name
from pytest_specgate.reporting.history import history_lines
from pytest_specgate.reporting.markup import code, fenced, folded, prose, row
from pytest_specgate.reporting.messages import window_lines
from pytest_specgate.reporting.outputs import outputs_in_short
from pytest_specgate.reporting.reasons import reasons
from pytest_specgate.reporting.tables import kind_words
from pytest_specgate.reporting.window_pairs import no_figures, pair_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.session_report import (
        Broken,
        ReportedVerdict,
        ReportedWindow,
        SessionReport,
        Unjudged,
    )

COMMENT_BYTES: Final = 65_536
"""What GitHub takes as one comment; it counts characters, of which there are no more than bytes."""

SUMMARY_BYTES: Final = 1_048_576
"""What GitHub takes as the summary of one step of a job."""

_ROOM_TO_SAY_SO: Final = 600

# What a part is for, most important first: when there is no room, the last kinds are left out first.
_HEAD: Final = 0
_REFUSED: Final = 1
_MESSAGES: Final = 2
_ACCEPTED: Final = 3
_FACTS: Final = 4
_TABLES: Final = 5


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """A section of the text, which is there whole or not at all.

    Attributes:
        rank: how important it is, 0 first.
        kind: what it is called where it is left out: ``failure text``.
        text: Markdown, with the line breaks that it ends with.
    """

    rank: int
    kind: str
    text: str

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.text.encode("utf-8"))


def markdown(report: SessionReport, *, limit: int = COMMENT_BYTES, key: str = "") -> str:
    """Return a report as Markdown.

    The first line is a comment that nobody sees: by it a later run finds the comment that it is to replace. No figure
    stands before the lines that say whether both arms got the same requests.

    Args:
        report: what to tell.
        limit: bytes at most; whole sections are left out, least important first, and a sentence says which.
        key: what tells this comment from those of other jobs.
    """
    parts = list(_parts(report))
    kept = _fitting(parts, limit=limit - len(_marker(key).encode("utf-8")))
    left = Counter(part.kind for part in parts) - Counter(part.kind for part in kept)
    text = "".join(part.text for part in kept)
    return f"{_marker(key)}{text}{_left_out(left, report, limit=limit) if left else ''}".rstrip("\n") + "\n"


def headline(report: SessionReport) -> str:
    """Return the words of a report: what must not be overlooked stands first.

    ``specgate: 2 FAIL, 1 not judged, 3 PASS``; where nothing was judged, ``specgate: 0 of 4 thresholds judged``.
    """
    texts = [one.short for one in reasons(report)]
    for word in Outcome:
        accepted = sum(one.verdict.outcome == word and one.verdict.accepted for one in report.verdicts)
        if accepted:
            texts.append(f"{accepted} {word}{'' if word == Outcome.PASS else ' (expected)'}")
    return f"specgate: {', '.join(texts)}"


def _marker(key: str) -> str:
    return f"<!-- specgate{f': {key}' if key else ''} -->\n"


def _parts(report: SessionReport) -> Iterator[_Part]:
    """Yield the sections in the order in which they are read."""
    state = "Passed" if report.passed else "Calibrated" if report.only_calibrated else "**Not passed**"
    counts = "nothing was judged" if report.only_calibrated else report.counts
    said = "; ".join(filter(None, [counts, report.shortage]))
    yield _Part(_HEAD, "headline", f"### {prose(headline(report))}\n\n{state}: {prose(said)}.\n\n")
    yield from _calibrated(report)
    yield from _identities(report)
    yield from _table(report)
    yield from _broken(report)
    yield from _messages(report)
    for number, window in enumerate(report.windows, 1):
        name = f"window {number}" if len(report.windows) > 1 else "window"
        yield _Part(_FACTS, "window description", _facts(window, name=name))
        yield from _which_k(window)
        lines = window_lines(window.record, pairs=window.pairs, judged=window.judged, record_path=window.path)
        tables = folded(f"all figures of the {name}", fenced("\n".join(lines)))
        yield _Part(_TABLES, "window table", f"{tables}\n\n")


def _calibrated(report: SessionReport) -> Iterator[_Part]:
    """Yield what A/A windows have told, and where it is."""
    for one in report.calibrated:
        found = f"noise of {prose(', '.join(one.arms))}, in {code(one.calibrations)}" if one.arms else "no noise"
        lines = [f"calibrated: {found}; record: {code(one.record)}", *map(prose, one.problems)]
        yield _Part(_REFUSED, "calibration", "".join(f"* {line}\n" for line in lines) + "\n")


def _identities(report: SessionReport) -> Iterator[_Part]:
    """Yield whether both arms of each pair got the same requests: a reader needs it before any figure."""
    lines = []
    for number, window in enumerate(report.windows, 1):
        place = f"window {number}: " if len(report.windows) > 1 else ""
        named = zip(window.pairs, pair_names([window])[0], strict=True)
        lines += [f"* {place}{prose(name)}: {prose(_identity(pair, window))}" for pair, name in named]
    for one in report.unmeasured:
        what = f"{', '.join(one.pairs)}: not measured" if one.pairs else "a record was not read"
        lines.append(f"* {prose(what)}: {prose(one.message)}")
    for line in lines or ([] if report.calibrated else ["Nothing was measured."]):
        yield _Part(_REFUSED, "identity line", f"{line}\n")
    yield _Part(_HEAD, "", "\n")


def _identity(pair: ArmPair, window: ReportedWindow) -> str:
    problem = pair_problem(pair, window.record)
    if problem is not None:
        return no_figures(problem)
    return identity_of(pair, window.record).sentence


def _table(report: SessionReport) -> Iterator[_Part]:
    """Yield the table of thresholds, each row a part of its own."""
    rows = [*_judged_rows(report), *((_REFUSED, _unjudged_row(one)) for one in report.unjudged)]
    if not rows:
        return
    several = len(report.windows) > 1
    head = ["claim", "outcome", "change", "interval", "margin", "load", "test", *(["window"] if several else [])]
    yield _Part(_HEAD, "", f"{row(head)}\n{row(['---'] * len(head))}\n")
    for rank, cells in rows:
        yield _Part(rank, "table row", f"{row(cells if several else cells[:-1])}\n")
    yield _Part(_HEAD, "", "\n")


def _judged_rows(report: SessionReport) -> Iterator[tuple[int, list[str]]]:
    placed = [(f"{number}", window.verdicts) for number, window in enumerate(report.windows, 1)]
    for place, verdicts in [*placed, ("-", report.closed)]:
        for one in verdicts:
            cells = _row(one.verdict, _word(one), one.temperature)
            yield _ACCEPTED if one.verdict.accepted else _REFUSED, [*cells, place]


def _word(one: ReportedVerdict) -> str:
    word = str(one.verdict.outcome)
    if one.verdict.accepted:
        return word if one.verdict.outcome == Outcome.PASS else f"{word}, expected"
    if one.verdict.expected:
        return f"**{word}**, expected {' or '.join(one.verdict.expected_outcomes)}"
    return f"**{word}**{', skipped' if one.skipped else ''}"


def _unjudged_row(one: Unjudged) -> list[str]:
    claim = invalid(one.gate, one.threshold, Failure(reason="not-judged", message=one.message))
    points = bool(getattr(one.threshold, "points", False))
    temperature = one.gate.pair.profile.temperature_at(claim.at)
    return [*_row(claim.model_copy(update={"points": points}), "**not judged**", temperature), "-"]


def _row(verdict: Verdict, word: str, temperature: float | None) -> list[str]:
    change, interval = ("-", "-") if verdict.outcome == Outcome.INVALID else _change(verdict)
    test = verdict.gate.partition("::")[2] or verdict.gate
    return [prose(_claim(verdict)), word, prose(change), prose(interval), prose(_margin(verdict)),
            prose(level_told(verdict.at, temperature)), code(test)]  # fmt: skip


def _claim(verdict: Verdict) -> str:
    what = "equal answers" if verdict.kind == OUTPUTS_AGREE else metric(verdict.metric).label
    return f"{what} {kind_words(verdict)}"


def _margin(verdict: Verdict) -> str:
    """Return where the claim ends: a raw change, a value of a limit, a share of equal answers."""
    if verdict.limit is None or verdict.kind == FASTER_ONLY_UP_TO:
        return "-"
    if verdict.kind == OUTPUTS_AGREE:
        return f"{100 * verdict.limit:.4g} %"
    if verdict.kind in LIMITS:
        return amount_text(metric(verdict.metric).unit, verdict.limit)
    unit = "points" if verdict.points else "%"
    return (
        f"±{100 * abs(verdict.limit):.4g} {unit}"
        if verdict.kind == "equivalent"
        else f"{100 * verdict.limit:+.4g} {unit}"
    )


def _change(verdict: Verdict) -> tuple[str, str]:
    """Return what was found, and its interval: a change in the word of its direction, or the worst boot or round."""
    if verdict.kind == OUTPUTS_AGREE:
        return f"worst round {100 * min(verdict.shares):.4g} %" if verdict.shares else "-", "-"
    if verdict.kind in LIMITS:
        known, measured = metric(verdict.metric), verdict.candidate
        return "-" if measured is None else f"worst boot {value_text(known, measured)} {unit_text(known)}", "-"
    if verdict.change is None:
        return "-", "-"
    words = change_words(verdict.change, metric_name=verdict.metric, points=verdict.points)
    return words, span(verdict.change_low, verdict.change_high, points=verdict.points)


def _broken(report: SessionReport) -> Iterator[_Part]:
    for one in report.broken:
        text = f"* {code(one.node_id)} {_how(one)}: {prose(one.message)}\n"
        yield _Part(_REFUSED, "failure line", text)
    if report.besides:
        tests = counted(report.besides, "test")
        yield _Part(_REFUSED, "failure line", f"* {tests} that no gate has to do with failed besides\n")
    if report.broken or report.besides:
        yield _Part(_HEAD, "", "\n")


def _how(one: Broken) -> str:
    return {
        "run": "was stopped",
        "collection": "was not collected",
        "setup": "failed in its set-up",
        "teardown": "failed in its teardown",
    }.get(one.kind, "failed, and not by its verdict")


def _messages(report: SessionReport) -> Iterator[_Part]:
    """Yield the whole message of everything that is not accepted."""
    for one in report.verdicts:
        if one.text:
            title = f"<b>{one.verdict.outcome}</b> {code(item_name(one.node_id, one.verdict.threshold))}"
            yield _Part(_MESSAGES, "failure text", folded(title, fenced(one.text)) + "\n\n")
    for left in report.unjudged:
        title = f"<b>not judged</b> {code(item_name(left.node_id, left.threshold.id))}"
        yield _Part(_MESSAGES, "failure text", folded(title, fenced(left.message)) + "\n\n")


def _facts(window: ReportedWindow, *, name: str) -> str:
    """Return on what a window ran, what was said of the answers, and where everything is."""
    record = window.record
    host = facts_of(record.host)
    outputs = dict.fromkeys(outputs_in_short(pair, record) for pair in window.pairs if not pair.alone)
    lines = [
        *history_lines(record),
        f"host: {describe(host)} (class {record.host_class or host_class(host)})",
        *engine_lines(record),
        *outputs,
    ]
    path = code(window.path)
    listed = [*map(prose, lines), f"record: {path}; judge it again, anywhere: {code(f'specgate judge {window.path}')}"]
    return f"#### {name.capitalize()}\n\n" + "".join(f"* {line}\n" for line in listed) + "\n"


def _which_k(window: ReportedWindow) -> Iterator[_Part]:
    """Yield the advice on draft horizons of a window in which some of them met."""
    if not any(arm.speculates for arm in window.record.arms):
        return
    from pytest_specgate.reporting.knee_markdown import knee_table  # noqa: PLC0415  - it brings scipy

    if text := knee_table(window.record, window.path):
        yield _Part(_FACTS, "table of advice", text)


def _fitting(parts: Sequence[_Part], *, limit: int) -> list[_Part]:
    """Return the parts that there is room for; where one of a rank is left out, so is everything less important."""
    if sum(part.size for part in parts) <= limit:
        return [*parts]
    room = limit - _ROOM_TO_SAY_SO
    kept: set[int] = set()
    for rank in range(_TABLES + 1):
        mine = [place for place, part in enumerate(parts) if part.rank == rank]
        for place in mine:
            if parts[place].size <= room:
                kept.add(place)
                room -= parts[place].size
        if not kept.issuperset(mine):
            break
    return [part for place, part in enumerate(parts) if place in kept]


def _left_out(left: Counter[str], report: SessionReport, *, limit: int) -> str:
    what = ", ".join(counted(count, kind) for kind, count in left.items() if kind)
    where = f"; {code('specgate report RECORD')} shows it" if report.windows else ""
    return f"Left out, since this text may have {limit} bytes: {what}{where}.\n"
