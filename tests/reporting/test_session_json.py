"""The JSON report: figures under keys with their units, none of what is INVALID, and all of it by its schema."""

from __future__ import annotations

import dataclasses
import html
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.baselines import NO_BASELINE
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.schemas import published
from pytest_specgate.core.thresholds import CurveThreshold, LimitThreshold, NoiseFloor, OutputsThreshold
from pytest_specgate.core.verdict import BaselineVerdict, Outcome
from pytest_specgate.reporting.markdown import markdown
from pytest_specgate.reporting.session_json import session_json, session_json_text
from pytest_specgate.reporting.session_report import Broken, ReportedCalibration, SessionReport, Unjudged, Unmeasured
from tests.reporting.reports import PATH, reported, run_of

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

FLOOR = NoiseFloor(0.01, "A/A windows of a test")


def told(report: SessionReport) -> dict[str, Any]:
    """Return a report as it is read from its file, checked against its schema."""
    found: dict[str, Any] = json.loads(session_json_text(report))
    jsonschema.validate(found, published("report"))
    return found


def numbers(value: Any) -> list[float]:
    """Return all numbers inside a JSON value."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.fixture
def two(window: type[Window], k4_off: ArmPair) -> Window:
    """A window with a threshold that fails and one that passes."""
    slower = window.of(k4_off, speeds={"k4": 0.5})
    return slower.gated().gated("ttft_p50", at=8, margin=1.5)


def test_the_run_is_counted(two: Window) -> None:
    """Whether it passed, and how many thresholds are of each kind."""
    found = told(run_of(reported(two)))

    assert (found["schema_version"], found["passed"], found["exit_status"]) == (1, False, 0)
    assert found["summary"] == "2 of 2 thresholds judged: 1 PASS, 1 FAIL"
    assert found["counts"] == {
        "collected": 2, "judged": 2, "without_baseline": 0, "without_verdict": 0,
        "accepted": 1, "expected": 0, "skipped": 0,
        "outcomes": {"PASS": 1, "FAIL": 1, "INCONCLUSIVE": 0, "INVALID": 0},
    }  # fmt: skip


def test_figures_have_the_names_of_junit_properties(two: Window) -> None:
    """Values carry the unit of their metric, changes are fractions, each round stands beside them."""
    first, second = (gate["thresholds"][0] for gate in told(run_of(reported(two)))["gates"])

    assert first["figures"]["reference_tokens_per_s"] == pytest.approx(100.0)
    assert first["figures"]["candidate_tokens_per_s"] == pytest.approx(50.0)
    assert first["figures"]["change"] == pytest.approx(-0.5)
    assert first["figures"]["change_by_round"] == pytest.approx([-0.5, -0.5])
    assert (first["figures"]["limit"], first["figures"]["rounds"]) == (-0.05, 2)
    assert second["figures"]["candidate_s"] == pytest.approx(0.2)
    assert second["figures"]["change_by_round"] == pytest.approx([1.0, 1.0])
    assert "concurrency" not in first["figures"]


def test_a_threshold_says_what_it_is(two: Window) -> None:
    """Node id, claim, place, and the whole message where it was not accepted."""
    gate = told(run_of(reported(two)))["gates"][0]
    (found,) = gate["thresholds"]

    assert (gate["gate"], gate["pair"]) == ("test_gate.py::test_0", "k4 against off")
    assert found["node_id"] == "test_gate.py::test_0[c1-output_throughput-not_worse]"
    assert (found["valid"], found["outcome"], found["reason"]) == (True, "FAIL", "beyond-margin")
    assert (found["accepted"], found["expected"], found["skipped"]) == (False, False, False)
    assert (found["metric"], found["kind"], found["load"], found["concurrency"]) == (
        "output_throughput", "not_worse", "c=1", 1
    )  # fmt: skip
    assert found["claim"] == "output throughput at c=1 not worse by more than 5 %"
    assert found["text"].startswith(found["summary"])


def test_expected_and_skipped_are_told(two: Window) -> None:
    """An outcome that its test declared is accepted; one that was skipped is not."""
    undecided = dataclasses.replace(two, gates=()).gated(margin=0.5, floor=0.4)
    report = run_of(reported(two, expected=["test_gate.py::test_0"]), reported(undecided, skips=True))
    found = told(report)
    listed = [one for gate in found["gates"] for one in gate["thresholds"]]

    assert [(one["accepted"], one["expected"], one["skipped"]) for one in listed] == [
        (True, True, False), (False, False, True), (True, False, False),
    ]  # fmt: skip
    assert (found["counts"]["expected"], found["counts"]["skipped"], found["passed"]) == (1, 1, False)


def test_case_139_what_is_invalid_has_no_figures(two: Window) -> None:
    """Case 139: threshold, pair and arm say ``"valid": false`` with a reason, and hold no number of a measurement."""
    found = told(run_of(reported(two.with_death("k4", 2))))
    (measured,) = found["windows"]

    for gate in found["gates"]:
        for one in gate["thresholds"]:
            assert (one["valid"], one["outcome"], one["reason"], one["figures"]) == (
                False, "INVALID", "server-died", None
            )  # fmt: skip
            assert numbers({**one, "concurrency": None, "temperature": None}) == []
            assert one["detail"] == "one\nlast words"
    assert (measured["pairs"][0]["valid"], measured["pairs"][0]["reason"]) == (False, "server-died")
    assert {arm["valid"] for arm in measured["arms"]} == {False}
    assert {len(arm) for arm in measured["arms"]} == {5}


def test_what_has_no_verdict_is_listed_with_its_gate(two: Window) -> None:
    """It has no outcome, a reason and no figures, and stands beside the other thresholds of its gate."""
    gate = two.gates[0]
    left = Unjudged(gate, gate.thresholds[0], "test_gate.py::test_0[c1]", "its test was skipped: not today")
    found = told(run_of(reported(two), thresholds=3, unjudged=(left,)))
    one = found["gates"][0]["thresholds"][1]

    assert (one["valid"], one["outcome"], one["reason"], one["figures"]) == (False, None, "not-judged", None)
    assert (one["summary"], one["accepted"]) == ("its test was skipped: not today", False)
    assert (one["load"], one["temperature"]) == ("c=1", 0.0)
    assert (found["passed"], found["counts"]["judged"], found["counts"]["collected"]) == (False, 2, 3)


def test_windows_have_identity_and_figures_by_boot(two: Window) -> None:
    """As `record_json` has them; verdicts stand with their gates only."""
    (found,) = told(run_of(reported(two)))["windows"]
    arms = {arm["arm"]: arm for arm in found["arms"]}

    assert found["record"] == PATH
    assert found["pairs"][0]["identity"] == {"fields": 44, "identical": 44, "differing": []}
    assert found["pairs"][0]["points"] == {"c1": {"valid": True}, "c8": {"valid": True}}
    assert arms["k4"]["points"]["c1"]["values"]["ttft_p50_s"] == pytest.approx([0.2, 0.2])
    assert found["temperatures"] == {"c1": 0.0, "c8": 0.0}
    assert "acceptance" not in found["pairs"][0]
    assert "verdicts" not in found


def test_each_kind_of_claim_has_its_figures(window: type[Window], k4_off: ArmPair) -> None:
    """Limits have their boots, answers their shares, a curve its levels."""
    thresholds = (
        LimitThreshold(metric="ttft_p50", at=1, kind="at_most", value=0.2),
        OutputsThreshold(at=8, share=0.9),
        CurveThreshold(at=1, floor=FLOOR),
    )
    measured = window.of(k4_off, speeds={"k4": 1.25})
    gate = Gate(id="test_k.py::test_all", pair=k4_off, thresholds=thresholds)
    found = told(run_of(reported(dataclasses.replace(measured, gates=(gate,)))))
    limit, answers, curve = found["gates"][0]["thresholds"]

    assert limit["figures"]["candidate_by_boot_s"] == pytest.approx([0.08, 0.08])
    assert limit["figures"]["limit_s"] == 0.2
    assert answers["figures"]["equal_share_by_round"] == [1.0, 1.0]
    assert [(point["load"], point["shown"]) for point in curve["curve"]] == [("c=1", "better"), ("c=8", "better")]


def test_a_claim_about_a_baseline_names_its_file(two: Window) -> None:
    """The changes since the last and the first accepted window stand among its figures."""
    judged = reported(two)
    about = BaselineVerdict(
        mode="relative", today=0.5, level=1.0, windows=(1.0,), since_latest=-0.5, since_anchor=-0.25,
        anchor_at="2026-11-01", latest_at="2026-11-02", path="baselines/here/gate.json",
    )  # fmt: skip
    first, *others = judged.verdicts
    changed = {"baseline": about, "kind": NOT_WORSE_THAN_BASELINE}
    first = dataclasses.replace(first, verdict=first.verdict.model_copy(update=changed))
    found = told(run_of(dataclasses.replace(judged, verdicts=(first, *others))))["gates"][0]["thresholds"][0]

    assert found["baseline"] == "baselines/here/gate.json"
    assert (found["figures"]["change_since_latest"], found["figures"]["change_since_first"]) == (-0.5, -0.25)
    # What the arms did today is another quantity than the change since, and has another name.
    assert found["figures"]["arm_change_by_round"] == pytest.approx([-0.5, -0.5])
    assert "change_by_round" not in found["figures"]


def test_counts_add_up(two: Window) -> None:
    """Judged, without a baseline and without a verdict make up what was collected; outcomes make up the first two."""
    judged = reported(two)
    missing = {"outcome": Outcome.INCONCLUSIVE, "reason": NO_BASELINE}
    closed = dataclasses.replace(judged.verdicts[0], verdict=judged.verdicts[0].verdict.model_copy(update=missing))
    found = told(run_of(judged, closed=(closed,), thresholds=5))["counts"]

    assert (found["judged"], found["without_baseline"], found["without_verdict"], found["collected"]) == (2, 1, 2, 5)
    assert sum(found["outcomes"].values()) == found["judged"] + found["without_baseline"]


def test_a_calibration_is_told(two: Window) -> None:
    """Arms, record and file; bytes that are no letters are written out."""
    one = ReportedCalibration(("off",), "r\udce9/record.json", "b/noise.json", ("k4: too few boots",))

    assert told(SessionReport((), thresholds=2, exit_status=0, calibrated=(one,)))["calibrated"] == [{
        "arms": ["off"], "record": "r\\udce9/record.json", "calibrations": "b/noise.json",
        "problems": ["k4: too few boots"],
    }]  # fmt: skip


def test_names_of_folders_may_be_no_letters(two: Window) -> None:
    """A folder of results whose name is no UTF-8 is written out, in JSON as in Markdown."""
    window = dataclasses.replace(reported(two), path="results-\udce9/record.json")

    assert told(run_of(window))["windows"][0]["record"] == "results-\\udce9/record.json"
    assert "\\udce9" in html.unescape(markdown(run_of(window)).encode("utf-8").decode("utf-8"))


def test_nothing_collected_is_no_pass() -> None:
    """A run without a gate has a report, and that is not green."""
    found = told(SessionReport((), exit_status=5))

    assert (found["passed"], found["summary"]) == (False, "0 of 0 thresholds judged")
    assert found["gates"] == found["windows"] == found["unmeasured"] == found["broken"] == []


def test_what_went_wrong_besides_is_told(two: Window) -> None:
    """Windows that could not be measured, tests that failed otherwise, too few gates; bytes that are no letters."""
    lost = Unmeasured(("a against b",), ("t\udce9.py::test_b",), "its lock is held")
    broken = Broken("t\udce9.py::test_body", "assert 1 == 2")
    found = told(run_of(reported(two), unmeasured=(lost,), broken=(broken,), shortage="2 are wanted", exit_status=1))

    assert found["unmeasured"] == [
        {"pairs": ["a against b"], "gates": ["t\\udce9.py::test_b"], "message": "its lock is held"}
    ]
    assert found["broken"] == [{"node_id": "t\\udce9.py::test_body", "kind": "test", "message": "assert 1 == 2"}]
    assert (found["shortage"], found["exit_status"]) == ("2 are wanted", 1)


def test_the_file_is_ascii(two: Window) -> None:
    """It is JSON on every terminal and in every editor, and holds neither NaN nor infinity."""
    text = session_json_text(run_of(reported(two)))

    assert text.isascii()
    assert text.endswith("}\n")
    assert json.loads(text) == session_json(run_of(reported(two)))
