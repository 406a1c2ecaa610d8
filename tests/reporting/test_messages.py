"""The summary of a window and the text of a failure: identity before figures, and what to do next."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.baselines import BASELINES_OFF, NO_BASELINE
from pytest_specgate.core.records import StartUpRecord
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import Outcome, UnexpectedOutcomeError
from pytest_specgate.reporting.messages import outcome_line

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

IDENTICAL = re.compile(r"request profile: (\d+) of \1 fields identical")
FIGURE = re.compile(r"sends in bunches|tokens/s\]|\[ms\]|\d %|acceptance length|(better|worse) [+-]")
"""What only a line with a measured figure contains."""

REQUESTS = "10 requests at c=1, 16 requests at c=8"
ONE_WINDOW = "measure both arms in one window, with one RequestProfile: this record mixes two loads"


def figures(lines: list[str]) -> list[str]:
    """Return the lines that show a measured figure."""
    return [line for line in lines if FIGURE.search(line)]


def test_identity_comes_before_every_figure(window: type[Window], k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """No figure of a pair is shown before the line that says its request profiles are identical."""
    lines = window.of(k4_off, k7_k4, speeds={"k4": 1.2, "k7": 1.1}).gated().gated(place=1).lines()
    first, second = (place for place, line in enumerate(lines) if IDENTICAL.fullmatch(line))

    assert figures(lines[:first]) == []
    assert [line for line in lines[:second] if "k7 against k4" in line] == [lines[second - 1]]
    assert figures(lines[first + 1 : second])
    assert figures(lines[second + 1 :])


def test_the_number_of_fields_is_that_of_the_profile(window: type[Window], k4_off: ArmPair) -> None:
    """N of N counts every compared field once."""
    one = window.of(k4_off, speeds={})
    count = len(one.record.boots[0].profile)

    assert f"request profile: {count} of {count} fields identical" in one.lines()


def test_a_mismatch_shows_fields_and_values_and_no_table(window: type[Window], k4_off: ArmPair) -> None:
    """Each field that differs is named with both boots and both values; there is no table, not even of speculation."""
    other = window.of(k4_off, speeds={"k4": 1.2}).with_field("k4", 1, temperature=0.7, seed=None).gated()
    lines = other.lines()
    start = lines.index("k4 against off (args.speculative_config varies)")

    assert lines[start + 1 : start + 11] == [
        "no figures (profile-mismatch): request profile: 42 of 44 fields identical",
        "    temperature",
        "        off, round 1: 0.0",
        "        k4, round 1: 0.7",
        f"        {ONE_WINDOW}",
        "    seed",
        "        off, round 1: 0",
        "        k4, round 1: None",
        f"        {ONE_WINDOW}",
        "",
    ]
    assert figures(lines) == []


def test_a_mismatch_of_one_pair_leaves_the_other_its_figures(
    window: type[Window], k4_off: ArmPair, k7_k4: ArmPair
) -> None:
    """The pair whose profiles agree is shown in full."""
    lines = window.of(k4_off, k7_k4, speeds={}).with_field("off", 1, seed=7).lines()
    second = lines.index("k7 against k4 (args.speculative_config varies)")

    assert figures(lines[:second]) == []
    assert any("output throughput [tokens/s]" in line for line in lines[second:])


def test_long_values_are_cut_around_their_difference(window: type[Window], k4_off: ArmPair) -> None:
    """Two lists of a hundred lengths show where they part, on one line each."""
    lengths = [[11] * 100, [11] * 99 + [12]]
    one = window.of(k4_off, speeds={})
    for name, value in zip(("off", "k4"), lengths, strict=True):
        for number in (1, 2):
            one = one.with_field(name, number, **{"observed_output_tokens.c1": value})
    shown = [line for line in one.lines() if "round 1: " in line]

    assert [line[-3:] for line in shown] == ["11]", "12]"]
    assert all(len(line) < 110 for line in shown)


@pytest.mark.parametrize("dead", ["off", "k4"])
def test_an_arm_that_died_gives_its_reason_and_no_figures(window: type[Window], k4_off: ArmPair, dead: str) -> None:
    """When no boot of an arm survived, its reason stands in place of a table; the log's end is for the failure."""
    lines = window.of(k4_off, speeds={}).with_death(dead, 1).with_death(dead, 2).gated().lines()
    start = lines.index("k4 against off (args.speculative_config varies)")

    assert lines[start + 1 : start + 3] == [f"no figures (server-died): arm {dead}: its server left", ""]
    assert figures(lines) == []


