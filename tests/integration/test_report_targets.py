"""What a report replaces: an earlier report, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate import cli
from pytest_specgate.earlier_reports import replaceable
from tests.integration.report_runs import EARLIER, plain, read

if TYPE_CHECKING:
    from pathlib import Path

_FOREIGN: Final = {
    "a gate file": "from pytest_specgate import gate\n",
    "a text about us": "# specgate\n<!-- specgate -->\n",
    "a record": '{"schema_version": 3, "created_at": "today"}',
    "a list": "[1]",
    "half a report": '{"schema_version": 1, "passed": tr',
    "a page of somebody else": "<!DOCTYPE html><title>pytest-specgate</title>",
    "bytes": "\x00\x01\n",
}


@pytest.mark.parametrize("kind", EARLIER)
def test_only_a_report_of_its_kind_is_replaced(tmp_path: Path, kind: str) -> None:
    """Nothing, an empty file and an earlier report give way; a report of another kind does not."""
    path = tmp_path / "out"
    before = replaceable(path, kind)
    found = {}
    for other, text in {"empty": " \n", **EARLIER}.items():
        path.write_text(text)
        found[other] = replaceable(path, kind)

    assert before
    assert [other for other, ours in found.items() if ours] == ["empty", kind]


@pytest.mark.parametrize("what", _FOREIGN)
def test_what_is_no_report_is_not_replaced(tmp_path: Path, what: str) -> None:
    """A gate file, a record, a page: none of them is taken for a report of any kind."""
    path = tmp_path / "out"
    path.write_text(_FOREIGN[what])

    assert not any(replaceable(path, kind) for kind in EARLIER)


def test_a_report_of_several_records_is_one(tmp_path: Path) -> None:
    """`specgate report --json` prints one object a line."""
    (tmp_path / "out").write_text(f"{EARLIER['json']}\n{EARLIER['json']}\n")

    assert replaceable(tmp_path / "out", "json")


@pytest.mark.parametrize("kind", ["json", "markdown", "html"])
def test_a_forgotten_file_costs_no_test_file(pytester: pytest.Pytester, kind: str) -> None:
    """The next word is taken for FILE: the gate file that stands there is refused in one sentence, and stays."""
    text = "def test_plain(): pass\n"
    done = plain(pytester, f"--specgate-{kind}", "test_plain.py", text=text)
    word = {"json": "JSON", "markdown": "Markdown", "html": "HTML"}[kind]

    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines([f"ERROR: --specgate-{kind}=test_plain.py: that file is no {word} report of specgate, *"])
    assert (pytester.path / "test_plain.py").read_text().strip() == text.strip()


@pytest.mark.parametrize("flag", ["--markdown", "--html"])
def test_the_command_has_the_same_rule(tmp_path: Path, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that somebody wrote is not replaced by `specgate report` either, and nothing is read before."""
    (tmp_path / "gate.py").write_text("import this\n")
    status = cli.main(["report", str(tmp_path / "record.json"), flag, str(tmp_path / "gate.py")])

    assert (status, (tmp_path / "gate.py").read_text()) == (2, "import this\n")
    assert f"{flag} {tmp_path / 'gate.py'}: that file is no " in capsys.readouterr().err


def test_a_report_is_replaced_by_the_next_one(pytester: pytest.Pytester) -> None:
    """What a run writes is what the next run knows as a report: all three kinds."""
    pytest.importorskip("jinja2")
    words = ("--specgate-json=a", "--specgate-markdown=b", "--specgate-html=c")
    runs = [plain(pytester, *words).ret, plain(pytester, *words, text="def test_plain(): assert False\n").ret]

    assert runs == [0, 1]
    assert read(pytester.path, "a")["exit_status"] == 1


@pytest.mark.parametrize(("words", "conftest"), [
    (("--specgate-rounds=x",), ""),
    (("--no-such-option",), ""),
    ((), "raise ValueError('a conftest that cannot be loaded')\n"),
])  # fmt: skip
def test_a_run_that_is_refused_leaves_no_earlier_report(
    pytester: pytest.Pytester, words: tuple[str, ...], conftest: str
) -> None:
    """Whatever stops a run before it collects, yesterday's report does not stand there for it."""
    pytester.makeconftest(conftest)
    pytester.makeini("[pytest]\nspecgate_markdown = out.md\n")
    (pytester.path / "out.json").write_text(EARLIER["json"])
    (pytester.path / "out.md").write_text(EARLIER["markdown"])
    (pytester.path / "notes.md").write_text("mine")
    done = plain(pytester, "--specgate-json=out.json", *words)

    assert done.ret not in {0, 1}
    assert sorted(path.name for path in pytester.path.glob("*.[jm][sd]*")) == ["notes.md"]


def test_a_refused_run_removes_nothing_that_is_no_report(pytester: pytest.Pytester) -> None:
    """What stands under the name of a report and is none stays, and the option is refused."""
    (pytester.path / "notes.md").write_text("mine")
    done = plain(pytester, "--specgate-markdown=notes.md", "--specgate-rounds=x")

    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert (pytester.path / "notes.md").read_text() == "mine"
