"""A time budget: no round is begun that would not end in time, and what is open then is undecided and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.gate import Gate
from pytest_specgate.core.judge import judge
from pytest_specgate.core.thresholds import LimitThreshold
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.window import CalibrationPlan, WindowPlan, calibrate, measure

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.window.conftest import Boot, Declare, World

# Two arms at a minute a boot: a round takes 120 s.
ROUND_S = 120.0


def _open(declare: type[Declare], pair: ArmPair) -> Gate:
    """Return a gate that wants all of six rounds."""
    return declare.gate(pair, floor=0.12)


@pytest.mark.parametrize(
    ("until_s", "rounds"),
    [(119.0, 1), (239.0, 1), (240.0, 2), (359.0, 2), (360.0, 3), (719.0, 5), (720.0, 6), (None, 6)],
)
def test_rounds_that_end_in_time_are_run(
    world: World, declare: type[Declare], until_s: float | None, *, rounds: int
) -> None:
    """A round is begun if one as long as the longest so far would end by the budget's end; the first one always is."""
    pair = declare.pair(None, 4, rounds=6)
    record = world.measure(pair, gates=[_open(declare, pair)], until_s=until_s)

    assert len(world.starts()) == 2 * rounds
    assert {boot.round for boot in record.boots} == set(range(1, rounds + 1))


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_the_record_says_what_stopped_it(world: World, declare: type[Declare], rounds: int) -> None:
    """The reason is kept with the number of rounds that were run, and the record is a finished one."""
    pair = declare.pair(None, 4, rounds=6)
    record = world.measure(pair, gates=[_open(declare, pair)], until_s=rounds * ROUND_S)

    assert record.stopped == f"the time budget was used up after {rounds} of 6 rounds"
    assert record.finished
    assert world.saved[-1] == record


@pytest.mark.parametrize(("rounds", "judged"), [(1, 1), (2, 2), (3, 2), (5, 4)])
def test_open_claims_are_undecided_and_name_the_budget(
    world: World, declare: type[Declare], rounds: int, *, judged: int
) -> None:
    """What no look has decided is INCONCLUSIVE, never a pass, at the last look that was reached."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    record = world.measure(pair, gates=[gate], until_s=rounds * ROUND_S)

    [verdict] = judge(gate, record)
    assert (verdict.outcome, verdict.reason, verdict.rounds) == (Outcome.INCONCLUSIVE, "stopped", judged)
    assert f"stopped at round {judged} of 6" in verdict.summary
    assert verdict.summary.endswith(f": the time budget was used up after {rounds} of 6 rounds")
    assert [stored["reason"] for stored in record.verdicts] == ["stopped"]


def test_what_was_decided_in_time_is_not_stopped(world: World, declare: type[Declare]) -> None:
    """A gate that its second round decided needs no more time, and nothing is said of a budget."""
    pair = declare.pair(None, 4, rounds=6)
    record = world.measure(pair, gates=[declare.gate(pair)], until_s=2 * ROUND_S)

    assert (record.stopped, [stored["outcome"] for stored in record.verdicts]) == ("", ["PASS"])


def test_a_window_that_ends_with_its_budget_was_not_stopped(world: World, declare: type[Declare]) -> None:
    """The last round of all leaves nothing to stop."""
    pair = declare.pair(None, 4, rounds=2)
    record = world.measure(pair, until_s=2 * ROUND_S)

    assert (record.stopped, len(world.starts())) == ("", 4)


def test_the_longest_round_counts(world: World, declare: type[Declare]) -> None:
    """After a slow round no quick one is hoped for: what does not fit a round as long as that is not begun."""

    def quick(_: Boot) -> None:
        world.boot_takes_s = 175.0

    # The clock is boots so far times what a boot takes: 600 s after one round, then 700 s after two.
    world.boot_takes_s = 300.0
    world.at["k4", 2, "start"] = quick
    pair = declare.pair(None, 4, rounds=6)
    record = world.measure(pair, gates=[_open(declare, pair)], until_s=1250.0)

    assert len(record.boots) == 4
    assert record.stopped.endswith("after 2 of 6 rounds")


def test_a_limit_in_time_is_judged(world: World, declare: type[Declare]) -> None:
    """Limits are compared in the boots that there are, beside a claim that was stopped."""
    pair = declare.pair(None, 4, rounds=6)
    limit = LimitThreshold("ttft_p50", 1, "at_most", 1.0)
    gate = Gate(id="test_gate.py::test_both", pair=pair, thresholds=(*_open(declare, pair).thresholds, limit))
    record = world.measure(pair, gates=[gate], until_s=ROUND_S)

    assert [verdict.outcome for verdict in judge(gate, record)] == [Outcome.INCONCLUSIVE, Outcome.PASS]


def test_decided_pairs_leave_their_time_to_others(world: World, declare: type[Declare]) -> None:
    """A pair that was decided boots no more, and the rounds of what is left are shorter."""
    decided, read = declare.pair(None, 4, rounds=6), declare.pair(4, 7, rounds=6)
    record = world.measure(decided, read, gates=[declare.gate(decided)], until_s=2 * 180.0 + 2 * ROUND_S + 60.0)

    # Two rounds of three arms; then rounds of two, each held against the longest of 180 s.
    assert world.starts()[6:] == ["k4", "k7", "k7", "k4"]
    assert record.stopped == "the time budget was used up after 4 of 6 rounds"


def test_a_budget_that_leaves_no_round_leaves_everything_undecided(world: World, declare: type[Declare]) -> None:
    """Nothing was measured, so nothing is invalid: the claim is INCONCLUSIVE, and names the budget."""
    pair = declare.pair(None, 4, rounds=6)
    gate = declare.gate(pair)
    record = world.measure(pair, gates=[gate], until_s=-1.0)

    [verdict] = judge(gate, record)
    assert world.starts() == []
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "stopped")
    assert verdict.summary.endswith("the time budget was used up after 0 of 6 rounds")


@pytest.mark.parametrize(("round_s", "boots"), [(0.0, 2), (100.0, 2), (100.1, 0)])
def test_a_first_round_that_would_not_end_is_not_begun(
    world: World, declare: type[Declare], round_s: float, *, boots: int
) -> None:
    """Where an earlier window tells what a round takes, the first one is held against the budget, too."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    record = measure(WindowPlan((pair,), (gate,), until_s=100.0, round_s=round_s), world.ports())

    assert len(world.starts()) == boots
    assert record.stopped == f"the time budget was used up after {boots // 2} of 6 rounds"
    assert record.finished


def test_what_a_budget_left_unmeasured_is_undecided(world: World, declare: type[Declare]) -> None:
    """A window that was never begun has nothing invalid: its claims are open, and say why."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    record = measure(WindowPlan((pair,), (gate,), until_s=1.0, round_s=60.0), world.ports())

    [verdict] = judge(gate, record)
    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "stopped")
    assert verdict.summary.endswith(": nothing was measured: the time budget was used up after 0 of 6 rounds")


@pytest.mark.parametrize(("until_s", "boots"), [(59.0, 1), (120.0, 2), (239.0, 3), (None, 6)])
def test_a_calibration_keeps_a_budget(
    world: World, declare: type[Declare], until_s: float | None, *, boots: int
) -> None:
    """No boot is begun that would not end in time, of any arm; the first one of a session always is."""
    arms = (declare.arm(), declare.arm(4))
    record = calibrate(CalibrationPlan(arms, declare.profile(), 3, until_s=until_s), world.ports())

    assert len(world.starts()) == boots
    assert record.stopped == ("" if boots == 6 else f"the time budget was used up after so many boots: {boots}")
    assert record.finished
