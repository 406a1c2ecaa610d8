"""Python that is written for somebody: values stay values, and formatters change nothing."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.redaction import REDACTED
from pytest_specgate.reporting.python_text import Writer, call, imported, literal, named, text_of

TEXTS = st.text(st.one_of(st.sampled_from("'\"\\\n\u2028{}#"), st.characters()), max_size=30)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(TEXTS, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3), st.dictionaries(TEXTS, inside, max_size=3), st.tuples(inside, inside)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_is_read_as_itself(value: Any) -> None:
    """Whatever it holds, on one line or on many."""
    assert ast.literal_eval(text_of(literal(value))) == value


@pytest.mark.skipif(importlib.util.find_spec("ruff") is None, reason="no formatter is installed here")
def test_a_formatter_changes_nothing() -> None:
    """Quotation marks, numbers, and brackets that are too long for a line."""
    values = ["it's", 'a "word"', "'\"", '\'""', "\\", "\n", 1e22, 1e-7, (1,), (), {}, {"a" * 60: ["b" * 30, "c" * 30]}]
    calls = [text_of(call("made", [literal(value), named("twice=", literal([value] * 9))])) for value in values]
    text = "\n".join([imported(f"a_long_name_{number}" for number in range(9)), "", *calls, ""])
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=100", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == text


def test_secrets_that_were_cut_out_are_never_taken_for_the_same() -> None:
    """Two that somebody typed alike share a variable; of two that a record has lost nobody knows."""
    typed, lost = Writer(taken=["A_TOKEN"]), Writer()
    texts = [
        [text_of(writer.value({"token": value}, name="args", variable="A")) for _ in range(2)]
        for writer, value in ((typed, "a word"), (lost, REDACTED))
    ]

    assert texts == [
        ['{"token": os.environ["A_TOKEN_2"]}'] * 2,
        ['{"token": os.environ["A_TOKEN"]}', '{"token": os.environ["A_TOKEN_2"]}'],
    ]
