"""Which measurement would change advice on draft horizons."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_specgate.core.noise import UNKNOWN_NOISE
from pytest_specgate.core.plan import Claim
from pytest_specgate.core.planning import rounds_after
from pytest_specgate.core.statistics import Look

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_specgate.core.advice import Advice, Duel
    from pytest_specgate.core.horizon import Crossing, Horizon
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.noise import Noise

_TAIL: Final = 0.025

ChangeKind: TypeAlias = Literal["strangers", "contradiction", "undecided", "noise", "promising", "curves", "nothing"]


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A measurement that would change advice.

    Attributes:
        kind: what is missing now: ``strangers`` never met in a window; of a ``contradiction`` windows say the opposite
            of each other; ``undecided`` horizons differ by less than the noise; of ``noise`` nothing is known;
            ``promising`` horizons were not measured; ``curves`` alone tell what they can; ``nothing`` tells.
        ks: horizons to be measured in one window.
        at: load level; `None` where none was looked at.
        horizon: that promises more, as it is predicted.
        against: speed of the best horizon that was measured beside it, in tokens/s.
        rounds: about how many a window of both needs; `None` where no number does, or nobody can tell.
    """

    kind: ChangeKind
    ks: tuple[int, ...]
    at: Level | None
    horizon: Horizon | None = None
    against: float | None = None
    rounds: int | None = None


def is_open(one: Advice, crossings: Sequence[Crossing]) -> bool:
    """Whether a curve did not fall under the cut where it was measured, so that longer horizons may do as well."""
    return one.basis == "cut" and any(found.is_beyond and found.most == one.ks[-1] for found in crossings)


def changes_of(
    one: Advice,
    *,
    noise: Mapping[tuple[str, str], Noise],
    predicted: Mapping[tuple[str, Level], Sequence[Horizon]],
    crossings: Sequence[Crossing],
) -> Iterator[Change]:
    """Yield the measurements that would change advice.

    Args:
        one: advice for one objective.
        noise: of a paired difference, by window and metric.
        predicted: what each horizon gives and costs, by window and level.
        crossings: where curves fall under the cut.
    """
    if one.basis == "nothing":
        yield Change("nothing", (), None)
        return
    if one.basis == "cut":
        # Where not even a first position is worth it, a window has to show that, too.
        longer = is_open(one, crossings) or one.ks == (0,)
        yield Change("curves", (*one.ks, *([one.ks[-1] + 1] if longer else [])), None)
        return
    for both in one.strangers:
        yield Change("strangers", both, one.at)
    seen: set[frozenset[int]] = set()
    for duel in one.duels:
        pair = frozenset((duel.first, duel.second))
        if pair <= {*one.ks} and pair not in seen:
            seen.add(pair)
            yield _of_duel(duel, one, noise.get((duel.window, duel.metric), UNKNOWN_NOISE))
    for horizon in one.promising:
        yield _promise(horizon, one, predicted)


def _of_duel(duel: Duel, one: Advice, noise: Noise) -> Change:
    ks = (min(duel.first, duel.second), max(duel.first, duel.second))
    met = [other for other in one.duels if {other.first, other.second} == {*ks}]
    if any(other.is_decided for other in met):
        return Change("contradiction", ks, one.at)
    if duel.gain is None:
        return Change("noise", ks, one.at)
    return Change("undecided", ks, one.at, rounds=rounds_to_tell(duel, noise))


def rounds_to_tell(duel: Duel, noise: Noise) -> int | None:
    """Return about how many rounds a window needs to tell two horizons apart; `None` for more than anybody should ask.

    Args:
        duel: whose interval holds no change.
        noise: of a paired difference, as it was known beforehand.
    """
    assert duel.gain is not None, "nothing tells the noise of this duel"
    df = noise.df + duel.rounds - 1
    from pytest_specgate.core.rule import quantile  # noqa: PLC0415  - numpy, which only advice may cost

    sd = (duel.gain.high - duel.gain.mean) * math.sqrt(duel.rounds) / float(quantile(_TAIL, df))
    look = Look("INCONCLUSIVE", "the interval contains no change", duel.gain.mean, sd=sd, df=df)
    return rounds_after(look, claim=Claim(0.0), rounds=duel.rounds, noise=noise)


def _promise(horizon: Horizon, one: Advice, predicted: Mapping[tuple[str, Level], Sequence[Horizon]]) -> Change:
    """Return what a window of a horizon that nobody measured would tell, against the fastest one beside it."""
    rows = next(rows for (_, at), rows in predicted.items() if at == one.at and horizon in rows)
    speeds = {row.k: row.speed_tokens_per_s.value for row in rows if row.k in one.ks and row.speed_tokens_per_s}
    fastest = max(speeds, key=lambda k: speeds[k])
    ks = (min(horizon.k, fastest), max(horizon.k, fastest))
    return Change("promising", ks, one.at, horizon=horizon, against=speeds[fastest])
