"""A measured window, as tests read it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core.errors import UsageError, nearest
from pytest_specgate.core.metrics import Measured, measure
from pytest_specgate.core.profile import check_point

if TYPE_CHECKING:
    from pytest_specgate.core.records import WindowRecord


@dataclasses.dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """Everything that a window measured.

    Attributes:
        record: the whole record: boots, points, requests, counters.
        path: where it is kept.
    """

    record: WindowRecord
    path: str

    def values(self, metric: str, *, arm: str, at: int) -> tuple[Measured, ...]:
        """Return a metric of one arm at one concurrency, round by round; times are in seconds.

        Raises:
            UsageError: the window has no such arm or point, or there is no such metric.
        """
        names = [known.name for known in self.record.arms]
        if arm not in names:
            raise UsageError(f"the window has no arm {arm!r}{nearest(arm, names)}")
        check_point(self.record.profile, at)
        points = [boot.point(at) for boot in self.record.boots_of(arm)]
        return tuple(Measured(None, "not measured") if point is None else measure(metric, point) for point in points)
