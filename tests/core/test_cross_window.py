"""The rule across windows: what earlier windows tell of today's, and what they cannot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pytest_specgate.core import cross_window
from pytest_specgate.core.cross_window import WindowMean, cross_bounds, cross_look, round_variance
from pytest_specgate.core.noise import LOG, UNKNOWN_NOISE, Noise, linear_scale

BASE = [WindowMean(value, 2) for value in (0.010, 0.012, 0.008)]


def plain(today: float, values: list[float], *, delta: float, family: int = 1) -> tuple[str, float, float]:
    """Judge by the formulas alone, with another library."""
    count = len(values)
    sd = math.sqrt(float(np.var(values, ddof=1)) * (1 + 1 / count))
    y = today - sum(values) / count
    lower = y - float(stats.t.ppf(0.95, count - 1)) * sd
    upper = y + float(stats.t.ppf(1 - 0.05 / family, count - 1)) * sd
    return ("PASS" if lower >= -delta else "FAIL" if upper < -delta else "INCONCLUSIVE"), lower, upper


@pytest.mark.parametrize("today", [0.010, 0.0, -0.02, -0.06, 0.2])
@pytest.mark.parametrize("family", [1, 4])
def test_three_windows_judge_the_next(today: float, family: int) -> None:
    """Bounds and word follow from the spread of the windows, with one degree of freedom fewer than windows."""
    found = cross_look(WindowMean(today, 2), BASE, delta=0.02, family=family)
    word, lower, upper = plain(today, [window.value for window in BASE], delta=0.02, family=family)

    assert found.decision == word
    assert found.lower == pytest.approx(lower)
    assert found.upper == pytest.approx(upper)
    assert (found.df, found.source) == (2.0, "3 windows")


def test_many_at_once_are_judged_like_one() -> None:
    """The arrays of a simulation give what each run gives alone."""
    rng = np.random.default_rng(7)
    today, windows = rng.normal(0.0, 0.01, 50), rng.normal(0.0, 0.01, (50, 4))
    found = cross_bounds(today, windows, delta=0.02, family=2)
    alone = [
        cross_look(WindowMean(one, 2), [WindowMean(value, 2) for value in row], delta=0.02, family=2)
        for one, row in zip(today.tolist(), windows.tolist(), strict=True)
    ]

    assert [("PASS", "FAIL", "INCONCLUSIVE")[code] for code in found.decision] == [one.decision for one in alone]
    assert found.lower == pytest.approx([one.lower for one in alone])
    assert found.upper == pytest.approx([one.upper for one in alone])


def test_a_single_round_against_longer_windows_counts_its_own_noise() -> None:
    """A window of fewer rounds than those of the baseline is noisier by what its rounds lack."""
    short, equal = (cross_look(WindowMean(0.01, rounds), BASE, delta=0.02, within=1e-4) for rounds in (1, 2))
    spread = float(np.var([window.value for window in BASE], ddof=1)) * (4 / 3)

    assert equal.sd == pytest.approx(math.sqrt(spread))
    assert short.sd == pytest.approx(math.sqrt(spread + 1e-4 * (1 - 1 / 2)))


def test_a_single_round_of_unknown_noise_decides_nothing() -> None:
    """Where nothing tells how far single rounds scatter, one round against windows of two has no bounds."""
    short, equal = (cross_look(WindowMean(-5.0, rounds), BASE, delta=0.02, within=None) for rounds in (1, 2))

    assert (short.decision, short.lower, short.reason) == ("INCONCLUSIVE", None, "noise of a single round unknown")
    assert equal.decision == "FAIL"


@pytest.mark.parametrize(("least", "rounds"), [(0.0005, 2), (0.02, 2), (0.02, 8)])
def test_windows_that_agree_are_believed_to_the_least_sd_only(least: float, rounds: int) -> None:
    """Equal windows leave the least that is believed of a round, over their rounds."""
    equal = [WindowMean(0.01, rounds)] * 3
    found = cross_look(WindowMean(0.01, rounds), equal, delta=0.02, least_sd=least)

    assert found.window_sd == pytest.approx(least / math.sqrt(rounds))
    assert found.sd == pytest.approx(least / math.sqrt(rounds) * math.sqrt(4 / 3))


def test_the_variance_of_a_round_is_that_of_every_verdict() -> None:
    """The larger of own and pooled variance, the own one where it contradicts the other, and none of one round."""
    alternating = [False, True, False]
    calm, wild = [0.010, 0.012, 0.014], [0.0, 0.1, 0.2]
    noise = Noise(0.01, 8.0)

    def variance(values: list[float], known: Noise) -> float | None:
        return round_variance(values, noise=known, candidate_first=alternating[: len(values)])

    assert variance([0.01], UNKNOWN_NOISE) is None
    assert variance([0.01], noise) == pytest.approx(1e-4)
    assert variance(calm, UNKNOWN_NOISE) == pytest.approx(4e-6)
    assert variance(calm, noise) == pytest.approx((2 * 4e-6 + 8 * 1e-4) / 10)
    assert variance(wild, noise) == pytest.approx(0.01)


@pytest.mark.parametrize(("scale", "least"), [(LOG, 0.0005), (linear_scale(0.025), 0.025)])
def test_no_round_is_believed_to_have_no_noise(scale: Any, least: float) -> None:
    """Rounds that agree have the least standard deviation of their scale."""
    found = round_variance([0.1, 0.1], noise=UNKNOWN_NOISE, candidate_first=[False, True], scale=scale)

    assert found == pytest.approx(least**2)


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_windows_decide_nothing_by_themselves(count: int) -> None:
    """With one or two windows and no declared floor the noise is unknown, whatever the difference is."""
    found = cross_look(WindowMean(-5.0, 2), BASE[:count], delta=0.02)

    assert (found.decision, found.lower, found.sd) == ("INCONCLUSIVE", None, None)
    assert found.reason == f"noise across windows unknown: {count} of 3 windows"


@pytest.mark.parametrize(("count", "share"), [(1, 2.0), (2, 1.5)])
def test_a_declared_floor_across_windows_stands_in(count: int, share: float) -> None:
    """A declared floor is that of a difference of two windows, worth five degrees of freedom."""
    found = cross_look(WindowMean(0.01, 1), BASE[:count], delta=0.05, declared=0.03, within=1.0)
    one = (math.log(1.03) / 1.959964) ** 2 / 2

    assert found.sd == pytest.approx(math.sqrt(share * one))
    assert (found.df, found.decision) == (5.0, "PASS")
    assert found.source == "declared floor across windows"


def test_windows_replace_a_declared_floor() -> None:
    """Once three windows are there, what was declared is not used any more."""
    assert cross_look(WindowMean(0.01, 2), BASE, delta=0.02, declared=0.5) == cross_look(
        WindowMean(0.01, 2), BASE, delta=0.02
    )


def test_a_window_far_better_than_its_baseline_makes_it_stale() -> None:
    """Better by more than the margin passes, and says that the baseline is of another time."""
    better, usual = (cross_look(WindowMean(value, 2), BASE, delta=0.02) for value in (0.2, 0.010))

    assert (better.decision, better.stale) == ("PASS", True)
    assert (usual.decision, usual.stale) == ("PASS", False)


def test_a_gain_that_is_not_shown_makes_nothing_stale() -> None:
    """It is the bound that has to lie beyond the margin, not the estimate."""
    apart = [WindowMean(value, 2) for value in (0.0, 0.05, -0.05)]
    found = cross_look(WindowMean(0.06, 2), apart, delta=0.05)

    assert found.difference > 0.05
    assert not found.stale


def test_the_smallest_margin_follows_from_the_windows() -> None:
    """(t + 0.84) times the spread of windows: more rounds today would not make it smaller."""
    found = cross_look(WindowMean(0.01, 2), BASE, delta=0.02)
    spread = math.sqrt(float(np.var([window.value for window in BASE], ddof=1)) * (4 / 3))

    assert found.smallest_margin == pytest.approx((float(stats.t.ppf(0.95, 2)) + 0.841621) * spread, rel=1e-5)


def test_no_window_is_no_baseline() -> None:
    """There is nothing to judge by."""
    with pytest.raises(ValueError, match="at least one window"):
        cross_look(WindowMean(0.0, 1), [], delta=0.02)


@pytest.mark.parametrize(
    ("tau", "delta", "windows", "published"), [(0.004, 0.02, 3, 72.5), (0.004, 0.02, 5, 91.7), (0.013, 0.05, 3, 67.0)]
)
def test_healthy_runs_pass_as_often_as_published(tau: float, delta: float, windows: int, published: float) -> None:
    """Of 20 000 simulated runs as many pass as the published table says, within Monte-Carlo error; margins are logs."""
    rng = np.random.default_rng(20261130)
    count, sd = 20_000, math.sqrt(tau**2 + 0.004**2 / 2)
    found = cross_bounds(rng.normal(0, sd, count), rng.normal(0, sd, (count, windows)), delta=delta)
    share = 100 * float(np.mean(found.decision == cross_window.PASS))
    error = 300 * math.sqrt(published / 100 * (1 - published / 100) * (1 / count + 1 / 200_000)) + 0.05

    assert abs(share - published) <= error
