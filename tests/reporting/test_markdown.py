"""The Markdown report: what must not be overlooked stands first, identity before figures, and everything fits."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.thresholds import CurveThreshold, LimitThreshold, NoiseFloor, OutputsThreshold, Threshold
from pytest_specgate.core.verdict import Outcome, UnexpectedOutcomeError
from pytest_specgate.reporting.markdown import COMMENT_BYTES, headline, markdown
from pytest_specgate.reporting.session_report import Broken, ReportedCalibration, SessionReport, Unjudged, Unmeasured
from tests.reporting.reports import PATH, reported, run_of

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

FLOOR = NoiseFloor(0.01, "A/A windows of a test")


@pytest.fixture
def two(window: type[Window], k4_off: ArmPair) -> Window:
    """A window with a threshold that fails and one that passes."""
    slower = window.of(k4_off, speeds={"k4": 0.5})
    return slower.gated().gated("decode_rate_p50", at=8, margin=0.6)


def rows(text: str) -> list[list[str]]:
    """Return the cells of the table of thresholds, row by row, without its head."""
    lines = [line for line in text.partition("\n#### Which k")[0].splitlines() if line.startswith("| ")]
    return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines[2:]]


def test_the_headline_names_what_is_worst_first(two: Window) -> None:
    """A reader of the first line knows the outcome."""
    text = markdown(run_of(reported(two)))

    assert text.splitlines()[:4] == [
        "<!-- specgate -->",
        "### specgate: 1 FAIL, 1 PASS",
        "",
        "**Not passed**: 2 of 2 thresholds judged: 1 PASS, 1 FAIL.",
    ]


def test_a_run_that_passed_says_so(window: type[Window], k4_off: ArmPair) -> None:
    """Nothing stands before the count of what passed, and no message follows."""
    text = markdown(run_of(reported(window.of(k4_off, speeds={}).gated())), key="nightly-2")

    assert text.splitlines()[:4] == [
        "<!-- specgate: nightly-2 -->",
        "### specgate: 1 PASS",
        "",
        "Passed: 1 of 1 threshold judged: 1 PASS.",
    ]
    assert "<b>" not in text


def test_expected_outcomes_are_no_trouble(two: Window) -> None:
    """A FAIL that its test declared stands behind what passed, and in its row."""
    report = run_of(reported(two, expected=[two.gates[0].id]))
    text = markdown(report)

    assert report.passed
    assert headline(report) == "specgate: 1 PASS, 1 FAIL (expected)"
    assert [cells[1] for cells in rows(text)] == ["FAIL, expected", "PASS"]


def test_identity_stands_before_any_figure(two: Window) -> None:
    """No change, interval or value stands above the line that says whether both arms got the same requests."""
    before, _, after = markdown(run_of(reported(two))).partition("request profile: 44 of 44 fields identical")

    assert not re.search(r"\d\.\d|%|\bms\b|tokens/s", before)
    assert re.search(r"worse -50\.0 %", after)


def test_a_pair_that_is_invalid_has_no_figures(two: Window) -> None:
    """Case 139: its reason stands in place of identity, and its rows have dashes."""
    text = markdown(run_of(reported(two.with_death("k4", 2))))

    assert "* k4 against off: no figures (server-died): arm k4: its server left" in text
    assert "specgate: 2 INVALID" in text
    assert [cells[1:4] for cells in rows(text)] == [["**INVALID**", "-", "-"]] * 2


def test_each_kind_of_claim_has_its_row(window: type[Window], k4_off: ArmPair) -> None:
    """Change in the word of its direction, interval and margin in the unit of the claim."""
    measured = window.of(k4_off, speeds={"k4": 1.25}, rounds=2)
    thresholds = (
        Threshold(metric="ttft_p50", at=1, kind="not_worse", fraction=0.05, floor=FLOOR),
        Threshold(metric="output_throughput", at=8, kind="equivalent", fraction=0.1, floor=FLOOR),
        LimitThreshold(metric="ttft_p50", at=1, kind="at_most", value=0.2),
        OutputsThreshold(at=8, share=0.9),
        CurveThreshold(at=1, floor=FLOOR),
    )
    gate = Gate(id="tests/test_k.py::test_all[x|y]", pair=k4_off, thresholds=thresholds)
    found = rows(markdown(run_of(reported(dataclasses.replace(measured, gates=(gate,))))))

    assert [cells[:1] + cells[2:3] + cells[4:6] for cells in found] == [
        ["TTFT p50 not worse", "better -20.0 %", "+5 %", "c=1"],
        ["output throughput equivalent", "better +25.0 %", "±10 %", "c=8"],
        ["TTFT p50 at most", "worst boot 80.00 ms", "200 ms", "c=1"],
        ["equal answers at least", "worst round 100 %", "90 %", "c=8"],
        ["output throughput faster only up to", found[4][2], "-", "c=1"],
    ]
    assert re.fullmatch(r"-2\d\.\d \.\. -1\d\.\d %", found[0][3])
    assert {cells[6] for cells in found} == {"<code>test_all&#91;x&#124;y&#93;</code>"}


def test_every_message_can_be_opened(two: Window) -> None:
    """What was not accepted has its whole failure text, with record and next command."""
    text = markdown(run_of(reported(two)))
    title = "<b>FAIL</b> <code>test_gate.py::test_0&#91;c1-output_throughput-not_worse&#93;</code>"
    opened = text.partition(f"<details><summary>{title}</summary>\n\n```text\n")[2].partition("\n```\n\n</details>")[0]

    assert opened.startswith("FAIL: output throughput at c=1 worse -50.0 %, interval ")
    assert opened.splitlines()[-1].strip().startswith("measure again (a new sample, not a correction): pytest ")
    assert text.count("<details>") == 2


def test_a_window_says_what_it_ran_on(two: Window) -> None:
    """Host, engine, what was said of the answers, the record and the next command are seen without opening anything."""
    text = markdown(run_of(reported(two)))
    seen = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)

    assert "* host: " in seen
    assert "* engine: vllm 0.32.0, torch 2.13, Python 3.12\n" in seen
    assert "* outputs: 52 of 52 answers equal between k4 and off" in seen
    assert f"* record: <code>{PATH}</code>; judge it again, anywhere: <code>specgate judge {PATH}</code>\n" in seen
    assert "output throughput [tokens/s]" in text.partition("all figures of the window")[2]


def test_several_windows_are_told_apart(two: Window) -> None:
    """Each row names its window, and so do identity and sections."""
    text = markdown(run_of(reported(two), reported(two)))

    assert [cells[7] for cells in rows(text)] == ["1", "1", "2", "2"]
    assert "* window 2: k4 against off: request profile: " in text
    assert "#### Window 2\n" in text


def unjudged(two: Window) -> Unjudged:
    """Return a threshold of a window that has no verdict."""
    gate = two.gates[0]
    return Unjudged(gate, gate.thresholds[0], f"{gate.id}[c1]", "its test was skipped: <not today>")


def _runs(two: Window) -> dict[str, tuple[SessionReport, str]]:
    """Return runs that are not green though nothing has failed, and their headlines."""
    whole = reported(two, expected=[gate.id for gate in two.gates])
    undecided = reported(dataclasses.replace(two, gates=()).gated(margin=0.5, floor=0.4), skips=True)
    cut = dataclasses.replace(whole, record=whole.record.model_copy(update={"finished": False}))
    lost = Unmeasured(("k4 against off",), (), "its lock is held by somebody else")
    good, ended = "1 PASS, 1 FAIL (expected)", "pytest ended with exit status"
    broken = Broken("t.py::test_x", "boom")
    return {
        "nothing collected": (
            SessionReport((), exit_status=5),
            "0 of 0 thresholds judged, pytest ended with exit status 5",
        ),
        "nothing judged": (SessionReport((), thresholds=4, exit_status=0), "0 of 4 thresholds judged"),
        "undecided": (run_of(undecided), "1 INCONCLUSIVE (1 of them skipped)"),
        "one not judged": (run_of(whole, thresholds=3, unjudged=(unjudged(two),)), f"1 not judged, {good}"),
        "a window not measured": (run_of(whole, unmeasured=(lost,)), f"1 window not measured, {good}"),
        "a record not read": (run_of(whole, unmeasured=(Unmeasured((), (), "x"),)), f"1 record not read, {good}"),
        "cut off": (run_of(cut), f"1 window cut off, {good}"),
        "another failure": (
            run_of(whole, broken=(broken,)),
            f"1 test failed otherwise, {good}",
        ),
        "an error while collecting": (
            run_of(whole, broken=(Broken("t.py", "t.py:1: boom", "collection"),)),
            f"1 error while collecting, {good}",
        ),
        "a run that was stopped": (
            run_of(whole, broken=(Broken("pytest", "no such file", "run"), broken)),
            f"pytest was stopped, 1 test failed otherwise, {good}",
        ),
        "tests besides": (run_of(whole, besides=2, exit_status=1), f"2 tests besides failed, {good}"),
        "too few gates": (run_of(whole, shortage="2 are wanted"), f"too few gates judged, {good}"),
        "a red run": (run_of(whole, exit_status=1), f"{ended} 1, {good}"),
    }


@pytest.mark.parametrize("why", [
    "nothing collected", "nothing judged", "undecided", "one not judged", "a window not measured", "a record not read",
    "cut off", "another failure", "an error while collecting", "a run that was stopped",
    "tests besides", "too few gates", "a red run",
])  # fmt: skip
def test_a_run_that_is_not_green_says_why(two: Window, why: str) -> None:
    """Without any FAIL that counts, the headline begins with what kept it from passing."""
    report, expected = _runs(two)[why]

    assert not report.passed
    assert headline(report) == f"specgate: {expected}"
    assert markdown(report).splitlines()[3].startswith("**Not passed**: ")


def test_a_pass_that_was_not_expected_is_told(window: type[Window], k4_off: ArmPair) -> None:
    """It kept the run from passing, so it stands in the headline, and its row says what was expected."""
    judged = reported(window.of(k4_off, speeds={}).gated())
    with pytest.raises(UnexpectedOutcomeError):
        judged.verdicts[0].verdict.expect(Outcome.FAIL)
    report = run_of(judged, exit_status=1)

    assert (report.passed, headline(report)) == (False, "specgate: 1 PASS (not expected)")
    assert rows(markdown(report))[0][1] == "**PASS**, expected FAIL"


def test_each_failure_says_what_failed() -> None:
    """The run, a file, a set-up, a teardown and the body of a test are told apart."""
    kinds = ("run", "collection", "setup", "teardown", "test")
    text = markdown(run_of(broken=tuple(Broken("x", "boom", kind) for kind in kinds), besides=1))

    assert [line for line in text.splitlines() if line.startswith("* ")] == [
        "* <code>x</code> was stopped: boom",
        "* <code>x</code> was not collected: boom",
        "* <code>x</code> failed in its set-up: boom",
        "* <code>x</code> failed in its teardown: boom",
        "* <code>x</code> failed, and not by its verdict: boom",
        "* 1 test that no gate has to do with failed besides",
    ]


def test_a_claim_about_a_baseline_is_a_sentence(two: Window) -> None:
    """Its row says against what, and nothing hangs at its end."""
    judged = reported(two)
    verdict = judged.verdicts[0].verdict.model_copy(update={"kind": NOT_WORSE_THAN_BASELINE})
    closed = dataclasses.replace(judged.verdicts[0], verdict=verdict)

    assert rows(markdown(run_of(closed=(closed,))))[0][0] == "output throughput not worse against its baseline"


def test_a_calibration_says_what_it_calibrated() -> None:
    """It is neither green nor red: noise was measured, and nothing was judged."""
    done = ReportedCalibration(("off", "k4"), PATH, "baselines/here/noise.json")
    report = SessionReport((), thresholds=2, exit_status=0, calibrated=(done,))
    text = markdown(report)

    assert not report.passed
    assert text.splitlines()[1:6] == [
        "### specgate: calibrated off, k4", "", "Calibrated: nothing was judged.", "",
        f"* calibrated: noise of off, k4, in <code>baselines/here/noise.json</code>; record: <code>{PATH}</code>",
    ]  # fmt: skip
    assert "Nothing was measured." not in text


def test_a_calibration_that_went_wrong_is_not_passed(two: Window) -> None:
    """A problem of an arm is told, and so is the threshold whose test failed for it."""
    done = ReportedCalibration((), PATH, "baselines/here/noise.json", ("k4: one boot",))
    report = SessionReport((), thresholds=2, exit_status=1, calibrated=(done,), unjudged=(unjudged(two),))
    text = markdown(report)

    assert text.splitlines()[1:4] == [
        "### specgate: calibrated nothing, 1 not judged", "", "**Not passed**: 0 of 2 thresholds judged.",
    ]  # fmt: skip
    assert "* calibrated: no noise; record: " in text
    assert "* k4: one boot\n" in text


def test_what_was_not_judged_is_in_the_table(two: Window) -> None:
    """It has its claim, no figure, and its reason can be opened; what somebody wrote there is text."""
    text = markdown(run_of(reported(two), thresholds=3, unjudged=(unjudged(two),)))

    assert rows(text)[-1][:5] == ["output throughput not worse", "**not judged**", "-", "-", "-5 %"]
    assert "<b>not judged</b> <code>test_gate.py::test_0&#91;c1&#93; c1-output_throughput-not_worse</code>" in text
    assert "```text\nits test was skipped: <not today>\n```" in text


def test_other_failures_are_listed(two: Window) -> None:
    """A test that failed beside its verdict is named with the first line of its failure."""
    text = markdown(run_of(reported(two), broken=(Broken("test_x.py::test_body", "assert 1 == 2 | @me"),)))

    assert (
        "* <code>test_x.py::test_body</code> failed, and not by its verdict: assert 1 == 2 &#124; @&#8203;me\n" in text
    )


def test_what_could_not_be_measured_is_told(two: Window) -> None:
    """Case 139: a window without measurement has its reason where others have identity."""
    text = markdown(run_of(unmeasured=(Unmeasured(("a against b",), (), "its lock\nis held"),), thresholds=1))

    assert "* a against b: not measured: its lock&#92;nis held\n" in text
    assert "Nothing was measured." not in text
    assert "Nothing was measured.\n" in markdown(run_of())


def crowd(two: Window, count: int) -> SessionReport:
    """Return a run of many gates, of which every second fails."""
    judged = reported(two)
    names = [f"test_gate.py::test_{place}" for place in range(count)]
    gates = [dataclasses.replace(two.gates[place % 2], id=name) for place, name in enumerate(names)]
    verdicts = [
        dataclasses.replace(one, verdict=one.verdict.model_copy(update={"gate": name}), node_id=name)
        for name, one in zip(names, judged.verdicts * (count // 2), strict=True)
    ]
    return run_of(dataclasses.replace(judged, gates=tuple(gates), verdicts=tuple(verdicts)))


def test_a_comment_is_never_too_long(two: Window) -> None:
    """Whole sections are left out, the least important first, and a sentence says which."""
    text = markdown(crowd(two, 120))
    kept = rows(text)

    assert len(text.encode()) <= COMMENT_BYTES
    assert "all figures of the window" not in text
    assert [cells[1] for cells in kept] == ["**FAIL**"] * 60
    assert re.search(
        r"Left out, since this text may have 65536 bytes: 60 table rows, \d+ failure texts, "
        r"1 window description, 1 table of advice, 1 window table; <code>specgate report RECORD</code> shows it\.\n$",
        text,
    )
    assert text.count("<details>") == text.count("</details>") > 0
    assert text.count("```text") * 2 == text.count("```")


@pytest.mark.parametrize("limit", [1_500, 4_000, 9_000, 20_000])
def test_whatever_the_limit_is_it_is_kept(two: Window, limit: int) -> None:
    """Marker, headline and the sentence on what is missing are always there."""
    text = markdown(crowd(two, 30), limit=limit)

    assert len(text.encode()) <= limit
    assert text.startswith("<!-- specgate -->\n### specgate: 15 FAIL, 15 PASS\n")
    assert f"Left out, since this text may have {limit} bytes: " in text.splitlines()[-1]


def test_with_room_nothing_is_left_out(two: Window) -> None:
    """The summary of a job holds sixteen times as much as a comment."""
    text = markdown(crowd(two, 120), limit=1_048_576)

    assert len(rows(text)) == 120
    assert "Left out" not in text
    assert "all figures of the window" in text


def test_text_of_servers_is_text(two: Window) -> None:
    """A pipe, a tag, a fence and a mention in a message make nothing but letters of themselves."""
    evil = "</code></pre><img src=x> | ```` @org/team \x1b[31m\n| a | b |"
    failure = Failure(reason="server-died", message=f"arm k4: {evil}", detail=evil)
    hurt = two.edited("k4", 2, edit=lambda one: one.model_copy(update={"failure": failure, "points": ()}))
    text = markdown(run_of(reported(hurt)))
    plain = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)

    assert "<img" not in plain
    assert not re.search(r"@org", plain)
    assert "\x1b" not in text
    assert {len(cells) for cells in rows(plain)} == {7}
    assert "`````text\n" in text


def test_the_share_of_a_worst_boot_is_in_percent(window: type[Window], k4_off: ArmPair) -> None:
    """A share stands beside its limit in the unit of the limit."""
    limit = LimitThreshold(metric="acceptance_rate", at=1, kind="at_least", value=0.5)
    gate = Gate(id="test_gate.py::test_0", pair=k4_off, thresholds=(limit,))
    [cells] = rows(markdown(run_of(reported(dataclasses.replace(window.of(k4_off, speeds={}), gates=(gate,))))))

    assert (cells[2], cells[4]) == ("worst boot 37.50 %", "50 %")
