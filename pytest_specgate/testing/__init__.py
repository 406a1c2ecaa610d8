"""Public helpers to test without a GPU: a fake vLLM with real HTTP, real events and real metrics."""

from __future__ import annotations

from pytest_specgate.testing.launch import RunningFake, fake_vllm
from pytest_specgate.testing.settings import FakeSettings

__all__ = ["FakeSettings", "RunningFake", "fake_vllm"]
