"""Prompts of an exact token length, cut from a text whose tokens only the server can count."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.profile import encode_body, request_body

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.profile import RequestProfile

    CountTokens: TypeAlias = Callable[[str], int]

_TRIES = 8
_LONGEST_TOKEN = 100


@dataclasses.dataclass(frozen=True, slots=True)
class PromptSet:
    """The requests of a window, as bytes, made once and sent alike to every arm.

    Attributes:
        source_sha256: hash of the text that the prompts were cut from.
        warmup: bodies of the warm-up requests, in sending order.
        points: bodies of the measured requests by load level, in sending order.
    """

    source_sha256: str
    warmup: tuple[bytes, ...]
    points: dict[Level, tuple[bytes, ...]]


def build_prompts(
    profile: RequestProfile, *, source: str, source_sha256: str, model: str, count_tokens: CountTokens
) -> PromptSet:
    """Make all requests of a window; no prompt occurs twice, warm-up included.

    Args:
        profile: the load.
        source: corpus text, paragraphs separated by blank lines.
        source_sha256: its hash.
        model: name under which the server serves the model.
        count_tokens: the server's own count for a text, special tokens included.

    Raises:
        UsageError: no prompt of the exact length can be cut from the corpus.
    """
    paragraphs = [part.strip() for part in source.split("\n\n") if part.strip()]
    generator = np.random.Generator(np.random.PCG64(profile.order_seed))
    wanted: list[tuple[Level | None, int]] = [(None, profile.warmup_requests), *profile.requests.items()]
    page = 0
    seen: set[str] = set()
    parts: dict[Level | None, tuple[bytes, ...]] = {}
    for part, count in wanted:
        bodies = []
        for _ in range(count):
            page += 1
            prompt = _prompt(
                paragraphs, seen, length=profile.input_tokens, page=page, draw=generator, count=count_tokens
            )
            seen.add(prompt)
            bodies.append(encode_body(request_body(profile, model=model, prompt=prompt)))
        parts[part] = tuple(bodies)
    warmup = parts.pop(None)
    return PromptSet(source_sha256, warmup, {at: bodies for at, bodies in parts.items() if at is not None})


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
