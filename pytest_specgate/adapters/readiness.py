"""Whether a server can be used: its model is listed, and it has answered a completion."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from pytest_specgate.adapters.asking import NO_ANSWER, Asker
from pytest_specgate.adapters.processes import wait_until
from pytest_specgate.adapters.server_log import last_words
from pytest_specgate.core.errors import ServerStartError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.adapters.processes import Child

_POLL_S: Final = 0.1
_NOTE_S: Final = 1.0
_TELL_S = 30.0
_LEAVING_S: Final = 1.0


def wait_ready(waiting: Waiting, *, url: str, model: str, limit_s: float) -> None:
    """Return when the model is listed and has answered one tiny completion.

    Args:
        waiting: for the server.
        url: its base address.
        model: the name that it has to list.
        limit_s: how long this may take.

    Raises:
        ServerStartError: the server left, serves another model, refuses what it is asked, or was not ready in time.
    """
    deadline = time.monotonic() + limit_s
    asker = Asker(url, whose="its server", gone=waiting.gone, cleaned=waiting.child.cleaned)
    while (unready := _answered(waiting, asker, model, deadline=deadline)) is not None:
        waiting.go_on()
        if not wait_until(deadline, pause_s=_POLL_S):
            message = f"its server was not ready within {limit_s:g} s, {unready} (raise --specgate-start-limit)"
            raise ServerStartError(message, log_tail=waiting.child.log_tail())
    waiting.note()


class Waiting:
    """The time until a server is ready: a boot can die or be killed, and somebody may watch it.

    Args:
        child: the server.
        note: called now and then, and once the server is ready.
        say: is told now and then what the server printed last.
    """

    def __init__(self, child: Child, *, note: Callable[[], object], say: Callable[[str], None]) -> None:
        self.child = child
        self.note = note
        self._say = say
        self._began_s = self._noted_s = self._told_s = time.monotonic()

    def gone(self) -> bool:
        """Do what is due, and return whether the server has left."""
        now_s = time.monotonic()
        if now_s - self._noted_s >= _NOTE_S:
            self._noted_s = now_s
            self.note()
        if now_s - self._told_s >= _TELL_S:
            self._told_s = now_s
            self._say(f"still starting after {now_s - self._began_s:.0f} s{last_words(self.child.log_tail())}")
        return self.child.exit_code() is not None

    def go_on(self) -> None:
        """Do what is due.

        Raises:
            ServerStartError: the server has left.
        """
        if self.gone():
            message = self.child.left(" while starting,")
            assert message is not None, "who has left does not come back"
            raise ServerStartError(message, exit_code=self.child.exit_code(), log_tail=self.child.log_tail())


def _answered(waiting: Waiting, asker: Asker, model: str, *, deadline: float) -> str | None:
    """Return why a server cannot be used yet, `None` once it can; of one that leaves, how it did is what counts."""
    try:
        return _unready(asker, model, deadline=deadline)
    except ServerStartError:
        # Who refuses may be somebody else, who has the port that ours was to have.
        waiting.child.wait(_LEAVING_S)
        waiting.go_on()
        raise


def _unready(asker: Asker, model: str, *, deadline: float) -> str | None:
    """Return why a server cannot be used yet, `None` once it can."""
    try:
        names = asker.models()
    except (*NO_ANSWER, ValueError, KeyError, TypeError):
        return "it does not list its models"
    if names and model not in names:
        raise ServerStartError(f"its server serves {', '.join(names)}, not {model}")
    return asker.refusal(model, deadline=deadline) if names else "it lists no model"
