"""What is known of the noise between draft horizons: declared, or measured by A/A windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.floors import NoiseFloor
from pytest_specgate.core.horizon_records import window_horizons
from pytest_specgate.core.noise import Noise, declared_noise
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.sweeps import ArmSweep, stored_sweep
from tests.core.test_horizon_records import only, window

if TYPE_CHECKING:
    from pytest_specgate.core.records import WindowRecord
    from tests.core.conftest import Build


@pytest.fixture(name="three")
def three_arms(build: type[Build]) -> WindowRecord:
    """Return a window of off, k=2 and k=4."""
    return window(build, [build.arm(), build.arm(2), build.arm(4)])


def _calibrated(*arms: str, df: float = 6.0) -> tuple[ArmNoise, ...]:
    """Return calibrations of the decode rate of some arms at both levels, the second one noisier."""
    return tuple(
        ArmNoise(
            arm=arm, at=at, metric="decode_rate_p50", sd=sd, df=df, boots=4, builds=1, arm_sha256=arm, measured_at=""
        )
        for arm in arms
        for at, sd in ((1, 0.01), (8, 0.02))
    )


@pytest.mark.parametrize(
    ("noises", "words"),
    [
        ((), "floor of 5 % (a test)"),
        (_calibrated("off", "k2"), "floor of 5 % (a test)"),
        (_calibrated("k9"), "floor of 5 % (a test)"),
        (_calibrated("off", "k2", "k4", df=1.0), "floor of 5 % (a test)"),
        (
            _calibrated("off", "k2", "k4"),
            "floor of 4 %, as A/A windows measured it, instead of the declared 5 % (a test)",
        ),
    ],
)
def test_a_good_calibration_of_all_arms_replaces_a_declared_floor(
    three: WindowRecord, build: type[Build], *, noises: tuple[ArmNoise, ...], words: str
) -> None:
    """As in a verdict; one of some arms, or of too few boots, does not."""
    sweep = ArmSweep(
        off=build.arm(), arms=(build.arm(2), build.arm(4)), profile=three.profile, rounds=2,
        noise={"decode_rate_p50": NoiseFloor(0.05, "a test")},
    )  # fmt: skip
    found = only(three.model_copy(update={"sweeps": (stored_sweep(sweep),), "noise": noises}))

    assert found.noise_words == {"decode_rate_p50": words}
    sigma = 0.02 if "instead" in words else declared_noise(0.05).sigma
    assert found.noise["decode_rate_p50"].sigma == pytest.approx(sigma)
    assert {one.noise for here in found.measured.values() for one in here} == {found.noise["decode_rate_p50"]}


def test_a_single_arm_is_as_noisy_as_two_of_its_boots(build: type[Build]) -> None:
    """There is no second one to be compared with; what was given in its place is taken instead."""
    record = window(build, [build.arm(4)]).model_copy(update={"noise": _calibrated("k4")})
    (given,) = window_horizons(record, "r", floors={"step_time": NoiseFloor(0.1, "a test")}).drafters

    assert only(record).noise["decode_rate_p50"] == Noise(0.02, 6.0)
    assert given.measured[1][0].noise == declared_noise(0.1)
    assert given.noise_words["step_time"] == "floor of 10 % (a test)"
