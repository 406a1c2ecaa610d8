"""A window of a session, and what the session needs of the outside world to measure it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from pytest_specgate.core.arms import arms_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.window import WindowFacts, WindowPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.baseline_update import Update
    from pytest_specgate.core.baselines import BaselineFile, KnownBaseline
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import Calibrated, MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import ArmNoise
    from pytest_specgate.core.resume import TakenOver
    from pytest_specgate.core.sweeps import ArmSweep
    from pytest_specgate.core.thresholds import BaselineThreshold
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.options import GateOptions
    from pytest_specgate.window import CalibrationPlan


class Wiring(Protocol):
    """What the session needs of the outside world; `wiring` implements it with the real adapters."""

    def check(self, pairs: Sequence[ArmPair]) -> None:
        """Raise `UsageError` for what would stop a pair from being measured."""

    def noise(self, arms: Sequence[Arm], profile: RequestProfile) -> tuple[ArmNoise, ...]:
        """Return the calibrations of this machine that apply to some arms.

        Raises:
            RecordError: they cannot be read.
        """

    def resumed(self, record: Path, plans: Sequence[WindowPlan]) -> tuple[int, TakenOver]:
        """Return which window goes on with the record of one that died, by its place, and what it takes over.

        Raises:
            RecordError: the record cannot be read.
            UsageError: no window can go on with it.
        """

    def baselines(self, gates: Iterable[Gate]) -> tuple[KnownBaseline, ...]:
        """Return what is known of the baselines that some gates are judged against.

        Raises:
            RecordError: one cannot be read.
        """

    def baseline_update(self, gate: Gate, thresholds: Sequence[BaselineThreshold], measured: MeasuredWindow) -> Update:
        """Return what a measured window would change in the baseline of a gate.

        Raises:
            SpecgateError: the window must not be judged, or the baseline is of another load or other arms.
        """

    def save_baseline(self, update: Update) -> str:
        """Write an update, and return the path of its file."""

    def unclaimed_baselines(self, gates: Iterable[Gate], *, gone: Callable[[str], bool]) -> Iterator[Unclaimed]:
        """Yield what no gate claims in the baseline files of all classes of machine.

        Args:
            gates: all there are, where `gone` is true.
            gone: whether the file that a gate's id names was collected whole, or is no more.
        """

    def prune_baseline(self, unclaimed: Unclaimed) -> None:
        """Remove what no gate claims."""

    def boot_seconds(self, arms: Sequence[Arm], profile: RequestProfile) -> Mapping[str, float] | None:
        """Return what a boot of each arm took in an earlier window; `None` where none tells."""

    @property
    def vetoes(self) -> tuple[str, ...]:
        """Why the project refuses to measure on this machine; empty where it does not."""

    def measure(self, plan: WindowPlan, say: Callable[[str], None]) -> MeasuredWindow:
        """Measure a window."""

    def calibrate(self, plan: CalibrationPlan, say: Callable[[str], None]) -> Calibrated:
        """Run A/A windows, and add what they tell to the calibrations of this machine."""

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm; another arm's is stopped first."""

    def stop_server(self) -> None:
        """Stop the server that `server` started, if it still runs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unclaimed:
    """What no gate claims in a baseline file.

    Attributes:
        path: of the file, as a user would type it.
        file: what stands there.
        entries: those that no gate claims.
    """

    path: str
    file: BaselineFile
    entries: frozenset[str]

    @property
    def sentence(self) -> str:
        """What is there for nothing."""
        names = ", ".join(sorted(self.entries))
        whole = "which is no gate any more" if self.entries == self.file.entries.keys() else "which does not claim it"
        return f"{self.path}: {names} of {self.file.gate}, {whole}"


@dataclasses.dataclass(slots=True)
class Window:
    """A window of this session: its plan, and what came of it; `wanted` if anything that it measures is asked for.

    `title` says which of several it is, for a waiting user.
    """

    pairs: list[ArmPair] = dataclasses.field(default_factory=list)
    strict: bool = False
    noise: tuple[ArmNoise, ...] = ()
    baselines: tuple[KnownBaseline, ...] = ()
    taken: TakenOver | None = None
    wanted: bool = False
    title: str = ""
    gates: dict[str, Gate] = dataclasses.field(default_factory=dict)
    measured: MeasuredWindow | None = None
    calibrated: Calibrated | None = None
    error: BaseException | None = None
    verdicts: dict[str, tuple[Verdict, ...]] = dataclasses.field(default_factory=dict)
    sweeps: list[ArmSweep] = dataclasses.field(default_factory=list)
    asked: frozenset[str] = frozenset()

    @property
    def plan(self) -> WindowPlan:
        """What has to be measured."""
        facts = WindowFacts(baselines=self.baselines)
        return WindowPlan(
            tuple(self.pairs),
            tuple(self.gates.values()),
            strict=self.strict,
            noise=self.noise,
            facts=facts,
            taken=self.taken,
            title=self.title,
            sweeps=tuple(self.sweeps),
            asked=self.asked,
        )

    def settle(self, wiring: Wiring) -> None:
        """Find out by what the window is judged: what was known when it began, if it goes on with another.

        Raises:
            RecordError: the calibrations of this machine cannot be read.
        """
        if self.taken is None:
            self.noise = wiring.noise(self.arms, self.profile)
        else:
            self._refuse_other_switch(self.taken.baselines)
            self.noise, self.baselines = self.taken.noise, self.taken.baselines

    def _refuse_other_switch(self, taken: Iterable[KnownBaseline]) -> None:
        """Refuse to go on with a window whose baselines were left alone, or are now: what was typed then is not now."""
        then, now = ({known.switched_off for known in both} for both in (taken, self.baselines))
        if then and now and then != now:
            was, means = ("left alone", "off") if True in then else ("judged by", "check")
            raise UsageError(f"baselines were {was} when that window began: go on with --specgate-baseline={means}")

    def refuse_attached(self, options: GateOptions) -> None:
        """Raise `UsageError` if an arm cannot be calibrated."""
        attached = [name for pair in self.pairs for name in options.attached_of(pair)]
        if attached:
            raise UsageError(f"{attached[0]} is attached: a server that is not booted anew cannot be calibrated")

    def baseline(self, gate: Gate, threshold: BaselineThreshold) -> KnownBaseline | None:
        """Return what is known of the baseline of a claim."""
        mine = (gate.id, threshold.entry_id)
        return next((known for known in self.baselines if (known.gate, known.entry_id) == mine), None)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms of all pairs, each once."""
        return arms_of(self.pairs)

    @property
    def profile(self) -> RequestProfile:
        """The load of every pair."""
        return self.pairs[0].profile

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

    def want(self, sweeps: Iterable[ArmSweep], *, asked: frozenset[str]) -> None:
        """Take in what an item asks for: sweeps, each once, and arms that it wants whole, by name."""
        self.sweeps += [sweep for sweep in sweeps if sweep not in self.sweeps]
        self.asked |= asked


def go_on(windows: Sequence[Window], wiring: Wiring, options: GateOptions) -> None:
    """Let the window that fits go on with the record of one that died, if the user has named it.

    Raises:
        RecordError: it cannot be read.
        UsageError: no window can go on with it, or nothing is to be measured.
    """
    if options.resume is None:
        return
    for given, flag in ((options.calibrate is not None, "--specgate-calibrate"), (options.plan, "--specgate-plan")):
        if given:
            raise UsageError(f"{flag} and --specgate-resume exclude each other: leave one of them out")
    if not windows:
        raise UsageError("--specgate-resume found no gate and no @measured test: there is nothing to go on with")
    place, taken = wiring.resumed(options.resume, [window.plan for window in windows])
    windows[place].taken = taken
