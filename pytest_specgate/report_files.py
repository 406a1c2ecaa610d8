"""Files that a run leaves for its readers: JSON, Markdown, a page of its own, and the summary of a CI job.

They are written at the end, whatever that was, by the process that knows the exit status: under xdist that is not the
worker, which hands over what it knows. Nothing here imports a report before one is written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_specgate.core.errors import SpecgateError
from pytest_specgate.distributed import is_worker, refuse
from pytest_specgate.names import JOB_SUMMARY
from pytest_specgate.options import OPTIONS_KEY, REPORTS
from pytest_specgate.run_contents import Ends, completed, own_tests, run_report

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from pytest_specgate.options import GateOptions
    from pytest_specgate.reporting.session_report import SessionReport

_OUTPUT: Final = "specgate_reports"
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
        plugin = WorkerReport(config) if is_worker(config) else ReportFiles(config, Path(summary) if summary else None)
        config.pluginmanager.register(plugin, "specgate-report-files")


class _Listener:
    """A plugin that takes note of everything that did not pass."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._ends = Ends()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of how a test ended that did not pass."""
        self._ends.note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Take note of what could not be collected."""
        self._ends.note_collection(report)


class WorkerReport(_Listener):
    """A plugin for a worker of xdist: it knows what was measured, and not how the run ends."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over what this worker knows; what cannot be handed over is said where it is missing."""
        told: dict[str, Any] = {"own": sorted(own_tests(session))}
        try:
            told["report"] = pickle.dumps(run_report(session, self._ends))
        except Exception as error:  # noqa: BLE001  - whatever it is, the run ends as it would
            told["problem"] = _why(error)
        self._config.workeroutput[_OUTPUT] = told  # type: ignore[attr-defined]  # xdist adds it


