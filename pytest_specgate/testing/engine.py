"""Continuous batching with speculation, as a model: no clock, no sockets; the caller says what time it is.

A step is opened with `Engine.begin_step`, which tells how long it takes, and closed with `Engine.end_step`, which tells
what each sequence got. What arrives in between waits for the next step.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from typing import TYPE_CHECKING, NamedTuple

from pytest_specgate.testing.readings import EngineReadings, Tally, Totals

if TYPE_CHECKING:
    from pytest_specgate.testing.answers import FinishReason
    from pytest_specgate.testing.prefix_cache import PrefixCache
    from pytest_specgate.testing.readings import FinishedReason
    from pytest_specgate.testing.settings import FakeSettings


@dataclasses.dataclass(slots=True, eq=False)
class EngineSequence:
    """One request inside the engine.

    Attributes:
        prompt_tokens: length of the prompt.
        output_tokens: tokens it will give out.
        finish_reason: why it ends with the last of them.
        random: source of its drafts and acceptances; its own, so that they do not depend on what else runs.
        arrived_s: time of its arrival.
        blocks: keys of the full blocks of its prompt, for the prefix cache.
        counted_as: the reason under which its end is counted; `None`: the true one.
        foreign: whether it is a request of somebody else.
        queued_s: time that it waited for its first step.
        last_token_s: time of its latest counted token.
        drafted: tokens of the draft that the open step verifies; 0 without one.
        verified: proposed and accepted tokens of each draft, in order.
        tally: what has happened to it.
    """

    prompt_tokens: int
    output_tokens: int
    finish_reason: FinishReason
    random: random.Random
    arrived_s: float
    blocks: tuple[int, ...] = ()
    counted_as: FinishedReason | None = None
    foreign: bool = False
    queued_s: float = dataclasses.field(default=0.0, init=False)
    last_token_s: float = dataclasses.field(default=0.0, init=False)
    drafted: int = dataclasses.field(default=0, init=False)
    verified: list[tuple[int, int]] = dataclasses.field(default_factory=list, init=False)
    tally: Tally = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.tally = Tally(self.prompt_tokens)

    @property
    def computed_prompt_tokens(self) -> int:
        """Prompt tokens that its first step prefills."""
        return self.prompt_tokens - self.tally.cached_prompt_tokens

    @property
    def held_tokens(self) -> int:
        """Tokens it holds in the key-value cache."""
        return self.prompt_tokens + self.tally.output_tokens


class Emission(NamedTuple):
    """What one step gave one sequence.

    Attributes:
        sequence: the sequence.
        start: index of its first token of this step.
        tokens: number of them.
        finish_reason: why it ended with them, `None` if it did not.
        proposed: tokens of the draft that the step verified; 0 without one.
        accepted: those of them that held.
    """

    sequence: EngineSequence
    start: int
    tokens: int
    finish_reason: FinishReason | None
    proposed: int = 0
    accepted: int = 0


def sequence_random(settings: FakeSettings, prompt_key: str) -> random.Random:
    """Return the generator of a sequence's drafts: the same for the same seed and prompt, in any process."""
    return random.Random(f"{settings.seed}:{prompt_key}")  # noqa: S311  - a simulation, not a secret


