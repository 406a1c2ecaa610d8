"""Reports of a run as files: what they hold, when they are written, and who writes them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import pytest

from pytest_specgate import cli
from pytest_specgate.core.schemas import published
from pytest_specgate.reporting.markdown import markdown
from pytest_specgate.reporting.session_json import session_json
from pytest_specgate.reporting.session_report import SessionReport
from tests.integration.report_runs import EARLIER, plain, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

_GATES: Final = """\
    LOAD = load(requests={1: 2})
    SECRET = {"HF_TOKEN": "hf_abcdefghijklmnop1234"}
    FAST, SLOW = arm("fast", step_s=0.003, env=SECRET), arm("slow", step_s=0.025, env=SECRET)
    DEAD = arm("dead", exit_at_start=3, exit_message="</code> | @org hf_abcdefghijklmnop1234", env=SECRET)
    DOWN, UP, LOST = (pair(*arms, profile=LOAD, rounds=1) for arms in ((FAST, SLOW), (SLOW, FAST), (FAST, DEAD)))

    @pytest.fixture
    def torn():
        yield
        raise RuntimeError("it would not go")

    def test_beside(): raise ValueError

    @gate(DOWN, SPEED)
    def test_down(torn): pass

    @gate(UP, SPEED)
    def test_unmet(verdict): verdict.expect(Outcome.FAIL, Outcome.INCONCLUSIVE)

    @gate(DOWN, SPEED)
    def test_accepted(verdict): verdict.expect(Outcome.FAIL)

    @gate(UP, SPEED)
    def test_body(): raise ValueError("api_key=words-of-a-secret")

    @pytest.mark.skip(reason="not today")
    @gate(UP, SPEED)
    def test_skipped(): pass

    @gate(LOST, SPEED)
    def test_lost(): pass

    @measured(LOST)
    def test_window(): pass
    """
_DEAD: Final = """\
    @gate(pair(arm("dead", exit_at_start=3), arm("good"), rounds=1), SPEED)
    def test_dead(): pass
    """
_OPTIONS: Final = ("--specgate-json=out.json", "--specgate-markdown=out.md")


@pytest.fixture(scope="module")
def run(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Every kind of end, with all reports, and a summary of the job in which something stands already."""
    pytest.importorskip("jinja2")
    gates = new_gate_folder()
    gates.write("pytest.ini", "[pytest]\nspecgate_report_key = nightly\n")
    gates.write("test_ends.py", _GATES)
    summary = gates.write("step.md", "set up: done")
    (gates.folder / "out.json").write_text(EARLIER["json"])
    return gates.run(*_OPTIONS, variables={"GITHUB_STEP_SUMMARY": str(summary), "SPECGATE_HTML": "page.html"})


