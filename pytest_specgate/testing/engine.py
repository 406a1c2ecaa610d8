"""Continuous batching with speculation, as a model: no clock, no sockets; the caller says what time it is.

A step is opened with `Engine.begin_step`, which tells how long it takes, and closed with `Engine.end_step`, which tells
what each sequence got. What arrives in between waits for the next step.
"""

from __future__ import annotations

import collections
import dataclasses
import random
from typing import TYPE_CHECKING, NamedTuple

from pytest_specgate.testing.readings import EngineReadings

if TYPE_CHECKING:
    from pytest_specgate.testing.answers import FinishReason
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
        emitted: tokens given out so far.
        last_token_s: time of the latest of them.
        drafting: whether the open step verifies a draft of it.
    """

    prompt_tokens: int
    output_tokens: int
    finish_reason: FinishReason
    random: random.Random
    arrived_s: float
    emitted: int = 0
    last_token_s: float = 0.0
    drafting: bool = False

    @property
    def cached_tokens(self) -> int:
        """Tokens it holds in the key-value cache."""
        return self.prompt_tokens + self.emitted


class Emission(NamedTuple):
    """What one step gave one sequence: ``tokens`` tokens from the index ``start`` on."""

    sequence: EngineSequence
    start: int
    tokens: int
    finish_reason: FinishReason | None


def sequence_random(settings: FakeSettings, prompt_key: str) -> random.Random:
    """Return the generator of a sequence's drafts: the same for the same seed and prompt, in any process."""
    return random.Random(f"{settings.seed}:{prompt_key}")  # noqa: S311  - a simulation, not a secret


class Engine:
    """One engine.

    Attributes:
        draft_tokens: tokens a draft proposes; 0 when speculation is off.
        waiting: sequences not yet admitted, in order of arrival.
        running: admitted sequences.
        readings: what it has counted.
    """

    def __init__(self, settings: FakeSettings, *, draft_tokens: int = 0, max_sequences: int = 128) -> None:
        self._settings = settings
        self._max_sequences = max_sequences
        self.draft_tokens = draft_tokens
        self.waiting: collections.deque[EngineSequence] = collections.deque()
        self.running: list[EngineSequence] = []
        self.readings = EngineReadings([0] * draft_tokens)

    @property
    def busy(self) -> bool:
        """Whether there is anything to do in a step."""
        return bool(self.waiting or self.running)

    def submit(self, sequence: EngineSequence) -> None:
        """Queue a sequence for the next step with room for it."""
        self.waiting.append(sequence)

    def abort(self, sequence: EngineSequence, reason: FinishedReason = "abort") -> None:
        """Drop a sequence, as if it had ended for the given reason; one that has ended already stays as it is."""
        for place in (self.running, self.waiting):
            if sequence in place:
                place.remove(sequence)
                self.readings.finished[reason] += 1

    def begin_step(self) -> float:
        """Admit what fits, let each decoding sequence draft or not, and return the seconds the step takes."""
        self._admit()
        prefilled = sum(sequence.prompt_tokens for sequence in self.running if not sequence.emitted)
        for sequence in self.running:
            sequence.drafting = sequence.emitted > 0 and self._drafts(sequence)
        verified = self.draft_tokens * sum(sequence.drafting for sequence in self.running)
        settings = self._settings
        return (
            settings.step_s
            + settings.step_s_per_sequence * max(0, len(self.running) - 1)
            + settings.step_s_per_draft_token * verified
            + settings.prefill_s_per_token * prefilled
        )

    def end_step(self, now_s: float) -> list[Emission]:
        """Advance every running sequence and return what each got; those that ended have left the engine."""
        emissions = [self._advance(sequence) for sequence in self.running]
        computed = 0
        for emission in emissions:
            computed += self._count(emission, now_s)
        if emissions:
            self.readings.iteration_tokens.observe(computed)
        self.running = [emission.sequence for emission in emissions if emission.finish_reason is None]
        return emissions

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self._max_sequences:
            self.running.append(self.waiting.popleft())

    def _drafts(self, sequence: EngineSequence) -> bool:
        if not self.draft_tokens or self._settings.never_draft:
            return False
        return sequence.random.random() < self._settings.draft_share

    def _advance(self, sequence: EngineSequence) -> Emission:
        """Give a sequence its tokens of this step.

        Acceptance is counted before the answer's end cuts it, as vLLM counts: the rates then do not depend on lengths.
        """
        accepted = 0
        if sequence.drafting:
            accepted = self._verify(sequence)
            self.readings.count_draft(self.draft_tokens, accepted)
        start = sequence.emitted
        tokens = min(1 + accepted, sequence.output_tokens - start)
        sequence.emitted += tokens
        ended = sequence.emitted == sequence.output_tokens
        return Emission(sequence, start, tokens, sequence.finish_reason if ended else None)

    def _verify(self, sequence: EngineSequence) -> int:
        for position in range(self.draft_tokens):
            if sequence.random.random() >= self._settings.acceptance_at(position):
                return position
        return self.draft_tokens

    def _count(self, emission: Emission, now_s: float) -> int:
        """Count one sequence's part of a step and return the tokens computed for it."""
        sequence, readings = emission.sequence, self.readings
        prefilled = 0
        if emission.start == 0:
            prefilled = sequence.prompt_tokens
            readings.first_tokens_s.observe(now_s - sequence.arrived_s)
        else:
            readings.steps_s.observe(now_s - sequence.last_token_s)
        sequence.last_token_s = now_s
        readings.prompt_tokens += prefilled
        readings.generation_tokens += emission.tokens
        if emission.finish_reason is not None:
            readings.finished[emission.finish_reason] += 1
            readings.requests_s.observe(now_s - sequence.arrived_s)
        return prefilled + emission.tokens
