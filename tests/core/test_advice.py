"""Which k to run: only horizons that met are compared, and who is beaten by nobody is left."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.acceptance import Estimate
from pytest_specgate.core.advice import (
    Advice,
    Duel,
    HorizonFigures,
    advice,
    comparable,
    horizon_words,
    pinned,
    rulings,
)
from pytest_specgate.core.horizon import Crossing, Horizon, over_boots
from pytest_specgate.core.noise import declared_noise
from pytest_specgate.core.statistics import Interval

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

    assert (one.ks, one.best, one.words, one.rules_out) == ((2, 4), 4, "k=2 or 4", False)
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


def test_intervals_hold_for_all_comparisons_together() -> None:
    """The more horizons meet, the wider each interval is; every further look at them widens it again."""
    pair = [figures(0, {RATE: [10.0] * 2}), figures(4, {RATE: [11.0] * 2}, place=1)]
    noise = floors(0.05, RATE)

    def tail_and_width(listed: Sequence[HorizonFigures], looks: int = 1) -> tuple[float, float]:
        duel = told(advice(listed, noise=noise, predicted={}, looks=looks), "per-user speed").duels[0]
        assert duel.gain is not None
        return duel.tail, duel.gain.high - duel.gain.low

    alone, among = tail_and_width(pair), tail_and_width([*pair, figures(2, {RATE: [10.5] * 2})])
    twice = tail_and_width(pair, looks=2)

    assert [tail for tail, _ in (alone, among, twice)] == pytest.approx([0.025, 0.025 / 3, 0.0125])
    assert alone[1] < twice[1] < among[1]


def test_a_rate_is_no_higher_load_than_a_concurrency() -> None:
    """Beside concurrencies no rate is looked at; under rates alone throughput is what arrives."""
    levels: tuple[Level, ...] = ("4/s", 1, 8)
    listed = [
        figures(k, {RATE: [value] * 2, THROUGHPUT: [value] * 2, TTFT: [1 / value] * 2}, at=at, place=place)
        for at in levels
        for place, (k, value) in enumerate(((0, 1.0), (4, 2.0)))
    ]
    noise = floors(0.05, RATE, THROUGHPUT, TTFT)
    found = advice(listed, noise=noise, predicted={})
    rates = advice([one for one in listed if one.at == "4/s"], noise=noise, predicted={})

    assert [one.at for one in found] == [1, 8, 8]
    assert [(one.at, one.ks, one.of_rate) for one in rates] == [
        ("4/s", (4,), False),
        (None, (), True),
        ("4/s", (4,), False),
    ]


def test_the_coldest_level_is_that_of_the_profile() -> None:
    """Whatever temperature levels without one of their own are sent at, its ends tell."""
    levels: tuple[Level, ...] = (1, 32, "1 T=0", "32 T=0")
    listed = [
        figures(k, {RATE: [value] * 2}, at=at, place=place)
        for at in levels
        for place, (k, value) in enumerate(((0, 1.0), (4, 2.0)))
    ]
    hot = advice(listed, noise={}, predicted={}, ends={"one": ("1 T=0", "32 T=0")})
    cold = advice(listed, noise={}, predicted={}, ends={"one": (1, 32)})

    assert (told(hot, "per-user speed").at, told(cold, "per-user speed").at) == ("1 T=0", 1)
    assert comparable(levels, ("1 T=0", "32 T=0")) == ("1 T=0", "32 T=0")
    assert comparable((1, 32, "4/s"), ("1 T=0", "32 T=0")) == (1, 32)
    assert comparable((), None) == ()


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
    """Each of them is decided, and both horizons are left without a best one, as members of a contradiction."""
    listed = [
        figures(k, {RATE: [value] * 2}, window=window, place=place)
        for window, values in (("one", {2: 10.0, 4: 20.0}), ("two", {2: 20.0, 4: 10.0}))
        for place, (k, value) in enumerate(values.items())
    ]
    one = told(advice(listed, noise=floors(0.05, RATE, windows=["one", "two"]), predicted={}), "per-user speed")

    assert [duel.is_decided for duel in one.duels] == [True, True]
    assert (one.ks, one.best, one.contradictions, one.rules_out) == ((2, 4), None, ((2, 4),), False)


def test_windows_that_run_in_a_circle_keep_its_members() -> None:
    """k=1 beats k=2, k=2 beats k=4, and k=4 beats k=1; off is beaten by one of them, and is out."""
    listed = [
        figures(k, {RATE: [value] * 2}, window=window, place=place)
        for window, values in (
            ("one", {1: 20.0, 2: 10.0}),
            ("two", {2: 20.0, 4: 10.0}),
            ("three", {4: 20.0, 1: 10.0}),
            ("four", {4: 20.0, 0: 10.0}),
        )
        for place, (k, value) in enumerate(values.items())
    ]
    noise = floors(0.05, RATE, windows=["one", "two", "three", "four"])
    one = told(advice(listed, noise=noise, predicted={}), "per-user speed")

    assert (one.ks, one.words, one.best) == ((1, 2, 4), "k=1, 2 or 4", None)
    assert (one.contradictions, one.rules_out) == (((1, 2, 4),), True)


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


def horizon(k: int, speed: float | None, *, low: float | None = None, high: float | None = None) -> Horizon:
    """Return a horizon with its speed; its interval reaches down to half of that where no other end is told."""
    found = None if speed is None else Estimate(speed, speed / 2 if low is None and high is not None else low, high)
    return Horizon(k, Estimate(1.0), "from the curve", None, None, found)


def test_what_nobody_measured_may_be_promising() -> None:
    """Where its speed may reach that of the best one that is left: by its interval, or by itself where it has none."""
    listed = [figures(0, {RATE: [10.0] * 2}), figures(4, {RATE: [20.0] * 2}, place=1)]
    rows = [horizon(0, 10.0), horizon(1, 12.0, high=19.0), horizon(2, 15.0, high=21.0), horizon(3, 21.0),
            horizon(4, 20.0), horizon(5, None)]  # fmt: skip
    predicted: dict[tuple[str, Level], list[Horizon]] = {("one", 1): rows}
    one = told(advice(listed, noise=floors(0.05, RATE), predicted=predicted), "per-user speed")

    assert one.ks == (4,)
    assert [(found.k, found.best, found.figure.value) for found in one.promising] == [(3, 4, 21.0), (2, 4, 15.0)]
    assert one.promising[0].change == pytest.approx(0.05)
    assert one.unpredicted == ()


def test_the_best_one_is_no_surer_than_its_interval() -> None:
    """What reaches its lower end may be as fast as it is; where it has none, its mean counts."""
    listed = [figures(0, {RATE: [10.0] * 2}), figures(4, {RATE: [20.0] * 2}, place=1)]
    others = [horizon(0, 10.0), horizon(1, 17.0, high=18.5), horizon(2, 18.9, high=19.5), horizon(3, 19.2)]

    def named(best: Horizon) -> list[int]:
        found = advice(listed, noise=floors(0.05, RATE), predicted={("one", 1): [*others, best]})
        return [row.k for row in told(found, "per-user speed").promising]

    assert named(horizon(4, 20.0, low=19.0, high=21.0)) == [3, 2]
    assert named(horizon(4, 20.0)) == []


def test_throughput_is_compared_with_throughput() -> None:
    """Off gives less of it at the speed of a stream than any k does, so the streams alone would name nobody."""
    listed = [
        figures(k, {THROUGHPUT: [value] * 2}, at=32, place=k % 2)
        for k, value in ((0, 185.3), (1, 187.7), (4, 172.6), (7, 154.6))
    ]
    speeds = {0: 8.864, 1: 7.930, 2: 7.824, 3: 7.658, 4: 7.367, 5: 6.968, 6: 6.811, 7: 6.632}
    rows = [horizon(k, speed, low=0.97 * speed, high=1.03 * speed) for k, speed in speeds.items()]
    noise = floors(0.05, THROUGHPUT)
    one = told(advice(listed, noise=noise, predicted={("one", 32): rows}), "batch throughput")

    assert [found.k for found in one.promising] == [2, 3]
    (first, second) = one.promising
    assert (first.best, first.against) == (1, over_boots([187.7] * 2, noise=noise["one", THROUGHPUT]))
    assert first.figure.value == pytest.approx(7.824 * 187.7 / 7.930)
    assert first.figure.high == pytest.approx(1.03 * first.figure.value)
    assert second.figure.value == pytest.approx(7.658 * 172.6 / 7.367)


def test_throughput_is_predicted_from_horizons_that_draft() -> None:
    """Of two as near the longer one tells; off tells of none."""
    values = {0: 100.0, 1: 100.0, 3: 120.0}
    listed = [figures(k, {THROUGHPUT: [value] * 2}, at=8, place=k % 2) for k, value in values.items()]
    rows = [horizon(k, 10.0) for k in (0, 1, 2, 3)]

    def promised(listed: Sequence[HorizonFigures]) -> list[tuple[int, float]]:
        noise = floors(0.2, THROUGHPUT)
        one = told(advice(listed, noise=noise, predicted={("one", 8): rows}), "batch throughput")
        return [(found.k, found.figure.value) for found in one.promising]

    without = [listed[0], dataclasses.replace(listed[0], arm="k9", k=9)]
    ((k, throughput),) = promised(listed)

    assert k == 2
    assert throughput == pytest.approx(120.0)
    assert promised(without) == []


def test_a_full_server_has_its_own_promises_and_latency_has_none() -> None:
    """Speeds of its level are looked at; of TTFT nothing is predicted, so that what was not measured is named."""
    values = {0: {THROUGHPUT: [10.0] * 2, TTFT: [0.2] * 2}, 4: {THROUGHPUT: [20.0] * 2, TTFT: [0.1] * 2}}
    listed = [figures(k, own, at=8, place=place) for place, (k, own) in enumerate(values.items())]
    rows = [horizon(0, 10.0), horizon(1, 12.0), horizon(2, 25.0), horizon(3, 22.0), horizon(4, 20.0), horizon(5, 1.0)]
    found = advice(listed, noise=floors(0.05, THROUGHPUT, TTFT), predicted={("one", 8): rows})

    assert [row.k for row in told(found, "batch throughput").promising] == [2, 3]
    assert told(found, "latency").unpredicted == (1, 2, 3)


def test_what_is_pinned_has_beaten_off() -> None:
    """The best for one user, or else the shortest that is left and drafts; nothing where off was beaten nowhere."""
    beaten = Advice("per-user speed", RATE, 1, (4, 7), 7, "measured", (0, 4, 7))
    open_ = dataclasses.replace(beaten, ks=(0, 4, 7), best=None)
    batch = dataclasses.replace(beaten, objective="batch throughput", ks=(4,), best=4)

    assert pinned([beaten]) == 7
    assert pinned([dataclasses.replace(beaten, best=None)]) == 4
    assert pinned([open_, batch]) == 4
    assert pinned([open_]) is None
    assert pinned([dataclasses.replace(open_, ks=(0,), best=0), batch]) is None


def test_what_nobody_measured_is_not_pinned() -> None:
    """Positions of a curve are no horizons that a window has: of k=3 to 4 the one that met off is left."""
    curves = [Advice("per-user speed", RATE, None, ks, None, "cut", ks) for ks in ((3, 4), (3,))]
    batch = Advice("batch throughput", THROUGHPUT, 8, (4,), 4, "measured", (0, 4))

    assert [pinned([one, batch]) for one in curves] == [4, None]


def test_who_is_beaten_in_fewer_objectives_is_pinned() -> None:
    """Before the best mean for one user: it is within the noise there, and off and k=4 beat it under load."""

    def duel(first: int, second: int, low: float) -> Duel:
        return Duel("one", 8, THROUGHPUT, first, second, (1.2, 1.0), Interval(0.2, low, 0.3), 2)

    user = Advice("per-user speed", RATE, 1, (4, 7), 7, "measured", (0, 1, 4, 7))
    batch = Advice("batch throughput", THROUGHPUT, 8, (4,), 4, "measured", (0, 1, 4, 7),
                   (duel(0, 7, 0.1), duel(4, 7, 0.1), duel(1, 7, -0.1), duel(4, 0, 0.1), duel(4, 1, 0.1)))  # fmt: skip
    latency = dataclasses.replace(user, objective="latency", metric=TTFT, ks=(0,), best=0)

    assert pinned([user, batch]) == 4
    assert pinned([user, batch, latency]) == 4
    assert pinned([user, latency]) == 7
    assert pinned([dataclasses.replace(user, best=None), latency]) == 4
    assert rulings([user, batch], 7) == ((batch, (0, 4)),)
    assert rulings([user, batch], 4) == rulings([user, batch], 2) == ()


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
    """A range holds whole numbers that follow each other, off has its word, and nothing is nothing."""
    assert horizon_words((3, 4)) == "k=3 to 4"
    assert horizon_words((0, 3)) == "off or k=3"
    assert horizon_words((4, 7)) == "k=4 or 7"
    assert horizon_words((0, 1, 2, 4, 6, 7)) == "off or k=1, 2, 4, 6 or 7"
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
    """Whoever lost a decided duel is out, unless others turn it round, directly or in a circle; somebody is left."""
    listed = [
        figures(k, {RATE: [value, value]}, window=f"{number}", place=place)
        for number, values in enumerate(windows)
        for place, (k, value) in enumerate(values.items())
    ]
    names = [f"{number}" for number in range(len(windows))]
    one = told(advice(listed, noise=floors(0.05, RATE, windows=names), predicted={}), "per-user speed")
    won = {(duel.first, duel.second) for duel in one.duels if duel.is_decided}
    reached = won
    for _ in one.candidates:
        reached = reached | {(a, d) for a, b in reached for c, d in reached if b == c}
    beaten = {second for first, second in won if (second, first) not in reached}

    assert one.ks
    assert set(one.ks) == set(one.candidates) - beaten
    assert one.best in {None, *one.ks}
