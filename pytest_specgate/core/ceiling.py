"""The ceiling of speculation: how fast one stream can be, and what a target speed needs.

The speed of a stream is tokens per step / step time. A step of horizon k gives at most k + 1 tokens, one more than it
drafts; that is the ceiling of every drafter at this horizon and step time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import Field

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.levels import Level
from pytest_specgate.core.stored import Failure, Stored

if TYPE_CHECKING:
    from pytest_specgate.core.decode_figures import DecodeFigures

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

_LONGEST: Final = 1000
_LEAST, _MOST = 1e-9, 1e9
_NEARLY: Final = 1e-9
"""Relative error of arithmetic: a target that is the ceiling itself is within reach."""


class TargetNeeds(Stored):
    """What a target speed needs; each figure changes one thing and leaves all others as they are.

    Attributes:
        speed_tokens_per_s: the target.
        tokens_per_step: that it needs at this step time.
        reachable: whether steps of this horizon can give so many.
        acceptance_rate: share of all draft tokens that must be accepted for that; `None` where none suffices.
        conditional_acceptance: equal acceptance at each position, given that all before it were accepted, that gives
            it; `None` likewise.
        step_time_s: that it needs at these tokens per step.
        step_time_at_ceiling_s: that it needs when all that is drafted is accepted.
        k_at_perfect_acceptance: least horizon whose ceiling reaches it, were the step time the same.
    """

    speed_tokens_per_s: Positive
    tokens_per_step: Positive
    reachable: bool
    acceptance_rate: float | None
    conditional_acceptance: float | None
    step_time_s: Positive
    step_time_at_ceiling_s: Positive
    k_at_perfect_acceptance: int


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
    ceiling: Ceiling | None = None

    @property
    def drafts_seldom(self) -> bool:
        """Whether some steps drafted nothing."""
        return self.drafted_share is not None and self.drafted_share < 1


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


def ceiling(*, step_time_s: float, tokens_per_step: float, k: int, target_tokens_per_s: float | None = None) -> Ceiling:
    """Compute speed and ceiling of a stream.

    Args:
        step_time_s: seconds of a decode step.
        tokens_per_step: output tokens of a decode step, from 1 to k + 1.
        k: draft horizon.
        target_tokens_per_s: a speed that is wanted.

    Raises:
        UsageError: a figure is no such figure.
    """
    if not 1 <= k <= _LONGEST:
        what = "drafts nothing" if k < 1 else "is no draft horizon"
        raise UsageError(f"k={k} {what}: write 1 to {_LONGEST}")
    if not _LEAST <= step_time_s <= _MOST:
        raise UsageError(f"a step time of {step_time_s:g} s is none")
    if not 1 <= tokens_per_step <= k + 1:
        raise UsageError(f"a step of k={k} gives between 1 and {k + 1} tokens, and not {tokens_per_step:g}")
    if target_tokens_per_s is not None and not _LEAST <= target_tokens_per_s <= _MOST:
        raise UsageError(f"a target of {target_tokens_per_s:g} tokens/s is none")
    speed, highest = tokens_per_step / step_time_s, (k + 1) / step_time_s
    needs = None
    if target_tokens_per_s is not None:
        needs = _needs(target_tokens_per_s, step_time_s=step_time_s, tokens_per_step=tokens_per_step, k=k)
    return Ceiling(
        k=k,
        step_time_s=step_time_s,
        tokens_per_step=tokens_per_step,
        speed_tokens_per_s=speed,
        ceiling_tokens_per_s=highest,
        share_of_ceiling=tokens_per_step / (k + 1),
        target=needs,
    )


def _needs(target: float, *, step_time_s: float, tokens_per_step: float, k: int) -> TargetNeeds:
    needed = target * step_time_s
    # One and the same horizon decides both, so that they cannot contradict each other.
    least = max(1, math.ceil(needed * (1 - _NEARLY) - 1))
    reachable = least <= k
    return TargetNeeds(
        speed_tokens_per_s=target,
        tokens_per_step=needed,
        reachable=reachable,
        acceptance_rate=min(1.0, max(0.0, (needed - 1) / k)) if reachable else None,
        conditional_acceptance=_conditional(needed, k) if reachable else None,
        step_time_s=tokens_per_step / target,
        step_time_at_ceiling_s=(k + 1) / target,
        k_at_perfect_acceptance=least,
    )


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


def arm_ceiling(
    found: DecodeFigures | Failure, *, arm: str, at: Level, target_tokens_per_s: float | None = None
) -> ArmCeiling:
    """Return the ceiling of an arm at a load level, or why there is none.

    Args:
        found: its decode figures, or why none may be shown.
        arm: its name.
        at: load level.
        target_tokens_per_s: a speed that is wanted.

    Raises:
        UsageError: the target is none.
    """
    if isinstance(found, Failure):
        return ArmCeiling(arm=arm, at=at, valid=False, reason=found.reason, message=found.message)
    figures = ceiling(
        step_time_s=found.step_time_s,
        tokens_per_step=found.tokens_per_step,
        k=found.k,
        target_tokens_per_s=target_tokens_per_s,
    )
    return ArmCeiling(
        arm=arm,
        at=at,
        step_times_s=found.step_times_s,
        tokens_per_steps=found.tokens_per_steps,
        drafted_share=found.drafted_share,
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
    return Ceilings(
        valid=valid,
        reason=None if valid else found[0].reason,
        message=None if valid else found[0].message,
        record=record,
        finished=finished,
        stopped=stopped,
        identity=identity,
        notes=(*unproved, *undrafted, *LIMITS) if valid else unproved,
        ceilings=found,
    )
