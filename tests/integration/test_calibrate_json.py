"""`specgate calibrate --json`: what A/A windows told, for programs, beside what pytest prints."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

from pytest_specgate import cli
from tests.integration.conftest import FAKE_ENGINE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.integration.conftest import GateFolder

_GATES = """\
    @gate(pair(arm("one"), arm("two", seed=1)), SPEED)
    def test_one(): pass

    @gate(pair(arm("one"), arm("two", seed=1)), not_worse("e2e_mean", at=1, margin="90%", noise=FLOOR))
    def test_same_arms(): pass
    """
_DEAD = """\
    @gate(pair(arm("one"), arm("dead", exit_at_start=3)), SPEED)
    def test_dead(): pass
    """


def calibrated(gates: GateFolder, *arguments: str) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """Run the command, and return what it printed as JSON, too."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest_specgate", "calibrate", ".", "--boots=2", "--json", *arguments,
         f"--option=--specgate-engine-command={FAKE_ENGINE}"],
        cwd=gates.folder, env=gates.environment(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done, json.loads(done.stdout)


def test_noise_is_told_by_arm_point_and_metric(gate_folder: GateFolder) -> None:
    """One window for two gates on the same arms: stdout has nothing but the object, stderr what pytest said."""
    gate_folder.write("test_gate.py", _GATES)
    done, found = calibrated(gate_folder)
    (window,) = found["windows"]
    noise = {(row["arm"], row["at"], row["metric"]): row for row in window["noise"]}

    assert (done.returncode, found["pytest_exit_code"]) == (0, 0), done.stderr
    assert (gate_folder.folder / window["record"]).is_file()
    assert (gate_folder.folder / window["calibrations"]).name == "noise.json"
    assert window["problems"] == {}
    assert {arm for arm, _, _ in noise} == {"one", "two"}
    assert noise["one", 1, "output_throughput"]["boots"] == 2
    assert "noise of one round, by A/A windows" in done.stderr


def test_an_arm_that_told_nothing_is_named(gate_folder: GateFolder) -> None:
    """The others have their noise, the exit status is 4, and the reason stands beside the name."""
    gate_folder.write("test_gate.py", _DEAD)
    done, found = calibrated(gate_folder)
    (window,) = found["windows"]

    assert (done.returncode, found["pytest_exit_code"]) == (4, 1)
    assert set(window["problems"]) == {"dead"}
    assert "exit code 3" in window["problems"]["dead"]
    assert {row["arm"] for row in window["noise"]} == {"one"}


def test_where_nothing_was_calibrated_there_is_no_window(gate_folder: GateFolder) -> None:
    """A gate file with a mistake gives an object without windows, and the exit status of wrong usage."""
    gate_folder.write("test_gate.py", "    import nothing_of_this_name\n")
    done, found = calibrated(gate_folder)

    assert done.returncode == 2
    assert found["windows"] == []
    assert "nothing_of_this_name" in done.stderr


class _Interrupted:
    """Stands in for a pytest that is waited for, and ends by itself after Ctrl-C."""

    def __init__(self, *_: object, **__: object) -> None:
        self._interrupts = 2

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing behind."""

    def wait(self) -> int:
        """Be interrupted twice, then end as pytest does."""
        self._interrupts -= 1
        if self._interrupts >= 0:
            raise KeyboardInterrupt
        return 2


def test_an_interrupt_waits_for_pytest_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C reaches pytest, which ends its servers: the command waits for that, however often it is pressed."""
    monkeypatch.setattr(subprocess, "Popen", _Interrupted)

    assert cli.main(["calibrate", str(tmp_path)]) == 130
