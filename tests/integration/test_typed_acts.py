"""Calibrations, plans and budgets through the front door: none of them looks like a gate that passed."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.storage import load_record
from pytest_specgate.options import read_options
from tests.integration.conftest import FAKE_ENGINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

GATES = """\
    GOOD, EVEN = arm("good", step_s=0.01), arm("even", step_s=0.01, seed=1)
    LOAD = load(requests={1: 10})

    @gate(pair(GOOD, EVEN, profile=LOAD, rounds=ROUNDS), not_worse("tpot_p50", at=1, margin="50%"))
    def test_even(): pass
    """
WITH_A_DEAD_ARM = """
    @gate(pair(GOOD, arm("bad", exit_at_start=3), profile=LOAD), SPEED)
    def test_bad(): pass
    """
PLAIN = "def test_plain(): pass\n"
BOOTS = "--specgate-calibrate-boots=2"


def written(folder: GateFolder, *, rounds: int = 4, more: str = "") -> None:
    """Write a gate file of two arms, and further gates."""
    folder.write("test_gate.py", GATES.replace("ROUNDS", str(rounds)) + more)


def commanded(folder: GateFolder, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `specgate calibrate` here."""
    command = [sys.executable, "-m", "pytest_specgate", "calibrate", *arguments]
    return subprocess.run(
        [*command, f"--option=--specgate-engine-command={FAKE_ENGINE}", "--boots=2"], cwd=folder.folder,
        env=folder.environment(variables), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def half_calibrated(new_gate_folder: Callable[[], GateFolder]) -> tuple[GateFolder, GateRun]:
    """A calibration of three arms, one of which dies at its start."""
    folder = new_gate_folder()
    written(folder, more=WITH_A_DEAD_ARM)
    return folder, folder.run("--specgate-calibrate", BOOTS)


def test_an_arm_that_could_not_be_calibrated_is_a_failure(half_calibrated: tuple[GateFolder, GateRun]) -> None:
    """The gate of the dead arm fails with the reason, the other is skipped, and what was measured is kept."""
    folder, run = half_calibrated
    failure = run.cases["test_bad[c1-output_throughput-not_worse]"].failure

    assert run.exit_code == 1, run.output
    assert "no calibration of bad: " in str(failure)
    assert run.counts["skipped"] == 1
    assert "passed" not in run.counts
    assert len(list(folder.folder.glob("baselines/*/noise.json"))) == 1


def test_a_calibration_says_that_nothing_was_judged(half_calibrated: tuple[GateFolder, GateRun]) -> None:
    """Who looks for the count of outcomes finds that there are none."""
    _, run = half_calibrated

    assert "0 of 2 thresholds judged" in run.summary


def test_the_command_ends_with_the_failure(gate_folder: GateFolder) -> None:
    """`specgate calibrate` of an arm that dies is no success, whatever else it wrote."""
    written(gate_folder, more=WITH_A_DEAD_ARM)
    found = commanded(gate_folder, "test_gate.py")

    assert found.returncode != 0
    assert "no calibration of bad: " in found.stdout


def test_a_calibration_of_nothing_is_a_usage_error(gate_folder: GateFolder) -> None:
    """A file without gates has nothing to calibrate, and the command says so instead of running its tests."""
    (gate_folder.folder / "test_plain.py").write_text(PLAIN, encoding="utf-8")
    run, found = gate_folder.run("--specgate-calibrate"), commanded(gate_folder, "test_plain.py")

    assert run.exit_code == 4
    assert found.returncode == 2
    for output in (run.output, found.stdout + found.stderr):
        assert "--specgate-calibrate found no gate and no @measured test" in output


@pytest.mark.parametrize("name", ["calibrate", "plan"])
@pytest.mark.parametrize("place", ["ini", "environment"])
def test_an_act_that_was_left_behind_stops_the_run(gate_folder: GateFolder, name: str, *, place: str) -> None:
    """What would keep every gate unjudged for ever is refused where it was left, before any server."""
    written(gate_folder)
    variables = {f"SPECGATE_{name.upper()}": "yes"} if place == "environment" else {}
    if place == "ini":
        gate_folder.write("pytest.ini", f"[pytest]\nspecgate_{name} = yes\n")
    run = gate_folder.run(variables=variables)

    assert run.exit_code == 4
    assert f"--specgate-{name} is typed each time" in run.output
    assert not run.results.exists()


def test_a_plan_left_in_the_environment_stops_the_command(gate_folder: GateFolder) -> None:
    """It would end with 0 and have calibrated nothing."""
    written(gate_folder)
    found = commanded(gate_folder, "test_gate.py", SPECGATE_PLAN="yes")

    assert found.returncode == 2
    assert "SPECGATE_PLAN: --specgate-plan is typed each time" in found.stdout + found.stderr


def test_a_plan_says_that_nothing_was_judged(gate_folder: GateFolder) -> None:
    """A plan ends with 0, and says that it judged nothing."""
    written(gate_folder)
    run = gate_folder.run("--specgate-plan")

    assert run.exit_code == 0, run.output
    assert "nothing was started, and nothing judged" in run.output


def test_a_plan_may_be_typed_in_a_file_of_arguments(pytester: pytest.Pytester) -> None:
    """`@args.txt` on the command line counts as typed, as do the files that such a file names."""
    pytester.makefile(".txt", args="@more.txt", more="-q\n--specgate-plan")

    assert read_options(pytester.parseconfig("@args.txt"), environment={}).plan


def test_a_plan_and_a_calibration_exclude_each_other(gate_folder: GateFolder) -> None:
    """The plan is of gates, and a calibration runs none: the boots of the calibration are named instead."""
    written(gate_folder)
    run = gate_folder.run("--specgate-plan", "--specgate-calibrate", "--specgate-calibrate-boots=7")

    assert run.exit_code == 4
    assert "a calibration is 7 boots of each arm" in run.output


@pytest.mark.parametrize("options", [["--specgate-plan"], ["--specgate-plan", "--specgate-budget=1m"]])
def test_a_plan_while_collecting_only_is_none(gate_folder: GateFolder, options: list[str]) -> None:
    """A gate that can never be decided has no looks to plan; collecting lists it, and nothing breaks."""
    written(gate_folder, rounds=2)
    # Where there are calibrations, only they tell whether two rounds are enough, and collecting reads none.
    calibrations = gate_folder.folder / "baselines" / "some-class" / "noise.json"
    calibrations.parent.mkdir(parents=True)
    calibrations.touch()
    run = gate_folder.run("--collect-only", *options)

    assert run.exit_code == 0, run.output
    assert "test_even[c1-tpot_p50-not_worse]" in run.output
    assert "INTERNALERROR" not in run.output


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--specgate-baselines=no/such/folder", "--specgate-baselines=no/such/folder: there is no such folder"),
        ("--specgate-calibrate-boots=banana", "--specgate-calibrate-boots=banana"),
        ("--specgate-calibrate-boots=1", "one boot has nothing to be compared with"),
    ],
)
def test_options_about_calibrations_are_read_always(gate_folder: GateFolder, option: str, *, sentence: str) -> None:
    """A typing error is refused also where nothing is calibrated, and not taken for the lack of a calibration."""
    written(gate_folder)
    run = gate_folder.run("--specgate-plan", option)

    assert run.exit_code == 4
    assert sentence in run.output


