"""Analysis of what was captured elsewhere: two metrics pages, or the reads of one streamed answer."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import statistics
from typing import TYPE_CHECKING, Literal, TypeVar

from pytest_specgate.core import counters
from pytest_specgate.core.counters import CounterDelta, CounterPage
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.sse import events, timeline
from pytest_specgate.core.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_specgate.core.speculation import SpeculationDelta
    from pytest_specgate.core.sse import Read, Timeline

T = TypeVar("T")


class CounterAnalysis(Stored):
    """What two metrics pages of one server say about the traffic between them.

    A figure whose counters the pages lack is `None`; an analysis that is not valid has a reason and no figures.

    Attributes:
        valid: whether the figures may be read.
        reason: code of the reason why not: ``counters-unreadable``, ``no-traffic``, ``counter-identity``,
            ``speculation-inactive``, ``arm-not-as-declared``.
        message: one sentence about it.
        models: names of the models that the server counts for.
        engines: names of its data-parallel engines.
        speculation: ``off``, ``on``, or ``on but inactive``: tokens flowed and nothing was drafted.
        requests: finished requests by reason.
        prompt_tokens: prompt tokens taken in.
        generation_tokens: output tokens given out.
        first_tokens: requests that got their first token.
        decode_steps: decode steps of sequences, drafted or not.
        step_time_s: seconds of such a step.
        tokens_per_step: output tokens of such a step.
        drafted_share: share of such steps that verified a draft.
        cut_tokens: accepted tokens beyond the end of their answer, never given out.
        drafts: verified drafts.
        draft_tokens: tokens that they proposed.
        accepted_tokens: tokens accepted.
        accepted_per_position: accepted tokens by draft position.
        acceptance_rate: accepted / draft tokens.
        acceptance_length: 1 + accepted / drafts.
        draft_length: draft tokens / drafts.
        per_position_rates: accepted at each position / drafts.
        prefix_hit_rate: share of the prompt tokens looked up that the prefix cache had.
        preemptions: sequences that were pushed out of the batch.
    """

    valid: bool
    reason: str | None = None
    message: str | None = None
    models: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    speculation: Literal["off", "on", "on but inactive"] | None = None
    requests: dict[str, int] | None = None
    prompt_tokens: int | None = None
    generation_tokens: int | None = None
    first_tokens: int | None = None
    decode_steps: int | None = None
    step_time_s: float | None = None
    tokens_per_step: float | None = None
    drafted_share: float | None = None
    cut_tokens: int | None = None
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_per_position: tuple[int, ...] | None = None
    acceptance_rate: float | None = None
    acceptance_length: float | None = None
    draft_length: float | None = None
    per_position_rates: tuple[float, ...] | None = None
    prefix_hit_rate: float | None = None
    preemptions: int | None = None


def analyse_counters(before: CounterPage, after: CounterPage, *, k: int | None = None) -> CounterAnalysis:
    """Analyse the traffic between two pages.

    Args:
        before: the earlier page.
        after: the later page of the same server.
        k: draft horizon, where it is known: another number of draft positions is then a broken identity.
    """
    delta = CounterDelta(before, after)
    try:
        delta.refuse_resets()
        speculation = delta.speculation()
        idle = not _moved(delta)
        broken = () if idle else _broken(delta, speculation, k=k)
    except ScrapeError as error:
        return CounterAnalysis(valid=False, reason="counters-unreadable", message=str(error))
    if idle:
        text = "nothing was served between the two pages, so they say nothing: take them around the traffic"
        return CounterAnalysis(valid=False, reason="no-traffic", message=text)
    if k is not None and speculation is None:
        text = f"the server has no speculation counters, and k={k} is expected"
        return CounterAnalysis(valid=False, reason="arm-not-as-declared", message=text, speculation="off")
    if broken:
        text = f"impossible counters: {'; '.join(broken)}"
        return CounterAnalysis(valid=False, reason="counter-identity", message=text)
    if speculation is not None and not speculation.drafts:
        text = "speculation did not run: tokens were generated, and nothing was drafted"
        return CounterAnalysis(valid=False, reason="speculation-inactive", message=text, speculation="on but inactive")
    return _figures(delta, speculation)


def _moved(delta: CounterDelta) -> bool:
    """Whether any counter of traffic rose."""
    names = (counters.GENERATION_TOKENS, counters.DRAFTS, counters.PROMPT_TOKENS, counters.FINISHED)
    return any(delta.after.has(name) and delta.before.has(name) and delta.total(name) for name in names)


def _broken(delta: CounterDelta, speculation: SpeculationDelta | None, *, k: int | None) -> tuple[str, ...]:
    """Check what can be checked on pages that may hold a part of the counters only."""
    if delta.after.has(counters.GENERATION_TOKENS) and delta.after.has(counters.FINISHED):
        return delta.broken_identities(k=k)
    return speculation.broken_identities(k=k) if speculation else ()


def _figures(delta: CounterDelta, speculation: SpeculationDelta | None) -> CounterAnalysis:
    return CounterAnalysis(
        valid=True,
        models=tuple(sorted(delta.after.models())),
        engines=delta.after.engines(),
        speculation="off" if speculation is None else "on",
        requests=_or_none(delta.finished),
        prompt_tokens=_or_none(lambda: delta.count(counters.PROMPT_TOKENS)),
        generation_tokens=_or_none(lambda: delta.count(counters.GENERATION_TOKENS)),
        first_tokens=_or_none(delta.first_tokens),
        decode_steps=_or_none(delta.decode_steps),
        step_time_s=_or_none(delta.step_time_s),
        tokens_per_step=_or_none(delta.tokens_per_step),
        drafted_share=_or_none(delta.drafted_share),
        cut_tokens=_or_none(delta.cut_tokens),
        drafts=speculation.drafts if speculation else None,
        draft_tokens=speculation.draft_tokens if speculation else None,
        accepted_tokens=speculation.accepted_tokens if speculation else None,
        accepted_per_position=speculation.accepted_per_position if speculation else None,
        acceptance_rate=speculation.acceptance_rate if speculation else None,
        acceptance_length=speculation.acceptance_length if speculation else None,
        draft_length=speculation.draft_length if speculation else None,
        per_position_rates=speculation.per_position_rates if speculation else None,
        prefix_hit_rate=delta.prefix_hit_rate(),
        preemptions=_or_none(lambda: delta.count(counters.PREEMPTIONS)),
    )


def _or_none(figure: Callable[[], T]) -> T | None:
    """Return a figure, `None` when the pages lack its counters."""
    try:
        return figure()
    except ScrapeError:
        return None


class StreamAnalysis(Stored):
    """What the reads of one streamed answer say.

    Attributes:
        valid: whether the answer is complete; one that is not has times, but counts in no statistic.
        message: why it is not.
        reads: network reads with bytes.
        events: dispatched events, usage and end mark included.
        token_events: token events among them.
        ttft_s: to the first token event.
        first_text_s: to the first visible text.
        last_token_s: to the last token event.
        closed_s: to the last read.
        prompt_tokens: as the server counted them.
        output_tokens: as the server counted them.
        tpot_s: (last - first token event) / (output tokens - 1).
        decode_rate_tokens_per_s: 1 / TPOT.
        tokens_per_chunk: output tokens / token events.
        chunk_tokens: tokens of each token event, where every one carries a running count (continuous usage).
        inter_chunk_p50_s: median gap between token events.
        inter_chunk_max_s: the longest gap.
        finish_reason: as sent.
        text_sha256: hash of the text.
    """

    valid: bool
    message: str | None
    reads: int
    events: int
    token_events: int
    ttft_s: float | None
    first_text_s: float | None
    last_token_s: float | None
    closed_s: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    tpot_s: float | None
    decode_rate_tokens_per_s: float | None
    tokens_per_chunk: float | None
    chunk_tokens: tuple[int, ...] | None
    inter_chunk_p50_s: float | None
    inter_chunk_max_s: float | None
    finish_reason: str | None
    text_sha256: str


def analyse_stream(reads: Sequence[Read]) -> StreamAnalysis:
    """Analyse the reads of one streamed answer; times count from the send of its request."""
    seen = timeline(reads)
    times = seen.token_events
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    tpot_s = _tpot_s(seen)
    dispatched = _dispatched(reads)
    return StreamAnalysis(
        valid=seen.error is None,
        message=seen.error,
        reads=sum(bool(read.data) for read in reads),
        events=len(dispatched),
        token_events=len(times),
        ttft_s=times[0] if times else None,
        first_text_s=seen.first_text_s,
        last_token_s=times[-1] if times else None,
        closed_s=seen.closed_s,
        prompt_tokens=seen.prompt_tokens,
        output_tokens=seen.output_tokens,
        tpot_s=tpot_s,
        decode_rate_tokens_per_s=1 / tpot_s if tpot_s else None,
        tokens_per_chunk=seen.output_tokens / len(times) if seen.output_tokens and times else None,
        chunk_tokens=_chunk_tokens(dispatched, chunks=len(times)),
        inter_chunk_p50_s=statistics.median(gaps) if gaps else None,
        inter_chunk_max_s=max(gaps, default=None),
        finish_reason=seen.finish_reason,
        text_sha256=hashlib.sha256(seen.text.encode()).hexdigest(),
    )


def _dispatched(reads: Sequence[Read]) -> list[str]:
    """Return the data of every event, up to bytes that are no text."""
    found: list[str] = []
    with contextlib.suppress(UnicodeDecodeError):
        found.extend(event.data for event in events(reads))
    return found


def _tpot_s(seen: Timeline) -> float | None:
    if not seen.token_events or not seen.output_tokens or seen.output_tokens == 1:
        return None
    # All tokens in one read have no time between them, which is not a time of 0.
    return (seen.token_events[-1] - seen.token_events[0]) / (seen.output_tokens - 1) or None


def _chunk_tokens(dispatched: Sequence[str], *, chunks: int) -> tuple[int, ...] | None:
    """Return the tokens of each token event from its running count; `None` unless every one has such a count."""
    counts = list(_running_counts(dispatched))
    if not chunks or len(counts) != chunks:
        return None
    rises = tuple(later - earlier for earlier, later in itertools.pairwise([0, *counts]))
    return rises if min(rises) >= 0 else None


def _running_counts(dispatched: Sequence[str]) -> Iterator[int]:
    for data in dispatched:
        body: object = None
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(data)
        usage = body.get("usage") if isinstance(body, dict) and body.get("choices") else None
        count = usage.get("completion_tokens") if isinstance(usage, dict) else None
        if isinstance(count, int) and count > 0:
            yield count
