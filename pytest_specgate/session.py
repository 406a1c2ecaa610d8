"""What a pytest session knows of its gates: which windows they need, what was measured, what was judged."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from pytest_specgate.core.arms import ArmPair, arms_of
from pytest_specgate.core.errors import InvalidError, UsageError
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.judge import first_point_problem, judge, pair_problem
from pytest_specgate.core.records import redacted_text
from pytest_specgate.core.verdict import UnexpectedOutcomeError
from pytest_specgate.names import EXPECTED_PROPERTY, GATE_MARK, PAIRS_MARK, SERVER_FIXTURE, THRESHOLD_FIXTURE
from pytest_specgate.reporting.messages import Judged, failure_text, outcome_line, window_lines
from pytest_specgate.reporting.properties import pair_properties, properties
from pytest_specgate.translate import one_sentence
from pytest_specgate.window import WindowPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.measured import MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.options import GateOptions


class Wiring(Protocol):
    """What the session needs of the outside world; `fixtures` implements it with the real adapters."""

    def check(self, pairs: Sequence[ArmPair]) -> None:
        """Raise `UsageError` for what would stop a pair from being measured."""

    def measure(self, plan: WindowPlan, say: Callable[[str], None]) -> MeasuredWindow:
        """Measure a window."""

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm; another arm's is stopped first."""

    def stop_server(self) -> None:
        """Stop the server that `server` started, if it still runs."""


@dataclasses.dataclass(slots=True)
class Window:
    """A window of this session: its plan, and what came of it."""

    pairs: list[ArmPair] = dataclasses.field(default_factory=list)
    strict: bool = False
    gates: dict[str, Gate] = dataclasses.field(default_factory=dict)
    measured: MeasuredWindow | None = None
    error: BaseException | None = None
    verdicts: dict[str, tuple[Verdict, ...]] = dataclasses.field(default_factory=dict)

    @property
    def plan(self) -> WindowPlan:
        """What has to be measured."""
        return WindowPlan(tuple(self.pairs), tuple(self.gates.values()), strict=self.strict)

    def fits(self, pair: ArmPair) -> bool:
        """Whether a pair can be measured in this window: same profile, and no other arm of one of its names."""
        others = {arm.name: arm.key for known in self.pairs for arm in known.arms}
        same_profile = pair.profile.fingerprint() == self.pairs[0].profile.fingerprint()
        return same_profile and all(others.get(arm.name, arm.key) == arm.key for arm in pair.arms)

    def has(self, pair: ArmPair) -> bool:
        """Whether a pair is measured in this window."""
        return any(known.key == pair.key for known in self.pairs)

    def add(self, pair: ArmPair) -> None:
        """Take a pair in, once."""
        if not self.has(pair):
            self.pairs.append(pair)


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

    def plan(self, items: Sequence[pytest.Item], *, check: bool) -> None:
        """Find out which windows the collected items need.

        Raises:
            pytest.UsageError: a gate cannot be judged, or an arm could not be started.
        """
        try:
            for item in items:
                self._take(item)
            if check:
                self._wiring.check([pair for window in self._windows for pair in window.pairs])
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None
        if check:
            self._thresholds = sum(threshold_of(item) is not None for item in items)

    def _take(self, item: pytest.Item) -> None:
        """Put what an item needs into a window."""
        _refuse_strange_gate(item)
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
                known = window.gates.setdefault(gate.id, gate)
                if (known.pair.key, known.thresholds) != (gate.pair.key, gate.thresholds):
                    raise UsageError(f"two different gates are called {gate.id}; rename one")

    def pairs(self, item: pytest.Item) -> tuple[ArmPair, ...]:
        """Return the pairs that an item needs measured."""
        marks = [mark for name in (GATE_MARK, PAIRS_MARK) for mark in item.iter_markers(name)]
        found = [arg for mark in marks for arg in mark.args if isinstance(arg, ArmPair)]
        return tuple(_planned(pair, self._options) for pair in found)

    def gate(self, item: pytest.Item) -> Gate | None:
        """Return the gate that an item belongs to, `None` for other tests."""
        threshold = threshold_of(item)
        mark = item.get_closest_marker(GATE_MARK)
        if threshold is None or mark is None:
            return None
        return _gate(mark, self._options, gate_id=_gate_id(item, threshold))

    def window(self, item: pytest.Item) -> Window:
        """Return the window of an item, measured; what went wrong there is kept in it.

        Raises:
            UsageError: the item needs no window, or the session has several workers.
        """
        pairs = self.pairs(item)
        if not pairs:
            raise UsageError(f"{item.nodeid} reads a window, but is no gate and has no @measured(pair)")
        self._refuse_company()
        window = next(known for known in self._windows if all(map(known.has, pairs)))
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
        self.measured(item)
        key = (gate.id, threshold.id)
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
        """Whether a threshold was judged and its verdict is not accepted."""
        return any(not verdict.accepted for verdict in self._own.values())

    def prepare(self, item: pytest.Item) -> None:
        """Measure what an item judges, and put its verdict into the junit properties."""
        with one_sentence():
            verdict = self.verdict(item)
        gate, record = cast("Gate", self.gate(item)), self.measured(item).record
        found = [*properties(verdict), *pair_properties(gate.pair, record)]
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
        text = "\n".join(filter(None, [str(wrong or ""), self._failure_text(item)]))
        # What the body raised is no cause, and would be shown as one.
        raise pytest.fail.Exception(text, pytrace=False) from None

    def _say_expected(self, item: pytest.Item) -> None:
        if self.verdict(item).expected:
            item.user_properties.append((EXPECTED_PROPERTY, "yes"))

    def _failure_text(self, item: pytest.Item) -> str:
        gate, measured = cast("Gate", self.gate(item)), self.measured(item)
        again = redacted_text(" ".join(["pytest", shlex.quote(_as_typed(item)), *self._options.given]))
        return failure_text(
            self.verdict(item), gate=gate, record=measured.record, record_path=measured.path, again=again
        )

    def accepted(self, item: pytest.Item) -> bool:
        """Whether an item was judged, and its verdict is accepted."""
        gate, threshold = self.gate(item), threshold_of(item)
        verdict = self._own.get((gate.id, threshold.id)) if gate and threshold else None
        return verdict is not None and verdict.accepted

    def summary(self) -> Iterator[str]:
        """Return the lines of the terminal summary: of every window that was measured, then the count of outcomes."""
        for window in self._windows:
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


