"""Through the front door: a run that is killed goes on after its last whole round, and one that is repeated says so."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.adapters.storage import load_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_specgate.core.records import WindowRecord
    from tests.integration.conftest import GateFolder, GateRun

# Two loads a boot, of which one is the warm-up: the eighth is that of the second arm in the second round.
_KILLED: Final = {"KILLED_AT_LOAD": "8"}

_KILLS_ITSELF: Final = """
import os
import signal

from pytest_specgate.adapters.client import HttpLoadDriver

LOADS, RUN_POINT = [], HttpLoadDriver.run_point


def run_point(self, *args, **kwargs):
    LOADS.append(args)
    if len(LOADS) == int(os.environ.get("KILLED_AT_LOAD", 0)):
        os.kill(os.getpid(), signal.SIGKILL)
    return RUN_POINT(self, *args, **kwargs)


HttpLoadDriver.run_point = run_point
"""

_GATES: Final = """\
    OFF, ON = arm("off"), arm("on", seed=1)
    WIDE = not_worse("output_throughput", at=1, margin="{margin}", noise=FLOOR)
    OPEN = not_worse("request_throughput", at=1, margin="1%", noise=noise_floor("95%", source="a made-up figure"))


    @gate(pair(OFF, ON), WIDE, OPEN)
    def test_killed(): pass


    @gate(pair(OFF, ON, profile=load(seed=7), rounds=1), at_least("output_throughput", at=1, limit="0.1 tokens/s"))
    def test_other(): pass
    """


@dataclasses.dataclass(frozen=True)
class _Story:
    """A run that was killed, and what came after it, in this order.

    Attributes:
        path: of the record that was left.
        before: its bytes, when it had been killed.
        after: its bytes, when all was over.
        changed: a run that goes on with it by another margin.
        resumed: a run that goes on with it.
        twice: another one.
        anew: a run that begins anew.
        windows: records of all windows, oldest first.
    """

    path: Path
    before: bytes
    after: bytes
    changed: GateRun
    resumed: GateRun
    twice: GateRun
    anew: GateRun
    windows: tuple[WindowRecord, ...]

    @property
    def short(self) -> str:
        """The path as it was typed."""
        return str(self.path.relative_to(self.path.parents[2]))


def _write(gates: GateFolder, *, margin: str) -> None:
    gates.write("test_gates.py", _GATES.format(margin=margin))
    patient = (gates.folder / "conftest.py").read_text(encoding="utf-8")
    gates.write("conftest.py", patient + _KILLS_ITSELF)


def _run(gates: GateFolder, *arguments: str, cases: bool = True) -> GateRun:
    """Run pytest, and read its report before the next run writes another."""
    run = gates.run(*arguments, variables={"SPECGATE_COMMIT": "c0ffee"})
    assert not cases or run.cases
    return run


@pytest.fixture(scope="module")
def story(new_gate_folder: Callable[[], GateFolder]) -> _Story:
    """A run that is killed in its second round, and those that come after it."""
    gates = new_gate_folder()
    _write(gates, margin="90%")
    killed = gates.run(variables={**_KILLED, "SPECGATE_COMMIT": "c0ffee"})
    [path] = gates.folder.glob("specgate-results/*/record.json")
    assert killed.exit_code == -9, killed.output
    before, option = path.read_bytes(), f"--specgate-resume={path.relative_to(gates.folder)}"
    _write(gates, margin="91%")
    changed = _run(gates, option, cases=False)
    _write(gates, margin="90%")
    resumed = _run(gates, option)
    twice = _run(gates, option, cases=False)
    anew = _run(gates, "-k", "test_killed")
    windows = tuple(load_record(found) for found in sorted(gates.folder.glob("specgate-results/*/record.json")))
    return _Story(path, before, path.read_bytes(), changed, resumed, twice, anew, windows)


def test_a_killed_window_goes_on_after_its_last_whole_round(story: _Story) -> None:
    """The boot of the round in which it was killed is measured again, those of the first round are not."""
    killed, resumed, *_ = story.windows

    assert [(boot.arm, boot.round) for boot in killed.boots] == [("off", 1), ("on", 1), ("on", 2)]
    assert [(boot.arm, boot.round) for boot in resumed.boots] == [("off", 1), ("on", 1), ("on", 2), ("off", 2)]
    assert resumed.boots[:2] == killed.boots[:2]
    assert resumed.boots[2] != killed.boots[2]
    assert (killed.finished, resumed.finished) == (False, True)


def test_its_verdict_rests_on_all_rounds(story: _Story) -> None:
    """Both rounds are judged, and those claims pass that pass in one go."""
    found = {name: (case.outcome, case.properties.get("specgate_rounds")) for name, case in story.resumed.cases.items()}

    assert found == {
        "test_killed[c1-output_throughput-not_worse]": ("PASS", "2"),
        "test_killed[c1-request_throughput-not_worse]": ("INCONCLUSIVE", "2"),
        "test_other[c1-output_throughput-at_least]": ("PASS", "1"),
    }


def test_the_old_record_is_left_as_it_was(story: _Story) -> None:
    """The new one names it, by path and hash, and keeps what both knew."""
    killed, resumed, *_ = story.windows
    [run] = resumed.continued

    assert story.before == story.after
    assert (run.record, run.created_at, run.rounds) == (story.short, killed.created_at, 1)
    assert (resumed.commit, killed.commit) == ("c0ffee", "c0ffee")
    assert resumed.host_class == killed.host_class != ""
    assert (killed.attempt, resumed.attempt) == (1, 1)


def test_it_is_told_what_goes_on(story: _Story) -> None:
    """Before anything boots, in the summary, in what failed, and in the junit report."""
    lines = story.resumed.output.splitlines()
    start = lines.index(
        f"specgate: continues {story.short}: round 1 of 2 was measured there; 1 boot of round 2, which was not "
        "finished, is left out"
    )
    head = f"run 2 of this window: round 1 from {story.short}"
    undecided = story.resumed.cases["test_killed[c1-request_throughput-not_worse]"]

    assert lines[start + 1].startswith("specgate: window 1 of 2, round 2 of 2: on: ")
    assert head in story.resumed.summary.splitlines()
    assert head in str(undecided.failure)
    assert undecided.properties["specgate_continued"] == f"round 1 from {story.short}"
    assert "specgate_continued" not in story.resumed.cases["test_other[c1-output_throughput-at_least]"].properties


def test_a_margin_that_was_chosen_afterwards_is_refused(story: _Story) -> None:
    """Before anything boots, with the field, both values and the remedy."""
    field = "gates.test_gates.py::test_killed.thresholds.0.fields.fraction: 0.9 there, and 0.91 today"
    why = "a claim that is changed after figures were seen decides nothing"
    sentence = f"{story.short} cannot be continued: {field} ({why}): measure anew, without --specgate-resume"

    assert story.changed.exit_code == 4
    assert f"ERROR: {sentence}" in story.changed.output, story.changed.output
    assert "starting its server" not in story.changed.output


def test_a_record_is_continued_once(story: _Story) -> None:
    """To draw the last rounds again until they please would be a retry until green."""
    sentence = f"{story.short} was continued already, and twice would be to draw its last rounds again: go on with "

    assert story.twice.exit_code == 4
    assert f"ERROR: {sentence}specgate-results/" in story.twice.output
    assert "starting its server" not in story.twice.output


def test_a_second_full_run_is_attempt_2(story: _Story) -> None:
    """Also one of the failed test alone: the summary, what failed and the junit report say it, and what it means."""
    sentence = "attempt 2 of this pair of builds: each attempt until green adds about 3 % false PASS at the margin"
    undecided = story.anew.cases["test_killed[c1-request_throughput-not_worse]"]
    first = story.resumed.cases["test_killed[c1-request_throughput-not_worse]"]

    assert [window.attempt for window in story.windows] == [1, 1, 1, 2]
    assert sentence in story.anew.summary.splitlines()
    assert sentence in str(undecided.failure)
    assert (first.properties["specgate_attempt"], undecided.properties["specgate_attempt"]) == ("1", "2")
    assert "attempt " not in story.resumed.summary
    assert "--specgate-resume" not in str(first.failure)


@pytest.mark.parametrize(
    ("gated", "arguments", "sentence"),
    [
        (True, ["--specgate-resume=never.json"], "never.json cannot be read: "),
        (True, ["--specgate-resume=x", "--specgate-plan"], "ERROR: --specgate-plan and --specgate-resume exclude each"),
        (False, ["--specgate-resume=x"], "ERROR: --specgate-resume found no gate and no @measured test: there is"),
    ],
)
def test_what_cannot_go_on_is_refused(
    gate_folder: GateFolder, arguments: list[str], sentence: str, *, gated: bool
) -> None:
    """An option that would do nothing is a mistake, as is a record that is not there."""
    gate_folder.write("test_gates.py", _GATES.format(margin="90%") if gated else "def test_plain(): pass")
    run = gate_folder.run(*arguments)

    assert run.exit_code == 4, run.output
    assert sentence in run.output
