"""Rounds that pairs need, as far as their claims tell, and the boots that come of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.baseline_threshold import BaselineThreshold
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.schedule import first_judged, judged_rounds, later_boots, most_rounds, sure_rounds
from pytest_specgate.core.thresholds import CurveThreshold, LimitThreshold, NoiseFloor, OutputsThreshold, Threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.core.conftest import Build

FLOOR = NoiseFloor(0.01, "A/A windows of a test")
KNOWN = Threshold("ttft_p50", 1, "not_worse", 0.05, FLOOR)
UNKNOWN = Threshold("tpot_p50", 1, "not_worse", 0.05, None)
LIMIT = LimitThreshold("ttft_p50", 1, "at_most", 1.0)
BASELINE = BaselineThreshold("ttft_p50", 1, 0.05, cross_window=FLOOR)
ANSWERS = OutputsThreshold(1, 0.99)


def _gate(pair: ArmPair, *claims: AnyThreshold, name: str = "test_gate") -> Gate:
    return Gate(f"test_gate.py::{name}", pair, claims)


@pytest.mark.parametrize(
    ("claims", "first", "rounds"),
    [
        # The first claim's first look; the rounds that surely run, until all are judged once, and at most.
        ([KNOWN], 2, (2, 2, 6)),
        ([UNKNOWN], 4, (4, 4, 6)),
        ([CurveThreshold(1, floor=FLOOR)], 2, (2, 2, 6)),
        ([UNKNOWN, KNOWN], 4, (2, 4, 6)),
        ([LIMIT], 1, (1, 1, 1)),
        ([ANSWERS], 2, (2, 2, 2)),
        ([LIMIT, ANSWERS], 1, (1, 2, 2)),
        ([LIMIT, KNOWN], 1, (1, 2, 6)),
        ([BASELINE], 6, (6, 6, 6)),
        ([BASELINE, KNOWN], None, (2, 2, 6)),
        ([BASELINE, LIMIT], 6, (1, 6, 6)),
    ],
)
def test_rounds_of_claims(
    build: type[Build], claims: Sequence[AnyThreshold], first: int | None, rounds: tuple[int, int, int]
) -> None:
    """A gate may stop at the first FAIL, so the earliest claim ends what is sure; the latest ends what is judged."""
    pair = build.pair(rounds=6)
    gate = _gate(pair, *claims)

    assert first_judged(claims[0], gate, ()) == first
    assert tuple(of(pair, [gate], ()) for of in (sure_rounds, judged_rounds, most_rounds)) == rounds


def test_a_pair_without_a_gate_runs_all_rounds(build: type[Build]) -> None:
    """Nothing can be decided early where nothing is judged; gates of other pairs do not count."""
    pair, other = build.pair(rounds=6), build.pair(candidate=7, rounds=6)

    assert {of(pair, [_gate(other, LIMIT)], ()) for of in (sure_rounds, judged_rounds, most_rounds)} == {6}


def test_a_pair_waits_for_the_last_of_its_gates(build: type[Build]) -> None:
    """Of two gates on one pair the slower one decides what is sure."""
    pair = build.pair(rounds=6)

    assert sure_rounds(pair, [_gate(pair, KNOWN), _gate(pair, UNKNOWN, name="test_other")], ()) == 4


def test_a_claim_that_can_never_be_judged_runs_all_rounds(build: type[Build]) -> None:
    """One round without any known noise has no look: it is run all the same, if somebody insists."""
    pair = build.pair(rounds=1)

    assert first_judged(UNKNOWN, _gate(pair, UNKNOWN), ()) == 1


def test_boots_of_later_rounds_in_their_order(build: type[Build]) -> None:
    """The order reverses every round; a pair with more rounds goes on alone."""
    short, long = build.pair(rounds=2), build.pair(candidate=7, rounds=4)

    later = later_boots([short, long], [], (), pairs=[short, long], done=1)

    assert later.arms == ("k7", "k4", "off", "off", "k7", "k7", "off")
    assert later.sure


def test_boots_that_a_verdict_may_save_are_not_sure(build: type[Build]) -> None:
    """After the first look the gated pair may be decided; before it nothing can be, and nothing is left at the end."""
    pair = build.pair(rounds=4)
    gates = [_gate(pair, KNOWN)]

    assert [later_boots([pair], gates, (), pairs=[pair], done=done).sure for done in (0, 2, 4)] == [False, False, True]
    assert later_boots([pair], [], (), pairs=[pair], done=0).sure


def test_a_decided_pair_boots_no_more(build: type[Build]) -> None:
    """Only pairs that are still open have boots to come."""
    first, second = build.pair(rounds=2), build.pair(candidate=7, rounds=2)

    assert later_boots([second], [], (), pairs=[first, second], done=1).arms == ("k7", "off")
    assert later_boots([], [], (), pairs=[first, second], done=1).arms == ()
