"""Speculative decoding against its absence, and a long draft horizon against a short one.

The finding that this project began with: speculation wins at concurrency 1, and the win shrinks or turns into a loss
as the batch fills. Run it with ``tox run -e speculation``: real vLLM on CPU and a real model of 135M parameters.

For a GPU, name the engine and the model, and nothing else changes::

    SPECGATE_MODEL=/models/my-model pytest benchmarks/test_speculation.py --specgate-engine-python=/venv/bin/python

The margins are wide on purpose: a shared host with two cores scatters by several percent between boots, and a first
run should be green. The table shows what happened all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx

from benchmarks.small_engine import LOAD, OFF, against, spec
from pytest_specgate import better, gate, measured, noise_floor, not_worse, not_worse_than_baseline

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate import Arm, MeasuredWindow, Server

FLOOR = noise_floor("20%", source="a shared two-core host: boots differ by 3-11 %, windows by 10 %")
WINDOWS = noise_floor("15%", source="the change between the arms moves by 10 % from window to window on such a host")

K4_OFF, K7_K4 = against(OFF, spec(4)), against(spec(4), spec(7))


@gate(
    K4_OFF,
    better("decode_rate_p50", at=1, by="5%", noise=FLOOR),
    not_worse("output_throughput", at=8, margin="40%", noise=FLOOR),
    not_worse("output_throughput", at=32, margin="50%", noise=FLOOR),
)
def test_k4_against_off() -> None:
    """k=4 is faster for a single user, and costs no more than half of the throughput under load."""


@gate(
    K7_K4,
    not_worse("decode_rate_p50", at=1, margin="50%", noise=FLOOR),
    not_worse("output_throughput", at=32, margin="50%", noise=FLOOR),
)
def test_k7_against_k4() -> None:
    """k=7 is not much worse than k=4; whether it gains anything is for the table to show."""


@gate(
    K4_OFF,
    not_worse_than_baseline("decode_rate_p50", at=1, margin="35%", cross_window=WINDOWS),
    not_worse_than_baseline("output_throughput", at=8, margin="35%", cross_window=WINDOWS),
    not_worse_than_baseline("output_throughput", at=32, margin="40%", cross_window=WINDOWS),
)
def test_k4_against_its_baseline() -> None:
    """What k=4 gains is what it gained before; skipped where this class of machine has no baseline."""


@measured(K4_OFF)
def test_drafts_are_accepted(specgate_window: MeasuredWindow) -> None:
    """More than one token comes out of a decode step at every concurrency."""
    for at in LOAD.points:
        steps = [found.value for found in specgate_window.values("tokens_per_step", arm="k4", at=at)]

        assert all(value is not None and value > 1 for value in steps), f"c={at}: {steps}"


def test_server_names_its_model(vllm_server: Callable[[Arm], Server]) -> None:
    """A test that just needs a server gets one."""
    server = vllm_server(OFF)

    models = httpx.get(f"{server.url}/v1/models", trust_env=False).json()["data"]

    assert server.model in [model["id"] for model in models]
