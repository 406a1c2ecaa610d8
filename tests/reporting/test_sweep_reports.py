"""What reports say of a sweep: arms that were never booted are not INVALID, and a plan promises none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.sweeps import ArmSweep, arm_sweep, stored_sweep
from pytest_specgate.reporting.layout import Detail, View
from pytest_specgate.reporting.markdown import markdown
from pytest_specgate.reporting.messages import window_lines
from pytest_specgate.reporting.page import html_page
from pytest_specgate.reporting.plan import PlannedWindow, plan_lines
from pytest_specgate.reporting.session_json import session_json
from pytest_specgate.reporting.session_report import ReportedWindow, SessionReport
from tests.reporting.conftest import PROFILE, arm
from tests.reporting.page_reading import read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

WHY = "k=3 is predicted to give at most 8 tokens/s"
SAID = f"not booted: {WHY}"


def _sweep(*ks: int, **changes: Any) -> ArmSweep:
    return arm_sweep(arm(), arm, ks=ks, profile=PROFILE, **changes)


@pytest.fixture(scope="module")
def swept(window: type[Window]) -> ReportedWindow:
    """A sweep of k=7, k=4 and k=3, the last of which was never booted, and k=4 in the first round alone."""
    sweep = _sweep(7, 4, 3)
    made = window.of(*sweep.pairs, speeds={"k7": 0.5, "k4": 2.0})
    boots = [one for one in made.record.boots if one.arm != "k3" and (one.arm, one.round) != ("k4", 2)]
    record = made.record.model_copy(
        update={"boots": tuple(boots), "ruled_out": {"k3": WHY, "k4": "said"}, "sweeps": (stored_sweep(sweep),)}
    )
    return ReportedWindow(record, "results/one/record.json", sweep.pairs, (), ())


def _lines(found: ReportedWindow, detail: Detail) -> list[str]:
    view = View(detail)
    return list(window_lines(found.record, pairs=found.pairs, judged=(), record_path=found.path, view=view))


@pytest.mark.parametrize("detail", [Detail.SHORT, Detail.NORMAL, Detail.LONG])
def test_the_terminal_says_why_an_arm_was_not_booted(swept: ReportedWindow, detail: Detail) -> None:
    """However much a reader wants to see; nothing is said to be without figures."""
    lines = _lines(swept, detail)

    assert lines[lines.index("k3 against off (args.speculative_config varies)") + 1] == SAID
    assert not [line for line in lines if line.startswith("no figures")]


def test_a_pair_that_was_dropped_later_has_its_figures(swept: ReportedWindow) -> None:
    """Those of its one round."""
    lines = "\n".join(_lines(swept, Detail.NORMAL))
    table = lines.partition("k4 against off")[2].partition("\n\n")[0]

    assert "better +100.0 %" in table
    assert "request profile: 46 of 46" not in lines.partition("k3 against off")[2].partition("\n\n")[0]


def test_markdown_and_page_say_the_same(swept: ReportedWindow) -> None:
    """As do the lists of what was compared there."""
    report = SessionReport((swept,))
    page = html_page(report)

    assert f"* k3 against off: {SAID}" in markdown(report).replace("&#61;", "=").replace("\\", "")
    assert page.count(SAID) >= 2
    assert f"k3 is {SAID}" in page
    assert "figures (not-booted)" not in page + markdown(report)
    assert "left out (not-booted)" not in page


def test_programs_read_why(swept: ReportedWindow) -> None:
    """By arm, and as the code of a pair without figures."""
    windows: Any = session_json(SessionReport((swept,)))["windows"]
    [found] = windows
    left_out = {one["pair"]: (one["valid"], one.get("reason"), one.get("message")) for one in found["pairs"]}

    assert found["ruled_out"] == {"k3": WHY, "k4": "said"}
    assert left_out["k3 against off"] == (False, "not-booted", WHY)
    assert left_out["k4 against off"] == (True, None, None)


def test_what_is_invalid_stays_so(swept: ReportedWindow, window: type[Window]) -> None:
    """An arm of the sweep that died has a pair without figures, whatever became of the others."""
    died = window(swept.record, swept.pairs).with_death("k7", 2).record
    found = ReportedWindow(died, swept.path, swept.pairs, (), ())
    lines = _lines(found, Detail.NORMAL)

    assert "no figures (server-died): arm k7: its server left" in lines
    assert SAID in lines


@pytest.fixture(scope="module")
def pinned(window: type[Window]) -> ReportedWindow:
    """A sweep in which k=4 has beaten off in everything."""
    floors = dict.fromkeys(("decode_rate_p50", "output_throughput", "ttft_p50"), NoiseFloor(0.05, "a test"))
    sweep = _sweep(7, 4, noise=floors)
    record = window.of(*sweep.pairs, speeds={"k7": 0.5, "k4": 2.0}).record
    swept = record.model_copy(update={"sweeps": (stored_sweep(sweep),)})
    return ReportedWindow(swept, "results/one two/record.json", sweep.pairs, (), ())


def test_a_sweep_ends_with_the_command_of_its_gate_file(pinned: ReportedWindow) -> None:
    """In the terminal, in Markdown and on the page, which holds the file itself, folded."""
    command = "specgate knee 'results/one two/record.json' --snippet test_k4.py"
    report = SessionReport((pinned,))
    shown = read(html_page(report))

    assert [line for line in _lines(pinned, Detail.NORMAL) if line.startswith("pin it")] == [f"pin it: {command}"]
    assert f"pin it: {command}" in _lines(pinned, Detail.LONG)
    assert f"* pin it: <code>{command}</code>" in markdown(report)
    (folded,) = [one for one in shown.named("details") if one.text.startswith("pin it: ")]
    assert command in folded.text
    assert "def test_k4" in folded.text


def test_who_has_not_beaten_off_is_pinned_nowhere(swept: ReportedWindow) -> None:
    """Nor is what no sweep has found."""
    report = SessionReport((swept,))

    assert "pin it" not in "\n".join([*_lines(swept, Detail.LONG), markdown(report), html_page(report)])


def _plan(
    *pairs: ArmPair, sweep: ArmSweep, droppable: frozenset[str], boot_s: Mapping[str, float] | None = None
) -> list[str]:
    planned = PlannedWindow((*pairs, *sweep.pairs), (), (), boot_s, (sweep,), droppable)
    return [line.strip() for line in plan_lines([planned])]


def test_a_plan_promises_the_scouts_alone() -> None:
    """Off and the longest horizon once at least; at most every round with those that may still win."""
    sweep = _sweep(7, 1, 2, 3, 4)
    lines = _plan(sweep=sweep, droppable=frozenset({"k7", "k1", "k2", "k3", "k4"}))

    assert "boots: 2 to 8 (6 arms, 1 to 2 rounds)" in lines
    assert (
        "sweep: off and k7 are booted first; then at most 2 of k1, k2, k3, k4, unless it is ruled out by what these "
        "show; whoever is beaten in everything boots no more"
    ) in lines
    assert lines[-1] == "in all: 1 window, at most 8 boots; nothing was started, and nothing judged"


def test_a_plan_counts_the_arms_that_others_want() -> None:
    """They are booted in every round, with off."""
    sweep = _sweep(7, 4)
    lines = _plan(sweep.pairs[1], sweep=sweep, droppable=frozenset({"k7"}))

    assert "boots: 5 to 6 (3 arms, 2 rounds)" in lines
    assert "sweep: off and k7 are booted first; then k4, unless it is ruled out" in "\n".join(lines)


def test_the_time_of_a_plan_is_that_of_the_slowest_who_may_come() -> None:
    """Two minutes at least, for the scouts; at most the longest boots of the others."""
    sweep = _sweep(7, 1, 2, 3, most=2)
    times = {"off": 60.0, "k7": 60.0, "k1": 600.0, "k2": 120.0, "k3": 300.0}
    lines = _plan(sweep=sweep, droppable=frozenset({"k7", "k1", "k2", "k3"}), boot_s=times)

    assert "time: 2 min to 34 min, by what boots took in an earlier window" in lines


def test_a_sweep_of_one_horizon_has_scouts_only() -> None:
    """Nothing is said of others."""
    lines = _plan(sweep=_sweep(4), droppable=frozenset({"k4"}))

    assert "sweep: off and k4 are booted first; whoever is beaten in everything boots no more" in lines
