"""`specgate baseline show`, `history` and `prune`: what baseline files hold, and what nobody claims any more."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_specgate.cli import COMMANDS, baseline_pruning, main
from tests.core.conftest import HOST_CLASS
from tests.integration.baselines import FAST, ID, SOON, Project

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES: Final = ("show", "diff", "accept", "prune", "history")
ENGINE: Final = "--option=--specgate-engine-command=python -m pytest_specgate.testing.fake_vllm"
GATE_FILE: Final = """
from pytest_specgate import *

ONE = Arm("one", model="fake-model", args={"fake": {"step_s": 0.002}})
PAIR = ArmPair(
    reference=ONE, candidate=ONE.vary("two", args={"fake": {"step_s": 0.003}}), varies="args.fake", rounds=2,
    profile=RequestProfile(input_tokens=16, output_tokens=16, requests={1: 10}),
)


@gate(PAIR, not_worse_than_baseline("output_throughput", at=1, margin="5%"))
def test_k4(verdict):
    raise AssertionError("nothing is measured, and nothing run")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    """A project without baselines, in which this process is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPECGATE_BASELINES", raising=False)
    return Project(tmp_path, capsys)


def gates_of(text: str) -> list[str]:
    """Return the gates of which something is shown."""
    return re.findall(rf"^(\S+) on {HOST_CLASS}$", text, re.MULTILINE)


def test_show_lists_every_window_with_its_reason(project: Project) -> None:
    """Without a name all baselines are shown, each with its file, its windows, and what they can decide."""
    project.accepted(1.5, 1.53, 1.515)
    told = project.run("show")

    assert (told.status, told.err) == (0, "")
    assert told.out.startswith(f"{ID} on {HOST_CLASS}\nfile: {project.path()}\n\n{FAST}: ")
    assert re.search(r"2026-11-02 12:00 +2 +x 1.530 +153.0 tokens/s +better \+2.0 % +vllm 0.32.0 .* day 2\n", told.out)
    assert re.search(r"mean x 1.515 of 3 windows; sd across windows 0.99 %; smallest margin .*: 4.2 %\n", told.out)
    assert f"\n{SOON}: TTFT p50 at c=8, candidate / reference; less is better\n" in told.out


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), ["a/test_x.py::test_one", "a/test_x.py::test_one_more", "b/test_x.py::test_one"]),
        (("a/",), ["a/test_x.py::test_one", "a/test_x.py::test_one_more"]),
        (("a/test_x.py::test_one",), ["a/test_x.py::test_one"]),
        (("b", "a/test_x.py::test_one_"), ["a/test_x.py::test_one_more", "b/test_x.py::test_one"]),
        (("b", "b/test_x.py"), ["b/test_x.py::test_one"]),
    ],
    ids=["all", "beginning", "whole", "two", "once"],
)
def test_gates_are_named_whole_or_by_how_they_begin(
    project: Project, names: Sequence[str], expected: list[str]
) -> None:
    """An id that is one is no beginning of others; each file is shown once."""
    every = [project.gate(name=f"{file}::{name}") for file, name in
             (("a/test_x.py", "test_one"), ("a/test_x.py", "test_one_more"), ("b/test_x.py", "test_one"))]  # fmt: skip
    project.accepted(1.5, gates=every)
    told = project.run("show", *names)

    assert told.status == 0
    assert sorted(gates_of(told.out)) == expected


def test_a_file_is_shown_by_its_path(project: Project) -> None:
    """One that lies elsewhere, as an earlier version of it does, too; it is told that no gate is judged by it."""
    project.accepted(1.5)
    shutil.copy(project.path(), "earlier.json")
    here, there = project.run("show", str(project.path())), project.run("show", "earlier.json")

    assert (here.status, there.status) == (0, 0)
    assert gates_of(here.out) == gates_of(there.out) == [ID]
    assert "note:" not in here.out
    assert f"note: no gate is judged by this file here: it would have to be {HOST_CLASS}/" in there.out


def test_one_class_of_machine_is_chosen(project: Project) -> None:
    """The same gate may have a baseline on each; one that has none names those there are."""
    project.accepted(1.5)
    project.accept(project.record(2, 1.5, host_class="other"))
    told, nobody = project.run("show", "--host-class", "other"), project.run("show", "--host-class", "h200x1")

    assert told.out.startswith(f"{ID} on other\n")
    assert (told.status, nobody.status) == (0, 2)
    assert f"none of these baselines is of host class h200x1; there are those of {HOST_CLASS}, other" in nobody.err


@pytest.mark.parametrize("command", ["show", "history"])
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("benchmark/test_speed.py::test_k4",), f"did you mean '{ID}'?; there are those of {ID}"),
        (("nowhere.json",), "no baseline of a gate whose id is or begins with 'nowhere.json'"),
        (("--baselines", "nowhere"), "there is no such folder"),
        (("--baselines=",), "--baselines is empty"),
    ],
)
def test_what_is_not_there_is_a_usage_error(
    project: Project, command: str, words: Sequence[str], sentence: str
) -> None:
    """Exit status 2 and one sentence that names what there is."""
    project.accepted(1.5)
    told = project.run(command, *words)

    assert (told.status, told.out) == (2, "")
    assert sentence in told.err
    assert len(told.err.splitlines()) == 1


def test_case_106_nothing_there_names_the_command_that_writes(project: Project) -> None:
    """Case 106: a project without baselines learns how to begin, and one who is in the wrong folder that he is."""
    elsewhere = project.run("show")
    Path("baselines").mkdir()
    told = project.run("show")

    assert (elsewhere.status, told.status) == (2, 2)
    assert "there is no folder baselines here" in elsewhere.err
    assert "--specgate-baseline=new" in told.err


def test_case_114_a_broken_file_is_named_with_its_key(project: Project) -> None:
    """Case 114: NaN and infinity are refused with file and key, and no figure of it is shown."""
    project.accepted(1.5)
    project.path().write_text(
        re.sub(r'"candidate": \[[^]]+\]', '"candidate": [NaN]', project.path().read_text(), count=1)
    )
    told = project.run("show")

    assert (told.status, told.out) == (2, "")
    assert str(project.path()) in told.err
    assert "candidate" in told.err


def test_history_draws_the_course_with_the_first_window(project: Project) -> None:
    """One line a window, its change since the first, the worse the longer to the left, and the whole in words."""
    project.accepted(1.5, 1.47, 1.3815)
    told = project.run("history", ID)
    lines = [line for line in told.out.splitlines() if line.startswith("2026-11")][:3]

    assert told.status == 0
    assert [line.count("█") for line in lines] == [0, 10, 40]
    assert all(line.endswith("│") for line in lines)
    assert "candidate / reference since the first window (2026-11-01): worse -7.9 % (x 1.500 -> x 1.381)" in told.out


def test_history_keeps_the_anchor_of_a_new_start(project: Project) -> None:
    """Replaced windows are gone; the first stays, marked, and the change since it is told."""
    project.accepted(1.5, 1.47)
    project.accept(project.record(3, 1.455), "--replace")
    told = project.run("history", ID)

    assert re.search(r"2026-11-01 12:00  x 1.500  first +replaced ", told.out)
    assert "2026-11-02" not in told.out
    assert "worse -3.0 % (x 1.500 -> x 1.455)" in told.out


def test_history_draws_the_level_of_the_candidate(project: Project) -> None:
    """What claims with mode="absolute" are about is drawn in its own unit."""
    project.accepted(1.5, 1.25)
    told = project.run("history", "--absolute")

    assert "2026-11-02 12:00  125.0 tokens/s  worse -16.7 %" in told.out
    assert "2026-11-02 12:00  80.00 ms  worse +20.0 %" in told.out


@pytest.mark.parametrize(("encoding", "words"), [("ascii", ()), ("utf-8", ("--ascii",))])
def test_history_draws_in_ascii_where_it_has_to(
    project: Project, monkeypatch: pytest.MonkeyPatch, encoding: str, words: Sequence[str]
) -> None:
    """A stream that cannot print blocks, or who asks, gets # and |."""
    project.accepted(1.5, 1.47)
    printed = io.BytesIO()
    with io.TextIOWrapper(printed, encoding=encoding) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        status = main(["baseline", "history", *words])
        text = printed.getvalue().decode("ascii")

    assert status == 0
    assert "worse -2.0 %  " + 40 * "#" + "|" in text


