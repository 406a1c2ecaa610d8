"""Much output, printed beside the event loop."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import threading
from typing import Final

_LINE_BYTES: Final = 80
_WRITE_BYTES: Final = 4000


class LogFlood:
    """Prints as many bytes as it is told to, in lines, from a thread of its own.

    A pipe that nobody empties stops that thread, as it would stop any program; it does not stop the event loop, and it
    does not keep the process from leaving.

    Args:
        descriptor: the file descriptor to print to. Not a buffered file: its lock, held by a thread that waits,
            would break the end of the process.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._orders: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        threading.Thread(target=self._run, name="log flood", daemon=True).start()

    def print(self, number_of_bytes: int) -> None:
        """Have so many bytes printed."""
        self._orders.put(number_of_bytes)

    def _run(self) -> None:
        # Whoever read the output may have gone; then there is nobody to tell.
        with contextlib.suppress(OSError):
            while True:
                left = self._orders.get()
                while left > 0:
                    left -= os.write(self._descriptor, self._lines(min(left, _WRITE_BYTES)))

    def _lines(self, size: int) -> bytes:
        """Return numbered lines of so many bytes together."""
        heads = (b"DEBUG:    programmed line %d " % next(self._numbers) for _ in range(-(-size // _LINE_BYTES)))
        text = b"\n".join(head.ljust(_LINE_BYTES - 1, b".") for head in heads)
        return text[: size - 1].ljust(size - 1, b".") + b"\n"
