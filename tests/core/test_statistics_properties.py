"""What holds for the decision rule whatever the rounds are."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise
from pytest_specgate.core.plan import Plan, looks
from pytest_specgate.core.statistics import Look, look


@dataclasses.dataclass(frozen=True)
class Rounds:
    """Rounds of a run at one of its looks, with what is known of their noise."""

    ratios: tuple[float, ...]
    noise: Noise
    plan: Plan

    def at(self, delta: float) -> Look:
        """Judge the rounds with a margin."""
        return look(self.ratios, delta=delta, noise=self.noise, plan=self.plan)


RATIO = st.floats(-0.3, 0.3)
OFFSET = st.floats(0, 0.05)
DELTA = st.floats(-0.2, 0.2)
NOISE = st.one_of(st.just(UNKNOWN_NOISE), st.builds(Noise, sigma=st.floats(0.0, 0.1), df=st.floats(3.0, 30.0)))


@st.composite
def rounds(draw: st.DrawFn) -> Rounds:
    """Draw the rounds of a run of 3, 4, 6 or 8 at one of its looks."""
    noise = draw(NOISE)
    plan = Plan(looks(draw(st.sampled_from([3, 4, 6, 8])), noise), family=draw(st.integers(1, 8)))
    n = draw(st.sampled_from(plan.looks))
    return Rounds(tuple(draw(st.lists(RATIO, min_size=n, max_size=n))), noise, plan)


@given(run=rounds(), delta=DELTA, extra=st.floats(0, 0.2))
def test_a_more_lenient_margin_never_undoes_a_pass(run: Rounds, delta: float, *, extra: float) -> None:
    """What passes within a margin passes within every larger one."""
    strict, lenient = run.at(delta), run.at(delta + extra)

    assert strict.decision != "PASS" or lenient.decision == "PASS"


@given(run=rounds(), delta=DELTA, less=st.floats(0, 0.2))
def test_a_stricter_margin_never_undoes_a_fail(run: Rounds, delta: float, *, less: float) -> None:
    """What fails a margin fails every smaller one."""
    lenient, strict = run.at(delta), run.at(delta - less)

    assert lenient.decision != "FAIL" or strict.decision == "FAIL"


@given(rounds(), DELTA)
def test_turning_the_sign_mirrors_mean_and_bounds(run: Rounds, delta: float) -> None:
    """With one threshold, rounds of the opposite sign have the mirrored interval."""
    alone = dataclasses.replace(run, plan=Plan(run.plan.looks))
    turned = dataclasses.replace(alone, ratios=tuple(-ratio for ratio in run.ratios))

    seen, mirrored = alone.at(delta), turned.at(-delta)

    assert mirrored.lower is not None
    assert mirrored.upper is not None
    assert seen.lower == pytest.approx(-mirrored.upper)
    assert seen.upper == pytest.approx(-mirrored.lower)
    assert seen.mean == pytest.approx(-mirrored.mean)


@given(rounds(), DELTA)
def test_the_bounds_contain_the_mean(run: Rounds, delta: float) -> None:
    """The mean lies strictly between its bounds: no interval has width zero."""
    seen = run.at(delta)

    assert seen.lower is not None
    assert seen.upper is not None
    assert seen.lower < seen.mean < seen.upper


@given(rounds(), DELTA)
def test_more_thresholds_never_turn_anything_into_a_fail(run: Rounds, delta: float) -> None:
    """A gate of more thresholds asks for more before it says FAIL, and its PASS bound is the same."""
    alone = dataclasses.replace(run, plan=Plan(run.plan.looks)).at(delta)
    among_many = dataclasses.replace(run, plan=Plan(run.plan.looks, family=8)).at(delta)

    assert among_many.decision != "FAIL" or alone.decision == "FAIL"
    assert alone.lower == among_many.lower


@given(noise=NOISE, mean=RATIO, offsets=st.tuples(OFFSET, OFFSET), factor=st.floats(1, 20))
def test_adding_scatter_never_narrows_the_interval(
    noise: Noise, mean: float, *, offsets: tuple[float, float], factor: float
) -> None:
    """Rounds that scatter more about the same mean, without a drift, have an interval at least as wide."""
    first, second = offsets
    pattern = (first, second, -first, -second)
    plan = Plan(looks(6, noise))

    calm, wild = (
        look([mean + scale * offset for offset in pattern], delta=0.05, noise=noise, plan=plan)
        for scale in (1.0, factor)
    )

    assert wild.lower is not None
    assert calm.lower is not None
    assert wild.lower <= calm.lower + 1e-9
    assert (wild.upper or 0) >= (calm.upper or 0) - 1e-9
