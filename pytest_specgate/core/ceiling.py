"""The ceiling of speculation: how fast one stream can be, and what a target speed needs.

The speed of a stream is tokens per step / step time. A step of horizon k gives at most k + 1 tokens, one more than it
drafts; that is the ceiling of every drafter at this horizon and step time.

Where not every step drafts, accepting more helps only the steps that do (`token_model`): perfect acceptance may then
give far less than k + 1 tokens a step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import Field

from pytest_specgate.core.decode_figures import decode_figures
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.levels import Level
from pytest_specgate.core.speculation import pool
from pytest_specgate.core.stored import Failure, Stored
from pytest_specgate.core.token_model import drafted_share, mixed

if TYPE_CHECKING:
    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.decode_figures import DecodeFigures
    from pytest_specgate.core.records import WindowRecord

Positive: TypeAlias = Annotated[float, Field(gt=0)]

LIMITS: Final = (
    "step time rises with k and with load, so this is the ceiling of this k at this load and of no other",
    "it is the speed of one stream while it decodes, and neither throughput nor the time to the first token",
)
"""What a ceiling does not say."""

UNDRAFTED: Final = (
    "steps without a draft give one token and count in tokens per step; the ceiling takes each step to draft k tokens"
)
"""What it does not say where some steps drafted nothing."""

WHERE_IT_DRAFTS: Final = (
    "what a target needs of acceptance is told for the steps that draft, with as many tokens from these steps as now;"
    " what the ends of answers cut off counts as not drafted"
)
"""What acceptance is needed for, where not all tokens come from steps that draft."""

_LONGEST: Final = 1000
_LEAST, _MOST = 1e-9, 1e9
_NEARLY: Final = 1e-9
"""Relative error of arithmetic: a target that is the ceiling itself is within reach."""


class TargetNeeds(Stored):
    """What a target speed needs; each figure changes one thing and leaves all others as they are.

    Attributes:
        speed_tokens_per_s: the target.
        reached: whether the stream is so fast now.
        tokens_per_step: that it needs at this step time.
        most_tokens_per_step: that there are when all that is drafted is accepted: k + 1 where every step drafts k
            tokens, and fewer where tokens come from steps that do not draft.
        reachable: whether acceptance can give so many.
        acceptance_length: tokens of a step that drafts, needed for that; `None` where no acceptance suffices.
        acceptance_rate: share of k draft tokens that must be accepted for that in a step that drafts; `None` likewise.
        conditional_acceptance: equal acceptance at each position, given that all before it were accepted, that gives
            it; `None` likewise.
        step_time_s: that it needs at these tokens per step.
        step_time_at_ceiling_s: that it needs when all that is drafted is accepted.
        k_at_perfect_acceptance: least horizon that reaches it when all that is drafted is accepted, were the step time
            the same; 0 where one token a step does, `None` where no horizon does.
    """

    speed_tokens_per_s: Positive
    reached: bool
    tokens_per_step: Positive
    most_tokens_per_step: Positive
    reachable: bool
    acceptance_length: float | None
    acceptance_rate: float | None
    conditional_acceptance: float | None
    step_time_s: Positive
    step_time_at_ceiling_s: Positive
    k_at_perfect_acceptance: int | None


class Ceiling(Stored):
    """How fast one stream is, and could be.

    Attributes:
        k: draft horizon.
        step_time_s: seconds of a decode step.
        tokens_per_step: output tokens of a decode step.
        speed_tokens_per_s: tokens per step / step time.
        ceiling_tokens_per_s: (k + 1) / step time: all that is drafted is accepted, in every step.
        share_of_ceiling: speed / ceiling.
        target: what a target speed needs; `None` where none was named.
    """

    k: int
    step_time_s: Positive
    tokens_per_step: Positive
    speed_tokens_per_s: Positive
    ceiling_tokens_per_s: Positive
    share_of_ceiling: Positive
    target: TargetNeeds | None = None


class ArmCeiling(Stored):
    """The ceiling of one arm at one load level; one that is not valid has a reason and no figures.

    Attributes:
        arm: name of the arm; `None` for figures that were given.
        at: load level; `None` likewise.
        valid: whether there are figures that may be read.
        reason: code of the reason why not.
        message: one sentence about it.
        step_times_s: seconds of a decode step, by boot; empty for figures that were given.
        tokens_per_steps: output tokens of such a step, likewise.
        drafted_share: share of such steps that verified a draft; `None` where it is not known.
        acceptance_length: tokens of a step that drafted; `None` likewise.
        drafted_token_share: share of decoded tokens that come from steps that draft; `None` likewise.
        ceiling: the figures, pooled over boots.
    """

    arm: str | None = None
    at: Level | None = None
    valid: bool = True
    reason: str | None = None
    message: str | None = None
    step_times_s: tuple[float, ...] = ()
    tokens_per_steps: tuple[float, ...] = ()
    drafted_share: float | None = None
    acceptance_length: float | None = None
    drafted_token_share: float | None = None
    ceiling: Ceiling | None = None

    @property
    def drafts_seldom(self) -> bool:
        """Whether some steps drafted nothing."""
        return self.drafted_share is not None and self.drafted_share < 1

    @property
    def targets_where_it_drafts(self) -> bool:
        """Whether a target is named, and acceptance helps only a part of the tokens."""
        targeted = self.ceiling is not None and self.ceiling.target is not None
        return targeted and self.drafted_token_share is not None and self.drafted_token_share < 1


class Ceilings(Stored):
    """What `specgate ceiling` tells.

    Attributes:
        valid: whether any figure may be read.
        reason: code of the reason why not.
        message: one sentence about it.
        record: where the figures come from; `None` where they were given.
        finished: whether its window ran to its end; `None` likewise.
        stopped: why it ended before its last round; empty when nothing stopped it, `None` likewise.
        identity: whether the boots of each arm were put under one load, where there are several.
        notes: what they rest on, and what they do not say.
        ceilings: by arm and load level.
    """

    valid: bool
    reason: str | None
    message: str | None
    record: str | None
    finished: bool | None = None
    stopped: str | None = None
    identity: tuple[str, ...]
    notes: tuple[str, ...]
    ceilings: tuple[ArmCeiling, ...]


def ceiling(
    *,
    step_time_s: float,
    tokens_per_step: float,
    k: int,
    target_tokens_per_s: float | None = None,
    drafted_token_share: float = 1.0,
) -> Ceiling:
    """Compute speed and ceiling of a stream.

    Args:
        step_time_s: seconds of a decode step.
        tokens_per_step: output tokens of a decode step, from 1 to k + 1.
        k: draft horizon.
        target_tokens_per_s: a speed that is wanted.
        drafted_token_share: share of tokens that come from steps that draft: what acceptance acts on.

    Raises:
        UsageError: a figure is no such figure.
    """
    check_horizon(k)
    check_step_time(step_time_s)
    check_tokens(tokens_per_step, k=k)
    found = Ceiling(
        k=k,
        step_time_s=step_time_s,
        tokens_per_step=tokens_per_step,
        speed_tokens_per_s=tokens_per_step / step_time_s,
        ceiling_tokens_per_s=(k + 1) / step_time_s,
        share_of_ceiling=tokens_per_step / (k + 1),
    )
    if target_tokens_per_s is None:
        return found
    check_target(target_tokens_per_s)
    return found.model_copy(update={"target": _needs(found, target_tokens_per_s, share=drafted_token_share)})


def check_horizon(k: int) -> None:
    """Raise `UsageError` for what is no draft horizon."""
    if not 1 <= k <= _LONGEST:
        what = "drafts nothing" if k < 1 else "is no draft horizon"
        raise UsageError(f"k={k} {what}: write 1 to {_LONGEST}")


def check_step_time(seconds: float) -> None:
    """Raise `UsageError` for what is no step time."""
    if not _LEAST <= seconds <= _MOST:
        raise UsageError(f"a step time of {seconds:g} s is none: write that of a decode step, as 23.38ms")


def check_tokens(tokens: float, *, k: int) -> None:
    """Raise `UsageError` for tokens per step that no step of a horizon k gives."""
    if not 1 <= tokens <= k + 1:
        raise UsageError(
            f"a step of k={k} gives between 1 and {k + 1} tokens, and not {tokens:g}: write output tokens / decode "
            "steps of a sequence, or the k that was served"
        )


def check_target(tokens_per_s: float) -> None:
    """Raise `UsageError` for what is no speed to aim at."""
    if not _LEAST <= tokens_per_s <= _MOST:
        raise UsageError(f"a target of {tokens_per_s:g} tokens/s is none: write a speed above 0, as '200 tokens/s'")


def _needs(found: Ceiling, target: float, *, share: float) -> TargetNeeds:
    k, needed, most = found.k, target * found.step_time_s, mixed(share, found.k + 1)
    length = _length_for(needed, share)
    # One and the same horizon decides both, so that they cannot contradict each other.
    least = None if length is None else max(0, math.ceil(length * (1 - _NEARLY) - 1))
    within = length if least is not None and least <= k else None
    return TargetNeeds(
        speed_tokens_per_s=target,
        reached=found.speed_tokens_per_s >= target,
        tokens_per_step=needed,
        most_tokens_per_step=most,
        reachable=within is not None,
        acceptance_length=None if within is None else min(float(k + 1), within),
        acceptance_rate=None if within is None else min(1.0, (within - 1) / k),
        conditional_acceptance=None if within is None else _conditional(within, k),
        step_time_s=found.tokens_per_step / target,
        step_time_at_ceiling_s=most / target,
        k_at_perfect_acceptance=least,
    )


def _length_for(tokens: float, share: float) -> float | None:
    """Return the tokens of a drafting step that give so many per step; `None` where none gives them."""
    if share == 1 or tokens <= 1:
        return max(1.0, tokens)
    left = 1 / tokens - (1 - share)
    return share / left if left > _NEARLY else None


def _conditional(tokens: float, k: int) -> float:
    """Return the c for which 1 + c + ... + c^k is a number of tokens, by bisection: the sum rises with c."""
    if tokens <= 1:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        enough = math.fsum(middle**i for i in range(k + 1)) >= tokens
        low, high = (low, middle) if enough else (middle, high)
    return high


def record_ceiling(
    record: WindowRecord, arm: Arm, at: Level, *, target_tokens_per_s: float | None = None
) -> ArmCeiling:
    """Return the ceiling of an arm of a window at a load level, or why there is none.

    Args:
        record: of the window.
        arm: one of its arms, which speculates.
        at: load level.
        target_tokens_per_s: a speed that is wanted.

    Raises:
        UsageError: the target is none.
    """
    found = decode_figures(record, arm, at)
    length = None if isinstance(found, Failure) else _acceptance_length(record, arm, at)
    return arm_ceiling(found, arm=arm.name, at=at, acceptance_length=length, target_tokens_per_s=target_tokens_per_s)


def _acceptance_length(record: WindowRecord, arm: Arm, at: Level) -> float | None:
    """Return the tokens of a step that drafted, pooled over boots."""
    points = [point for boot in record.boots_of(arm.name) if (point := boot.point(at)) is not None]
    counted = [point.counters.speculation() for point in points]
    return pool([delta for delta in counted if delta is not None]).acceptance_length


def arm_ceiling(
    found: DecodeFigures | Failure,
    *,
    arm: str,
    at: Level,
    acceptance_length: float | None = None,
    target_tokens_per_s: float | None = None,
) -> ArmCeiling:
    """Return the ceiling of decode figures, or why there is none.

    Args:
        found: decode figures, or why none may be shown.
        arm: name of their arm.
        at: load level.
        acceptance_length: tokens of a step that drafted; `None` where that is not known.
        target_tokens_per_s: a speed that is wanted.

    Raises:
        UsageError: the target is none.
    """
    if isinstance(found, Failure):
        return ArmCeiling(arm=arm, at=at, valid=False, reason=found.reason, message=found.message)
    share = None if acceptance_length is None else drafted_share(found.tokens_per_step, acceptance_length)
    if share is None and acceptance_length is not None:
        share = found.drafted_share
    figures = ceiling(
        step_time_s=found.step_time_s,
        tokens_per_step=found.tokens_per_step,
        k=found.k,
        target_tokens_per_s=target_tokens_per_s,
        drafted_token_share=1.0 if share is None else share,
    )
    return ArmCeiling(
        arm=arm,
        at=at,
        step_times_s=found.step_times_s,
        tokens_per_steps=found.tokens_per_steps,
        drafted_share=found.drafted_share,
        acceptance_length=acceptance_length,
        drafted_token_share=share,
        ceiling=figures,
    )


def ceilings(  # noqa: PLR0913  - each is a field of what is told
    found: tuple[ArmCeiling, ...],
    *,
    record: str | None = None,
    finished: bool | None = None,
    stopped: str | None = None,
    identity: tuple[str, ...] = (),
    unproved: tuple[str, ...] = (),
) -> Ceilings:
    """Return everything that is told, with what it does not say.

    Args:
        found: at least one ceiling, or reason for none.
        record: where they come from; `None` where their figures were given.
        finished: whether its window ran to its end; `None` likewise.
        stopped: why it ended before its last round; empty when nothing stopped it, `None` likewise.
        identity: whether the boots of each arm were put under one load.
        unproved: what nobody can prove of the servers.
    """
    valid = any(one.valid for one in found)
    undrafted = (UNDRAFTED,) if any(one.drafts_seldom for one in found) else ()
    where = (WHERE_IT_DRAFTS,) if any(one.targets_where_it_drafts for one in found) else ()
    return Ceilings(
        valid=valid,
        reason=None if valid else found[0].reason,
        message=None if valid else found[0].message,
        record=record,
        finished=finished,
        stopped=stopped,
        identity=identity,
        notes=(*unproved, *undrafted, *where, *LIMITS) if valid else unproved,
        ceilings=found,
    )
