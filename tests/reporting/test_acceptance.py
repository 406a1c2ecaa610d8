"""The section of an arm alone: what it accepted by level and by position, on what the intervals rest, its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import LonePair
from pytest_specgate.core.judge import judge
from pytest_specgate.core.metrics import position_metrics
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.stored_gates import stored_gate
from pytest_specgate.core.thresholds import LimitThreshold
from pytest_specgate.reporting.acceptance import acceptance_lines
from pytest_specgate.reporting.acceptance_json import acceptance_report
from pytest_specgate.reporting.acceptance_levels import levels_of
from pytest_specgate.reporting.messages import Judged, failure_text, window_lines
from pytest_specgate.reporting.page_figures import Figures
from pytest_specgate.reporting.page_pair import pair_view
from pytest_specgate.reporting.properties import pair_properties
from pytest_specgate.reporting.record_json import record_json
from pytest_specgate.reporting.session_report import ReportedWindow
from tests.core.conftest import Build

if TYPE_CHECKING:
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord

SHORT = SpeculationDelta(40, 150, 60, (30, 20, 10, 0))
"""Forty drafts of at most four tokens, ten of which are missing."""


def _gate(*, boots: int = 2, limit: str = "1.5") -> Gate:
    pair = LonePair.of(Build.arm(4), profile=Build.profile(), rounds=boots)
    return Build.gate(pair, *(LimitThreshold("acceptance_length", at, "at_least", float(limit)) for at in (1, 8)))


def _window(gate: Gate, *drafted: SpeculationDelta) -> WindowRecord:
    """Return a window whose boots drafted this at c=1, and the builder's 2.5 tokens a step at c=8."""
    pair = gate.pair
    record = Build.window(pair, [1.0] * len(drafted), [1.0] * len(drafted))
    boots = []
    for number, counts in enumerate(drafted, start=1):
        boot = Build.boot(pair.candidate, pair.profile, number=number)
        first = Build.point([Build.request(i) for i in range(10)], speculation=counts)
        boots.append(boot.model_copy(update={"pairs": (pair.title,), "points": (first, *boot.points[1:])}))
    return record.model_copy(update={"boots": tuple(boots), "gates": (stored_gate(gate),)})


def _lines(gate: Gate, record: WindowRecord, **view: Any) -> list[str]:
    text = "\n".join(acceptance_lines(gate.pair, record, judge(gate, record), **view))
    return [" ".join(line.split()) for line in text.splitlines()]


def test_each_level_has_its_figures_and_each_position_its_rate() -> None:
    """Drafts, their length, both ratios with intervals and tokens per step; then positions from 1 on."""
    gate = _gate()
    lines = _lines(gate, _window(gate, Build.drafted(10, k=4), Build.drafted(10, k=4)))

    assert lines[0] == "acceptance of k4, 2 boots pooled, with 95 % intervals"
    assert "c=1 80 4.00 of 4 2.500 [2.15 .. 2.85] 37.5 % [28.8 .. 46.2] 2.500 [2.15 .. 2.85]" in lines
    assert "c=1 1 75.0 % [59.8 .. 85.8]" in lines
    assert [line.split(" %")[0] for line in lines if line.startswith(("2 ", "3 ", "4 "))][:3] == [
        "2 50.0",
        "3 25.0",
        "4 0.0",
    ]


@pytest.mark.parametrize(
    ("boots", "basis"),
    [
        (2, "intervals: 95 %, over 2 boots, which sent the same prompts: they tell nothing of others"),
        (1, "intervals at c=1: 95 %, over 40 drafts as if these were independent, which is too narrow"),
    ],
)
def test_it_says_what_the_intervals_are_over(boots: int, basis: str) -> None:
    """A reader must not take the scatter of boots, or of drafts, for that of prompts."""
    gate = _gate(boots=boots)

    assert basis in _lines(gate, _window(gate, *[Build.drafted(10, k=4)] * boots))


def test_it_says_why_requests_that_were_to_tell_of_their_drafts_are_not_used() -> None:
    """A server that was not asked is no news; one whose figures contradict themselves leaves intervals over boots."""
    gate = _gate()
    record = _window(gate, Build.drafted(10, k=4), Build.drafted(10, k=4))
    odd = [Build.request(i, speculation_problem="its histogram has 3 places") for i in range(10)]
    boots = [
        boot.model_copy(
            update={"points": (boot.points[0].model_copy(update={"requests": tuple(odd)}), *boot.points[1:])}
        )
        for boot in record.boots
    ]
    said = [line for line in _lines(gate, record.model_copy(update={"boots": tuple(boots)})) if "is not used" in line]

    assert len(said) == 1
    assert said[0].startswith("k4 at c=1: what each request drafted is not used: ")
    assert "its histogram has 3 places" in said[0]
    assert not any("is not used" in line for line in _lines(gate, record))


