"""What the decode steps of one arm gave and cost at one load level, over all its boots."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, NamedTuple

from pytest_specgate.core import identity, validity
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import PointRecord, WindowRecord


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeFigures:
    """Decode steps of an arm at a load level; what is pooled is a ratio of sums over boots.

    Attributes:
        k: draft horizon as the server counts it; 0 without speculation.
        step_time_s: seconds of a decode step of one sequence, pooled.
        tokens_per_step: output tokens of such a step, drafted or not, pooled.
        drafted_share: share of such steps that verified a draft, pooled; `None` without speculation.
        step_times_s: seconds of a step, by boot in the order of rounds.
        tokens_per_steps: tokens of a step, likewise.
    """

    k: int
    step_time_s: float
    tokens_per_step: float
    drafted_share: float | None
    step_times_s: tuple[float, ...]
    tokens_per_steps: tuple[float, ...]


class _Sums(NamedTuple):
    """What one boot counted at the level."""

    k: int
    steps: int
    tokens: int
    seconds: float
    drafts: int


class PooledSteps(NamedTuple):
    """Decode steps of some points together, the tokens that they gave, and the seconds that they took."""

    steps: int
    tokens: int
    seconds: float


def pooled_steps(points: Sequence[PointRecord]) -> PooledSteps | None:
    """Return what points counted of their decode steps; `None` where one does not count them, or there were none.

    Args:
        points: that may be read together.
    """
    if not all(point.counters.counts_steps for point in points):
        return None
    counted = [point.counters for point in points]
    found = PooledSteps(
        steps=sum(one.decode_steps() for one in counted),
        tokens=sum(one.decode_tokens() for one in counted),
        seconds=math.fsum(one.decode_seconds() for one in counted),
    )
    return found if found.steps else None


def decode_figures(record: WindowRecord, arm: Arm, at: Level) -> DecodeFigures | Failure:
    """Return the decode figures of an arm at a load level, or why none may be shown.

    Args:
        record: of the window.
        arm: one of its arms.
        at: load level.
    """
    if (problem := arm_problem(record, arm)) is not None:
        return problem
    points = [point for boot in record.boots_of(arm.name) if (point := boot.point(at)) is not None]
    if at not in record.profile.requests or not points:
        return _failure("not-measured", arm, at, "the window has no such load level")
    for point in points:
        if (problem := validity.point_problem(arm, point, record.profile)) is not None:
            return problem
    try:
        sums = [_sums(point) for point in points]
    except ScrapeError as error:
        return _failure("missing-counter", arm, at, str(error))
    for reason, text in _impossible(sums):
        return _failure(reason, arm, at, text)
    return _pooled(sums)


def arm_problem(record: WindowRecord, arm: Arm) -> Failure | None:
    """Return why no figure of an arm may be shown at any load level, `None` if some may."""
    return next(_arm_problems(record, arm), None)


def _arm_problems(record: WindowRecord, arm: Arm) -> Iterator[Failure]:
    boots = record.boots_of(arm.name)
    if not boots:
        yield Failure(reason="not-measured", message=f"arm {arm.name} was not booted")
    for boot in boots:
        if (problem := validity.boot_problem(arm, boot, record.profile)) is not None:
            yield problem
    if (drifted := validity.drifted_between(boots)) is not None:
        yield drifted
    report = identity.compare(boots, arms=1)
    if report.differences:
        text = f"boots of arm {arm.name} were put under other loads: {report.sentence}"
        yield Failure(reason="profile-mismatch", message=text)


def _sums(point: PointRecord) -> _Sums:
    counted = point.counters
    speculation = counted.speculation()
    return _Sums(
        k=len(speculation.accepted_per_position) if speculation else 0,
        steps=counted.decode_steps(),
        tokens=counted.decode_tokens(),
        seconds=counted.decode_seconds(),
        drafts=speculation.drafts if speculation else 0,
    )


def _impossible(sums: Sequence[_Sums]) -> Iterator[tuple[str, str]]:
    """Yield why sums give no figures, each as a code and a sentence."""
    ks = sorted({one.k for one in sums})
    if len(ks) > 1:
        yield "arm-not-as-declared", f"boots count {' and '.join(map(str, ks))} draft positions"
    for one in sums:
        if not one.steps:
            yield "not-measured", "nothing was decoded: no answer has more than one token"
        elif not one.seconds > 0:
            yield "counter-identity", f"{one.steps} decode steps took {one.seconds:g} s"
        elif one.k and not one.steps <= one.tokens <= (one.k + 1) * one.steps:
            each = f"a step of k={one.k} gives 1 to {one.k + 1}"
            yield "counter-identity", f"{one.tokens} tokens decoded in {one.steps} steps, where {each}"


def _pooled(sums: Sequence[_Sums]) -> DecodeFigures:
    steps, k = sum(one.steps for one in sums), sums[0].k
    return DecodeFigures(
        k=k,
        step_time_s=math.fsum(one.seconds for one in sums) / steps,
        tokens_per_step=sum(one.tokens for one in sums) / steps,
        drafted_share=sum(one.drafts for one in sums) / steps if k else None,
        step_times_s=tuple(one.seconds / one.steps for one in sums),
        tokens_per_steps=tuple(one.tokens / one.steps for one in sums),
    )


def _failure(reason: str, arm: Arm, at: Level, text: str) -> Failure:
    return Failure(reason=reason, message=f"arm {arm.name} at {level_label(at)}: {text}")
