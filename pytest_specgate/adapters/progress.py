"""What a waiting user is told while a window runs: lines for a log, and one line that always says where it is."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_specgate.core.progress import Forecast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from pytest_specgate.adapters.live_line import Parts
    from pytest_specgate.core.progress import Begun, Step

    Watch: TypeAlias = Callable[[Callable[[], Parts]], AbstractContextManager[Callable[[], None] | None]]
    """Shows a line, made anew each time, until its block ends. Gives what shows it at once, and `None` where nothing is
    rewritten, so that every step needs a line of its own."""


@contextlib.contextmanager
def unwatched(_: Callable[[], Parts]) -> Iterator[None]:
    """Show nothing that is rewritten."""
    yield


class WatchedProgress:
    """Port `Progress`: hands lines on, and knows how long the window may still take.

    Args:
        say: shows a line.
        clock_s: the clock of the machine.
        earlier: seconds of a boot by arm, of an earlier window.
    """

    def __init__(
        self, say: Callable[[str], None], *, clock_s: Callable[[], float], earlier: Mapping[str, float]
    ) -> None:
        self._say = say
        self._clock_s = clock_s
        # Another thread reads it: each event puts a new whole in its place.
        self._forecast = Forecast(earlier=earlier)
        self._show: Callable[[], None] | None = None

    @contextlib.contextmanager
    def shown(self, watch: Watch) -> Iterator[None]:
        """Let the line be shown in a block."""
        with watch(self.parts) as show:
            self._show = show
            try:
                yield
            finally:
                self._show = None

    def parts(self) -> Parts:
        """Return the line of this moment in its parts: what goes on, since when, how long it may still take."""
        return self._forecast.parts(self._clock_s())

    def say(self, line: str) -> None:
        """Show one line."""
        self._say(line)

    def begin(self, boot: Begun) -> None:
        """Show that a boot begins."""
        self._forecast = self._forecast.begun(boot, now_s=self._clock_s())
        self._tell(boot.line)

    def step(self, step: Step) -> None:
        """Show what the boot does now."""
        self._forecast = self._forecast.stepped(step, now_s=self._clock_s())
        boot = self._forecast.boot
        self._tell(step.line(boot.arm if boot is not None else ""))

    def end(self, *, failed: bool) -> None:
        """Take note that the boot has ended."""
        self._forecast = self._forecast.ended(now_s=self._clock_s(), failed=failed)

    def _tell(self, line: str) -> None:
        if self._show is not None:
            self._show()
        elif line:
            self._say(line)
