"""The plugin's own load client, as a process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from benchmarks.client.driving import Load, Outcome, Seen, cpu_seconds, drive, outcome_of
from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.core.profile import RequestProfile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.records import RequestRecord


def run(load: Load) -> Outcome:
    """Run one point."""
    bodies = load.bodies()
    cpu_s = cpu_seconds()
    records = _run_point(load, bodies)
    return outcome_of((_seen(record) for record in records), cpu_since_s=cpu_s)


def _run_point(load: Load, bodies: Sequence[bytes]) -> Sequence[RequestRecord]:
    profile = RequestProfile(input_tokens=128, output_tokens=load.tokens, requests={load.concurrency: load.count})
    # The client asks a server for nothing but its address.
    server = cast("Server", SimpleNamespace(url=load.url))
    return HttpLoadDriver().run_point(server, bodies, at=load.concurrency, profile=profile).requests


def _seen(record: RequestRecord) -> Seen:
    assert record.error is None, f"request {record.index} failed: {record.error}"
    assert record.ttft_s is not None
    assert record.last_token_s is not None
    # Its sending times count from the start of the point, which it keeps to itself.
    return Seen(
        f"r{record.index}",
        sent_s=record.sent_s,
        ttft_s=record.ttft_s,
        last_s=record.last_token_s,
        absolute=False,
    )


if __name__ == "__main__":
    drive(run)
