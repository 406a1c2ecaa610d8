"""A sweep in a window: its scouts first, and then only who can still win, as often as the answer needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import arms_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.judge import not_booted, pair_problem
from pytest_specgate.core.resume import Source, TakenOver, Today, taken_over
from pytest_specgate.core.sweeps import ArmSweep, arm_sweep, sweeps_of
from pytest_specgate.window import WindowFacts, WindowPlan, measure

if TYPE_CHECKING:
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from tests.window.conftest import Boot, Declare, World

FLOOR = NoiseFloor(0.05, "A/A windows of a test")
FLOORS = dict.fromkeys(("decode_rate_p50", "output_throughput", "ttft_p50"), FLOOR)


def _sweep(declare: type[Declare], *, ks: tuple[int, ...] = (3, 4, 7), **changes: Any) -> ArmSweep:
    return arm_sweep(declare.arm(), declare.arm, ks=ks, profile=declare.profile(), noise=FLOORS, **changes)


def _plan(sweep: ArmSweep, *gates: Gate, **changes: Any) -> WindowPlan:
    pairs = (*(gate.pair for gate in gates), *sweep.pairs)
    return WindowPlan(pairs, gates, sweeps=(sweep,), **changes)


def _rounds(record: WindowRecord) -> list[list[str]]:
    """Return the arms of each round, in the order of their boots."""
    rounds: dict[int, list[str]] = {}
    for boot in record.boots:
        rounds.setdefault(boot.round, []).append(boot.arm)
    return list(rounds.values())


def _nobody_reaches_k7(world: World) -> None:
    """Let steps of the longest horizon be shorter than those of off, so that no shorter one can give as much."""
    world.step_s = {"off": 0.4, "k7": 0.05}
    world.speeds = {"k7": 0.2}


def test_the_scouts_come_first_and_the_order_turns(world: World, declare: type[Declare]) -> None:
    """Off, the longest horizon, then the others as they were declared; the second round the other way round."""
    record = measure(_plan(_sweep(declare)), world.ports())

    assert _rounds(record) == [["off", "k7", "k3", "k4"], ["k4", "k3", "k7", "off"]]
    assert (record.ruled_out, record.finished) == ({}, True)
    assert [sweep.noise for sweep in sweeps_of(record)] == [FLOORS]


def test_who_cannot_win_is_never_booted(world: World, declare: type[Declare]) -> None:
    """Neither in the first round nor later, with a sentence that holds both figures; the places have no gap."""
    _nobody_reaches_k7(world)
    record = measure(_plan(_sweep(declare, ks=(6, 4, 5, 7))), world.ports())
    words = (
        "k=5 can give at most 74.72 tokens/s a stream at c=1, where k=7 has 200, and 72.82 tokens/s a stream at c=8, "
        "where k=7 has 200 (upper end of the 95 % interval of its tokens per step, in a step that is assumed to take "
        "no less than one of off, and the noise floor of 5 % in its favour)"
    )

    assert _rounds(record)[0] == ["off", "k7"]
    assert record.ruled_out["k5"] == words
    assert f"k5 is not booted: {words}" in world.told


def test_a_pair_that_was_never_booted_is_not_invalid(world: World, declare: type[Declare]) -> None:
    """It has no figures, for a reason of its own; the scouts have theirs."""
    _nobody_reaches_k7(world)
    sweep = _sweep(declare)
    record = measure(_plan(sweep), world.ports())
    problems = {pair.candidate.name: pair_problem(pair, record) for pair in sweep.pairs}
    reasons = {name: problem.reason for name, problem in problems.items() if problem is not None}

    assert reasons == {"k3": "not-booted", "k4": "not-booted"}
    assert not_booted(sweep.pairs[0], record) is None


def test_who_is_beaten_in_everything_boots_no_more(world: World, declare: type[Declare]) -> None:
    """After a round; off and who leads go on, and the order of these two turns."""
    world.speeds = {"off": 1.0, "k3": 2.0, "k4": 1.1, "k7": 0.5}
    record = measure(_plan(_sweep(declare)), world.ports())

    assert _rounds(record) == [["off", "k7", "k3", "k4"], ["k3", "off"]]
    assert list(record.ruled_out) == ["k7", "k4"]
    assert record.ruled_out["k4"] == (
        "k=4 is beaten at c=1 by k=3 (decode rate p50 better +81.8 %, +60.6 .. +105.8 %, 1 round); at c=8 by k=3 "
        "(output throughput better +81.8 %, +60.6 .. +105.8 %, 1 round); at c=8 by k=3 (TTFT p50 better -45.0 %, "
        "-51.4 .. -37.7 %, 1 round)"
    )
    assert f"k4 is not booted again: {record.ruled_out['k4']}" in world.told


@pytest.mark.parametrize("how", ["gated", "asked"])
def test_an_arm_that_others_want_keeps_its_rounds(world: World, declare: type[Declare], how: str) -> None:
    """A gate on a pair needs all of its rounds, and so does a test that reads it."""
    _nobody_reaches_k7(world)
    sweep = _sweep(declare, rounds=6)
    gates = [declare.gate(sweep.pairs[-1], floor=0.12)] if how == "gated" else []
    plan = _plan(sweep, *gates, asked=frozenset({"k4"}) if how == "asked" else frozenset())
    record = measure(plan, world.ports())

    assert plan.droppable == {"k3", "k7"}
    assert [boots.count("k4") for boots in _rounds(record)] == [1] * 6
    assert set(record.ruled_out) == {"k3", "k7"}
    assert record.sweeps[0]["kept"] == ["k4"]


@pytest.mark.parametrize("arm", ["off", "k7"])
def test_scouts_that_failed_rule_nothing_out(world: World, declare: type[Declare], arm: str) -> None:
    """What cannot be read decides nothing; without off there is no pair to go on with."""
    _nobody_reaches_k7(world)
    world.failing = {(arm, 1, "c1")}
    record = measure(_plan(_sweep(declare, rounds=1)), world.ports())

    assert record.ruled_out == {}
    assert _rounds(record) == [["off"] if arm == "off" else ["off", "k7", "k3", "k4"]]


def test_what_may_be_ruled_out_is_not_sure(world: World, declare: type[Declare]) -> None:
    """Before the scouts have told who comes, and while a further round may be without somebody."""
    measure(_plan(_sweep(declare)), world.ports())

    assert [(boot.sure, len(boot.after)) for boot in world.begun] == [
        *((False, after) for after in (7, 6, 5, 4)),
        *((True, after) for after in (3, 2, 1, 0)),
    ]


def test_the_last_arms_of_a_single_round_are_sure_once_the_scouts_told(world: World, declare: type[Declare]) -> None:
    """Nothing is ruled out between them."""
    measure(_plan(_sweep(declare, rounds=1)), world.ports())

    assert [boot.sure for boot in world.begun] == [False, False, True, True]


def test_two_sweeps_rule_an_arm_out_together(world: World, declare: type[Declare]) -> None:
    """One that is a scout of another sweep is booted whatever the first one says."""
    _nobody_reaches_k7(world)
    first, second = _sweep(declare, rounds=1), _sweep(declare, ks=(3, 4), rounds=1)
    plan = WindowPlan(tuple({pair.key: pair for pair in (*first.pairs, *second.pairs)}.values()), (),
                      sweeps=(first, second))  # fmt: skip
    record = measure(plan, world.ports())

    assert _rounds(record) == [["off", "k7", "k3", "k4"]]


def _interrupt(_: Boot) -> None:
    raise KeyboardInterrupt


def _taken(world: World, record: WindowRecord, plan: WindowPlan) -> TakenOver:
    ports = world.ports()
    engine = {arm.name: world.facts(arm) for arm in arms_of(plan.pairs)}
    today = Today(
        pairs=plan.pairs, gates=plan.gates, strict=False, settings={}, host_class="", host=ports.host.facts(),
        engine=engine, commit="", client_version=ports.host.client_version(), sweeps=plan.stored_sweeps,
    )  # fmt: skip
    return taken_over([today], record, Source("results/one/record.json", "a" * 64))[1]


@pytest.fixture
def died(world: World, declare: type[Declare]) -> tuple[WindowPlan, WindowRecord]:
    """A sweep with one horizon that was never booted, and the record of its window, which died in its second round."""
    _nobody_reaches_k7(world)
    world.speeds = {"k7": 0.2}
    plan = _plan(_sweep(declare, rounds=4), asked=frozenset({"k7"}))
    world.at["k7", 2, "c1"] = _interrupt
    with pytest.raises(KeyboardInterrupt):
        measure(plan, world.ports())
    return plan, world.saved[-1]


def test_a_resumed_sweep_rules_out_what_it_did(world: World, died: tuple[WindowPlan, WindowRecord]) -> None:
    """Arms that were never booted are none of the rounds that a resumed window lacks."""
    plan, record = died
    taken = _taken(world, record, plan)
    later = type(world)()
    later.step_s, later.speeds = world.step_s, world.speeds
    facts = WindowFacts(attempt=taken.attempt, continued=taken.continued)
    whole = measure(WindowPlan(plan.pairs, (), facts=facts, taken=taken, sweeps=plan.sweeps, asked=plan.asked),
                    later.ports())  # fmt: skip

    assert taken.rounds == 1
    assert set(whole.ruled_out) == {"k3", "k4"} == set(record.ruled_out)
    assert later.starts() == ["k7", "off", "off", "k7", "k7", "off"]


def test_a_sweep_that_was_changed_is_not_resumed(world: World, died: tuple[WindowPlan, WindowRecord]) -> None:
    """What may be ruled out is declared before figures are seen."""
    plan, record = died
    other = WindowPlan(plan.pairs, (), sweeps=plan.sweeps)

    with pytest.raises(UsageError, match=r"sweeps.0.kept: \['k7'\] there, and \[\] today \(arms are ruled out by what"):
        _taken(world, record, other)
