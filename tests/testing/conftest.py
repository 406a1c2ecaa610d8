"""What tests of a running fake share: a way to ask it, and a way to read its counters."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.testing import RunningFake

_WAIT_LIMIT_S: Final = 20.0


def read_counters(page: str) -> dict[str, float]:
    """Return the sums of the samples of each name, without its prefix, and under ``name:label`` those of one label.

    Such labels are the engine and the reason of ended requests: ``request_success_total:abort``.
    """
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            name = sample.name.removeprefix("vllm:")
            labels = [sample.labels[label] for label in ("finished_reason", "engine") if label in sample.labels]
            for key in (name, *(f"{name}:{label}" for label in labels)):
                totals[key] = totals.get(key, 0.0) + sample.value
    return totals


@pytest.fixture(scope="session")
def counters() -> Callable[[str], dict[str, float]]:
    """The reader of pages."""
    return read_counters


@pytest.fixture(scope="session")
def page_when(counters: Callable[[str], dict[str, float]]) -> Callable[..., dict[str, float]]:
    """A function that reads the counters of a server again and again until they are as wanted, or for a long time."""

    def read(server: RunningFake, wanted: Callable[[dict[str, float]], bool]) -> dict[str, float]:
        give_up_s = time.monotonic() + _WAIT_LIMIT_S
        page = counters(server.metrics())
        while not wanted(page) and time.monotonic() < give_up_s:
            page = counters(server.metrics())
        return page

    return read


@pytest.fixture(scope="session")
def ask() -> Callable[..., httpx.Response]:
    """A function that asks a server for an answer: 24 tokens, streamed with usage, unless told otherwise."""

    def ask_server(server: RunningFake, prompt: object = "Hello there", **fields: Any) -> httpx.Response:
        stream = fields.get("stream", True)
        body = {
            "model": "fake-model",
            "prompt": prompt,
            "max_tokens": 24,
            "ignore_eos": True,
            "stream": stream,
            **({"stream_options": {"include_usage": True}} if stream else {}),
            **fields,
        }
        return httpx.post(f"{server.url}/v1/completions", json=body)

    return ask_server
