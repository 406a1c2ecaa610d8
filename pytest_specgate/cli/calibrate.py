"""`specgate calibrate`: A/A windows of the arms in gate files, run by pytest."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.cli.command import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_OK, EXIT_USAGE, Command, say
from pytest_specgate.cli.gate_files import export_words, refuse_missing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

_STATUS: Final = {0: EXIT_OK, 2: EXIT_USAGE, 4: EXIT_USAGE, 5: EXIT_USAGE}
"""Exit status by that of pytest, which has 2 for a file that cannot be collected, 5 for nothing collected."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gates", metavar="GATE", nargs="+", help="gate file, folder or test id, as pytest takes it")
    parser.add_argument("--boots", metavar="N", type=_count, help="boots of each arm in a row (default: 6)")
    parser.add_argument(
        "--option", metavar="OPTION", action="append", default=[],
        help="an option for pytest, as --option=--specgate-engine-python=/venv/bin/python; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true",
        help="print one JSON object: of each A/A window its record, the file that its noise was added to, the noise of"
        " every metric at every point, and what went wrong; what pytest says goes to stderr",
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
    for gates in arguments.gates:
        refuse_missing(gates, options=arguments.option)
    if not arguments.json:
        return _status(*_ended(command_line(arguments), output=None))
    with tempfile.TemporaryDirectory(prefix="specgate-calibrate-") as folder:
        file = Path(folder) / "calibrations.json"
        ended, interrupted = _ended([*command_line(arguments), *export_words(file)], output=sys.stderr)
        windows = json.loads(file.read_text(encoding="utf-8"))["calibrations"] if file.exists() else []
    say(json.dumps({"pytest_exit_code": ended, "windows": windows}, indent=2, ensure_ascii=False))
    return _status(ended, interrupted)


def _status(ended: int, interrupted: bool) -> int:
    return EXIT_INTERRUPTED if interrupted else _STATUS.get(ended, EXIT_INVALID)


def _ended(command: Sequence[str], *, output: TextIO | None) -> tuple[int, bool]:
    """Run pytest to its end, and return its exit status, and whether it was interrupted: it has 2 for either."""
    interrupted = False
    with subprocess.Popen(command, stdout=output) as process:  # noqa: S603  - our own interpreter, no shell
        while True:
            try:
                return process.wait(), interrupted
            except KeyboardInterrupt:
                # pytest was interrupted, too: it ends its servers, and is not left behind.
                interrupted = True


COMMAND = Command(
    name="calibrate",
    summary="measure how far figures scatter when nothing changes",
    description="Boot each arm of some gate files several times in a row and write down how far its figures differ"
    " between boots. The result goes to baselines/HOST-CLASS/noise.json: commit it, and gates on machines of this class"
    " know their noise before they start. It is `pytest --specgate-calibrate GATE`: nothing is judged. Exit status: 0"
    " every arm told its noise, 2 wrong usage, 4 one of them did not, 130 interrupted.",
    add_arguments=_add_arguments,
    run=_run,
)
