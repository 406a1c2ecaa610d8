"""Tables that fit a terminal: what is worth least is left out and named, and what is left is wrapped, not torn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.reporting.layout import Detail, Narrowing, Table

TABLE = Table(
    ("load", "metric", "off", "change", "by round", "outcome"),
    ("right", "left", "right", "left", "left", "left"),
    (
        ("c=1", "output throughput [tokens/s]", "60.77", "better +39.2 %", "+39.6  +38.9", "-"),
        ("", "TTFT p50 [ms]", "83.83", "worse +2.0 %", "+1.3  +2.7", "PASS (not worse than -40 %)\nFAIL (better)"),
    ),
)
NARROWINGS = (
    Narrowing((4,), "changes by round"),
    Narrowing((5,), "claims", ("-", "PASS\nFAIL")),
    Narrowing((2,), "values", slack=4),
)


def _widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def test_a_log_has_the_whole_table() -> None:
    """Without a width nothing is left out, however wide it is."""
    text = TABLE.text(narrowings=NARROWINGS)

    assert text == TABLE.written()
    assert "by round" in text


def test_a_wide_terminal_has_the_whole_table() -> None:
    """Where all of it fits exactly, nothing is said of columns."""
    whole = TABLE.written()

    assert TABLE.text(_widest(whole), narrowings=NARROWINGS) == whole


@pytest.mark.parametrize(
    ("columns", "gone", "kept"),
    [
        (96, ["changes by round"], ["off", "PASS (not worse than -40 %)"]),
        (80, ["changes by round", "claims"], ["off", "change"]),
        (60, ["changes by round", "claims", "values"], ["change", "outcome"]),
    ],
)
def test_what_is_worth_least_goes_first_and_is_named(columns: int, gone: list[str], kept: list[str]) -> None:
    """Columns are given up one after the other, as far as is needed, and the line below names them."""
    text = TABLE.text(columns, narrowings=NARROWINGS)

    assert text.splitlines()[-1] == f"(not shown in {columns} columns: {', '.join(gone)})"
    assert all(word in text for word in kept)
    assert "by round " not in text
    assert _widest("\n".join(text.splitlines()[:-1])) <= columns


def test_a_little_is_rather_wrapped_than_left_out() -> None:
    """Values stay where a wrapped cell makes room for them."""
    fitting = TABLE.without(NARROWINGS[:2]).written()

    text = TABLE.text(_widest(fitting) - 4, narrowings=NARROWINGS)

    assert "83.83" in text
    assert "values" not in text
    assert _widest(text) <= _widest(fitting) - 4


def test_the_last_column_is_wrapped_where_it_can_still_be_read() -> None:
    """The metric stays on its line as long as the outcome has room."""
    width = _widest(TABLE.written())

    text = TABLE.text(width - 6)

    assert "output throughput [tokens/s]" in text
    assert "PASS (not worse than\n" in text


def test_wrapped_lines_show_that_they_go_on() -> None:
    """A second line of one cell is set in, so that two claims are not taken for three."""
    lines = TABLE.text(_widest(TABLE.written()) - 6).splitlines()
    place = next(place for place, line in enumerate(lines) if "PASS" in line)

    assert lines[place + 1].index("-40 %)") == lines[place].index("PASS") + 2
    assert lines[place + 2].index("FAIL") == lines[place].index("PASS")


@given(columns=st.integers(1, 130))
def test_no_width_breaks_a_table(columns: int) -> None:
    """At any width a table is written: it fits from 60 columns on, and every row keeps its load."""
    text = TABLE.text(columns, narrowings=NARROWINGS)
    table = "\n".join(line for line in text.splitlines() if not line.startswith("("))

    assert "c=1" in table
    assert columns < 60 or _widest(table) <= columns


def test_a_table_without_rows() -> None:
    """Its headings are written."""
    assert Table(("arm",), ("left",), ()).text(20).splitlines()[0].strip() == "arm"


@pytest.mark.parametrize(
    ("verbosity", "detail"),
    [
        (-5, Detail.OUTCOME),
        (-2, Detail.OUTCOME),
        (-1, Detail.SHORT),
        (0, Detail.NORMAL),
        (1, Detail.LONG),
        (3, Detail.LONG),
    ],
)
def test_verbosity_is_that_of_pytest(verbosity: int, detail: Detail) -> None:
    """More than -qq and -v is no more than these."""
    assert Detail.of(verbosity) is detail
