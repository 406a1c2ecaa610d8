"""A client that only stamps and stores, as a process: the floor under every client that runs on asyncio.

It writes requests made beforehand and takes the end of a chunked body as the end of an answer, which is right for the
truth server and for few others. What it stored is looked at when the point is over.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from benchmarks.client.answers import END_OF_BODY
from benchmarks.client.driving import Load, Outcome, Seen, cpu_seconds, drive, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Exchange:
    """One request and the stamped reads of its answer."""

    def __init__(self, request_id: str, sent_s: float) -> None:
        self._request_id = request_id
        self._sent_s = sent_s
        self.reads: list[tuple[float, bytes]] = []

    def seen(self) -> Seen:
        stamps = [at_s for at_s, data in self.reads for _ in range(data.count(b'"finish_reason"'))]
        ttft_s, last_s = stamps[0] - self._sent_s, stamps[-1] - self._sent_s
        return Seen(self._request_id, sent_s=self._sent_s, ttft_s=ttft_s, last_s=last_s, absolute=True)


class _Worker(asyncio.Protocol):
    """One connection, which sends its next request when an answer has ended."""

    def __init__(self, waiting: Iterator[tuple[str, bytes]]) -> None:
        self.exchanges: list[_Exchange] = []
        self.done = asyncio.get_running_loop().create_future()
        self._waiting = waiting

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send_next(self) -> None:
        request_id, data = next(self._waiting, ("", b""))
        if not data:
            self.done.set_result(None)
            return
        self.exchanges.append(_Exchange(request_id, time.perf_counter()))
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.exchanges[-1].reads.append((time.perf_counter(), data))
        if data.endswith(END_OF_BODY):
            self.send_next()


def run(load: Load) -> Outcome:
    """Run one point."""
    gc.disable()
    return asyncio.run(_run(load))


async def _run(load: Load) -> Outcome:
    address, loop = urlsplit(load.url), asyncio.get_running_loop()
    waiting = iter(list(zip(load.request_ids(), map(_request, load.bodies()), strict=True)))
    connections = [
        await loop.create_connection(lambda: _Worker(waiting), str(address.hostname), int(address.port or 80))
        for _ in range(load.concurrency)
    ]
    workers = [worker for _, worker in connections]
    cpu_s = cpu_seconds()
    for worker in workers:
        worker.send_next()
    await asyncio.gather(*(worker.done for worker in workers))
    for worker in workers:
        worker.transport.close()
    seen = [exchange.seen() for worker in workers for exchange in worker.exchanges]
    return outcome_of(seen, cpu_since_s=cpu_s)


def _request(body: bytes) -> bytes:
    head = f"POST /v1/completions HTTP/1.1\r\nhost: truth\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    drive(run)
