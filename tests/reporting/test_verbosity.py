"""What a summary shows to whom: much, enough, little, or one line."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.layout import Detail, View
from pytest_specgate.reporting.messages import window_lines
from pytest_specgate.reporting.session_lines import session_lines
from pytest_specgate.reporting.session_report import (
    ReportedVerdict,
    ReportedWindow,
    SessionReport,
    Unmeasured,
    report_of,
)
from tests.reporting.reports import kept

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

LOSS = "output throughput at c=1 worse -50.0 %, interval -50.3 to -49.7 %, margin -5 %"
SIDE_TABLES = ("speculation, from counter deltas", "load and client, mean over boots")


def _lines(window: Window, detail: Detail, columns: int | None = None) -> list[str]:
    texts = window_lines(
        window.record, pairs=window.pairs, judged=window.judged(), record_path="record.json",
        view=View(detail, columns),
    )  # fmt: skip
    return "\n".join(texts).splitlines()


def _report(window: Window, **changes: Any) -> SessionReport:
    """Return what a session has to tell that measured one window."""
    verdicts = tuple(
        ReportedVerdict(verdict, f"{entry.gate.id}[{verdict.threshold}]", **changes)
        for entry in window.judged()
        for verdict in entry.verdicts
    )
    measured = ReportedWindow(window.record, "record.json", window.pairs, window.gates, verdicts)
    return SessionReport((measured,), thresholds=len(verdicts))


def _session(report: SessionReport, detail: Detail = Detail.NORMAL) -> list[str]:
    return "\n".join(session_lines(report, view=View(detail))).splitlines()


def test_little_is_identity_tables_answers_and_record(window: type[Window], k4_off: ArmPair) -> None:
    """Where everything is PASS, nothing stands beside the tables but whether outputs were compared, and the record."""
    lines = _lines(window.of(k4_off, speeds={"k4": 1.2}).gated(), Detail.SHORT)
    outside = [line for line in lines if line and not line.startswith((" ", "-"))]

    assert [line.partition(" (")[0].partition(":")[0] for line in outside] == [
        "k4 against off", "request profile", "outputs", "record",
    ]  # fmt: skip


def test_little_shows_what_stands_beside_a_loss(window: type[Window], k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """Notes and side tables are there for the pair that is not PASS, and for its arms only."""
    both = window.of(k7_k4, k4_off, speeds={"off": 2.0})
    lines = _lines(both.gated(place=0).gated(place=1), Detail.SHORT)
    load = lines[lines.index("load and client, mean over boots") :]

    assert any(line.startswith("c1-output_throughput-not_worse: noise: ") for line in lines)
    assert sum("not_worse: noise: " in line for line in lines) == 1
    assert [line.split()[0] for line in load if line.startswith(("off", "k4", "k7"))] == ["off", "k4"]


def test_little_keeps_what_must_not_be_missed(window: type[Window], k4_off: ArmPair) -> None:
    """A window that is not finished, another attempt, and a trouble of the host are told to everybody."""
    gated = window.of(k4_off, speeds={}).gated()
    record = gated.record.model_copy(update={"finished": False, "attempt": 3})
    lines = _lines(dataclasses.replace(gated, record=record), Detail.SHORT)

    assert lines[0] == "boots: 4 in 2 rounds (off k4 / k4 off), UNFINISHED"
    assert lines[1].startswith("attempt 3 of this pair of builds")


def test_an_invalid_pair_is_shown_to_who_wants_little(window: type[Window], k4_off: ArmPair) -> None:
    """Its reason stands in place of the table."""
    lines = _lines(window.of(k4_off, speeds={}).with_death("k4", 2).gated(), Detail.SHORT)

    assert "no figures (server-died): arm k4: its server left" in lines


def test_normal_has_the_side_tables_and_no_more(window: type[Window], k4_off: ArmPair) -> None:
    """Neither values by round nor commands of servers are among it."""
    lines = _lines(window.of(k4_off, speeds={"k4": 1.2}).gated(), Detail.NORMAL)

    assert all(any(line.startswith(title) for line in lines) for title in SIDE_TABLES)
    assert not any("by round" in line and "against" in line for line in lines)
    assert not any(line.startswith("server of") for line in lines)


def test_much_has_values_by_round(window: type[Window], k4_off: ArmPair) -> None:
    """Of what is gated, both arms' values and the change of each round; nothing of other metrics."""
    gated = window.of(k4_off, speeds={"k4": [1.1, 1.2]}).gated("ttft_p50").gated("output_throughput", at=8)
    lines = _lines(gated, Detail.LONG)
    table = lines[lines.index("k4 against off, by round") + 3 :][:4]

    assert [" ".join(line.split()) for line in table] == [
        "c=1 TTFT p50 [ms] 1 100.0 90.91 better -9.1 %",
        "2 100.0 83.33 better -16.7 %",
        "c=8 output throughput [tokens/s] 1 160.0 176.0 better +10.0 %",
        "2 160.0 192.0 better +20.0 %",
    ]


