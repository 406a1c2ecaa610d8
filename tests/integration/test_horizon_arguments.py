"""Arguments about draft horizons: one way to write a load level, wherever it is asked for."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.cli.horizon_arguments import horizon, levels_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.levels import level_id, level_label, normal_level

LOADS = st.one_of(
    st.integers(1, 5000), st.decimals("0.01", 500, places=2).map(lambda number: normal_level(f"{number}/s"))
)
LEVELS = st.one_of(
    LOADS, st.builds(lambda load, heat: normal_level(f"{load} T={heat}"), LOADS, st.decimals(0, 2, places=1))
)


@given(LEVELS)
def test_every_spelling_of_a_level_is_that_level(level: int | str) -> None:
    """Gate files, reports and ids each have their own, and it counts once."""
    assert levels_of([f"{level}", level_label(level), level_id(level), f" {level} "]) == [level]


@given(st.text().filter(lambda text: not any(sign.isdigit() for sign in text)))
def test_what_is_no_level_is_refused_in_one_sentence(text: str) -> None:
    """Whatever somebody types without a number is a usage error."""
    with pytest.raises(UsageError, match=r"^--at: "):
        levels_of([text])


@pytest.mark.parametrize("text", ["c1-t", "c1-t1.2.3", "r1.2.3", "c1.5", "r0", "9" * 5000, "8 T=", "c=", "--", "1e3"])
def test_what_is_nearly_a_level_is_refused(text: str) -> None:
    """And none of it ends in a traceback."""
    with pytest.raises(UsageError, match=r"^--at: "):
        levels_of([text])


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "k4", "", "9" * 5])
def test_what_is_no_horizon_is_refused(text: str) -> None:
    """Every command says it in the same words."""
    with pytest.raises(argparse.ArgumentTypeError, match="is no draft horizon: write 1 or more"):
        horizon(text)


def test_a_horizon_is_a_whole_number() -> None:
    """Leading zeros change nothing."""
    assert [horizon("4"), horizon("007")] == [4, 7]
