"""`specgate judge`: what a window has measured is judged again, anywhere, with the same verdicts."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.storage import load_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.conftest import GateRun


def judged(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "pytest_specgate", "judge", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def record_of(run: GateRun) -> Path:
    """Return the one record of a run."""
    (path,) = run.results.glob("*/record.json")
    return path


def test_verdicts_are_those_of_the_run_to_the_last_digit(healthy: GateRun) -> None:
    """The list that is printed equals the one in the record, each marked as valid, and all pass: exit status 0."""
    path = record_of(healthy)
    found = judged(path, "--json")

    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == [
        {"finished": True, "valid": True, **one} for one in json.loads(path.read_text())["verdicts"]
    ]


def test_case_139_an_invalid_verdict_is_marked_and_has_no_figures(faulty: GateRun) -> None:
    """Case 139: a program that scrapes finds the mark and the reason, and no number of what must not be read."""
    found = judged(record_of(faulty), "--json")
    marked = [verdict for verdict in json.loads(found.stdout) if not verdict["valid"]]
    figures = ("reference", "candidate", "change", "change_low", "change_high", "sd", "samples", "residual")
    lists = ("ratios", "values", "shares", "factors", "curve")

    assert found.returncode in {1, 4}
    assert {verdict["reason"] for verdict in marked} >= {"server-died", "failed-requests"}
    assert {verdict["outcome"] for verdict in marked} == {"INVALID"}
    assert {verdict[name] for verdict in marked for name in figures} == {None}
    assert [verdict[name] for verdict in marked for name in lists if verdict[name]] == []


def test_the_report_is_that_of_the_run(healthy: GateRun) -> None:
    """Identity, tables and counts stand as the terminal had them; a folder is as good as its record."""
    found = judged(record_of(healthy).parent)
    table = healthy.output[healthy.output.index("k4 against off (") : healthy.output.index("\nload and client")]

    assert found.returncode == 0, found.stderr
    assert table in found.stdout
    assert found.stdout.rstrip().endswith("PASS")


def test_a_fail_ends_with_1_and_its_whole_message(slowed: GateRun) -> None:
    """What broke stands there with interval and evidence, and the exit status says so."""
    found = judged(record_of(slowed))

    assert found.returncode == 1
    assert "FAIL: output throughput at c=1 worse" in found.stdout
    assert "judge it again, anywhere: specgate judge" in found.stdout


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda _: "{", "is no window record"),
        (
            lambda text: text.replace('"schema_version": 3', '"schema_version": 99'),
            "it has schema version 99, and this",
        ),
        (lambda text: json.dumps({**json.loads(text), "gates": []}), "holds no gate"),
    ],
    ids=["broken", "version", "no gate"],
)
def test_case_136_what_cannot_be_judged_is_a_usage_error(
    healthy: GateRun, tmp_path: Path, edit: Callable[[str], str], sentence: str
) -> None:
    """Case 136: a broken file, another schema or a record without gates ends with 2 and one sentence."""
    path = tmp_path / "record.json"
    path.write_text(edit(record_of(healthy).read_text()))
    found = judged(path)

    assert found.returncode == 2
    assert sentence in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_a_reader_that_has_enough_is_no_error(healthy: GateRun) -> None:
    """`specgate judge RECORD | head -1` prints no traceback."""
    command = f"{sys.executable} -m pytest_specgate judge {record_of(healthy)} | head -1"
    found = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)

    assert found.stderr == ""
    assert load_record(record_of(healthy)).finished
