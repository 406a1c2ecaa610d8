"""What the fake engine counts about itself, and what really happened in it."""

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


def no_requests() -> dict[FinishedReason, int]:
    """Return a count of zero for each reason why a request can end."""
    return dict.fromkeys(get_args(FinishedReason), 0)


@dataclasses.dataclass(slots=True)
class EngineReadings:
    """Counters of one engine since its start.

    Attributes:
        accepted_per_position: accepted draft tokens by position; empty when speculation is off.
        drafts: decode steps of a sequence that verified a draft.
        draft_tokens: tokens those drafts proposed.
        generation_tokens: tokens given out.
        prompt_tokens: prompt tokens of all prompts whose first token came, cached ones included.
        cached_prompt_tokens: those of them that were found in the prefix cache.
        prefix_queries: prompt tokens looked up in the prefix cache, on admission.
        prefix_hits: those of them that were found.
        finished: ended requests by reason.
        steps_s: time between two outputs of a sequence, one observation per step after its first token.
        first_tokens_s: arrival to first token.
        requests_s: arrival to last token, of requests that ran to their end.
        queued_s: arrival to the beginning of the first step, of the same requests.
        iteration_tokens: prompt tokens computed and output tokens of an engine step.
    """

    accepted_per_position: list[int]
    drafts: int = 0
    draft_tokens: int = 0
    generation_tokens: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    finished: dict[FinishedReason, int] = dataclasses.field(default_factory=no_requests)
    steps_s: Histogram = dataclasses.field(default_factory=lambda: Histogram(STEP_EDGES_S))
    first_tokens_s: Histogram = dataclasses.field(default_factory=lambda: Histogram(FIRST_TOKEN_EDGES_S))
    requests_s: Histogram = dataclasses.field(default_factory=lambda: Histogram(REQUEST_EDGES_S))
    queued_s: Histogram = dataclasses.field(default_factory=lambda: Histogram(REQUEST_EDGES_S))
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


@dataclasses.dataclass(slots=True)
class Tally:
    """What really happened to one request, whatever the counters say.

    Attributes:
        prompt_tokens: length of the prompt.
        cached_prompt_tokens: prompt tokens found in the prefix cache.
        output_tokens: tokens the engine has given out.
        decode_steps: steps after the one that gave the first token.
        drafts: decode steps that verified a draft.
        draft_tokens: tokens those drafts proposed.
        accepted_tokens: draft tokens accepted, as vLLM counts them: before the end of the answer cuts them.
        cut_tokens: accepted tokens beyond the end of the answer, which nobody got.
        drafts_by_accepted: drafts by the number of their tokens that were accepted, from 0 to the most of them.
        drafts_by_length: drafts by the number of tokens that they proposed, likewise.
        finish_reason: why it ended; `None` while it runs.
    """

    prompt_tokens: int
    cached_prompt_tokens: int = 0
    output_tokens: int = 0
    decode_steps: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    cut_tokens: int = 0
    drafts_by_accepted: list[int] = dataclasses.field(default_factory=list)
    drafts_by_length: list[int] = dataclasses.field(default_factory=list)
    finish_reason: FinishedReason | None = None

    def add_step(self, *, proposed: int, accepted: int, tokens: int) -> None:
        """Add one step that gave ``tokens`` tokens after a draft of ``proposed`` (0: none) was verified."""
        self.decode_steps += self.output_tokens > 0
        self.drafts += proposed > 0
        self.draft_tokens += proposed
        self.accepted_tokens += accepted
        self.cut_tokens += 1 + accepted - tokens
        self.output_tokens += tokens
        if proposed:
            _count_one(self.drafts_by_accepted, accepted)
            _count_one(self.drafts_by_length, proposed)


def _count_one(histogram: list[int], value: int) -> None:
    """Count one more of a value in a histogram that is as long as its greatest value asks for."""
    histogram.extend([0] * (value + 1 - len(histogram)))
    histogram[value] += 1


@dataclasses.dataclass(slots=True)
class Totals:
    """What really happened in one engine, from its start on; unlike counters it is never late and never reset.

    Attributes:
        accepted_per_position: accepted draft tokens by position; empty when speculation is off.
        steps: engine steps that gave tokens.
        busy_s: seconds spent in steps.
        requests: requests that came in, those of somebody else included.
        foreign_requests: those of somebody else.
        foreign_output_tokens: tokens generated for them.
        prompt_tokens: prompt tokens of all requests admitted to a batch, cached ones included.
        cached_prompt_tokens: those of them that were found in the prefix cache.
        output_tokens: tokens given out.
        decode_steps: steps of a sequence after the one that gave its first token.
        drafts: those of them that verified a draft.
        draft_tokens: tokens those drafts proposed.
        cut_tokens: accepted tokens beyond the end of an answer, which nobody got.
        finished: ended requests by reason.
    """

    accepted_per_position: list[int]
    steps: int = 0
    busy_s: float = 0.0
    requests: int = 0
    foreign_requests: int = 0
    foreign_output_tokens: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    output_tokens: int = 0
    decode_steps: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    cut_tokens: int = 0
    finished: dict[FinishedReason, int] = dataclasses.field(default_factory=no_requests)
