"""`specgate report`: the summaries of windows, from their records alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.cli.command import EXIT_OK, EXIT_USAGE, Command, say
from pytest_specgate.cli.records import record_at
from pytest_specgate.core.errors import RecordError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "records", metavar="RECORD", type=Path, nargs="+", help="record.json of a window, or its folder"
    )
    parser.add_argument(
        "--json", action="store_true",
        help="print one JSON object a record, each on a line of its own; times in seconds, changes as fractions;"
        ' what is INVALID has "valid": false, its reason and no figures',
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    status, first = EXIT_OK, True
    for given in arguments.records:
        try:
            record, path = record_at(given)
            text = _as_json(record, path) if arguments.json else "\n".join(_lines(record, path))
        except UsageError as error:
            # The others are shown all the same: one of many that was cut off hides none of them.
            sys.stderr.write(f"specgate: {error}\n")
            status = EXIT_USAGE
            continue
        say(text if first or arguments.json else f"\n{text}")
        first = False
    return status


def _as_json(record: WindowRecord, path: Path) -> str:
    from pytest_specgate.reporting.record_json import record_json  # noqa: PLC0415  - see the package's docstring

    return json.dumps(record_json(record, path=str(path)))  # ASCII, so that it stays JSON on every terminal


def _lines(record: WindowRecord, path: Path) -> Iterator[str]:
    from pytest_specgate.core.stored_gates import gates_of, pairs_of  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.messages import Judged, outcome_line, window_lines  # noqa: PLC0415  - likewise

    try:
        gates, verdicts = gates_of(record), _verdicts(record)
    except RecordError as error:
        raise UsageError(one_line(f"{path}: {error}")) from error
    judged = [Judged(gate, tuple(found for found in verdicts if found.gate == gate.id)) for gate in gates]
    yield from window_lines(record, pairs=pairs_of(record), judged=judged, record_path=str(path))
    yield ""
    yield outcome_line(verdicts, collected=sum(len(gate.thresholds) for gate in gates))


def _verdicts(record: WindowRecord) -> Sequence[Verdict]:
    """Return the verdicts of the run, as they are stored: nothing is judged anew.

    Raises:
        RecordError: one of them is none.
    """
    from pydantic import ValidationError  # noqa: PLC0415  - likewise

    from pytest_specgate.core.stored_gates import first_problem  # noqa: PLC0415  - likewise
    from pytest_specgate.core.verdict import Verdict  # noqa: PLC0415  - likewise

    try:
        return [Verdict.model_validate_json(json.dumps(stored)) for stored in record.verdicts]
    except ValidationError as error:
        raise RecordError(f"a verdict cannot be read: {first_problem(error)}") from error


COMMAND = Command(
    name="report",
    summary="show the summaries of windows again, from their records",
    description="Show what runs printed at their end: whether both arms got the same requests, the tables, the verdicts"
    " and what they rest on. Verdicts are those that the run gave, and nothing is judged anew (`specgate judge` does"
    " that). Exit status: 0 shown, whatever the verdicts are; 2 a record is missing or broken, and all others were"
    " shown.",
    example="specgate report specgate-results/*",
    add_arguments=_add_arguments,
    run=_run,
)
