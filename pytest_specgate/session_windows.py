"""Which windows the collected gates of a session need, and what is known of them before anything is started."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.baseline_session import BaselineClaims
from pytest_specgate.collection import is_gone, left_out
from pytest_specgate.core.arms import ArmPair, arms_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.gate_items import asked_of, gate_of, pairs_of, refuse_strange_gate, sweeps_of, threshold_of
from pytest_specgate.names import SERVER_FIXTURE
from pytest_specgate.reporting.plan import PlannedWindow, plan_lines
from pytest_specgate.session_window import Window, go_on
from pytest_specgate.translate import usage_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.options import GateOptions
    from pytest_specgate.reporting.layout import View
    from pytest_specgate.session_window import Wiring


class SessionWindows:
    """The windows of a session: items that share a load and do not contradict each other share one.

    Attributes:
        claims: what is claimed of baselines.
        thresholds: how many were collected, of gates that are to be judged.
    """

    def __init__(self, options: GateOptions, wiring: Wiring, *, say: Callable[[str], None]) -> None:
        self._options = options
        self._wiring = wiring
        self._say = say
        self._windows: list[Window] = []
        self.claims = BaselineClaims(options, wiring, say=say)
        self.thresholds = 0

    def __iter__(self) -> Iterator[Window]:
        return iter(self._windows)

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
            self.thresholds = sum(threshold_of(item) is not None for item in items)
            for item in items:
                self._demand(item)
            wanted = [window for window in self._windows if window.wanted]
            for number, window in enumerate(wanted, start=1):
                window.title = f"window {number} of {len(wanted)}" if len(wanted) > 1 else ""

    def in_order(self, items: Sequence[pytest.Item], collected: Sequence[pytest.Item]) -> list[pytest.Item]:
        """Return items in an order in which no server is booted again because somebody has shuffled them.

        Those of one window are put together, and those that ask for a server, each at the place of their first one.
        Nothing is moved in the order in which the tests were written, nor where all are together already: fixtures of
        modules and classes would be set up twice for nothing.

        Args:
            items: as they are to run.
            collected: the same and others, as they were written.
        """
        groups: dict[object, list[pytest.Item]] = {}
        for item in items:
            groups.setdefault(self._group(item), []).append(item)
        served = [item for item in items if self._group(item) is not item]
        places = {item: place for place, item in enumerate(collected)}
        written = [places.get(item, -1) for item in served]
        together = len(list(itertools.groupby(served, self._group))) == len(set(map(self._group, served)))
        if together or written == sorted(written):
            return [*items]
        return [item for group in groups.values() for item in group]

    def _group(self, item: pytest.Item) -> object:
        if pairs := self.pairs(item):
            return id(self.of_pairs(pairs))
        return SERVER_FIXTURE if SERVER_FIXTURE in getattr(item, "fixturenames", ()) else item

    def give_up(self, items: Sequence[pytest.Item], crashed: Collection[str]) -> None:
        """Measure no window in whose tests another process has died.

        Args:
            items: that were collected.
            crashed: node ids of these tests.
        """
        for item in items:
            if item.nodeid in crashed and (pairs := self.pairs(item)):
                text = f"the xdist worker that measured this window died in {item.nodeid}: it is not measured once more"
                self.of_pairs(pairs).error = pytest.fail.Exception(text, pytrace=False)

    def _demand(self, item: pytest.Item) -> None:
        """Take note that an item's window has to be measured, unless nothing measured could change its verdict."""
        pairs, gate, threshold = self.pairs(item), self.gate(item), threshold_of(item)
        if not pairs:
            return
        window = self.of_pairs(pairs)
        closed = self.claims.closed(window, gate, threshold) if gate and threshold else None
        window.wanted = window.wanted or closed is None

    def _look_for_unclaimed(self, items: Sequence[pytest.Item]) -> None:
        """Say which baselines no gate claims, if this run can tell."""
        asked = self._options.baseline not in {"off", "prune"} and self._options.calibrate is None
        if items and asked and not left_out(items[0].config):
            gone = self._gone(items[0].config)
            self.claims.look_for_unclaimed(self.gates(), gone=gone, strict=self._options.strict)

    def _gone(self, config: pytest.Config) -> Callable[[str], bool]:
        return functools.partial(is_gone, config, collected=[gate.id for gate in self.gates()])

    def gates(self) -> list[Gate]:
        """Return the gates of all windows."""
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
            self.claims.prune(self.gates(), gone=self._gone(config))

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
            self.claims.foresee(window)
            window.settle(self._wiring)
            for gate in window.gates.values():
                gate.check_decidable(window.noise, attached=self._options.attached_of(gate.pair))
                for sentence in gate.too_fine(window.noise):
                    if self._options.strict:
                        raise UsageError(f"{gate.id}: {sentence}")
                    self._say(f"{gate.id}: {sentence}")

    def tell_vetoes(self, say: Callable[[str], None]) -> None:
        """Say why the project would refuse to measure on this machine."""
        for reason in self._wiring.vetoes:
            say(f"nothing would be measured on this host: {reason}")

    def show_plan(self, say: Callable[[str], None], view: View) -> None:
        """Say what the session would do, in as many words as are asked for."""
        windows = [
            PlannedWindow(
                window.pairs, tuple(window.gates.values()), window.noise,
                self._wiring.boot_seconds(window.arms, window.profile), tuple(window.sweeps), window.plan.droppable,
            )
            for window in self._windows
            if window.wanted
        ]  # fmt: skip
        for line in plan_lines(windows, budget_s=self._options.budget_s, view=view):
            say(line)

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
                self.claims.take(gate, threshold_of(item))
                known = window.gates.setdefault(gate.id, gate)
                if (known.pair.key, known.thresholds) != (gate.pair.key, gate.thresholds):
                    raise UsageError(f"two different gates are called {gate.id}; rename one")
        if pairs:
            self.of_pairs(pairs).want(sweeps_of(item, self._options), asked=asked_of(item))

    def pairs(self, item: pytest.Item) -> tuple[ArmPair, ...]:
        """Return the pairs that an item needs measured."""
        return pairs_of(item, self._options)

    def gate(self, item: pytest.Item) -> Gate | None:
        """Return the gate that an item belongs to, `None` for other tests."""
        return gate_of(item, self._options)

    def of_pairs(self, pairs: Sequence[ArmPair]) -> Window:
        """Return the window in which some pairs are measured."""
        return next(known for known in self._windows if all(map(known.has, pairs)))

    def closed(self, item: pytest.Item) -> Verdict | None:
        """Return the verdict of an item whose window need not be measured; `None` where it is."""
        gate, threshold, window = self.gate(item), threshold_of(item), self.of_pairs(self.pairs(item))
        if window.wanted or gate is None or threshold is None:
            return None
        return self.claims.closed(window, gate, threshold)
