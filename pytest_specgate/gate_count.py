"""How many gates a run has seen, collected and judged: skipped is not passed."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

JUDGED: Final = "judged"
IN_PART: Final = "in part"
NO_VERDICT: Final = "without a verdict"
UNDECIDED: Final = "undecided"
NO_BASELINE: Final = "without a baseline"
WRITTEN: Final = "written to a baseline"
SKIPPED: Final = "skipped"
NOT_RUN: Final = "not run"
_STATES: Final = (IN_PART, NO_VERDICT, UNDECIDED, NO_BASELINE, WRITTEN, SKIPPED, NOT_RUN)
"""What a gate is that is not judged, from what says most to what says least."""


@dataclasses.dataclass(frozen=True, slots=True)
class GateCount:
    """What became of the gates of a run.

    Attributes:
        seen: gates in the files that were collected, whatever was left out afterwards.
        states: how many of the collected ones are in each state.
    """

    seen: int = 0
    states: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def collected(self) -> int:
        """Gates that have an item in this run."""
        return sum(self.states.values())

    @property
    def judged(self) -> int:
        """Gates all of whose thresholds were judged."""
        return self.states.get(JUDGED, 0)

    @property
    def nothing(self) -> bool:
        """Whether there were gates, and no threshold of any was judged."""
        return self.collected > 0 and not (self.judged or self.states.get(IN_PART, 0))

    @property
    def sentence(self) -> str:
        """How many were judged, and what became of the others: ``1 of 3 gates judged: 2 skipped``."""
        others = ", ".join(f"{self.states[state]} {state}" for state in _STATES if self.states.get(state, 0))
        return f"{self.judged} of {counted(self.collected)} judged{f': {others}' if others else ''}"

    def shortage(self, required: int, *, lost: bool = False) -> str:
        """Say that fewer gates were judged than are required, and how many there were; empty where enough were.

        Args:
            required: the number of gates.
            lost: whether who counted them has died.
        """
        if self.judged >= required:
            return ""
        if lost:
            where = "the xdist worker that counted gates died"
        elif not self.seen:
            where = "no gate was seen"
        elif not self.collected:
            where = f"{counted(self.seen)} seen, none selected"
        else:
            where = f"{self.sentence}{f' ({self.seen} seen)' if self.seen > self.collected else ''}"
        return f"--specgate-require-gates={required} is not met: {where}"


def counted(gates: int) -> str:
    """Return a number of gates in words: ``1 gate``, ``3 gates``."""
    return f"{gates} gate{'' if gates == 1 else 's'}"


def gate_state(thresholds: Iterable[str], *, whole: bool) -> str:
    """Return the state of a gate by those of its thresholds.

    Args:
        thresholds: the states of those that were collected.
        whole: whether all of them were.
    """
    found = set(thresholds)
    if found == {JUDGED} and whole:
        return JUDGED
    if JUDGED in found:
        return IN_PART
    return next(state for state in _STATES if state in found)


class GateLedger:
    """What became of every threshold that was collected, by gate and threshold."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, str]] = {}
        self._declared: dict[str, int] = {}

    def collect(self, gate_id: str, threshold_id: str, *, declared: int) -> None:
        """Take note of a threshold's item, and of how many thresholds its gate declares."""
        self._states.setdefault(gate_id, {})[threshold_id] = NOT_RUN
        self._declared[gate_id] = declared

    def note(self, gate_id: str, threshold_id: str, state: str) -> None:
        """Take note of what became of a threshold; what was judged stays judged, whatever happens afterwards."""
        states = self._states.get(gate_id, {})
        if states.get(threshold_id, JUDGED) != JUDGED:
            states[threshold_id] = state

    def note_end(self, gate_id: str, threshold_id: str, state: str) -> None:
        """Take note of how the test of a threshold ended, if nothing better is known."""
        if self._states.get(gate_id, {}).get(threshold_id) in {NOT_RUN, SKIPPED, NO_VERDICT}:
            self._states[gate_id][threshold_id] = state

    def has_verdict(self, gate_id: str, threshold_id: str) -> bool:
        """Whether the test of a threshold ran, and had its verdict."""
        return self._states.get(gate_id, {}).get(threshold_id) in {JUDGED, UNDECIDED, NO_BASELINE}

    def count(self, *, seen: int) -> GateCount:
        """Count the gates by what became of them.

        Args:
            seen: how many there were, collected or not.
        """
        found = (
            gate_state(states.values(), whole=len(states) == self._declared[gate_id])
            for gate_id, states in self._states.items()
        )
        return GateCount(seen, dict(collections.Counter(found)))
