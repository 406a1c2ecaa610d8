"""Quantities of one request and of one point, before any statistic is taken of them.

Times are of the client, in seconds. A part that is missing shows as NaN, never as 0, so that it cannot be averaged in.
"""

from __future__ import annotations

import itertools
import math
import statistics
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pytest_specgate.core.profile import Limited
    from pytest_specgate.core.records import PointRecord, RequestRecord

BUNCH_S: Final = 0.010
"""Sends closer together than this reach the scheduler as one batch."""


class NotMeasuredError(Exception):
    """A quantity cannot be had at a point; the text says why. Raised and caught inside the core."""


def ttft(request: RequestRecord) -> float:
    """Request sent to first token event."""
    return _known(request.ttft_s)


def first_text(request: RequestRecord) -> float:
    """Request sent to first visible text: later than TTFT when the first tokens are parts of characters."""
    return _known(request.first_text_s)


def decode_time(request: RequestRecord) -> float:
    """First to last token event: the time in which all output tokens but the first came."""
    return _known(request.last_token_s) - _known(request.ttft_s)


def tpot(request: RequestRecord) -> float | None:
    """Decode time / (output tokens - 1); `None` for an answer of one token, which has no such time."""
    if request.output_tokens == 1:
        return None
    return decode_time(request) / (request.output_tokens - 1) if request.output_tokens else math.nan


def decode_rate(request: RequestRecord) -> float | None:
    """1 / TPOT, in tokens per second: the speed a user feels; infinite, hence refused, for a TPOT of 0."""
    seconds = tpot(request)
    if seconds is None:
        return None
    return 1 / seconds if seconds else math.inf


def e2e(request: RequestRecord) -> float:
    """Request sent to last token event."""
    return _known(request.last_token_s)


def _known(value: float | None) -> float:
    """Return a time that every complete answer has; a missing one must be seen, not left out."""
    return math.nan if value is None else value


def is_good(request: RequestRecord, limits_s: dict[Limited, float]) -> bool:
    """Whether a complete request kept every limit; an answer of one token has no TPOT to exceed.

    Raises:
        NotMeasuredError: a limited quantity is not known.
    """
    found = {"ttft": ttft(request), "tpot": tpot(request) or 0.0, "e2e": e2e(request)}
    unknown = [name for name in limits_s if math.isnan(found[name])]
    if unknown:
        raise NotMeasuredError(f"request {request.index} has no {' and no '.join(unknown)} to hold against its limit")
    return all(found[name] <= limit for name, limit in limits_s.items())


def impossible(request: RequestRecord) -> str | None:
    """Say which of a complete request's values cannot be, `None` if all can.

    An event may not come before the request was sent, the last not before the first, and an answer has tokens.
    """
    times = {
        "its sending": 0.0,
        "its first token event": request.ttft_s,
        "its last token event": request.last_token_s,
        "the end of its stream": request.closed_s,
    }
    known = [(name, time) for name, time in times.items() if time is not None]
    for (earlier, before), (later, after) in itertools.pairwise(known):
        if after < before or (before == 0.0 == after):
            return f"{later} came at {after:g} s, {earlier} at {before:g} s"
    if request.first_text_s is not None and request.ttft_s is not None and request.first_text_s < request.ttft_s:
        return f"its first text came at {request.first_text_s:g} s, its first token event at {request.ttft_s:g} s"
    if request.output_tokens is not None and request.output_tokens < 1:
        return f"it has {request.output_tokens} output tokens"
    return None


def span_s(point: PointRecord) -> float:
    """First send to last token event of a point.

    Raises:
        NotMeasuredError: nothing completed, or a time is missing or impossible.
    """
    ends = [request.sent_s + e2e(request) for request in point.completed]
    if not ends:
        raise NotMeasuredError("no request completed")
    if not all(map(math.isfinite, ends)):
        raise NotMeasuredError("a complete answer has no last token event")
    seconds = max(ends) - min(request.sent_s for request in point.requests)
    if seconds <= 0:
        raise NotMeasuredError(f"the point lasted {seconds:g} s")
    return seconds


def output_tokens(point: PointRecord) -> int:
    """Output tokens of all complete requests, as the server counted them; prompt tokens are not among them.

    Raises:
        NotMeasuredError: the server did not count the tokens of some request.
    """
    counts = [request.output_tokens for request in point.completed]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        raise NotMeasuredError("the server sent no usage for some requests, so their tokens are unknown")
    return sum(known)


def latency_rise(point: PointRecord) -> float | None:
    """Return how much longer requests of the second half of an open loop took than those of the first (medians).

    Where a server keeps up with the rate this is near 1; where it does not, its queue grows for as long as the point
    lasts. `None` in a closed loop, which waits for the server, and for less than four complete requests.
    """
    done = sorted(point.completed, key=lambda request: request.sent_s)
    if point.concurrency is not None or len(done) < 4:
        return None
    half = len(done) // 2
    first, second = (statistics.median(map(e2e, part)) for part in (done[:half], done[half:]))
    return second / first if first > 0 else None


def bunched_sends(point: PointRecord) -> float | None:
    """Return the share of sends, after the first wave, that come within `BUNCH_S` of another one.

    In a closed loop with equal output lengths an arm that advances in lockstep ends, and so sends, in bunches, which
    are then prefilled as one batch; an arm that speculates sends one by one. Their TTFT compares these rhythms as much
    as it compares prefill. `None` for a single worker, for an open loop (its sends do not follow the server), or when
    there is no second wave.
    """
    workers = point.concurrency or 1
    sends = sorted(request.sent_s for request in point.requests)[workers:]
    if workers < 2 or len(sends) < 2:
        return None
    gaps = [later - earlier for earlier, later in itertools.pairwise(sends)]
    near = [min(before, after) < BUNCH_S for before, after in zip([math.inf, *gaps], [*gaps, math.inf], strict=True)]
    return sum(near) / len(near)
