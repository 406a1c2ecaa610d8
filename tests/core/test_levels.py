"""Load levels: one spelling each, in JSON too, in rising order."""

from __future__ import annotations

import itertools
import math

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
    level_told,
    normal_level,
    rate_per_s,
    temperature_of,
    with_temperature,
    without_temperature,
)
from pytest_specgate.core.profile import RequestProfile

PROFILES = pydantic.TypeAdapter(RequestProfile)
LEVELS = pydantic.TypeAdapter[Level](Level)

CONCURRENCIES = st.integers(1, 10_000)
RATES = st.one_of(
    st.integers(1, 10_000).map(lambda rate: f"{rate}/s"),
    st.decimals(min_value="0.0001", max_value="1000", places=6).map(lambda rate: f"{rate:f}/s"),
)
LOADS = CONCURRENCIES | RATES
TEMPERATURES = st.floats(0, 100)
NOT_DRAWN = 1000.0
"""A temperature of a profile that no level has as its own."""

WARM = st.builds(
    lambda load, temperature, room: f"{load}{room[0]}T{room[1]}={room[2]}{temperature}",
    LOADS,
    st.decimals(min_value=0, max_value=100, places=3).map(lambda temperature: f"{temperature:f}"),
    st.tuples(*[st.sampled_from(["", " ", "\t "])] * 3),
)
ANY_LEVEL = LOADS | WARM


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
        ("8 T=0.8", "8 T=0.8"),
        ("4/s T=0.8", "4/s T=0.8"),
        (" 08  T = .80 ", "8 T=0.8"),
        ("8T=0.8", "8 T=0.8"),
        ("4.0 / sT=1.", "4/s T=1"),
        ("8 T=0", "8 T=0"),
        ("8 T=0.0", "8 T=0"),
        ("8 T=0.00001", "8 T=0.00001"),
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


@pytest.mark.parametrize(
    "value", ["8 T=nan", "8 T=-0.8", "8 T=inf", "8 T=", "8 T=warm", "8 T=1e-1", "8 T=0.8 T=1", f"8 T={'9' * 400}"]
)
def test_what_is_no_temperature_is_refused(value: str) -> None:
    """A level whose temperature is no finite number of 0 or more is refused with its text and an example."""
    with pytest.raises(ValueError, match=r"that can be sent: write a number of 0 or more, as '8 T=0\.8'") as raised:
        normal_level(value)

    assert str(raised.value).startswith(f"{value!r} has no temperature ")


@pytest.mark.parametrize("value", ["T=0.8", "c=8 T=0.8", "8 t=0.8", "8.0 T=0.8", "4 rps T=0.8", f"{'9' * 5000} T=0.8"])
def test_a_temperature_of_no_load_is_refused(value: str) -> None:
    """A temperature stands behind a load; the message shows how."""
    with pytest.raises(ValueError, match=r"'4/s', either with a temperature of its own as '8 T=0\.8'") as raised:
        normal_level(value)

    assert str(raised.value).startswith(f"{value!r} is no load level: ")


def test_a_concurrency_of_nothing_has_no_temperature() -> None:
    """No worker sends nothing, at whatever temperature."""
    with pytest.raises(ValueError, match="a concurrency of 0 sends nothing: write 1 or more"):
        normal_level("0 T=0.8")


@pytest.mark.parametrize("temperature", [-0.1, math.nan, math.inf])
def test_a_level_takes_no_temperature_that_cannot_be_sent(temperature: float) -> None:
    """What no engine would take is refused before it is spelt."""
    with pytest.raises(ValueError, match="cannot be sent: write a number of 0 or more"):
        with_temperature(8, temperature)


def test_a_temperature_of_minus_nothing_is_0() -> None:
    """The two zeros of floating-point numbers are one temperature."""
    assert with_temperature(8, -0.0) == "8 T=0"


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
    [
        (8, "c=8", "c8", 8, None),
        ("4/s", "4/s", "r4", None, 4.0),
        ("0.25/s", "0.25/s", "r0.25", None, 0.25),
        ("8 T=0.8", "c=8 T=0.8", "c8-t0.8", 8, None),
        ("0.25/s T=1", "0.25/s T=1", "r0.25-t1", None, 0.25),
    ],
)
def test_names_of_a_level(level: Level, label: str, name: str, concurrency: int | None, rate: float | None) -> None:
    """A level has a label to read, an id for keys, and a concurrency or a rate, never both."""
    assert (level_label(level), level_id(level)) == (label, name)
    assert (concurrency_of(level), rate_per_s(level)) == (concurrency, rate)


