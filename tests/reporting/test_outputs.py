"""What reports say of the answers: whether they were compared, what came of it, and that this is no accuracy check."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.gate import Gate
from pytest_specgate.core.thresholds import OutputsThreshold
from pytest_specgate.reporting.messages import outcome_line
from pytest_specgate.reporting.properties import properties

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import PointRecord
    from tests.reporting.conftest import Window


def _line(one: Window) -> str:
    """Return the only line on outputs of a summary."""
    (line,) = [line for line in one.lines() if line.startswith("outputs")]
    return line


def _other(one: Window, name: str, number: int, *, count: int, at: Level = 8) -> Window:
    """Return the window with other answers to the first requests of a point."""

    def edit(point: PointRecord) -> PointRecord:
        changed = [request.model_copy(update={"text_sha256": "f" * 64}) for request in point.requests[:count]]
        return point.model_copy(update={"requests": (*changed, *point.requests[count:])})

    return one.with_point(name, number, at=at, edit=edit)


def _claiming(one: Window, share: float, *, at: Level = 8) -> Window:
    """Return the window with a gate on its answers."""
    gate = Gate(id="test_gate.py::test_outputs", pair=one.pairs[0], thresholds=(OutputsThreshold(at, share),))
    return dataclasses.replace(one, gates=(*one.gates, gate))


def test_equal_answers_are_told(window: type[Window], k4_off: ArmPair) -> None:
    """The line counts the answers of both arms, and those of each arm with itself."""
    assert _line(window.of(k4_off, speeds={})) == (
        "outputs: 52 of 52 answers equal between k4 and off (off with itself across rounds: 26 of 26, k4 with itself "
        "across rounds: 26 of 26); no accuracy check ran"
    )


def test_the_first_difference_is_told(window: type[Window], k4_off: ArmPair) -> None:
    """Answers that differ are counted, and where the first of them does so is named."""
    one = window.of(k4_off, speeds={}).with_requests("off", 2, at=8, text="as ever")

    assert _line(one.with_requests("k4", 2, at=8, text="as never", text_sha256="f" * 64)) == (
        "outputs: 36 of 52 answers equal between k4 and off (off with itself across rounds: 26 of 26, k4 with itself "
        "across rounds: 10 of 26); first difference at character 4 of request 0 at c=8, round 2; no accuracy check ran"
    )


def test_without_texts_the_reason_is_told(window: type[Window], k4_off: ArmPair) -> None:
    """Answers that were not kept are compared by their hashes; the line says why it shows no difference."""
    assert _line(_other(window.of(k4_off, speeds={}), "k4", 2, count=2)) == (
        "outputs: 50 of 52 answers equal between k4 and off (off with itself across rounds: 26 of 26, k4 with itself "
        "across rounds: 24 of 26); where they differ is not known, as their texts were not kept (the first is request "
        "0 at c=8, round 2); no accuracy check ran"
    )


def test_one_round_has_no_floor(window: type[Window], k4_off: ArmPair) -> None:
    """With a single round the line says that the floor is not known."""
    assert _line(window.of(k4_off, speeds={}, rounds=1)) == (
        "outputs: 26 of 26 answers equal between k4 and off (one round, so whether an arm repeats itself is not known)"
        "; no accuracy check ran"
    )


def test_every_pair_has_its_line(window: type[Window], k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """Two pairs of one window are compared each for itself."""
    lines = [line for line in window.of(k4_off, k7_k4, speeds={}).lines() if line.startswith("outputs")]

    assert [line.partition("(")[0] for line in lines] == [
        "outputs: 52 of 52 answers equal between k4 and off ",
        "outputs: 52 of 52 answers equal between k7 and k4 ",
    ]


def test_sampled_answers_are_not_compared(window: type[Window], k4_off: ArmPair) -> None:
    """Above temperature 0 the line gives the reason."""
    sampled = dataclasses.replace(k4_off, profile=dataclasses.replace(k4_off.profile, temperature=0.8))

    assert _line(window.of(sampled, speeds={})) == (
        "outputs cannot be compared: at temperature 0.8 every answer is drawn by chance; no accuracy check ran"
    )


def test_greedy_levels_are_compared_beside_sampled_ones(window: type[Window], k4_off: ArmPair) -> None:
    """Answers of the greedy levels are counted, and the line says at which levels none can be compared."""
    requests: dict[Level, int] = {8: 16, "8 T=0.8": 16}
    mixed = dataclasses.replace(k4_off, profile=dataclasses.replace(k4_off.profile, requests=requests))

    assert _line(window.of(mixed, speeds={})) == (
        "outputs: 32 of 32 answers equal between k4 and off (off with itself across rounds: 16 of 16, k4 with itself "
        "across rounds: 16 of 16); outputs at c=8 T=0.8 cannot be compared: at temperature 0.8 every answer is drawn "
        "by chance; no accuracy check ran"
    )


def test_invalid_pairs_are_not_compared(window: type[Window], k4_off: ArmPair) -> None:
    """Nothing is said of the answers of a pair that cannot be judged, but that nothing was compared."""
    assert _line(window.of(k4_off, speeds={}).with_death("k4", 1)) == (
        "outputs were not compared: no point of both arms can be judged; no accuracy check ran"
    )


def test_an_invalid_verdict_says_it_too(window: type[Window], k4_off: ArmPair) -> None:
    """The failure text has the line, whether the pair is invalid or one of its points."""
    dead = window.of(k4_off, speeds={}).with_death("k4", 1).gated().failure()
    point = window.of(k4_off, speeds={}).with_requests("k4", 1, at=1, closed_s=-1.0).gated().failure()

    assert "    outputs were not compared: no point of both arms can be judged; no accuracy check ran" in dead
    assert point[0].startswith("INVALID (impossible-value): ")
    assert len([line for line in point if line.startswith("    outputs: 32 of 32 answers equal ")]) == 1


def test_invalid_points_are_left_out(window: type[Window], k4_off: ArmPair) -> None:
    """A point with an impossible value contributes no answers."""
    one = window.of(k4_off, speeds={}).with_requests("k4", 1, at=1, closed_s=-1.0)

    assert _line(one).startswith("outputs: 32 of 32 answers equal ")


def test_a_point_that_no_pair_can_use_leaves_nothing(window: type[Window], k4_off: ArmPair) -> None:
    """When every point of a readable pair is invalid, nothing was compared."""
    one = window.of(k4_off, speeds={})
    for at in (1, 8):
        one = one.with_requests("k4", 1, at=at, closed_s=-1.0)

    assert _line(one).startswith("outputs were not compared")


def test_a_failure_text_has_the_line_too(window: type[Window], k4_off: ArmPair) -> None:
    """A reader of one failed threshold is told the same."""
    lines = window.of(k4_off, speeds={"k4": 0.5}).gated().failure()

    assert len([line for line in lines if line.strip().startswith("outputs: 52 of 52")]) == 1


def test_a_claim_on_answers_has_its_row(window: type[Window], k4_off: ArmPair) -> None:
    """The table shows the worst share, that of each round, and the outcome with the claim."""
    one = _claiming(_other(_other(window.of(k4_off, speeds={}), "k4", 1, count=3), "k4", 2, count=4), 0.9)

    assert one.row("equal answers", 8) == "equal answers - - 75 % 81.25 % 75 % - FAIL (at least 90 %)"
    assert outcome_line(one.judged()[0].verdicts, collected=1) == "1 of 1 threshold judged: 1 FAIL"


def test_shares_of_many_rounds_are_a_range(window: type[Window], k4_off: ArmPair) -> None:
    """More than three rounds are shown by their least and greatest share."""
    pair = dataclasses.replace(k4_off, rounds=4)
    one = _claiming(_other(window.of(pair, speeds={}, rounds=4), "k4", 2, count=4), 0.5)

    assert one.row("equal answers", 8) == "equal answers - - 75 % 75 to 100 % - PASS (at least 50 %)"


def test_an_invalid_claim_on_answers_has_no_share(window: type[Window], k4_off: ArmPair) -> None:
    """Where the answers are not comparable the row has dashes."""
    sampled = dataclasses.replace(k4_off, profile=dataclasses.replace(k4_off.profile, temperature=0.8))
    one = _claiming(window.of(sampled, speeds={}), 0.9)

    assert one.row("equal answers", 8) == "equal answers - - - - - INVALID (at least 90 %)"


def test_the_failure_text_of_a_claim_on_answers(window: type[Window], k4_off: ArmPair) -> None:
    """It says how many answers differ, by round, where first, and what was claimed; there is no interval."""
    lines = _claiming(_other(_other(window.of(k4_off, speeds={}), "k4", 1, count=3), "k4", 2, count=4), 0.9).failure()

    assert lines[0] == "FAIL: 12 of 16 answers at c=8 equal (75 %), in the worst of 2 rounds, asked for at least 90 %"
    assert "    equal answers by round: 81.25 %  75 %" in lines
    assert "    claim: answers at c=8 equal in at least 90 % of each round" in lines
    assert any("(the first is request 0 at c=8, round 1)" in line for line in lines)
    assert not any(line.strip().startswith(("noise", "interval")) for line in lines)


@pytest.mark.parametrize(("count", "share"), [(0, 1.0), (4, 0.75)])
def test_properties_of_a_claim_on_answers(window: type[Window], k4_off: ArmPair, *, count: int, share: float) -> None:
    """The worst share of equal answers is a property; there is no change and no noise."""
    one = _claiming(_other(window.of(k4_off, speeds={}), "k4", 2, count=count), 0.9)
    found = dict(properties(one.verdict()))

    assert found["specgate_equal_share"] == share
    assert found["specgate_metric"] == "outputs_agree"
    assert not {"specgate_change", "specgate_noise_sd", "specgate_reference"} & set(found)
