"""Counter snapshots of a vLLM server, their differences, and what these say about speculation.

Names are looked up exactly: one counter's name may be the beginning of another's. Series are summed over engines, and
ratios are taken of sums, never averaged.

**Tokens per step.** How many output tokens a decode step of a sequence gives is what speculation is for, and it cannot
be read from the speculation counters alone: `1 + accepted / drafts` speaks only of steps that had a draft, and a
drafter that proposes nothing in half of the steps (n-gram lookup without a match) makes it overstate the gain. So the
estimator uses what is counted whether a step drafted or not. Let request i have n_i output tokens. Its first comes from
the prefill; the other n_i - 1 come from s_i decode steps, each of which is one observation of
``inter_token_latency_seconds``. Hence, over any set of requests::

    tokens per step = sum(n_i - 1) / sum(s_i)
                    = (generation_tokens - first tokens) / inter_token_latency_seconds_count

First tokens are the observations of ``time_to_first_token_seconds``: unlike the number of finished requests, they fit
the interval also when a request runs across one of its ends, or is aborted. A step without a draft gives one token, a
step with one gives 1 + accepted, but an answer's end cuts off what was accepted beyond it, though it counts as
accepted. Therefore::

    tokens per step = 1 + drafted share * (acceptance length - 1) - cut / steps

with drafted share = drafts / steps, and cut = steps + accepted - (generation_tokens - first tokens), which must lie
between 0 and k for each answer that ended.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field

from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.speculation import SpeculationDelta

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DRAFTS: Final = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS: Final = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED_TOKENS: Final = "vllm:spec_decode_num_accepted_tokens_total"
ACCEPTED_PER_POSITION: Final = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
GENERATION_TOKENS: Final = "vllm:generation_tokens_total"
GENERATION_TOKENS_CREATED: Final = "vllm:generation_tokens_created"
PROMPT_TOKENS: Final = "vllm:prompt_tokens_total"
FINISHED: Final = "vllm:request_success_total"
FIRST_TOKENS: Final = "vllm:time_to_first_token_seconds_count"
STEPS: Final = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
"""Histogram of decode steps, newest name first: while vLLM had both, they counted the same and are never added."""
PREFIX_QUERIES: Final = "vllm:prefix_cache_queries_total"
PREFIX_HITS: Final = "vllm:prefix_cache_hits_total"
PREEMPTIONS: Final = "vllm:num_preemptions_total"
RUNNING: Final = "vllm:num_requests_running"
WAITING: Final = "vllm:num_requests_waiting"

SPECULATION: Final = frozenset({DRAFTS, DRAFT_TOKENS, ACCEPTED_TOKENS, ACCEPTED_PER_POSITION})
GAUGES: Final = frozenset({RUNNING, WAITING})
WANTED: Final = SPECULATION | GAUGES | {
    GENERATION_TOKENS, GENERATION_TOKENS_CREATED, PROMPT_TOKENS, FINISHED, FIRST_TOKENS, PREFIX_QUERIES, PREFIX_HITS,
    PREEMPTIONS, *(f"{name}_{part}" for name in STEPS for part in ("count", "sum")),
}  # fmt: skip


class Sample(BaseModel):
    """One series of a metrics page."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: str
    labels: dict[str, str]
    value: float


