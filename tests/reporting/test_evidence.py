"""What a verdict rests on, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import MAXIMUM_ROUNDS, ArmPair
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.judge import judge
from pytest_specgate.core.thresholds import CurveThreshold, LimitThreshold, NoiseFloor, OutputsThreshold, Threshold
from pytest_specgate.core.verdict import CurveVerdict, FactorVerdict, Outcome, Verdict
from pytest_specgate.reporting.evidence import (
    counted,
    evidence_lines,
    factor_lines,
    is_undecided,
    needs_lines,
    prospect_lines,
)
from pytest_specgate.reporting.properties import properties

if TYPE_CHECKING:
    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.reporting.conftest import Window

FLOOR = NoiseFloor(0.01, "A/A windows of a test")
STEPS, TOKENS = "steps per second", "tokens per step"


def _lines(shown: Window, threshold: AnyThreshold) -> list[str]:
    """Return the evidence of a claim about the first pair of a window."""
    gate = Gate(id="test_gate.py::test_0", pair=shown.pairs[0], thresholds=(threshold,))
    [verdict] = judge(gate, shown.record)
    return list(evidence_lines(verdict, gate))


def _verdict(**fields: Any) -> Verdict:
    """Return a verdict in which nothing was decided."""
    usual: dict[str, Any] = {
        "gate": "test_gate.py::test_0", "threshold": "c1-output_throughput-not_worse", "pair": "k4 against off",
        "metric": "output_throughput", "at": 1, "kind": "not_worse", "claim": "a claim",
        "outcome": Outcome.INCONCLUSIVE, "reason": "interval-contains-margin", "summary": "a sentence",
        "rounds": 6, "rounds_planned": 6,
    }  # fmt: skip
    return Verdict(**{**usual, **fields})


def _factor(name: str, change: float, *, moved: bool, known: bool = True, level: float = 2.65) -> FactorVerdict:
    ends = (change - 0.01, change + 0.01) if known else (None, None)
    return FactorVerdict(
        name=name, reference=level, candidate=level * (1 + change), change=change, change_low=ends[0],
        change_high=ends[1], moved=moved,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "metric", "speed", "expected"),
    [
        ("not_worse", "output_throughput", 0.9, "off 100.0, k4 90.00 tokens/s"),
        ("better", "ttft_p50", 2.0, "off 100.0, k4 50.00 ms"),
        ("equivalent", "tpot_p50", 1.0, "off 100.0, k4 100.0 ms"),
    ],
)
def test_an_interval_shows_both_arms_and_every_round(  # noqa: PLR0913  - three parameters and two fixtures
    window: type[Window], k4_off: ArmPair, *, kind: Any, metric: str, speed: float, expected: str
) -> None:
    """Levels of both arms with their unit, then the change of every round, each as a raw change of the metric."""
    shown = window.of(k4_off, speeds={"k4": [speed, speed * 1.01]})
    first = _lines(shown, Threshold(metric, 1, kind, 0.05, FLOOR))[0]
    throughput = metric == "output_throughput"
    changes = [speed - 1, speed * 1.01 - 1] if throughput else [1 / speed - 1, 1 / (speed * 1.01) - 1]

    assert first.partition(" (")[0].rsplit(" ", 2)[0] == expected.rsplit(" ", 2)[0]
    assert first.endswith(
        f" (geometric means of 2 rounds; by round: {100 * changes[0]:+.1f} %, {100 * changes[1]:+.1f} %)"
    )


def test_an_interval_names_claim_noise_and_who_shares_it(window: type[Window], k4_off: ArmPair) -> None:
    """The claim, the standard deviation with its source, and what shares the error rates each have a line."""
    lines = _lines(window.of(k4_off, speeds={"k4": 0.9}), Threshold("output_throughput", 1, "not_worse", 0.05, FLOOR))

    assert "claim: output throughput at c=1 not worse by more than 5 %" in lines
    assert [line for line in lines if line.startswith("noise: ") and "A/A windows of a test" in line]
    assert (
        "interval: one-sided bounds, in all 5 % for PASS and 5 % for FAIL, shared by 1 look and, for FAIL, "
        "1 threshold of the gate"
    ) in lines


def test_a_share_that_is_equal_has_no_minus(k7_k4: ArmPair) -> None:
    """What is rounded to no points is no loss."""
    verdict = _verdict(
        metric="acceptance_rate", points=True, reference=0.5, candidate=0.5, ratios=(-0.0001,), kind="not_worse"
    )
    gate = Gate("test_gate.py::test_0", k7_k4, (Threshold("acceptance_rate", 1, "not_worse", 0.05, points=True),))

    assert next(evidence_lines(verdict, gate)).endswith("by round: +0.0 points)")


def test_points_are_told_as_points(window: type[Window], k7_k4: ArmPair) -> None:
    """Shares have plain means, and their changes are points, not per cent of a share."""
    pair = ArmPair(
        reference=k7_k4.reference, candidate=k7_k4.candidate, varies=k7_k4.varies, profile=k7_k4.profile, rounds=4
    )
    lines = _lines(
        window.of(pair, speeds={}, rounds=4), Threshold("acceptance_rate", 1, "not_worse", 0.05, points=True)
    )

    assert lines[0] == (
        "k4 37.50, k7 21.43 % (means of 4 rounds; by round: -16.1 points, -16.1 points, -16.1 points, -16.1 points)"
    )
    assert any("smallest usable margin" in line and "points" in line and "%" not in line for line in lines)
    assert not any(line.startswith("speed:") for line in lines)


@pytest.mark.parametrize(
    ("limit", "first", "claim"),
    [
        (LimitThreshold("ttft_p50", 1, "at_most", 0.2), "by boot of k4: 100 ms, 80 ms", "at most 200 ms"),
        (
            LimitThreshold("output_throughput", 1, "at_least", 90.0),
            "by boot of k4: 100 tokens/s, 125 tokens/s",
            "at least 90 tokens/s",
        ),
        (LimitThreshold("preemptions", 1, "at_most", 0.0), "by boot of k4: 0, 0", "at most 0"),
        (LimitThreshold("acceptance_rate", 1, "at_least", 0.3), "by boot of k4: 37.5 %, 37.5 %", "at least 30 %"),
    ],
)
def test_a_limit_shows_every_boot(
    window: type[Window], k4_off: ArmPair, limit: LimitThreshold, *, first: str, claim: str
) -> None:
    """A limit rests on the candidate's values, in the unit that its gate file uses, and on nothing else."""
    lines = _lines(window.of(k4_off, speeds={"k4": [1.0, 1.25]}), limit)

    assert lines[0] == first
    assert len(lines) == 2
    assert lines[1].startswith("claim: ")
    assert lines[1].endswith(f"{claim} in every boot of the candidate")


