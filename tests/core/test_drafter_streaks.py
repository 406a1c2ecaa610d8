"""Acceptance by how long the drafter has been right: chances from rates, and what they tell of shorter horizons."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.drafter_streaks import Streaks, streaks_of

if TYPE_CHECKING:
    from collections.abc import Sequence


def simulated(chances: Sequence[float], k: int, *, drafts: int, seed: int) -> list[float]:
    """Return rates by position of a drafter that is right by these chances, token by token."""
    drawn = random.Random(seed)
    taken, streak = [0] * k, 0
    for _ in range(drafts):
        for place in range(k + 1):
            right = drawn.random() < chances[min(streak, len(chances) - 1)]
            streak = streak + 1 if right else 0
            if place < k and right:
                taken[place] += 1
            if not right:
                break
    return [count / drafts for count in taken]


RISING: Final = (0.55, 0.8, 0.92, 0.95, 0.95, 0.95, 0.95)


@pytest.mark.parametrize("chances", [RISING, (0.8,) * 7, (0.9, 0.7, 0.5, 0.5, 0.5, 0.5, 0.5)])
def test_a_long_horizon_tells_the_short_ones_of_a_drafter_that_is_simulated(chances: tuple[float, ...]) -> None:
    """Rates of k=7 give the tokens of a step of k=1, 2 and 4, whether chances rise, stay or fall with the streak."""
    found = streaks_of(simulated(chances, 7, drafts=40_000, seed=1))

    assert found is not None
    for k in (1, 2, 4):
        expected = 1 + sum(simulated(chances, k, drafts=40_000, seed=k + 1))
        assert found.length(k) == pytest.approx(expected, abs=0.03)


def test_products_tell_too_little_where_chances_rise() -> None:
    """What positions of k=7 add up to is less than a step of k=1 gives: it drafts within streaks more often."""
    rates = simulated(RISING, 7, drafts=40_000, seed=1)

    assert 1 + rates[0] < 1 + simulated(RISING, 1, drafts=40_000, seed=2)[0] - 0.05


@given(st.floats(0.05, 0.95), st.integers(1, 12))
def test_chances_that_do_not_depend_on_the_streak_are_products(chance: float, k: int) -> None:
    """1 + p + p p + ... for every horizon up to the measured one."""
    found = streaks_of([chance**place for place in range(1, k + 1)])

    assert found is not None
    for shorter in range(1, k + 1):
        expected = math.fsum(chance**place for place in range(shorter + 1))
        assert found.length(shorter) == pytest.approx(expected, abs=0.02)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_any_curve_tells_lengths_that_can_be_or_nothing(conditional: list[float]) -> None:
    """A step of k gives 1 to k + 1 tokens, more with every position, and the measured horizon is met."""
    rates = list(itertools.accumulate(conditional, lambda a, b: a * b))
    found = streaks_of(rates)

    if found is not None:
        assert all(0 <= chance <= 1 for chance in found.chances)
        lengths = [found.length(k) for k in range(1, len(rates) + 1)]
        assert lengths[-1] == pytest.approx(1 + sum(rates), abs=0.001 * len(rates) + 1e-9)
        assert all(1 <= length <= k + 1 + 1e-9 for k, length in enumerate(lengths, start=1))


def test_rates_that_no_streaks_give_are_told_apart() -> None:
    """Always right at first and at times later cannot be: the next draft would begin after a streak, too."""
    assert streaks_of([1.0, 0.5]) is None


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_never_and_always_right(chance: float) -> None:
    """One token a step, or k + 1."""
    found = streaks_of([chance] * 4)

    assert found is not None
    assert [found.length(k) for k in (1, 2, 4)] == pytest.approx([1 + chance * k for k in (1, 2, 4)], abs=1e-3)


def test_a_draft_begins_anew_where_the_token_after_it_was_wrong() -> None:
    """Right once and then never: each draft of two has its first token accepted."""
    assert Streaks((1.0, 0.0)).length(2) == pytest.approx(2.0)
    assert Streaks((0.5, 1.0)).length(1) == pytest.approx(2.0)
