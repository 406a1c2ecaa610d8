"""The end of a run in the terminal: every window, what is not PASS, and the count of outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.reporting.calibration import calibration_lines
from pytest_specgate.reporting.layout import FULL, Detail
from pytest_specgate.reporting.messages import outcome_line, window_lines
from pytest_specgate.reporting.refused import refused_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import Calibrated
    from pytest_specgate.reporting.layout import View
    from pytest_specgate.reporting.session_report import SessionReport


def session_lines(
    report: SessionReport, *, calibrated: Sequence[tuple[Calibrated, Sequence[Gate]]] = (), view: View = FULL
) -> Iterator[str]:
    """Yield the lines of the terminal summary.

    Args:
        report: what was measured and judged.
        calibrated: what A/A windows told, each with the gates on its arms.
        view: how much a reader wants to see.
    """
    if view.detail > Detail.OUTCOME:
        yield from _details(report, calibrated, view)
    else:
        yield from (f"calibrations: {found.noise_path}" for found, _ in calibrated)
    if report.thresholds:
        yield outcome_line([one.verdict for one in report.verdicts], collected=report.thresholds)


def _details(
    report: SessionReport, calibrated: Sequence[tuple[Calibrated, Sequence[Gate]]], view: View
) -> Iterator[str]:
    for told, gates in calibrated:
        yield from calibration_lines(told, gates, view=view)
        yield ""
    for found in report.windows:
        yield from window_lines(found.record, pairs=found.pairs, judged=found.judged, record_path=found.path, view=view)
        yield ""
    if refused := list(refused_lines(report)):
        yield from (*refused, "")
