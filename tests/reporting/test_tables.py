"""Tables of a window: values of both arms, changes with their words, outcomes, and what speculation did."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.speculation import SpeculationDelta, pool
from pytest_specgate.core.thresholds import NoiseFloor, Threshold
from pytest_specgate.core.verdict import change_words
from pytest_specgate.reporting.tables import ArmBoots, claim_text, noise_line, pair_table, speculation_table

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import WindowRecord
    from tests.reporting.conftest import Window


def figures_at(window: Window, *, at: int) -> list[str]:
    """Return the rows of the pair's table that show a figure of a point."""
    lines = window.lines()
    labels = [line.split()[0] if line[:6].strip() else "" for line in lines]
    start = labels.index(f"c={at}")
    rows = itertools.takewhile(lambda line: line and not line[:6].strip(), lines[start + 1 :])
    return [line for line in (lines[start], *rows) if "[" in line]


FLOOR = NoiseFloor(0.01, "A/A windows of a test")
LABELS = (
    "output throughput [tokens/s]",
    "TTFT p50 [ms]",
    "TPOT p50 [ms]",
    "decode rate p50 [tokens/s]",
    "E2E latency p50 [ms]",
)


def test_a_row_has_both_values_and_the_change(window: type[Window], k4_off: ArmPair) -> None:
    """At 1.25 times the speed, throughput is 25 % up and times are 20 % down, in milliseconds."""
    faster = window.of(k4_off, speeds={"off": 0.5, "k4": 0.625})

    assert faster.row("output throughput").startswith("c=1 output throughput [tokens/s] 50.00 62.50 better +25.0 % ")
    assert faster.row("TTFT").startswith("TTFT p50 [ms] 200.0 160.0 better -20.0 % ")
    assert faster.row("TPOT").startswith("TPOT p50 [ms] 200.0 160.0 better -20.0 % ")
    assert faster.row("E2E").startswith("E2E latency p50 [ms] 2200 1760 better -20.0 % ")
    assert faster.row("decode").startswith("decode rate p50 [tokens/s] 5.000 6.250 better +25.0 % ")


@pytest.mark.parametrize(
    ("metric", "change", "words"),
    [
        ("decode_rate_p50", 0.2, "better +20.0 %"),
        ("ttft_p50", 0.2, "worse +20.0 %"),
        ("decode_rate_p50", -0.2, "worse -20.0 %"),
        ("ttft_p50", -0.2, "better -20.0 %"),
        ("output_throughput", -1.0, "worse -100.0 %"),
        ("ttft_p50", 0.0004, "equal 0.0 %"),
        ("ttft_p50", -0.0004, "equal 0.0 %"),
    ],
)
def test_case_142_words_follow_the_direction(metric: str, change: float, words: str) -> None:
    """Case 142: the sign is that of the raw change, the word says whether that is good."""
    assert change_words(change, metric_name=metric) == words


def test_every_point_has_every_headline_figure(window: type[Window], k4_off: ArmPair) -> None:
    """Each concurrency shows the same rows, gated or not."""
    lines = window.of(k4_off, speeds={"k4": 1.2}).lines()

    for label in LABELS:
        assert sum(label in line for line in lines) == 2
    assert [line.split()[0] for line in lines if "output throughput [" in line] == ["c=1", "c=8"]


def test_a_gated_metric_has_a_row_of_its_own(window: type[Window], k4_off: ArmPair) -> None:
    """A metric that is not among the headlines is shown where it is gated, and only there."""
    lines = window.of(k4_off, speeds={}).gated("request_throughput", at=8).lines()

    assert [line for line in lines if "request throughput" in line] == [
        line for line in lines if "request throughput" in line and "PASS" in line
    ]
    assert sum("request throughput" in line for line in lines) == 1