def thresholds(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the thresholds of a JSON report by the name of their test."""
    return {gate["gate"].rpartition("::")[2]: one for gate in found["gates"] for one in gate["thresholds"]}


def test_the_paths_are_told_at_the_end(run: GateRun) -> None:
    """Below the count of outcomes each file stands on a line of its own; verdicts and exit status are as ever."""
    last = run.summary.partition("\n===")[0].splitlines()[-4:]

    assert last[0].startswith("5 of 6 thresholds judged: 2 PASS, 2 FAIL (1 of them expected), 1 INVALID")
    assert last[1:] == ["report: out.json", "report: out.md", "report: page.html"]
    assert run.exit_code == 1


def test_json_has_every_threshold(run: GateRun) -> None:
    """Judged, accepted, invalid or never judged: each says so, with figures only where they may be read."""
    found = read(run.folder)
    by_test = thresholds(found)

    assert (found["passed"], found["exit_status"], found["counts"]["collected"]) == (False, 1, 6)
    assert {name: (one["outcome"], one["accepted"], one["expected"]) for name, one in by_test.items()} == {
        "test_down": ("FAIL", False, False),
        "test_unmet": ("PASS", False, True),
        "test_accepted": ("FAIL", True, True),
        "test_body": ("PASS", True, False),
        "test_lost": ("INVALID", False, False),
        "test_skipped": (None, False, False),
    }
    assert by_test["test_down"]["figures"]["change"] < -0.5
    assert by_test["test_down"]["node_id"] == "test_ends.py::test_down[c1-output_throughput-not_worse]"
    assert by_test["test_down"]["text"].count(" pytest 'test_ends.py::test_down[") == 1
    assert (by_test["test_skipped"]["summary"], by_test["test_skipped"]["figures"]) == ("not today", None)


def test_case_139_an_invalid_arm_has_no_figures(run: GateRun) -> None:
    """Case 139: the arm that died, its pair and its threshold have a reason, and nothing that could be scraped."""
    found = read(run.folder)
    (window,) = found["windows"]
    pairs = {pair["candidate"]: pair["valid"] for pair in window["pairs"] if pair["reference"] == "fast"}
    dead = next(arm for arm in window["arms"] if arm["arm"] == "dead")

    assert pairs == {"slow": True, "dead": False}
    assert (dead["valid"], dead["reason"], "points" in dead) == (False, "server-start", False)
    assert thresholds(found)["test_lost"]["figures"] is None


def test_tests_that_failed_otherwise_are_told(run: GateRun) -> None:
    """A body that raised beside a PASS, and a measured pair that must not be read; secrets in it are cut out."""
    found = {one["node_id"]: (one["kind"], one["message"]) for one in read(run.folder)["broken"]}
    claim = "[c1-output_throughput-not_worse]"

    assert list(found) == [
        f"test_ends.py::test_down{claim}", f"test_ends.py::test_body{claim}", "test_ends.py::test_window"
    ]  # fmt: skip
    assert [*found.values()][:2] == [
        ("teardown", "RuntimeError: it would not go"), ("test", "ValueError: api_key=[redacted]")
    ]  # fmt: skip
    assert read(run.folder)["other_failures"] == 1


def test_a_pass_that_was_not_expected_is_no_pass(run: GateRun) -> None:
    """What its test declared is in the headline, its row, its message and its JSON."""
    text = (run.folder / "out.md").read_text(encoding="utf-8")
    found = thresholds(read(run.folder))["test_unmet"]

    assert found["expected_outcomes"] == ["FAIL", "INCONCLUSIVE"]
    assert found["text"].startswith("expected FAIL or INCONCLUSIVE, got PASS (")
    assert "| **PASS**, expected FAIL or INCONCLUSIVE | " in text
    assert "1 PASS (not expected)" in text.partition("\n\n")[0]


def test_the_summary_of_the_job_gets_the_same_markdown(run: GateRun) -> None:
    """It is added below what other steps wrote there."""
    text = (run.folder / "out.md").read_text(encoding="utf-8")

    assert text.startswith(
        "<!-- specgate: nightly -->\n### specgate: 1 FAIL, 1 INVALID, 1 PASS (not expected), 1 not judged, "
    )
    assert (run.folder / "step.md").read_text(encoding="utf-8") == f"set up: done\n{text}"
    assert text.index("fields identical") < text.index("| claim |")
    assert "test_dead" not in text


def test_the_page_is_written(run: GateRun) -> None:
    """A whole document; what is on it is another file's subject."""
    text = (run.folder / "page.html").read_text(encoding="utf-8")

    assert text.lstrip().lower().startswith("<!doctype html>")
    assert text.rstrip().endswith("</html>")


def test_no_secret_is_in_a_report(run: GateRun) -> None:
    """Neither what an arm was given, nor what its server printed, nor what a test raised."""
    for name in ("out.json", "out.md", "page.html", "step.md"):
        text = (run.folder / name).read_text(encoding="utf-8")
        assert "words-of-a-secret" not in text
        assert "hf_abcdefghijklmnop" not in text


def test_the_record_alone_tells_the_same(run: GateRun, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`specgate report` makes rows, JSON and page of it; only what a test accepts, and its node id, is in no record."""
    (record,) = run.results.glob("*/record.json")
    statuses = [
        cli.main(["report", str(record), "--markdown"]),
        cli.main(["report", "--json", str(record)]),
        cli.main(["report", str(record), "--html", str(tmp_path / "page.html")]),
    ]
    text, _, line = capsys.readouterr().out.rstrip("\n").rpartition("\n")
    found = json.loads(line)
    jsonschema.validate(found, published("report"))
    online, alone = thresholds(read(run.folder)), thresholds(found)
    rows = re.findall(r"^\| output .*\n", text, re.MULTILINE)

    assert statuses == [0, 0, 0]
    assert [row for row in rows if "test_down" in row] == re.findall(
        r"^\| output .*test_down.*\n", (run.folder / "out.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert alone["test_down"]["figures"] == online["test_down"]["figures"]
    assert (alone["test_accepted"]["accepted"], alone["test_skipped"]["outcome"]) == (False, "PASS")
    assert found["windows"][0]["arms"] == read(run.folder)["windows"][0]["arms"]
    assert (tmp_path / "page.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_under_xdist_the_worker_writes(gate_folder: GateFolder) -> None:
    """The files are there once, the paths are told in the terminal, and a file that cannot be written fails the run."""
    gate_folder.write("test_dead.py", _DEAD)
    gate_folder.write("check_plain.py", "import os\n\n\ndef test_folder(): os.mkdir('out.md')\n")
    summary = gate_folder.folder / "nowhere" / "step.md"
    words = ("-n", "1", "check_plain.py", "test_dead.py", *_OPTIONS)
    run = gate_folder.run(*words, variables={"GITHUB_STEP_SUMMARY": str(summary)})
    found = read(gate_folder.folder)

    assert (run.exit_code, found["passed"], found["counts"]["outcomes"]["INVALID"]) == (1, False, 1)
    assert run.output.count("report: out.json\n") == 1
    assert "--specgate-markdown: out.md was not written: Is a directory\n" in run.output
    assert "warning: GITHUB_STEP_SUMMARY was not written: No such file or directory\n" in run.output
    assert "1 of 1 threshold judged: 1 INVALID\n" in run.output


_INTERRUPTS: Final = """\
    from pytest_specgate.adapters import storage

    def save(self, record, kept=storage.FileStore.save):
        kept(self, record)
        if record.boots:
            raise KeyboardInterrupt

    storage.FileStore.save = save
    """


def test_an_interrupted_run_is_reported_as_far_as_it_came(gate_folder: GateFolder) -> None:
    """Ctrl-C while a window is measured: not measured, where what was measured lies, and nothing that looks green."""
    gate_folder.write("test_gate.py", "@gate(pair(arm('one'), arm('two', seed=1)), SPEED)\ndef test_one(): pass\n")
    gate_folder.write("conftest.py", _INTERRUPTS)
    summary = gate_folder.write("step.md", "x" * 1_048_000)
    run = gate_folder.run(*_OPTIONS, variables={"GITHUB_STEP_SUMMARY": str(summary)})
    found = read(gate_folder.folder)
    (lost,), (record,) = found["unmeasured"], run.results.glob("*/record.json")
    place = record.relative_to(gate_folder.folder)

    assert (run.exit_code, found["exit_status"], found["passed"]) == (2, 2, False)
    assert lost["message"] == f"interrupted; what was measured so far is in {place}"
    assert thresholds(found)["test_one"]["reason"] == "not-judged"
    assert "### specgate: 0 of 1 threshold judged, 1 window not measured\n" in (
        gate_folder.folder / "out.md"
    ).read_text(encoding="utf-8")
    assert "warning: GITHUB_STEP_SUMMARY was not written: it holds 1048000 bytes, and may have 1048576" in run.output


def test_a_run_without_gates_is_reported_and_not_green(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says "0 of 0 thresholds judged", though all tests passed; the summary of the job is left alone."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "step.md"))
    done, nothing = plain(pytester, *_OPTIONS), SessionReport((), exit_status=0)
    found = read(pytester.path)

    assert done.ret == 0
    assert (found["passed"], found["summary"]) == (False, "0 of 0 thresholds judged")
    assert found == session_json(nothing)
    assert (pytester.path / "out.md").read_text(encoding="utf-8") == markdown(nothing)
    assert not (pytester.path / "step.md").exists()
    done.stdout.fnmatch_lines(["report: out.json", "report: out.md"])


def test_a_run_that_ends_while_collecting_is_reported(pytester: pytest.Pytester) -> None:
    """A file that cannot be imported leaves no report of an earlier run behind."""
    (pytester.path / "out.json").write_text(EARLIER["json"])
    done = plain(pytester, *_OPTIONS, text="import nowhere\n")

    assert (done.ret, read(pytester.path)["passed"], read(pytester.path)["exit_status"]) == (2, False, 2)


@pytest.mark.parametrize("words", [("--collect-only",), ("--fixtures",), ("--specgate-plan",)])
def test_a_run_of_no_tests_reports_nothing(pytester: pytest.Pytester, words: tuple[str, ...]) -> None:
    """What is only listed or planned replaces no report of an earlier run."""
    (pytester.path / "out.json").write_text(EARLIER["json"])
    plain(pytester, "--specgate-json=out.json", *words)

    assert (pytester.path / "out.json").read_text() == EARLIER["json"]


def test_a_report_that_cannot_be_written_fails_the_run(pytester: pytest.Pytester) -> None:
    """One sentence, exit status 1, and all others are written."""
    done = plain(pytester, *_OPTIONS, text="import os\n\n\ndef test_plain(): os.mkdir('out.json')\n")

    assert done.ret == 1
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["--specgate-json: out.json was not written: Is a directory", "report: out.md"])


def test_an_old_report_that_cannot_be_removed_stops_the_run(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be taken for the report of this run, if this run were killed."""

    def refuse(self: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(13, f"Operation not permitted: {missing_ok}")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        done = plain(pytester, "--specgate-json=out.json")

    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: --specgate-json: */out.json, which an earlier run wrote, cannot be removed: *"])


@pytest.mark.parametrize(("words", "sentence"), [
    (("--specgate-json=away/out.json",), "--specgate-json=away/out.json: there is no folder away: make it first"),
    (("--specgate-markdown=folder",), "--specgate-markdown=folder: a file is wanted, and that is a folder: add a name"),
    (("--specgate-markdown=new/",), "--specgate-markdown=new/: a file is wanted, and that is a folder: add a name"),
    (("--specgate-json=/dev/null",), "--specgate-json=/dev/null: that is no ordinary file, *"),
    (("--specgate-json=~nobody-at-all/x",), "--specgate-json=~nobody-at-all/x: no such file can be written: *"),
    (("--specgate-json=" + "x" * 300,), "--specgate-json=xxx*: no such file can be written: File name too long"),
    (("-o", "specgate_markdown=folder/../x", "--specgate-json=x"),
     "--specgate-json and specgate_markdown name one file, folder/../x: give each its own"),
    (("--specgate-report-key=a--b",), "--specgate-report-key=a--b is no name: write up to 64 letters, digits, *"),
    (("--specgate-json=",), "--specgate-json is empty: give it a value or leave it out"),
])  # fmt: skip
def test_what_cannot_be_written_is_found_at_the_start(
    pytester: pytest.Pytester, words: tuple[str, ...], sentence: str
) -> None:
    """A usage error in one sentence, before any test: nothing is measured that could not be reported."""
    pytester.mkdir("folder")
    done = plain(pytester, *words)

    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: {sentence}"])
    assert "collected" not in done.stdout.str()


def test_a_folder_without_permission_is_found_at_the_start(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system says that nothing can be written there, it is believed."""
    monkeypatch.setattr("os.access", lambda *_: False)
    done = plain(pytester, "--specgate-json=out.json")

    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: --specgate-json=out.json: nothing can be written into *"])


def test_a_page_needs_its_extra(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the option is a usage error that says what to install; listing tests needs it not."""
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    refused, listed = plain(pytester, "--specgate-html=x.html"), plain(pytester, "--specgate-html=x.html", "--co")

    assert (refused.ret, listed.ret) == (pytest.ExitCode.USAGE_ERROR, 0)
    refused.stderr.fnmatch_lines(["ERROR: --specgate-html needs jinja2: pip install 'pytest-specgate[[]report[]]'"])


def test_links_are_followed(pytester: pytest.Pytester) -> None:
    """A link to a file stays a link, and what it leads to is replaced."""
    target = pytester.mkdir("kept") / "report.json"
    (pytester.path / "out.json").symlink_to(target)
    plain(pytester, "--specgate-json=out.json")

    assert (pytester.path / "out.json").is_symlink()
    assert read(target.parent, target.name)["summary"] == "0 of 0 thresholds judged"
