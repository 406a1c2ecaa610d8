"""Load levels, arrivals and limits in a request profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.identity import observed_fields
from pytest_specgate.core.levels import with_temperature, without_temperature
from pytest_specgate.core.profile import (
    RequestProfile,
    arrival_words,
    check_point,
    declared_fields,
    ends_of,
    request_body,
)

if TYPE_CHECKING:
    from pytest_specgate.core.levels import Level
    from tests.core.conftest import Build


@pytest.mark.parametrize(
    ("requests", "words", "rates", "burstiness"),
    [
        ({1: 10, 8: 16}, "closed loop", None, None),
        ({"4/s": 10, "0.5/s": 10}, "open loop", [0.5, 4.0], 1.0),
        ({"4/s": 10, 8: 16}, "closed loop and open loop", [4.0], 1.0),
    ],
)
def test_arrival_is_part_of_the_load(
    build: type[Build], *, requests: dict[Any, int], words: str, rates: list[float] | None, burstiness: float | None
) -> None:
    """How requests arrive, at which rates and how bunched, is compared; a closed loop has neither of the two."""
    profile = build.profile(requests=requests)
    fields = declared_fields(profile)

    assert (arrival_words(profile), fields["arrival"]) == (words, words)
    assert (fields["arrival_rates_per_s"], fields["arrival_burstiness"]) == (rates, burstiness)


def test_requests_of_every_level_have_a_field(build: type[Build]) -> None:
    """The number of requests stands under the id of its level, whatever its kind."""
    fields = declared_fields(build.profile(requests={"4/s": 20, 8: 16}))

    assert (fields["requests.c8"], fields["requests.r4"], fields["concurrency_points"]) == (16, 20, [8])


def test_a_temperature_of_a_level_has_a_field(build: type[Build]) -> None:
    """Requests and temperature of each level stand under its id; one load at two temperatures is one load."""
    requests = {8: 16, "8 T=0.8": 24, "4/s T=0.8": 20, "4/s T=1": 20}
    fields = declared_fields(build.profile(requests=requests, temperature=0.5))

    assert {name: value for name, value in fields.items() if name.startswith(("requests.", "temperature"))} == {
        "requests.c8": 16,
        "requests.c8-t0.8": 24,
        "requests.r4-t0.8": 20,
        "requests.r4-t1": 20,
        "temperature": 0.5,
        "temperature.c8-t0.8": 0.8,
        "temperature.r4-t0.8": 0.8,
        "temperature.r4-t1": 1.0,
    }
    assert (fields["concurrency_points"], fields["arrival_rates_per_s"]) == ([8], [4.0])
    assert fields["arrival"] == "closed loop and open loop"


@pytest.mark.parametrize(
    ("requests", "temperature", "fingerprint"),
    [({1: 10, 8: 16}, 0.0, "6f13d6d36df2"), ({"0.5/s": 10, "4/s": 9}, 0.8, "a843648f0636")],
)
def test_profiles_without_temperatures_of_levels_keep_their_fingerprint(
    requests: dict[Any, int], temperature: float, fingerprint: str
) -> None:
    """Baselines and calibrations of committed files are found by it."""
    profile = RequestProfile(input_tokens=16, output_tokens=12, requests=requests, temperature=temperature)

    assert profile.fingerprint() == fingerprint
    assert [name for name in declared_fields(profile) if name.startswith("temperature")] == ["temperature"]


@given(own=st.floats(0, 2), other=st.floats(0, 2))
def test_the_temperature_of_a_level_is_sent(own: float, other: float) -> None:
    """A level without one is sent at that of the profile, as the warm-up is; the bodies differ in nothing else."""
    profile = RequestProfile(
        input_tokens=16, output_tokens=12, requests={8: 16, with_temperature("4/s", other): 9}, temperature=own
    )
    bodies = [request_body(profile, model="tiny", prompt="Once", at=at) for at in (None, *profile.points)]

    assert [body["temperature"] for body in bodies] == [own, own, other]
    assert all(body == {**bodies[0], "temperature": body["temperature"]} for body in bodies)
    assert [profile.greedy_at(at) for at in profile.points] == [own == 0, other == 0]


@given(levels=st.sets(st.sampled_from([1, 8, "1 T=0", "8 T=0", "8 T=0.8", "4/s T=0.8"]), min_size=1), own=st.just(0.5))
def test_every_level_has_one_temperature(levels: set[Any], own: float) -> None:
    """The levels of all temperatures are those of the profile, each once, and no load is there twice at one of them."""
    profile = RequestProfile(input_tokens=16, output_tokens=12, requests=dict.fromkeys(levels, 16), temperature=own)
    found = [profile.points_at_temperature(temperature) for temperature in (0.0, own, 0.8)]

    assert sorted(map(str, profile.points)) == sorted(str(at) for points in found for at in points)
    assert all(len({without_temperature(at) for at in points}) == len(points) for points in found)


def test_points_are_measured_from_the_lightest(build: type[Build]) -> None:
    """Concurrencies first, then rates, each kind rising; a level is kept in its one spelling."""
    assert build.profile(requests={"4.0/s": 9, 8: 8, "0.5/s": 9, 1: 9}).points == (1, 8, "0.5/s", "4/s")


@pytest.mark.parametrize(
    ("requests", "sentence"),
    [
        ({"4/s": 9, "4.0/s": 9}, "RequestProfile: point 4/s is there twice"),
        ({"8 T=.8": 9, "8 T=0.80": 9}, "RequestProfile: point c=8 T=0.8 is there twice"),
        (
            {8: 9, "8 T=0": 9},
            "RequestProfile: point c=8 is there twice: '8 T=0' is the same at the profile's own temperature",
        ),
        (
            {"4/s": 9, "4/s T=0.0": 9},
            "RequestProfile: point 4/s is there twice: '4/s T=0' is the same at the profile's own temperature",
        ),
        (
            {"8 T=0.8": 7},
            "RequestProfile: point c=8 T=0.8 has 7 requests; each of its 8 workers needs at least one",
        ),
        (
            {"8 T=nan": 9},
            "RequestProfile: '8 T=nan' has no temperature that can be sent: write a number of 0 or more, as '8 T=0.8'",
        ),
        ({"4/s": 1}, "RequestProfile: point 4/s has 1 requests; a rate of arrival needs 2 or more"),
        ({"4/s": 0}, "RequestProfile: point 4/s has 0 requests; a rate of arrival needs 2 or more"),
        ({"4/m": 9}, "RequestProfile: '4/m' is no load level: write a concurrency as 8, an arrival rate as '4/s'"),
        ({"8": 9}, "RequestProfile: '8' is no load level: write a concurrency as 8, an arrival rate as '4/s'"),
        ({8.0: 9}, "RequestProfile: 8.0 is no load level: write a concurrency as 8, an arrival rate as '4/s'"),
    ],
)
def test_a_mistaken_level_is_refused(build: type[Build], *, requests: dict[Any, int], sentence: str) -> None:
    """A level that is none, or is there twice under two spellings, or has too few requests, is one sentence."""
    with pytest.raises(UsageError) as raised:
        build.profile(requests=requests)

    assert str(raised.value) == sentence


def test_a_profile_that_is_no_mapping_is_refused(build: type[Build]) -> None:
    """Requests that are no mapping are a mistake in that field."""
    with pytest.raises(UsageError, match=r"^RequestProfile\.requests: input should be a valid dictionary"):
        build.profile(requests=[1, 8])


@pytest.mark.parametrize("at", [8, "4/s"])
def test_a_level_that_is_not_measured_is_named(build: type[Build], at: Any) -> None:
    """The message names the level as it was written, and all there are."""
    with pytest.raises(UsageError, match=rf"^at={at!r} is no point of the profile, which measures c=1, 2/s$"):
        check_point(build.profile(requests={1: 10, "2/s": 10}), at)


def test_the_temperature_of_the_profile_is_no_part_of_a_level(build: type[Build]) -> None:
    """Who names it at a level is told how the level is written; another temperature has no such remedy."""
    profile = build.profile(requests={1: 10, "2/s": 10}, temperature=0.8)
    told = "is no point of the profile, which measures c=1, 2/s"

    with pytest.raises(UsageError) as own:
        check_point(profile, "1 T=0.8")
    with pytest.raises(UsageError) as other:
        check_point(profile, "1 T=0")

    assert str(own.value) == f"at='1 T=0.8' {told}: 0.8 is the temperature of the profile itself, so write at=1"
    assert str(other.value) == f"at='1 T=0' {told}"


def test_limits_are_read_in_seconds(build: type[Build]) -> None:
    """What a request may take to count as good has a unit, and is compared in seconds."""
    profile = build.profile(goodput_limits={"ttft": "500ms", "tpot": "0.05s", "e2e": "10 s"})

    assert profile.goodput_limits_s == {"ttft": 0.5, "tpot": 0.05, "e2e": 10.0}
    assert declared_fields(profile)["goodput_limits_s"] == {"ttft": 0.5, "tpot": 0.05, "e2e": 10.0}
    assert declared_fields(build.profile())["goodput_limits_s"] is None


@pytest.mark.parametrize("text", ["500", "-1ms", "0ms", "1min", "nan s", "", f"{'9' * 400}s"])
def test_a_limit_without_a_positive_duration_is_refused(build: type[Build], text: str) -> None:
    """A limit without unit, of nothing, or of another unit is refused with its place."""
    with pytest.raises(UsageError) as raised:
        build.profile(goodput_limits={"ttft": text})

    assert str(raised.value) == (
        f"goodput_limits['ttft']={text!r} is no duration: write a positive number with its unit, as '200ms' or '1.5s'"
    )


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("goodput_limits", {"tftt": "5ms"}, "goodput_limits"),
        ("prefix_cache", "hot", "prefix_cache: input should be 'cold' or 'warm'"),
        ("burstiness", 0.0, "burstiness: input should be greater than 0"),
        ("client_processes", 0, "client_processes: input should be greater than or equal to 1"),
        ("client_processes", 65, "client_processes: input should be less than or equal to 64"),
        ("order_seed", -1, "order_seed: input should be greater than or equal to 0"),
    ],
)
def test_a_mistake_in_a_new_field(build: type[Build], *, field: str, value: object, place: str) -> None:
    """A value that a field cannot have is refused with the field's name."""
    with pytest.raises(UsageError, match=rf"^RequestProfile\.{place}"):
        build.profile(**{field: value})


