"""Who listens on a port of this machine."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Final

import psutil

from pytest_specgate.adapters.processes import wait_until
from pytest_specgate.core.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_POLL_S: Final = 0.1
_CONNECT_S: Final = 5.0


def answers(port: int) -> bool:
    """Whether somebody listens on a port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(_CONNECT_S)
        if probe.connect_ex(("127.0.0.1", port)) != 0:
            return False
        # A socket that is given the port that it calls has called itself.
        return bool(probe.getsockname() != probe.getpeername())


def require_free(port: int, *, limit_s: float) -> None:
    """Wait until nothing answers on a port any more.

    Raises:
        ServerError: something does after so long; whoever has it is named.
    """
    deadline = time.monotonic() + limit_s
    while answers(port):
        if not wait_until(deadline, pause_s=_POLL_S):
            raise ServerError(
                f"port {port} was not free {limit_s:g} s after the server was ended, by {holder_of(port)} (raise "
                f"--specgate-stop-limit if it needs longer)"
            )


def holder_of(port: int) -> str:
    """Say who listens on a port."""
    pids = sorted(listeners(port))
    return f"process {', '.join(map(str, pids))}" if pids else "a process that cannot be seen from here"


def listeners(port: int) -> set[int]:
    """Return the processes that listen on a port, as far as they can be seen."""
    return {pid for pid in _listening(port) if pid is not None}


def held_by_others(port: int, *, ours: Collection[int]) -> bool:
    """Whether somebody listens on a port, seen or not, and none of our processes does: those are always seen."""
    pids = _listening(port)
    return bool(pids) and pids.isdisjoint(ours)


def _listening(port: int) -> set[int | None]:
    """Return the process of each socket that listens on a port; `None` stands for those that cannot be seen."""
    return {
        connection.pid
        for connection in _connections()
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
    }


def _connections() -> Sequence[psutil._ntuples.sconn]:
    """Return the TCP connections of this machine; none where only a privileged user may see them."""
    try:
        return psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return ()
