"""The planner against its published tables, and what it says after a run that decided nothing."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from pytest_specgate.core import planning
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise, declared_noise
from pytest_specgate.core.plan import Claim, Plan, looks
from pytest_specgate.core.statistics import Look, log_margin, look

NEEDS = """
0 | 3 | - - 2.37 - - -
0 | 4 | - - - 1.77 - -
0 | 6 | - - - 2.19 1.47 -
0 | 8 | - - - 2.47 1.61 1.30
3 | 1 | 3.19 - - - - -
3 | 2 | - 2.77 - - - -
3 | 3 | - 3.23 2.17 - - -
3 | 4 | - 3.23 - 1.82 - -
3 | 6 | - 3.52 - 1.97 1.47 -
3 | 8 | - 3.74 - 2.08 1.55 1.30
5 | 1 | 2.86 - - - - -
5 | 2 | - 2.64 - - - -
5 | 3 | - 3.00 2.05 - - -
5 | 4 | - 3.00 - 1.75 - -
5 | 6 | - 3.21 - 1.88 1.43 -
5 | 8 | - 3.37 - 1.97 1.50 1.27
10 | 1 | 2.65 - - - - -
10 | 2 | - 2.54 - - - -
10 | 3 | - 2.82 1.95 - - -
10 | 4 | - 2.82 - 1.68 - -
10 | 6 | - 2.99 - 1.79 1.38 -
10 | 8 | - 3.10 - 1.86 1.44 1.24
20 | 1 | 2.57 - - - - -
20 | 2 | - 2.48 - - - -
20 | 3 | - 2.74 1.89 - - -
20 | 4 | - 2.74 - 1.63 - -
20 | 6 | - 2.88 - 1.73 1.34 -
20 | 8 | - 2.97 - 1.79 1.40 1.21
"""
NEED_ROUNDS = (1, 2, 3, 4, 6, 8)
NEED_ROWS = [
    pytest.param(float(df), int(n_max), rounds, figure, id=f"df {df.strip()}, {rounds} of {n_max.strip()}")
    for df, n_max, figures in (line.split("|") for line in NEEDS.strip().splitlines())
    for rounds, figure in zip(NEED_ROUNDS, figures.split(), strict=True)
    if figure != "-"
]

DETECTABLE = """
0 | 6 | 1.47 1.72 1.98 2.27 2.60
0 | 8 | 1.30 1.47 1.65 1.84 2.05
5 | 6 | 1.43 1.60 1.76 1.93 2.11
5 | 8 | 1.27 1.41 1.54 1.67 1.81
10 | 6 | 1.38 1.52 1.66 1.80 1.94
10 | 8 | 1.24 1.36 1.47 1.58 1.70
20 | 6 | 1.34 1.47 1.59 1.71 1.83
20 | 8 | 1.21 1.31 1.42 1.52 1.61
"""

ROUNDS = """
0 | 0.2 | 6 4 4 4 4
0 | 0.4 | - 4 4 4 4
0 | 1 | - - 6 4 4
0 | 2 | - - - 4 4
0 | 5 | - - - - 6
5 | 0.2 | 4 2 2 2 2
5 | 0.4 | - 4 2 2 2
5 | 1 | - - 4 2 2
5 | 2 | - - - 4 2
5 | 5 | - - - - 4
10 | 0.2 | 4 2 2 2 2
10 | 0.4 | - 4 2 2 2
10 | 1 | - - 4 2 2
10 | 2 | - - - 4 2
10 | 5 | - - - - 4
"""
MARGINS = (0.004, 0.01, 0.02, 0.05, 0.10)

NOISE = st.builds(Noise, sigma=st.floats(0.001, 0.1), df=st.one_of(st.just(0.0), st.floats(3.0, 30.0)))


@pytest.mark.parametrize(("df", "n_max", "rounds", "figure"), NEED_ROWS)
def test_distance_decided_by_a_look(df: float, n_max: int, *, rounds: int, figure: str) -> None:
    """The distance decided with 80 % power equals the published one of every look, in sigma and all its digits."""
    plan = Plan(looks(n_max, Noise(1.0, df)))

    found = planning.need(rounds, plan=plan, df=df, tail=plan.pass_tail)

    assert f"{found:.2f}" == figure


@pytest.mark.parametrize("line", DETECTABLE.strip().splitlines())
def test_minimum_detectable_effect(line: str) -> None:
    """The excess over the margin that FAILs with 80 % power equals the published one for 1 to 16 thresholds."""
    df, n_max, figures = line.split("|")
    noise = Noise(0.01, float(df))

    found = [planning.detectable(0.25, noise=noise, n_max=int(n_max), family=m) for m in (1, 2, 4, 8, 16)]

    assert [f"{((one or 0) - 0.25) / 0.01:.2f}" for one in found] == figures.split()
    assert planning.detectable(0.25, noise=noise, n_max=int(n_max)) == found[0]


@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("line", ROUNDS.strip().splitlines())
def test_rounds_asked_for(line: str, *, higher: bool) -> None:
    """The rounds asked for equal arms equal the published ones for every margin, whichever direction is better."""
    df, sigma, expected = (cell.strip() for cell in line.split("|"))
    noise = Noise(float(sigma) / 100, float(df))

    found = [
        planning.rounds_for(log_margin(margin, higher_is_better=higher), noise=noise, n_max=6) for margin in MARGINS
    ]

    assert ["-" if one is None else str(one) for one in found] == expected.split()


@pytest.mark.parametrize("df", [0.0, 4.0])
@pytest.mark.parametrize("rounds", [2, 3, 4, 5, 6, 12])
def test_the_formula_of_the_distance(rounds: int, df: float) -> None:
    """Quantile of the bound, quantile of the power and a price that falls with the rounds, over their root."""
    price = {2: 0.95, 3: 0.35, 4: 0.35}.get(rounds, 0.20)

    found = planning.need(rounds, plan=Plan((12,)), df=df, tail=0.01, power=0.9)

    wanted = (stats.t.isf(0.01, df + rounds - 1) + stats.norm.isf(0.1) + price) / math.sqrt(rounds)
    assert found == pytest.approx(float(wanted))


def test_a_single_look_at_one_round_has_no_price() -> None:
    """One round has no scatter that an F test could reject."""
    found = planning.need(1, plan=Plan((1,)), df=5.0, tail=0.05)

    assert found == pytest.approx(2.0150484 + 0.8416212, abs=1e-6)


@pytest.mark.parametrize("rounds", [0, 1])
def test_one_round_of_unknown_noise_decides_nothing(rounds: int) -> None:
    """A look without any degree of freedom is refused, and not given an infinite distance."""
    with pytest.raises(ValueError, match=r"^one round without a noise estimate decides nothing$"):
        planning.need(rounds, plan=Plan((1,)), df=0.0, tail=0.05)


@pytest.mark.parametrize(("family", "power"), [(1, 0.8), (2, 0.9), (4, 0.95), (8, 0.975)])
def test_power_that_each_of_several_thresholds_needs(family: int, power: float) -> None:
    """The chance that a claim is left open is shared by all claims of a gate."""
    assert planning.power_of(family) == pytest.approx(power)


def test_more_thresholds_ask_for_more_rounds() -> None:
    """A claim that two rounds decide alone needs four among eight, and its smallest margin grows."""
    noise = Noise(0.01, 10.0)

    alone, among = (planning.rounds_for(0.03, noise=noise, n_max=6, family=m) for m in (1, 8))
    margins = [planning.smallest_margin(noise=noise, n_max=6, family=m) for m in (1, 8)]

    assert (alone, among) == (2, 4)
    # df 15, K = 3: (2.34292 + 0.84162 + 0.2) and (2.34292 + 1.95996 + 0.2), over the root of 6.
    assert margins == [pytest.approx(0.01381735, abs=1e-8), pytest.approx(0.01838297, abs=1e-8)]


@pytest.mark.parametrize(("effect", "rounds"), [(0.02, 2), (0.0, 4), (-0.002, 6), (-0.01, None)])
def test_an_expected_effect_adds_to_the_margin(effect: float, rounds: int | None) -> None:
    """A candidate that is expected to be better is decided sooner, one expected to be worse later or never."""
    found = planning.rounds_for(0.0185, noise=Noise(0.01, 10.0), n_max=6, effect=effect)

    assert found == rounds


def test_a_distance_that_is_just_enough() -> None:
    """A margin that equals the distance of a look is decided by it, one a hair smaller is not."""
    noise = Noise(0.01, 10.0)
    wanted = planning.need(2, plan=Plan((2,)), df=10.0, tail=0.05) * 0.01

    found = [planning.rounds_for(wanted * share, noise=noise, n_max=2) for share in (1.0, 1 - 1e-9)]

    assert found == [2, None]


@pytest.mark.parametrize("n_max", [1, 2])
def test_where_no_look_exists_nothing_is_promised(n_max: int) -> None:
    """Fewer than three rounds of unknown noise have no rounds, no smallest margin and no detectable effect."""
    assert planning.rounds_for(1.0, noise=UNKNOWN_NOISE, n_max=n_max) is None
    assert planning.smallest_margin(noise=UNKNOWN_NOISE, n_max=n_max) is None
    assert planning.detectable(1.0, noise=UNKNOWN_NOISE, n_max=n_max) is None


@pytest.mark.parametrize(("n_max", "printed"), [(3, "20"), (6, "12")])
def test_case_97_smallest_usable_margin(n_max: int, printed: str) -> None:
    """Case 97: three A/A rounds that scatter by 9 % can decide 20 %, and six such rounds 12 %."""
    reference, candidate = (10.0, 10.6, 9.7), (10.9, 10.1, 10.5)
    ratios = [-math.log(c / r) for r, c in zip(reference, candidate, strict=True)]
    seen = look(ratios, delta=0.03, noise=UNKNOWN_NOISE, plan=Plan((3,)))
    assert seen.sd is not None

    found = planning.smallest_margin(noise=Noise(seen.sd, 0.0), n_max=n_max)

    assert found is not None
    assert f"{100 * math.expm1(found):.0f}" == printed


@given(NOISE, st.sampled_from([3, 4, 6, 8]), st.integers(1, 8))
def test_the_smallest_margin_is_where_the_last_look_decides(noise: Noise, n_max: int, family: int) -> None:
    """The smallest margin is decided by the last look, a slightly smaller one by none."""
    margin = planning.smallest_margin(noise=noise, n_max=n_max, family=family)
    assert margin is not None

    found = [
        planning.rounds_for(margin * share, noise=noise, n_max=n_max, family=family) for share in (1 + 1e-9, 1 - 1e-9)
    ]

    assert found == [n_max, None]


@pytest.mark.parametrize(("df", "factor"), [(5.0, "1.46"), (10.0, "1.27"), (20.0, "1.17")])
def test_pessimistic_noise(df: float, factor: str) -> None:
    """The noise exceeded in one of five calibrations is larger by the published factors."""
    found = planning.pessimistic(Noise(0.01, df))

    assert f"{found.sigma / 0.01:.2f}" == factor
    assert found.df == df


def test_pessimism_needs_a_figure() -> None:
    """Noise of which nothing is known cannot be made larger."""
    assert planning.pessimistic(UNKNOWN_NOISE) == UNKNOWN_NOISE


def _rounds_after(look: Look, *, delta: float, n: int, noise: Noise, family: int) -> int | None:
    """Search the published inequality, one even number of rounds after the other."""
    assert look.sd is not None
    for total in range(2, 22, 2):
        count = len(range(2 if noise.df >= 3 else 4, total + 1, 2))
        if total <= n or count == 0:
            continue
        tail = 0.05 / count / (1 if look.mean + delta >= 0 else family)
        price = {2: 0.95, 4: 0.35}.get(total, 0.2)
        wanted = float(stats.t.isf(tail, look.df + total - n) + stats.norm.ppf(0.8)) + price
        if abs(look.mean + delta) >= wanted * look.sd / math.sqrt(total):
            return total
    return None


@given(
    ratios=st.lists(st.floats(-0.05, 0.05), min_size=2, max_size=8),
    noise=NOISE,
    delta=st.floats(-0.02, 0.05),
    family=st.sampled_from([1, 4]),
)
def test_rounds_that_an_open_claim_needs(ratios: list[float], noise: Noise, *, delta: float, family: int) -> None:
    """A new run needs the smallest even number of rounds that the published inequality allows, 20 at most."""
    n = len(ratios)
    seen = look(ratios, delta=delta, noise=noise, plan=Plan((n,), family))

    found = planning.rounds_after(seen, claim=Claim(delta), rounds=n, noise=noise, family=family)

    assert found == _rounds_after(seen, delta=delta, n=n, noise=noise, family=family)


@pytest.mark.parametrize(
    ("distance", "total", "in_a_family"),
    [
        (0.02, 4, 6),
        (0.017, 4, 8),
        (0.014, 6, 12),
        (0.012, 10, 16),
        (0.01, 14, None),
        (0.0086, 20, None),
        (0.0084, None, None),
    ],
)
def test_rounds_after_two_rounds(distance: float, total: int | None, *, in_a_family: int | None) -> None:
    """The closer to the margin, the more rounds, 20 at most; among eight claims a loss needs more, a PASS does not."""
    good, bad = (Look("INCONCLUSIVE", "", mean=sign * distance - 0.02, sd=0.01, df=11.0) for sign in (1, -1))
    cases = ((good, 1), (good, 8), (bad, 1), (bad, 8))

    found = [
        planning.rounds_after(seen, claim=Claim(0.02), rounds=2, noise=Noise(0.01, 10.0), family=family)
        for seen, family in cases
    ]

    assert found == [total, total, total, in_a_family]


def test_an_odd_number_of_rounds_goes_on_to_an_even_one() -> None:
    """After three rounds four are the next number that can be asked for."""
    seen = Look("INCONCLUSIVE", "", mean=0.1, sd=0.01, df=2.0)

    assert planning.rounds_after(seen, claim=Claim(0.0), rounds=3, noise=UNKNOWN_NOISE) == 4


def test_a_claim_is_alone_unless_a_family_is_named() -> None:
    """Without a family the rounds are those of a single claim."""
    seen, noise = Look("INCONCLUSIVE", "", mean=-0.034, sd=0.01, df=11.0), Noise(0.01, 10.0)

    found = [
        planning.rounds_after(seen, claim=Claim(0.02), rounds=2, noise=noise, **one) for one in ({}, {"family": 2})
    ]

    assert found == [6, 8]


@pytest.mark.parametrize(("rounds", "total"), [(1, 4), (2, 4), (3, 6), (4, 6)])
def test_rounds_after_none_was_judged(rounds: int, total: int) -> None:
    """Where nothing at all is known of the noise, the next even number of rounds from four on would tell."""
    seen = Look("INCONCLUSIVE", "noise unknown", mean=-0.01)

    assert planning.rounds_after(seen, claim=Claim(0.05), rounds=rounds, noise=UNKNOWN_NOISE) == total


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
def test_break_even_floor(x: float, margin: float, *, printed: str) -> None:
    """The largest floor under which one round decides equals the published one, in percent and all its digits."""
    floor = planning.break_even_floor(x, delta=log_margin(margin, higher_is_better=True))

    decimals = len(printed.partition(".")[2])
    assert f"{100 * floor:.{decimals}f}" == printed


@given(st.floats(-0.2, 0.2), st.floats(0.0, 0.1))
def test_the_break_even_floor_is_where_one_round_stops_deciding(x: float, delta: float) -> None:
    """A slightly smaller floor decides the round, a slightly larger one leaves it open."""
    # Closer to the margin the least standard deviation that is believed leaves every round open.
    assume(abs(x + delta) > 0.0011)
    floor = planning.break_even_floor(x, delta=delta)

    small, large = (
        look([x], delta=delta, noise=declared_noise(floor * share), plan=Plan((1,))).decision
        for share in (0.999, 1.001)
    )

    assert (small, large) == ("PASS" if x + delta > 0 else "FAIL", "INCONCLUSIVE")


def test_an_equivalence_needs_the_nearer_of_its_ends() -> None:
    """A change that lies near one end of an equivalence is far from decided, however far the other end is."""
    noise = Noise(0.01, 5.0)
    seen = look([0.043, 0.045], delta=0.05, gain=0.05, noise=noise, plan=Plan((2, 4, 6)))

    assert seen.decision in {"CONTINUE", "INCONCLUSIVE"}
    assert planning.rounds_after(seen, claim=Claim(0.05), rounds=2, noise=noise) == 4
    assert planning.rounds_after(seen, claim=Claim(0.05, 0.05), rounds=2, noise=noise) is None


@pytest.mark.parametrize(("df", "rounds"), [(0.0, 4), (1.0, 4), (10.0, 2)])
def test_rounds_before_the_first_look(df: float, rounds: int) -> None:
    """Where nothing was judged yet, the next look is named; a calibration of few boots is as good as none."""
    noise = Noise(0.01, df)
    seen = look([0.0], delta=0.05, noise=noise, plan=Plan((2, 4, 6)))

    assert planning.rounds_after(seen, claim=Claim(0.05), rounds=1, noise=noise) == rounds