def test_a_curve_shows_every_level(window: type[Window], k4_off: ArmPair) -> None:
    """Each level has its change, its interval and what that shows; then what shares the error rate, and the claim."""
    lines = _lines(window.of(k4_off, speeds={"k4": 1.5}), CurveThreshold(1, floor=FLOOR))

    assert [line.partition(", interval")[0] for line in lines[:2]] == ["c=1: better +50.0 %", "c=8: better +50.0 %"]
    assert [line.rpartition(": ")[2] for line in lines[:2]] == ["shown better", "shown better"]
    assert "intervals: two-sided, 5 % in all for 2 levels and 1 look" in lines
    assert "claim: output throughput better up to c=1, and worse at every level beyond" in lines


def test_a_level_that_shows_nothing(k4_off: ArmPair) -> None:
    """What could not be shown is called that; without an interval there are dashes, and no figure is made up."""
    points = (
        CurveVerdict(at=1, sign="not shown", change=0.01, change_low=-0.02, change_high=0.04),
        CurveVerdict(at="4/s", sign="not shown", change=None, change_low=None, change_high=None),
        CurveVerdict(at=32, sign="worse", change=-0.2, change_low=-0.25, change_high=-0.15),
    )
    verdict = _verdict(kind="faster_only_up_to", curve=points, looks=3)
    gate = Gate(id="test_gate.py::test_0", pair=k4_off, thresholds=(CurveThreshold(1, floor=FLOOR),))

    lines = list(evidence_lines(verdict, gate))

    assert lines[:3] == [
        "c=1: better +1.0 %, interval -2.0 .. +4.0 %: no change shown",
        "4/s: -, interval -: no change shown",
        "c=32: worse -20.0 %, interval -25.0 .. -15.0 %: shown worse",
    ]
    assert "intervals: two-sided, 5 % in all for 3 levels and 3 looks" in lines


