"""The part of a report that is about draft horizons: of one window in which horizons met."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from pytest_specgate.core.advice import OBJECTIVES, pinned
from pytest_specgate.core.confounds import BUILD, attached_sentence, differences_of, ids_text
from pytest_specgate.core.errors import SpecgateError
from pytest_specgate.core.horizon_records import window_horizons
from pytest_specgate.core.hosts import facts_of, host_class
from pytest_specgate.core.knee import Knee, MeasuredWindow, knee_of
from pytest_specgate.core.stored_gates import pairs_of
from pytest_specgate.core.sweeps import horizon_of, never_booted
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.knee import advice_lines, source_lines
from pytest_specgate.reporting.knee_words import ASSUMED, pin_note, short_lines
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
        noise=_noise_words(told),
        ruled_out=record.ruled_out,
        unbooted=_unbooted(record),
        differences=_differences(record, told),
        unproved={arm.name: words for arm in record.arms if (words := attached_sentence(arm.name, record))},
        build=_build(record, told),
    )


def _unbooted(record: WindowRecord) -> tuple[int, ...]:
    missing = never_booted(record)
    return tuple(sorted(arm.draft_horizon for arm in record.arms if arm.name in missing and arm.draft_horizon))


def _differences(record: WindowRecord, told: WindowHorizons) -> dict[tuple[str, str], str]:
    """Return in what the servers of declared pairs differ besides what was declared and allowed, by their arms."""
    arms = {name for one in told.drafters for name in one.arms.values()}
    found: dict[tuple[str, str], str] = {}
    for pair in pairs_of(record):
        report = differences_of(pair, record) if {arm.name for arm in pair.arms} <= arms else None
        if report is not None and (unlisted := report.unlisted(pair.allow_engine_differences)):
            reference, candidate = sorted(pair.arms, key=horizon_of)
            found[reference.name, candidate.name] = ids_text([one.id for one in unlisted])
    return found


def _build(record: WindowRecord, told: WindowHorizons) -> str:
    """Return what tells the builds of the engines that served a window."""
    arms = sorted({name for one in told.drafters for name in one.arms.values()})
    return repr(sorted({repr([record.engine.get(name, {}).get(fact) for fact in BUILD]) for name in arms}))


def _noise_words(told: WindowHorizons) -> dict[str, str]:
    """Return what is known of the noise of each metric that horizons are compared by, and who says so."""
    words = {name: text for one in reversed(told.drafters) for name, text in one.noise_words.items()}
    return {**dict.fromkeys(OBJECTIVES.values(), "told by the rounds alone"), **words}


def window_knee(record: WindowRecord, path: str) -> Knee | str | None:
    """Return what a window tells of horizons, or in a sentence why nothing is: no report of verdicts ends with that.

    `None` where no two horizons of one drafter may be looked at.

    Args:
        record: of the window.
        path: where it lies.
    """
    try:
        found = knee_of([measured_window(record, path)])
    except (SpecgateError, ValueError, ArithmeticError, LookupError) as error:
        return f"which k: nothing is told, for this went wrong: {error}"
    several = any(len(source.arms) > 1 and source.levels for source in found.sources)
    return found if several else None


def pin_lines(knee: Knee, record: WindowRecord, path: str) -> Iterator[tuple[str, str]]:
    """Yield the commands that write a gate file for what a sweep has found, each behind its drafter.

    Args:
        knee: what the window tells.
        record: of the window.
        path: where it lies.
    """
    for drafter, found in knee.advice.items() if record.sweeps else ():
        k = pinned([one.advice for one in found])
        if k is not None:
            named = f" --drafter {shlex.quote(drafter)}" if len(knee.advice) > 1 else ""
            yield drafter, f"specgate knee {shlex.quote(path)} --snippet test_k{k}.py{named}"


def pin_notes(knee: Knee, drafter: str) -> Iterator[str]:
    """Yield what stands beside the command of `pin_lines`: which objectives rule the pinned horizon out, if any do.

    Args:
        knee: what the window tells.
        drafter: whose horizon is pinned.
    """
    told = [one.advice for one in knee.advice[drafter]]
    k = pinned(told)
    if k is not None and (note := pin_note(told, k)):
        yield note


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
    if isinstance(knee, str):
        yield one_line(knee)
        return
    if view.detail >= Detail.LONG:
        yield "which k"
        for source in knee.sources:
            yield from source_lines(source, columns=view.columns, titled=False)
        yield from ("", one_line(ASSUMED), *advice_lines(knee))
    else:
        yield "which k (`specgate knee` tells what this rests on)"
        yield from map(one_line, short_lines(knee))
    for drafter, command in pin_lines(knee, record, path):
        yield one_line(f"pin it: {command}")
        yield from map(one_line, pin_notes(knee, drafter))
