"""Advice on draft horizons in Markdown: as much as the terminal says, in the cells of a table."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core.sweeps import arm_sweep, stored_sweep
from pytest_specgate.reporting.knee_markdown import knee_table
from pytest_specgate.reporting.knee_words import advice_head
from pytest_specgate.reporting.layout import Detail, View
from pytest_specgate.reporting.markup import prose
from pytest_specgate.reporting.page_figures import Figures
from pytest_specgate.reporting.page_knee import knee_view
from pytest_specgate.reporting.window_knee import knee_section, window_knee
from tests.reporting.conftest import arm
from tests.reporting.page_runs import PATH, load, paced, reported, three_arms

if TYPE_CHECKING:
    from tests.reporting.conftest import Window


def _undecided() -> Window:
    """Return a window in which nothing is faster than anything by more than the noise."""
    return paced(three_arms(rounds=2), {}, jitter=0.2)


def test_a_cell_says_all_that_the_terminal_says_of_an_advice() -> None:
    """Which of several has the best mean, and that none was ruled out: without that a range reads as a finding."""
    record = _undecided().record
    knee = window_knee(record, PATH)
    assert not isinstance(knee, str)
    assert knee is not None
    rows = [line.split(" | ") for line in knee_table(record, PATH).splitlines() if line.startswith("| ")][2:]
    heads = [advice_head(one).partition("): ")[2] for one in knee.advice["ngram"]]

    assert [cells[1].replace("**", "") for cells in rows] == [prose(head) for head in heads]
    assert rows[0][1] == "**off or k=4 or 7** (the best mean has off); no horizon is ruled out"


def test_what_rules_the_pinned_horizon_out_stands_beside_its_command() -> None:
    """In the terminal, in Markdown and on the page alike."""
    window = three_arms()
    sweep = arm_sweep(arm(), arm, ks=(4, 7), profile=load(dict(window.record.profile.requests)))
    record = window.record.model_copy(update={"sweeps": (stored_sweep(sweep),)})
    note = "the pinned k=7 is ruled out for batch throughput at c=32 by off and k=4, and for latency at c=32 by "
    view = knee_view(Figures(reported(dataclasses.replace(window, record=record))), name="w")
    assert view is not None
    (pin,) = view.pins
    terminal = list(knee_section(record, PATH, view=View(Detail.NORMAL)))

    assert pin.command.endswith("--snippet test_k7.py")
    assert [line.startswith(note) for line in pin.notes] == [True]
    assert terminal[-2:] == [f"pin it: {pin.command}", *pin.notes]
    assert knee_table(record, PATH).splitlines()[-2:] == [f"* {prose(pin.notes[0])}", ""]
