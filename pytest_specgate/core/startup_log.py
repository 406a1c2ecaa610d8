"""The start-up log of an engine, without what changes from boot to boot."""

from __future__ import annotations

import collections
import hashlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

READY: Final = "Application startup complete."
"""Last line of a start-up: what follows is about requests."""

_LONGEST: Final = 300
_LOOKED_AT: Final = 10_000

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROGRESS: Final = re.compile(r"^(?P<label>[^%|]*?):?\s*\d{1,3}% ?(Completed)? ?\|.*\[.*\]\s*$")
_NOT_COMPARED: Final = (
    (re.compile(r"^DEBUG\b"), "diagnostics"),
    (re.compile(r"[█▄▀]"), "the logo"),
    (re.compile(r"\bRoute: .*, Methods: "), "methods come in any order"),
)
"""Lines that are left out, and why."""

_TROUBLE: Final = re.compile(
    r"(?i)fall(s|ing|en)?[ -]?back|disabl|cannot|can't|n't\b|\bnot\b|unsupported|unavailable|incompatible|ignor|overrid"
    r"|without|instead|suboptimal|slow|fail"
)
"""What a line says that does more than repeat a setting."""

_NUMBER: Final = r"\d(?:[\d.,]*\d)?"
_REWRITES: Final = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"^\([^()]*\bpid=\d+\) ?", ""),
        (r"^(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[([^\]:]+):\d+\]", r"\1 [\2]"),
        (r"^\[([A-Z])\d+ [\d:.]+ (?:\d+ )?([^\]:]+):\d+\]", r"\1 [\2]"),
        (r"(?<!\S)\S*/site-packages/", ""),
        (r"(?<=\.py):\d+(?=: \w+Warning:)", ""),
        (r"(?<=LLM engine )\(v[^)]*\)", "(<version>)"),
        (r"(?<=non-default args: ).*", "(as declared)"),
        (r"(?<=\) with config: ).*", "(as resolved)"),
        (r"\bpid=\d+", "pid=<n>"),
        (r"\bprocess \[\d+\]", "process [<n>]"),
        (r"\b(\d{1,3}(?:\.\d{1,3}){3}|localhost|0\.0\.0\.0|\[::\]):\d+", r"\1:<port>"),
        (r"(['\"]?\b\w*port['\"]?[=:] ?)\d+", r"\1<port>"),
        (r"\bvllm_dist_[0-9a-f]+", "vllm_dist_<hex>"),
        (r"\b0x[0-9a-fA-F]+", "<hex>"),
        (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<hex>"),
        (r"(?<=torch_compile_cache/)\S+", "<hex>"),
        (r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{10,}\b", "<hex>"),
        (rf"{_NUMBER}(?: ?/ ?{_NUMBER})?(\)?) ?(?=[KMGT]i?B\b)", r"<n>\1 "),
        (rf"{_NUMBER} ?(?=(?:s|ms|us|secs?|seconds?|minutes?)\b)", "<n> "),
        (rf"{_NUMBER}%", "<n>%"),
        (rf"(?<=KV cache size: ){_NUMBER}", "<n>"),
        (rf"(?<=per request: ){_NUMBER}(?=x)", "<n>"),
        (rf"(?<=PU blocks: ){_NUMBER}", "<n>"),
        (r"\s+", " "),
    )
)
"""What changes from boot to boot, or stands in the resolved configuration: process, clock, port, hash, figures."""


def startup_lines(text: str) -> dict[str, int]:
    """Return the normalised lines of a start-up and how often each was printed, sorted.

    Three processes write to one file, so their order means nothing.

    Args:
        text: a server's output, from its first line; what follows `READY` is not looked at.
    """
    whole, ready, _ = _ANSI.sub("", text).partition(READY)
    counts: collections.Counter[str] = collections.Counter()
    bars = set()
    for raw in re.split(r"[\r\n]+", whole + ready):
        line = _normalised(raw[:_LOOKED_AT])
        if (bar := _PROGRESS.match(line)) is not None:
            bars.add(f"{bar['label'].strip()}: (progress)")
        elif line and not any(pattern.search(line) for pattern, _ in _NOT_COMPARED):
            counts[_bounded(line)] += 1
    return dict(sorted({**counts, **dict.fromkeys(bars, 1)}.items()))


def _normalised(line: str) -> str:
    for pattern, text in _REWRITES[:3]:
        line = pattern.sub(text, line)
    if _PROGRESS.match(line):
        return line
    for pattern, text in _REWRITES[3:]:
        line = pattern.sub(text, line)
    return line.strip()


def _bounded(line: str) -> str:
    """Cut a very long line, so that two that differ behind the cut still differ."""
    if len(line) <= _LONGEST:
        return line
    return f"{line[:_LONGEST]}... #{hashlib.sha256(line.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def line_text(line: str) -> str:
    """Return a normalised line without its level and the file that printed it."""
    return re.sub(r"^\w+ \[[^\]]*\] ", "", line)


def line_id(line: str) -> str:
    """Name a line by its first words and a hash of its text without figures, the same in every version of vLLM."""
    words = re.findall(r"[A-Za-z_]+", line_text(line))
    return f"log:{'-'.join(words[:5])}-{hashlib.sha256(' '.join(words).encode()).hexdigest()[:6]}"


def repeats(line: str, *, name: str, values: Sequence[JsonValue]) -> bool:
    """Whether a line is information that only repeats a setting: its name and a value, and nothing done about it.

    Args:
        line: normalised.
        name: plain name of an argument, dotted for a part of a mapping.
        values: that it may have.
    """
    text = line_text(line)
    if not line.startswith("INFO") or _TROUBLE.search(text) or not _has_word(text, name.rpartition(".")[2]):
        return False
    return any(_has_word(text, word) for value in values for word in _words(value))


def _words(value: JsonValue) -> tuple[str, ...]:
    """Return how a log may write a value: ``4096``, ``4,096``; nothing for what is more than one word."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (str(value), f"{value:,}")
    return (str(value),) if isinstance(value, str | float | bool) and str(value) else ()


def _has_word(text: str, word: str) -> bool:
    """Whether a text has a word by itself, in either case: ``max_model_len`` as ``max model len``, too."""
    pattern = re.escape(word).replace("_", "[ _-]")
    return re.search(rf"(?i)(?<![\w.]){pattern}(?!\w|[.,]\d)", text) is not None
