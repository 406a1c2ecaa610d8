"""Baselines as text and JSON: how windows stand to those accepted before, what an update changes, and their course."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_specgate.core.baseline_update import plan_update
from pytest_specgate.core.baseline_values import View
from pytest_specgate.core.baselines import AcceptedWindow, BaselineEntry, BaselineFile, BaselineValues, file_name
from pytest_specgate.core.judge import judge
from pytest_specgate.core.profile import sha256_of
from pytest_specgate.reporting.baseline_json import baseline_json, update_json
from pytest_specgate.reporting.baseline_show import PLAIN_BLOCKS, history_lines, show_lines
from pytest_specgate.reporting.baselines import (
    baseline_evidence,
    baseline_lines,
    changes_text,
    closed_text,
    level_text,
    one_line,
    update_lines,
    written_text,
)
from tests.core.conftest import HOST_CLASS, Build

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.baseline_update import Update
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict

GATE: Final = "test_gate.py::test_gate"
ARMS: Final[dict[str, JsonValue]] = {"candidate": {"model": "tiny"}}
PATH: Final = f"baselines/h200x1/{file_name(GATE)}"
PAIR: Final = Build.pair(rounds=2)
CLAIMS: Final = (Build.claim(), Build.claim("ttft_p50", 8, mode="absolute"))


def day(number: int) -> str:
    """Return the id of the window of a day."""
    return f"2026-11-{number:02d}T12:00:00+00:00-fingerprint"


def accepted(number: int, **changes: Any) -> AcceptedWindow:
    """Return where the window of a day comes from."""
    fields = {
        "measured_at": day(number).removesuffix("-fingerprint"),
        "accepted_at": f"2026-11-{number:02d}T13:00:00+00:00",
        "reason": f"day {number}",
        "record_sha256": "0" * 64,
        "commit": "0123456789abcdef",
        "engine": {side: {"distribution": "vllm", "version": "0.32.0"} for side in ("reference", "candidate")},
    }
    return AcceptedWindow(**{**fields, **changes})


def file_of(
    *figures: float, metric: str = "output_throughput", reference: float | None = 100.0, rounds: int = 2, **where: Any
) -> BaselineFile:
    """Return a baseline of a window a day, whose candidates had these figures, and its references always one."""
    fixed = (reference,) * rounds if reference is not None else ()
    windows = [
        BaselineValues(window=day(number), reference=fixed, candidate=(figure,) * rounds)
        for number, figure in enumerate(figures, 1)
    ]
    entry = BaselineEntry(
        metric=metric,
        at=8,
        metric_definition_version=2,
        definition_sha256=sha256_of(ARMS),
        profile_sha256=sha256_of(ARMS),
        anchor=windows[0],
        windows=tuple(windows),
    )
    known = {day(number): accepted(number, **where) for number in range(1, len(figures) + 1)}
    return BaselineFile(host_class="h200x1", gate=GATE).with_entry(
        entry, windows=known, definition=ARMS, profile=ARMS
    )  # fmt: skip


def replaced(file: BaselineFile) -> BaselineFile:
    """Return a baseline of which only the last window is left, beside the anchor."""
    ((name, entry),) = file.entries.items()
    return file.model_copy(update={"entries": {name: entry.model_copy(update={"windows": entry.windows[-1:]})}})


def shown(file: BaselineFile, *, path: str = PATH) -> str:
    """Return what is shown of a baseline, with single blanks."""
    return "\n".join(re.sub(" +", " ", line) for line in "\n".join(show_lines(file, path=path)).splitlines())


def drawn(file: BaselineFile, **how: Any) -> list[str]:
    """Return the lines of a course, its windows only."""
    lines = list(history_lines(file, path=PATH, **{"blocks": PLAIN_BLOCKS, **how}))
    return [line for line in lines if line.startswith("2026-")]


def test_each_window_tells_where_it_comes_from() -> None:
    """Date, rounds, both figures, engine, commit and reason stand in one row."""
    text = shown(file_of(150.0, 153.0))

    assert f"{GATE} on h200x1\nfile: {PATH}\n" in text
    assert "c8-output_throughput: output throughput at c=8, candidate / reference; more is better" in text
    assert "2026-11-01 12:00 2 x 1.500 150.0 tokens/s first vllm 0.32.0 0123456789 - day 1" in text
    assert "2026-11-02 12:00 2 x 1.530 153.0 tokens/s better +2.0 % vllm 0.32.0 0123456789 - day 2" in text


def test_the_smallest_margin_is_that_of_the_formula() -> None:
    """Three windows with a standard deviation of 2 % decide (2.92 + 0.84) 0.02 sqrt(4/3) log units, which is 8.3 %."""
    text = shown(file_of(*(150 * math.exp(step) for step in (0.0, 0.02, -0.02))))

    assert "candidate / reference: mean x 1.500 of 3 windows; sd across windows 2 %; smallest margin" in text
    assert text.count("smallest margin that these can decide: 8.3 %") == 2


@pytest.mark.parametrize(("count", "words"), [(1, "1 window; how far"), (2, "2 windows; how far")])
def test_fewer_than_three_windows_tell_no_spread(count: int, words: str) -> None:
    """How many are missing stands there, and no figure does."""
    text = shown(file_of(*[150.0] * count))

    assert words in text
    assert f"is not known: {3 - count} more tell it" in text
    assert "smallest margin" not in text


@pytest.mark.parametrize(
    ("metric", "figures", "words"),
    [
        ("output_throughput", (100.0, 120.0), "better +20.0 %"),
        ("ttft_p50", (0.1, 0.12), "worse +20.0 %"),
        ("acceptance_rate", (0.6, 0.55), "worse -5.0 points"),
    ],
)
def test_case_142_words_follow_the_direction(metric: str, figures: Sequence[float], words: str) -> None:
    """Case 142: the sign is that of the change, the word that of the metric's direction; shares change by points."""
    file = file_of(*figures, metric=metric, reference=0.5)

    assert f"candidate / reference since the first window (2026-11-01): {words}" in shown(file).replace(" - ", " / ")
    assert words in drawn(file)[1]


