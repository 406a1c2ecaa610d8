"""What came before a window as text: runs that it goes on with, and earlier attempts at the same builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.records import WindowRecord


def history_lines(record: WindowRecord, *, of_limit: bool = False) -> Iterator[str]:
    """Say which rounds earlier runs have measured, and which attempt this is; nothing of a first one in one go.

    Args:
        record: of the window.
        of_limit: whether a limit is spoken of, which has no margin; of arms that were measured alone it always is.
    """
    if record.continued:
        yield f"run {len(record.continued) + 1} of this window: {continued_text(record)}"
    if record.attempt > 1:
        alone = bool(record.pairs) and all(pair.reference == pair.candidate for pair in record.pairs)
        builds = "this build" if alone else "this pair of builds"
        adds = "about 3 % false PASS at the margin"
        if alone or of_limit:
            adds = "to the chance that a limit is kept by luck"
        yield f"attempt {record.attempt} of {builds}: each attempt until green adds {adds}"


def continued_text(record: WindowRecord) -> str:
    """Name the records that a window goes on with: ``rounds 1 to 3 from A, round 4 from B``; empty for none."""
    parts = []
    done = 0
    for run in record.continued:
        first, done = done + 1, run.rounds
        span = "no whole round" if done < first else f"round {done}" if done == first else f"rounds {first} to {done}"
        parts.append(f"{span} from {run.record}")
    return ", ".join(parts)
