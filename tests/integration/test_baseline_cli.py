"""`specgate baseline diff` and `accept`: a window is shown, accepted when it is meant, and never written by halves."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_specgate.adapters import baseline_files
from pytest_specgate.adapters.storage import write_atomically
from pytest_specgate.cli import baseline_accepting
from pytest_specgate.core.baseline_update import plan_update
from tests.core.conftest import HOST_CLASS, Build
from tests.integration.baselines import FAST, ID, SOON, Project

if TYPE_CHECKING:
    from pytest_specgate.core.baseline_update import Update
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord

SOURCE: Final = Path(baseline_accepting.__file__).parents[2]
UNITS: Final = re.compile(r"(_fraction|_share|_log|_s|_per_s|ratio)$")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    """A project without baselines, in which this process is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPECGATE_BASELINES", raising=False)
    return Project(tmp_path, capsys)


def test_case_106_a_first_window_is_accepted(project: Project) -> None:
    """Case 106: where nothing is, the file is made; what was written and what is to be done next stand there."""
    told = project.accept(project.record(1, 1.5), reason="the first numbers")

    assert (told.status, told.err) == (0, "")
    assert re.search(rf"{FAST} +created +0 -> 1 +- +x 1.500", told.out)
    assert f"written: {project.path()}: {FAST} created, {SOON} created\n" in told.out
    assert told.out.endswith(f"next: git add {project.path()} && git diff --cached\n")
    assert project.file().host_class == HOST_CLASS


def test_case_112_a_file_tells_where_its_figures_come_from(project: Project) -> None:
    """Case 112: figures by round, the record's hash, engine, commit, reason and date are stored."""
    record = project.record(1, 1.5)
    project.accept(record, reason="the first numbers")
    entry = project.file().entries[FAST]
    (window,) = project.file().windows.values()

    assert entry.anchor.candidate == pytest.approx((150.0, 150.0))
    assert entry.anchor.reference == pytest.approx((100.0, 100.0))
    assert window.record_sha256 == baseline_files.sha256_of_file(Path(record) / "record.json")
    assert (window.reason, window.commit) == ("the first numbers", "0123456789abcdef")
    assert (window.measured_at, window.regression) == ("2026-11-01T12:00:00.000+00:00", False)
    assert window.engine["candidate"]["version"] == "0.32.0"


def test_diff_shows_the_same_table_and_writes_nothing(project: Project) -> None:
    """What `accept` would do stands there with the command that does it; not a byte is touched."""
    project.accepted(1.5)
    before, record = project.bytes(), project.record(2, 1.485)
    shown = project.run("diff", record)
    untouched = project.bytes()
    accepted = project.accept(record)

    assert (shown.status, shown.err) == (0, "")
    assert before == untouched
    assert shown.out.partition("\n\n")[0] == accepted.out.partition("\n\n")[0]
    assert shown.out.endswith(f"to accept it: specgate baseline accept {record} --reason '...'\n")


def test_diff_where_nothing_is_makes_no_folder(project: Project) -> None:
    """Looking is free of traces."""
    told = project.run("diff", project.record(1, 1.5))

    assert told.status == 0
    assert not Path("baselines").exists()


def test_two_windows_one_after_the_other(project: Project) -> None:
    """Both are there, oldest first, and the first one is the anchor."""
    project.accepted(1.5, 1.485)
    entry = project.file().entries[FAST]

    assert [values.window[:10] for values in entry.windows] == ["2026-11-01", "2026-11-02"]
    assert entry.anchor == entry.windows[0]
    assert [window.reason for window in project.file().windows.values()] == ["day 1", "day 2"]


def test_case_119_the_same_windows_make_the_same_bytes(project: Project) -> None:
    """Case 119: sorted keys, a line end at the end, but for the time of the act; a window more is few lines."""
    texts = []
    for _ in range(2):
        shutil.rmtree("baselines", ignore_errors=True)
        project.accepted(1.5, 1.485)
        texts.append(re.sub(r'"accepted_at": "[^"]+"', "", project.path().read_text()))
    before = project.path().read_text().splitlines()
    project.accept(project.record(3, 1.5))
    after = project.path().read_text().splitlines()

    assert texts[0] == texts[1]
    assert texts[0].endswith("}\n")
    assert list(json.loads(project.path().read_text())) == sorted(json.loads(project.path().read_text()))
    assert 0 < len(after) - len(before) < 40
    assert set(before) <= set(after)


