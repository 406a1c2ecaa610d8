"""The fake's engine, on a made-up clock."""

from __future__ import annotations

import collections
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.testing import FakeSettings
from pytest_specgate.testing.engine import Engine, EngineSequence, sequence_random

if TYPE_CHECKING:
    from collections.abc import Iterable

Steps = dict[EngineSequence, list[int]]


def make_sequence(
    key: str, *, output_tokens: int = 32, prompt_tokens: int = 10, settings: FakeSettings | None = None
) -> EngineSequence:
    """Make a sequence that arrives at time 0."""
    return EngineSequence(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        finish_reason="length",
        random=sequence_random(settings or FakeSettings(), key),
        arrived_s=0.0,
    )


def run(engine: Engine, sequences: Iterable[EngineSequence] = ()) -> Steps:
    """Run everything to its end and return the tokens of each step of each sequence."""
    for sequence in sequences:
        engine.submit(sequence)
    steps: Steps = collections.defaultdict(list)
    now_s = 0.0
    while engine.busy:
        now_s += engine.begin_step()
        for emission in engine.end_step(now_s):
            steps[emission.sequence].append(emission.tokens)
    return steps


@given(
    k=st.integers(0, 8),
    share=st.floats(0, 1),
    acceptance=st.lists(st.floats(0, 1), min_size=1, max_size=8),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    max_sequences=st.integers(1, 5),
)
def test_counters_keep_the_identities(
    *, k: int, share: float, acceptance: list[float], lengths: list[int], max_sequences: int
) -> None:
    """Whatever the settings, the counters agree with what came out and with each other."""
    settings = FakeSettings(draft_share=share, acceptance=tuple(acceptance))
    engine = Engine(settings, draft_tokens=k, max_sequences=max_sequences)
    steps = run(engine, [make_sequence(str(i), output_tokens=length) for i, length in enumerate(lengths)])
    readings = engine.readings
    decode_steps = sum(len(tokens) - 1 for tokens in steps.values())

    assert sorted(sum(tokens) for tokens in steps.values()) == sorted(lengths)
    assert all(tokens[0] == 1 and max(tokens) <= 1 + k for tokens in steps.values())
    assert readings.generation_tokens == sum(lengths)
    assert readings.prompt_tokens == 10 * len(lengths)
    assert readings.finished["length"] == readings.first_tokens_s.count == readings.requests_s.count == len(lengths)
    assert readings.steps_s.count == decode_steps >= readings.drafts
    assert readings.draft_tokens == k * readings.drafts
    assert readings.accepted_tokens <= readings.draft_tokens
    assert readings.accepted_per_position == sorted(readings.accepted_per_position, reverse=True)
    assert sum(lengths) - len(lengths) <= decode_steps + readings.accepted_tokens
    assert readings.iteration_tokens.sum == readings.prompt_tokens + readings.generation_tokens


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_acceptance_converges_to_the_settings(share: float) -> None:
    """Over many steps, acceptance by position and the share of drafting steps are those that were set."""
    settings = FakeSettings(acceptance=(0.9, 0.6, 0.3), draft_share=share)
    engine = Engine(settings, draft_tokens=5)
    run(engine, [make_sequence(str(i), output_tokens=200, settings=settings) for i in range(200)])
    readings = engine.readings
    tried = [readings.drafts, *readings.accepted_per_position]

    assert readings.drafts / readings.steps_s.count == pytest.approx(share, abs=0.02)
    for position, expected in enumerate([0.9, 0.6, 0.3, 0.3, 0.3]):
        deviation = math.sqrt(expected * (1 - expected) / tried[position])
        assert tried[position + 1] / tried[position] == pytest.approx(expected, abs=4 * deviation)


def test_truth_does_not_depend_on_scheduling() -> None:
    """A sequence drafts and accepts the same alone, in a full batch, and behind a queue."""
    settings = FakeSettings(acceptance=(0.7,), draft_share=0.6)

    def steps_of_third(engine: Engine, *, others: bool) -> list[int]:
        third = make_sequence("3", settings=settings)
        rest = [make_sequence(key, settings=settings) for key in "12456"] if others else []
        return run(engine, [*rest[:2], third, *rest[2:]])[third]

    alone = steps_of_third(Engine(settings, draft_tokens=4), others=False)
    together = steps_of_third(Engine(settings, draft_tokens=4), others=True)
    queued = steps_of_third(Engine(settings, draft_tokens=4, max_sequences=2), others=True)

    assert alone == together == queued


