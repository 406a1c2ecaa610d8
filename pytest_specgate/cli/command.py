"""What a subcommand is, and what all of them share."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

EXIT_OK: Final = 0
EXIT_NOT_PROVED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INCONCLUSIVE: Final = 3
EXIT_INVALID: Final = 4
EXIT_INTERRUPTED: Final = 130
EXIT_BROKEN_PIPE: Final = 141


@dataclass(frozen=True)
class Command:
    """One subcommand.

    Attributes:
        name: the word on the command line.
        summary: one line for `specgate --help`.
        description: what it does and when to use it, for `specgate NAME --help`.
        add_arguments: declares its options.
        run: does the work and gives the exit status.
        example: a whole command line, for whoever sees it for the first time; empty where the description has some.
        commands: those that are named after it, as in `specgate baseline show`; `run` is for nobody then.
    """

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    example: str = ""
    commands: tuple[Command, ...] = ()


def say(line: str) -> None:
    """Print a line at once: in a CI log the next one may come minutes later."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def read_text(path: Path) -> str:
    """Return the text of an input file.

    Raises:
        UsageError: it cannot be read, or is no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text: {error.reason} at byte {error.start}") from error
