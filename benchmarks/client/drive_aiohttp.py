"""A bare aiohttp client, as a process: a session per worker, lines split off the stream, nothing kept but stamps.

What anyone would write in an afternoon; it shows how much of a figure is the price of a common HTTP library.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from typing import TYPE_CHECKING

import aiohttp

from benchmarks.client.driving import Load, Outcome, Seen, cpu_seconds, drive, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEADERS = {"content-type": "application/json"}


def run(load: Load) -> Outcome:
    """Run one point."""
    return asyncio.run(_run(load))


async def _run(load: Load) -> Outcome:
    waiting = iter(zip(load.request_ids(), load.bodies(), strict=True))
    async with contextlib.AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(aiohttp.ClientSession(load.url)) for _ in range(load.concurrency)]
        await asyncio.gather(*map(_connect, sessions))
        gc.disable()
        cpu_s = cpu_seconds()
        done = await asyncio.gather(*(_work(session, waiting) for session in sessions))
        return outcome_of((seen for share in done for seen in share), cpu_since_s=cpu_s)


async def _connect(session: aiohttp.ClientSession) -> None:
    async with session.get("/health") as response:
        await response.read()


async def _work(session: aiohttp.ClientSession, waiting: Iterator[tuple[str, bytes]]) -> list[Seen]:
    return [await _send(session, request_id, body=body) for request_id, body in waiting]


async def _send(session: aiohttp.ClientSession, request_id: str, *, body: bytes) -> Seen:
    sent_s = time.perf_counter()
    async with session.post("/v1/completions", data=body, headers=_HEADERS) as response:
        stamps = [time.perf_counter() async for line in response.content if b'"finish_reason"' in line]
    return Seen(request_id, sent_s=sent_s, ttft_s=stamps[0] - sent_s, last_s=stamps[-1] - sent_s, absolute=True)


if __name__ == "__main__":
    drive(run)
