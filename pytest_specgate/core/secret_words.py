"""Secrets among the words of a command line and among the variables of an environment."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.redaction import REDACTED, redacted, redacted_text, secrets_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic import JsonValue

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
        found |= {value} if value and _is_secret(name) else secrets_in(_json(value))
    return found


def _redacted_value(value: str) -> str:
    """Return a value without secrets; one in JSON is read, since names inside it tell what is a secret."""
    parts = _json(value)
    safe = redacted(parts)
    return redacted_text(value if safe == parts else json.dumps(safe, ensure_ascii=False))


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
