"""Faults seen through the front door that were mended: each stays a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

CLAIM = "c1-output_throughput-not_worse"


def test_a_failure_is_not_told_twice(slowed: GateRun) -> None:
    """What the body raised is not shown as the cause: the sentence of a wrong `expect` stands there once."""
    failure = str(slowed.cases[f"test_other_outcome[{CLAIM}]"].failure)

    assert "During handling of the above exception" not in slowed.output
    assert failure.count("expected PASS or INCONCLUSIVE, got FAIL") == 2  # junit: once in message, once in text


def test_a_secret_of_the_engine_command_is_not_in_what_to_type_next(gate_folder: GateFolder) -> None:
    """A key in `--specgate-engine-command` is not printed in the line that measures again."""
    gate_folder.write(
        "test_one.py",
        """
        @gate(pair(arm("a"), arm("b", seed=1)), better("output_throughput", at=1, by="900%", noise=FLOOR))
        def test_one(): pass
        """,
    )
    engine = "python -m pytest_specgate.testing.fake_vllm --api-key command-secret-words"
    run = gate_folder.run("--specgate-rounds=1", engine=engine)

    assert run.counts == {"failed": 1}
    assert "command-secret-words" not in run.output


SLOW_TO_LEAVE = """\
    import os, signal, sys, time

    pid = os.fork()
    if pid == 0:
        from pytest_specgate.testing.main import main
        sys.exit(main())
    signal.signal(signal.SIGINT, lambda *_: os.kill(pid, signal.SIGINT))
    status = os.waitpid(pid, 0)[1]
    time.sleep(1)
    sys.exit(os.waitstatus_to_exitcode(status))
    """


def test_failed_requests_are_told_though_the_server_takes_its_time_to_leave(gate_folder: GateFolder) -> None:
    """A point whose requests failed is told as such, whatever /metrics answers afterwards."""
    gate_folder.write("engine.py", SLOW_TO_LEAVE)
    gate_folder.write(
        "test_one.py",
        """
        @gate(pair(arm("a", die_after_requests=3), arm("b", seed=1)), SPEED)
        def test_one(): pass
        """,
    )
    run = gate_folder.run("--specgate-rounds=1", engine="python engine.py")
    case = run.cases[f"test_one[{CLAIM}]"]

    assert case.properties["specgate_reason"] in {"failed-requests", "server-died"}
    assert "of 2 requests" in str(case.failure)


def test_failed_requests_of_a_death_are_told(faulty: GateRun) -> None:
    """The sentence of a server that died under load says how many requests of the point failed."""
    failure = str(faulty.cases[f"test_dies[{CLAIM}]"].failure)

    assert " of 2 requests at c=2 failed" in failure.partition("\n")[0]


def test_collecting_judges_nothing(gate_folder: GateFolder) -> None:
    """`--collect-only` prints no section of ours (today: "0 of 1 threshold judged")."""
    gate_folder.write("test_one.py", '@gate(pair(arm("a"), arm("b", seed=1)), SPEED)\ndef test_one(): pass\n')
    run = gate_folder.run("--collect-only")

    assert run.summary == ""


@pytest.fixture(scope="module")
def accepted(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Gates that accept a FAIL, or do not, and whose bodies do something else besides."""
    gates = new_gate_folder()
    gates.write(
        "test_accepted.py",
        """
        DOWN = pair(arm("fast", step_s=0.003), arm("slow", step_s=0.025), profile=load(requests={1: 2}))

        @gate(DOWN, SPEED)
        def test_skips(verdict):
            verdict.expect(Outcome.FAIL)
            pytest.skip("not today")

        @gate(DOWN, SPEED)
        def test_own(verdict):
            verdict.expect(Outcome.FAIL)
            assert "this" == "that"

        @gate(DOWN, SPEED)
        def test_own_beside_a_fail(): assert "this" == "that"
        """,
    )
    return gates.run("--specgate-rounds=1")


def test_an_accepted_and_skipped_gate_is_no_pass(accepted: GateRun) -> None:
    """A body that accepts a FAIL and then skips is skipped, not passed."""
    assert accepted.counts["skipped"] == 1


def test_a_body_that_fails_after_its_fail_was_accepted_is_called_failed(accepted: GateRun) -> None:
    """The FAIL was accepted, so what failed is the test: FAILED, as beside a PASS; junit has specgate_expected."""
    assert f"test_own[{CLAIM}] FAILED" in accepted.output
    assert accepted.cases[f"test_own[{CLAIM}]"].properties.get("specgate_expected") == "yes"


