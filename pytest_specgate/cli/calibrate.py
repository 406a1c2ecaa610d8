"""`specgate calibrate`: A/A windows of the arms in gate files, run by pytest."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import Final

from pytest_specgate.cli.command import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OK, EXIT_USAGE, Command

_STATUS: Final = {0: EXIT_OK, 1: EXIT_INVALID, 2: EXIT_INTERRUPTED, 3: EXIT_INVALID, 4: EXIT_USAGE, 5: EXIT_USAGE}
"""Exit status by that of pytest, which has 1 for failed tests, 2 for an interrupt, 5 for nothing collected."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gates", metavar="GATE", nargs="+", help="gate file, folder or test id, as pytest takes it")
    parser.add_argument("--boots", metavar="N", type=_count, help="boots of each arm in a row (default: 6)")
    parser.add_argument(
        "--option", metavar="OPTION", action="append", default=[],
        help="an option for pytest, as --option=--specgate-engine-python=/venv/bin/python; may be repeated",
    )  # fmt: skip


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r}: one boot has nothing to be compared with, take 2 or more")
    return int(text)


def command_line(arguments: argparse.Namespace) -> list[str]:
    """Return what is run: pytest, as the interpreter of this process has it."""
    boots = [] if arguments.boots is None else [f"--specgate-calibrate-boots={arguments.boots}"]
    return [
        sys.executable, "-m", "pytest", "--specgate-calibrate", *boots, *arguments.option, *arguments.gates
    ]  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    with subprocess.Popen(command_line(arguments)) as process:  # noqa: S603  - our own interpreter, no shell
        while True:
            try:
                return _STATUS.get(process.wait(), EXIT_INVALID)
            except KeyboardInterrupt:
                # pytest was interrupted, too: it ends its servers, and is not left behind.
                continue


COMMAND = Command(
    name="calibrate",
    summary="measure how far figures scatter when nothing changes",
    description=(
        "Boot each arm of some gate files several times in a row and write down how far its figures differ between "
        "boots. The result goes to baselines/HOST-CLASS/noise.json: commit it, and gates on machines of this class "
        "know their noise before they start. It is `pytest --specgate-calibrate GATE`: nothing is judged."
    ),
    add_arguments=_add_arguments,
    run=_run,
)
