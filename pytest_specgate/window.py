"""The use case: drive all boots of a window through the ports and return its record.

One server at a time; each arm once a round, in an order that reverses every round; every point between two counter
scrapes. Whatever goes wrong with a server becomes part of the record, so that the judge can name it.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

from pytest_specgate.boot import Boot
from pytest_specgate.core.arms import arms_of, boot_order
from pytest_specgate.core.confounds import told
from pytest_specgate.core.differences import StartUp, compacted
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.judge import judge
from pytest_specgate.core.progress import Begun
from pytest_specgate.core.records import BootRecord, PairRecord, StartUpRecord, WindowRecord
from pytest_specgate.core.redaction import redacted_arm, redacted_profile
from pytest_specgate.core.schedule import later_boots
from pytest_specgate.core.stopping import broken, open_pairs
from pytest_specgate.core.stored_gates import stored_gate
from pytest_specgate.core.sweeps import stored_sweep
from pytest_specgate.prompting import Prompter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.baselines import KnownBaseline
    from pytest_specgate.core.continuations import Continuation
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.ports import Ports
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import ArmNoise
    from pytest_specgate.core.resume import TakenOver
    from pytest_specgate.core.sweeps import ArmSweep


@dataclasses.dataclass(frozen=True, slots=True)
class WindowFacts:
    """What is known of a window before it runs, and kept in its record.

    Attributes:
        host_class: name of the class of the machine.
        settings: what every server of the session is given, without secrets.
        commit: of the project that is measured; empty where it is not known.
        attempt: how many windows were measured of this pair of builds with this load, this one included.
        baselines: what its gates are judged against.
        continued: what earlier runs measured of this window before they died.
    """

    host_class: str = ""
    settings: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict)
    commit: str = ""
    attempt: int = 1
    baselines: tuple[KnownBaseline, ...] = ()
    continued: tuple[Continuation, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class WindowPlan:
    """What a window has to measure.

    Attributes:
        pairs: all with one profile; a pair without a gate is measured for all of its rounds.
        gates: gates on these pairs; a pair whose gates are all decided boots no more.
        strict: whether engine-induced differences that a pair does not allow make it INVALID.
        noise: calibrations of this machine that apply.
        until_s: time, on the host's clock, after which no round is begun that would not end before it; `None` for none.
        round_s: what a round took in an earlier window; 0.0 where none tells.
        facts: what is known of the window before it runs.
        taken: what an earlier run measured of it, to go on with; `None` begins anew.
        title: which window of the session it is, for a waiting user; empty where it is the only one.
        sweeps: whose pairs are among `pairs`; an arm that they rule out boots no more.
        asked: names of arms of sweeps that tests without a gate want whole, too.
    """

    pairs: tuple[ArmPair, ...]
    gates: tuple[Gate, ...]
    strict: bool = False
    noise: tuple[ArmNoise, ...] = ()
    until_s: float | None = None
    round_s: float = 0.0
    facts: WindowFacts = WindowFacts()
    taken: TakenOver | None = None
    title: str = ""
    sweeps: tuple[ArmSweep, ...] = ()
    asked: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if len({pair.profile.fingerprint() for pair in self.pairs}) != 1:
            raise UsageError("the pairs of one window must share one request profile")
        arms_of(self.pairs)

    @property
    def profile(self) -> RequestProfile:
        """The load of every pair."""
        return self.pairs[0].profile

    @property
    def rounds(self) -> int:
        """Rounds at most."""
        return max(pair.rounds for pair in self.pairs)

    @property
    def rounds_taken(self) -> int:
        """Rounds that an earlier run has measured."""
        return self.taken.rounds if self.taken is not None else 0

    @property
    def kept(self) -> frozenset[str]:
        """Names of the arms that something besides a sweep wants whole."""
        swept = {pair.key for sweep in self.sweeps for pair in sweep.pairs}
        others = [*(gate.pair for gate in self.gates), *(pair for pair in self.pairs if pair.key not in swept)]
        return self.asked | {arm.name for pair in others for arm in pair.arms}

    @property
    def droppable(self) -> frozenset[str]:
        """Names of the arms that sweeps may rule out."""
        return frozenset(arm.name for sweep in self.sweeps for arm in sweep.arms) - self.kept

    @property
    def stored_sweeps(self) -> tuple[dict[str, JsonValue], ...]:
        """The sweeps as a record keeps them."""
        return tuple(stored_sweep(sweep, kept=self.kept) for sweep in self.sweeps)

    def open_pairs(self, record: WindowRecord, *, rounds_done: int) -> tuple[ArmPair, ...]:
        """Return the pairs that need another round."""
        return open_pairs(self.pairs, self.gates, record, rounds_done=rounds_done)


@dataclasses.dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """A/A windows: each arm booted so many times in a row, under one load.

    Attributes:
        arms: to calibrate.
        profile: the load.
        boots: of each arm.
        until_s: time, on the host's clock, after which no boot is begun that would not end before it; `None` for none.
        title: which calibration of the session it is, for a waiting user; empty where it is the only one.
    """

    arms: tuple[Arm, ...]
    profile: RequestProfile
    boots: int
    until_s: float | None = None
    title: str = ""


def measure(plan: WindowPlan, ports: Ports) -> WindowRecord:
    """Measure a window; its record is stored after every boot, so also when this is interrupted.

    Raises:
        UsageError: something in the declaration cannot be carried out (no prompt of this length, say).
    """
    run = _Run(ports, arms=arms_of(plan.pairs), profile=plan.profile)
    if plan.taken is not None:
        run.take_over(plan.taken)
    run.keep(
        strict=plan.strict,
        pairs=tuple(map(PairRecord.of, plan.pairs)),
        noise=plan.noise,
        gates=tuple(map(stored_gate, plan.gates)),
        host_class=plan.facts.host_class,
        settings=dict(plan.facts.settings),
        commit=plan.facts.commit,
        attempt=plan.facts.attempt,
        baselines=plan.facts.baselines,
        continued=plan.facts.continued,
        sweeps=plan.stored_sweeps,
    )
    longest_s = plan.round_s
    for number in range(plan.rounds_taken + 1, plan.rounds + 1):
        if number > 1:
            run.rule_out(plan)
        pairs = plan.open_pairs(run.record, rounds_done=number - 1)
        began_s = ports.host.clock_s()
        if pairs and plan.until_s is not None and began_s + longest_s > plan.until_s:
            run.keep(stopped=f"the time budget was used up after {number - 1} of {plan.rounds} rounds")
            break
        _measure_round(plan, run, pairs, number)
        longest_s = max(longest_s, ports.host.clock_s() - began_s)
    verdicts = [verdict for gate in plan.gates for verdict in judge(gate, run.record)]
    stored = tuple(verdict.model_dump(mode="json") for verdict in verdicts)
    run.keep(finished=True, pairs=told(plan.pairs, run.record), verdicts=stored)
    return run.record


def _measure_round(plan: WindowPlan, run: _Run, pairs: Sequence[ArmPair], number: int) -> None:
    """Boot the arms of a round; in the first one the scouts of a sweep decide who comes after them."""
    still = arms_of(pairs)
    # Of all arms, so that the order of two of them alternates though others boot no more.
    order = [arm for arm in boot_order(arms_of(plan.pairs), number) if arm in still]
    for position in itertools.count():
        if not order:
            return
        arm, *rest = order
        _boot_for(plan, run, pairs, _Place(arm, number, position), rest=rest)
        if number == 1 and any(arm in sweep.scouts for sweep in plan.sweeps):
            run.rule_out(plan)
        order = [one for one in rest if one.name not in run.record.ruled_out]


def calibrate(plan: CalibrationPlan, ports: Ports) -> WindowRecord:
    """Boot each arm several times in a row; the first boot that fails ends its arm, which would be no use then."""
    run = _Run(ports, arms=plan.arms, profile=plan.profile)
    run.keep()
    longest_s = 0.0
    for position, arm in enumerate(plan.arms):
        for number in range(1, plan.boots + 1):
            if run.left_running or any(boot.failure for boot in run.record.boots_of(arm.name)):
                break
            began_s = ports.host.clock_s()
            if plan.until_s is not None and began_s + longest_s > plan.until_s:
                run.keep(stopped=f"the time budget was used up after so many boots: {len(run.record.boots)}")
                break
            place = _Place(arm, number, position)
            run.begin(place, _of_calibration(plan, place))
            run.boot(place, pairs=())
            longest_s = max(longest_s, ports.host.clock_s() - began_s)
    run.keep(finished=True)
    return run.record


def _of_calibration(plan: CalibrationPlan, place: _Place) -> Begun:
    """Say which boot of a calibration comes now, and which come after it."""
    name = place.arm.name
    others = [name] * (plan.boots - place.round)
    others += [arm.name for arm in plan.arms[place.position + 1 :] for _ in range(plan.boots)]
    words = f"boot {place.round} of {plan.boots} of {name}"
    return Begun(name, words, after=tuple(others), until_s=plan.until_s, window=plan.title)


def _of_window(
    plan: WindowPlan, pairs: Sequence[ArmPair], place: _Place, *, rest: Sequence[Arm], record: WindowRecord
) -> Begun:
    """Say which boot of a window comes now, and which may come after it."""
    whole = [pair for pair in pairs if not broken(pair, record)]
    still = [arm.name for arm in rest if any(arm in pair.arms for pair in whole)]
    later = later_boots(whole, plan.gates, plan.noise, pairs=plan.pairs, done=place.round)
    unsure = plan.droppable & {*later.arms, *_waiting(plan, record, still)}
    return Begun(
        place.arm.name,
        f"round {place.round} of {plan.rounds}: {place.arm.name}",
        after=(*still, *later.arms),
        in_round=len(still),
        sure=later.sure and not unsure,
        until_s=plan.until_s,
        window=plan.title,
    )


def _waiting(plan: WindowPlan, record: WindowRecord, names: Sequence[str]) -> Iterator[str]:
    """Yield the arms of a round that wait for what the scouts of a sweep tell."""
    booted = {boot.arm for boot in record.boots}
    for sweep in plan.sweeps:
        scouts = {arm.name for arm in sweep.scouts}
        if not scouts <= booted:
            yield from (arm.name for arm in sweep.arms if arm.name in names and arm.name not in scouts)


def _boot_for(plan: WindowPlan, run: _Run, pairs: Sequence[ArmPair], place: _Place, *, rest: Sequence[Arm]) -> None:
    """Boot an arm for those pairs of a round that can still become valid.

    Nothing more is booted beside a server that could not be ended: two would share the machine.
    """
    mine = [pair for pair in pairs if place.arm in pair.arms]
    if run.left_running or all(broken(pair, run.record) for pair in mine):
        return
    run.begin(place, _of_window(plan, pairs, place, rest=rest, record=run.record))
    run.boot(place, pairs=tuple(pair.title for pair in mine))


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Which boot it is: of an arm, in a round, at a place in its order."""

    arm: Arm
    round: int
    position: int