def test_case_57_short_drafts_are_told_apart_from_refusal() -> None:
    """Case 57: bounds of what those drafts accepted that reached a position, and one sentence on their length."""
    gate = _gate()
    lines = _lines(gate, _window(gate, SHORT, SHORT))

    assert "load position accepted per draft of those that proposed it" in lines
    assert "c=1 1 75.0 % [59.8 .. 85.8] 75.0 %" in lines
    assert "2 50.0 % [35.2 .. 64.8] 50.0 .. 54.1 %" in lines
    assert (
        "k4 at c=1: draft length 3.75 of 4, 20 of 320 draft tokens missing: a lower rate at late positions may be "
        "shorter drafts, and not refusal"
    ) in lines
    assert not any(line.startswith("k4 at c=8") for line in lines)


@pytest.mark.parametrize(
    ("metric", "limit", "figure"),
    [
        ("acceptance_length", 2.6, "acceptance length in all boots: 2.500 [2.15 .. 2.85]"),
        ("acceptance_rate", 0.5, "acceptance rate in all boots: 40.0 % [30.8 .. 49.2]"),
        ("acceptance_rate_position_3", 0.3, "acceptance at position 3 in all boots: 25.0 % [14.2 .. 40.2]"),
        ("tokens_per_step", 2.6, "tokens per step in all boots: 2.500 [2.15 .. 2.85]"),
    ],
)
def test_a_broken_limit_tells_how_sure_the_figure_is(metric: str, limit: float, figure: str) -> None:
    """Its failure has the figure of all boots with interval, number of drafts and their length, and what these mean."""
    lone = LonePair.of(Build.arm(4), profile=Build.profile(), rounds=2)
    gate = Build.gate(lone, LimitThreshold(metric, 1, "at_least", limit))
    record = _window(gate, SHORT, SHORT)
    [verdict] = judge(gate, record)

    text = failure_text(verdict, gate=gate, record=record, record_path="r.json", again="pytest")

    assert f"    {figure} (80 drafts, draft length 3.75 of 4)\n" in text
    assert "    intervals: 95 %, over 2 boots, which sent the same prompts: they tell nothing of others\n" in text
    assert "    k4 at c=1: draft length 3.75 of 4, 20 of 320 draft tokens missing: a lower rate" in text


def test_a_limit_on_something_else_says_nothing_of_drafts() -> None:
    """A time has no interval over drafts."""
    lone = LonePair.of(Build.arm(4), profile=Build.profile(), rounds=2)
    gate = Build.gate(lone, LimitThreshold("ttft_p50", 1, "at_most", 0.0001))
    record = _window(gate, SHORT, SHORT)

    text = failure_text(judge(gate, record)[0], gate=gate, record=record, record_path="r.json", again="pytest")

    assert "draft" not in text


def test_a_limit_on_the_steps_of_an_arm_without_speculation_says_nothing_of_drafts() -> None:
    """One token a step is what off gives by definition, and there are no drafts to tell of."""
    lone = LonePair.of(Build.arm(), profile=Build.profile(), rounds=2)
    gate = Build.gate(lone, LimitThreshold("tokens_per_step", 1, "at_least", 1.5))
    record = Build.window(lone, [1.0, 1.0], [1.0, 1.0])

    text = failure_text(judge(gate, record)[0], gate=gate, record=record, record_path="r.json", again="pytest")

    assert "draft" not in text


def test_a_level_that_must_not_be_judged_has_no_figure() -> None:
    """Nothing was drafted at one level: its row says why, and has neither a rate nor a position."""
    gate = _gate()
    lines = _lines(gate, _window(gate, Build.drafted(0, k=4), Build.drafted(10, k=4)))

    assert "c=1 - - not judged (speculation-inactive) - -" in lines
    assert not any(line.startswith("c=1 1 ") for line in lines)
    assert any(line.startswith("c=8 1 75.0 %") for line in lines)
    assert "c=1 acceptance length - - INVALID (at least 1.5 tokens)" in lines


def test_a_level_of_too_few_drafts_has_no_figure() -> None:
    """What no claim may be judged by is not shown beside claims either, in the table and in JSON."""
    gate = _gate()
    record = _window(gate, SpeculationDelta(19, 76, 30, (15, 10, 5, 0)), SHORT)
    lines, (first, second) = _lines(gate, record), levels_of(gate.pair, record, ())

    words = "no acceptance is told: there are 19 drafts, and 20 are needed in each boot"
    assert not any(line.startswith(("c=1 19 ", "c=1 59 ")) for line in lines)
    assert (first.valid, first.reason, first.figures) == (False, "missing-metric", None)
    assert words in (first.message or "")
    assert second.valid


def test_limits_stand_with_the_worst_boot_and_every_boot() -> None:
    """Two boots are listed, and of many the least and the greatest are."""
    few, many = _gate(limit="2.6"), _gate(boots=4)
    worse = SpeculationDelta(40, 160, 52, (30, 20, 2, 0))

    told = _lines(few, _window(few, Build.drafted(10, k=4), worse))
    short = _lines(many, _window(many, *[Build.drafted(10, k=4)] * 3, worse))

    assert "c=1 acceptance length 2.3 tokens 2.5 tokens, 2.3 tokens FAIL (at least 2.6 tokens)" in told
    assert "c=1 acceptance length 2.3 tokens 2.3 tokens to 2.5 tokens PASS (at least 1.5 tokens)" in short