def test_rounds_are_shown_one_by_one_while_they_are_few(window: type[Window], k4_off: ArmPair) -> None:
    """Up to three changes side by side, from then on their range; the change itself is their geometric mean."""
    pair = k4_off.with_rounds(6)
    few = window.of(pair, speeds={"k4": [1.1, 1.2, 1.3]}, rounds=3).row("output throughput")
    many = window.of(pair, speeds={"k4": [1.1, 1.2, 1.3, 1.0]}, rounds=4).row("output throughput")

    assert "better +19.7 % +10.0 +20.0 +30.0 " in few
    assert "+0.0 to +30.0" in many


def test_a_verdict_stands_beside_its_claim(window: type[Window], k4_off: ArmPair) -> None:
    """Interval and outcome are on the row of the gated metric; other rows have a dash."""
    gated = window.of(k4_off, speeds={"k4": 0.9}).gated("output_throughput")

    assert gated.row("output throughput").endswith(
        " worse -10.0 % -10.0 -10.0 -10.6 .. -9.4 % FAIL (not worse than -5 %)"
    )
    assert gated.row("TPOT").split()[-2:] == ["-", "-"]
    assert gated.row("output throughput", at=8).split()[-2:] == ["-", "-"]


def test_two_claims_on_one_figure_share_its_row(window: type[Window], k4_off: ArmPair) -> None:
    """Figure and interval stand once, the outcomes below one another in the order of their gates, with their names."""
    one = window.of(k4_off, speeds={"k4": 1.2}).gated(margin=0.1)
    lines = one.gated(kind="better", margin=0.5).gated(margin=0.1).lines()
    start = next(place for place, line in enumerate(lines) if "output throughput" in line)

    assert " ".join(lines[start].split()).endswith(" +20.0 +20.0 +19.2 .. +20.8 % PASS (not worse than -10 %) test_0")
    assert lines[start + 1].strip() == "FAIL (better than +50 %) test_1"
    assert lines[start + 2].strip() == "PASS (not worse than -10 %) test_2"
    assert lines[start + 1].index("FAIL") == lines[start].index("PASS")
    assert "TTFT p50" in lines[start + 3]


def test_outcomes_of_two_gates_keep_their_intervals(window: type[Window], k4_off: ArmPair) -> None:
    """Gates of different sizes judge one figure by different intervals: each stands on the line of its outcome."""
    one = window.of(k4_off, speeds={"k4": [1.2, 1.21]}).gated(margin=0.1)
    wide = Threshold("output_throughput", 1, "not_worse", 0.2, FLOOR)
    other = dataclasses.replace(one.gates[0], id="test_gate.py::test_other", thresholds=(wide, *_three_more()))
    lines = dataclasses.replace(one, gates=(*one.gates, other)).lines()
    start = next(place for place, line in enumerate(lines) if "output throughput" in line)
    first, second = (lines[place].split(" %  ") for place in (start, start + 1))

    assert first[-1] == "PASS (not worse than -10 %) test_0"
    assert second[-1] == "PASS (not worse than -20 %) test_other"
    assert first[-2].split()[-3:] != second[-2].split()[-3:]


def test_a_single_gate_needs_no_name(window: type[Window], k4_off: ArmPair) -> None:
    """Where one gate judges a pair, outcomes and notes have no name of a gate."""
    lines = window.of(k4_off, speeds={"k4": 1.2}).gated(margin=0.1).lines()

    assert not any("test_0" in line for line in lines)


def _three_more() -> tuple[Threshold, ...]:
    """Return claims that share the error rates of their gate."""
    return tuple(Threshold(metric, 8, "not_worse", 0.5, FLOOR) for metric in ("ttft_p50", "tpot_p50", "e2e_p50"))


def test_limits_are_shown_as_raw_changes(window: type[Window], k4_off: ArmPair) -> None:
    """A margin on a time is an increase; fractions of a percent are kept."""
    one = window.of(k4_off, speeds={})

    assert claim_text(one.gated("ttft_p50", margin=0.05).verdict()) == "not worse than +5 %"
    assert claim_text(one.gated("output_throughput", margin=0.008).verdict()) == "not worse than -0.8 %"
    assert claim_text(one.gated("decode_rate_p50", kind="better", margin=0.5).verdict()) == "better than +50 %"
    assert claim_text(one.gated("ttft_p50", kind="better", margin=0.1).verdict()) == "better than -10 %"
    against = one.gated("ttft_p50", margin=0.05).verdict().model_copy(update={"kind": NOT_WORSE_THAN_BASELINE})
    assert claim_text(against) == "not worse than +5 % against its baseline"
    assert claim_text(against.model_copy(update={"limit": None})) == "not worse against its baseline"


