"""A window that goes on with one that died: only what is missing is booted, and all of it is judged together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.arms import arms_of
from pytest_specgate.core.confounds import starts_of
from pytest_specgate.core.judge import judge
from pytest_specgate.core.resume import Source, TakenOver, Today, taken_over
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.window import WindowFacts, WindowPlan, measure

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from tests.window.conftest import Boot, Declare, World

SOURCE = Source("results/one/record.json", "a" * 64)


def _open(declare: type[Declare], pair: ArmPair) -> Gate:
    """Return a gate that wants all of six rounds."""
    return declare.gate(pair, floor=0.12)


def _dies(_: Boot) -> None:
    """As SIGKILL would: nothing of what follows comes to be."""
    raise KeyboardInterrupt


def _died(world: World, pair: ArmPair, *gates: Gate, at: tuple[str, int, str]) -> WindowRecord:
    """Return the record of a window that died in a step of a boot, as it lay on the disk then."""
    world.at[at] = _dies
    with pytest.raises(KeyboardInterrupt):
        world.measure(pair, gates=gates)
    return world.saved[-1]


def _taken(world: World, record: WindowRecord, pair: ArmPair, *gates: Gate) -> TakenOver:
    """Return what a window in another world takes over."""
    ports = world.ports()
    today = Today(
        pairs=(pair,),
        gates=gates,
        strict=False,
        settings={},
        host_class="",
        host=ports.host.facts(),
        engine={arm.name: world.facts(arm) for arm in arms_of([pair])},
        commit="",
        client_version=ports.host.client_version(),
    )
    return taken_over([today], record, SOURCE)[1]


def _resumed(world: World, record: WindowRecord, pair: ArmPair, *gates: Gate) -> WindowRecord:
    """Go on with a record in another world."""
    taken = _taken(world, record, pair, *gates)
    facts = WindowFacts(attempt=taken.attempt, continued=taken.continued)
    return measure(WindowPlan((pair,), gates, facts=facts, taken=taken), world.ports())


@pytest.fixture
def later(world: World) -> World:
    """The world after the death of a run: nothing of the other one is left but its record."""
    return type(world)()


def test_only_missing_rounds_are_booted_and_their_order_goes_on(
    world: World, later: World, declare: type[Declare]
) -> None:
    """Dead in its third round, a window boots rounds 3 to 6, each in the order that its number gives it."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    old = _died(world, pair, gate, at=("k4", 3, "c1"))
    record = _resumed(later, old, pair, gate)

    assert world.starts() == ["off", "k4", "k4", "off", "off", "k4"]
    assert later.starts() == ["off", "k4", "k4", "off", "off", "k4", "k4", "off"]
    assert [(boot.round, boot.position, boot.arm) for boot in record.boots[3:6]] == [
        (2, 1, "off"),
        (3, 0, "off"),
        (3, 1, "k4"),
    ]
    assert (len(record.rounds_of(pair)), record.finished) == (6, True)


def test_the_verdict_is_that_of_a_window_in_one_go(world: World, later: World, declare: type[Declare]) -> None:
    """Rounds of both runs count alike, whichever run measured them."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    old = _died(world, pair, gate, at=("off", 5, "c1"))
    record = _resumed(later, old, pair, gate)
    whole = type(world)().measure(pair, gates=[gate])

    assert judge(gate, record) == judge(gate, whole)
    assert [verdict.rounds for verdict in judge(gate, record)] == [6]


def test_the_first_thing_that_is_kept_holds_what_was_taken_over(
    world: World, later: World, declare: type[Declare]
) -> None:
    """Killed at once, the new window can be continued as the old one could."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    old = _died(world, pair, gate, at=("off", 3, "start"))
    record = _resumed(later, old, pair, gate)
    first = later.saved[0]

    assert first.boots == old.boots
    assert (first.finished, first.continued) == (False, record.continued)
    assert [(run.record, run.created_at, run.rounds) for run in first.continued] == [(SOURCE.path, old.created_at, 2)]


