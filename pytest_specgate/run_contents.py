"""What a run has to report: its verdicts, what kept thresholds from being judged, and what else failed."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.collection import seen_of
from pytest_specgate.distributed import crashed_items, is_lost, judged_before
from pytest_specgate.fixtures import SESSION_KEY
from pytest_specgate.gate_count import GateCount
from pytest_specgate.names import GATE_MARK, PAIRS_MARK
from pytest_specgate.options import OPTIONS_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

    from pytest_specgate.reporting.session_report import Broken, SessionReport, Unjudged
    from pytest_specgate.session import GateSession

_LONGEST: Final = 400
_CRASH: Final = "???"
"""The phase of a test in which its worker died, as xdist names it."""

_RAISED: Final = re.compile(r"^E {3}(?=\S)(?P<sentence>.+)", re.MULTILINE)
_PLACE: Final = re.compile(r"^(?P<place>[^\s:/<.][^:\n]*:\d+): ", re.MULTILINE)
"""A line of the project's own: paths elsewhere begin at the root, with dots, or in brackets."""

_SYNTAX: Final = re.compile(r"^E +File \".*\", line (?P<line>\d+)$", re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class End:
    """How a phase of a test ended that did not pass.

    Attributes:
        sentence: the first line of why.
        failed: whether it failed, and was not skipped.
    """

    sentence: str
    failed: bool


class Ends:
    """How everything ended that did not pass: tests by their phases, what could not be collected, the run."""

    def __init__(self) -> None:
        self._tests: dict[str, dict[str, End]] = {}
        self._collection: dict[str, str] = {}
        self._stopped = ""

    def note(self, report: pytest.TestReport) -> None:
        """Take note of a phase of a test; a rerun of it begins anew."""
        if report.when == "setup":
            self._tests.pop(report.nodeid, None)
        if report.passed:
            return
        phases = self._tests.setdefault(report.nodeid, {})
        known = phases.get(report.when)
        if known is None or not known.failed:
            phases[report.when] = End(_sentence(report), failed=report.failed)

    def note_collection(self, report: pytest.CollectReport) -> None:
        """Take note of what could not be collected."""
        if report.failed:
            self._collection.setdefault(str(report.nodeid), _collection_sentence(report))

    def note_stop(self, error: BaseException) -> None:
        """Take note of what stopped pytest: a usage error, or somebody who called `pytest.exit`."""
        from pytest_specgate.core.redaction import redacted_text  # noqa: PLC0415  - only what went wrong pays for it

        self._stopped = redacted_text("; ".join(map(str, error.args)) or type(error).__name__)[:_LONGEST]

    def failed(self, nodeid: str, phase: str) -> str:
        """Return why a phase of a test failed; empty where it did not."""
        end = self._tests.get(nodeid, {}).get(phase)
        return end.sentence if end is not None and end.failed else ""

    def why(self, nodeid: str) -> str:
        """Return why a test has no verdict: the sentence of its first phase that did not pass; empty if all did."""
        return next((end.sentence for end in self._tests.get(nodeid, {}).values()), "")

    @property
    def failures(self) -> frozenset[str]:
        """The node ids of the tests that failed, in whatever phase; those are not among them whose worker died."""
        return frozenset(
            nodeid
            for nodeid, phases in self._tests.items()
            if _CRASH not in phases and any(end.failed for end in phases.values())
        )

    def of_run(self) -> Iterator[Broken]:
        """Yield what failed beside single tests: the run, what could not be collected, workers that died."""
        from pytest_specgate.reporting.session_report import Broken  # noqa: PLC0415  - only a report pays for it

        if self._stopped:
            yield Broken("pytest", self._stopped, "run")
        for nodeid, sentence in self._collection.items():
            yield Broken(nodeid or "pytest", sentence, "collection")
        for nodeid, phases in self._tests.items():
            if _CRASH in phases:
                yield Broken(nodeid, phases[_CRASH].sentence)


def run_report(session: pytest.Session, ends: Ends) -> SessionReport:
    """Return everything that a run has to report, what kept thresholds from being judged included.

    Args:
        session: that is about to end.
        ends: how everything ended that did not pass.
    """
    from pytest_specgate.reporting.session_report import SessionReport  # noqa: PLC0415  - only a report pays for it

    config = session.config
    gates, status, seen = config.stash.get(SESSION_KEY, None), int(session.exitstatus), len(seen_of(config).gate_ids)
    report = SessionReport(()) if gates is None else gates.report()
    unjudged: list[Unjudged] = []
    broken = [*ends.of_run()]
    if gates is not None:
        accepted = {(one.verdict.gate, one.verdict.threshold): one.verdict.accepted for one in report.verdicts}
        unjudged += _unjudged(session, gates, ends, accepted) if report.thresholds else ()
        broken += _broken(session, gates, ends, accepted)
    return dataclasses.replace(
        report,
        unjudged=tuple(unjudged),
        broken=tuple(broken),
        exit_status=status,
        shortage=shortage_of(config, GateCount(seen) if gates is None else gates.ledger.count(seen=seen)),
        besides=len(ends.failures - own_tests(session)),
    )


def own_tests(session: pytest.Session) -> frozenset[str]:
    """Return the node ids of the tests that belong to gates and measured pairs."""
    marks = (GATE_MARK, PAIRS_MARK)
    return frozenset(item.nodeid for item in session.items if any(map(item.get_closest_marker, marks)))


def completed(report: SessionReport | None, ends: Ends, *, config: pytest.Config, own: frozenset[str]) -> SessionReport:
    """Return what a worker of xdist has to report with what only the process knows that started it.

    Args:
        report: of the worker; `None` where none has told any.
        ends: how everything ended, as this process heard of it.
        config: of this process.
        own: node ids of the tests that belong to gates and measured pairs, as workers told.
    """
    from pytest_specgate.reporting.session_report import SessionReport  # noqa: PLC0415  - only a report pays for it

    if report is None:
        report = SessionReport((), shortage=shortage_of(config, GateCount()))
    broken = tuple(dict.fromkeys((*ends.of_run(), *report.broken)))
    return dataclasses.replace(report, broken=broken, besides=len(ends.failures - own))


def judges(config: pytest.Config) -> bool:
    """Whether a run was asked to judge: not to list tests, to calibrate, to plan or to prune."""
    options = config.stash[OPTIONS_KEY]
    other = options.calibrate is not None or options.plan or options.baseline == "prune"
    return not (other or config.getoption("collectonly"))


def shortage_of(config: pytest.Config, count: GateCount) -> str:
    """Say that fewer gates were judged than must be; empty where enough were, or none had to be."""
    required = config.stash[OPTIONS_KEY].require_gates
    return count.shortage(required, lost=is_lost(config)) if judges(config) else ""


def _unjudged(
    session: pytest.Session, gates: GateSession, ends: Ends, accepted: Mapping[tuple[str, str], bool]
) -> Iterator[Unjudged]:
    """Yield the thresholds that were collected and have no verdict; a calibration judges none that it skips."""
    from pytest_specgate.gate_items import as_typed, threshold_of  # noqa: PLC0415  - only gates pay for it
    from pytest_specgate.reporting.session_report import Unjudged  # noqa: PLC0415  - likewise

    calibrates = session.config.stash[OPTIONS_KEY].calibrate is not None
    crashed = crashed_items(session.config)
    lost = f"an xdist worker crashed in {', '.join(sorted(crashed))}, and what was judged before is not known"
    unknown = lost if crashed else "its test did not run: the run ended before"
    before = judged_before(session.config)
    for item in session.items:
        gate, threshold = gates.windows.gate(item), threshold_of(item)
        if gate is None or threshold is None or (gate.id, threshold.id) in accepted:
            continue
        if calibrates and item.nodeid not in ends.failures and ends.why(item.nodeid):
            continue
        outcome, _ = before.get(item.nodeid, ("", ""))
        told = f"{outcome} by an xdist worker that died later: its figures are lost" if outcome else unknown
        yield Unjudged(gate, threshold, as_typed(item), ends.why(item.nodeid) or told)


def _broken(
    session: pytest.Session, gates: GateSession, ends: Ends, accepted: Mapping[tuple[str, str], bool]
) -> Iterator[Broken]:
    """Yield the tests of gates and measured pairs that failed, and not by their verdict.

    A test without a verdict is told where its threshold is, unless it is its teardown that failed.
    """
    from pytest_specgate.gate_items import as_typed, threshold_of  # noqa: PLC0415  - only gates pay for it
    from pytest_specgate.reporting.session_report import Broken  # noqa: PLC0415  - likewise

    own = own_tests(session)
    for item in session.items:
        if item.nodeid not in own:
            continue
        gate, threshold = gates.windows.gate(item), threshold_of(item)
        verdict = None if gate is None or threshold is None else accepted.get((gate.id, threshold.id))
        told = {"setup": gate is None or verdict is not None, "call": gate is None or bool(verdict), "teardown": True}
        for phase, is_told in told.items():
            if is_told and (sentence := ends.failed(item.nodeid, phase)):
                yield Broken(as_typed(item), sentence, "test" if phase == "call" else phase)


def _sentence(report: pytest.TestReport) -> str:
    """Return why a test did not pass, in one line, without secrets."""
    from pytest_specgate.core.redaction import redacted_text  # noqa: PLC0415  - only what did not pass pays for it

    found: Any = report.longrepr
    crash = getattr(found, "reprcrash", None)
    text = found[2] if isinstance(found, tuple) else crash.message if crash is not None else _text_of(report)
    line = next((line.strip() for line in text.splitlines() if line.strip()), "its test did not pass")
    return redacted_text(line.removeprefix("Skipped: "))[:_LONGEST]


def _text_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return why something failed, as it is shown, without the line that names a worker of xdist."""
    return report.longrepr if isinstance(report.longrepr, str) else report.longreprtext


def _collection_sentence(report: pytest.CollectReport) -> str:
    """Return why something could not be collected, in one line that begins with its place, without secrets."""
    from pytest_specgate.core.redaction import redacted_text  # noqa: PLC0415  - only what went wrong pays for it

    text = _text_of(report).strip()
    raised = _RAISED.search(text)
    if raised is None:
        return redacted_text(text.partition("\n")[0] or "it could not be collected")[:_LONGEST]
    places = [found["place"] for found in _PLACE.finditer(text, 0, raised.start())]
    places += [f"{report.nodeid}:{found['line']}" for found in _SYNTAX.finditer(text, 0, raised.start())]
    return redacted_text(": ".join([*places[-1:], raised["sentence"]]))[:_LONGEST]
