"""Captured streams as files: read line by line, and refused with file, line and form."""

from __future__ import annotations

import pytest

from pytest_specgate.adapters.captures import parse_capture
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.sse import Read


def test_reads_come_back_with_seconds_and_bytes() -> None:
    """Milliseconds become seconds, base64 becomes bytes, blank lines are nothing."""
    text = '{"t_ms": 101.5, "bytes_b64": "ZGF0YQ=="}\n\n{"t_ms": 102, "bytes_b64": ""}\n'

    assert parse_capture(text, name="a.jsonl") == [Read(0.1015, b"data"), Read(0.102, b"")]


@pytest.mark.parametrize(
    "line",
    [
        "data: x",
        "[]",
        "3",
        "{}",
        '{"t_ms": 1}',
        '{"t_ms": 1, "bytes_b64": 5}',
        '{"t_ms": 1, "bytes_b64": "@@"}',
        '{"t_ms": true, "bytes_b64": ""}',
        '{"t_ms": "1", "bytes_b64": ""}',
        '{"t_ms": NaN, "bytes_b64": ""}',
    ],
)
def test_a_line_that_is_no_read_is_named(line: str) -> None:
    """What is no read is refused with the file and the number of its line."""
    with pytest.raises(UsageError, match=r"a\.jsonl, line 2: "):
        parse_capture(f'{{"t_ms": 0.5, "bytes_b64": ""}}\n{line}\n', name="a.jsonl")


def test_times_that_go_back_are_refused() -> None:
    """Reads are stored in the order in which they came."""
    text = '{"t_ms": 5, "bytes_b64": ""}\n{"t_ms": 4, "bytes_b64": ""}'

    with pytest.raises(UsageError, match="line 2: t_ms goes back"):
        parse_capture(text, name="a.jsonl")


def test_an_empty_file_is_no_capture() -> None:
    """A file without reads says nothing about an answer."""
    with pytest.raises(UsageError, match="holds no reads"):
        parse_capture("\n", name="a.jsonl")
