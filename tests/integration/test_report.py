"""`specgate report`: what runs printed, from their records alone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pytest_specgate import cli
from pytest_specgate.adapters.storage import write_atomically
from pytest_specgate.core.schemas import published

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
    """Line for line, from the boots to the count of outcomes; only the path is as it was given. The run had ``-v``."""
    found = reported(record_of(healthy), "-v")
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
    """Each is a report by the published schema: identity, machine, engine, attempts, figures by boot, verdicts."""
    found = reported("--json", record_of(healthy), record_of(slowed))
    first, second = objects(found.stdout)
    (window,) = first["windows"]
    arms = {arm["arm"]: arm for arm in window["arms"]}
    stored = json.loads(record_of(healthy).read_text())["verdicts"]
    listed = [(gate["gate"], one) for gate in first["gates"] for one in gate["thresholds"]]

    assert found.returncode == 0, found.stderr
    assert [jsonschema.Draft202012Validator(published("report")).is_valid(one) for one in (first, second)] == [True] * 2
    assert (window["record"], second["windows"][0]["record"]) == (str(record_of(healthy)), str(record_of(slowed)))
    assert window["host_class"]
    assert set(window["engine"]) == {"off", "k4", "k7"}
    assert (window["attempt"], window["continued"], window["finished"]) == (1, [], True)
    assert window["pairs"][0]["identity"]["fields"] == window["pairs"][0]["identity"]["identical"] > 40
    assert [pair["valid"] for pair in window["pairs"]] == [True, True]
    assert len(arms["k4"]["points"]["c1"]["values"]["decode_rate_p50_tokens_per_s"]) == 2
    assert "acceptance_rate" not in arms["off"]["points"]["c1"]["values"]
    assert (first["passed"], second["passed"], first["exit_status"]) == (True, False, None)
    assert [(gate, one["threshold"], one["outcome"]) for gate, one in listed] == [
        (one["gate"], one["threshold"], one["outcome"]) for one in stored
    ]
    assert [one["figures"]["change"] for _, one in listed] == [one["change"] for one in stored]


def test_case_139_what_is_invalid_says_so_and_has_no_figures(faulty: GateRun) -> None:
    """Case 139: an arm, a pair and a verdict that must not be read carry the mark and the reason, and no number."""
    text = reported(record_of(faulty)).stdout
    (found,) = objects(reported("--json", record_of(faulty)).stdout)
    (window,) = found["windows"]
    pairs = {pair["candidate"]: pair for pair in window["pairs"]}
    arms = {arm["arm"]: arm for arm in window["arms"]}
    listed = [one for gate in found["gates"] for one in gate["thresholds"]]

    assert {name: pair["valid"] for name, pair in pairs.items()} == {
        "dead": False, "dies": False, "errs": False, "other": True,
    }  # fmt: skip
    assert pairs["dead"]["reason"] == arms["dead"]["reason"] == "server-start"
    assert set(arms["dies"]) == {"arm", "valid", "reason", "message", "detail"}
    assert (arms["good"]["valid"], arms["other"]["valid"]) == (True, True)
    assert {(one["valid"], one["figures"]) for one in listed if one["outcome"] == "INVALID"} == {(False, None)}
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
    (window,) = found["windows"]
    assert (window["finished"], found["passed"], found["counts"]["judged"]) == (False, False, 0)
    assert {(one["outcome"], one["reason"]) for gate in found["gates"] for one in gate["thresholds"]} == {
        (None, "not-judged")
    }
    assert {pair["reason"] for pair in window["pairs"]} == {"not-measured"}
    assert {arm["valid"] for arm in window["arms"]} == {False}


def test_markdown_is_one_text_on_all_records(healthy: GateRun, slowed: GateRun, tmp_path: Path) -> None:
    """Written into a file, with the key of its comment; several windows are told apart."""
    file = tmp_path / "report.md"
    status = cli.main(
        ["report", str(record_of(healthy)), str(record_of(slowed)), "--markdown", str(file), "--key=nightly"]
    )
    text = file.read_text(encoding="utf-8")

    assert status == 0
    assert text.startswith("<!-- specgate: nightly -->\n### specgate: ")
    assert "* window 1: k4 against off: request profile: " in text
    assert "#### Window 2\n" in text


def test_a_record_that_was_not_read_keeps_the_text_from_being_green(
    healthy: GateRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All others passed, and the headline says that one is missing; with none at all there is no text."""
    status = cli.main(["report", str(record_of(healthy)), str(tmp_path / "gone.json"), "--markdown"])
    shown = capsys.readouterr()
    nothing = cli.main(["report", str(tmp_path / "gone.json"), f"--markdown={tmp_path / 'report.md'}"])

    assert (status, nothing) == (2, 2)
    assert "### specgate: 1 record not read, 4 PASS\n" in shown.out
    assert "\n**Not passed**: 4 of 4 thresholds judged: 4 PASS.\n" in shown.out
    assert f"* a record was not read: {tmp_path / 'gone.json'} cannot be read: " in shown.out
    assert shown.err.startswith(f"specgate: {tmp_path / 'gone.json'} cannot be read: ")
    assert not (tmp_path / "report.md").exists()


@pytest.mark.parametrize("words", [(), ("--json",), ("--markdown",)])
def test_a_record_that_is_given_twice_is_shown_once(
    healthy: GateRun, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """By its file and by its folder it is one record: its outcomes do not count twice, and that is said."""
    record = record_of(healthy)
    once = (cli.main(["report", str(record), *words]), capsys.readouterr().out)
    twice = cli.main(["report", str(record), str(record.parent), *words])
    shown = capsys.readouterr()

    assert (twice, shown.out) == once
    assert shown.err == f"specgate: {record.parent} is {record}, given twice: it is shown once\n"


def test_no_record_is_replaced_by_a_report(
    healthy: GateRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option without a file before the records takes the first of them for its file, and that is refused."""
    record = record_of(healthy)
    before = record.read_bytes()
    given = [
        ["report", "--markdown", str(record), str(record)],
        ["report", "--html", str(record.parent), str(record)],
        ["report", str(record), "--markdown", str(tmp_path / "away" / "report.md")],
    ]

    remedy = "put the records first, or write"
    foreign = "that file is no Markdown report of specgate, and it would be replaced"

    assert [cli.main(words) for words in given] == [2, 2, 2]
    assert record.read_bytes() == before
    assert capsys.readouterr().err.splitlines() == [
        f"specgate: --markdown {record}: {foreign}: name another one, {remedy} --markdown=FILE",
        f"specgate: --html {record.parent}: a file is wanted, and that is a folder: {remedy} --html=FILE",
        f"specgate: --markdown {given[2][-1]}: there is no folder {tmp_path / 'away'}: make it first",
    ]


def test_a_key_belongs_to_markdown(healthy: GateRun, capsys: pytest.CaptureFixture[str]) -> None:
    """It stands in an HTML comment, so it must not end one; without Markdown it means nothing."""
    statuses = [
        cli.main(["report", str(record_of(healthy)), "--key=a"]),
        cli.main(["report", str(record_of(healthy)), "--key=a-->b", "--markdown"]),
    ]

    assert statuses == [2, 2]
    assert capsys.readouterr().err.splitlines() == [
        "specgate: --key stands in the first line of --markdown: ask for that, too",
        "specgate: --key=a-->b: write up to 64 letters, digits, '.', '_' and single '-'",
    ]
