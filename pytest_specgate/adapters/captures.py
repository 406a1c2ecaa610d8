"""Streams captured elsewhere, as files: one JSON object a line, one line a network read."""

from __future__ import annotations

import base64
import binascii
import json
import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.sse import Read

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_MS: Final = 1e12


def parse_capture(text: str, *, name: str) -> list[Read]:
    """Return the reads of a captured stream.

    Args:
        text: lines such as ``{"t_ms": 101.3, "bytes_b64": "ZGF0YTog..."}``: milliseconds after the request was sent,
            and the bytes of the body that were read then.
        name: of the file, for messages.

    Raises:
        UsageError: there is no line, or one is something else; it is named.
    """
    reads = list(_reads(text, name=name))
    if not reads:
        raise UsageError(f"{name} holds no reads: a capture has one JSON object a line, with t_ms and bytes_b64")
    return reads


def _reads(text: str, *, name: str) -> Iterator[Read]:
    latest = -math.inf
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        read = _read(line, place=f"{name}, line {number}")
        if read.at_s < latest:
            raise UsageError(f"{name}, line {number}: t_ms goes back, and reads are stored in order")
        latest = read.at_s
        yield read


def _read(line: str, *, place: str) -> Read:
    try:
        fields = json.loads(line)
        at_ms, data = fields["t_ms"], base64.b64decode(fields["bytes_b64"], validate=True)
    except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as error:
        raise UsageError(
            f'{place}: not a read of the form {{"t_ms": 101.3, "bytes_b64": "..."}}: {type(error).__name__} {error}'
        ) from error
    if isinstance(at_ms, bool) or not isinstance(at_ms, int | float) or not 0 < at_ms < _LONGEST_MS:
        raise UsageError(f"{place}: t_ms is {at_ms!r:.40}, and must be milliseconds after the send, more than 0")
    return Read(at_ms / 1000, data)
