"""Curves: at which load levels a candidate is better, judged together, from the records of a window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from scipy import stats

from pytest_specgate.core.judge import judge, needs_more_rounds
from pytest_specgate.core.levels import with_temperature, without_temperature
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.thresholds import CurveThreshold, NoiseFloor
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.core.verdict_parts import OPEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import PointRecord
    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build, Speed

FLOOR = NoiseFloor(0.01, "A/A windows of a test")
LOADS: dict[Level, int] = {1: 10, 8: 16, 32: 32}
UP_TO_1 = CurveThreshold(1, floor=FLOOR)


def _curve(  # noqa: PLR0913  - a window and its gate in one line of a test
    build: type[Build],
    candidate: Sequence[Speed],
    *,
    threshold: CurveThreshold = UP_TO_1,
    rounds: int = 6,
    loads: dict[Level, int] | None = None,
    final: bool = True,
) -> Verdict:
    """Judge a gate of one curve against a reference of speed 1."""
    pair = build.pair(rounds=rounds, requests=loads or {1: 10, 8: 16})
    record = build.window(pair, [1.0] * len(candidate), candidate)
    [verdict] = judge(build.gate(pair, threshold), record, final=final)
    return verdict


def _signs(verdict: Verdict) -> list[tuple[Level, str]]:
    return [(point.at, point.sign) for point in verdict.curve]


def test_case_101_a_speed_up_at_concurrency_1_only(build: type[Build]) -> None:
    """Case 101: 2.1 times as fast at c=1 and 0.77 times at c=8 is just that; no mean of 1.435 decides anything."""
    verdict = _curve(build, [{1: 2.1, 8: 0.77}] * 2)

    assert (verdict.outcome, verdict.reason) == (Outcome.PASS, "curve-shown")
    assert _signs(verdict) == [(1, "better"), (8, "worse")]
    assert [point.change for point in verdict.curve] == pytest.approx([1.1, -0.23])
    assert verdict.change is None
    assert verdict.summary == (
        "PASS: output throughput better up to c=1, worse at c=8, "
        "claimed output throughput better up to c=1, and worse at every level beyond"
    )


@pytest.mark.parametrize(
    ("speeds", "words"),
    [
        ({1: 2.0, 8: 1.5}, "better up to c=8"),
        ({1: 0.8, 8: 0.5}, "worse at c=1, worse at c=8"),
        ({1: 0.8, 8: 1.5}, "better at c=8, worse at c=1"),
    ],
)
def test_case_101_one_level_that_shows_the_opposite_refutes(
    build: type[Build], speeds: dict[Level, float], words: str
) -> None:
    """Case 101: a level that is shown to be the opposite of what is claimed of it fails the claim at the first look."""
    verdict = _curve(build, [speeds] * 2)

    assert (verdict.outcome, verdict.reason, verdict.rounds) == (Outcome.FAIL, "curve-refuted", 2)
    assert verdict.summary.startswith(f"FAIL: output throughput {words}, claimed")


def test_a_level_that_shows_nothing_leaves_a_curve_open(build: type[Build]) -> None:
    """What is equal is neither better nor worse: asked for more at a look, undecided at the last one, never passed."""
    alike: list[Speed] = [{1: 2.0, 8: 1.0}] * 6

    first, last = _curve(build, alike[:2], final=False), _curve(build, alike)

    assert (first.outcome, first.reason, first.rounds) == (Outcome.INCONCLUSIVE, OPEN, 2)
    assert (last.outcome, last.reason, last.rounds) == (Outcome.INCONCLUSIVE, "curve-not-shown", 6)
    assert _signs(last) == [(1, "better"), (8, "not shown")]
    assert "better up to c=1, not shown worse at c=8" in last.summary


@pytest.mark.parametrize(("last", "outcome"), [(1, Outcome.FAIL), (8, Outcome.PASS)])
def test_the_claim_names_the_last_level(build: type[Build], last: Level, outcome: Outcome) -> None:
    """Of three levels two better and one worse support a claim up to the second, and refute one up to the first."""
    threshold = CurveThreshold(last, floor=FLOOR)

    verdict = _curve(build, [{1: 2.0, 8: 1.5, 32: 0.8}] * 2, threshold=threshold, loads=LOADS)

    assert verdict.outcome == outcome
    assert _signs(verdict) == [(1, "better"), (8, "better"), (32, "worse")]


def test_a_curve_of_times(build: type[Build]) -> None:
    """Of a time less is better: the sign follows the direction, the change is that of the metric."""
    threshold = CurveThreshold(1, metric="tpot_p50", floor=FLOOR)

    verdict = _curve(build, [{1: 2.0, 8: 0.8}] * 2, threshold=threshold)

    assert (verdict.outcome, verdict.metric) == (Outcome.PASS, "tpot_p50")
    assert _signs(verdict) == [(1, "better"), (8, "worse")]
    assert [point.change for point in verdict.curve] == pytest.approx([-0.5, 0.25])
    for point in verdict.curve:
        assert (point.change_low or 0) < (point.change or 0) < (point.change_high or 0)


@pytest.mark.parametrize(("last", "signs"), [(1, "better worse"), ("1 T=0.8", "better not shown")])
def test_a_curve_is_judged_at_one_temperature(build: type[Build], last: Level, signs: str) -> None:
    """Levels of another temperature are another curve: they neither support a claim nor refute it."""
    speeds: dict[Level, float] = {1: 2.0, 8: 0.8, "1 T=0.8": 2.0, "8 T=0.8": 1.0}

    verdict = _curve(build, [speeds] * 2, threshold=CurveThreshold(last, floor=FLOOR), loads=dict.fromkeys(speeds, 16))

    low, high = without_temperature(last), 8
    here = [with_temperature(at, 0.8) if last != low else at for at in (low, high)]
    assert _signs(verdict) == list(zip(here, signs.split(" ", 1), strict=True))


def test_levels_are_told_in_rising_order(build: type[Build]) -> None:
    """However the profile lists its loads, the curve rises with them."""
    verdict = _curve(build, [{8: 0.8, 1: 2.0}] * 2, loads={8: 16, 1: 10})

    assert _signs(verdict) == [(1, "better"), (8, "worse")]


@pytest.mark.parametrize("share", [0.999, 1.001])
def test_intervals_share_looks_and_levels(build: type[Build], share: float) -> None:
    """Each end is at t(1 - 0.05 / (2 K P)): a gain just beyond it is shown, one just short of it is not."""
    sigma, looks, levels = math.log(1.01) / 1.959964, 3, 3
    # Two equal rounds: the declared variance over 5 + 1 degrees of freedom.
    error = math.sqrt(5 * sigma**2 / 6 / 2)
    half = float(stats.t.isf(0.05 / (2 * looks * levels), 6)) * error
    speed = math.exp(share * half)

    verdict = _curve(build, [{1: speed, 8: 1.0, 32: 1.0}] * 2, loads=LOADS, final=False)

    point = verdict.curve[0]
    assert (point.sign == "better") == (share > 1)
    assert math.log1p(point.change_high or 0) == pytest.approx((1 + share) * half, rel=1e-6)
    assert math.log1p(point.change_low or 0) == pytest.approx((share - 1) * half, abs=1e-9)


@pytest.mark.parametrize(("rounds", "judged"), [(2, 2), (3, 2), (5, 4), (6, 6)])
def test_a_window_that_ends_between_looks_keeps_the_last_look(build: type[Build], *, rounds: int, judged: int) -> None:
    """A curve is that of the last look that was reached, with the figures of its rounds only."""
    seen: Speed = {1: 2.0, 8: 0.8}
    unseen: Speed = {1: 0.1, 8: 0.8}
    speeds = [seen] * judged + [unseen] * (rounds - judged)

    verdict = _curve(build, speeds)

    assert (verdict.outcome, verdict.rounds) == (Outcome.PASS, judged)
    assert verdict == _curve(build, speeds[:judged])


def test_nothing_is_judged_between_two_looks(build: type[Build]) -> None:
    """While a window runs a curve is judged at its looks only, and names the next one."""
    verdicts = [_curve(build, [{1: 2.0, 8: 0.8}] * count, final=False) for count in (1, 2, 3)]

    assert [(verdict.outcome, verdict.reason) for verdict in verdicts] == [
        (Outcome.INCONCLUSIVE, OPEN), (Outcome.PASS, "curve-shown"), (Outcome.INCONCLUSIVE, OPEN),
    ]  # fmt: skip
    assert verdicts[0].summary.endswith("next look at 2 rounds")
    assert verdicts[2].summary.endswith("next look at 4 rounds")
    assert (verdicts[2].curve, verdicts[2].rounds) == ((), 3)


def test_a_curve_before_its_first_look_was_stopped(build: type[Build]) -> None:
    """A window that ended before anything could be judged leaves the curve undecided, with the reason."""
    verdict = _curve(build, [{1: 2.0, 8: 0.8}])

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "stopped")
    assert verdict.summary.endswith("stopped at round 1 of 6: the window ended")


def test_unknown_noise_is_judged_by_four_rounds(build: type[Build]) -> None:
    """Without a floor the first look is at four rounds, and in two rounds nothing can ever be decided."""
    threshold = CurveThreshold(1)

    two = _curve(build, [{1: 2.0, 8: 0.5}] * 2, threshold=threshold, rounds=2)
    four = _curve(build, [{1: 2.0, 8: 0.5}] * 4, threshold=threshold)

    assert (two.outcome, two.reason) == (Outcome.INCONCLUSIVE, "noise-unknown")
    assert (four.outcome, four.rounds, four.looks) == (Outcome.PASS, 4, 2)


def _noise(arm: str, at: Level, df: float, sd: float = 0.005) -> ArmNoise:
    return ArmNoise(
        arm=arm,
        at=at,
        metric="output_throughput",
        sd=sd,
        df=df,
        boots=6,
        builds=1,
        arm_sha256=arm,
        measured_at="2026-11-02T09:00:00+00:00",
    )


@pytest.mark.parametrize(("levels", "looks"), [((1, 8), 3), ((1,), 2)])
def test_the_level_of_which_least_is_known_sets_the_looks(
    build: type[Build], levels: tuple[Level, ...], looks: int
) -> None:
    """A curve is judged after two rounds only if every level was calibrated."""
    pair = build.pair()
    noise = tuple(_noise(arm, at, 10.0) for arm in ("off", "k4") for at in levels)
    record = build.window(pair, [1.0] * 4, [{1: 2.0, 8: 0.5}] * 4).model_copy(update={"noise": noise})

    [verdict] = judge(build.gate(pair, CurveThreshold(1)), record)

    assert (verdict.outcome, verdict.looks) == (Outcome.PASS, looks)


def test_each_level_is_judged_by_its_own_noise(build: type[Build]) -> None:
    """A gain of 5 % is shown at a quiet level and not at a noisy one."""
    pair = build.pair()
    noise = tuple(_noise(arm, at, 10.0, sd) for arm in ("off", "k4") for at, sd in ((1, 0.005), (8, 0.1)))
    record = build.window(pair, [1.0] * 2, [1.05] * 2).model_copy(update={"noise": noise})

    [verdict] = judge(build.gate(pair, CurveThreshold(1)), record, final=False)

    assert _signs(verdict) == [(1, "better"), (8, "not shown")]


def test_a_curve_counts_in_the_family(build: type[Build]) -> None:
    """A curve rests on intervals, so it shares the error rate of FAIL with its gate."""
    pair = build.pair()

    verdicts = judge(build.gate(pair, UP_TO_1, build.threshold()), build.window(pair, [1.0] * 2, [1.0] * 2))

    assert [verdict.family for verdict in verdicts] == [2, 2]


def test_an_open_curve_keeps_its_gate_going(build: type[Build]) -> None:
    """Beside a threshold that passed, an open curve asks for more rounds, and a refuted one for none."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold(), UP_TO_1)
    alike, refuted = (build.window(pair, [1.0] * 2, [{1: 1.2, 8: at_8}] * 2) for at_8 in (1.0, 1.2))

    assert needs_more_rounds(judge(gate, alike, final=False))
    assert not needs_more_rounds(judge(gate, refuted, final=False))


