"""What the figures of a published study bear out, and what not: numbers and words are computed from the figures."""

from __future__ import annotations

import itertools
import json
import math
import re
from pathlib import Path
from typing import Any, Final

from pytest_specgate.core.metrics import metric
from tests.core.published import (
    CEILING,
    CURVES,
    FINDINGS,
    NOT_PUBLISHED,
    OTHERS,
    RECOMPUTED,
    WINDOWS,
    by_id,
    ceiling_of_k4,
    change_percent,
    counts_of,
    unrounded,
    value_of,
)

PAGE: Final = Path(__file__).parents[2] / "docs" / "published-windows.md"
TITLE: Final = "## What follows from the printed figures, and what does not"


def _numbers(text: str) -> list[str]:
    """Return the numbers of a text, but for those that name a level, a horizon or a temperature."""
    return re.findall(r"(?<![\w=.])[+-]?\d+(?:\.\d+)?", text)


def _recomputed() -> dict[str, list[str]]:
    """Return the numbers of each finding, in their order, from the printed figures."""
    return {**_rounding(), **_about_windows(), **_about_acceptance(), **_about_steps(), **_borne_out()}


def _rounding() -> dict[str, list[str]]:
    row = WINDOWS["k7-off-decode-c1"]
    ends = itertools.product(unrounded(row["reference"]), unrounded(row["candidate"]))
    changes = [float(change_percent(row, *pair)) for pair in ends]
    exact = 100 * (value_of("k7-off-decode-c1") / value_of("k7-off-decode-c1", "reference") - 1)
    highest, step = ceiling_of_k4().ceiling_tokens_per_s, CEILING["step_time_ms"]
    slow, fast = (5000 / float(end) for end in reversed(unrounded(step)))
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
    counts, long = counts_of("k4-probe-t0.0"), counts_of("k7-window")
    accepted = long.accepted_tokens / long.drafts
    over = [f"{counts.accepted_tokens}", f"{counts.drafts}", f"{counts.accepted_tokens / counts.drafts:.4f}", "1"]
    return {
        "crossing": [k7[3], "4", k7[4], "5", probe[2], "3", probe[3], "4", *warm[2:]],
        "accepted": over,
        "product": [*probe, f"{math.prod(map(float, probe)):.3f}", "4", probe[3]],
        "thrown": ["7", f"{accepted:.2f}", f"{7 - accepted:.2f}"],
    }


def _about_steps() -> dict[str, list[str]]:
    found, step = ceiling_of_k4(), CEILING["step_time_ms"]
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
    gains = [value_of(name) / value_of(name, "reference") for name in ("k7-off-decode-c1", "k4-off-decode-c1")]
    k7, probe, warm = (row["per_position"] for row in CURVES.values())
    against = [row for row in WINDOWS.values() if (row["reference_k"], row["candidate_k"]) == (7, 4)]
    better = [row for row in against if (row["moves"] == "rise") == metric(row["metric"]).higher_is_better]
    lengths = [
        (f"{row.draft_tokens}", f"{row.drafts}", f"{row.draft_length:g}")
        for row in map(counts_of, ("k7-window", "k4-probe-t0.0"))
    ]
    spread, floor = _spread_of_two_windows()
    return {
        "doubled": [f"{gain:.2f}" for gain in gains],
        "sixth": [*k7[4:], f"{100 / 6:.2f}", "4", k7[3]],
        "full": [*itertools.chain(*lengths)],
        "everywhere": [f"{len(better)}", f"{len(against)}"],
        "temperature": [f"{_most_apart(probe, warm):.3f}", f"{min(_falls(probe) + _falls(warm)):.3f}"],
        "wider": [
            _decode("k4-off", "candidate"),
            _decode("k3-k4", "reference"),
            f"{spread:.1f}",
            f"{spread / float(floor):.1f}",
            floor,
        ],
    }


def _most_apart(one: list[str], other: list[str]) -> float:
    return max(abs(float(first) - float(second)) for first, second in zip(one, other, strict=True))


def _falls(rates: list[str]) -> list[float]:
    return [float(before) - float(after) for before, after in itertools.pairwise(rates)]


