"""A/A windows: each arm several times in a row, one after another, judged by nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.calibration import window_of
from pytest_specgate.core.errors import InvalidError, ServerError

if TYPE_CHECKING:
    from tests.window.conftest import Boot, Declare, World


def _survive(_: Boot) -> None:
    """Refuse to end."""
    raise ServerError("processes 12 of the server could not be ended")


def test_each_arm_boots_in_a_row(world: World, declare: type[Declare]) -> None:
    """All boots of one arm come before those of the next: what differs between neighbours is noise and nothing else."""
    record = world.calibrate(declare.arm(), declare.arm(4), profile=declare.profile(), boots=3)

    assert world.starts() == ["off"] * 3 + ["k4"] * 3
    assert [(boot.arm, boot.round, boot.position) for boot in record.boots] == [
        *[("off", number, 0) for number in (1, 2, 3)], *[("k4", number, 1) for number in (1, 2, 3)],
    ]  # fmt: skip


def test_one_server_runs_at_a_time(world: World, declare: type[Declare]) -> None:
    """Every server is stopped before the next one starts."""
    world.calibrate(declare.arm(), declare.arm(4), profile=declare.profile(), boots=2)
    lives = [line for line in world.diary if line.startswith(("start ", "stop "))]

    assert lives == [f"{act} {arm}" for arm in ("off", "off", "k4", "k4") for act in ("start", "stop")]


def test_every_boot_is_measured_like_one_of_a_window(world: World, declare: type[Declare]) -> None:
    """Proof, warm-up and every load, between two scrapes, with the same bytes in every boot."""
    record = world.calibrate(declare.arm(4), profile=declare.profile(), boots=2)
    boots = " ".join(world.diary).split("start ")[1:]
    steps = "warm-up: 4 at 1 settled agreed c1: 10 at 1 settled agreed c8: 16 at 8 settled agreed stop k4"

    assert [boot.strip().partition(" warm-up")[2] for boot in boots] == [steps.removeprefix("warm-up")] * 2
    assert all(world.sent["k4", 1, part] == world.sent["k4", 2, part] for part in ("warm-up", "c1", "c8"))
    assert [[point.at for point in boot.points] for boot in record.boots] == [[1, 8], [1, 8]]


def test_nothing_is_judged(world: World, declare: type[Declare]) -> None:
    """The record has arms, host, engines and load, but neither pairs nor verdicts, and boots that serve none."""
    record = world.calibrate(declare.arm(), declare.arm(4), profile=declare.profile(), boots=2)

    assert (record.finished, record.pairs, record.verdicts, record.noise) == (True, (), (), ())
    assert {boot.pairs for boot in record.boots} == {()}
    assert [arm.name for arm in record.arms] == ["off", "k4"]
    assert record.engine.keys() == {"off", "k4"}
    assert record.profile == declare.profile()


def test_the_record_is_stored_after_every_boot(world: World, declare: type[Declare]) -> None:
    """A calibration that is interrupted leaves what it has measured."""
    record = world.calibrate(declare.arm(), declare.arm(4), profile=declare.profile(), boots=2)

    assert [len(state.boots) for state in world.saved] == [0, 1, 2, 3, 4, 4]
    assert [state.finished for state in world.saved] == [False] * 5 + [True]
    assert world.saved[-1] == record


def test_progress_is_told_boot_by_boot(world: World, declare: type[Declare]) -> None:
    """A waiting user learns which boot of which arm starts, and no figure."""
    world.calibrate(declare.arm(), declare.arm(4), profile=declare.profile(), boots=2)
    starts = [line for line in world.told if line.endswith("starting its server")]

    assert starts == [f"boot {number} of 2 of {arm}: starting its server" for arm in ("off", "k4") for number in (1, 2)]


def test_a_boot_that_fails_ends_its_arm_and_no_other(world: World, declare: type[Declare]) -> None:
    """After a failed boot the arm has no use for more, and the next arm is calibrated all the same."""
    world.at["off", 2, "c1"] = world.leave
    record = world.calibrate(declare.arm(), declare.arm(4), profile=declare.profile(), boots=4)

    assert world.starts() == ["off"] * 2 + ["k4"] * 4
    assert [boot.failure.reason for boot in record.boots if boot.failure] == ["server-died"]
    with pytest.raises(InvalidError, match="no calibration of off"):
        window_of(declare.arm(), record)
    assert len(window_of(declare.arm(4), record).values["c1"]["ttft_p50"]) == 4


def test_failed_requests_end_an_arm_too(world: World, declare: type[Declare]) -> None:
    """A point with failures is no measure of noise."""
    world.failing.add(("off", 1, "c1"))
    record = world.calibrate(declare.arm(), profile=declare.profile(), boots=3)

    assert world.starts() == ["off"]
    assert [boot.failure.reason for boot in record.boots if boot.failure] == ["failed-requests"]
    assert record.finished


def test_nothing_boots_beside_a_server_that_cannot_be_ended(world: World, declare: type[Declare]) -> None:
    """A survivor ends the calibration of all arms."""
    world.at["off", 1, "stop"] = _survive
    record = world.calibrate(declare.arm(), declare.arm(4), profile=declare.profile(), boots=2)

    assert world.starts() == ["off"]
    assert [boot.failure.reason for boot in record.boots if boot.failure] == ["server-not-stopped"]


def test_secrets_of_an_arm_are_not_stored(world: World, declare: type[Declare]) -> None:
    """The arm that is kept has none, and is found again by the one that is declared."""
    arm = declare.arm(4, HF_TOKEN="hf_abcdefghijklmnop1234")
    record = world.calibrate(arm, profile=declare.profile(), boots=2)

    assert "hf_abcdefghijklmnop1234" not in record.model_dump_json()
    assert window_of(arm, record).values["c8"]


def test_what_was_measured_becomes_a_calibration(world: World, declare: type[Declare]) -> None:
    """Values come boot by boot, in the order in which they ran."""
    world.speeds = {"k4": 2.0}
    record = world.calibrate(declare.arm(), declare.arm(4), profile=declare.profile(), boots=3)

    slow, fast = (window_of(arm, record).values["c8"]["ttft_p50"] for arm in (declare.arm(), declare.arm(4)))
    assert (*slow, *fast) == pytest.approx((0.1, 0.1, 0.1, 0.05, 0.05, 0.05))
