"""A measured window, as tests read it, and what A/A windows told."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core import validity
from pytest_specgate.core.errors import UsageError, nearest
from pytest_specgate.core.metrics import Measured, measure
from pytest_specgate.core.metrics import metric as known_metric
from pytest_specgate.core.profile import check_point

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import ArmNoise, BootRecord, WindowRecord


@dataclasses.dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """Everything that a window measured.

    Attributes:
        record: the whole record: boots, points, requests, counters.
        path: where it is kept.
    """

    record: WindowRecord
    path: str

    def values(self, metric: str, *, arm: str, at: Level) -> tuple[Measured, ...]:
        """Return a metric of one arm at one load level, round by round; times are in seconds.

        A point that cannot be judged has no value, but the reason why.

        Raises:
            UsageError: the window has no such arm or point, or there is no such metric.
        """
        arms = {known.name: known for known in self.record.arms}
        if arm not in arms:
            raise UsageError(f"the window has no arm {arm!r}{nearest(arm, arms)}")
        check_point(self.record.profile, at)
        known_metric(metric)
        return tuple(self._value(metric, arms[arm], boot, at=at) for boot in self.record.boots_of(arm))

    def _value(self, metric: str, arm: Arm, boot: BootRecord, *, at: Level) -> Measured:
        problem = validity.boot_problem(arm, boot, self.record.profile)
        point = boot.point(at)
        if problem is None and point is not None:
            problem = validity.point_problem(arm, point, self.record.profile)
        if problem is not None:
            return Measured(None, problem.message)
        assert point is not None, "boot_problem() refuses boots without the point"
        return measure(metric, point, self.record.profile)


@dataclasses.dataclass(frozen=True, slots=True)
class Calibrated:
    """What A/A windows told of the noise of some arms.

    Attributes:
        record: the whole record.
        path: where it is kept.
        noise_path: file that the calibrations were added to.
        noise: what is known now, of earlier windows too.
        problems: why nothing can be told of some arms, one sentence by name.
    """

    record: WindowRecord
    path: str
    noise_path: str
    noise: tuple[ArmNoise, ...]
    problems: Mapping[str, str]