def test_case_94_a_level_of_zero_has_no_ratio(build: type[Build]) -> None:
    """Case 94: a level at which nothing was good is INVALID for a curve, and never "no change"."""
    threshold = CurveThreshold(1, metric="goodput", floor=FLOOR)
    pair = build.pair(goodput_limits={"ttft": "100ms"})

    [verdict] = judge(build.gate(pair, threshold), build.window(pair, [1.0] * 2, [{1: 2.0, 8: 0.9}] * 2))

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "fell-to-zero")
    assert verdict.summary == "goodput is 0 at c=8, so no ratio can be formed: use at_least for it"


@pytest.mark.parametrize("at", [1, 8])
def test_case_102_failed_requests_at_any_level_are_invalid(build: type[Build], at: Level) -> None:
    """Case 102: failures at one level make the whole curve INVALID, however fast the others were."""
    pair = build.pair()
    record = build.window(pair, [1.0] * 2, [{1: 2.0, 8: 0.8}] * 2)

    def fail(point: PointRecord) -> PointRecord:
        first, *others = point.requests
        failed = build.failed(first.index)
        return point.model_copy(update={"requests": (failed, *others)})

    [verdict] = judge(build.gate(pair, UP_TO_1), build.edited_point(record, arm="k4", at=at, edit=fail))

    assert (verdict.outcome, verdict.curve) == (Outcome.INVALID, ())