def threshold_of(item: pytest.Item) -> AnyThreshold | None:
    """Return the threshold that an item judges, `None` for other tests."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get(THRESHOLD_FIXTURE)


def parametrize(metafunc: pytest.Metafunc, options: GateOptions) -> None:
    """Turn each threshold of a gate into one parameter of its test function.

    Raises:
        UsageError: the gate can never give a verdict, is decorated twice, or asks for a second server.
    """
    function = metafunc.definition
    try:
        gate = _declared_gate(metafunc, options)
    except UsageError as error:
        file, line, name = function.location
        raise UsageError(f"{file}:{(line or 0) + 1}: {name}: {error}") from None
    ids = [threshold.id for threshold in gate.thresholds]
    metafunc.parametrize(THRESHOLD_FIXTURE, gate.thresholds, ids=ids, indirect=True)


def _declared_gate(metafunc: pytest.Metafunc, options: GateOptions) -> Gate:
    marks = list(metafunc.definition.iter_markers(GATE_MARK))
    if len(marks) > 1:
        raise UsageError(f"{len(marks)} @gate decorators; write one gate a function")
    if SERVER_FIXTURE in metafunc.fixturenames:
        raise UsageError("a gate cannot ask for vllm_server, because two servers would run at once")
    gate = _gate(marks[0], options, gate_id=metafunc.definition.name)
    try:
        gate.check()
    except UsageError as error:
        attached = [arm.name for arm in gate.pair.arms if arm.name in options.attach]
        if not attached:
            raise
        names = " and ".join(attached)
        raise UsageError(f"{error} (an attached server is not booted anew, so {names} gives one round)") from None
    return gate


def _gate(mark: pytest.Mark, options: GateOptions, *, gate_id: str) -> Gate:
    pair, *thresholds = mark.args
    return Gate(gate_id, _planned(pair, options), tuple(thresholds))


def _planned(pair: ArmPair, options: GateOptions) -> ArmPair:
    return pair.with_rounds(options.rounds_of(arm.name for arm in pair.arms))


def _gate_id(item: pytest.Item, threshold: AnyThreshold) -> str:
    """Return file path, names and further parameters: a name that outlives reordering and is unique."""
    function = cast("pytest.Function", item)
    path = Path(os.path.relpath(item.path, item.config.rootpath)).as_posix()
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    others = _without(function.callspec.id, threshold.id)
    return f"{'::'.join([path, *classes, function.originalname])}{f'[{others}]' if others else ''}"


def _as_typed(item: pytest.Item) -> str:
    """Return the node id of an item as a user would type it in the folder where pytest was started."""
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    return f"{path}::{item.nodeid.partition('::')[2]}"


def _without(parameters: str, own: str) -> str:
    """Take a threshold's id out of an item's parameter id, and nothing else."""
    if parameters == own:
        return ""
    if parameters.startswith(f"{own}-"):
        return parameters.removeprefix(f"{own}-")
    if parameters.endswith(f"-{own}"):
        return parameters.removesuffix(f"-{own}")
    return parameters.replace(f"-{own}-", "-", 1)


def _refuse_strange_gate(item: pytest.Item) -> None:
    """Refuse gates that could not fail: not parametrised, or excused by an xfail mark."""
    if item.get_closest_marker(GATE_MARK) is None:
        return
    if threshold_of(item) is None:
        raise UsageError(f"{item.nodeid}: a gate is a plain function, or a method of a plain class")
    if item.get_closest_marker("xfail") is not None:
        raise UsageError(f"{item.nodeid}: xfail would excuse what was not measured; use verdict.expect(Outcome.FAIL)")