def test_a_curve_that_was_not_judged_has_its_claim_only(k4_off: ArmPair) -> None:
    """Before its first look there is nothing to show."""
    gate = Gate(id="test_gate.py::test_0", pair=k4_off, thresholds=(CurveThreshold(1, floor=FLOOR),))

    assert list(evidence_lines(_verdict(kind="faster_only_up_to"), gate)) == ["claim: a claim"]


def test_equal_answers_are_counted_by_round(window: type[Window], k4_off: ArmPair) -> None:
    """The claim about answers rests on shares, round by round."""
    lines = _lines(window.of(k4_off, speeds={}), OutputsThreshold(1, 0.99))

    assert lines[0].startswith("equal answers by round: ")
    assert len(lines) == 2


def test_a_longer_step_is_told_as_a_step_time() -> None:
    """Steps per second that fall by 5.7 % are a step time that rises by 6 %, told in milliseconds."""
    factors = (_factor(TOKENS, -0.004, moved=False), _factor(STEPS, 1 / 1.06 - 1, moved=True, level=50.0))

    lines = list(factor_lines(_verdict(factors=factors, residual=-0.001)))

    assert lines == [
        (
            "speed: tokens per step no change shown (2.650 -> 2.639, -0.4 %), step time +6.0 % (20.00 -> 21.20 ms); "
            "residual -0.1 %"
        )
    ]


def test_acceptance_that_moved_beside_a_step_that_did_not() -> None:
    """The other way round: the step time is unchanged, tokens per step moved."""
    factors = (_factor(TOKENS, -0.5, moved=True), _factor(STEPS, 0.001, moved=False, level=50.0))

    [line] = factor_lines(_verdict(factors=factors, residual=0.0))

    assert line == (
        "speed: tokens per step -50.0 % (2.650 -> 1.325), step time no change shown (20.00 -> 19.98 ms, -0.1 %); "
        "residual +0.0 %"
    )


def test_factors_of_unknown_noise_are_not_called_unchanged() -> None:
    """Where nothing is known of the noise of a factor its change is shown, and said to mean little."""
    [line] = factor_lines(_verdict(factors=(_factor(TOKENS, 0.2, moved=False, known=False),), residual=0.0))

    assert line.startswith("speed: tokens per step +20.0 % (2.650 -> 3.180, its noise is not known)")
    assert "no change" not in line


