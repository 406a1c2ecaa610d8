"""What `specgate probe` says of what came of it, and its exit status."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.cli.command import (
    EXIT_INCONCLUSIVE,
    EXIT_INVALID,
    EXIT_NOT_PROVED,
    EXIT_OK,
    EXIT_USAGE,
    say,
)
from pytest_specgate.cli.probe_file import NAME
from pytest_specgate.cli.records import opened_record
from pytest_specgate.core.errors import RecordError, UsageError
from pytest_specgate.core.judge import pair_problem
from pytest_specgate.core.stored_gates import pairs_of
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.acceptance import acceptance_of
from pytest_specgate.reporting.acceptance_json import acceptance_report, unmeasured_report
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.layout import Detail, View
from pytest_specgate.reporting.session_lines import session_lines
from pytest_specgate.reporting.session_report import report_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_specgate.core.acceptance_report import AcceptanceReport
    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.stored import Failure
    from pytest_specgate.core.verdict import Verdict

_FLAG: Final = "--per-request-spec-decode-metrics"
_UNKNOWN: Final = "unrecognized arguments"
"""What vLLM says of a flag that it does not have."""

_OTHER_HORIZON: Final = re.compile(
    r"\b(?:num_speculative_tokens|k)=\d+ is declared, but the server "
    r"(?:resolved num_speculative_tokens=|counts )(?P<own>[1-9]\d*)\b"
)
"""What is said of a server whose draft horizon is another one, whether it tells its configuration or only counts."""

_UNUSABLE: Final = (2, 4, 5)
"""Exit statuses of pytest for a file that cannot be collected, wrong options, and nothing to run."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProbeRun:
    """What came of pytest.

    Attributes:
        exit_code: of pytest.
        lines: that it printed, without secrets.
        report: what it wrote for programs; empty where it wrote nothing.
    """

    exit_code: int
    lines: Sequence[str]
    report: Mapping[str, Any]

    @property
    def record(self) -> Path | None:
        """Where the record lies; `None` where nothing was measured."""
        windows = self.report.get("windows", [])
        return Path(windows[0]["record"]) if windows else None

    @property
    def problem(self) -> str:
        """Why nothing was measured, as one sentence."""
        told = [one["message"] for key in ("unmeasured", "broken") for one in self.report.get(key, [])]
        told += [line.removeprefix("ERROR: ") for line in self.lines if line.startswith("ERROR: ")]
        return told[0] if told else f"pytest ended with exit status {self.exit_code}, and its output is above"


def tell_unmeasured(arm: Arm, run: ProbeRun, *, as_json: bool) -> int:
    """Say why nothing was measured, and return the exit status of that."""
    status = EXIT_USAGE if run.exit_code in _UNUSABLE else EXIT_INVALID
    sys.stderr.write("\n".join([*run.lines, ""]))
    if as_json:
        _print(unmeasured_report(arm, message=one_line(run.problem)))
    sys.stderr.write(f"specgate: nothing was measured: {one_line(run.problem)}\n")
    return status


def tell_measured(run: ProbeRun, *, as_json: bool, again: str, secrets: Sequence[str]) -> int:
    """Show what was measured, and return the exit status of that.

    Args:
        run: of pytest; it has left a record.
        as_json: whether for programs.
        again: options with which pytest measures the gate file beside it again.
        secrets: names of the variables that it takes secrets from.

    Raises:
        UsageError: the record cannot be read.
    """
    assert run.record is not None, "the caller has looked"
    with opened_record(run.record) as (record, path):
        shown, gate_path = _shown(path), _shown(path.with_name(NAME))
        try:
            (pair,), session = pairs_of(record), report_of([(record, shown)])
        except RecordError as error:
            raise UsageError(one_line(f"{path}: {error}")) from error
        verdicts = [one.verdict for one in session.verdicts]
        status = _status(pair, record, verdicts)
        if as_json:
            told = acceptance_report(pair, record, verdicts, record_path=shown, gate_file=gate_path)
            _print(told)
        else:
            say("\n".join(["", *session_lines(session, view=View(Detail.NORMAL))]))
            say("\n".join(_kept_lines(gate_path, again=again, secrets=secrets)))
            say("\n".join(_next_steps(record, shown, readable=status != EXIT_INVALID)))
    if status == EXIT_OK and run.exit_code:
        sys.stderr.write(
            "\n".join([*run.lines, f"specgate: pytest ended with exit status {run.exit_code}: see above", ""])
        )
        return EXIT_INVALID
    return status


def _status(pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict]) -> int:
    """Return the exit status: of a limit that is broken, of figures that may not be read, of what is left open."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if Outcome.FAIL in outcomes:
        return EXIT_NOT_PROVED
    if record.stopped and not record.boots:
        return EXIT_INCONCLUSIVE
    if Outcome.INVALID in outcomes or pair_problem(pair, record) is not None:
        return EXIT_INVALID
    if any(level.curve is None for level in acceptance_of(pair, record, verdicts).levels):
        return EXIT_INVALID
    if Outcome.INCONCLUSIVE in outcomes or record.stopped or not record.finished:
        return EXIT_INCONCLUSIVE
    return EXIT_OK


def _kept_lines(gate_path: str, *, again: str, secrets: Sequence[str]) -> Iterator[str]:
    yield f"gate file: {gate_path}: keep it beside your gates, and pytest measures the same again:"
    yield f"    {f'pytest {shlex.quote(gate_path)} {again}'.rstrip()}"
    if secrets:
        yield f"it takes secrets from the environment: {', '.join(secrets)}"


def _next_steps(record: WindowRecord, record_path: str, *, readable: bool) -> Iterator[str]:
    if readable:
        yield "which k is worth its steps, and how fast one stream can be at most:"
        yield f"    specgate knee {shlex.quote(record_path)}"
        yield f"    specgate ceiling {shlex.quote(record_path)}"
        return
    yield "what may not be read sources nothing: mend what stands above (logs of servers lie beside the record)"
    failures = [boot.failure for boot in record.boots if boot.failure is not None]
    if record.boots and record.boots[-1].unproved and (served := _served_horizon(failures)):
        yield f"the attached server has k={served}: give --k {served}"
    details = [failure.detail for failure in failures]
    if any(_UNKNOWN in detail and _FLAG in detail for detail in details):
        yield f"this engine does not know {_FLAG}: leave it out with --no-per-request"


def _served_horizon(failures: Sequence[Failure]) -> str:
    """Return the draft horizon that a server has in place of the declared one; empty where it is not that."""
    told = (_OTHER_HORIZON.search(failure.message) for failure in failures)
    return next((match["own"] for match in told if match is not None), "")


def _shown(path: Path) -> str:
    """Return a path as somebody would type it here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _print(report: AcceptanceReport) -> None:
    # ASCII, so that it stays JSON on every terminal.
    say(json.dumps(report.model_dump(mode="json"), indent=2))