def test_the_course_of_a_share_is_in_points() -> None:
    """A share of 0.5 against one of 0.6 is 10 points more, and its mean is one of differences."""
    text = shown(file_of(0.6, 0.6, 0.6, metric="acceptance_rate", reference=0.5))

    assert "candidate - reference: mean +10.0 points of 3 windows; sd across windows" in text
    assert "candidate: mean 60.00 % of 3 windows" in text


def test_a_metric_of_one_arm_has_its_level_only() -> None:
    """Where the reference has no such metric, nothing is divided by it."""
    text = shown(file_of(0.6, 0.5, metric="acceptance_rate", reference=None))

    assert "acceptance rate at c=8, candidate; more is better" in text
    assert "candidate since the first window (2026-11-01): worse -10.0 points (60.00 % -> 50.00 %)" in text
    assert "reference" not in text


def test_case_112_one_round_is_marked() -> None:
    """Case 112: a window of one round says so; one of two does not."""
    assert "0123456789 one round day 1" in shown(file_of(150.0, rounds=1))
    assert "one round" not in shown(file_of(150.0, rounds=2))


def test_regressions_and_replaced_windows_are_marked() -> None:
    """What was accepted although it was worse stays marked, and so does an anchor that nothing is compared with."""
    text = shown(replaced(file_of(150.0, 140.0, 130.0, regression=True)))

    assert "first vllm 0.32.0 0123456789 regression, replaced day 1" in text
    assert "worse -13.3 % vllm 0.32.0 0123456789 regression day 3" in text
    assert "day 2" not in text


def test_two_engines_are_named_in_their_order() -> None:
    """A pair of two installs shows the reference's first, in whatever order a file has them."""
    engine = {side: {"distribution": "vllm", "version": version} for side, version in
              (("candidate", "0.33.0"), ("reference", "0.32.0"))}  # fmt: skip

    assert "vllm 0.32.0 -> vllm 0.33.0" in shown(file_of(150.0, engine=engine))
    assert " first - 0123456789 " in shown(file_of(150.0, engine={"reference": {}, "candidate": {}}))


def test_a_share_that_is_equal_has_no_minus() -> None:
    """What is rounded to no points is no loss."""
    assert level_text(View("acceptance_rate", "relative", True), -0.0001) == "+0.0 points"  # noqa: FBT003


def test_a_figure_of_0_has_no_ratio_and_breaks_nothing() -> None:
    """A file that was edited by hand is shown as far as it goes."""
    file = file_of(150.0, 0.0, 150.0)

    assert "2026-11-02 12:00 2 - - - vllm" in shown(file)
    assert "how far windows lie apart is not known: a figure is 0" in shown(file)
    assert len(drawn(file)) == 3
    assert json.dumps(baseline_json(file, path=PATH), allow_nan=False)


def test_a_file_at_another_place_is_not_judged_by() -> None:
    """A copy under another class of machine, or another name, says that nobody looks there."""
    file = file_of(150.0)

    assert "note:" not in shown(file)
    assert f"note: no gate is judged by this file here: it would have to be h200x1/{file_name(GATE)}" in shown(
        file, path="baselines/other/file.json"
    )