def test_values_by_round_of_what_cannot_be_judged(window: type[Window], k4_off: ArmPair) -> None:
    """A point that is not judged has none, and a round without a value has a dash in place of it and of the change."""
    absent = {"ttft_s": None, "first_text_s": None, "last_token_s": None}
    gated = window.of(k4_off, speeds={}).gated("ttft_p50", at=8).gated("acceptance_length")
    lines = _lines(gated.with_requests("k4", 1, at=8, error="HTTP 500", **absent), Detail.LONG)
    table = lines[lines.index("k4 against off, by round") + 3 :][:2]

    assert [line.split()[-4:] for line in table] == [["1", "-", "2.500", "-"], ["2", "-", "2.500", "-"]]
    assert not any("c=8  TTFT" in line for line in lines)


def test_much_has_boots_and_servers(window: type[Window], k4_off: ArmPair) -> None:
    """Boots in their order with their seconds and what came of them, and the last command of each arm, once."""
    gated = window.of(k4_off, speeds={}).gated()
    timed = gated.edited("off", 1, edit=lambda boot: boot.model_copy(update={"ended_at": "2026-11-29T12:01:30+00:00"}))
    lines = _lines(timed, Detail.LONG)
    rows = lines[lines.index("boots in their order") + 3 :][:4]

    assert [line.split() for line in rows] == [
        ["1", "1", "off", "30.0", "90.0", "measured"],
        ["2", "1", "k4", "30.0", "-", "measured"],
        ["3", "2", "k4", "30.0", "-", "measured"],
        ["4", "2", "off", "30.0", "-", "measured"],
    ]
    assert [line for line in lines if line.startswith("server of")] == [
        "server of off: serve folder --port 8001",
        "server of k4: serve folder --port 8000",
    ]


def test_seconds_of_boots_are_figures_too(window: type[Window], k4_off: ArmPair) -> None:
    """Where no pair may be read, no boot stands with its seconds; how its servers were started is no figure."""
    lines = _lines(window.of(k4_off, speeds={}).with_death("k4", 2, measured=1).gated(), Detail.LONG)

    assert "boots in their order" not in lines
    assert "server of k4: serve folder --port 8000" in lines


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize("detail", [Detail.SHORT, Detail.NORMAL, Detail.LONG])
def test_no_table_is_torn(window: type[Window], k4_off: ArmPair, columns: int, detail: Detail) -> None:
    """No line of a table is wider than the terminal; sentences are left to it."""
    lines = _lines(window.of(k4_off, speeds={"k4": 0.8}).gated().gated(margin=0.1), detail, columns)
    tables = [line for line in lines if line.startswith((" ", "-", "k4  ", "off  "))]

    assert len(tables) > 10
    assert max(map(len, tables)) <= columns


def test_least_is_the_count_of_outcomes(window: type[Window], k4_off: ArmPair) -> None:
    """Under -qq one line is left."""
    report = _report(window.of(k4_off, speeds={"k4": 0.5}).gated())

    assert _session(report, Detail.OUTCOME) == ["1 of 1 threshold judged: 1 FAIL"]


def test_what_is_not_pass_stands_before_the_count(window: type[Window], k4_off: ArmPair) -> None:
    """Each test that can be run again is named, above the sentence with figure and interval."""
    report = _report(window.of(k4_off, speeds={"k4": 0.5}).gated().gated(at=8, margin=0.6))
    lines = _session(report)

    assert lines[lines.index("not PASS") :] == [
        "not PASS",
        "FAIL test_gate.py::test_0[c1-output_throughput-not_worse]",
        f"    {LOSS}: the whole interval lies beyond the margin",
        "",
        "2 of 2 thresholds judged: 1 PASS, 1 FAIL",
    ]