def test_json_of_both_is_the_same(project: Project) -> None:
    """All windows with their figures; keys tell the unit."""
    project.accepted(1.5, 1.47)
    shown, history = project.run("show", "--json"), project.run("history", "--json")
    (entry, _) = shown.json["baselines"][0]["entries"]

    assert (shown.status, history.status) == (0, 0)
    assert shown.json == history.json
    assert [window["ratio"] for window in entry["windows"]] == pytest.approx([1.5, 1.47])
    assert entry["windows"][1]["candidate_output_throughput_tokens_per_s"] == pytest.approx(147.0)
    assert entry["relative"]["change_since_first_fraction"] == pytest.approx(-0.02)


def test_case_118_prune_removes_what_no_gate_claims(project: Project) -> None:
    """Case 118: an entry that its gate dropped goes, after a look at it; gates of files not named stay."""
    Path("benchmarks").mkdir()
    Path("pytest.ini").write_text("[pytest]\n")
    Path(ID.partition("::")[0]).write_text(GATE_FILE)
    project.accepted(1.5, gates=[project.gate(), project.gate(name="other/test_x.py::test_k4")])
    before = project.bytes()
    foreseen = project.run("prune", "benchmarks", "--dry-run", "--json", ENGINE)
    untouched = project.bytes()
    words = project.run("prune", "benchmarks", "--dry-run", ENGINE)
    told = project.run("prune", "benchmarks", ENGINE)
    after = project.bytes()

    assert (foreseen.status, told.status) == (0, 0), foreseen.err + told.err
    assert words.out == f"would be removed: {SOON} of {ID} ({project.path()})\n"
    assert before == untouched
    assert foreseen.json == {
        "dry_run": True,
        "removed": [{"path": str(project.path()), "gate": ID, "entry": SOON}],
    }
    assert told.out == f"removed: {SOON} of {ID} ({project.path()})\nnext: git status baselines\n"
    assert list(project.file().entries) == [FAST]
    assert [path for path in before if before[path] != after[path]] == [str(project.path())]