def test_texts_of_files_cannot_steer_a_terminal() -> None:
    """Escape sequences, line ends and marks that turn the direction of writing are shown as what they are."""
    text = shown(file_of(150.0, reason="a\x1b[31m\nb\u202e"))

    assert r"a\x1b[31m\nb\u202e" in text
    assert one_line("plain ü [k4]") == "plain ü [k4]"


def test_case_110_small_losses_add_up_since_the_first() -> None:
    """Case 110: ten steps of 4 % each are +48 % since the first window, in words and in the plot."""
    file = file_of(*(0.1 * 1.04**step for step in range(11)), metric="ttft_p50", reference=0.1)
    lines = drawn(file)

    assert "candidate / reference since the first window (2026-11-01): worse +48.0 % (x 1.000 -> x 1.480)" in shown(
        file
    )
    assert [line.count("#") for line in lines] == list(range(0, 44, 4))
    assert all(line.endswith("|") for line in lines)
    assert len({len(line) for line in lines}) == 1


def test_gains_are_drawn_to_the_right_of_the_first_window() -> None:
    """Better lies right of the line and worse left of it, whichever direction is better for the metric."""
    first, better, worse = drawn(file_of(0.1, 0.09, 0.11, metric="ttft_p50"))

    assert first.endswith(" |")
    assert re.search(r" \|#+$", better)
    assert re.search(r" #+\|$", worse)
    assert {line.index("|") for line in (first, better, worse)} == {first.index("|")}


def test_the_course_of_the_candidate_alone() -> None:
    """Claims about its level are about this one, in the unit of the metric."""
    lines = drawn(file_of(0.1, 0.11, metric="ttft_p50"), mode="absolute")

    assert "110.0 ms  worse +10.0 %" in lines[1]


def test_windows_that_agree_have_no_plot_but_their_line() -> None:
    """Nothing is scaled by a range of nothing, and no scale is told."""
    lines = list(history_lines(file_of(150.0), path=PATH, blocks=PLAIN_BLOCKS))

    assert drawn(file_of(150.0, 150.0))[1].endswith("equal 0.0 %  |")
    assert not any("= 0" in line for line in lines)
    assert lines[-1].endswith("since the first window (2026-11-01): it is the latest")


def test_keys_of_figures_end_with_their_units() -> None:
    """Seconds, shares, fractions and log units are told apart by name; what is not known is null, never 0."""
    (entry,) = _entries(file_of(0.1, 0.11, metric="ttft_p50", reference=0.2))
    (share,) = _entries(file_of(0.6, 0.5, metric="acceptance_rate", reference=0.5))

    assert entry["windows"][1]["candidate_ttft_p50_s"] == pytest.approx(0.11)
    assert entry["windows"][1]["change_since_first_fraction"] == pytest.approx(0.1)
    assert entry["relative"]["mean_ratio"] == pytest.approx(math.sqrt(0.5 * 0.55))
    assert entry["relative"]["sd_log"] is None
    assert share["windows"][1]["difference_share"] == pytest.approx(0.0)
    assert share["absolute"]["change_since_first_share"] == pytest.approx(-0.1)


def _entries(file: BaselineFile) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(baseline_json(file, path=PATH)))["entries"]
    return found


def window(number: int, speed: float) -> WindowRecord:
    """Return a window of a day whose candidate ran at some speed."""
    return Build.day(PAIR, number, [1.0, 1.0], [speed, speed])


def update(number: int, speed: float, *before: WindowRecord, mode: Any = "append") -> Update:
    """Return what a window changes in the baseline that holds some others."""
    gate = Build.gate(PAIR, *CLAIMS)
    file = Build.accepted(gate, *before) if before else None
    return plan_update(gate, window(number, speed), file, how=Build.accepting(mode))


def rows(made: Update) -> list[str]:
    """Return the lines of an update, with single blanks."""
    return [re.sub(" +", " ", line) for line in "\n".join(update_lines(made)).splitlines()]


def test_what_is_new_has_no_change() -> None:
    """An entry that is created has its figure of today, and nothing to compare it with."""
    made = update(1, 1.5)

    assert rows(made)[0] == f"baseline of {GATE} on {HOST_CLASS}"
    assert rows(made)[3:] == [
        "c1-output_throughput created 0 -> 1 - x 1.500 - - - -",
        "c8-ttft_p50 created 0 -> 1 - 66.67 ms - - - -",
    ]


def test_what_is_added_is_compared_with_what_is_there() -> None:
    """Mean, today, and the changes since the mean, the last and the first window, with the verdict it would have."""
    made = update(3, 1.5, window(1, 1.5), window(2, 1.515))

    assert rows(made)[3] == (
        "c1-output_throughput appended 2 -> 3 x 1.507 x 1.500 worse -0.5 % worse -1.0 % equal 0.0 % INCONCLUSIVE"
    )


