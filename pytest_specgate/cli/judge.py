"""`specgate judge`: judge a window record again, on any machine, by the gates that it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.cli.command import (
    EXIT_INCONCLUSIVE,
    EXIT_INVALID,
    EXIT_NOT_PROVED,
    EXIT_OK,
    Command,
    say,
)
from pytest_specgate.core.errors import RecordError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("record", metavar="RECORD", type=Path, help="record.json of a window, or its folder")
    parser.add_argument(
        "--json", action="store_true", help="print the verdicts as one JSON list; changes and limits as fractions"
    )


def _run(arguments: argparse.Namespace) -> int:
    from pytest_specgate.adapters.storage import RECORD_NAME, load_record  # noqa: PLC0415  - see the package's docstring
    from pytest_specgate.core.judge import judge  # noqa: PLC0415  - likewise
    from pytest_specgate.core.stored_gates import gates_of  # noqa: PLC0415  - likewise

    path = arguments.record / RECORD_NAME if arguments.record.is_dir() else arguments.record
    try:
        record = load_record(path)
        gates = gates_of(record)
    except RecordError as error:
        raise UsageError(str(error)) from error
    if not gates:
        raise UsageError(f"{path} holds no gate: its pairs were measured, and nothing was claimed of them")
    verdicts = {gate.id: judge(gate, record) for gate in gates}
    if arguments.json:
        stored = [verdict.model_dump(mode="json") for judged in verdicts.values() for verdict in judged]
        say(json.dumps(stored, indent=2, ensure_ascii=False))
    else:
        _tell(record, list(verdicts.values()), path=path)
    return _status([verdict for judged in verdicts.values() for verdict in judged])


def _tell(record: WindowRecord, judged: Sequence[Sequence[Verdict]], *, path: Path) -> None:
    from pytest_specgate.core.stored_gates import gates_of, pairs_of  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.messages import Judged, failure_text, outcome_line, window_lines  # noqa: PLC0415

    gates = gates_of(record)
    entries = [Judged(gate, tuple(verdicts)) for gate, verdicts in zip(gates, judged, strict=True)]
    for entry in entries:
        for verdict in entry.verdicts:
            if not verdict.accepted:
                again = f"pytest {entry.gate.id}"
                say(f"{entry.gate.id} {verdict.threshold}")
                say(failure_text(verdict, gate=entry.gate, record=record, record_path=str(path), again=again))
                say("")
    say("\n".join(window_lines(record, pairs=pairs_of(record), judged=entries, record_path=str(path))))
    verdicts = [verdict for entry in entries for verdict in entry.verdicts]
    say(outcome_line(verdicts, collected=len(verdicts)))


def _status(verdicts: Sequence[Verdict]) -> int:
    """Return the exit status of the first word that occurs: FAIL, INVALID, INCONCLUSIVE, PASS."""
    from pytest_specgate.core.verdict import Outcome  # noqa: PLC0415  - likewise

    found = {verdict.outcome for verdict in verdicts}
    order = (
        (Outcome.FAIL, EXIT_NOT_PROVED),
        (Outcome.INVALID, EXIT_INVALID),
        (Outcome.INCONCLUSIVE, EXIT_INCONCLUSIVE),
    )
    return next((status for outcome, status in order if outcome in found), EXIT_OK)


COMMAND = Command(
    name="judge",
    summary="judge a window record again",
    description=(
        "Judge what a window has measured by the gates that its record holds, without a server and on any machine. The "
        "verdicts are those of the run, to the last digit. Exit status: 0 all pass, 1 a FAIL, 4 something must not be "
        "judged, 3 something could not be decided."
    ),
    add_arguments=_add_arguments,
    run=_run,
)
