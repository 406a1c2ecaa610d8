"""Analyses of captured pages and streams as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tabulate import tabulate

from pytest_specgate.reporting.figures import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.analysis import CounterAnalysis, StreamAnalysis

UNKNOWN = "not counted on these pages"
_POSITION = 'position (1 is vLLM\'s position="0")'


def counter_lines(found: CounterAnalysis) -> Iterator[str]:
    """Return what two metrics pages say, or why they say nothing."""
    if not found.valid:
        yield f"INVALID ({found.reason}): {found.message}"
        return
    yield f"model: {', '.join(found.models) or 'not named'}; engines: {', '.join(found.engines) or 'not named'}"
    yield _aligned(
        [
            ("requests", _reasons(found.requests)),
            ("prompt tokens", _count(found.prompt_tokens)),
            ("generation tokens", _count(found.generation_tokens)),
            ("decode steps", _count(found.decode_steps)),
            ("step time", _milliseconds(found.step_time_s)),
            ("tokens per step", _ratio(found.tokens_per_step)),
            ("prefix cache hits", _percent(found.prefix_hit_rate)),
            ("preemptions", _count(found.preemptions)),
            ("speculation", found.speculation or UNKNOWN),
        ]
    )
    if found.speculation == "on":
        yield from _speculation(found)


def _speculation(found: CounterAnalysis) -> Iterator[str]:
    yield _aligned(
        [
            ("drafts", _count(found.drafts)),
            ("drafted share of steps", _percent(found.drafted_share)),
            ("draft tokens", f"{_count(found.draft_tokens)}, {_ratio(found.draft_length)} a draft"),
            ("accepted tokens", f"{_count(found.accepted_tokens)}, {_percent(found.acceptance_rate)} of them"),
            ("acceptance length", _ratio(found.acceptance_length)),
            ("cut off by answers' ends", _count(found.cut_tokens)),
        ]
    )
    positions = zip(found.accepted_per_position or (), found.per_position_rates or (), strict=True)
    rows = [[f"{place}", f"{count}", f"{100 * rate:.2f} %"] for place, (count, rate) in enumerate(positions, start=1)]
    yield tabulate(rows, headers=[_POSITION, "accepted", "per draft"], disable_numparse=True, stralign="right")


def stream_lines(found: StreamAnalysis) -> Iterator[str]:
    """Return what a captured stream says."""
    yield f"answer: complete, finish reason {found.finish_reason}" if found.valid else f"INVALID: {found.message}"
    chunks = "" if found.tokens_per_chunk is None else f", {number(found.tokens_per_chunk)} tokens each on average"
    gaps = f"p50 {_milliseconds(found.inter_chunk_p50_s)}, longest {_milliseconds(found.inter_chunk_max_s)}"
    rows = [
        ("prompt tokens", _told(found.prompt_tokens)),
        ("output tokens", _told(found.output_tokens)),
        ("TTFT", _milliseconds(found.ttft_s)),
        ("first visible text", _milliseconds(found.first_text_s)),
        ("last token event", _milliseconds(found.last_token_s)),
        ("stream closed", _milliseconds(found.closed_s)),
        ("TPOT", _milliseconds(found.tpot_s)),
        ("decode rate", "-" if found.decode_rate_tokens_per_s is None else _rate(found.decode_rate_tokens_per_s)),
        ("token events", f"{found.token_events} of {found.events} events in {found.reads} reads{chunks}"),
        ("gaps between them", gaps),
    ]
    if found.chunk_tokens is not None:
        rows.append(("tokens by event", " ".join(map(str, found.chunk_tokens))))
    yield _aligned(rows)


def _aligned(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name.ljust(width)}  {text}" for name, text in rows)


def _reasons(requests: dict[str, int] | None) -> str:
    if requests is None:
        return UNKNOWN
    return ", ".join(f"{count} {reason}" for reason, count in requests.items()) or "none finished"


def _count(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value}"


def _told(value: int | None) -> str:
    return "not told by the server" if value is None else f"{value}"


def _ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.4f}"


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.2f} %"


def _rate(value: float) -> str:
    return f"{number(value)} tokens/s"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{number(1000 * value)} ms"
