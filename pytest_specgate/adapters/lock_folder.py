"""Where the locks of this machine are: in a place that does not depend on what a job is told of its home."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.adapters.state import state_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Not what TMPDIR says: runners give each job one of its own, and jobs would not meet.
_TEMPORARY = Path("/tmp")  # noqa: S108  - a folder of this user alone is made in it, and checked


def lock_folder(environment: Mapping[str, str], *, say: Callable[[str], None]) -> Path:
    """Tell where the locks are that all jobs of this user on this machine meet at.

    That is ``locks`` in `SPECGATE_STATE_DIR` where that is set; else a folder of this user in the machine's own
    temporary folder, since two jobs may have different homes; else ``locks`` in `state_folder`.

    Args:
        environment: the environment variables to read.
        say: told when the machine's temporary folder cannot be used.

    Raises:
        UsageError: as `state_folder`.
    """
    if environment.get("SPECGATE_STATE_DIR") is None:
        own = _TEMPORARY / f"pytest-specgate-{os.getuid()}"
        if _is_ours(own):
            return own
        say(f"{own} cannot be used for locks, so jobs with another home folder do not wait for this one")
    return state_folder(environment) / "locks"


def _is_ours(folder: Path) -> bool:
    """Make a folder that nobody else can write in, and return whether it is there: anybody may have taken its name."""
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others_write
    return False
