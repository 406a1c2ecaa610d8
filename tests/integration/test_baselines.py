"""Baselines through pytest: written on purpose, judged by, and never touched by an ordinary run."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast

import pytest

from pytest_specgate.adapters.baseline_files import BaselineFolder, load_baseline
from pytest_specgate.cli import main
from pytest_specgate.core.baselines import KnownBaseline
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.stored import Failure
from pytest_specgate.session_window import Window

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_specgate.core.resume import TakenOver
    from pytest_specgate.session_window import Wiring
    from tests.integration.conftest import GateFolder, GateRun

CLASS: Final = "fixed-class"
HERE: Final = f"--specgate-host-class={CLASS}"
GATE: Final = "test_gate.py::test_speed"
WIDE: Final = 'cross_window=noise_floor("30%", source="a made-up figure")'

FILE: Final = """
PAIR = pair(arm("one", k=2, acceptance=[0.9, 0.9]), arm("two", k=2, {slow}acceptance=[0.9, 0.8]), rounds={rounds},
            profile=load(requests={{1: 4}}, {load}))


@gate(PAIR, SPEED,
      not_worse_than_baseline("output_throughput", at=1, margin="{margin}", {floor}),
      not_worse_than_baseline("request_throughput", at=1, margin="60%", {floor}){more})
def test_speed():
    pass
