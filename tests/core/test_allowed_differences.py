"""Differences between servers that a pair allows: by names that can match, and with a reason."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from tests.core.conftest import Build


@pytest.mark.parametrize("name", ["", " ", ".", "scheduler_config.", ".scheduler_config", " scheduler_config", "x\n"])
def test_names_of_differences_that_match_nothing_are_refused(build: type[Build], name: str) -> None:
    """Whoever allows a difference by such a name would learn only under strict that it is not allowed."""
    with pytest.raises(UsageError) as raised:
        dataclasses.replace(build.pair(), allow_engine_differences={"cache_config.x": "looked at", name: "looked at"})

    assert str(raised.value) == (
        f"ArmPair: allow_engine_differences has {name!r}, which matches nothing: write an id as reports show it, or "
        "whole names from its beginning, as 'scheduler_config'"
    )


@pytest.mark.parametrize("reason", ["", "   ", "\n\t ", " x "])
def test_a_difference_is_allowed_with_a_reason(build: type[Build], reason: str) -> None:
    """Blanks give no reason."""
    with pytest.raises(UsageError, match=r"^ArmPair\.allow_engine_differences\.x: string should have at least 3 "):
        dataclasses.replace(build.pair(), allow_engine_differences={"x": reason})

    pair = dataclasses.replace(build.pair(), allow_engine_differences={"x": " off on a CPU\n", "log:a b": "told"})
    assert pair.allow_engine_differences == {"x": "off on a CPU", "log:a b": "told"}
