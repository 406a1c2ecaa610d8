"""Claims about a change whose noise was calibrated beforehand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.judge import judge
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.thresholds import CALIBRATED, NoiseFloor, Threshold
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build

FLOOR = NoiseFloor(0.01, "A/A windows of a test")


def _noise(arm: str, sd: float, *, df: float = 5.0, metric: str = "output_throughput") -> ArmNoise:
    return ArmNoise(
        arm=arm,
        at=1,
        metric=metric,
        sd=sd,
        df=df,
        boots=6,
        builds=1,
        arm_sha256=arm,
        measured_at="2026-11-02T09:00:00+00:00",
    )


def _not_worse(margin: float, metric: str = "output_throughput", *, floor: NoiseFloor | None = FLOOR) -> Threshold:
    return Threshold(metric, 1, "not_worse", margin, floor)


def _judged(
    build: type[Build],
    threshold: Threshold,
    candidate: Sequence[float],
    *,
    noise: Iterable[ArmNoise] = (),
) -> Verdict:
    """Judge a gate of one threshold against a reference of speed 1."""
    pair = build.pair()
    record = build.window(pair, [1.0] * len(candidate), candidate).model_copy(update={"noise": tuple(noise)})
    [verdict] = judge(build.gate(pair, threshold), record)
    return verdict


def test_the_vectors_of_the_rule_through_a_whole_window(build: type[Build]) -> None:
    """-0.2 and 0.1 % log with sigma_c 0.2 % of ten degrees of freedom: bounds -0.4147 and 0.3147, df 11, PASS."""
    noise = [_noise("off", 0.002), _noise("k4", 0.002)]

    verdict = _judged(build, _not_worse(-math.expm1(-0.01)), [math.exp(-0.002), math.exp(0.001)], noise=noise)

    bounds = [100 * math.log1p(end) for end in (verdict.change_low or 0, verdict.change_high or 0)]
    assert (verdict.outcome, verdict.looks) == (Outcome.PASS, 3)
    assert bounds == pytest.approx([-0.4147, 0.3147], abs=1e-4)
    assert 100 * (verdict.sd or 0) == pytest.approx(0.2121, abs=1e-4)
    assert verdict.df == pytest.approx(11)
    assert verdict.f_ratio == pytest.approx(1.125)


def test_a_calibration_is_named_with_its_boots_and_days(build: type[Build]) -> None:
    """The noise of a verdict says what it was taken of, and that a measured one replaced a declared floor."""
    noise = [_noise("off", 0.002), _noise("k4", 0.002)]

    verdict = _judged(build, _not_worse(0.05), [1.0] * 2, noise=noise)

    assert verdict.noise == (
        "pooled; calibrated: off by 6 boots of 2026-11-02, k4 by 6 boots of 2026-11-02, "
        "instead of the declared 1 % (A/A windows of a test)"
    )


def test_one_calibrated_arm_is_worth_five_degrees_of_freedom(build: type[Build]) -> None:
    """Of two arms one of which was never calibrated the other's noise is taken, for less, and the report says so."""
    verdict = _judged(build, _not_worse(0.05, floor=None), [1.0] * 2, noise=[_noise("off", 0.002, df=20.0)])

    assert verdict.df == pytest.approx(6)
    assert verdict.noise.endswith("off by 6 boots of 2026-11-02, k4 was never calibrated")


def test_rounds_that_scatter_more_than_calibrated(build: type[Build]) -> None:
    """A calibration that the rounds contradict is dropped, and flagged with its cure."""
    noise = [_noise("off", 0.002), _noise("k4", 0.002)]

    verdict = _judged(build, _not_worse(0.05, floor=None), [0.98, 1.02], noise=noise)

    assert verdict.noise.startswith("own (calibration rejected); calibrated: ")
    assert verdict.df == 1
    assert any("than the calibration allows (0.2 %)" in flag and "calibrate anew" in flag for flag in verdict.flags)


def test_a_declared_floor_that_is_contradicted_is_no_calibration(build: type[Build]) -> None:
    """The words of the rule speak of a declared floor where there is no calibration."""
    verdict = _judged(build, _not_worse(0.05), [0.9, 1.1])

    assert verdict.noise == "own (declared floor rejected); floor 1 % (A/A windows of a test)"
    assert any("declare a larger floor" in flag for flag in verdict.flags)


def test_a_margin_that_is_the_calibrated_floor(build: type[Build]) -> None:
    """Its limit is the floor of the calibration, and the claim names it as that."""
    threshold = Threshold("output_throughput", 1, "not_worse", None, CALIBRATED)

    verdict = _judged(build, threshold, [1.0] * 2, noise=[_noise("off", 0.02), _noise("k4", 0.02)])

    assert verdict.outcome == Outcome.PASS
    assert verdict.limit == pytest.approx(-math.expm1(1.959964 * 0.02))
    assert verdict.claim == "output throughput at c=1 not worse by more than its calibrated floor"


@pytest.mark.parametrize(
    "noise", [[], [_noise("off", 0.02, df=4.9)], [_noise("off", 0.02, df=2.4), _noise("k4", 0.02, df=2.4)]]
)
def test_a_calibrated_margin_without_a_calibration_is_invalid(build: type[Build], noise: list[ArmNoise]) -> None:
    """With fewer than five degrees of freedom there is no such margin: INVALID, and the remedy is named."""
    threshold = Threshold("output_throughput", 1, "not_worse", None, CALIBRATED)

    verdict = _judged(build, threshold, [1.0] * 4, noise=noise)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "no-calibration")
    assert "is the calibrated floor" in verdict.summary
    assert "run pytest --specgate-calibrate" in verdict.summary


@pytest.mark.parametrize("metric", ["ttft_p50", "output_throughput"])
def test_a_calibration_of_another_metric_says_nothing(build: type[Build], metric: str) -> None:
    """Noise is known by arm, load and metric: that of throughput does not bring TTFT an earlier look."""
    noise = [_noise("off", 0.002), _noise("k4", 0.002)]

    verdict = _judged(build, _not_worse(0.05, metric, floor=None), [1.0] * 4, noise=noise)

    assert verdict.looks == (3 if metric == "output_throughput" else 2)
