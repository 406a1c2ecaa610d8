"""Prompts of a window: cut from a text whose tokens only the server can count, or taken from a user's file."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.profile import encode_body, request_body
from pytest_specgate.core.prompt_files import PromptFile, is_conversation, read_prompts, token_ids
from pytest_specgate.core.repetition import repetitiveness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.prompt_files import FilePrompt, Prompt

    CountTokens: TypeAlias = Callable[[str], int]
    Tokenize: TypeAlias = Callable[[Prompt], Sequence[int]]

_TRIES = 8
_LONGEST_TOKEN = 100


@dataclasses.dataclass(frozen=True, slots=True)
class PromptSet:
    """The requests of a window, as bytes, made once and sent alike to every arm.

    Attributes:
        source_sha256: hash of the text that the prompts were cut from.
        warmup: bodies of the warm-up requests, in sending order; none of them is measured.
        points: bodies of the measured requests by load level, in sending order.
        repetitiveness: of the prompts of each load level; `None` where they have too few tokens.
    """

    source_sha256: str
    warmup: tuple[bytes, ...]
    points: dict[Level, tuple[bytes, ...]]
    repetitiveness: dict[Level, float | None]

    def __post_init__(self) -> None:
        measured = set(itertools.chain.from_iterable(self.points.values()))
        assert measured.isdisjoint(self.warmup), "a prompt of the warm-up would be measured out of the prefix cache"


def build_prompts(
    profile: RequestProfile, *, source: str, source_sha256: str, model: str, tokenize: Tokenize
) -> PromptSet:
    """Make all requests of a window; no prompt occurs twice, warm-up included.

    Args:
        profile: the load.
        source: corpus text, paragraphs separated by blank lines; or what a user's file holds.
        source_sha256: its hash.
        model: name under which the server serves the model.
        tokenize: the token ids that the server makes of a prompt, those of its template and special ones included.

    Raises:
        UsageError: no prompt of the exact length can be cut, or a file has too few prompts.
    """
    prompts = _prompts(profile, source, tokenize)
    made = {part: list(itertools.islice(prompts, count)) for part, count in _wanted(profile)}

    def bodies(part: Level | None) -> tuple[bytes, ...]:
        return tuple(_body(profile, prompt, model=model, at=part) for prompt in made[part])

    return PromptSet(
        source_sha256=source_sha256,
        warmup=bodies(None),
        points={at: bodies(at) for at in profile.points},
        repetitiveness={at: repetitiveness(map(tokenize, made[at])) for at in profile.points},
    )


def check_file(profile: RequestProfile, source: str) -> None:
    """Refuse a user's file that a profile cannot be measured with, before any server runs.

    Raises:
        UsageError: a line is no prompt, or none for this API; there are too few prompts, or one is there twice.
    """
    if isinstance(profile.prompts, PromptFile):
        _usable(profile, profile.prompts, source)


def _body(profile: RequestProfile, prompt: Prompt, *, model: str = "", at: Level | None = None) -> bytes:
    return encode_body(request_body(profile, model=model, prompt=prompt, at=at))


def _wanted(profile: RequestProfile) -> list[tuple[Level | None, int]]:
    """Return how many prompts each part needs, in the order in which they are taken; `None` is the warm-up."""
    return [(None, profile.warmup_requests), *profile.requests.items()]


def _prompts(profile: RequestProfile, source: str, tokenize: Tokenize) -> Iterator[Prompt]:
    """Yield prompts, without end but for files, and none twice."""
    if isinstance(profile.prompts, PromptFile):
        found = _usable(profile, profile.prompts, source)
        if profile.input_tokens is None or not profile.prompts.is_text:
            return _file_prompts(profile, found, tokenize=tokenize)
    assert profile.input_tokens is not None, "the profile allows that for files only"
    draw = np.random.Generator(np.random.PCG64(profile.order_seed))
    if profile.prompts == "random":
        return _random_prompts(source, length=profile.input_tokens, draw=draw, tokenize=tokenize)
    return _cut_prompts(source, length=profile.input_tokens, draw=draw, count=lambda text: len(tokenize(text)))


def _usable(profile: RequestProfile, file: PromptFile, source: str) -> tuple[FilePrompt, ...]:
    """Return the prompts of a file that will be taken; of a text that prompts are cut from, its paragraphs."""
    found = read_prompts(file, source)
    cut_from = file.is_text and profile.input_tokens is not None
    needed = sum(count for _, count in _wanted(profile))
    if len(found) < (1 if cut_from else needed):
        raise UsageError(
            f"{file.name} has {len(found)} prompts, and the profile needs {needed}, {profile.warmup_requests} of them "
            f"for the warm-up: add prompts to it, or lower requests or warmup_requests"
        )
    if cut_from:
        return found
    for prompt in found[:needed]:
        _refuse_unfit(profile, prompt)
    _refuse_repeated(profile, [(prompt.place, prompt.content) for prompt in found[:needed]])
    return found[:needed]


def _refuse_repeated(profile: RequestProfile, prompts: Iterable[tuple[str, Prompt]]) -> None:
    """Refuse a prompt that goes out as one before it, at whatever temperature: the prefix cache would answer it."""
    places: dict[bytes, str] = {}
    for place, content in prompts:
        before = places.setdefault(_body(profile, content), place)
        if before != place:
            raise UsageError(
                f"{place} is the same prompt as {before}, out of the prefix cache: take one of the two out"
            )


def _refuse_unfit(profile: RequestProfile, prompt: FilePrompt) -> None:
    chat = profile.api == "chat"
    if chat and token_ids(prompt.content):
        raise UsageError(f"{prompt.place} has token ids, which the chat API does not take: set api='completions'")
    if not chat and is_conversation(prompt.content):
        raise UsageError(f"{prompt.place} has messages, which only the chat API takes: set api='chat'")
    if profile.input_tokens is not None and is_conversation(prompt.content):
        raise UsageError(f"{prompt.place} has messages, which cannot be cut to a length: set input_tokens=None")


def _file_prompts(profile: RequestProfile, prompts: Sequence[FilePrompt], *, tokenize: Tokenize) -> Iterator[Prompt]:
    """Give the prompts of a file, cut if they have to be; what differs only beyond the cut is one prompt twice."""
    cut = [(prompt.place, _cut_prompt(prompt, length=profile.input_tokens, tokenize=tokenize)) for prompt in prompts]
    _refuse_repeated(profile, cut)
    return iter([content for _, content in cut])


def _cut_prompt(prompt: FilePrompt, *, length: int | None, tokenize: Tokenize) -> Prompt:
    """Return a prompt of a file as it is, or its beginning of an exact length."""
    content = prompt.content
    if length is None:
        return content
    cut = content[:length] if isinstance(content, list) else _cut_text(str(content), length=length, tokenize=tokenize)
    if cut is None or len(tokenize(cut)) != length:
        raise UsageError(
            f"{prompt.place} has no beginning of exactly input_tokens={length} tokens (it has "
            f"{len(tokenize(content))}): take it out, lower input_tokens, or set input_tokens=None"
        )
    return cut


def _cut_text(text: str, *, length: int, tokenize: Tokenize) -> str | None:
    return cut_to(text, length=length, count=lambda beginning: len(tokenize(beginning)))


def _random_prompts(source: str, *, length: int, draw: np.random.Generator, tokenize: Tokenize) -> Iterator[Prompt]:
    """Yield token ids drawn evenly from those of a text: ids of a real vocabulary, and none of a special token."""
    # What two texts without a letter in common share is added to every text.
    added = {*tokenize("a")} & {*tokenize("b")}
    vocabulary = sorted({*tokenize(source)} - added)
    seen: set[tuple[int, ...]] = set()
    while len(vocabulary) ** length > len(seen):
        ids = tuple(vocabulary[place] for place in draw.integers(len(vocabulary), size=length))
        if ids not in seen:
            seen.add(ids)
            yield list(ids)
    raise UsageError(f"input_tokens={length}: there are only {len(seen)} prompts of that length; ask for longer ones")


def _cut_prompts(source: str, *, length: int, draw: np.random.Generator, count: CountTokens) -> Iterator[Prompt]:
    """Yield prompts of exactly `length` tokens, each of all paragraphs in an order of its own."""
    paragraphs = [part.strip() for part in source.split("\n\n") if part.strip()]
    seen: set[str] = set()
    while True:
        prompt = _prompt(paragraphs, seen, length=length, page=len(seen) + 1, draw=draw, count=count)
        seen.add(prompt)
        yield prompt


def _prompt(  # noqa: PLR0913  - one prompt is fixed by these
    paragraphs: Sequence[str],
    seen: set[str],
    *,
    length: int,
    page: int,
    draw: np.random.Generator,
    count: CountTokens,
) -> str:
    """Cut one prompt of exactly `length` tokens; the page number at its head makes it unlike all others."""
    for _ in range(_TRIES):
        order = draw.permutation(len(paragraphs))
        text = _long_enough([f"Page {page}.", *(paragraphs[i] for i in order)], length=length, count=count)
        cut = cut_to(text, length=length, count=count)
        if cut is not None and cut not in seen:
            return cut
    raise UsageError(
        f"input_tokens={length}: no prompt number {page} of exactly that length can be cut from the corpus; "
        f"ask for longer ones"
    )


def _long_enough(parts: Sequence[str], *, length: int, count: CountTokens) -> str:
    """Join parts, repeating them if need be, until the text has at least `length` tokens."""
    taken: list[str] = []
    characters = 0
    endless = itertools.cycle(parts)
    while characters <= _LONGEST_TOKEN * length + _LONGEST_TOKEN**2:
        part = next(endless)
        taken.append(part)
        characters += len(part)
        if characters >= 2 * length and count("\n\n".join(taken)) >= length:
            return "\n\n".join(taken)
    raise UsageError(f"input_tokens={length}: the server counts fewer tokens in {characters} characters of text")


def cut_to(text: str, *, length: int, count: CountTokens) -> str | None:
    """Return a beginning of `text` that has exactly `length` tokens, without blanks at its end.

    The count of a beginning grows almost, but not strictly, with its length (a cut inside a word may cost a token), so
    a bisection is followed by a look at its neighbourhood. `None` when no such beginning was found.
    """
    low, high = 0, len(text)
    while low < high:
        middle = (low + high) // 2
        if count(text[:middle].rstrip()) < length:
            low = middle + 1
        else:
            high = middle
    for end in sorted(range(max(1, low - 6), min(len(text), low + 6) + 1), key=lambda end: abs(end - low)):
        beginning = text[:end].rstrip()
        if count(beginning) == length:
            return beginning
    return None
