"""Which pairs of a window need another round, from what was measured so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.judge import wants_rounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord


def open_pairs(
    pairs: Sequence[ArmPair], gates: Sequence[Gate], record: WindowRecord, *, rounds_done: int
) -> tuple[ArmPair, ...]:
    """Return the pairs that need another round.

    Args:
        pairs: of the window.
        gates: on them; a pair without a gate is measured for all of its rounds, unless a sweep rules it out.
        record: what was measured so far.
        rounds_done: how many rounds that is.
    """
    return tuple(pair for pair in pairs if rounds_done < pair.rounds and _open(pair, gates, record))


def broken(pair: ArmPair, record: WindowRecord) -> bool:
    """Whether a boot of a pair failed: it is invalid then, and more boots would only cost time."""
    return any(boot.failure for boots in record.boots_for(pair) for boot in boots)


def _open(pair: ArmPair, gates: Sequence[Gate], record: WindowRecord) -> bool:
    if any(arm.name in record.ruled_out for arm in pair.arms):
        return False
    if not record.boots:
        return True
    if broken(pair, record):
        return False
    own = [gate for gate in gates if gate.pair.key == pair.key]
    return not own or any(wants_rounds(gate, record) for gate in own)