def test_a_schedule_is_hashed_and_a_closed_loop_has_none(build: type[Build]) -> None:
    """What an open loop meant to send when is one field by point, the same for the same schedule only."""
    closed = build.point([build.request(0), build.request(1)])
    requests = [build.request(index, due_s=0.25 * index) for index in range(3)]
    moved = [*requests[:2], build.request(2, due_s=0.51)]
    fields = [
        observed_fields([build.point(some, at="4/s")])["arrivals_sha256.r4"] for some in (requests, requests, moved)
    ]

    assert fields[0] == fields[1] != fields[2]
    assert observed_fields([closed])["arrivals_sha256.c1"] is None
    assert observed_fields([closed])["client_processes.c1"] == 1


@pytest.mark.parametrize(
    ("requests", "temperature", "ends"),
    [
        ({1: 10, 8: 16, 32: 64}, 0.0, (1, 32)),
        ({8: 16}, 0.0, (8, 8)),
        ({1: 10, 8: 16, "64 T=0.8": 64}, 0.0, (1, 8)),
        ({1: 10, "4 T=0": 16, "8 T=0": 16}, 0.8, ("4 T=0", "8 T=0")),
        ({1: 10, "1 T=0.5": 10, 8: 16}, 0.8, ("1 T=0.5", "1 T=0.5")),
        ({1: 10, 8: 16, "4/s": 20}, 0.0, (1, 8)),
        ({"0.5/s": 20, "4/s": 20}, 0.0, ("0.5/s", "4/s")),
        ({"4/s": 20, "8 T=0.8": 16}, 0.0, ("4/s", "4/s")),
    ],
)
def test_the_ends_of_a_load_are_of_its_coldest_temperature(
    build: type[Build], *, requests: dict[Any, int], temperature: float, ends: tuple[Level, Level]
) -> None:
    """That of the profile is one of them; a rate counts only where there is no concurrency to compare it with."""
    assert ends_of(build.profile(requests=requests, temperature=temperature)) == ends
