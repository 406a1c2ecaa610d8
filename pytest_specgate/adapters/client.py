"""Closed-loop streaming load over HTTP.

Each worker has its own client, hence its own connection: one shared pool costs time that grows with the concurrency.
Reads are stamped as they arrive; they are parsed when the point is over, outside the receive loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import hashlib
import json
from time import perf_counter_ns
from typing import TYPE_CHECKING

import httpx

from pytest_specgate.core.profile import ENDPOINT
from pytest_specgate.core.records import RequestRecord, redacted_text
from pytest_specgate.core.sse import Read, timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.profile import RequestProfile

_CONNECT_S = 10.0
_HEADERS = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    # A compressed stream would be stamped when a block is full, not when its tokens arrive.
    "accept-encoding": "identity",
}


@dataclasses.dataclass(slots=True)
class _Exchange:
    """One request while it runs; times are of the monotonic clock, in nanoseconds."""

    index: int
    sent_ns: int = 0
    status: int | None = None
    reads: list[tuple[int, bytes]] = dataclasses.field(default_factory=list)
    failure: str | None = None


class ClosedLoopClient:
    """Port `LoadDriver`: `concurrency` workers, each sending its next request when its last one ended."""

    def run_point(
        self, server: Server, bodies: Sequence[bytes], *, concurrency: int, profile: RequestProfile
    ) -> tuple[RequestRecord, ...]:
        """Send bodies in order; return one record each, in sending order, failed ones too."""
        with _garbage_collection_off():
            started_ns, exchanges = asyncio.run(
                _closed_loop(server.url, bodies, concurrency=concurrency, timeout_s=profile.request_timeout_s)
            )
        return tuple(_record(exchange, bodies[exchange.index], started_ns=started_ns) for exchange in exchanges)


@contextlib.contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Keep collections out of the receive loop; what they would free is freed afterwards.

    Nothing is collected beforehand either: an interrupt that arrives while a finaliser runs is lost.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


async def _closed_loop(
    url: str, bodies: Sequence[bytes], *, concurrency: int, timeout_s: float
) -> tuple[int, list[_Exchange]]:
    """Run all workers and return the start of the point and every exchange."""
    exchanges = [_Exchange(index) for index in range(len(bodies))]
    waiting = iter(exchanges)
    timeout = httpx.Timeout(timeout_s, connect=_CONNECT_S)
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, headers=_HEADERS, timeout=timeout, trust_env=False)
            )
            for _ in range(min(concurrency, len(bodies)))
        ]
        await asyncio.gather(*map(_connect, clients))
        started_ns = perf_counter_ns()
        await asyncio.gather(*(_work(client, waiting, bodies) for client in clients))
    return started_ns, exchanges


async def _connect(client: httpx.AsyncClient) -> None:
    """Open the connection before the clock runs; a server that cannot be reached shows in the requests."""
    with contextlib.suppress(httpx.HTTPError):
        await client.get("/health")


async def _work(client: httpx.AsyncClient, waiting: Iterator[_Exchange], bodies: Sequence[bytes]) -> None:
    for exchange in waiting:
        await _exchange(client, exchange, body=bodies[exchange.index])


async def _exchange(client: httpx.AsyncClient, exchange: _Exchange, *, body: bytes) -> None:
    """Send one request and stamp every read of its answer."""
    request = client.build_request("POST", ENDPOINT, content=body)
    exchange.sent_ns = perf_counter_ns()
    try:
        response = await client.send(request, stream=True)
        exchange.status = response.status_code
        try:
            async for data in response.aiter_raw():
                exchange.reads.append((perf_counter_ns(), data))
        finally:
            await response.aclose()
    except httpx.HTTPError as error:
        exchange.failure = f"{type(error).__name__}: {error}".rstrip(": ")


def _record(exchange: _Exchange, body: bytes, *, started_ns: int) -> RequestRecord:
    """Turn an exchange into a record."""
    reads = [Read((at - exchange.sent_ns) / 1e9, data) for at, data in exchange.reads]
    refused = None if exchange.status in {None, httpx.codes.OK} else _refusal(exchange)
    seen = timeline([] if refused else reads, failure=refused or exchange.failure)
    events = seen.token_events
    return RequestRecord(
        index=exchange.index,
        sent_s=(exchange.sent_ns - started_ns) / 1e9,
        status=exchange.status,
        error=None if seen.error is None else redacted_text(seen.error.encode("utf-8", "replace").decode()),
        ttft_s=events[0] if events else None,
        first_text_s=seen.first_text_s,
        last_token_s=events[-1] if events else None,
        closed_s=reads[-1].at_s if reads else None,
        prompt_tokens=seen.prompt_tokens,
        output_tokens=seen.output_tokens,
        token_events=len(events),
        finish_reason=seen.finish_reason,
        text_sha256=hashlib.sha256(seen.text.encode()).hexdigest(),
        body_sha256=hashlib.sha256(body).hexdigest(),
    )


def _refusal(exchange: _Exchange) -> str:
    """Name the HTTP status and what the server said about it."""
    text = b"".join(data for _, data in exchange.reads).decode("utf-8", errors="replace")
    message: object = text
    with contextlib.suppress(ValueError):
        body = json.loads(text)
        error = body.get("error", body) if isinstance(body, dict) else body
        message = error.get("message", error) if isinstance(error, dict) else error
    return f"HTTP {exchange.status}: {redacted_text(str(message))[:300]}"