def test_prune_removes_nothing_when_pytest_cannot_collect(project: Project) -> None:
    """Its own words are shown, and the exit status is that of a usage error."""
    project.accepted(1.5)
    Path("pytest.ini").write_text("[pytest]\n")
    Path("test_gate.py").write_text("import nothing_of_this_name")
    before = project.bytes()
    told = project.run("prune", "test_gate.py")

    assert (told.status, project.bytes()) == (2, before)
    assert "nothing_of_this_name" in told.err
    assert told.err.endswith("its words stand above, and nothing was removed\n")


class Interrupted(subprocess.Popen[bytes]):
    """Stands in for pytest: ends at once, but whoever waits is interrupted first."""

    waits = 0

    def __init__(self, *_: object, **streams: Any) -> None:
        super().__init__([sys.executable, "-c", ""], **streams)

    def poll(self) -> int | None:
        """Seem to run until it was waited for."""
        return super().poll() if self.waits else None

    def wait(self, timeout: float | None = None) -> int:
        """Be interrupted once."""
        self.waits += 1
        if self.waits == 1:
            raise KeyboardInterrupt
        return super().wait(timeout)


def test_an_interrupt_waits_for_pytest_and_removes_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 130; what pytest did by then is not told as if it were all."""
    project.accepted(1.5)
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    told = project.run("prune", "benchmarks")

    assert (told.status, told.out) == (130, "")


def test_prune_says_when_there_is_nothing_to_remove(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was changed, so nothing is to be committed."""
    project.accepted(1.5)
    monkeypatch.setattr(baseline_pruning, "command_line", lambda *_: [sys.executable, "-c", ""])
    told = project.run("prune", "benchmarks")
    dry = project.run("prune", "benchmarks", "--dry-run")

    assert (told.status, dry.status) == (0, 0)
    assert told.out == dry.out == "nothing to remove: every baseline of these files is claimed by a gate\n"


def test_the_bare_command_names_its_own(project: Project) -> None:
    """`specgate baseline` alone does nothing, and says what there is."""
    told = project.run()

    assert (told.status, told.out) == (2, "")
    assert ", ".join(NAMES) in told.err


@pytest.mark.parametrize("name", NAMES)
def test_each_command_is_explained_to_a_newcomer(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What it does, its exit statuses and a whole command line stand in its help, and it is listed above."""
    (group,) = (command for command in COMMANDS if command.name == "baseline")
    command = next(command for command in group.commands if command.name == name)
    with pytest.raises(SystemExit) as left:
        main(["baseline", name, "--help"])
    text = " ".join(capsys.readouterr().out.split())

    assert left.value.code == 0
    assert command.description[:40] in text
    assert f"Example: specgate baseline {name}" in text
    assert "Exit status: 0" in text
    assert all(option in text for option in ("--json", "--baselines FOLDER"))
