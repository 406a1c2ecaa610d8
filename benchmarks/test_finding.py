"""The finding that this project began with, on an engine that needs no GPU: speculation wins alone, and not in a crowd.

Run it with ``tox run -e finding``: real vLLM on CPU and a real model of 135M parameters. Three claims about n-gram
look-up (k=4 wins for a single user; the same gain is not there at c=32; k=7 gains no 10 % over k=4 there), and a
control: the target as its own draft model, whose drafts are nearly all accepted, and which gains nothing all the same.

A claim that is expected to FAIL is how a gate says that something is *not* so: should it pass one day, the test fails,
and the finding has to be written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.small_engine import LOAD, MODEL, OFF, against, spec
from pytest_specgate import AcceptanceProbe, Outcome, at_least, better, gate, noise_floor, probe

if TYPE_CHECKING:
    from pytest_specgate import Verdict

K4, K7 = spec(4), spec(7)
SELF4 = OFF.vary(
    "self4", args={"speculative_config": {"method": "draft_model", "model": MODEL, "num_speculative_tokens": 4}}
)

FLOOR = noise_floor("10%", source="a shared two-core host: single boots scatter by 3-4 %, differences of two by 10 %")


@gate(against(OFF, K4), better("decode_rate_p50", at=1, by="15%", noise=FLOOR))
def test_k4_wins_for_a_single_user() -> None:
    """The speed that one user feels is at least 15 % higher with k=4."""


@gate(against(OFF, K4), better("output_throughput", at=32, by="15%", noise=FLOOR))
def test_the_gain_is_gone_under_load(verdict: Verdict) -> None:
    """The same gain is not there with 32 users: that it is must fail."""
    verdict.expect(Outcome.FAIL)


@gate(against(K4, K7), better("output_throughput", at=32, by="10%", noise=FLOOR))
def test_three_more_tokens_gain_no_ten_percent_under_load(verdict: Verdict) -> None:
    """Three more draft tokens are paid for and gain no 10 % with 32 users."""
    verdict.expect(Outcome.FAIL)


@gate(against(OFF, SELF4), better("decode_rate_p50", at=1, by="10%", noise=FLOOR))
def test_acceptance_alone_gains_no_ten_percent(verdict: Verdict) -> None:
    """A draft model as slow as the target gains no 10 % for a single user, though its drafts are accepted."""
    verdict.expect(Outcome.FAIL)


@probe(
    AcceptanceProbe(arm=SELF4, profile=LOAD, temperatures=(0.0,), boots=2),
    at_least("acceptance_rate", "90%"),
    at_least("acceptance_rate_position_4", "90%"),
    at_least("tokens_per_step", "3.5"),
)
def test_a_model_accepts_its_own_drafts() -> None:
    """The control of the instrument: the target as its own draft is accepted nearly always, at every load."""
