"""Texts of servers and users inside Markdown: shown as they are, and nothing else.

A text may hold whatever somebody wrote: a pipe that would end a cell, a tag, a name that would be called upon, a number
that would refer to an issue. Everything that means something to GitHub's or GitLab's Markdown becomes an entity.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytest_specgate.reporting.baselines import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEANT: Final = re.compile(
    r"""(?x)
    [&<>|\\`*\[\]~$]
    | (?<!\w) _++ | _++ (?![^\W_])    # within a word it is a letter
    | (?<=[wW]{3}) \. | : (?=//)      # addresses become links
    """
)
_REFERS: Final = re.compile(rf"{_MEANT.pattern} | (?P<sign>[@\#!%]) (?=\w)")
_BREAK: Final = "&#8203;"
"""A blank without width: what follows is no name of a user or an issue any more, and looks as it did."""


def prose(text: str) -> str:
    """Return a text on one line, for sentences and cells."""
    return _REFERS.sub(lambda found: f"{found[0]}{_BREAK}" if found["sign"] else _entities(found), one_line(text))


def code(text: str) -> str:
    """Return a text on one line in the type of code; entities work there, and they do not between backticks."""
    return f"<code>{_MEANT.sub(_entities, one_line(text)).replace('@', f'@{_BREAK}')}</code>"


def _entities(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(letter)};" for letter in found[0])


def fenced(text: str) -> str:
    """Return a block of lines as they are; no run of backticks in it is long enough to end it."""
    lines = [one_line(line.expandtabs()) for line in text.splitlines()]
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def row(cells: Sequence[str]) -> str:
    """Return one row of a table; its cells are Markdown, and hold no pipe and no line break."""
    return f"| {' | '.join(cells)} |"


def folded(title: str, body: str) -> str:
    """Return something that a reader opens.

    Args:
        title: what is always seen; HTML without line breaks.
        body: Markdown.
    """
    # Between the blank lines the body is Markdown again.
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
