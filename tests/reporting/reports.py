"""Reports of windows whose figures are known, as a run would have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_specgate.core.judge import judge
from pytest_specgate.core.stored_gates import stored_gate
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.messages import failure_text
from pytest_specgate.reporting.session_report import ReportedVerdict, ReportedWindow, SessionReport

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from tests.reporting.conftest import Window

PATH = "specgate-results/one/record.json"


def reported(window: Window, *, expected: Iterable[str] = (), skips: bool = False) -> ReportedWindow:
    """Return a window as a run reports it.

    Args:
        window: with its gates.
        expected: gates whose tests accept FAIL and INCONCLUSIVE.
        skips: whether what could not be decided is skipped.
    """
    found = []
    for gate in window.gates:
        for verdict in judge(gate, window.record):
            if gate.id in expected:
                verdict.expect(Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)
            node_id = f"{gate.id}[{verdict.threshold}]"
            again = f"pytest '{node_id}'"
            text = failure_text(verdict, gate=gate, record=window.record, record_path=PATH, again=again)
            skipped = skips and verdict.outcome == Outcome.INCONCLUSIVE
            text = "" if verdict.accepted else text
            temperature = gate.pair.profile.temperature_at(verdict.at)
            found.append(ReportedVerdict(verdict, node_id, skipped=skipped, text=text, temperature=temperature))
    return ReportedWindow(window.record, PATH, window.pairs, window.gates, tuple(found))


def run_of(*windows: ReportedWindow, **changes: Any) -> SessionReport:
    """Return a run of some windows, all of whose thresholds were collected."""
    thresholds = sum(len(gate.thresholds) for window in windows for gate in window.gates)
    return SessionReport(windows, **{"thresholds": thresholds, "exit_status": 0, **changes})


def kept(window: Window) -> WindowRecord:
    """Return the record of a window with its gates and verdicts, as a run stores it."""
    verdicts: list[Verdict] = [verdict for gate in window.gates for verdict in judge(gate, window.record)]
    stored = tuple(verdict.model_dump(mode="json") for verdict in verdicts)
    return window.record.model_copy(update={"gates": tuple(map(stored_gate, window.gates)), "verdicts": stored})
