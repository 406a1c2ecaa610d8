"""Which commit of a project is measured: told by the environment of a CI job, or by git."""

from __future__ import annotations

import re
import subprocess
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VARIABLES: Final = ("SPECGATE_COMMIT", "GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT")
"""Environment variables that name it, the first that is set counts."""

DIRTY: Final = "-dirty"
"""Stands behind a commit to which tracked files were changed."""

LIMIT_S: Final = 5.0
"""Longest time for git, over all that it is asked."""

_NAME: Final = re.compile(r"[!-~]{1,100}")


def commit_of(root: Path, environment: Mapping[str, str], *, limit_s: float = LIMIT_S) -> str:
    """Return the commit of a project; empty where nobody tells: it is a note in a record, and no reason to fail.

    Args:
        root: folder of the project.
        environment: of the session.
        limit_s: longest time for git.
    """
    told = (environment.get(name, "").strip() for name in VARIABLES)
    named = next((name for name in told if _NAME.fullmatch(name)), None)
    return named if named is not None else _by_git(root, environment, until_s=time.monotonic() + limit_s)


def _by_git(root: Path, environment: Mapping[str, str], *, until_s: float) -> str:
    commit = _git("rev-parse", "--verify", "HEAD", root=root, environment=environment, until_s=until_s)
    if not commit:
        return ""
    changed = _git("status", "--porcelain", "--untracked-files=no", root=root, environment=environment, until_s=until_s)
    # Whether it was changed is not known: a clean commit would be a claim.
    return "" if changed is None else f"{commit}{DIRTY if changed else ''}"


def _git(*words: str, root: Path, environment: Mapping[str, str], until_s: float) -> str | None:
    """Return what git prints; `None` where it fails, is not there, or takes too long."""
    command = ["git", "--no-optional-locks", "-C", str(root), *words]
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=max(0.0, until_s - time.monotonic()),
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
