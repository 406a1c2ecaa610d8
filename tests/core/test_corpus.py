"""Prompts of an exact length, whatever the tokenizer does at a cut."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.corpus import PromptSet, build_prompts, cut_to
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

    from tests.core.conftest import Build

    CountTokens = Callable[[str], int]

SOURCE = "\n\n".join(f"Paragraph {n}: the lock keeper wanted {n} feet of rope, and a lantern." for n in range(12))


def words(text: str) -> int:
    """Count a token a word: the count never falls as a text grows."""
    return len(text.split())


def nasty(text: str) -> int:
    """Count a token every four characters and one more for an odd rest: a longer text may have fewer tokens."""
    return len(text) // 4 + len(text) % 2


def pairs(text: str) -> int:
    """Count tokens in pairs: there is no text with an odd number of them."""
    return 2 * (len(text) // 8)


def coarse(text: str) -> int:
    """Count a token every hundred characters."""
    return len(text) // 100


def _built(build: type[Build], count: CountTokens = words, *, source: str = SOURCE, **changes: object) -> PromptSet:
    profile = build.profile(**{"input_tokens": 20, **changes})
    return build_prompts(
        profile,
        source=source,
        source_sha256="abcd",
        model="tiny",
        tokenize=lambda prompt: range(count(str(prompt))),
    )


def _prompts(made: PromptSet) -> list[str]:
    bodies = [*made.warmup, *itertools.chain.from_iterable(made.points.values())]
    return [str(json.loads(body)["prompt"]) for body in bodies]


def test_the_nasty_counter_is_not_monotone() -> None:
    """The counter that the tests below use really falls as a text grows."""
    assert nasty("x" * 5) > nasty("x" * 6)


@pytest.mark.parametrize("count", [words, nasty])
@pytest.mark.parametrize("length", [12, 13, 20, 101])
def test_every_prompt_has_the_exact_length(build: type[Build], *, count: CountTokens, length: int) -> None:
    """Every prompt, warm-up included, has exactly the tokens asked for by the server's own count."""
    made = _built(build, count, input_tokens=length)

    assert {count(prompt) for prompt in _prompts(made)} == {length}


@pytest.mark.parametrize("count", [words, nasty])
def test_all_prompts_are_distinct(build: type[Build], count: CountTokens) -> None:
    """No prompt occurs twice in a window, not even between warm-up and points."""
    prompts = _prompts(_built(build, count, requests={1: 60, 8: 60}, warmup_requests=20))

    assert len(set(prompts)) == len(prompts) == 140


def test_every_temperature_has_prompts_of_its_own(build: type[Build]) -> None:
    """One load at two temperatures sends other prompts at each, and each body carries the temperature of its level."""
    made = _built(build, requests={8: 20, "8 T=0.8": 20}, warmup_requests=4)
    prompts = _prompts(made)
    sent = {at: {json.loads(body)["temperature"] for body in bodies} for at, bodies in made.points.items()}

    assert len(set(prompts)) == len(prompts) == 44
    assert sent == {8: {0.0}, "8 T=0.8": {0.8}}
    assert {json.loads(body)["temperature"] for body in made.warmup} == {0.0}


def test_prompts_too_short_to_be_distinct_are_refused(build: type[Build]) -> None:
    """Where a cut leaves no room for the page number, the second prompt of one text is refused, not sent again."""
    with pytest.raises(UsageError) as raised:
        _built(build, len, input_tokens=6)

    assert str(raised.value).startswith("input_tokens=6: no prompt number 10 of exactly that length")
    assert str(raised.value).endswith("; ask for longer ones")


def test_prompts_do_not_end_in_blanks(build: type[Build]) -> None:
    """A prompt ends in text, which tokenizers treat alike."""
    prompts = _prompts(_built(build, nasty))

    assert [prompt for prompt in prompts if prompt != prompt.rstrip()] == []


def test_numbers_of_prompts(build: type[Build]) -> None:
    """There are as many bodies as warm-up and points ask for."""
    made = _built(build, warmup_requests=3)

    assert len(made.warmup) == 3
    assert {at: len(bodies) for at, bodies in made.points.items()} == {1: 10, 8: 16}


def test_no_warmup_is_no_bodies(build: type[Build]) -> None:
    """A profile without warm-up has an empty warm-up set."""
    assert _built(build, warmup_requests=0).warmup == ()


def test_bodies_are_whole_requests(build: type[Build]) -> None:
    """A body is the request as it goes over the wire, with the served model and the sampling parameters."""
    body = json.loads(_built(build, temperature=0.8).points[8][0])

    assert (body["model"], body["temperature"], body["max_tokens"]) == ("tiny", 0.8, 11)


def test_one_seed_gives_one_set(build: type[Build]) -> None:
    """The same profile and source give the same bytes again; another order seed gives others."""
    again, other = _built(build), _built(build, order_seed=1)

    assert again == _built(build)
    assert again.points != other.points


def test_a_set_names_its_source(build: type[Build]) -> None:
    """A prompt set carries the hash of the text that it was cut from."""
    assert _built(build).source_sha256 == "abcd"


@pytest.mark.parametrize("changes", [{"temperature": 0.5}, {"seed": 7}, {"output_tokens": 7}, {"stop": ("END",)}])
def test_bodies_tell_profiles_apart(build: type[Build], changes: dict[str, Any]) -> None:
    """Other sampling parameters or lengths change every body of the set, warm-up too, and no prompt."""
    made, other = _built(build), _built(build, **changes)

    bodies = {*made.warmup, *itertools.chain.from_iterable(made.points.values())}
    assert bodies.isdisjoint([*other.warmup, *itertools.chain.from_iterable(other.points.values())])
    assert _prompts(made) == _prompts(other)


