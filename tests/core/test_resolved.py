"""How many accelerators a server uses, from the configuration that it resolved."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_specgate.core.resolved import gpus_of


def _config(device: object, **parallel: object) -> dict[str, Any]:
    return {"device_config": {"device": device}, "parallel_config": parallel}


@pytest.mark.parametrize(
    ("config", "gpus"),
    [
        (_config("cuda", world_size=1, data_parallel_size=1), 1),
        (_config("cuda", world_size=8, data_parallel_size=1), 8),
        (_config("cuda:0", world_size=4, data_parallel_size=2), 8),
        (_config("rocm", world_size=2, data_parallel_size=3), 6),
    ],
)
def test_every_engine_spans_its_devices(config: dict[str, Any], gpus: int) -> None:
    """Tensor and pipeline parallelism make the world of one engine, and data parallelism more engines."""
    assert gpus_of(config) == gpus


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_a_cpu_is_no_accelerator(device: str) -> None:
    """A server on a CPU uses none, whatever its world size."""
    assert gpus_of(_config(device, world_size=2, data_parallel_size=1)) == 0


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"device_config": {"device": "cuda"}},
        {"device_config": None, "parallel_config": {"world_size": 1, "data_parallel_size": 1}},
        {"device_config": "cuda", "parallel_config": {"world_size": 1, "data_parallel_size": 1}},
        _config(None, world_size=1, data_parallel_size=1),
        _config(0, world_size=1, data_parallel_size=1),
        _config("cuda", world_size=1),
        _config("cuda", world_size="1", data_parallel_size=1),
        _config("cuda", world_size=0, data_parallel_size=1),
        _config("cuda", world_size=1, data_parallel_size=1.5),
        {"device_config": {"device": "cuda"}, "parallel_config": "world_size=1"},
    ],
)
def test_what_is_not_told_is_not_guessed(config: dict[str, Any]) -> None:
    """A configuration that lacks a part, or has it in another form, tells no number."""
    assert gpus_of(config) is None
