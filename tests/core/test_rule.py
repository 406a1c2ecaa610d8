"""The decision rule against a second, plain rewrite of its text, and against itself: many runs at once, both signs."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from pytest_specgate.core import rule
from pytest_specgate.core.noise import LOG, UNKNOWN_NOISE, Noise, Scale, linear_scale
from pytest_specgate.core.plan import Claim, Plan, looks
from pytest_specgate.core.statistics import Look, look

if TYPE_CHECKING:
    from collections.abc import Sequence

PERCENT = linear_scale(0.01)
SCALES = st.sampled_from([LOG, PERCENT])
STEPS = st.integers(-40, 40).map(lambda step: step / 487)
"""Differences on a grid, so that equal ones and runs without scatter occur; no drift on it equals the cap of 2 %."""

NOISES = st.one_of(
    st.just(UNKNOWN_NOISE),
    st.builds(Noise, sigma=st.sampled_from([0.0001, 0.002, 0.01, 0.03]), df=st.floats(3.0, 30.0)),
)


@dataclasses.dataclass(frozen=True)
class Case:
    """Some runs at one of their looks, and what is asked of them."""

    runs: list[list[float]]
    first: list[bool]
    noise: Noise
    plan: Plan
    scale: Scale

    def each(self, claim: Claim) -> list[Look]:
        """Look at one run after the other."""
        return [
            look(
                run,
                delta=claim.delta,
                gain=claim.gain,
                noise=self.noise,
                plan=self.plan,
                candidate_first=self.first,
                scale=self.scale,
            )
            for run in self.runs
        ]

    def at_once(self, claim: Claim) -> rule.Bounds:
        """Look at all runs at once."""
        return rule.bounds(
            np.array(self.runs),
            np.array(self.first),
            sigma=np.full(len(self.runs), self.noise.sigma),
            nu=self.noise.df,
            scale=self.scale,
            claim=claim,
            plan=self.plan,
        )

    def turned(self) -> Case:
        """Return the runs with the opposite sign."""
        return dataclasses.replace(self, runs=[[-x for x in run] for run in self.runs])


@st.composite
def cases(draw: st.DrawFn, *, most: int = 1) -> Case:
    """Draw runs at one of the looks of a plan, with boots in any order."""
    noise = draw(NOISES)
    plan = Plan(looks(draw(st.sampled_from([3, 4, 6, 8])), noise), family=draw(st.sampled_from([1, 5])))
    n = draw(st.sampled_from(plan.looks))
    runs = draw(st.lists(st.lists(STEPS, min_size=n, max_size=n), min_size=1, max_size=most))
    first = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return Case(runs, first, noise, plan, draw(SCALES))


DELTAS = st.floats(-0.05, 0.08)
CLAIMS = st.builds(Claim, delta=DELTAS, gain=st.one_of(st.none(), st.floats(0.0, 0.1)))


@dataclasses.dataclass(frozen=True)
class Plain:
    """What the text of the rule says of one look, in plain Python."""

    mean: float
    lower: float
    upper: float
    variance: float
    df: float
    word: str
    removed: bool


def _choose(squares: float, f: int, *, noise: Noise, least: float) -> tuple[float, float]:
    if noise.df == 0:
        return squares / f, f
    own = squares / f
    if stats.f.sf(own / max(noise.sigma, least) ** 2, f, noise.df) < 0.10:
        return own, f
    pooled = (squares + noise.df * noise.sigma**2) / (f + noise.df)
    return max(pooled, own), f + noise.df


def _variance(x: Sequence[float], first: Sequence[bool], *, noise: Noise, scale: Scale) -> tuple[float, float, bool]:
    n, least = len(x), scale.least_sd
    mean = sum(x) / n
    squares = sum((one - mean) ** 2 for one in x)
    v, df = _choose(squares, n - 1, noise=noise, least=least)
    early = [one for one, turned in zip(x, first, strict=True) if not turned]
    late = [one for one, turned in zip(x, first, strict=True) if turned]
    p, q = len(early), len(late)
    if scale.linear or p < 2 or q < 2:
        return max(v, least**2), df, False
    gap = sum(early) / p - sum(late) / q
    vw, dw = _choose(max(0.0, squares - p * q / n * gap**2), n - 2, noise=noise, least=least)
    g = abs(gap / 2)
    removed = g <= 0.02 and g > float(stats.t.isf(0.01, dw)) * math.sqrt(max(vw, least**2) / n)
    return max(vw if removed else v, least**2), dw if removed else df, removed


def _forecast(plain: Plain, n: int, *, plan: Plan, claim: Claim) -> float:
    """Predict the chance that the last look decides."""
    last = plan.looks[-1]
    root = math.sqrt(plain.variance / last)
    to_pass = float(stats.t.isf(0.05 / len(plan.looks), plain.df + last - n)) * root
    to_fail = float(stats.t.isf(0.05 / len(plan.looks) / plan.family, plain.df + last - n)) * root
    coming = stats.norm(plain.mean, math.sqrt(plain.variance * (1 / n - 1 / last)))
    if claim.gain is None:
        return float(coming.sf(to_pass - claim.delta) + coming.cdf(-claim.delta - to_fail))
    inside = coming.cdf(claim.gain - to_pass) - coming.cdf(to_pass - claim.delta)
    outside = coming.cdf(-claim.delta - to_fail) + coming.sf(claim.gain + to_fail)
    return float(max(0.0, inside) + outside)


def _plain_look(x: Sequence[float], case: Case, claim: Claim) -> Plain:
    n, plan, slack = len(x), case.plan, 1e-9
    variance, df, removed = _variance(x, case.first, noise=case.noise, scale=case.scale)
    mean, error = sum(x) / n, math.sqrt(variance / n)
    to_pass = float(stats.t.isf(0.05 / len(plan.looks), df)) * error
    to_fail = float(stats.t.isf(0.05 / len(plan.looks) / plan.family, df)) * error
    limit, top = -claim.delta, math.inf if claim.gain is None else claim.gain
    seen = Plain(mean, mean - to_pass, mean + to_fail, variance, df, "", removed)
    if mean - to_pass >= limit - slack and mean + to_pass <= top + slack:
        word = "PASS"
    elif mean + to_fail < limit - slack or mean - to_fail > top + slack:
        word = "FAIL"
    elif n == plan.looks[-1]:
        word = "INCONCLUSIVE"
    else:
        futile = df >= 3 and _forecast(seen, n, plan=plan, claim=claim) < 0.10
        word = "INCONCLUSIVE" if futile else "CONTINUE"
    return dataclasses.replace(seen, word=word)


@given(cases(), CLAIMS)
def test_a_look_is_what_the_text_says(case: Case, claim: Claim) -> None:
    """Bounds, variance, degrees of freedom and word of any look agree with a plain rewrite of the rule's text."""
    plain = _plain_look(case.runs[0], case, claim)

    seen = case.each(claim)[0]

    assert seen.mean == pytest.approx(plain.mean, abs=1e-12)
    assert seen.lower == pytest.approx(plain.lower, rel=1e-7, abs=1e-10)
    assert seen.upper == pytest.approx(plain.upper, rel=1e-7, abs=1e-10)
    assert seen.sd == pytest.approx(math.sqrt(plain.variance), rel=1e-9)
    assert seen.df == pytest.approx(plain.df)
    assert seen.decision == plain.word
    assert ("order effect" in seen.source) == plain.removed


