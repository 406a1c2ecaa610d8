"""Streaming load over HTTP: closed loops of workers, and open loops of arrivals."""

from __future__ import annotations

import array
import asyncio
import dataclasses
import functools
import math
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

import httpx

from pytest_specgate.adapters.collect import Attempt, Collector, chunk_gaps, percentile
from pytest_specgate.adapters.load import LEFT, Sender, Share
from pytest_specgate.adapters.load_process import run_shares
from pytest_specgate.adapters.watch import watched
from pytest_specgate.core.arrivals import arrival_times_s
from pytest_specgate.core.levels import concurrency_of, rate_per_s
from pytest_specgate.core.records import ClientRecord, PointLoad
from pytest_specgate.core.redaction import redacted_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import TypeAlias

    from pytest_specgate.adapters.load import ShareResult
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import RequestRecord

    Watch: TypeAlias = Callable[[Callable[[], object]], AbstractContextManager[object]]

WORKERS_PER_PROCESS: Final = 256
"""Closed-loop workers that one process carries: with 100 chunks a second each, it rests for half of its time."""

_ERROR_LENGTH: Final = 2000
_REFUSAL_LENGTH: Final = 310
"""Pages of text in the body of a refusal do not become the message."""

_NOT_KEPT: Final = " (more is not kept: it may quote the answer)"

_OPENED_BEFOREHAND: Final = 32
"""Connections that an open loop starts with; it opens more as it needs them."""


class HttpLoadDriver:
    """Port `LoadDriver`.

    Args:
        keep_answers: whether records carry the texts of greedy answers; without, nothing of any answer leaves it.
        chunk_times: whether records carry the time of every token event.
    """

    def __init__(self, *, keep_answers: bool = True, chunk_times: bool = False) -> None:
        self._keep_answers = keep_answers
        self._chunk_times = chunk_times

    def run_point(self, server: Server, bodies: Sequence[bytes], *, at: Level, profile: RequestProfile) -> PointLoad:
        """Send bodies in order; return one record each, in sending order, failed ones too.

        When the server leaves meanwhile, what is open and what was not sent yet has failed.

        Raises:
            LoadError: a process of the client failed.
        """
        shares = [self._kept(share) for share in _shares(server.url, bodies, at=at, profile=profile)]
        order = () if shares[0].due_s else range(len(bodies))
        watch = functools.partial(watched, server)
        if len(shares) == 1:
            results = [_run_here(shares[0], order, watch=watch)]
        else:
            results = run_shares(shares, order=order, watched=watch)
        load = _merged(results, bodies, cleaned=server.cleaned)
        return load if self._keep_answers else _without_quotations(load)

    def _kept(self, share: Share) -> Share:
        """Return a share that brings back no more than is to be kept."""
        keep_text = share.keep_text and self._keep_answers
        return dataclasses.replace(share, keep_text=keep_text, keep_times=self._chunk_times)


def _run_here(share: Share, order: Sequence[int], *, watch: Watch) -> ShareResult:
    async def run() -> ShareResult:
        sender, loop = Sender(share, iter(order)), asyncio.get_running_loop()
        with watch(lambda: loop.call_soon_threadsafe(sender.stop)):
            async with sender:
                return await sender.run(started_ns=perf_counter_ns())

    return asyncio.run(run())


def _shares(url: str, bodies: Sequence[bytes], *, at: Level, profile: RequestProfile) -> list[Share]:
    """Split a point among processes: the workers of a closed loop, the requests of an open one."""
    rate = rate_per_s(at)
    workers = concurrency_of(at) or max(_OPENED_BEFOREHAND, profile.client_processes or 1)
    asked = profile.client_processes or math.ceil((concurrency_of(at) or 1) / WORKERS_PER_PROCESS)
    processes = max(1, min(asked, workers, len(bodies)))
    due_s = arrival_times_s(rate, len(bodies), burstiness=profile.burstiness, seed=profile.order_seed) if rate else ()
    numbered = dict(enumerate(bodies))
    return [
        Share(
            url=url,
            # Whichever process draws a ticket must have its body; in an open loop each has its own requests.
            bodies={i: numbered[i] for i in range(number, len(bodies), processes)} if rate else numbered,
            workers=len(range(number, workers, processes)),
            timeout_s=profile.request_timeout_s,
            due_s={i: due_s[i] for i in range(number, len(due_s), processes)},
            keep_text=profile.greedy_at(at),
            path=profile.path,
        )
        for number in range(processes)
    ]


def _merged(
    results: Sequence[ShareResult], bodies: Sequence[bytes] = (), *, cleaned: Callable[[str], str] = redacted_text
) -> PointLoad:
    """Put together what the processes of a point bring back; their stamps are of one clock."""
    found = [_shown(request, cleaned) for result in results for request in result.requests]
    requests = sorted([*found, *_never_sent(bodies, sent={request.index for request in found})], key=_index)
    gaps_s: array.array[float] = array.array("d")
    for result in results:
        gaps_s.extend(result.gaps_s)
    late_s = [request.sent_s - request.due_s for request in requests if request.due_s is not None]
    client = ClientRecord(
        processes=len(results),
        wall_s=max(result.wall_s for result in results),
        cpu_s=math.fsum(result.cpu_s for result in results),
        busiest_cpu_share=max(result.cpu_share for result in results),
        lag_p50_s=max(result.lag_s(0.5) for result in results),
        lag_p95_s=max(result.lag_s(0.95) for result in results),
        lag_p99_s=max(result.lag_s(0.99) for result in results),
        lag_max_s=max(result.lag_s(1.0) for result in results),
        late_sends_p95_s=percentile(late_s, 0.95) if late_s else None,
    )
    return PointLoad(requests=tuple(requests), gaps=chunk_gaps(gaps_s), client=client)


def _never_sent(bodies: Sequence[bytes], *, sent: Collection[int]) -> Iterator[RequestRecord]:
    """Yield a record of every request that the server's death prevented."""
    missing = [(index, body) for index, body in enumerate(bodies) if index not in sent]
    if missing:
        collector = Collector(started_ns=0)
        for index, body in missing:
            collector.add(Attempt(index, body, failure=LEFT))
        yield from collector.finish()[0]


def _shown(request: RequestRecord, cleaned: Callable[[str], str]) -> RequestRecord:
    """Return a record without secrets: this takes a millisecond an answer, so it waits for the end of the load."""
    text, error = request.text, request.error
    if error is not None:
        # Not cut before: a part of a secret would not be recognised.
        error = cleaned(error)[: _ERROR_LENGTH if request.status in {None, httpx.codes.OK} else _REFUSAL_LENGTH]
    return request.model_copy(update={"text": None if text is None else redacted_text(text), "error": error})


def _without_quotations(load: PointLoad) -> PointLoad:
    """Return a point whose errors quote nothing of an answer."""
    return load.model_copy(update={"requests": tuple(map(_without_quotation, load.requests))})


def _without_quotation(request: RequestRecord) -> RequestRecord:
    """Return a record whose error ends where it may begin to quote, at its first colon, unless it is a refusal."""
    if request.error is None or request.status is None or httpx.codes.is_error(request.status):
        return request
    said, colon, _ = request.error.partition(":")
    return request.model_copy(update={"error": said + _NOT_KEPT}) if colon else request


def _index(request: RequestRecord) -> int:
    return request.index