def test_a_calibration_makes_the_folder_that_it_is_given(gate_folder: GateFolder) -> None:
    """Whoever calibrates for the first time has no folder yet."""
    written(gate_folder)
    run = gate_folder.run("--specgate-calibrate", BOOTS, "--specgate-baselines=new/folder")

    assert run.exit_code == 0, run.output
    assert len(list(gate_folder.folder.glob("new/folder/*/noise.json"))) == 1


def test_a_round_that_would_not_end_in_time_is_not_begun(gate_folder: GateFolder) -> None:
    """An earlier window tells what a round takes: a budget below that boots nothing, and its claim is undecided."""
    written(gate_folder, rounds=1, more="")
    gate_folder.run("--specgate-rounds=4")
    run = gate_folder.run("--specgate-budget=1s", "--specgate-results=specgate-results", "--specgate-rounds=4")
    record = load_record(max(run.results.glob("*/record.json")))
    [case] = run.cases.values()

    assert run.exit_code == 1, run.output
    assert record.boots == ()
    assert case.outcome == "INCONCLUSIVE"
    assert "nothing was measured: the time budget was used up after 0 of 4 rounds" in run.output


def test_a_pass_says_what_it_rests_on(healthy: GateRun) -> None:
    """The floor that was declared stands with its source below the table of a pair whose claims all passed."""
    assert healthy.exit_code == 0
    notes = healthy.table("k4 against off").splitlines()

    for name in ("c1-decode_rate_p50-better", "c2-output_throughput-not_worse", "c2-e2e_p50-not_worse"):
        assert [
            line for line in notes if re.match(rf"(.*, )?{name}(, .*)?: noise: .*floor 50 % \(a made-up figure\)", line)
        ], healthy.output
    assert any(re.match(r".*: speed: tokens per step .*; residual ", line) for line in notes)


@pytest.mark.parametrize("name", ["calibrate", "plan"])
@pytest.mark.parametrize("place", ["ini", "environment"])
def test_an_act_in_the_added_options_is_refused(gate_folder: GateFolder, name: str, place: str) -> None:
    """Options that pytest adds to every call are not typed each time: gates would end unjudged, with 0, for ever."""
    written(gate_folder)
    flag = f"--specgate-{name}"
    if place == "ini":
        gate_folder.write("pytest.ini", f"[pytest]\naddopts = {flag}\n")
    run = gate_folder.run(variables={"PYTEST_ADDOPTS": flag} if place == "environment" else {})

    assert run.exit_code == 4
    assert f"addopts: {flag} is typed each time" in run.output
    assert not run.results.exists()
