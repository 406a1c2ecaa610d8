"""What kept a run from passing: one list for all reports."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.reporting.markdown import headline as markdown_headline
from pytest_specgate.reporting.page import headline as page_headline
from pytest_specgate.reporting.reasons import reasons
from pytest_specgate.reporting.session_report import Broken, ReportedCalibration, SessionReport, Unmeasured
from tests.reporting.reports import reported, run_of

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

_WRONG: dict[str, Any] = {
    "thresholds": 3,
    "unmeasured": (Unmeasured(("a against b",), (), "no lock"), Unmeasured((), (), "no record")),
    "broken": (Broken("t.py", "boom", "collection"), Broken("pytest", "boom", "run"), Broken("t.py::t", "boom")),
    "exit_status": 1,
    "shortage": "two gates are missing",
    "besides": 2,
    "calibrated": (ReportedCalibration(("off",), "record.json", "noise.json"),),
}


@pytest.fixture
def good(window: type[Window], k4_off: ArmPair) -> SessionReport:
    """A run that passed."""
    return run_of(reported(window.of(k4_off, speeds={}).gated()))


def test_a_run_that_passed_has_none(good: SessionReport) -> None:
    """There is nothing to say, and Markdown and page say PASS."""
    assert (reasons(good), good.passed) == ((), True)
    assert (markdown_headline(good), page_headline(good).word) == ("specgate: 1 PASS", "PASS")


@pytest.mark.parametrize("what", _WRONG)
def test_markdown_and_page_say_the_same(good: SessionReport, what: str) -> None:
    """Whatever went wrong leaves the run not passed, and both have all of it."""
    report = dataclasses.replace(good, **{what: _WRONG[what]})
    found = reasons(report)

    assert found
    assert not report.passed
    assert page_headline(report).sentences == tuple(one.sentence for one in found)
    assert markdown_headline(report) == f"specgate: {', '.join([*(one.short for one in found), '1 PASS'])}"


def test_an_exit_status_is_named_where_nothing_else_explains_it(good: SessionReport) -> None:
    """Beside other reasons it would say nothing."""
    alone = dataclasses.replace(good, exit_status=3)
    explained = dataclasses.replace(alone, shortage="two gates are missing")

    assert [one.short for one in reasons(alone)] == ["pytest ended with exit status 3"]
    assert [one.short for one in reasons(explained)] == ["too few gates judged"]


def test_a_test_is_counted_once(good: SessionReport) -> None:
    """One that failed in its set-up and in its teardown is one test."""
    twice = (Broken("t.py::t", "boom", "setup"), Broken("t.py::t", "bang", "teardown"))

    assert [one.short for one in reasons(dataclasses.replace(good, broken=twice))] == ["1 test failed otherwise"]
