"""What a run or a record has to report: from records alone, and when it has passed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.session_report import Unmeasured, report_of
from tests.reporting.reports import PATH, kept, reported, run_of

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window


@pytest.fixture
def two(window: type[Window], k4_off: ArmPair) -> Window:
    """A window with a threshold that fails and one that passes."""
    return window.of(k4_off, speeds={"k4": 0.5}).gated().gated("ttft_p50", at=8, margin=1.5)


def test_a_record_tells_what_the_run_told(two: Window) -> None:
    """Windows, verdicts and messages are those of the run; only node ids are not in the record."""
    run, alone = run_of(reported(two)), report_of([(kept(two), PATH)])
    (window,) = alone.windows

    assert [one.verdict for one in alone.verdicts] == [one.verdict for one in run.verdicts]
    assert [one.node_id for one in alone.verdicts] == [gate.id for gate in two.gates]
    assert [(one.gate.id, one.verdicts) for one in window.judged] == [
        (one.gate.id, one.verdicts) for one in run.windows[0].judged
    ]
    assert (alone.counts, alone.thresholds, alone.exit_status) == (run.counts, 2, None)
    assert alone.verdicts[0].text.endswith(
        "measure again (a new sample, not a correction): pytest test_gate.py::test_0"
    )
    assert alone.verdicts[1].text == ""


def test_a_record_of_a_good_run_has_passed(window: type[Window], k4_off: ArmPair) -> None:
    """No exit status is known of it, and none is needed."""
    good = kept(window.of(k4_off, speeds={}).gated())

    assert report_of([(good, PATH)]).passed
    assert not report_of([(good, PATH)], unread=[Unmeasured((), (), "another one is broken")]).passed
    assert not report_of([(good.model_copy(update={"finished": False}), PATH)]).passed
    assert not report_of([]).passed


def test_a_window_that_was_cut_off_has_judged_nothing(two: Window) -> None:
    """Its thresholds are listed as not judged, with the reason."""
    cut = kept(two).model_copy(update={"finished": False, "verdicts": ()})
    stopped = cut.model_copy(update={"stopped": "the time budget was used up"})
    found = report_of([(cut, PATH), (stopped, PATH)])

    assert [one.threshold.id for one in found.unjudged] == [
        threshold.id for gate in (*two.gates, *two.gates) for threshold in gate.thresholds
    ]
    assert {one.message for one in found.unjudged} == {
        "the window did not run to its end", "the time budget was used up"
    }  # fmt: skip
    assert found.counts == "0 of 4 thresholds judged"


def test_a_broken_verdict_is_refused(two: Window) -> None:
    """A record that somebody edited is told, and not half shown."""
    whole = kept(two)
    strange = {**whole.verdicts[0], "gate": "test_other.py::test_x"}

    with pytest.raises(RecordError, match=r"a verdict is of test_other\.py::test_x, which is no gate of the record"):
        report_of([(whole.model_copy(update={"verdicts": (strange,)}), PATH)])
    with pytest.raises(RecordError, match="a verdict cannot be read: outcome: "):
        report_of([(whole.model_copy(update={"verdicts": ({**whole.verdicts[0], "outcome": "MAYBE"},)}), PATH)])


def test_what_is_accepted_passes(two: Window) -> None:
    """All of it must be: a verdict that was neither PASS nor declared leaves the run red."""
    accepted = reported(two, expected=[gate.id for gate in two.gates])

    assert run_of(accepted).passed
    assert not run_of(reported(two)).passed
    assert not run_of(dataclasses.replace(accepted, verdicts=accepted.verdicts[:1])).passed
    assert [one.verdict.outcome for one in accepted.verdicts] == [Outcome.FAIL, Outcome.PASS]
