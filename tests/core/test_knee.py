"""Which k, of windows and curves together: what is shown, what advice rests on, and what would change it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.advice import HorizonFigures
from pytest_specgate.core.analysis import CounterAnalysis
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.horizon_records import DrafterHorizons, WindowHorizons
from pytest_specgate.core.knee import COUNTED, MeasuredWindow, check_levels, counted_curve, knee_of
from pytest_specgate.core.noise import declared_noise
from pytest_specgate.core.stored import Failure
from tests.core.test_horizon import K4, K7, measured, off

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.horizon import Measured
    from pytest_specgate.core.knee import CountedCurve, Knee, ObjectiveAdvice
    from pytest_specgate.core.knee_changes import Change
    from pytest_specgate.core.levels import Level

RATE, THROUGHPUT = "decode_rate_p50", "output_throughput"
FLOOR = declared_noise(0.05)


def counters(positions: Sequence[int], drafts: int, **changes: Any) -> CounterAnalysis:
    """Return what two metrics pages say of full drafts."""
    fields = {
        "valid": True,
        "drafts": drafts,
        "draft_tokens": drafts * len(positions),
        "accepted_tokens": sum(positions),
    }
    return CounterAnalysis(**{**fields, "accepted_per_position": tuple(positions), **changes})


def counted(positions: Sequence[int], drafts: int, source: str = "counters.json", **changes: Any) -> CountedCurve:
    """Return the curve of some counters."""
    return counted_curve(counters(positions, drafts, **changes), source)


def window(  # noqa: PLR0913  - a window in one line of a test
    rates: Mapping[int, Sequence[float]],
    *,
    source: str = "one",
    drafter: str = "ngram",
    at: Level = 1,
    floors: bool = True,
    steps: Mapping[Level, tuple[Measured, ...]] | None = None,
    **others: Any,
) -> MeasuredWindow:
    """Return a window whose horizons reached some decode rates, boot by boot, at one load."""
    figures = tuple(
        HorizonFigures(
            source, f"k{k}", k, at, tuple(range(len(found))), (place, 1 - place)[: len(found)], {RATE: tuple(found)}
        )
        for place, (k, found) in enumerate(rates.items())
    )
    curves = {at: (measured((80, 50, 20, 5), 100, times=(0.02, 0.02)),)}
    told = DrafterHorizons(
        source,
        "request profile: 52 of 52 fields identical",
        drafter,
        {k: f"k{k}" for k in rates},
        curves if steps is None else steps,
        figures,
        {RATE: FLOOR} if floors else {},
    )
    return MeasuredWindow(source, WindowHorizons((told,), ()), noise={RATE: "floor of 5 % (a test)"}, **others)


def advised(knee: Knee, drafter: str = "ngram") -> ObjectiveAdvice:
    """Return the advice for the speed of one user."""
    return knee.advice[drafter][0]


def test_the_published_curves_say_k3_to_4() -> None:
    """Two files of counters, one crossing after position 4 and one after 3; of a load they tell nothing."""
    knee = knee_of([], [counted(K7, 60944), counted(K4, 3478, "probe.json")])
    found = knee.advice[COUNTED]

    assert [one.words for one in found] == ["k=3 to 4", "nothing tells", "nothing tells"]
    assert [[(change.kind, change.ks) for change in one.changes] for one in found] == [
        [("curves", (3, 4))], [("nothing", ())], [("nothing", ())],
    ]  # fmt: skip
    assert knee.tells
    assert [source.drafted_only for source in knee.sources] == [True, True]


def test_a_curve_above_the_cut_is_open_to_longer_horizons() -> None:
    """Advice is its own length or longer, unless a longer curve tells more."""
    short = counted((90, 80), 100, "short.json")
    alone = advised(knee_of([], [short]), COUNTED)

    assert (alone.words, alone.is_open, alone.changes[0].ks) == ("k=2 or longer", True, (2, 3))
    assert advised(knee_of([], [short, counted(K7, 60944)]), COUNTED).words == "k=4"


def test_not_worth_a_single_position() -> None:
    """Advice is off, and a window of k=1 against off would tell."""
    found = advised(knee_of([], [counted((10, 5), 1000)]), COUNTED)

    assert (found.words, found.is_open, found.changes[0].ks) == ("off", False, (0, 1))


def test_counters_have_a_step_time_where_they_count_steps() -> None:
    """Then speed is told of their own horizon, and of no shorter one."""
    (source,) = knee_of([], [counted(K4, 3478, tokens_per_step=2.0, step_time_s=0.02)]).sources
    (level,) = source.at(None)

    assert (source.drafted_only, source.drafter, source.identity, level.at) == (False, None, None, None)
    assert [one.speed_tokens_per_s is not None for one in level.rows] == [False, False, False, True]
    assert level.rows[-1].tokens_per_step.value == pytest.approx(2.0)
    assert source.at([8]) == (level,)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (CounterAnalysis(valid=False, reason="no-traffic", message="nothing was served"), "INVALID .no-traffic."),
        (CounterAnalysis(valid=True, speculation="off"), "tells of no draft"),
        (counters((1, 1), 0, draft_tokens=0), "tells of no draft"),
        (counters((1, 2), 10), "accepted tokens rise with the position"),
    ],
)
def test_what_can_source_nothing_is_refused(found: CounterAnalysis, message: str) -> None:
    """Zero traffic, no draft, and counts that contradict themselves; the file is named."""
    with pytest.raises(UsageError, match=rf"^a\.json.*{message}"):
        counted_curve(found, "a.json")


def test_counters_belong_to_the_only_drafter_of_the_windows() -> None:
    """Where nothing met in the window they widen its advice; beside two drafters they stand alone."""
    one = window({4: [10.0, 10.0]})
    other = window({4: [10.0, 10.0]}, source="two", drafter="eagle3")

    assert advised(knee_of([one])).words == "k=2 to 3"
    assert list(knee_of([one], [counted(K7, 60944)]).advice) == ["ngram"]
    assert advised(knee_of([one], [counted(K7, 60944)])).words == "k=2 to 4"
    assert list(knee_of([one, other], [counted(K7, 60944)]).advice) == ["ngram", "eagle3", COUNTED]


def test_drafters_of_one_name_in_one_window_are_told_apart() -> None:
    """Two engines with a drafter each are never compared across."""
    one, other = window({0: [10.0, 10.0], 4: [20.0, 20.0]}), window({2: [90.0, 90.0]}, drafter="ngram")
    both = MeasuredWindow("one", WindowHorizons((*one.told.drafters, *other.told.drafters), ()))

    assert list(knee_of([both]).advice) == ["ngram (k0, k4)", "ngram (k2)"]


def test_other_settings_make_another_drafter() -> None:
    """Windows of one method are no tournament where model, arguments or environment differ: the name says in what."""

    def of(source: str, k: int, **settings: Any) -> MeasuredWindow:
        one = window({k: [10.0, 10.0], 4: [20.0, 20.0]}, source=source)
        told = dataclasses.replace(one.told.drafters[0], settings={"model": "m", **settings})
        return dataclasses.replace(one, told=WindowHorizons((told,), ()))

    knee = knee_of([of("one", 2), of("two", 3), of("three", 7, model="n" * 80), of("four", 0, **{"env.A": "1"})])

    assert list(knee.advice) == ["ngram (no env.A, model=m)", f"ngram (no env.A, model={'n' * 51}...)",
                                 "ngram (env.A=1, model=m)"]  # fmt: skip
    assert [found[0].advice.candidates for found in knee.advice.values()] == [(2, 3, 4), (4, 7), (0, 4)]
    assert list(knee_of([of("one", 2), of("two", 3)]).advice) == ["ngram"]


def test_builds_of_the_engine_are_named() -> None:
    """Windows of two of them are compared all the same; who tells none is no other one."""
    one, other, none = (window({2: [1.0]}, source=name, build=name) for name in ("a", "b", ""))

    assert [knee_of(both).builds for both in ([one, other], [one, none], [one])] == [True, False, False]


def test_nothing_is_told_where_nobody_was_ruled_out() -> None:
    """Neither by duels within the noise, nor by a curve that says everything from off to its own length or longer."""
    undecided, decided = (knee_of([window({2: [10.0] * 2, 4: [value] * 2})]) for value in (10.1, 20.0))
    wide = knee_of([], [counted((2, 2), 9)])

    assert [knee.tells for knee in (undecided, decided, wide)] == [False, True, False]
    assert advised(wide, COUNTED).words == "off or k=1 to 2 or longer"


def test_latency_names_what_was_not_compared() -> None:
    """Horizons that nobody measured, and among them those that a sweep dropped by their speed."""
    told = window({}).told.drafters[0]
    figures = tuple(
        HorizonFigures("one", f"k{k}", k, 1, (0, 1), (place, 1 - place), {"ttft_p50": (value, value)})
        for place, (k, value) in enumerate(((0, 0.2), (4, 0.1)))
    )
    both = MeasuredWindow("one", WindowHorizons((dataclasses.replace(told, figures=figures),), ()), unbooted=(3, 7))
    found = knee_of([both]).advice["ngram"][2]

    assert [(one.kind, one.ks, one.dropped) for one in found.changes if one.kind == "unpredicted"] == [
        ("unpredicted", (1, 2, 3, 7), (3, 7))
    ]


def test_servers_of_horizons_that_met_may_differ_in_more() -> None:
    """It is told under the advice that rests on them, and of attached arms what is not proved."""
    one = window({0: [10.0] * 2, 4: [20.0] * 2, 2: [15.0] * 2}, differences={("k0", "k4"): "a.b", ("k0", "x"): "c"},
                 unproved={"k4": "k4 was attached", "x": "x was attached"})  # fmt: skip
    knee = knee_of([one])

    assert advised(knee).differences == ((0, 4, "a.b"),)
    assert knee.sources[0].unproved == ("k4 was attached",)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, ""),
        ({"finished": False}, "the window did not run to its end"),
        ({"finished": True, "stopped": "its budget"}, "the window was stopped before its last round: its budget"),
    ],
)
def test_a_window_that_ended_early_says_so(changes: dict[str, Any], sentence: str) -> None:
    """Whether something stopped it, or it died."""
    one = window({2: [1.0]})
    early = dataclasses.replace(one, told=dataclasses.replace(one.told, **changes))

    assert knee_of([early]).sources[0].unfinished == sentence


def test_sources_show_the_ends_of_their_profile() -> None:
    """Levels without a temperature of their own may be the hotter ones."""
    curves = (measured((80, 50), 100), off())
    one = window({2: [1.0]}, steps={1: curves, "1 T=0": curves, 8: curves, "8 T=0": curves, "4/s T=0": curves})
    told = dataclasses.replace(one.told.drafters[0], ends=("1 T=0", "8 T=0"))
    (source,) = knee_of([dataclasses.replace(one, told=WindowHorizons((told,), ()))]).sources

    assert [level.at for level in source.at(None)] == ["1 T=0", "8 T=0"]


def test_what_never_met_would_have_to() -> None:
    """Both are left, and a window of them would tell."""
    windows = [window({4: [10.0, 10.0], 0: [20.0, 20.0]}), window({4: [10.0, 10.0], 3: [20.0, 20.0]}, source="two")]
    found = advised(knee_of(windows))

    assert (found.words, found.noise) == ("off or k=3", ("floor of 5 % (a test)",))
    assert [(change.kind, change.ks, change.at) for change in found.changes] == [("strangers", (0, 3), 1)]


def test_what_is_within_the_noise_would_take_rounds() -> None:
    """Nearly equal horizons need more than anybody should ask, others a few; one round of unknown noise another."""
    few, none = (advised(knee_of([window({2: [10.0, 10.0], 4: values})])) for values in ([10.3, 10.3], [10.001, 10.0]))
    unknown = advised(knee_of([window({2: [10.0], 4: [20.0]}, floors=False)]))

    assert [(one.kind, one.ks) for one in few.changes] == [("undecided", (2, 4))]
    assert few.changes[0].rounds is not None
    assert few.changes[0].rounds > 2
    assert (none.changes[0].kind, none.changes[0].rounds) == ("undecided", None)
    assert [(one.kind, one.ks) for one in unknown.changes] == [("noise", (2, 4))]


def test_windows_that_contradict_each_other_need_another() -> None:
    """It is said once, though both windows say it."""
    windows = [window({2: [10.0, 10.0], 4: [20.0, 20.0]}), window({2: [20.0, 20.0], 4: [10.0, 10.0]}, source="two")]
    found = advised(knee_of(windows))

    assert [(one.kind, one.ks) for one in found.changes] == [("contradiction", (2, 4))]


def test_a_promise_is_held_against_the_fastest_that_is_left() -> None:
    """k=2 was not measured, and costs less than k=4 while it gives nearly as much."""
    steps: dict[Level, tuple[Measured, ...]] = {
        1: (off(0.010, 0.010), measured((800, 700, 20, 5), 1000, times=(0.030, 0.030)))
    }
    found = advised(knee_of([window({0: [50.0, 50.0], 4: [84.0, 84.0]}, steps=steps)]))
    promise = next(change for change in found.changes if change.ks == (2, 4))

    assert promise.kind == "promising"
    assert (promise.promises[0].k, promise.promises[0].best) == (2, 4)
    assert promise.promises[0].against.value == pytest.approx(2.525 / 0.030, rel=1e-3)


def promised(rates: Mapping[int, Sequence[float]], *, fourth: float, floors: bool = True) -> Change:
    """Return what k=3 promises against k=4, whose step takes 30 ms and whose last position has some rate."""
    positions = (900, 900, 900, round(1000 * fourth))
    steps: dict[Level, tuple[Measured, ...]] = {1: (off(0.010, 0.010), measured(positions, 1000, times=(0.030, 0.030)))}
    found = advised(knee_of([window(rates, steps=steps, floors=floors)]))
    return next(change for change in found.changes if change.kind == "promising")


def test_a_promise_takes_rounds_by_the_difference_that_is_predicted() -> None:
    """As of horizons that were measured: few for a large one, more for a smaller, and none would tell a tiny one."""
    rates = {0: [50.0, 50.0], 4: [84.0, 84.0]}
    found = [promised(rates, fourth=fourth) for fourth in (0.02, 0.50, 0.73)]

    assert [(one.ks, one.promises[0].k) for one in found] == [((3, 4), 3)] * 3
    assert [one.promises[0].change for one in found] == [
        pytest.approx(3.7 / 0.025 / (tokens / 0.030) - 1) for tokens in (3.72, 4.2, 4.43)
    ]
    assert [one.rounds for one in found] == [2, 4, None]


def test_a_promise_beside_unknown_noise_has_no_rounds() -> None:
    """One round tells none, two tell their own scatter; a noise floor tells it where no duel of the window does."""
    one, two = (promised({0: [50.0] * n, 4: [84.0] * n}, fourth=0.02, floors=False) for n in (1, 2))
    other = window({4: [80.0, 80.0], 0: [50.0, 50.0]}, source="two", steps={})
    curve = (off(0.010, 0.010), measured((900, 900, 900, 20), 1000, times=(0.030, 0.030)))
    alone = advised(knee_of([window({4: [84.0, 84.0]}, steps={1: curve}), other]))
    (promise,) = (change for change in alone.changes if change.kind == "promising")

    assert (one.rounds, one.is_noise_known) == (None, False)
    assert (two.rounds is not None, two.is_noise_known) == (True, True)
    assert (promise.rounds is not None, promise.is_noise_known) == (True, True)


def test_sources_show_their_lowest_and_highest_load() -> None:
    """Unless others are asked for, which must be there; horizons are told of up to the longest that was measured."""
    one = (measured((80, 50), 100), off())
    knee = knee_of([window({2: [1.0]}, steps={8: one, 1: one, 32: one})], up_to=1)
    (source,) = knee.sources

    assert [level.at for level in source.at(None)] == [1, 32]
    assert [level.at for level in source.at([8])] == [8]
    assert [curve.at for curve in source.curves_at(8)] == [8]
    assert [row.k for row in source.levels[0].rows] == [0, 1, 2]
    assert [row.k for row in knee_of([window({2: [1.0]})], up_to=6).sources[0].levels[0].rows] == [1, 2, 3, 4, 5, 6]
    assert source.levels[0].told_by(1) == source.levels[0].told_by(3) == 2
    check_levels(knee.sources, [8])
    with pytest.raises(UsageError, match=r"nothing was measured at c=4: load levels are c=1, c=8, c=32"):
        check_levels(knee.sources, [4])
    with pytest.raises(UsageError, match="load levels are none"):
        check_levels([], [4])


def test_sources_show_loads_of_one_temperature() -> None:
    """The highest load is one that was measured as the lowest was, not the same at another temperature."""
    one = (measured((80, 50), 100), off())
    (source,) = knee_of([window({2: [1.0]}, steps={1: one, "1 T=0.8": one, 8: one, "8 T=0.8": one})]).sources

    assert [level.at for level in source.at(None)] == [1, 8]
    assert [level.at for level in source.at(["8 T=0.8"])] == ["8 T=0.8"]


def test_a_window_without_step_counters_is_compared_all_the_same() -> None:
    """It has no curve, and its horizons met."""
    knee = knee_of([window({2: [10.0, 10.0], 4: [20.0, 20.0]}, steps={})])

    assert advised(knee).words == "k=4"
    assert knee.sources[0].at(None) == ()


def test_what_was_left_out_is_told_with_its_file() -> None:
    """A window of which nothing may be read is INVALID; one without speculation is not."""
    why = Failure(reason="server-died", message="it left")
    dead, plain = (MeasuredWindow("dead", WindowHorizons((), (why,))), MeasuredWindow("plain", WindowHorizons((), ())))
    knee = knee_of([dead, plain])

    assert (dead.is_invalid, plain.is_invalid, window({2: [1.0]}).is_invalid) == (True, False, False)
    assert (knee.left_out, knee.advice, knee.tells) == ((("dead", why),), {}, False)


def test_windows_of_other_loads_and_machines_are_named() -> None:
    """Advice takes them together, so a reader has to know."""
    one, other = (
        window({2: [1.0]}, load="a", host_class="x"),
        window({2: [1.0]}, source="two", load="b", host_class="y"),
    )
    same, apart = knee_of([one, dataclasses.replace(other, load="a", host_class="x")]), knee_of([one, other])

    assert (same.loads, same.hosts, apart.loads, apart.hosts) == (False, False, True, True)
