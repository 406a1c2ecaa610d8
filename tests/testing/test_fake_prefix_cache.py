"""The model of the prefix cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.testing import FakeSettings
from pytest_specgate.testing.engine import Engine, EngineSequence, sequence_random
from pytest_specgate.testing.prefix_cache import PrefixCache, block_chain


def admit(cache: PrefixCache, tokens: list[int]) -> int:
    """Admit a prompt of blocks of 4 tokens."""
    return cache.admit(block_chain(tokens, 4), len(tokens))


@pytest.mark.parametrize(("length", "found"), [(1, 0), (4, 0), (5, 4), (8, 4), (9, 8), (11, 8), (12, 8), (13, 12)])
def test_a_prompt_seen_before_is_found_but_for_its_last_token(length: int, found: int) -> None:
    """Full blocks count only, and the last token is always computed, even at the price of a whole block."""
    cache = PrefixCache(4, capacity=100)
    first = admit(cache, list(range(length)))

    assert first == 0
    assert admit(cache, list(range(length))) == found


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 2), max_size=40))
def test_only_a_common_beginning_is_found(earlier: list[int], later: list[int]) -> None:
    """What is found is a prefix of both prompts, in whole blocks; equal blocks elsewhere do not count."""
    cache = PrefixCache(4, capacity=100)
    admit(cache, earlier)
    found = admit(cache, later) if later else 0
    common = next((i for i, (a, b) in enumerate(zip(earlier, later, strict=False)) if a != b), None)
    common = min(len(earlier), len(later)) if common is None else common

    assert found == min(common // 4, max(0, len(later) - 1) // 4) * 4


def test_blocks_used_longest_ago_are_dropped_tail_first() -> None:
    """A full cache keeps what was used last, and of one prompt rather its head than its tail."""
    cache = PrefixCache(4, capacity=4)
    old, new = [1] * 12, [2] * 8
    admit(cache, [*old, 0])
    admit(cache, [*new, 0])

    assert admit(cache, [*new, 0]) == 8
    assert PrefixCache(4, capacity=0).admit(block_chain(old, 4), 12) == 0
    assert admit(cache, [*old, 0]) == 8


SETTINGS = FakeSettings(step_s=1.0, prefill_s_per_token=0.01)


def same_prompt() -> EngineSequence:
    """Make a request with a prompt of 40 tokens, always the same."""
    return EngineSequence(
        prompt_tokens=40,
        output_tokens=1,
        finish_reason="length",
        random=sequence_random(SETTINGS, "x"),
        arrived_s=0.0,
        blocks=block_chain(range(40), 16),
    )


def test_cached_tokens_need_no_prefill_and_are_counted_as_in_vllm() -> None:
    """Queries and prompt tokens are all, hits those found; the time and the tokens of a step know only the rest."""
    engine = Engine(SETTINGS, prefix_cache=PrefixCache(16, capacity=100))
    sequences, seconds = [same_prompt(), same_prompt()], []
    for sequence in sequences:
        engine.submit(sequence)
        seconds.append(engine.begin_step())
        engine.end_step(0.0)
    readings = engine.readings

    assert seconds == pytest.approx([1.4, 1.08])
    assert [sequence.tally.cached_prompt_tokens for sequence in sequences] == [0, 32]
    assert (readings.prefix_queries, readings.prefix_hits) == (80, 32)
    assert (readings.prompt_tokens, readings.cached_prompt_tokens) == (80, 32)
    assert readings.iteration_tokens.sum == 80 - 32 + 2
    assert (engine.totals.prompt_tokens, engine.totals.cached_prompt_tokens) == (80, 32)


def test_without_a_cache_nothing_is_looked_up() -> None:
    """An engine whose caching is off counts no queries, as in vLLM."""
    engine = Engine(SETTINGS)
    engine.submit(same_prompt())
    engine.begin_step()
    engine.end_step(0.0)

    assert (engine.readings.prefix_queries, engine.readings.prompt_tokens) == (0, 40)


def test_requests_of_one_step_share_blocks() -> None:
    """The second of two equal prompts admitted to the same step finds the first, as in vLLM."""
    cache = PrefixCache(16, capacity=100)

    assert [cache.admit(block_chain(range(33), 16), 33) for _ in range(2)] == [0, 32]
