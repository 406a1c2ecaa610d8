"""Engine-induced differences as text: what was declared, what the engine did besides, what is only noise."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.differences import ABSENT
from pytest_specgate.core.resolved import SPECULATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import JsonValue

    from pytest_specgate.core.differences import Difference, DifferenceReport, Kind

_HEADS: Final[tuple[tuple[str, Kind], ...]] = (
    ("declared", "declared"),
    ("engine-induced", "engine-induced"),
    ("log only", "log-only"),
    ("dropped (noise)", "dropped"),
)
_LINE_WIDTH: Final = 100
_VALUE_WIDTH: Final = 60


def difference_lines(report: DifferenceReport, *, allowed: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the differences of a pair, group by group; groups without any are left out, engine-induced ones never are.

    Args:
        report: what was found.
        allowed: reason by id, for those that the user has listed.
    """
    listed = allowed or {}
    lines: list[str] = []
    for head, kind in _HEADS:
        found = report.of(kind)
        if kind == "dropped":
            texts = [", ".join(difference.id for difference in found)] if found else []
        else:
            texts = [_text(difference, report, listed) for difference in found]
        if kind == "engine-induced":
            texts += _unknown(report) or ([] if found else ["none"])
        counted = f"{head} ({len(found)})" if kind == "engine-induced" and not (report.unread and not found) else head
        lines += [f"{counted if place == 0 else '':<19} {text}" for place, text in enumerate(texts)]
    return tuple(lines)


def _unknown(report: DifferenceReport) -> list[str]:
    return [f"not known: there is no {' and no '.join(report.unread)} of both arms"] if report.unread else []


def _text(found: Difference, report: DifferenceReport, allowed: Mapping[str, str]) -> str:
    return " ".join([_what(found), *_remarks(found, report, allowed)])


def _what(found: Difference) -> str:
    """Return a setting with both values, or a log line and where it was printed."""
    if not found.id.startswith("log:"):
        return f"{found.id}: {_value(found, found.reference)} -> {_value(found, found.candidate)}"
    text = re.sub(r"^\w+ \[[^\]]*\] ", "", found.line)
    short = text if len(text) <= _LINE_WIDTH else f"{text[: _LINE_WIDTH - 3]}..."
    return f'"{short}"' if found.kind == "log-only" else f'log: "{short}"'


def _remarks(found: Difference, report: DifferenceReport, allowed: Mapping[str, str]) -> Iterator[str]:
    warned = not found.id.startswith("log:") and found.line.startswith("WARNING")
    notes = [note for note in (_printed(found), found.note, "the engine warns of it" if warned else "") if note]
    if notes:
        yield f"({'; '.join(notes)})"
    if found.kind != "engine-induced":
        return
    if found.id.startswith("log:"):
        yield f"[{found.id}]"
    if found not in report.unlisted(allowed):
        reasons = [reason for prefix, reason in allowed.items() if found not in report.unlisted([prefix])]
        yield f"allowed: {reasons[0]}"


def _printed(found: Difference) -> str:
    if not found.id.startswith("log:"):
        return ""
    if found.reference and found.candidate:
        return f"printed {found.reference} and {found.candidate} times"
    return "candidate only" if found.candidate else "reference only"


def _value(found: Difference, value: JsonValue) -> str:
    """Return a value as it stands in a configuration file; no value is ``none``."""
    if found.id == SPECULATION or value == ABSENT:
        return str(value)
    text = "none" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE_WIDTH else f"{text[: _VALUE_WIDTH - 3]}..."
