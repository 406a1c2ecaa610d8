"""Engine-induced differences of a pair as text: one line beside a verdict, all of it beside the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core.confounds import (
    contradicted_of,
    difference_lines,
    differences_of,
    ids_text,
    unproved_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.differences import DifferenceReport
    from pytest_specgate.core.records import WindowRecord

UNKNOWN: Final = "not known, since nothing was kept of the starts of both arms"


def pair_differences(pair: ArmPair, record: WindowRecord) -> Iterator[str]:
    """Say in what the servers of a pair differ besides what was declared, and what of the declaration is not proved."""
    report = differences_of(pair, record)
    if report is not None:
        yield ""
        yield f"differences of the servers of {pair.title}, by resolved configuration and start-up log"
        yield from difference_lines(report, allowed=pair.allow_engine_differences)
        unused = ", ".join(report.unused(pair.allow_engine_differences))
        if unused:
            yield f"allowed, but not found: {unused}"
    for arm in pair.own_arms:
        yield from (f"{arm.name}: {contrast}" for contrast in contradicted_of(arm, record))
        names = ", ".join(unproved_of(arm, record))
        if names:
            yield f"declared for {arm.name}, and not told by its server: {names}"


def differences_in_short(pair: ArmPair, record: WindowRecord) -> str:
    """Say how many engine-induced differences a pair has, and which: ``2, 1 of them allowed (a, b)``, or ``none``.

    Behind them stands what the project itself does to one arm: ``none; undeclared: started_as``.
    """
    report = differences_of(pair, record)
    if report is None:
        return UNKNOWN
    undeclared = ids_text([one.id for one in report.of("undeclared")])
    return f"{_induced(report, pair)}{f'; undeclared: {undeclared}' if undeclared else ''}"


def _induced(report: DifferenceReport, pair: ArmPair) -> str:
    unread = f"not known: there is no {' and no '.join(report.unread)} of both arms" if report.unread else ""
    found = report.of("engine-induced")
    if not found:
        return unread or "none"
    unlisted = report.unlisted(pair.allow_engine_differences)
    allowed = sum(one not in unlisted for one in found)
    listed = f", {allowed} of them allowed" if allowed else ""
    return f"{len(found)}{listed} ({ids_text([one.id for one in found])}){f'; the rest is {unread}' if unread else ''}"
