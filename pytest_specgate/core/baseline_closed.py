"""Claims about a baseline that nothing measured can change: known before anything starts, and cheap to import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.baselines import NO_BASELINE
from pytest_specgate.core.verdict import Outcome, Verdict
from pytest_specgate.core.verdict_parts import head, invalid

if TYPE_CHECKING:
    from pytest_specgate.core.baselines import BaselineFile, KnownBaseline
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.thresholds import BaselineThreshold


def closed_beforehand(gate: Gate, threshold: BaselineThreshold, known: KnownBaseline | None) -> Verdict | None:
    """Return the verdict of a claim whose baseline cannot be used, whatever will be measured; `None` if it can."""
    if known is None:
        text = (
            f"INCONCLUSIVE: {threshold.claim}: no baseline was looked up when this window ran, so its record has "
            f"nothing to compare with: run the gate again"
        )
        return undecided(gate, threshold, reason=NO_BASELINE, summary=text)
    if known.problem is None:
        return None
    failure = known.problem
    if failure.reason.startswith(("no-", "baselines-")):
        summary = f"INCONCLUSIVE: {threshold.claim}: {failure.message}"
        return undecided(gate, threshold, reason=failure.reason, summary=summary)
    return invalid(gate, threshold, failure)


def undecided(gate: Gate, threshold: BaselineThreshold, *, reason: str, summary: str = "") -> Verdict:
    """Return a claim that was not decided, with the reason why."""
    return Verdict(**head(gate, threshold), outcome=Outcome.INCONCLUSIVE, reason=reason, summary=summary)


def unclaimed(file: BaselineFile, gate: Gate | None) -> frozenset[str]:
    """Return the entries of a file that its gate does not claim; all of them where there is no such gate."""
    claimed = {threshold.entry_id for threshold in gate.baselines} if gate is not None else set()
    return frozenset(file.entries) - claimed
