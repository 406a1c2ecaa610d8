"""What a reader of a verdict should know besides: nothing here changes an outcome."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.known import Known
    from pytest_specgate.core.rounds import Rounds
    from pytest_specgate.core.statistics import Look
    from pytest_specgate.core.thresholds import Threshold

LEAST_IN_FLIGHT: Final = 0.75
"""Achieved / declared concurrency below which a verdict says so."""

MOST_RISE: Final = 1.5
"""Rise of latency within an open loop above which a verdict says so."""

RANDOM_TOKENS: Final = "random tokens: acceptance means nothing"
"""What every report says of a load of random tokens."""

MOST_GAIN: Final = math.log(1.1)
"""Gain, in log units, above which a claim of 'not worse' asks for a second look."""

MODE_SDS: Final = 4.0
"""Distance between neighbouring boots of one arm, in standard deviations of a round, that makes two modes of them."""


def of_load(pair: ArmPair) -> Iterator[str]:
    """Say what a load cannot tell."""
    if pair.profile.prompts == "random":
        yield RANDOM_TOKENS


def flags(threshold: Threshold, pair: ArmPair, *, look: Look, rounds: Rounds, known: Known) -> Iterator[str]:
    """Yield what stands beside a verdict, one sentence each."""
    yield from of_load(pair)
    yield from look.flags
    yield from _of_noise(threshold, look=look, known=known)
    if threshold.kind == "not_worse" and look.mean > MOST_GAIN and not threshold.points:
        yield "more than 10 % better on a claim of 'not worse': check that both arms did the same work"
    yield from _of_modes(threshold, pair, look=look, rounds=rounds, known=known)
    yield from of_company(rounds)
    yield from _of_load(threshold, rounds)


def _of_noise(threshold: Threshold, *, look: Look, known: Known) -> Iterator[str]:
    unit = "points" if threshold.points else "%"
    rejected = look.source.startswith("own (calibration rejected)")
    if rejected and look.sd is not None:
        what, cure = (
            ("calibration", "calibrate anew") if known.calibrated else ("declared floor", "declare a larger floor")
        )
        yield (
            f"rounds scatter more (sd {100 * look.sd:.1f} {unit}) than the {what} allows "
            f"({100 * known.noise.sigma:.1f} {unit}), so the interval rests on them alone: look for other load on the "
            f"machine, measure more rounds, or {cure}"
        )


def _of_modes(threshold: Threshold, pair: ArmPair, *, look: Look, rounds: Rounds, known: Known) -> Iterator[str]:
    """Name boots that are far from the others of their arm; they are judged with them all the same."""
    sigma = known.noise.sigma if known.noise.df else look.sd
    if sigma is None:
        return
    least = max(threshold.scale().mode_gap, MODE_SDS * sigma)
    for arm, side in zip(pair.arms, (rounds.reference, rounds.candidate), strict=True):
        scaled = side.values if threshold.points else [math.log(value) for value in side.values]
        lower = _lower_mode(scaled, least=least)
        if lower:
            higher = [number for number in range(1, len(scaled) + 1) if number not in lower]
            yield (
                f"two boot modes of {arm.name}: boots of rounds {_listed(lower)} lie apart from those of rounds "
                f"{_listed(higher)}; none is left out"
            )


def _lower_mode(values: Sequence[float], *, least: float) -> list[int]:
    """Return the rounds, from 1, of the boots below the largest gap; none where no gap is as large as the least."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    gaps = [values[later] - values[earlier] for earlier, later in itertools.pairwise(order)]
    if not gaps or max(gaps) <= least:
        return []
    return sorted(place + 1 for place in order[: gaps.index(max(gaps)) + 1])


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def of_company(rounds: Rounds) -> Iterator[str]:
    """Say when another arm ran between the two of a pair: what drifts meanwhile is not cancelled as well."""
    apart = [number for number, distance in enumerate(rounds.distances, start=1) if distance > 1]
    if apart:
        yield f"another arm ran between the two of this pair in rounds {_listed(apart)}, so a drift weighs more"


def _of_load(threshold: Threshold, rounds: Rounds) -> Iterator[str]:
    """Say where the load was not what its figure suggests."""
    least = min(rounds.reference.in_flight + rounds.candidate.in_flight, default=1.0)
    if least < LEAST_IN_FLIGHT:
        yield (
            f"only {100 * least:.0f} % of the declared concurrency was in flight on average: the last answers of a "
            f"point run alone, and more requests make that part small"
        )
    rise = max(rounds.reference.rises + rounds.candidate.rises, default=1.0)
    if rise > MOST_RISE:
        yield (
            f"requests of the second half took {rise:.1f} times as long as those of the first: a server did not keep "
            f"up with {threshold.at}, so latencies tell how long the point lasted"
        )
    reference, candidate = rounds.reference.bunched(), rounds.candidate.bunched()
    of_client = threshold.row.definition is None and threshold.metric.startswith("ttft")
    if of_client and reference is not None and candidate is not None:
        yield (
            f"sends after the first wave that came in bunches: reference {100 * reference:.0f} %, candidate "
            f"{100 * candidate:.0f} %; where these differ, TTFT compares the rhythms of the arms and not only prefill"
        )
