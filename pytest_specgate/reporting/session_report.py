"""What a run has to report, as data: every report (terminal, JSON, Markdown, page) is a view of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.reporting.messages import Judged

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class ReportedVerdict:
    """A verdict with its place in the run.

    Attributes:
        verdict: of the threshold; whether it was accepted is its own knowledge.
        node_id: of the test item, as a user would type it; the id of the gate where no run is reported but a record.
        skipped: whether it was reported as skipped: it could not be decided, and the user wants no failure of that.
        text: the whole message, next steps included, where it was not accepted; empty where it was.
    """

    verdict: Verdict
    node_id: str
    skipped: bool = False
    text: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ReportedWindow:
    """A window that was measured, and what was judged by it.

    Attributes:
        record: everything that was measured.
        path: where the record lies.
        pairs: that were measured, in the order in which they are shown.
        gates: on these pairs.
        verdicts: of the items that ran; deselected thresholds have none.
    """

    record: WindowRecord
    path: str
    pairs: tuple[ArmPair, ...]
    gates: tuple[Gate, ...]
    verdicts: tuple[ReportedVerdict, ...]

    @property
    def judged(self) -> tuple[Judged, ...]:
        """The gates, each with the verdicts of those of its thresholds that ran."""
        return tuple(
            Judged(gate, tuple(one.verdict for one in self.verdicts if one.verdict.gate == gate.id))
            for gate in self.gates
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Unmeasured:
    """A window that could not be measured.

    Attributes:
        pairs: that it was to measure, by title.
        gates: ids of the gates that have no verdict for it.
        message: why, as one sentence.
    """

    pairs: tuple[str, ...]
    gates: tuple[str, ...]
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class SessionReport:
    """What a run of gates, or a record alone, has to tell.

    Attributes:
        windows: measured ones, in the order in which they ran.
        closed: verdicts that nothing measured could have changed: of baselines that are missing, say.
        unmeasured: windows that could not be measured; their thresholds were not judged.
        thresholds: how many were collected.
    """

    windows: tuple[ReportedWindow, ...]
    closed: tuple[ReportedVerdict, ...] = ()
    unmeasured: tuple[Unmeasured, ...] = ()
    thresholds: int = 0

    @property
    def verdicts(self) -> Sequence[ReportedVerdict]:
        """All verdicts, those of windows first."""
        return [*(one for window in self.windows for one in window.verdicts), *self.closed]

    @property
    def passed(self) -> bool:
        """Whether every collected threshold has a verdict, and each of them was accepted."""
        found = self.verdicts
        return bool(found) and len(found) == self.thresholds and all(one.verdict.accepted for one in found)
