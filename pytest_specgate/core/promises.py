"""Draft horizons that nobody measured, and that may be as good as the best that was, by what is predicted of them.

The speed of a stream is predicted by `pytest_specgate.core.horizon`. Throughput is not that speed times one number for
all: an arm without speculation keeps its streams waiting otherwise than one that drafts. Among the k that draft it
nearly is, so the throughput of an unmeasured one is predicted from that of its nearest measured neighbour j::

    throughput(k) = speed(k) * throughput(j) / speed(j)

with the interval of speed(k): throughput and speed of j are of the same boots, whose noise cancels in their quotient.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pytest_specgate.core.acceptance import Estimate
    from pytest_specgate.core.horizon import Horizon


@dataclasses.dataclass(frozen=True, slots=True)
class Promise:
    """A horizon that nobody measured, and that may be as good as the best one beside it.

    Attributes:
        window: that tells both.
        horizon: as it is predicted.
        figure: what counts, in tokens/s: its speed of one stream, or its throughput.
        best: the best horizon of the same window, among those that are left.
        against: figure of that one.
    """

    window: str
    horizon: Horizon
    figure: Estimate
    best: int
    against: Estimate

    @property
    def k(self) -> int:
        """Return the horizon that nobody measured."""
        return self.horizon.k

    @property
    def change(self) -> float:
        """Predicted change from the best one to this one, a fraction."""
        return self.figure.value / self.against.value - 1


def promises(
    window: str,
    rows: Sequence[Horizon],
    *,
    left: Collection[int],
    measured: Collection[int],
    throughputs: Mapping[int, Estimate] | None,
) -> Iterator[Promise]:
    """Yield the horizons that nobody measured, and whose upper end reaches the lower one of the best that is left.

    Args:
        window: that tells of all of them.
        rows: what each horizon gives and costs there.
        left: horizons that nobody has beaten.
        measured: horizons that were measured, in whatever window.
        throughputs: of the horizons that were measured in this one, in tokens/s; `None` where the speed of one stream
            counts.
    """
    speeds = {row.k: row.speed_tokens_per_s for row in rows if row.speed_tokens_per_s is not None}
    figures = speeds if throughputs is None else _throughputs(speeds, throughputs)
    best = max((k for k in figures if k in left), key=lambda k: figures[k].value, default=None)
    if best is None:
        return
    against = figures[best]
    least = against.value if against.low is None else against.low
    for row in rows:
        found = None if row.k in measured else figures.get(row.k)
        if found is not None and (found.value if found.high is None else found.high) > least:
            yield Promise(window, row, found, best, against)


def _throughputs(speeds: Mapping[int, Estimate], own: Mapping[int, Estimate]) -> dict[int, Estimate]:
    """Return throughputs as measured, and of other horizons that draft as their nearest neighbour tells."""
    ratios = {k: own[k].value / speeds[k].value for k in own if k and k in speeds}
    found = dict(own)
    for k, speed in speeds.items():
        if k and k not in own and ratios:
            # Of two as near the longer one, whose curve tells the acceptance, too.
            nearest = min(ratios, key=lambda other: (abs(other - k), -other))
            found[k] = _times(speed, ratios[nearest])
    return found


def _times(one: Estimate, factor: float) -> Estimate:
    low, high = (None if end is None else factor * end for end in (one.low, one.high))
    return dataclasses.replace(one, value=factor * one.value, low=low, high=high)
