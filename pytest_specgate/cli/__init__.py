"""The `specgate` command: what can be done offline, without pytest.

Each subcommand is one module with one row for `COMMANDS`. A command imports what it needs inside its `run`, so that
`specgate --help` and the other commands stay fast.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from pytest_specgate.cli import calibrate, counters, judge, prepare_model, selftest, stream
from pytest_specgate.cli.command import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, EXIT_USAGE, Command
from pytest_specgate.core.errors import SpecgateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "Command", "main"]

COMMANDS: tuple[Command, ...] = (
    prepare_model.COMMAND,
    calibrate.COMMAND,
    judge.COMMAND,
    selftest.COMMAND,
    counters.COMMAND,
    stream.COMMAND,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments without the program's name; `None` takes those of the process.

    Returns:
        The exit status: 0, 1 for what is not as it must be, 2 for a usage error (told in one sentence on stderr), 3 for
        what cannot be told from what was measured, 4 for figures that must not be read, 130 when interrupted, 141 when
        nobody reads what it prints any more.

    Raises:
        SystemExit: `--help` and `--version`, after printing.
    """
    try:
        parser = _parser()
        arguments = parser.parse_args(argv)
        if arguments.run is None:
            parser.print_help(sys.stderr)
            return EXIT_USAGE
        status: int = arguments.run(arguments)
    except SpecgateError as error:
        sys.stderr.write(f"specgate: {error}\n")
        return EXIT_USAGE
    except BrokenPipeError:
        # Whoever reads has enough, as `head` does; what is still buffered must not complain when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except KeyboardInterrupt:
        sys.stderr.write("specgate: interrupted\n")
        return EXIT_INTERRUPTED
    return status


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are usage errors like all others."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (`{self.prog} --help` lists what there is)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="specgate",
        description="Tools beside the pytest-specgate plugin, which fails CI when a change makes LLM serving worse."
        " Gates themselves run with `pytest`.",
        epilog="`specgate COMMAND --help` explains one command. "
        " Exit status: 0 done, 1 not as it must be, 2 wrong usage or broken input, 3 not enough measured to tell,"
        " 4 figures that must not be read.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"specgate {_version()}")
    parser.set_defaults(run=None)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        subparser = subparsers.add_parser(
            command.name, help=command.summary, description=command.description, allow_abbrev=False
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def _version() -> str:
    try:
        return importlib.metadata.version("pytest-specgate")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed: run from its source tree)"