def test_a_short_source_is_repeated(build: type[Build]) -> None:
    """A prompt longer than the whole source is filled by repeating it."""
    prompts = _prompts(_built(build, source="One two.\n\n\n\n  Three four.  \n", input_tokens=100))

    assert {words(prompt) for prompt in prompts} == {100}
    assert "Three four." in prompts[0]


def test_an_impossible_length_is_refused(build: type[Build]) -> None:
    """Where no text has the exact length, the profile is refused and told what to change."""
    with pytest.raises(UsageError) as raised:
        _built(build, pairs, input_tokens=21)

    assert str(raised.value).startswith("input_tokens=21: no ")
    assert str(raised.value).endswith("of exactly that length can be cut from the corpus; ask for longer ones")


@pytest.mark.parametrize("source", [SOURCE, ""])
def test_a_tokenizer_that_never_reaches_the_length_is_refused(build: type[Build], source: str) -> None:
    """A server whose count stays behind any text is refused after a limited number of questions."""
    asked: list[str] = []

    def stuck(text: str) -> int:
        """Count one token, however long the text is."""
        asked.append(text)
        assert len(asked) < 5000, "endless loop"
        return 1

    with pytest.raises(UsageError, match=r"^input_tokens=20: the server counts fewer tokens in [0-9]+ characters of"):
        _built(build, stuck, source=source)


def test_tokens_of_a_hundred_characters_are_no_stuck_tokenizer(build: type[Build]) -> None:
    """A tokenizer with very long tokens is given as much text as it needs."""
    prompts = _prompts(_built(build, coarse, input_tokens=20))

    assert {coarse(prompt) for prompt in prompts} == {20}


@given(text=st.text(alphabet="ab \n", max_size=200), length=st.integers(1, 40))
def test_a_cut_is_a_beginning_of_the_exact_length(text: str, length: int) -> None:
    """Whatever is cut is a beginning of the text with exactly the tokens asked for, for both counters."""
    for count in (words, nasty):
        cut = cut_to(text, length=length, count=count)

        assert cut is None or (text.startswith(cut) and count(cut) == length and cut == cut.rstrip())


@given(text=st.lists(st.sampled_from(["a", "bb", "ccc"]), min_size=1, max_size=60).map(" ".join), share=st.floats(0, 1))
def test_a_monotone_counter_always_finds_its_cut(text: str, share: float) -> None:
    """With a count that never falls, every length up to the text's own is found."""
    length = max(1, round(share * words(text)))

    assert words(cut_to(text, length=length, count=words) or "") == length


def test_too_short_a_text_cannot_be_cut() -> None:
    """A text with fewer tokens than asked for has no such beginning, and an empty one neither."""
    assert cut_to("one two", length=3, count=words) is None
    assert cut_to("", length=1, count=words) is None


def test_repetitiveness_is_that_of_each_point(build: type[Build]) -> None:
    """A set tells how much the prompts of each point repeat themselves; too short ones do not tell."""
    profile = build.profile(input_tokens=20)

    def built(tokens: list[int]) -> PromptSet:
        """Return a set whose prompts are all made of these tokens."""
        return build_prompts(
            profile,
            source=SOURCE,
            source_sha256="",
            model="tiny",
            tokenize=lambda prompt: tokens if words(str(prompt)) == 20 else range(words(str(prompt))),
        )

    assert built([7] * 20).repetitiveness == {1: pytest.approx(16 / 17), 8: pytest.approx(16 / 17)}
    assert built([*range(20)]).repetitiveness == {1: 0, 8: 0}


def _letters(prompt: JsonValue) -> list[int]:
    """Return one token a letter after the one that begins every text, or the ids themselves."""
    return list(prompt) if isinstance(prompt, list) else [0, *str(prompt).encode()]  # type: ignore[arg-type]


def _random(build: type[Build], source: str = "abcdefgh" * 8, **changes: object) -> PromptSet:
    profile = build.profile(**{"prompts": "random", "input_tokens": 6, **changes})
    return build_prompts(profile, source=source, source_sha256="", model="tiny", tokenize=_letters)


def test_random_prompts_are_token_ids_of_the_vocabulary(build: type[Build]) -> None:
    """They have the exact length, all kinds of tokens of the text, none that stands before every text, and differ."""
    made = _random(build)
    prompts: Any = [json.loads(body)["prompt"] for bodies in (made.warmup, *made.points.values()) for body in bodies]

    assert {len(prompt) for prompt in prompts} == {6}
    assert {token for prompt in prompts for token in prompt} == set(b"abcdefgh")
    assert len(set(map(tuple, prompts))) == len(prompts) == 30


def test_random_prompts_follow_the_order_seed(build: type[Build]) -> None:
    """One seed gives one set, another seed another."""
    assert _random(build) == _random(build)
    assert _random(build, order_seed=1).points != _random(build).points


@pytest.mark.parametrize("source", ["ab", ""])
def test_too_few_random_prompts_are_refused(build: type[Build], source: str) -> None:
    """Where a vocabulary has fewer prompts of a length than are needed, that is told instead of tried for ever."""
    with pytest.raises(UsageError) as raised:
        _random(build, source, input_tokens=3)

    count = 8 if source else 0
    assert str(raised.value) == f"input_tokens=3: there are only {count} prompts of that length; ask for longer ones"


def test_a_warm_up_prompt_is_never_measured() -> None:
    """A set whose warm-up would be measured out of the prefix cache cannot be made."""
    with pytest.raises(AssertionError, match="prefix cache"):
        PromptSet("", (b"a",), {1: (b"b", b"a")}, {})
