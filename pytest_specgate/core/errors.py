"""The exception tree of the package.

::

    SpecgateError
    ├── UsageError            the user's mistake: a gate file, an option, an input file
    ├── ServerError           an engine did not do what it should
    │   ├── ServerStartError  ... while starting (carries exit code and log tail)
    │   └── ServerDiedError   ... while it was in use
    ├── LoadError             the load client itself failed
    ├── InvalidError          a measurement that must not be read
    ├── ScrapeError           a metrics or information page could not be read
    └── RecordError           a stored file cannot be read or is of another schema

Each message is one sentence that names the thing, the place and the remedy.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class SpecgateError(Exception):
    """Base of everything this package raises on purpose."""


class UsageError(SpecgateError):
    """A mistake in a gate file, an option or an input; its message needs no traceback."""


class ServerError(SpecgateError):
    """An engine process failed.

    Attributes:
        exit_code: exit status of the process, `None` while it lives or when it is unknown.
        log_tail: last lines of what the process printed, without control characters and secrets.
        command: what was started, as a user would type it.
    """

    def __init__(self, message: str, *, exit_code: int | None = None, log_tail: str = "", command: str = "") -> None:
        super().__init__(message)
        self.command = command
        self.exit_code = exit_code
        self.log_tail = log_tail


class ServerStartError(ServerError):
    """An engine died, or was not ready in time, while starting."""


class ServerDiedError(ServerError):
    """An engine that had been ready left or stopped answering."""


class LoadError(SpecgateError):
    """The load client failed: one of its processes left, or cannot share a clock with the others."""


class InvalidError(SpecgateError):
    """A measurement must not be read: profiles differ, a boot failed, or nothing was measured.

    Attributes:
        reason: code of the reason, as verdicts have it.
    """

    def __init__(self, message: str, *, reason: str = "invalid") -> None:
        super().__init__(message)
        self.reason = reason


class ScrapeError(SpecgateError):
    """A metrics or information page is missing, empty or unreadable."""


class RecordError(SpecgateError):
    """A stored record cannot be read: broken text, wrong types or an unknown schema version."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, as ``"; did you mean 'x'?"``, or ``""``."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {matches[0]!r}?" if matches else ""
