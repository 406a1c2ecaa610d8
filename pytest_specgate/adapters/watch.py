"""Looks after a server while its load runs: a dead one can be as silent as a slow one."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import ServerDiedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_specgate.core.ports import Server

_LOOK_S: Final = 0.2


@contextlib.contextmanager
def watched(server: Server, stop: Callable[[], object]) -> Iterator[None]:
    """Look after a server's process in a thread of its own while the block runs.

    Whoever inherited the sockets of a dead server keeps them open, so that its death breaks no connection. An attached
    server is left alone: its process is elsewhere, and asking it would be load.

    Args:
        server: may leave at any time.
        stop: is called once, in that thread, when it has.
    """
    if server.attached:
        yield
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_S):
            try:
                server.ensure_alive()
            except ServerDiedError:
                stop()
                return

    thread = threading.Thread(target=look, name="specgate-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
