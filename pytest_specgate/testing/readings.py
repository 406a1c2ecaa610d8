"""What the fake engine counts about itself."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from typing import Final, Literal, get_args

FinishedReason = Literal["stop", "length", "abort", "error", "repetition"]

STEP_EDGES_S: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
FIRST_TOKEN_EDGES_S: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
REQUEST_EDGES_S: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
ITERATION_EDGES: Final = (
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
)  # fmt: skip


class Histogram:
    """Counts of observations by upper edge.

    Attributes:
        edges: upper edges, ascending, without infinity.
        sum: sum of all observations.
    """

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges = edges
        self.sum = 0.0
        self._counts = [0] * (len(edges) + 1)

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self._counts)

    def observe(self, value: float) -> None:
        """Count one observation."""
        self._counts[bisect.bisect_left(self.edges, value)] += 1
        self.sum += value

    def cumulative(self) -> list[int]:
        """Return how many observations lie at or below each edge, infinity last."""
        return list(itertools.accumulate(self._counts))


def _no_requests() -> dict[FinishedReason, int]:
    return dict.fromkeys(get_args(FinishedReason), 0)


@dataclasses.dataclass(slots=True)
class EngineReadings:
    """Counters of one engine since its start.

    Attributes:
        accepted_per_position: accepted draft tokens by position; empty when speculation is off.
        drafts: decode steps of a sequence that verified a draft.
        draft_tokens: tokens those drafts proposed.
        generation_tokens: tokens given out.
        prompt_tokens: prompt tokens prefilled.
        finished: ended requests by reason.
        steps_s: time between two outputs of a sequence, one observation per step after its first token.
        first_tokens_s: arrival to first token.
        requests_s: arrival to last token, of requests that ran to their end.
        iteration_tokens: prompt and output tokens of an engine step.
    """

    accepted_per_position: list[int]
    drafts: int = 0
    draft_tokens: int = 0
    generation_tokens: int = 0
    prompt_tokens: int = 0
    finished: dict[FinishedReason, int] = dataclasses.field(default_factory=_no_requests)
    steps_s: Histogram = dataclasses.field(default_factory=lambda: Histogram(STEP_EDGES_S))
    first_tokens_s: Histogram = dataclasses.field(default_factory=lambda: Histogram(FIRST_TOKEN_EDGES_S))
    requests_s: Histogram = dataclasses.field(default_factory=lambda: Histogram(REQUEST_EDGES_S))
    iteration_tokens: Histogram = dataclasses.field(default_factory=lambda: Histogram(ITERATION_EDGES))

    @property
    def accepted_tokens(self) -> int:
        """Accepted draft tokens over all positions."""
        return sum(self.accepted_per_position)

    def count_draft(self, proposed: int, accepted: int) -> None:
        """Count one verified draft, of which the first ``accepted`` tokens held."""
        self.drafts += 1
        self.draft_tokens += proposed
        for position in range(accepted):
            self.accepted_per_position[position] += 1
