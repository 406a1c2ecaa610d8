"""Names of gates, as short as they can be told apart."""

from __future__ import annotations

import pytest

from pytest_specgate.reporting.gate_names import item_name, once, short_names


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ([], []),
        (["a.py::test_x"], []),
        (["a.py::test_x", "a.py::test_x"], []),
        (["a.py::test_x", "a.py::test_y"], ["test_x", "test_y"]),
        (["a.py::test_x[1]", "a.py::test_x[a::b]"], ["test_x[1]", "test_x[a::b]"]),
        (["a.py::TestA::test_x", "a.py::TestB::test_x"], ["TestA::test_x", "TestB::test_x"]),
        (["a.py::test_x", "b.py::test_x"], ["a.py::test_x", "b.py::test_x"]),
        (["a.py::test_\x1b", "a.py::test_y"], ["test_\\x1b", "test_y"]),
        (["odd", "odd too"], ["odd", "odd too"]),
    ],
)
def test_gates_are_called_by_what_tells_them_apart(ids: list[str], names: list[str]) -> None:
    """One gate needs no name; several are called by function, class or file, on one line that steers no terminal."""
    assert list(short_names(ids).values()) == names


@pytest.mark.parametrize(
    ("lines", "text"), [([], ""), (["a"], "a"), (["a", "a"], "a"), (["a", "b"], "a\nb"), (["a", "a", "b"], "a\na\nb")]
)
def test_what_all_lines_share_stands_once(lines: list[str], text: str) -> None:
    """Otherwise each line keeps its place."""
    assert once(lines) == text


@pytest.mark.parametrize(
    ("node_id", "name"),
    [
        ("a.py::test_x[c1-tpot_p50-better]", "a.py::test_x[c1-tpot_p50-better]"),
        ("a.py::test_x", "a.py::test_x c1-tpot_p50-better"),
    ],
)
def test_a_threshold_is_named_where_its_test_is_not(node_id: str, name: str) -> None:
    """The item of a test has the threshold in its name, and a record that is reported alone knows its gate only."""
    assert item_name(node_id, "c1-tpot_p50-better") == name
