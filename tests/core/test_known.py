"""Where the noise of a threshold comes from: calibrated before declared, declared before nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.known import Known, calibrated_noise, known_noise
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise, declared_noise, pair_noise
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.thresholds import CALIBRATED, CurveThreshold, NoiseFloor, Threshold

if TYPE_CHECKING:
    from pytest_specgate.core.levels import Level
    from tests.core.conftest import Build

METRIC = "output_throughput"
SHARE = "acceptance_rate"
FLOOR = NoiseFloor(0.004, "six windows of a test")
WORDS = "calibrated: off by 6 boots of 2026-11-28, k4 by 8 boots of 2026-11-29"


def _noise(arm: str, *, at: Level = 8, metric: str = METRIC, sd: float = 0.01) -> ArmNoise:
    boots, df, day = {"off": (6, 3.5, 28), "k4": (8, 4.9, 29)}.get(arm, (2, 1.0, 27))
    measured_at = f"2026-11-{day}T23:59:59+02:00"
    return ArmNoise(arm=arm, at=at, metric=metric, sd=sd, df=df, boots=boots, measured_at=measured_at)


def _both(metric: str = METRIC, at: Level = 8) -> tuple[ArmNoise, ArmNoise]:
    return _noise("k4", at=at, metric=metric, sd=0.02), _noise("off", at=at, metric=metric)


def _threshold(metric: str = METRIC, *, floor: NoiseFloor | None = None, points: bool = False) -> Threshold:
    return Threshold(metric, 8, "not_worse", 0.05, floor, points=points)


def test_both_arms_calibrated(build: type[Build]) -> None:
    """Two calibrated arms are combined, and each is named with its boots and the day of its latest window."""
    found = calibrated_noise(METRIC, build.pair(), _both(), at=8)

    assert found == Known(pair_noise(Noise(0.01, 3.5), Noise(0.02, 4.9)), WORDS, calibrated=True)


@pytest.mark.parametrize(
    ("arm", "noise", "words"),
    [
        ("off", Noise(0.01, 3.5), "calibrated: off by 6 boots of 2026-11-28, k4 was never calibrated"),
        ("k4", Noise(0.01, 4.9), "calibrated: k4 by 8 boots of 2026-11-29, off was never calibrated"),
    ],
)
def test_one_arm_calibrated(build: type[Build], arm: str, *, noise: Noise, words: str) -> None:
    """The noise of one arm is taken for both, and the report says which one was never calibrated."""
    found = calibrated_noise(METRIC, build.pair(), [_noise(arm)], at=8)

    assert found == Known(noise, words, calibrated=True)


def test_one_arm_counts_for_five_degrees_of_freedom(build: type[Build]) -> None:
    """However long the calibration of one arm was, that of the other is missing."""
    long = _noise("off").model_copy(update={"df": 20.0})

    assert calibrated_noise(METRIC, build.pair(), [long], at=8).noise == Noise(0.01, 5.0)


@pytest.mark.parametrize(
    "noises",
    [(), _both(metric="ttft_p50"), _both(at=1), _both(at="8/s"), (_noise("k8"), _noise("k2"))],
    ids=["none", "other metric", "other concurrency", "rate", "other arms"],
)
def test_calibrations_of_something_else(build: type[Build], noises: tuple[ArmNoise, ...]) -> None:
    """Calibrations of another metric, load level or arm say nothing."""
    found = calibrated_noise(METRIC, build.pair(), noises, at=8)

    assert found == Known(UNKNOWN_NOISE, "", calibrated=False)


def test_the_right_calibration_is_found_among_many(build: type[Build]) -> None:
    """Calibrations of several arms, metrics and levels lie side by side; that of the threshold is taken."""
    many = [*_both(at=1), *_both("ttft_p50"), _noise("k8"), *_both(), *_both(at="8/s")]

    found = known_noise(_threshold(), build.pair(), many)

    assert found == calibrated_noise(METRIC, build.pair(), _both(), at=8)


def test_a_calibration_replaces_a_declared_floor(build: type[Build]) -> None:
    """What was measured counts, and the report says instead of what."""
    found = known_noise(_threshold(floor=FLOOR), build.pair(), _both())

    assert found.noise == calibrated_noise(METRIC, build.pair(), _both(), at=8).noise
    assert found.words == f"{WORDS}, instead of the declared 0.4 % (six windows of a test)"
    assert found.calibrated


def test_a_floor_that_is_the_calibrated_one(build: type[Build]) -> None:
    """A threshold that names the calibrated floor replaces nothing by it, and knows nothing without it."""
    threshold = _threshold(floor=CALIBRATED)

    assert known_noise(threshold, build.pair(), _both()).words == WORDS
    assert known_noise(threshold, build.pair(), []) == Known(UNKNOWN_NOISE)


def test_a_declared_floor(build: type[Build]) -> None:
    """Without a calibration the declared floor counts, with its source."""
    found = known_noise(_threshold(floor=FLOOR), build.pair(), _both(at=1))

    assert found == Known(declared_noise(0.004), "floor 0.4 % (six windows of a test)", calibrated=False)


def test_nothing_known(build: type[Build]) -> None:
    """Without either nothing is known, and no words are made about it."""
    assert known_noise(_threshold(), build.pair(), []) == Known(UNKNOWN_NOISE, "", calibrated=False)


@pytest.mark.parametrize("floor", [FLOOR, None])
def test_calibrated_points_say_nothing_of_a_relative_change(build: type[Build], floor: NoiseFloor | None) -> None:
    """A share is calibrated in points: a threshold in percent of it takes its declared floor, or knows nothing."""
    threshold = _threshold(SHARE, floor=floor)

    found = known_noise(threshold, build.pair(), _both(SHARE))

    assert found.noise == (declared_noise(0.004) if floor else UNKNOWN_NOISE)
    assert not found.calibrated


def test_a_share_in_points_is_calibrated(build: type[Build]) -> None:
    """A threshold in points of a share takes the calibration, which is in points too."""
    floor = NoiseFloor(0.01, "two windows of a test", points=True)

    found = known_noise(_threshold(SHARE, floor=floor, points=True), build.pair(), _both(SHARE))

    assert found.noise == pair_noise(Noise(0.01, 3.5), Noise(0.02, 4.9))
    assert found.words == f"{WORDS}, instead of the declared 1 points (two windows of a test)"


@pytest.mark.parametrize(("metric", "calibrated"), [(METRIC, True), (SHARE, False)])
def test_a_curve_asks_level_by_level(build: type[Build], metric: str, *, calibrated: bool) -> None:
    """A curve takes the calibration of each of its levels; one of a share, which is of ratios, takes none."""
    noises = [*_both(metric, at=1), _noise("off", at=8, metric=metric)]
    curve = CurveThreshold(8, metric)

    found = [known_noise(curve, build.pair(), noises, at=at) for at in (1, 8, 32)]
    own = known_noise(curve, build.pair(), noises)

    assert [one.calibrated for one in found] == [calibrated, calibrated, False]
    assert [one.noise.df for one in found[1:]] == [3.5 if calibrated else 0.0, 0.0]
    assert own == found[1]


def test_a_curve_falls_back_on_its_floor(build: type[Build]) -> None:
    """A level of a curve without a calibration takes the declared floor."""
    curve = CurveThreshold(8, METRIC, FLOOR)

    found = known_noise(curve, build.pair(), _both(at=1), at=32)

    assert found == Known(declared_noise(0.004), "floor 0.4 % (six windows of a test)")


def test_a_calibration_without_scatter_counts(build: type[Build]) -> None:
    """Two arms that never scattered are calibrated: what counts is the degrees of freedom, and not the scatter."""
    noises = [_noise("off", sd=0.0), _noise("k4", sd=0.0)]

    found = known_noise(_threshold(floor=FLOOR), build.pair(), noises)

    assert found.noise == Noise(0.0, 8.4)
