"""The pairs of windows: what was judged of each of them, and names that tell those of one title apart."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.judge import NOT_BOOTED
from pytest_specgate.reporting.gate_names import short_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.stored import Failure
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.messages import Judged
    from pytest_specgate.reporting.session_report import ReportedWindow

_NAMED: Final = 2
"""Number of gates that the name of a pair tells."""


def same_pair(left: ArmPair, right: ArmPair) -> bool:
    """Whether two pairs of one window are the same.

    Arms of one window have names of their own and one load; as a record keeps them they have lost their secrets, so
    that they are not compared. Two pairs of the same arms may differ in rounds, in `varies` and in what they allow.
    """
    sides = [(one.title, one.paths, one.rounds, one.allow_engine_differences) for one in (left, right)]
    return sides[0] == sides[1]


def no_figures(problem: Failure) -> str:
    """Say why a pair has no figures: it was invalid, or a sweep never had it booted, which is no fault of it."""
    if problem.reason == NOT_BOOTED:
        return f"not booted: {problem.message}"
    return f"no figures ({problem.reason}): {problem.message}"


def verdicts_on(pair: ArmPair, judged: Iterable[Judged]) -> list[Verdict]:
    """Return what the gates on a pair were judged to be, and not those on another pair with the same title."""
    return [verdict for one in judged if same_pair(one.gate.pair, pair) for verdict in one.verdicts]


def is_on(pair: ArmPair, verdict: Verdict, gates: Iterable[Gate]) -> bool:
    """Whether a verdict is on a pair, by the pair of its gate.

    Args:
        pair: of the window.
        verdict: of the same window.
        gates: on its pairs.
    """
    gate = next((one for one in gates if one.id == verdict.gate), None)
    return verdict.pair == pair.title if gate is None else same_pair(gate.pair, pair)


def pair_names(windows: Sequence[ReportedWindow]) -> tuple[tuple[str, ...], ...]:
    """Return a name for each pair, by window: its title, and where another pair has it, too, what tells them apart.

    That is the names of the tests that judge it, or else the numbers of its window and of the pair in it.
    """
    placed = [(number, window, place) for number, window in enumerate(windows, 1) for place in range(len(window.pairs))]
    tests = short_names(gate.id for window in windows for gate in window.gates)
    names = [window.pairs[place].title for _, window, place in placed]
    for told in (
        [f" ({_tests(window.pairs[place], window.gates, tests)})" for _, window, place in placed],
        [f", window {number}" for number, _, _ in placed],
        [f", pair {place + 1}" for _, _, place in placed],
    ):
        counts = Counter(names)
        names = [f"{name}{more}" if counts[name] > 1 else name for name, more in zip(names, told, strict=True)]
    found = iter(names)
    return tuple(tuple(next(found) for _ in window.pairs) for window in windows)


def _tests(pair: ArmPair, gates: Iterable[Gate], tests: dict[str, str]) -> str:
    mine = [tests.get(gate.id, gate.id) for gate in gates if same_pair(gate.pair, pair)]
    more = [f"{len(mine) - _NAMED} more"] if len(mine) > _NAMED else []
    return ", ".join([*mine[:_NAMED], *more]) or "no gate"
