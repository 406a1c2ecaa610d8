"""Files of servers for which nobody comes back do not gather in a home that many machines share."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.state import Machine, ServerNotes

if TYPE_CHECKING:
    from pathlib import Path

DAY_S = 86400.0


@pytest.fixture
def said() -> list[str]:
    """What the user was told."""
    return []


def noted_elsewhere(folder: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Note a server of a container of another name, and return its file."""
    with monkeypatch.context() as patch:
        container = Machine(host="c0ffee", boot="b", namespace="n")
        patch.setattr(Machine, "this", classmethod(lambda _: container))
        ServerNotes(folder, say=said.append).add([os.getpid()], supervisor=os.getpid(), command="serve")
    return next(folder.glob("*.json"))


@pytest.mark.parametrize(("days", "left"), [(1, True), (29, True), (31, False)])
def test_a_note_of_a_container_that_is_long_gone_is_removed(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch, *, days: int, left: bool
) -> None:
    """Its name is never used again; until then it may be another machine's, whose servers run."""
    path = noted_elsewhere(tmp_path, said, monkeypatch)
    os.utime(path, times=(time.time() - days * DAY_S,) * 2)
    ServerNotes(tmp_path, say=said.append).reap()

    assert (path.exists(), said) == (left, [])


def test_a_note_of_a_server_that_runs_here_is_kept(tmp_path: Path, said: list[str]) -> None:
    """However long it does."""
    ServerNotes(tmp_path, say=said.append).add([os.getpid()], supervisor=os.getpid(), command="serve")
    [path] = tmp_path.iterdir()
    os.utime(path, times=(0, 0))
    ServerNotes(tmp_path, say=said.append).reap()

    assert path.exists()


def test_a_half_that_a_killed_run_has_written_is_removed(tmp_path: Path, said: list[str]) -> None:
    """A note is written beside its place and then moved; a fresh half may be another run's."""
    old, fresh = tmp_path / ".tmp1", tmp_path / ".tmp2"
    old.touch()
    fresh.touch()
    os.utime(old, times=(0, 0))
    ServerNotes(tmp_path, say=said.append).reap()

    assert list(tmp_path.iterdir()) == [fresh]
