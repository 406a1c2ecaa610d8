"""Which k to run: only horizons that met are compared, and who is beaten by nobody is left."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.acceptance import Estimate
from pytest_specgate.core.advice import Advice, HorizonFigures, advice, horizon_words
from pytest_specgate.core.horizon import Crossing, Horizon
from pytest_specgate.core.noise import declared_noise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.noise import Noise

THROUGHPUT, RATE, TTFT = "output_throughput", "decode_rate_p50", "ttft_p50"


def figures(
    k: int, values: Mapping[str, Sequence[float]], *, window: str = "one", at: Level = 1, place: int = 0
) -> HorizonFigures:
    """Return what one horizon reached, boot by boot; the order of the boots turns round every round."""
    count = max(map(len, values.values()), default=0)
    rounds = tuple(range(1, count + 1))
    places = tuple((place + number) % 2 for number in range(count))
    return HorizonFigures(
        window, f"k{k}", k, at, rounds, places, {name: tuple(found) for name, found in values.items()}
    )


def floors(fraction: float, *names: str, windows: Sequence[str] = ("one",)) -> dict[tuple[str, str], Noise]:
    """Return one declared floor for some metrics of some windows."""
    return {(window, name): declared_noise(fraction) for window in windows for name in names}


def told(found: Sequence[Advice], objective: str) -> Advice:
    """Return the advice for one objective."""
    return next(one for one in found if one.objective == objective)


def test_the_published_windows_leave_off_or_k3() -> None:
    """k=4 beat k=7 and lost to off and to k=3, and these two never met: no window tells them apart."""
    at: Level = 32
    pairs = {"7 and 4": {7: 273.84, 4: 350.96}, "off and 4": {0: 1.0, 4: 0.9917}, "4 and 3": {4: 1.0, 3: 1.047}}
    listed = [
        figures(k, {THROUGHPUT: [value]}, window=window, at=at, place=place)
        for window, values in pairs.items()
        for place, (k, value) in enumerate(values.items())
    ]
    one = told(advice(listed, noise=floors(0.004, THROUGHPUT, windows=[*pairs]), predicted={}), "batch throughput")

    assert (one.words, one.ks, one.best, one.at, one.basis) == ("off or k=3", (0, 3), None, 32, "measured")
    assert one.strangers == ((0, 3),)
    assert [(duel.first, duel.second, duel.is_decided) for duel in one.duels] == [
        (4, 7, True),
        (0, 4, True),
        (3, 4, True),
    ]
    assert one.duels[0].change == pytest.approx(350.96 / 273.84 - 1)


def test_a_difference_within_the_noise_beats_nobody() -> None:
    """Both are left, and the better mean is named."""
    listed = [figures(2, {THROUGHPUT: [100.0, 101.0]}), figures(4, {THROUGHPUT: [102.0, 101.5]}, place=1)]
    one = told(advice(listed, noise=floors(0.08, THROUGHPUT), predicted={}), "batch throughput")

    assert (one.ks, one.best, one.words) == ((2, 4), 4, "k=2 to 4")
    assert not one.duels[0].is_decided


def test_one_round_without_any_noise_decides_nothing() -> None:
    """However large the difference is."""
    one = told(
        advice([figures(0, {RATE: [10.0]}), figures(4, {RATE: [90.0]}, place=1)], noise={}, predicted={}),
        "per-user speed",
    )

    assert (one.ks, one.best, one.duels[0].gain) == ((0, 4), 4, None)


def test_of_latency_less_is_better() -> None:
    """The horizon with the shorter time is first, and its gain is positive though the metric falls."""
    listed = [figures(0, {TTFT: [0.10, 0.10]}, at=8), figures(4, {TTFT: [0.05, 0.05]}, at=8, place=1)]
    one = told(advice(listed, noise=floors(0.05, TTFT), predicted={}), "latency")
    (duel,) = one.duels

    assert (one.words, duel.first, duel.second) == ("k=4", 4, 0)
    assert duel.change == pytest.approx(-0.5)
    assert duel.gain is not None
    assert duel.gain.mean == pytest.approx(math.log(2))


def test_each_objective_looks_at_its_load() -> None:
    """One user at the lowest load, a batch and latency at the highest; of temperatures the coldest is taken."""
    levels: tuple[Level, ...] = ("32 T=0.8", 32, 8, "1 T=0.8", 1)
    listed = [
        figures(k, {RATE: [value] * 2, THROUGHPUT: [value] * 2}, at=at, place=place)
        for at in levels
        for place, (k, value) in enumerate(((0, 1.0), (4, 2.0)))
    ]
    found = advice(listed, noise=floors(0.05, RATE, THROUGHPUT), predicted={})

    assert (told(found, "per-user speed").at, told(found, "batch throughput").at) == (1, 32)
    assert (told(found, "latency").at, told(found, "latency").basis) == (None, "nothing")


def test_windows_that_contradict_each_other_beat_nobody() -> None:
    """Each of them is decided, and both horizons are left without a best one."""
    listed = [
        figures(k, {RATE: [value] * 2}, window=window, place=place)
        for window, values in (("one", {2: 10.0, 4: 20.0}), ("two", {2: 20.0, 4: 10.0}))
        for place, (k, value) in enumerate(values.items())
    ]
    one = told(advice(listed, noise=floors(0.05, RATE, windows=["one", "two"]), predicted={}), "per-user speed")

    assert [duel.is_decided for duel in one.duels] == [True, True]
    assert (one.ks, one.best) == ((2, 4), None)


def test_only_horizons_of_one_window_and_of_common_rounds_meet() -> None:
    """Another window, other rounds, and another arm of the same horizon are no duel."""
    apart = [
        figures(0, {RATE: [1.0]}),
        figures(4, {RATE: [2.0]}, window="two"),
        dataclasses.replace(figures(7, {RATE: [2.0]}), rounds=(2,)),
        figures(0, {RATE: [1.5]}),
    ]
    one = told(advice(apart, noise={}, predicted={}), "per-user speed")

    assert (one.duels, one.ks, one.basis, one.words) == ((), (), "nothing", "nothing tells")


def horizon(k: int, speed: float | None, *, high: float | None = None) -> Horizon:
    """Return a predicted horizon."""
    found = None if speed is None else Estimate(speed, None if high is None else speed / 2, high)
    return Horizon(k, Estimate(1.0), "from the curve", None, None, found)


def test_what_nobody_measured_may_be_promising() -> None:
    """Where its speed may exceed that of all that are left: by its interval, or by itself where it has none."""
    listed = [figures(0, {RATE: [10.0] * 2}), figures(4, {RATE: [20.0] * 2}, place=1)]
    rows = [horizon(0, 10.0), horizon(1, 12.0, high=19.0), horizon(2, 15.0, high=21.0), horizon(3, 21.0),
            horizon(4, 20.0, high=30.0), horizon(5, None)]  # fmt: skip
    predicted: dict[tuple[str, Level], list[Horizon]] = {("one", 1): rows}
    one = told(advice(listed, noise=floors(0.05, RATE), predicted=predicted), "per-user speed")

    assert one.ks == (4,)
    assert [row.k for row in one.promising] == [2, 3]


def test_nothing_is_promising_beside_no_known_speed() -> None:
    """Step times of what is left are not known, so nobody can say that more is faster."""
    listed = [figures(0, {RATE: [10.0] * 2}), figures(4, {RATE: [20.0] * 2}, place=1)]
    predicted: dict[tuple[str, Level], list[Horizon]] = {("one", 1): [horizon(2, 50.0), horizon(4, None)]}

    assert told(advice(listed, noise=floors(0.05, RATE), predicted=predicted), "per-user speed").promising == ()


def test_curves_alone_tell_of_one_user_only() -> None:
    """The two published crossings, after position 3 and after position 4, are k=3 to 4, and no number for a load."""
    crossings = [Crossing(0.2, 4, 4, 4, 7), Crossing(0.2, 3, 3, 3, 4)]
    found = advice([], noise={}, crossings=crossings, predicted={})

    assert [(one.words, one.basis, one.best) for one in found] == [
        ("k=3 to 4", "cut", None), ("nothing tells", "nothing", None), ("nothing tells", "nothing", None),
    ]  # fmt: skip
    assert told(advice([], noise={}, crossings=crossings[:1], predicted={}), "per-user speed").best == 4


def test_horizons_in_few_words() -> None:
    """Neighbours among those that were looked at are a range, off has its word, and nothing is nothing."""
    assert horizon_words((3, 4)) == "k=3 to 4"
    assert horizon_words((0, 3)) == "off or k=3"
    assert horizon_words((2, 7), candidates=(0, 2, 4, 7)) == "k=2 or 7"
    assert horizon_words((2, 4, 7), candidates=(0, 2, 4, 7)) == "k=2 to 7"
    assert horizon_words((0,)) == "off"
    assert horizon_words(()) == "nothing tells"


@given(
    st.lists(
        st.dictionaries(st.sampled_from([0, 1, 2, 4, 7]), st.floats(1.0, 1000.0), min_size=2, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_nobody_that_was_beaten_is_advised(windows: list[dict[int, float]]) -> None:
    """Whoever lost a decided duel is out, unless another window turned it round; all others that met are left."""
    listed = [
        figures(k, {RATE: [value, value]}, window=f"{number}", place=place)
        for number, values in enumerate(windows)
        for place, (k, value) in enumerate(values.items())
    ]
    names = [f"{number}" for number in range(len(windows))]
    one = told(advice(listed, noise=floors(0.05, RATE, windows=names), predicted={}), "per-user speed")
    won = {(duel.first, duel.second) for duel in one.duels if duel.is_decided}
    beaten = {second for first, second in won if (second, first) not in won}

    assert set(one.ks) == set(one.candidates) - beaten
    assert one.best in {None, *one.ks}