def test_samples_are_the_fewest_of_any_level(build: type[Build]) -> None:
    """A curve tells of how many requests its figures were taken, at least."""
    assert _curve(build, [{1: 2.0, 8: 0.8}] * 2).samples == 10


def test_the_order_of_boots_is_known_to_every_level(build: type[Build]) -> None:
    """A drift that the alternating order cancels does not widen the intervals."""
    drifts = (0.0098, -0.0102, 0.01, -0.0097)
    threshold = CurveThreshold(1)

    drifting = _curve(
        build, [{1: 1.02 * math.exp(x), 8: 0.98 * math.exp(x)} for x in drifts], threshold=threshold, rounds=4
    )

    assert (drifting.outcome, drifting.rounds) == (Outcome.PASS, 4)


@pytest.mark.parametrize(
    ("floor", "words"), [(FLOOR, "floor 1 % (A/A windows of a test)"), (None, "own (no calibration)")]
)
def test_a_curve_names_where_its_noise_comes_from(build: type[Build], floor: NoiseFloor | None, words: str) -> None:
    """A declared floor is quoted with its source by every verdict that rests on it."""
    verdict = _curve(build, [{1: 2.0, 8: 0.5}] * 4, threshold=CurveThreshold(1, floor=floor))

    assert words in verdict.noise
