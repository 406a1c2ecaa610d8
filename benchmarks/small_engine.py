"""The arms and the load that all gates of this folder share: a real model of 135M parameters on CPU.

For a GPU, name the engine and the model, and nothing else changes::

    SPECGATE_MODEL=/models/my-model pytest benchmarks/test_finding.py --specgate-engine-python=/venv/bin/python
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_specgate import EMBEDDED_MODEL, Arm, ArmPair, RequestProfile

if TYPE_CHECKING:
    from typing import Any

MODEL = os.environ.get("SPECGATE_MODEL", EMBEDDED_MODEL)
ON_CPU = MODEL == EMBEDDED_MODEL

OFF = Arm(
    "off",
    model=MODEL,
    # Compiling for a CPU takes longer than the measurement; a GPU should serve as in production.
    args={"max_model_len": 2048, "enable_prefix_caching": False, "enforce_eager": True if ON_CPU else None},
    env={"VLLM_CPU_KVCACHE_SPACE": "2"} if ON_CPU else {},
)

LOAD = RequestProfile(prompts="prose", input_tokens=128, output_tokens=64, requests={1: 10, 8: 16, 32: 64})


def spec(k: int, **further: Any) -> Arm:
    """Return the arm that looks k tokens a step up among those before (n-grams), with further engine arguments."""
    ngram = {"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 2, "num_speculative_tokens": k}
    return OFF.vary(f"k{k}", args={"speculative_config": ngram, **further})


def against(reference: Arm, candidate: Arm) -> ArmPair:
    """Return a pair of two rounds that differs in its speculation alone."""
    varies = "args.speculative_config"
    return ArmPair(reference=reference, candidate=candidate, varies=varies, profile=LOAD, rounds=2)
