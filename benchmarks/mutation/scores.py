"""The score of a module: what share of the changes of its code some test notices."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(slots=True)
class Score:
    """What became of the changes of one module.

    Attributes:
        mutants: changes tried.
        survivors: those that no test noticed, as differences of lines.
    """

    mutants: int = 0
    survivors: list[str] = dataclasses.field(default_factory=list)

    @property
    def percent(self) -> float:
        """Share of changes that a test noticed."""
        return 100.0 * (1 - len(self.survivors) / self.mutants) if self.mutants else 100.0


def markdown(scores: Mapping[str, Score]) -> str:
    """Return a table of scores, and below it what survived."""
    lines = ["| module | changes | unnoticed | score % |", "| --- | ---: | ---: | ---: |"]
    for name, score in sorted(scores.items()):
        lines.append(f"| {name} | {score.mutants} | {len(score.survivors)} | {score.percent:.1f} |")
    for name, score in sorted(scores.items()):
        lines += [f"\n## {name}" for _ in score.survivors[:1]]
        lines += [f"\n```diff\n{survivor}\n```" for survivor in score.survivors]
    return "\n".join(lines) + "\n"
