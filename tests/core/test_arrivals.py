"""When the requests of an open loop arrive: the same on every machine, and always at the rate that was asked for."""

from __future__ import annotations

import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.arrivals import arrival_times_s

RATES = st.floats(0.001, 10_000)
COUNTS = st.integers(2, 200)
BURSTINESS = st.floats(1e-9, 1000)
SEEDS = st.integers(0, 2**32)


@given(rate=RATES, count=COUNTS, burstiness=BURSTINESS, seed=SEEDS)
def test_arrivals_press_equally_hard(rate: float, count: int, burstiness: float, seed: int) -> None:
    """The first comes at 0, the last at (n - 1) / rate, whatever was drawn; the others in order between."""
    times = arrival_times_s(rate, count, burstiness=burstiness, seed=seed)

    assert len(times) == count
    assert times[0] == 0.0
    assert times[-1] == pytest.approx((count - 1) / rate, rel=1e-12)
    assert all(earlier <= later for earlier, later in itertools.pairwise(times))
    assert all(map(math.isfinite, times))


@given(rate=RATES, count=COUNTS, burstiness=BURSTINESS, seed=SEEDS)
def test_the_last_arrival_is_exact(rate: float, count: int, burstiness: float, seed: int) -> None:
    """The last request comes at (n - 1) / rate to the last bit: two draws of one rate end together."""
    assert arrival_times_s(rate, count, burstiness=burstiness, seed=seed)[-1] == (count - 1) / rate


@given(rate=RATES, count=COUNTS, burstiness=BURSTINESS, seed=SEEDS)
def test_arrivals_are_the_same_again(rate: float, count: int, burstiness: float, seed: int) -> None:
    """Both arms, and every machine, get the times of a seed."""
    once, again = (arrival_times_s(rate, count, burstiness=burstiness, seed=seed) for _ in range(2))

    assert once == again


def test_arrivals_of_a_seed_are_known() -> None:
    """The draw is fixed: these times were drawn once, and a change of them is a change of the load."""
    times = arrival_times_s(4.0, 6, burstiness=1.0, seed=7)

    assert times == pytest.approx((0.0, 0.2760687, 0.7459472, 0.9977105, 1.1195687, 1.25), abs=1e-6)


@given(count=st.integers(3, 100), seed=SEEDS)
def test_a_rate_scales_the_same_draw(count: int, seed: int) -> None:
    """Twice the rate is the same pattern in half the time."""
    slow, fast = (arrival_times_s(rate, count, burstiness=1.0, seed=seed) for rate in (2.0, 4.0))

    assert [time / 2 for time in slow] == pytest.approx(fast)


@pytest.mark.parametrize(("one", "other"), [((1, 20), (2, 20)), ((1, 20), (1, 21))], ids=["seed", "count"])
def test_other_seeds_and_counts_are_other_draws(one: tuple[int, int], other: tuple[int, int]) -> None:
    """A seed, and a number of requests, has a draw of its own: a longer point is no continuation of a shorter one."""
    gaps = []
    for seed, count in (one, other):
        times = arrival_times_s(1.0, count, burstiness=1.0, seed=seed)
        gaps.append([later - earlier for earlier, later in itertools.pairwise(times)])

    assert gaps[0][:5] != pytest.approx(gaps[1][:5])


def _variation(burstiness: float) -> float:
    """Return standard deviation / mean of the gaps of a long draw."""
    times = arrival_times_s(1.0, 20_000, burstiness=burstiness, seed=3)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    return statistics.stdev(gaps) / statistics.fmean(gaps)


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0, 100.0])
def test_burstiness_is_the_shape_of_the_gaps(burstiness: float) -> None:
    """Gaps vary by 1 / sqrt(shape): as in a Poisson process at 1, more below, less above."""
    assert _variation(burstiness) == pytest.approx(1 / math.sqrt(burstiness), rel=0.05)


def test_gaps_that_all_vanish_are_even() -> None:
    """A shape so small that every gap underflows is no excuse to send everything at once."""
    assert arrival_times_s(4.0, 5, burstiness=1e-9, seed=1) == (0.0, 0.25, 0.5, 0.75, 1.0)