def test_seed_and_prompt_decide_the_draws() -> None:
    """Another seed or another prompt gives other acceptances; the same ones give the same."""

    def steps(seed: int, key: str) -> list[int]:
        settings = FakeSettings(seed=seed)
        sequence = make_sequence(key, output_tokens=100, settings=settings)
        return run(Engine(settings, draft_tokens=4), [sequence])[sequence]

    assert steps(0, "a") == steps(0, "a")
    assert steps(0, "a") != steps(1, "a")
    assert steps(0, "a") != steps(0, "b")


def test_step_time_is_the_sum_of_its_parts() -> None:
    """A step pays for the batch, for each draft token verified and for each prompt token prefilled."""
    settings = FakeSettings(
        step_s=1.0, step_s_per_sequence=0.1, step_s_per_draft_token=0.01, prefill_s_per_token=0.001, acceptance=(0.0,)
    )
    engine = Engine(settings, draft_tokens=4)
    engine.submit(make_sequence("1", prompt_tokens=10))
    prefill_s = engine.begin_step()
    engine.end_step(prefill_s)
    engine.submit(make_sequence("2", prompt_tokens=20))
    mixed_s = engine.begin_step()
    engine.end_step(prefill_s + mixed_s)
    decode_s = engine.begin_step()

    assert prefill_s == pytest.approx(1.0 + 10 * 0.001)
    assert mixed_s == pytest.approx(1.0 + 0.1 + 4 * 0.01 + 20 * 0.001)
    assert decode_s == pytest.approx(1.0 + 0.1 + 8 * 0.01)


def test_step_does_not_pay_for_sequences_that_do_not_draft() -> None:
    """Only draft tokens that are there are verified."""
    settings = FakeSettings(step_s=1.0, step_s_per_draft_token=0.01, never_draft=True)
    engine = Engine(settings, draft_tokens=4)
    engine.submit(make_sequence("1"))
    engine.begin_step()
    engine.end_step(1.0)

    assert engine.begin_step() == pytest.approx(1.0)


def test_acceptance_is_counted_before_the_end_cuts_it() -> None:
    """Tokens accepted beyond the end of an answer are not given out but count as accepted, as in vLLM."""
    settings = FakeSettings(acceptance=(1.0,))
    engine = Engine(settings, draft_tokens=4)
    sequence = make_sequence("1", output_tokens=3, settings=settings)
    steps = run(engine, [sequence])

    assert steps[sequence] == [1, 2]
    assert engine.readings.accepted_per_position == [1, 1, 1, 1]


def test_never_draft_keeps_the_positions_at_zero() -> None:
    """Speculation that is on but inactive shows every position, with nothing in it."""
    engine = Engine(FakeSettings(never_draft=True), draft_tokens=3)
    run(engine, [make_sequence("1")])

    assert engine.readings.accepted_per_position == [0, 0, 0]
    assert engine.readings.drafts == engine.readings.draft_tokens == 0


def test_request_that_arrives_during_a_step_waits_for_the_next() -> None:
    """The batch of an open step is fixed."""
    engine = Engine(FakeSettings())
    first, late = make_sequence("1"), make_sequence("2")
    engine.submit(first)
    engine.begin_step()
    engine.submit(late)

    assert [emission.sequence for emission in engine.end_step(1.0)] == [first]
    assert list(engine.waiting) == [late]


def test_batch_limit_leaves_requests_waiting() -> None:
    """No more sequences run than the limit allows; the rest wait in order of arrival."""
    engine = Engine(FakeSettings(), max_sequences=2)
    sequences = [make_sequence(key) for key in "123"]
    for sequence in sequences:
        engine.submit(sequence)
    engine.begin_step()

    assert engine.running == sequences[:2]
    assert list(engine.waiting) == sequences[2:]


@pytest.mark.parametrize("running", [True, False])
def test_aborted_sequence_leaves_the_engine(*, running: bool) -> None:
    """An aborted sequence gets no further token, is counted once, and no histogram of full answers sees it."""
    engine = Engine(FakeSettings())
    sequence = make_sequence("1")
    engine.submit(sequence)
    if running:
        engine.begin_step()
    engine.abort(sequence)
    engine.abort(sequence)

    assert engine.end_step(1.0) == []
    assert not engine.busy
    assert engine.readings.finished["abort"] == 1
    assert engine.readings.requests_s.count == engine.readings.iteration_tokens.count == 0


def test_abort_after_the_end_changes_nothing() -> None:
    """A sequence that has ended is not counted again as aborted."""
    engine = Engine(FakeSettings())
    sequence = make_sequence("1", output_tokens=1)
    run(engine, [sequence])
    engine.abort(sequence)

    assert engine.readings.finished["length"] == 1
    assert engine.readings.finished["abort"] == 0
