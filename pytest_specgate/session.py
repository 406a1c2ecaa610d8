"""What a pytest session knows of its gates: which windows they need, what was measured, what was judged."""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING, cast

import pytest

from pytest_specgate.core.baselines import BASELINES_OFF, NO_BASELINE, STRICT_REASONS
from pytest_specgate.core.errors import InvalidError, UsageError
from pytest_specgate.core.judge import first_point_problem, judge, not_booted, pair_problem
from pytest_specgate.core.redaction import redacted_text
from pytest_specgate.core.verdict import Outcome, UnexpectedOutcomeError
from pytest_specgate.gate_count import JUDGED, NO_VERDICT, SKIPPED, UNDECIDED, WRITTEN, GateLedger
from pytest_specgate.gate_count import NO_BASELINE as WITHOUT_BASELINE
from pytest_specgate.gate_items import as_typed, threshold_of
from pytest_specgate.names import EXPECTED_PROPERTY, RUNS_PROPERTY
from pytest_specgate.reporting.baselines import closed_text
from pytest_specgate.reporting.layout import FULL
from pytest_specgate.reporting.messages import failure_text
from pytest_specgate.reporting.properties import pair_properties, properties
from pytest_specgate.reporting.session_lines import session_lines
from pytest_specgate.reporting.session_report import (
    ReportedCalibration,
    ReportedVerdict,
    ReportedWindow,
    SessionReport,
    Unmeasured,
)
from pytest_specgate.reruns import count_run, rerun_lines, runs_of, with_run
from pytest_specgate.session_windows import SessionWindows
from pytest_specgate.time_limits import SERVER_REMEDY, limit_explained, warning_of
from pytest_specgate.translate import one_sentence, property_of, sendable, without_notes
from pytest_specgate.window import CalibrationPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import Calibrated, MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.options import GateOptions
    from pytest_specgate.reporting.layout import View
    from pytest_specgate.session_window import Window, Wiring