@pytest.mark.parametrize("measured", [0, 1, 2])
@pytest.mark.parametrize("number", [1, 2])
def test_case_139_one_failed_boot_leaves_no_figures(
    window: type[Window], k4_off: ArmPair, number: int, measured: int
) -> None:
    """Case 139: nothing of an invalid pair is shown, neither of its healthy rounds nor of the points before the end."""
    one = window.of(k4_off, speeds={"k4": 1.2}).with_death("k4", number, measured=measured).gated()
    lines = one.lines()

    assert "no figures (server-died): arm k4: its server left" in lines
    assert figures(lines) == []
    assert [verdict.outcome for verdict in one.judged()[0].verdicts] == [Outcome.INVALID]


def test_the_first_boot_that_failed_gives_the_reason(window: type[Window], k4_off: ArmPair) -> None:
    """What came first is told, since what came later may follow from it."""
    one = window.of(k4_off, speeds={}).with_death("off", 1).with_death("k4", 1)
    later = window.of(k4_off, speeds={}).with_death("off", 2).with_death("k4", 2)

    assert "no figures (server-died): arm off: its server left" in one.lines()
    assert "no figures (server-died): arm k4: its server left" in later.lines()


def test_a_boot_that_lacks_a_point_leaves_no_figures(window: type[Window], k4_off: ArmPair) -> None:
    """A point that was never measured is named with its arm and round."""
    one = window.of(k4_off, speeds={})
    lines = one.edited("k4", 2, edit=lambda boot: boot.model_copy(update={"points": boot.points[:1]})).lines()

    assert "no figures (not-measured): arm k4, round 2: c=8 was not measured" in lines
    assert figures(lines) == []


