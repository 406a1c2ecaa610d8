"""`specgate baseline diff` and `accept`: what a window changes in baselines, shown, and written when it is meant."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import re
import shlex
import sys
from typing import TYPE_CHECKING, Final

from pytest_specgate.adapters.baseline_files import BaselineFolder, sha256_of_file
from pytest_specgate.cli.command import EXIT_INVALID, EXIT_NOT_PROVED, EXIT_OK, EXIT_USAGE, say
from pytest_specgate.cli.records import opened_record
from pytest_specgate.core.baseline_update import Acceptance, plan_update
from pytest_specgate.core.errors import InvalidError, RecordError, UsageError, nearest
from pytest_specgate.core.redaction import redacted_text
from pytest_specgate.core.stored_gates import gates_of
from pytest_specgate.reporting.baseline_json import update_json
from pytest_specgate.reporting.baselines import changes_text, one_line, update_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from pytest_specgate.core.baseline_update import Update
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord

_SHORTEST_REASON: Final = 3
_REGRESSION: Final = "regression"
_HOST_CLASS: Final = re.compile(r"[a-z0-9][a-z0-9.-]*")
"""Names of classes of machines, which are those of folders: a record may come from anywhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a window is not accepted for a gate.

    Attributes:
        gate: id of the gate.
        reason: code.
        message: one sentence.
        status: exit status that it makes.
    """

    gate: str
    reason: str
    message: str
    status: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Planned:
    """What a record would change.

    Attributes:
        record: path of the record.
        record_sha256: of that file.
        updates: of gates that it may change.
        refusals: of the others.
        folder: of all baselines.
    """

    record: Path
    record_sha256: str
    updates: tuple[Update, ...]
    refusals: tuple[_Refusal, ...]
    folder: BaselineFolder

    def path(self, update: Update) -> Path:
        """Return where an update is written."""
        return self.folder.path(update.gate, host_class=update.after.host_class)

    @property
    def regressions(self) -> tuple[_Refusal, ...]:
        """Updates that are only written when they are meant."""
        return tuple(
            _Refusal(update.gate, _REGRESSION, "; ".join(update.regressions), EXIT_NOT_PROVED)
            for update in self.updates
            if update.regressions
        )


def diff(arguments: argparse.Namespace, folder: Path) -> int:
    """Show what `accept` would change, and return the exit status.

    Raises:
        UsageError: the record claims nothing of a baseline, or options contradict each other.
        RecordError: a file is broken.
    """
    with opened_record(arguments.record) as (record, path):
        return _diff(arguments, _planned(arguments, folder, record, path, reason="not accepted yet"))


def _diff(arguments: argparse.Namespace, planned: _Planned) -> int:
    refused = (*planned.refusals, *planned.regressions)
    if arguments.json:
        say(_as_json(planned, refused, written=False))
    else:
        _show(planned)
    for refusal in planned.refusals:
        _complain(refusal)
    if not planned.refusals and not arguments.json:
        say(f"nothing was written; to accept it: {_accept_line(arguments, planned)}")
    return _status(refused)


def accept(arguments: argparse.Namespace, folder: Path) -> int:
    """Write what a window changes in the baselines of its gates, all or none, and return the exit status.

    Raises:
        UsageError: the record claims nothing of a baseline, options contradict each other, or a file cannot be
            written.
        RecordError: a file is broken.
    """
    reason = _reason(arguments.reason)
    with opened_record(arguments.record) as (record, path):
        return _accept(arguments, _planned(arguments, folder, record, path, reason=reason))


def _accept(arguments: argparse.Namespace, planned: _Planned) -> int:
    refused = planned.refusals if arguments.accept_regression else (*planned.refusals, *planned.regressions)
    if not arguments.json:
        _show(planned)
    if not refused:
        _write(planned)
    if arguments.json:
        say(_as_json(planned, refused, written=not refused))
    elif not refused:
        _tell_written(planned)
    for refusal in refused:
        _complain(refusal, words="nothing was written: ")
    return _status(refused)


def _reason(text: str) -> str:
    """Return why a window is accepted, on one line and without secrets.

    Raises:
        UsageError: nothing is said.
    """
    found = " ".join(text.split())
    if len(found) < _SHORTEST_REASON:
        raise UsageError(
            f"--reason {text!r} says nothing: write why this window is accepted, as 'vLLM 0.33 on purpose'"
        )
    return redacted_text(found)


def _planned(arguments: argparse.Namespace, folder: Path, record: WindowRecord, path: Path, *, reason: str) -> _Planned:
    """Work out what a record changes, without writing anything."""
    if arguments.new_anchor and not arguments.replace:
        raise UsageError("--new-anchor forgets the first window, which only --replace does: give both")
    _refuse_odd_folder(record, path)
    how = Acceptance(
        mode="replace" if arguments.replace else "append",
        reason=reason,
        accepted_at=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
        record_sha256=sha256_of_file(path),
        new_anchor=arguments.new_anchor,
    )
    files = BaselineFolder(folder)
    found = [_update(gate, record, files, how=how) for gate in _gates(record, path, wanted=arguments.gates)]
    refusals = tuple(one for one in found if isinstance(one, _Refusal))
    updates = tuple(one for one in found if not isinstance(one, _Refusal))
    return _Planned(path, how.record_sha256, updates, refusals, files)


def _update(gate: Gate, record: WindowRecord, files: BaselineFolder, *, how: Acceptance) -> Update | _Refusal:
    file = files.load(gate.id, host_class=record.host_class)
    try:
        return plan_update(gate, record, file, how=how)
    except InvalidError as error:
        return _Refusal(gate.id, error.reason, f"INVALID ({error.reason}): {error}", EXIT_INVALID)
    except UsageError as error:
        return _Refusal(gate.id, "refused", str(error), EXIT_USAGE)


def _refuse_odd_folder(record: WindowRecord, path: Path) -> None:
    """Refuse a class of machine that would lead out of the folder of baselines.

    Raises:
        UsageError: it is no name of a folder.
    """
    if record.host_class and not _HOST_CLASS.fullmatch(record.host_class):
        raise UsageError(
            f"{path} names {record.host_class!r} as its class of machine, which is no name of a folder: it was edited"
        )


def _gates(record: WindowRecord, path: Path, *, wanted: Sequence[str]) -> Sequence[Gate]:
    """Return the gates whose baselines are concerned.

    Raises:
        UsageError: there are none, or not those that were named.
    """
    try:
        every = gates_of(record)
    except RecordError as error:
        raise UsageError(f"{path}: {error}") from error
    names = [gate.id for gate in every]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{path} holds gate {one_line(name)} twice, and nobody knows which of the two is meant")
    for name in wanted:
        if name not in names:
            raise UsageError(
                f"{path} holds no gate {name!r}{nearest(name, names)}; it holds {', '.join(names) or 'none'}"
            )
    claiming = [gate for gate in every if (gate.id in wanted if wanted else gate.baselines)]
    if not claiming:
        raise UsageError(
            f"no gate of {path} claims anything of a baseline: add not_worse_than_baseline(...) to one, and measure"
        )
    return claiming


def _write(planned: _Planned) -> None:
    """Write all updates.

    Raises:
        UsageError: one cannot be written; what stood there stands.
    """
    written: list[str] = []
    for update in planned.updates:
        path = planned.path(update)
        try:
            planned.folder.save(update.after, before=update.before)
        except (OSError, RecordError) as error:
            why = (error.strerror or error) if isinstance(error, OSError) else error
            others = f"; written before it: {', '.join(written)}" if written else ""
            raise UsageError(f"{path} was not written, and what stood there still stands: {why}{others}") from error
        written.append(str(path))


def _show(planned: _Planned) -> None:
    for update in planned.updates:
        for line in update_lines(update):
            say(line)
        say("")


def _tell_written(planned: _Planned) -> None:
    for update in planned.updates:
        say(f"written: {planned.path(update)}: {changes_text(update)}")
    paths = shlex.join(str(planned.path(update)) for update in planned.updates)
    say(f"next: git add {paths} && git diff --cached")


def _accept_line(arguments: argparse.Namespace, planned: _Planned) -> str:
    """Return the command that accepts what was shown, as it is typed."""
    words = ["specgate", "baseline", "accept", str(arguments.record)]
    words += [word for gate in arguments.gates for word in ("--gate", gate)]
    words += [f"--baselines={arguments.baselines}"] if arguments.baselines else []
    flags = (
        ("--replace", arguments.replace),
        ("--new-anchor", arguments.new_anchor),
        ("--accept-regression", planned.regressions),
    )
    return f"{shlex.join([*words, *(flag for flag, wanted in flags if wanted)])} --reason '...'"


def _complain(refusal: _Refusal, *, words: str = "") -> None:
    told = refusal.message
    if refusal.reason == _REGRESSION:
        told = "this window is a regression, as told above; if it is meant, add --accept-regression"
    sys.stderr.write(f"specgate: {words}{one_line(refusal.gate)}: {told}\n")


def _status(refusals: Sequence[_Refusal]) -> int:
    """Return the exit status of the first kind that occurs: INVALID, wrong usage, a regression."""
    found = {refusal.status for refusal in refusals}
    return next((status for status in (EXIT_INVALID, EXIT_USAGE, EXIT_NOT_PROVED) if status in found), EXIT_OK)


def _as_json(planned: _Planned, refusals: Sequence[_Refusal], *, written: bool) -> str:
    gates: list[JsonValue] = [update_json(update, path=str(planned.path(update))) for update in planned.updates]
    refused: list[JsonValue] = [
        {"gate": refusal.gate, "reason": refusal.reason, "message": refusal.message} for refusal in refusals
    ]
    stored: dict[str, JsonValue] = {
        "record": str(planned.record),
        "record_sha256": planned.record_sha256,
        "written": written,
        "valid": not any(refusal.status == EXIT_INVALID for refusal in refusals),
        "gates": gates,
        "refused": refused,
    }
    return json.dumps(stored, indent=2, ensure_ascii=False, allow_nan=False)
