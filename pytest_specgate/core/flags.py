"""What a reader of a verdict should know besides: nothing here changes an outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core.metrics import metric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.gate import Threshold
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.rounds import Rounds
    from pytest_specgate.core.statistics import Look

LEAST_IN_FLIGHT: Final = 0.75
"""Achieved / declared concurrency below which a verdict says so."""

MOST_RISE: Final = 1.5
"""Rise of latency within an open loop above which a verdict says so."""

RANDOM_TOKENS: Final = "random tokens: acceptance means nothing"
"""What every report says of a load of random tokens."""

MOST_GAIN: Final = 0.10
"""Gain above which a claim of 'not worse' asks for a second look."""


def flags(threshold: Threshold, profile: RequestProfile, *, change: float, look: Look, rounds: Rounds) -> Iterator[str]:
    """Yield what stands beside a verdict, one sentence each."""
    if profile.prompts == "random":
        yield RANDOM_TOKENS
    yield from look.flags
    yield from _of_noise(threshold, look)
    gain = change if metric(threshold.metric).higher_is_better else 1 / (1 + change) - 1
    if threshold.kind == "not_worse" and gain > MOST_GAIN:
        yield "more than 10 % better on a claim of 'not worse': check that both arms did the same work"
    yield from _of_load(threshold, rounds)


def _of_noise(threshold: Threshold, look: Look) -> Iterator[str]:
    rejected = look.source.startswith("own (calibration rejected)")
    if rejected and look.sd is not None and threshold.floor is not None:
        yield (
            f"rounds scatter more (sd {100 * look.sd:.1f} %) than the declared floor allows "
            f"({100 * threshold.noise.sigma:.1f} %), so the interval rests on them alone: look for other load on the "
            f"machine, measure more rounds, or declare a larger floor"
        )


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
    if threshold.metric.startswith("ttft") and reference is not None and candidate is not None:
        yield (
            f"sends after the first wave that came in bunches: reference {100 * reference:.0f} %, candidate "
            f"{100 * candidate:.0f} %; where these differ, TTFT compares the rhythms of the arms and not only prefill"
        )