def test_case_108_other_entries_stay_byte_for_byte(project: Project) -> None:
    """Case 108: a window of a gate that claims one of two entries changes that one; the other's text stays."""
    project.accepted(1.5)
    before = _block(project.path().read_text(), SOON)
    told = project.accept(project.record(2, 1.5, project.gate(Build.claim())))
    text = project.path().read_text()

    assert told.status == 0
    assert SOON not in told.out
    assert _block(text, SOON) == before
    assert len(project.file().entries[FAST].windows) == 2


def _block(text: str, entry: str) -> str:
    """Return the lines of an entry."""
    found = re.search(rf'^  "{entry}": {{\n.*?^  }}', text, re.MULTILINE | re.DOTALL)
    assert found is not None, text
    return found[0]


def test_case_108_one_gate_of_many_is_written_alone(project: Project) -> None:
    """Case 108: with --gate the files of the others are not even opened for writing."""
    gates = [project.gate(name=f"{ID}[{name}]") for name in ("a", "b")]
    project.accepted(1.5, gates=gates)
    before = {path: Path(path).stat() for path in project.bytes()}
    told = project.accept(project.record(2, 1.5, *gates), "--gate", f"{ID}[b]")
    changed = [path for path, stat in before.items() if Path(path).stat() != stat]

    assert told.status == 0
    assert changed == [str(project.path(f"{ID}[b]"))]


def test_case_110_a_worsening_is_refused_until_it_is_meant(project: Project) -> None:
    """Case 110: nothing is written, exit status 1; with the flag it is, and the window is marked for good."""
    project.accepted(1.5)
    before, record = project.bytes(), project.record(2, 1.35)
    refused, shown = project.accept(record), project.run("diff", record)
    untouched = project.bytes()
    meant = project.accept(record, "--accept-regression")

    assert (refused.status, shown.status, meant.status) == (1, 1, 0)
    assert before == untouched
    assert f"regression: {FAST} (relative) worse -10.0 % since the baseline" in refused.out
    assert refused.err.startswith(f"specgate: nothing was written: {ID}: this window is a regression")
    assert "add --accept-regression" in refused.err
    assert f"accept {record} --accept-regression --reason" in shown.out
    assert [window.regression for window in project.file().windows.values()] == [False, True]


def test_case_110_slow_erosion_is_seen_against_the_first(project: Project) -> None:
    """Case 110: each step is within the margin of 5 %, and the first that adds up beyond it is refused."""
    project.accepted(1.5, 1.5 / 1.04)
    told = project.accept(project.record(3, 1.5 / 1.04**2))

    assert told.status == 1
    assert "worse -7.5 % since the first accepted window, beyond its margin" in told.out


def test_a_window_that_failed_its_own_gate_has_to_be_meant(project: Project) -> None:
    """An arm-pair FAIL is no baseline by accident, also where it is the first window."""
    gate = project.gate(Build.claim(), Build.threshold(margin=0.05))
    record = project.record(1, 0.5, gate)
    refused = project.accept(record)

    assert refused.status == 1
    assert "regression: c1-output_throughput-not_worse is FAIL" in refused.out
    assert project.accept(record, "--accept-regression").status == 0


@pytest.mark.parametrize(("words", "anchor"), [((), "2026-11-01"), (("--new-anchor",), "2026-11-03")])
def test_replace_keeps_the_first_window_unless_it_is_to_go(
    project: Project, words: tuple[str, ...], anchor: str
) -> None:
    """Slow erosion stays visible over a new start, and only a second flag forgets it."""
    project.accepted(1.5, 1.5)
    told = project.accept(project.record(3, 1.5), "--replace", *words)
    entry = project.file().entries[FAST]

    assert told.status == 0
    assert re.search(rf"{FAST} +replaced +2 -> 1 ", told.out)
    assert entry.anchor.window[:10] == anchor
    assert [values.window[:10] for values in entry.windows] == ["2026-11-03"]


def test_secrets_in_reasons_are_not_stored(project: Project) -> None:
    """A token that was pasted into a reason is cut out; the rest stays, on one line."""
    project.accept(project.record(1, 1.5), reason="pulled with\nhf_abcdefghijklmnopqrstuvwx, as agreed")

    assert "hf_abc" not in project.path().read_text()
    assert "pulled with [redacted], as agreed" in project.path().read_text()


