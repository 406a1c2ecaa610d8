"""What a pytest session knows of its gates: which windows they need, what was measured, what was judged."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from pytest_specgate.api import GATE_MARK, PAIRS_MARK, THRESHOLD_FIXTURE
from pytest_specgate.core.arms import ArmPair, arms_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.judge import judge
from pytest_specgate.core.verdict import UnexpectedOutcomeError
from pytest_specgate.reporting.messages import Judged, failure_text, outcome_line, window_lines
from pytest_specgate.reporting.properties import EXPECTED_PROPERTY, properties
from pytest_specgate.translate import one_sentence
from pytest_specgate.window import WindowPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.gate import Threshold
    from pytest_specgate.core.measured import MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.options import GateOptions


class Wiring(Protocol):
    """What the session needs of the outside world; `fixtures` implements it with the real adapters."""

    def check(self, arms: Sequence[Arm]) -> None:
        """Raise `UsageError` for what would stop an arm from starting."""

    def measure(self, plan: WindowPlan, say: Callable[[str], None]) -> MeasuredWindow:
        """Measure a window."""

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm; another arm's is stopped first."""

    def stop_server(self) -> None:
        """Stop the server that `server` started, if it still runs."""


@dataclasses.dataclass(slots=True)
class Window:
    """A window of this session: its plan, and what came of it."""

    plan: WindowPlan
    measured: MeasuredWindow | None = None
    error: Exception | None = None
    judged: dict[str, Judged] = dataclasses.field(default_factory=dict)


class GateSession:
    """All windows of a session. Measuring happens when the first item of a window asks for it."""

    def __init__(self, options: GateOptions, wiring: Wiring, *, workers: int, say: Callable[[str], None]) -> None:
        self._options = options
        self._wiring = wiring
        self._workers = workers
        self._say = say
        self._windows: dict[str, Window] = {}
        self._thresholds = 0
        self._judged: dict[str, Verdict] = {}

    def plan(self, items: Sequence[pytest.Item], *, check: bool) -> None:
        """Find out which windows the collected items need.

        Raises:
            pytest.UsageError: two arms of one window share a name, or an arm could not be started.
        """
        self._thresholds = sum(threshold_of(item) is not None for item in items)
        try:
            self._windows = {key: Window(plan) for key, plan in self._plans(items).items()}
            for window in self._windows.values():
                if check:
                    self._wiring.check(arms_of(window.plan.pairs))
        except UsageError as error:
            raise pytest.UsageError(str(error)) from None

    def _plans(self, items: Sequence[pytest.Item]) -> dict[str, WindowPlan]:
        """Group pairs and gates by the profile that they share."""
        pairs: dict[str, list[ArmPair]] = {}
        gates: dict[str, list[Gate]] = {}
        for item in items:
            for pair in self.pairs(item):
                key = pair.profile.fingerprint()
                if pair not in pairs.setdefault(key, []):
                    pairs[key].append(pair)
                gate = self.gate(item)
                if gate is not None and gate not in gates.setdefault(key, []):
                    gates[key].append(gate)
        return {key: WindowPlan(tuple(found), tuple(gates.get(key, ()))) for key, found in pairs.items()}

    def pairs(self, item: pytest.Item) -> tuple[ArmPair, ...]:
        """Return the pairs that an item needs measured."""
        marks = [mark for name in (GATE_MARK, PAIRS_MARK) if (mark := item.get_closest_marker(name)) is not None]
        found = [arg for mark in marks for arg in mark.args if isinstance(arg, ArmPair)]
        return tuple(pair.with_rounds(self._options.rounds) for pair in found)

    def gate(self, item: pytest.Item) -> Gate | None:
        """Return the gate that an item belongs to, `None` for other tests."""
        threshold = threshold_of(item)
        mark = item.get_closest_marker(GATE_MARK)
        if threshold is None or mark is None:
            return None
        return _gate(mark, gate_id=_gate_id(item, threshold), rounds=self._options.rounds)

    def window(self, item: pytest.Item) -> Window:
        """Return the window of an item, measured; what went wrong there is kept in it.

        Raises:
            UsageError: the item needs no window, or the session has several workers.
        """
        pairs = self.pairs(item)
        if not pairs:
            raise UsageError(f"{item.nodeid} reads a window, but is no gate and has no @measured(pair)")
        self._refuse_company()
        window = self._windows[pairs[0].profile.fingerprint()]
        if window.measured is None and window.error is None:
            self._measure(window)
        return window

    def _refuse_company(self) -> None:
        if self._workers > 1:
            raise UsageError(
                f"gates cannot run on {self._workers} xdist workers: servers would share the machine; use -n 0 or -n 1"
            )

    def _measure(self, window: Window) -> None:
        self._wiring.stop_server()
        try:
            window.measured = self._wiring.measure(window.plan, self._say)
        except Exception as error:  # noqa: BLE001  - it is raised in the call phase of every item of the window
            window.error = error
            return
        record = window.measured.record
        for gate in window.plan.gates:
            window.judged[gate.id] = Judged(gate, judge(gate, record))

    def measured(self, item: pytest.Item) -> MeasuredWindow:
        """Return what was measured for an item.

        Raises:
            Exception: whatever stopped the measuring.
        """
        window = self.window(item)
        if window.error is not None:
            raise window.error
        return cast("MeasuredWindow", window.measured)

    def verdict(self, item: pytest.Item) -> Verdict:
        """Return the verdict of a threshold's item.

        Raises:
            UsageError: the item is no gate's.
            Exception: whatever stopped the measuring.
        """
        gate, threshold = self.gate(item), threshold_of(item)
        if gate is None or threshold is None:
            raise UsageError(f"{item.nodeid} asks for a verdict, but is no gate: decorate it with @gate(pair, ...)")
        self.measured(item)
        verdicts = self.window(item).judged[gate.id].verdicts
        return verdicts[gate.thresholds.index(threshold)]

    def prepare(self, item: pytest.Item) -> None:
        """Measure what an item judges, and put its verdict into the junit properties."""
        with one_sentence():
            verdict = self.verdict(item)
        known = {name for name, _ in item.user_properties}
        item.user_properties += [entry for entry in properties(verdict) if entry[0] not in known]
        self._judged[item.nodeid] = verdict

    @contextlib.contextmanager
    def judging(self, item: pytest.Item) -> Iterator[None]:
        """Judge an item after its body, also when the body skips or gives up; only `expect` accepts an outcome."""
        wrong: Exception | None = None
        try:
            with one_sentence():
                yield
        except (pytest.skip.Exception, pytest.xfail.Exception):
            self._enforce(item)
            raise
        except UnexpectedOutcomeError as error:
            wrong = error
        self._enforce(item, wrong=wrong)

    def _enforce(self, item: pytest.Item, *, wrong: Exception | None = None) -> None:
        verdict, gate, measured = self._judged[item.nodeid], cast("Gate", self.gate(item)), self.measured(item)
        if verdict.accepted and wrong is None:
            if verdict.expected:
                item.user_properties.append((EXPECTED_PROPERTY, "yes"))
            return
        text = failure_text(verdict, gate=gate, record=measured.record, record_path=measured.path, node_id=item.nodeid)
        pytest.fail("\n".join(filter(None, [str(wrong or ""), text])), pytrace=False)

    def refused(self, item: pytest.Item) -> bool:
        """Whether an item was judged, and its verdict is not accepted."""
        verdict = self._judged.get(item.nodeid)
        return verdict is not None and not verdict.accepted

    def summary(self) -> Iterator[str]:
        """Return the lines of the terminal summary."""
        for window in self._windows.values():
            if window.measured is None:
                continue
            judged = tuple(window.judged.values())
            record, path = window.measured.record, window.measured.path
            yield from window_lines(record, pairs=window.plan.pairs, judged=judged, record_path=path)
            yield ""
        if self._thresholds:
            yield outcome_line(tuple(self._judged.values()), collected=self._thresholds)

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm, for the fixture `vllm_server`."""
        with one_sentence():
            self._refuse_company()
            return self._wiring.server(arm)

    def close(self) -> None:
        """Stop what still runs."""
        self._wiring.stop_server()


def threshold_of(item: pytest.Item) -> Threshold | None:
    """Return the threshold that an item judges, `None` for other tests."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get(THRESHOLD_FIXTURE)


