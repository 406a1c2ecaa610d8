"""The engines of a fake vLLM on made-up time: no server, no clock, the same answers at once and exactly."""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import itertools
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import UsageError
from pytest_specgate.testing.arguments import ServerArguments
from pytest_specgate.testing.fleet import Fleet
from pytest_specgate.testing.sequences import TaskMaker
from pytest_specgate.testing.settings import FakeSettings, SpeculativeConfig
from pytest_specgate.testing.tokenizer import Tokenizer
from pytest_specgate.testing.truth_log import TruthLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specgate.testing.engine import Emission, Engine, EngineSequence
    from pytest_specgate.testing.faults import StreamFault
    from pytest_specgate.testing.readings import FinishedReason
    from pytest_specgate.testing.sequences import Task
    from pytest_specgate.testing.truth import FakeTruth
    from pytest_specgate.testing.truth_log import TruthEntry

_ENDING: Final[tuple[StreamFault, ...]] = ("truncate", "cut")
_UNIX_TIME_S: Final = 1.7e9
"""What the made-up clock of counters shows at time 0."""


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedRequest:
    """One request of a simulation.

    Attributes:
        prompt: its text, or its token ids. The same prompt drafts and accepts as it would on the server.
        output_tokens: tokens to give out.
        arrives_s: time of its arrival, in seconds; without meaning where the concurrency is limited.
    """

    prompt: str | list[int]
    output_tokens: int = 16
    arrives_s: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Simulation:
    """What came of a simulation.

    Attributes:
        truth: what happened; times begin at 0, and events are written when their step ends.
        page_before: the text of ``/metrics`` before the first request.
        page_after: the same after the last token.
    """

    truth: FakeTruth
    page_before: str
    page_after: str


def simulate(  # noqa: PLR0913  - each is a flag of the server, to be named where it is used
    settings: FakeSettings | None = None,
    *,
    requests: Sequence[SimulatedRequest],
    concurrency: int | None = None,
    draft_tokens: int = 0,
    data_parallel_size: int = 1,
    max_num_seqs: int = 128,
    settle_s: float = 0.0,
) -> Simulation:
    """Run requests through the engines of a fake vLLM, on made-up time.

    Faults of engines and counters are simulated: ``error``, ``truncate`` and ``cut`` end a request early, as they do on
    the server; ``abort``, ``reset``, ``foreign``, late counters and slow first requests are what they are there. What
    concerns processes, connections and logs has no meaning here: ``stall``, ``die``, times of the start, signals.

    Args:
        settings: the programmed behaviour; the default is a healthy server.
        requests: the requests, in the order in which they are sent.
        concurrency: requests under way at most, the next one being sent when one ends; `None`: each arrives at its own
            time.
        draft_tokens: ``num_speculative_tokens``; 0 leaves speculation off.
        data_parallel_size: number of engines.
        max_num_seqs: most sequences of a batch.
        settle_s: seconds from the last token to the second page.

    Raises:
        UsageError: the concurrency is not positive.
        RefusedError: the server would refuse one of the prompts.
    """
    if concurrency is not None and concurrency < 1:
        raise UsageError(f"simulate(concurrency={concurrency}): at least one request must be under way, or `None`")
    arguments = ServerArguments(
        max_model_len=10**9,
        max_num_seqs=max_num_seqs,
        data_parallel_size=data_parallel_size,
        speculation=SpeculativeConfig(num_speculative_tokens=draft_tokens) if draft_tokens else None,
        fake=settings or FakeSettings(),
    )
    return _Run(arguments, requests, concurrency=concurrency).result(settle_s)


