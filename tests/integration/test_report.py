"""`specgate report`: what runs printed, from their records alone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from pytest_specgate.adapters.storage import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import GateRun


def reported(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "pytest_specgate", "report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def record_of(run: GateRun) -> Path:
    """Return the one record of a run."""
    (path,) = run.results.glob("*/record.json")
    return path


def objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a text, one a line."""
    return [json.loads(line) for line in text.splitlines()]


def test_the_summary_is_what_the_run_printed(healthy: GateRun) -> None:
    """Line for line, from the boots to the count of outcomes; only the path is as it was given."""
    found = reported(record_of(healthy))
    printed = healthy.summary.partition("\n")[2].partition("\n===")[0]
    relative = record_of(healthy).relative_to(healthy.folder)

    assert found.returncode == 0, found.stderr
    assert found.stdout.rstrip().replace(str(record_of(healthy)), str(relative)) == printed.rstrip()


def test_a_fail_is_shown_and_is_no_failure_of_the_command(slowed: GateRun) -> None:
    """Exit status 0: showing is not judging. Verdicts are those that are stored."""
    found = reported(record_of(slowed).parent)

    assert found.returncode == 0, found.stderr
    assert "FAIL (not worse than -30 %)" in found.stdout


def test_nothing_is_judged_anew(healthy: GateRun, tmp_path: Path) -> None:
    """A verdict that was stored is shown, also where today's code would say another word."""
    stored = json.loads(record_of(healthy).read_text())
    stored["verdicts"][0] |= {"outcome": "INCONCLUSIVE", "reason": "made-up"}
    write_atomically(tmp_path / "record.json", json.dumps(stored))
    found = reported(tmp_path)

    assert "INCONCLUSIVE (better than +20 %)" in found.stdout
    assert found.stdout.rstrip().endswith("3 PASS, 1 INCONCLUSIVE")


def test_several_records_are_shown_one_after_another(healthy: GateRun, slowed: GateRun, tmp_path: Path) -> None:
    """A broken one among them is told on stderr, hides no other, and makes the exit status 2."""
    (tmp_path / "record.json").write_text("{")
    found = reported(record_of(healthy), tmp_path, record_of(slowed))

    assert found.returncode == 2
    assert found.stdout.count("request profile: ") == 5
    assert found.stderr.startswith(f"specgate: {tmp_path / 'record.json'} is no window record")
    assert len(found.stderr.splitlines()) == 1


def test_json_is_one_object_a_record(healthy: GateRun, slowed: GateRun) -> None:
    """Identity, class of the machine, engine, attempts, figures by boot and verdicts, for programs."""
    found = reported("--json", record_of(healthy), record_of(slowed))
    first, second = objects(found.stdout)
    arms = {arm["arm"]: arm for arm in first["arms"]}

    assert found.returncode == 0, found.stderr
    assert (first["record"], second["record"]) == (str(record_of(healthy)), str(record_of(slowed)))
    assert first["host_class"]
    assert set(first["engine"]) == {"off", "k4", "k7"}
    assert (first["attempt"], first["continued"], first["finished"]) == (1, [], True)
    assert first["pairs"][0]["identity"]["fields"] == first["pairs"][0]["identity"]["identical"] > 40
    assert [pair["valid"] for pair in first["pairs"]] == [True, True]
    assert len(arms["k4"]["points"]["c1"]["values"]["decode_rate_p50_tokens_per_s"]) == 2
    assert "acceptance_rate" not in arms["off"]["points"]["c1"]["values"]
    assert first["verdicts"] == [
        {"valid": True, **one} for one in json.loads(record_of(healthy).read_text())["verdicts"]
    ]


def test_case_139_what_is_invalid_says_so_and_has_no_figures(faulty: GateRun) -> None:
    """Case 139: an arm, a pair and a verdict that must not be read carry the mark and the reason, and no number."""
    text = reported(record_of(faulty)).stdout
    (found,) = objects(reported("--json", record_of(faulty)).stdout)
    pairs = {pair["candidate"]: pair for pair in found["pairs"]}
    arms = {arm["arm"]: arm for arm in found["arms"]}

    assert {name: pair["valid"] for name, pair in pairs.items()} == {
        "dead": False, "dies": False, "errs": False, "other": True,
    }  # fmt: skip
    assert pairs["dead"]["reason"] == arms["dead"]["reason"] == "server-start"
    assert set(arms["dies"]) == {"arm", "valid", "reason", "message", "detail"}
    assert (arms["good"]["valid"], arms["other"]["valid"]) == (True, True)
    assert {verdict["valid"] for verdict in found["verdicts"] if verdict["outcome"] == "INVALID"} == {False}
    assert "no figures (server-start): arm dead" in text


def test_a_window_that_was_cut_off_says_so(healthy: GateRun, tmp_path: Path) -> None:
    """A record of a run that died is shown as far as it came: unfinished, and nothing judged."""
    stored = json.loads(record_of(healthy).read_text())
    cut = {**stored, "finished": False, "boots": stored["boots"][:1], "verdicts": []}
    write_atomically(tmp_path / "record.json", json.dumps(cut))
    shown, (found,) = reported(tmp_path), objects(reported("--json", tmp_path).stdout)

    assert shown.returncode == 0, shown.stderr
    assert "UNFINISHED" in shown.stdout
    assert shown.stdout.rstrip().endswith("0 of 4 thresholds judged")
    assert (found["finished"], found["verdicts"]) == (False, [])
    assert {pair["reason"] for pair in found["pairs"]} == {"not-measured"}
    assert {arm["valid"] for arm in found["arms"]} == {False}
