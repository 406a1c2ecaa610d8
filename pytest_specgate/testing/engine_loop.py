"""The fake engine on a clock: steps that take time, and a queue of tokens for each request."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_specgate.testing.engine import Emission, Engine, EngineSequence


class EngineLoop:
    """Runs one engine inside the event loop.

    Args:
        engine: the model that is run.
        after_step: called when a step has ended, before anybody hears what it gave.

    Attributes:
        engine: the model that is run.
    """

    def __init__(self, engine: Engine, *, after_step: Callable[[], None] | None = None) -> None:
        self.engine = engine
        self._after_step = after_step
        self._queues: dict[EngineSequence, asyncio.Queue[Emission]] = {}
        self._work = asyncio.Event()

    async def run(self) -> None:
        """Step as long as there is work, and wait for more, until cancelled.

        Steps end at deadlines that follow from each other, so that the lateness of one timer does not lengthen the
        next step. A step whose deadline has passed ends at once; more lag than that is dropped, never caught up.
        """
        clock = asyncio.get_running_loop().time
        deadline_s = clock()
        while True:
            if not self.engine.busy:
                self._work.clear()
                await self._work.wait()
                deadline_s = clock()
            deadline_s = max(clock(), deadline_s + self.engine.begin_step())
            await asyncio.sleep(deadline_s - clock())
            emissions = self.engine.end_step(clock())
            if self._after_step is not None:
                self._after_step()
            for emission in emissions:
                queue = self._queues.get(emission.sequence)
                if queue is not None:
                    queue.put_nowait(emission)

    def submit(self, sequence: EngineSequence) -> None:
        """Run a sequence for whose tokens nobody waits."""
        self.engine.submit(sequence)
        self._work.set()

    @contextlib.contextmanager
    def generation(self, sequence: EngineSequence) -> Iterator[asyncio.Queue[Emission]]:
        """Run a sequence while the block lasts; leaving it early drops the sequence from the engine.

        Leaving by an error counts as an error of the engine, everything else (cancellation: the client went away) as
        an abort.
        """
        queue = self._queues[sequence] = asyncio.Queue()
        self.submit(sequence)
        try:
            yield queue
        except Exception:
            self.engine.abort(sequence, "error")
            raise
        finally:
            self.engine.abort(sequence)
            del self._queues[sequence]