def test_one_sentence_of_several_tests_stands_once(window: type[Window], k4_off: ArmPair) -> None:
    """A server that died made all thresholds of its pair INVALID, for one reason."""
    lines = _session(_report(window.of(k4_off, speeds={}).with_death("k4", 2).gated().gated(at=8)))

    assert lines[lines.index("not PASS") + 1 :][:3] == [
        "INVALID test_gate.py::test_0[c1-output_throughput-not_worse]",
        "INVALID test_gate.py::test_1[c8-output_throughput-not_worse]",
        "    server-died: arm k4: its server left",
    ]


def test_thresholds_of_a_record_alone_are_told_apart(window: type[Window], k4_off: ArmPair) -> None:
    """There is no name of a test item, so the id of the threshold stands behind that of its gate."""
    dead = window.of(k4_off, speeds={}).with_death("k4", 2).gated()
    [gate] = dead.gates
    both = dataclasses.replace(gate, thresholds=(*gate.thresholds, *dead.gated(at=8).gates[1].thresholds))
    lines = _session(report_of([(kept(dataclasses.replace(dead, gates=(both,))), "record.json")]))

    assert lines[lines.index("not PASS") + 1 :][:2] == [
        "INVALID test_gate.py::test_0 c1-output_throughput-not_worse",
        "INVALID test_gate.py::test_0 c8-output_throughput-not_worse",
    ]


def test_skipped_thresholds_are_listed_as_such(window: type[Window], k4_off: ArmPair) -> None:
    """What could not be decided, and fails nobody, is named all the same."""
    report = _report(window.of(k4_off, speeds={}).gated(margin=0.0001), skipped=True)
    lines = _session(report)

    assert lines[lines.index("not PASS") + 1].startswith("INCONCLUSIVE (skipped) test_gate.py::test_0[")


def test_expected_outcomes_are_not_listed(window: type[Window], k4_off: ArmPair) -> None:
    """A loss that its test has declared is no surprise."""
    report = _report(window.of(k4_off, speeds={"k4": 0.5}).gated())
    report.verdicts[0].verdict.expect(Outcome.FAIL)

    assert "not PASS" not in _session(report)


def test_windows_that_were_not_measured_are_listed() -> None:
    """Their gates have no verdict, and the sentence says why."""
    report = SessionReport((), unmeasured=(Unmeasured(("k4 against off",), ("a.py::test_x",), "no prompt fits"),))

    assert _session(report) == ["not PASS", "not measured: a.py::test_x", "    no prompt fits"]


def test_notes_name_gates_whose_thresholds_share_an_id(window: type[Window], k4_off: ArmPair) -> None:
    """Two claims of one id are told apart by their gates, also where only one of them is told of."""
    gated = window.of(k4_off, speeds={"k4": 0.8}).gated().gated(margin=0.5)
    normal, short = (
        [line for line in _lines(gated, detail) if "noise: " in line] for detail in (Detail.NORMAL, Detail.SHORT)
    )

    both = "test_0[c1-output_throughput-not_worse], test_1[c1-output_throughput-not_worse]: noise: "
    assert [line.startswith(both) for line in normal] == [True]
    assert [line.partition(": ")[0] for line in short] == ["test_0[c1-output_throughput-not_worse]"]


def test_notes_of_different_thresholds_need_no_gate(window: type[Window], k4_off: ArmPair) -> None:
    """Where the ids tell them apart they stand alone."""
    gated = window.of(k4_off, speeds={}).gated().gated(at=8)

    assert [line.partition(": ")[0] for line in _lines(gated, Detail.NORMAL) if "noise: " in line] == [
        "c1-output_throughput-not_worse, c8-output_throughput-not_worse"
    ]


def test_all_green_says_nothing_of_what_is_not(window: type[Window], k4_off: ArmPair) -> None:
    """No heading without lines below it."""
    assert "not PASS" not in _session(_report(window.of(k4_off, speeds={}).gated()))
