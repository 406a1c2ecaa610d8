"""When the requests of an open loop arrive."""

from __future__ import annotations

import numpy as np


def arrival_times_s(rate_per_s: float, count: int, *, burstiness: float, seed: int) -> tuple[float, ...]:
    """Draw the times at which requests arrive, in seconds after the first, which arrives at 0.

    Gaps are drawn from a gamma distribution of shape `burstiness` and mean 1 / rate: exponential, hence a Poisson
    process, for 1. They are then scaled so that the last request arrives at (count - 1) / rate exactly: every draw
    presses equally hard, and two points of one rate can be compared. `vllm bench serve` does the same
    (``get_request`` in ``vllm/benchmarks/serve.py``).

    Args:
        rate_per_s: mean rate, positive.
        count: number of requests, at least 2.
        burstiness: shape of the distribution, positive.
        seed: of the generator; the same seed gives the same times on every machine.
    """
    generator = np.random.Generator(np.random.PCG64([seed, count]))
    times = np.concatenate([[0.0], np.cumsum(generator.gamma(burstiness, size=count - 1))])
    if not times[-1]:
        # Gaps of an extremely small shape can all underflow: every request at once is no rate.
        times = np.arange(count, dtype=np.float64)
    span_s = (count - 1) / rate_per_s
    return tuple(float(share) * span_s for share in times / times[-1])
