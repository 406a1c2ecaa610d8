"""What a pytest session knows of its gates: which windows they need, what was measured, what was judged."""

from __future__ import annotations

import contextlib
import functools
import shlex
from typing import TYPE_CHECKING, cast

import pytest

from pytest_specgate.baseline_session import BaselineClaims
from pytest_specgate.collection import is_gone, left_out
from pytest_specgate.core.arms import ArmPair, arms_of
from pytest_specgate.core.baselines import BASELINES_OFF, NO_BASELINE, STRICT_REASONS
from pytest_specgate.core.errors import InvalidError, UsageError
from pytest_specgate.core.judge import first_point_problem, judge, pair_problem
from pytest_specgate.core.redaction import redacted_text
from pytest_specgate.core.verdict import Outcome, UnexpectedOutcomeError
from pytest_specgate.gate_items import as_typed, gate_of, pairs_of, refuse_strange_gate, threshold_of
from pytest_specgate.names import EXPECTED_PROPERTY
from pytest_specgate.reporting.baselines import closed_text
from pytest_specgate.reporting.calibration import calibration_lines
from pytest_specgate.reporting.messages import Judged, failure_text, outcome_line, window_lines
from pytest_specgate.reporting.plan import PlannedWindow, plan_lines
from pytest_specgate.reporting.properties import pair_properties, properties
from pytest_specgate.session_window import Window, go_on
from pytest_specgate.translate import one_sentence, usage_errors
from pytest_specgate.window import CalibrationPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import Calibrated, MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.options import GateOptions
    from pytest_specgate.session_window import Wiring


