"""How many gates were judged: skipped is not passed, and a run can be made to need some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

# Loaded here once, and not by each run within this process.
import pytest_specgate.api
import pytest_specgate.core.rule
import pytest_specgate.session_end
import pytest_specgate.wiring  # noqa: F401  - likewise
from pytest_specgate.gate_count import (
    IN_PART,
    JUDGED,
    NO_BASELINE,
    NO_VERDICT,
    NOT_RUN,
    SKIPPED,
    UNDECIDED,
    WRITTEN,
    GateCount,
    GateLedger,
    gate_state,
)
from pytest_specgate.options import read_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

_FAKE_ENGINE: Final = "--specgate-engine-command=python -m pytest_specgate.testing.fake_vllm"
_SKIPPED: Final = """
import pytest

from pytest_specgate import *

OFF = Arm("off", model="m", args={"fake": {"seed": 0}})
PAIR = ArmPair(
    reference=OFF,
    candidate=OFF.vary("on", args={"fake": {"seed": 1}}),
    varies="args.fake",
    profile=RequestProfile(input_tokens=16, output_tokens=16, requests={1: 2}, warmup_requests=1),
    rounds=2,
)
CLAIMS = [
    not_worse(metric, at=1, margin="60%", noise=noise_floor("50%", source="made up"))
    for metric in ("output_throughput", "request_throughput")
]


@pytest.mark.skip(reason="no GPU")
@pytest.mark.parametrize("k", [4, 7])
@gate(PAIR, *CLAIMS)
def test_k(k): pass


@pytest.mark.skip(reason="no GPU")
@gate(PAIR, *CLAIMS)
def test_other(): pass


def test_plain(): pass
"""

_RESETS_THE_STATUS: Final = """
import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    session.exitstatus = 0
"""

_MIXED: Final = """\
    ON = pair(arm("off"), arm("on", seed=1), rounds=1)
    SURE = not_worse("output_throughput", at=1, margin="97%", noise=noise_floor("95%", source="a made-up figure"))
    OF_REQUESTS = not_worse(
        "request_throughput", at=1, margin="97%", noise=noise_floor("95%", source="a made-up figure")
    )
    TOO_FINE = not_worse(
        "request_throughput", at=1, margin="1%", noise=noise_floor("95%", source="a made-up figure")
    )


    @pytest.fixture
    def broken():
        raise OSError("no such thing")


    @pytest.fixture
    def left_behind():
        yield
        raise OSError("it would not go")


    @pytest.fixture
    def absent():
        pytest.skip("not here")


    @gate(ON, SURE, OF_REQUESTS)
    def test_whole(left_behind): pass


    @gate(ON, TOO_FINE)
    def test_undecided(): pass


    @gate(ON, SURE)
    def test_set_up_badly(verdict, broken): pass


    @gate(ON, SURE, TOO_FINE)
    def test_in_part(): pass


    @gate(ON, SURE)
    def test_left_out(absent): pass


    @gate(ON, SURE)
    def test_leaves(): pytest.skip("not today")


    @gate(ON, SURE)
    def test_gives_up(): pytest.xfail("known")
    """

_BASELINE: Final = """\
    @gate(
        pair(arm("off"), arm("on", seed=1), rounds=1),
        not_worse_than_baseline(
            "output_throughput", at=1, margin="60%", cross_window=noise_floor("40%", source="a made-up figure")
        ),
    )
    def test_gain(): pass
    """


def _run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(test_gates=_SKIPPED)
    without = [word for name in ("cacheprovider", "hypothesispytest", "anyio") for word in ("-p", f"no:{name}")]
    return pytester.runpytest_inprocess(*without, _FAKE_ENGINE, *arguments)


@pytest.fixture(scope="module")
def mixed(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Seven gates on one window: judged, undecided, with a broken fixture, in part, skipped, given up by their body."""
    gates = new_gate_folder()
    gates.write("test_mixed.py", _MIXED)
    return gates.run("--specgate-inconclusive=skip", "--specgate-require-gates=2")


@pytest.mark.parametrize(
    ("thresholds", "whole", "state"),
    [
        ([JUDGED, JUDGED], True, JUDGED),
        ([JUDGED], False, IN_PART),
        ([JUDGED, SKIPPED], True, IN_PART),
        ([JUDGED, NO_VERDICT], True, IN_PART),
        ([SKIPPED, NO_VERDICT], True, NO_VERDICT),
        ([UNDECIDED, SKIPPED, NOT_RUN], True, UNDECIDED),
        ([NO_BASELINE, WRITTEN], True, NO_BASELINE),
        ([NOT_RUN, WRITTEN], False, WRITTEN),
        ([NOT_RUN], True, NOT_RUN),
    ],
)
def test_a_gate_is_what_its_thresholds_are(thresholds: list[str], whole: bool, state: str) -> None:
    """Only all thresholds together make a judged gate; otherwise the state that says most is told."""
    assert gate_state(thresholds, whole=whole) == state


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        (GateCount(), "0 of 0 gates judged"),
        (GateCount(1, {JUDGED: 1}), "1 of 1 gate judged"),
        (GateCount(6, {SKIPPED: 3}), "0 of 3 gates judged: 3 skipped"),
        (GateCount(6, {NOT_RUN: 1, JUDGED: 2, SKIPPED: 3}), "2 of 6 gates judged: 3 skipped, 1 not run"),
    ],
)
def test_the_count_in_words(count: GateCount, sentence: str) -> None:
    """How many were judged of how many, then the others, by what became of them."""
    assert count.sentence == sentence


