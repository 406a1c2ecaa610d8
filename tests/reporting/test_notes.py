"""What stands below a pair's table whatever the verdicts are, and what a failure advises."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.gate import Gate
from pytest_specgate.core.judge import judge
from pytest_specgate.core.thresholds import CurveThreshold, NoiseFloor, Threshold
from pytest_specgate.core.verdict import FactorVerdict, Outcome, Verdict
from pytest_specgate.reporting.evidence import needs_lines, verdict_notes
from pytest_specgate.reporting.messages import failure_text

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

AGAIN = "pytest 'test_gate.py::test_0[c1-ttft_p50-not_worse]' --specgate-budget='1h 30m' --specgate-strict"


def _verdict(threshold: str, **fields: Any) -> Verdict:
    usual: dict[str, Any] = {
        "gate": "test_gate.py::test_0", "threshold": threshold, "pair": "k4 against off", "metric": "tpot_p50", "at": 1,
        "kind": "not_worse", "claim": "a claim", "outcome": Outcome.PASS, "reason": "within-margin", "summary": "PASS",
        "rounds": 2, "rounds_planned": 6,
    }  # fmt: skip
    return Verdict(**{**usual, **fields})


def test_notes_of_several_verdicts_are_said_once() -> None:
    """Noise, then factors, then what to know besides, each with the thresholds that it is about."""
    speed = FactorVerdict(
        name="tokens per step", reference=2.0, candidate=1.0, change=-0.5, change_low=-0.6, change_high=-0.4, moved=True
    )
    verdicts = [
        _verdict("a", noise="pooled", flags=("look here", "and there")),
        _verdict("b", noise="pooled", flags=("look here",), factors=(speed,), residual=0.0),
        _verdict("c", outcome=Outcome.FAIL, noise="own"),
        _verdict("d"),
    ]

    assert list(verdict_notes(verdicts)) == [
        "a, b: noise: pooled",
        "c: noise: own",
        "b: speed: tokens per step -50.0 % (2.000 -> 1.000); residual +0.0 %",
        "a, b: note: look here",
        "a: note: and there",
    ]


def test_nothing_to_say_is_no_line() -> None:
    """Verdicts without noise, factors and flags leave nothing below their table."""
    assert list(verdict_notes([_verdict("a"), _verdict("b")])) == []


def test_a_pass_shows_its_notes(window: type[Window], k4_off: ArmPair) -> None:
    """Twice as fast on a claim of 'not worse' passes, and the summary says what to look at and what it rests on."""
    lines = window.of(k4_off, speeds={"k4": 2.0}).gated("tpot_p50").lines()
    name = "c1-tpot_p50-not_worse"

    assert any("PASS" in line for line in lines)
    assert (
        f"{name}: note: more than 10 % better on a claim of 'not worse': check that both arms did the same work"
    ) in lines
    assert any(line.startswith(f"{name}: noise: ") and "floor 1 % (A/A windows of a test)" in line for line in lines)
    assert any(line.startswith(f"{name}: speed: tokens per step ") for line in lines)


def test_notes_stand_below_their_pair(window: type[Window], k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """Of two pairs each has its own notes below its own table."""
    one = window.of(k4_off, k7_k4, speeds={"k4": 2.0}).gated("tpot_p50", margin=0.9, place=1).gated("e2e_p50")
    lines = one.lines()
    titles = [next(place for place, line in enumerate(lines) if line.startswith(pair.title)) for pair in one.pairs]
    notes = {line.partition(": ")[0]: place for place, line in enumerate(lines) if ": noise: " in line}

    assert titles[0] < notes["c1-e2e_p50-not_worse"] < titles[1] < notes["c1-tpot_p50-not_worse"]


def _stopped(window: type[Window], pair: ArmPair, *, why: str, speed: float = 1.0) -> str:
    """Return the failure text of a threshold of unknown noise that something stopped after two of six rounds."""
    longer = dataclasses.replace(pair, rounds=6)
    shown = window.of(longer, speeds={"k4": [speed, speed * 1.01]})
    record = shown.record.model_copy(update={"stopped": why})
    open_still = Threshold("ttft_p50", 1, "not_worse", 0.05)
    failing = Threshold("e2e_p50", 1, "not_worse", 0.05, NoiseFloor(0.01, "A/A windows of a test"))
    gate = Gate(id="test_gate.py::test_0", pair=longer, thresholds=(open_still, failing))
    return failure_text(
        judge(gate, record)[0], gate=gate, record=record, record_path="results/record.json", again=AGAIN
    )


def test_what_a_budget_stopped_is_not_measured_with_it_again(window: type[Window], k4_off: ArmPair) -> None:
    """The next step leaves out the budget that cut it short, and keeps every other option."""
    text = _stopped(window, k4_off, why="the time budget was used up after 2 of 6 rounds")

    assert "until then: the time budget was used up after 2 of 6 rounds" in text.splitlines()[0]
    assert text.splitlines()[-1].strip() == (
        "measure it whole, with more time or without a budget: "
        "pytest 'test_gate.py::test_0[c1-ttft_p50-not_worse]' --specgate-strict"
    )


def test_what_another_claim_stopped_is_measured_after_that(window: type[Window], k4_off: ArmPair) -> None:
    """Where no budget ended the window, another run of this test alone would stop there, too, and that is said."""
    lines = [line.strip() for line in _stopped(window, k4_off, why="", speed=0.5).splitlines()]

    assert "c1-e2e_p50-not_worse is FAIL" in lines[0]
    assert lines[-2:] == [
        "a gate stops where one of its thresholds fails, also when another one is run alone:",
        f"mend what failed, or give this claim a gate of its own, and then: {AGAIN}",
    ]


def test_a_stopped_claim_shows_what_was_measured(window: type[Window], k4_off: ArmPair) -> None:
    """The change, the values and the rounds of what was cut short are told."""
    lines = _stopped(window, k4_off, why="the time budget was used up after 2 of 6 rounds").splitlines()

    assert "stopped at round 2 of 6, better -0.5 % until then" in lines[0]
    assert any("geometric means of 2 rounds; by round: +0.0 %, -1.0 %" in line for line in lines)


@pytest.mark.parametrize(("planned", "more"), [(1, 4), (6, 12)])
def test_a_curve_invents_no_number_of_rounds(planned: int, more: int) -> None:
    """No planner knows what a curve needs: more rounds are advised, and no number of them is promised."""
    verdict = _verdict("a", kind="faster_only_up_to", outcome=Outcome.INCONCLUSIVE, rounds_planned=planned)

    [line] = needs_lines(verdict, "pytest x")

    assert line == f"more rounds narrow the intervals of all levels: pytest x --specgate-rounds={more}"


def test_a_curve_names_the_noise_of_its_levels(window: type[Window], k4_off: ArmPair) -> None:
    """What the intervals of a curve rest on has its line in a failure and below the table."""
    threshold = CurveThreshold(1, floor=NoiseFloor(0.01, "A/A windows of a test"))
    gate = Gate(id="test_gate.py::test_0", pair=k4_off, thresholds=(threshold,))
    shown = dataclasses.replace(window.of(k4_off, speeds={"k4": 1.5}), gates=(gate,))

    assert any(line.startswith("    noise: ") and "A/A windows of a test" in line for line in shown.failure())
    assert any(line.startswith(f"{threshold.id}: noise: ") for line in shown.lines())


def test_points_have_one_scale_in_the_table(window: type[Window], k7_k4: ArmPair) -> None:
    """Change, rounds and interval of a margin in points are points, and none is a per cent of a share."""
    pair = dataclasses.replace(k7_k4, rounds=4)
    threshold = Threshold("acceptance_rate", 1, "not_worse", 0.05, points=True)
    gate = Gate(id="test_gate.py::test_0", pair=pair, thresholds=(threshold,))
    shown = dataclasses.replace(window.of(pair, speeds={}, rounds=4), gates=(gate,))

    row = shown.row("acceptance rate")

    assert "worse -16.1 points -16.1 to -16.1 " in row
    assert " points FAIL (not worse than -5 points)" in row
    assert row.startswith("acceptance rate [%] 37.50 21.43 worse ")
    assert "%" not in row.removeprefix("acceptance rate [%]")
