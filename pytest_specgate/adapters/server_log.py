"""What a server prints: its beginning and its end, as people are shown them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.redaction import REDACTED, redacted_text

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_TAIL_BYTES = 4_000_000
_HEAD_BYTES = 1_000_000
_TAIL_LINES = 30
FIRST_ERROR: Final = "first error: "
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\x7f-\x9f]")
_ERROR = re.compile(r"(?:^|\s)[A-Za-z_.]*(?:Error|Exception): \S")
_PREFIX = re.compile(r"^(?:\([^()]*\bpid=\d+\) ?)?(?:ERROR [\d:. -]+\[[^\]]*\] ?)?")
_ANSWERED = re.compile(r'"(GET|POST|HEAD) [^"]*" 2\d\d\b')


class ServerLog:
    """The file that a server prints to.

    Args:
        path: of the file.
        secrets: texts that are never shown, whoever prints them; longer ones come first.
    """

    def __init__(self, path: Path, *, secrets: Iterable[str]) -> None:
        self._path = path
        self._secrets = tuple(secrets)

    def head(self) -> str:
        """Return the beginning of what was printed, without control characters and secrets, in whole lines."""
        try:
            with self._path.open("rb") as file:
                text = file.read(_HEAD_BYTES).decode("utf-8", errors="replace")
        except OSError:
            return ""
        return self.cleaned(text.rpartition("\n")[0].replace("\r\n", "\n").replace("\r", "\n"))

    def tail(self) -> str:
        """Return the last lines that were printed, without control characters and secrets.

        Access lines of requests that went well are left out: they would push the cause out of sight. The first error
        stands before them where they do not reach back to it: engines end with "see root cause above".
        """
        try:
            with self._path.open("rb") as file:
                start = max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
                file.seek(start)
                text = file.read().decode("utf-8", errors="replace")
        except OSError:
            return ""
        # A beginning in the middle of a line could hide what gives a secret away.
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        text = text.partition("\n")[2] if start else text
        lines = [line for line in self.cleaned(text).splitlines() if not _ANSWERED.search(line)]
        first = next((place for place, line in enumerate(lines) if _ERROR.search(line)), len(lines))
        cause = [f"{FIRST_ERROR}{_PREFIX.sub('', lines[first])}"] if first < len(lines) - _TAIL_LINES else []
        return "\n".join([*cause, *lines[-_TAIL_LINES:]])

    def cleaned(self, text: str) -> str:
        """Return text without control characters and secrets."""
        text = _CONTROL.sub("", text)
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return redacted_text(text)


def last_words(tail: str) -> str:
    """Return the last line of a log, or the first error where that line only points to it, as the end of a sentence."""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    if not lines:
        return ", having printed nothing"
    pointed = "root cause above" in lines[-1] and lines[0].startswith(FIRST_ERROR)
    return f": {lines[0].removeprefix(FIRST_ERROR)[:300] if pointed else lines[-1][:200]}"
