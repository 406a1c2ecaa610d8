"""What is not PASS, sentence by sentence: the last lines that a reader sees before the count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.gate_names import item_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.session_report import ReportedVerdict, SessionReport


def sentence_of(verdict: Verdict) -> str:
    """Return the sentence of a verdict without its word; of one that is INVALID with the code of its reason."""
    said = verdict.summary.removeprefix(f"{verdict.outcome}: ")
    return one_line(f"{verdict.reason}: {said}" if verdict.outcome == Outcome.INVALID else said)


def refused_lines(report: SessionReport) -> Iterator[str]:
    """Yield what was not accepted and what was not measured, each sentence once, below the tests that it concerns."""
    found: dict[str, list[str]] = {}
    for one in report.verdicts:
        if not one.verdict.accepted:
            found.setdefault(sentence_of(one.verdict), []).append(_head(one))
    for window in report.unmeasured:
        found.setdefault(one_line(window.message), []).extend(f"not measured: {gate}" for gate in window.gates)
    if found:
        yield "not PASS"
    for sentence, heads in found.items():
        yield from heads
        yield f"    {sentence}"


def _head(one: ReportedVerdict) -> str:
    skipped = " (skipped)" if one.skipped else ""
    return one_line(f"{one.verdict.outcome}{skipped} {item_name(one.node_id, one.verdict.threshold)}")
