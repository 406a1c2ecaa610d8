"""Gates as they are declared: what a threshold means, and what is refused before anything starts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.known import known_noise
from pytest_specgate.core.noise import UNKNOWN_NOISE, declared_noise
from pytest_specgate.core.plan import Plan
from pytest_specgate.core.thresholds import NoiseFloor

if TYPE_CHECKING:
    from tests.core.conftest import Build

Kind = Literal["not_worse", "better"]


@pytest.mark.parametrize(
    ("metric", "kind", "delta", "limit"),
    [
        ("output_throughput", "not_worse", -math.log(0.95), -0.05),
        ("ttft_p50", "not_worse", math.log(1.05), 0.05),
        ("output_throughput", "better", -math.log(1.05), 0.05),
        ("ttft_p50", "better", math.log(0.95), -0.05),
    ],
)
def test_margin_of_a_threshold(build: type[Build], *, metric: str, kind: Kind, delta: float, limit: float) -> None:
    """A margin of 5 % is a loss for `not_worse` and a gain for `better`, in the direction of the metric."""
    threshold = build.threshold(metric, kind=kind)

    assert threshold.claim_on(UNKNOWN_NOISE).delta == pytest.approx(delta)
    assert threshold.declared_limit == limit


@pytest.mark.parametrize(
    ("kind", "claim"),
    [
        ("not_worse", "TTFT p50 at c=8 not worse by more than 0.8 %"),
        ("better", "TTFT p50 at c=8 better by at least 0.8 %"),
    ],
)
def test_a_threshold_says_what_it_claims(build: type[Build], *, kind: Kind, claim: str) -> None:
    """A claim in words names metric, point, direction and size; its id names metric, point and kind."""
    threshold = build.threshold("ttft_p50", 8, margin=0.008, kind=kind)

    assert (threshold.claim, threshold.id) == (claim, f"c8-ttft_p50-{kind}")


def test_noise_of_a_threshold(build: type[Build]) -> None:
    """A declared floor is the noise of a threshold; without one nothing is known."""
    declared, unknown = build.threshold(floor=0.004), build.threshold(floor=None)

    assert known_noise(declared, build.pair(), ()).noise == NoiseFloor(0.004, "A/A").noise == declared_noise(0.004)
    assert known_noise(unknown, build.pair(), ()).noise == UNKNOWN_NOISE


def test_all_thresholds_share_the_error_rates(build: type[Build]) -> None:
    """The family of a gate counts all of its thresholds, whatever their points and looks."""
    known, unknown = build.threshold(), build.threshold("ttft_p50", 8, floor=None)
    gate = build.gate(build.pair(), known, unknown, build.threshold("e2e_p50"))

    assert gate.plan(known) == Plan((2, 4, 6), family=3)
    assert gate.plan(unknown) == Plan((4, 6), family=3)


def test_a_sound_gate_is_accepted(build: type[Build]) -> None:
    """Claims on different metrics, points and kinds of one pair go together."""
    gate = build.gate(
        build.pair(requests={1: 10, 8: 100}),
        build.threshold(),
        build.threshold(at=8),
        build.threshold(kind="better"),
        build.threshold("ttft_p95", 8, floor=None),
    )

    gate.check()


def test_an_unknown_point_is_refused(build: type[Build]) -> None:
    """A claim at a concurrency that the profile does not measure is refused with those it measures."""
    gate = build.gate(build.pair(), build.threshold(at=4))

    with pytest.raises(UsageError, match="at=4 is no point of the profile, which measures c=1, c=8"):
        gate.check()


def test_a_claim_declared_twice_is_refused(build: type[Build]) -> None:
    """Two claims of one metric, point and kind are refused, also with different margins."""
    gate = build.gate(build.pair(), build.threshold(margin=0.05), build.threshold(margin=0.1))

    with pytest.raises(UsageError, match="threshold c1-output_throughput-not_worse is declared twice"):
        gate.check()


@pytest.mark.parametrize(
    ("metric", "needed", "given"), [("ttft_p50", 10, 9), ("ttft_p95", 100, 99), ("decode_rate_p1", 500, 499)]
)
def test_case_38_an_unsupported_percentile_is_refused(
    build: type[Build], *, metric: str, needed: int, given: int
) -> None:
    """Case 38: a percentile of too few requests is refused with the number it needs; enough are accepted."""
    threshold = build.threshold(metric)

    build.gate(build.pair(requests={1: needed}), threshold).check()
    with pytest.raises(UsageError) as raised:
        build.gate(build.pair(requests={1: given}), threshold).check()

    expected = f"{metric} at c=1 needs {needed} requests, the profile has {given}: raise requests[1]"
    assert str(raised.value) == expected


@pytest.mark.parametrize("metric", ["acceptance_rate", "acceptance_length"])
def test_speculation_metrics_need_two_speculative_arms(build: type[Build], metric: str) -> None:
    """What only a speculative server counts is compared between two of them, not against one without."""
    build.gate(build.pair(reference=7, candidate=4), build.threshold(metric)).check()

    with pytest.raises(UsageError, match=f"{metric} compares two speculative arms, and one arm of k4 against off is"):
        build.gate(build.pair(), build.threshold(metric)).check()


@pytest.mark.parametrize(
    ("metric", "kind", "margin", "sentence"),
    [
        ("output_throughput", "not_worse", 1.0, "margin of 100 % on output_throughput allows it to vanish"),
        ("output_throughput", "not_worse", 2.5, "margin of 250 % on output_throughput allows it to vanish"),
        ("ttft_p50", "better", 1.0, "ttft_p50 cannot fall by 100 %"),
    ],
)
def test_margins_that_allow_anything_are_refused(
    build: type[Build], *, metric: str, kind: Kind, margin: float, sentence: str
) -> None:
    """A rate that may fall by 100 %, or a time that must, is a mistake."""
    with pytest.raises(UsageError) as raised:
        build.gate(build.pair(), build.threshold(metric, margin=margin, kind=kind)).check()

    assert str(raised.value) == sentence


@pytest.mark.parametrize(("metric", "kind"), [("ttft_p50", "not_worse"), ("output_throughput", "better")])
def test_margins_above_100_percent_that_make_sense(build: type[Build], *, metric: str, kind: Kind) -> None:
    """A time may be allowed to double, and a rate asked to."""
    build.gate(build.pair(), build.threshold(metric, margin=1.0, kind=kind)).check()


@pytest.mark.parametrize("rounds", [1, 2])
def test_an_undecidable_threshold_is_refused(build: type[Build], rounds: int) -> None:
    """One or two rounds without known noise can never decide, and the message shows the ways out."""
    with pytest.raises(UsageError) as raised:
        build.gate(build.pair(rounds=rounds), build.threshold(floor=None)).check_decidable()

    assert str(raised.value) == (
        f"threshold c1-output_throughput-not_worse can never be decided with rounds={rounds}: raise rounds to 3 or "
        "more, calibrate (pytest --specgate-calibrate), or declare a floor (noise=noise_floor('2%', source='...'))"
    )


@pytest.mark.parametrize(("rounds", "floor"), [(1, 0.004), (2, 0.004), (3, None), (6, None)])
def test_a_decidable_threshold_is_accepted(build: type[Build], *, rounds: int, floor: float | None) -> None:
    """A declared floor makes one round enough; without one it takes three."""
    gate = build.gate(build.pair(rounds=rounds), build.threshold(floor=floor))
    gate.check()
    gate.check_decidable()