def test_what_is_done_is_told_before_anything_boots(world: World, later: World, declare: type[Declare]) -> None:
    """The record, its rounds, and what is lost of it."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    old = _died(world, pair, gate, at=("k4", 3, "c1"))
    _resumed(later, old, pair, gate)

    left_out = "1 boot of round 3, which was not finished, is left out"

    assert later.told[:2] == [
        f"continues results/one/record.json: rounds 1 to 2 of 6 were measured there; {left_out}",
        "round 3 of 6: off: starting its server",
    ]


def test_a_window_can_die_twice(world: World, later: World, declare: type[Declare]) -> None:
    """Three runs make one window, whose record names both that died."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    old = _died(world, pair, gate, at=("off", 2, "c1"))
    later.at["off", 3, "c1"] = _dies
    with pytest.raises(KeyboardInterrupt):
        _resumed(later, old, pair, gate)
    last = type(world)()
    record = _resumed(last, later.saved[-1], pair, gate)

    assert [run.rounds for run in record.continued] == [1, 3]
    assert {(boot.arm, boot.round) for boot in record.boots} == {
        (arm, number) for arm in ("off", "k4") for number in range(1, 7)
    }
    assert len(last.starts()) == 6


def test_a_window_whose_boots_are_all_there_is_only_judged(world: World, later: World, declare: type[Declare]) -> None:
    """A run that died between its last boot and its verdict is worth no boot more."""
    pair = declare.pair(None, 4, rounds=2)
    gate = _open(declare, pair)
    world.measure(pair, gates=[gate])
    old = next(state for state in world.saved if len(state.boots) == 4)
    record = _resumed(later, old, pair, gate)

    assert later.starts() == []
    assert (record.finished, record.verdicts) == (True, world.saved[-1].verdicts)


def test_new_boots_on_a_machine_that_changed_are_invalid(
    world: World, later: World, declare: type[Declare], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drift is looked for between the last boot of the old run and the first of the new one."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    taken = _taken(later, _died(world, pair, gate, at=("off", 3, "start")), pair, gate)
    ports = later.ports()
    monkeypatch.setattr(type(ports.host), "facts", lambda _: {"cpus": 4})
    record = measure(WindowPlan((pair,), (gate,), taken=taken), ports)
    (verdict,) = judge(gate, record)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "host-drift")
    assert "the machine changed between off, round 2, and off, round 3: cpus was 2, and is now 4" in verdict.summary


def test_new_boots_under_another_load_are_invalid(world: World, later: World, declare: type[Declare]) -> None:
    """Identity is looked for among the boots of both runs: here answers came out shorter in one of them."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    old = _died(world, pair, gate, at=("off", 3, "start"))
    changed = [
        boot.model_copy(update={"profile": {**boot.profile, "tokenizer_sha256": "another"}}) for boot in old.boots
    ]
    record = _resumed(later, old.model_copy(update={"boots": tuple(changed)}), pair, gate)
    (verdict,) = judge(gate, record)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "profile-mismatch")
    assert "tokenizer_sha256\n    off, round 1: another\n    off, round 3: " in verdict.detail


def test_new_boots_send_what_the_old_ones_sent(world: World, later: World, declare: type[Declare]) -> None:
    """Prompts are made anew, and are the same ones."""
    pair = declare.pair(None, 4, rounds=6)
    gate = _open(declare, pair)
    old = _died(world, pair, gate, at=("off", 2, "c1"))
    _resumed(later, old, pair, gate)

    assert later.sent["k4", 1, "c8"] == world.sent["off", 1, "c8"]


def test_starts_are_compared_with_the_first_of_all(world: World, later: World, declare: type[Declare]) -> None:
    """Of new boots only what differs from the first old one is kept, and what was resolved can be had back."""
    pair = declare.pair(None, 4, rounds=4)
    gate = _open(declare, pair)
    old = _died(world, pair, gate, at=("off", 2, "c1"))
    later.config["other"] = 2
    record = _resumed(later, old, pair, gate)
    starts = starts_of(record)

    assert record.boots[2].startup is not None
    assert set(record.boots[2].startup.config) == {"other"} | {
        path for path in record.boots[2].startup.config if path.startswith("speculative_config")
    }
    assert (starts["off", 1].config["other"], starts["off", 3].config["other"]) == (1, 2)