def test_a_body_that_fails_beside_a_fail_does_not_hide_it(accepted: GateRun) -> None:
    """The failure shows the assertion and the sentence of the verdict."""
    failure = str(accepted.cases[f"test_own_beside_a_fail[{CLAIM}]"].failure)

    assert "assert 'this' == 'that'" in failure
    assert "FAIL: output throughput at c=1 worse" in failure


def test_one_round_is_one_round(accepted: GateRun) -> None:
    """Counts agree with their nouns."""
    assert " 1 rounds" not in accepted.output


def test_what_is_cut_out_is_cut_out_once(faulty: GateRun) -> None:
    """A secret in a list becomes one mark."""
    failure = str(faulty.cases[f"test_dead[{CLAIM}]"].failure)

    assert "starting: {'api_key': ['[redacted]']}\n" in failure


@pytest.fixture(scope="module")
def excused(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Gates and readers of windows that something else than a verdict might excuse, run from a subfolder."""
    gates = new_gate_folder()
    gates.write(
        "test_excused.py",
        """
        SLOW = pair(arm("fast", step_s=0.003), arm("slow", step_s=0.025))
        IDLE = pair(arm("off"), arm("on", k=4, draft_share=0.0), varies=("args.fake", "args.speculative_config"))

        @pytest.mark.parametrize("x", [1, -1])
        @gate(SLOW, SPEED)
        def test_cases(x, request):
            if x == 1:
                request.getfixturevalue("verdict").expect(Outcome.FAIL)

        @measured(IDLE)
        def test_idle(): pass

        class TestOwn:
            @pytest.fixture
            def specgate_window(self): return None

            @measured(IDLE)
            def test_own_fixture(self, specgate_window): pass
        """,
    )
    return gates.run("--specgate-rounds=1")


def test_cases_of_one_gate_have_verdicts_of_their_own(excused: GateRun) -> None:
    """What one parametrised case expects is accepted for that case alone, and each case is counted."""
    assert excused.cases[f"test_cases[{CLAIM}-1]"].failure is None
    assert "FAIL: output throughput" in str(excused.cases[f"test_cases[{CLAIM}--1]"].failure)
    assert "2 of 2 thresholds judged: 2 FAIL (1 of them expected)" in excused.output


@pytest.mark.parametrize("name", ["test_idle", "test_own_fixture"])
def test_a_reader_of_an_invalid_window_fails(excused: GateRun, name: str) -> None:
    """A window in which nothing was drafted cannot be read, whatever fixtures the test has."""
    assert "INVALID (speculation-inactive)" in str(excused.cases[name].failure)


def test_an_exit_status_of_nought_does_not_stand_beside_a_fail(new_gate_folder: Callable[[], GateFolder]) -> None:
    """A body that ends the run with status 0 does not make a FAIL green."""
    gates = new_gate_folder()
    gates.write(
        "test_exit.py",
        """
        @gate(pair(arm("fast", step_s=0.003), arm("slow", step_s=0.025)), SPEED)
        def test_exit(): pytest.exit("done", returncode=0)
        """,
    )
    run = gates.run("--specgate-rounds=1")

    assert "1 of 1 threshold judged: 1 FAIL" in run.output
    assert run.exit_code == 1


def test_pairs_of_a_test_share_its_window(gate_folder: GateFolder) -> None:
    """Two arms of one name cannot be read in one test, and the sentence comes before any server."""
    gate_folder.write(
        "test_two.py",
        """
        @measured(pair(arm("a"), arm("b", seed=1)), pair(arm("a"), arm("b", seed=2)))
        def test_two(specgate_window): pass
        """,
    )
    run = gate_folder.run()

    assert "two arms of one window are called 'b'" in run.output
    assert not run.results.exists()


def test_a_reader_of_two_pairs_gets_the_window_that_has_both(new_gate_folder: Callable[[], GateFolder]) -> None:
    """A pair that another test measures with other partners does not hand out that test's window."""
    gates = new_gate_folder()
    gates.write(
        "test_shared.py",
        """
        SHARED = pair(arm("a"), arm("b", seed=1))
        FIRST = pair(arm("a"), arm("c", seed=2))
        OTHER = pair(arm("a"), arm("c", seed=3))

        def seeds(window): return {one.name: one.args["fake"].get("seed") for one in window.record.arms}

        @measured(SHARED, FIRST)
        def test_first(specgate_window): assert seeds(specgate_window) == {"a": None, "b": 1, "c": 2}

        @measured(SHARED, OTHER)
        def test_other(specgate_window): assert seeds(specgate_window) == {"a": None, "b": 1, "c": 3}
        """,
    )
    run = gates.run("--specgate-rounds=1")

    assert (run.exit_code, run.counts) == (0, {"passed": 2})
