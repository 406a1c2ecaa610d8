"""The event-stream format: lines, line ends, fields and blocks, wherever the reads are cut."""

from __future__ import annotations

import pytest

from pytest_specgate.core.sse import Decoder, Read, events


def _decoded(*reads: bytes) -> list[str]:
    decoder = Decoder()
    return [data for read in reads for data in decoder.feed(read)]


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param([b'data:{"x":1}\r', b"\n\r\ndata:[DONE]\r\n\r\n"], id="CRLF split between reads"),
        pytest.param([b'data:{"x":1}\r\rdata:[DONE]\r\r'], id="bare CR"),
        pytest.param([b'data:{"x":1}\r', b"\rdata:[DONE]\r", b"\r"], id="bare CR split"),
        pytest.param([b'data:{"x":1}\n\ndata:[DONE]\n\n'], id="LF"),
        pytest.param([b'data:{"x":1}\r\n\ndata:[DONE]\n\r\n'], id="mixed"),
    ],
)
def test_case_8_every_line_end(reads: list[bytes]) -> None:
    """Case 8: lines end in CR, LF or CRLF, wherever the reads are cut, and `data:` needs no blank."""
    assert _decoded(*reads) == ['{"x":1}', "[DONE]"]


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param([b"data: a\r", b"", b"\ndata: b\r\n\r\n"], id="inside a CRLF"),
        pytest.param([b"data: a\r", b"", b"", b"\ndata: b\r\n\r", b"", b"\n"], id="several"),
        pytest.param([b"", b"data: a\n", b"", b"data: b\n\n", b""], id="at the ends"),
        pytest.param([b"da", b"", b"ta: a\r\ndata: b\r", b"", b"\r"], id="inside a line, and between bare CRs"),
    ],
)
def test_a_read_of_no_bytes_changes_nothing(reads: list[bytes]) -> None:
    """An empty read gives no event and no line end, not even between CR and LF."""
    assert _decoded(*reads) == ["a\nb"]


def test_a_byte_order_mark_is_skipped_once() -> None:
    """A byte order mark at the head of the stream is no part of the first field's name."""
    assert _decoded(b"\xef\xbb\xbfdata: a\n\n") == ["a"]


def test_only_one_blank_after_the_colon_is_removed() -> None:
    """One blank after the colon belongs to the format, further ones to the data; unknown fields are ignored."""
    assert _decoded(b"retry: 5\ndata:  a\ndata\n\n") == [" a\n"]


def test_events_carry_the_time_of_the_completing_read() -> None:
    """Several events of one read share its time."""
    reads = [Read(0.1, b"data: a\n"), Read(0.2, b"\ndata: b\n\nda"), Read(0.3, b"ta: c\n\n")]

    assert [(event.at_s, event.data) for event in events(reads)] == [(0.2, "a"), (0.2, "b"), (0.3, "c")]
