"""Prompts out of a user's file: what a gate file declares, and how the text of the file is read."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import JsonValue, field_validator

from pytest_specgate.core.declared import declaration
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import UnionType

    Pathlike: TypeAlias = str | PurePath
else:
    # `str` is what is kept: a record is read on machines whose paths look otherwise.
    Pathlike: TypeAlias = str

Prompt: TypeAlias = JsonValue
"""What is asked: a text, token ids (a list of whole numbers), or the messages of a conversation (a list of objects)."""

TEXT: Final = ".txt"
LINES: Final = ".jsonl"
_KEYS: Final = ("prompt", "messages")
_FORMS: Final = 'a JSON text, a list of token ids, or an object with "prompt" or "messages"'


@declaration
class PromptFile:
    """A file of the user's own prompts.

    ``prompts.txt``: paragraphs, separated by blank lines. With `input_tokens` prompts of that length are cut from them,
    as from the corpora of this package; with ``input_tokens=None`` each paragraph is one prompt.

    ``prompts.jsonl``: one prompt a line: a JSON text, a list of token ids, or an object with ``prompt`` (either of the
    two) or ``messages`` (a conversation, for ``api="chat"``) and no other key: all else of a request is the profile's.
    With `input_tokens` each is cut to that length, and one that is shorter is refused; with ``input_tokens=None`` they
    are sent as they are. Prompts are taken in the order of the file, those of the warm-up first, and no prompt twice.

    Attributes:
        path: of the file, relative to pytest's root folder.
    """

    path: Pathlike

    @field_validator("path", mode="before")
    @classmethod
    def _as_text(cls, path: object) -> object:
        text = str(path) if isinstance(path, PurePath) else path
        if isinstance(text, str) and PurePath(text).suffix not in {TEXT, LINES}:
            raise ValueError(f"path={text!r} is neither text ({TEXT}) nor one JSON value a line ({LINES})")
        return text

    @property
    def name(self) -> str:
        """The path, as texts name it."""
        return str(self.path)

    @property
    def is_text(self) -> bool:
        """Whether it holds paragraphs."""
        return PurePath(self.path).suffix == TEXT


@dataclasses.dataclass(frozen=True, slots=True)
class FilePrompt:
    """One prompt of a file.

    Attributes:
        place: where it begins, as ``prompts.jsonl:17``.
        content: the prompt.
    """

    place: str
    content: Prompt


def read_prompts(file: PromptFile, text: str) -> tuple[FilePrompt, ...]:
    """Read the prompts of a file.

    Args:
        file: its declaration.
        text: what it holds.

    Raises:
        UsageError: a line is no prompt.
    """
    # Line ends as they are: U+2028 inside a JSON text is none.
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    read = _paragraphs if file.is_text else _values
    return tuple(FilePrompt(f"{file.name}:{number}", content) for number, content in read(file, lines))


def _paragraphs(_: PromptFile, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield each paragraph with the number of its first line."""
    begun, paragraph = 0, list[str]()
    for number, line in enumerate([*lines, ""], start=1):
        if line.strip():
            begun = begun if paragraph else number
            paragraph.append(line)
        elif paragraph:
            yield begun, "\n".join(paragraph).strip()
            paragraph = []


def _values(file: PromptFile, lines: list[str]) -> Iterator[tuple[int, Prompt]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield number, _prompt_of(_value_of(line))
        except (ValueError, RecursionError) as error:
            what = str(error) if isinstance(error, _NoPromptError) else "no JSON"
            raise UsageError(f"{file.name}:{number} is {what}: write one prompt a line, as {_FORMS}") from None


class _NoPromptError(ValueError):
    """A line is no prompt; the text says what it is instead."""


def _value_of(line: str) -> Any:
    """Read one line of JSON, so that what is read can be sent again.

    Raises:
        _NoPromptError: it holds what JSON cannot say, or what no reader keeps.
        ValueError: it is no JSON.
    """
    value = json.loads(line, parse_constant=_no_number, parse_float=_number, object_pairs_hook=_keys_once)
    text = json.dumps(value, ensure_ascii=False)
    if text != text.encode("utf-8", "replace").decode():
        raise _NoPromptError(f"no text but half a character, {_short(value)}")
    return value


def _prompt_of(value: Any) -> Prompt:
    """Return the prompt that a line stands for.

    Raises:
        _NoPromptError: it is none.
    """
    if isinstance(value, dict):
        if unknown := [key for key in value if key not in _KEYS]:
            raise _NoPromptError(f"an object with {_short(unknown[0])}, which is none of the known keys {_known()}")
        if ("prompt" in value) == ("messages" in value):
            raise _NoPromptError(f"an object without one of {_known()}")
        return _conversation(value["messages"]) if "messages" in value else _plain(value["prompt"])
    return _plain(value)


def _known() -> str:
    return " and ".join(f'"{key}"' for key in _KEYS)


def _no_number(text: str) -> None:
    raise _NoPromptError(f"no JSON, which has no {text}")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NoPromptError(f"no JSON that can be read, for {text} is out of range")
    return number


def _keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if key in dict(pairs[:place]))
        raise _NoPromptError(f"an object with {_short(twice)} twice")
    return found


def _plain(value: Any) -> Prompt:
    if isinstance(value, str) and value.strip():
        return value
    ids = isinstance(value, list) and all(isinstance(item, int) and item >= 0 for item in value)
    if ids and value and not any(isinstance(item, bool) for item in value):
        return list(value)
    raise _NoPromptError("an empty prompt" if value in ("", []) else f"no prompt but {_short(value)}")


def _conversation(value: Any) -> Prompt:
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise _NoPromptError(f"no conversation but {_short(value)}, where a list of objects with a role belongs")
    for message in value:
        if not isinstance(message.get("role"), str) or not message["role"]:
            raise _NoPromptError(f"no conversation, for the role of {_short(message)} is no text")
        if not _says(message):
            raise _NoPromptError(
                f"no conversation, for {_short(message)} has neither content (a text, or a list of its parts) nor "
                f"tool_calls (a list of objects)"
            )
    return list(value)


def _says(message: dict[str, Any]) -> bool:
    """Whether a message of a conversation has a content, or calls tools instead."""
    content, calls = message.get("content"), message.get("tool_calls")
    if content is None:
        return _are(calls, dict)
    return isinstance(content, str) or _are(content, dict | str)


def _are(items: object, kind: type | UnionType) -> bool:
    return isinstance(items, list) and bool(items) and all(isinstance(item, kind) for item in items)


def is_conversation(prompt: Prompt) -> bool:
    """Whether a prompt is the messages of a conversation."""
    return isinstance(prompt, list) and isinstance(prompt[0], dict)


def token_ids(prompt: Prompt) -> list[int]:
    """Return the token ids of a prompt that is a list of them; nothing of any other."""
    return [item for item in prompt if isinstance(item, int)] if isinstance(prompt, list) else []


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
