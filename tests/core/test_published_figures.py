"""The figures of a published study: what follows from them is recomputed to every printed digit, the rest is listed."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

import pytest

from pytest_specgate.core.acceptance import AcceptanceCurve
from pytest_specgate.core.metrics import metric
from tests.core.published import (
    CEILING,
    CURVES,
    FINDINGS,
    NOT_PUBLISHED,
    OTHERS,
    RECOMPUTED,
    WINDOWS,
    ceiling_of_k4,
    change_percent,
    counts_of,
    rounded,
    unrounded,
    value_of,
)


def test_nothing_was_dropped() -> None:
    """The data hold as many figures of each kind as are printed, repetitions included."""
    rows = WINDOWS.values()
    restated = OTHERS["restated"]

    assert len(rows) == 19
    assert sum(row["percent"] is not None for row in rows) == 13
    assert sum(row["reference"] is not None for row in rows) == 14
    assert all((row["reference"] is None) == (row["candidate"] is None) for row in rows)
    assert sum(row["ratio"] is not None for row in rows) == 1
    assert [len(row["per_position"]) for row in CURVES.values()] == [7, 4, 4]
    assert sum(row["times"] for row in restated) == 13
    assert sum(row["times"] for row in restated if row["unit"] == "%") == 5
    assert [(row["printed"], row["times"]) for row in OTHERS["without_inputs"]] == [("0.4", 2), ("0.2", 1)]
    assert {kind: len(FINDINGS[kind]) for kind in ("rounding", "statements", "borne_out")} == {
        "rounding": 2,
        "statements": 14,
        "borne_out": 6,
    }


@pytest.mark.parametrize("name", WINDOWS)
def test_a_comparison_is_named_by_its_arms_metric_and_level(name: str) -> None:
    """The name of a comparison says candidate, reference, metric and concurrency."""
    row = WINDOWS[name]
    arms = [f"k{row[arm]}" if row[arm] else "off" for arm in ("candidate_k", "reference_k")]
    short = row["metric"].removesuffix("_p50").removeprefix("output_").removesuffix("_rate")

    assert name == f"{'-'.join(arms)}-{short}-c{row['concurrency']}"
    assert (row["statistic"] == "p50") == row["metric"].endswith("_p50")


def test_percentages_without_published_inputs() -> None:
    """Five printed percentages cannot be recomputed, since no value of either arm is printed."""
    found = [f"{name} {WINDOWS[name]['percent']} %" for name in NOT_PUBLISHED]

    assert found == [
        "k4-k7-throughput-c1 +7.14 %",
        "k4-k7-throughput-c8 +15.55 %",
        "k4-off-throughput-c8 +17.83 %",
        "k4-off-throughput-c32 -0.83 %",
        "k3-k4-throughput-c32 +4.70 %",
    ]


@pytest.mark.parametrize("name", RECOMPUTED)
def test_printed_percentages(name: str) -> None:
    """Each percentage with its inputs comes out to the printed digit, signed as printed; one is rounded otherwise."""
    row = WINDOWS[name]
    values = Decimal(row["reference"]), Decimal(row["candidate"])
    found = rounded(change_percent(row, *values), row["percent"])

    assert f"{found:+}" == ("+113.86" if name == "k7-off-decode-c1" else row["percent"])


@pytest.mark.parametrize("name", RECOMPUTED)
def test_printed_percentages_of_unrounded_values(name: str) -> None:
    """Each percentage can come of values that round to the printed ones, and so can the one that differs."""
    row = WINDOWS[name]
    values = itertools.product(unrounded(row["reference"]), unrounded(row["candidate"]))
    found = [change_percent(row, *pair) for pair in values]
    least, greatest = unrounded(row["percent"])

    assert min(found) <= greatest
    assert least <= max(found)


@pytest.mark.parametrize("name", WINDOWS)
def test_which_way_a_value_moves(name: str) -> None:
    """A printed plus is a gain, so it is a fall of a time: +37.80 % of a TTFT is 28005.49 falling to 17419.78 ms."""
    row = WINDOWS[name]
    moves = {"rise": 1, "fall": -1}[row["moves"]]
    if row["reference"]:
        assert moves * (value_of(name) - value_of(name, "reference")) > 0
    if row["percent"]:
        assert moves * float(row["percent"]) * (1 if metric(row["metric"]).higher_is_better else -1) > 0


def test_printed_ratio() -> None:
    """The one printed ratio is candidate / reference to the printed digit."""
    (row,) = (row for row in WINDOWS.values() if row["ratio"])

    assert row["id"] == "k7-off-decode-c1"
    assert str(rounded(Decimal(row["candidate"]) / Decimal(row["reference"]), row["ratio"])) == row["ratio"]


@pytest.mark.parametrize("row", OTHERS["restated"], ids=lambda row: row["printed"])
def test_restated_figures(row: dict[str, Any]) -> None:
    """Figures that are printed again, often with fewer digits, are those that they repeat."""
    first, *more = (_cell(*cell) for cell in row["of"])
    value = {
        "ms as s": lambda: first / 1000,
        "rounded": lambda: first,
        "change": lambda: 100 * (more[0] / first - 1),
    }[row["how"]]()

    assert rounded(value, row["printed"]) == Decimal(row["printed"])


def _cell(name: str, key: str, position: int | None = None) -> Decimal:
    found = (WINDOWS | CURVES)[name][key]
    return Decimal(found if position is None else found[position - 1])


def test_the_curve_of_the_long_horizon() -> None:
    """Counters of the k=7 window give each printed share of drafts, and drafts that were never short."""
    printed, curve = CURVES["k7-window"], AcceptanceCurve(counts_of("k7-window"))

    assert [f"{100 * rate.value:.2f}" for rate in curve.rates] == printed["per_position"]
    assert f"{curve.counts.draft_length:.1f}" == printed["draft_length"]
    assert (curve.k, curve.short_drafts) == (printed["k"], 0)


def test_the_curve_of_the_probe() -> None:
    """Counters of the k=4 probe give the printed length, rate and shares by position."""
    printed, curve = CURVES["k4-probe-t0.0"], AcceptanceCurve(counts_of("k4-probe-t0.0"))

    assert f"{curve.acceptance_length.value:.4f}" == printed["acceptance_length"]
    assert f"{100 * curve.acceptance_rate.value:.2f}" == printed["acceptance_percent"]
    assert [f"{rate.value:.3f}" for rate in curve.rates] == printed["per_position"]
    assert (curve.k, curve.short_drafts) == (printed["k"], 0)


def test_the_counts_by_position_of_the_probe_are_one_choice_of_many() -> None:
    """22 choices of counts sum to the accepted tokens and round to the printed rates; ours is nearest to the rates."""
    row = CURVES["k4-probe-t0.0"]
    rates = [float(rate) for rate in row["per_position"]]
    fitting = [
        [count for count in range(row["drafts"] + 1) if f"{count / row['drafts']:.3f}" == rate]
        for rate in row["per_position"]
    ]
    choices = [counts for counts in itertools.product(*fitting) if sum(counts) == row["accepted_tokens"]]
    nearest = min(choices, key=lambda counts: math.dist(counts, [row["drafts"] * rate for rate in rates]))

    assert len(choices) == row["possible_choices"]
    assert (2508, 1607, 1033, 590) in choices
    assert list(nearest) == row["chosen_per_position"]


@pytest.mark.parametrize("name", ["k4-probe-t0.0", "k4-probe-t0.8"])
def test_printed_rates_sum_to_the_printed_length(name: str) -> None:
    """1 + the sum of the rates is the printed acceptance length, as far as rates of three digits tell."""
    row = CURVES[name]
    bounds = [unrounded(rate) for rate in row["per_position"]]
    least, greatest = (1 + sum(ends) for ends in zip(*bounds, strict=True))

    assert least <= Decimal(row["acceptance_length"]) <= greatest


def test_the_ceiling() -> None:
    """5 tokens in 23.38 ms are 213.9 tokens/s, of which 200 need an acceptance length of 4.68."""
    found = ceiling_of_k4()
    assert found.target is not None

    assert f"{found.speed_tokens_per_s:.1f}" == "113.3"
    assert f"{found.ceiling_tokens_per_s:.1f}" == "213.9"
    assert CEILING["ceiling_tokens_per_s"] == f"{math.floor(10 * found.ceiling_tokens_per_s) / 10:.1f}"
    assert f"{found.target.tokens_per_step:.2f}" == "4.68"
    assert found.target.reachable