def test_what_has_no_factors_has_no_line() -> None:
    """Nothing is said of the speed of a claim that has none."""
    assert list(factor_lines(_verdict())) == []


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        (
            {"smallest_margin": 0.0123, "detectable": -0.087},
            [
                ("with 6 rounds of this noise: smallest usable margin 1.3 %, a change of -8.7 % is called FAIL in four "
                "of five runs")
            ],
        ),
        (
            {"smallest_margin": 0.01, "detectable": 0.05, "rounds_planned": 1, "points": True},
            [
                ("with 1 round of this noise: smallest usable margin 1 points, a change of +5 points is called FAIL in "
                "four of five runs")
            ],
        ),
        ({"break_even_floor": 0.0971}, ["this would be decided under any declared floor up to 9.71 %"]),
        ({}, []),
        ({"smallest_margin": 0.01}, []),
    ],
)  # fmt: skip
def test_prospects(fields: dict[str, Any], lines: list[str]) -> None:
    """What this noise can show, or which floor would decide; nothing where nothing is known."""
    assert list(prospect_lines(_verdict(**fields))) == lines


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({"needs_rounds": 12, "sd": 0.01}, ["a new run needs about 12 rounds: pytest x --specgate-rounds=12"]),
        (
            {"needs_rounds": None, "sd": 0.01},
            [
                "more than 20 rounds would be needed: change the margin, or make the machine quieter",
                "measure again (a new sample, not a correction): pytest x",
            ],
        ),
        ({"needs_rounds": None, "sd": None}, ["a new run needs about 12 rounds: pytest x --specgate-rounds=12"]),
        (
            {"needs_rounds": None, "sd": None, "rounds_planned": 1},
            ["a new run needs about 4 rounds: pytest x --specgate-rounds=4"],
        ),
        (
            {"needs_rounds": None, "sd": None, "rounds_planned": MAXIMUM_ROUNDS},
            [f"a new run needs about {MAXIMUM_ROUNDS} rounds: pytest x --specgate-rounds={MAXIMUM_ROUNDS}"],
        ),
    ],
)
def test_what_to_run_next(fields: dict[str, Any], lines: list[str]) -> None:
    """A new run with so many rounds; where more than anybody should ask would be needed, another margin."""
    assert list(needs_lines(_verdict(**fields), "pytest x")) == lines


@pytest.mark.parametrize(
    ("outcome", "reason", "undecided"),
    [
        (Outcome.INCONCLUSIVE, "interval-contains-margin", True),
        (Outcome.INCONCLUSIVE, "noise-unknown", True),
        (Outcome.INCONCLUSIVE, "futile", True),
        (Outcome.INCONCLUSIVE, "curve-not-shown", True),
        (Outcome.INCONCLUSIVE, "stopped", False),
        (Outcome.INCONCLUSIVE, "outputs-not-repeatable", False),
        (Outcome.PASS, "within-margin", False),
        (Outcome.FAIL, "beyond-margin", False),
        (Outcome.INVALID, "server-died", False),
    ],
)
def test_what_more_rounds_could_decide(outcome: Outcome, reason: str, *, undecided: bool) -> None:
    """Only what was measured well and not enough; what was stopped by another needs no more rounds of its own."""
    assert is_undecided(_verdict(outcome=outcome, reason=reason)) == undecided


@pytest.mark.parametrize(("count", "words"), [(0, "0 rounds"), (1, "1 round"), (2, "2 rounds")])
def test_numbers_with_their_noun(count: int, words: str) -> None:
    """One has no plural."""
    assert counted(count, "round") == words


def test_the_noise_of_points_is_in_points(window: type[Window], k7_k4: ArmPair) -> None:
    """The standard deviation of a share in points, and its floor, are points and not per cent."""
    pair = ArmPair(
        reference=k7_k4.reference, candidate=k7_k4.candidate, varies=k7_k4.varies, profile=k7_k4.profile, rounds=4
    )
    threshold = Threshold("acceptance_rate", 1, "not_worse", 0.05, points=True)
    [line] = [line for line in _lines(window.of(pair, speeds={}, rounds=4), threshold) if line.startswith("noise: ")]

    assert line.startswith("noise: sd of a round 2.5 points (floor 4.9 points), df 3: ")


@pytest.mark.parametrize(
    ("limit", "name"),
    [
        (LimitThreshold("ttft_p50", 1, "at_most", 0.2), "specgate_limit_s"),
        (LimitThreshold("output_throughput", 1, "at_least", 90.0), "specgate_limit_tokens_per_s"),
        (LimitThreshold("preemptions", 1, "at_most", 0.0), "specgate_limit"),
    ],
)
def test_junit_names_the_unit_of_a_limit(
    window: type[Window], k4_off: ArmPair, limit: LimitThreshold, *, name: str
) -> None:
    """A limit is a value of the metric, and its property says in which unit."""
    gate = Gate(id="test_gate.py::test_0", pair=k4_off, thresholds=(limit,))
    [verdict] = judge(gate, window.of(k4_off, speeds={}).record)
    found = dict(properties(verdict))

    assert found[name] == limit.value
    assert [key for key in found if key.startswith("specgate_limit")] == [name]
