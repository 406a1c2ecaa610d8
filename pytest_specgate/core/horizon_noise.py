"""What is known beforehand of the noise between draft horizons: declared, or measured by A/A windows of their arms."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pytest_specgate.core.known import Known
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise, floor_of, pair_noise
from pytest_specgate.core.plan import CALIBRATED_DF

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.floors import NoiseFloor
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import ArmNoise


def horizon_noise(
    arms: Sequence[Arm],
    noises: Sequence[ArmNoise],
    declared: Iterable[tuple[str, NoiseFloor]],
    *,
    ends: Sequence[Level],
) -> dict[str, Known]:
    """Return what is known of the noise of any two of some arms, by metric.

    The largest floor that is declared counts, unless A/A windows of all arms at both ends of the load tell it, and well
    enough for a look at 2 rounds; as in a verdict. Of windows the noisiest two arms count, at whatever load.

    Args:
        arms: that are compared.
        noises: calibrations of the machine.
        declared: noise floors with their metrics.
        ends: the lowest and the highest load level.
    """
    floors: dict[str, NoiseFloor] = {}
    for name, floor in declared:
        known = floors.get(name)
        floors[name] = floor if known is None or known.noise.sigma < floor.noise.sigma else known
    found = {name: declared_known(floor) for name, floor in floors.items()}
    for name in dict.fromkeys(one.metric for one in noises):
        measured = _calibrated(name, arms, noises, ends=ends)
        good = measured.whole and measured.noise.df >= CALIBRATED_DF
        if measured.noise.df and (good or name not in floors):
            instead = f", instead of the declared {floors[name].words}" if name in floors else ""
            found[name] = Known(measured.noise, f"{measured.words}{instead}", calibrated=True, whole=measured.whole)
    return found


def declared_known(floor: NoiseFloor) -> Known:
    """Return what a noise floor tells."""
    return Known(floor.noise, f"floor of {floor.words}")


def _calibrated(name: str, arms: Sequence[Arm], noises: Sequence[ArmNoise], *, ends: Sequence[Level]) -> Known:
    """Return what A/A windows tell of a metric of two of some arms, or of two boots of a single one."""
    own = {(one.arm, one.at): Noise(one.sd, one.df) for one in noises if one.metric == name}
    names = [arm.name for arm in arms]
    by_level = [[own.get((arm, at), UNKNOWN_NOISE) for arm in names] for at in dict.fromkeys(at for _, at in own)]
    # Of a single arm it is how two of its boots differ; as two arms it would count twice.
    found = itertools.chain.from_iterable(
        itertools.starmap(pair_noise, itertools.combinations(sides, 2)) if len(sides) > 1 else sides
        for sides in by_level
    )
    told = [noise for noise in found if noise.df]
    if not told:
        return Known(UNKNOWN_NOISE)
    noise = Noise(max(one.sigma for one in told), min(one.df for one in told))
    whole = all((arm, at) in own for arm in names for at in ends)
    words = f"floor of {100 * floor_of(noise.sigma):.2g} %, as A/A windows measured it"
    return Known(noise, words, calibrated=True, whole=whole)


def of_steps(noise: Mapping[str, Known]) -> Noise:
    """Return what is known of the noise of step times: their own, or else that of the decode rate.

    A decode rate is tokens per step / step time, and the tokens are those of the same prompts in every boot.
    """
    known = noise.get("step_time") or noise.get("decode_rate_p50")
    return UNKNOWN_NOISE if known is None else known.noise
