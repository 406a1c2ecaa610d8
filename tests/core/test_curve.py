"""The curve verdict: signs by load level, judged together, and what they say of a claim."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_specgate.core.curve import Curve, CurvePoint, curve
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise
from pytest_specgate.core.plan import Plan
from pytest_specgate.core.statistics import Interval, interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specgate.core.curve import Sign
    from pytest_specgate.core.levels import Level

NOISE = Noise(0.01, 10.0)
SIGNS = st.sampled_from(["better", "worse", "not shown"])
LEVELS: tuple[Level, ...] = (1, 8, 32)


def _curve(signs: Mapping[Level, Sign], *, last: Level = 8, refuted: tuple[Level, ...] = ()) -> Curve:
    """Return a curve with these signs, in the order given."""
    points = [CurvePoint(at, None, sign, refuted=at in refuted) for at, sign in signs.items()]
    return Curve(tuple(points), last)


def _judged(means: Mapping[Level, float], *, last: Level = 8, plan: Plan | None = None, noise: Noise = NOISE) -> Curve:
    """Judge levels whose two rounds lie 1 % apart about a mean."""
    return curve(
        {at: [mean - 0.005, mean + 0.005] for at, mean in means.items()},
        last=last,
        noise=dict.fromkeys(means, noise),
        plan=plan or Plan((2, 4, 6)),
        candidate_first=[False, True],
    )


@pytest.mark.parametrize(
    ("signs", "words"),
    [
        (("better", "better", "worse"), "better up to c=8, worse at c=32"),
        (("better", "better", "not shown"), "better up to c=8, not shown worse at c=32"),
        (("better", "not shown", "worse"), "better up to c=1, not shown better at c=8, worse at c=32"),
        (("better", "worse", "worse"), "better up to c=1, worse at c=8, worse at c=32"),
        (("better", "better", "better"), "better up to c=32"),
        (("not shown", "better", "worse"), "better at c=8, not shown better at c=1, worse at c=32"),
        (("better", "worse", "better"), "better at c=1, better at c=32, worse at c=8"),
        (("worse", "worse", "worse"), "worse at c=1, worse at c=8, worse at c=32"),
        (
            ("not shown", "not shown", "not shown"),
            "not shown better at c=1, not shown better at c=8, not shown worse at c=32",
        ),
    ],
)
def test_words_of_a_curve(signs: tuple[Sign, ...], words: str) -> None:
    """A curve says up to where it is better, and of every other level what is shown, or what was to be shown."""
    assert _curve(dict(zip(LEVELS, signs, strict=True))).words == words


def test_words_of_arrival_rates() -> None:
    """Arrival rates come after concurrencies, and are named as they are declared."""
    found = _curve({1: "better", "2/s": "better", "10/s": "not shown"}, last="2/s")

    assert found.words == "better up to 2/s, not shown worse at 10/s"


@given(st.tuples(SIGNS, SIGNS, SIGNS), st.sampled_from(LEVELS))
def test_every_level_is_named_once(signs: tuple[Sign, ...], last: Level) -> None:
    """Levels that are not better are named one by one; better ones one by one, or by the last of an unbroken start."""
    shown = dict(zip(LEVELS, signs, strict=True))

    found = _curve(shown, last=last)

    named = [text.rpartition(" ")[2] for text in found.words.split(", ")]
    count = signs.count("better")
    unbroken = count > 0 and all(sign == "better" for sign in signs[:count])
    assert ("up to" in found.words) == unbroken
    start = [f"c={LEVELS[count - 1]}"] if unbroken else [f"c={at}" for at in LEVELS if shown[at] == "better"]
    assert named == start + [f"c={at}" for at in LEVELS if shown[at] != "better"]


@given(st.tuples(SIGNS, SIGNS, SIGNS), st.sampled_from(LEVELS))
def test_what_supports_the_claim(signs: tuple[Sign, ...], last: Level) -> None:
    """The claim holds when every level up to the last is better and every one beyond is worse, and only then."""
    found = _curve(dict(zip(LEVELS, signs, strict=True)), last=last)

    claimed = tuple("better" if LEVELS.index(at) <= LEVELS.index(last) else "worse" for at in LEVELS)
    assert found.supported == (signs == claimed)


@pytest.mark.parametrize(("refuted", "expected"), [((), False), ((1,), True), ((32,), True), ((1, 8, 32), True)])
def test_one_refuted_level_refutes_a_curve(refuted: tuple[Level, ...], *, expected: bool) -> None:
    """A single level that is shown to be the opposite of its claim is enough."""
    signs: dict[Level, Sign] = {1: "better", 8: "better", 32: "not shown"}

    assert _curve(signs, refuted=refuted).refuted == expected


def test_levels_are_judged_in_rising_order() -> None:
    """Points come out by rising load, whatever the order of the measurements; concurrencies before rates."""
    found = _judged({"4/s": 0.1, 32: -0.1, 1: 0.1, 8: 0.1}, last="4/s")

    assert [point.at for point in found.points] == [1, 8, 32, "4/s"]
    assert found.last == "4/s"


def test_case_101_a_speed_up_at_concurrency_1_only() -> None:
    """Case 101: 2.1 times as fast at c=1 and 0.77 times at c=8 is better up to c=1, and no mean says otherwise."""
    means: dict[Level, float] = {1: math.log(2.1), 8: math.log(0.77)}

    honest, boasting = _judged(means, last=1), _judged(means, last=8)

    assert honest.words == boasting.words == "better up to c=1, worse at c=8"
    assert (honest.supported, honest.refuted) == (True, False)
    assert (boasting.supported, boasting.refuted) == (False, True)


@pytest.mark.parametrize("looks", [(2,), (2, 4, 6)])
@pytest.mark.parametrize("levels", [1, 3])
def test_intervals_share_the_level_by_looks_and_levels(looks: tuple[int, ...], levels: int) -> None:
    """Each of P levels at each of K looks has the two-sided interval at 0.05 / (2 K P)."""
    means: dict[Level, float] = dict.fromkeys(LEVELS[:levels], 0.01)

    found = _judged(means, plan=Plan(looks, family=7))

    half = float(stats.t.isf(0.05 / (2 * len(looks) * levels), 11)) * math.sqrt((0.5e-4 + 10e-4) / 11 / 2)
    shown = [point.shown for point in found.points]
    assert all(one is not None for one in shown)
    assert [one.high - 0.01 for one in shown if one is not None] == pytest.approx([half] * levels)
    assert [0.01 - one.low for one in shown if one is not None] == pytest.approx([half] * levels)


def _half(tail: float) -> float:
    found = interval([-0.005, 0.005], noise=NOISE, tail=tail, candidate_first=[False, True])
    assert found is not None
    return found.high


@pytest.mark.parametrize(
    ("share", "sign", "word"),
    [(1.001, 1, "better"), (0.999, 1, "not shown"), (0.999, -1, "not shown"), (1.001, -1, "worse")],
)
def test_a_sign_is_shown_from_the_end_of_its_interval_on(share: float, sign: int, *, word: Sign) -> None:
    """A level is better or worse when its interval lies on one side of zero."""
    mean = sign * share * _half(0.05 / (2 * 3 * 2))

    found = _judged({1: mean, 8: 0.0})

    assert [point.sign for point in found.points] == [word, "not shown"]


@pytest.mark.parametrize(("share", "refuted"), [(1.001, True), (0.999, False)])
@pytest.mark.parametrize(("last", "sign"), [(8, -1), (1, 1)])
def test_a_refutation_has_the_level_of_fail(share: float, last: Level, *, sign: int, refuted: bool) -> None:
    """A level that is worse where "better" is claimed, or better beyond, refutes at a level shared by the family."""
    mean = sign * share * _half(0.05 / (2 * 3 * 2 * 5))
    plan = Plan((2, 4, 6), family=5)

    found = _judged({1: 0.5, 8: mean}, last=last, plan=plan)

    assert [point.refuted for point in found.points] == [False, refuted]
    assert found.refuted == refuted


@pytest.mark.parametrize(("last", "mean"), [(1, -0.5), (8, 0.5)])
def test_what_is_claimed_is_not_refuted(last: Level, mean: float) -> None:
    """A level that is clearly what was claimed of it supports the claim."""
    found = _judged({1: 0.5, 8: mean}, last=last)

    assert (found.supported, found.refuted) == (True, False)


def test_every_level_has_its_own_noise() -> None:
    """What is known of the noise of one level says nothing of another."""
    ratios = [0.02, 0.02]

    found = curve(
        {1: ratios, 8: ratios},
        last=8,
        noise={1: Noise(0.001, 10.0), 8: Noise(0.1, 10.0)},
        plan=Plan((2, 4, 6)),
        candidate_first=[False, True],
    )

    assert [point.sign for point in found.points] == ["better", "not shown"]


def test_one_round_of_unknown_noise_shows_nothing() -> None:
    """A level without any variance has no interval, shows no sign and refutes nothing."""
    found = curve(
        {1: [5.0], 8: [-5.0]},
        last=8,
        noise={1: NOISE, 8: UNKNOWN_NOISE},
        plan=Plan((1,)),
        candidate_first=[False],
    )

    assert found.points[1] == CurvePoint(8, None, "not shown")
    assert found.words == "better up to c=1, not shown better at c=8"
    assert not found.supported
    assert not found.refuted


def test_a_drift_of_the_machine_is_left_out_at_every_level() -> None:
    """The order of boots is known to every level: a drift that it cancels does not hide a difference."""
    drifting = [0.0148, -0.0052, 0.015, -0.0047]

    told, untold = (
        curve({8: drifting}, last=8, noise={8: UNKNOWN_NOISE}, plan=Plan((4, 6)), candidate_first=order)
        for order in ([False, True] * 2, [False, False, True, True])
    )

    assert (told.words, untold.words) == ("better up to c=8", "not shown better at c=8")
    assert isinstance(told.points[0].shown, Interval)