class Engine:
    """One engine.

    Attributes:
        draft_tokens: tokens a draft proposes at most; 0 when speculation is off.
        waiting: sequences not yet admitted, in order of arrival.
        running: admitted sequences.
        readings: what it has counted since the counters were created.
        totals: what has really happened since the start.
    """

    def __init__(
        self,
        settings: FakeSettings,
        *,
        draft_tokens: int = 0,
        max_sequences: int = 128,
        prefix_cache: PrefixCache | None = None,
    ) -> None:
        self._settings = settings
        self._max_sequences = max_sequences
        self._prefix_cache = prefix_cache
        self._step_s = 0.0
        self._late: collections.deque[tuple[float, Emission]] = collections.deque()
        self.draft_tokens = draft_tokens
        self.waiting: collections.deque[EngineSequence] = collections.deque()
        self.running: list[EngineSequence] = []
        self.readings = EngineReadings([0] * draft_tokens)
        self.totals = Totals([0] * draft_tokens)

    @property
    def busy(self) -> bool:
        """Whether there is anything to do in a step."""
        return bool(self.waiting or self.running)

    @property
    def shown_running(self) -> int:
        """Number of running sequences as the gauge tells it: those whose last step is not counted yet are in it."""
        return len(self.running) + len(self._late)

    def submit(self, sequence: EngineSequence) -> None:
        """Queue a sequence for the next step with room for it."""
        self.waiting.append(sequence)
        self.totals.requests += 1
        self.totals.foreign_requests += sequence.foreign

    def abort(self, sequence: EngineSequence, reason: FinishedReason = "abort") -> None:
        """Drop a sequence, as if it had ended for the given reason; one that has ended already stays as it is."""
        for place in (self.running, self.waiting):
            if sequence in place:
                place.remove(sequence)
                sequence.tally.finish_reason = reason
                self.readings.finished[reason] += 1
                self.totals.finished[reason] += 1

    def begin_step(self) -> float:
        """Admit what fits, let each decoding sequence draft or not, and return the seconds the step takes."""
        self._admit()
        prefilled = verified = 0
        for sequence in self.running:
            if sequence.tally.output_tokens:
                sequence.drafted = self._draft(sequence)
                verified += sequence.drafted
            else:
                prefilled += sequence.computed_prompt_tokens
        settings = self._settings
        self._step_s = (
            settings.step_s
            + settings.step_s_per_sequence * max(0, len(self.running) - 1)
            + settings.step_s_per_draft_token * verified
            + settings.prefill_s_per_token * prefilled
        )
        return self._step_s

    def end_step(self, now_s: float) -> list[Emission]:
        """Advance every running sequence and return what each got; those that ended have left the engine."""
        self.settle(now_s)
        emissions = [self._advance(sequence) for sequence in self.running]
        if emissions:
            self.totals.steps += 1
            self.totals.busy_s += self._step_s
            self.readings.iteration_tokens.observe(sum(_computed(emission) for emission in emissions))
        for emission in emissions:
            if emission.start == 0:
                emission.sequence.queued_s = max(0.0, now_s - self._step_s - emission.sequence.arrived_s)
            if emission.finish_reason is not None and self._settings.counters_late_s:
                self._late.append((now_s, emission))
            else:
                self._count(emission, now_s)
        self.running = [emission.sequence for emission in emissions if emission.finish_reason is None]
        return emissions

    def settle(self, now_s: float) -> None:
        """Count the steps that were not counted yet because counters are late, and are due now."""
        while self._late and self._late[0][0] + self._settings.counters_late_s <= now_s:
            ended_s, emission = self._late.popleft()
            self._count(emission, ended_s)

    def reset_counters(self) -> None:
        """Let all counters start from zero; gauges stay."""
        self.readings = EngineReadings([0] * self.draft_tokens)

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self._max_sequences:
            sequence = self.waiting.popleft()
            self.running.append(sequence)
            self.totals.prompt_tokens += sequence.prompt_tokens
            if self._prefix_cache is not None:
                found = self._prefix_cache.admit(sequence.blocks, sequence.prompt_tokens)
                sequence.tally.cached_prompt_tokens = found
                self.totals.cached_prompt_tokens += found
                self.readings.prefix_queries += sequence.prompt_tokens
                self.readings.prefix_hits += found

    def _draft(self, sequence: EngineSequence) -> int:
        """Return how many tokens a sequence drafts in this step."""
        settings = self._settings
        if not self.draft_tokens or settings.never_draft or sequence.random.random() >= settings.draft_share:
            return 0
        if settings.draft_lengths is None:
            return self.draft_tokens
        return min(sequence.random.choice(settings.draft_lengths), self.draft_tokens)

    def _advance(self, sequence: EngineSequence) -> Emission:
        """Give a sequence its tokens of this step."""
        tally, totals = sequence.tally, self.totals
        accepted = self._verify(sequence)
        start = tally.output_tokens
        tokens = min(1 + accepted, sequence.output_tokens - start)
        tally.add_step(proposed=sequence.drafted, accepted=accepted, tokens=tokens)
        if sequence.drafted:
            sequence.verified.append((sequence.drafted, accepted))
        totals.output_tokens += tokens
        totals.decode_steps += start > 0
        totals.drafts += sequence.drafted > 0
        totals.draft_tokens += sequence.drafted
        totals.cut_tokens += 1 + accepted - tokens
        if sequence.foreign:
            totals.foreign_output_tokens += tokens
        if tally.output_tokens == sequence.output_tokens:
            tally.finish_reason = sequence.finish_reason
            totals.finished[sequence.finish_reason] += 1
            return Emission(sequence, start, tokens, sequence.finish_reason, sequence.drafted, accepted)
        return Emission(sequence, start, tokens, None, sequence.drafted, accepted)

    def _verify(self, sequence: EngineSequence) -> int:
        """Return how many tokens of a sequence's draft hold."""
        for position in range(sequence.drafted):
            if sequence.random.random() >= self._settings.acceptance_at(position):
                return position
            self.totals.accepted_per_position[position] += 1
        return sequence.drafted

    def _count(self, emission: Emission, now_s: float) -> None:
        """Count one sequence's part of a step that ended at ``now_s``.

        Acceptance is counted before the answer's end cuts it, as vLLM counts: the rates then do not depend on lengths.
        """
        sequence, readings = emission.sequence, self.readings
        if emission.start == 0:
            readings.first_tokens_s.observe(now_s - sequence.arrived_s)
            readings.prompt_tokens += sequence.prompt_tokens
            readings.cached_prompt_tokens += sequence.tally.cached_prompt_tokens
        else:
            readings.steps_s.observe(now_s - sequence.last_token_s)
        if emission.proposed:
            readings.count_draft(emission.proposed, emission.accepted)
        sequence.last_token_s = now_s
        readings.generation_tokens += emission.tokens
        if emission.finish_reason is not None:
            readings.finished[sequence.counted_as or emission.finish_reason] += 1
            readings.requests_s.observe(now_s - sequence.arrived_s)
            readings.queued_s.observe(sequence.queued_s)


def _computed(emission: Emission) -> int:
    """Return the tokens that a step computed for a sequence, as far as they count."""
    return emission.tokens + (0 if emission.start else emission.sequence.computed_prompt_tokens)
