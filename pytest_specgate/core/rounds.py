"""What a threshold is judged by: the values of a metric in both arms, round by round, and what stands beside them."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import measure
from pytest_specgate.core.quantities import bunched_sends, latency_rise

if TYPE_CHECKING:
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PointRecord


@dataclasses.dataclass(slots=True)
class Side:
    """One arm of a threshold, round by round.

    Attributes:
        values: of the metric.
        samples: of how many requests (gaps, steps, drafts) each was taken.
        in_flight: share of the declared concurrency that was achieved.
        bunching: share of sends that came in bunches.
        rises: of latency over the course of an open loop.
    """

    values: list[float] = dataclasses.field(default_factory=list)
    samples: list[int] = dataclasses.field(default_factory=list)
    in_flight: list[float] = dataclasses.field(default_factory=list)
    bunching: list[float] = dataclasses.field(default_factory=list)
    rises: list[float] = dataclasses.field(default_factory=list)

    def take(self, metric: str, point: PointRecord, profile: RequestProfile) -> str | None:
        """Add the value of one boot, or return why there is none."""
        measured = measure(metric, point, profile)
        if measured.value is None or measured.value < 0:
            why = measured.missing or f"its value is {measured.value}"
            return f"at {level_label(point.at)}: no {metric}: {why}"
        self.values.append(measured.value)
        self.samples.append(measured.n)
        in_flight = measure("achieved_concurrency", point, profile).value
        if in_flight is not None and point.concurrency is not None:
            self.in_flight.append(in_flight / point.concurrency)
        if (rise := latency_rise(point)) is not None:
            self.rises.append(rise)
        if (share := bunched_sends(point)) is not None:
            self.bunching.append(share)
        return None

    def first(self, count: int) -> Side:
        """Return the first rounds only."""
        return Side(*(getattr(self, field.name)[:count] for field in dataclasses.fields(self)))

    def bunched(self) -> float | None:
        """Return the mean share of sends that came in bunches; `None` where there is none."""
        return math.fsum(self.bunching) / len(self.bunching) if self.bunching else None


@dataclasses.dataclass(slots=True)
class Rounds:
    """Both arms of a threshold."""

    reference: Side = dataclasses.field(default_factory=Side)
    candidate: Side = dataclasses.field(default_factory=Side)
    candidate_first: list[bool] = dataclasses.field(default_factory=list)

    def first(self, count: int) -> Rounds:
        """Return the first rounds only."""
        return Rounds(self.reference.first(count), self.candidate.first(count), self.candidate_first[:count])

    def ratios(self, *, higher_is_better: bool) -> tuple[float, ...]:
        """Return the signed log ratios of the rounds, positive where the candidate is better."""
        sign = 1 if higher_is_better else -1
        pairs = zip(self.reference.values, self.candidate.values, strict=True)
        return tuple(sign * math.log(candidate / reference) for reference, candidate in pairs)
