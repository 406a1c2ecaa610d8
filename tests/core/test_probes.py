"""The declaration of a probe: what it takes, and the load and the lone arm that it is measured as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import AcceptanceProbe, UsageError
from pytest_specgate.core.arms import LonePair, arms_of

if TYPE_CHECKING:
    from tests.core.conftest import Build


def test_every_level_is_measured_at_every_temperature(build: type[Build]) -> None:
    """The first temperature is that of the profile, and the others are levels of their own."""
    profile = build.profile(requests={8: 16, 1: 10, "4/s": 5}, temperature=1.0)

    load = AcceptanceProbe(arm=build.arm(4), profile=profile, temperatures=(0.5, 0, 1.0)).load

    assert load.temperature == 0.5
    assert load.requests == {
        1: 10, "1 T=0": 10, "1 T=1": 10, 8: 16, "8 T=0": 16, "8 T=1": 16, "4/s": 5, "4/s T=0": 5, "4/s T=1": 5,
    }  # fmt: skip
    assert sorted(set(map(load.temperature_at, load.points))) == [0, 0.5, 1.0]


def test_by_default_it_is_greedy_and_at_four_fifths_in_three_boots(build: type[Build]) -> None:
    """The two temperatures at which acceptance is published, and more than one boot."""
    probe = AcceptanceProbe(arm=build.arm(4), profile=build.profile(requests={1: 10}))

    assert (probe.temperatures, probe.boots, list(probe.load.points)) == ((0.0, 0.8), 3, [1, "1 T=0.8"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": None}, "arm off drafts nothing, so nothing of it can be accepted: give it a speculative_config"),
        ({"temperatures": ()}, "AcceptanceProbe.temperatures: "),
        ({"temperatures": (0.0, -0.5)}, "a temperature of -0.5 is none: write 0 or more"),
        ({"temperatures": (0.8, 0.0, 0.8)}, "temperature 0.8 is there twice: name it once"),
        ({"temperatures": (float("nan"),)}, "AcceptanceProbe.temperatures"),
        ({"boots": 0}, "AcceptanceProbe.boots: input should be greater than or equal to 1"),
        ({"boots": 41}, "AcceptanceProbe.boots: input should be less than or equal to 40"),
        (
            {"profile": {"temperature": 0.7}},
            "the profile has temperature=0.7, which is none of temperatures=(0.0, 0.8): name it there",
        ),
        ({"profile": {"prompts": "random"}}, "prompts='random': whether random tokens are accepted tells nothing"),
        ({"requests": {"1 T=0.8": 10}}, "point c=1 T=0.8 of the profile has a temperature of its own: leave it out"),
    ],
)
def test_what_cannot_be_probed_is_refused(build: type[Build], changes: dict[str, Any], message: str) -> None:
    """One sentence with what is wrong."""
    given = {"k": 4, "requests": {1: 10}, **changes}
    arm = build.arm(given.pop("k"))
    profile = build.profile(requests=given.pop("requests"), **given.pop("profile", {}))

    with pytest.raises(UsageError) as raised:
        AcceptanceProbe(arm=arm, profile=profile, **given)

    assert message in str(raised.value)


def test_an_arm_alone_stands_for_both_arms_of_a_pair(build: type[Build]) -> None:
    """It is one arm wherever arms are listed, has its name as title, and any number of boots."""
    pair = LonePair.of(build.arm(4), profile=build.profile(), rounds=5)

    assert (pair.title, pair.alone, pair.paths, pair.rounds) == ("k4", True, (), 5)
    assert (pair.own_arms, arms_of([pair])) == ((build.arm(4),), (build.arm(4),))
    assert (pair.with_rounds(7).rounds, pair.with_rounds(7).alone) == (7, True)
    assert pair.key != build.pair().key
    assert (build.pair().alone, build.pair().own_arms) == (False, build.pair().arms)


@pytest.mark.parametrize("changes", [{"candidate": 7}, {"varies": ("args.seed",)}])
def test_an_arm_alone_has_nothing_that_differs(build: type[Build], changes: dict[str, Any]) -> None:
    """Two arms, or something that varies, are a pair."""
    given = {"candidate": 4, "varies": (), **changes}

    with pytest.raises(UsageError, match="alone has no second arm, and nothing that varies"):
        LonePair(
            reference=build.arm(4),
            candidate=build.arm(given["candidate"]),
            varies=given["varies"],
            profile=build.profile(),
        )