class ReportFiles(_Listener):
    """A plugin for a run that leaves reports, in the process that the user sees."""

    def __init__(self, config: pytest.Config, summary: Path | None) -> None:
        super().__init__(config)
        self._options: GateOptions = config.stash[OPTIONS_KEY]
        self._summary = summary
        self._collects = False
        self._told: list[dict[str, Any]] = []
        self._session: pytest.Session | None = None
        self._report: SessionReport | None = None
        self._written: dict[str, Path] = {}
        self._appended: tuple[int, int] | None = None
        self._reported = config.stash[_REPORTED_KEY] = Reported()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Remove what an earlier run has reported: if this one is killed, it must not be taken for its report."""
        self._collects = True
        for name, path in self._files():
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                sentence = f"--specgate-{name}: {path}, which an earlier run wrote, cannot be removed: {_why(error)}"
                refuse(self._config, sentence)
                raise pytest.UsageError(sentence) from None
        with self._noting():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Take note of what stops the run while tests run."""
        with self._noting():
            return (yield)

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except (pytest.UsageError, pytest.exit.Exception) as error:
            self._ends.note_stop(error)
            raise

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take in what a worker of xdist knows."""
        told = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if told is not None:
            self._told.append(told)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the reports; one that was asked for and is not there makes no run green."""
        if not self._collects:
            return
        self._session = session
        self._write(session)
        if self._reported.failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            self._write_again(session)
        if self._summary is not None and self._report is not None and self._report.thresholds:
            try:
                self._append(self._summary, self._report)
            except Exception as error:  # noqa: BLE001  - nobody asked for it
                self._reported.lines.append(f"warning: {JOB_SUMMARY} was not written: {_why(error)}")

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Write the reports again if anybody has changed the exit status after they were written."""
        session, report = self._session, self._report
        if session is None or report is None or report.exit_status == int(session.exitstatus):
            return
        self._write_again(session)
        if self._appended is not None and self._summary is not None:
            with contextlib.suppress(OSError, ValueError):
                self._append_again(self._summary, *self._appended)

    def _files(self) -> list[tuple[str, Path]]:
        """Return the files that were asked for, by name of the option."""
        named = ((name, getattr(self._options, name)) for name in REPORTS)
        return [(name, path) for name, path in named if path is not None]

    def _write(self, session: pytest.Session) -> None:
        """Put the report together once, and write it in each form."""
        from pytest_specgate.baseline_wiring import short  # noqa: PLC0415  - only a report pays for it

        problem = ""
        try:
            self._report = self._contents(session)
        except Exception as error:  # noqa: BLE001  - whatever it is, the verdicts are shown all the same
            problem = _why(error)
        for name, path in self._files():
            why = problem or self._write_one(name, path)
            if why:
                self._reported.failed = True
                self._reported.lines.append(f"--specgate-{name}: {short(path)} was not written: {why}")
            else:
                self._written[name] = path
                self._reported.lines.append(f"report: {short(path)}")

    def _contents(self, session: pytest.Session) -> SessionReport:
        if not self._config.pluginmanager.hasplugin("dsession"):
            return run_report(session, self._ends)
        problems = [told["problem"] for told in self._told if "problem" in told]
        if problems:
            raise ValueError("; ".join(problems))
        # Our own worker has sent them. Of several only one has measured, and it is the last that had gates.
        found: list[SessionReport] = [pickle.loads(told["report"]) for told in self._told]  # noqa: S301
        found.sort(key=lambda one: bool(one.thresholds or one.windows or one.calibrated))
        own = frozenset(nodeid for told in self._told for nodeid in told["own"])
        whole = completed(found[-1] if found else None, self._ends, config=self._config, own=own)
        return dataclasses.replace(whole, exit_status=int(session.exitstatus))

    def _write_one(self, name: str, path: Path) -> str:
        """Write a report, and say why that was not possible; empty where it was."""
        from pytest_specgate.adapters.storage import write_atomically  # noqa: PLC0415  - only a report pays for it

        try:
            write_atomically(path, self._text(name))
        except Exception as error:  # noqa: BLE001  - whatever it is, the verdicts are shown all the same
            return _why(error)
        return ""

    def _write_again(self, session: pytest.Session) -> None:
        """Write the reports with the exit status of now; where that fails, none is better than one that is wrong."""
        if self._report is not None:
            self._report = dataclasses.replace(self._report, exit_status=int(session.exitstatus))
            for name, path in self._written.items():
                if self._write_one(name, path):
                    path.unlink(missing_ok=True)

    def _text(self, name: str) -> str:
        """Return the text of a report."""
        report = self._report
        assert report is not None, "nothing is written before it was put together"
        with _metrics_of(report):
            if name == "json":
                from pytest_specgate.reporting.session_json import session_json_text  # noqa: PLC0415  - likewise

                return session_json_text(report)
            if name == "html":
                from pytest_specgate.reporting.page import html_page  # noqa: PLC0415  - likewise

                return html_page(report)
            from pytest_specgate.reporting.markdown import markdown  # noqa: PLC0415  - likewise

            return markdown(report, key=self._options.report_key)

    def _append(self, path: Path, report: SessionReport) -> None:
        """Add the Markdown to the summary of the job, as far as there is room."""
        from pytest_specgate.adapters.job_summary import append, size_of  # noqa: PLC0415  - likewise
        from pytest_specgate.reporting.markdown import SUMMARY_BYTES, markdown  # noqa: PLC0415  - likewise

        before = size_of(path)
        room = SUMMARY_BYTES - before - 1
        if room < _LEAST_ROOM:
            raise ValueError(f"it holds {SUMMARY_BYTES - room - 1} bytes, and may have {SUMMARY_BYTES}")
        with _metrics_of(report):
            append(path, markdown(report, limit=room, key=self._options.report_key))
        self._appended = before, size_of(path)

    def _append_again(self, path: Path, start: int, end: int) -> None:
        """Replace what was added to the summary of the job; where others have added to it since, contradict it."""
        from pytest_specgate.adapters.job_summary import append, size_of  # noqa: PLC0415  - likewise

        assert self._report is not None, "nothing is added before it was put together"
        if size_of(path) == end:
            os.truncate(path, start)
            self._append(path, self._report)
        else:
            append(path, f"Later, pytest ended with exit status {self._report.exit_status}.\n")


@contextlib.contextmanager
def _metrics_of(report: SessionReport) -> Iterator[None]:
    """Know the metrics that were added where a report was measured: a conftest that a worker alone has may add some."""
    from pytest_specgate.core.metrics import added_definitions, with_added  # noqa: PLC0415  - only a report pays for it

    known = {one.name: one for one in added_definitions()}
    measured = {one.name: one for window in report.windows for one in window.record.added_metrics}
    with with_added({**measured, **known}.values()):
        yield


def _why(error: Exception) -> str:
    """Return an error as one line; one that nobody foresaw is named."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else f"{error}"
    foreseen = isinstance(error, OSError | SpecgateError | ValueError)
    return " ".join((text if foreseen and text else f"{type(error).__name__}: {text}").split())
