"""Claims that name no load level: they stand for every level of the load that their gate is measured under."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeAlias

from pytest_specgate.core.thresholds import AnyThreshold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.profile import RequestProfile


@dataclasses.dataclass(frozen=True, slots=True)
class EveryLevel:
    """A claim about every load level: only a gate, which knows the levels, makes thresholds of it.

    Attributes:
        name: of the function that made it, as ``at_least``.
        at: returns the threshold of one level.
    """

    name: str
    at: Callable[[Level], AnyThreshold]


Claim: TypeAlias = AnyThreshold | EveryLevel
"""What a gate is declared with."""


def placed(claims: Iterable[Claim], profile: RequestProfile) -> tuple[AnyThreshold, ...]:
    """Return the thresholds of some claims, in their order: of one about every level, one for each."""
    return tuple(
        threshold
        for claim in claims
        for threshold in (map(claim.at, profile.points) if isinstance(claim, EveryLevel) else (claim,))
    )
