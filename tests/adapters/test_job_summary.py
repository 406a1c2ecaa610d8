"""The summary of a CI job, to which several programs write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.job_summary import append, size_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "ours\n"), ("", "ours\n"), ("theirs\n", "theirs\nours\n"), ("thé", "thé\nours\n")],
)
def test_a_text_begins_on_a_line_of_its_own(tmp_path: Path, before: str | None, after: str) -> None:
    """Whatever others have written there stays as it is."""
    path = tmp_path / "step.md"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    size = size_of(path)
    append(path, "ours\n")

    assert size == len((before or "").encode("utf-8"))
    assert path.read_text(encoding="utf-8") == after


def test_no_folder_is_made(tmp_path: Path) -> None:
    """Who names a file in a folder that is not there has made a mistake."""
    with pytest.raises(FileNotFoundError):
        append(tmp_path / "away" / "step.md", "ours\n")
