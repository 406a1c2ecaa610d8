"""The figures of a published study: what follows from them is recomputed to every printed digit, the rest is listed."""

from __future__ import annotations

import itertools
import json
import math
import re
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_specgate.core.acceptance import AcceptanceCurve
from pytest_specgate.core.ceiling import Ceiling, ceiling
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.speculation import SpeculationDelta

HERE: Final = Path(__file__).parents[1] / "data" / "published"
PAGE: Final = Path(__file__).parents[2] / "docs" / "published-windows.md"
TITLE: Final = "## What follows from the printed figures, and what does not"


def _data(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return found


def _by_id(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


WINDOWS: Final = _by_id(_data("windows")["comparisons"])
CURVES: Final = _by_id(_data("acceptance")["curves"])
CEILING: Final = _data("ceiling")
OTHERS: Final = _data("others")
FINDINGS: Final = _data("findings")

RECOMPUTED: Final = [name for name, row in WINDOWS.items() if row["percent"] and row["reference"]]
"""Comparisons whose percentage and whose values are printed."""

NOT_PUBLISHED: Final = [name for name, row in WINDOWS.items() if row["percent"] and not row["reference"]]
"""Comparisons of which the percentage alone is printed."""


def _rounded(value: Decimal, printed: str) -> Decimal:
    """Round as many digits off as were printed."""
    return value.quantize(Decimal(printed), ROUND_HALF_UP)


def _unrounded(printed: str) -> tuple[Decimal, Decimal]:
    """Return the least and the greatest value that rounds to what was printed."""
    value = Decimal(printed)
    half = Decimal((0, (5,), int(value.as_tuple().exponent) - 1))
    return value - half, value + half


def _percent(row: dict[str, Any], reference: Decimal, candidate: Decimal) -> Decimal:
    """Return the change in percent of the reference, positive where the candidate is better."""
    change = 100 * (candidate / reference - 1)
    return change if metric(row["metric"]).higher_is_better else -change


def _value(name: str, key: str = "candidate") -> float:
    return float(WINDOWS[name][key])


def _counts(name: str) -> SpeculationDelta:
    row = CURVES[name]
    positions = row["accepted_per_position"] or row["chosen_per_position"]
    return SpeculationDelta(row["drafts"], row["draft_tokens"], row["accepted_tokens"], tuple(positions))


def _ceiling() -> Ceiling:
    return ceiling(
        step_time_s=float(CEILING["step_time_ms"]) / 1000,
        tokens_per_step=float(CEILING["acceptance_length"]),
        k=CEILING["k"],
        target_tokens_per_s=float(CEILING["target_tokens_per_s"]),
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
        "borne_out": 5,
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
    found = _rounded(_percent(row, *values), row["percent"])

    assert f"{found:+}" == ("+113.86" if name == "k7-off-decode-c1" else row["percent"])


@pytest.mark.parametrize("name", RECOMPUTED)
def test_printed_percentages_of_unrounded_values(name: str) -> None:
    """Each percentage can come of values that round to the printed ones, and so can the one that differs."""
    row = WINDOWS[name]
    values = itertools.product(_unrounded(row["reference"]), _unrounded(row["candidate"]))
    found = [_percent(row, *pair) for pair in values]
    least, greatest = _unrounded(row["percent"])

    assert min(found) <= greatest
    assert least <= max(found)


@pytest.mark.parametrize("name", WINDOWS)
def test_which_way_a_value_moves(name: str) -> None:
    """A printed plus is a gain, so it is a fall of a time: +37.80 % of a TTFT is 28005.49 falling to 17419.78 ms."""
    row = WINDOWS[name]
    moves = {"rise": 1, "fall": -1}[row["moves"]]
    if row["reference"]:
        assert moves * (_value(name) - _value(name, "reference")) > 0
    if row["percent"]:
        assert moves * float(row["percent"]) * (1 if metric(row["metric"]).higher_is_better else -1) > 0


def test_printed_ratio() -> None:
    """The one printed ratio is candidate / reference to the printed digit."""
    (row,) = (row for row in WINDOWS.values() if row["ratio"])

    assert row["id"] == "k7-off-decode-c1"
    assert str(_rounded(Decimal(row["candidate"]) / Decimal(row["reference"]), row["ratio"])) == row["ratio"]


@pytest.mark.parametrize("row", OTHERS["restated"], ids=lambda row: row["printed"])
def test_restated_figures(row: dict[str, Any]) -> None:
    """Figures that are printed again, often with fewer digits, are those that they repeat."""
    first, *more = (_cell(*cell) for cell in row["of"])
    value = {
        "ms as s": lambda: first / 1000,
        "rounded": lambda: first,
        "change": lambda: 100 * (more[0] / first - 1),
    }[row["how"]]()

    assert _rounded(value, row["printed"]) == Decimal(row["printed"])


def _cell(name: str, key: str, position: int | None = None) -> Decimal:
    found = (WINDOWS | CURVES)[name][key]
    return Decimal(found if position is None else found[position - 1])


def test_the_curve_of_the_long_horizon() -> None:
    """Counters of the k=7 window give each printed share of drafts, and drafts that were never short."""
    printed, curve = CURVES["k7-window"], AcceptanceCurve(_counts("k7-window"))

    assert [f"{100 * rate.value:.2f}" for rate in curve.rates] == printed["per_position"]
    assert f"{curve.counts.draft_length:.1f}" == printed["draft_length"]
    assert (curve.k, curve.short_drafts) == (printed["k"], 0)


def test_the_curve_of_the_probe() -> None:
    """Counters of the k=4 probe give the printed length, rate and shares by position."""
    printed, curve = CURVES["k4-probe-t0.0"], AcceptanceCurve(_counts("k4-probe-t0.0"))

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
    bounds = [_unrounded(rate) for rate in row["per_position"]]
    least, greatest = (1 + sum(ends) for ends in zip(*bounds, strict=True))

    assert least <= Decimal(row["acceptance_length"]) <= greatest


def test_the_ceiling() -> None:
    """5 tokens in 23.38 ms are 213.9 tokens/s, of which 200 need an acceptance length of 4.68."""
    found = _ceiling()
    assert found.target is not None

    assert f"{found.speed_tokens_per_s:.1f}" == "113.3"
    assert f"{found.ceiling_tokens_per_s:.1f}" == "213.9"
    assert CEILING["ceiling_tokens_per_s"] == f"{math.floor(10 * found.ceiling_tokens_per_s) / 10:.1f}"
    assert f"{found.target.tokens_per_step:.2f}" == "4.68"
    assert found.target.reachable


def _numbers(text: str) -> list[str]:
    """Return the numbers of a text, but for those that name a level, a horizon or a temperature."""
    return re.findall(r"(?<![\w=.])[+-]?\d+(?:\.\d+)?", text)


def _recomputed() -> dict[str, list[str]]:
    """Return the numbers of each finding, in their order, from the printed figures."""
    return {**_rounding(), **_about_windows(), **_about_acceptance(), **_about_steps(), **_borne_out()}


def _rounding() -> dict[str, list[str]]:
    row = WINDOWS["k7-off-decode-c1"]
    ends = itertools.product(_unrounded(row["reference"]), _unrounded(row["candidate"]))
    changes = [float(_percent(row, *pair)) for pair in ends]
    exact = 100 * (_value("k7-off-decode-c1") / _value("k7-off-decode-c1", "reference") - 1)
    highest, step = _ceiling().ceiling_tokens_per_s, CEILING["step_time_ms"]
    slow, fast = (5000 / float(end) for end in reversed(_unrounded(step)))
    gain = [f"{exact:+.2f}", f"{min(changes):+.2f}", f"{max(changes):+.2f}"]
    return {
        "gain-k7": [row["candidate"], row["reference"], *gain],
        "ceiling": ["5", step, f"{highest:.2f}", f"{highest:.1f}", step, f"{slow:.2f}", f"{fast:.2f}"],
    }


def _about_windows() -> dict[str, list[str]]:
    k4 = sorted(
        [_decode("k4-k7", "candidate"), _decode("k4-off", "candidate"), _decode("k3-k4", "reference")], key=float
    )
    k7 = sorted([_decode("k4-k7", "reference"), _decode("k7-off", "candidate")], key=float)
    off = [WINDOWS[f"{pair}-ttft-c32"]["reference"] for pair in ("k4-off", "k7-off")]
    k4_ttft = [WINDOWS["k3-k4-ttft-c32"]["reference"], WINDOWS["k4-off-ttft-c32"]["candidate"]]
    floor = OTHERS["without_inputs"][0]["printed"]
    loss, fell = WINDOWS["k4-off-throughput-c32"]["percent"], WINDOWS["k7-off-throughput-c32"]
    slower = 100 * (float(fell["reference"]) / float(fell["candidate"]) - 1)
    return {
        "flat": [loss.strip("-"), f"{-float(loss) / float(floor):.1f}", floor],
        "spread": [*k4, _apart(k4), *k7, _apart(k7)],
        "latency": [*off, f"{float(off[0]) / float(off[1]):.1f}", *k4_ttft],
        "narrowing": [WINDOWS["k4-off-decode-c1"]["percent"], WINDOWS["k4-off-throughput-c8"]["percent"]],
        "closed-loop": [fell["percent"].strip("-"), "32", f"{slower:.1f}"],
        "knee": [str(k) for k in sorted(_measured_horizons())] + ["5", "6"],
    }


def _decode(pair: str, arm: str) -> str:
    found: str = WINDOWS[f"{pair}-decode-c1"][arm]
    return found


def _apart(values: list[str]) -> str:
    return f"{100 * (float(values[-1]) / float(values[0]) - 1):.1f}"


def _measured_horizons() -> set[int]:
    return {row[arm] for row in WINDOWS.values() for arm in ("reference_k", "candidate_k")} - {0}


def _about_acceptance() -> dict[str, list[str]]:
    k7, probe, warm = (row["per_position"] for row in CURVES.values())
    counts, long = _counts("k4-probe-t0.0"), _counts("k7-window")
    accepted = long.accepted_tokens / long.drafts
    over = [f"{counts.accepted_tokens}", f"{counts.drafts}", f"{counts.accepted_tokens / counts.drafts:.4f}", "1"]
    return {
        "crossing": [k7[3], "4", k7[4], "5", probe[2], "3", probe[3], "4", *warm[2:]],
        "accepted": over,
        "product": [*probe, f"{math.prod(map(float, probe)):.3f}", "4", probe[3]],
        "thrown": ["7", f"{accepted:.2f}", f"{7 - accepted:.2f}"],
    }


def _about_steps() -> dict[str, list[str]]:
    found, step = _ceiling(), CEILING["step_time_ms"]
    assert found.target is not None
    assert found.target.acceptance_rate is not None
    off, chunk = (WINDOWS["k7-off-tpot-c1"][arm] for arm in ("reference", "candidate"))
    slow, fast = (_decode("k7-off", arm) for arm in ("reference", "candidate"))
    token, in_chunk = [f"{1000 / float(rate):.2f}" for rate in (slow, fast)], float(chunk) * float(fast) / 1000
    ends = [_decode(pair, "candidate") for pair in ("k4-k7", "k4-off")]
    more = [f"{100 * (float(end) / found.speed_tokens_per_s - 1):.1f}" for end in ends]
    needed, now = f"{100 * found.target.acceptance_rate:.1f}", CURVES["k4-probe-t0.0"]["acceptance_percent"]
    highest, length = f"{found.ceiling_tokens_per_s:.1f}", f"{found.target.tokens_per_step:.2f}"
    assert off == token[0]
    return {
        "target": [highest, CEILING["target_tokens_per_s"], length, needed, now],
        "tpot": [slow, token[0], fast, token[1], chunk, f"{in_chunk:.2f}"],
        "speed": [CEILING["acceptance_length"], step, f"{found.speed_tokens_per_s:.1f}", *ends, *more],
        "verify": [step, off, f"{100 * (float(step) / float(off) - 1):+.1f}"],
    }


def _borne_out() -> dict[str, list[str]]:
    gains = [_value(name) / _value(name, "reference") for name in ("k7-off-decode-c1", "k4-off-decode-c1")]
    k7, probe, warm = (row["per_position"] for row in CURVES.values())
    against = [row for row in WINDOWS.values() if (row["reference_k"], row["candidate_k"]) == (7, 4)]
    better = [row for row in against if (row["moves"] == "rise") == metric(row["metric"]).higher_is_better]
    lengths = [
        (f"{row.draft_tokens}", f"{row.drafts}", f"{row.draft_length:g}")
        for row in map(_counts, ("k7-window", "k4-probe-t0.0"))
    ]
    differ = max(abs(float(cold) - float(hot)) for cold, hot in zip(probe, warm, strict=True))
    return {
        "doubled": [f"{gain:.2f}" for gain in gains],
        "sixth": [*k7[4:], f"{100 / 6:.2f}", "4", k7[3]],
        "full": [*itertools.chain(*lengths)],
        "everywhere": [f"{len(better)}", f"{len(against)}"],
        "temperature": [f"{differ:.3f}"],
    }


def test_every_number_of_the_findings_is_recomputed() -> None:
    """What the findings say of the printed figures is computed from them, number by number."""
    rows = _by_id([*FINDINGS["rounding"], *FINDINGS["statements"], *FINDINGS["borne_out"]])

    assert {name: _numbers(row["figures"]) for name, row in rows.items()} == _recomputed()
    assert not [row for row in rows.values() if _numbers(row.get("so", ""))]


def test_what_the_findings_quote_is_printed() -> None:
    """Every number in what a finding says was said is in the data, a draft position, or the horizon of a draft."""
    files = [WINDOWS, CURVES, CEILING, OTHERS]
    printed = {word.lstrip("+-") for file in files for word in _numbers(json.dumps(file))}
    rows = [*FINDINGS["rounding"], *FINDINGS["statements"], *FINDINGS["borne_out"]]
    said = {word.lstrip("+-") for row in rows for word in _numbers(row["said"])}

    assert said - printed == {"5", "6"}


def test_the_page_lists_what_does_not_follow() -> None:
    """The section of the page holds the findings, line by line, and the percentages without inputs."""
    section = PAGE.read_text(encoding="utf-8").split(f"{TITLE}\n")[1].split("\n## ")[0]
    rows = [*FINDINGS["rounding"], *FINDINGS["statements"]]
    cells = [("printed", "the printed figures give", "so"), ("---",) * 3]
    cells += [(row["said"], row["figures"], row["so"]) for row in rows]
    prose = " ".join(section.split())

    assert [line for line in section.splitlines() if line.startswith("|")] == [
        f"| {' | '.join(row)} |" for row in cells
    ]
    assert ", ".join(f"{WINDOWS[name]['percent']} %" for name in NOT_PUBLISHED) in prose
    assert f"{len(RECOMPUTED) + len(NOT_PUBLISHED)} printed percentages that compare two arms" in prose
    assert f"{len(RECOMPUTED)} are printed with their inputs" in prose
    assert f"{CURVES['k4-probe-t0.0']['possible_choices']} choices of integers" in prose
    assert f"{_recomputed()['spread'][3]} % apart between windows" in prose