def test_an_expected_outcome_is_marked(window: type[Window], k4_off: ArmPair) -> None:
    """A loss that the test declared is not shown as if nobody knew of it."""
    gated = window.of(k4_off, speeds={"k4": 0.5}).gated()
    verdict = gated.verdict()
    verdict.expect(verdict.outcome)

    assert "FAIL (not worse than -5 %), expected" in pair_table(k4_off, gated.record, [verdict])


def test_what_was_not_measured_is_not_zero(window: type[Window], k4_off: ArmPair) -> None:
    """A figure without a value in one boot has neither values nor a change; the reason is in place of the change."""
    absent = {"ttft_s": None, "first_text_s": None, "last_token_s": None}
    gated = window.of(k4_off, speeds={}).with_requests("k4", 2, at=1, **absent).gated("ttft_p50")
    row = gated.row("TTFT p50")

    assert row == "TTFT p50 [ms] - - request 0 has an impossible value: nan - - INVALID (not worse than +5 %)"


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"ttft_s": 0.0}, "its first token event came at 0 s, its sending at 0 s"),
        ({"ttft_s": -0.1}, "its first token event came at -0.1 s, its sending at 0 s"),
    ],
    ids=["zero", "negative"],
)
def test_case_30_an_impossible_time_leaves_its_point_no_figure(
    window: type[Window], k4_off: ArmPair, times: dict[str, float], words: str
) -> None:
    """Case 30: where one time cannot be, no other of its point is believed; the request and its value are named."""
    gated = window.of(k4_off, speeds={}).with_requests("k4", 2, at=1, **times).gated("ttft_p50")
    [line] = (" ".join(line.split()) for line in gated.lines() if line.split()[:1] == ["c=1"])

    assert line == "c=1 not judged (impossible-value), see below - - - - - INVALID"
    assert f"not judged (impossible-value): arm k4 at c=1: request 0 has impossible values: {words}" in gated.lines()
    assert figures_at(gated, at=1) == []
    assert figures_at(gated, at=8)


def test_a_percentile_without_enough_requests_says_so(window: type[Window], k4_off: ArmPair) -> None:
    """Ten requests carry no p99: the cell tells how many it needs, not some number."""
    verdict = window.of(k4_off, speeds={}).gated().verdict().model_copy(update={"metric": "ttft_p99"})
    table = pair_table(k4_off, window.of(k4_off, speeds={}).record, [verdict])

    assert "10 requests have a value, and 500 are needed" in table


def test_counters_that_say_nothing_are_told(window: type[Window], k4_off: ArmPair) -> None:
    """An arm without speculation has no acceptance length, and so the pair has none."""
    verdict = window.of(k4_off, speeds={}).gated().verdict().model_copy(update={"metric": "acceptance_length"})
    table = pair_table(k4_off, window.of(k4_off, speeds={}).record, [verdict])
    (row,) = (line for line in table.splitlines() if "acceptance length" in line)

    assert row.split()[:6] == ["acceptance", "length", "[tokens]", "-", "-", "nothing"]


def test_a_point_that_cannot_be_judged_has_no_figures(window: type[Window], k4_off: ArmPair) -> None:
    """Case 139: failed requests at one point leave its figures out, with the reason; the other point keeps its own."""
    gated = window.of(k4_off, speeds={}).with_requests("k4", 1, at=8, error="HTTP 500: engine died").gated(at=8)
    lines = [line for line in gated.lines() if line.split()[:1] == ["c=8"] and "failed" in line]

    assert figures_at(gated, at=8) == []
    assert len(lines) == 1
    assert "not judged (failed-requests), see below" in lines[0]
    assert (
        "not judged (failed-requests): arm k4 at c=8: 16 of 16 requests failed, the first with: HTTP 500: engine died"
        in gated.lines()
    )
    assert lines[0].split()[-6:] == ["-", "-", "-", "-", "-", "INVALID"]
    assert "100.0" in gated.row("TTFT p50", at=1)


