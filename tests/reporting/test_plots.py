"""Plots over load and over positions: every mark lies where the ticks of its axes say that its value lies."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.reporting import plots
from pytest_specgate.reporting.plots import Cell, Levels, Line
from tests.reporting.svg_reading import centre, having, parsed, points, tip, values_along_x, values_along_y

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

LEVELS = Levels("concurrency", {1: "1", 8: "8", 32: "32"})
OFF = Line("off", 0, (Cell(1, "1", 60.0, (55.0, 65.5)), Cell(8, "8", 250.0, (240.0, 260.4)), Cell(32, "32", 365.0)))
K4 = Line("k4", 1, (Cell(1, "1", 84.0), Cell(8, "8", 249.0), Cell(32, "32", 351.0, low=300.0, high=400.0)))


def drawn(lines: Sequence[Line], levels: Levels = LEVELS) -> Element:
    """Return a plot over load."""
    return parsed(plots.over_load(lines, levels, name="p", title="throughput", unit="tokens/s"))


def test_means_lie_at_their_values() -> None:
    """Each arm's markers have the heights of its means, from left to right."""
    found = drawn([OFF, K4])
    value = values_along_y(found)

    for line, name in ((OFF, "arm-1"), (K4, "arm-2")):
        (group,) = having(found, name)
        marks = sorted(map(centre, having(group, "mark")))
        assert [value(height) for _, height in marks] == pytest.approx([cell.mean for cell in line.cells], rel=2e-3)


@given(st.lists(st.floats(1e-3, 1e6), min_size=3, max_size=3), st.floats(0, 0.5))
def test_whatever_the_values_are_they_lie_where_they_must(means: list[float], spread: float) -> None:
    """On plain and on logarithmic axes, heights tell the values of means and of single boots."""
    cells = tuple(
        Cell(x, f"{x}", mean, (mean, mean * (1 + spread)), mean / 3, mean * 3)
        for x, mean in zip((1, 8, 32), means, strict=True)
    )
    found = drawn([Line("off", 0, cells)])
    log = "logarithmic" in found.findtext("desc", "")
    value = values_along_y(found, log=log)

    shown = [value(centre(one)[1]) for one in sorted(having(found, "mark"), key=centre)]
    dots = sorted((centre(one) for one in having(found, "dot")), key=lambda place: (place[0], -place[1]))
    slack = 0.01 * max(means)
    assert shown == pytest.approx(means, rel=0.02 if log else 1e-2, abs=0 if log else slack)
    assert [value(height) for _, height in dots] == pytest.approx(
        [one for mean in means for one in (mean, mean * (1 + spread))], rel=0.02, abs=0 if log else slack
    )


def test_equal_ratios_of_load_are_equally_far_apart() -> None:
    """From 1 to 8 it is as far as from 4 to 32, whether all of these are levels or not."""
    levels = Levels("concurrency", {1: "1", 4: "4", 8: "8", 32: "32"})
    found = drawn([Line("off", 0, tuple(Cell(x, f"{x}", 5.0) for x in (1, 4, 8, 32)))], levels)
    one, four, eight, many = sorted(centre(mark)[0] for mark in having(found, "mark"))

    assert eight - one == pytest.approx(many - four, abs=0.05)
    assert four - one == pytest.approx((eight - one) * 2 / 3, abs=0.05)


def test_arms_stand_beside_each_other() -> None:
    """At one level each arm has a place of its own, in the same order everywhere, around the place of the level."""
    found = drawn([OFF, K4])
    (first,), (second,) = having(found, "arm-1"), having(found, "arm-2")
    left, right = (sorted(centre(mark)[0] for mark in having(group, "mark")) for group in (first, second))
    ticks = sorted(float(one.get("x", "nan")) for one in having(found, "tick") if one.get("text-anchor") == "middle")

    assert [b - a for a, b in zip(left, right, strict=True)] == pytest.approx([7.0] * 3, abs=0.02)
    assert [(a + b) / 2 for a, b in zip(left, right, strict=True)] == pytest.approx(ticks, abs=0.02)


def test_a_single_level_lies_in_the_middle() -> None:
    """One level needs no axis to be read."""
    found = drawn([Line("off", 0, (Cell(8, "8", 5.0),))], Levels("concurrency", {8: "8"}))
    (mark,) = having(found, "mark")
    grid = points(having(found, "zero")[0].get("d", ""))

    assert centre(mark)[0] == pytest.approx((grid[0][0] + grid[1][0]) / 2, abs=0.02)
    assert having(found, "line") == []


def test_a_level_without_a_figure_is_a_gap() -> None:
    """No line is drawn across a level of which nothing is known, and its tick stays."""
    levels = Levels("concurrency", {1: "1", 8: "8", 32: "32", 64: "64"})
    cells = (Cell(1, "1", 5.0), Cell(32, "32", 6.0), Cell(64, "64", 7.0))
    found = drawn([Line("off", 0, cells)], levels)
    (line,) = having(found, "line")
    below = [one.text for one in having(found, "tick") if one.get("text-anchor") == "middle"]

    assert line.get("d", "").count("M") == 1
    assert len(points(line.get("d", ""))) == 2
    assert below == ["1", "8", "32", "64"]


def test_single_boots_are_dots_with_their_figures() -> None:
    """Where an arm has several boots each is a dot that tells its value; one boot is its own mean."""
    found = drawn([OFF])
    value = values_along_y(found)
    dots = having(found, "dot")

    assert [value(centre(one)[1]) for one in dots] == pytest.approx([55, 65.5, 240, 260.4], rel=5e-3)
    assert tip(dots[3]) == "off, boot 2, 8: 260.4 tokens/s"
    assert [tip(one) for one in having(found, "mark")][1] == "off, 8: 250.0 tokens/s"


