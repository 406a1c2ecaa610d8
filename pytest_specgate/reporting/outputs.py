"""What reports say of the answers themselves: whether they were compared, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core import outputs
from pytest_specgate.core.judge import first_point_problem, pair_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.outputs import Agreement
    from pytest_specgate.core.records import WindowRecord

NO_ACCURACY_CHECK: Final = "no accuracy check ran"
NOTHING_COMPARED: Final = f"outputs were not compared: no point of both arms can be judged; {NO_ACCURACY_CHECK}"


def output_lines(pairs: Sequence[ArmPair], record: WindowRecord) -> Iterator[str]:
    """Yield one line a pair, or the one reason why there is none.

    Args:
        pairs: those whose figures may be shown.
        record: what was measured.
    """
    if not any(map(record.profile.greedy_at, record.profile.points)):
        yield f"{outputs.incomparable(record.profile)}; {NO_ACCURACY_CHECK}"
        return
    lines = [line for pair in pairs if (line := _line(pair, record)) is not None]
    yield from lines or [NOTHING_COMPARED]


def outputs_in_short(pair: ArmPair, record: WindowRecord) -> str:
    """Return the one line on the answers of a pair, whether it can be judged or not."""
    readable = [] if pair_problem(pair, record) else [pair]
    return next(output_lines(readable, record))


def _line(pair: ArmPair, record: WindowRecord) -> str | None:
    greedy = filter(record.profile.greedy_at, record.profile.points)
    usable = [at for at in greedy if first_point_problem(pair, record, at=at) is None]
    found = outputs.of_pair(pair, record, points=usable)
    if not found.arms.compared:
        return None
    names = (pair.reference.name, pair.candidate.name)
    parts = [
        f"outputs: {found.arms.words} answers equal between {names[1]} and {names[0]} ({_floor(names, found)})",
        *([] if found.arms.first is None else [found.arms.first.words]),
        *([] if (drawn := outputs.incomparable(record.profile)) is None else [drawn]),
        NO_ACCURACY_CHECK,
    ]
    return "; ".join(parts)


def _floor(names: tuple[str, str], found: outputs.PairOutputs) -> str:
    """Say how far each arm repeats itself: what no other arm can be expected to exceed."""
    sides: list[tuple[str, Agreement]] = list(zip(names, (found.reference, found.candidate), strict=True))
    known = [f"{name} with itself across rounds: {side.words}" for name, side in sides if side.compared]
    return ", ".join(known) or "one round, so whether an arm repeats itself is not known"
