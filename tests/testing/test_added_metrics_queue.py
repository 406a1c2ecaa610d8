"""The fake's time in the queue: from the arrival of a request to the beginning of its first step."""

from __future__ import annotations

import pytest

from pytest_specgate.testing import FakeSettings
from pytest_specgate.testing.engine import Engine, EngineSequence, sequence_random
from pytest_specgate.testing.exposition import metrics_page

QUEUE = "vllm:request_queue_time_seconds"


def one(arrived_s: float) -> EngineSequence:
    """Return a request of two tokens."""
    settings = FakeSettings()
    return EngineSequence(
        prompt_tokens=7, output_tokens=2, finish_reason="length", random=sequence_random(settings, "a"),
        arrived_s=arrived_s,
    )  # fmt: skip


def test_time_in_the_queue_is_counted_when_a_request_ends() -> None:
    """One place in the batch: the second request waits for both steps of the first, and counts at its own end."""
    engine = Engine(FakeSettings(step_s=1.0), max_sequences=1)
    for arrived_s in (10.0, 10.5):
        engine.submit(one(arrived_s))
    sums = []
    for step in range(4):
        engine.begin_step()
        engine.end_step(11.0 + step)
        sums.append((engine.readings.queued_s.count, engine.readings.queued_s.sum))

    assert sums == [(0, 0.0), (1, 0.0), (1, 0.0), (2, pytest.approx(1.5))]


def test_the_page_has_the_family_of_vllm() -> None:
    """Count and sum stand there under the names of vLLM, at zero before the first request."""
    page = metrics_page([Engine(FakeSettings())], model_name="m", created_s=1.0, cache_config={})

    assert f'{QUEUE}_count{{engine="0",model_name="m"}} 0.0\n{QUEUE}_sum{{engine="0",model_name="m"}} 0.0\n' in page
    assert f"# HELP {QUEUE} Histogram of time spent in WAITING phase for request.\n# TYPE {QUEUE} histogram\n" in page
