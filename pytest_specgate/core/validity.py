"""Reasons why a boot or a point cannot be judged, whatever its figures are."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import counters
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.hosts import drift, facts_of
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import measure
from pytest_specgate.core.profile import MOST_PROCESSES
from pytest_specgate.core.proof import NOT_AS_DECLARED
from pytest_specgate.core.quantities import impossible
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import BootRecord, PointRecord

BUSY_SHARE: Final = 0.9
"""CPU time / wall above which a process of the client hardly rests: what it stamps is its own queue."""

LAG_S: Final = 0.050
"""Lateness that is always tolerated: a client may be later for 5 % of the time, and with 5 % of its arrivals."""

LAG_SHARE: Final = 0.10
"""Lateness that is tolerated as a share of the median TTFT, where that is more."""

PREFIX_HIT_SHARE: Final = 0.01
"""Share of prompt tokens from the prefix cache that is taken for none, and difference taken for no difference."""

SPECULATION_INACTIVE: Final = "speculation-inactive"
"""Code of the reason that an arm declares speculation, and nothing was drafted."""

_LOOKUPS: Final = frozenset({"ngram", "ngram_gpu", "suffix"})
"""Methods of vLLM that have no drafter to load: they draft what followed the same tokens before."""

CHUNK_SHARE: Final = 0.02
"""Relative difference in tokens per chunk above which chunks of two arms are different things."""


def boot_problem(arm: Arm, boot: BootRecord, profile: RequestProfile) -> Failure | None:
    """Return the first reason why a boot cannot be judged at all, `None` if there is none."""
    if boot.failure is not None:
        return boot.failure
    drifted = drift(facts_of(boot.host_before), facts_of(boot.host_after))
    if drifted:
        text = "; ".join(found.sentence for found in drifted)
        return Failure(reason="host-drift", message=f"arm {arm.name}, round {boot.round}: the machine changed: {text}")
    missing = [at for at in profile.points if boot.point(at) is None]
    if missing:
        points = ", ".join(map(level_label, missing))
        return Failure(reason="not-measured", message=f"arm {arm.name}, round {boot.round}: {points} was not measured")
    return None


def drifted_between(boots: Sequence[BootRecord]) -> Failure | None:
    """Return why boots of one window were not on one machine, in the order in which they ran; `None` if they were."""
    for earlier, later in itertools.pairwise(boots):
        drifted = drift(facts_of(earlier.host_after), facts_of(later.host_before))
        if drifted:
            place = f"between {earlier.arm}, round {earlier.round}, and {later.arm}, round {later.round}"
            text = "; ".join(found.sentence for found in drifted)
            return Failure(reason="host-drift", message=f"the machine changed {place}: {text}")
    return None


def point_problem(arm: Arm, point: PointRecord, profile: RequestProfile) -> Failure | None:
    """Return the first reason why a point cannot be judged, `None` if there is none."""
    try:
        return next(_point_problems(arm, point, profile), None)
    except ScrapeError as error:
        return Failure(reason="counters-unreadable", message=_at(arm, point, str(error)))


def _point_problems(arm: Arm, point: PointRecord, profile: RequestProfile) -> Iterator[Failure]:
    asked = profile.requests[point.at]
    if point.failed:
        yield failed_requests(arm, point)
    if len(point.completed) < asked:
        text = f"{len(point.completed)} of {asked} requests completed"
        yield Failure(reason="too-few-requests", message=_at(arm, point, text))
    yield from _request_problems(arm, point, profile)
    yield from _quiet_problems(arm, point)
    yield from _count_problems(arm, point, profile)
    yield from _gauge_problems(arm, point)
    yield from _speculation_problems(arm, point, profile)
    yield from _prefix_problems(arm, point, profile)
    yield from _client_problems(arm, point)


def failed_requests(arm: Arm, point: PointRecord, *, log_tail: str = "") -> Failure:
    """Name how many requests of a point failed, and what the first of them was told."""
    text = f"{len(point.failed)} of {len(point.requests)} requests failed, the first with: {point.failed[0].error}"
    return Failure(reason="failed-requests", message=_at(arm, point, text), detail=log_tail)


def _request_problems(arm: Arm, point: PointRecord, profile: RequestProfile) -> Iterator[Failure]:
    """Check what every answer must have: possible times, a token count and, without end token, the length asked for."""
    for request in point.completed:
        if (problem := impossible(request)) is not None:
            text = f"request {request.index} has impossible values: {problem}"
            yield Failure(reason="impossible-value", message=_at(arm, point, text))
    uncounted = [request.index for request in point.completed if request.output_tokens is None]
    if uncounted:
        text = f"the server sent no usage for {len(uncounted)} requests, so their tokens are unknown"
        yield Failure(reason="no-usage", message=_at(arm, point, text))
    told = [request for request in point.completed if request.prompt_tokens != profile.input_tokens]
    if told and profile.input_tokens is not None:
        count = told[0].prompt_tokens
        text = (
            f"the server counts {count} prompt tokens in request {told[0].index}, declared are {profile.input_tokens}"
        )
        yield Failure(reason="no-usage" if count is None else "prompt-lengths", message=_at(arm, point, text))
    other = [request for request in point.completed if request.output_tokens != profile.output_tokens]
    if profile.ignore_eos and other:
        text = f"request {other[0].index} ended after {other[0].output_tokens} of {profile.output_tokens} output tokens"
        yield Failure(reason="output-lengths", message=_at(arm, point, text))


def _quiet_problems(arm: Arm, point: PointRecord) -> Iterator[Failure]:
    """Refuse a point around which the server was busy: none of our requests ran then."""
    for when, page in (("before", point.before), ("after", point.after)):
        busy = {
            word: int(page.total(gauge))
            for gauge, word in ((counters.RUNNING, "running"), (counters.WAITING, "waiting"))
            if page.has(gauge) and page.total(gauge)
        }
        if busy:
            found = " and ".join(f"{count} {word}" for word, count in busy.items())
            text = f"the server had requests {found} {when} the point, and none of them was ours"
            yield Failure(reason="foreign-traffic", message=_at(arm, point, text))


def _count_problems(arm: Arm, point: PointRecord, profile: RequestProfile) -> Iterator[Failure]:
    """Reconcile the server's counts with the client's: more on the server's side is somebody else's traffic."""
    finished = point.counters.finished()
    ended_badly = {reason: count for reason, count in finished.items() if reason in {"abort", "error"}}
    if ended_badly:
        reasons = ", ".join(f"{count} by {reason}" for reason, count in ended_badly.items())
        text = f"the server ended requests that the client saw complete: {reasons} (all: {finished})"
        yield Failure(reason="aborted-requests", message=_at(arm, point, text))
    prompts = [request.prompt_tokens for request in point.completed]
    checks: list[tuple[str, int, int]] = [
        (
            "generated {} tokens, our requests received {}",
            point.counters.count(counters.GENERATION_TOKENS),
            sum(request.output_tokens or 0 for request in point.completed),
        ),
        ("finished {} requests, we sent {}", sum(finished.values()), len(point.completed)),
    ]
    if all(count is not None for count in prompts) and point.after.has(counters.PROMPT_TOKENS):
        theirs = point.counters.count(counters.PROMPT_TOKENS)
        checks.append(("took in {} prompt tokens, our requests had {}", theirs, sum(count or 0 for count in prompts)))
    # Stop strings are found outside the engine, in the text: what a verify step gave beyond one is generated, not sent.
    spare = (arm.draft_horizon or 0) * len(point.completed) if ended_by_client(profile) else 0
    for words, theirs, ours in checks:
        if theirs != ours and not (words.startswith("generated") and 0 < theirs - ours <= spare):
            reason = "foreign-traffic" if theirs > ours else "counter-mismatch"
            yield Failure(reason=reason, message=_at(arm, point, f"the server {words.format(theirs, ours)}"))


def _gauge_problems(arm: Arm, point: PointRecord) -> Iterator[Failure]:
    """Refuse a point around which the server may have been busy without telling."""
    for when, page in (("before", point.before), ("after", point.after)):
        if not any(page.has(gauge) for gauge in counters.GAUGES):
            lacking = f"neither {counters.RUNNING} nor {counters.WAITING}"
            text = f"/metrics has {lacking} {when} the point, so the server may have served others meanwhile"
            yield Failure(reason="missing-counter", message=_at(arm, point, text))


def ended_by_client(profile: RequestProfile) -> bool:
    """Whether answers may end outside the engine, in the text: by a stop string."""
    return bool(profile.stop) and not profile.ignore_eos


def _speculation_problems(arm: Arm, point: PointRecord, profile: RequestProfile) -> Iterator[Failure]:
    speculation = point.counters.speculation()
    if arm.speculates and speculation is None:
        yield Failure(reason=NOT_AS_DECLARED, message=_at(arm, point, "the server has no speculation counters"))
    if arm.speculates and speculation is not None and speculation.drafts == 0:
        yield Failure(reason=SPECULATION_INACTIVE, message=_at(arm, point, _why_inactive(arm)))
    broken = point.counters.broken_identities(k=arm.draft_horizon, ended_by_client=ended_by_client(profile))
    if broken:
        yield Failure(reason="counter-identity", message=_at(arm, point, f"impossible counters: {'; '.join(broken)}"))


def _why_inactive(arm: Arm) -> str:
    """Return what to look at where an arm drafted nothing, which another run of the same would not mend."""
    text = "speculation did not run: 0 drafts"
    config = arm.args.get("speculative_config")
    method = config.get("method") if isinstance(config, dict) else None
    if method in _LOOKUPS:
        return (
            f"{text}: {method} drafts what followed the same tokens before, and these prompts and answers repeat "
            f"nothing: use prompts like your traffic"
        )
    return f"{text}: see in the server's log whether the drafter was loaded"


def _prefix_problems(arm: Arm, point: PointRecord, profile: RequestProfile) -> Iterator[Failure]:
    hits = point.counters.prefix_hit_rate()
    cure = "switch it off, or declare prefix_cache='warm'"
    if hits is None:
        text = "the server does not count what came from its prefix cache, so a warm one cannot be told from a cold one"
        yield Failure(reason="missing-counter", message=_at(arm, point, text))
    elif profile.prefix_cache == "cold" and hits > PREFIX_HIT_SHARE:
        text = (
            f"{100 * hits:.1f} % of the prompt tokens came from the prefix cache, and the profile declares none: {cure}"
        )
        yield Failure(reason="prefix-cache", message=_at(arm, point, text))


def _client_problems(arm: Arm, point: PointRecord) -> Iterator[Failure]:
    """Refuse a point that was measured by a saturated client: its figures would be the client's, not the server's."""
    client = point.client
    first_tokens = [request.ttft_s for request in point.completed if request.ttft_s is not None]
    allowed = max(LAG_S, LAG_SHARE * statistics.median(first_tokens)) if first_tokens else LAG_S
    signs = {
        f"one of its processes used {100 * client.busiest_cpu_share:.0f} % of a CPU": (
            client.busiest_cpu_share > BUSY_SHARE
        ),
        f"its event loop ran {1000 * client.lag_p95_s:.0f} ms late (p95), and {1000 * allowed:.0f} ms are tolerated": (
            client.lag_p95_s > allowed
        ),
        f"it sent requests {1000 * (client.late_sends_p95_s or 0):.0f} ms after they were due (p95)": (
            client.late_sends_p95_s is not None and client.late_sends_p95_s > allowed
        ),
    }
    found = [sign for sign, holds in signs.items() if holds]
    if found:
        more = min(2 * client.processes, point.concurrency or MOST_PROCESSES, MOST_PROCESSES)
        cure = (
            "press less" if more <= client.processes else f"set client_processes={more} in the profile, or press less"
        )
        if client.busiest_cpu_share <= BUSY_SHARE:
            share = "" if point.other_cpu_share is None else f" ({point.other_cpu_share:.2f} CPUs)"
            cure = f"free this machine of other work{share}, or {cure}"
        text = f"the load client was saturated: {'; '.join(found)}: {cure}"
        yield Failure(reason="client-saturated", message=_at(arm, point, text))


def across_arms(
    pair: ArmPair, both: tuple[PointRecord, PointRecord], profile: RequestProfile, *, per_chunk: bool = False
) -> Failure | None:
    """Return why points of two arms of one round cannot be compared though each is valid, `None` if they can.

    Args:
        pair: the arms.
        both: reference and candidate.
        profile: the load.
        per_chunk: whether the metric is of chunks.

    Raises:
        ScrapeError: a counter is missing or went back; `point_problem` has found that before.
    """
    label = both[0].label
    hits = [point.counters.prefix_hit_rate() or 0.0 for point in both]
    if abs(hits[0] - hits[1]) > PREFIX_HIT_SHARE:
        text = " and ".join(f"{100 * hit:.1f} % in {arm.name}" for hit, arm in zip(hits, pair.arms, strict=True))
        message = f"at {label} prompt tokens came from the prefix cache to different shares: {text}"
        return Failure(reason="prefix-cache", message=message)
    if per_chunk:
        chunks = [measure("tokens_per_chunk", point, profile).value for point in both]
        known = [value for value in chunks if value is not None]
        if len(known) < 2 or max(known) > min(known) * (1 + CHUNK_SHARE):
            text = " and ".join(f"{value or 0:.3g} in {arm.name}" for value, arm in zip(chunks, pair.arms, strict=True))
            message = f"at {label} a chunk holds {text} tokens, so gaps between chunks are not per token: use tpot_*"
            return Failure(reason="chunks-differ", message=message)
    return None


def _at(arm: Arm, point: PointRecord, text: str) -> str:
    return f"arm {arm.name} at {point.label}: {text}"
