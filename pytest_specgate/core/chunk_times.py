"""Times of the token events of one answer as a short text: what a record keeps of every chunk where that is asked for.

**Form.** Each time is rounded to whole microseconds; the first, and the step from each to the next, become
little-endian numbers of 64 bits. These are stored byte by byte instead of number by number: all lowest bytes, then all
second ones, and so on, because the higher bytes of steps are alike and vanish when they stand together. The bytes are
compressed by zlib and written in base 85 (`base64.b85encode`), which needs no escapes in JSON.

**Precision.** A decoded time lies within half a microsecond of the one measured, wherever it stands: times are rounded,
not the steps between them, so that errors do not add up. How late a read may have been stamped is far more than that.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_specgate.core.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Sequence

_PER_S: Final = 1e6
_STEP: Final = np.dtype("<i8")
_LEVEL: Final = 9


def encode(times_s: Sequence[float]) -> str:
    """Return the text that keeps some times.

    Args:
        times_s: in seconds, finite; usually in order, which is what makes the text short.
    """
    whole = np.rint(np.asarray(times_s, dtype=np.float64) * _PER_S).astype(_STEP)
    steps = np.diff(whole, prepend=_STEP.type(0))
    planes = steps.view(np.uint8).reshape(-1, _STEP.itemsize).T
    return base64.b85encode(zlib.compress(planes.tobytes(), _LEVEL)).decode("ascii")


def decode(text: str) -> tuple[float, ...]:
    """Return the times that a text keeps, in seconds.

    Raises:
        RecordError: the text is damaged, or was never made by `encode`.
    """
    planes = np.frombuffer(_decompressed(text), dtype=np.uint8)
    if planes.size % _STEP.itemsize:
        raise RecordError(f"chunk times end within a number, after {planes.size} bytes: the record is damaged")
    steps = np.ascontiguousarray(planes.reshape(_STEP.itemsize, -1).T).view(_STEP)
    return tuple((steps.cumsum() / _PER_S).tolist())


def _decompressed(text: str) -> bytes:
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(base64.b85decode(text))
    except (ValueError, zlib.error) as error:
        raise RecordError(f"chunk times cannot be read: {error}: the record is damaged") from None
    if not stream.eof or stream.unused_data:
        raise RecordError(f"chunk times cannot be read: {text[:20]!r}... has no proper end: the record is damaged")
    return data
