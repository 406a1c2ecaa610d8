"""`specgate baseline diff` and `accept`: windows, records and words that make no baseline."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.core.conftest import HOST_CLASS, Build
from tests.integration.baselines import FAST, ID, Project

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.core.records import BootRecord, PointRecord, WindowRecord

OTHER_LOAD: Final = Build.pair(rounds=2, requests={1: 12, 8: 16})
OTHER_ARMS: Final = Build.pair(rounds=2, candidate=7)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Project:
    """A project without baselines, in which this process is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPECGATE_BASELINES", raising=False)
    return Project(tmp_path, capsys)


def _unfinished(record: WindowRecord) -> WindowRecord:
    return record.model_copy(update={"finished": False})


def _failed_at_8(record: WindowRecord) -> WindowRecord:
    def fail(point: PointRecord) -> PointRecord:
        return point.model_copy(update={"requests": (Build.failed(), *point.requests[1:])})

    return Build.edited_point(record, arm="k4", at=8, edit=fail)


def _other_profile(record: WindowRecord) -> WindowRecord:
    def change(boot: BootRecord) -> BootRecord:
        return boot.model_copy(update={"profile": {**boot.profile, "seed": 99}})

    return Build.edited(record, arm="k4", edit=change)


@pytest.mark.parametrize("broken", [_unfinished, _failed_at_8, _other_profile])
def test_an_invalid_window_makes_no_baseline(project: Project, broken: Callable[[WindowRecord], WindowRecord]) -> None:
    """Exit status 4, the reason and nothing else: no flag lets it through."""
    record = project.write(broken(project.window(1, 1.5)), "broken")
    told = project.accept(record, "--accept-regression")

    assert told.status == 4
    assert re.fullmatch(rf"specgate: nothing was written: {re.escape(ID)}: INVALID \([a-z-]+\): .+\n", told.err)
    assert project.run("diff", record).status == 4
    assert project.bytes() == {}


def test_case_139_json_of_an_invalid_window_says_so(project: Project) -> None:
    """Case 139: valid is false, the reason stands there, and no figure does."""
    told = project.accept(project.write(_unfinished(project.window(1, 1.5)), "broken"), "--json")

    assert told.status == 4
    assert (told.json["valid"], told.json["written"], told.json["gates"]) == (False, False, [])
    assert told.json["refused"][0]["reason"] == "unfinished"


def test_all_gates_of_a_record_or_none(project: Project) -> None:
    """One that must not be judged keeps the others from being written; they can be named."""
    gates = project.gate(Build.claim(), name="a"), project.gate(Build.claim("ttft_p50", 8), name="b")
    record = project.write(_failed_at_8(project.window(1, 1.5, *gates)), "broken")
    told = project.accept(record)
    written = project.bytes()
    alone = project.accept(record, "--gate", "a")

    assert (told.status, written) == (4, {})
    assert "nothing was written: b: INVALID" in told.err
    assert (alone.status, list(project.bytes())) == (0, [str(project.path("a"))])


def test_the_same_window_is_not_accepted_twice(project: Project) -> None:
    """It would count twice, and seem to lie close to itself."""
    project.accepted(1.5)
    told = project.accept("results/day-1")

    assert told.status == 2
    assert "this window is in the baseline already" in told.err


@pytest.mark.parametrize("pair", [OTHER_LOAD, OTHER_ARMS], ids=["load", "arms"])
def test_another_load_or_other_arms_start_anew(project: Project, pair: Any) -> None:
    """Figures that cannot be compared are refused with the remedy, which leaves nothing of the old ones."""
    project.accepted(1.5, 1.5)
    before = project.bytes()
    record = project.record(3, 1.5, project.gate(pair=pair))
    refused = project.accept(record)
    untouched = project.bytes()
    anew = project.accept(record, "--replace")
    entry = project.file().entries[FAST]

    assert (refused.status, untouched) == (2, before)
    assert "specgate baseline accept RECORD --replace --reason '...'" in refused.err
    assert anew.status == 0
    assert (len(entry.windows), entry.anchor) == (1, entry.windows[0])
    assert len(project.file().windows) == 1


def test_other_formulas_start_anew(project: Project) -> None:
    """Figures of another version of the formulas are never compared with today's."""
    project.accepted(1.5)
    text = project.path().read_text()
    project.path().write_text(re.sub(r'"metric_definition_version": \d+', '"metric_definition_version": 1', text))
    record = project.record(2, 1.5)
    told = project.accept(record)

    assert told.status == 2
    assert "--replace" in told.err
    assert project.accept(record, "--replace").status == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--reason", ""), "--reason is empty"),
        (("--reason", " a\n"), "says nothing"),
        ((), "the following arguments are required: --reason"),
        (("--reason", "why not", "--new-anchor"), "only --replace does"),
        (("--reason", "why not", "--gate", f"{ID}x"), f"did you mean '{ID}'?"),
        (("--reason", "why not", "--baselines", "nowhere"), "'nowhere', and there is no such folder"),
        (("--reason", "why not", "--baselines="), "--baselines is empty"),
    ],
)
def test_mistakes_on_the_command_line_are_usage_errors(project: Project, words: tuple[str, ...], sentence: str) -> None:
    """Exit status 2, one sentence with the remedy, and nothing written."""
    told = project.run("accept", project.record(1, 1.5), *words)

    assert (told.status, told.out) == (2, "")
    assert sentence in told.err
    assert len(told.err.splitlines()) == 1
    assert project.bytes() == {}


