"""What the fake model says."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.testing.answers import Answer, is_altered, natural_end
from pytest_specgate.testing.tokenizer import Tokenizer

STEPS = st.lists(st.integers(1, 8), min_size=1, max_size=20)


@given(prompt=st.text(), first=STEPS, second=STEPS)
def test_text_does_not_depend_on_how_it_is_cut(prompt: str, first: list[int], second: list[int]) -> None:
    """Two ways to cut an answer into steps give the same text: speculation changes no output."""
    texts = []
    for steps in (first, second):
        starts = itertools.accumulate(steps, initial=0)
        texts.append("".join(Answer(prompt).text(start, tokens) for start, tokens in zip(starts, steps, strict=False)))
    shorter, longer = sorted(texts, key=len)

    assert shorter
    assert longer.startswith(shorter)


def test_one_token_is_one_piece() -> None:
    """An answer, tokenised, has as many tokens as were given out."""
    answer = Answer("a prompt").text(0, 64)

    assert len(Tokenizer().encode(answer)) == 64


def test_prompts_differ_in_their_answers() -> None:
    """The answer depends on the prompt."""
    assert Answer("one").text(0, 16) != Answer("two").text(0, 16)


def test_end_token_has_no_text_and_ends_the_answer() -> None:
    """An answer that ends by itself spends its last token on the end, without text, as a model does."""
    answer = Answer("a prompt", end_token=5)

    assert answer.length(max_tokens=5) == (5, "stop")
    assert answer.text(0, 5) == answer.text(0, 4)


def test_limit_before_the_end_token_counts_as_length() -> None:
    """An answer cut by its limit says so and has text in its last token."""
    answer = Answer("a prompt", end_token=5)

    assert answer.length(max_tokens=4) == (4, "length")
    assert answer.piece(3)


@given(st.text(), st.integers(0, 1000))
def test_natural_end_respects_min_tokens(prompt: str, min_tokens: int) -> None:
    """The end token comes after ``min_tokens`` tokens of text and is fixed by the prompt."""
    end = natural_end(prompt, min_tokens)

    assert end > min_tokens
    assert end == natural_end(prompt, min_tokens)


def test_an_altered_answer_turns_where_it_is_told_to() -> None:
    """Up to its turn an altered answer is the plain one; from there on every token is another."""
    plain, altered = Answer("a prompt"), Answer("a prompt", turn=5)
    equal = [plain.piece(index) == altered.piece(index) for index in range(12)]

    assert equal == [True] * 5 + [False] * 7


@given(st.text())
def test_no_prompt_or_every_prompt_is_altered(prompt: str) -> None:
    """A share of nothing alters nothing, a share of all alters all."""
    assert not is_altered(prompt, 0.0)
    assert is_altered(prompt, 1.0)


def test_the_share_of_altered_prompts_is_as_asked_for() -> None:
    """Among many prompts about the share is altered, the same ones for every larger share."""
    quarter, half = ({n for n in range(2000) if is_altered(f"prompt {n}", share)} for share in (0.25, 0.5))

    assert quarter < half
    assert 400 < len(quarter) < 600
