"""The windows of a baseline entry as a series: their figures, how far they lie apart, what was lost since the first.

A file does not tell by what its gate compares: both views of an entry are worked out, that of the change between the
arms and that of the level of the candidate.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core import statistics
from pytest_specgate.core.baseline_values import View, level_of, mean, shown_level
from pytest_specgate.core.cross_window import WindowMean, cross_look
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.verdict import change_words

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from pytest_specgate.core.baselines import AcceptedWindow, BaselineEntry, BaselineFile, BaselineValues
    from pytest_specgate.core.metrics import Metric


@dataclasses.dataclass(frozen=True, slots=True)
class SeriesWindow:
    """One window of a series.

    Attributes:
        values: its figures by round.
        accepted: where they come from.
        first: whether it is the anchor, the first window that was ever accepted.
        compared: whether today's windows are compared with it; an anchor may have been replaced there.
        level: signed level, greater when better; `None` where a figure is 0, of which no ratio can be formed.
        since_first: signed difference to the anchor, likewise.
    """

    values: BaselineValues
    accepted: AcceptedWindow
    first: bool
    compared: bool
    level: float | None
    since_first: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """The windows of an entry in one view.

    Attributes:
        entry: whose windows they are.
        by: what is compared.
        windows: the compared ones, and the anchor; oldest first.
    """

    entry: BaselineEntry
    by: View
    windows: tuple[SeriesWindow, ...]

    @classmethod
    def of(
        cls, file: BaselineFile, entry: BaselineEntry, *, mode: Literal["relative", "absolute"] = "relative"
    ) -> Series:
        """Return the series of an entry; one without a reference arm has a level of its candidate only."""
        every = {values.window: values for values in (entry.anchor, *entry.windows)}
        by = View.of(entry, mode=mode if all(values.reference for values in every.values()) else "absolute")
        anchor, compared = _level(by, entry.anchor), {values.window for values in entry.windows}
        found = []
        for name, values in sorted(every.items()):
            level = _level(by, values)
            since = None if level is None or anchor is None else level - anchor
            accepted = file.windows[name]
            found.append(
                SeriesWindow(values, accepted, name == entry.anchor.window, name in compared, level, since)
            )  # fmt: skip
        return cls(entry, by, tuple(found))

    @classmethod
    def views(cls, file: BaselineFile, entry: BaselineEntry) -> tuple[Series, ...]:
        """Return the change between the arms, where there are two figures, and the level of the candidate."""
        first, alone = cls.of(file, entry), cls.of(file, entry, mode="absolute")
        return (alone,) if first.by == alone.by else (first, alone)

    @property
    def row(self) -> Metric:
        """The metric's row in the table."""
        return metric(self.entry.metric)

    @property
    def anchor(self) -> SeriesWindow:
        """The first window that was ever accepted."""
        return next(window for window in self.windows if window.first)

    @property
    def latest(self) -> SeriesWindow:
        """The window that was measured last, of those that today's are compared with."""
        return next(window for window in reversed(self.windows) if window.compared)

    @property
    def mean(self) -> float | None:
        """The level that today's windows are compared with, as people read it; `None` where a figure is 0."""
        levels = self._levels()
        return shown_level(self.by, mean(levels)) if levels else None

    @property
    def sd(self) -> float | None:
        """Standard deviation of a single window, log units or shares; `None` with fewer than three windows."""
        return self._spread()[0]

    @property
    def smallest_margin(self) -> float | None:
        """Smallest margin that so many windows can decide in four of five runs: a fraction, or a share."""
        smallest = self._spread()[1]
        return None if smallest is None else abs(self.raw(-smallest))

    def figure(self, window: SeriesWindow) -> float | None:
        """Return the level of a window as people read it; `None` where a figure is 0."""
        return None if window.level is None else shown_level(self.by, window.level)

    def raw(self, difference: float) -> float:
        """Return a signed difference as a raw change of the metric, a fraction, or of a share."""
        higher = self.row.higher_is_better
        if self.by.points:
            return difference if higher else -difference
        return statistics.raw_change(difference, higher_is_better=higher)

    def words(self, window: SeriesWindow) -> str:
        """Return the change of a window since the first, in words."""
        if window.first or window.since_first is None:
            return "first" if window.first else "-"
        return change_words(self.raw(window.since_first), metric_name=self.entry.metric, points=self.by.points)

    def _levels(self) -> Sequence[float]:
        """Return the levels that today's is compared with, nothing where one cannot be formed."""
        levels = [window.level for window in self.windows if window.compared]
        known = [level for level in levels if level is not None]
        return known if len(known) == len(levels) else ()

    def _spread(self) -> tuple[float | None, float | None]:
        levels = self._levels()
        if not levels:
            return None, None
        rounds = [window.values.rounds for window in self.windows if window.compared]
        windows = [WindowMean(*window) for window in zip(levels, rounds, strict=True)]
        # A window like the others, so that what it lacks in rounds adds nothing.
        look = cross_look(WindowMean(mean(levels), max(rounds)), windows, delta=0.0)
        return look.window_sd, look.smallest_margin


def _level(by: View, values: BaselineValues) -> float | None:
    figures = (*(values.reference if by.mode == "relative" else ()), *values.candidate)
    return level_of(by, values) if by.points or all(figures) else None
