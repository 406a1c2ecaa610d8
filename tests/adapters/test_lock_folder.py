"""Where locks are: all jobs of a user on a machine meet there, whatever home they are told of."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters import lock_folder as adapter
from pytest_specgate.adapters.lock_folder import lock_folder
from pytest_specgate.adapters.locks import MachineLock
from pytest_specgate.core.errors import ServerStartError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = f"pytest-specgate-{os.getuid()}"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of the machine."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(adapter, "_TEMPORARY", folder)
    return folder


def test_jobs_with_homes_of_their_own_wait_for_each_other(tmp_path: Path) -> None:
    """Runners give each job a home, a state folder and a temporary folder of its own."""
    variables = ("HOME", "XDG_STATE_HOME", "TMPDIR")
    one, two = (
        MachineLock(None, folder=lock_folder(dict.fromkeys(variables, f"/{job}"), say=print), wait_s=0, say=print)
        for job in ("a", "b")
    )

    with one, pytest.raises(ServerStartError, match="this machine was in use"), two:
        pass


def test_the_folder_is_of_one_user(temporary: Path) -> None:
    """Nobody else can put a link into it that a lock would be written through."""
    found = lock_folder({"HOME": "/a"}, say=print)

    assert found == temporary / NAME
    assert stat.S_IMODE(found.stat().st_mode) == 0o700


def test_a_folder_that_was_named_is_used(tmp_path: Path, temporary: Path) -> None:
    """Containers meet in the one that is mounted into all of them."""
    assert lock_folder({"SPECGATE_STATE_DIR": str(tmp_path / "own")}, say=print) == tmp_path / "own" / "locks"
    assert list(temporary.iterdir()) == []


def open_to_all(path: Path) -> None:
    """Make a folder that anybody may write in."""
    path.mkdir()
    path.chmod(0o777)


def link(path: Path) -> None:
    """Make a link to a folder."""
    path.symlink_to(path.parent.parent)


@pytest.mark.parametrize("taken", [open_to_all, link, lambda path: path.touch()], ids=["open", "link", "file"])
def test_a_name_that_somebody_else_took_is_not_used(
    tmp_path: Path, temporary: Path, taken: Callable[[Path], None]
) -> None:
    """Anybody can make things in a temporary folder: it is said that jobs may not meet, and nothing is followed."""
    taken(temporary / NAME)
    said: list[str] = []
    found = lock_folder({"HOME": str(tmp_path)}, say=said.append)

    assert found == tmp_path / ".local" / "state" / "pytest-specgate" / "locks"
    assert said == [
        f"{temporary / NAME} cannot be used for locks, so jobs with another home folder do not wait for this one"
    ]


def test_a_machine_without_such_a_folder_is_locked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Locks are in the state folder then."""
    monkeypatch.setattr(adapter, "_TEMPORARY", tmp_path / "missing")

    assert lock_folder({"XDG_STATE_HOME": "/s"}, say=print).parts[:3] == ("/", "s", "pytest-specgate")