def test_case_116_hostile_gate_ids_have_files_of_their_own(project: Project) -> None:
    """Case 116: equal names in other folders, ways out of the folder, and control characters; none is printed raw."""
    names = ["a/test_x.py::test_s[k4]", "b/test_x.py::test_s[k4]", "../../../x::y", "x\x1b[2J\ny", "test_s[\u202ek4]"]
    told = project.accept(project.record(1, 1.5, *(project.gate(name=name) for name in names)))
    shown = project.run("show")

    assert (told.status, shown.status) == (0, 0)
    assert len({path.lower() for path in project.bytes()}) == len(names)
    assert all(Path(path).parent == Path("baselines") / HOST_CLASS for path in project.bytes())
    assert {file.gate for _, file in project.baselines.files()} == set(names)
    assert not {"\x1b", "\u202e"} & set(told.out + shown.out)


def test_a_write_that_fails_leaves_the_old_file(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the second of two files: it is named with its reason, and so is what was written before."""
    gates = [project.gate(name=name) for name in ("a", "b")]
    project.accepted(1.5, gates=gates)
    before, write = project.bytes(), write_atomically

    def full(path: Path, text: str) -> None:
        if path == project.path("b"):
            raise OSError(28, "No space left on device")
        write(path, text)

    monkeypatch.setattr(baseline_files, "write_atomically", full)
    told = project.accept(project.record(2, 1.5, *gates))
    after = project.bytes()

    assert told.status == 2
    assert f"{project.path('b')} was not written" in told.err
    assert f"No space left on device; written before it: {project.path('a')}" in told.err
    assert [path for path in before if before[path] != after[path]] == [str(project.path("a"))]


_KILLED: Final = """
import os, signal, sys
from pytest_specgate.cli import main
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def test_a_command_that_is_killed_leaves_the_old_file(project: Project) -> None:
    """SIGKILL before the new file takes its place: the old one stands whole, and the next command goes on from it."""
    project.accepted(1.5)
    before, record = project.path().read_bytes(), project.record(2, 1.5)
    words = ["baseline", "accept", record, "--reason", "a test"]
    died = subprocess.run(
        [sys.executable, "-c", _KILLED, *words], cwd=project.folder, env={"PYTHONPATH": str(SOURCE)}, check=False
    )  # fmt: skip

    assert died.returncode == -signal.SIGKILL
    assert project.path().read_bytes() == before
    assert project.accept(record).status == 0
    assert len(project.file().entries[FAST].windows) == 2


def test_case_121_what_somebody_else_wrote_meanwhile_stands(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 121: two writers at once: the second one is refused, and the window of the first is there."""
    project.accepted(1.5)
    plan, theirs = plan_update, project.record(2, 1.5)

    def slow(gate: Gate, record: WindowRecord, *rest: Any, **how: Any) -> Update:
        monkeypatch.setattr(baseline_accepting, "plan_update", plan)
        update = plan(gate, record, *rest, **how)
        assert project.accept(theirs, reason="the other one").status == 0
        return update

    monkeypatch.setattr(baseline_accepting, "plan_update", slow)
    told = project.accept(project.record(3, 1.5))

    assert told.status == 2
    assert "changed by somebody else in the meantime: run this again" in told.err
    assert [window.reason for window in project.file().windows.values()] == ["day 1", "the other one"]


def test_json_of_both_commands_has_units_in_its_keys(project: Project) -> None:
    """Both print one object with the same gates; figures say what they are, and what a regression is stands there."""
    project.accepted(1.5)
    record = project.record(2, 1.35)
    shown, refused = project.run("diff", record, "--json"), project.accept(record, "--json")
    written = project.accept(record, "--json", "--accept-regression")

    assert (shown.status, refused.status, written.status) == (1, 1, 0)
    assert shown.json["gates"] == refused.json["gates"]
    assert (refused.json["written"], written.json["written"], written.json["valid"]) == (False, True, True)
    assert refused.json["refused"][0]["reason"] == "regression"
    assert _unnamed_figures(shown.json) == []


def _unnamed_figures(found: Any, key: str = "") -> list[str]:
    """Return the keys of figures that do not tell their unit."""
    if isinstance(found, dict):
        return [name for own, value in found.items() for name in _unnamed_figures(value, own)]
    if isinstance(found, list):
        return [name for value in found for name in _unnamed_figures(value, key)]
    return [key] if isinstance(found, float) and not UNITS.search(key) else []
