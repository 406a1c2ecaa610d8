"""How much prompts repeat themselves: the share of 4-grams that stand earlier in the same prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.repetition import repetitiveness

TOKENS = st.lists(st.integers(0, 5), max_size=30)


@pytest.mark.parametrize(
    ("tokens", "share"),
    [
        ([1, 2, 3, 4], 0.0),
        ([1, 2, 3, 4, 1, 2, 3, 4], 1 / 5),
        ([7] * 8, 4 / 5),
        ([1, 2, 3, 1, 2, 3, 1, 2, 3], 3 / 6),
    ],
)
def test_share_of_grams_that_stood_before(tokens: list[int], *, share: float) -> None:
    """Each place at which four tokens stand that stood somewhere before counts once."""
    assert repetitiveness([tokens]) == pytest.approx(share)


@pytest.mark.parametrize("prompts", [[], [[]], [[1, 2, 3], [1]]])
def test_too_few_tokens_have_no_share(prompts: list[list[int]]) -> None:
    """Without a single 4-gram there is no figure, and not 0."""
    assert repetitiveness(prompts) is None


def test_nothing_is_looked_up_across_prompts() -> None:
    """The same prompt twice repeats nothing, as a drafter does not look into other requests; grams are pooled."""
    assert repetitiveness([[1, 2, 3, 4, 5]] * 2) == 0
    assert repetitiveness([[1, 2, 3, 4, 5], [7] * 8]) == pytest.approx(4 / 7)


@given(tokens=TOKENS)
def test_the_share_is_that_of_a_search(tokens: list[int]) -> None:
    """It equals what a look at every earlier place finds."""
    grams = [tuple(tokens[start : start + 4]) for start in range(len(tokens) - 3)]
    found = sum(gram in grams[:place] for place, gram in enumerate(grams))

    assert repetitiveness([tokens]) == (pytest.approx(found / len(grams)) if grams else None)
