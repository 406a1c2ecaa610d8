"""Gates and pytest-rerunfailures: a verdict is never measured again until it is green."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

pytest.importorskip("pytest_rerunfailures", reason="needs pytest-rerunfailures: tox run -e plugins")

_CLAIM: Final = "c1-output_throughput-not_worse"
_GATES: Final = """\
    TRIES = []
    WORSE = pair(arm("fast"), arm("slow", step_s=0.05), profile=load(requests={1: 4}))


    @pytest.fixture
    def flaky():
        TRIES.append("fixture")
        assert TRIES.count("fixture") == 2


    @gate(WORSE, SPEED)
    def test_worse(): pass


    @gate(WORSE, SPEED)
    def test_flaky_body(verdict):
        verdict.expect(Outcome.FAIL)
        TRIES.append("body")
        assert TRIES.count("body") == 2


    @gate(WORSE, SPEED)
    def test_flaky_fixture(flaky, verdict):
        verdict.expect(Outcome.FAIL)
    """


@pytest.fixture(scope="module")
def rerun(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Three gates on one window that is far slower, with two reruns each."""
    gates = new_gate_folder()
    gates.write("test_again.py", _GATES)
    return gates.run("--reruns=2", "-p", "no:randomly", engine=gates.recorded_engine())


def test_a_fail_stays_a_fail(rerun: GateRun) -> None:
    """Three runs of a test judge one measurement, and its failure says so below its first line."""
    first, second = str(rerun.cases[f"test_worse[{_CLAIM}]"].failure).partition("\nFAIL: ")[2].splitlines()[:2]

    assert first.startswith("output throughput at c=1 worse -")
    assert second == "    run 3 of this test, judged by the same one measurement: a rerun is no new sample"
    assert (rerun.exit_code, rerun.counts) == (1, {"failed": 1, "passed": 2, "rerun": 4})


def test_a_window_is_measured_once(rerun: GateRun) -> None:
    """However often tests run again, there is one record, of two boots an arm."""
    assert [word for word, _ in rerun.lifetimes].count("began") == 4
    assert len(rerun.records) == 1


@pytest.mark.parametrize(("test", "runs"), [("test_worse", "3"), ("test_flaky_body", "2"), ("test_flaky_fixture", "2")])
def test_a_rerun_stays_visible(test: str, runs: str, rerun: GateRun) -> None:
    """The summary names tests that ran again, passed ones too, and their properties count the runs."""
    assert rerun.cases[f"{test}[{_CLAIM}]"].properties["specgate_test_runs"] == runs
    assert f"test_again.py::{test}[{_CLAIM}] ({runs} runs)" in rerun.summary
    assert "run again by a plugin, and judged by the same one measurement each time: " in rerun.summary


def test_a_first_run_is_none(rerun: GateRun) -> None:
    """The first of three runs, a test case of its own in the junit report, has no number of runs."""
    report = ET.fromstring((rerun.folder / "junit.xml").read_text(encoding="utf-8"))
    cases = [case for case in report.iter("testcase") if case.attrib["name"] == f"test_worse[{_CLAIM}]"]
    counts = [
        [entry.attrib["value"] for entry in case.iter("property") if entry.attrib["name"] == "specgate_test_runs"]
        for case in cases
    ]

    assert counts == [[], ["2"], ["3"]]