"""


def gate_file(  # noqa: PLR0913  - one word for each thing that a test changes
    *, slow: str = "", floor: str = WIDE, margin: str = "60%", load: str = "", more: str = "", rounds: int = 2
) -> str:
    """Return a gate file with two claims about a baseline and one about its arms."""
    return FILE.format(slow=slow, floor=floor, margin=margin, load=load, more=more, rounds=rounds)


def baseline(folder: Path) -> Path:
    """Return the only baseline file."""
    [path] = (folder / "baselines").glob("*/*.json")
    return path


def started(folder: GateFolder) -> bool:
    """Whether any server was started there."""
    return any(folder.folder.glob("specgate-results/*"))


@pytest.fixture(scope="module")
def written(new_gate_folder: Callable[[], GateFolder]) -> tuple[GateFolder, GateRun]:
    """A folder whose baseline was written by its first run."""
    folder = new_gate_folder()
    folder.write("test_gate.py", gate_file())
    return folder, folder.run(HERE, "--specgate-baseline=new", "--specgate-baseline-reason=the first window")


@pytest.fixture
def copied(written: tuple[GateFolder, GateRun], new_gate_folder: Callable[[], GateFolder]) -> GateFolder:
    """A folder of its own with that gate file and that baseline."""
    folder = new_gate_folder()
    folder.model = written[0].model
    folder.write("test_gate.py", gate_file())
    shutil.copytree(written[0].folder / "baselines", folder.folder / "baselines")
    return folder


def test_a_first_run_without_a_baseline_says_so_and_starts_nothing(gate_folder: GateFolder) -> None:
    """Case 106: no baseline is an outcome of its own with the command that writes one, and costs no boot."""
    folder = gate_folder
    folder.write("test_gate.py", gate_file())
    run = folder.run(HERE, "-k", "baseline")

    assert (run.exit_code, run.counts) == (1, {"failed": 2, "deselected": 1})
    assert {case.properties["specgate_reason"] for case in run.cases.values()} == {"no-baseline"}
    assert {case.outcome for case in run.cases.values()} == {"INCONCLUSIVE"}
    assert "--specgate-baseline=new" in str(run.cases[next(iter(run.cases))].failure)
    assert not started(folder)
    assert not (folder.folder / "baselines").exists()


def test_claims_about_the_arms_are_judged_without_a_baseline(gate_folder: GateFolder) -> None:
    """Case 106: what compares two arms is judged all the same; the rest is skipped where that was asked for."""
    gate_folder.write("test_gate.py", gate_file())
    run = gate_folder.run(HERE, "--specgate-missing-baseline=skip")

    assert (run.exit_code, run.counts) == (0, {"passed": 1, "skipped": 2})
    assert f"no baseline for {CLASS} yet" in run.output


def test_new_writes_what_is_missing_and_judges_nothing_by_it(written: tuple[GateFolder, GateRun]) -> None:
    """What a run writes it does not judge by: its claims are skipped, and the file says what, when and why."""
    folder, run = written
    file = load_baseline(baseline(folder.folder))
    [window] = file.windows.values()

    assert (run.exit_code, run.counts) == (0, {"passed": 1, "skipped": 2})
    assert (file.host_class, file.gate) == (CLASS, GATE)
    assert sorted(file.entries) == ["c1-output_throughput", "c1-request_throughput"]
    assert all(entry.latest.rounds == 2 for entry in file.entries.values())
    assert (window.reason, window.measured_at) == ("the first window", run.record.created_at)
    assert "written, not judged" in run.output


def test_a_healthy_run_passes_and_changes_no_byte(copied: GateFolder) -> None:
    """Case 110: an ordinary run never writes; its record holds the baseline, and is judged alike anywhere."""
    before = baseline(copied.folder).read_bytes()
    run = copied.run(HERE)
    [path] = copied.folder.glob("specgate-results/*/record.json")

    assert (run.exit_code, run.counts) == (0, {"passed": 3})
    assert baseline(copied.folder).read_bytes() == before
    assert "against the baseline" in run.summary
    shutil.rmtree(copied.folder / "baselines")
    assert main(["judge", str(path)]) == 0
    assert [one["baseline"] is not None for one in run.record.verdicts] == [False, True, True]


def test_a_slower_candidate_fails_against_its_baseline(copied: GateFolder) -> None:
    """A loss beyond the margin is FAIL, though both arms lost nothing to each other that their own gate would mind."""
    copied.write("test_gate.py", gate_file())
    file = baseline(copied.folder)
    stored = json.loads(file.read_text(encoding="utf-8"))
    for part in ("anchor", "windows"):
        found = stored["entries"]["c1-output_throughput"][part]
        for values in [found] if part == "anchor" else found:
            values["candidate"] = [8 * value for value in values["candidate"]]
    file.write_text(json.dumps(stored), encoding="utf-8")
    run = copied.run(HERE, "-k", "output_throughput")
    case = run.cases["test_speed[c1-output_throughput-not_worse_than_baseline]"]

    assert (run.exit_code, case.outcome) == (1, "FAIL")
    assert "worse -8" in str(case.failure)
    assert "since its baseline of 1 accepted window" in str(case.failure)
    assert "--accept-regression" in str(case.failure)


def test_all_adds_a_window_to_each_entry_of_the_selected_tests(copied: GateFolder) -> None:
    """Case 108: an update of one claim leaves the other entry as it is, byte for byte."""
    before = baseline(copied.folder).read_text(encoding="utf-8")
    run = copied.run(HERE, "--specgate-baseline=all", "-k", "request_throughput")
    after = baseline(copied.folder).read_text(encoding="utf-8")
    untouched = before[before.index('"c1-output_throughput"') : before.index('"c1-request_throughput"')]
    file = load_baseline(baseline(copied.folder))

    assert (run.exit_code, run.counts) == (0, {"skipped": 1, "deselected": 2})
    assert untouched in after
    assert len(file.entries["c1-request_throughput"].windows) == 2
    assert file.entries["c1-request_throughput"].anchor == file.entries["c1-request_throughput"].windows[0]
    assert "pytest --specgate-baseline=all" in {window.reason for window in file.windows.values()}


def test_a_regression_is_accepted_only_on_purpose(copied: GateFolder) -> None:
    """A window worse than what stands there by more than the margin is refused, and marked when it is meant."""
    file = baseline(copied.folder)
    stored = json.loads(file.read_text(encoding="utf-8"))
    for entry in stored["entries"].values():
        for values in (entry["anchor"], *entry["windows"]):
            values["candidate"] = [8 * value for value in values["candidate"]]
    file.write_text(json.dumps(stored), encoding="utf-8")
    before = file.read_bytes()
    refused = copied.run(HERE, "--specgate-baseline=all", "-k", "baseline")
    after = file.read_bytes()
    meant = copied.run(HERE, "--specgate-baseline=all", "--specgate-accept-regression", "-k", "baseline")

    assert (refused.exit_code, refused.counts) == (1, {"failed": 2, "deselected": 1})
    assert "this window is a regression" in refused.output
    assert after == before
    assert (meant.exit_code, meant.counts) == (0, {"skipped": 2, "deselected": 1})
    assert sorted(window.regression for window in load_baseline(file).windows.values()) == [False, True]


BROKEN: Final[dict[str, tuple[Callable[[str], str], str]]] = {
    "no JSON": (lambda text: text[: len(text) // 2], "baseline"),
    "NaN": (lambda text: _first_figure(text, "NaN"), "entries.c1-output_throughput"),
    "1e400": (lambda text: _first_figure(text, "1e400"), "entries.c1-output_throughput"),
    "null": (lambda text: _first_figure(text, "null"), "entries.c1-output_throughput"),
    "true": (lambda text: _first_figure(text, "true"), "entries.c1-output_throughput"),
    "text": (lambda text: _first_figure(text, '"12"'), "entries.c1-output_throughput"),
    "negative": (lambda text: _first_figure(text, "-3"), "entries.c1-output_throughput"),
    "newer": (lambda text: text.replace('"schema_version": 1', '"schema_version": 2'), "update pytest-specgate"),
    "twice": (lambda text: text.replace(' "gate":', ' "gate": "test_other.py::test",\n "gate":'), "gate"),
}


def _first_figure(text: str, figure: str) -> str:
    head, mark, rest = text.partition('"candidate": [')
    return f"{head}{mark}{figure},{rest.partition(',')[2]}"


@pytest.mark.parametrize("how", BROKEN)
def test_an_unreadable_baseline_stops_the_run_before_anything_starts(copied: GateFolder, how: str) -> None:
    """Cases 107, 114, 115, 116: broken files are found before the slow part, with file and key."""
    change, place = BROKEN[how]
    path = baseline(copied.folder)
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    run = copied.run(HERE)

    assert run.exit_code == 4
    assert path.name in run.output
    assert place in run.output
    assert "Traceback" not in run.output
    assert not started(copied)


OTHERS: Final = {
    "other-definition": (
        gate_file(slow="step_s=0.003, "),
        "candidate.args.fake.step_s: 0.002 in the baseline, 0.003 today",
    ),
    "other-profile": (gate_file(load="output_tokens=17"), "output_tokens: 16 in the baseline, 17 today"),
}


@pytest.mark.parametrize("reason", OTHERS)
def test_a_baseline_of_something_else_is_no_baseline(copied: GateFolder, reason: str) -> None:
    """Another load and other arms have a reason of their own, quote the field with both values, and cost no boot."""
    text, line = OTHERS[reason]
    copied.write("test_gate.py", text)
    run = copied.run(HERE, "-k", "baseline")
    case = next(iter(run.cases.values()))

    assert (run.exit_code, case.outcome, case.properties["specgate_reason"]) == (1, "INVALID", reason)
    assert line in str(case.failure)
    assert "--replace" in str(case.failure)
    assert not started(copied)


def test_a_baseline_of_another_machine_is_no_baseline(copied: GateFolder) -> None:
    """A folder copied for another class of machine is found out; an honest lack of one names where there are some."""
    elsewhere = copied.run("--specgate-host-class=other-class", "-k", "baseline")
    missing = {case.properties["specgate_reason"] for case in elsewhere.cases.values()}
    shutil.copytree(copied.folder / "baselines" / CLASS, copied.folder / "baselines" / "other-class")
    foreign = copied.run("--specgate-host-class=other-class", "-k", "baseline")

    assert missing == {"no-baseline"}
    assert f"there are baselines of {CLASS}" in elsewhere.output
    assert {case.properties["specgate_reason"] for case in foreign.cases.values()} == {"foreign-host"}
    assert {case.outcome for case in foreign.cases.values()} == {"INVALID"}


def test_one_window_without_a_floor_cannot_be_judged_by(copied: GateFolder) -> None:
    """Fewer than three windows need a declared floor across windows, and the message says what to run next."""
    copied.write("test_gate.py", gate_file(floor=""))
    run = copied.run(HERE, "-k", "output_throughput-not_worse_than_baseline")
    [case] = run.cases.values()

    assert (case.outcome, case.properties["specgate_reason"]) == ("INCONCLUSIVE", "no-cross-window-noise")
    assert "specgate baseline accept" in str(case.failure)


def test_off_leaves_baselines_alone(copied: GateFolder) -> None:
    """Claims about baselines that were switched off are skipped with that reason, never passed."""
    run = copied.run(HERE, "--specgate-baseline=off", "-k", "baseline")

    assert (run.exit_code, run.counts) == (0, {"skipped": 2, "deselected": 1})
    assert {case.properties["specgate_reason"] for case in run.cases.values()} == {"baselines-off"}
    assert not started(copied)


@pytest.mark.parametrize(
    ("arguments", "ini", "sentence"),
    [
        (["--specgate-baseline="], "", "--specgate-baseline is empty"),
        (["--specgate-baseline=always"], "", "--specgate-baseline=always is none of check, new, all, prune, off"),
        ([], "specgate_baseline = all", "specgate_baseline: --specgate-baseline=all is typed each time"),
        ([], "specgate_baseline = off", "specgate_baseline: --specgate-baseline=off is typed each time"),
        ([], "addopts = --specgate-baseline=new", "addopts: --specgate-baseline=new is typed each time"),
        (["--specgate-host-class=../x"], "", "--specgate-host-class=../x is no class of machine"),
        (
            ["--specgate-baseline=new", "--specgate-baseline-reason=x"],
            "",
            "--specgate-baseline-reason=x says too little",
        ),
        (["--specgate-missing-baseline=pass"], "", "--specgate-missing-baseline=pass is neither skip nor fail"),
        (["-n2", "--specgate-baseline=all"], "", "--specgate-baseline=all writes files"),
        (["-n1", "--specgate-baseline=new"], "", "--specgate-baseline=new writes files"),
        (["-k", "request", "--specgate-baseline=prune"], "", "needs a whole run, and tests were deselected"),
        (["-o", "python_functions=bench_*", "--specgate-baseline=prune"], "", "functions may have been left out"),
        ([GATE, "--specgate-baseline=prune"], "", "needs a whole run, and single tests were named"),
    ],
)
def test_what_would_write_by_accident_is_refused(
    copied: GateFolder, arguments: list[str], ini: str, sentence: str
) -> None:
    """Cases 121 and 135: empty values, settings that write for ever, two writers and half a view are usage errors."""
    before = baseline(copied.folder).read_bytes()
    copied.write("pytest.ini", f"[pytest]\n{ini}\n")
    run = copied.run(*arguments)

    assert run.exit_code == 4 or (arguments[:1] in (["-k"], ["-o"], [GATE]) and run.exit_code != 0)
    assert sentence in run.output
    assert baseline(copied.folder).read_bytes() == before


def test_gates_of_one_name_have_baselines_of_their_own(gate_folder: GateFolder) -> None:
    """Case 116: the same name in another file, in a class and with another parameter never shares a file."""
    claim = f'@gate(pair(arm("one"), arm("two", step_s=0.003)), not_worse_than_baseline("ttft_p50", at=1, {WIDE},'
    text = f"""
    {claim} margin="60%"))
    def test_speed(): pass


    class TestSame:
        {claim} margin="60%"))
        def test_speed(self): pass
    """
    for name in ("test_a.py", "test_b.py"):
        gate_folder.write(name, text.replace('ttft_p50", at=1', 'output_throughput", at=1'))
    run = gate_folder.run(HERE, "--specgate-baseline=new", "--specgate-rounds=1")
    gates = [file.gate for _, file in BaselineFolder(gate_folder.folder / "baselines").files()]

    assert run.counts == {"skipped": 4}
    assert sorted(gates) == [
        "test_a.py::TestSame::test_speed",
        "test_a.py::test_speed",
        "test_b.py::TestSame::test_speed",
        "test_b.py::test_speed",
    ]


def test_closed_claims_are_not_counted_as_judged(copied: GateFolder) -> None:
    """What was skipped for want of a baseline was not judged, and the last line does not say so."""
    run = copied.run("--specgate-host-class=other-class", "--specgate-missing-baseline=skip", "-k", "baseline")

    assert (run.exit_code, run.counts) == (0, {"skipped": 2, "deselected": 1})
    assert "0 of 2 thresholds judged" in run.output


def test_strict_is_not_skipped_away(copied: GateFolder) -> None:
    """A stale baseline is no pass under strict, and none that may be skipped as undecided."""
    copied.write("test_gate.py", gate_file().replace("SPEED,", ""))
    file = baseline(copied.folder)
    stored = json.loads(file.read_text(encoding="utf-8"))
    for entry in stored["entries"].values():
        for values in (entry["anchor"], *entry["windows"]):
            values["candidate"] = [value / 20 for value in values["candidate"]]
    file.write_text(json.dumps(stored), encoding="utf-8")
    run = copied.run(
        HERE, "--specgate-strict", "--specgate-inconclusive=skip", "-k", "output_throughput-not_worse_than_baseline"
    )
    [case] = run.cases.values()

    assert (run.exit_code, case.properties["specgate_reason"]) == (1, "stale-baseline")


@pytest.mark.parametrize(("then", "sentence"), [(True, "left alone"), (False, "judged by")])
def test_a_window_goes_on_with_baselines_as_it_began(*, then: bool, sentence: str) -> None:
    """Whether baselines were left alone is typed again: what was typed for the run that died is not typed now."""
    known = [
        KnownBaseline(gate=GATE, entry_id="c1-ttft_p50", problem=Failure(reason=reason, message="a test"))
        for reason in ("no-baseline", "baselines-off")
    ]
    taken = SimpleNamespace(noise=(), baselines=(known[then],))
    window = Window(baselines=(known[not then],), taken=cast("TakenOver", taken))

    with pytest.raises(UsageError, match=f"baselines were {sentence} when that window began"):
        window.settle(cast("Wiring", None))
