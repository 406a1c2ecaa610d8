"""Public helpers to test without a GPU: a fake vLLM with real HTTP, real events and real metrics, and its truth.

`fake_vllm` runs one in a process of its own; `ENGINE_COMMAND` makes it the engine of a gate file; `simulate` runs its
engines on made-up time, without a process. `FakeSettings` programs speed, acceptance and faults; `FakeTruth` is what
really happened.
"""

from __future__ import annotations

from pytest_specgate.testing.launch import ENGINE_COMMAND, RunningFake, fake_vllm
from pytest_specgate.testing.settings import FakeSettings
from pytest_specgate.testing.simulation import SimulatedRequest, Simulation, simulate
from pytest_specgate.testing.truth import EngineTruth, FakeTruth, RequestTruth

__all__ = [
    "ENGINE_COMMAND",
    "EngineTruth",
    "FakeSettings",
    "FakeTruth",
    "RequestTruth",
    "RunningFake",
    "SimulatedRequest",
    "Simulation",
    "fake_vllm",
    "simulate",
]
