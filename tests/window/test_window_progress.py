"""What a window tells of itself while it runs: each boot with what comes after it, and each step of a boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.window import CalibrationPlan, WindowPlan, calibrate, measure

if TYPE_CHECKING:
    from tests.window.conftest import Declare, World


def test_every_boot_tells_what_comes_after_it(world: World, declare: type[Declare]) -> None:
    """Rest of the round, then the rounds to come in their order; the last boot has nothing after it."""
    world.measure(declare.pair(None, 4), declare.pair(4, 7))

    assert [(boot.place, boot.after, boot.in_round) for boot in world.begun] == [
        ("round 1 of 2: off", ("k4", "k7", "k7", "k4", "off"), 2),
        ("round 1 of 2: k4", ("k7", "k7", "k4", "off"), 1),
        ("round 1 of 2: k7", ("k7", "k4", "off"), 0),
        ("round 2 of 2: k7", ("k4", "off"), 2),
        ("round 2 of 2: k4", ("off",), 1),
        ("round 2 of 2: off", (), 0),
    ]
    assert [(boot.number, boot.boots) for boot in world.begun] == [(number, 6) for number in range(1, 7)]
    assert {boot.doing for boot in world.begun} == {"starting its server"}


def test_boots_that_a_verdict_may_save_are_not_sure(world: World, declare: type[Declare]) -> None:
    """A gate is looked at after two rounds of four: before that the last two may be saved, and here they are."""
    pair = declare.pair(None, 4, rounds=4)
    world.speeds["k4"] = 2.0
    world.measure(pair, gates=[declare.gate(pair)])

    assert [(boot.sure, len(boot.after)) for boot in world.begun] == [(False, 7), (False, 6), (False, 5), (False, 4)]


def test_arms_of_a_broken_pair_are_not_announced(world: World, declare: type[Declare]) -> None:
    """When a candidate has failed, its reference is not said to be booted for it again."""
    world.failing.add(("k4", 1, "warm-up"))
    world.measure(declare.pair(None, 4))

    assert [boot.after for boot in world.begun] == [("k4", "k4", "off"), ("k4", "off")]
    assert world.steps[-1] == ("k4", "failed")


def test_every_step_of_a_boot_is_told(world: World, declare: type[Declare]) -> None:
    """Prompts once, then warm-up, each point with its requests, and the stop, until the boot has ended."""
    world.measure(declare.pair(None, 4, rounds=1))

    rest = ["warm-up, 4 requests", "c=1, 10 requests", "c=8, 16 requests", "stopping its server", "ended"]
    assert world.steps == [
        ("off", "making prompts of 24 tokens from prose"),
        *[("off", step) for step in rest],
        *[("k4", step) for step in rest],
    ]


def test_an_attached_server_is_left_not_stopped(world: World, declare: type[Declare]) -> None:
    """Nobody is told that a server of somebody else is stopped."""
    world.attached = True
    world.measure(declare.pair(None, 4, rounds=1))

    assert ("off", "leaving its server") in world.steps


def test_a_time_budget_is_told(world: World, declare: type[Declare]) -> None:
    """The end of the budget goes with every boot."""
    world.measure(declare.pair(None, 4), until_s=1000.0)

    assert {boot.until_s for boot in world.begun} == {1000.0}


def test_which_window_of_several_it_is(world: World, declare: type[Declare]) -> None:
    """A session with more than one window says which one runs."""
    measure(WindowPlan((declare.pair(None, 4),), (), title="window 1 of 2"), world.ports())

    assert world.told[0] == "window 1 of 2, round 1 of 2: off: starting its server"


def test_a_calibration_tells_its_boots(world: World, declare: type[Declare]) -> None:
    """All boots of one arm, then those of the next; all of them come."""
    arms = (declare.arm(), declare.arm(4))
    calibrate(CalibrationPlan(arms, declare.profile(), 2, until_s=900.0), world.ports())

    assert [(boot.line, boot.after) for boot in world.begun] == [
        ("boot 1 of 2 of off: starting its server", ("off", "k4", "k4")),
        ("boot 2 of 2 of off: starting its server", ("k4", "k4")),
        ("boot 1 of 2 of k4: starting its server", ("k4",)),
        ("boot 2 of 2 of k4: starting its server", ()),
    ]
    assert all(boot.sure and boot.until_s == 900.0 for boot in world.begun)


def test_a_boot_that_failed_says_so(world: World, declare: type[Declare]) -> None:
    """The failure is a line of its own, before the boot has ended."""
    world.failing.add(("off", 1, "warm-up"))
    world.measure(declare.pair(None, 4, rounds=1))

    assert world.told[-1] == "arm off: warm-up failed: HTTP 500: engine died"
    assert world.steps[-1] == ("off", "failed")
