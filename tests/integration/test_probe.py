"""The acceptance probe through pytest and the commands: one speculative arm alone, booted several times."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.cli import main
from pytest_specgate.core.acceptance_report import AcceptanceLevel
from pytest_specgate.core.judge import judge
from pytest_specgate.core.stored_gates import gates_of, pairs_of
from pytest_specgate.reporting.acceptance_json import acceptance_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

HERE = "--specgate-host-class=fixed-class"
NEW = ("--specgate-baseline=new", "--specgate-baseline-reason=the first window")

_HEAD = """\
    LOAD = load(requests={1: 2, 2: 4}, output_tokens=32)
    FLOOR_OF_WINDOWS = noise_floor("10%", source="a made-up figure")

    def probing(name, **fake):
        return AcceptanceProbe(arm=arm(name, k=4, acceptance=[0.9, 0.8, 0.7, 0.6], **fake), profile=LOAD, boots=2)


"""
_GATE = """\
    @probe(probing("k4"),
           at_least("acceptance_length", "1.5"),
           at_least("acceptance_rate_position_1", "50%", at=1),
           not_worse_than_baseline("acceptance_length", margin="50%", cross_window=FLOOR_OF_WINDOWS))
    def test_accepted(specgate_window):
        values = specgate_window.values("acceptance_rate_position_4", arm="k4", at="2 T=0.8")
        assert all(0 < found.value < 0.9 for found in values)
    """
_RED = """\
    @probe(probing("k4"), at_least("acceptance_length", "4.9"))
    def test_refused(): pass

    @probe(probing("idle", never_draft=True), at_least("acceptance_length", "1.01", at=1),
           at_least("acceptance_rate_position_4", "0.1%", at="1 T=0.8"))
    def test_idle(): pass
    """
LEVELS = ("c1", "c1-t0.8", "c2", "c2-t0.8")


@pytest.fixture(scope="module")
def probed(new_gate_folder: Callable[[], GateFolder]) -> tuple[GateFolder, GateRun]:
    """A project whose probe was measured once, and made its own baseline; and that run, with all its reports."""
    folder = new_gate_folder()
    folder.write("test_probe.py", _HEAD + _GATE)
    reports = ("--specgate-json=run.json", "--specgate-markdown=run.md", "--specgate-html=run.html")
    return folder, folder.run(HERE, *NEW, *reports)


@pytest.fixture(scope="module")
def again(probed: tuple[GateFolder, GateRun]) -> GateRun:
    """The same probe once more, judged by that baseline, under strict; the fake engine is as it was."""
    folder, _ = probed
    return folder.run(HERE, "--specgate-strict", "--specgate-results=again")


def test_every_level_at_every_temperature_has_its_own_verdict(probed: tuple[GateFolder, GateRun]) -> None:
    """A claim without a level is a test item for each, and a claim about a baseline stays without a verdict yet."""
    _, run = probed
    claims = [f"{level}-acceptance_length-at_least" for level in LEVELS]

    assert run.exit_code == 0, run.output
    assert [run.cases[f"test_accepted[{claim}]"].outcome for claim in claims] == ["PASS"] * 4
    assert run.cases["test_accepted[c1-acceptance_rate_position_1-at_least]"].outcome == "PASS"
    assert run.counts == {"passed": 5, "skipped": 4}


def test_all_boots_run_of_one_arm(probed: tuple[GateFolder, GateRun]) -> None:
    """Limits of a pair ask for one round; a probe boots its arm as often as it says."""
    _, run = probed
    record = run.record

    assert [(boot.arm, boot.round, boot.pairs) for boot in record.boots] == [("k4", 1, ("k4",)), ("k4", 2, ("k4",))]
    assert [point.at for point in record.boots[0].points] == [1, "1 T=0.8", 2, "2 T=0.8"]


def test_the_terminal_shows_acceptance_and_no_comparison(probed: tuple[GateFolder, GateRun]) -> None:
    """Levels, positions from 1 and limits, and not one word on a second arm."""
    _, run = probed
    section = run.summary.partition("\nk4 alone\n")[2].partition("\nspeculation, from counter deltas")[0]

    assert section.startswith("request profile: ")
    assert "acceptance of k4, 2 boots pooled, with 95 % intervals" in section
    assert "PASS (at least 1.5 tokens)" in section
    assert "k4 against k4" not in run.output
    assert "outputs" not in run.summary


def test_reports_show_one_arm(probed: tuple[GateFolder, GateRun]) -> None:
    """Markdown, page and JSON name the arm alone, with its acceptance."""
    folder, _ = probed
    texts = {end: (folder.folder / f"run.{end}").read_text(encoding="utf-8") for end in ("md", "html", "json")}
    [window] = json.loads(texts["json"])["windows"]

    assert not [end for end, text in texts.items() if "k4 against k4" in text]
    assert "By draft position, from 1" in texts["html"]
    assert "one arm alone, compared with none" in texts["html"]
    assert "accepted per draft" in texts["md"]
    assert [(pair["pair"], pair["reference"], pair["rounds"]) for pair in window["pairs"]] == [("k4", None, 2)]


def test_the_json_of_a_run_has_the_acceptance_of_the_arm_with_intervals(probed: tuple[GateFolder, GateRun]) -> None:
    """It is what `specgate probe --json` would print of the record, and what `specgate report --json` prints."""
    folder, run = probed
    [window] = json.loads((folder.folder / "run.json").read_text(encoding="utf-8"))["windows"]
    [pair] = pairs_of(run.record)
    own = acceptance_report(pair, run.record, (), record_path="r.json", gate_file="g.py")
    told = [AcceptanceLevel.model_validate_json(json.dumps(level)) for level in window["pairs"][0]["acceptance"]]

    assert told == list(own.levels)
    assert [(level.load, level.temperature) for level in told][:2] == [("c=1", 0.0), ("c=1 T=0.8", 0.8)]
    assert all(level.figures.acceptance_length_low is not None for level in told if level.figures is not None)
    assert all(level.valid for level in told)
    assert window["temperatures"] == {"c1": 0.0, "c1-t0.8": 0.8, "c2": 0.0, "c2-t0.8": 0.8}


def test_the_baseline_holds_the_arm_alone(probed: tuple[GateFolder, GateRun]) -> None:
    """One entry for each level, with figures of the candidate only."""
    folder, _ = probed
    [path] = (folder.folder / "baselines").glob("*/*.json")
    entries = json.loads(path.read_text(encoding="utf-8"))["entries"]

    assert set(entries) == {f"{level}-acceptance_length" for level in LEVELS}
    assert all(not entry["anchor"]["reference"] for entry in entries.values())
    assert all(len(entry["anchor"]["candidate"]) == 2 for entry in entries.values())


def test_a_later_window_is_judged_by_it(again: GateRun) -> None:
    """The level of the arm is compared, under strict, too, with no reference that could have moved."""
    names = [f"test_accepted[{level}-acceptance_length-not_worse_than_baseline-absolute]" for level in LEVELS]

    assert again.exit_code == 0, again.output
    assert {again.cases[name].outcome for name in names} == {"PASS"}
    assert "specgate_outputs" not in again.cases[names[0]].properties


def test_a_record_is_judged_again_the_same(again: GateRun) -> None:
    """What was stored of the probe gives back its gate, and the verdicts of the run."""
    record = next(record for record in again.records if record.baselines and record.baselines[0].entry is not None)
    [gate] = gates_of(record)

    assert (gate.pair.alone, pairs_of(record)) == (True, (gate.pair,))
    assert [verdict.model_dump(mode="json") for verdict in judge(gate, record)] == list(record.verdicts)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("judge", "{record}"), "9 of 9 thresholds judged: 9 PASS"),
        (("judge", "{record}", "--gates", "test_probe.py"), "9 of 9 thresholds judged: 9 PASS"),
        (("report", "{record}"), "k4 alone"),
        (("baseline", "show"), "c2-t0.8-acceptance_length: acceptance length at c=2 T=0.8, candidate; more is better"),
        (("baseline", "diff", "{record}"), "c1-t0.8-acceptance_length  appended     1 -> 2"),
        (("compare", "{record}", "{record}"), "k4 (absolute: its level)"),
    ],
)
def test_the_commands_know_probes(
    again: GateRun,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    command: tuple[str, ...],
    told: str,
) -> None:
    """Whatever reads records and baselines reads those of an arm alone."""
    monkeypatch.chdir(again.folder)
    [record] = (again.folder / "again").glob("*/record.json")

    status = main([word.format(record=record) for word in command])

    assert told in capsys.readouterr().out
    assert status == (3 if command[0] == "compare" else 0)


def test_a_plan_counts_its_boots(probed: tuple[GateFolder, GateRun]) -> None:
    """Nothing starts, and all boots are counted as sure."""
    folder, _ = probed

    run = folder.run(HERE, "--specgate-plan")

    assert "boots: 2 (1 arm, 2 rounds)" in run.output
    assert "in all: 1 window, 2 boots" in run.output


@pytest.fixture(scope="module")
def red(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """A probe whose arm accepts too little, and one whose arm never drafts, in one window."""
    folder = new_gate_folder()
    folder.write("test_red.py", _HEAD + _RED)
    return folder.run(HERE)


def test_a_broken_limit_fails_and_ends_the_probe(red: GateRun) -> None:
    """One boot shows it, and the second one would only cost time."""
    case = red.cases["test_refused[c1-acceptance_length-at_least]"]

    assert red.exit_code == 1
    assert case.outcome == "FAIL"
    assert "1 of 1 boot short of it" in (case.failure or "")
    assert [boot.round for boot in red.record.boots_of("k4")] == [1]


@pytest.mark.parametrize("claim", ["c1-acceptance_length-at_least", "c1-t0.8-acceptance_rate_position_4-at_least"])
def test_a_drafter_that_never_drafts_is_invalid(red: GateRun, claim: str) -> None:
    """Case 48: no limit is low enough for an acceptance of which nothing is known."""
    case = red.cases[f"test_idle[{claim}]"]

    assert (case.outcome, case.properties["specgate_reason"]) == ("INVALID", "speculation-inactive")
    assert "specgate_candidate" not in " ".join(case.properties)
    assert "speculation did not run: 0 drafts" in (case.failure or "")


def test_mistakes_stop_at_collection(gate_folder: GateFolder) -> None:
    """A position that is never drafted, and a claim that needs a second arm, are one sentence with their place."""
    claims = {"deep": 'at_least("acceptance_rate_position_5", "1%")', "two": 'not_worse("ttft_p50", margin="5%")'}
    for name, claim in claims.items():
        text = f'    @probe(probing("k4"), {claim})\n    def test_it(): pass\n'
        gate_folder.write(f"test_{name}.py", _HEAD + text)

    run = gate_folder.run()

    assert "is about draft position 5, and k4 drafts 4 tokens: positions are counted from 1 to 4" in run.output
    assert "probe() has one arm, and not_worse compares two" in run.output
    assert not run.records


def test_an_arm_alone_is_calibrated_as_any_other(gate_folder: GateFolder) -> None:
    """A/A windows of its arm are run instead of judging, and there is nothing of a second one."""
    claim = 'at_least("acceptance_length", "1.5", at="1 T=0.8")'
    gate_folder.write("test_probe.py", _HEAD + f'    @probe(probing("k4"), {claim})\n    def test_it(): pass\n')

    run = gate_folder.run(HERE, "--specgate-calibrate", "--specgate-calibrate-boots=2")

    assert run.counts == {"skipped": 1}
    assert [boot.arm for boot in run.record.boots] == ["k4", "k4"]
