"""Claims about a change: equivalence, points of a share, allowances, and what more rounds bring."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from scipy import special, stats

from pytest_specgate.core import planning, statistics
from pytest_specgate.core.judge import judge
from pytest_specgate.core.noise import Noise
from pytest_specgate.core.records import StartUpRecord
from pytest_specgate.core.thresholds import NoiseFloor, Threshold
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build

    Kind = Literal["not_worse", "better", "equivalent"]

FLOOR = NoiseFloor(0.01, "A/A windows of a test")


def _threshold(
    kind: Kind, fraction: float | None, metric: str = "output_throughput", *, floor: NoiseFloor | None = FLOOR
) -> Threshold:
    return Threshold(metric, 1, kind, fraction, floor)


def _judged(build: type[Build], threshold: Threshold, candidate: Sequence[float], *, rounds: int = 6) -> Verdict:
    """Judge a gate of one threshold against a reference of speed 1."""
    pair = build.pair(rounds=rounds)
    [verdict] = judge(build.gate(pair, threshold), build.window(pair, [1.0] * len(candidate), candidate))
    return verdict


@pytest.mark.parametrize("metric", ["output_throughput", "tpot_p50"])
@pytest.mark.parametrize(
    ("speed", "outcome", "reason"),
    [
        (1.0, Outcome.PASS, "within-margin"),
        (1.015, Outcome.PASS, "within-margin"),
        (0.985, Outcome.PASS, "within-margin"),
        (1.1, Outcome.FAIL, "beyond-margin"),
        (0.9, Outcome.FAIL, "beyond-margin"),
    ],
)
def test_equivalence_has_two_sides(
    build: type[Build], metric: str, *, speed: float, outcome: Outcome, reason: str
) -> None:
    """What gained as much as what lost more than the width is not equivalent, in a rate as in a time."""
    verdict = _judged(build, _threshold("equivalent", 0.03, metric), [speed] * 2)

    assert (verdict.outcome, verdict.reason, verdict.rounds) == (outcome, reason, 2)


@pytest.mark.parametrize("speed", [1.03, 1 / 1.03])
def test_a_change_at_the_end_of_an_equivalence_is_undecided(build: type[Build], speed: float) -> None:
    """Neither PASS nor FAIL where an interval contains an end, of whichever side."""
    verdict = _judged(build, _threshold("equivalent", 0.03), [speed] * 6)

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "interval-contains-margin")
    assert (verdict.change_low or 0) < math.copysign(0.03, speed - 1) < (verdict.change_high or 0)


EQUAL, GAIN, LOSS_OF_10 = (
    "equal 0.0 %, interval -0.9 to +0.9 %",
    "better +20.0 %, interval +18.9 to +21.1 %",
    "worse -10.0 %, interval -10.8 to -9.2 %",
)


@pytest.mark.parametrize(
    ("kind", "speed", "words"),
    [
        ("equivalent", 1.0, ("PASS", EQUAL, "within ±3 %", "the change is bounded on both sides")),
        ("equivalent", 1.2, ("FAIL", GAIN, "within ±3 %", "the whole interval lies outside")),
        ("better", 1.2, ("PASS", GAIN, "asked for +3 %", "the gain is bounded above what was asked for")),
        ("better", 1.0, ("FAIL", EQUAL, "asked for +3 %", "the whole interval falls short of what was asked for")),
        ("not_worse", 0.9, ("FAIL", LOSS_OF_10, "margin -3 %", "the whole interval lies beyond the margin")),
        ("not_worse", 1.0, ("PASS", EQUAL, "margin -3 %", "the loss is bounded within the margin")),
    ],
)
def test_each_kind_says_why(build: type[Build], kind: Kind, speed: float, *, words: tuple[str, str, str, str]) -> None:
    """The sentence of a verdict has the change, its interval, what was claimed, and a reason that fits the kind."""
    outcome, change, claimed, why = words

    verdict = _judged(build, _threshold(kind, 0.03), [speed] * 2)

    assert verdict.summary == f"{outcome}: output throughput at c=1 {change}, {claimed}: {why}"


@pytest.mark.parametrize(
    ("kind", "metric", "limit"),
    [
        ("equivalent", "output_throughput", -0.03),
        ("equivalent", "tpot_p50", 0.03),
        ("not_worse", "tpot_p50", 0.03),
        ("better", "output_throughput", 0.03),
        ("better", "tpot_p50", -0.03),
    ],
)
def test_the_limit_is_a_raw_change(build: type[Build], kind: Kind, metric: str, *, limit: float) -> None:
    """Where the claim ends is a change of the metric itself, down for a rate that may fall."""
    assert _judged(build, _threshold(kind, 0.03, metric), [1.0] * 2).limit == pytest.approx(limit)


# Drafts of four tokens accept 3, 2, 1, 0 of four: 37.5 %; those of seven the same 6 of 28: 21.43 %.
LOSS = 6 / 28 - 6 / 16


def _shares(build: type[Build], fraction: float, *, kind: Kind = "not_worse", swapped: bool = False) -> Verdict:
    horizons = (7, 4) if swapped else (4, 7)
    pair = build.pair(reference=horizons[0], candidate=horizons[1])
    threshold = Threshold("acceptance_rate", 1, kind, fraction, points=True)
    [verdict] = judge(build.gate(pair, threshold), build.window(pair, [1.0] * 4, [1.0] * 4))
    return verdict


def test_points_are_differences_of_shares(build: type[Build]) -> None:
    """The change of a share is its plain difference, with plain means, a linear interval, and no factors."""
    verdict = _shares(build, 0.05)

    assert verdict.points
    assert (verdict.reference, verdict.candidate) == pytest.approx((6 / 16, 6 / 28))
    assert verdict.change == pytest.approx(LOSS)
    assert verdict.ratios == pytest.approx([LOSS] * 4)
    assert verdict.limit == -0.05
    assert (verdict.change_low or 0) + (verdict.change_high or 0) == pytest.approx(2 * LOSS)
    assert (verdict.factors, verdict.residual) == ((), None)


def test_points_know_no_finer_step_than_a_draft(build: type[Build]) -> None:
    """Equal rounds scatter by one of the 40 drafts of a boot, not by nothing."""
    verdict = _shares(build, 0.05)
    half = float(stats.t.isf(0.05 / 2, 3)) / 40 / 2

    assert verdict.sd == pytest.approx(1 / 40)
    assert verdict.samples == 40
    assert (verdict.change_high or 0) - LOSS == pytest.approx(half)


@pytest.mark.parametrize(
    ("kind", "swapped", "outcome", "words"),
    [
        ("not_worse", False, Outcome.FAIL, "worse -16.1 points, interval -20.0 to -12.1 points, margin -5 points"),
        ("not_worse", True, Outcome.PASS, "better +16.1 points"),
        ("better", True, Outcome.PASS, "better +16.1 points"),
        ("better", False, Outcome.FAIL, "asked for +5 points"),
        ("equivalent", True, Outcome.FAIL, "within ±5 points"),
    ],
)
def test_claims_in_points_green_and_red(
    build: type[Build], kind: Kind, *, swapped: bool, outcome: Outcome, words: str
) -> None:
    """Margins in points are judged in points, and every figure of the sentence is in points."""
    verdict = _shares(build, 0.05, kind=kind, swapped=swapped)

    assert verdict.outcome == outcome
    assert words in verdict.summary
    assert "%" not in verdict.summary


@pytest.mark.parametrize(("fraction", "resolved"), [(0.05, True), (0.0499, False)])
def test_a_margin_finer_than_the_steps_of_a_share(build: type[Build], fraction: float, *, resolved: bool) -> None:
    """A step of more than half the margin cannot resolve it: INVALID, whatever was measured."""
    verdict = _shares(build, fraction)

    assert (verdict.outcome == Outcome.INVALID) != resolved
    if not resolved:
        assert verdict.reason == "cannot-be-resolved"
        assert verdict.summary.endswith("its steps of 2.5 points cannot resolve that margin")
        assert (verdict.change, verdict.reference) == (None, None)


@pytest.mark.parametrize(
    ("metric", "allowance", "speed", "outcome"),
    [
        ("ttft_p50", 0.0, 0.9, Outcome.FAIL),
        ("ttft_p50", 0.020, 0.9, Outcome.PASS),
        ("ttft_p50", 0.020, 0.8, Outcome.FAIL),
        ("ttft_p50", 0.001, 0.9, Outcome.FAIL),
        ("decode_rate_p50", 2.0, 0.9, Outcome.PASS),
        ("decode_rate_p50", 2.0, 0.75, Outcome.FAIL),
    ],
)
def test_an_allowance_in_the_metrics_unit(
    build: type[Build], metric: str, *, allowance: float, speed: float, outcome: Outcome
) -> None:
    """20 ms of a TTFT of 100 ms are tolerated where 5 % are not; the larger of both counts."""
    threshold = Threshold(metric, 1, "not_worse", 0.05, FLOOR, allowance)

    assert _judged(build, threshold, [speed] * 2).outcome == outcome


def test_an_allowance_is_of_the_reference_so_far(build: type[Build]) -> None:
    """It is relative to the geometric mean of the reference: 20 ms weigh less of 200 ms than of 50 ms."""
    pair = build.pair()
    gate = build.gate(pair, Threshold("ttft_p50", 1, "not_worse", 0.05, FLOOR, 0.02))

    slow, quick = (judge(gate, build.window(pair, [v] * 2, [0.8 * v] * 2))[0] for v in (0.5, 2.0))

    assert (slow.outcome, quick.outcome) == (Outcome.FAIL, Outcome.PASS)


def test_prospects_by_their_formula(build: type[Build]) -> None:
    """Smallest margin and detectable loss of six rounds, as the formula of the planner has them."""
    verdict = _judged(build, _threshold("not_worse", 0.05), [1.0, 1.002])
    sd, looks, family = verdict.sd or 0, 3, 1
    needed = (float(special.stdtrit(5 + 5, 1 - 0.05 / looks)) + float(special.ndtri(0.8)) + 0.2) / math.sqrt(6)

    delta = -math.log1p(-0.05)
    assert family == verdict.family
    assert verdict.smallest_margin == pytest.approx(-math.expm1(-needed * sd))
    assert verdict.detectable == pytest.approx(math.expm1(-(delta + needed * sd)))
    assert verdict.needs_rounds is None


def test_what_can_be_detected_of_a_time_is_a_rise(build: type[Build]) -> None:
    """Both prospects are raw changes: a TTFT fails by growing, and a margin has no sign."""
    verdict = _judged(build, _threshold("not_worse", 0.05, "ttft_p50"), [1.0] * 2)

    assert (verdict.detectable or 0) > 0.05
    assert 0 < (verdict.smallest_margin or 0) < 0.05


def test_an_undecided_claim_says_how_many_rounds_it_needs(build: type[Build]) -> None:
    """By the look that was reached, the planner asks for the same number."""
    speeds = [0.98, 0.98, 0.96, 0.96, 0.985, 0.955]
    verdict = _judged(build, _threshold("not_worse", 0.043), speeds)
    look = statistics.look(
        [math.log(speed) for speed in speeds],
        delta=-math.log1p(-0.043),
        noise=FLOOR.noise,
        plan=build.gate(build.pair(), _threshold("not_worse", 0.043)).plan(_threshold("not_worse", 0.043)),
    )

    claim = _threshold("not_worse", 0.043).claim_on(FLOOR.noise)
    asked = planning.rounds_after(look, claim=claim, rounds=6, noise=FLOOR.noise)
    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert verdict.needs_rounds == asked
    assert asked is not None
    assert asked > 6


def test_more_rounds_than_anybody_should_ask_for(build: type[Build]) -> None:
    """A change at the very margin needs more than twenty rounds, and no number is named."""
    verdict = _judged(build, _threshold("not_worse", 0.05), [0.95, 0.951] * 3)

    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert verdict.needs_rounds is None
    assert verdict.smallest_margin is not None


@pytest.mark.parametrize(("rounds", "percent"), [(3, 20), (6, 12)])
def test_case_97_smallest_usable_tolerance(build: type[Build], rounds: int, percent: int) -> None:
    """Case 97: TPOT of equal arms within 8 % of scatter needs a tolerance of 20 % with three rounds, 12 % with six."""
    pair = build.pair(rounds=3)
    reference, candidate = ([100 / ms for ms in arm] for arm in ((10.0, 10.6, 9.7), (10.9, 10.1, 10.5)))
    [verdict] = judge(
        build.gate(pair, _threshold("not_worse", 0.03, "tpot_p50", floor=None)),
        build.window(pair, reference, candidate),
    )

    assert verdict.outcome == Outcome.INCONCLUSIVE
    log_ends = [100 * math.log1p(end or 0) for end in (verdict.change_low, verdict.change_high)]
    assert log_ends == pytest.approx([-8.9, 16.7], abs=0.05)
    smallest = planning.smallest_margin(noise=Noise(verdict.sd or 0, 0.0), n_max=rounds)
    assert smallest is not None
    assert 100 * math.expm1(smallest) == pytest.approx(percent, abs=1.0)
    if rounds == 3:
        assert verdict.smallest_margin == pytest.approx(math.expm1(smallest))


@pytest.mark.parametrize("speed", [0.9, 1.2])
def test_break_even_floor_of_one_round(build: type[Build], speed: float) -> None:
    """One round of unknown noise is undecided, and tells the largest declared floor that would decide it."""
    verdict = _judged(build, _threshold("not_worse", 0.01, floor=None), [speed], rounds=1)
    distance = abs(math.log(speed) - math.log1p(-0.01))
    floor = math.expm1(1.959964 * distance / float(stats.t.isf(0.05, 5)))

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "noise-unknown")
    assert verdict.break_even_floor == pytest.approx(floor)
    for share, outcome in ((0.99, Outcome.PASS if speed > 1 else Outcome.FAIL), (1.01, Outcome.INCONCLUSIVE)):
        declared = NoiseFloor(share * floor, "a figure of a test")
        assert _judged(build, _threshold("not_worse", 0.01, floor=declared), [speed], rounds=1).outcome == outcome


def test_a_known_noise_has_no_break_even_floor(build: type[Build]) -> None:
    """Where a noise was known, or shown by the rounds, there is nothing to be declared."""
    verdicts = [_judged(build, _threshold("not_worse", 0.05, floor=floor), [1.0] * 4) for floor in (FLOOR, None)]

    assert [verdict.break_even_floor for verdict in verdicts] == [None, None]


def _strict(pair: ArmPair, record: WindowRecord) -> WindowRecord:
    """Return the window as a strict one whose servers do not differ."""
    start = StartUpRecord(config={"seed": 0}, lines={"ready": 1})
    boots = tuple(boot.model_copy(update={"startup": start}) for boot in record.boots)
    return record.model_copy(update={"boots": boots, "strict": True})


@pytest.mark.parametrize(("speed", "believed"), [(100 / 3, False), (1.5, True)])
def test_case_91_a_collapse_is_no_improvement_under_strict(build: type[Build], speed: float, *, believed: bool) -> None:
    """Case 91: a TTFT of 3 % of the reference's is -97 %, flagged by default, and INVALID in strict mode."""
    pair = build.pair()
    gate, record = (
        build.gate(pair, _threshold("not_worse", 0.05, "ttft_p50")),
        build.window(pair, [1.0] * 2, [speed] * 2),
    )

    [usual], [strict] = judge(gate, record), judge(gate, _strict(pair, record))

    assert usual.outcome == Outcome.PASS
    assert any("check that both arms did the same work" in flag for flag in usual.flags)
    assert (strict.outcome == Outcome.PASS) == believed
    if not believed:
        assert (strict.outcome, strict.change) == (Outcome.INVALID, None)
        assert "better by a factor of more than 4: " in strict.summary


@pytest.mark.parametrize(("allowance", "limit", "words"), [
    (0.0, 0.05, "margin +5 %: the whole interval"), (0.02, 0.2, "margin +20 %: the loss is bounded"),
    (0.001, 0.05, "margin +5 %: the whole interval"),
])  # fmt: skip
def test_the_margin_that_is_shown_is_the_one_that_was_judged(
    build: type[Build], allowance: float, *, limit: float, words: str
) -> None:
    """An allowance of 20 ms of 100 ms is a margin of 20 %, in the sentence and as the limit; a smaller one is none."""
    verdict = _judged(build, Threshold("ttft_p50", 1, "not_worse", 0.05, FLOOR, allowance), [0.9] * 2)

    assert verdict.limit == pytest.approx(limit)
    assert words in verdict.summary


def test_two_rounds_have_no_break_even_floor(build: type[Build]) -> None:
    """Rounds that scatter would contradict a floor that is large enough for their mean, so none is promised."""
    verdict = _judged(build, _threshold("not_worse", 0.01, floor=None), [0.8, 1.001], rounds=2)

    assert (verdict.reason, verdict.break_even_floor) == ("noise-unknown", None)
