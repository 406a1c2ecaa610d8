"""Gates under xdist: several workers refuse the run as one, a single one shows what a run without it would show."""

from __future__ import annotations

import os
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate import Arm, distributed
from pytest_specgate.fixtures import session_of
from pytest_specgate.session_end import summary_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

REFUSAL: Final = "gates cannot run on 2 xdist workers: servers would share the machine; use -n 0"

_TWO_WINDOWS: Final = """\
    @gate(pair(arm("off"), arm("on", seed=1)), SPEED)
    def test_gate(): pass

    @gate(pair(arm("off"), arm("on", seed=1), profile=load(requests={1: 3})), SPEED)
    def test_other_load(): pass

    def test_plain(): pass
    """

_SERVER_ONLY: Final = """\
    def test_server(vllm_server):
        vllm_server(arm("off"))
    """

_ONE_WORKER: Final = """\
    OFF, ON = arm("off"), arm("on", seed=1)

    @gate(pair(OFF, ON), UNDECIDABLE)
    def test_even(): pass

    @gate(pair(OFF, ON), UNDECIDABLE)
    def test_expected(verdict):
        verdict.expect(Outcome.INCONCLUSIVE)

    @gate(pair(OFF, arm("dead", exit_at_start=3)), SPEED)
    def test_dead(): pass

    @pytest.mark.skip(reason="no time")
    @gate(pair(OFF, ON), SPEED)
    def test_skipped(): pass
    """

_CRASHES: Final = """\
    PAIR = pair(arm("off"), arm("on", seed=1), rounds=1)


    @gate(PAIR, at_least("output_throughput", at=1, limit="0.1 tokens/s"))
    def test_before(): pass


    @measured(PAIR)
    def test_crashes():
        import os

        os._exit(1)


    @gate(PAIR, SPEED)
    def test_gate(): pass


    def test_plain(): pass
    """

_HOLDS_A_SERVER: Final = """\
    def test_fails(vllm_server):
        vllm_server(arm("off"))
        pytest.fail("enough")


    def test_next(vllm_server):
        vllm_server(arm("off"))
    """


def _said(run: GateRun, sentence: str) -> int:
    return run.output.count(sentence)