@pytest.mark.parametrize("gain", [None, 0.008])
@pytest.mark.parametrize("scale", [LOG, linear_scale(0.0005)], ids=["log", "linear"])
@pytest.mark.parametrize("noise", [UNKNOWN_NOISE, Noise(0.004, 5.0), Noise(0.004, 10.0)], ids=["-", "5", "10"])
def test_random_looks_are_what_the_text_says(noise: Noise, scale: Scale, *, gain: float | None) -> None:
    """A hundred runs near the margin, some of them drifting, get the words and bounds of the plain rewrite."""
    random = np.random.default_rng(7)
    plan = Plan(looks(6, noise), family=2)
    claim = Claim(0.008, gain)
    seen, expected = [], []
    for n in plan.looks:
        first = [i % 2 == 1 for i in range(n)]
        drift = np.where(first, -1, 1) * random.uniform(-0.03, 0.03, size=(34, 1))
        x = random.normal(random.uniform(-0.02, 0.02, size=(34, 1)), 0.004, size=(34, n)) + drift
        case = Case(x.tolist(), first, noise, plan, scale)
        seen += [(one.decision, one.lower, one.upper) for one in case.each(claim)]
        expected += [_plain_look(run, case, claim) for run in case.runs]

    words = {plain.word for plain in expected}
    assert [word for word, _, _ in seen] == [plain.word for plain in expected]
    assert [lower for _, lower, _ in seen] == pytest.approx([plain.lower for plain in expected])
    assert [upper for _, _, upper in seen] == pytest.approx([plain.upper for plain in expected])
    assert {"PASS", "INCONCLUSIVE"} <= words