def test_a_narrow_terminal_keeps_the_rates() -> None:
    """What is worth least is left out, and said."""
    gate = _gate()
    lines = _lines(gate, _window(gate, SHORT, SHORT), columns=50)

    assert any(line.startswith("(not shown in 50 columns: drafts") for line in lines)
    assert any(line.startswith("c=1 1 75.0 %") for line in lines)


def test_the_summary_of_a_window_compares_it_with_nothing() -> None:
    """No table of a change, no line on equal answers, no differences of servers, and no arm against itself."""
    gate = _gate(limit="2.6")
    record = _window(gate, Build.drafted(10, k=4), Build.drafted(10, k=4))
    verdicts = judge(gate, record)

    text = "\n".join(window_lines(record, pairs=[gate.pair], judged=[Judged(gate, verdicts)], record_path="r.json"))
    failed = failure_text(verdicts[0], gate=gate, record=record, record_path="r.json", again="pytest")

    assert "\nk4 alone\nrequest profile: " in text
    for word in ("k4 against k4", "outputs", "differences", "change", "varies"):
        assert word not in text + failed
    assert failed.count("server of k4") == 1
    assert [name for name, _ in pair_properties(gate.pair, record)] == ["specgate_attempt"]


def test_a_page_has_its_tables_instead_of_a_comparison() -> None:
    """Both tables of the terminal, each row with its level, and what they rest on."""
    gate = _gate()
    record = _window(gate, Build.drafted(10, k=4), Build.drafted(10, k=4))
    figures = Figures(ReportedWindow(record, "r.json", (gate.pair,), (gate,), ()))

    view = pair_view(gate.pair, figures, [], name="w1-p1", title="k4")

    assert (view.alone, view.levels, view.changes, view.outputs) == (True, (), (), "")
    assert [table.caption for table in view.acceptance] == [
        "acceptance of k4, 2 boots pooled, with 95 % intervals", "By draft position, from 1",
    ]  # fmt: skip
    assert [row[:2] for row in view.acceptance[1].rows] == [
        (load, f"{position}") for load in ("c=1", "c=8") for position in (1, 2, 3, 4)
    ]
    assert view.notes[0].startswith("intervals: 95 %, over 2 boots")


def test_json_names_one_arm_and_every_position() -> None:
    """There is no reference, and a rate for each position of the horizon, boot by boot."""
    gate = _gate()
    record = _window(gate, Build.drafted(10, k=4), Build.drafted(10, k=4))

    found: Any = record_json(record, path="r.json", judged=[])

    assert (found["pairs"][0]["pair"], found["pairs"][0]["reference"]) == ("k4", None)
    values = found["arms"][0]["points"]["c1"]["values"]
    assert [values[name] for name in position_metrics(4)] == [[0.75] * 2, [0.5] * 2, [0.25] * 2, [0.0] * 2]


@pytest.mark.parametrize(
    ("drafts", "reasons", "whole"),
    [
        (10, ["speculation-inactive", None], None),
        (0, ["speculation-inactive", "speculation-inactive"], "speculation-inactive"),
    ],
)
def test_json_says_why_a_level_may_not_be_read(drafts: int, reasons: list[str | None], whole: str | None) -> None:
    """Each has code and sentence and no figure, and so has the whole where no level may be read; runs say the same."""
    gate = _gate()
    record = _window(gate, *[Build.drafted(0, k=4)] * 2)
    heavy = Build.point([Build.request(i) for i in range(16)], at=8, speculation=Build.drafted(drafts, k=4))
    boots = tuple(boot.model_copy(update={"points": (boot.points[0], heavy)}) for boot in record.boots)
    record = record.model_copy(update={"boots": boots})

    found = acceptance_report(gate.pair, record, (), record_path="r.json", gate_file="g.py")
    told: Any = record_json(record, path="r.json", judged=[])

    assert (found.valid, found.reason) == (False, whole)
    assert [level.reason for level in found.levels] == reasons
    assert [level.figures is None for level in found.levels] == [reason is not None for reason in reasons]
    assert (found.levels[0].message or "").startswith("arm k4 at c=1: speculation did not run")
    assert found.message == (None if whole is None else found.levels[0].message)
    assert told["pairs"][0]["acceptance"] == [level.model_dump(mode="json") for level in found.levels]


def test_json_of_two_arms_has_the_acceptance_of_neither() -> None:
    """Nor has that of an arm alone that drafts nothing: there are no figures to be had."""
    lone = LonePair.of(Build.arm(), profile=Build.profile(), rounds=1)
    windows = [Build.window(Build.pair(), [1.0], [1.0]), Build.window(lone, [1.0], [1.0])]
    windows[1] = windows[1].model_copy(update={"boots": windows[1].boots[:1]})

    found: Any = [record_json(window, path="r.json", judged=[]) for window in windows]

    assert [one["pairs"][0]["valid"] for one in found] == [True, True]
    assert not any("acceptance" in one["pairs"][0] for one in found)
