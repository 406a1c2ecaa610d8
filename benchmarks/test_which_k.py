"""Which k to run: off and four draft horizons in one window, with as few boots as the answer needs.

Run it with ``tox run -e which-k``: real vLLM on CPU and a real model of 135M parameters. The end of its report names a
k for each objective, what that rests on, and the gate file that pins it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.small_engine import LOAD, OFF, spec
from pytest_specgate import AcceptanceProbe, Outcome, RequestProfile, arm_sweep, at_least, measured, noise_floor, probe

if TYPE_CHECKING:
    from pytest_specgate import Arm, MeasuredWindow, Verdict

HOST = "a shared two-core host: single boots scatter by 3-4 % (TTFT 3-11 %)"
FLOORS = {
    "decode_rate_p50": noise_floor("10%", source=HOST),
    "output_throughput": noise_floor("10%", source=HOST),
    "ttft_p50": noise_floor("20%", source=HOST),
}


def telling(k: int) -> Arm:
    """Return the arm of a horizon that tells of each request what became of its drafts."""
    return spec(k, per_request_spec_decode_metrics="detailed")


@measured(arm_sweep(OFF, telling, ks=(1, 2, 4, 7), profile=LOAD, rounds=2, noise=FLOORS))
def test_which_k(specgate_window: MeasuredWindow) -> None:
    """Off and the longest horizon are measured in any case, and a reason stands for every k that was not."""
    booted = {boot.arm for boot in specgate_window.record.boots}

    assert {"off", "k7"} <= booted
    assert booted | set(specgate_window.record.ruled_out) == {"off", "k1", "k2", "k4", "k7"}


# vLLM 0.32 on CPU dies while it samples for 32 users ("CPU Generator does not use offset").
SAMPLED = RequestProfile(prompts="prose", input_tokens=128, output_tokens=64, requests={1: 10, 8: 16})
PROBE = AcceptanceProbe(arm=telling(4), profile=SAMPLED, temperatures=(0.0, 0.8), boots=2)


@probe(PROBE, *(at_least("acceptance_length", "2", at=at) for at in SAMPLED.points))
def test_greedy_answers_repeat_themselves() -> None:
    """A draft from greedy text gives a whole token more than a step without it, at every load."""


@probe(PROBE, at_least("acceptance_length", "2", at="1 T=0.8"))
def test_sampled_answers_do_not(verdict: Verdict) -> None:
    """What looks up its drafts in the text before finds next to nothing in text that is drawn at temperature 0.8."""
    verdict.expect(Outcome.FAIL)