@given(cases(most=5), CLAIMS)
def test_many_runs_at_once_are_judged_like_each_alone(case: Case, claim: Claim) -> None:
    """What is simulated is what judges: every figure of every run equals that of a look at this run alone."""
    found = case.at_once(claim)

    alone = case.each(claim)

    words = ("PASS", "FAIL", "INCONCLUSIVE", "INCONCLUSIVE", "CONTINUE")
    assert [words[code] for code in found.decision] == [one.decision for one in alone]
    assert [code == rule.FUTILE for code in found.decision] == [one.reason.startswith("futile") for one in alone]
    for name in ("lower", "upper", "pass_upper", "fail_lower"):
        assert list(getattr(found, name)) == pytest.approx([getattr(one, name) for one in alone], rel=1e-12)
    assert list(found.spread.df) == [one.df for one in alone]
    assert [rule.SOURCES[code] for code in found.spread.source] == [one.source.split(",")[0] for one in alone]
    assert list(found.order.removed) == ["removed" in one.source for one in alone]
    assert list(found.order.significant) == [one.order_effect is not None for one in alone]
    assert list(np.isnan(found.chance)) == [one.decision_chance is None for one in alone]


@given(cases(), DELTAS, st.floats(-0.05, 0.1))
def test_equivalence_is_symmetric(case: Case, delta: float, gain: float) -> None:
    """Rounds of the opposite sign, with loss and gain exchanged, get the same word and the mirrored bounds."""
    seen, mirrored = case.each(Claim(delta, gain))[0], case.turned().each(Claim(gain, delta))[0]

    assert seen.decision == mirrored.decision
    assert seen.lower == pytest.approx(-(mirrored.pass_upper or 0.0))
    assert seen.upper == pytest.approx(-(mirrored.fail_lower or 0.0))
    assert (seen.decision_chance is None) == (mirrored.decision_chance is None)
    assert (seen.decision_chance or 0.0) == pytest.approx(mirrored.decision_chance or 0.0, rel=1e-6, abs=1e-9)


@given(case=cases(), claim=CLAIMS, more=st.tuples(st.floats(0, 0.1), st.floats(0, 0.1)))
def test_wider_margins_never_undo_a_pass(case: Case, claim: Claim, *, more: tuple[float, float]) -> None:
    """What passes still passes when more loss and more gain are tolerated, and what fails had failed before."""
    wider = Claim(claim.delta + more[0], None if claim.gain is None else claim.gain + more[1])

    narrow, wide = case.each(claim)[0].decision, case.each(wider)[0].decision

    assert narrow != "PASS" or wide == "PASS"
    assert wide != "FAIL" or narrow == "FAIL"