class _Run:
    """One simulation: things to happen, each at its time; those of one time in the order in which they were planned."""

    def __init__(
        self, arguments: ServerArguments, requests: Sequence[SimulatedRequest], *, concurrency: int | None
    ) -> None:
        self._fake = arguments.fake
        self._now_s = 0.0
        self._plans: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._tasks = TaskMaker(arguments, Tokenizer())
        self._fleet = Fleet(arguments, unix_time=lambda: _UNIX_TIME_S + self._now_s)
        self._awake: set[Engine] = set()
        self._truth_log = TruthLog(most_requests=len(requests), most_events=sum(it.output_tokens for it in requests))
        self._open: dict[EngineSequence, tuple[Task, TruthEntry]] = {}
        self._queue = collections.deque(requests if concurrency is not None else ())
        self._left = len(requests)
        for request in requests if concurrency is None else ():
            self._plan(request.arrives_s, functools.partial(self._arrive, request))
        for _ in range(concurrency or 0):
            self._plan(0.0, self._send_next)
        if self._fake.foreign_every_s is not None:
            self._plan(self._fake.foreign_every_s, self._foreign_turn)

    def result(self, settle_s: float) -> Simulation:
        """Let everything happen until no request is left."""
        page_before = self._fleet.page(self._now_s)
        while self._left:
            self._now_s, _, happen = heapq.heappop(self._plans)
            happen()
        return Simulation(
            truth=self._truth_log.truth(self._fleet.engines, clock="virtual", now_s=self._now_s),
            page_before=page_before,
            page_after=self._fleet.page(self._now_s + settle_s),
        )

    def _plan(self, at_s: float, happen: Callable[[], None]) -> None:
        heapq.heappush(self._plans, (at_s, next(self._order), happen))

    def _send_next(self) -> None:
        if self._queue:
            self._arrive(self._queue.popleft())

    def _arrive(self, request: SimulatedRequest) -> None:
        task = self._tasks.task(request.prompt, output_limit=request.output_tokens, arrived_s=self._now_s)
        if task.faults.foreign:
            self._submit(self._fleet.choose(), self._tasks.foreign(self._now_s))
        place, sequence = self._fleet.choose(), task.sequence
        entry = self._truth_log.open(body_sha256=None, engine=place, arrived_s=self._now_s, tally=sequence.tally)
        self._open[sequence] = task, entry
        if task.faults.delay_s:
            self._plan(self._now_s + task.faults.delay_s, functools.partial(self._submit, place, sequence))
        else:
            self._submit(place, sequence)

    def _foreign_turn(self) -> None:
        self._submit(self._fleet.choose(), self._tasks.foreign(self._now_s))
        self._plan(self._now_s + (self._fake.foreign_every_s or 0.0), self._foreign_turn)

    def _submit(self, place: int, sequence: EngineSequence) -> None:
        engine = self._fleet.engines[place]
        engine.submit(sequence)
        self._wake(engine)

    def _wake(self, engine: Engine) -> None:
        """Let an engine with work begin a step, once all that happens at this time has happened."""
        if engine.busy and engine not in self._awake:
            self._awake.add(engine)
            self._plan(self._now_s, functools.partial(self._begin_step, engine))

    def _begin_step(self, engine: Engine) -> None:
        self._plan(self._now_s + engine.begin_step(), functools.partial(self._end_step, engine))

    def _end_step(self, engine: Engine) -> None:
        emissions = engine.end_step(self._now_s)
        self._fleet.after_step()
        for emission in emissions:
            if emission.sequence in self._open:
                self._take(emission, engine)
        self._awake.remove(engine)
        self._wake(engine)

    def _take(self, emission: Emission, engine: Engine) -> None:
        """Write what a request got, as the server would, and end it if it ends here."""
        task, entry = self._open[emission.sequence]
        written = len(entry.event_times_s)
        if any(task.faults.strikes(fault, written=written, tokens=emission.tokens) for fault in _ENDING):
            self._close(emission.sequence, engine, "abort")
            return
        self._truth_log.wrote(entry, at_s=self._now_s, tokens=emission.tokens)
        if task.faults.error:
            self._close(emission.sequence, engine, "error")
        elif emission.finish_reason is not None:
            self._close(emission.sequence, engine)

    def _close(self, sequence: EngineSequence, engine: Engine, reason: FinishedReason | None = None) -> None:
        if reason is not None:
            engine.abort(sequence, reason)
        del self._open[sequence]
        self._left -= 1
        self._send_next()