def test_a_regression_is_told_below_the_table() -> None:
    """Each sentence names the entry and the change; the plain words of what is written do not."""
    made = update(2, 1.3, window(1, 1.5))

    assert [line for line in rows(made) if line.startswith("regression: c1-output_throughput")]
    assert changes_text(made) == "c1-output_throughput appended, c8-ttft_p50 appended"
    assert (
        written_text(made, path="a b.json")
        == f"{changes_text(made)}: a b.json (next: git add 'a b.json' && git diff --cached)"
    )


def test_what_stays_says_so_and_is_not_written() -> None:
    """`new` leaves entries as they are."""
    made = update(2, 1.3, window(1, 1.5), mode="new")

    assert rows(made)[3] == "c1-output_throughput kept 1 - - - - - -"
    assert changes_text(made) == ""


def test_json_of_an_update_has_changes_as_fractions() -> None:
    """An entry that is new has no change, which is null."""
    first = _update_entry(update(1, 1.5))
    second = _update_entry(update(2, 1.35, window(1, 1.5)))

    assert (first["what"], first["change_fraction"], first["windows_before"]) == ("created", None, 0)
    assert second["change_since_first_fraction"] == pytest.approx(-0.1)
    assert second["regression"]


def _update_entry(made: Update) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(update_json(made, path=PATH)))["entries"][0]
    return found


def verdicts(speed: float, *before: WindowRecord) -> tuple[Verdict, ...]:
    """Return the verdicts of a window against the baseline that holds some others."""
    gate = Build.gate(PAIR, *CLAIMS)
    file = Build.accepted(gate, *before) if before else None
    return judge(gate, Build.against(gate, window(9, speed), file))


def test_the_summary_has_a_line_for_each_claim_about_a_baseline() -> None:
    """Relative claims show ratios, absolute ones the level; other kinds of claims are not in this table."""
    before = (window(1, 1.5), window(2, 1.515), window(3, 1.485))
    lines = [re.sub(" +", " ", line) for line in "\n".join(baseline_lines(verdicts(1.5, *before))).splitlines()]

    assert lines[0].startswith("against the baseline (relative: candidate / reference")
    assert lines[3].startswith(" c=1 output throughput x 1.500 x 1.500 3 equal 0.0 % ")
    assert lines[4].startswith(" c=8 TTFT p50 66.67 ms 66.67 ms 3 equal 0.0 % ")
    assert list(baseline_lines([])) == []


def test_claims_of_two_gates_about_a_baseline_are_told_apart() -> None:
    """Where several gates judge the pair, each outcome stands with its gate; a narrow terminal leaves columns out."""
    before = [window(number, 1.5) for number in range(1, 4)]
    own = verdicts(1.5, *before)
    lines = "\n".join(baseline_lines(own, names={own[0].gate: "test_k4"}, columns=90)).splitlines()

    assert lines[3].endswith(f"{own[0].outcome} test_k4")
    assert lines[-1].startswith("(not shown in 90 columns: since first, since last")
    assert max(map(len, lines[1:-1])) <= 90


def test_evidence_names_the_windows_and_the_margin_they_can_decide() -> None:
    """Whoever reads a failure sees the series, both changes, and what would help."""
    gate, before = Build.gate(PAIR, *CLAIMS), (window(1, 1.5), window(2, 1.515), window(3, 1.485))
    text = "\n".join(baseline_evidence(verdicts(1.2, *before)[0], gate))

    assert (
        "k4 / off: x 1.200 today, x 1.500 in its baseline (by window, oldest first: x 1.500, x 1.515, x 1.485)" in text
    )
    assert "since the first one (2026-11-01): worse -20.0 %" in text
    assert "the smallest usable margin is 4.3 %" in text
    assert "baseline: baselines/file.json" in text


def test_a_claim_without_a_baseline_says_how_to_write_one() -> None:
    """Case 106: it is no regression and no pass; the command stands there."""
    verdict = verdicts(1.5)[0]
    text = closed_text(verdict, again="pytest test_gate.py")
    row = " ".join("\n".join(baseline_lines([verdict])).splitlines()[3].split())

    assert text.startswith("INCONCLUSIVE: ")
    assert "pytest test_gate.py --specgate-baseline=new" in text
    assert row == "c=1 output throughput - - - - - - - INCONCLUSIVE (no-baseline)"
    assert list(baseline_evidence(verdict, Build.gate(PAIR, *CLAIMS))) == [f"claim: {verdict.claim}"]


def test_a_figure_beyond_all_measure_is_drawn() -> None:
    """A change that no sum can hold takes the whole width, and is no error."""
    lines = drawn(file_of(150.0, 1e308, 1.0, reference=1e-3))

    assert [line.count("#") for line in lines] == [0, 40, 0]
