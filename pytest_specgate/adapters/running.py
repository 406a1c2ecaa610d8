"""A server of ours while it runs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core.errors import ServerDiedError

if TYPE_CHECKING:
    from pytest_specgate.adapters.processes import Child
    from pytest_specgate.adapters.state import Note


@dataclasses.dataclass(frozen=True, slots=True)
class RunningServer:
    """Port `Server`: a server that has answered a completion."""

    arm: str
    url: str
    model: str
    command: str
    boot_s: float
    child: Child
    note: Note | None = None

    @property
    def attached(self) -> bool:
        """No: it was started here."""
        return False

    @property
    def pid(self) -> int:
        """Process id of the server itself."""
        return self.child.pid

    def ensure_alive(self, *, wait_s: float = 0.0) -> None:
        """Raise `ServerDiedError` if the process has left, or leaves within `wait_s` seconds."""
        code = self.child.wait(wait_s)
        if code is not None:
            raise ServerDiedError(self.child.left() or "", exit_code=code, log_tail=self.child.log_tail())

    def log_tail(self) -> str:
        """Return the last lines that the server printed."""
        return self.child.log_tail()

    def startup_log(self) -> str:
        """Return the beginning of what the server printed."""
        return self.child.log_head()

    def process_ids(self) -> frozenset[int]:
        """Return the ids of the server's processes: all that it started and that still live, wherever they went."""
        return noted(self.child, self.note)

    def cleaned(self, text: str) -> str:
        """Return what the server said without control characters, the secrets that it was given, and others."""
        return self.child.cleaned(text)


def noted(child: Child, note: Note | None) -> frozenset[int]:
    """Return a server's processes, having noted them for later runs."""
    pids = child.processes()
    if note is not None:
        note.update(pids)
    return pids