@pytest.mark.parametrize(
    ("level", "temperature", "told"),
    [
        (8, 0.8, "c=8 (temperature 0.8)"),
        ("4/s", 1.0, "4/s (temperature 1)"),
        (8, 0.0, "c=8"),
        (8, None, "c=8"),
        ("8 T=0.8", 0.8, "c=8 T=0.8"),
        ("8 T=0", 0.0, "c=8 T=0"),
    ],
)
def test_a_temperature_stands_beside_a_level_that_does_not_name_it(
    level: Level, temperature: float | None, told: str
) -> None:
    """Nobody takes a profile of temperature 0.8 for a greedy one; where the label tells it, it is not told twice."""
    assert level_told(level, temperature) == told


def test_keys_of_objects_stand_for_numbers_in_json_only() -> None:
    """JSON writes every key as text, and a number as a key comes back as one; in a gate file a text is no number."""
    assert LEVELS.validate_json('"8"') == 8
    assert LEVELS.validate_json("8") == 8
    assert LEVELS.validate_json('"4/s"') == "4/s"
    assert LEVELS.validate_json('"8 T=.80"') == LEVELS.validate_python("8 T=.80") == "8 T=0.8"
    with pytest.raises(pydantic.ValidationError, match="'8' is no load level"):
        LEVELS.validate_python("8")


@given(ANY_LEVEL)
def test_a_level_is_its_own_spelling(written: object) -> None:
    """What was normalised once is not changed again, and keeps its value."""
    level = normal_level(written)

    assert normal_level(level) == level
    if isinstance(written, str):
        load, _, temperature = written.partition("T")
        number, per, _ = load.partition("/s")
        assert (rate_per_s(level) if per else concurrency_of(level)) == float(number)
        assert temperature_of(level) == (float(temperature.strip().removeprefix("=")) if temperature else None)


@given(ANY_LEVEL.map(normal_level), TEMPERATURES)
def test_a_temperature_is_put_to_a_load_and_taken_away(level: Level, temperature: float) -> None:
    """The load stays what it was, the temperature is the last one given, and the outcome is a level in its spelling."""
    warm, bare = with_temperature(level, temperature), without_temperature(level)

    assert normal_level(warm) == warm
    assert temperature_of(warm) == temperature
    assert temperature_of(bare) is None
    assert without_temperature(warm) == bare
    assert (concurrency_of(warm), rate_per_s(warm)) == (concurrency_of(bare), rate_per_s(bare))


def test_temperatures_of_one_load_rise() -> None:
    """That of the profile comes first, then rising; a heavier load comes later, however cold it is."""
    levels: list[Level] = ["4/s T=0", 8, "8 T=1", "4/s", "8 T=0.8", "32 T=0", "8 T=0"]

    assert sorted(levels, key=level_order) == [8, "8 T=0", "8 T=0.8", "8 T=1", "32 T=0", "4/s", "4/s T=0"]


@given(st.lists(ANY_LEVEL.map(normal_level), min_size=1, max_size=6, unique=True))
def test_levels_of_a_profile_survive_json(levels: list[Level]) -> None:
    """A profile comes back from JSON with the same levels, of the same types, in the same order."""
    profile = RequestProfile(
        input_tokens=4, output_tokens=4, requests=dict.fromkeys(levels, 10_000), temperature=NOT_DRAWN
    )

    read = PROFILES.validate_json(PROFILES.dump_json(profile))

    assert read == profile
    assert read.points == profile.points
    assert [type(level) for level in read.points] == [type(level) for level in profile.points]


@given(st.lists(ANY_LEVEL.map(normal_level), min_size=1, max_size=8, unique=True))
def test_levels_come_in_rising_order(levels: list[Level]) -> None:
    """Concurrencies come first, then rates, each kind rising, whatever the order of writing."""
    profile = RequestProfile(
        input_tokens=4, output_tokens=4, requests=dict.fromkeys(levels, 10_000), temperature=NOT_DRAWN
    )
    kinds = [rate_per_s(level) is not None for level in profile.points]
    workers = [number for level in profile.points if (number := concurrency_of(level)) is not None]
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
