"""Keys of JSON objects: each stands once, or the object is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue


def each_once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Return an object of a file, as a hook of `json.loads`: a reader that takes the last of two keys hides the first.

    Raises:
        ValueError: a key stands twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found
