"""What A/A windows told of the noise of arms, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import HEADLINE, metric
from pytest_specgate.core.noise import NORMAL_975, floor_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import Calibrated
    from pytest_specgate.core.records import ArmNoise


def calibration_lines(found: Calibrated, gates: Sequence[Gate]) -> Iterator[str]:
    """Yield the noise of the headline metrics and of those that are gated, and where it was written to."""
    yield from found.problems.values()
    gated = {threshold.metric for gate in gates for threshold in gate.thresholds}
    rows = [_row(noise) for noise in found.noise if noise.metric in {*HEADLINE, *gated}]
    headers = ["arm", "load", "metric", "boots", "sd of a round", "floor", "df"]
    align = ("left", "right", "left", "right", "right", "right", "right")
    yield "noise of one round, by A/A windows (95 % of differences without a change lie within the floor)"
    yield tabulate(rows, headers=headers, colalign=align, disable_numparse=True, tablefmt="simple")
    yield f"record: {found.path}"
    yield f"calibrations: {found.noise_path} (commit it: gates on this class of machine use it from now on)"


def _row(noise: ArmNoise) -> list[str]:
    row = metric(noise.metric)
    shares = row.unit == "share"
    unit, floor = ("points", noise.sd * NORMAL_975) if shares else ("%", floor_of(noise.sd))
    return [
        noise.arm,
        level_label(noise.at),
        row.label,
        str(noise.boots),
        f"{100 * noise.sd:.2g} {unit}",
        f"{100 * floor:.2g} {unit}",
        f"{noise.df:.3g}",
    ]