class CounterPage(BaseModel):
    """The wanted series of one scrape of ``/metrics``.

    Attributes:
        samples: the series, in the order of the page; those that added metrics read stand at the end.
        version: of the server, for messages; `None` when it is not known.
        unreadable: why series that only an added metric reads could not be read, by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    samples: tuple[Sample, ...]
    version: str | None = None
    unreadable: dict[str, str] = Field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the page has any series of this exact name."""
        return any(sample.name == name for sample in self.samples)

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over all series of a name that carry the given labels.

        Raises:
            ScrapeError: the page has no series of that name, or they could not be read.
        """
        if not self.has(name):
            raise ScrapeError(self.unreadable[name]) if name in self.unreadable else self.lacks(name)
        return math.fsum(sample.value for sample in self._named(name, labels))

    def lacks(self, *names: str) -> ScrapeError:
        """Return the error for a page without any series of some names."""
        server = f"vLLM {self.version}" if self.version else "this server"
        return ScrapeError(
            f"/metrics of {server} has no series {' or '.join(names)}: "
            f"was it started with --disable-log-stats, or does this version name it otherwise?"
        )

    def engines(self) -> tuple[str, ...]:
        """Return the names of the engines that count here, sorted; one for each data-parallel engine."""
        return tuple(sorted(self.by_label(GENERATION_TOKENS, "engine")))

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
            ScrapeError: a page lacks the counter, the counter went back, or the server was restarted in between.
        """
        self._refuse_restart()
        self._refuse_reset(name)
        return self.after.total(name, **labels) - self.before.total(name, **labels)

    def count(self, name: str, **labels: str) -> int:
        """Return how much a counter of whole things rose.

        Raises:
            ScrapeError: as for `total`, or the rise is no whole number.
        """
        rise = self.total(name, **labels)
        if not rise.is_integer():
            raise ScrapeError(f"/metrics says that {name} rose by {rise}, which is no number of things")
        return int(rise)

    def refuse_resets(self) -> None:
        """Check that both pages are of one life of one server, whatever is asked of them.

        Raises:
            ScrapeError: a counter went back or vanished, or the server was restarted.
        """
        self._refuse_restart()
        for name in sorted(WANTED - GAUGES - {GENERATION_TOKENS_CREATED}):
            self._refuse_reset(name)

    def _refuse_restart(self) -> None:
        """Refuse pages of two lives of a server: its counters may have passed the old values already."""
        if set(self.before.engines()) != set(self.after.engines()):
            names = [", ".join(page.engines()) or "none" for page in (self.before, self.after)]
            raise ScrapeError(f"engines changed between two scrapes, from {names[0]} to {names[1]}")
        lives = [page.by_label(GENERATION_TOKENS_CREATED, "engine") for page in (self.before, self.after)]
        restarted = [engine for engine, at in lives[0].items() if lives[1].get(engine, at) != at]
        if restarted:
            text = f"engine {', '.join(restarted)} began to count anew"
            raise ScrapeError(f"counter reset: {text} between two scrapes, so no delta can be formed")

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
        rises = {reason: self.count(FINISHED, finished_reason=reason) for reason in reasons}
        return {reason: count for reason, count in rises.items() if count}

    def first_tokens(self) -> int:
        """Return how many requests got their first token; an old server that does not tell counts finished ones."""
        return self.count(FIRST_TOKENS if self.after.has(FIRST_TOKENS) else FINISHED)

    def decode_tokens(self) -> int:
        """Return the output tokens of decode steps: all but the first of each request, which its prefill gives."""
        return self.count(GENERATION_TOKENS) - self.first_tokens()

    def _steps(self) -> str:
        name = next((name for name in STEPS if self.after.has(f"{name}_count")), None)
        if name is None:
            raise self.after.lacks(*STEPS)
        return name

    def decode_steps(self) -> int:
        """Return the decode steps of sequences, drafted or not: each is one observation of the inter-token latency."""
        return self.count(f"{self._steps()}_count")

    def decode_seconds(self) -> float:
        """Return the time that decode steps took, summed over sequences, in seconds."""
        return self.total(f"{self._steps()}_sum")

    def tokens_per_step(self) -> float | None:
        """Output tokens per decode step of a sequence, drafted or not; `None` when nothing was decoded.

        The module's docstring derives it.
        """
        steps = self.decode_steps()
        return self.decode_tokens() / steps if steps else None

    def step_time_s(self) -> float | None:
        """Seconds of a decode step of a sequence; `None` when nothing was decoded."""
        steps = self.decode_steps()
        return self.decode_seconds() / steps if steps else None

    def drafted_share(self) -> float | None:
        """Share of decode steps that verified a draft; `None` without speculation or when nothing was decoded."""
        speculation, steps = self.speculation(), self.decode_steps()
        return speculation.drafts / steps if speculation and steps else None

    def cut_tokens(self) -> int | None:
        """Accepted tokens that an answer's end cut off, and so never given out; `None` without speculation."""
        speculation = self.speculation()
        return None if speculation is None else self.decode_steps() + speculation.accepted_tokens - self.decode_tokens()

    def prefix_hit_rate(self) -> float | None:
        """Share of the prompt tokens looked up that the prefix cache had.

        0 when nothing was looked up: the cache is off; `None` when the server does not count it.
        """
        if not self.after.has(PREFIX_QUERIES) or not self.after.has(PREFIX_HITS):
            return None
        queries = self.count(PREFIX_QUERIES)
        return self.count(PREFIX_HITS) / queries if queries else 0.0

    def speculation(self) -> SpeculationDelta | None:
        """Return what was drafted and accepted; `None` when the server has no speculation counters."""
        if not self.after.has(DRAFTS):
            return None
        return SpeculationDelta(
            drafts=self.count(DRAFTS),
            draft_tokens=self.count(DRAFT_TOKENS),
            accepted_tokens=self.count(ACCEPTED_TOKENS),
            accepted_per_position=tuple(
                self.count(ACCEPTED_PER_POSITION, position=position) for position in self.after.speculation
            ),
        )

    def broken_identities(self, *, k: int | None = None, ended_by_client: bool = False) -> tuple[str, ...]:
        """Name what cannot be in these counters, by themselves and against each other; empty when all is well.

        Args:
            k: draft horizon, where it is known.
            ended_by_client: whether answers may be ended outside the engine, by stop strings: the engine then counts
                drafts of steps whose output nobody sees.

        Raises:
            ScrapeError: a counter is missing or went back.
        """
        speculation = self.speculation()
        found = list(speculation.broken_identities(k=k)) if speculation else []
        tokens, first = self.count(GENERATION_TOKENS), self.first_tokens()
        if tokens < first:
            found.append(f"{tokens} tokens generated by {first} requests that got a first token")
        if self.counts_steps:
            found += self._broken_step_identities(speculation, tokens=tokens - first, ended_by_client=ended_by_client)
        if self.prefix_hit_rate() is not None and self.count(PREFIX_HITS) > self.count(PREFIX_QUERIES):
            found.append(
                f"{self.count(PREFIX_HITS)} prefix-cache hits in {self.count(PREFIX_QUERIES)} tokens looked up"
            )
        return tuple(found)

    @property
    def counts_steps(self) -> bool:
        """Whether the server counts decode steps under a name that is known."""
        return any(self.after.has(f"{name}_count") for name in STEPS)

    def _broken_step_identities(
        self, speculation: SpeculationDelta | None, *, tokens: int, ended_by_client: bool
    ) -> Iterator[str]:
        """Check decode steps against what they drafted and gave."""
        steps = self.decode_steps()
        drafts, accepted = (speculation.drafts, speculation.accepted_tokens) if speculation else (0, 0)
        if drafts > steps and not ended_by_client:
            yield f"{drafts} drafts verified in {steps} decode steps"
        # Accepted tokens may have been cut off, but a step gives no more than one token beside them.
        if tokens > steps + accepted:
            yield f"{tokens} tokens decoded where {steps} steps with {accepted} accepted tokens give fewer"
        if speculation and self.after.has(FINISHED) and not ended_by_client:
            cut, ended = steps + accepted - tokens, sum(self.finished().values())
            if cut > len(speculation.accepted_per_position) * ended:
                yield f"{cut} accepted tokens were not given out, more than the ends of {ended} answers can cut off"
