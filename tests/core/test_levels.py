"""Load levels: one spelling each, in JSON too, in rising order."""

from __future__ import annotations

import itertools

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.levels import (
    Level,
    concurrency_of,
    level_id,
    level_label,
    level_order,
    normal_level,
    rate_per_s,
)
from pytest_specgate.core.profile import RequestProfile

PROFILES = pydantic.TypeAdapter(RequestProfile)
LEVELS = pydantic.TypeAdapter[Level](Level)

CONCURRENCIES = st.integers(1, 10_000)
RATES = st.one_of(
    st.integers(1, 10_000).map(lambda rate: f"{rate}/s"),
    st.decimals(min_value="0.0001", max_value="1000", places=6).map(lambda rate: f"{rate:f}/s"),
)
ANY_LEVEL = CONCURRENCIES | RATES


@pytest.mark.parametrize(
    ("written", "level"),
    [
        (1, 1),
        (32, 32),
        ("4/s", "4/s"),
        ("4.0/s", "4/s"),
        ("4.50/s", "4.5/s"),
        (" 0.25 / s ", "0.25/s"),
        ("007/s", "7/s"),
        ("1000000/s", "1000000/s"),
    ],
)
def test_every_level_has_one_spelling(written: object, level: object) -> None:
    """A rate is spelt with as few digits as it has; a concurrency is a number."""
    assert normal_level(written) == level
    assert LEVELS.validate_python(written) == level


@pytest.mark.parametrize("number", [0, -1, -32])
def test_a_concurrency_of_nothing_is_refused(number: int) -> None:
    """No worker sends nothing."""
    with pytest.raises(ValueError, match=f"a concurrency of {number} sends nothing: write 1 or more"):
        normal_level(number)


@pytest.mark.parametrize(
    "value", [True, 4.0, None, "", "8", "c=8", "0/s", "0.0/s", "-4/s", "4", "4/min", "4/s/s", "1e3/s", "nan/s", [4]]
)
def test_what_is_no_level_is_refused(value: object) -> None:
    """Neither a number in quotes, nor a rate without its unit, nor one of nothing: the message shows both forms."""
    with pytest.raises(ValueError, match="no load level: write a concurrency as 8, an arrival rate as '4/s'"):
        normal_level(value)


def test_a_rate_beyond_all_numbers_is_refused() -> None:
    """A rate that no float can hold is no rate, not an infinite one."""
    with pytest.raises(ValueError, match="no load level"):
        normal_level(f"{'9' * 400}/s")


@pytest.mark.parametrize("rate", ["0.00005/s", "0.000012/s"])
def test_a_very_low_rate_is_written_out(rate: str) -> None:
    """A request every few hours is a rate like any other: spelt without an exponent, which would not be read back."""
    assert normal_level(rate) == rate
    assert LEVELS.validate_json(LEVELS.dump_json(normal_level(rate))) == rate


@pytest.mark.parametrize(
    ("level", "label", "name", "concurrency", "rate"),
    [(8, "c=8", "c8", 8, None), ("4/s", "4/s", "r4", None, 4.0), ("0.25/s", "0.25/s", "r0.25", None, 0.25)],
)
def test_names_of_a_level(level: Level, label: str, name: str, concurrency: int | None, rate: float | None) -> None:
    """A level has a label to read, an id for keys, and a concurrency or a rate, never both."""
    assert (level_label(level), level_id(level)) == (label, name)
    assert (concurrency_of(level), rate_per_s(level)) == (concurrency, rate)


def test_keys_of_objects_stand_for_numbers_in_json_only() -> None:
    """JSON writes every key as text, and a number as a key comes back as one; in a gate file a text is no number."""
    assert LEVELS.validate_json('"8"') == 8
    assert LEVELS.validate_json("8") == 8
    assert LEVELS.validate_json('"4/s"') == "4/s"
    with pytest.raises(pydantic.ValidationError, match="'8' is no load level"):
        LEVELS.validate_python("8")


@given(ANY_LEVEL)
def test_a_level_is_its_own_spelling(written: object) -> None:
    """What was normalised once is not changed again, and keeps its value."""
    level = normal_level(written)

    assert normal_level(level) == level
    if isinstance(written, str):
        assert rate_per_s(level) == float(written.removesuffix("/s"))


@given(st.lists(ANY_LEVEL.map(normal_level), min_size=1, max_size=6, unique=True))
def test_levels_of_a_profile_survive_json(levels: list[Level]) -> None:
    """A profile comes back from JSON with the same levels, of the same types, in the same order."""
    profile = RequestProfile(input_tokens=4, output_tokens=4, requests=dict.fromkeys(levels, 10_000))

    read = PROFILES.validate_json(PROFILES.dump_json(profile))

    assert read == profile
    assert read.points == profile.points
    assert [type(level) for level in read.points] == [type(level) for level in profile.points]


@given(st.lists(ANY_LEVEL.map(normal_level), min_size=1, max_size=8, unique=True))
def test_levels_come_in_rising_order(levels: list[Level]) -> None:
    """Concurrencies come first, then rates, each kind rising, whatever the order of writing."""
    profile = RequestProfile(input_tokens=4, output_tokens=4, requests=dict.fromkeys(levels, 10_000))
    kinds = [isinstance(level, str) for level in profile.points]
    workers = [level for level in profile.points if isinstance(level, int)]
    rates = [rate for level in profile.points if (rate := rate_per_s(level)) is not None]

    assert kinds == sorted(kinds)
    assert workers == sorted(workers)
    assert rates == sorted(rates)
    assert list(profile.points) == sorted(levels, key=level_order)


@given(st.lists(ANY_LEVEL.map(normal_level), min_size=2, max_size=8, unique=True))
def test_no_two_levels_share_a_name(levels: list[Level]) -> None:
    """Labels and ids tell all levels apart."""
    for one, other in itertools.combinations(levels, 2):
        assert level_label(one) != level_label(other)
        assert level_id(one) != level_id(other)
        assert level_order(one) != level_order(other)