def _spread_of_two_windows() -> tuple[float, str]:
    """Return by how many percent k=4 differs between two windows, and the floor of the sweep."""
    rates = [_decode("k3-k4", "reference"), _decode("k4-off", "candidate")]
    return 100 * (float(rates[1]) / float(rates[0]) - 1), OTHERS["without_inputs"][0]["printed"]


def test_every_number_of_the_findings_is_recomputed() -> None:
    """What the findings say of the printed figures is computed from them, number by number."""
    rows = by_id([*FINDINGS["rounding"], *FINDINGS["statements"], *FINDINGS["borne_out"]])

    assert {name: _numbers(row["figures"]) for name, row in rows.items()} == _recomputed()
    assert not [row for row in rows.values() if _numbers(row.get("so", ""))]


def _words(*clauses: tuple[str, bool]) -> str:
    """Return the clauses that the figures bear out, one after the other."""
    return "".join(clause for clause, holds in clauses if holds)


def _computed_words() -> dict[str, str]:
    """Return what the figures make of each statement."""
    return {**_words_of_rounding(), **_words_about_windows(), **_words_about_acceptance(), **_words_about_steps()}


def _words_of_rounding() -> dict[str, str]:
    row, printed = WINDOWS["k7-off-decode-c1"], float(CEILING["ceiling_tokens_per_s"])
    exact, least, greatest = map(float, _rounding()["gain-k7"][2:])
    highest, slowest = ceiling_of_k4().ceiling_tokens_per_s, 5000 / float(unrounded(CEILING["step_time_ms"])[1])
    return {
        "gain-k7": _words(
            ("rounded values", least <= float(row["percent"]) <= greatest and exact != float(row["percent"]))
        ),
        "ceiling": _words(
            ("cut off", math.floor(10 * highest) / 10 == printed != round(highest, 1)),
            (", or a rounded step time", round(slowest, 1) == printed),
        ),
    }


def _words_about_windows() -> dict[str, str]:
    numbers, measured = _about_windows(), _measured_horizons()
    loss, floor = (unrounded(numbers["flat"][at]) for at in (0, 2))
    spreads, printed = [float(numbers["spread"][at]) for at in (3, 6)], _spread_of_two_windows()[0]
    slower = -float(WINDOWS["k3-k4-decode-c1"]["percent"])
    off, off_elsewhere, _, *k4 = map(float, numbers["latency"])
    e2e, mean_rises = WINDOWS["k7-off-e2e-c32"], float(numbers["closed-loop"][2])
    compared = [WINDOWS[name]["metric"] for name in ("k4-off-decode-c1", "k4-off-throughput-c8")]
    gaps = set(range(min(measured), max(measured))) - measured
    return {
        "flat": _words(("contradicted", loss[0] > floor[1])),
        "knee": _words(("not shown", bool(gaps))),
        "spread": _words(
            ("contradicted, if nothing else changed", min(spreads) > printed),
            ("; the loss of k=3 is hardly larger", max(spreads) < slower < 1.1 * max(spreads)),
        ),
        "latency": _words(
            ("not shown: it holds in one window", k4[1] < off), (", and not across them", min(k4) > off_elsewhere)
        ),
        "narrowing": _words(("not shown: two metrics", len(set(compared)) == 2)),
        "closed-loop": _words(
            ("not shown", float(e2e["percent"]) > 0 > -mean_rises), (": a median is no mean", e2e["statistic"] == "p50")
        ),
    }


def _words_about_acceptance() -> dict[str, str]:
    threshold, names = 100 * float(OTHERS["without_inputs"][1]["printed"]), ("no", "one", "two", "three")
    crossed = [_cross(row, threshold) for row in CURVES.values()]
    probe, counts = CURVES["k4-probe-t0.0"], counts_of("k4-probe-t0.0")
    rates, length = [float(rate) for rate in probe["per_position"]], float(probe["acceptance_length"])
    accepted = round(counts.accepted_tokens / counts.drafts, 4)
    return {
        "crossing": f"true of {names[crossed.count(4)]} curve of {names[len(crossed)]}",
        "accepted": _words(("another quantity: acceptance length", round(1 + accepted, 4) == length != accepted)),
        "product": _words(
            ("true of conditional rates only", round(math.prod(rates), 3) != rates[-1]),
            ("; the printed ones are such products", abs(1 + sum(rates) - length) <= len(rates) * 0.0005),
        ),
        "thrown": _words(("contradicted: more were", float(_about_acceptance()["thrown"][2]) > 3)),
    }


