"""A claim about a baseline with everything that its verdict rests on: levels of windows, their looks, their words."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from pytest_specgate.core.baseline_values import arm_level, differences, level_of
from pytest_specgate.core.cross_window import CrossLook, WindowMean, cross_look, round_variance
from pytest_specgate.core.known import calibrated_noise
from pytest_specgate.core.noise import LOG, UNKNOWN_NOISE, linear_scale
from pytest_specgate.core.rule import SLACK
from pytest_specgate.core.verdict import change_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.baseline_offer import Offer
    from pytest_specgate.core.baselines import BaselineEntry, BaselineValues, KnownBaseline
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.noise import Scale
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import BaselineThreshold


@dataclasses.dataclass(frozen=True, slots=True)
class BaselineCase:
    """A claim with everything that its verdict rests on.

    Attributes:
        gate: of the claim.
        threshold: the claim.
        record: of today.
        known: its baseline.
        entry: of the baseline.
        found: figures of today, by round.
    """

    gate: Gate
    threshold: BaselineThreshold
    record: WindowRecord
    known: KnownBaseline
    entry: BaselineEntry
    found: Offer

    @property
    def today(self) -> BaselineValues:
        """Figures of today, by round."""
        return self.found.values

    @property
    def scale(self) -> Scale:
        """The scale of differences; that of a share knows no finer step than one of its samples."""
        return linear_scale(1 / max(1, self.found.samples)) if self.threshold.points else LOG

    @property
    def within(self) -> float | None:
        """Variance of one difference of today, by its rounds and a calibration; `None` if nothing tells it."""
        threshold, pair, scale = self.threshold, self.gate.pair, self.scale
        values = differences(threshold, self.today)
        if not values:
            # A difference of two arms that scatter alike has twice the variance of one, and knows no order.
            twice = math.sqrt(2)
            values = tuple(twice * arm_level(threshold, [figure]) for figure in self.today.candidate)
            scale = dataclasses.replace(scale, order_cap=0.0)
        fits = threshold.points == (threshold.row.unit == "share")
        known = calibrated_noise(threshold.metric, pair, self.record.noise, at=threshold.at).noise
        first = [candidate.position < reference.position for reference, candidate in self.record.rounds_of(pair)]
        return round_variance(values, noise=known if fits else UNKNOWN_NOISE, candidate_first=first, scale=scale)

    @property
    def lost(self) -> float:
        """How far today is from the first window that was ever accepted, signed: negative when it is worse."""
        return self.level(self.today) - self.level(self.entry.anchor)

    @property
    def eroded(self) -> bool:
        """Whether more than the margin is lost since the first window, in steps of which the last one is within it."""
        last = self.level(self.today) - self.level(self.entry.latest)
        return self.lost < -self.threshold.delta - SLACK and last >= -self.threshold.delta - SLACK and self._stepped

    @property
    def _stepped(self) -> bool:
        """Whether windows lie between the first one and today: a single step is no erosion."""
        return self.entry.latest.window != self.entry.anchor.window

    def level(self, values: BaselineValues) -> float:
        """Return the signed mean of a window: of its differences, or of the level of its candidate."""
        return level_of(self.threshold, values)

    def words(self, difference: float) -> str:
        """Name a signed difference as a raw change with the word of its direction."""
        threshold = self.threshold
        return change_words(threshold.raw(difference), metric_name=threshold.metric, points=threshold.points)

    def look(self) -> CrossLook:
        """Judge today's window."""
        return self._look(self.level(self.today), [self.level(values) for values in self.entry.windows])

    def reference_look(self, *, delta: float) -> CrossLook | None:
        """Judge the level of the reference arm alone; `None` where it has no such metric."""
        if not self.today.reference or not all(values.reference for values in self.entry.windows):
            return None
        windows = [arm_level(self.threshold, values.reference) for values in self.entry.windows]
        return self._look(arm_level(self.threshold, self.today.reference), windows, delta=delta, share=0.5)

    def _look(
        self, today: float, windows: Sequence[float], *, delta: float | None = None, share: float | None = None
    ) -> CrossLook:
        floor = self.threshold.cross_window
        alone = 0.5 if self.threshold.mode == "absolute" else 1.0
        counts, within = [values.rounds for values in self.entry.windows], self.within
        return cross_look(
            WindowMean(today, self.today.rounds),
            [WindowMean(level, rounds) for level, rounds in zip(windows, counts, strict=True)],
            delta=self.threshold.delta if delta is None else delta,
            within=None if within is None else within * (alone if share is None else share),
            declared=None if floor is None else floor.fraction,
            family=self.gate.family,
            linear=self.threshold.points,
            least_sd=self.scale.least_sd,
        )
