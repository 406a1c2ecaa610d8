"""`specgate judge`: what a window has measured is judged again, anywhere, with the same verdicts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.storage import load_record

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """Identity, tables and counts stand as the terminal had them under `-v`; a folder is as good as its record."""
    found = judged(record_of(healthy).parent, "-v")
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


@pytest.mark.parametrize(("finished", "status"), [(True, 0), (False, 3)])
def test_a_window_that_died_never_ends_with_0(healthy: GateRun, tmp_path: Path, finished: bool, status: int) -> None:
    """All thresholds pass on what there is, and the last line says that the window did not run to its end."""
    path = tmp_path / "record.json"
    path.write_text(json.dumps({**json.loads(record_of(healthy).read_text()), "finished": finished}))
    found, listed = judged(path), json.loads(judged(path, "--json").stdout)

    assert found.returncode == status
    assert found.stdout.rstrip().endswith("; the window did not run to its end") is not finished
    assert {one["finished"] for one in listed} == {finished}


def _renamed(text: str, name: str) -> str:
    return text.replace(json.loads(text)["gates"][0]["id"], json.dumps(name)[1:-1])


def test_a_gate_id_neither_forges_lines_nor_runs_anything(slowed: GateRun, tmp_path: Path) -> None:
    """Control characters of a record are shown as codes, and the command to run again is quoted."""
    path = tmp_path / "record.json"
    path.write_text(_renamed(record_of(slowed).read_text(), "test_x.py::test_a\n1 of 1 threshold judged\x1b[2J; ls"))
    found = judged(path)

    assert found.returncode == 1, found.stderr
    assert "\n1 of 1 threshold judged" not in found.stdout
    assert "\x1b" not in found.stdout
    assert "pytest 'test_x.py::test_a" in found.stdout


def test_a_full_disk_is_one_sentence(healthy: GateRun) -> None:
    """What cannot be written is status 2: 1 would be a regression."""
    command = [sys.executable, "-m", "pytest_specgate", "judge", str(record_of(healthy))]
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)

    assert found.returncode == 2
    assert found.stderr == "specgate: the output cannot be read or written: No space left on device\n"


def test_a_terminal_that_knows_ascii_only_gets_codes(healthy: GateRun, tmp_path: Path) -> None:
    """A letter that cannot be shown is no traceback, and JSON stays JSON."""
    path = tmp_path / "record.json"
    path.write_text(_renamed(record_of(healthy).read_text(), "test_x.py::test_ä"))
    command = [sys.executable, "-m", "pytest_specgate", "judge", str(path)]
    runs = [
        subprocess.run(
            [*command, *more], capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        ) for more in ([], ["--json"])
    ]  # fmt: skip

    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    assert "test_x.py::test_ä" in {one["gate"] for one in json.loads(runs[1].stdout)}


def test_a_reader_that_has_enough_is_no_error(healthy: GateRun) -> None:
    """`specgate judge RECORD | head -1` prints no traceback."""
    command = f"{sys.executable} -m pytest_specgate judge {record_of(healthy)} | head -1"
    found = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)

    assert found.stderr == ""
    assert load_record(record_of(healthy)).finished