def _cross(curve: dict[str, Any], threshold: float) -> int:
    """Return the last position that is accepted more often than the threshold, in percent."""
    scale = {"%": 1, "share": 100}[curve["per_position_unit"]]
    return sum(scale * float(rate) > threshold for rate in curve["per_position"])


def _words_about_steps() -> dict[str, str]:
    numbers, now = _about_steps(), CURVES["k4-probe-t0.0"]["acceptance_percent"]
    highest, target, _, needed = map(float, numbers["target"][:4])
    off, _, per_token, _, in_chunk = map(float, numbers["tpot"][1:])
    apart = not {"acceptance_length", "tokens_per_step", "step_time"} & {row["metric"] for row in WINDOWS.values()}
    return {
        "target": _words(
            ("contradicted", target <= highest),
            (": far away", needed > 2 * float(now)),
            (", not out of reach", target <= highest),
        ),
        "tpot": _words(
            ("contradicted", per_token < off), (", unless it is the time of a chunk", 1 < in_chunk <= 1 + 7)
        ),
        "speed": _words(
            ("not shown", min(map(float, numbers["speed"][5:])) > 0), (": the two were measured apart", apart)
        ),
        "verify": _words(("not shown", float(numbers["verify"][2]) > 10)),
    }


def test_every_word_about_a_statement_is_what_its_figures_say() -> None:
    """Contradicted, not shown or true of one curve: the words beside a statement are computed, not typed."""
    rows = by_id([*FINDINGS["rounding"], *FINDINGS["statements"]])

    assert {name: row["so"] for name, row in rows.items()} == _computed_words()


def test_what_is_borne_out_is_true_of_the_figures() -> None:
    """Each statement that is listed as borne out holds for the printed figures, rounding included where it is close."""
    k7, probe, warm = (row["per_position"] for row in CURVES.values())
    falls, numbers = min(_falls(probe) + _falls(warm)), _borne_out()
    spread, floor = _spread_of_two_windows()
    full = [counts_of(name).draft_tokens / counts_of(name).drafts for name in ("k7-window", "k4-probe-t0.0")]
    found = {
        "doubled": min(map(float, numbers["doubled"])) > 2,
        "sixth": max(map(float, k7[4:])) < 100 / 6 < float(k7[3]),
        "full": full == [7, 4],
        "everywhere": len(set(numbers["everywhere"])) == 1,
        "temperature": _most_apart(probe, warm) < falls,
        "wider": spread > float(unrounded(floor)[1]),
    }

    assert found == dict.fromkeys(by_id(FINDINGS["borne_out"]), True)


def test_what_the_findings_quote_is_printed() -> None:
    """Every number in what a finding says was said is in the data, a draft position, or the horizon of a draft."""
    files = [WINDOWS, CURVES, CEILING, OTHERS]
    printed = {word.lstrip("+-") for file in files for word in _numbers(json.dumps(file))}
    rows = [*FINDINGS["rounding"], *FINDINGS["statements"], *FINDINGS["borne_out"]]
    said = {word.lstrip("+-") for row in rows for word in _numbers(row["said"])}

    assert said - printed == {"5", "6"}


def test_the_page_lists_what_follows_and_what_does_not() -> None:
    """The section of the page holds the findings, line by line, and the percentages without inputs."""
    section = PAGE.read_text(encoding="utf-8").split(f"{TITLE}\n")[1].split("\n## ")[0]
    rows = [*FINDINGS["rounding"], *FINDINGS["statements"]]
    cells: list[tuple[str, ...]] = [("printed", "the printed figures give"), ("---",) * 2]
    cells += [(row["said"], row["figures"]) for row in FINDINGS["borne_out"]]
    cells += [("printed", "the printed figures give", "so"), ("---",) * 3]
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
