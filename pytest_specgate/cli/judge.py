"""`specgate judge`: judge a window record again, on any machine, by the gates that it holds or by those of a file."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
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
from pytest_specgate.cli.records import opened_record
from pytest_specgate.core.errors import RecordError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.messages import Judged


@dataclass(frozen=True)
class _Unjudged:
    """A gate of a file that the record cannot answer.

    Attributes:
        gate: its id.
        thresholds: how many it has.
        why: what differs, in one sentence.
    """

    gate: str
    thresholds: int
    why: str


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("record", metavar="RECORD", type=Path, help="record.json of a window, or its folder")
    parser.add_argument(
        "--gates", metavar="GATE",
        help="judge by the gates of this file, folder or test id instead of those in the record: thresholds and rounds"
        " may be others, arms and load must be those of the record to the letter",
    )  # fmt: skip
    parser.add_argument(
        "--option", metavar="OPTION", action="append", default=[],
        help="an option for the pytest that reads --gates, as --option=--rootdir=project; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true",
        help="print the verdicts as one JSON list; changes and limits as fractions; an INVALID verdict has"
        ' "valid": false and no figures, and so has a gate of --gates that is not judged',
    )  # fmt: skip
    parser.add_argument(
        "-v", "--verbose", action="store_true",
        help="show what each boot measured, too, and how its server was started, as `pytest -v` does",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    if arguments.option and arguments.gates is None:
        raise UsageError("--option is for the pytest that reads --gates: name a gate file, too")
    with opened_record(arguments.record) as (record, path):
        return _judged(arguments, record, path)


def _judged(arguments: argparse.Namespace, record: WindowRecord, path: Path) -> int:
    from pytest_specgate.core.judge import judge  # noqa: PLC0415  - see the package's docstring
    from pytest_specgate.reporting.messages import Judged  # noqa: PLC0415  - likewise

    gates, unjudged = (_own_gates(record, path), []) if arguments.gates is None else _other_gates(arguments, record)
    entries = [Judged(gate, judge(gate, record)) for gate in gates]
    verdicts = [verdict for entry in entries for verdict in entry.verdicts]
    if arguments.json:
        say(_as_json(record, verdicts, unjudged=unjudged))
    else:
        _tell(record, entries, path=path, verbose=arguments.verbose)
        say(_last_line(record, verdicts, unjudged=unjudged))
    return _status(verdicts, whole=record.finished and not unjudged)


def _own_gates(record: WindowRecord, path: Path) -> Sequence[Gate]:
    from pytest_specgate.core.stored_gates import gates_of  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise

    try:
        gates = gates_of(record)
    except RecordError as error:
        raise UsageError(one_line(f"{path}: {error}")) from error
    if not gates:
        raise UsageError(f"{path} holds no gate: its pairs were measured, and nothing was claimed of them")
    return gates


def _other_gates(arguments: argparse.Namespace, record: WindowRecord) -> tuple[Sequence[Gate], list[_Unjudged]]:
    """Return the gates of a file that the record can answer, and the others, which are told with what differs."""
    from pytest_specgate.cli.gate_files import collected_gates  # noqa: PLC0415  - likewise
    from pytest_specgate.core.gate_exports import gate_on  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise

    gates: list[Gate] = []
    unjudged: list[_Unjudged] = []
    for found in collected_gates(arguments.gates, options=arguments.option):
        try:
            gates.append(gate_on(record, found))
        except (UsageError, RecordError) as error:
            unjudged.append(_Unjudged(str(found["id"]), len(found["thresholds"]), str(error)))
            sys.stderr.write(one_line(f"not judged: {found['id']}: {error}") + "\n")
    if not gates:
        raise UsageError(f"no gate of {arguments.gates} is on arms and load of this record: what differs stands above")
    return gates, unjudged


def _as_json(record: WindowRecord, verdicts: Sequence[Verdict], *, unjudged: Sequence[_Unjudged]) -> str:
    """Return one list: the verdicts, then one entry for every gate that was not judged, which has no outcome."""
    from pytest_specgate.reporting.record_json import verdict_json  # noqa: PLC0415  - likewise

    finished: dict[str, JsonValue] = {"finished": record.finished}
    listed = [{**finished, **verdict_json(verdict.model_dump(mode="json"))} for verdict in verdicts]
    for one in unjudged:
        why: dict[str, JsonValue] = {"outcome": None, "reason": "not-judged", "summary": one.why}
        listed.append({**finished, "valid": False, "gate": one.gate, **why})
    # ASCII, so that it stays JSON on every terminal.
    return json.dumps(listed, indent=2)


def _tell(record: WindowRecord, entries: Sequence[Judged], *, path: Path, verbose: bool) -> None:
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.layout import Detail, View  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.messages import failure_text, window_lines  # noqa: PLC0415  - likewise

    for entry in entries:
        again = f"pytest {shlex.quote(entry.gate.id)}"
        for verdict in entry.verdicts:
            if not verdict.accepted:
                say(one_line(f"{entry.gate.id} {verdict.threshold}"))
                say(failure_text(verdict, gate=entry.gate, record=record, record_path=str(path), again=again))
                say("")
    pairs = _pairs(record, entries)
    view = View(Detail.LONG if verbose else Detail.NORMAL)
    say("\n".join(window_lines(record, pairs=pairs, judged=entries, record_path=str(path), view=view)))


def _last_line(record: WindowRecord, verdicts: Sequence[Verdict], *, unjudged: Sequence[_Unjudged]) -> str:
    """Count the outcomes, and say what keeps them from being the whole answer."""
    from pytest_specgate.reporting.messages import outcome_line  # noqa: PLC0415  - likewise

    line = outcome_line(verdicts, collected=len(verdicts) + sum(one.thresholds for one in unjudged))
    return line if record.finished else f"{line}; the window did not run to its end"


def _pairs(record: WindowRecord, entries: Sequence[Judged]) -> Sequence[ArmPair]:
    """Return the pairs of a record; those that gates of a file are on have the rounds of that file."""
    from pytest_specgate.core.stored_gates import pairs_of  # noqa: PLC0415  - likewise

    stored = pairs_of(record)
    asked = [entry.gate.pair for entry in entries]
    others = [pair for pair in asked if pair not in stored]
    kept = [pair for pair in stored if pair in asked or not others]
    return [*kept, *(pair for place, pair in enumerate(others) if pair not in others[:place])]


def _status(verdicts: Sequence[Verdict], *, whole: bool) -> int:
    """Return the exit status of the first word that occurs: FAIL, INVALID, INCONCLUSIVE, PASS.

    Args:
        verdicts: of all gates that were judged.
        whole: whether the window ran to its end, and every gate was judged; PASS alone does not do otherwise.
    """
    from pytest_specgate.core.verdict import Outcome  # noqa: PLC0415  - likewise

    found = {verdict.outcome for verdict in verdicts}
    order = (
        (Outcome.FAIL, EXIT_NOT_PROVED),
        (Outcome.INVALID, EXIT_INVALID),
        (Outcome.INCONCLUSIVE, EXIT_INCONCLUSIVE),
    )
    return next((status for outcome, status in order if outcome in found), EXIT_OK if whole else EXIT_INCONCLUSIVE)


COMMAND = Command(
    name="judge",
    summary="judge a window record again",
    description="Judge what a window has measured by the gates that its record holds, without a server and on any"
    " machine: the verdicts are those of the run, to the last digit. What a test accepts with verdict.expect() is in"
    " its body and not in the record: a FAIL that it expected ends with 1 here. With --gates the claims of a gate file"
    " are judged by the same figures, to try other thresholds before the next run; that file is read by pytest, and"
    " nothing in it is run. Trying margins until one passes proves nothing: choose them before the run that counts."
    " Exit status: 0 all pass, 1 a FAIL, 2 wrong usage or a record or gate file that cannot be read, 3 something could"
    " not be decided: a claim, a gate of --gates that is not judged, a window that did not run to its end; 4 something"
    " must not be judged.",
    example="specgate judge specgate-results/20261130T043757.443Z-84c131050781 --gates tests/test_speed.py",
    add_arguments=_add_arguments,
    run=_run,
)
