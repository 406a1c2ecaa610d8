"""What a session is going to do, before it does anything: boots, requests, minutes, and what can be decided by them."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from pytest_specgate.core import planning
from pytest_specgate.core.arms import arms_of
from pytest_specgate.core.known import known_noise
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.plan import looks
from pytest_specgate.core.schedule import judged_rounds, most_rounds
from pytest_specgate.core.thresholds import BaselineThreshold, CurveThreshold, LimitThreshold, Threshold
from pytest_specgate.core.units import rounded_up
from pytest_specgate.reporting.evidence import counted
from pytest_specgate.reporting.figures import two_digits
from pytest_specgate.reporting.gate_names import names_for_thresholds
from pytest_specgate.reporting.layout import FULL, Detail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.records import ArmNoise
    from pytest_specgate.core.sweeps import ArmSweep
    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.reporting.layout import View


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window that is to be measured.

    Attributes:
        pairs: with one profile.
        gates: on these pairs.
        noise: calibrations that apply.
        boot_s: what a boot of each arm took in an earlier window; `None` where none tells.
        sweeps: whose pairs are among them.
        droppable: names of the arms that sweeps may rule out.
    """

    pairs: Sequence[ArmPair]
    gates: Sequence[Gate]
    noise: Sequence[ArmNoise]
    boot_s: Mapping[str, float] | None
    sweeps: Sequence[ArmSweep] = ()
    droppable: frozenset[str] = frozenset()

    @property
    def most_rounds(self) -> int:
        """Rounds at most."""
        return max(self.rounds_of(pair) for pair in self.pairs)

    def gates_of(self, pair: ArmPair) -> list[Gate]:
        """Return the gates that judge a pair."""
        return [gate for gate in self.gates if gate.pair.key == pair.key]

    def name_of(self, threshold: AnyThreshold, gate: Gate) -> str:
        """Return the id of a threshold, with its gate where another one on the pair has a threshold of that id."""
        gates = self.gates_of(gate.pair)
        names = names_for_thresholds((one.id, claim.id) for one in gates for claim in one.thresholds)
        return f"{names[gate.id]}[{threshold.id}]" if names else threshold.id

    def rounds_of(self, pair: ArmPair) -> int:
        """Return the rounds of a pair at most: limits ask for one, and answers for two."""
        return most_rounds(pair, self.gates, self.noise)

    @property
    def least_rounds(self) -> int:
        """Rounds until everything that is judged can have been judged; all of them where nothing is."""
        sure = [pair for pair in self.pairs if not self._may_go(pair)]
        return max((judged_rounds(pair, self.gates, self.noise) for pair in sure), default=1)

    def least_arms(self, number: int) -> tuple[Arm, ...]:
        """Return the arms that a round boots in any case: of what a sweep may rule out, its scouts in the first one."""
        scouts = {arm.name for sweep in self.sweeps for arm in sweep.scouts} if number == 1 else set[str]()
        pairs = [pair for pair in self._pairs_in(number) if not self._may_go(pair) or pair.candidate.name in scouts]
        return arms_of(pairs)

    def most_arms(self, number: int) -> tuple[Arm, ...]:
        """Return the arms of a round at most: of the horizons of a sweep besides its scouts those that take longest."""
        boot_s, out = self.boot_s or {}, set[str]()
        for sweep in self.sweeps:
            others = [arm.name for arm in sweep.arms if arm not in sweep.scouts and arm.name in self.droppable]
            out |= {*sorted(others, key=lambda name: -boot_s.get(name, 0.0))[sweep.most :]}
        return tuple(arm for arm in arms_of(self._pairs_in(number)) if arm.name not in out)

    def _pairs_in(self, number: int) -> list[ArmPair]:
        return [pair for pair in self.pairs if number <= self.rounds_of(pair)]

    def _may_go(self, pair: ArmPair) -> bool:
        return any(arm.name in self.droppable for arm in pair.arms)


def plan_lines(windows: Sequence[PlannedWindow], *, budget_s: float | None = None, view: View = FULL) -> Iterator[str]:
    """Yield the plan of a session, window by window, and what a time budget leaves undecided.

    Who wants little is not told what each threshold can decide, and who wants least is told the sum only.
    """
    left_s = budget_s
    for number, window in enumerate(windows if view.detail > Detail.OUTCOME else (), start=1):
        yield from _window_lines(window, number=number)
        if view.detail >= Detail.NORMAL:
            yield from _prospect_lines(window)
        if left_s is not None:
            rounds = _rounds_within(window, left_s)
            yield from _budget_lines(window, rounds=rounds)
            left_s -= _seconds(window, rounds=rounds or 0) or 0.0
    least = sum(_least_boots(window) for window in windows)
    most = sum(_boots(window, rounds=window.most_rounds) for window in windows)
    times = [_seconds(window, rounds=window.most_rounds) for window in windows]
    known = [time for time in times if time is not None]
    minutes = f", {_minutes(math.fsum(known))}" if known and len(known) == len(times) else ""
    boots = f"{'at most ' if least < most else ''}{counted(most, 'boot')}"
    yield f"in all: {counted(len(windows), 'window')}, {boots}{minutes}; nothing was started, and nothing judged"


