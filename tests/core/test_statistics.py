"""The parts of the decision rule: looks, noise, margins, and what a single look reports."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_specgate.core import rule, statistics
from pytest_specgate.core.noise import LOG, UNKNOWN_NOISE, Noise, declared_noise, floor_of
from pytest_specgate.core.plan import Plan, looks
from pytest_specgate.core.statistics import look

KNOWN = Noise(0.01, 5.0)


@pytest.mark.parametrize(
    ("n_max", "df", "expected"),
    [
        (1, 0, ()),
        (2, 0, ()),
        (3, 0, (3,)),
        (4, 0, (4,)),
        (6, 0, (4, 6)),
        (8, 0, (4, 6, 8)),
        (40, 0, tuple(range(4, 41, 2))),
        (1, 5, (1,)),
        (2, 5, (2,)),
        (3, 5, (2, 3)),
        (4, 5, (2, 4)),
        (6, 5, (2, 4, 6)),
        (8, 5, (2, 4, 6, 8)),
        (40, 5, tuple(range(2, 41, 2))),
        (6, 3, (2, 4, 6)),
        (2, 2.9, ()),
        (6, 2.9, (4, 6)),
    ],
)
def test_looks(n_max: int, df: float, *, expected: tuple[int, ...]) -> None:
    """A threshold is judged after 2, 4, ... rounds with known noise, from 4 on without, and always at the last one."""
    assert looks(n_max, Noise(0.01, df)) == expected


def test_plan_shares_its_error_rates() -> None:
    """The PASS level is shared by the looks, the FAIL level by the looks and the thresholds of the gate."""
    plan = Plan((2, 4, 6), family=8)

    assert (plan.rounds, plan.pass_tail, plan.fail_tail) == (6, 0.05 / 3, 0.05 / 24)


def test_declared_floor_is_a_standard_deviation_with_five_degrees_of_freedom() -> None:
    """A declared floor of 0.4 % means 1.96 standard deviations of a single log ratio."""
    noise = declared_noise(0.004)

    assert noise.sigma == pytest.approx(math.log(1.004) / 1.959964)
    assert noise.df == 5


@pytest.mark.parametrize("floor", [0.001, 0.004, 0.05, 0.5])
def test_floor_of_undoes_the_declaration(floor: float) -> None:
    """The floor shown for a standard deviation is the one that was declared for it."""
    assert floor_of(declared_noise(floor).sigma) == pytest.approx(floor)


@pytest.mark.parametrize(
    ("higher", "margin", "gain"), [(True, -math.log(0.95), -math.log(1.05)), (False, math.log(1.05), math.log(0.95))]
)
def test_margin_and_gain_in_both_directions(higher: bool, margin: float, *, gain: float) -> None:
    """A margin is positive and a gain negative in log units, whichever direction is better."""
    assert statistics.log_margin(0.05, higher_is_better=higher) == pytest.approx(margin)
    assert statistics.log_gain(0.05, higher_is_better=higher) == pytest.approx(gain)


@pytest.mark.parametrize(
    ("reference", "candidate", "higher", "change"),
    [(100.0, 80.0, True, -0.2), (100.0, 120.0, True, 0.2), (10.0, 12.5, False, 0.25), (10.0, 8.0, False, -0.2)],
)
def test_raw_change_has_the_sign_of_the_metric(
    reference: float, candidate: float, *, higher: bool, change: float
) -> None:
    """A signed log ratio is shown as the change of the metric itself, not of its goodness."""
    sign = 1 if higher else -1
    signed = sign * math.log(candidate / reference)

    assert statistics.raw_change(signed, higher_is_better=higher) == pytest.approx(change)


@pytest.mark.parametrize(
    ("values", "mean"),
    [([3.0], 3.0), ([2.0, 8.0], 4.0), ([8.0, 2.0], 4.0), ([1.0, 10.0, 100.0], 10.0), ([1e308, 1e308, 1e-16], 1e200)],
)
def test_geometric_mean(values: list[float], mean: float) -> None:
    """The mean of several values is the root of their product, in any order and beyond the range of the product."""
    assert statistics.geometric_mean(values) == pytest.approx(mean, rel=1e-12)


def test_geometric_means_have_the_ratio_that_is_judged() -> None:
    """The levels shown for two arms have the very ratio whose logarithm is the mean of the rounds."""
    reference, candidate = [10.0, 10.6, 9.7], [10.9, 10.1, 10.5]
    ratios = [math.log(right / left) for left, right in zip(reference, candidate, strict=True)]

    ratio = statistics.geometric_mean(candidate) / statistics.geometric_mean(reference)

    assert math.log(ratio) == pytest.approx(math.fsum(ratios) / 3)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_geometric_mean_needs_positive_values(value: float) -> None:
    """A value that is not positive has no logarithm, and no mean is made up for it."""
    with pytest.raises(ValueError, match=r"math domain error|positive"):
        statistics.geometric_mean([1.0, value])


def test_case_40_reciprocal_metrics_agree_on_the_slowdown() -> None:
    """Case 40: one slowdown by 1.25 is shown as TPOT +25 % and as decode rate -20 %, and judged alike."""
    slowdown = -math.log(1.25)

    assert statistics.raw_change(slowdown, higher_is_better=False) == pytest.approx(0.25)
    assert statistics.raw_change(slowdown, higher_is_better=True) == pytest.approx(-0.20)


def _largest_floor(x: float, delta: float) -> float:
    """Return the largest declared floor under which a single round is decided, found by halving, as a fraction."""
    low, high = 0.0, 4.0
    for _ in range(40):
        middle = (low + high) / 2
        decided = look([x], delta=delta, noise=declared_noise(middle), plan=Plan((1,))).decision != "INCONCLUSIVE"
        low, high = (middle, high) if decided else (low, middle)
    return low


@pytest.mark.parametrize(
    ("x", "margin", "printed"),
    [
        (math.log(272.77 / 301.28), 0.0, "10.2"),
        (math.log(272.77 / 301.28), 0.004, "9.7"),
        (math.log(272.77 / 301.28), 0.02, "8.0"),
        (math.log(272.77 / 301.28), 0.05, "4.8"),
        (math.log(272.77 / 301.28), 0.10, "0.58"),
        (math.log(350.96 / 273.84), 0.0, "27"),
        (math.log(119.84 / 55.15), 0.0, "113"),
        (math.log(1 - 0.0083), 0.0, "0.81"),
        (math.log(1 - 0.0083), 0.004, "0.42"),
        (math.log(1 - 0.0083), 0.02, "1.16"),
        (math.log(35456.73 / 29434.98), 0.0, "20"),
    ],
)
def test_break_even_floor_of_the_published_rounds(x: float, margin: float, *, printed: str) -> None:
    """The largest floor under which one round decides equals the published one, in percent and all its digits."""
    floor = _largest_floor(x, statistics.log_margin(margin, higher_is_better=True))

    decimals = len(printed.partition(".")[2])
    assert f"{100 * floor:.{decimals}f}" == printed


@pytest.mark.parametrize(("x", "decision"), [(0.03, "PASS"), (-0.05, "FAIL")])
def test_break_even_floor_is_where_a_decision_ends(x: float, *, decision: str) -> None:
    """A slightly smaller floor decides the round, a slightly larger one does not."""
    delta = statistics.log_margin(0.01, higher_is_better=True)
    floor = _largest_floor(x, delta)

    seen = [look([x], delta=delta, noise=declared_noise(floor * share), plan=Plan((1,))) for share in (0.999, 1.001)]

    assert [one.decision for one in seen] == [decision, "INCONCLUSIVE"]


@pytest.mark.parametrize(
    ("squares", "df", "noise", "expected"),
    [
        (0.0006, 3, UNKNOWN_NOISE, (0.0002, 3, "own (no calibration)", None)),
        (0.0, 0, KNOWN, (0.0001, 5, "calibrated", None)),
        (0.00005, 1, KNOWN, (0.00055 / 6, 6, "pooled", 0.5)),
        (0.0003, 1, KNOWN, (0.0003, 6, "own > calibrated", 3.0)),
        (0.01, 1, KNOWN, (0.01, 1, "own (calibration rejected)", 100.0)),
    ],
)
def test_choose_names_the_variance_it_uses(
    squares: float, df: int, *, noise: Noise, expected: tuple[float, float, str, float | None]
) -> None:
    """The variance is own, calibrated or pooled by the rule, and says which, with its F ratio."""
    variance, degrees, source, f_ratio = expected

    spread = rule.choose(np.array([squares]), df, sigma=np.array([noise.sigma]), nu=noise.df, least_sd=LOG.least_sd)

    assert spread.variance == pytest.approx(variance)
    assert (spread.df[0], rule.SOURCES[spread.source[0]]) == (degrees, source)
    assert spread.ratio[0] == pytest.approx(np.nan if f_ratio is None else f_ratio, nan_ok=True)


def test_no_judgement_between_looks() -> None:
    """A number of rounds that is no look gives no bounds, and names the next look."""
    seen = look([0.0, 0.0, 0.0], delta=0.05, noise=KNOWN, plan=Plan((2, 4, 6)))

    assert (seen.decision, seen.reason, seen.lower) == ("CONTINUE", "next look at 4 rounds", None)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("df", [0.0, 2.0, 2.9])
def test_without_any_look_the_answer_is_inconclusive(n: int, df: float) -> None:
    """Where no look exists nothing is decided, also when a little is known of the noise."""
    noise = Noise(0.01, df)

    seen = look([0.0] * n, delta=0.05, noise=noise, plan=Plan(looks(n, noise)))

    assert (seen.decision, seen.lower, seen.upper) == ("INCONCLUSIVE", None, None)
    assert seen.reason.startswith("noise unknown")


@pytest.mark.parametrize("n", [7, 8, 12])
def test_more_rounds_than_planned_are_refused(n: int) -> None:
    """Rounds beyond the last look do not wait for a look that lies behind them."""
    with pytest.raises(ValueError, match=f"^{n} rounds, but the plan of this threshold ends with 6$"):
        look([0.0] * n, delta=0.05, noise=KNOWN, plan=Plan((2, 4, 6)))


def test_an_order_effect_above_the_cap_is_flagged_and_kept_in_the_variance() -> None:
    """A significant drift of 3 % per boot stays in the variance and is named in a flag."""
    seen = look([0.0298, -0.0302, 0.03, -0.0297], delta=0.01, noise=KNOWN, plan=Plan((2, 4, 6)))

    assert seen.flags == ("order effect too large to remove: +2.99 % per boot",)
    assert seen.order_effect == pytest.approx(0.029925)
    assert "removed" not in seen.source


def test_no_order_effect_is_reported_where_there_is_none() -> None:
    """Rounds that scatter regardless of the boot order report no drift."""
    seen = look([0.004, 0.003, -0.003, -0.002], delta=0.05, noise=KNOWN, plan=Plan((2, 4, 6)))

    assert (seen.order_effect, seen.flags) == (None, ())


def test_the_order_of_boots_decides_the_sign_of_a_drift() -> None:
    """The same ratios booted candidate first are a drift the other way, with the same bounds."""
    ratios, noise, plan = [0.0098, -0.0102, 0.01, -0.0097], UNKNOWN_NOISE, Plan((4, 6))

    planned = look(ratios, delta=0.01, noise=noise, plan=plan)
    turned = look(ratios, delta=0.01, noise=noise, plan=plan, candidate_first=[True, False, True, False])

    assert planned.order_effect == pytest.approx(0.009925)
    assert turned.order_effect == pytest.approx(-0.009925)
    assert (planned.lower, planned.upper) == (turned.lower, turned.upper)


def test_one_order_alone_shows_no_drift() -> None:
    """Without two rounds of each order no drift can be told from scatter."""
    ratios = [0.0098, -0.0102, 0.01, -0.0097]

    seen = look(ratios, delta=0.01, noise=UNKNOWN_NOISE, plan=Plan((4, 6)), candidate_first=[False] * 3 + [True])

    assert seen.order_effect is None


def test_futility_needs_three_degrees_of_freedom() -> None:
    """Two rounds that contradict the calibration have one degree of freedom, too few to give up on a slim chance."""
    seen = look([-0.02, 0.0], delta=0.01, noise=Noise(0.002, 10), plan=Plan((2, 4, 6)))

    assert seen.decision_chance is not None
    assert seen.decision_chance < rule.FUTILITY
    assert (seen.df, seen.decision) == (1, "CONTINUE")


def test_the_last_look_needs_no_forecast() -> None:
    """At n_max there is no chance of a later decision to predict."""
    seen = look([-0.01, -0.01], delta=0.01, noise=KNOWN, plan=Plan((2,)))

    assert (seen.decision, seen.decision_chance) == ("INCONCLUSIVE", None)


def test_a_bound_on_the_margin_passes() -> None:
    """The lower bound may equal the margin: the comparison is inclusive within a billionth."""
    seen = look([0.0], delta=0.0, noise=KNOWN, plan=Plan((1,)))
    assert seen.lower is not None

    on_the_margin = look([0.0], delta=-seen.lower, noise=KNOWN, plan=Plan((1,)))

    assert on_the_margin.decision == "PASS"
