"""The order of boots alternates for every pair of a window, whichever pairs are done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.gate import Gate
from pytest_specgate.core.judge import judge
from pytest_specgate.core.thresholds import LimitThreshold, NoiseFloor, Threshold
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.window.conftest import Boot, Declare, World


def _bounded(pair: ArmPair) -> Gate:
    """Return a gate that one boot decides."""
    limit = LimitThreshold("ttft_p50", 1, "at_most", 1.0)
    return Gate(id="test_gate.py::test_limit", pair=pair, thresholds=(limit,))


def _rounds(world: World, sizes: list[int]) -> list[list[str]]:
    """Return the arms of each round, in the order of their boots."""
    starts = iter(world.starts())
    return [[next(starts) for _ in range(size)] for size in sizes]


def test_the_order_alternates_though_another_pair_ended_after_an_odd_round(
    world: World, declare: type[Declare]
) -> None:
    """Arms that boot no more are left out of the order of all, which turns every round."""
    first, second = declare.pair(None, 4, rounds=4), declare.pair(7, 4, rounds=4)
    world.measure(first, second, gates=[_bounded(first)])

    assert _rounds(world, [3, 2, 2, 2]) == [["off", "k4", "k7"], ["k7", "k4"], ["k4", "k7"], ["k7", "k4"]]


def test_a_dead_arm_does_not_turn_the_order(world: World, declare: type[Declare]) -> None:
    """A pair whose reference died leaves the other pair its alternation."""
    first, second = declare.pair(None, 4, rounds=2), declare.pair(7, 4, rounds=2)
    world.at["off", 1, "c1"] = world.leave
    record = world.measure(first, second, gates=[declare.gate(first), declare.gate(second)])

    assert _rounds(world, [3, 2]) == [["off", "k4", "k7"], ["k7", "k4"]]
    assert len(record.rounds_of(second)) == 2


@pytest.mark.parametrize("drift", [0.01, -0.01])
def test_a_drift_decides_nothing_of_equal_arms(world: World, declare: type[Declare], drift: float) -> None:
    """A machine that slows down or speeds up by 1 % a boot makes no arm better, also after another pair ended."""
    first, second = declare.pair(None, 4, rounds=2), declare.pair(7, 4, rounds=2)
    booted: list[str] = []

    def drifts(boot: Boot) -> None:
        booted.append(boot.arm.name)
        world.speeds = dict.fromkeys(("off", "k4", "k7"), (1 + drift) ** len(booted))

    for arm in ("off", "k4", "k7"):
        for number in (1, 2):
            world.at[arm, number, "start"] = drifts
    better = Threshold("output_throughput", 8, "better", 0.0, NoiseFloor(0.002, "A/A windows of a test"))
    gate = Gate(id="test_gate.py::test_better", pair=second, thresholds=(better,))
    record = world.measure(first, second, gates=[_bounded(first), gate])

    [verdict] = judge(gate, record)
    assert verdict.rounds == 2
    assert verdict.change == pytest.approx(0.0, abs=1e-9)
    assert verdict.outcome == Outcome.INCONCLUSIVE
