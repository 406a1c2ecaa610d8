"""The fake's engine inside an event loop."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.testing import FakeSettings
from pytest_specgate.testing.engine import Engine, EngineSequence, sequence_random
from pytest_specgate.testing.engine_loop import EngineLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

SETTINGS = FakeSettings(step_s=0.0)
LATE_S = 0.25


class LateSelector(selectors.SelectSelector):
    """A made-up clock: each wait jumps to its end and a bit beyond, as a timer that always fires late."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Advance the clock instead of waiting."""
        if timeout is not None and timeout > 0:
            self.now_s += timeout + LATE_S
        return super().select(0)


class LateEventLoop(asyncio.SelectorEventLoop):
    """An event loop on that clock."""

    def __init__(self) -> None:
        self._late = LateSelector()
        super().__init__(self._late)

    def time(self) -> float:
        """Return the made-up time."""
        return self._late.now_s


def make_sequence(output_tokens: int) -> EngineSequence:
    """Make a sequence of a given length."""
    return EngineSequence(
        prompt_tokens=3,
        output_tokens=output_tokens,
        finish_reason="length",
        random=sequence_random(SETTINGS, "a prompt"),
        arrived_s=0.0,
    )


async def first_token(loop: EngineLoop, error: Exception | None) -> None:
    """Take one token of an endless answer, then leave: by an error, or just so."""
    running = asyncio.create_task(loop.run())
    try:
        with loop.generation(make_sequence(10**9)) as queue:
            await queue.get()
            if error is not None:
                raise error
    finally:
        running.cancel()


def collect(loop: EngineLoop, output_tokens: int) -> Coroutine[None, None, list[tuple[int, str | None]]]:
    """Run one request to its end and return the tokens and the finish reason of each step."""

    async def run() -> list[tuple[int, str | None]]:
        running = asyncio.create_task(loop.run())
        got: list[tuple[int, str | None]] = []
        with loop.generation(make_sequence(output_tokens)) as queue:
            while not got or got[-1][1] is None:
                emission = await queue.get()
                got.append((emission.tokens, emission.finish_reason))
        running.cancel()
        return got

    return run()


def test_late_timers_do_not_lengthen_the_steps() -> None:
    """Steps follow each other's deadlines: a timer that is late each time delays the end once, not at every step."""
    loop = EngineLoop(Engine(FakeSettings(step_s=1.0)))
    with asyncio.Runner(loop_factory=LateEventLoop) as runner:
        runner.run(collect(loop, output_tokens=101))

    assert loop.engine.readings.steps_s.count == 100
    assert loop.engine.readings.steps_s.sum == pytest.approx(100.0)
    assert loop.engine.readings.first_tokens_s.sum == pytest.approx(1.0 + LATE_S)


def test_lag_of_more_than_a_step_is_dropped() -> None:
    """After a stall of many steps the engine goes on at its own pace; it does not rush through what it missed."""
    loop = EngineLoop(Engine(FakeSettings(step_s=LATE_S / 100)))
    with asyncio.Runner(loop_factory=LateEventLoop) as runner:
        runner.run(collect(loop, output_tokens=101))

    assert loop.engine.readings.steps_s.sum > 100 * LATE_S / 2


def test_queue_gets_every_step_and_the_reason_at_the_end() -> None:
    """The tokens of a request come step by step and end with the finish reason."""
    assert asyncio.run(collect(EngineLoop(Engine(SETTINGS)), 3)) == [(1, None), (1, None), (1, "length")]


def test_leaving_early_aborts() -> None:
    """A consumer that leaves takes its sequence out of the engine."""
    loop = EngineLoop(Engine(SETTINGS))
    asyncio.run(first_token(loop, error=None))

    assert not loop.engine.busy
    assert loop.engine.readings.finished["abort"] == 1


def test_leaving_by_an_error_counts_as_error() -> None:
    """A failed answer is told apart from one whose client went away."""
    loop = EngineLoop(Engine(SETTINGS))
    with pytest.raises(RuntimeError, match="broken"):
        asyncio.run(first_token(loop, error=RuntimeError("broken")))

    assert not loop.engine.busy
    assert loop.engine.readings.finished["error"] == 1
    assert loop.engine.readings.finished["abort"] == 0
