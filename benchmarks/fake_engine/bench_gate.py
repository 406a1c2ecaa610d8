"""A gate whose engine is known: the fake vLLM, whose step time and acceptance are set.

Its baseline is committed, under a class of machine that is declared and not found out, since the engine's pace is its
own and not that of the machine. So every change of this project is measured against windows of an earlier one::

    pytest benchmarks/fake_engine/bench_gate.py --specgate-host-class=fake-engine \
        --specgate-engine-command="python -m pytest_specgate.testing.fake_vllm"

A change of the client, the counters or a formula that moves a figure turns it red.
"""

from __future__ import annotations

from pytest_specgate import Arm, ArmPair, RequestProfile, gate, noise_floor, not_worse, not_worse_than_baseline

OFF = Arm("off", model="fake-model", args={"fake": {"step_s": 0.01}})
K4 = OFF.vary(
    "k4",
    args={
        "fake": {"step_s": 0.0165, "acceptance": [0.75, 0.7, 0.6, 0.5]},
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 4},
    },
)
LOAD = RequestProfile(prompts="prose", input_tokens=32, output_tokens=24, requests={1: 10, 8: 24}, warmup_requests=2)
PAIR = ArmPair(reference=OFF, candidate=K4, varies=("args.speculative_config", "args.fake"), profile=LOAD, rounds=2)

WITHIN = noise_floor("20%", source="a busy two-core host that serves nothing else from its own pace")
ACROSS = noise_floor("10%", source="the same host on another day")


@gate(
    PAIR,
    not_worse("output_throughput", at=1, margin="60%", noise=WITHIN),
    not_worse_than_baseline("output_throughput", at=1, margin="30%", cross_window=ACROSS),
    not_worse_than_baseline("output_throughput", at=8, margin="30%", cross_window=ACROSS),
    not_worse_than_baseline("decode_rate_p50", at=1, margin="30%", mode="absolute", cross_window=ACROSS),
    not_worse_than_baseline("acceptance_length", at=8, margin="10%", mode="absolute", cross_window=ACROSS),
)
def test_k4_against_off() -> None:
    """What the fake engine serves is measured as it was measured before."""
