"""The section of a page that tells which k: its place, its plots, its table and its words."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import counters
from pytest_specgate.reporting import plots
from pytest_specgate.reporting.knee_words import ASSUMED
from pytest_specgate.reporting.page import html_page
from pytest_specgate.reporting.page_figures import Figures
from pytest_specgate.reporting.page_knee import KneeView, knee_view
from pytest_specgate.reporting.plots import Cell, Line
from tests.reporting.conftest import Window, pair
from tests.reporting.page_reading import read
from tests.reporting.page_runs import HOSTILE, reported, session, smallest, three_arms
from tests.reporting.svg_reading import centre, having, parsed, points, tip, values_along_x, values_along_y

if TYPE_CHECKING:
    from pytest_specgate.core.counters import CounterPage


@pytest.fixture(scope="module", name="knee")
def knee_of_three_arms() -> KneeView:
    """Return the section of a window of off, k=4 and k=7."""
    found = knee_view(Figures(reported(three_arms())), name="w1")
    assert found is not None
    return found


def test_the_section_stands_after_identity_and_speculation() -> None:
    """Its heading, the advice of each objective, and what predictions assume."""
    page = read(html_page(session(reported(three_arms()))))
    (window,) = page.having("window")
    headings = [one.text for one in window.named("h3")]
    advice = [one.text for one in window.having("advice")]

    assert headings.index("Speculation") + 1 == headings.index("Which k") == headings.index("Boots and client") - 1
    assert [text.partition(" (")[0] for text in advice] == ["per-user speed", "batch throughput", "latency"]
    assert window.text.index("fields identical") < window.text.index("Which k")
    assert ASSUMED in window.text
    assert "would change it:" in window.text


def test_windows_in_which_no_horizons_met_have_none() -> None:
    """One that is INVALID, and one without speculation."""
    invalid = Window.of(pair(), speeds={}).with_field("off", 2, temperature=0.7)
    pages = [html_page(session(reported(invalid))), html_page(smallest())]

    assert ["Which k" in page for page in pages] == [False, False]


def test_acceptance_has_bars_and_the_cut(knee: KneeView) -> None:
    """Every rate of each horizon lies where the axis says, within its interval; the cut lies at 20 %."""
    (drafter,) = knee.drafters
    shown = parsed(drafter.figures[0].picture)
    height, across = values_along_y(shown), values_along_x(shown)
    (cut,) = having(shown, "margin")
    marks = [centre(one) for one in having(shown, "mark")]

    assert drafter.figures[0].title == "acceptance by position and the cut at c=1"
    assert [name for name, _ in drafter.figures[0].legend] == ["k4", "k7"]
    assert {round(height(y)) for _, y in points(cut.get("d", ""))} == {20}
    assert sorted(round(across(x)) for x, _ in marks) == [1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7]
    assert sorted({round(height(y)) for _, y in marks}) == [0, 25, 50, 75]
    assert len(having(shown, "whisker")) >= 2 * len(marks)
    assert "The cut lies at 20 %" in shown.findtext("desc", "")


def test_what_nobody_measured_is_hollow(knee: KneeView) -> None:
    """The speed of every horizon at the lowest and the highest load; measured ones are filled."""
    (drafter,) = knee.drafters
    figure = drafter.figures[-1]
    shown = parsed(figure.picture)
    hollow = having(shown, "hollow")

    assert figure.title == "speed of one stream by k [tokens/s]"
    assert [name for name, _ in figure.legend] == ["c=1", "c=32"]
    assert len(having(shown, "mark")) == 2 * 8
    assert [tip(one) for one in hollow if tip(one).startswith("c=1,")] == [
        tip(one) for one in having(shown, "mark") if tip(one).startswith("c=1,") and tip(one)[5] in "12356"
    ]
    assert len(hollow) == 2 * 5


def test_the_table_tells_each_horizon(knee: KneeView) -> None:
    """Two loads, off first; measured rows are called measured."""
    (drafter,) = knee.drafters
    rows = [row for row in drafter.table.rows if row[0] == "c=1"]

    assert [row[1] for row in rows] == ["off", "k=1", "k=2", "k=3", "k=4", "k=5", "k=6", "k=7"]
    assert [row[1] for row in rows if row[-1] == "measured"] == ["off", "k=4", "k=7"]
    assert any(line.startswith("k=4 at c=1 falls under 20 %") for line in drafter.crossings)


def _with_short_drafts(window: Window) -> Window:
    """Return a window in which a quarter of all draft tokens was not proposed."""

    def shorter(page: CounterPage) -> CounterPage:
        samples = (
            one.model_copy(update={"value": 0.75 * one.value}) if one.name == counters.DRAFT_TOKENS else one
            for one in page.samples
        )
        return page.model_copy(update={"samples": tuple(samples)})

    boots = []
    for boot in window.record.boots:
        points = (
            point.model_copy(update={"before": shorter(point.before), "after": shorter(point.after)})
            for point in boot.points
        )
        boots.append(boot.model_copy(update={"points": tuple(points)}))
    return dataclasses.replace(window, record=window.record.model_copy(update={"boots": tuple(boots)}))


def test_what_is_said_of_acceptance_has_its_load() -> None:
    """Two loads stand below each other without a head: no line fits both."""
    found = knee_view(Figures(reported(_with_short_drafts(three_arms(rounds=1)))), name="w1")
    assert found is not None
    (drafter,) = found.drafters
    short = [line.partition(":")[0] for line in drafter.crossings if "draft length" in line]
    intervals = [line for line in drafter.crossings if line.startswith("intervals")]

    assert short == ["k=4 at c=1", "k=7 at c=1", "k=4 at c=32", "k=7 at c=32"]
    assert len(intervals) == 2
    assert intervals[0].startswith("intervals of k=4 at c=1, k=7 at c=1: 95 %, over 40 drafts")
    assert intervals[1].startswith("intervals of k=4 at c=32, k=7 at c=32: 95 %, over 256 drafts")


def test_several_drafters_and_what_was_ruled_out_have_their_names() -> None:
    """Whatever is written there is text."""
    off = three_arms()
    config = {"method": "eagle3", "model": "small", "num_speculative_tokens": 4}
    other = dataclasses.replace(pair(), candidate=pair().reference.vary("e4", args={"speculative_config": config}))
    window = Window.of(*off.pairs, dataclasses.replace(other, profile=off.record.profile), speeds={})
    record = window.record.model_copy(update={"ruled_out": {"k9": HOSTILE}})
    page = read(html_page(session(reported(dataclasses.replace(window, record=record)))))
    (shown,) = page.having("window")

    assert [one.text for one in shown.named("h4") if one.text in {"ngram", "eagle3 small"}] == ["ngram", "eagle3 small"]
    assert shown.named("script") == []
    assert "k9: </script></svg>" in shown.text


def test_without_any_speed_there_is_no_plot_of_speeds() -> None:
    """A line of nothing would be none."""
    lines = [Line("c=1", 0, (Cell(0, "off", 50.0), Cell(1, "1", 60.0, hollow=True)))]
    shown = parsed(plots.over_horizons(lines, name="p", title="speed", unit="tokens/s"))
    height, marks = values_along_y(shown), [centre(one) for one in having(shown, "mark")]

    assert [height(y) for _, y in marks] == pytest.approx([50.0, 60.0], rel=1e-2)
    assert shown.findtext("desc") == "speed in tokens/s. c=1: off 50.00, 1 60.00."
    assert [one.get("class") for one in having(shown, "mark")] == ["mark", "mark hollow"]