class GateSession:
    """All windows of a session. Measuring happens when the first item of a window asks for it.

    Args:
        options: of the session.
        wiring: the outside world.
        company: why no server may be started, as a sentence; empty where servers may.
        say: shows a line at once.
    """

    def __init__(self, options: GateOptions, wiring: Wiring, *, company: str, say: Callable[[str], None]) -> None:
        self._options = options
        self._wiring = wiring
        self._company = company
        self._say = say
        self.ledger = GateLedger()
        self.windows = SessionWindows(options, wiring, say=say)
        self._own: dict[tuple[str, str], Verdict] = {}
        self._items: dict[tuple[str, str], pytest.Item] = {}

    def window(self, item: pytest.Item) -> Window:
        """Return the window of an item, measured; what went wrong there is kept in it.

        Raises:
            UsageError: the item needs no window, or the session has several workers.
        """
        pairs = self.windows.pairs(item)
        if not pairs:
            raise UsageError(f"{item.nodeid} reads a window, but is no gate and has no @measured(pair)")
        self._refuse_company()
        window = self.windows.of_pairs(pairs)
        if window.measured is None and window.error is None:
            self._measure(window, item)
        return window

    def _refuse_company(self) -> None:
        if self._company:
            raise UsageError(self._company)

    def _measure(self, window: Window, item: pytest.Item) -> None:
        if warning := warning_of(item):
            self._say(warning)
        try:
            self._wiring.stop_server()
            with limit_explained():
                window.measured = self._wiring.measure(window.plan, self._say)
        except KeyboardInterrupt as error:
            window.error = without_notes(error)
            raise
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  - raised in the call phase of every item
            window.error = error
            return
        record = window.measured.record
        window.verdicts = {gate.id: judge(gate, record) for gate in window.gates.values()}

    def calibrate(self, item: pytest.Item) -> Calibrated:
        """Run the A/A windows that an item's arms need, once; nothing is judged.

        Raises:
            SpecgateError: nothing can be told of any arm, or the file with the calibrations cannot be read.
        """
        self._refuse_company()
        window = self.windows.of_pairs(self.windows.pairs(item))
        if window.error is not None:
            raise window.error
        if window.calibrated is None:
            boots = cast("int", self._options.calibrate)
            plan = CalibrationPlan(window.arms, window.profile, boots, title=window.title)
            try:
                self._wiring.stop_server()
                with limit_explained():
                    window.calibrated = self._wiring.calibrate(plan, self._say)
            except KeyboardInterrupt as error:
                window.error = without_notes(error)
                raise
            except (Exception, pytest.fail.Exception) as error:
                window.error = error
                raise
        return window.calibrated

    def skip_calibrated(self, item: pytest.Item) -> None:
        """Calibrate the arms of an item, and skip it: who measures noise judges nothing."""
        with one_sentence():
            found = self.calibrate(item)
            names = {arm.name for pair in self.windows.pairs(item) for arm in pair.arms}
            problems = [problem for arm, problem in found.problems.items() if arm in names]
            if problems:
                raise InvalidError("; ".join(problems))
        raise pytest.skip.Exception(f"calibrated, not judged: {found.noise_path}")

    def measured(self, item: pytest.Item) -> MeasuredWindow:
        """Return what was measured for an item.

        Raises:
            BaseException: whatever stopped the measuring.
        """
        window = self.window(item)
        if window.error is not None:
            raise window.error
        return cast("MeasuredWindow", window.measured)

    def readable(self, item: pytest.Item) -> MeasuredWindow:
        """Return what was measured for an item whose pairs may be read: identity comes before figures.

        Raises:
            InvalidError: the measurement of a pair is invalid.
        """
        measured = self.measured(item)
        wanted = [pair for pair in self.windows.pairs(item) if not_booted(pair, measured.record) is None]
        for pair in wanted:
            problem = pair_problem(pair, measured.record) or first_point_problem(pair, measured.record)
            if problem is not None:
                text = f"INVALID ({problem.reason}): {problem.message}\n{problem.detail}"
                raise InvalidError(text.strip())
        return measured

    def verdict(self, item: pytest.Item) -> Verdict:
        """Return the verdict of a threshold's item: an object of its own, whose acceptance concerns no other item.

        Raises:
            UsageError: the item is no gate's.
            BaseException: whatever stopped the measuring.
        """
        gate, threshold = self.windows.gate(item), threshold_of(item)
        if gate is None or threshold is None:
            raise UsageError(f"{item.nodeid} asks for a verdict, but is no gate: decorate it with @gate(pair, ...)")
        key = (gate.id, threshold.id)
        self._items[key] = item
        if (closed := self.windows.closed(item)) is not None:
            return self._own.setdefault(key, closed)
        self.measured(item)
        if key not in self._own:
            verdicts = self.window(item).verdicts[gate.id]
            self._own[key] = verdicts[gate.thresholds.index(threshold)].model_copy()
        return self._own[key]

    def refuse_unreadable(self, item: pytest.Item) -> None:
        """Fail a ``@measured`` test whose window is invalid, whatever fixtures it asks for."""
        with one_sentence():
            self.readable(item)

    @property
    def refused(self) -> bool:
        """Whether a window could not be measured, or a verdict is neither accepted nor allowed to be skipped."""
        if any(window.error is not None for window in self.windows):
            return True
        return any(not verdict.accepted and not self._skipped(verdict) for verdict in self._own.values())

    def _skipped(self, verdict: Verdict) -> bool:
        """Whether a verdict is reported as skipped: it could not be decided, and the user wants no failure of that."""
        if verdict.outcome != Outcome.INCONCLUSIVE or verdict.expected:
            return False
        if verdict.reason in STRICT_REASONS:
            return False
        missing = verdict.reason == NO_BASELINE and self._options.skip_missing_baseline
        return missing or verdict.reason == BASELINES_OFF or self._options.skip_inconclusive

    def prepare(self, item: pytest.Item) -> None:
        """Measure what an item judges, and put its verdict into the junit properties."""
        gate = cast("Gate", self.windows.gate(item))
        count_run(item)
        try:
            with one_sentence():
                self.windows.claims.settle(gate, threshold_of(item), lambda: self.measured(item))
                verdict = self.verdict(item)
        except pytest.skip.Exception:
            self._note(item, WRITTEN)
            raise
        found = [*properties(verdict, temperature=gate.pair.profile.temperature_at(verdict.at))]
        if self.windows.closed(item) is None:
            found += pair_properties(gate.pair, self.measured(item).record)
        if (runs := runs_of(item)) > 1:
            item.user_properties[:] = [
                entry for entry in item.user_properties if property_of([entry], RUNS_PROPERTY) is None
            ]
            found.append((RUNS_PROPERTY, runs))
        item.user_properties += [entry for entry in found if property_of(item.user_properties, entry[0]) is None]

    @contextlib.contextmanager
    def judging(self, item: pytest.Item) -> Iterator[None]:
        """Judge an item after its body, whatever the body does; only `expect` accepts another outcome."""
        wrong: Exception | None = None
        given_up: BaseException | None = None
        try:
            with one_sentence():
                yield
        except (pytest.skip.Exception, pytest.xfail.Exception) as error:
            given_up = error
        except UnexpectedOutcomeError as error:
            wrong = error
        except (Exception, pytest.fail.Exception) as error:
            self._note(item, self._state(self.verdict(item)))
            if self.accepted(item):
                self._say_expected(item)
            elif isinstance(error, pytest.fail.Exception):
                error.msg = f"{error.msg}\n{self._failure_text(item)}"
            else:
                error.add_note(self._failure_text(item))
            raise
        self._enforce(item, wrong=wrong, given_up=given_up is not None)
        if given_up is not None:
            raise given_up

    def _state(self, verdict: Verdict) -> str:
        """Return what became of a threshold whose verdict is about to be enforced."""
        if verdict.reason in {NO_BASELINE, BASELINES_OFF}:
            return WITHOUT_BASELINE
        return UNDECIDED if self._skipped(verdict) else JUDGED

    def _note(self, item: pytest.Item, state: str) -> None:
        if (key := self._key(item)) is not None:
            self.ledger.note(*key, state)

    def _key(self, item: pytest.Item) -> tuple[str, str] | None:
        gate, threshold = self.windows.gate(item), threshold_of(item)
        return None if gate is None or threshold is None else (gate.id, threshold.id)

    def plan(self, items: list[pytest.Item], collected: Sequence[pytest.Item], *, check: bool) -> None:
        """Find out which windows some items need, and put the items into an order that suits these.

        Args:
            items: as they are to run.
            collected: as they were written, before anybody has sorted or deselected any.
            check: whether they are to run at all.

        Raises:
            pytest.UsageError: a gate cannot be judged, or an arm could not be started.
        """
        self.windows.plan(items, check=check)
        items[:] = self.windows.in_order(items, collected)
        for item in items:
            if (gate := self.windows.gate(item)) is not None and (key := self._key(item)) is not None:
                self.ledger.collect(*key, declared=len(gate.thresholds))

    def note_judged(self, items: Iterable[pytest.Item], judged: Mapping[str, tuple[str, str]]) -> None:
        """Take note of what a process had judged that has died since.

        Args:
            items: that were collected.
            judged: outcome and reason by node id.
        """
        for item in items:
            if item.nodeid in judged:
                _, reason = judged[item.nodeid]
                self._note(item, WITHOUT_BASELINE if reason in {NO_BASELINE, BASELINES_OFF} else JUDGED)

    def note_report(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Take note of an item that ended without a verdict."""
        if report.when != "teardown" and not report.passed and (key := self._key(item)) is not None:
            self.ledger.note_end(*key, SKIPPED if report.skipped else NO_VERDICT)

    def _enforce(self, item: pytest.Item, *, wrong: Exception | None, given_up: bool) -> None:
        # A body that gives up takes a PASS with it: its test is reported as skipped, and skipped is not passed.
        skipped = given_up and self.accepted(item)
        self._note(item, SKIPPED if skipped else self._state(self.verdict(item)))
        if self.accepted(item) and wrong is None:
            self._say_expected(item)
            return
        if wrong is None and self._skipped(self.verdict(item)):
            raise pytest.skip.Exception(self.verdict(item).summary)
        text = "\n".join(filter(None, [str(wrong or ""), self._failure_text(item)]))
        # What the body raised is no cause, and would be shown as one.
        raise pytest.fail.Exception(text, pytrace=False) from None

    def _say_expected(self, item: pytest.Item) -> None:
        entry = (EXPECTED_PROPERTY, "yes")
        if self.verdict(item).expected and entry not in item.user_properties:
            item.user_properties.append(entry)

    def _failure_text(self, item: pytest.Item) -> str:
        gate = cast("Gate", self.windows.gate(item))
        if self.windows.closed(item) is not None:
            return closed_text(self.verdict(item), again=self._again(as_typed(item).partition("[")[0]))
        again = self._again(as_typed(item))
        measured = self.measured(item)
        text = failure_text(
            self.verdict(item), gate=gate, record=measured.record, record_path=measured.path, again=again
        )
        return with_run(sendable(text), item)

    def _again(self, what: str) -> str:
        """Return the command that runs something again as it was run here, without secrets."""
        return redacted_text(" ".join(["pytest", shlex.quote(what), *self._options.given]))

    def accepted(self, item: pytest.Item) -> bool:
        """Whether an item was judged, and its verdict is accepted."""
        key = self._key(item)
        verdict = None if key is None else self._own.get(key)
        return verdict is not None and verdict.accepted

    def summary(self, view: View = FULL) -> Iterator[str]:
        """Return the lines of the terminal summary: of every window that was measured, then the count of outcomes."""
        if self._options.plan:
            return
        calibrated = [
            (window.calibrated, list(window.gates.values())) for window in self.windows if window.calibrated is not None
        ]
        yield from session_lines(self.report(), calibrated=calibrated, view=view)
        yield from rerun_lines((as_typed(item), item) for item in self._items.values())

    def report(self) -> SessionReport:
        """Return what the session has to report so far."""
        windows, unmeasured = [], []
        for window in self.windows:
            gates = tuple(window.gates.values())
            if window.measured is not None:
                record, path = window.measured.record, window.measured.path
                windows.append(ReportedWindow(record, path, tuple(window.pairs), gates, self._reported(gates)))
            elif window.error is not None:
                titles, ids = tuple(pair.title for pair in window.pairs), tuple(gate.id for gate in gates)
                why = [str(window.error) or "interrupted", *getattr(window.error, "__notes__", ())]
                unmeasured.append(Unmeasured(titles, ids, redacted_text("; ".join(why))))
        measured = {(one.verdict.gate, one.verdict.threshold) for found in windows for one in found.verdicts}
        closed = tuple(self._reported_one(key) for key in self._kept() if key not in measured)
        thresholds, calibrated = self.windows.thresholds, tuple(self._calibrated())
        return SessionReport(tuple(windows), closed, tuple(unmeasured), thresholds, calibrated=calibrated)

    def _calibrated(self) -> Iterator[ReportedCalibration]:
        for window in self.windows:
            if (found := window.calibrated) is not None:
                arms = tuple(arm.name for arm in found.record.arms if arm.name not in found.problems)
                yield ReportedCalibration(arms, found.path, found.noise_path, tuple(found.problems.values()))

    def _reported(self, gates: Iterable[Gate]) -> tuple[ReportedVerdict, ...]:
        """Return the verdicts of the items that ran; deselected thresholds are not shown as judged."""
        keys = ((gate.id, threshold.id) for gate in gates for threshold in gate.thresholds)
        kept = self._kept()
        return tuple(self._reported_one(key) for key in keys if key in kept)

    def _kept(self) -> list[tuple[str, str]]:
        """Return whose verdicts are reported: a PASS that its fixture told, and whose test never ran, is none."""
        return [key for key, verdict in self._own.items() if self.ledger.has_verdict(*key) or not verdict.accepted]

    def _reported_one(self, key: tuple[str, str]) -> ReportedVerdict:
        verdict, item = self._own[key], self._items[key]
        text = "" if verdict.accepted else "\n".join(filter(None, [verdict.mismatch, self._failure_text(item)]))
        temperature = cast("Gate", self.windows.gate(item)).pair.profile.temperature_at(verdict.at)
        return ReportedVerdict(verdict, as_typed(item), self._skipped(verdict), text, temperature)

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm, for the fixture `vllm_server`."""
        with one_sentence():
            self._refuse_company()
            with limit_explained(SERVER_REMEDY):
                return self._wiring.server(arm)

    def close(self) -> None:
        """Stop what still runs."""
        self._wiring.stop_server()
