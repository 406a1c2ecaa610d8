"""The part of a report that is about draft horizons: of one window in which horizons met."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.advice import OBJECTIVES
from pytest_specgate.core.horizon_records import declared_floors, window_horizons
from pytest_specgate.core.hosts import facts_of, host_class
from pytest_specgate.core.knee import Knee, MeasuredWindow, knee_of
from pytest_specgate.core.noise import floor_of
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.knee import advice_lines, source_lines
from pytest_specgate.reporting.knee_words import ASSUMED, short_lines
from pytest_specgate.reporting.layout import Detail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pytest_specgate.core.floors import NoiseFloor
    from pytest_specgate.core.horizon_records import WindowHorizons
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.reporting.layout import View


def measured_window(
    record: WindowRecord, path: str, *, floors: Mapping[str, NoiseFloor] | None = None
) -> MeasuredWindow:
    """Return what a window tells of horizons.

    Args:
        record: of the window.
        path: where it lies.
        floors: noise floors by metric, which replace what the record tells.

    Raises:
        RecordError: a gate of the record cannot be read.
    """
    told = window_horizons(record, path, floors=floors)
    return MeasuredWindow(
        path,
        told,
        load=record.profile.fingerprint(),
        host_class=record.host_class or host_class(facts_of(record.host)),
        noise=_noise_words(record, told, floors or {}),
        ruled_out=record.ruled_out,
    )


def _noise_words(record: WindowRecord, told: WindowHorizons, floors: Mapping[str, NoiseFloor]) -> dict[str, str]:
    """Return what is known of the noise of each metric that horizons are compared by, and who says so."""
    declared: dict[str, NoiseFloor] = {}
    for name, floor in declared_floors(record) if told.drafters else ():
        known = declared.get(name)
        declared[name] = floor if known is None or known.noise.sigma < floor.noise.sigma else known
    words = {name: f"floor of {floor.words}" for name, floor in {**declared, **floors}.items()}
    for name in OBJECTIVES.values():
        calibrated = next((one.noise[name] for one in told.drafters if name in one.noise), None)
        text = "told by the rounds alone"
        if calibrated is not None:
            text = f"floor of {100 * floor_of(calibrated.sigma):.2g} %, as A/A windows measured it"
        words.setdefault(name, text)
    return words


def window_knee(record: WindowRecord, path: str) -> Knee | None:
    """Return what a window tells of horizons; `None` where no two of one drafter may be looked at.

    Args:
        record: of the window.
        path: where it lies.
    """
    found = knee_of([measured_window(record, path)])
    several = any(len(source.arms) > 1 and source.levels for source in found.sources)
    return found if several else None


def knee_section(record: WindowRecord, path: str, *, view: View) -> Iterator[str]:
    """Yield the section of a terminal report that tells which k; nothing where no two horizons met.

    Args:
        record: of the window.
        path: where it lies.
        view: how much a reader wants to see.
    """
    if view.detail < Detail.NORMAL or not any(arm.speculates for arm in record.arms):
        return
    knee = window_knee(record, path)
    if knee is None:
        return
    yield ""
    if view.detail >= Detail.LONG:
        yield "which k"
        for source in knee.sources:
            yield from source_lines(source, columns=view.columns, titled=False)
        yield from ("", one_line(ASSUMED), *advice_lines(knee))
        return
    yield "which k (`specgate knee` tells what this rests on)"
    yield from map(one_line, short_lines(knee))
