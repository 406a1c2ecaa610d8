"""What a page may draw of a window: the boots and points that are valid, their means, and how sure these are."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from pytest_specgate.reporting.page_figures import Figures, degrees, half_width
from tests.reporting.conftest import Window, pair
from tests.reporting.page_runs import LEVELS, load, reported, three_arms

if TYPE_CHECKING:
    from pytest_specgate.core.levels import Level


def figures(window: Window) -> Figures:
    """Return what may be drawn of a window."""
    return Figures(reported(window))


def test_intervals_pool_the_scatter_of_arms() -> None:
    """Half a width is t times the pooled standard deviation of logarithms, with the degrees of freedom of all arms."""
    arms = [(60.1, 61.5), (84.0, 85.3, 83.2), (89.9,), ()]
    logs = [np.log(np.array(values)) for values in arms if values]
    pooled = math.sqrt(sum(float(((one - one.mean()) ** 2).sum()) for one in logs) / 3)

    assert degrees(arms) == 3
    assert half_width(arms) == pytest.approx(float(stats.t.ppf(0.975, 3)) * pooled)


def test_a_single_boot_has_no_interval() -> None:
    """Where no arm has a second boot, nothing tells how far boots scatter."""
    assert half_width([(60.0,), (84.0,)]) is None
    assert half_width([]) is None


def test_means_are_geometric_and_intervals_lie_around_them() -> None:
    """The interval of a mean of n boots is that of a boot divided by the root of n, on the scale of ratios."""
    found = figures(three_arms(3))
    line = next(one for one in found.lines("output_throughput", found.arms) if one.name == "k4")
    cell = next(one for one in line.cells if one.label == "32")
    values = found.values("k4", 32, "output_throughput")
    half = half_width([found.values(arm.name, 32, "output_throughput") for arm in found.arms])

    assert len(values) == 3
    assert cell.mean == pytest.approx(math.exp(sum(map(math.log, values)) / 3))
    assert half is not None
    assert cell.high is not None
    assert cell.low is not None
    assert math.log(cell.high / cell.mean) == pytest.approx(half / math.sqrt(3))
    assert cell.low * cell.high == pytest.approx(cell.mean**2)


def test_all_arms_and_levels_of_a_valid_window_are_there() -> None:
    """Lines have the arms in the order in which they were declared, and cells by rising load."""
    found = figures(three_arms(2))

    assert [(line.name, line.style) for line in found.lines("ttft_p50", found.arms)] == [
        ("off", 0),
        ("k4", 1),
        ("k7", 2),
    ]
    assert [[cell.x for cell in line.cells] for line in found.lines("ttft_p50", found.arms)] == [[1, 8, 32]] * 3
    assert list(found.left_out()) == []


def test_an_arm_of_a_valid_pair_keeps_its_figures() -> None:
    """Where one pair is not valid, the arms of the other are shown, with the boots of that pair."""
    found = figures(three_arms(2).with_death("k7", 2))

    assert [pair.title for pair in found.readable] == ["k4 against off"]
    assert [line.name for line in found.lines("output_throughput", found.arms)] == ["off", "k4"]
    assert list(found.left_out()) == ["k7 is left out (server-died): arm k7: its server left"]


def test_arms_are_known_by_their_names() -> None:
    """The arms of a record have lost their secrets, so they are no longer equal to those that were declared."""
    window = three_arms(2)
    arms = tuple(dataclasses.replace(arm, env={"HF_TOKEN": "***"}) for arm in window.record.arms)
    found = figures(dataclasses.replace(window, record=window.record.model_copy(update={"arms": arms})))

    assert [line.name for line in found.lines("output_throughput", found.arms)] == ["off", "k4", "k7"]
    assert list(found.left_out()) == []


def test_a_point_is_shown_where_one_of_its_pairs_can_be_judged() -> None:
    """A point of k7 that failed takes k7 away at this level, and leaves off and k4, whose pair is whole."""
    found = figures(three_arms(2).with_requests("k7", 1, at=8, error="HTTP 500", status=500))
    shown = {line.name: [cell.x for cell in line.cells] for line in found.lines("output_throughput", found.arms)}

    assert shown == {"off": [1, 8, 32], "k4": [1, 8, 32], "k7": [1, 32]}
    assert [line.split(" is left out")[0] for line in found.left_out()] == ["k7 at c=8"]


def test_a_value_that_one_boot_has_not_is_no_mean() -> None:
    """Of a metric that could not be had in every boot there is no figure, and the reason is told."""
    window = three_arms(2).with_requests("k4", 2, at=1, last_token_s=0.05, ttft_s=0.05)
    found = figures(window)
    lines = {line.name: [cell.x for cell in line.cells] for line in found.lines("decode_rate_p50", found.arms)}

    assert lines["off"] == [1, 8, 32]
    assert lines["k4"] == [8, 32]
    assert next(found.missing("decode_rate_p50")).startswith("k4 at c=1: no decode_rate_p50: ")


def test_changes_are_those_of_the_pair() -> None:
    """The change at a level is the geometric mean of the ratios of its rounds."""
    found = figures(three_arms(3))
    pair = found.readable[1]
    cells = {cell.x: cell for cell in found.changes(pair, "output_throughput")}
    ratios = [
        candidate / reference
        for reference, candidate in zip(
            found.values("k4", 8, "output_throughput"), found.values("k7", 8, "output_throughput"), strict=True
        )
    ]

    assert set(cells) == set(LEVELS)
    assert cells[8].values == pytest.approx([ratio - 1 for ratio in ratios])
    assert cells[8].mean == pytest.approx(math.exp(sum(map(math.log, ratios)) / 3) - 1)


@pytest.mark.parametrize(
    ("requests", "along", "labels"),
    [
        ({1: 10, "1 T=0.8": 10, 8: 16, "8 T=0.8": 16}, "concurrency at temperature 0", {1.0: "1", 8.0: "8"}),
        ({1: 10, "8 T=0": 16, "32 T=0.8": 32}, "concurrency at temperature 0", {1.0: "1", 8.0: "8"}),
        ({"1 T=1": 10, "1 T=0.8": 10, "8 T=0.8": 16}, "concurrency at temperature 0.8", {1.0: "1", 8.0: "8"}),
        ({"1 T=0.8": 10, "8 T=0.8": 16}, "concurrency", {1.0: "1", 8.0: "8"}),
    ],
)
def test_lines_over_load_have_one_temperature(requests: dict[Level, int], along: str, labels: dict[float, str]) -> None:
    """A load has one place: at the profile's temperature, else at the lowest, which is told where there are more."""
    one = pair(profile=load(requests))
    found = figures(Window.of(one, speeds={}))
    [line, _] = found.lines("output_throughput", found.arms)
    levels = found.along(open_loop=False)

    assert levels is not None
    assert (levels.name, levels.labels) == (along, labels)
    assert {cell.x: cell.label for cell in line.cells} == labels
    assert {cell.x: cell.label for cell in found.changes(found.readable[0], "output_throughput")} == labels
    assert found.along(open_loop=True) is None


