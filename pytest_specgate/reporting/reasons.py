"""What kept a run from passing: every report takes its first words from here, so that no two of them disagree."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.evidence import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.reporting.session_report import SessionReport

WORST_FIRST: Final = (Outcome.FAIL, Outcome.INVALID, Outcome.INCONCLUSIVE, Outcome.PASS)
"""The outcomes as they weigh where they are not accepted, the gravest first."""

_SENTENCES: Final = {
    Outcome.FAIL: "Of {} it is shown that the claim does not hold.",
    Outcome.INVALID: "What was measured for {} must not be judged.",
    Outcome.INCONCLUSIVE: "{} could not be decided: what is not shown is no pass.",
    Outcome.PASS: "{} passed where another outcome was expected.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """Something that kept a run from passing.

    Attributes:
        short: in a few words, as ``2 FAIL``.
        sentence: the same as one.
    """

    short: str
    sentence: str


def reasons(report: SessionReport) -> tuple[Reason, ...]:
    """Return everything that kept a run from passing, outcomes first; nothing if and only if it passed."""
    found = (*_outcomes(report), *_without_verdict(report), *_windows(report), *_failures(report))
    explained = any(one.short != report.counts for one in found)
    if report.exit_status and not explained:
        ended = f"pytest ended with exit status {report.exit_status}"
        return (*found, Reason(ended, f"{ended}."))
    return found


def _outcomes(report: SessionReport) -> Iterator[Reason]:
    for word in WORST_FIRST:
        found = [one for one in report.verdicts if one.verdict.outcome == word and not one.verdict.accepted]
        skipped = sum(one.skipped for one in found)
        aside = " (not expected)" if word == Outcome.PASS else f" ({skipped} of them skipped)" if skipped else ""
        if found:
            yield Reason(f"{len(found)} {word}{aside}", _SENTENCES[word].format(counted(len(found), "threshold")))


def _without_verdict(report: SessionReport) -> Iterator[Reason]:
    if report.calibrated:
        arms = ", ".join(dict.fromkeys(arm for one in report.calibrated for arm in one.arms))
        files = ", ".join(dict.fromkeys(one.calibrations for one in report.calibrated))
        known = f"The noise of {arms} was measured, and is in {files}" if arms else "No noise could be told"
        yield Reason(f"calibrated {arms or 'nothing'}", f"{known}; nothing was judged.")
    if report.missing:
        short = f"{report.missing} not judged" if report.verdicts or report.calibrated else report.counts
        yield Reason(short, f"No verdict for {counted(report.missing, 'threshold')}: what was not measured is no pass.")
    elif not (report.verdicts or report.calibrated):
        yield Reason(report.counts, "No threshold was collected, so nothing was judged.")


def _windows(report: SessionReport) -> Iterator[Reason]:
    unread = sum(not one.pairs for one in report.unmeasured)
    unmeasured = len(report.unmeasured) - unread
    cut = sum(not window.record.finished for window in report.windows)
    if unread:
        yield Reason(f"{counted(unread, 'record')} not read", f"{counted(unread, 'record')} could not be read.")
    if unmeasured:
        lost = counted(unmeasured, "window")
        yield Reason(f"{lost} not measured", f"{lost} could not be measured.")
    if cut:
        short = f"{counted(cut, 'window')} cut off"
        yield Reason(short, f"{counted(cut, 'window')} did not run to {'its' if cut == 1 else 'their'} end.")


def _failures(report: SessionReport) -> Iterator[Reason]:
    for one in report.broken:
        if one.kind == "run":
            yield Reason("pytest was stopped", f"pytest was stopped: {one.message}")
    uncollected = sum(one.kind == "collection" for one in report.broken)
    if uncollected:
        short = f"{counted(uncollected, 'error')} while collecting"
        yield Reason(short, f"{short}: what is there was not judged.")
    tests = len({one.node_id for one in report.broken if one.kind not in {"run", "collection"}})
    if tests:
        short = f"{counted(tests, 'test')} failed otherwise"
        yield Reason(short, f"{counted(tests, 'test')} failed for another reason than a verdict.")
    if report.besides:
        short = f"{counted(report.besides, 'test')} besides failed"
        yield Reason(short, f"{counted(report.besides, 'test')} failed that no gate has to do with.")
    if report.shortage:
        yield Reason("too few gates judged", report.shortage)
