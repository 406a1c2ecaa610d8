"""What is known of a threshold's noise before its window runs: calibrated, declared, or nothing."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise, pair_noise
from pytest_specgate.core.plan import CALIBRATED_DF
from pytest_specgate.core.thresholds import Threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import ArmNoise
    from pytest_specgate.core.thresholds import IntervalThreshold

_DAY: Final = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """What is known of a noise beforehand.

    Attributes:
        noise: as the rule takes it.
        words: where it comes from, for the report; empty when nothing is known.
        calibrated: whether it was measured, not declared.
        whole: whether both arms were.
    """

    noise: Noise
    words: str = ""
    calibrated: bool = False
    whole: bool = False


def known_noise(
    threshold: IntervalThreshold, pair: ArmPair, noises: Sequence[ArmNoise], *, at: Level | None = None
) -> Known:
    """Return what is known of the noise of a threshold.

    A measured calibration replaces a declared floor if it is one of both arms, and good enough for a look at 2 rounds.

    Args:
        threshold: the claim.
        pair: its arms.
        noises: calibrations of this machine.
        at: load level; `None` for the threshold's own.
    """
    level = threshold.at if at is None else at
    calibrated = calibrated_noise(threshold.metric, pair, noises, at=level)
    # Calibrations of shares are in points, and say nothing of a relative change.
    fits = threshold.row.unit != "share" or (isinstance(threshold, Threshold) and threshold.points)
    floor = threshold.floor
    declared = floor is not None and floor.fraction is not None
    good = calibrated.whole and calibrated.noise.df >= CALIBRATED_DF
    if calibrated.noise.df and fits and (good or not declared):
        instead = f", instead of the declared {floor.words}" if floor and floor.fraction is not None else ""
        return dataclasses.replace(calibrated, words=f"{calibrated.words}{instead}")
    if floor is not None and floor.fraction is not None:
        return Known(floor.noise, f"floor {floor.words}")
    return Known(UNKNOWN_NOISE)


def calibrated_noise(metric: str, pair: ArmPair, noises: Sequence[ArmNoise], *, at: Level) -> Known:
    """Return what A/A windows of both arms of a pair tell of a metric at a point."""
    found = {noise.arm: noise for noise in noises if (noise.metric, noise.at) == (metric, at)}
    if pair.alone:
        return _of_one_arm(found.get(pair.candidate.name))
    sides = [found.get(arm.name) for arm in pair.arms]
    known = [side for side in sides if side is not None]
    if not known:
        return Known(UNKNOWN_NOISE)
    texts = [f"{side.arm} by {side.boots} boots of {side.measured_at[:_DAY]}" for side in known]
    never = [arm.name for arm, side in zip(pair.arms, sides, strict=True) if side is None]
    if never:
        texts.append(f"{never[0]} was never calibrated")
    reference, candidate = (Noise(side.sd, side.df) if side else UNKNOWN_NOISE for side in sides)
    if len(known) == 2 and known[0].arm_sha256 == known[1].arm_sha256:
        # Two installs of the engine under one arm: their boots were pooled already, and must not count twice.
        both = known[0].builds > 1
        candidate = reference if both else UNKNOWN_NOISE
        texts = [f"{pair.title} by {known[0].boots} boots of {'both' if both else 'one of its'} engines"]
        if both:
            return Known(reference, f"calibrated: {texts[0]}", calibrated=True, whole=True)
        never = [pair.title]
    return Known(pair_noise(reference, candidate), f"calibrated: {', '.join(texts)}", calibrated=True, whole=not never)


def _of_one_arm(found: ArmNoise | None) -> Known:
    """Return what A/A windows tell of an arm alone: how two of its boots differ."""
    if found is None:
        return Known(UNKNOWN_NOISE)
    words = f"calibrated: {found.arm} by {found.boots} boots of {found.measured_at[:_DAY]}"
    return Known(Noise(found.sd, found.df), words, calibrated=True, whole=True)