class _Run:
    """Boots one after another, and the record that grows with them."""

    def __init__(self, ports: Ports, *, arms: Sequence[Arm], profile: RequestProfile) -> None:
        self._ports = ports
        self._prompter = Prompter(ports, profile)
        self._first_start: StartUp | None = None
        self.left_running = False
        self.record = WindowRecord(
            created_at=ports.host.now(),
            finished=False,
            arms=tuple(map(redacted_arm, arms)),
            pairs=(),
            profile=redacted_profile(profile),
            host=ports.host.facts(),
            engine={arm.name: ports.engine.facts(arm) for arm in arms},
            added_metrics=ports.added.definitions(),
        )

    def keep(self, **changes: object) -> None:
        """Change the record, and store it."""
        self.record = self.record.model_copy(update=changes)
        self._ports.store.save(self.record)

    def take_over(self, taken: TakenOver) -> None:
        """Go on with what an earlier run has measured; it is stored with what is kept next."""
        self.say(taken.sentence)
        starts = (boot.startup for boot in taken.boots if boot.startup is not None)
        # The first of a record is whole: what is stored of all others is in what they differ from it.
        self._first_start = next((StartUp(start.config, start.lines) for start in starts), None)
        self.record = self.record.model_copy(update={"boots": taken.boots, "ruled_out": dict(taken.ruled_out)})

    def rule_out(self, plan: WindowPlan) -> None:
        """Let sweeps tell which arms need no further boot, and keep what they say."""
        if not plan.sweeps:
            return
        # It brings scipy, which costs a fifth of a second that only a sweep may.
        from pytest_specgate.core.sweep_decision import ruled_out_of  # noqa: PLC0415

        found = ruled_out_of(plan.sweeps, self.record, kept=plan.kept)
        new = [name for name in found if name not in self.record.ruled_out]
        if new:
            self.keep(ruled_out=found)
        for name in new:
            self.say(f"{name} is not booted{' again' if self.record.boots_of(name) else ''}: {found[name]}")

    def say(self, line: str) -> None:
        """Tell a waiting user."""
        self._ports.progress.say(line)

    def begin(self, place: _Place, boot: Begun) -> None:
        """Tell a waiting user which boot comes now."""
        doing, number = self._ports.engine.intent(place.arm), len(self.record.boots) + 1
        self._ports.progress.begin(dataclasses.replace(boot, doing=doing, number=number))

    def boot(self, place: _Place, *, pairs: tuple[str, ...]) -> None:
        """Boot an arm once, and keep what came of it."""
        boot = Boot(self._ports, place.arm, prompter=self._prompter)
        started_at = self._ports.host.now()
        host_before = self._ports.host.facts()
        failure = boot.run()
        self.left_running = boot.left_running
        if failure is not None:
            self.say(failure.message)
        self._ports.progress.end(failed=failure is not None)
        kept = BootRecord(
            arm=place.arm.name,
            round=place.round,
            position=place.position,
            pairs=pairs,
            command=boot.command,
            started_at=started_at,
            ended_at=self._ports.host.now(),
            boot_s=boot.boot_s,
            profile=boot.profile,
            resolved=boot.resolved,
            startup=self._kept(boot.startup),
            host_before=host_before,
            host_after=self._ports.host.facts(),
            points=tuple(boot.points),
            failure=failure,
            unproved=boot.unproved,
        )
        self.keep(boots=(*self.record.boots, kept))

    def _kept(self, start: StartUp | None) -> StartUpRecord | None:
        """Return what is stored of a start: of all but the first, what differs from the first."""
        if start is None:
            return None
        self._first_start = self._first_start or start
        kept = start if self._first_start is start else compacted(start, first=self._first_start)
        return StartUpRecord(config=dict(kept.config), lines=dict(kept.lines))
