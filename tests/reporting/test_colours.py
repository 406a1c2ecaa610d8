"""Colour stands at outcomes and headings, and nowhere else; the text stays what it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.reporting.colours import OF_OUTCOME, coloured
from pytest_specgate.reporting.layout import Detail, View
from pytest_specgate.reporting.messages import window_lines

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

HEADINGS = {
    "k4 against off (args.speculative_config varies)",
    "differences of the servers of k4 against off, by resolved configuration and start-up log",
    "k4 against off, by round",
    "speculation, from counter deltas of each point, all rounds pooled",
    "load and client, mean over boots",
    "boots in their order",
}


def test_outcomes_have_their_colours() -> None:
    """PASS is green, FAIL red, INCONCLUSIVE yellow, and INVALID stands out most."""
    found = {word: dict(markup) for word, markup in coloured("PASS FAIL INCONCLUSIVE INVALID") if markup}

    assert found == {
        "PASS": {"green": True},
        "FAIL": {"red": True},
        "INCONCLUSIVE": {"yellow": True},
        "INVALID": {"red": True, "bold": True},
    }


def test_a_change_has_no_colour() -> None:
    """A figure that nobody judged is no news, good or bad; parts of other words are no outcomes."""
    line = "   c=1  TTFT p50 [ms]  83.83  85.53  worse +2.0 %  -  PASSWORD FAILED better"

    assert list(coloured(line)) == [(line, {})]


def test_an_outcome_in_a_table_is_coloured_alone() -> None:
    """The cells around it keep their places."""
    pieces = list(coloured("x  FAIL (at most 1 ms) test_k7"))

    assert pieces == [("x  ", {}), ("FAIL", OF_OUTCOME["FAIL"]), (" (at most 1 ms) test_k7", {})]


def test_headings_are_bold(window: type[Window], k4_off: ArmPair) -> None:
    """Every heading of a long report is, and nothing besides."""
    gated = window.of(k4_off, speeds={"k4": 1.2}).gated()
    lines = window_lines(
        gated.record, pairs=gated.pairs, judged=gated.judged(), record_path="record.json", view=View(Detail.LONG)
    )
    bold = {
        line
        for line in "\n".join(lines).splitlines()
        if [dict(markup) for _, markup in coloured(line)] == [{"bold": True}]
    }

    assert bold == HEADINGS - {line for line in HEADINGS if line.startswith("differences")}


@pytest.mark.parametrize("line", ["not PASS", "against the baseline (relative: candidate / reference)"])
def test_other_headings_are_bold(line: str) -> None:
    """So are those that not every report has."""
    assert list(coloured(line)) == [(line, {"bold": True})]


@given(line=st.text() | st.text(alphabet="PASFILNVD :()\n"))
def test_colours_change_no_text(line: str) -> None:
    """The pieces of a line make up the line."""
    assert "".join(piece for piece, _ in coloured(line)) == line
