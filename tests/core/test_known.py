"""Where the noise of a threshold comes from: calibrated before declared, declared before nothing."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.calibration import CalibrationWindow, NoiseBook
from pytest_specgate.core.errors import UsageError
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
    return ArmNoise(
        arm=arm, at=at, metric=metric, sd=sd, df=df, boots=boots, builds=1, arm_sha256=arm, measured_at=measured_at
    )


def _both(metric: str = METRIC, at: Level = 8) -> tuple[ArmNoise, ArmNoise]:
    return _noise("k4", at=at, metric=metric, sd=0.02), _noise("off", at=at, metric=metric)


def _threshold(metric: str = METRIC, *, floor: NoiseFloor | None = None, points: bool = False) -> Threshold:
    return Threshold(metric, 8, "not_worse", 0.05, floor, points=points)


def test_both_arms_calibrated(build: type[Build]) -> None:
    """Two calibrated arms are combined, and each is named with its boots and the day of its latest window."""
    found = calibrated_noise(METRIC, build.pair(), _both(), at=8)

    assert found == Known(pair_noise(Noise(0.01, 3.5), Noise(0.02, 4.9)), WORDS, calibrated=True, whole=True)


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


def _installs(build: type[Build]) -> ArmPair:
    """Return two installs of the engine under one arm."""
    main = build.arm()
    arms = (dataclasses.replace(main, name=name, python=f"/{name}/bin/python") for name in ("main", "pr"))
    reference, candidate = arms
    return ArmPair(reference=reference, candidate=candidate, varies="engine", profile=build.profile())


def _calibrated(pair: ArmPair, *names: str) -> tuple[ArmNoise, ...]:
    """Return what is known of a pair after one window of six boots of some of its arms, each with its own build."""
    book = NoiseBook(host_class="h")
    for arm in pair.arms:
        if arm.name in names:
            values: dict[str, dict[str, tuple[float, ...]]] = {"c8": {METRIC: (100.0, 101.0) * 3}}
            window = CalibrationWindow(measured_at="2026-11-29", engine={"commit": arm.name}, values=values)
            book = book.with_window(arm, pair.profile, window)
    return book.noises(pair.arms, pair.profile)


def test_two_installs_of_one_arm_count_once(build: type[Build]) -> None:
    """Boots of both engines are pooled in one entry: their degrees of freedom are its own, and not twice as many."""
    pair = _installs(build)

    found = calibrated_noise(METRIC, pair, _calibrated(pair, "main", "pr"), at=8)

    assert found.noise.df == pytest.approx(2 * 25 / 7)
    assert found.noise.sigma == pytest.approx(math.log(1.01))
    assert found.words == "calibrated: pr against main by 12 boots of both engines"
    assert found.whole


def test_one_install_of_two_is_half_a_calibration(build: type[Build]) -> None:
    """What one engine showed stands for both, as with two arms of which one was calibrated, and is called that."""
    pair = _installs(build)

    found = calibrated_noise(METRIC, pair, _calibrated(pair, "main"), at=8)

    assert found.noise.df == pytest.approx(min(25 / 7, 5))
    assert found.words == "calibrated: pr against main by 6 boots of one of its engines"
    assert not found.whole


def test_one_install_makes_no_calibrated_margin(build: type[Build]) -> None:
    """Six boots of one engine have fewer than five degrees of freedom, under whatever two names they are found."""
    pair = _installs(build)
    gate = build.gate(pair, Threshold(METRIC, 8, "not_worse", None, CALIBRATED))

    gate.check_decidable(_calibrated(pair, "main", "pr"))
    with pytest.raises(UsageError, match=r"needs 5 degrees of freedom, and the calibration has 3\.57"):
        gate.check_decidable(_calibrated(pair, "main"))


@pytest.mark.parametrize("arm", ["off", "k4"])
def test_one_calibrated_arm_leaves_a_declared_floor(build: type[Build], arm: str) -> None:
    """A floor was declared of both arms, so one quiet arm does not replace it, however long it was calibrated."""
    long = _noise(arm, sd=0.0001).model_copy(update={"df": 20.0})

    assert known_noise(_threshold(floor=FLOOR), build.pair(), [long]) == Known(
        declared_noise(0.004), "floor 0.4 % (six windows of a test)"
    )
    assert known_noise(_threshold(), build.pair(), [long]).noise == Noise(0.0001, 5.0)


@pytest.mark.parametrize(("df", "replaced"), [(1.49, False), (1.5, True)])
def test_a_short_calibration_leaves_a_declared_floor(build: type[Build], df: float, *, replaced: bool) -> None:
    """Fewer than three degrees of freedom allow no look at two rounds, which the declared floor does."""
    noises = [_noise(arm).model_copy(update={"df": df}) for arm in ("off", "k4")]
    threshold = _threshold(floor=FLOOR)

    assert known_noise(threshold, build.pair(), noises).calibrated == replaced
    build.gate(build.pair(rounds=2), threshold).check_decidable(noises)