class GateSession:
    """All windows of a session. Measuring happens when the first item of a window asks for it."""

    def __init__(self, options: GateOptions, wiring: Wiring, *, workers: int, say: Callable[[str], None]) -> None:
        self._options = options
        self._wiring = wiring
        self._workers = workers
        self._say = say
        self._windows: list[Window] = []
        self._thresholds = 0
        self._own: dict[tuple[str, str], Verdict] = {}
        self._claims = BaselineClaims(options, wiring, say=say)

    def plan(self, items: Sequence[pytest.Item], *, check: bool) -> None:
        """Find out which windows the collected items need.

        Raises:
            pytest.UsageError: a gate cannot be judged, or an arm could not be started.
        """
        with usage_errors():
            for item in items:
                self._take(item)
            if check and self._options.baseline != "prune":
                self._wiring.check([pair for window in self._windows for pair in window.pairs])
                self._foresee()
                self._look_for_unclaimed(items)
        if check:
            self._thresholds = sum(threshold_of(item) is not None for item in items)
            for item in items:
                self._demand(item)

    def _demand(self, item: pytest.Item) -> None:
        """Take note that an item's window has to be measured, unless nothing measured could change its verdict."""
        pairs, gate, threshold = self.pairs(item), self.gate(item), threshold_of(item)
        if not pairs:
            return
        window = self._window_of(pairs)
        closed = self._claims.closed(window, gate, threshold) if gate and threshold else None
        window.wanted = window.wanted or closed is None

    def _look_for_unclaimed(self, items: Sequence[pytest.Item]) -> None:
        """Say which baselines no gate claims, if this run can tell."""
        asked = self._options.baseline not in {"off", "prune"} and self._options.calibrate is None
        if items and asked and not left_out(items[0].config):
            gone = self._gone(items[0].config)
            self._claims.look_for_unclaimed(self._gates(), gone=gone, strict=self._options.strict)

    def _gone(self, config: pytest.Config) -> Callable[[str], bool]:
        return functools.partial(is_gone, config, collected=[gate.id for gate in self._gates()])

    def _gates(self) -> list[Gate]:
        return [gate for window in self._windows for gate in window.gates.values()]

    def prune(self, config: pytest.Config) -> None:
        """Remove baselines that no gate claims.

        Raises:
            pytest.UsageError: this run cannot tell which these are, or a baseline cannot be read.
        """
        why = left_out(config)
        if why:
            raise pytest.UsageError(f"--specgate-baseline=prune needs a whole run, and {why}: name files or folders")
        with usage_errors():
            self._claims.prune(self._gates(), gone=self._gone(config))

    def _foresee(self) -> None:
        """Find out what can be decided by what is known of the noise, before anything is started.

        Raises:
            UsageError: a threshold can never be decided; under strict also a margin that is too fine, or an attached
                arm that is to be calibrated; no window can go on with the record that was named.
            RecordError: the calibrations of this machine, or that record, cannot be read.
        """
        go_on(self._windows, self._wiring, self._options)
        for window in self._windows:
            if self._options.calibrate is not None:
                window.refuse_attached(self._options)
                continue
            self._claims.foresee(window)
            window.settle(self._wiring)
            for gate in window.gates.values():
                gate.check_decidable(window.noise, attached=self._options.attached_of(gate.pair))
                for sentence in gate.too_fine(window.noise):
                    if self._options.strict:
                        raise UsageError(f"{gate.id}: {sentence}")
                    self._say(f"{gate.id}: {sentence}")

    def show_plan(self) -> None:
        """Say what the session would do."""
        windows = [
            PlannedWindow(
                window.pairs, tuple(window.gates.values()), window.noise,
                self._wiring.boot_seconds(window.arms, window.profile),
            )
            for window in self._windows
            if window.wanted
        ]  # fmt: skip
        for line in plan_lines(windows, budget_s=self._options.budget_s):
            self._say(line)

    def _take(self, item: pytest.Item) -> None:
        """Put what an item needs into a window."""
        refuse_strange_gate(item)
        pairs, gate = self.pairs(item), self.gate(item)
        if len({pair.profile.fingerprint() for pair in pairs}) > 1:
            raise UsageError(f"{item.nodeid} needs pairs with different profiles, which no one window can measure")
        arms_of(pairs)
        for pair in pairs:
            window = next((known for known in self._windows if all(map(known.fits, pairs))), None)
            if window is None:
                window = Window([pair], strict=self._options.strict)
                self._windows.append(window)
            window.add(pair)
            if gate is not None and gate.pair.key == pair.key:
                self._claims.take(gate, threshold_of(item))
                known = window.gates.setdefault(gate.id, gate)
                if (known.pair.key, known.thresholds) != (gate.pair.key, gate.thresholds):
                    raise UsageError(f"two different gates are called {gate.id}; rename one")

    def pairs(self, item: pytest.Item) -> tuple[ArmPair, ...]:
        """Return the pairs that an item needs measured."""
        return pairs_of(item, self._options)

    def gate(self, item: pytest.Item) -> Gate | None:
        """Return the gate that an item belongs to, `None` for other tests."""
        return gate_of(item, self._options)

    def window(self, item: pytest.Item) -> Window:
        """Return the window of an item, measured; what went wrong there is kept in it.

        Raises:
            UsageError: the item needs no window, or the session has several workers.
        """
        pairs = self.pairs(item)
        if not pairs:
            raise UsageError(f"{item.nodeid} reads a window, but is no gate and has no @measured(pair)")
        self._refuse_company()
        window = self._window_of(pairs)
        if window.measured is None and window.error is None:
            self._measure(window)
        return window

    def _window_of(self, pairs: Sequence[ArmPair]) -> Window:
        return next(known for known in self._windows if all(map(known.has, pairs)))

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
        window = self._window_of(self.pairs(item))
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
            names = {arm.name for pair in self.pairs(item) for arm in pair.arms}
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
        for pair in self.pairs(item):
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
        gate, threshold = self.gate(item), threshold_of(item)
        if gate is None or threshold is None:
            raise UsageError(f"{item.nodeid} asks for a verdict, but is no gate: decorate it with @gate(pair, ...)")
        key = (gate.id, threshold.id)
        if (closed := self._closed(item)) is not None:
            return self._own.setdefault(key, closed)
        self.measured(item)
        if key not in self._own:
            verdicts = self.window(item).verdicts[gate.id]
            self._own[key] = verdicts[gate.thresholds.index(threshold)].model_copy()
        return self._own[key]

    def _closed(self, item: pytest.Item) -> Verdict | None:
        """Return the verdict of an item whose window need not be measured; `None` where it is."""
        gate, threshold, window = self.gate(item), threshold_of(item), self._window_of(self.pairs(item))
        if window.wanted or gate is None or threshold is None:
            return None
        return self._claims.closed(window, gate, threshold)

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
        gate = cast("Gate", self.gate(item))
        with one_sentence():
            self._claims.settle(gate, threshold_of(item), lambda: self.measured(item))
            verdict = self.verdict(item)
        found = [*properties(verdict)]
        if self._closed(item) is None:
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
        gate = cast("Gate", self.gate(item))
        if self._closed(item) is not None:
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
        gate, threshold = self.gate(item), threshold_of(item)
        verdict = self._own.get((gate.id, threshold.id)) if gate and threshold else None
        return verdict is not None and verdict.accepted

    def summary(self) -> Iterator[str]:
        """Return the lines of the terminal summary: of every window that was measured, then the count of outcomes."""
        for window in self._windows:
            if window.calibrated is not None:
                yield from calibration_lines(window.calibrated, list(window.gates.values()))
                yield ""
            if window.measured is None:
                continue
            judged = [Judged(gate, self._run_verdicts(gate)) for gate in window.gates.values()]
            record, path = window.measured.record, window.measured.path
            yield from window_lines(record, pairs=window.pairs, judged=judged, record_path=path)
            yield ""
        if self._thresholds:
            yield outcome_line(tuple(self._own.values()), collected=self._thresholds)

    def _run_verdicts(self, gate: Gate) -> tuple[Verdict, ...]:
        """Return the verdicts of the items that ran; deselected thresholds are not shown as judged."""
        found = (self._own.get((gate.id, threshold.id)) for threshold in gate.thresholds)
        return tuple(verdict for verdict in found if verdict is not None)

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm, for the fixture `vllm_server`."""
        with one_sentence():
            self._refuse_company()
            return self._wiring.server(arm)

    def close(self) -> None:
        """Stop what still runs."""
        self._wiring.stop_server()
