"""What a threshold is judged by: the values of a metric in both arms, round by round, and what stands beside them."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import measure
from pytest_specgate.core.quantities import bunched_sends, latency_rise
from pytest_specgate.core.statistics import geometric_mean
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PointRecord, WindowRecord


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

    def mean(self, *, linear: bool = False) -> float:
        """Return the mean over rounds: the geometric one, or the plain one on a linear scale."""
        return math.fsum(self.values) / len(self.values) if linear else geometric_mean(self.values)

    def bunched(self) -> float | None:
        """Return the mean share of sends that came in bunches; `None` where there is none."""
        return math.fsum(self.bunching) / len(self.bunching) if self.bunching else None


@dataclasses.dataclass(slots=True)
class Rounds:
    """Both arms of a threshold.

    Attributes:
        reference: values of the reference arm.
        candidate: values of the candidate arm.
        candidate_first: whether a round booted the candidate first.
        distances: places between the two arms in the boot order of a round; 1 for neighbours.
    """

    reference: Side = dataclasses.field(default_factory=Side)
    candidate: Side = dataclasses.field(default_factory=Side)
    candidate_first: list[bool] = dataclasses.field(default_factory=list)
    distances: list[int] = dataclasses.field(default_factory=list)

    def first(self, count: int) -> Rounds:
        """Return the first rounds only."""
        return Rounds(
            self.reference.first(count),
            self.candidate.first(count),
            self.candidate_first[:count],
            self.distances[:count],
        )

    def differences(self, *, higher_is_better: bool, linear: bool = False) -> tuple[float, ...]:
        """Return the signed differences of the rounds, positive where the candidate is better.

        Args:
            higher_is_better: direction of the metric.
            linear: whether they are plain differences instead of differences of logarithms.
        """
        sign = 1 if higher_is_better else -1
        pairs = zip(self.reference.values, self.candidate.values, strict=True)
        if linear:
            return tuple(sign * (candidate - reference) for reference, candidate in pairs)
        return tuple(sign * math.log(candidate / reference) for reference, candidate in pairs)

    @property
    def count(self) -> int:
        """Number of rounds."""
        return len(self.candidate_first)

    @property
    def samples(self) -> int:
        """Of how many requests (gaps, steps, drafts) a boot's value was taken, at least."""
        return min(self.reference.samples + self.candidate.samples)


def rounds_at(pair: ArmPair, record: WindowRecord, *, metric_name: str, at: Level) -> Rounds | Failure:
    """Return the values of a metric in all rounds of a pair, or why a boot has none.

    Args:
        pair: the arms, all of whose boots have the point.
        record: the measurements.
        metric_name: key in the metric table.
        at: load level.
    """
    rounds = Rounds()
    for both in record.rounds_of(pair):
        for arm, boot, side in zip(pair.arms, both, (rounds.reference, rounds.candidate), strict=True):
            point = boot.point(at)
            assert point is not None, "boot_problem() refuses boots without the point"
            if missing := side.take(metric_name, point, record.profile):
                return Failure(reason="missing-metric", message=f"arm {arm.name} {missing}")
        reference, candidate = both
        rounds.candidate_first.append(candidate.position < reference.position)
        rounds.distances.append(abs(candidate.position - reference.position))
    return rounds
