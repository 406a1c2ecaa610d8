"""Prompts out of a user's file: what a gate file declares, and how the text of the file is read."""

from __future__ import annotations

import dataclasses
import json
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pydantic import JsonValue, field_validator

from pytest_specgate.core.declared import declaration
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    Pathlike: TypeAlias = str | PurePath
else:
    # `str` is what is kept: a record is read on machines whose paths look otherwise.
    Pathlike: TypeAlias = str

Prompt: TypeAlias = JsonValue
"""What is asked: a text, token ids (a list of whole numbers), or the messages of a conversation (a list of objects)."""

TEXT: Final = ".txt"
LINES: Final = ".jsonl"
_FORMS: Final = 'a JSON text, a list of token ids, or an object with "prompt" or "messages"'


@declaration
class PromptFile:
    """A file of the user's own prompts.

    ``prompts.txt``: paragraphs, separated by blank lines. With `input_tokens` prompts of that length are cut from them,
    as from the corpora of this package; with ``input_tokens=None`` each paragraph is one prompt.

    ``prompts.jsonl``: one prompt a line: a JSON text, a list of token ids, or an object with ``prompt`` (either of the
    two) or ``messages`` (a conversation, for ``api="chat"``). With `input_tokens` each is cut to that length, and one
    that is shorter is refused; with ``input_tokens=None`` they are sent as they are. Prompts are taken in the order of
    the file, those of the warm-up first, and no prompt twice.

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
            yield number, _prompt_of(json.loads(line, parse_constant=_no_number))
        except (ValueError, RecursionError) as error:
            what = "no JSON" if isinstance(error, json.JSONDecodeError | RecursionError) else str(error)
            raise UsageError(f"{file.name}:{number} is {what}: write one prompt a line, as {_FORMS}") from None


def _prompt_of(value: Any) -> Prompt:
    """Return the prompt that a line stands for.

    Raises:
        ValueError: it is none; the text says what it is instead.
    """
    if isinstance(value, dict):
        if ("prompt" in value) == ("messages" in value):
            raise ValueError('an object without one of "prompt" and "messages"')
        return _conversation(value["messages"]) if "messages" in value else _plain(value["prompt"])
    return _plain(value)


def _no_number(text: str) -> None:
    raise ValueError(f"no JSON, which has no {text}")


def _plain(value: Any) -> Prompt:
    if isinstance(value, str) and value.strip():
        if value != value.encode("utf-8", "replace").decode():
            raise ValueError(f"no text but half a character, {_short(value)}")
        return value
    ids = isinstance(value, list) and all(isinstance(item, int) and item >= 0 for item in value)
    if ids and value and not any(isinstance(item, bool) for item in value):
        return list(value)
    raise ValueError("an empty prompt" if value in ("", []) else f"no prompt but {_short(value)}")


def _conversation(value: Any) -> Prompt:
    messages = isinstance(value, list) and all(isinstance(item, dict) and "role" in item for item in value)
    if not messages or not value:
        raise ValueError(f"no conversation but {_short(value)}, where a list of objects with a role belongs")
    return list(value)


def is_conversation(prompt: Prompt) -> bool:
    """Whether a prompt is the messages of a conversation."""
    return isinstance(prompt, list) and isinstance(prompt[0], dict)


def token_ids(prompt: Prompt) -> list[int]:
    """Return the token ids of a prompt that is a list of them; nothing of any other."""
    return [item for item in prompt if isinstance(item, int)] if isinstance(prompt, list) else []


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
