"""Arguments of commands that are about draft horizons: the horizon itself, and the load it was measured at."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.levels import Level

_DIGITS: Final = 4
"""Of a horizon, at most; what is longer was never typed for one."""

_MOST_DIGITS: Final = 100
"""Of a concurrency, at most: Python reads no number of several thousand."""

_ID: Final = re.compile(r"(?P<kind>[cr])(?P<load>[0-9.]+)(?:-t(?P<temperature>[0-9.]+))?")


def horizon(text: str) -> int:
    """Read a draft horizon; each command has its own upper limit.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isdecimal() or len(text) > _DIGITS or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no draft horizon: write 1 or more")
    return int(text)


def levels_of(texts: Sequence[str]) -> list[Level]:
    """Read load levels as gate files, reports or ids write them, each once: ``8``, ``c=8 T=0.8``, ``c8-t0.8``, ``4/s``.

    Raises:
        UsageError: one of them is none.
    """
    from pytest_specgate.core.levels import normal_level  # noqa: PLC0415  - see the package's docstring

    found: list[Level] = []
    for text in texts:
        plain = _plain(text)
        try:
            found.append(normal_level(int(plain) if plain.isdecimal() and len(plain) <= _MOST_DIGITS else plain))
        except ValueError as error:
            raise UsageError(f"--at: {error}") from error
    return list(dict.fromkeys(found))


def _plain(text: str) -> str:
    """Return a level as gate files write it."""
    stripped = text.strip()
    match = _ID.fullmatch(stripped)
    if match is None:
        return stripped.removeprefix("c=").lstrip()
    heat = "" if match["temperature"] is None else f" T={match['temperature']}"
    return f"{match['load']}{'/s' if match['kind'] == 'r' else ''}{heat}"