@pytest.mark.parametrize(
    ("count", "rest"),
    [
        (GateCount(), "no gate was seen"),
        (GateCount(1), "1 gate seen, none selected"),
        (GateCount(5), "5 gates seen, none selected"),
        (GateCount(3, {SKIPPED: 3}), "0 of 3 gates judged: 3 skipped"),
        (GateCount(5, {JUDGED: 1, IN_PART: 1}), "1 of 2 gates judged: 1 in part (5 seen)"),
        (GateCount(2, {JUDGED: 2}), None),
        (GateCount(3, {JUDGED: 3}), None),
    ],
)
def test_what_is_missing_in_words(count: GateCount, rest: str | None) -> None:
    """With too few judged, the sentence names the option and how many were seen, selected and judged."""
    assert count.shortage(2) == (f"--specgate-require-gates=2 is not met: {rest}" if rest else "")


def test_what_was_judged_stays_judged() -> None:
    """A rerun or a later failure takes no verdict away; a test that only ended knows less than a verdict."""
    ledger = GateLedger()
    ledger.collect("gate", "first", declared=2)
    ledger.collect("gate", "second", declared=2)
    ledger.note_end("gate", "first", NO_VERDICT)
    ledger.note("gate", "first", JUDGED)
    ledger.note("gate", "first", UNDECIDED)
    ledger.note("gate", "second", UNDECIDED)
    ledger.note_end("gate", "second", SKIPPED)

    assert (ledger.has_verdict("gate", "first"), ledger.has_verdict("gate", "third")) == (True, False)
    assert ledger.count(seen=1).states == {IN_PART: 1}
    ledger.note("gate", "second", JUDGED)
    assert ledger.count(seen=1).states == {JUDGED: 1}


def test_skipped_gates_are_told(pytester: pytest.Pytester) -> None:
    """Case 130: without the option skipped gates fail nothing, and the summary says that none was judged."""
    result = _run(pytester)

    result.assert_outcomes(passed=1, skipped=6)
    result.stdout.fnmatch_lines(["0 of 6 thresholds judged", "0 of 3 gates judged: 3 skipped"])
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("arguments", "rest"),
    [
        ([], "0 of 3 gates judged: 3 skipped"),
        (["-k", "typo"], "3 gates seen, none selected"),
        (["-k", "plain"], "3 gates seen, none selected"),
        (["-k", "test_other"], "0 of 1 gate judged: 1 skipped (3 seen)"),
        (["--deselect=test_gates.py::test_k"], "0 of 1 gate judged: 1 skipped (3 seen)"),
        (["test_gates.py::test_plain"], "3 gates seen, none selected"),
        (["empty"], "no gate was seen"),
    ],
)
def test_required_gates_that_are_not_there_fail_the_run(
    arguments: list[str], rest: str, pytester: pytest.Pytester
) -> None:
    """Case 131: nothing selected, a typing error beside passing tests, all skipped: exit status 1, with the count."""
    pytester.mkdir("empty")
    result = _run(pytester, "--specgate-require-gates=1", *arguments)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"--specgate-require-gates=1 is not met: {rest}"])


def test_no_plugin_makes_a_refused_run_green(pytester: pytest.Pytester) -> None:
    """An exit status of 0 that another plugin sets at the very end stands beside no shortage of judged gates."""
    pytester.makeconftest(_RESETS_THE_STATUS)

    assert _run(pytester).ret == pytest.ExitCode.OK
    assert _run(pytester, "--specgate-require-gates=1").ret == pytest.ExitCode.TESTS_FAILED


def test_no_plugin_makes_a_run_green_that_measured_nothing(pytester: pytest.Pytester) -> None:
    """Nor does it stand beside a window that could not be measured, though no threshold of it has a verdict."""
    vetoes = "\n\ndef pytest_specgate_veto_host(facts):\n    return 'this is not the partition for measuring'\n"
    pytester.makeconftest(_RESETS_THE_STATUS + vetoes)
    wanted = _SKIPPED.replace('@pytest.mark.skip(reason="no GPU")', "")
    pytester.makepyfile(test_wanted=wanted)
    run = _run(pytester, "test_wanted.py")

    assert run.ret == pytest.ExitCode.TESTS_FAILED
    run.stdout.fnmatch_lines("*INVALID (host-vetoed)*")