def parametrize(metafunc: pytest.Metafunc, *, rounds: int | None) -> None:
    """Turn each threshold of a gate into one parameter of its test function.

    Raises:
        UsageError: the gate can never give a verdict, is decorated twice, or asks for a second server.
    """
    function = metafunc.definition
    try:
        gate = _declared_gate(metafunc, rounds=rounds)
    except UsageError as error:
        file, line, name = function.location
        raise UsageError(f"{file}:{(line or 0) + 1}: {name}: {error}") from None
    ids = [threshold.id for threshold in gate.thresholds]
    metafunc.parametrize(THRESHOLD_FIXTURE, gate.thresholds, ids=ids, indirect=True)


def _declared_gate(metafunc: pytest.Metafunc, *, rounds: int | None) -> Gate:
    marks = list(metafunc.definition.iter_markers(GATE_MARK))
    if len(marks) > 1:
        raise UsageError(f"{len(marks)} @gate decorators; write one gate a function")
    if "vllm_server" in metafunc.fixturenames:
        raise UsageError("a gate cannot ask for vllm_server, because two servers would run at once")
    gate = _gate(marks[0], gate_id=metafunc.definition.name, rounds=rounds)
    gate.check()
    return gate


def _gate(mark: pytest.Mark, *, gate_id: str, rounds: int | None) -> Gate:
    pair, *thresholds = mark.args
    return Gate(gate_id, pair.with_rounds(rounds), tuple(thresholds))


def _gate_id(item: pytest.Item, threshold: Threshold) -> str:
    """Return file path, qualified name and further parameters: a name that outlives reordering."""
    function = cast("pytest.Function", item)
    root = item.config.rootpath
    path = item.path.relative_to(root) if item.path.is_relative_to(root) else Path(item.path.name)
    others = function.callspec.id.replace(threshold.id, "", 1).strip("-")
    return f"{path.as_posix()}::{function.function.__qualname__}{f'[{others}]' if others else ''}"
