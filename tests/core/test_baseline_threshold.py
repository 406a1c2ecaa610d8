"""Claims about a baseline: how they are written, what they are called, and what is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import api
from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from tests.core.conftest import Build

FLOOR = api.noise_floor("3%", source="six nights of a test")
POINTS = api.noise_floor("1pp", source="six nights of a test")


@pytest.mark.parametrize(
    ("metric", "delta", "limit"),
    [("output_throughput", -math.log(0.95), -0.05), ("ttft_p50", math.log(1.05), 0.05)],
)
def test_the_margin_is_a_loss_in_the_direction_of_the_metric(metric: str, delta: float, limit: float) -> None:
    """A margin of 5 % lets a rate fall by 5 %, and a time rise by 5 %."""
    claim = api.not_worse_than_baseline(metric, at=1, margin="5%")

    assert claim.delta == pytest.approx(delta)
    assert claim.declared_limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("metric", "difference", "change"),
    [
        ("output_throughput", math.log(1.2), 0.2),
        ("output_throughput", math.log(0.8), -0.2),
        ("ttft_p50", math.log(1.25), -0.2),
        ("ttft_p50", -math.log(1.2), 0.2),
    ],
)
def test_case_142_a_change_is_raw(metric: str, difference: float, change: float) -> None:
    """Case 142: what is signed "better" inside is shown as the change of the metric itself, up or down."""
    claim = api.not_worse_than_baseline(metric, at=1, margin="5%")

    assert claim.raw(difference) == pytest.approx(change)


def test_a_margin_in_points_is_linear() -> None:
    """A margin of a share in points is a plain difference, in both directions."""
    claim = api.not_worse_than_baseline("acceptance_rate", at=1, margin="2pp")

    assert (claim.points, claim.delta, claim.raw(-0.03), claim.declared_limit) == (True, 0.02, -0.03, -0.02)


@pytest.mark.parametrize(
    ("mode", "name", "claimed"),
    [
        (
            "relative",
            "c8-ttft_p50-not_worse_than_baseline",
            "TTFT p50 at c=8 not worse than its baseline by more than 0.8 % (relative: the change between the arms)",
        ),
        (
            "absolute",
            "c8-ttft_p50-not_worse_than_baseline-absolute",
            "TTFT p50 at c=8 not worse than its baseline by more than 0.8 % (absolute: the candidate)",
        ),
    ],
)
def test_a_claim_is_named_by_its_mode(mode: str, name: str, claimed: str) -> None:
    """Both modes of one metric and level are two claims about one entry."""
    claim = api.not_worse_than_baseline("ttft_p50", at=8, margin="0.8%", mode=mode)

    assert (claim.id, claim.claim, claim.kind) == (name, claimed, NOT_WORSE_THAN_BASELINE)
    assert claim.entry_id == "c8-ttft_p50"


def test_a_claim_in_points_says_so() -> None:
    """The unit of the margin is in the claim."""
    claim = api.not_worse_than_baseline("acceptance_rate", at="4/s", margin="2pp")

    assert claim.claim.startswith("acceptance rate at 4/s not worse than its baseline by more than 2 points ")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"metric": "ttft_50"}, "there is no metric 'ttft_50'; did you mean 'ttft_p50'?"),
        ({"metric": "achieved_concurrency"}, "achieved_concurrency has no better direction"),
        (
            {"metric": "preemptions"},
            "preemptions is a count, which has no ratio: use at_most('preemptions', limit='0')",
        ),
        ({"margin": 0.05}, "margin=0.05 has no unit"),
        ({"margin": "-5%"}, "margin='-5%' is not a percentage"),
        ({"margin": "NaN%"}, "margin='NaN%' is not a percentage"),
        ({"margin": "2pp"}, "points belong to shares, and ttft_p50 is none: write its margin in percent"),
        ({"metric": "output_throughput", "margin": "100%"}, "margin of 100 % on output_throughput allows it to vanish"),
        ({"metric": "acceptance_rate", "margin": "0pp"}, "a margin of 0 points on acceptance_rate is finer than any"),
        ({"mode": "both"}, "mode='both' is neither 'relative' nor 'absolute'"),
        ({"engine": "equal"}, "engine='equal' is neither 'any' nor 'same'"),
        ({"at": 0}, "a concurrency of 0 sends nothing"),
        ({"cross_window": api.noise_floor()}, "calibrations are of boots within one window and say nothing of two"),
        ({"cross_window": POINTS}, "the margin and the floor of ttft_p50 have two units: write both in one"),
        ({"metric": "acceptance_rate", "margin": "2pp", "cross_window": FLOOR}, "have two units: write both in one"),
        ({"cross_windows": FLOOR}, "has no keyword 'cross_windows'; did you mean 'cross_window'?"),
    ],
)
def test_mistakes_are_refused_where_they_are_written(given: dict[str, Any], told: str) -> None:
    """A claim that means nothing is a usage error of one sentence."""
    with pytest.raises(UsageError) as refused:
        api.not_worse_than_baseline(**{"metric": "ttft_p50", "at": 1, "margin": "5%", **given})

    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("metric", "margin"), [("ttft_p50", "150%"), ("output_throughput", "0%"), ("acceptance_rate", "5%")]
)
def test_margins_that_make_sense(metric: str, margin: str) -> None:
    """A time may more than double, a margin may be nothing at all, and a share may be judged by its ratio."""
    assert api.not_worse_than_baseline(metric, at=1, margin=margin).fraction >= 0


@pytest.mark.parametrize(("metric", "margin", "floor"), [("ttft_p50", "5%", FLOOR), ("acceptance_rate", "2pp", POINTS)])
def test_a_floor_across_windows_has_the_unit_of_the_margin(metric: str, margin: str, floor: Any) -> None:
    """Margin and floor are both relative, or both in points."""
    claim = api.not_worse_than_baseline(metric, at=1, margin=margin, cross_window=floor)

    assert claim.cross_window == floor


def test_a_family_counts_claims_about_baselines(build: type[Build]) -> None:
    """Claims across windows share the error rates of the gate, and are no intervals of their own rounds."""
    beside = build.threshold()
    gate = build.gate(build.pair(), beside, build.claim(), build.claim(mode="absolute"), build.claim("ttft_p50"))
    gate.check()

    assert gate.family == 4
    assert gate.intervals == (beside,)
    assert len(gate.baselines) == 3
    assert gate.plan(beside).family == 4


def test_case_116_a_claim_declared_twice_is_refused(build: type[Build]) -> None:
    """Case 116: the same metric, level and mode twice are refused, also with other margins; both modes may stand."""
    twice = build.gate(build.pair(), build.claim(margin=0.05), build.claim(margin=0.1))
    with pytest.raises(UsageError, match="threshold c1-output_throughput-not_worse_than_baseline is declared twice"):
        twice.check()

    build.gate(build.pair(), build.claim(), build.claim(mode="absolute"), build.threshold()).check()


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        ({"at": 4}, "at=4 is no point of the profile, which measures c=1, c=8"),
        ({"metric": "ttft_p95"}, "ttft_p95 at c=1 needs 100 requests, the profile has 10: raise requests[1]"),
        ({"metric": "ttft_p95", "mode": "absolute"}, "ttft_p95 at c=1 needs 100 requests, the profile has 10"),
        ({"metric": "goodput"}, "goodput needs limits"),
        ({"metric": "acceptance_length"}, "acceptance_length compares two speculative arms, and one arm of k4 against"),
        ({"metric": "inter_chunk_p50"}, "inter_chunk_p50 is a time per chunk"),
    ],
)
def test_what_the_load_cannot_support_is_refused(build: type[Build], claim: dict[str, Any], told: str) -> None:
    """Levels, numbers of requests and arms are checked as for any claim."""
    with pytest.raises(UsageError) as refused:
        build.gate(build.pair(), build.claim(**claim)).check()

    assert told in str(refused.value)


def test_a_level_of_the_candidate_needs_no_other_arm(build: type[Build]) -> None:
    """In absolute mode only the candidate has to have the metric: acceptance against an arm without speculation."""
    for metric in ("acceptance_length", "inter_chunk_p50"):
        build.gate(build.pair(), build.claim(metric, mode="absolute")).check()
    build.gate(build.pair(reference=7), build.claim("acceptance_length")).check()


def test_a_level_of_a_candidate_without_speculation_is_none(build: type[Build]) -> None:
    """A candidate that does not speculate has no acceptance to compare."""
    pair = build.pair(reference=4, candidate=None)

    with pytest.raises(UsageError, match="acceptance_length exists in speculative arms only, and off is none"):
        build.gate(pair, build.claim("acceptance_length", mode="absolute")).check()


@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_no_number_of_rounds_makes_a_claim_undecidable(build: type[Build], rounds: int) -> None:
    """Windows decide, not rounds: a claim about a baseline is never refused for its rounds."""
    gate = build.gate(build.pair(rounds=rounds), build.claim())
    gate.check()
    gate.check_decidable()

    assert list(gate.too_fine()) == []
