"""Claims that name no load level, limits that stand first, and what gates and probes make of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import (
    AcceptanceProbe,
    UsageError,
    api,
    at_least,
    at_most,
    better,
    equivalent,
    gate,
    measured,
    not_worse,
    not_worse_than_baseline,
    outputs_agree,
    probe,
)
from pytest_specgate.core.arms import LonePair
from pytest_specgate.core.placing import EveryLevel, placed
from pytest_specgate.core.thresholds import BaselineThreshold
from pytest_specgate.names import GATE_MARK

if TYPE_CHECKING:
    from tests.core.conftest import Build


def _marked(decorate: Any) -> tuple[Any, ...]:
    """Return what a decorator puts into the mark of a gate."""

    def test_something() -> None: ...

    [mark] = [mark for mark in decorate(test_something).pytestmark if mark.name == GATE_MARK]
    args: tuple[Any, ...] = mark.args
    return args


@pytest.mark.parametrize(
    ("claim", "ends"),
    [
        (at_least("acceptance_length", "2.5"), "acceptance_length-at_least"),
        (at_most("ttft_p50", "200ms"), "ttft_p50-at_most"),
        (not_worse("ttft_p50", margin="5%"), "ttft_p50-not_worse"),
        (better("ttft_p50", by="5%"), "ttft_p50-better"),
        (equivalent("ttft_p50", within="5%"), "ttft_p50-equivalent"),
        (outputs_agree(at_least="99%"), "outputs_agree"),
        (not_worse_than_baseline("ttft_p50", margin="5%"), "ttft_p50-not_worse_than_baseline"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_claim_without_a_level_is_one_threshold_for_every_level(
    build: type[Build], claim: EveryLevel, ends: str
) -> None:
    """Each level has its own verdict, under the name that it would have by itself."""
    pair = build.pair(requests={1: 10, 8: 16, "8 T=0.8": 16})

    _, *thresholds = _marked(gate(pair, claim))

    assert [one.id for one in thresholds] == [f"c1-{ends}", f"c8-{ends}", f"c8-t0.8-{ends}"]


def test_claims_of_both_kinds_keep_their_order(build: type[Build]) -> None:
    """A threshold of one level stands where it was written, between those of all levels."""
    claims = (at_least("goodput", "1/s", at=8), at_most("ttft_p50", "1s"), at_least("goodput", "1/s", at=1))

    found = placed(claims, build.profile())

    assert [one.id for one in found] == [
        "c8-goodput-at_least", "c1-ttft_p50-at_most", "c8-ttft_p50-at_most", "c1-goodput-at_least",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: at_least("aceptance_length", "2.5"),
            "there is no metric 'aceptance_length'; did you mean 'acceptance",
        ),
        (lambda: at_least("ttft_p50", "1s"), "at_least bounds ttft_p50 on its good side"),
        (lambda: at_least("acceptance_length", "2.5 ms"), "'2.5 ms' is no amount of this metric"),
        (lambda: not_worse_than_baseline("preemptions", margin="5%"), "preemptions is a count"),
    ],
)
def test_what_is_wrong_with_it_is_said_where_it_is_written(make: Any, message: str) -> None:
    """A mistake does not wait for the gate that the claim is for."""
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize("limit", ["2.5", "2.5 tokens", "2.5tok"])
def test_a_limit_stands_second_or_has_a_name(limit: str) -> None:
    """Gate files that name it are as right as those that do not, and tokens need no unit."""
    assert at_least("acceptance_length", limit, at=1) == at_least("acceptance_length", at=1, limit="2.5 tokens")


def test_a_gate_takes_no_probe_and_no_arm_alone(build: type[Build]) -> None:
    """Either is told how to write what was meant."""
    lone = LonePair.of(build.arm(4), profile=build.profile(), rounds=3)
    of: Any = AcceptanceProbe(arm=build.arm(4), profile=build.profile())
    limit = at_least("acceptance_length", "2.5")

    with pytest.raises(UsageError, match=r"got an AcceptanceProbe: write @probe\(\.\.\.\)"):
        gate(of, limit)
    alone = r"k4 is one arm alone: declare an AcceptanceProbe\(arm=\.\.\.\)"
    with pytest.raises(UsageError, match=alone):
        gate(lone, limit)
    with pytest.raises(UsageError, match=alone):
        measured(lone)


def test_a_probe_is_a_gate_on_its_arm_alone(build: type[Build]) -> None:
    """Its claims stand for every level at every temperature, and what it says of a baseline is about levels."""
    of = AcceptanceProbe(arm=build.arm(4), profile=build.profile(requests={1: 10}))
    baseline = not_worse_than_baseline("acceptance_length", margin="5%")

    pair, *thresholds = _marked(probe(of, at_least("acceptance_rate_position_1", "60%"), baseline))

    assert (pair.alone, pair.rounds, pair.title) == (True, 3, "k4")
    assert [one.id for one in thresholds] == [
        "c1-acceptance_rate_position_1-at_least",
        "c1-t0.8-acceptance_rate_position_1-at_least",
        "c1-acceptance_length-not_worse_than_baseline-absolute",
        "c1-t0.8-acceptance_length-not_worse_than_baseline-absolute",
    ]


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (not_worse("ttft_p50", margin="5%"), "not_worse compares two: claim at_least(...), at_most(...)"),
        (api.faster_only_up_to(1), "faster_only_up_to compares two"),
        (outputs_agree(at_least="99%"), "outputs_agree compares two"),
        (
            not_worse_than_baseline("acceptance_length", margin="5%", mode="relative"),
            "mode='relative' compares two: leave mode= out",
        ),
        ("60%", "probe() takes at_least(...), at_most(...) and not_worse_than_baseline(...); got str"),
        (None, "not_worse_than_baseline(...); got none"),
    ],
)
def test_a_probe_refuses_what_needs_a_second_arm(build: type[Build], claim: Any, message: str) -> None:
    """There is one arm, so that nothing can be compared within a window."""
    of = AcceptanceProbe(arm=build.arm(4), profile=build.profile())

    with pytest.raises(UsageError) as raised:
        probe(of, *([] if claim is None else [claim]))

    assert message in str(raised.value)


def test_a_probe_takes_a_probe_first(build: type[Build]) -> None:
    """A pair is for a gate."""
    pair: Any = build.pair()

    with pytest.raises(UsageError, match=r"^probe\(\) takes an AcceptanceProbe first, got ArmPair$"):
        probe(pair, at_least("acceptance_length", "2.5"))


def test_how_a_mode_came_about_is_no_part_of_a_claim() -> None:
    """Two claims that say the same are one, whether their author has named the mode or not."""
    named = not_worse_than_baseline("ttft_p50", at=1, margin="5%", mode="relative")
    left_out = not_worse_than_baseline("ttft_p50", at=1, margin="5%")

    assert named == left_out == BaselineThreshold("ttft_p50", 1, 0.05)
    assert (named.mode_named, left_out.mode_named) == (True, False)
