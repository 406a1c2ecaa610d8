"""`specgate stream`: what the reads of one captured answer say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.cli.command import EXIT_INVALID, EXIT_OK, Command, read_text, say

if TYPE_CHECKING:
    import argparse


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "capture",
        metavar="CAPTURE",
        type=Path,
        help='one network read a line: {"t_ms": milliseconds after the send, "bytes_b64": bytes of the body}',
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object; times in seconds")


def _run(arguments: argparse.Namespace) -> int:
    from pytest_specgate.adapters.captures import parse_capture  # noqa: PLC0415  - see the package's docstring
    from pytest_specgate.core.analysis import analyse_stream  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.offline import stream_lines  # noqa: PLC0415  - likewise

    found = analyse_stream(parse_capture(read_text(arguments.capture), name=str(arguments.capture)))
    say(found.model_dump_json(indent=2) if arguments.json else "\n".join(stream_lines(found)))
    return EXIT_OK if found.valid else EXIT_INVALID


COMMAND = Command(
    name="stream",
    summary="what a captured streamed answer says: TTFT, TPOT, tokens per chunk, whether it is complete",
    description="Read the body of one streamed answer as it came off the network, and show its times and counts as a"
    " gate would take them. Exit status: 0 the answer is complete, 2 wrong usage or no such file, 4 an answer that a"
    " gate would count as failed (cut off, an error event, no token).",
    add_arguments=_add_arguments,
    run=_run,
)
