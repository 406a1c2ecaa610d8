"""Draft horizons in reports: words, tables, JSON and Markdown, identity before any figure."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pytest_specgate.core.acceptance import AcceptanceCurve, Estimate
from pytest_specgate.core.advice import Duel
from pytest_specgate.core.analysis import CounterAnalysis
from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.horizon import Crossing, Horizon
from pytest_specgate.core.knee import Knee, KneeCurve, counted_curve, knee_of
from pytest_specgate.core.knee_changes import Change
from pytest_specgate.core.noise import Noise
from pytest_specgate.core.promises import Promise
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.schemas import published
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.statistics import Interval
from pytest_specgate.core.sweeps import arm_sweep, stored_sweep
from pytest_specgate.reporting.knee import horizon_table, knee_lines, position_table
from pytest_specgate.reporting.knee_json import knee_report
from pytest_specgate.reporting.knee_markdown import knee_table
from pytest_specgate.reporting.knee_words import (
    HOSTS,
    LOADS,
    RHYTHM,
    basis_words,
    change_sentence,
    crossing_sentence,
    crossing_words,
    duel_sentence,
    estimate_text,
    notes,
    short_lines,
)
from pytest_specgate.reporting.layout import Detail, View
from pytest_specgate.reporting.messages import window_lines
from pytest_specgate.reporting.session_json import session_json
from pytest_specgate.reporting.window_knee import knee_section, measured_window, window_knee
from tests.reporting.conftest import PROFILE, Window, arm, pair
from tests.reporting.page_runs import FLOOR, gated, paced, reported, session, three_arms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.acceptance import Basis
    from pytest_specgate.core.knee import CountedCurve

K7, K4 = (44225, 29747, 19984, 13513, 9086, 6095, 3840), (2508, 1607, 1033, 590)


def counted(positions: Sequence[int], drafts: int, source: str, **changes: Any) -> CountedCurve:
    """Return the curve of a file of counters."""
    fields = {
        "valid": True,
        "drafts": drafts,
        "draft_tokens": drafts * len(positions),
        "accepted_tokens": sum(positions),
    }
    return counted_curve(CounterAnalysis(**{**fields, "accepted_per_position": tuple(positions), **changes}), source)


@pytest.fixture(scope="module", name="knee")
def knee_of_three_arms() -> Knee:
    """Return what a window of off, k=4 and k=7 tells."""
    found = window_knee(three_arms().record, "record.json")
    assert isinstance(found, Knee)
    return found


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Crossing(0.2, 4, 4, 4, 7), "between positions 4 and 5"),
        (Crossing(0.2, 4, 3, 4, 7), "between positions 3 and 5"),
        (Crossing(0.2, 0, 0, 0, 4), "before position 1"),
        (Crossing(0.2, 1, 0, 1, 4), "before position 2"),
        (Crossing(0.2, 4, 4, 4, 4), "not within its 4 positions: a longer horizon has to tell"),
        (Crossing(0.2, 1, 1, 1, 1), "not within its 1 position: a longer horizon has to tell"),
        (Crossing(0.2, 4, 3, 4, 4), "after position 3, perhaps not within its 4 positions"),
    ],
)
def test_where_a_curve_falls_under_the_cut(found: Crossing, words: str) -> None:
    """Between two positions, and between more where an interval holds the cut."""
    assert crossing_words(found) == words


def curve(
    positions: Sequence[int], drafts: int, *, missing: int = 0, basis: Basis = "drafts", samples: int = 0
) -> KneeCurve:
    """Return a curve at c=8 that is above the cut in its first positions."""
    delta = SpeculationDelta(drafts, drafts * len(positions) - missing, sum(positions), tuple(positions))
    # All but the first sample have one draft, of which nothing was accepted.
    others = samples - 1
    single = SpeculationDelta(1, len(positions), 0, (0,) * len(positions))
    first = dataclasses.replace(
        delta, drafts=drafts - others, draft_tokens=delta.draft_tokens - others * len(positions)
    )
    whole = AcceptanceCurve(delta, (first, *[single] * others) if samples else (), basis)
    return KneeCurve(whole.k, 8, whole, Crossing(0.2, 1, 1, 1, whole.k))


def test_a_sentence_says_what_does_not_fall() -> None:
    """With its horizon and its load."""
    beyond = dataclasses.replace(curve((8,), 10), crossing=Crossing(0.25, 1, 1, 1, 1))

    assert crossing_sentence(curve((80, 5), 100)) == "k=2 at c=8 falls under 20 % between positions 1 and 2"
    assert crossing_sentence(beyond) == (
        "k=1 at c=8 does not fall under 25 % within its 1 position: a longer horizon has to tell"
    )


def test_intervals_say_what_they_are_over() -> None:
    """Each basis once, with the horizons it is of where there are several; short drafts are told, too."""
    curves = [curve((80, 50), 100, basis="prompts", samples=9), curve((80,), 100), curve((8, 4), 10, missing=4)]

    assert list(basis_words(curves[:1])) == ["intervals: 95 %, over 9 prompts"]
    assert list(basis_words(curves)) == [
        "intervals of k=2: 95 %, over 9 prompts",
        "intervals of k=1: 95 %, over 100 drafts as if these were independent, which is too narrow",
        "intervals of k=2: 95 %, over 10 drafts as if these were independent, which is too narrow",
        (
            "k=2: draft length 1.60 of 2, 4 of 20 draft tokens missing: a lower rate at late positions may be shorter "
            "drafts, and not refusal"
        ),
    ]
    assert list(basis_words([curve((8,), 10, basis="boots", samples=2)])) == [
        "intervals: 95 %, over 2 boots, which sent the same prompts: they tell nothing of others"
    ]


def test_figures_have_their_intervals() -> None:
    """None where there is none, and none that is the figure itself."""
    assert estimate_text(Estimate(0.0231, 0.0220, 0.0240), scale=1000) == "23.10 [22.00 .. 24.00]"
    assert (estimate_text(Estimate(1.0, 1.0, 1.0)), estimate_text(Estimate(2.5)), estimate_text(None)) == (
        "1.000", "2.500", "-",
    )  # fmt: skip


PREDICTED = Horizon(3, Estimate(2.6), "from the curve", None, None, Estimate(118.0, 112.0, 124.0))
EXTRAPOLATED = Horizon(9, Estimate(2.6), "extrapolated", None, "extrapolated", Estimate(118.0))
REACHED = Estimate(115.0, 113.0, 117.0)


def promise(row: Horizon, *, best: int = 4, against: Estimate = REACHED) -> Promise:
    """Return what a horizon promises against the best one that was measured."""
    assert row.speed_tokens_per_s is not None
    return Promise("one", row, row.speed_tokens_per_s, best, against)


COSTS, WOULD = "curves alone do not tell what a position costs", "a window of {} would tell"
SENTENCES: list[tuple[Change, str]] = [
    (Change("curves", (3, 4), None), f"{COSTS}: {WOULD.format('k=4 against k=3')}"),
    (Change("curves", (4,), None), f"{COSTS}: {WOULD.format('k=4 against off')}"),
    (
        Change("strangers", (0, 3), 32),
        f"off and k=3 never met in one window: {WOULD.format('k=3 against off at c=32')}",
    ),
    (
        Change("contradiction", (2, 4), 1),
        "windows say the opposite of each other of k=2 and k=4 at c=1: another window of both would tell",
    ),
    (
        Change("noise", (2, 4), 1),
        "nothing tells the noise of k=2 and k=4 at c=1: a second round, or a noise floor with its source, would tell",
    ),
    (
        Change("undecided", (2, 4), 1, rounds=8),
        f"k=2 and k=4 are within the noise at c=1: {WOULD.format('about 8 rounds')}",
    ),
    (
        Change("undecided", (2, 4), 1),
        "k=2 and k=4 are within the noise at c=1: a window of 20 rounds would not tell",
    ),
    (
        Change("contradiction", (1, 2, 4), 1),
        (
            "windows say the opposite of each other of k=1 and k=2 and k=4 at c=1: another window of all of them would "
            "tell"
        ),
    ),
    (
        Change("promising", (3, 4), 1, (promise(PREDICTED),), rounds=8),
        (
            "k=3 (predicted 118.0 [112.0 .. 124.0]) was not measured and may reach the 115.0 [113.0 .. 117.0] "
            "tokens/s of throughput of k=4: a window of about 8 rounds of k=3 against k=4 at c=1 would tell, if k=3 "
            "is as predicted (better +2.6 %)"
        ),
    ),
    (
        Change("promising", (0, 9), 1, (promise(EXTRAPOLATED, best=0, against=Estimate(120.0)), promise(PREDICTED))),
        (
            "k=9 (extrapolated 118.0), k=3 (predicted 118.0 [112.0 .. 124.0]) were not measured and may reach the "
            "120.0 tokens/s of throughput of off: a window of 20 rounds of k=9 against off at c=1 would not tell, if "
            "k=9 is as predicted (worse -1.7 %)"
        ),
    ),
    (
        Change("promising", (3, 4), 1, (promise(PREDICTED), promise(EXTRAPOLATED)), is_noise_known=False),
        "k=3 (predicted 118.0 [112.0 .. 124.0]), k=9 (extrapolated 118.0) were not measured and may reach the 115.0 "
        "[113.0 .. 117.0] tokens/s of throughput of k=4: " + WOULD.format("k=3 against k=4 at c=1") + " first",
    ),
    (
        Change("unpredicted", (1, 2, 5), 8, dropped=(2,)),
        (
            "k=1, 2 or 5 were not measured (a sweep ruled out k=2 by speed alone), and TTFT is not predicted: a "
            "window would tell"
        ),
    ),
    (Change("unpredicted", (3,), 8), "k=3 was not measured, and TTFT is not predicted: a window would tell"),
    (
        Change("rate", (), None),
        (
            "under an arrival rate throughput is what arrives, whatever k is: a window of two or more horizons at a "
            "concurrency would tell"
        ),
    ),
]


@pytest.mark.parametrize(("change", "sentence"), SENTENCES)
def test_what_would_change_advice(change: Change, sentence: str) -> None:
    """Each kind in its own words, with both horizons and the load."""
    assert change_sentence(change, "batch throughput") == sentence


def test_a_promise_for_one_user_is_of_a_stream() -> None:
    """Its figures are speeds of one stream, and not throughput."""
    change = Change(
        "promising", (3, 4), 1, (promise(PREDICTED, against=Estimate(80.0)), promise(EXTRAPOLATED)), rounds=2
    )

    assert change_sentence(change, "per-user speed") == (
        "k=3 (predicted 118.0 [112.0 .. 124.0]), k=9 (extrapolated 118.0) were not measured and may be as fast as the "
        "80.00 tokens/s a stream of k=4: a window of about 2 rounds of k=3 against k=4 at c=1 would tell first, if k=3 "
        "is as predicted (better +47.5 %)"
    )


def swept(under_load: dict[str, float]) -> Window:
    """Return a sweep of k=4 and k=7: for one user both beat off, k=7 with the better mean, within the noise."""
    floors = dict.fromkeys(("decode_rate_p50", "output_throughput", "ttft_p50"), NoiseFloor(0.05, "a test"))
    sweep = arm_sweep(arm(), arm, ks=(4, 7), profile=PROFILE, noise=floors)
    made = paced(
        Window.of(*sweep.pairs, speeds={}),
        {name: {1: speed, 8: under_load.get(name, 1.0)} for name, speed in (("off", 1.0), ("k4", 2.0), ("k7", 2.01))},
    )
    return dataclasses.replace(made, record=made.record.model_copy(update={"sweeps": (stored_sweep(sweep),)}))


@pytest.mark.parametrize("detail", [Detail.NORMAL, Detail.LONG])
def test_a_sweep_pins_what_its_advice_leaves(detail: Detail) -> None:
    """What is best for one user by less than the noise, and beaten under load, is not; nor is anything said of k=4."""
    won, lost = swept({"k4": 1.4, "k7": 0.8}), swept({"k4": 0.7, "k7": 0.4})

    def ends(window: Window) -> list[str]:
        lines = list(knee_section(window.record, "r", view=View(detail)))
        return lines[next(place for place, line in enumerate(lines) if line.startswith("pin it")) :]

    assert "per-user speed (decode rate p50 at c=1): k=4 or 7 (the best mean has k=7)" in won.lines()
    assert ends(won) == ["pin it: specgate knee r --snippet test_k4.py"]
    assert ends(lost) == [
        "pin it: specgate knee r --snippet test_k7.py",
        "the pinned k=7 is ruled out for batch throughput at c=8 by off and k=4, and for latency at c=8 by off and k=4",
    ]


def test_one_user_is_looked_at_where_the_load_is_lowest() -> None:
    """There a window would have to be measured, too; of the others where it is highest."""
    nothing = Change("nothing", (), None)

    assert "at the lowest load would tell" in change_sentence(nothing, "per-user speed")
    assert "at the highest load would tell" in change_sentence(nothing, "latency")


def test_a_duel_tells_its_window_values_and_interval() -> None:
    """Of a latency the raw change falls; nothing is shown where the interval holds no change, or there is none."""
    won = Duel("a/record.json", 8, "ttft_p50", 4, 0, (0.05, 0.10), Interval(0.7, 0.6, 0.8), 3)
    open_ = Duel("a", 1, "decode_rate_p50", 4, 0, (11.0, 10.0), Interval(0.1, -0.1, 0.3), 1)

    assert duel_sentence(won) == (
        "k=4 against off: better -50.0 % (50.00 against 100.0 ms), interval -55.1 .. -45.1 %, 3 rounds, "
        "in a/record.json"
    )
    assert duel_sentence(open_, named=False) == (
        "k=4 against off: no change shown, better +10.0 % (11.00 against 10.00 tokens/s), interval -9.5 .. +35.0 %, "
        "1 round"
    )
    assert "its noise is not known" in duel_sentence(dataclasses.replace(open_, gain=None))


def test_the_published_curves_as_text() -> None:
    """Two files: both crossings, k=3 to 4 for one user, and nothing for the two others."""
    lines = list(knee_lines(knee_of([], [counted(K7, 60944, "k7.json"), counted(K4, 3478, "k4.json")])))
    text = "\n".join(lines)

    assert lines[0] == "counters: k7.json; they tell neither drafter nor load"
    assert "k=7 falls under 20 % between positions 4 and 5" in lines
    assert "k=4 falls under 20 % between positions 3 and 4" in lines
    assert "         5  14.9 [14.6 .. 15.2] <" in text
    assert "which k, by curves alone" in lines
    assert "per-user speed (by the cut alone): k=3 to 4" in lines
    assert "batch throughput (output throughput): nothing tells" in lines
    assert "latency (TTFT p50): nothing tells" in lines
    assert "extrapolated" not in text


def test_identity_stands_before_any_figure(knee: Knee) -> None:
    """File, identity and arms, then rates, then horizons, then advice with what it rests on."""
    lines = "\n".join(knee_lines(knee)).splitlines()
    order = [
        "window: record.json",
        "request profile: 52 of 52 fields identical",
        "drafter: ngram; arms: off (off), k4 (k=4), k7 (k=7)",
        "acceptance by position at c=1, accepted / drafts",
        "acceptance by position at c=32, accepted / drafts",
        "horizons: what each gives and costs",
        "which k, ngram",
    ]
    places = [lines.index(line) for line in order if not line.startswith("request profile")]

    assert places == sorted(places)
    assert lines[1].startswith("request profile: ")
    assert lines[1].endswith("fields identical")
    assert any(line.startswith("per-user speed (decode rate p50 at c=1): ") for line in lines)
    assert sum(line.startswith("rests on: ") for line in lines) == 9
    assert "noise: told by the rounds alone" in lines
    assert lines[-1] == RHYTHM


def test_other_loads_are_shown_where_they_are_asked_for(knee: Knee) -> None:
    """And no others; who asks for none is told which there are."""
    text, unasked = "\n".join(knee_lines(knee, at=[8])), list(knee_lines(knee))

    assert "acceptance by position at c=8" in text
    assert "acceptance by position at c=1," not in text
    assert "also measured" not in text
    assert "also measured, and shown with --at: c=8" in unasked


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_tables_fit_the_terminal(knee: Knee, columns: int) -> None:
    """What is worth least is left out first, and said."""
    (source,) = knee.sources
    tables = [position_table(source.curves_at(1), columns=columns), horizon_table(source.at(None), columns=columns)]
    rows = [line for text in tables for line in text.splitlines() if not line.startswith("(not shown")]

    assert max(map(len, rows)) <= columns
    assert "k=5" in tables[1]


def test_the_json_is_the_published_one(knee: Knee) -> None:
    """Of a window, of counters, and of what is extrapolated; every figure with its unit."""
    both = knee_of([], [counted(K7, 60944, "k7.json"), counted(K4, 3478, "k4.json")], up_to=9)
    stored = [json.loads(knee_report(one).model_dump_json()) for one in (knee, both)]

    for one in stored:
        jsonschema.validate(one, published("knee"))
    (source,) = stored[0]["sources"]
    assert {one["load"] for one in source["curves"]} == {"c=1", "c=8", "c=32"}
    assert [one["words"] for one in stored[1]["advice"]] == ["k=3 to 4", "nothing tells", "nothing tells"]
    assert {one["drafter"] for one in stored[1]["advice"]} == {None}
    assert stored[1]["sources"][0]["curves"][0]["last_position"] == 4
    assert stored[1]["sources"][0]["horizons"][8]["tokens_from"] == "extrapolated"
    assert [one["load"] for one in knee_report(knee, at=[8]).model_dump()["sources"][0]["curves"]] == ["c=8", "c=8"]
    duel = stored[0]["advice"][0]["duels"][0]
    assert set(duel["values"]) == {"first_tokens_per_s", "second_tokens_per_s"}
    assert stored[0]["left_out"] == []


def stored(window: Window) -> dict[str, Any]:
    """Return a window as the JSON report of a run has it."""
    whole: dict[str, Any] = json.loads(json.dumps(session_json(session(reported(window)))))
    (told,) = whole["windows"]
    found: dict[str, Any] = told
    return found


def test_a_report_of_a_run_has_the_section() -> None:
    """In the terminal after the pairs, short or whole; in JSON as an object; not for who wants little."""
    window = three_arms()

    def lines(detail: Detail) -> list[str]:
        view = View(detail)
        texts = window_lines(window.record, pairs=window.pairs, judged=(), record_path="r", view=view)
        return "\n".join(texts).splitlines()

    normal = lines(Detail.NORMAL)
    start = normal.index("which k (`specgate knee` tells what this rests on)")
    pairs = [place for place, line in enumerate(normal) if "varies)" in line]
    assert pairs[-1] < start < normal.index("speculation, from counter deltas of each point, all rounds pooled")
    assert normal[start + 1].startswith("k=4 at c=1 falls under 20 %")
    assert "rests on: " not in "\n".join(normal)
    assert "rests on: " in "\n".join(lines(Detail.LONG))
    assert [line for line in lines(Detail.SHORT) if line.startswith("which k")] == []
    assert list(stored(window)["knee"]) == ["schema_version", "cut", "sources", "left_out", "advice", "notes"]


def test_windows_without_horizons_that_met_have_no_section() -> None:
    """One that is INVALID, one of a single horizon, and one whose arms do not speculate."""
    window = Window.of(pair(), speeds={})
    other = window.with_field("off", 2, temperature=0.7)
    single = window.with_death("off", 2)

    assert isinstance(window_knee(window.record, "r"), Knee)
    assert window_knee(other.record, "r") is None
    assert window_knee(single.record, "r") is None
    for one in (other, single):
        assert "which k" not in "\n".join(one.lines())
        assert knee_table(one.record, "r") == ""
        assert "knee" not in stored(one)


def test_markdown_has_a_table_of_advice() -> None:
    """A row an objective, and where the curves fall under the cut."""
    text = knee_table(three_arms().record, "r")
    rows = [line for line in text.splitlines() if line.startswith("| ")]

    assert text.startswith(
        "#### Which k\n\ndrafter: ngram; arms: off (off), k4 (k=4), k7 (k=7)\n\n"
        "| objective | k | told by | rests on | would change it |\n"
    )
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| per-user speed", "| batch throughput", "| latency"]
    assert "* k=4 at c=1 falls under 20 % " in text


def test_several_drafters_are_named(knee: Knee) -> None:
    """In the short section, and in a table."""
    other = dataclasses.replace(knee.sources[0], drafter="eagle3")
    both = dataclasses.replace(
        knee, sources=(*knee.sources, other), advice={**knee.advice, "eagle3": knee.advice["ngram"]}
    )

    assert {line.partition(":")[0] for line in short_lines(both) if not line.startswith("would")} == {"ngram", "eagle3"}


def test_what_a_sweep_ruled_out_is_said_last() -> None:
    """With the sweep's own words, in short and in full."""
    window = three_arms()
    record = window.record.model_copy(update={"ruled_out": {"k7": "k=7 cannot win: it is slower than k=4"}})
    found = window_knee(record, "r")

    assert isinstance(found, Knee)
    assert list(short_lines(found))[-1] == "k7: k=7 cannot win: it is slower than k=4"
    assert "k7: k=7 cannot win: it is slower than k=4" in list(knee_lines(found))
    assert knee_report(found).sources[0].ruled_out == {"k7": "k=7 cannot win: it is slower than k=4"}


