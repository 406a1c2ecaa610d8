"""What the fake's engine can be told beyond speed and acceptance: short drafts, late counters, new counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.testing import FakeSettings
from pytest_specgate.testing.engine import Engine, EngineSequence, sequence_random


def submit(engine: Engine, settings: FakeSettings, *, output_tokens: int, key: str = "x") -> EngineSequence:
    """Submit a request of ten prompt tokens."""
    sequence = EngineSequence(
        prompt_tokens=10,
        output_tokens=output_tokens,
        finish_reason="length",
        random=sequence_random(settings, key),
        arrived_s=0.0,
    )
    engine.submit(sequence)
    return sequence


def run(engine: Engine) -> float:
    """Run all to the end and return the time of it."""
    now_s = 0.0
    while engine.busy:
        now_s += engine.begin_step()
        engine.end_step(now_s)
    return now_s


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4), k=st.integers(1, 6))
def test_drafts_are_as_long_as_they_may_be(lengths: list[int], k: int) -> None:
    """A draft has one of the set lengths, at most k, and nothing is accepted beyond it."""
    settings = FakeSettings(draft_lengths=tuple(lengths), acceptance=(1.0,))
    engine = Engine(settings, draft_tokens=k)
    sequence = submit(engine, settings, output_tokens=60)
    longest = min(max(lengths), k)
    run(engine)
    readings, tally = engine.readings, sequence.tally

    assert readings.draft_tokens == readings.accepted_tokens
    assert min(*lengths, k) * readings.drafts <= readings.draft_tokens <= longest * readings.drafts
    assert readings.accepted_per_position[longest:] == [0] * (k - longest)
    assert tally.output_tokens == 1 + tally.decode_steps + tally.accepted_tokens - tally.cut_tokens


def test_share_of_short_drafts_is_that_of_the_list() -> None:
    """Of `[4, 4, 4, 2]` a quarter is short, so that a draft has 3.5 tokens on average."""
    settings = FakeSettings(draft_lengths=(4, 4, 4, 2))
    engine = Engine(settings, draft_tokens=4)
    for number in range(100):
        submit(engine, settings, output_tokens=200, key=str(number))
    run(engine)

    assert engine.readings.draft_tokens / engine.readings.drafts == pytest.approx(3.5, abs=0.05)


def test_a_step_pays_for_the_draft_tokens_that_are_there() -> None:
    """A short draft is cheaper to verify."""
    settings = FakeSettings(step_s=1.0, step_s_per_draft_token=0.01, draft_lengths=(3,), acceptance=(0.0,))
    engine = Engine(settings, draft_tokens=7)
    submit(engine, settings, output_tokens=3)
    engine.begin_step()
    engine.end_step(1.0)

    assert engine.begin_step() == pytest.approx(1.03)


def test_case_58_the_last_step_is_counted_late() -> None:
    """Case 58: its tokens and drafts are missing and the request counts as running, until the time has passed."""
    settings = FakeSettings(step_s=1.0, counters_late_s=0.5, acceptance=(1.0,))
    engine = Engine(settings, draft_tokens=2)
    submit(engine, settings, output_tokens=4)
    end_s = run(engine)
    early = (engine.readings.generation_tokens, engine.readings.drafts, engine.shown_running)
    engine.settle(end_s + 0.49)
    still = engine.shown_running
    engine.settle(end_s + 0.5)
    readings = engine.readings

    assert (early, still) == ((1, 0, 1), 1)
    assert (readings.generation_tokens, readings.drafts, engine.shown_running) == (4, 1, 0)
    assert (readings.steps_s.sum, readings.requests_s.sum, readings.finished["length"]) == (1.0, 2.0, 1)


def test_truth_is_not_late() -> None:
    """What really happened is known at once, whatever the counters say."""
    settings = FakeSettings(counters_late_s=0.5)
    engine = Engine(settings)
    sequence = submit(engine, settings, output_tokens=4)
    run(engine)

    assert (engine.totals.output_tokens, engine.totals.finished["length"]) == (4, 1)
    assert sequence.tally.finish_reason == "length"


def test_new_counters_begin_at_zero_and_the_truth_goes_on() -> None:
    """A reset forgets what was counted, keeps the positions, and leaves running requests alone."""
    settings = FakeSettings()
    engine = Engine(settings, draft_tokens=3)
    submit(engine, settings, output_tokens=30)
    engine.begin_step()
    engine.end_step(1.0)
    engine.reset_counters()
    empty = engine.readings.generation_tokens
    run(engine)

    assert empty == 0
    assert engine.readings.generation_tokens == 29
    assert len(engine.readings.accepted_per_position) == 3
    assert engine.totals.output_tokens == 30


def test_miscounted_end_is_true_in_the_truth() -> None:
    """A request counted as aborted ended by its length all the same."""
    settings = FakeSettings()
    engine = Engine(settings)
    submit(engine, settings, output_tokens=3).counted_as = "abort"
    run(engine)

    assert (engine.readings.finished["abort"], engine.readings.finished["length"]) == (1, 0)
    assert (engine.totals.finished["abort"], engine.totals.finished["length"]) == (0, 1)


def test_totals_are_the_sums_of_the_requests() -> None:
    """What really happened in the engine is what happened to its requests, all together."""
    settings = FakeSettings(draft_share=0.7, step_s=0.5)
    engine = Engine(settings, draft_tokens=4, max_sequences=3)
    tallies = [submit(engine, settings, output_tokens=9 + n, key=str(n)).tally for n in range(8)]
    end_s = run(engine)
    totals = engine.totals

    for name in ("prompt_tokens", "output_tokens", "decode_steps", "drafts", "draft_tokens", "cut_tokens"):
        assert getattr(totals, name) == sum(getattr(tally, name) for tally in tallies)
    assert sum(totals.accepted_per_position) == sum(tally.accepted_tokens for tally in tallies)
    assert totals.busy_s == pytest.approx(end_s)
    assert totals.steps == end_s / 0.5