def test_a_failed_boot_leaves_the_other_pair_its_figures(window: type[Window], k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """The pair without the failed arm is shown in full; the failed arm is in none of the tables after it."""
    lines = window.of(k4_off, k7_k4, speeds={}).with_death("k7", 2, measured=1).lines()
    second = lines.index("k7 against k4 (args.speculative_config varies)")
    speculation = lines.index("speculation, from counter deltas of each point, all rounds pooled")
    which = lines.index("which k (`specgate knee` tells what this rests on)")

    assert lines[second + 1 : which] == ["no figures (server-died): arm k7: its server left", ""]
    assert [line for line in lines[which:speculation] if "k=7" in line] == []
    assert sum("output throughput [tokens/s]" in line for line in lines[:second]) == 2
    load = lines.index("load and client, mean over boots")
    assert [line.split()[:2] for line in lines[speculation + 3 : load - 1]] == [["k4", "c=1"], ["k4", "c=8"]]
    assert [line for line in lines[speculation:] if "k7" in line] == []


def test_a_window_without_boots_is_told(window: type[Window], k4_off: ArmPair) -> None:
    """An interrupted window says that it is unfinished, and shows nothing."""
    empty = window.of(k4_off, speeds={}, rounds=0)
    unfinished = window(empty.record.model_copy(update={"finished": False}), (k4_off,))
    lines = unfinished.lines()

    assert lines[0] == "boots: 0 in 0 rounds (none), UNFINISHED"
    assert "no figures (not-measured): the window ended before both arms of k4 against off ran" in lines
    assert figures(lines) == []


def test_the_head_tells_boots_load_and_engine(window: type[Window], k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """How often and in which order servers were booted, what was put on them, and which engine ran."""
    lines = window.of(k4_off, k7_k4, speeds={}).lines()

    assert [line for line in lines[:4] if not line.startswith("host: ")] == [
        "boots: 6 in 2 rounds (off k4 k7 / k7 k4 off)",
        f"load: prose prompts of 16 tokens (repetitiveness 0.12), 11 output tokens, {REQUESTS}",
        "engine: vllm 0.32.0, torch 2.13, Python 3.12",
    ]


def test_an_engine_command_of_ones_own_is_shown_instead(window: type[Window], k4_off: ArmPair) -> None:
    """Figures of a fake are never taken for those of vLLM; two arms with one engine have one line."""
    one = window.of(k4_off, speeds={})
    engine = {name: {"command": "python -m fake", "version": "0.32.0"} for name in ("off", "k4")}
    lines = window(one.record.model_copy(update={"engine": engine}), (k4_off,)).lines()

    assert [line for line in lines if line.startswith("engine: ")] == ["engine: python -m fake"]


def test_two_engines_are_told_apart(window: type[Window], k4_off: ArmPair) -> None:
    """Where the engine varies, each build stands with the arms that ran on it."""
    one = window.of(k4_off, speeds={})
    build = one.record.engine["off"]
    engine = {"off": build, "k4": {**build, "version": "0.33.0"}}
    lines = window(one.record.model_copy(update={"engine": engine}), (k4_off,)).lines()

    assert [line for line in lines if line.startswith("engine: ")] == [
        "engine: vllm 0.32.0, torch 2.13, Python 3.12 (off)",
        "engine: vllm 0.33.0, torch 2.13, Python 3.12 (k4)",
    ]


def test_the_foot_tells_what_was_not_checked_and_where_the_record_is(window: type[Window], k4_off: ArmPair) -> None:
    """Every summary says that nothing was checked for accuracy, what else used the CPUs, and where everything is."""
    lines = window.of(k4_off, speeds={}).lines()

    assert lines[-2].endswith("; no accuracy check ran")
    assert lines[-1] == "record: results/record.json"
    assert "CPU used by other processes while measuring: 0.25 to 0.25 of 2 CPUs" in lines


def test_speculation_is_shown_for_speculative_arms(window: type[Window], k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """Acceptance by position of k4 and k7 at both points, once for each arm."""
    lines = window.of(k4_off, k7_k4, speeds={}).lines()
    start = next(place for place, line in enumerate(lines) if line.startswith("speculation, from counter deltas"))

    assert [line.split()[:2] for line in lines[start + 3 : start + 7]] == [
        ["k4", "c=1"], ["k4", "c=8"], ["k7", "c=1"], ["k7", "c=8"],
    ]  # fmt: skip


def test_a_failure_says_what_broke_and_what_to_run(window: type[Window], k4_off: ArmPair) -> None:
    """Sentence, identity, values, noise, claim, both servers' commands, the record and the way to run it again."""
    again = "pytest 'test_gate.py::test_0[c1-output_throughput-not_worse]'"
    lines = window.of(k4_off, speeds={"off": 0.5, "k4": [0.4, 0.42]}).gated(floor=0.2).failure(again)
    shared = "shared by 1 look and, for FAIL, 1 threshold of the gate"
    floor = "off with itself across rounds: 26 of 26, k4 with itself across rounds: 26 of 26"

    assert lines[0].startswith("FAIL: output throughput at c=1 worse -18.0 %, interval -")
    assert ", margin -5 %: " in lines[0]
    assert lines[1] == "    request profile: 44 of 44 fields identical"
    assert lines[2] == ("    off 50.00, k4 40.99 tokens/s (geometric means of 2 rounds; by round: -20.0 %, -16.0 %)")
    assert lines[3].startswith("    speed: tokens per step +150.0 % (1.000 -> 2.500), step time +")
    assert lines[4].startswith("    noise: sd of a round ")
    assert "A/A windows of a test" in lines[4]
    assert lines[5] == "    claim: output throughput at c=1 not worse by more than 5 %"
    assert lines[6].startswith("    with 2 rounds of this noise: smallest usable margin ")
    assert lines[7:] == [
        f"    interval: one-sided bounds, in all 5 % for PASS and 5 % for FAIL, {shared}",
        "    engine-induced differences: not known, since nothing was kept of the starts of both arms",
        f"    outputs: 52 of 52 answers equal between k4 and off ({floor}); no accuracy check ran",
        "    server of off: serve folder --port 8001",
        "    server of k4: serve folder --port 8000",
        "    record: results/record.json (judge it again, anywhere: specgate judge results/record.json)",
        f"    measure again (a new sample, not a correction): {again}",
    ]


def test_an_undecided_gate_asks_for_more_rounds(window: type[Window], k4_off: ArmPair) -> None:
    """INCONCLUSIVE names the option that would narrow the interval."""
    lines = window.of(k4_off, speeds={}).gated(floor=0.3).failure("pytest 'test_x.py::test_y[a b]'")

    assert lines[0].startswith("INCONCLUSIVE: output throughput at c=1 equal 0.0 %, interval ")
    assert lines[-2:] == [
        "    more than 20 rounds would be needed: change the margin, or make the machine quieter",
        "    measure again (a new sample, not a correction): pytest 'test_x.py::test_y[a b]'",
    ]


def test_an_undecided_gate_says_how_many_rounds_it_needs(window: type[Window], k4_off: ArmPair) -> None:
    """Where some more rounds would do, their number and the command to ask for them are named."""
    lines = window.of(k4_off, speeds={"k4": [0.97, 0.98]}).gated(floor=0.05).failure("pytest x")

    assert lines[0].startswith("INCONCLUSIVE: ")
    assert lines[-1] == "    a new run needs about 12 rounds: pytest x --specgate-rounds=12"


def test_a_gain_too_good_to_be_true_is_noted(window: type[Window], k4_off: ArmPair) -> None:
    """Case 91: a claim of "not worse" that finds twice the speed says so, next to whatever it decides."""
    note = "note: more than 10 % better on a claim of 'not worse': check that both arms did the same work"

    assert f"    {note}" in window.of(k4_off, speeds={"k4": 2.0}).gated().failure()


def test_an_invalid_gate_shows_reason_and_details_and_no_figures(window: type[Window], k4_off: ArmPair) -> None:
    """The reason code and the end of the server's log are told; neither values nor an interval are."""
    lines = window.of(k4_off, speeds={}).with_death("k4", 2, measured=1).gated().failure()

    assert lines == [
        "INVALID (server-died): arm k4: its server left",
        "    one",
        "    last words",
        "    outputs were not compared: no point of both arms can be judged; no accuracy check ran",
        "    server of off: serve folder --port 8001",
        "    server of k4: serve folder --port 8000",
        "    whole log of k4: beside the record, as server-*-k4.log",
        "    record: results/record.json (judge it again, anywhere: specgate judge results/record.json)",
        "    run again: pytest 'test_gate.py::test_0[c1-output_throughput-not_worse]'",
    ]


def test_an_invalid_gate_shows_the_fields_that_differ(window: type[Window], k4_off: ArmPair) -> None:
    """The failure text of a mismatch has field and values, as the summary has."""
    lines = window.of(k4_off, speeds={}).with_field("k4", 1, seed=3).gated().failure()

    assert lines[0] == "INVALID (profile-mismatch): request profile: 43 of 44 fields identical"
    assert lines[1:4] == ["    seed", "        off, round 1: 0", "        k4, round 1: 3"]


@pytest.mark.parametrize(("speed", "outcome"), [(0.5, "FAIL"), (1.0, "INCONCLUSIVE")])
def test_a_failure_names_what_differs_besides(
    window: type[Window], k4_off: ArmPair, *, speed: float, outcome: str
) -> None:
    """A reader of one failed threshold learns that the arms differ in more than was declared."""
    one = _scheduling_apart(window.of(k4_off, speeds={"k4": speed})).gated(floor=0.3 if speed == 1.0 else 0.01)
    lines = one.failure()

    assert lines[0].startswith(f"{outcome}: ")
    assert "    engine-induced differences: 1 (scheduler_config.async_scheduling)" in lines


def test_a_strict_pair_shows_its_evidence(window: type[Window], k4_off: ArmPair) -> None:
    """Both values and the line of the log stand in the failure and in the summary, where the figures would be."""
    one = _scheduling_apart(window.of(k4_off, speeds={})).gated()
    strict = dataclasses.replace(one, record=one.record.model_copy(update={"strict": True}))
    lines, summary = strict.failure(), strict.lines()

    assert lines[0].startswith(
        "INVALID (engine-differences): servers of k4 against off also differ in scheduler_config"
    )
    for shown in (lines, summary):
        assert any("scheduler_config.async_scheduling: true -> false (one arm schedules" in line for line in shown)
    assert any('log: "WARNING [vllm.py] Async scheduling is off"' in line for line in lines)
    assert "differences of the servers of k4 against off, by resolved configuration and start-up log" in summary
    assert figures([line for line in summary if "scheduler" not in line]) == []


def _scheduling_apart(one: Window) -> Window:
    """Return the window with starts that differ in asynchronous scheduling."""
    lines = {"ready": 1, "WARNING [vllm.py] Async scheduling is off": 1}
    starts = {
        "off": StartUpRecord(config={"scheduler_config.async_scheduling": True}, lines={"ready": 1}),
        "k4": StartUpRecord(config={"scheduler_config.async_scheduling": False}, lines=lines),
    }
    boots = [boot.model_copy(update={"startup": starts[boot.arm]}) for boot in one.record.boots]
    return dataclasses.replace(one, record=one.record.model_copy(update={"boots": tuple(boots)}))


def test_a_server_that_never_started_has_no_command_to_show(window: type[Window], k4_off: ArmPair) -> None:
    """Only commands that were run are shown."""
    one = window.of(k4_off, speeds={})
    for number in (1, 2):
        one = one.edited("k4", number, edit=lambda boot: boot.model_copy(update={"command": ""}))
    lines = one.with_death("k4", 1).with_death("k4", 2).gated().failure()

    assert [line.split(":")[0].strip() for line in lines if "server of" in line] == ["server of off"]


def test_outcomes_are_counted(window: type[Window], k4_off: ArmPair) -> None:
    """Every outcome that occurred, in words, with those that tests expected."""
    gated = window.of(k4_off, speeds={"k4": 0.5}).gated().gated("ttft_p50", margin=2.0)
    verdicts = [entry.verdicts[0] for entry in gated.judged()]
    verdicts[0].expect(Outcome.FAIL)

    assert outcome_line(verdicts, collected=3) == "2 of 3 thresholds judged: 1 PASS, 1 FAIL (1 of them expected)"
    assert outcome_line(verdicts[1:], collected=1) == "1 of 1 threshold judged: 1 PASS"


def test_counts_add_up_where_baselines_are_missing(window: type[Window], k4_off: ArmPair) -> None:
    """What rests on nothing is no part of what was judged, and stands behind it with its word."""
    passed = window.of(k4_off, speeds={}).gated().verdict()
    missing, off = (
        passed.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "reason": reason})
        for reason in (NO_BASELINE, BASELINES_OFF)
    )
    excused = missing.model_copy()
    excused.expect(Outcome.INCONCLUSIVE)

    assert outcome_line([passed, missing, missing], collected=4) == (
        "1 of 4 thresholds judged: 1 PASS; 2 without a baseline (INCONCLUSIVE)"
    )
    assert outcome_line([excused, off], collected=2) == (
        "0 of 2 thresholds judged; 1 without a baseline (INCONCLUSIVE, 1 expected); 1 with baselines off (INCONCLUSIVE)"
    )


def test_a_session_that_judged_nothing_says_so() -> None:
    """Thresholds that were collected and never judged are counted, so that nothing looks like success."""
    assert outcome_line((), collected=2) == "0 of 2 thresholds judged"


def test_what_cannot_be_judged_is_never_counted_as_expected(window: type[Window], k4_off: ArmPair) -> None:
    """A test that expects a FAIL and meets an INVALID did not get what it declared."""
    verdict = window.of(k4_off, speeds={}).with_death("k4", 1).gated().verdict()
    with pytest.raises(UnexpectedOutcomeError):
        verdict.expect(Outcome.FAIL)

    assert outcome_line([verdict], collected=1) == "1 of 1 threshold judged: 1 INVALID"


def test_text_of_a_server_neither_forges_lines_nor_steers_the_terminal(window: type[Window], k4_off: ArmPair) -> None:
    """Its control characters are shown as codes, a message stays one line, and details stay below theirs."""
    failure = Failure(reason="server-died", message="gone\n5 of 5 thresholds judged\x1b[2J", detail="a\rPASS\u202e")
    died = window.of(k4_off, speeds={}).with_death("k4", 2, measured=1)
    one = died.edited("k4", 2, edit=lambda boot: boot.model_copy(update={"failure": failure})).gated()

    lines = [*"\n".join(one.lines()).splitlines(), *"\n".join(one.failure()).splitlines()]
    assert [line for line in lines if not line.isprintable() or line.startswith(("5 of 5", "PASS"))] == []
    assert any(line.endswith(r"gone\n5 of 5 thresholds judged\x1b[2J") for line in lines)
    assert r"    PASS\u202e" in lines
