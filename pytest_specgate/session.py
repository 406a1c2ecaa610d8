"""What a pytest session knows of its gates: which windows they need, what was measured, what was judged."""

from __future__ import annotations

import contextlib
import shlex
from typing import TYPE_CHECKING, cast

import pytest

from pytest_specgate.core.baselines import BASELINES_OFF, NO_BASELINE, STRICT_REASONS
from pytest_specgate.core.errors import InvalidError, UsageError
from pytest_specgate.core.judge import first_point_problem, judge, pair_problem
from pytest_specgate.core.redaction import redacted_text
from pytest_specgate.core.verdict import Outcome, UnexpectedOutcomeError
from pytest_specgate.gate_items import as_typed, threshold_of
from pytest_specgate.names import EXPECTED_PROPERTY
from pytest_specgate.reporting.baselines import closed_text
from pytest_specgate.reporting.calibration import calibration_lines
from pytest_specgate.reporting.messages import failure_text, outcome_line, window_lines
from pytest_specgate.reporting.properties import pair_properties, properties
from pytest_specgate.reporting.session_report import ReportedVerdict, ReportedWindow, SessionReport, Unmeasured
from pytest_specgate.session_windows import SessionWindows
from pytest_specgate.translate import one_sentence
from pytest_specgate.window import CalibrationPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import Calibrated, MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.options import GateOptions
    from pytest_specgate.session_window import Window, Wiring


class GateSession:
    """All windows of a session. Measuring happens when the first item of a window asks for it."""

    def __init__(self, options: GateOptions, wiring: Wiring, *, workers: int, say: Callable[[str], None]) -> None:
        self._options = options
        self._wiring = wiring
        self._workers = workers
        self._say = say
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
            self._measure(window)
        return window

    def _refuse_company(self) -> None:
        if self._workers > 1:
            raise UsageError(
                f"gates cannot run on {self._workers} xdist workers: servers would share the machine; use -n 0"
            )

    def _measure(self, window: Window) -> None:
        try:
            self._wiring.stop_server()
            window.measured = self._wiring.measure(window.plan, self._say)
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
            plan = CalibrationPlan(window.arms, window.profile, cast("int", self._options.calibrate))
            try:
                self._wiring.stop_server()
                window.calibrated = self._wiring.calibrate(plan, self._say)
            except Exception as error:
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
        for pair in self.windows.pairs(item):
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
        """Whether a threshold was judged and its verdict is neither accepted nor allowed to be skipped."""
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
        with one_sentence():
            self.windows.claims.settle(gate, threshold_of(item), lambda: self.measured(item))
            verdict = self.verdict(item)
        found = [*properties(verdict)]
        if self.windows.closed(item) is None:
            found += pair_properties(gate.pair, self.measured(item).record)
        known = {name for name, _ in item.user_properties}
        item.user_properties += [entry for entry in found if entry[0] not in known]

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
        except Exception as error:
            if self.accepted(item):
                self._say_expected(item)
            else:
                error.add_note(self._failure_text(item))
            raise
        self._enforce(item, wrong=wrong)
        if given_up is not None:
            raise given_up

    def _enforce(self, item: pytest.Item, *, wrong: Exception | None) -> None:
        if self.accepted(item) and wrong is None:
            self._say_expected(item)
            return
        if wrong is None and self._skipped(self.verdict(item)):
            raise pytest.skip.Exception(self.verdict(item).summary)
        text = "\n".join(filter(None, [str(wrong or ""), self._failure_text(item)]))
        # What the body raised is no cause, and would be shown as one.
        raise pytest.fail.Exception(text, pytrace=False) from None

    def _say_expected(self, item: pytest.Item) -> None:
        if self.verdict(item).expected:
            item.user_properties.append((EXPECTED_PROPERTY, "yes"))

    def _failure_text(self, item: pytest.Item) -> str:
        gate = cast("Gate", self.windows.gate(item))
        if self.windows.closed(item) is not None:
            return closed_text(self.verdict(item), again=self._again(as_typed(item).partition("[")[0]))
        again = self._again(as_typed(item))
        measured = self.measured(item)
        return failure_text(
            self.verdict(item), gate=gate, record=measured.record, record_path=measured.path, again=again
        )

    def _again(self, what: str) -> str:
        """Return the command that runs something again as it was run here, without secrets."""
        return redacted_text(" ".join(["pytest", shlex.quote(what), *self._options.given]))

    def accepted(self, item: pytest.Item) -> bool:
        """Whether an item was judged, and its verdict is accepted."""
        gate, threshold = self.windows.gate(item), threshold_of(item)
        verdict = self._own.get((gate.id, threshold.id)) if gate and threshold else None
        return verdict is not None and verdict.accepted

    def summary(self) -> Iterator[str]:
        """Return the lines of the terminal summary: of every window that was measured, then the count of outcomes."""
        for window in self.windows:
            if window.calibrated is not None:
                yield from calibration_lines(window.calibrated, list(window.gates.values()))
                yield ""
        report = self.report()
        for found in report.windows:
            yield from window_lines(found.record, pairs=found.pairs, judged=found.judged, record_path=found.path)
            yield ""
        if report.thresholds:
            yield outcome_line([one.verdict for one in report.verdicts], collected=report.thresholds)

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
                unmeasured.append(Unmeasured(titles, ids, redacted_text(str(window.error))))
        measured = {(one.verdict.gate, one.verdict.threshold) for found in windows for one in found.verdicts}
        closed = tuple(self._reported_one(key) for key in self._own if key not in measured)
        return SessionReport(tuple(windows), closed, tuple(unmeasured), self.windows.thresholds)

    def _reported(self, gates: Iterable[Gate]) -> tuple[ReportedVerdict, ...]:
        """Return the verdicts of the items that ran; deselected thresholds are not shown as judged."""
        keys = ((gate.id, threshold.id) for gate in gates for threshold in gate.thresholds)
        return tuple(self._reported_one(key) for key in keys if key in self._own)

    def _reported_one(self, key: tuple[str, str]) -> ReportedVerdict:
        verdict, item = self._own[key], self._items[key]
        text = "" if verdict.accepted else self._failure_text(item)
        return ReportedVerdict(verdict, as_typed(item), skipped=self._skipped(verdict), text=text)

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm, for the fixture `vllm_server`."""
        with one_sentence():
            self._refuse_company()
            return self._wiring.server(arm)

    def close(self) -> None:
        """Stop what still runs."""
        self._wiring.stop_server()
