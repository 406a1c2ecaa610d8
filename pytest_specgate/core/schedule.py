"""Which rounds the pairs of a window need, as far as that is known before they are measured."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core.arms import arms_of, boot_order
from pytest_specgate.core.thresholds import BaselineThreshold, CurveThreshold, LimitThreshold, Threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import ArmNoise
    from pytest_specgate.core.thresholds import AnyThreshold


def first_judged(threshold: AnyThreshold, gate: Gate, noise: Sequence[ArmNoise]) -> int | None:
    """Return after how many rounds a threshold is judged for the first time; `None` if it asks for no round.

    Limits are judged by one round, equal answers by two, intervals at their first look. Claims about a baseline are
    judged by the whole window, and ask for its rounds only where no interval decides how many there are. An arm alone
    runs all of its boots, whatever is claimed of it.
    """
    if gate.pair.alone:
        return gate.pair.rounds
    if isinstance(threshold, Threshold | CurveThreshold):
        found = gate.plan(threshold, noise).looks
        return found[0] if found else gate.pair.rounds
    if isinstance(threshold, BaselineThreshold):
        return None if gate.intervals else gate.pair.rounds
    return 1 if isinstance(threshold, LimitThreshold) else min(2, gate.pair.rounds)


def most_rounds(pair: ArmPair, gates: Sequence[Gate], noise: Sequence[ArmNoise]) -> int:
    """Return the rounds of a pair at most; one that no gate judges runs all that it asks for."""
    own = _gates_of(pair, gates)
    if not own or any(gate.intervals or gate.baselines for gate in own):
        return pair.rounds
    return max(first for gate in own for first in _firsts(gate, noise))


def sure_rounds(pair: ArmPair, gates: Sequence[Gate], noise: Sequence[ArmNoise]) -> int:
    """Return the rounds that a pair runs unless something fails: until all of its gates may have been decided."""
    own = _gates_of(pair, gates)
    if not own:
        return pair.rounds
    return max(min(_firsts(gate, noise), default=pair.rounds) for gate in own)


def judged_rounds(pair: ArmPair, gates: Sequence[Gate], noise: Sequence[ArmNoise]) -> int:
    """Return the rounds after which every claim on a pair has been judged once; all of them where nothing is."""
    firsts = [first for gate in _gates_of(pair, gates) for first in _firsts(gate, noise)]
    return max(firsts, default=pair.rounds)


@dataclasses.dataclass(frozen=True, slots=True)
class Later:
    """Boots of the rounds to come.

    Attributes:
        arms: names in the order of the boots, at most.
        sure: whether all of them come unless something fails.
    """

    arms: tuple[str, ...]
    sure: bool


def later_boots(
    still_open: Sequence[ArmPair],
    gates: Sequence[Gate],
    noise: Sequence[ArmNoise],
    *,
    pairs: Sequence[ArmPair],
    done: int,
) -> Later:
    """Return the boots after so many rounds.

    Args:
        still_open: pairs that need further rounds, as far as is known.
        gates: of the window.
        noise: calibrations that apply.
        pairs: all of the window, which fix the order of the boots.
        done: rounds that are measured, or begun.
    """
    most_of = [(pair, most_rounds(pair, gates, noise)) for pair in still_open]
    sure_of = [(pair, sure_rounds(pair, gates, noise)) for pair in still_open]
    names: list[str] = []
    sure = True
    for number in range(done + 1, max((rounds for _, rounds in most_of), default=0) + 1):
        most, least = (arms_of([pair for pair, rounds in of if number <= rounds]) for of in (most_of, sure_of))
        names += [arm.name for arm in boot_order(arms_of(pairs), number) if arm in most]
        sure = sure and len(most) == len(least)
    return Later(tuple(names), sure)


def _gates_of(pair: ArmPair, gates: Sequence[Gate]) -> list[Gate]:
    return [gate for gate in gates if gate.pair.key == pair.key]


def _firsts(gate: Gate, noise: Sequence[ArmNoise]) -> list[int]:
    found = (first_judged(threshold, gate, noise) for threshold in gate.thresholds)
    return [first for first in found if first is not None]
