"""Acceptance by how long the drafter has been right: what a curve tells of shorter horizons if that is what counts.

A shorter horizon drafts more often within a stretch of text that the drafter gets right, and a stretch ends once
whatever k is. Let p_j be the chance that a token is right after a streak of j that were. A draft of k tokens that
begins after a streak of j has them accepted with p_j, p_j p_(j+1), ... If all are, and the token that the target adds
is right, too, the next draft begins after j + k + 1, else after none: a Markov chain over streaks. Rates by position
are those of its stationary distribution, so the rates of a horizon K tell p_0 to p_(K-1) (longer streaks are as
p_(K-1)), and these the rates of any k. If p does not depend on j, this is the product of conditional acceptances.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    _Floats: TypeAlias = npt.NDArray[np.float64]

_LONGEST: Final = 16
"""Streaks beyond are taken for equal: nobody's rates tell more, and time grows with their number."""

_CLOSE: Final = 1e-3
_TRIES: Final = 40
_CERTAIN: Final = 1 - 1e-9


@dataclasses.dataclass(frozen=True, slots=True)
class Streaks:
    """Chances that the next token is right.

    Attributes:
        chances: after a streak of 0, 1, 2, ...; the last one holds for all longer ones.
    """

    chances: tuple[float, ...]

    def length(self, k: int) -> float:
        """Return the tokens of a step that drafts k, were the horizon k: 1 + the sum of the rates of its positions."""
        return 1 + float(_rates(np.array(self.chances), k).sum())


def streaks_of(rates: Sequence[float]) -> Streaks | None:
    """Return the chances that rates by position follow from; `None` where no chances give such rates.

    Args:
        rates: accepted / drafts by position, from position 1; they never rise.
    """
    from scipy import optimize  # noqa: PLC0415  - a quarter of a second that only predictions may cost

    given: _Floats = np.array(rates)

    def missed(chances: _Floats) -> _Floats:
        return _rates(chances, len(rates)) - given

    before = np.array([1.0, *rates[:-1]])
    start = np.divide(given, before, out=np.zeros_like(given), where=before > 0)[:_LONGEST]
    found = optimize.least_squares(missed, np.clip(start, 0.01, 0.99), bounds=(0.0, 1.0), max_nfev=_TRIES)
    if float(np.abs(found.fun).max()) > _CLOSE:
        return None
    return Streaks(tuple(map(float, found.x)))


def _rates(chances: _Floats, k: int) -> _Floats:
    """Return the rates by position of drafts of k."""
    longest = len(chances)
    streaks = np.arange(longest + 1)
    after = np.minimum(streaks[:, None] + np.arange(k + 1), longest - 1)
    taken = np.cumprod(chances[after], axis=1)
    rates: _Floats = _stationary(taken[:, k], k) @ taken[:, :k]
    return rates


def _stationary(goes_on: _Floats, k: int) -> _Floats:
    """Return how often drafts begin after each streak, the last of which stands for all longer ones.

    Args:
        goes_on: by streak, the chance that a whole draft and the token after it are right.
        k: tokens of a draft.
    """
    longest = len(goes_on) - 1
    often: _Floats = np.zeros(longest + 1)
    often[0] = 1.0
    for streak in range(longest):
        often[min(streak + k + 1, longest)] += often[streak] * goes_on[streak]
    # A streak that never ends leaves all else behind.
    often[longest] /= 1 - min(float(goes_on[longest]), _CERTAIN)
    return often / float(often.sum())
