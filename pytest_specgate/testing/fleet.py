"""The engines of one server, without a clock: who gets a request, what they count together, their page of metrics."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pytest_specgate.testing.configuration import cache_config
from pytest_specgate.testing.engine import Engine
from pytest_specgate.testing.exposition import KV_CACHE_TOKENS, metrics_page
from pytest_specgate.testing.prefix_cache import PrefixCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.testing.arguments import ServerArguments


class Fleet:
    """As many engines as ``--data-parallel-size`` says.

    Args:
        arguments: the command line.
        unix_time: what tells the time at which counters are created, in seconds since 1970.

    Attributes:
        engines: the engines; the place of one is its ``engine`` label.
    """

    def __init__(self, arguments: ServerArguments, *, unix_time: Callable[[], float]) -> None:
        self._arguments = arguments
        self._unix_time = unix_time
        self._created_s = unix_time()
        self._first = 0
        self._reset_after = arguments.fake.reset_after_requests
        self.engines = tuple(_engine(arguments) for _ in range(arguments.data_parallel_size))

    def choose(self) -> int:
        """Return the place of the engine that gets the next request: the least loaded, in turn among equals."""
        places = [(self._first + offset) % len(self.engines) for offset in range(len(self.engines))]
        chosen = min(places, key=lambda place: len(self.engines[place].waiting) + len(self.engines[place].running))
        self._first = (chosen + 1) % len(self.engines)
        return chosen

    def after_step(self) -> None:
        """Reset all counters if the programmed number of requests has finished; to be called after each step."""
        if self._reset_after is None:
            return
        finished = itertools.chain.from_iterable(engine.totals.finished.values() for engine in self.engines)
        if sum(finished) >= self._reset_after:
            self._reset_after = None
            self._created_s = self._unix_time()
            for engine in self.engines:
                engine.reset_counters()

    def page(self, now_s: float) -> str:
        """Return the text of ``/metrics`` at a time of the engines' clock."""
        for engine in self.engines:
            engine.settle(now_s)
        return metrics_page(
            self.engines,
            model_name=self._arguments.served_name,
            created_s=self._created_s,
            cache_config=cache_config(self._arguments),
        )


def _engine(arguments: ServerArguments) -> Engine:
    block_size = arguments.block_size
    cache = PrefixCache(block_size, capacity=KV_CACHE_TOKENS // block_size) if arguments.prefix_caching else None
    return Engine(
        arguments.fake,
        draft_tokens=arguments.draft_tokens,
        max_sequences=arguments.max_num_seqs,
        prefix_cache=cache,
    )
