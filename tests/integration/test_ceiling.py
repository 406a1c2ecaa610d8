"""`specgate ceiling`: how fast one stream can be, from figures that are given and from records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.adapters.storage import FileStore
from pytest_specgate.cli import main
from pytest_specgate.core.speculation import SpeculationDelta
from tests.core.conftest import Build

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_specgate.core.records import PointRecord, WindowRecord

GIVEN = ("--step-time", "23.38ms", "--tokens-per-step", "2.6498", "--k", "4")
NOT_SAID = (
    "note: step time rises with k and with load, so this is the ceiling of this k at this load and of no other",
    "note: it is the speed of one stream while it decodes, and neither throughput nor the time to the first token",
)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Run the command; return its exit status and its lines with single spaces."""
    status = main(["ceiling", *arguments])
    return status, [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the command with ``--json``."""
    status = main(["ceiling", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the command, which must end with 2 and one sentence; return that."""
    status = main(["ceiling", *arguments])
    shown = capsys.readouterr()

    assert (status, shown.out, shown.err.count("\n")) == (2, "", 1)
    return shown.err.removeprefix("specgate: ").rstrip("\n")


def broken(record: WindowRecord, *levels: int) -> WindowRecord:
    """Return the window with a failed request at some levels of the candidate's first boot."""

    def fail(point: PointRecord) -> PointRecord:
        return point.model_copy(update={"requests": (Build.failed(), *point.requests[1:])})

    for at in levels:
        record = Build.edited_point(record, arm="k4", at=at, edit=fail)
    return record


def window() -> WindowRecord:
    """Return a window whose candidate decodes 2.5 tokens in steps of 250 ms, and of 125 ms in its second boot."""
    return Build.window(Build.pair(rounds=2), [1.0, 1.0], [1.0, 2.0])


def seldom() -> WindowRecord:
    """Return a window whose candidate drafts in 20 of 70 steps at c=1, with 2.5 tokens in each of these."""
    counted = SpeculationDelta(20, 80, 30, (20, 10, 0, 0))
    point = Build.point([Build.request(index) for index in range(10)], speculation=counted)
    return Build.edited_point(Build.window(Build.pair(rounds=1), [1.0], [1.0]), arm="k4", edit=lambda _: point)


def written(folder: Path, record: WindowRecord) -> str:
    """Write a record, and return the path of its folder."""
    FileStore(folder / "window").save(record)
    return str(folder / "window")


def test_the_published_ceiling_is_told_to_every_digit(capsys: pytest.CaptureFixture[str]) -> None:
    """The figures that this project began with give 113.3 and 213.9 tokens/s, and what they do not say."""
    status, lines = told(capsys, *GIVEN)

    assert status == 0
    assert lines == [
        "speed now 113.3 tokens/s: 2.6498 tokens in a step of 23.38 ms",
        "ceiling of k=4 213.9 tokens/s: 5 tokens in every step (perfect acceptance)",
        "share of it 53.0 %",
        *NOT_SAID,
    ]


@pytest.mark.parametrize("target", ["200", "200 tok/s", "200 tokens/s", "200tokens/s", " 200.0 "])
def test_the_published_target_needs_4_68_tokens_a_step(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What 200 tokens/s need, by acceptance, by step time and by the horizon."""
    status, lines = told(capsys, *GIVEN, "--target", target)

    assert status == 0
    assert lines[3:7] == [
        "target 200 tokens/s needs 4.68 tokens per step at this step time (5 are possible):",
        "91.9 % of all draft tokens accepted, or 0.966 at each position given those before",
        "or a step time of 13.25 ms at this acceptance",
        "perfect acceptance at k=4 would do",
    ]


def test_a_target_out_of_reach_is_information_and_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """Above the ceiling it is said by how much, and that a faster step or a longer horizon are left."""
    status, lines = told(capsys, *GIVEN, "--target", "250")

    assert status == 0
    assert lines[3:7] == [
        "target 250 tokens/s is out of reach of any acceptance, by 17 %:",
        "it needs 5.84 tokens per step at this step time, and 5 are possible",
        "left is a faster step: a step time of 10.60 ms at this acceptance, of 20.00 ms at perfect acceptance",
        "or a longer horizon: perfect acceptance at k=5 would do, were the step time the same",
    ]
    assert lines[7:] == list(NOT_SAID)


def test_a_target_that_is_reached_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """100 tokens/s are fewer than there are, and 30 need no draft at all."""
    _, lines = told(capsys, *GIVEN, "--target", "100")
    _, slow = told(capsys, *GIVEN, "--target", "30")

    assert lines[3].startswith("target 100 tokens/s is reached now; it needs 2.34 tokens per step")
    assert slow[4] == "without any draft token accepted"
    assert slow[6] == "no speculation at this step time would do"
    assert not any("k=1" in line for line in slow)


def test_nothing_short_of_the_ceiling_is_called_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """4.9999 of 5 tokens are 99.9 % of the ceiling, and 5 are 100 %."""
    near = told(capsys, "--step-time", "20ms", "--tokens-per-step", "4.9999", "--k", "4")[1]
    whole = told(capsys, "--step-time", "20ms", "--tokens-per-step", "5", "--k", "4")[1]

    assert (near[2], whole[2]) == ("share of it 99.9 %", "share of it 100.0 %")


def test_given_figures_as_json_have_units_and_the_shape_of_records(capsys: pytest.CaptureFixture[str]) -> None:
    """One object with a list of one, whose figures carry their units, and what they do not say."""
    status, found = as_json(capsys, *GIVEN, "--target", "200 tokens/s")
    (one,) = found["ceilings"]

    assert (status, found["valid"], found["reason"], found["record"], found["identity"]) == (0, True, None, None, [])
    assert [f"note: {note}" for note in found["notes"]] == list(NOT_SAID)
    assert (one["arm"], one["at"], one["valid"], one["drafted_share"]) == (None, None, True, None)
    assert one["ceiling"]["step_time_s"] == pytest.approx(0.02338)
    assert one["ceiling"]["ceiling_tokens_per_s"] == pytest.approx(213.858, abs=5e-4)
    assert one["ceiling"]["target"]["tokens_per_step"] == pytest.approx(4.676)


def test_a_record_tells_each_arm_that_speculates_at_each_level(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Identity comes first; figures are pooled over boots, and the arm without drafts is not among them."""
    path = written(tmp_path, window())
    status, lines = told(capsys, path, "--target", "20")

    assert status == 0
    assert lines[0] == f"record: {path}/record.json"
    assert lines[1].startswith("k4, 2 boots: request profile: ")
    assert lines[1].endswith(" fields identical")
    assert [line for line in lines if line.startswith(("k4 ", "off "))] == [
        "k4 c=1 4 2 187.5 2.5000 13.33 26.67 50.0 %",
        "k4 c=8 4 2 187.5 2.5000 13.33 26.67 50.0 %",
        "k4 c=1 no 3.75 of 5 3.750 (2.500) 68.8 % 0.856 125.0 k=3",
        "k4 c=8 no 3.75 of 5 3.750 (2.500) 68.8 % 0.856 125.0 k=3",
    ]
    assert lines[-2:] == list(NOT_SAID)
    assert "steps with a draft" not in " ".join(lines), "all of them had one"


@pytest.mark.parametrize("level", ["8", "c=8", "c8", " 8 "])
def test_arms_and_levels_can_be_chosen(level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A level is named as gate files, reports or ids name it, and each row is told once."""
    status, found = as_json(capsys, written(tmp_path, window()), "--arm", "k4", "--arm", "k4", "--at", level)
    (one,) = found["ceilings"]

    assert (status, one["arm"], one["at"]) == (0, "k4", 8)
    assert one["step_times_s"] == pytest.approx([0.25, 0.125])
    assert one["tokens_per_steps"] == pytest.approx([2.5, 2.5])
    assert one["ceiling"]["speed_tokens_per_s"] == pytest.approx(40 / 3)
    assert "target" in one["ceiling"]
    assert one["ceiling"]["target"] is None


def test_a_record_whose_target_is_out_of_reach(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row says by how much, and a line below the table what is left."""
    status, lines = told(capsys, written(tmp_path, window()), "--at", "1", "--target", "40")

    assert status == 0
    assert "k4 c=1 no 7.50 of 5 - (2.500) out of reach by 50 % - 62.50 k=7" in lines
    assert "out of reach of any acceptance: what is left is a longer horizon, or a faster step" in lines


def test_steps_without_a_draft_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A drafter that proposes seldom has fewer tokens per step for that reason, which a ceiling does not know."""
    status, lines = told(capsys, written(tmp_path, seldom()))

    assert status == 0
    assert "k4 c=1 4 1 142.9 1.4286 28.6 % 10.00 35.00 28.6 %" in lines
    assert "k4 c=8 4 1 250.0 2.5000 100.0 % 10.00 20.00 50.0 %" in lines
    assert lines[-3].startswith("note: steps without a draft give one token and count in tokens per step")


def test_a_target_asks_for_acceptance_in_the_steps_that_draft(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """11 tokens/s are 1.57 tokens a step: 67 % of draft tokens where a step has some, and not 14 % of all."""
    path = written(tmp_path, seldom())
    lines = told(capsys, path, "--at", "1", "--target", "11")[1]
    (one,) = as_json(capsys, path, "--at", "1", "--target", "11")[1]["ceilings"]
    needs = one["ceiling"]["target"]

    # Half of the tokens come from drafting steps: (1 - 1 / 1.4286) / (1 - 1 / 2.5).
    assert (one["acceptance_length"], one["drafted_token_share"]) == pytest.approx((2.5, 0.5))
    assert needs["acceptance_length"] == pytest.approx(0.5 / (7 / 11 - 0.5))
    assert "k4 c=1 no 1.57 of 1.67 3.667 (2.500) 66.7 % 0.844 129.9 k=3" in lines
    assert any(line.startswith("note: what a target needs of acceptance is told for the steps that") for line in lines)


def test_perfect_drafts_where_it_drafts_may_not_reach_a_target(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """12 tokens/s are far below the ceiling of 35, and above the 11.7 that perfect acceptance of these drafts gives."""
    path = written(tmp_path, seldom())
    near, far = (told(capsys, path, "--at", "1", "--target", target)[1] for target in ("12", "15"))

    assert "k4 c=1 no 1.71 of 1.67 - (2.500) out of reach by 2.9 % - 119.0 k=5" in near
    assert "k4 c=1 no 2.14 of 1.67 - (2.500) out of reach by 29 % - 95.24 none" in far
    assert (
        "out of reach of any acceptance where it drafts now: what is left is a drafter that proposes more often, "
        "a longer horizon where one is named, or a faster step"
    ) in near


def test_a_target_that_a_record_reaches_now_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """13 tokens/s are fewer than 13.3, and for 5 no speculation is needed at this step time."""
    path = written(tmp_path, window())
    reached, slow = (told(capsys, path, "--at", "1", "--target", target)[1] for target in ("13", "5"))

    assert "k4 c=1 yes 2.44 of 5 2.438 (2.500) 35.9 % 0.631 192.3 k=2" in reached
    assert "k4 c=1 yes 0.94 of 5 1.000 (2.500) 0.0 % 0.000 500.0 off" in slow


def test_a_level_that_cannot_be_judged_shows_its_reason_and_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are shown, so the exit status is 0."""
    path = written(tmp_path, broken(window(), 8))
    status, lines = told(capsys, path)
    again, found = as_json(capsys, path)

    assert (status, again, found["valid"]) == (0, 0, True)
    assert any(line.startswith("k4 c=1 ") for line in lines)
    assert not any(line.startswith("k4 c=8 ") for line in lines)
    assert (
        "INVALID (failed-requests): k4 at c=8: 1 of 16 requests failed, the first with: HTTP 500: engine died" in lines
    )
    assert [(one["at"], one["valid"], one["reason"], one["ceiling"] is None) for one in found["ceilings"]] == [
        (1, True, None, False),
        (8, False, "failed-requests", True),
    ]


def test_a_window_that_was_cut_off_says_so_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its figures are shown all the same; what has run to its end says nothing, and what was given tells neither."""
    why = "the time budget was used up after 1 of 2 rounds"
    path = written(tmp_path, window().model_copy(update={"finished": False, "stopped": why}))
    died = written(tmp_path / "died", window().model_copy(update={"finished": False}))
    status, lines = told(capsys, path)
    _, found = as_json(capsys, path)
    _, whole = as_json(capsys, written(tmp_path / "whole", window()))
    _, given = as_json(capsys, *GIVEN)

    assert status == 0
    assert lines[0] == f"the window was stopped before its last round: {why}"
    assert lines[1].startswith("record: ")
    assert told(capsys, died)[1][0] == "the window did not run to its end"
    assert (found["finished"], found["stopped"], found["valid"]) == (False, why, True)
    assert (whole["finished"], whole["stopped"]) == (True, "")
    assert (given["finished"], given["stopped"]) == (None, None)


def test_a_record_without_a_figure_that_may_be_read_ends_with_4(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What keeps an arm from all figures is said once, and nothing is explained that is not shown."""
    record = window()
    boots = tuple(
        boot.model_copy(update={"profile": {**boot.profile, "temperature": 0.1 * boot.round}}) for boot in record.boots
    )
    path = written(tmp_path, record.model_copy(update={"boots": boots}))
    status, lines = told(capsys, path, "--target", "20")
    again, found = as_json(capsys, path)

    assert (status, again) == (4, 4)
    assert len(lines) == 3
    assert lines[2].startswith("INVALID (profile-mismatch): k4 at c=1, c=8: boots of arm k4 were put under other loads")
    assert (found["valid"], found["reason"], found["notes"]) == (False, "profile-mismatch", [])
    assert [one["ceiling"] for one in found["ceilings"]] == [None, None]


def test_an_attached_server_leaves_something_unproved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody could prove stands with the figures."""
    record = Build.edited(
        Build.window(Build.pair(rounds=1), [1.0], [1.0]),
        arm="k4",
        edit=lambda boot: boot.model_copy(update={"unproved": ("its engine arguments",)}),
    )
    _, lines = told(capsys, written(tmp_path, record))

    assert "note: k4 was attached, so this is not proved: its engine arguments" in lines


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "nothing tells how fast a stream is: name a window record, or --step-time, --tokens-per-step and --k"),
        (["--target", "200"], "nothing tells how fast a stream is"),
        (
            ["--k", "4"],
            "--k alone tells no speed: add --step-time and --tokens-per-step, or name a window record instead",
        ),
        (GIVEN[:4], "--step-time and --tokens-per-step alone tell no speed: add --k, or name a window record instead"),
        ([*GIVEN, "--arm", "k4"], "a record is missing for --arm to choose from: name one"),
        (["--arm", "k4", "--at", "1"], "a record is missing for --arm and --at to choose from: name one"),
        ([*GIVEN, "nowhere"], "a record tells --step-time, --tokens-per-step and --k itself: give one or the other"),
        (["nowhere"], "nowhere cannot be read: "),
        (
            [*GIVEN[:1], "23.38", *GIVEN[2:]],
            "--step-time='23.38' is no duration: write a positive number with its unit",
        ),
        (
            [*GIVEN[:3], "many", *GIVEN[4:]],
            "argument --tokens-per-step: 'many' is no number: write tokens per step as 2.65",
        ),
        ([*GIVEN[:3], "2,6", *GIVEN[4:]], "argument --tokens-per-step: '2,6' is no number: write tokens per step as"),
        ([*GIVEN[:3], "nan", *GIVEN[4:]], "--tokens-per-step nan: a step of k=4 gives between 1 and 5 tokens, and not"),
        ([*GIVEN[:5], "2000"], "--k 2000: k=2000 is no draft horizon: write 1 to 1000"),
        (
            [*GIVEN[:3], "5.5", *GIVEN[4:]],
            "--tokens-per-step 5.5: a step of k=4 gives between 1 and 5 tokens, and not 5.5",
        ),
        ([*GIVEN[:5], "0"], "argument --k: '0' is no draft horizon: write 1 or more"),
        ([*GIVEN[:5], "9" * 5000], "is no draft horizon: write 1 or more"),
        ([*GIVEN, "--target", "200ms"], "--target='200ms' is no speed: write tokens per second, as '200 tokens/s'"),
        (
            [*GIVEN, "--target", "0"],
            "--target 0: a target of 0 tokens/s is none: write a speed above 0, as '200 tokens/s'",
        ),
        (["nowhere", "--target", "0"], "--target 0: a target of 0 tokens/s is none"),
    ],
)
def test_wrong_usage_names_what_is_missing_or_too_much(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, no figure, exit status 2."""
    assert sentence in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--arm", "off"], "--arm off: off does not speculate, so it has no ceiling of drafts: name k4"),
        (["--arm", "k5"], "--arm k5: k5 is no arm of the record: name k4"),
        (["--at", "2"], "--at 2: the window has no such load level; it has 1, 8"),
    ],
)
def test_what_a_record_does_not_hold_is_named(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence says what there is instead."""
    assert refused(capsys, written(tmp_path, window()), *arguments) == sentence


def test_a_record_without_speculation_has_no_ceiling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing drafts there, so the question does not fit the record."""
    record = window()
    alone = record.model_copy(update={"arms": record.arms[:1], "pairs": (), "boots": record.boots_of("off")})

    assert refused(capsys, written(tmp_path, alone)) == (
        "no arm of the record speculates, so none has a ceiling of drafts"
    )
