"""The plan of a session: what is going to be booted and sent, how long it takes, and what can be decided by it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.baseline_threshold import BaselineThreshold
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.thresholds import (
    CALIBRATED,
    CurveThreshold,
    LimitThreshold,
    NoiseFloor,
    OutputsThreshold,
    Threshold,
)
from pytest_specgate.reporting.layout import Detail, View
from pytest_specgate.reporting.plan import PlannedWindow, plan_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.thresholds import AnyThreshold

FLOOR = NoiseFloor(0.01, "A/A windows of a test")
AFTER_2, AFTER_4 = (
    f"c1-{name}-not_worse, first judged after {rounds} rounds" for name, rounds in (("ttft_p50", 2), ("tpot_p50", 4))
)
BASELINE = BaselineThreshold("ttft_p50", 1, 0.05, cross_window=FLOOR)
MINUTES = {"off": 60.0, "k4": 120.0, "k7": 180.0}


def _with_rounds(pair: ArmPair, rounds: int) -> ArmPair:
    """Return a pair that asks for so many rounds."""
    return ArmPair(
        reference=pair.reference, candidate=pair.candidate, varies=pair.varies, profile=pair.profile, rounds=rounds
    )


def _planned(
    pairs: Sequence[ArmPair],
    claims: Mapping[str, Sequence[AnyThreshold]],
    *,
    noise: Sequence[ArmNoise] = (),
    boot_s: Mapping[str, float] | None = None,
) -> PlannedWindow:
    """Return a window with one gate on each pair that has claims, by its title."""
    gates = [
        Gate(id=f"test_gate.py::{pair.title}", pair=pair, thresholds=tuple(claims[pair.title]))
        for pair in pairs
        if pair.title in claims
    ]
    return PlannedWindow(pairs, gates, noise, boot_s)


def _not_worse(margin: float | None = 0.05, *, metric: str = "ttft_p50", floor: NoiseFloor | None = FLOOR) -> Threshold:
    return Threshold(metric, 1, "not_worse", margin, floor)


def _noise(arm: str, sd: float, *, df: float = 5.0, at: int = 1) -> ArmNoise:
    return ArmNoise(
        arm=arm,
        at=at,
        metric="ttft_p50",
        sd=sd,
        df=df,
        boots=6,
        builds=1,
        arm_sha256=arm,
        measured_at="2026-11-02T09:00:00+00:00",
    )


def _lines(window: PlannedWindow, **options: Any) -> list[str]:
    return [line.strip() for line in plan_lines([window], **options)]


def _of_threshold(pair: ArmPair, threshold: AnyThreshold, *, noise: Sequence[ArmNoise] = ()) -> str:
    """Return what the plan says of one threshold."""
    lines = _lines(_planned([pair], {pair.title: [threshold]}, noise=noise))
    return next(line for line in lines if line.startswith(f"{threshold.id}: ")).partition(": ")[2]


def test_boots_and_requests(k4_off: ArmPair) -> None:
    """Two arms, looks at 2, 4 and 6: four to twelve boots; each sends its warm-up and the requests of every load."""
    pair = _with_rounds(k4_off, 6)

    lines = _lines(_planned([pair], {pair.title: [_not_worse()]}))

    assert lines[:3] == [
        "window 1: off, k4",
        "boots: 4 to 12 (2 arms, 2 to 6 rounds)",
        "requests: 30 a boot (4 to warm up, 10 at c=1, 16 at c=8)",
    ]
    assert "k4 against off: 6 rounds at most" in lines
    assert lines[-1] == "in all: 1 window, at most 12 boots; nothing was started, and nothing judged"


@pytest.mark.parametrize(
    ("rounds", "floor", "boots"),
    [
        (1, FLOOR, "2 (2 arms, 1 round)"),
        (2, FLOOR, "4 (2 arms, 2 rounds)"),
        (6, FLOOR, "4 to 12 (2 arms, 2 to 6 rounds)"),
        (6, None, "8 to 12 (2 arms, 4 to 6 rounds)"),
        (3, None, "6 (2 arms, 3 rounds)"),
    ],
)
def test_the_first_look_is_the_least(k4_off: ArmPair, rounds: int, floor: NoiseFloor | None, *, boots: str) -> None:
    """Nothing can be judged before the first look: two rounds where the noise is known, four where it is not."""
    pair = _with_rounds(k4_off, rounds)

    assert f"boots: {boots}" in _lines(_planned([pair], {pair.title: [_not_worse(floor=floor)]}))


def test_the_latest_of_all_first_looks_counts(k4_off: ArmPair) -> None:
    """A calibrated claim beside one of unknown noise waits for it."""
    pair = _with_rounds(k4_off, 6)
    window = _planned([pair], {pair.title: [_not_worse(), _not_worse(metric="tpot_p50", floor=None)]})

    assert (window.least_rounds, window.most_rounds) == (4, 6)


def test_a_pair_without_a_gate_runs_all_of_its_rounds(k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """Who only reads what is measured gets every round; a shared arm boots once a round."""
    read, gated = _with_rounds(k7_k4, 4), _with_rounds(k4_off, 6)
    window = _planned([gated, read], {gated.title: [_not_worse()]})

    assert (window.least_rounds, window.most_rounds) == (4, 6)
    # Four rounds of three arms, then two of the pair that has six.
    assert "boots: 12 to 16 (3 arms, 4 to 6 rounds)" in _lines(window)


def test_times_of_an_earlier_window(k4_off: ArmPair) -> None:
    """What boots took then is what they will take now: short times in seconds, longer ones in minutes."""
    pair = _with_rounds(k4_off, 6)
    claims = {pair.title: [_not_worse()]}

    known, quick = (_lines(_planned([pair], claims, boot_s={"off": off, "k4": 2 * off})) for off in (60.0, 4.0))

    assert "time: 6 min to 18 min, by what boots took in an earlier window" in known
    assert known[-1] == "in all: 1 window, at most 12 boots, 18 min; nothing was started, and nothing judged"
    assert "time: 24 s to 72 s, by what boots took in an earlier window" in quick


def test_unknown_times_are_not_made_up(k4_off: ArmPair) -> None:
    """Without an earlier record no minute is told, of the window or of the session."""
    pair = _with_rounds(k4_off, 6)
    claims = {pair.title: [_not_worse()]}
    lines = [line.strip() for line in plan_lines([
        _planned([pair], claims, boot_s=MINUTES), _planned([pair], claims),
    ])]  # fmt: skip

    assert "time: not known, since no earlier record of these arms under this load is among the results" in lines
    assert lines[-1] == "in all: 2 windows, at most 24 boots; nothing was started, and nothing judged"


@pytest.mark.parametrize(
    ("budget_s", "rounds", "undecided"),
    [
        (179.0, 0, [AFTER_2, AFTER_4]),
        (180.0, 1, [AFTER_2, AFTER_4]),
        (360.0, 2, [AFTER_4]),
        (720.0, 4, []),
        (10_000.0, 6, []),
    ],
)  # fmt: skip
def test_a_budget_and_what_it_does_not_reach(
    k4_off: ArmPair, budget_s: float, *, rounds: int, undecided: list[str]
) -> None:
    """Rounds that fit into the budget are counted, and claims whose first look lies beyond it are named."""
    pair = _with_rounds(k4_off, 6)
    claims: list[AnyThreshold] = [
        _not_worse(),
        _not_worse(metric="tpot_p50", floor=None),
        LimitThreshold("ttft_p50", 1, "at_most", 1.0),
    ]

    lines = _lines(_planned([pair], {pair.title: claims}, boot_s=MINUTES), budget_s=budget_s)

    assert f"budget: enough for {rounds} of 6 rounds" in lines
    assert [line.removeprefix("undecided: ") for line in lines if line.startswith("undecided: ")] == undecided


def test_windows_share_a_budget(k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """What the first window takes is not there for the second."""
    first, second = _with_rounds(k4_off, 2), _with_rounds(k7_k4, 2)
    windows = [_planned([pair], {pair.title: [_not_worse()]}, boot_s=MINUTES) for pair in (first, second)]

    lines = [line.strip() for line in plan_lines(windows, budget_s=360.0 + 300.0)]

    assert [line for line in lines if line.startswith("budget")] == [
        "budget: enough for 2 of 2 rounds", "budget: enough for 1 of 2 rounds",
    ]  # fmt: skip


def test_a_budget_without_known_times(k4_off: ArmPair) -> None:
    """It is kept while the window runs, and the plan promises nothing."""
    pair = _with_rounds(k4_off, 6)

    lines = _lines(_planned([pair], {pair.title: [_not_worse()]}), budget_s=1.0)

    assert "budget: kept while it runs, since the time of a boot is not known yet" in lines
    assert not any(line.startswith("undecided") for line in lines)


def test_without_a_budget_nothing_is_said_of_one(k4_off: ArmPair) -> None:
    """No budget, no line."""
    pair = _with_rounds(k4_off, 6)

    assert not any("budget" in line for line in _lines(_planned([pair], {pair.title: [_not_worse()]}, boot_s=MINUTES)))


@pytest.mark.parametrize(
    ("threshold", "words"),
    [
        (LimitThreshold("ttft_p50", 1, "at_most", 1.0), "a limit, compared in every boot"),
        (OutputsThreshold(1, 0.99), "a count in every round"),
        (_not_worse(floor=None), "judged after 4, 6 rounds; nothing is known of its noise beforehand"),
        (CurveThreshold(1), "judged after 4, 6 rounds; nothing is known of its noise beforehand"),
        (CurveThreshold(1, floor=FLOOR), "judged after 2, 4, 6 rounds; floor 1 % (A/A windows of a test)"),
    ],
)
def test_when_each_kind_is_judged(k4_off: ArmPair, threshold: AnyThreshold, words: str) -> None:
    """Limits and counts are compared in every boot and round; intervals have their looks."""
    assert _of_threshold(_with_rounds(k4_off, 6), threshold) == words


def test_figures_of_a_known_noise(k4_off: ArmPair) -> None:
    """When equal arms pass, the smallest usable margin with its pessimistic twin, and what loss is called FAIL."""
    told = _of_threshold(_with_rounds(k4_off, 6), _not_worse())

    assert told == (
        "judged after 2, 4, 6 rounds; floor 1 % (A/A windows of a test); "
        "equal arms pass by round 2 in four of five runs, "
        "smallest usable margin 0.73 % (up to 1.1 %, were the noise understated), "
        "a loss of 5.8 % is called FAIL in four of five runs"
    )


@pytest.mark.parametrize(
    ("margin", "words"),
    [
        (0.05, "equal arms pass by round 2 in four of five runs"),
        (0.01, "equal arms pass by round 4 in four of five runs"),
        (0.003, "equal arms pass in fewer than four of five runs"),
    ],
)
def test_how_soon_equal_arms_pass(k4_off: ArmPair, margin: float, words: str) -> None:
    """Finer margins take more rounds, and the finest cannot be decided by as many as there are."""
    assert f"; {words}, smallest usable margin" in _of_threshold(_with_rounds(k4_off, 6), _not_worse(margin))


def test_a_gain_promises_no_equal_arms(k4_off: ArmPair) -> None:
    """Equal arms never support a gain, so nothing is said of when they pass."""
    told = _of_threshold(_with_rounds(k4_off, 6), Threshold("ttft_p50", 1, "better", 0.2, FLOOR))

    assert "equal arms" not in told
    assert "smallest usable margin 0.73 %" in told


def test_a_calibration_is_named(k4_off: ArmPair) -> None:
    """What this machine knows replaces what was declared, and brings looks forward."""
    noise = [_noise("off", 0.01), _noise("k4", 0.01)]

    told = _of_threshold(_with_rounds(k4_off, 6), _not_worse(floor=None), noise=noise)

    assert told.startswith(
        "judged after 2, 4, 6 rounds; calibrated: off by 6 boots of 2026-11-02, k4 by 6 boots of 2026-11-02; "
    )


def test_a_margin_that_is_the_calibrated_floor(k4_off: ArmPair) -> None:
    """Its figures are those of the calibration."""
    noise = [_noise("off", 0.01), _noise("k4", 0.01)]

    told = _of_threshold(_with_rounds(k4_off, 6), _not_worse(None, floor=CALIBRATED), noise=noise)

    assert "equal arms pass by round " in told
    assert "a loss of 3." in told


def test_figures_of_a_share_are_points(k7_k4: ArmPair) -> None:
    """Margins and losses of a share in points are points."""
    threshold = Threshold(
        "acceptance_rate", 1, "not_worse", 0.05, NoiseFloor(0.01, "A/A windows", points=True), points=True
    )

    told = _of_threshold(_with_rounds(k7_k4, 6), threshold)

    assert "smallest usable margin 0.74 points (up to 1.1 points, were the noise understated)" in told
    assert "a loss of 5.7 points is called FAIL in four of five runs" in told


def test_rates_of_arrival_are_load_levels(open_loop: ArmPair) -> None:
    """An open loop is listed by its rate."""
    pair = _with_rounds(open_loop, 2)

    assert "requests: 26 a boot (4 to warm up, 10 at c=1, 12 at 4/s)" in _lines(
        _planned([pair], {pair.title: [_not_worse()]})
    )


def test_without_warm_up(k4_off: ArmPair) -> None:
    """A load without warm-up says so."""
    load = RequestProfile(input_tokens=16, output_tokens=11, requests={1: 10}, warmup_requests=0)
    pair = ArmPair(reference=k4_off.reference, candidate=k4_off.candidate, varies=k4_off.varies, profile=load, rounds=2)

    assert "requests: 10 a boot (0 to warm up, 10 at c=1)" in _lines(_planned([pair], {pair.title: [_not_worse()]}))


@pytest.mark.parametrize(
    ("claim", "boots"),
    [
        (LimitThreshold("ttft_p50", 1, "at_most", 1.0), "2 (2 arms, 1 round)"),
        (OutputsThreshold(1, 0.99), "4 (2 arms, 2 rounds)"),
    ],
)
def test_claims_without_an_interval_ask_for_few_rounds(k4_off: ArmPair, claim: AnyThreshold, boots: str) -> None:
    """A limit is judged by one round, answers by two, and no more are planned for them."""
    pair = _with_rounds(k4_off, 6)

    assert f"boots: {boots}" in _lines(_planned([pair], {pair.title: [claim]}))


def test_what_cannot_vary_is_no_range(k4_off: ArmPair) -> None:
    """A plan of so many boots is not told as "from four to four", nor as "at most"."""
    pair = _with_rounds(k4_off, 2)

    lines = _lines(_planned([pair], {pair.title: [_not_worse()]}, boot_s=MINUTES))

    assert "boots: 4 (2 arms, 2 rounds)" in lines
    assert "time: 6 min, by what boots took in an earlier window" in lines
    assert lines[-1] == "in all: 1 window, 4 boots, 6 min; nothing was started, and nothing judged"


@pytest.mark.parametrize(
    ("claims", "boots"),
    [
        ([BASELINE], "12 (2 arms, 6 rounds)"),
        ([BASELINE, LimitThreshold("ttft_p50", 1, "at_most", 1.0)], "12 (2 arms, 6 rounds)"),
        ([BASELINE, _not_worse()], "4 to 12 (2 arms, 2 to 6 rounds)"),
    ],
    ids=["alone", "beside a limit", "beside an interval"],
)
def test_a_baseline_is_compared_with_a_whole_window(
    k4_off: ArmPair, claims: Sequence[AnyThreshold], *, boots: str
) -> None:
    """A claim about a baseline asks for all rounds, unless an interval decides how many there are."""
    pair = _with_rounds(k4_off, 6)

    assert f"boots: {boots}" in _lines(_planned([pair], {pair.title: claims}))


def test_gates_on_one_pair_are_told_apart(k4_off: ArmPair) -> None:
    """Two gates with one claim each of the same name are named by their functions."""
    pair = _with_rounds(k4_off, 2)
    gates = [
        Gate(f"test_gate.py::test_{name}", pair, (_not_worse(margin),)) for name, margin in (("a", 0.05), ("b", 0.1))
    ]

    lines = _lines(PlannedWindow([pair], gates, (), None))

    assert [line.partition(":")[0] for line in lines if "judged after" in line] == [
        "test_a[c1-ttft_p50-not_worse]", "test_b[c1-ttft_p50-not_worse]",
    ]  # fmt: skip


def test_a_large_loss_has_no_exponent(k4_off: ArmPair) -> None:
    """A loss of some hundred per cent is a whole number."""
    told = _of_threshold(_with_rounds(k4_off, 2), _not_worse(0.9, floor=NoiseFloor(0.9, "a made-up figure")))

    assert re.search(r"a loss of \d{3,} % is called FAIL", told)


@pytest.mark.parametrize(
    ("detail", "first", "prospects"),
    [
        (Detail.NORMAL, "window 1: off, k4", True),
        (Detail.SHORT, "window 1: off, k4", False),
        (Detail.OUTCOME, "in all: ", False),
    ],
)
def test_who_wants_little_is_told_little(k4_off: ArmPair, detail: Detail, first: str, *, prospects: bool) -> None:
    """Under -q no threshold is told of, and under -qq only the sum."""
    pair = _with_rounds(k4_off, 6)

    lines = _lines(_planned([pair], {pair.title: [_not_worse()]}), view=View(detail))

    assert lines[0].startswith(first)
    assert lines[-1].startswith("in all: 1 window, at most 12 boots")
    assert any("judged after" in line for line in lines) == prospects
