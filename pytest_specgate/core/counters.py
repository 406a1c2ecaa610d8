"""Counter snapshots of a vLLM server, their differences, and what these say about speculation.

Names are looked up exactly: one counter's name may be the beginning of another's. Series are summed over engines, and
ratios are taken of sums, never averaged.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from pytest_specgate.core.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Mapping

DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS: Final = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED_TOKENS: Final = "vllm:spec_decode_num_accepted_tokens_total"
ACCEPTED_PER_POSITION: Final = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
GENERATION_TOKENS: Final = "vllm:generation_tokens_total"
PROMPT_TOKENS: Final = "vllm:prompt_tokens_total"
FINISHED: Final = "vllm:request_success_total"
STEP_COUNT: Final = "vllm:inter_token_latency_seconds_count"
STEP_SUM: Final = "vllm:inter_token_latency_seconds_sum"
PREFIX_QUERIES: Final = "vllm:prefix_cache_queries_total"
PREFIX_HITS: Final = "vllm:prefix_cache_hits_total"
PREEMPTIONS: Final = "vllm:num_preemptions_total"
RUNNING: Final = "vllm:num_requests_running"
WAITING: Final = "vllm:num_requests_waiting"

SPECULATION: Final = frozenset({DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS, ACCEPTED_PER_POSITION})
GAUGES: Final = frozenset({RUNNING, WAITING})
WANTED: Final = SPECULATION | GAUGES | {
    GENERATION_TOKENS, PROMPT_TOKENS, FINISHED, STEP_COUNT, STEP_SUM, PREFIX_QUERIES, PREFIX_HITS, PREEMPTIONS,
}  # fmt: skip


class Sample(BaseModel):
    """One series of a metrics page."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: str
    labels: dict[str, str]
    value: float


class CounterPage(BaseModel):
    """The wanted series of one scrape of ``/metrics``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    samples: tuple[Sample, ...]

    def has(self, name: str) -> bool:
        """Whether the page has any series of this exact name."""
        return any(sample.name == name for sample in self.samples)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over all series of a name that carry the given labels.

        Raises:
            ScrapeError: the page has no series of that name.
        """
        if not self.has(name):
            raise ScrapeError(f"/metrics has no series {name}: was the server started with --disable-log-stats?")
        return math.fsum(sample.value for sample in self._named(name, labels))

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Return the totals of a name for each value of one label, summed over all other labels."""
        totals: dict[str, float] = {}
        for sample in self._named(name, {}):
            key = sample.labels.get(label, "")
            totals[key] = totals.get(key, 0.0) + sample.value
        return totals

    def models(self) -> frozenset[str]:
        """Return the model names that the series carry."""
        return frozenset(sample.labels["model_name"] for sample in self.samples if "model_name" in sample.labels)

    @property
    def speculation(self) -> tuple[str, ...]:
        """Positions of the per-position counter, in order; empty when speculation is off.

        Raises:
            ScrapeError: a position is no number.
        """
        positions = self.by_label(ACCEPTED_PER_POSITION, "position")
        if not all(position.isdecimal() for position in positions):
            raise ScrapeError(f"/metrics has draft positions that are no numbers: {', '.join(positions)}")
        return tuple(sorted(positions, key=int))

    def _named(self, name: str, labels: Mapping[str, str]) -> list[Sample]:
        return [
            sample
            for sample in self.samples
            if sample.name == name and all(sample.labels.get(key) == value for key, value in labels.items())
        ]


@dataclasses.dataclass(frozen=True, slots=True)
class SpeculationDelta:
    """What was drafted and accepted between two scrapes.

    Attributes:
        drafts: verify steps that had a draft.
        draft_tokens: tokens proposed.
        accepted_tokens: tokens accepted.
        accepted_per_position: accepted tokens by draft position, from position 0.
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

    def broken_identities(self) -> tuple[str, ...]:
        """Name the identities that the counters break; their numbers are then not to be believed."""
        positions = self.accepted_per_position
        k = len(positions)
        checks = {
            f"accepted tokens by position sum to {sum(positions)}, not to {self.accepted_tokens}": (
                sum(positions) == self.accepted_tokens
            ),
            f"accepted tokens rise with the position: {list(positions)}": (
                list(positions) == sorted(positions, reverse=True)
            ),
            f"{self.accepted_tokens} tokens accepted of {self.draft_tokens} drafted": (
                self.accepted_tokens <= self.draft_tokens
            ),
            f"{self.draft_tokens} draft tokens in {self.drafts} drafts of at most {k}": (
                self.draft_tokens <= k * self.drafts
            ),
        }
        return tuple(problem for problem, holds in checks.items() if not holds)


def _series(sample: Sample) -> frozenset[tuple[str, str]]:
    return frozenset(sample.labels.items())


@dataclasses.dataclass(frozen=True, slots=True)
class CounterDelta:
    """The difference of two scrapes of one server."""

    before: CounterPage
    after: CounterPage

    def total(self, name: str, **labels: str) -> float:
        """Return how much a counter rose, summed over engines.

        Raises:
            ScrapeError: a page lacks the counter, or the counter went back.
        """
        self._refuse_reset(name)
        return self.after.total(name, **labels) - self.before.total(name, **labels)

    def _refuse_reset(self, name: str) -> None:
        """Compare series by series: the rise of one engine would hide the restart of another."""
        later = {_series(sample): sample.value for sample in self.after.samples if sample.name == name}
        for sample in self.before.samples:
            if sample.name == name and sample.value > later.get(_series(sample), 0.0):
                now = later.get(_series(sample))
                text = "vanished" if now is None else f"fell from {sample.value:g} to {now:g}"
                raise ScrapeError(f"counter reset: {name} {text} between two scrapes, so no delta can be formed")

    def finished(self) -> dict[str, int]:
        """Return the finished requests by reason, without reasons that did not occur.

        Raises:
            ScrapeError: a page does not count finished requests, or a count went back.
        """
        self.after.total(FINISHED)
        reasons = self.after.by_label(FINISHED, "finished_reason")
        rises = {reason: int(self.total(FINISHED, finished_reason=reason)) for reason in reasons}
        return {reason: count for reason, count in rises.items() if count}

    def decode_tokens(self) -> float:
        """Return the output tokens of decode steps: all but the first of each request, which its prefill gives."""
        return self.total(GENERATION_TOKENS) - self.total(FINISHED)

    def decode_steps(self) -> float:
        """Return the decode steps of sequences: each is one observation of the inter-token latency."""
        return self.total(STEP_COUNT)

    def tokens_per_step(self) -> float | None:
        """Output tokens per decode step of a sequence, drafted or not; `None` when nothing was decoded."""
        steps = self.decode_steps()
        return self.decode_tokens() / steps if steps else None

    def decode_seconds(self) -> float:
        """Return the time that decode steps took, summed over sequences, in seconds."""
        return self.total(STEP_SUM)

    def speculation(self) -> SpeculationDelta | None:
        """Return what was drafted and accepted; `None` when the server has no speculation counters."""
        if not self.after.has(DRAFTS):
            return None
        return SpeculationDelta(
            drafts=int(self.total(DRAFTS)),
            draft_tokens=int(self.total(DRAFT_TOKENS)),
            accepted_tokens=int(self.total(ACCEPTED_TOKENS)),
            accepted_per_position=tuple(
                int(self.total(ACCEPTED_PER_POSITION, position=position)) for position in self.after.speculation
            ),
        )