def test_each_kind_of_load_has_its_own_temperature() -> None:
    """Rates that were sent at another temperature than all concurrencies are drawn all the same, under theirs."""
    found = figures(Window.of(pair(profile=load({1: 10, "4/s T=0.8": 12})), speeds={}))
    levels = found.along(open_loop=True)

    assert levels is not None
    assert (levels.name, levels.labels) == ("arrival rate [requests/s] at temperature 0.8", {4.0: "4/s"})


def test_acceptance_is_pooled_before_it_is_divided() -> None:
    """Rates by position are accepted tokens of all boots over drafts of all boots."""
    found = figures(three_arms(2))
    lines = {line.name: [cell.mean for cell in line.cells] for line in found.acceptance(8, found.arms)}

    assert lines == {"k4": [0.75, 0.5, 0.25, 0.0], "k7": [0.75, 0.5, 0.25, 0.0, 0.0, 0.0, 0.0]}


def test_an_unfinished_round_is_not_shown() -> None:
    """A boot whose partner never ran is in no figure: nobody can say that it had the same load."""
    window = three_arms(2)
    boots = tuple(boot for boot in window.record.boots if (boot.arm, boot.round) != ("off", 2))
    found = figures(dataclasses.replace(window, record=window.record.model_copy(update={"boots": boots})))

    assert [boot.round for boot in found.boots("off", 1)] == [1]
    assert [boot.round for boot in found.boots("k4", 1)] == [1, 2]
