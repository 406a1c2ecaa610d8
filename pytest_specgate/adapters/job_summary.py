"""The summary of a CI job: a file that several programs write to, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def size_of(path: Path) -> int:
    """Return how many bytes a file holds already; one that is not there holds none.

    Raises:
        OSError: that cannot be told.
    """
    return path.stat().st_size if path.exists() else 0


def append(path: Path, text: str) -> None:
    """Add a text at the end of a file, below whatever others have written there.

    Raises:
        OSError: it cannot be written.
    """
    begun = size_of(path) > 0 and path.read_bytes()[-1:] != b"\n"
    with path.open("a", encoding="utf-8", newline="\n") as file:
        file.write(f"\n{text}" if begun else text)
