"""Tests that a plugin runs again: a verdict is of one measurement, however often its test runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

_RUNS_KEY: Final = pytest.StashKey[int]()
_SHOWN: Final = 3


def count_run(item: pytest.Item) -> int:
    """Count one more run of a test, and return its number: 1 for the first.

    pytest-rerunfailures also counts runs that ended before the test itself began.
    """
    number = item.stash.get(_RUNS_KEY, 0) + 1
    item.stash[_RUNS_KEY] = max(number, getattr(item, "execution_count", number))
    return item.stash[_RUNS_KEY]


def runs_of(item: pytest.Item) -> int:
    """Return how often a test has run so far."""
    return item.stash.get(_RUNS_KEY, 0)


def with_run(text: str, item: pytest.Item) -> str:
    """Add to a failure text, below its first line, that its test ran before; a first run needs no such line."""
    runs = runs_of(item)
    if runs < 2:
        return text
    first, newline, rest = text.partition("\n")
    note = f"    run {runs} of this test, judged by the same one measurement: a rerun is no new sample"
    return f"{first}\n{note}{newline}{rest}"


def rerun_lines(items: Iterable[tuple[str, pytest.Item]]) -> list[str]:
    """Say which tests ran more than once; nothing where none did.

    Args:
        items: the tests of gates, each with its id as a user would type it.
    """
    found = [f"{name} ({runs_of(item)} runs)" for name, item in items if runs_of(item) > 1]
    if not found:
        return []
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    names = ", ".join(found[:_SHOWN])
    return [f"run again by a plugin, and judged by the same one measurement each time: {names}{more}"]
