"""Older window records, brought to today's form: pure, one step a version, nothing invented for what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.records import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Stored: TypeAlias = dict[str, Any]

VERSION: Final = "schema_version"

_NEVER: Final = {1: "it does not know whether its client kept up with the server, so nothing of it can be judged"}
"""Versions that cannot be brought forward, and why."""


def migrated(stored: Stored) -> Stored:
    """Return a window record in today's form.

    Args:
        stored: as it was read, of any version.

    Raises:
        RecordError: it names no version, one that is newer than this package, or one that cannot be brought forward.
    """
    version = stored.get(VERSION)
    if not isinstance(version, int) or isinstance(version, bool):
        raise RecordError(f"{VERSION} is {version!r}, and a whole number is wanted: this is no window record")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"it has schema version {version}, and this pytest-specgate knows versions up to {SCHEMA_VERSION}: "
            f"update pytest-specgate"
        )
    if version in _NEVER or version < 1:
        raise RecordError(f"it has schema version {version}: {_NEVER.get(version, 'there is no such version')}")
    found = stored
    for step in range(version, SCHEMA_VERSION):
        found = {**_STEPS[step](found), VERSION: step + 1}
    return found


def _from_2(stored: Stored) -> Stored:
    """Version 3 knows more, and nothing else has changed: what it adds stays unknown."""
    return stored


_STEPS: Final[dict[int, Callable[[Stored], Stored]]] = {2: _from_2}
