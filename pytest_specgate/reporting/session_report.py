"""What a run has to report, as data: every report (terminal, JSON, Markdown, page) is a view of it."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.stored_gates import first_problem, gates_of, pairs_of
from pytest_specgate.core.verdict import Verdict
from pytest_specgate.reporting.messages import Judged, failure_text, outcome_line
from pytest_specgate.reporting.reasons import reasons

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import AnyThreshold

_CUT_OFF: Final = "the window did not run to its end"


@dataclasses.dataclass(frozen=True, slots=True)
class ReportedVerdict:
    """A verdict with its place in the run.

    Attributes:
        verdict: of the threshold; whether it was accepted is its own knowledge.
        node_id: of the test item, as a user would type it; the id of the gate where no run is reported but a record.
        skipped: whether it was reported as skipped: it could not be decided, and the user wants no failure of that.
        text: the whole message, next steps included, where it was not accepted; empty where it was.
        temperature: that the requests of its load level are sent with; `None` where nobody told.
    """

    verdict: Verdict
    node_id: str
    skipped: bool = False
    text: str = ""
    temperature: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ReportedWindow:
    """A window that was measured, and what was judged by it.

    Attributes:
        record: everything that was measured.
        path: where the record lies.
        pairs: that were measured, in the order in which they are shown.
        gates: on these pairs.
        verdicts: of the items that ran; deselected thresholds have none.
    """

    record: WindowRecord
    path: str
    pairs: tuple[ArmPair, ...]
    gates: tuple[Gate, ...]
    verdicts: tuple[ReportedVerdict, ...]

    @property
    def judged(self) -> tuple[Judged, ...]:
        """The gates, each with the verdicts of those of its thresholds that ran."""
        return tuple(
            Judged(gate, tuple(one.verdict for one in self.verdicts if one.verdict.gate == gate.id))
            for gate in self.gates
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Unmeasured:
    """A window that could not be measured.

    Attributes:
        pairs: that it was to measure, by title.
        gates: ids of the gates that have no verdict for it.
        message: why, as one sentence.
    """

    pairs: tuple[str, ...]
    gates: tuple[str, ...]
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Unjudged:
    """A threshold that was collected and has no verdict.

    Attributes:
        gate: that it belongs to.
        threshold: the claim.
        node_id: of its test item, as `ReportedVerdict` has it.
        message: why, as one sentence.
    """

    gate: Gate
    threshold: AnyThreshold
    node_id: str
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Broken:
    """Something that failed for another reason than a verdict: a test of a gate or of a measured pair, or all of it.

    Attributes:
        node_id: of its item, as a user would type it; of what could not be collected; ``pytest`` for the whole run.
        message: the first line of its failure.
        kind: ``test``, or ``setup`` or ``teardown`` of one; ``collection``; ``run`` for what stopped pytest itself.
    """

    node_id: str
    message: str
    kind: str = "test"


@dataclasses.dataclass(frozen=True, slots=True)
class ReportedCalibration:
    """A/A windows that were run instead of judging.

    Attributes:
        arms: whose noise is known from them, by name.
        record: where all that was measured lies.
        calibrations: file that the noise was added to.
        problems: why nothing can be told of other arms, one sentence each.
    """

    arms: tuple[str, ...]
    record: str
    calibrations: str
    problems: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SessionReport:
    """What a run of gates, or a record alone, has to tell.

    Attributes:
        windows: measured ones, in the order in which they ran.
        closed: verdicts that nothing measured could have changed: of baselines that are missing, say.
        unmeasured: windows that could not be measured; their thresholds were not judged.
        thresholds: how many were collected.
        unjudged: thresholds without a verdict, each with the reason.
        broken: what failed though no verdict did: tests of gates, what could not be collected, pytest itself.
        exit_status: of pytest, as it stood when this was put together; `None` where no run is reported but a record.
        shortage: that fewer gates were judged than were required, as one sentence; empty where enough were.
        besides: how many tests failed that no gate and no measured pair has to do with.
        calibrated: A/A windows, of a run that measures noise and judges nothing.
    """

    windows: tuple[ReportedWindow, ...]
    closed: tuple[ReportedVerdict, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
    thresholds: int = 0
    unjudged: tuple[Unjudged, ...] = ()
    broken: tuple[Broken, ...] = ()
    exit_status: int | None = None
    shortage: str = ""
    besides: int = 0
    calibrated: tuple[ReportedCalibration, ...] = ()

    @property
    def verdicts(self) -> Sequence[ReportedVerdict]:
        """All verdicts, those of windows first."""
        return [*(one for window in self.windows for one in window.verdicts), *self.closed]

    @property
    def passed(self) -> bool:
        """Whether every collected threshold has a verdict that was accepted, and nothing else went wrong either.

        A window that could not be measured or did not run to its end, a test that failed for another reason, too few
        gates, and an exit status other than 0 all leave it false; so does a run without any threshold.
        """
        return not reasons(self)

    @property
    def only_calibrated(self) -> bool:
        """Whether noise was measured, as was asked for, and nothing went wrong."""
        return any(one.arms for one in self.calibrated) and len(reasons(self)) == 1

    @property
    def missing(self) -> int:
        """How many thresholds were to be judged, and have no verdict."""
        if self.calibrated:
            return len(self.unjudged)
        return max(self.thresholds - len(self.verdicts), len(self.unjudged))

    @property
    def counts(self) -> str:
        """The outcomes, counted: ``5 of 6 thresholds judged: 3 PASS, 2 FAIL (1 of them expected)``."""
        return outcome_line([one.verdict for one in self.verdicts], collected=self.thresholds)


def report_of(records: Iterable[tuple[WindowRecord, str]], *, unread: Iterable[Unmeasured] = ()) -> SessionReport:
    """Return what records alone have to tell; verdicts are those that the runs gave, and nothing is judged anew.

    What a test accepted with `verdict.expect` is in its body and in no record: its outcome counts as it is.

    Args:
        records: of windows, each with its path.
        unread: why others could not be read; they keep the report from being green.

    Raises:
        RecordError: a gate or a verdict of a record cannot be read.
    """
    windows, unjudged = [], []
    for record, path in records:
        gates = gates_of(record)
        known = {gate.id: gate for gate in gates}
        verdicts = tuple(_stored(verdict, known, record, path=path) for verdict in _verdicts(record))
        windows.append(ReportedWindow(record, path, pairs_of(record), gates, verdicts))
        unjudged += _without_verdict(windows[-1])
    thresholds = sum(len(gate.thresholds) for window in windows for gate in window.gates)
    return SessionReport(tuple(windows), unmeasured=tuple(unread), thresholds=thresholds, unjudged=tuple(unjudged))


def _verdicts(record: WindowRecord) -> Sequence[Verdict]:
    try:
        return [Verdict.model_validate_json(json.dumps(stored)) for stored in record.verdicts]
    except ValidationError as error:
        raise RecordError(f"a verdict cannot be read: {first_problem(error)}") from error


def _stored(verdict: Verdict, gates: dict[str, Gate], record: WindowRecord, *, path: str) -> ReportedVerdict:
    gate = gates.get(verdict.gate)
    if gate is None:
        raise RecordError(f"a verdict is of {verdict.gate}, which is no gate of the record")
    temperature = gate.pair.profile.temperature_at(verdict.at)
    if verdict.accepted:
        return ReportedVerdict(verdict, verdict.gate, temperature=temperature)
    again = f"pytest {shlex.quote(verdict.gate)}"
    text = failure_text(verdict, gate=gate, record=record, record_path=path, again=again)
    return ReportedVerdict(verdict, verdict.gate, text=text, temperature=temperature)


def _without_verdict(window: ReportedWindow) -> list[Unjudged]:
    judged = {(one.verdict.gate, one.verdict.threshold) for one in window.verdicts}
    return [
        Unjudged(gate, threshold, gate.id, window.record.stopped or _CUT_OFF)
        for gate in window.gates
        for threshold in gate.thresholds
        if (gate.id, threshold.id) not in judged
    ]