@pytest.fixture(scope="module")
def one_worker(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Four gates in two windows under one worker, with every gate required."""
    gates = new_gate_folder()
    gates.write("test_one.py", _ONE_WORKER)
    return gates.run("-n", "1", "--specgate-rounds=1", "--specgate-require-gates=4")


@pytest.fixture(scope="module")
def crashed(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """A worker that dies in the second test of its window, with two gates required."""
    gates = new_gate_folder()
    gates.write("test_crash.py", _CRASHES)
    options = ["--specgate-require-gates=2", "--specgate-markdown=out.md"]
    return gates.run("-n", "1", *options, engine=gates.recorded_engine())


def test_two_workers_are_one_usage_error(gate_folder: GateFolder) -> None:
    """Case 124: with gates among the tests two workers end the run, in one sentence, before a server is started."""
    gate_folder.write("test_two.py", _TWO_WINDOWS)
    run = gate_folder.run("-n", "2", "--dist=loadgroup", engine=gate_folder.recorded_engine())

    assert (run.exit_code, _said(run, REFUSAL)) == (4, 1)
    assert [word for word in ("INTERNALERROR", "Traceback", "node down") if word in run.output] == []
    assert not (gate_folder.folder / "lifetimes.txt").exists()
    assert not run.results.exists()


def test_two_workers_refuse_tests_that_ask_for_a_server(gate_folder: GateFolder) -> None:
    """Servers of tests would share the machine as those of gates would: the same sentence, and no server."""
    gate_folder.write("test_server.py", _SERVER_ONLY)
    run = gate_folder.run("-n", "2", engine=gate_folder.recorded_engine())

    assert (run.exit_code, _said(run, REFUSAL)) == (4, 1)
    assert not (gate_folder.folder / "lifetimes.txt").exists()


def test_a_run_without_gates_is_left_alone(gate_folder: GateFolder) -> None:
    """`-n 2` of a project whose gates were not selected runs its other tests, and says nothing."""
    gate_folder.write("test_two.py", _TWO_WINDOWS)
    run = gate_folder.run("-n", "2", "-k", "plain")

    assert (run.exit_code, run.counts) == (0, {"passed": 1})
    assert run.summary == ""


def test_one_worker_hands_over_the_summary(one_worker: GateRun) -> None:
    """Under `-n 1` tables, records and the count of outcomes are shown once, by the process that the user sees."""
    assert "request profile: 45 of 45 fields identical" in one_worker.table("on against off")
    assert len(re.findall(r"^record: .*/record\.json$", one_worker.summary, flags=re.MULTILINE)) == 1
    assert _said(one_worker, "3 of 4 thresholds judged: 2 INCONCLUSIVE (1 of them expected), 1 INVALID\n") == 1


def test_one_worker_has_the_words_of_verdicts(one_worker: GateRun) -> None:
    """The words of outcomes stand beside the tests, as without xdist."""
    words = dict(re.findall(r"\[gw0\] \[ *\d+%\] ([A-Z]+(?: \(expected\))?) test_one\.py::(\w+)", one_worker.output))

    assert set(words) == {"INCONCLUSIVE", "INCONCLUSIVE (expected)", "INVALID", "SKIPPED"}


def test_one_worker_says_what_it_does_meanwhile(one_worker: GateRun) -> None:
    """What is said while a window is measured comes before the first result."""
    before = one_worker.output.partition("[gw0] [ ")[0]

    assert "\nspecgate: round 1 of 1: off: starting its server\n" in before


def test_one_worker_counts_gates(one_worker: GateRun) -> None:
    """What is required of a run is told by the worker that judged."""
    sentence = "--specgate-require-gates=4 is not met: 3 of 4 gates judged: 1 skipped\n"

    assert (one_worker.exit_code, _said(one_worker, sentence)) == (1, 1)


def test_a_usage_error_in_a_worker_is_shown(gate_folder: GateFolder) -> None:
    """What a worker finds wrong with the gates ends the run as it would without xdist."""
    gate_folder.write("test_two.py", _TWO_WINDOWS)
    run = gate_folder.run("-n", "1", "--specgate-engine-python=nowhere/python", engine=None)

    assert (run.exit_code, _said(run, "does not exist")) == (4, 1)
    assert [word for word in ("INTERNALERROR", "Traceback") if word in run.output] == []


def test_a_plan_is_refused(gate_folder: GateFolder) -> None:
    """`--specgate-plan` runs no test, and xdist waits for tests: the user is told what to type."""
    gate_folder.write("test_two.py", _TWO_WINDOWS)
    run = gate_folder.run("-n", "1", "--specgate-plan")

    assert run.exit_code == 4
    assert "--specgate-plan runs no test, and workers wait for some: use -n 0" in run.output


def test_a_window_is_not_measured_again_for_a_worker_that_died(crashed: GateRun) -> None:
    """A crash in a test of a window fails its other tests at once, each with the test that did it; others run."""
    sentence = "the xdist worker that measured this window died in test_crash.py::test_crashes"

    assert sentence in str(crashed.cases["test_gate[c1-output_throughput-not_worse]"].failure)
    assert crashed.cases["test_plain"].failure is None
    assert [word for word, _ in crashed.lifetimes].count("began") == 2
    assert crashed.exit_code == 1


def test_what_a_worker_judged_before_it_died_stays_judged(crashed: GateRun) -> None:
    """The process that starts workers has heard of a PASS: no gate is called "not run" that ran."""
    told = "judged by an xdist worker that died later, its tables with it: 1 PASS\n"

    report = (crashed.folder / "out.md").read_text(encoding="utf-8")

    assert "\nPASS by an xdist worker that died later: its figures are lost\n" in report
    assert told in crashed.summary
    assert "--specgate-require-gates=2 is not met: 1 of 2 gates judged: 1 without a verdict\n" in crashed.summary


def test_a_worker_that_nobody_replaces_is_told_of(pytester: pytest.Pytester) -> None:
    """What it judged is known by the process that started it; how many gates there were, by nobody any more."""
    config = pytester.parseconfigure("--specgate-require-gates=2")
    told = [("specgate_outcome", "PASS"), ("specgate_reason", "")]
    report = SimpleNamespace(
        node=SimpleNamespace(config=config), nodeid="test_x.py::test_x", user_properties=told, skipped=False
    )
    distributed.note_verdict(report)
    distributed.note_crash(config, "test_x.py::test_crash")

    assert summary_lines(config) == [
        "judged by an xdist worker that died later, its tables with it: 1 PASS",
        "--specgate-require-gates=2 is not met: the xdist worker that counted gates died",
    ]


def test_a_worker_whose_controller_was_killed_boots_no_more(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for what it would measure: it stops as at Ctrl-C, before the next server."""
    config = pytester.parseconfigure("-p", "no:xdist", "--specgate-engine-command=python -c pass")
    vars(config)["workerinput"] = {"workercount": 1}
    monkeypatch.setattr(distributed, "_PROCESSES", (os.getpid(), 0))
    with pytest.raises(KeyboardInterrupt, match="the process that started this xdist worker has died"):
        session_of(config).server(Arm("off", model="m"))

    assert not (pytester.path / "specgate-results").exists()


def test_a_first_failure_that_is_one_too_many_leaves_no_server(gate_folder: GateFolder) -> None:
    """Case 134: under one worker, which then tears nothing down, the server of a test ends with the run."""
    gate_folder.write("test_holds.py", _HOLDS_A_SERVER)
    run = gate_folder.run("-n", "1", "--maxfail=1", engine=gate_folder.recorded_engine())

    assert [word for word, _ in run.lifetimes] == ["began", "ended"]
    assert (run.survivors, run.counts["failed"]) == ((), 1)
