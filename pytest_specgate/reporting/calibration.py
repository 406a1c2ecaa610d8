"""What A/A windows told of the noise of arms, as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import HEADLINE, metric
from pytest_specgate.core.noise import NORMAL_975, floor_of
from pytest_specgate.reporting.layout import FULL, Detail, Narrowing, Table
from pytest_specgate.reporting.long import boot_table, server_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.measured import Calibrated
    from pytest_specgate.core.records import ArmNoise
    from pytest_specgate.reporting.layout import View


def calibration_lines(found: Calibrated, gates: Sequence[Gate], *, view: View = FULL) -> Iterator[str]:
    """Yield the noise of the headline metrics and of those that are gated, and where it was written to.

    Who wants little sees those that are gated, if any are; who wants much also sees how each server was started.
    """
    yield from found.problems.values()
    gated = {threshold.metric for gate in gates for threshold in gate.thresholds}
    asked = gated if gated and view.detail < Detail.NORMAL else {*HEADLINE, *gated}
    rows = tuple(_row(noise) for noise in found.noise if noise.metric in asked)
    headers = ("arm", "load", "metric", "boots", "sd of a round", "floor", "df")
    align = ("left", "right", "left", "right", "right", "right", "right")
    yield "noise of one round, by A/A windows (95 % of differences without a change lie within the floor)"
    narrowings = Narrowing.of(headers, 6, 3)
    yield Table(headers, align, rows).text(view.columns, narrowings=narrowings)
    if view.detail >= Detail.LONG:
        names = [arm.name for arm in found.record.arms]
        yield from ("", "boots in their order", boot_table(found.record, arms=names, columns=view.columns))
        yield from server_lines(found.record)
    yield f"record: {found.path}"
    yield f"calibrations: {found.noise_path} (commit it: gates on this class of machine use it from now on)"


def _row(noise: ArmNoise) -> tuple[str, ...]:
    row = metric(noise.metric)
    shares = row.unit == "share"
    unit, floor = ("points", noise.sd * NORMAL_975) if shares else ("%", floor_of(noise.sd))
    return (
        noise.arm,
        level_label(noise.at),
        row.label,
        str(noise.boots),
        f"{100 * noise.sd:.2g} {unit}",
        f"{100 * floor:.2g} {unit}",
        f"{noise.df:.3g}",
    )
