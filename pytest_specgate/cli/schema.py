"""`specgate schema`: the JSON schema of what is stored and reported, for tools in other languages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pytest_specgate.cli.command import EXIT_OK, Command, say

if TYPE_CHECKING:
    import argparse

_KINDS: Final = {
    "record": "what a window measured, and its verdicts: specgate-results/*/record.json",
    "baseline": "what was accepted for one gate on one class of machine: baselines/HOST-CLASS/GATE.json",
    "noise": "the calibrations of one class of machine: baselines/HOST-CLASS/noise.json",
    "report": "what came of a run: the file of --specgate-json, and what `specgate report --json` prints",
    "knee": "what draft horizons give and cost, and which k to run: what `specgate knee --json` prints",
    "acceptance": "how much of what one arm drafts is accepted: what `specgate probe --json` prints",
}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "kind",
        metavar="KIND",
        choices=sorted(_KINDS),
        help="; ".join(f"{name}: {what}" for name, what in _KINDS.items()),
    )
    parser.add_argument("--json", action="store_true", help="accepted for the sake of scripts: a schema is JSON anyway")


def _run(arguments: argparse.Namespace) -> int:
    from pytest_specgate.core.schemas import published  # noqa: PLC0415  - see the package's docstring

    say(json.dumps(published(arguments.kind), indent=1, ensure_ascii=False))
    return EXIT_OK


COMMAND = Command(
    name="schema",
    summary="print the JSON schema of a stored file, or of what a command prints with --json",
    description="Print the JSON schema (draft 2020-12) of a file that gates write, or of what a command prints as JSON,"
    " as this version writes and reads it: every key with its type and meaning. The same files lie in docs/schema. Exit"
    " status: 0 printed, 2 wrong usage.",
    add_arguments=_add_arguments,
    run=_run,
)
