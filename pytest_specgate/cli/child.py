"""pytest as a child of a command that listens to it, line by line."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_END_LIMIT_S: Final = 60.0


def listened_pytest(
    arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], heard: Callable[[str], str]
) -> tuple[int, list[str]]:
    """Run pytest as a user would, and return its exit status and what it printed.

    Args:
        arguments: of pytest.
        folder: in which it runs.
        environment: all of its variables.
        heard: is given each line when it comes, and returns what is kept of it.
    """
    from pytest_specgate.adapters.processes import ended_by_signals  # noqa: PLC0415  - see the package's docstring

    command = [sys.executable, "-m", "pytest", *arguments]
    with ended_by_signals(), _started(command, folder=folder, environment=environment) as child:
        assert child.stdout is not None, "it was asked for"
        try:
            lines = [heard(line.rstrip("\n")) for line in child.stdout]
        except BaseException:
            # The plugin takes SIGTERM as an interrupt, and stops its servers.
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_END_LIMIT_S)
            raise
    return child.returncode, lines


def _started(command: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603  - our own interpreter, no shell
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
