"""Secrets among the words of a command line and among the variables of an environment."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.redaction import REDACTED, redacted, redacted_text, secrets_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic import JsonValue

_ENDS: Final = ";&|()<>`"
"""Ends a command, or a value, in a shell."""

_LEAST: Final = 8
"""Shorter values of variables that nobody gave to a server are no keys, and stand in every log."""


def redacted_words(words: Iterable[str], *, lists: bool = False) -> list[str]:
    """Return the words of a command line without the values of secret options and variables.

    Args:
        words: as ``--name value``, ``--name=value``, ``NAME=value`` or anything else.
        lists: whether an option has all words up to the next one; else the first.
    """
    return [
        before + (REDACTED if _is_secret(name) else _redacted_value(value))
        for before, name, value in _values(words, lists=lists)
    ]


def redacted_command(words: Iterable[str], *, lists: bool = False) -> str:
    """Return a command line as it would be typed, without secrets; see `redacted_words`."""
    return redacted_text(shlex.join(redacted_words(words, lists=lists)))


def secrets_of_words(words: Iterable[str], *, lists: bool = False) -> set[str]:
    """Return the values of secret options and variables on a command line; see `redacted_words`."""
    found: set[str] = set()
    for _, name, value in _values(words, lists=lists):
        if value and _is_secret(name):
            # Of a shell's text the value ends sooner: whichever was meant is a secret.
            found |= {value, *(text for text in _inside(f"{name}={value}") if len(text) >= _LEAST)}
        else:
            found |= secrets_in(_json(value)) | _inside(value)
    return found


def _inside(value: str) -> set[str]:
    """Return the secrets of a command line inside a word, as a shell is given one: ``export MY_TOKEN=x; exec vllm``."""
    if not any(character.isspace() for character in value) or _json(value) is not None:
        return set()
    return secrets_of_words(_shell_words(value))


def _shell_words(text: str) -> list[str]:
    """Return the words of a shell's text; what ends a command is a word of its own, and ends the value before it."""
    words = shlex.shlex(text, posix=True, punctuation_chars=_ENDS)
    words.whitespace_split, words.commenters = True, ""
    try:
        return list(words)
    except ValueError:
        # A quotation without an end is no command, and may hold a secret all the same.
        return [word.strip("\"'`") for word in re.split(rf"[\s{re.escape(_ENDS)}]+", text)]


def _redacted_value(value: str) -> str:
    """Return a value without secrets; one in JSON is read, since names inside it tell what is a secret."""
    parts = _json(value)
    safe = redacted(parts)
    return redacted_text(_without(value) if safe == parts else json.dumps(safe, ensure_ascii=False))


def _without(value: str) -> str:
    """Return a word without the secrets of a command line inside it; nothing of it where one cannot be found again."""
    found = sorted(_inside(value) - {REDACTED}, key=lambda text: (-len(text), text))
    if not found:
        return value
    for secret in found:
        value = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", lambda _: REDACTED, value)
    return REDACTED if _inside(value) - {REDACTED} else value


def _json(value: str) -> JsonValue:
    """Return the mapping or list that a value is in JSON; nothing for plain words."""
    try:
        found: JsonValue = json.loads(value) if value.lstrip().startswith(("{", "[")) else None
    except (ValueError, RecursionError):
        return None
    return found


def secrets_of_environment(environment: Mapping[str, str]) -> set[str]:
    """Return the values of variables whose names give them away; short ones are no secrets."""
    return {value for name, value in environment.items() if len(value) >= _LEAST and _is_secret(name)}


def _values(words: Iterable[str], *, lists: bool) -> Iterator[tuple[str, str, str]]:
    """Yield of every word what stands before its value, the name of what it sets, and the value."""
    option = ""
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            option = "" if equals else name
            yield (f"{name}=", name.lstrip("-"), value) if equals else (word, "", "")
        elif equals and name.isidentifier():
            yield f"{name}=", name, value
        else:
            yield "", option.lstrip("-"), word
            option = option if lists else ""


def _is_secret(name: str) -> bool:
    return redacted("-", name=name) == REDACTED
