"""What is known of a noise beforehand: declared floors, A/A windows of one arm, of two, and earlier gate runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.noise import (
    LOG,
    UNKNOWN_NOISE,
    Noise,
    Scale,
    arm_noise,
    declared_noise,
    floor_of,
    linear_scale,
    pair_noise,
    with_runs,
)

KNOWN = st.builds(Noise, sigma=st.floats(1e-4, 0.2), df=st.floats(0.5, 40))
VALUES = st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=8)


def test_the_log_scale() -> None:
    """Log ratios believe no sd below 0.05 %, remove drifts up to 2 % per boot, and see two modes from 3 % on."""
    assert Scale(linear=False, least_sd=0.0005, order_cap=0.02, mode_gap=0.03) == LOG


def test_the_linear_scale() -> None:
    """Shares are no finer than their resolution; no drift is removed, and no gap is large by itself."""
    assert linear_scale(0.01) == Scale(linear=True, least_sd=0.01, order_cap=0.0, mode_gap=0.0)


@pytest.mark.parametrize(
    ("floor", "linear", "sigma"),
    [
        (0.004, False, 0.0020367830),
        (0.013, False, 0.0065900319),
        (0.1, False, 0.0486285359),
        (0.02, True, 0.0102042691),
    ],
)
def test_a_declared_floor(floor: float, sigma: float, *, linear: bool) -> None:
    """A declared floor is 1.96 sd of a log ratio, or of a plain difference, with five degrees of freedom."""
    noise = declared_noise(floor, linear=linear)

    assert noise.sigma == pytest.approx(sigma, abs=1e-10)
    assert noise.df == 5


def test_a_declared_floor_is_of_ratios() -> None:
    """Without further words a floor is a percentage of the metric."""
    assert declared_noise(0.02) == declared_noise(0.02, linear=False) != declared_noise(0.02, linear=True)


@pytest.mark.parametrize(("sigma", "floor"), [(0.0, 0.0), (0.002, 0.0039276), (0.02, 0.0399777), (0.11, 0.2406011)])
def test_the_floor_of_a_standard_deviation(sigma: float, floor: float) -> None:
    """The floor shown for a standard deviation is the raw change at 1.96 of it."""
    assert floor_of(sigma) == pytest.approx(floor, abs=1e-7)


@pytest.mark.parametrize(("boots", "df"), [(2, 1.0), (3, 1.6), (4, 2.25), (5, 32 / 11), (6, 25 / 7), (8, 4.9)], ids=str)
def test_degrees_of_freedom_of_a_window(boots: int, df: float) -> None:
    """Neighbouring differences share a boot, so k boots are worth 2 (k - 1)^2 / (3 k - 4) degrees of freedom."""
    assert arm_noise([[0.0] * boots]).df == pytest.approx(df, rel=1e-12)


def test_windows_of_an_arm_add_up() -> None:
    """Squares and degrees of freedom of several windows add up, and no difference reaches across two windows."""
    noise = arm_noise([[0.0, 0.01, -0.01], [5.0, 5.03]])

    assert noise.sigma == pytest.approx(math.sqrt((0.01**2 + 0.02**2 + 0.03**2) / 3))
    assert noise.df == pytest.approx(2.6)


def test_a_drift_counts_as_noise() -> None:
    """Differences are squared about zero: boots that rise steadily by 1 % scatter by 1 %, and not by nothing."""
    noise = arm_noise([[0.00, 0.01, 0.02, 0.03]])

    assert noise.sigma == pytest.approx(0.01)


def test_the_order_of_boots_matters() -> None:
    """Neighbours are those that ran one after the other: the same values in another order scatter otherwise."""
    assert arm_noise([[0.0, 0.02, 0.01]]).sigma == pytest.approx(math.sqrt((0.02**2 + 0.01**2) / 2))


@pytest.mark.parametrize("windows", [[], [[]], [[0.3]], [[0.1], [0.2]]], ids=str)
def test_single_boots_say_nothing_of_noise(windows: list[list[float]]) -> None:
    """Windows of fewer than two boots leave the noise unknown, also when there are several."""
    assert arm_noise(windows) == UNKNOWN_NOISE == Noise(0.0, 0.0)


def test_single_boots_do_not_count_beside_a_window() -> None:
    """A window of one boot adds neither squares nor degrees of freedom to a longer one."""
    assert arm_noise([[0.4], [0.0, 0.01]]) == Noise(0.01, 1.0)


@pytest.mark.parametrize("boots", [2, 3, 4, 6])
def test_simulated_windows_agree_with_the_formula(boots: int) -> None:
    """Over 6000 simulated windows the variance is unbiased, and scatters as its degrees of freedom say."""
    boot_sd = 0.01
    random = np.random.default_rng(20261129 + boots)
    drawn = [arm_noise([window]) for window in random.normal(0.0, boot_sd, size=(6000, boots)).tolist()]
    variances = np.array([noise.sigma**2 for noise in drawn])

    seen = 2 * variances.mean() ** 2 / variances.var()

    # Three standard errors: 2 / df / 6000 for the mean, (2 + 12 / df) / 6000 for the variance, squared and relative.
    df = drawn[0].df
    assert variances.mean() == pytest.approx(2 * boot_sd**2, rel=3 * math.sqrt(2 / df / 6000))
    assert seen == pytest.approx(df, rel=3 * math.sqrt((2 + 12 / df) / 6000))


def test_both_arms_calibrated() -> None:
    """Two arms that scatter unequally have the mean of their variances, with Welch-Satterthwaite degrees of freedom."""
    noise = pair_noise(Noise(0.01, 4.0), Noise(0.03, 10.0))

    assert noise.sigma == pytest.approx(math.sqrt(5e-4))
    assert noise.df == pytest.approx(1e-6 / (1e-8 / 4 + 81e-8 / 10))


@pytest.mark.parametrize(("boots", "df"), [(6, 7.142857), (8, 9.8)])
def test_what_a_calibration_of_both_arms_buys(boots: int, df: float) -> None:
    """Six boots in a row of each of two equal arms give about 7 degrees of freedom, eight give about 10."""
    arm = arm_noise([[0.0, 0.01] * (boots // 2)])

    noise = pair_noise(arm, arm)

    assert (noise.sigma, noise.df) == pytest.approx((0.01, df), rel=1e-6)


@pytest.mark.parametrize(("df", "counted"), [(3.57, 3.57), (5.0, 5.0), (8.0, 5.0)])
def test_one_arm_alone(df: float, counted: float) -> None:
    """The noise of the only calibrated arm is taken for both, and counts for five degrees of freedom at most."""
    arm = Noise(0.02, df)

    assert pair_noise(arm, UNKNOWN_NOISE) == pair_noise(UNKNOWN_NOISE, arm) == Noise(0.02, counted)


def test_no_arm_calibrated() -> None:
    """Two arms of unknown noise leave that of their difference unknown."""
    assert pair_noise(UNKNOWN_NOISE, UNKNOWN_NOISE) == UNKNOWN_NOISE


def test_two_arms_that_never_scatter() -> None:
    """Two arms without any scatter have none, with the degrees of freedom of both."""
    assert pair_noise(Noise(0.0, 3.0), Noise(0.0, 4.0)) == Noise(0.0, 7.0)


@given(KNOWN, KNOWN)
def test_the_noise_of_a_pair_lies_between_its_arms(left: Noise, right: Noise) -> None:
    """It is the same from both sides, between those of its arms, and worth no less than the worse of the two."""
    noise = pair_noise(left, right)

    assert noise.sigma == pytest.approx(pair_noise(right, left).sigma)
    assert noise.df == pytest.approx(pair_noise(right, left).df)
    assert min(left.sigma, right.sigma) * (1 - 1e-9) <= noise.sigma <= max(left.sigma, right.sigma) * (1 + 1e-9)
    assert min(left.df, right.df) * (1 - 1e-9) <= noise.df <= (left.df + right.df) * (1 + 1e-9)


def test_earlier_runs_add_their_scatter() -> None:
    """Earlier runs add their squares about their own means, and a degree of freedom for each round but the first."""
    noise = with_runs(Noise(0.01, 6.0), [[0.10, 0.12], [-0.30, -0.30, -0.33]])

    assert noise.df == 9
    assert noise.sigma == pytest.approx(math.sqrt((6 * 0.01**2 + 2 * 0.01**2 + 2 * 0.01**2 + 0.02**2) / 9))


def test_earlier_runs_alone() -> None:
    """Without a calibration the noise is the scatter of the earlier runs within themselves."""
    noise = with_runs(UNKNOWN_NOISE, [[0.0, 0.02], [1.0, 1.02], [7.0]])

    assert noise.df == 2
    assert noise.sigma == pytest.approx(math.sqrt(2 * 0.01**2))


@pytest.mark.parametrize("runs", [[], [[]], [[0.5], [-0.5]]], ids=str)
def test_runs_of_one_round_teach_nothing(runs: list[list[float]]) -> None:
    """Runs of a single round have no scatter of their own and leave a calibration as it is."""
    assert with_runs(Noise(0.01, 6.0), runs) == Noise(0.01, 6.0)


@given(KNOWN, st.lists(VALUES, min_size=1, max_size=3))
def test_more_runs_are_worth_more(noise: Noise, runs: list[list[float]]) -> None:
    """Every round beyond a run's first is worth a degree of freedom, and the weighted squares are kept."""
    found = with_runs(noise, runs)

    rounds = sum(len(run) - 1 for run in runs)
    squares = sum(float(np.var(run)) * len(run) for run in runs)
    assert found.df == pytest.approx(noise.df + rounds)
    assert found.df * found.sigma**2 == pytest.approx(noise.df * noise.sigma**2 + squares, rel=1e-9, abs=1e-15)