def test_intervals_end_where_they_end() -> None:
    """A bar reaches from the lower to the upper end, and both have a stroke across."""
    found = drawn([K4])
    value = values_along_y(found)
    bar, *ends = [points(one.get("d", "")) for one in having(found, "whisker")]

    assert sorted(value(height) for _, height in bar) == pytest.approx([300, 400], rel=2e-3)
    assert sorted(value(end[0][1]) for end in ends) == pytest.approx([300, 400], rel=2e-3)


def test_an_interval_that_is_much_wider_than_everything_else_is_cut_off() -> None:
    """It does not flatten the rest: its end lies at the edge, without a stroke across."""
    wide = Line("off", 0, (Cell(1, "1", 100.0, (99.0, 101.0), 20.0, 90000.0), Cell(8, "8", 110.0)))
    found = drawn([wide], Levels("concurrency", {1: "1", 8: "8"}))
    value = values_along_y(found)
    _, *ends = having(found, "whisker")

    assert value(12.0) < 200
    assert len(ends) == 1


def test_arms_differ_in_more_than_their_colour() -> None:
    """Sixteen arms have sixteen combinations of colour, marker and dash, and neighbours share none of the three."""
    looks = [(plots.colour(style), plots.shape(style), plots.dash(style)) for style in range(16)]

    assert len(set(looks)) == 16
    for one, other in itertools.pairwise(looks):
        assert not set(one) & set(other)


def test_a_legend_shows_what_is_drawn() -> None:
    """The sample of an arm has its colour, marker and dash."""
    found = parsed(plots.swatch(1))
    (line,), (mark,) = having(found, "line"), having(found, "mark")

    assert [one.tag for one in having(found, "arm-2")] == ["g"]
    assert line.get("stroke-dasharray") == plots.dash(1)
    assert mark.get("d", "").count("L") == 3
    assert having(parsed(plots.swatch(1, tone="ink")), "ink")


def test_all_figures_are_told_to_those_who_do_not_see_them() -> None:
    """The description holds every mean of every arm, with the unit."""
    found = drawn([OFF, K4])

    assert found.findtext("title") == "throughput over concurrency"
    assert found.findtext("desc") == (
        "throughput in tokens/s. off: 1 60.00, 8 250.0, 32 365.0. k4: 1 84.00, 8 249.0, 32 351.0."
    )


def test_acceptance_lies_at_its_share_and_position() -> None:
    """Each position of a draft has the share of drafts in which it was accepted, between 0 and 100 %."""
    shares = (0.72, 0.48, 0.3, 0.17)
    line = Line("k4", 1, tuple(Cell(place, f"{place}", share) for place, share in enumerate(shares)))
    found = parsed(plots.by_position([line], name="p", title="accepted at c=8"))
    across, along = values_along_y(found), values_along_x(found)
    places = [centre(one) for one in having(found, "mark")]

    assert [across(height) / 100 for _, height in places] == pytest.approx(shares, abs=1e-3)
    assert [along(place) for place, _ in places] == pytest.approx(range(4), abs=1e-2)
    assert tip(having(found, "mark")[0]) == "k4, 0: 72.0 % of drafts"


def test_changes_lie_around_the_line_at_which_nothing_changes() -> None:
    """Changes above 0 lie above it, others below, each as far as it is large."""
    cells = (Cell(1, "1", 1.14, (1.1, 1.18)), Cell(8, "8", 0.18), Cell(32, "32", -0.0946))
    line = Line("output throughput", 0, cells, tone="ink")
    found = parsed(plots.change_over_load([line], LEVELS, name="p", title="k7 against off"))
    value = values_along_y(found)
    (zero,) = having(found, "zero")

    marks = [value(centre(one)[1]) / 100 for one in having(having(found, "ink")[0], "mark")]
    assert marks == pytest.approx([1.14, 0.18, -0.0946], abs=5e-3)
    assert value(points(zero.get("d", ""))[0][1]) == pytest.approx(0, abs=0.1)
    assert found.findtext("desc") == "output throughput: 1 +114.0 %, 8 +18.0 %, 32 -9.5 %."


def test_changes_are_told_as_changes_of_rounds() -> None:
    """Tooltips of changes have a sign, name rounds, and have no negative zero."""
    line = Line("output throughput", 0, (Cell(1, "1", 0.14, (0.1, 0.18)), Cell(8, "8", -0.0002, (-0.0001, 0.0))))
    found = parsed(plots.change_over_load([line], LEVELS, name="p", title="k7 against off"))

    assert [tip(one) for one in having(found, "dot")] == [
        "output throughput, round 1, 1: +10.0 %",
        "output throughput, round 2, 1: +18.0 %",
        "output throughput, round 1, 8: +0.0 %",
        "output throughput, round 2, 8: +0.0 %",
    ]
    assert tip(having(found, "mark")[0]) == "output throughput, 1: +14.0 %"
    assert found.findtext("desc") == "output throughput: 1 +14.0 %, 8 +0.0 %."


def test_nothing_drawn_is_infinite() -> None:
    """Equal values, zeros and single cells all have places."""
    for mean in (0.0, 5.0):
        found = drawn([Line("off", 0, (Cell(1, "1", mean, (mean, mean), mean, mean),))], Levels("c", {1: "1"}))
        assert all(math.isfinite(height) for mark in having(found, "mark") for height in centre(mark))
