"""Intervals beside the verdict: two-sided ones, those of an equivalence, and those of shares in points."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.noise import LOG, UNKNOWN_NOISE, Noise, declared_noise, linear_scale
from pytest_specgate.core.plan import Plan
from pytest_specgate.core.statistics import Interval, interval, log_gain, log_margin, look

KNOWN = Noise(0.01, 5.0)
PERCENT = linear_scale(0.01)
RATIOS = st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=8)
NOISES = st.one_of(st.just(UNKNOWN_NOISE), st.builds(Noise, sigma=st.floats(0.0, 0.1), df=st.floats(1.0, 30.0)))


def _in_turn(count: int) -> list[bool]:
    return [i % 2 == 1 for i in range(count)]


def test_interval_of_two_calibrated_rounds() -> None:
    """Two rounds pooled with a calibration of 5 degrees of freedom have the t interval of 6."""
    found = interval([0.02, 0.03], noise=KNOWN, tail=0.025, candidate_first=_in_turn(2))

    half = 2.446912 * math.sqrt((0.5e-4 + 5e-4) / 6 / 2)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.025, 0.025 - half, 0.025 + half), abs=1e-7)


def test_interval_of_uncalibrated_rounds() -> None:
    """Three rounds by themselves have the t interval of 2 degrees of freedom."""
    found = interval([-0.01, 0.0, 0.01], noise=UNKNOWN_NOISE, tail=0.05, candidate_first=_in_turn(3))

    half = 2.919986 * 0.01 / math.sqrt(3)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.0, -half, half), abs=1e-7)


def test_interval_of_one_round_with_a_declared_floor() -> None:
    """One round has the published interval of section 7: a declared floor of 0.4 % about -9.94 %."""
    found = interval([math.log(272.77 / 301.28)], noise=declared_noise(0.004), tail=0.05, candidate_first=[False])

    assert found is not None
    assert [f"{100 * end:.2f}" for end in (found.mean, found.low, found.high)] == ["-9.94", "-10.35", "-9.53"]


@pytest.mark.parametrize("ratios", [[], [0.5]], ids=str)
def test_no_interval_without_any_variance(ratios: list[float]) -> None:
    """A single round of unknown noise has no interval, however large its difference is."""
    found = interval(ratios, noise=UNKNOWN_NOISE, tail=0.025, candidate_first=_in_turn(len(ratios)))

    assert found is None


def test_an_interval_leaves_out_a_drift_of_the_machine() -> None:
    """The variance is the one that a verdict uses: a drift within the rounds that the order cancels is taken out."""
    ratios = [0.0098, -0.0102, 0.01, -0.0097]

    plain = interval(ratios, noise=UNKNOWN_NOISE, tail=0.025, candidate_first=[False, False, True, True])
    clean = interval(ratios, noise=UNKNOWN_NOISE, tail=0.025, candidate_first=_in_turn(4))

    # t of 2 degrees of freedom, at the least standard deviation that is believed.
    assert clean is not None
    assert plain is not None
    assert (clean.low, clean.high) == pytest.approx((-0.000025 - 0.0010757, -0.000025 + 0.0010757), abs=1e-6)
    assert plain.high - plain.low > 10 * (clean.high - clean.low)


def test_equal_rounds_have_an_interval_of_the_least_width() -> None:
    """Rounds without any scatter are believed to 0.05 %, or to the resolution of a share."""
    log = interval([0.01] * 3, noise=UNKNOWN_NOISE, tail=0.05, candidate_first=_in_turn(3))
    share = interval([0.01] * 3, noise=UNKNOWN_NOISE, tail=0.05, candidate_first=_in_turn(3), scale=PERCENT)

    half = 2.919986 / math.sqrt(3)
    assert log is not None
    assert share is not None
    assert log.high - log.mean == pytest.approx(half * 0.0005, rel=1e-6)
    assert share.mean - share.low == pytest.approx(half * 0.01, rel=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "excludes"),
    [(0.001, 0.1, True), (-0.1, -0.001, True), (0.0, 0.1, False), (-0.1, 0.0, False), (-0.1, 0.1, False)],
)
def test_what_shows_a_change(low: float, high: float, *, excludes: bool) -> None:
    """A change is shown by an interval on one side of zero; one that touches zero shows none."""
    assert Interval(0.0, low, high).excludes_zero == excludes


@given(ratios=RATIOS, noise=NOISES, tail=st.floats(0.001, 0.2))
def test_an_interval_is_centred_on_its_mean(ratios: list[float], noise: Noise, *, tail: float) -> None:
    """The mean lies in the middle, and a smaller tail never gives a narrower interval."""
    order = _in_turn(len(ratios))

    found = interval(ratios, noise=noise, tail=tail, candidate_first=order)
    wide = interval(ratios, noise=noise, tail=tail / 2, candidate_first=order)

    assert found is not None
    assert wide is not None
    assert found.mean == pytest.approx(sum(ratios) / len(ratios), abs=1e-12)
    assert found.high - found.mean == pytest.approx(found.mean - found.low, rel=1e-6)
    assert wide.low < found.low < found.mean < found.high < wide.high


@given(RATIOS, NOISES)
def test_an_interval_is_that_of_a_look(ratios: list[float], noise: Noise) -> None:
    """At the level of a single look the interval has the very bounds that judge."""
    n = len(ratios)

    found = interval(ratios, noise=noise, tail=0.05, candidate_first=_in_turn(n))
    seen = look(ratios, delta=0.0, noise=noise, plan=Plan((n,)))

    assert found is not None
    ends = pytest.approx((seen.mean, seen.lower, seen.upper), rel=1e-12, abs=1e-15)
    assert (found.mean, found.low, found.high) == ends
    assert (found.mean, seen.fail_lower, seen.pass_upper) == ends


@pytest.mark.parametrize(("rounds", "tail"), [(3, 0.05), (4, 0.10), (6, 0.025)])
def test_an_interval_covers_the_truth(rounds: int, tail: float) -> None:
    """Of 2000 simulated uncalibrated runs as many intervals hold the true difference as their level says."""
    random, truth = np.random.default_rng(31), -0.2
    runs = random.normal(truth, 0.05, size=(2000, rounds)).tolist()
    scale, order = linear_scale(1e-6), _in_turn(rounds)

    found = [interval(run, noise=UNKNOWN_NOISE, tail=tail, candidate_first=order, scale=scale) for run in runs]

    covered = sum(one is not None and one.low <= truth <= one.high for one in found) / 2000
    assert covered == pytest.approx(1 - 2 * tail, abs=3 * math.sqrt(2 * tail * (1 - 2 * tail) / 2000))


def test_a_calibrated_interval_covers_at_least_its_level() -> None:
    """With a calibration that is itself drawn by chance, 2000 intervals hold the truth no less often than promised."""
    random, covered = np.random.default_rng(32), 0
    for run in random.normal(0.0, 0.01, size=(2000, 4)).tolist():
        noise = Noise(0.01 * math.sqrt(random.chisquare(10) / 10), 10.0)
        found = interval(run, noise=noise, tail=0.025, candidate_first=_in_turn(4))
        covered += found is not None and found.low <= 0 <= found.high

    assert 0.95 - 0.01 <= covered / 2000 <= 0.99


@pytest.mark.parametrize(
    ("mean", "decision"),
    [
        (0.0, "PASS"),
        (0.02, "PASS"),
        (-0.02, "PASS"),
        (0.05, "INCONCLUSIVE"),
        (-0.05, "INCONCLUSIVE"),
        (0.08, "FAIL"),
        (-0.08, "FAIL"),
        (0.5, "FAIL"),
    ],
)
def test_equivalence_has_two_sides(mean: float, *, decision: str) -> None:
    """An arm that is better by more than the margin is no more equivalent than one that is worse."""
    seen = look([mean, mean], delta=0.05, gain=0.05, noise=KNOWN, plan=Plan((2,)))

    assert seen.decision == decision


def test_the_four_bounds_of_an_equivalence() -> None:
    """Both sides of PASS have the level of PASS, both sides of FAIL that of FAIL, shared by the family."""
    seen = look([0.01, 0.01], delta=0.05, gain=0.05, noise=KNOWN, plan=Plan((2,), family=4))

    error = math.sqrt(5e-4 / 6 / 2)
    bounds = (seen.lower, seen.pass_upper, seen.fail_lower, seen.upper)
    to_pass, to_fail = 1.943180 * error, 2.968687 * error
    expected = (0.01 - to_pass, 0.01 + to_pass, 0.01 - to_fail, 0.01 + to_fail)
    assert bounds == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("share", "decision"), [(1 + 1e-6, "PASS"), (1.0, "PASS"), (1 - 1e-6, "INCONCLUSIVE")])
@pytest.mark.parametrize("sign", [1, -1])
def test_equivalence_includes_its_margins(share: float, decision: str, *, sign: int) -> None:
    """A bound on the margin of either side passes, one a millionth beyond it does not."""
    ratios = [0.01 * sign] * 2
    seen = look(ratios, delta=1.0, noise=KNOWN, plan=Plan((2,)))
    assert seen.pass_upper is not None
    assert seen.lower is not None
    delta, gain = (1.0, seen.pass_upper * share) if sign > 0 else (-seen.lower * share, 1.0)

    assert look(ratios, delta=delta, gain=gain, noise=KNOWN, plan=Plan((2,))).decision == decision


@pytest.mark.parametrize("sign", [1, -1])
def test_a_bound_of_fail_on_the_margin_does_not_fail(sign: int) -> None:
    """A FAIL bound has to lie beyond the margin, on either side."""
    ratios = [0.09 * sign] * 2
    seen = look(ratios, delta=1.0, noise=KNOWN, plan=Plan((2,)))
    end = seen.fail_lower if sign > 0 else -(seen.upper or 0)
    assert end is not None

    words = [
        look(ratios, delta=end * share, gain=end * share, noise=KNOWN, plan=Plan((2,))).decision
        for share in (1.0, 1 - 1e-6)
    ]

    assert words == ["INCONCLUSIVE", "FAIL"]


@pytest.mark.parametrize(
    ("beyond", "at_pass", "at_fail"), [(0.9e-9, "PASS", "INCONCLUSIVE"), (1.1e-9, "INCONCLUSIVE", "FAIL")]
)
def test_the_slack_of_both_margins(beyond: float, at_pass: str, *, at_fail: str) -> None:
    """A bound less than a billionth beyond its margin lies on it: for PASS and for FAIL, on either side."""
    half = look([0.0, 0.0], delta=1.0, noise=KNOWN, plan=Plan((2,))).pass_upper
    assert half is not None
    claims = [(half - beyond, 1.0), (1.0, half - beyond), (-half - beyond, 1.0), (1.0, -half - beyond)]

    found = [look([0.0, 0.0], delta=d, gain=g, noise=KNOWN, plan=Plan((2,))).decision for d, g in claims]

    assert found == [at_pass, at_pass, at_fail, at_fail]


def test_without_a_gain_any_improvement_passes() -> None:
    """A claim about losses has no upper side."""
    assert look([0.5, 0.5], delta=0.05, noise=KNOWN, plan=Plan((2,))).decision == "PASS"


def test_shares_are_judged_in_points() -> None:
    """Bounds of shares are those of plain differences, with a declared floor in points."""
    noise = declared_noise(0.02, linear=True)

    seen = look([-0.01, -0.03], delta=0.05, noise=noise, plan=Plan((2, 4, 6)), scale=PERCENT)

    variance = (0.0002 + 5 * (0.02 / 1.959964) ** 2) / 6
    half = 2.749057 * math.sqrt(max(variance, 0.0002) / 2)
    assert seen.source == "own > calibrated"
    assert (seen.mean, seen.lower, seen.upper) == pytest.approx((-0.02, -0.02 - half, -0.02 + half), abs=1e-7)


def test_no_share_is_known_better_than_its_resolution() -> None:
    """Equal shares have the standard deviation of one step of their scale."""
    seen = look([0.0] * 4, delta=0.05, noise=UNKNOWN_NOISE, plan=Plan((4,)), scale=linear_scale(0.02))

    assert seen.sd == 0.02
    assert seen.lower == pytest.approx(-2.353363 * 0.01, abs=1e-7)


def test_the_order_of_boots_says_nothing_of_a_share() -> None:
    """A regular pattern of shares is scatter, reported neither as an effect nor as too large a one."""
    seen = look([0.01, -0.01, 0.01, -0.01], delta=0.05, noise=UNKNOWN_NOISE, plan=Plan((4,)), scale=PERCENT)

    assert (seen.order_effect, seen.flags, seen.source) == (None, (), "own (no calibration)")
    assert seen.df == 3


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("fraction", [0.004, 0.05, 0.5])
def test_margins_of_both_directions_are_one_raw_change(fraction: float, *, higher: bool) -> None:
    """Loss and gain of one fraction are steps to 1 - fraction and 1 + fraction of the reference, either way round."""
    down, up = math.log(1 - fraction), math.log(1 + fraction)

    margin = log_margin(fraction, higher_is_better=higher)
    gain = log_gain(fraction, higher_is_better=higher)

    assert (-margin, -gain) == pytest.approx((down, up) if higher else (-up, -down))


def test_the_log_scale_is_taken_by_default() -> None:
    """Without a scale, differences are of logarithms."""
    ratios = [0.0098, -0.0102, 0.01, -0.0097]

    bare, named = (
        interval(ratios, noise=KNOWN, tail=0.05, candidate_first=_in_turn(4), **scale) for scale in ({}, {"scale": LOG})
    )

    assert bare == named
