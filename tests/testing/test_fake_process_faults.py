"""Faults of the fake's process: health that comes late, deaf to signals, a flood of output."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from pytest_specgate.testing import FakeSettings, fake_vllm
from pytest_specgate.testing.log_flood import LogFlood

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.testing import RunningFake


def logged(server: RunningFake, wanted: Callable[[list[str]], bool]) -> list[str]:
    """Read the lines of the log again and again until they are as wanted, or for a long time."""
    give_up_s = time.monotonic() + 20
    lines = server.log().splitlines(keepends=True)
    while not wanted(lines) and time.monotonic() < give_up_s:
        lines = server.log().splitlines(keepends=True)
    return lines


def test_case_69_the_model_is_listed_before_health(ask: Callable[..., httpx.Response]) -> None:
    """Case 69: pages answer as soon as the port listens, health and completions with 503 until their times."""
    settings = FakeSettings(healthy_after_s=1000, ready_after_s=1000)
    with fake_vllm(settings, wait_until_healthy=False) as server:
        models = httpx.get(f"{server.url}/v1/models")
        health = httpx.get(f"{server.url}/health")
        answer = ask(server)

    assert models.json()["data"][0]["id"] == "fake-model"
    assert (models.status_code, health.status_code, answer.status_code) == (200, 503, 503)


def test_health_comes_in_the_end() -> None:
    """The context manager waits for it."""
    with fake_vllm(FakeSettings(healthy_after_s=0.2)) as server:
        health = httpx.get(f"{server.url}/health")

    assert health.status_code == 200


@pytest.mark.parametrize(
    ("settings", "ignored", "heard"),
    [
        ({"ignore_sigterm": True}, signal.SIGTERM, signal.SIGINT),
        ({"ignore_sigint": True}, signal.SIGINT, signal.SIGTERM),
    ],
)
def test_a_deaf_server_goes_on(
    settings: dict[str, bool], ignored: signal.Signals, heard: signal.Signals, ask: Callable[..., httpx.Response]
) -> None:
    """A signal it is told to ignore is logged and changes nothing; the other one still ends it."""
    with fake_vllm(FakeSettings.model_validate(settings)) as server:
        server.process.send_signal(ignored)
        logged(server, lambda lines: f"INFO:     Ignoring {ignored.name}, as programmed\n" in lines)
        answer = ask(server)
        server.process.send_signal(heard)
        exit_code = server.process.wait(10)
        log = server.log()

    assert answer.status_code == 200
    assert exit_code == 0
    assert f"Ignoring {ignored.name}, as programmed" in log


@pytest.mark.parametrize(
    ("settings", "exit_code"),
    [
        (FakeSettings(ignore_sigint=True), 0),
        (FakeSettings(ignore_sigint=True, ignore_sigterm=True), -signal.SIGKILL),
    ],
)
def test_the_block_ends_a_deaf_server(settings: FakeSettings, exit_code: int) -> None:
    """Leaving the block uses the gentlest signal that is heard."""
    with fake_vllm(settings) as server:
        pass

    assert server.process.returncode == exit_code


def test_case_64_much_output_is_printed(ask: Callable[..., httpx.Response]) -> None:
    """Case 64: exactly so many bytes after readiness and with each request, in numbered lines among the usual ones."""
    settings = FakeSettings(log_bytes_at_start=200_000, log_bytes_per_request=1000)
    with fake_vllm(settings) as server:
        for _ in range(3):
            ask(server)
        flood = logged(server, lambda lines: sum(len(line) for line in lines if line.startswith("DEBUG:")) >= 203_000)

    flood = [line for line in flood if line.startswith("DEBUG:")]

    assert sum(map(len, flood)) == 203_000
    assert flood[0].startswith("DEBUG:    programmed line 1 .")
    assert all(line.endswith("\n") and len(line) <= 80 for line in flood)


def test_case_64_a_full_pipe_stops_the_flood_only() -> None:
    """Case 64: whoever orders output does not wait for it, not even while nobody reads, nor when the reader leaves."""
    reader, writer = os.pipe()
    flood = LogFlood(writer)
    for _ in range(3):
        flood.print(1_000_000)
    first = os.read(reader, 10)
    os.close(reader)
    flood.print(1_000_000)

    assert first == b"DEBUG:    "


@pytest.mark.parametrize("size", [1, 79, 80, 81, 4000, 4001, 10_007])
def test_a_flood_has_the_asked_size(size: int) -> None:
    """However few bytes, exactly those are printed, the last one a line end."""
    reader, writer = os.pipe()
    LogFlood(writer).print(size)
    received = b""
    while len(received) < size:
        received += os.read(reader, size + 1)
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)

    assert len(received) == size
    assert received.endswith(b"\n")
    assert max(map(len, received.splitlines())) <= 79
