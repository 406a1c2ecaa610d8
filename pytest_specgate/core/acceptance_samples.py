"""What acceptance curves are made of: counters of points, and what requests tell of their own speculation.

vLLM counts a draft for its counters and for its request at the same place, so the two agree to the last token unless a
request was aborted, or was somebody else's. Where they do not, the counters are believed.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.acceptance import AcceptanceCurve
from pytest_specgate.core.errors import ScrapeError, UsageError
from pytest_specgate.core.speculation import pool, too_few_drafts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.acceptance import Basis
    from pytest_specgate.core.records import PointRecord
    from pytest_specgate.core.request_speculation import RequestSpeculation
    from pytest_specgate.core.speculation import SpeculationDelta

NOT_ASKED: Final = (
    "not told: vLLM tells what each request drafted when it is started with per_request_spec_decode_metrics='summary'"
)
"""Why a server that was not asked to tell of single requests has no samples."""


@dataclasses.dataclass(frozen=True, slots=True)
class RequestSamples:
    """What the complete answers of one point tell of their own speculation.

    Attributes:
        samples: one for each, in sending order.
        proposed: drafts that reached each position, from position 1, over all of them; `None` where not all tell.
        problem: why there are no samples; empty where there are.
    """

    samples: tuple[SpeculationDelta, ...] = ()
    proposed: tuple[int, ...] | None = None
    problem: str = ""


def request_samples(point: PointRecord) -> RequestSamples:
    """Return what was drafted and accepted request by request, if all requests tell it and the counters agree."""
    if problem := _untold(point) or _disagreement(point):
        return RequestSamples(problem=problem)
    told = _told(point)
    return RequestSamples(tuple(one.delta() for one in told), _sums([one.proposed_per_position for one in told]))


def samples_problem(points: Sequence[PointRecord]) -> str:
    """Return why `curve_of` these points has no samples by prompt: the reason of the first that has one, else empty."""
    return next((samples.problem for samples in map(request_samples, points) if samples.problem), "")


def curve_of(points: Sequence[PointRecord]) -> AcceptanceCurve:
    """Return the acceptance of one arm at one load level.

    Its samples are the prompts, each with what it drafted in all boots, if every point tells it; else the boots; a
    single one of either tells nothing of how much they scatter.

    Args:
        points: the same load level in one or more boots.

    Raises:
        UsageError: there is no point, they are not of one level and horizon, or nothing was drafted.
        ScrapeError: a counter is missing or went back.
    """
    deltas = [_counted(point) for point in points]
    if len({(point.label, len(delta.accepted_per_position)) for point, delta in zip(points, deltas, strict=True)}) != 1:
        raise UsageError("an acceptance curve is of one load level and one draft horizon: give points of one arm there")
    told = [request_samples(point) for point in points]
    counts = pool(deltas)
    if any(samples.problem for samples in told):
        return AcceptanceCurve(counts, *_boots(deltas), boots=len(points))
    proposed = _sums([samples.proposed for samples in told])
    prompts = _prompts(points, told)
    if _several(prompts):
        return AcceptanceCurve(counts, prompts, "prompts", proposed, boots=len(points))
    return AcceptanceCurve(counts, *_boots(deltas), proposed, boots=len(points))


def check_drafts(points: Sequence[PointRecord]) -> None:
    """Refuse points of which one has too few drafts for any figure of acceptance.

    Args:
        points: the same load level in one or more boots.

    Raises:
        UsageError: one has too few, or no speculation counters.
        ScrapeError: a counter is missing or went back.
    """
    for point in points:
        if too_few := too_few_drafts(_counted(point).drafts):
            remedy = "send more requests, or ask for more output tokens"
            raise UsageError(f"no acceptance is told: {too_few} in each boot: {remedy}")


def decoded_of(points: Sequence[PointRecord], curve: AcceptanceCurve) -> tuple[int, ...]:
    """Return the output tokens of decode steps, all but the first of each answer, by sample of a curve.

    Args:
        points: those of the curve, in their order.
        curve: as `curve_of` made it; empty where it has no samples.
    """
    if curve.basis == "prompts":
        found: collections.Counter[int] = collections.Counter()
        for request in (request for point in points for request in point.completed):
            found[request.index] += max(0, (request.output_tokens or 0) - 1)
        return tuple(found[index] for index in sorted(found))
    return tuple(point.counters.decode_tokens() for point in points) if curve.basis == "boots" else ()


def _untold(point: PointRecord) -> str:
    """Return why not all complete answers of a point tell of themselves, empty if they do."""
    completed = point.completed
    if not completed:
        return "no request was answered"
    disbelieved = [request for request in completed if request.speculation_problem is not None]
    if disbelieved:
        first = disbelieved[0]
        where = f"in {len(disbelieved)} of {len(completed)} answers, the first of them of request {first.index}"
        return f"not told in a form that can be believed {where}: {first.speculation_problem}"
    silent = len(completed) - len(_told(point))
    if silent == len(completed):
        return NOT_ASKED
    return f"not told in {silent} of {len(completed)} answers" if silent else ""


def _disagreement(point: PointRecord) -> str:
    """Return in what the requests and the counters of a point do not agree, empty if they do."""
    try:
        counted = _counted(point)
    except (ScrapeError, UsageError) as error:
        return str(error)
    told = _told(point)
    horizons = sorted({one.k for one in told} | {len(counted.accepted_per_position)})
    if len(horizons) > 1:
        return f"requests and counters have draft horizons of {' and '.join(map(str, horizons))}"
    summed = pool([one.delta() for one in told])
    if summed == counted:
        return ""
    texts = [
        f"{delta.drafts} drafts, {delta.draft_tokens} draft tokens, {list(delta.accepted_per_position)} accepted"
        for delta in (summed, counted)
    ]
    return f"requests tell {texts[0]}, and the counters {texts[1]}: others were served, or some were aborted"


def _told(point: PointRecord) -> list[RequestSpeculation]:
    return [request.speculation for request in point.completed if request.speculation is not None]


def _counted(point: PointRecord) -> SpeculationDelta:
    delta = point.counters.speculation()
    if delta is None:
        raise UsageError(f"at {point.label} the server has no speculation counters, so there is no acceptance")
    return delta


def _prompts(points: Sequence[PointRecord], told: Sequence[RequestSamples]) -> tuple[SpeculationDelta, ...]:
    """Return one sample a prompt: every boot sends the same ones in the same order."""
    found: dict[int, list[SpeculationDelta]] = {}
    for point, samples in zip(points, told, strict=True):
        for request, sample in zip(point.completed, samples.samples, strict=True):
            found.setdefault(request.index, []).append(sample)
    return tuple(pool(found[index]) for index in sorted(found))


def _boots(deltas: Sequence[SpeculationDelta]) -> tuple[tuple[SpeculationDelta, ...], Basis]:
    return (tuple(deltas), "boots") if _several(deltas) else ((), "drafts")


def _several(samples: Sequence[SpeculationDelta]) -> bool:
    return sum(sample.drafts > 0 for sample in samples) > 1


def _sums(counts: Sequence[Sequence[int] | None]) -> tuple[int, ...] | None:
    """Return the sums by position; `None` if one of the counts is not known."""
    known = [one for one in counts if one is not None]
    return tuple(map(sum, zip(*known, strict=True))) if len(known) == len(counts) else None