@given(cases(), DELTAS, st.floats(0.0, 0.1))
def test_equivalence_asks_for_more_than_no_loss(case: Case, delta: float, gain: float) -> None:
    """What is equivalent is not worse, and what is worse is not equivalent."""
    loss, both = case.each(Claim(delta))[0].decision, case.each(Claim(delta, gain))[0].decision

    assert both != "PASS" or loss == "PASS"
    assert loss != "FAIL" or both == "FAIL"


@given(cases(), CLAIMS)
def test_bounds_of_both_kinds_are_symmetric_about_the_mean(case: Case, claim: Claim) -> None:
    """The bounds of PASS lie as far below as above the mean, so do those of FAIL, which are no narrower."""
    found = case.at_once(claim)

    to_pass, to_fail = found.mean - found.lower, found.upper - found.mean
    assert found.pass_upper - found.mean == pytest.approx(to_pass)
    assert found.mean - found.fail_lower == pytest.approx(to_fail)
    assert bool(np.all(to_pass > 0))
    assert bool(np.all(to_fail >= to_pass - 1e-12))


@given(cases(), CLAIMS)
def test_a_forecast_is_a_probability(case: Case, claim: Claim) -> None:
    """The predicted chance of a decision lies between 0 and 1, and exists before the last look only."""
    # At least 3 % better and no better than by nothing: no gate can claim that, and nothing decides it.
    assume(claim.gain is None or claim.gain + claim.delta >= 0)
    seen = case.each(claim)[0]

    if len(case.first) == case.plan.rounds:
        assert seen.decision_chance is None
    else:
        assert seen.decision_chance is not None
        assert -1e-12 <= seen.decision_chance <= 1 + 1e-12


def test_the_least_sd_guards_the_test_of_a_calibration() -> None:
    """A calibration of nothing is tested as one of the least sd that is believed, but pooled as what it is."""
    squares = np.array([0.0005**2, 0.0025**2])

    found = rule.choose(squares, 1, sigma=np.zeros(2), nu=10.0, least_sd=0.0005)

    assert list(found.ratio) == pytest.approx([1.0, 25.0])
    assert [rule.SOURCES[code] for code in found.source] == ["own > calibrated", "own (calibration rejected)"]
    assert list(found.variance) == pytest.approx([0.0005**2, 0.0025**2])
    assert list(found.df) == [11.0, 1.0]


def test_pooled_and_own_variance() -> None:
    """The pooled variance weighs own and calibrated squares by their degrees of freedom; an equal own one is pooled."""
    sigma = np.full(3, 0.01)

    found = rule.choose(np.array([0.0, 3e-4, 3.3e-4]), 3, sigma=sigma, nu=9.0, least_sd=0.0005)

    assert list(found.variance) == pytest.approx([0.75e-4, 1e-4, 1.1e-4])
    assert [rule.SOURCES[code] for code in found.source] == ["pooled", "pooled", "own > calibrated"]
    assert list(found.df) == [12.0] * 3


def test_a_run_of_one_round_has_no_own_variance() -> None:
    """One round is judged by the calibration alone, and has no ratio to it."""
    found = rule.choose(np.zeros(1), 0, sigma=np.array([0.02]), nu=5.0, least_sd=0.0005)

    assert (found.variance[0], found.df[0], rule.SOURCES[found.source[0]]) == (0.0004, 5.0, "calibrated")
    assert math.isnan(found.ratio[0])


@pytest.mark.parametrize(
    ("first", "drift"),
    [
        ([False, True, False, True], 0.01),
        ([True, False, True, False], -0.01),
        ([False, False, False, True], math.nan),
        ([True, True, True, False], math.nan),
        ([False] * 4, math.nan),
    ],
)
def test_a_drift_needs_two_rounds_of_each_order(first: list[bool], drift: float) -> None:
    """The drift per boot is half the gap between the two orders; no order that occurs once can tell it."""
    x = np.array([[0.01, -0.01, 0.01, -0.01]])

    spread, order = rule.spread_of(x, np.array(first), sigma=np.zeros(1), nu=0.0, scale=LOG)

    assert order.drift[0] == pytest.approx(drift, nan_ok=True)
    assert order.removed[0] == order.significant[0] == (not math.isnan(drift))
    assert spread.variance[0] == pytest.approx(4e-4 / 3 if math.isnan(drift) else 0.0)
    assert spread.df[0] == (3 if math.isnan(drift) else 2)