def test_noise_comes_with_its_source() -> None:
    """The largest declared floor, one of the command line in its place, a calibration, or the rounds alone."""
    from pytest_specgate.api import not_worse

    window = gated(
        three_arms(),
        not_worse("output_throughput", at=32, margin="6%", noise=FLOOR),
        not_worse("output_throughput", at=8, margin="6%", noise=NoiseFloor(0.01, "a quiet night")),
    )
    from tests.reporting.reports import kept

    measured = ArmNoise(
        arm="off", at=1, metric="ttft_p50", sd=0.02, df=5.0, boots=4, builds=1, arm_sha256="0" * 64, measured_at=""
    )
    record = kept(window).model_copy(update={"noise": (measured,)})
    found = measured_window(record, "r")
    given = measured_window(record, "r", floors={"output_throughput": NoiseFloor(0.08, "a test")})

    assert found.noise == {
        "output_throughput": "floor of 2 % (eight A/A windows)",
        "ttft_p50": "floor of 4 %, as A/A windows measured it",
        "decode_rate_p50": "told by the rounds alone",
    }
    assert found.told.drafters[0].noise["ttft_p50"] == Noise(0.02, 5.0)
    assert given.noise["output_throughput"] == "floor of 8 % (a test)"


def test_what_stands_beside_advice(knee: Knee) -> None:
    """Other loads, other machines, and the rhythm of a closed loop where latency was looked at."""
    apart = dataclasses.replace(knee, loads=True, hosts=True)

    assert list(notes(apart)) == [LOADS, HOSTS, RHYTHM]
    assert list(notes(knee_of([], [counted(K7, 60944, "k7.json")]))) == []


def test_counters_with_steps_and_what_was_left_out_are_told() -> None:
    """A window of which nothing may be read stands first, with its reason; extrapolated rows have no interval."""
    window = Window.of(pair(), speeds={}).with_field("off", 2, temperature=0.7)
    one = counted(K4, 3478, "k4.json", tokens_per_step=2.65, step_time_s=0.02338)
    found = knee_of([measured_window(window.record, "bad/record.json")], [one], up_to=5)
    lines = "\n".join(knee_lines(found)).splitlines()

    assert lines[0].startswith("left out: bad/record.json: ")
    assert lines[0].endswith("(profile-mismatch)")
    assert [line.split() for line in lines if "k=5" in line] == [
        ["k=5", "2.747", "extrapolated", "from", "k=4", "-", "-", "-", "-"]
    ]
    assert "no decode steps are counted" not in "\n".join(lines)
