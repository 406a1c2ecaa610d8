"""The `specgate` command: what can be done offline, without pytest.

Each subcommand is one module with one row for `COMMANDS`. A command imports what it needs inside its `run`, so that
`specgate --help` and the other commands stay fast.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from pytest_specgate.cli import (
    baseline,
    calibrate,
    ceiling,
    compare,
    counters,
    judge,
    knee,
    prepare_model,
    probe,
    report,
    schema,
    selftest,
    stream,
)
from pytest_specgate.cli.command import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, EXIT_USAGE, Command
from pytest_specgate.core.errors import SpecgateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "Command", "main"]

COMMANDS: tuple[Command, ...] = (
    prepare_model.COMMAND,
    calibrate.COMMAND,
    judge.COMMAND,
    compare.COMMAND,
    report.COMMAND,
    knee.COMMAND,
    baseline.COMMAND,
    selftest.COMMAND,
    counters.COMMAND,
    stream.COMMAND,
    ceiling.COMMAND,
    probe.COMMAND,
    schema.COMMAND,
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
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that cannot show a letter gets its code: a traceback would end with the status of a regression.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        parser, words = _parser(), sys.argv[1:] if argv is None else argv
        _refuse_empty(words)
        arguments, unknown = parser.parse_known_args(words)
        if unknown:
            raise UsageError(f"unrecognized arguments: {' '.join(unknown)} ({_listed(arguments.asked)})")
        if arguments.run is None:
            parser.print_help(sys.stderr)
            return EXIT_USAGE
        status: int = arguments.run(arguments)
    except SpecgateError as error:
        sys.stderr.write(f"specgate: {error}\n")
        return EXIT_USAGE
    except BrokenPipeError:
        # Whoever reads has enough, as `head` does; what is still buffered must not complain when the process ends.
        _drop_output()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if error.filename is None:
            _drop_output()
        sys.stderr.write(f"specgate: {_refused(error)}\n")
        return EXIT_USAGE
    except KeyboardInterrupt:
        sys.stderr.write("specgate: interrupted\n")
        return EXIT_INTERRUPTED
    return status


def _drop_output() -> None:
    """Send what is still buffered for stdout nowhere, so that it does not fail once more when the process ends."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(error: OSError) -> str:
    """Say in one sentence what the system refused; an error without a file is one of writing what is printed."""
    place = "the output" if error.filename is None else str(error.filename)
    return f"{place} cannot be read or written: {error.strerror or error}"


def _refuse_empty(words: Sequence[str]) -> None:
    """Refuse values of nothing: a CI variable that expands to nothing must neither switch anything off nor mean ``.``.

    Raises:
        UsageError: an option or an argument is empty.
    """
    for before, word in zip(["", *words], words, strict=False):
        name, equals, value = word.partition("=")
        if equals and name.startswith("--") and not value.strip():
            raise UsageError(f"{name} is empty: give it a value or leave it out")
        if not word.strip():
            owner = before if before.startswith("-") else "an argument"
            raise UsageError(f"{owner} is empty: give it a value or leave it out")


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are usage errors like all others."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} ({_listed(self.prog)})")


def _listed(prog: str) -> str:
    return f"`{prog} --help` lists what there is"


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
    parser.set_defaults(run=None, asked=parser.prog)
    _add_commands(parser, COMMANDS)
    return parser


def _add_commands(parser: argparse.ArgumentParser, commands: Sequence[Command]) -> None:
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in commands:
        example = f"Example: {command.example}" if command.example else None
        subparser = subparsers.add_parser(
            command.name, help=command.summary, description=command.description, epilog=example, allow_abbrev=False
        )
        command.add_arguments(subparser)
        subparser.set_defaults(run=command.run, asked=subparser.prog)
        if command.commands:
            _add_commands(subparser, command.commands)


def _version() -> str:
    try:
        return importlib.metadata.version("pytest-specgate")
    except importlib.metadata.PackageNotFoundError:
        return "(not installed: run from its source tree)"