def test_case_135_an_empty_variable_is_a_usage_error(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 135: a CI variable that expands to nothing is not the default; one that names a folder is followed."""
    record = project.record(1, 1.5)
    monkeypatch.setenv("SPECGATE_BASELINES", "")
    empty = project.accept(record)
    monkeypatch.setenv("SPECGATE_BASELINES", "elsewhere")
    Path("elsewhere").mkdir()
    named = project.accept(record)

    assert (empty.status, named.status) == (2, 0)
    assert "SPECGATE_BASELINES is empty" in empty.err
    assert "written: elsewhere/" in named.out


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gates": ()}, "claims anything of a baseline: add not_worse_than_baseline(...)"),
        ({"host_class": "../../tmp"}, "is no name of a folder"),
        ({"host_class": "other"}, ""),
    ],
    ids=["no claim", "odd folder", "another machine"],
)
def test_records_from_anywhere(project: Project, changes: dict[str, Any], sentence: str) -> None:
    """One without claims, or with a class that leads elsewhere, is refused; another machine has its own file."""
    project.accepted(1.5)
    before = project.bytes()
    told = project.accept(project.record(2, 1.5, **changes))

    assert sentence in told.err
    assert told.status == (2 if sentence else 0)
    assert set(project.bytes()) - set(before) == (set() if sentence else {str(project.path(host_class="other"))})


def test_a_gate_that_stands_twice_in_a_record_is_refused(project: Project) -> None:
    """Case 116: a duplicate is an error, and not that the last one wins."""
    told = project.accept(project.record(1, 1.5, project.gate(), project.gate()))

    assert told.status == 2
    assert f"holds gate {ID} twice" in told.err


def test_every_refusal_is_told_and_the_worst_makes_the_status(project: Project) -> None:
    """INVALID comes before wrong usage, and that before a regression, in whatever order the gates stand."""
    worse, twice = project.gate(Build.claim(), name="worse"), project.gate(Build.claim(), name="twice")
    broken = project.gate(Build.claim("ttft_p50", 8), name="broken")
    project.accepted(1.5, gates=[worse])
    record = project.write(_failed_at_8(project.window(2, 1.35, worse, twice, broken)), "three")
    project.accept(record, "--gate", "twice")
    every, two = project.run("diff", record, "--json"), project.accept(record, "--gate", "worse", "--gate", "twice")

    assert (every.status, two.status) == (4, 2)
    assert {one["gate"]: one["reason"] for one in every.json["refused"]} == {
        "worse": "regression",
        "twice": "refused",
        "broken": "failed-requests",
    }
    assert [line.split(": ")[2] for line in two.err.splitlines()] == ["twice", "worse"]


def test_a_record_whose_gates_cannot_be_read_is_named(project: Project) -> None:
    """A gate of another version is a broken input, and told in one sentence."""
    told = project.accept(project.record(1, 1.5, gates=({"id": ID, "reference": "off", "candidate": "none"},)))

    assert told.status == 2
    assert told.err.startswith("specgate: results/day-1/record.json: gate ")
    assert len(told.err.splitlines()) == 1


def test_a_gate_without_claims_that_is_named_is_refused(project: Project) -> None:
    """Naming it asks for something that cannot be; among others it is passed over."""
    gates = project.gate(), project.gate(Build.threshold(), name="other")
    record = project.record(1, 1.5, *gates)

    assert project.accept(record, "--gate", "other").status == 2
    assert project.accept(record).status == 0
    assert list(project.bytes()) == [str(project.path())]


def test_a_baseline_of_another_machine_is_refused(project: Project) -> None:
    """A file that was copied by hand into the folder of this class of machine is neither used nor mended."""
    project.accepted(1.5)
    path = project.path(host_class="other")
    path.parent.mkdir()
    shutil.copy(project.path(), path)
    before = project.bytes()
    told = project.accept(project.record(2, 1.5, host_class="other"), "--replace")

    assert (told.status, project.bytes()) == (2, before)
    assert HOST_CLASS in told.err


@pytest.mark.parametrize("text", ["", "{", '{"schema_version": 99}'], ids=["empty", "broken", "version"])
def test_a_broken_baseline_is_named_and_left_alone(project: Project, text: str) -> None:
    """Case 107: what cannot be read is neither replaced nor taken for nothing."""
    project.path().parent.mkdir(parents=True)
    project.path().write_text(text)
    told = project.accept(project.record(1, 1.5), "--replace")

    assert told.status == 2
    assert str(project.path()) in told.err
    assert project.path().read_text() == text
