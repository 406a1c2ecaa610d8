"""`specgate report`: what windows have to tell, from their records alone: as text, JSON, Markdown or a page."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.cli.command import EXIT_OK, EXIT_USAGE, Command, say
from pytest_specgate.cli.records import once, opened_record
from pytest_specgate.core.errors import RecordError, UsageError
from pytest_specgate.earlier_reports import foreign
from pytest_specgate.names import REPORT_KEY

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.reporting.session_report import SessionReport, Unmeasured

_STDOUT: Final = "-"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "records", metavar="RECORD", type=Path, nargs="+", help="record.json of a window, or its folder"
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true",
        help="show what each boot measured, too, and how its server was started, as `pytest -v` does",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true",
        help="print one JSON object a record, each on a line of its own, as `specgate schema report` describes it;"
        ' times in seconds, changes as fractions; what is INVALID has "valid": false, its reason and no figures',
    )  # fmt: skip
    form.add_argument(
        "--markdown", metavar="FILE", nargs="?", const=_STDOUT,
        help="one Markdown text on all records, for a comment on a pull request: into FILE, or printed without one"
        " (then put the option last)",
    )  # fmt: skip
    form.add_argument(
        "--html", metavar="FILE", help="one page on all records, with plots, into FILE; needs the extra `report`"
    )
    parser.add_argument(
        "--key", metavar="NAME", default="",
        help="of --markdown: what tells this text from that of other jobs, in the comment that is its first line",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    if arguments.key and arguments.markdown is None:
        raise UsageError("--key stands in the first line of --markdown: ask for that, too")
    if arguments.key and not re.fullmatch(REPORT_KEY, arguments.key):
        raise UsageError(f"--key={arguments.key}: write up to 64 letters, digits, '.', '_' and single '-'")
    if arguments.markdown is not None or arguments.html is not None:
        return _document(arguments)
    status, first = EXIT_OK, True
    for given in once(arguments.records, told="it is shown once"):
        try:
            with opened_record(given) as (record, path):
                report = _report(record, path)
                text = _as_json(report) if arguments.json else _as_printed(report, verbose=arguments.verbose)
        except UsageError as error:
            # The others are shown all the same: one of many that was cut off hides none of them.
            sys.stderr.write(f"specgate: {error}\n")
            status = EXIT_USAGE
            continue
        say(text if first or arguments.json else f"\n{text}")
        first = False
    return status


def _report(record: WindowRecord, path: Path) -> SessionReport:
    """Return what a record has to tell.

    Raises:
        UsageError: a gate or a verdict in it cannot be read.
    """
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - see the package's docstring
    from pytest_specgate.reporting.session_report import report_of  # noqa: PLC0415  - likewise

    try:
        return report_of([(record, str(path))])
    except RecordError as error:
        raise UsageError(one_line(f"{path}: {error}")) from error


def _as_json(report: SessionReport) -> str:
    from pytest_specgate.reporting.session_json import session_json  # noqa: PLC0415  - likewise

    return json.dumps(session_json(report), allow_nan=False)  # ASCII, so that it stays JSON on every terminal


def _as_printed(report: SessionReport, *, verbose: bool) -> str:
    from pytest_specgate.reporting.layout import Detail, View  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.session_lines import session_lines  # noqa: PLC0415  - likewise

    return "\n".join(session_lines(report, view=View(Detail.LONG if verbose else Detail.NORMAL)))


def _document(arguments: argparse.Namespace) -> int:
    """Write one text on all records; what could not be read of them keeps it from being green."""
    from pytest_specgate.core.metrics import with_added  # noqa: PLC0415  - likewise

    target = arguments.markdown if arguments.html is None else arguments.html
    if target != _STDOUT:
        _refuse_target(Path(target), "markdown" if arguments.html is None else "html")
    records, unread = _read(once(arguments.records, told="it is shown once"))
    if not records:
        return EXIT_USAGE
    # Of metrics that projects have added, of one name that of the first record.
    added = {one.name: one for record, _ in reversed(records) for one in record.added_metrics}
    with with_added(added.values()):
        text = _text(arguments, records, unread)
    if target == _STDOUT:
        say(text.rstrip("\n"))
    else:
        from pytest_specgate.adapters.storage import write_atomically  # noqa: PLC0415  - likewise

        write_atomically(Path(target), text)
    return EXIT_USAGE if unread else EXIT_OK


def _refuse_target(path: Path, kind: str) -> None:
    """Refuse to replace what is no report: a record that was meant to be read, or whatever else is there.

    Raises:
        UsageError: the place is a folder, in no folder, or holds something else than a report of that kind.
    """
    flag = f"--{kind}"
    remedy = f"put the records first, or write {flag}=FILE"
    if path.is_dir():
        raise UsageError(f"{flag} {path}: a file is wanted, and that is a folder: {remedy}")
    if problem := _foreign(path, kind):
        raise UsageError(f"{flag} {path}: {problem}, {remedy}")
    if not path.parent.is_dir():
        raise UsageError(f"{flag} {path}: there is no folder {path.parent}: make it first")


def _foreign(path: Path, kind: str) -> str:
    try:
        return foreign(path, kind)
    except OSError as error:
        return f"it cannot be read ({error.strerror}), and would be replaced: name another one"


def _read(given: Sequence[Path]) -> tuple[list[tuple[WindowRecord, str]], list[Unmeasured]]:
    """Return the records that can be read, each with its path, and why the others cannot."""
    from pytest_specgate.reporting.session_report import Unmeasured  # noqa: PLC0415  - likewise

    records: list[tuple[WindowRecord, str]] = []
    unread: list[Unmeasured] = []
    for one in given:
        try:
            with opened_record(one) as (record, path):
                _report(record, path)
                records.append((record, str(path)))
        except UsageError as error:
            sys.stderr.write(f"specgate: {error}\n")
            unread.append(Unmeasured((), (), str(error)))
    return records, unread


def _text(
    arguments: argparse.Namespace, records: Sequence[tuple[WindowRecord, str]], unread: Sequence[Unmeasured]
) -> str:
    from pytest_specgate.reporting.session_report import report_of  # noqa: PLC0415  - likewise

    report = report_of(records, unread=unread)
    if arguments.html is not None:
        from pytest_specgate.reporting.page import html_page  # noqa: PLC0415  - likewise

        return html_page(report)
    from pytest_specgate.reporting.markdown import markdown  # noqa: PLC0415  - likewise

    return markdown(report, key=arguments.key)


COMMAND = Command(
    name="report",
    summary="show the summaries of windows again, from their records",
    description="Show what runs printed at their end: whether both arms got the same requests, the tables, the verdicts"
    " and what they rest on. Verdicts are those that the run gave, and nothing is judged anew (`specgate judge` does"
    " that). --markdown and --html make one text of all of it for people elsewhere, --json one for programs; a run"
    " writes the same with --specgate-markdown, --specgate-html and --specgate-json. What a test accepts with"
    " verdict.expect() is in its body and not in the record: a FAIL that it expected is one here. Exit status: 0 shown,"
    " whatever the verdicts are; 2 a record is missing or broken, and all others were shown.",
    example="specgate report specgate-results/*",
    add_arguments=_add_arguments,
    run=_run,
)
