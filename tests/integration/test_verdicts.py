"""Verdicts become test outcomes: what passes, what fails, what a body may and may not change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.integration.conftest import GateRun

CLAIM = "c1-output_throughput-not_worse"
DODGES = ("test_swallows", "test_skips", "test_gives_up", "test_marks_itself")


def _failure(run: GateRun, name: str) -> str:
    return str(run.cases[f"{name}[{CLAIM}]"].failure)


def _shown(run: GateRun, name: str) -> str:
    """Return what pytest prints behind the name of a test when it has ended, without the percentage."""
    found = re.search(rf"::{name}\[{CLAIM}\] ([A-Z].*?) +\[ *\d+%\]$", run.output, re.MULTILINE)
    return "" if found is None else found[1]


def test_a_healthy_run_passes(healthy: GateRun) -> None:
    """Every threshold is PASS, and the exit status is 0."""
    outcomes = [case.outcome for name, case in healthy.cases.items() if "[" in name]

    assert healthy.exit_code == 0
    assert outcomes == ["PASS"] * 4
    assert "\n4 of 4 thresholds judged: 4 PASS\n" in healthy.summary


def test_a_slowed_arm_fails_though_the_body_is_empty(slowed: GateRun) -> None:
    """The plugin judges whatever the body does; an eightfold step time is a FAIL and exit status 1."""
    case = slowed.cases[f"test_bare[{CLAIM}]"]

    assert slowed.exit_code == 1
    assert (case.outcome, case.properties["specgate_reason"]) == ("FAIL", "beyond-margin")
    assert float(case.properties["specgate_change"]) < -0.5


def test_the_failure_begins_with_its_sentence(slowed: GateRun) -> None:
    """Metric, point, change with its direction, interval, margin and reason stand in the first line."""
    first = next(line for line in slowed.output.splitlines() if line.startswith("FAIL: "))

    assert first.startswith("FAIL: output throughput at c=1 worse -")
    assert "interval -" in first
    assert "margin -30 %" in first
    assert first.endswith("the whole interval lies beyond the margin")


@pytest.mark.parametrize(
    "part",
    [
        "request profile: 43 of 43 fields identical",
        "tokens/s",
        "a made-up figure",
        "claim: output throughput at c=1 not worse by more than 30 %",
        "server of fast: ",
        "server of slow: ",
        "-m pytest_specgate.testing.fake_vllm --model",
        '"step_s": 0.025',
        "interval: one-sided bounds, in all 5 % for PASS and 5 % for FAIL, shared by 1 look",
        "record.json",
        f"measure again (a new sample, not a correction): pytest 'test_slow.py::test_bare[{CLAIM}]' --specgate-engine-",
    ],
)
def test_the_failure_has_what_one_needs_next(part: str, slowed: GateRun) -> None:
    """Identity, values, noise with its source, claim, both server commands, record and what to type are in the text."""
    part = part.replace("43 of 43", _fields(slowed))

    assert part in _failure(slowed, "test_bare")


def _fields(run: GateRun) -> str:
    fields = len(run.record.boots[0].profile)
    return f"{fields} of {fields}"


def test_the_failure_names_the_record_that_exists(slowed: GateRun) -> None:
    """The path in the text is that of the file."""
    (path,) = slowed.results.glob("*/record.json")

    assert f"record: {path.relative_to(slowed.results.parent)}" in _failure(slowed, "test_bare")


def test_an_accepted_failure_passes_and_stays_visible(slowed: GateRun) -> None:
    """`verdict.expect(FAIL, INCONCLUSIVE)` passes the test; line, table and report still say FAIL."""
    case = slowed.cases[f"test_accepted[{CLAIM}]"]

    assert case.failure is None
    assert (case.outcome, case.properties["specgate_expected"]) == ("FAIL", "yes")
    assert _shown(slowed, "test_accepted") == "FAIL (expected)"
    assert "FAIL (not worse than -30 %), expected" in slowed.table("slow against fast")


def test_expecting_another_outcome_fails(slowed: GateRun) -> None:
    """`expect(PASS, INCONCLUSIVE)` on a FAIL says so in the first line, and shows the rest as for any FAIL."""
    text = _failure(slowed, "test_other_outcome")

    assert text.startswith("expected PASS or INCONCLUSIVE, got FAIL (beyond-margin): FAIL: output throughput")
    for part in ("request profile: ", "claim: ", "server of fast: ", "server of slow: ", "record: ", "measure again"):
        assert f"\n    {part}" in text
    assert "specgate_expected" not in slowed.cases[f"test_other_outcome[{CLAIM}]"].properties


def test_invalid_is_never_accepted(slowed: GateRun) -> None:
    """`expect(INVALID)` is refused, whatever the verdict is."""
    assert "what was not measured is never accepted" in _failure(slowed, "test_expects_invalid")
    assert _shown(slowed, "test_expects_invalid") == "FAIL"


@pytest.mark.parametrize("test", DODGES)
def test_nothing_but_expect_accepts_a_failure(test: str, slowed: GateRun) -> None:
    """A FAIL stays one, with its sentence, however the body or a mark of the test tries to get round it."""
    case = slowed.cases[f"{test}[{CLAIM}]"]

    assert "\nFAIL: output throughput at c=1 worse -" in str(case.failure)
    assert (case.outcome, case.properties.get("specgate_expected")) == ("FAIL", None)
    assert _shown(slowed, test) == "FAIL"


def test_no_failure_shows_the_inside_of_the_plugin(slowed: GateRun) -> None:
    """Verdicts and what a test wrongly expects of them are told without a line of our code."""
    source = ("raise UnexpectedOutcomeError", "def expect", "def _enforce", "pytest_specgate/core", "session.py")

    assert [line for line in source if line in slowed.output] == []


def test_a_body_of_a_passing_gate_may_fail_for_its_own_reason(slowed: GateRun) -> None:
    """An assertion of the body fails the test beside a PASS verdict, and is shown as pytest shows it."""
    case = slowed.cases[f"test_own_assertion[{CLAIM}]"]

    assert case.outcome == "PASS"
    assert "AssertionError" in str(case.failure)
    assert "assert 'this' == 'that'" in str(case.failure)


def test_a_failed_body_is_not_called_pass(slowed: GateRun) -> None:
    """A test whose body failed beside a PASS is FAILED in its line and in the short summary."""
    name = f"test_slow.py::test_own_assertion[{CLAIM}]"

    assert _shown(slowed, "test_own_assertion") == "FAILED"
    assert f"\nFAILED {name} - " in slowed.output
    assert f"\nPASS {name}" not in slowed.output


def test_methods_of_a_decorated_class_are_gates(slowed: GateRun) -> None:
    """`@gate` on a class judges each of its methods."""
    case = slowed.cases[f"test_method[{CLAIM}]"]

    assert (case.outcome, case.failure) == ("PASS", None)


def test_equal_arms_inside_a_wide_floor_are_undecided(slowed: GateRun) -> None:
    """A margin far inside the declared noise is INCONCLUSIVE, a failure, though nothing got slower."""
    case = slowed.cases[f"test_even[{CLAIM}]"]

    assert case.outcome == "INCONCLUSIVE"
    assert "INCONCLUSIVE: output throughput at c=1 " in str(case.failure)
    assert float(case.properties["specgate_change_low"]) < -0.01 < float(case.properties["specgate_change_high"])


def test_the_noise_a_verdict_rests_on_is_quoted(slowed: GateRun) -> None:
    """The source of a declared floor is in the properties, with the figures derived from it."""
    properties = slowed.cases[f"test_bare[{CLAIM}]"].properties

    assert "floor 50 % (a made-up figure)" in properties["specgate_noise_source"]
    assert float(properties["specgate_noise_sd"]) > 0
    assert float(properties["specgate_noise_df"]) > 0


def test_only_what_is_not_accepted_fails(slowed: GateRun) -> None:
    """Of eleven thresholds that ran the accepted FAIL and the PASS of the method pass, all others fail."""
    assert slowed.counts == {"failed": 9, "passed": 2, "skipped": 1}
