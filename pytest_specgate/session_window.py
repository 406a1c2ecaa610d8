"""A window of a session, and what the session needs of the outside world to measure it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from pytest_specgate.core.arms import arms_of
from pytest_specgate.window import WindowPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import Calibrated, MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import ArmNoise
    from pytest_specgate.core.verdict import Verdict
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

    def boot_seconds(self, arms: Sequence[Arm], profile: RequestProfile) -> Mapping[str, float] | None:
        """Return what a boot of each arm took in an earlier window; `None` where none tells."""

    def measure(self, plan: WindowPlan, say: Callable[[str], None]) -> MeasuredWindow:
        """Measure a window."""

    def calibrate(self, plan: CalibrationPlan, say: Callable[[str], None]) -> Calibrated:
        """Run A/A windows, and add what they tell to the calibrations of this machine."""

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm; another arm's is stopped first."""

    def stop_server(self) -> None:
        """Stop the server that `server` started, if it still runs."""


@dataclasses.dataclass(slots=True)
class Window:
    """A window of this session: its plan, and what came of it."""

    pairs: list[ArmPair] = dataclasses.field(default_factory=list)
    strict: bool = False
    noise: tuple[ArmNoise, ...] = ()
    gates: dict[str, Gate] = dataclasses.field(default_factory=dict)
    measured: MeasuredWindow | None = None
    calibrated: Calibrated | None = None
    error: BaseException | None = None
    verdicts: dict[str, tuple[Verdict, ...]] = dataclasses.field(default_factory=dict)

    @property
    def plan(self) -> WindowPlan:
        """What has to be measured."""
        return WindowPlan(tuple(self.pairs), tuple(self.gates.values()), strict=self.strict, noise=self.noise)

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
