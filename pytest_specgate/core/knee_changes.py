"""Which measurement would change advice on draft horizons."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Literal, TypeAlias

from pytest_specgate.core.noise import UNKNOWN_NOISE
from pytest_specgate.core.plan import CALIBRATED_DF, Claim
from pytest_specgate.core.planning import rounds_after
from pytest_specgate.core.statistics import Look

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pytest_specgate.core.advice import Advice, Duel
    from pytest_specgate.core.horizon import Crossing
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.promises import Promise

ChangeKind: TypeAlias = Literal[
    "strangers", "contradiction", "undecided", "noise", "promising", "unpredicted", "curves", "rate", "nothing"
]


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A measurement that would change advice.

    Attributes:
        kind: what is missing now: ``strangers`` never met in a window; of a ``contradiction`` windows say the opposite
            of each other; ``undecided`` horizons differ by less than the noise; of ``noise`` nothing is known;
            ``promising`` horizons were not measured; nor were ``unpredicted`` ones, of which nothing is known;
            ``curves`` alone tell what they can; under an arrival ``rate`` alone nothing tells of throughput;
            ``nothing`` tells.
        ks: horizons to be measured in one window.
        at: load level; `None` where none was looked at.
        promises: of horizons that nobody measured, the best prediction first; `ks` are the first and who it is held
            against.
        dropped: those among `ks` that a sweep never booted, by their speed.
        rounds: about how many a window of both needs; `None` where no number does, or nobody can tell.
        is_noise_known: whether anything tells the noise that a promise would have to stand out of.
    """

    kind: ChangeKind
    ks: tuple[int, ...]
    at: Level | None
    promises: tuple[Promise, ...] = ()
    dropped: tuple[int, ...] = ()
    rounds: int | None = None
    is_noise_known: bool = True


def is_open(one: Advice, crossings: Sequence[Crossing]) -> bool:
    """Whether a curve did not fall under the cut where it was measured, so that longer horizons may do as well."""
    return one.basis == "cut" and any(found.is_beyond and found.most == one.ks[-1] for found in crossings)


def telling(crossings: Sequence[Crossing]) -> list[Crossing]:
    """Leave out short curves that wholly lie above the cut: they only say that it is not within them."""
    return [
        one
        for one in crossings
        if one.least < one.measured or not any(other.most > one.measured for other in crossings)
    ]


def changes_of(
    one: Advice,
    *,
    noise: Mapping[tuple[str, str], Noise],
    crossings: Sequence[Crossing],
    unbooted: Collection[int] = (),
) -> Iterator[Change]:
    """Yield the measurements that would change advice.

    Args:
        one: advice for one objective.
        noise: of a paired difference, by window and metric.
        crossings: where curves fall under the cut.
        unbooted: horizons that sweeps ruled out before their first boot.
    """
    if one.basis == "nothing":
        yield Change("rate" if one.of_rate else "nothing", (), None)
    elif one.basis == "cut":
        # Where not even a first position is worth it, a window has to show that, too.
        longer = is_open(one, crossings) or one.ks == (0,)
        yield Change("curves", (*one.ks, *([one.ks[-1] + 1] if longer else [])), None)
    else:
        yield from (Change("strangers", both, one.at) for both in one.strangers)
        yield from _between(one, noise)
        if one.promising:
            yield _promise(one, noise)
        dropped = {*unbooted} if one.objective == "latency" else set()
        if missed := tuple(sorted({*one.unpredicted, *dropped} - {*one.candidates})):
            yield Change("unpredicted", missed, one.at, dropped=tuple(k for k in missed if k in dropped))


def _between(one: Advice, noise: Mapping[tuple[str, str], Noise]) -> Iterator[Change]:
    """Yield what would tell horizons apart that are left and met, each two of them once."""
    yield from (Change("contradiction", circle, one.at) for circle in one.contradictions)
    seen = {frozenset(both) for circle in one.contradictions for both in itertools.combinations(circle, 2)}
    for duel in one.duels:
        pair = frozenset((duel.first, duel.second))
        if pair <= {*one.ks} and pair not in seen:
            seen.add(pair)
            yield _of_duel(duel, one, noise.get((duel.window, duel.metric), UNKNOWN_NOISE))


def _of_duel(duel: Duel, one: Advice, noise: Noise) -> Change:
    ks = (min(duel.first, duel.second), max(duel.first, duel.second))
    if duel.gain is None:
        return Change("noise", ks, one.at)
    return Change("undecided", ks, one.at, rounds=rounds_to_tell(duel, noise, family=len(one.duels)))


def rounds_to_tell(duel: Duel, noise: Noise, *, family: int = 1) -> int | None:
    """Return about how many rounds a window needs to tell two horizons apart; `None` for more than anybody should ask.

    Args:
        duel: whose interval holds no change.
        noise: of a paired difference, as it was known beforehand.
        family: pairs of horizons that are compared with it.
    """
    assert duel.gain is not None, "nothing tells the noise of this duel"
    df = noise.df + duel.rounds - 1
    look = Look("INCONCLUSIVE", "the interval contains no change", duel.gain.mean, sd=_sd(duel, noise), df=df)
    return rounds_after(look, claim=Claim(0.0), rounds=duel.rounds, noise=noise, family=family)


def _sd(duel: Duel, noise: Noise) -> float:
    """Return the standard deviation of a paired difference that the interval of a duel was made of."""
    assert duel.gain is not None, "nothing tells the noise of this duel"
    from pytest_specgate.core.rule import quantile  # noqa: PLC0415  - numpy, which only advice may cost

    half = duel.gain.high - duel.gain.mean
    return half * math.sqrt(duel.rounds) / float(quantile(duel.tail, noise.df + duel.rounds - 1))


def _promise(one: Advice, noise: Mapping[tuple[str, str], Noise]) -> Change:
    """Return what a window of the first horizon that promises more would tell, against the best one beside it."""
    first = one.promising[0]
    ks = (min(first.k, first.best), max(first.k, first.best))
    known = noise.get((first.window, one.metric), UNKNOWN_NOISE)
    sd = _usual_sd(first.window, one.duels, known)
    if sd is None:
        return Change("promising", ks, one.at, one.promising, is_noise_known=False)
    # Nothing was measured of these two: all rounds are to come, two of which tell nothing where the noise is not known
    # beforehand. The pair joins those that were compared.
    past = 0 if known.df >= CALIBRATED_DF else 2
    look = Look("CONTINUE", "none was measured", math.log1p(first.change), sd=sd, df=known.df + past - 1)
    rounds = rounds_after(look, claim=Claim(0.0), rounds=past, noise=known, family=len(one.duels) + 1)
    return Change("promising", ks, one.at, one.promising, rounds=rounds)


def _usual_sd(window: str, duels: Sequence[Duel], noise: Noise) -> float | None:
    """Return the standard deviation of a paired difference in a window: that of its duels, or else as it is known."""
    own = [_sd(duel, noise) for duel in duels if duel.window == window and duel.gain is not None]
    if not own:
        return noise.sigma if noise.df else None
    return math.sqrt(math.fsum(sd * sd for sd in own) / len(own))
