"""Whether a file that a report is to replace is one itself: nothing else is ever replaced, or removed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

_KINDS: Final = {"json": "JSON", "markdown": "Markdown", "html": "HTML"}
_MARKDOWN: Final = "<!-- specgate"
_HTML: Final = '<meta name="generator" content="pytest-specgate">'
_HEAD: Final = 4_096


def replaceable(path: Path, kind: str) -> bool:
    """Whether a report may take the place of what lies there: nothing, an empty file, or a report of that kind.

    Args:
        path: of the report to come.
        kind: ``json``, ``markdown`` or ``html``.

    Raises:
        OSError: it cannot be read.
    """
    if not path.is_file():
        return not path.exists()
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(_HEAD)
        if not head.strip():
            return not file.read().strip()
        if kind == "json":
            return _is_json_report(head + file.read())
    return head.startswith(_MARKDOWN) if kind == "markdown" else _HTML in head


def foreign(path: Path, kind: str) -> str:
    """Say that a file is not ours to replace, as the rest of a sentence about it; empty where it is.

    Args:
        path: of the report to come.
        kind: ``json``, ``markdown`` or ``html``.

    Raises:
        OSError: it cannot be read.
    """
    if replaceable(path, kind):
        return ""
    return f"that file is no {_KINDS[kind]} report of specgate, and it would be replaced: name another one"


def _is_json_report(text: str) -> bool:
    """Whether the first object of a text is a report; `specgate report --json` prints several."""
    try:
        found, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"schema_version", "passed"} <= found.keys()
