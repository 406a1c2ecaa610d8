"""What was drafted and accepted between two scrapes, and the identities that such counts keep."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_HORIZON: Final = 64
"""A draft horizon beyond this, where nobody has measured it, is a slip of the finger."""

LEAST_DRAFTS: Final = 20
"""Least number of drafts of a point for any figure of acceptance."""


def too_few_drafts(drafts: int) -> str:
    """Say that so many drafts are too few for a figure of acceptance; empty where they are enough."""
    if drafts >= LEAST_DRAFTS:
        return ""
    return f"there {'is 1 draft' if drafts == 1 else f'are {drafts} drafts'}, and {LEAST_DRAFTS} are needed"


@dataclasses.dataclass(frozen=True, slots=True)
class SpeculationDelta:
    """What was drafted and accepted between two scrapes.

    Attributes:
        drafts: verify steps that had a draft.
        draft_tokens: tokens proposed.
        accepted_tokens: tokens accepted.
        accepted_per_position: accepted tokens by draft position, from position 1 on.
    """

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    accepted_per_position: tuple[int, ...]

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / draft tokens; `None` when nothing was drafted."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else None

    @property
    def acceptance_length(self) -> float | None:
        """1 + accepted / drafts: tokens of a verify step that drafted; `None` when nothing was drafted."""
        return 1 + self.accepted_tokens / self.drafts if self.drafts else None

    @property
    def draft_length(self) -> float | None:
        """Draft tokens per draft: below k when drafts are cut short; `None` when nothing was drafted."""
        return self.draft_tokens / self.drafts if self.drafts else None

    @property
    def per_position_rates(self) -> tuple[float, ...]:
        """Accepted at each position / drafts; empty when nothing was drafted."""
        return tuple(count / self.drafts for count in self.accepted_per_position) if self.drafts else ()

    def broken_identities(self, *, k: int | None = None) -> tuple[str, ...]:
        """Name the identities that the counters break; their numbers are then not to be believed.

        Args:
            k: number of draft positions that there must be, where it is known.
        """
        positions = self.accepted_per_position
        longest = len(positions) if k is None else k
        checks = {
            f"{len(positions)} draft positions are counted, not {k}": k in {None, len(positions)},
            f"accepted tokens by position sum to {sum(positions)}, not to {self.accepted_tokens}": (
                sum(positions) == self.accepted_tokens
            ),
            f"accepted tokens rise with the position: {list(positions)}": (
                list(positions) == sorted(positions, reverse=True)
            ),
            f"{max(positions, default=0)} accepted at one position in {self.drafts} drafts": (
                max(positions, default=0) <= self.drafts
            ),
            f"{self.accepted_tokens} tokens accepted of {self.draft_tokens} drafted": (
                self.accepted_tokens <= self.draft_tokens
            ),
            f"{self.draft_tokens} draft tokens in {self.drafts} drafts of at most {longest}": (
                self.draft_tokens <= longest * self.drafts
            ),
        }
        return tuple(problem for problem, holds in checks.items() if not holds)


def pool(deltas: Sequence[SpeculationDelta]) -> SpeculationDelta:
    """Add counts up, before any ratio is taken; all deltas have the same draft positions."""
    return SpeculationDelta(
        drafts=sum(delta.drafts for delta in deltas),
        draft_tokens=sum(delta.draft_tokens for delta in deltas),
        accepted_tokens=sum(delta.accepted_tokens for delta in deltas),
        accepted_per_position=tuple(map(sum, zip(*(delta.accepted_per_position for delta in deltas), strict=True))),
    )
