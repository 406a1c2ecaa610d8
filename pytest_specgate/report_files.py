"""Files that a run leaves for its readers: JSON, Markdown, a page of its own, and the summary of a CI job.

They are written at the end, whatever that was. Nothing here imports a report before one is written.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_specgate.collection import seen_of
from pytest_specgate.core.errors import SpecgateError
from pytest_specgate.distributed import refuse
from pytest_specgate.fixtures import SESSION_KEY
from pytest_specgate.gate_count import GateCount
from pytest_specgate.names import GATE_MARK, JOB_SUMMARY, PAIRS_MARK
from pytest_specgate.options import OPTIONS_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_specgate.options import GateOptions
    from pytest_specgate.reporting.session_report import Broken, SessionReport, Unjudged
    from pytest_specgate.session import GateSession

_OUTPUT: Final = "specgate_reports"
_LONGEST: Final = 400
_LEAST_ROOM: Final = 4_096


@dataclasses.dataclass(slots=True)
class Reported:
    """What became of the files of this run.

    Attributes:
        lines: for the end of the terminal summary.
        failed: whether a file that was asked for was not written.
    """

    lines: list[str] = dataclasses.field(default_factory=list)
    failed: bool = False


_REPORTED_KEY: Final = pytest.StashKey[Reported]()


def report_lines(config: pytest.Config) -> list[str]:
    """Return where the reports of this run are, or why they are not, for the end of the terminal summary."""
    return config.stash[_REPORTED_KEY].lines if _REPORTED_KEY in config.stash else []


def register_reports(config: pytest.Config, *, environment: Mapping[str, str] = os.environ) -> None:
    """Take part in a run that is to leave a report; one that runs no test leaves none."""
    options, summary = config.stash[OPTIONS_KEY], environment.get(JOB_SUMMARY, "").strip()
    idle = config.getoption("collectonly") or options.plan or options.baseline == "prune"
    if not idle and (summary or options.json or options.markdown or options.html):
        reports = ReportFiles(config, summary=Path(summary) if summary else None)
        config.pluginmanager.register(reports, "specgate-report-files")


class ReportFiles:
    """A plugin for a run that leaves reports. Under xdist the worker writes them, which knows what was measured."""

    def __init__(self, config: pytest.Config, *, summary: Path | None) -> None:
        self._config = config
        self._options: GateOptions = config.stash[OPTIONS_KEY]
        self._summary = summary
        self._collects = False
        self._ends: dict[str, _End] = {}
        self._reported = config.stash[_REPORTED_KEY] = Reported()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Remove what an earlier run has reported: if this one is killed, it must not be taken for its report."""
        self._collects = True
        for name, path in self._files() if self._writes else []:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                sentence = f"--specgate-{name}: {path}, which an earlier run wrote, cannot be removed: {_why(error)}"
                refuse(self._config, sentence)
                raise pytest.UsageError(sentence) from None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of how a test ended that did not pass; a rerun of it begins anew."""
        if report.when == "setup":
            self._ends.pop(report.nodeid, None)
        if not report.passed:
            known = self._ends.get(report.nodeid)
            if known is None or not known.failed:
                self._ends[report.nodeid] = _End(_sentence(report), failed=report.failed)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports; one that was asked for and is not there makes no run green."""
        if self._collects and self._writes:
            self._write(session)
            output = getattr(self._config, "workeroutput", None)
            if output is not None:
                output[_OUTPUT] = dataclasses.asdict(self._reported)
        if self._reported.failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take in what a worker of xdist has written."""
        told = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if told is not None:
            self._reported.lines += told["lines"]
            self._reported.failed = self._reported.failed or told["failed"]

    @property
    def _writes(self) -> bool:
        """Whether this process is the one that writes: of several workers the first."""
        worker = getattr(self._config, "workerinput", None)
        if worker is not None:
            return bool(worker["workercount"] == 1 or worker["workerid"] == "gw0")
        return not self._config.pluginmanager.hasplugin("dsession")

    def _files(self) -> list[tuple[str, Path]]:
        """Return the files that were asked for, by name of the option."""
        named = (("json", self._options.json), ("markdown", self._options.markdown), ("html", self._options.html))
        return [(name, path) for name, path in named if path is not None]

    def _write(self, session: pytest.Session) -> None:
        from pytest_specgate.adapters.storage import write_atomically  # noqa: PLC0415  - only a report pays for it
        from pytest_specgate.baseline_wiring import short  # noqa: PLC0415  - likewise

        for name, path in self._files():
            try:
                write_atomically(path, self._text(name, session))
            except Exception as error:  # noqa: BLE001  - whatever it is, the verdicts are shown all the same
                self._reported.failed = True
                self._reported.lines.append(f"--specgate-{name}: {short(path)} was not written: {_why(error)}")
            else:
                self._reported.lines.append(f"report: {short(path)}")
        if self._summary is not None and self._has_gates():
            try:
                self._append(self._summary, session)
            except Exception as error:  # noqa: BLE001  - likewise; nobody asked for it
                self._reported.lines.append(f"warning: {JOB_SUMMARY} was not written: {_why(error)}")

    def _text(self, name: str, session: pytest.Session) -> str:
        """Return the text of a report."""
        report = run_report(session, self._ends)
        if name == "json":
            from pytest_specgate.reporting.session_json import session_json_text  # noqa: PLC0415  - likewise

            return session_json_text(report)
        if name == "html":
            from pytest_specgate.reporting.page import html_page  # noqa: PLC0415  - likewise

            return html_page(report)
        from pytest_specgate.reporting.markdown import markdown  # noqa: PLC0415  - likewise

        return markdown(report, key=self._options.report_key)

    def _append(self, path: Path, session: pytest.Session) -> None:
        """Add the Markdown to the summary of the job, as far as there is room."""
        from pytest_specgate.adapters.job_summary import append, size_of  # noqa: PLC0415  - likewise
        from pytest_specgate.reporting.markdown import SUMMARY_BYTES, markdown  # noqa: PLC0415  - likewise

        room = SUMMARY_BYTES - size_of(path) - 1
        if room < _LEAST_ROOM:
            raise ValueError(f"it holds {SUMMARY_BYTES - room - 1} bytes, and may have {SUMMARY_BYTES}")
        append(path, markdown(run_report(session, self._ends), limit=room, key=self._options.report_key))

    def _has_gates(self) -> bool:
        gates = self._config.stash.get(SESSION_KEY, None)
        return gates is not None and gates.windows.thresholds > 0


@dataclasses.dataclass(frozen=True, slots=True)
class _End:
    """How a test ended that did not pass.

    Attributes:
        sentence: the first line of why.
        failed: whether it failed, and was not skipped.
    """

    sentence: str
    failed: bool


def run_report(session: pytest.Session, ends: Mapping[str, _End]) -> SessionReport:
    """Return everything that a run has to report, what kept thresholds from being judged included.

    Args:
        session: that is about to end.
        ends: how tests ended that did not pass, by node id.
    """
    from pytest_specgate.reporting.session_report import SessionReport  # noqa: PLC0415  - only a report pays for it

    config = session.config
    gates, status = config.stash.get(SESSION_KEY, None), int(session.exitstatus)
    if gates is None:
        count = GateCount(len(seen_of(config).gate_ids))
        return SessionReport((), exit_status=status, shortage=_shortage(config, count))
    count = gates.ledger.count(seen=len(seen_of(config).gate_ids))
    report = gates.report()
    accepted = {(one.verdict.gate, one.verdict.threshold): one.verdict.accepted for one in report.verdicts}
    return dataclasses.replace(
        report,
        unjudged=tuple(_unjudged(session, gates, ends, accepted)) if report.thresholds else (),
        broken=tuple(_broken(session, gates, ends, accepted)),
        exit_status=status,
        shortage=_shortage(config, count),
    )


def _shortage(config: pytest.Config, count: GateCount) -> str:
    options = config.stash[OPTIONS_KEY]
    return count.shortage(options.require_gates) if options.calibrate is None else ""


def _unjudged(
    session: pytest.Session,
    gates: GateSession,
    ends: Mapping[str, _End],
    accepted: Mapping[tuple[str, str], bool],
) -> Iterator[Unjudged]:
    """Yield the thresholds that were collected and have no verdict."""
    from pytest_specgate.gate_items import as_typed, threshold_of  # noqa: PLC0415  - only gates pay for it
    from pytest_specgate.reporting.session_report import Unjudged  # noqa: PLC0415  - likewise

    for item in session.items:
        gate, threshold = gates.windows.gate(item), threshold_of(item)
        if gate is not None and threshold is not None and (gate.id, threshold.id) not in accepted:
            end = ends.get(item.nodeid)
            why = end.sentence if end is not None else "its test did not run: the run ended before"
            yield Unjudged(gate, threshold, as_typed(item), why)


def _broken(
    session: pytest.Session,
    gates: GateSession,
    ends: Mapping[str, _End],
    accepted: Mapping[tuple[str, str], bool],
) -> Iterator[Broken]:
    """Yield the tests of gates and measured pairs that failed, and not by their verdict."""
    from pytest_specgate.gate_items import as_typed, threshold_of  # noqa: PLC0415  - only gates pay for it
    from pytest_specgate.reporting.session_report import Broken  # noqa: PLC0415  - likewise

    for item in session.items:
        end = ends.get(item.nodeid)
        if end is None or not end.failed:
            continue
        gate, threshold = gates.windows.gate(item), threshold_of(item)
        judged = gate is not None and threshold is not None and accepted.get((gate.id, threshold.id), False)
        measured = item.get_closest_marker(PAIRS_MARK) is not None and item.get_closest_marker(GATE_MARK) is None
        if judged or measured:
            yield Broken(as_typed(item), end.sentence)


def _sentence(report: pytest.TestReport) -> str:
    """Return why a test did not pass, in one line, without secrets."""
    from pytest_specgate.core.redaction import redacted_text  # noqa: PLC0415  - only what did not pass pays for it

    found: Any = report.longrepr
    crash = getattr(found, "reprcrash", None)
    text = found[2] if isinstance(found, tuple) else crash.message if crash is not None else report.longreprtext
    line = next((line.strip() for line in text.splitlines() if line.strip()), "its test did not pass")
    return redacted_text(line.removeprefix("Skipped: "))[:_LONGEST]


def _why(error: Exception) -> str:
    """Return an error as one line; one that nobody foresaw is named."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else f"{error}"
    foreseen = isinstance(error, OSError | SpecgateError | ValueError)
    return " ".join((text if foreseen and text else f"{type(error).__name__}: {text}").split())