def test_listing_tests_needs_no_verdict(pytester: pytest.Pytester) -> None:
    """`--collect-only` of an editor is no failure where gates are required by the ini file."""
    pytester.makeini("[pytest]\nspecgate_require_gates = 3\n")

    assert _run(pytester, "--collect-only").ret == pytest.ExitCode.OK


def test_a_plan_needs_no_verdict(pytester: pytest.Pytester) -> None:
    """A plan beside a requirement that is set for good is a plan; one that is typed beside it is a mistake."""
    pytester.makeini("[pytest]\nspecgate_require_gates = 3\n")
    typed = _run(pytester, "--specgate-plan", "--specgate-require-gates=3")

    assert _run(pytester, "--specgate-plan").ret == pytest.ExitCode.OK
    assert typed.ret == pytest.ExitCode.USAGE_ERROR
    typed.stderr.fnmatch_lines(["ERROR: --specgate-plan judges nothing, and --specgate-require-gates wants gates*"])


def test_a_plan_tells_the_most_silent_of_a_veto(pytester: pytest.Pytester) -> None:
    """That nothing would be measured on this host belongs to the answer that was asked for, also under -qq."""
    pytester.makeconftest("def pytest_specgate_veto_host(): return 'this is no host for measuring'")
    result = _run(pytester, "--specgate-plan", "-qq")

    result.stdout.fnmatch_lines(["specgate: nothing would be measured on this host: this is no host for measuring"])


@pytest.mark.parametrize("text", ["", "-1", "two", "1.5"])
def test_a_number_of_gates_is_one(text: str, pytester: pytest.Pytester) -> None:
    """Case 135: an empty value requires nothing of nobody, and is refused as any other that is no number."""
    result = _run(pytester, f"--specgate-require-gates={text}")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --specgate-require-gates*"])


def test_a_requirement_may_be_lifted(pytester: pytest.Pytester) -> None:
    """0 on the command line stands above an ini file that requires some."""
    pytester.makeini("[pytest]\nspecgate_require_gates = 3\n")

    assert _run(pytester, "--specgate-require-gates=0").ret == pytest.ExitCode.OK


def test_what_measures_one_test_again_requires_none(pytester: pytest.Pytester) -> None:
    """The command in a failure is of one test: gates that a whole run needs are not asked of it."""
    config = pytester.parseconfig("--specgate-require-gates=3", "--specgate-rounds=4")

    assert read_options(config, environment={}).given == ("--specgate-rounds=4",)


def test_gates_are_counted_by_what_became_of_them(mixed: GateRun) -> None:
    """Undecided, skipped, in part and broken ones are not judged, and the summary has them all."""
    sentence = "1 of 7 gates judged: 1 in part, 1 without a verdict, 1 undecided, 3 skipped\n"

    assert f"--specgate-require-gates=2 is not met: {sentence}" in mixed.summary


def test_a_gate_that_was_not_set_up_is_not_judged(mixed: GateRun) -> None:
    """A broken fixture is an error, whatever the verdict that another fixture has told: no PASS is counted for it."""
    case = mixed.cases["test_set_up_badly[c1-output_throughput-not_worse]"]

    assert (case.outcome, "no such thing" in str(case.failure)) == (None, True)
    assert "5 of 9 thresholds judged: 3 PASS, 2 INCONCLUSIVE\n" in mixed.summary


@pytest.mark.parametrize("test", ["test_leaves", "test_gives_up"])
def test_a_body_that_gives_up_takes_its_pass_with_it(test: str, mixed: GateRun) -> None:
    """`pytest.skip` and `pytest.xfail` in a body end no gate as judged: its test is reported as skipped, or xfailed."""
    assert mixed.cases[f"{test}[c1-output_throughput-not_worse]"].failure is None
    assert (mixed.counts["skipped"], mixed.counts["xfailed"]) == (4, 1)


def test_an_error_after_a_verdict_is_extra(mixed: GateRun) -> None:
    """Case 125: a fixture that cannot be torn down fails the run, and the verdict stays on its test, counted once."""
    case = mixed.cases["test_whole[c1-output_throughput-not_worse]"]

    assert (case.outcome, "it would not go" in str(case.failure)) == ("PASS", True)
    assert (mixed.exit_code, mixed.counts["passed"], mixed.counts["errors"]) == (1, 3, 3)


def test_a_run_that_writes_a_baseline_has_judged_nothing(gate_folder: GateFolder) -> None:
    """What a gate writes is not what it passes: where gates are required, such a run is not green."""
    gate_folder.write("test_base.py", _BASELINE)
    run = gate_folder.run("--specgate-baseline=new", "--specgate-require-gates=1")

    assert (run.exit_code, run.counts) == (1, {"skipped": 1})
    assert "is not met: 0 of 1 gate judged: 1 written to a baseline\n" in run.summary
