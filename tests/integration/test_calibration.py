"""Calibration, plan and budget: what is known of the noise beforehand, and what is done with it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.storage import load_record
from tests.integration.conftest import FAKE_ENGINE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.conftest import GateFolder, GateRun

GATE = """\
    from pytest_specgate import Arm, ArmPair, RequestProfile, gate, noise_floor, not_worse

    ONE = Arm("one", model="fake-model", args={"fake": {"step_s": 0.004}})
    TWO = ONE.vary("two", args={"fake": {"step_s": 0.004, "seed": 1}})
    LOAD = RequestProfile(input_tokens=16, output_tokens=32, requests={1: 10})
    PAIR = ArmPair(reference=ONE, candidate=TWO, varies="args.fake", profile=LOAD, rounds=ROUNDS)

    @gate(PAIR, not_worse("tpot_p50", at=1, MARGIN))
    def test_gate(): pass
    """


def written(folder: GateFolder, *, rounds: int = 6, margin: str = 'margin="30%"') -> None:
    """Write the gate file."""
    folder.write("test_gate.py", GATE.replace("ROUNDS", str(rounds)).replace("MARGIN", margin))


@pytest.fixture(scope="module")
def calibrated(new_gate_folder: Callable[[], GateFolder]) -> tuple[GateFolder, GateRun]:
    """A gate file whose arms were calibrated with three boots each, and the run that did it."""
    folder = new_gate_folder()
    written(folder)
    return folder, folder.run("--specgate-calibrate", "--specgate-calibrate-boots=3")


def noise_file(folder: GateFolder) -> Path:
    """Return the one file of calibrations."""
    (path,) = folder.folder.glob("baselines/*/noise.json")
    return path


def test_calibrating_boots_each_arm_in_a_row_and_judges_nothing(calibrated: tuple[GateFolder, GateRun]) -> None:
    """A/A windows run instead of the gate, whose item is skipped with the place of the file; nothing passed."""
    _, run = calibrated
    record = load_record(next(run.results.glob("*/record.json")))

    assert run.exit_code == 0, run.output
    assert run.counts == {"skipped": 1}
    assert [(boot.arm, boot.round) for boot in record.boots] == [
        ("one", 1), ("one", 2), ("one", 3), ("two", 1), ("two", 2), ("two", 3),
    ]  # fmt: skip
    assert "noise of one round, by A/A windows" in run.output
    assert "commit it" in run.output


def test_the_file_names_what_it_rests_on(calibrated: tuple[GateFolder, GateRun]) -> None:
    """By arm, load and metric: boots, standard deviation, degrees of freedom, date, build and the values themselves."""
    folder, _ = calibrated
    book = json.loads(noise_file(folder).read_text())
    entry = book["arms"][0]

    assert noise_file(folder).parent.name == book["host_class"]
    assert [arm["arm"] for arm in book["arms"]] == ["one", "two"]
    assert entry["noise"]["c1"]["tpot_p50"]["boots"] == 3
    assert entry["noise"]["c1"]["tpot_p50"]["df"] == pytest.approx(1.6)
    assert len(entry["windows"][0]["values"]["c1"]["tpot_p50"]) == 3
    assert entry["windows"][0]["measured_at"]
    assert noise_file(folder).read_text().endswith("}\n")


def test_a_gate_uses_the_calibration_and_says_so(calibrated: tuple[GateFolder, GateRun]) -> None:
    """What was calibrated is known at the first look, stands in the record, and is named in the report."""
    folder, _ = calibrated
    # Two arms with 1.6 degrees of freedom each are worth more than three together only if both are as noisy.
    run = folder.run("--specgate-results=judged")
    record = load_record(next(folder.folder.glob("judged/*/record.json")))

    assert run.exit_code == 0, run.output
    assert {noise.arm for noise in record.noise} == {"one", "two"}
    assert "calibrated: one by 3 boots of 20" in str(record.verdicts[0]["noise"])


def test_a_second_calibration_adds_to_the_first(new_gate_folder: Callable[[], GateFolder]) -> None:
    """Windows accumulate, and a margin that is the calibrated floor needs enough of them."""
    folder = new_gate_folder()
    written(folder, margin="margin=noise_floor()")
    first = folder.run()
    runs = [folder.run("--specgate-calibrate", "--specgate-calibrate-boots=3") for _ in range(2)]
    entry = json.loads(noise_file(folder).read_text())["arms"][0]

    assert first.exit_code == 2
    assert "is the calibrated floor, which needs 5 degrees of freedom, and there is no calibration" in first.output
    assert [run.exit_code for run in runs] == [0, 0]
    assert len(entry["windows"]) == 2
    assert entry["noise"]["c1"]["tpot_p50"]["boots"] == 6


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda text: text.replace('"boots": 3', '"boots": 4'), "was edited by hand"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 9'), "is no calibration of this version"),
        (lambda text: text.replace('"host_class": "', '"host_class": "other-'), "was moved or copied by hand"),
        (lambda _: "{", "is no calibration of this version"),
    ],
    ids=["edited", "version", "moved", "broken"],
)
def test_case_107_a_broken_file_stops_the_run_before_any_server(
    calibrated: tuple[GateFolder, GateRun], tmp_path: Path, edit: Callable[[str], str], sentence: str
) -> None:
    """Case 107: what is committed is read before the slow part, and a file that is wrong is named."""
    folder, _ = calibrated
    copy = tmp_path / noise_file(folder).parent.name / "noise.json"
    copy.parent.mkdir()
    copy.write_text(edit(noise_file(folder).read_text()))
    run = folder.run(f"--specgate-baselines={tmp_path}", "--specgate-results=never")

    assert run.exit_code == 4
    assert sentence in run.output
    assert str(copy) in run.output
    assert not (folder.folder / "never").exists()


def test_a_plan_says_what_would_be_done_and_does_nothing(gate_folder: GateFolder) -> None:
    """Boots, requests and looks are told, and no server is started."""
    written(gate_folder, margin='margin="3%", noise=noise_floor("1%", source="made up")')
    run = gate_folder.run("--specgate-plan")

    assert run.exit_code == 0, run.output
    assert "boots: 4 to 12 (2 arms, 2 to 6 rounds)" in run.output
    assert "requests: 14 a boot" in run.output
    assert (
        "judged after 2, 4, 6 rounds; floor 1 % (made up); equal arms pass by round 2 in four of five runs"
        in run.output
    )
    assert "nothing was started" in run.output
    assert "judged:" not in run.summary, "a plan counts no outcomes"
    assert not run.results.exists()


def test_a_plan_is_told_to_the_most_silent(gate_folder: GateFolder) -> None:
    """Under -qq the whole output is one line."""
    written(gate_folder, margin='margin="3%", noise=noise_floor("1%", source="made up")')
    run = gate_folder.run("--specgate-plan", "-qqq")

    assert run.output.strip() == "specgate: in all: 1 window, at most 12 boots; nothing was started, and nothing judged"


def test_a_plan_knows_the_time_of_earlier_boots(gate_folder: GateFolder) -> None:
    """After one run the minutes are told, and what a budget leaves undecided."""
    written(gate_folder, rounds=4, margin='margin="30%"')
    gate_folder.run()
    run = gate_folder.run("--specgate-plan", "--specgate-budget=1s")

    assert "by what boots took in an earlier window" in run.output
    assert "budget: enough for 0 of 4 rounds" in run.output
    assert "undecided: c1-tpot_p50-not_worse, first judged after 4 rounds" in run.output


def test_a_budget_ends_a_window_and_leaves_its_thresholds_undecided(gate_folder: GateFolder) -> None:
    """No round is begun that would not end in time; what is open then is INCONCLUSIVE and says why."""
    written(gate_folder, rounds=40, margin='margin="0.01%", noise=noise_floor("1%", source="made up")')
    run = gate_folder.run("--specgate-budget=4s")
    record = load_record(next(run.results.glob("*/record.json")))

    assert run.exit_code == 1
    assert 2 <= len(record.boots) < 40
    assert "INCONCLUSIVE" in run.output
    assert record.stopped.startswith("the time budget was used up after")
    assert record.stopped in run.output


def test_what_was_not_decided_can_be_skipped_and_never_passes(gate_folder: GateFolder) -> None:
    """With the option, INCONCLUSIVE is reported as skipped, with its sentence, and the exit status stays 0."""
    written(gate_folder, rounds=2, margin='margin="0.01%", noise=noise_floor("90%", source="made up")')
    runs = [gate_folder.run("--specgate-inconclusive=skip"), gate_folder.run()]

    assert [run.exit_code for run in runs] == [0, 1], runs[0].output
    assert runs[0].counts == {"skipped": 1}
    assert "1 of 1 threshold judged: 1 INCONCLUSIVE" in runs[0].output


def test_a_margin_that_is_too_fine_is_said_before_the_first_boot(gate_folder: GateFolder) -> None:
    """What rounds and noise cannot decide is told at once, and under strict it stops the run."""
    written(gate_folder, margin='margin="0.1%", noise=noise_floor("5%", source="made up")')
    loose, strict = gate_folder.run("--specgate-plan"), gate_folder.run("--specgate-strict")

    assert loose.exit_code == 0
    assert (
        "is finer than can be decided here with rounds=6 in four of five healthy runs: the smallest usable one is"
        in loose.output
    )
    assert strict.exit_code == 4
    assert not strict.results.exists()


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--specgate-budget=40", "is no time: write it with its unit, as 40m or 1h30m"),
        ("--specgate-budget=0m", "is no time"),
        ("--specgate-calibrate-boots=1", "one boot has nothing to be compared with"),
        ("--specgate-inconclusive=pass", "is neither skip nor fail"),
        ("--specgate-baselines=", "is empty"),
    ],
)
def test_a_wrong_option_is_one_sentence(gate_folder: GateFolder, option: str, sentence: str) -> None:
    """Each is refused before anything runs."""
    written(gate_folder)
    run = gate_folder.run(option, *(["--specgate-calibrate"] if "boots" in option else []))

    assert run.exit_code == 4
    assert sentence in run.output


def test_the_command_is_the_option(gate_folder: GateFolder) -> None:
    """`specgate calibrate FILE` runs pytest, and ends with 0 when something was told."""
    written(gate_folder)
    found = subprocess.run(
        [sys.executable, "-m", "pytest_specgate", "calibrate", "test_gate.py", "--boots=2",
         f"--option=--specgate-engine-command={FAKE_ENGINE}"],
        cwd=gate_folder.folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert found.returncode == 0, found.stdout + found.stderr
    assert noise_file(gate_folder).exists()
    assert "commit it" in found.stdout


@pytest.mark.parametrize(("argument", "status"), [("--boots=1", 2), ("no_such_file.py", 2)])
def test_a_wrong_call_of_the_command_is_a_usage_error(gate_folder: GateFolder, argument: str, status: int) -> None:
    """One boot, or a file that is not there, end with 2."""
    command = [sys.executable, "-m", "pytest_specgate", "calibrate", "no_such_file.py", argument]
    found = subprocess.run(command, cwd=gate_folder.folder, capture_output=True, text=True, timeout=60, check=False)

    assert found.returncode == status
