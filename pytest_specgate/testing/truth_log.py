"""Writes the truth down while it happens, in bounded memory."""

from __future__ import annotations

import array
import collections
import dataclasses
import itertools
from typing import TYPE_CHECKING, Final, Literal

from pytest_specgate.testing.truth import EngineTruth, FakeTruth, RequestTruth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.testing.engine import Engine
    from pytest_specgate.testing.readings import Tally

MOST_REQUESTS: Final = 100_000
MOST_EVENTS: Final = 2_000_000


@dataclasses.dataclass(slots=True, eq=False)
class TruthEntry:
    """One request, in the making; the attributes are those of `RequestTruth`."""

    number: int
    body_sha256: str | None
    engine: int
    arrived_s: float
    tally: Tally
    event_times_s: array.array[float] = dataclasses.field(default_factory=lambda: array.array("d"))
    event_tokens: array.array[int] = dataclasses.field(default_factory=lambda: array.array("I"))

    def truth(self) -> RequestTruth:
        """Return what is known by now."""
        return RequestTruth(
            number=self.number,
            body_sha256=self.body_sha256,
            engine=self.engine,
            arrived_s=self.arrived_s,
            event_times_s=tuple(self.event_times_s),
            event_tokens=tuple(self.event_tokens),
            **dataclasses.asdict(self.tally),
        )


class TruthLog:
    """All requests of a server, the oldest ones forgotten once there are too many.

    Args:
        most_requests: requests kept.
        most_events: token events kept, over all requests; 12 bytes each.
    """

    def __init__(self, *, most_requests: int = MOST_REQUESTS, most_events: int = MOST_EVENTS) -> None:
        self._most_requests = most_requests
        self._most_events = most_events
        self._entries: collections.deque[TruthEntry] = collections.deque()
        self._forgotten = 0
        self._events = 0

    def open(self, *, body_sha256: str | None, engine: int, arrived_s: float, tally: Tally) -> TruthEntry:
        """Begin the entry of the next request; its number is its place among all of them, from 1."""
        number = self._forgotten + len(self._entries) + 1
        entry = TruthEntry(number=number, body_sha256=body_sha256, engine=engine, arrived_s=arrived_s, tally=tally)
        self._entries.append(entry)
        while len(self._entries) > self._most_requests or self._events > self._most_events:
            self._events -= len(self._entries.popleft().event_times_s)
            self._forgotten += 1
        return entry

    def wrote(self, entry: TruthEntry, *, at_s: float, tokens: int) -> None:
        """Note a token event of a request."""
        entry.event_times_s.append(at_s)
        entry.event_tokens.append(tokens)
        self._events += entry.number > self._forgotten

    def truth(
        self, engines: Sequence[Engine], *, clock: Literal["monotonic", "virtual"], now_s: float, after: int = 0
    ) -> FakeTruth:
        """Return what is known by now, of requests with a number beyond ``after``."""
        start = max(0, after - self._forgotten)
        return FakeTruth(
            clock=clock,
            taken_s=now_s,
            forgotten_requests=self._forgotten,
            requests=tuple(entry.truth() for entry in itertools.islice(self._entries, start, None)),
            engines=tuple(
                EngineTruth(engine=place, **dataclasses.asdict(engine.totals)) for place, engine in enumerate(engines)
            ),
        )