@pytest.mark.parametrize(
    ("drift", "significant", "removed"),
    [(0.0017, False, False), (0.0018, True, True), (0.0199, True, True), (0.0201, True, False)],
)
def test_the_range_of_the_order_effect(drift: float, *, significant: bool, removed: bool) -> None:
    """A drift is significant from 6.96 times half the least sd on, and taken out of the variance up to 2 % per boot."""
    x = np.array([[drift, -drift, drift, -drift]])

    spread, order = rule.spread_of(x, np.array([False, True] * 2), sigma=np.zeros(1), nu=0.0, scale=LOG)

    assert (order.significant[0], order.removed[0]) == (significant, removed)
    assert spread.variance[0] == pytest.approx(0.0 if removed else 4 * drift**2 / 3)


def test_every_run_has_its_own_drift() -> None:
    """Of two runs side by side the drifting one alone loses a degree of freedom, and keeps its code."""
    x = np.array([[0.01, -0.01, 0.0101, -0.0101], [0.004, 0.003, -0.003, -0.002]])

    spread, order = rule.spread_of(x, np.array([False, True] * 2), sigma=np.full(2, 0.004), nu=5.0, scale=LOG)

    assert list(order.removed) == [True, False]
    assert list(spread.df) == [7.0, 8.0]
    assert [rule.SOURCES[code] for code in spread.source] == ["pooled", "pooled"]


def test_a_share_has_no_order_effect() -> None:
    """On the linear scale the order of boots is not looked at."""
    x = np.array([[0.01, -0.01, 0.01, -0.01]])

    spread, order = rule.spread_of(x, np.array([False, True] * 2), sigma=np.zeros(1), nu=0.0, scale=PERCENT)

    assert (math.isnan(order.drift[0]), order.significant[0], order.removed[0]) == (True, False, False)
    assert (spread.variance[0], spread.df[0]) == (pytest.approx(4e-4 / 3), 3.0)


@pytest.mark.parametrize(("tail", "df", "point"), [(0.05, 1.6, 3.4975), (0.025, 2.25, 3.8745), (0.05, 7.14, 1.8910)])
def test_quantiles_of_fractional_degrees_of_freedom(tail: float, df: float, *, point: float) -> None:
    """Degrees of freedom of a calibration are no whole numbers, and neither are those of its quantiles."""
    assert float(rule.quantile(tail, df)) == pytest.approx(float(stats.t.isf(tail, df)))
    assert float(rule.quantile(tail, df)) == pytest.approx(point, abs=0.5)


@pytest.mark.parametrize(("code", "mean"), [(rule.PASS, 0.0), (rule.FAIL, -0.1), (rule.CONTINUE, -0.0125)])
def test_codes_of_decisions(code: int, mean: float) -> None:
    """A run that is clear has its code at the first look, one between the margins goes on."""
    case = Case([[mean, mean]], [False, True], Noise(0.005, 10.0), Plan((2, 4, 6)), LOG)

    assert list(case.at_once(Claim(0.02)).decision) == [code]


def test_futility_of_an_equivalence() -> None:
    """An equivalence much narrower than the noise is given up at the first look, one it may still show is not."""
    case = Case([[0.0, 0.001]], [False, True], Noise(0.02, 10.0), Plan((2, 4, 6)), LOG)

    hopeless, open_ = (case.at_once(Claim(width, width)) for width in (0.004, 0.03))

    assert (hopeless.decision[0], open_.decision[0]) == (rule.FUTILE, rule.CONTINUE)
    assert hopeless.chance[0] < 0.1 < open_.chance[0]
