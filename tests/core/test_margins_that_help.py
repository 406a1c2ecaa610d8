"""Margins that nothing could decide are refused where they are written, and what is advised instead is enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import api
from pytest_specgate.core import planning
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.judge import judge
from pytest_specgate.core.noise import Noise
from pytest_specgate.core.plan import Plan, looks
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.statistics import look
from pytest_specgate.core.thresholds import CALIBRATED, CurveThreshold, NoiseFloor, Threshold
from pytest_specgate.core.units import rounded_up
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from tests.core.conftest import Build

POINTS = NoiseFloor(0.01, "A/A windows of a test", points=True)


def _noise(arm: str, *, df: float = 5.0, sd: float = 0.01, metric: str = "ttft_p50") -> ArmNoise:
    fields: dict[str, Any] = {"arm": arm, "at": 1, "metric": metric, "sd": sd, "df": df, "boots": 6, "builds": 1}
    return ArmNoise(**fields, arm_sha256=arm, measured_at="2026-11-02T09:00:00+00:00")


@pytest.mark.parametrize("kind", ["not_worse", "equivalent"])
def test_a_margin_of_no_points_is_refused(kind: Any) -> None:
    """No share is finer than its steps, so such a gate would boot everything and be invalid in the end."""
    with pytest.raises(UsageError, match="a margin of 0 points on acceptance_rate is finer than any share"):
        Threshold("acceptance_rate", 1, kind, 0.0, points=True)


@pytest.mark.parametrize(("candidate", "outcome"), [(2, Outcome.PASS), (7, Outcome.FAIL)])
def test_a_gain_of_no_points_is_judged(build: type[Build], candidate: int, *, outcome: Outcome) -> None:
    """Better by anything at all is a claim that needs no resolution: more is more."""
    pair = build.pair(reference=4, candidate=candidate, rounds=4)
    claim = api.better("acceptance_rate", at=1, by="0pp")

    [verdict] = judge(build.gate(pair, claim), build.window(pair, [1.0] * 4, [1.0] * 4))

    assert verdict.outcome == outcome


def test_a_curve_takes_no_floor_in_points() -> None:
    """A curve is of ratios: half a point of a share is no noise of them."""
    with pytest.raises(UsageError, match="a curve is judged by ratios: write its noise floor in percent"):
        CurveThreshold(1, "acceptance_rate", POINTS)


@pytest.mark.parametrize(("metric", "points"), [("acceptance_rate", True), ("ttft_p50", False)])
def test_a_calibrated_margin_has_the_unit_of_the_calibration(metric: str, *, points: bool) -> None:
    """Shares are calibrated in points, so their calibrated floor is a margin in points; all else is in percent."""
    assert api.not_worse(metric, at=1, margin=api.noise_floor()).points == points


def test_a_calibrated_margin_of_a_share_can_be_decided(build: type[Build]) -> None:
    """What one calibration tells of a share is enough to make it the margin."""
    gate = build.gate(build.pair(reference=4, candidate=7), api.not_worse(
        "acceptance_rate", at=1, margin=api.noise_floor()
    ))  # fmt: skip

    gate.check_decidable([_noise(arm, metric="acceptance_rate") for arm in ("k4", "k7")])


def test_a_relative_margin_of_a_share_has_no_calibration() -> None:
    """It is refused with the spelling that has one, instead of asking for calibrations for ever."""
    with pytest.raises(UsageError, match="calibrations of acceptance_rate are in points: write its margin in points"):
        Threshold("acceptance_rate", 1, "not_worse", 0.05, CALIBRATED)


@pytest.mark.parametrize(
    ("noises", "words"),
    [
        ((), "raise rounds to 3 or more, calibrate (pytest --specgate-calibrate), or declare a floor"),
        (
            (_noise("off", df=1.0), _noise("k4", df=1.0)),
            "calibrate with more boots, 2 degrees of freedom are too few (pytest --specgate-calibrate)",
        ),
    ],
)
def test_a_short_calibration_is_told_from_none(build: type[Build], noises: tuple[ArmNoise, ...], words: str) -> None:
    """Who has calibrated is not told to calibrate, but with more boots."""
    gate = build.gate(build.pair(rounds=2), api.not_worse("ttft_p50", at=1, margin="5%"))

    with pytest.raises(UsageError) as caught:
        gate.check_decidable(noises)

    assert words in str(caught.value)


@pytest.mark.parametrize("sd", [0.0103, 0.0077, 0.0031, 0.0])
@pytest.mark.parametrize("metric", ["ttft_p50", "output_throughput"])
def test_the_margin_that_is_advised_is_enough(build: type[Build], metric: str, sd: float) -> None:
    """A gate with the smallest usable margin, as it was printed, is not told again that it is too fine."""
    noises = [_noise(arm, sd=sd, metric=metric) for arm in ("off", "k4")]
    fine = build.gate(build.pair(), api.not_worse(metric, at=1, margin="0.001%"))
    [sentence] = fine.too_fine(noises)
    advised = sentence.rpartition("the smallest usable one is ")[2].replace(" ", "")

    assert list(build.gate(build.pair(), api.not_worse(metric, at=1, margin=advised)).too_fine(noises)) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.4, "1.4"),
        (1.4000001, "1.5"),
        (1.41, "1.5"),
        (0.0731, "0.074"),
        (9.91, "10"),
        (12.01, "13"),
        (123.0, "130"),
        (1.4 + 1e-15, "1.4"),
    ],
)
def test_numbers_rounded_up(value: float, text: str) -> None:
    """Two digits, never below the value but for what a machine's arithmetic adds."""
    assert rounded_up(value) == text


def test_the_planner_believes_no_less_noise_than_the_rule() -> None:
    """A calibration without scatter is worth 0.05 %, in the plan as in the judgement, so no margin is free."""
    silent = Noise(0.0, 10.0)
    smallest = planning.smallest_margin(noise=silent, n_max=6)
    detectable = planning.detectable(0.0, noise=silent, n_max=6)

    assert smallest == planning.smallest_margin(noise=Noise(0.0005, 10.0), n_max=6)
    assert detectable == planning.detectable(0.0, noise=Noise(0.0005, 10.0), n_max=6)
    assert smallest is not None
    assert planning.rounds_for(0.5 * smallest, noise=silent, n_max=6) is None
    plan = Plan(looks(6, silent), 1)
    found = [
        look([0.0] * 6, delta=share * smallest, noise=silent, plan=plan, candidate_first=[False, True] * 3).decision
        for share in (0.3, 1.0)
    ]
    assert found == ["INCONCLUSIVE", "PASS"]
