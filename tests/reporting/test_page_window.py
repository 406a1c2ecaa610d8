"""The part of a page that is about one window: where its figures come from, its tables, and what is to be known."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.api import not_worse
from pytest_specgate.core.continuations import Continuation
from pytest_specgate.reporting.page import html_page
from pytest_specgate.reporting.page_figures import Figures
from pytest_specgate.reporting.page_tables import NOTHING, pair_levels
from pytest_specgate.reporting.page_verdicts import card
from pytest_specgate.reporting.page_window import moment, window_view
from tests.reporting.conftest import Window, pair
from tests.reporting.page_reading import read
from tests.reporting.page_runs import FLOOR, gated, load, paced, reported, session, three_arms
from tests.reporting.svg_reading import having, parsed

if TYPE_CHECKING:
    from pytest_specgate.core.records import BootRecord
    from pytest_specgate.reporting.page_window import WindowView


def view(window: Window) -> WindowView:
    """Return a window as a page shows it, without verdicts."""
    return window_view(reported(window), [], name="w1")


def edited(window: Window, **fields: Any) -> Window:
    """Return a window with other facts."""
    return dataclasses.replace(window, record=window.record.model_copy(update=fields))


def test_the_facts_of_a_window_come_with_it() -> None:
    """Load, boots in order, what stopped it, what came before, machine, engine, project and place of the record."""
    earlier = Continuation(created_at="2026-11-28T12:00:00+00:00", record="a/record.json", record_sha256="0", rounds=1)
    window = edited(
        three_arms(2), stopped="the budget of 10 minutes is spent", finished=False, continued=(earlier,), attempt=3,
        commit="abc", host={"cpus": 2, "gpu_throttling": ["thermal"]},
    )  # fmt: skip
    facts: dict[str, list[str]] = {}
    for term, text in view(window).facts:
        facts.setdefault(term, []).append(text)

    prompts = "prose prompts of 16 tokens (repetitiveness 0.12), 11 output tokens"
    assert facts["load"] == [f"{prompts}, 10 requests at c=1, 16 requests at c=8, 64 requests at c=32"]
    assert facts["boots"] == ["6 in 2 rounds (off k4 k7 / k7 k4 off), UNFINISHED"]
    assert facts["stopped"] == ["the budget of 10 minutes is spent"]
    assert [text.partition(":")[0] for text in facts["history"]] == [
        "run 2 of this window", "attempt 3 of this pair of builds",
    ]  # fmt: skip
    assert "GPU 0 is throttled: thermal" in facts["host"]
    assert facts["commit"] == ["abc"]
    assert facts["measured"] == ["2026-11-29 12:00 UTC"]
    assert facts["record"] == ["specgate-results/one/record.json"]


def test_without_a_valid_pair_there_are_only_facts() -> None:
    """A window in which nothing may be judged has no legend, no plot and no table."""
    found = view(three_arms(2).with_death("k4", 1))

    assert found.facts
    assert (found.legend, found.over_load, found.acceptance, found.boots, found.order) == ((), (), (), (), ())
    assert (found.speculation, found.load, found.notes) == (None, None, ())
    assert found.left_out == ("off, k4, k7 are left out (server-died): arm k4: its server left",)


def test_times_are_read_with_and_without_a_zone() -> None:
    """A time without a zone is UTC, and a text that is no time is none."""
    noon = dt.datetime(2026, 11, 29, 12, tzinfo=dt.UTC)

    assert moment("2026-11-29T12:00:00+00:00") == noon
    assert moment("2026-11-29T13:00:00+01:00") == noon
    assert moment("2026-11-29T12:00:00") == noon
    assert moment("yesterday") is None


def test_a_record_with_broken_times_is_shown_without_them() -> None:
    """The rest of the page does not depend on when boots ran."""

    def unreadable(boot: BootRecord) -> BootRecord:
        return boot.model_copy(update={"started_at": "yesterday"})

    found = view(edited(three_arms(2).edited("k4", 1, edit=unreadable), created_at="the day before"))

    assert [figure.title for figure in found.order] == ["output throughput of a boot against the mean of its arm"]
    assert ("measured", "the day before") in found.facts


@pytest.mark.parametrize("field", ["started_at", "ended_at"])
def test_boots_of_a_clock_that_was_set_back_are_not_drawn_over_time(field: str) -> None:
    """Times that run backwards tell no length: the picture is left out, and a note says why; the rest is there."""
    early = {field: "2026-11-29T09:00:00+00:00"}
    found = reported(three_arms(2).edited("k4", 2, edit=lambda boot: boot.model_copy(update=early)))
    view = window_view(found, [], name="w1")

    assert [figure.title for figure in view.order] == ["output throughput of a boot against the mean of its arm"]
    assert [note for note in view.notes if note.startswith("boots are not drawn over time: ")]
    assert html_page(session(found)).count('class="plot timeline"') == 0


def test_a_profile_that_was_not_compared_is_no_mismatch() -> None:
    """Where a server died before anything could be compared, no line says that nothing of nothing agreed."""
    found = reported(Window.of(pair(rounds=1), speeds={}, rounds=1).with_death("off", 1))
    identity = read(html_page(session(found))).having("identity")

    assert {one.text.split(" ", 1)[0] for one in identity} == {"\N{EN DASH}"}
    assert {"broken" in one.attributes["class"].split() for one in identity} == {False}
    assert identity[0].text == "\N{EN DASH} k4 against off : request profile: not compared; no figures (server-died)"


def test_a_boot_that_did_not_tell_its_end_is_as_long_as_what_is_known() -> None:
    """Older records lack the end: start-up and points are the least that it took."""
    found = view(Window.of(pair(profile=load({1: 10, 8: 16})), speeds={}))
    timeline = parsed(found.order[0].picture)

    assert "boot 1, off: from 0 s to 50 s, ready after 30 s" in timeline.findtext("desc", "")


def test_the_list_of_boots_has_no_figure_of_an_invalid_point() -> None:
    """Where a point must not be judged, its duration is left out, too."""
    rows = view(three_arms(2).with_requests("k7", 1, at=8, error="HTTP 500", status=500)).boots
    by_boot = {(row.arm, row.round): row.points for row in rows}

    assert by_boot["k7", 1] == ("10.0", NOTHING, "10.0")
    assert by_boot["k7", 2] == ("10.0", NOTHING, "10.0")
    assert by_boot["k4", 1] == ("10.0", "10.0", "10.0")
    assert [row.number for row in rows] == list(range(1, 7))
    assert rows[0].started == "12:00:00"


def test_one_round_has_no_drift() -> None:
    """A boot alone is its own mean, so only the order of the boots is drawn."""
    assert [figure.title for figure in view(three_arms(1)).order] == ["boots in order"]


def test_rates_have_plots_of_their_own() -> None:
    """Concurrencies and arrival rates are other levels, and never on one axis."""
    profile = load({8: 16, "4/s": 12})
    titles = [
        parsed(one.picture).findtext("title", "") for one in view(Window.of(pair(profile=profile), speeds={})).over_load
    ]

    assert titles == [
        f"{metric} over {along}"
        for along in ("concurrency", "arrival rate [requests/s]")
        for metric in ("output throughput", "TTFT p50", "decode rate p50")
    ]


@pytest.mark.parametrize(
    ("rounds", "words"),
    [
        (1, "Points: single boots. There is one of each arm, so nothing tells how far boots scatter."),
        (
            3,
            "bars: 95 % t intervals of the means, their scatter pooled over the arms at a level (6 degrees of freedom)",
        ),
    ],
)
def test_what_the_bars_are_is_said(rounds: int, words: str) -> None:
    """A reader is told which interval it is, and of what."""
    assert words in view(three_arms(rounds)).interval


def test_times_are_told_in_milliseconds() -> None:
    """Seconds become milliseconds where they are drawn, with their intervals."""
    found = next(one for one in view(three_arms(2)).over_load if one.title == "TTFT p50 [ms]")

    assert parsed(found.picture).findtext("desc", "").startswith("TTFT p50 in ms. off: 1 ")
    assert having(parsed(found.picture), "whisker")


def test_many_rounds_are_a_range() -> None:
    """Of more than four rounds the table shows the smallest and the greatest change."""
    window = gated(three_arms(6), not_worse("output_throughput", at=8, margin="4%", noise=FLOOR))
    found = reported(window)
    figures = Figures(found)
    cards = [card(one, found, name="t1") for one in found.verdicts]
    levels = list(pair_levels(figures.readable[0], figures, cards))
    row = levels[1].rows[0]

    reference, candidate = (figures.values(name, 8, "output_throughput") for name in ("off", "k4"))
    changes = [100 * (right / left - 1) for left, right in zip(reference, candidate, strict=True)]
    assert len(changes) == 6
    assert row.rounds == f"{min(changes):+.1f} to {max(changes):+.1f}"
    assert [one.name for one in row.cards] == ["t1"]


def test_a_metric_that_cannot_be_had_says_why() -> None:
    """Its row has the reason in place of a change, and no values."""
    window = three_arms(2).with_requests("k4", 2, at=1, last_token_s=0.05, ttft_s=0.05)
    figures = Figures(reported(window))
    first, *_ = pair_levels(figures.readable[0], figures, [])
    row = next(row for row in first.rows if row.metric.startswith("decode rate"))

    assert (row.reference, row.candidate, row.rounds) == (NOTHING, NOTHING, NOTHING)
    assert row.change.startswith("no decode_rate_p50: ")


def test_a_claim_that_must_not_be_judged_hides_its_figures() -> None:
    """Where a claim is INVALID though its point is not, the row says so in place of its change."""
    window = gated(paced(three_arms(2), {}), not_worse("inter_chunk_p50", at=8, margin="4%", noise=FLOOR))
    found = reported(window)
    figures = Figures(found)
    cards = [card(one, found, name="t1") for one in found.verdicts]
    row = list(pair_levels(figures.readable[0], figures, cards))[1].rows[-1]

    assert row.metric == "inter-chunk latency p50 [ms]"
    assert (row.reference, row.candidate) == (NOTHING, NOTHING)
    assert row.change.startswith("not judged (")


def test_sampled_answers_are_not_compared_and_said_not_to_be() -> None:
    """At another temperature than 0 a note says why nobody compared the answers."""
    window = three_arms(2)
    profile = dataclasses.replace(window.record.profile, temperature=0.7)

    assert any("temperature 0.7" in note for note in view(edited(window, profile=profile)).notes)