def _window_lines(window: PlannedWindow, *, number: int) -> Iterator[str]:
    profile = window.pairs[0].profile
    arms = [arm.name for arm in arms_of(window.pairs)]
    yield f"window {number}: {', '.join(arms)}"
    least, most = window.least_rounds, window.most_rounds
    boots = _span(f"{_least_boots(window)}", f"{_boots(window, rounds=most)}")
    rounds = _span(f"{least}", f"{most}")
    yield f"  boots: {boots} ({counted(len(arms), 'arm')}, {rounds} {'round' if most == 1 else 'rounds'})"
    counts = ", ".join(f"{count} at {level_label(at)}" for at, count in profile.requests.items())
    total = sum(profile.requests.values()) + profile.warmup_requests
    yield f"  requests: {total} a boot ({profile.warmup_requests} to warm up, {counts})"
    first, last = _seconds(window, rounds=least, least=True), _seconds(window, rounds=most)
    if first is None or last is None:
        yield "  time: not known, since no earlier record of these arms under this load is among the results"
    else:
        yield f"  time: {_span(_minutes(first), _minutes(last))}, by what boots took in an earlier window"


def _prospect_lines(window: PlannedWindow) -> Iterator[str]:
    for sweep in window.sweeps:
        scouts = " and ".join(arm.name for arm in sweep.scouts)
        others = [arm.name for arm in sweep.arms if arm not in sweep.scouts]
        few = f"at most {sweep.most} of {', '.join(others)}" if len(others) > sweep.most else ", ".join(others)
        rest = f"; then {few}, unless it is ruled out by what these show" if others else ""
        yield f"  sweep: {scouts} are booted first{rest}; whoever is beaten in everything boots no more"
    for pair in window.pairs:
        yield f"  {pair.title}: {counted(window.rounds_of(pair), 'round')} at most"
        for gate in window.gates_of(pair):
            for threshold in gate.thresholds:
                yield f"    {window.name_of(threshold, gate)}: {_prospects(threshold, gate, window.noise)}"


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def _rounds_within(window: PlannedWindow, seconds: float) -> int | None:
    """Return the rounds that fit into a time; `None` where nothing is known of their duration."""
    times = [_seconds(window, rounds=rounds) for rounds in range(1, window.most_rounds + 1)]
    return None if None in times else sum(time is not None and time <= seconds for time in times)


def _budget_lines(window: PlannedWindow, *, rounds: int | None) -> Iterator[str]:
    """Say how far the budget reaches, and which thresholds it does not reach."""
    if rounds is None:
        yield "  budget: kept while it runs, since the time of a boot is not known yet"
        return
    yield f"  budget: enough for {rounds} of {counted(window.most_rounds, 'round')}"
    for gate in window.gates:
        for threshold in gate.intervals:
            first = gate.plan(threshold, window.noise).looks[0]
            if first > rounds:
                name = window.name_of(threshold, gate)
                yield f"    undecided: {name}, first judged after {counted(first, 'round')}"


def _boots(window: PlannedWindow, *, rounds: int) -> int:
    """Return the boots of so many rounds; a pair with fewer rounds boots no more than its own."""
    return sum(len(window.most_arms(number)) for number in range(1, rounds + 1))


def _least_boots(window: PlannedWindow) -> int:
    return sum(len(window.least_arms(number)) for number in range(1, window.least_rounds + 1))


def _seconds(window: PlannedWindow, *, rounds: int, least: bool = False) -> float | None:
    if window.boot_s is None:
        return None
    arms = window.least_arms if least else window.most_arms
    boots = [arm.name for number in range(1, rounds + 1) for arm in arms(number)]
    return math.fsum(window.boot_s[name] for name in boots)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _prospects(threshold: AnyThreshold, gate: Gate, noises: Sequence[ArmNoise]) -> str:
    """Say when a threshold is judged, and what can be seen then."""
    if isinstance(threshold, LimitThreshold):
        return "a limit, compared in every boot"
    if isinstance(threshold, BaselineThreshold):
        return "judged once, when the window has ended, by the windows of its baseline"
    if not isinstance(threshold, Threshold | CurveThreshold):
        return "a count in every round"
    plan = gate.plan(threshold, noises)
    after = f"judged after {', '.join(map(str, plan.looks))} {'round' if plan.looks == (1,) else 'rounds'}"
    known = known_noise(threshold, gate.pair, noises)
    if not known.noise.df:
        return f"{after}; nothing is known of its noise beforehand"
    if isinstance(threshold, CurveThreshold):
        return f"{after}; {known.words}"
    return f"{after}; {known.words}; {_figures(threshold, gate, known.noise)}"


def _figures(threshold: Threshold, gate: Gate, noise: Noise) -> str:
    """Return the planner's figures; what a calibration may understate is told beside them."""
    n_max, family, unit = gate.pair.rounds, gate.family, "points" if threshold.points else "%"
    claim = threshold.claim_on(noise)
    texts = []
    if threshold.kind == "not_worse":
        rounds = planning.rounds_for(claim.delta, noise=noise, n_max=n_max, family=family)
        texts.append(
            "equal arms pass in fewer than four of five runs"
            if rounds is None
            else f"equal arms pass by round {rounds} in four of five runs"
        )
    assert looks(n_max, noise), "undecidable thresholds are refused before"
    smallest = [
        planning.smallest_margin(noise=one, n_max=n_max, family=family) for one in (noise, planning.pessimistic(noise))
    ]
    shown = [rounded_up(100 * threshold.raw_of(one)) for one in smallest if one is not None]
    texts.append(f"smallest usable margin {shown[0]} {unit} (up to {shown[-1]} {unit}, were the noise understated)")
    detectable = planning.detectable(claim.delta, noise=noise, n_max=n_max, family=family)
    if detectable is not None and threshold.kind == "not_worse":
        loss = two_digits(100 * threshold.raw_of(detectable))
        texts.append(f"a loss of {loss} {unit} is called FAIL in four of five runs")
    return ", ".join(texts)