def readable(pair: ArmPair, record: WindowRecord) -> list[ArmBoots]:
    """Return all boots of a pair, by arm."""
    return [ArmBoots(arm, boots) for arm, boots in zip(pair.arms, record.boots_for(pair), strict=True)]


def test_speculation_is_pooled_before_it_is_divided(window: type[Window], k4_off: ArmPair) -> None:
    """Case 44: counts of all rounds are summed, then rates are formed; an arm without speculation has no row.

    A step of 0.4 s in four, that is 100 ms.
    """
    record = window.of(k4_off, speeds={}).record
    table = speculation_table(readable(k4_off, record), record).splitlines()

    assert table[0].split("  ")[0] == "arm"
    assert [line.split() for line in table[2:]] == [
        ["k4", "c=1", "100.0", "2.500", "100", "%", "2.500", "0.3750", "4.000", "0.750", "0.500", "0.250", "0.000"],
        ["k4", "c=8", "100.0", "2.500", "100", "%", "2.500", "0.3750", "4.000", "0.750", "0.500", "0.250", "0.000"],
    ]


def test_counts_are_added_position_by_position() -> None:
    """The acceptance of two rounds is that of their sums, not the mean of two rates."""
    pooled = pool([SpeculationDelta(10, 40, 20, (10, 5, 5, 0)), SpeculationDelta(30, 90, 10, (10, 0, 0, 0))])

    assert pooled == SpeculationDelta(40, 130, 30, (20, 5, 5, 0))
    assert pooled.acceptance_length == 1.75


def test_points_that_cannot_be_judged_do_not_count(window: type[Window], k4_off: ArmPair) -> None:
    """A load of which one point has failures has no row: what other boots measured is not what was asked for."""
    one = window.of(k4_off, speeds={}).with_requests("k4", 1, at=1, error="lost")
    none = one.with_requests("k4", 2, at=1, error="lost")
    records = [some.record for some in (one, none)]
    tables = [speculation_table(readable(k4_off, record), record).splitlines()[2:] for record in records]

    assert [[line.split()[:3] for line in table] for table in tables] == [
        [["k4", "c=8", "100.0"]],
        [["k4", "c=8", "100.0"]],
    ]


def test_without_speculation_there_is_no_table(window: type[Window], k4_off: ArmPair) -> None:
    """No empty table, and no row of zeros."""
    record = window.of(k4_off, speeds={}).record

    assert speculation_table(readable(k4_off, record)[:1], record) == ""


def test_values_are_averaged_as_ratios_are(window: type[Window], k4_off: ArmPair) -> None:
    """The geometric mean fits log ratios: values of one and of four times give twice the speed."""
    row = window.of(k4_off, speeds={"k4": [1.0, 4.0]}).row("output throughput")

    assert row.startswith("c=1 output throughput [tokens/s] 100.0 200.0 better +100.0 % +0.0 +300.0 ")


def test_the_noise_line_says_what_an_interval_rests_on(window: type[Window], k4_off: ArmPair) -> None:
    """Spread, floor, degrees of freedom and source; without a spread it says that the noise is unknown."""
    verdict = window.of(k4_off, speeds={"k4": [1.1, 1.2]}).gated(floor=0.2).verdict()
    unknown = verdict.model_copy(update={"sd": None, "df": None, "noise": ""})

    assert noise_line(verdict).startswith("noise: sd of a round 8.")
    assert "df 6: " in noise_line(verdict)
    assert "floor 20 % (A/A windows of a test)" in noise_line(verdict)
    assert noise_line(unknown) == "noise: unknown"
