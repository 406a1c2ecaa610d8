"""`specgate compare`: two windows, or two result files of `vllm bench serve`, one against the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_specgate.cli.command import (
    EXIT_INCONCLUSIVE,
    EXIT_INVALID,
    EXIT_NOT_PROVED,
    EXIT_OK,
    Command,
    read_text,
    say,
)
from pytest_specgate.core.errors import RecordError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from pytest_specgate.core.bench_serve import BenchResult
    from pytest_specgate.core.comparison import Comparison
    from pytest_specgate.core.comparison_claims import Claims
    from pytest_specgate.core.metric_definitions import MetricDefinition
    from pytest_specgate.core.records import WindowRecord

    Window: TypeAlias = WindowRecord | BenchResult


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "record.json of a window, its folder, or a result file of `vllm bench serve --save-result`"
    parser.add_argument("reference", metavar="REF", type=Path, help=f"what is compared against: {what}")
    parser.add_argument("candidate", metavar="CAND", type=Path, help="what is judged: the same kind of file")
    parser.add_argument(
        "--cross-window",
        metavar="FLOOR",
        help="how far two windows of the same code lie apart on this machine: 95 %% of their differences lie within it,"
        " as '3%%'; without it nothing is passed or failed",
    )
    parser.add_argument("--source", metavar="TEXT", help="where that figure comes from, quoted in the report")
    parser.add_argument(
        "--margin",
        metavar="[METRIC=]MARGIN",
        action="append",
        default=[],
        help="the largest loss that is still called not worse: '5%%' for the headline metrics, or output_throughput=5%%"
        " for one; may be repeated",
    )
    parser.add_argument(
        "--mode",
        choices=("relative", "absolute"),
        help="of two records: judge the change between the arms of each window, so that the level of the machine"
        " cancels (relative, where both have a pair in common), or the level of each arm (absolute)",
    )
    parser.add_argument(
        "--varies",
        metavar="KEY",
        action="append",
        default=[],
        help="of two result files: a key of `--metadata` in which they may differ, such as a commit; may be repeated",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object; levels with their unit in the name, changes and margins as fractions",
    )


def _run(arguments: argparse.Namespace) -> int:
    from pytest_specgate.core.metrics import with_added  # noqa: PLC0415  - see the package's docstring
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise

    try:
        files = [_file(path) for path in (arguments.reference, arguments.candidate)]
        windows = [_read(path, read_text(path)) for path in files]
        with with_added(_added(windows)):
            return _told(arguments, files, windows)
    except (UsageError, RecordError) as error:
        raise UsageError(one_line(str(error))) from error


def _added(windows: Sequence[Window]) -> Sequence[MetricDefinition]:
    """Return the metrics that the projects of some windows have added; of one name that of the reference."""
    found = [one for window in windows for one in getattr(window, "added_metrics", ())]
    return [*{one.name: one for one in reversed(found)}.values()][::-1]


def _told(arguments: argparse.Namespace, files: Sequence[Path], windows: Sequence[Window]) -> int:
    from pytest_specgate.core.comparison_claims import claims_of  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.comparison import comparison_json, comparison_lines  # noqa: PLC0415  - likewise

    claims = claims_of(cross_window=arguments.cross_window, source=arguments.source, margins=arguments.margin)
    found = _compared(arguments, files, windows, claims)
    paths = {"reference": str(arguments.reference), "candidate": str(arguments.candidate)}
    if arguments.json:
        stored = {"files": paths, **comparison_json(found)}
        say(json.dumps(stored, indent=2, ensure_ascii=True, allow_nan=False))
    else:
        say("\n".join([*(one_line(f"{name}: {path}") for name, path in paths.items()), *comparison_lines(found)]))
    return _status(found)


def _compared(
    arguments: argparse.Namespace, files: Sequence[Path], windows: Sequence[Window], claims: Claims
) -> Comparison:
    from pytest_specgate.core.records import WindowRecord  # noqa: PLC0415  - likewise
    from pytest_specgate.core.result_comparison import compare_results  # noqa: PLC0415  - likewise
    from pytest_specgate.core.window_comparison import compare_windows  # noqa: PLC0415  - likewise

    reference, candidate = windows
    twice = reference == candidate
    if isinstance(reference, WindowRecord) and isinstance(candidate, WindowRecord):
        if arguments.varies:
            raise UsageError("--varies is about the metadata of result files, and window records have none")
        return compare_windows(reference, candidate, claims, mode=arguments.mode, twice=twice)
    if isinstance(reference, WindowRecord) or isinstance(candidate, WindowRecord):
        record, result = files if isinstance(reference, WindowRecord) else reversed(files)
        raise UsageError(
            f"{record} is a window record and {result} a result of `vllm bench serve`: their figures are measured in "
            "two ways, so compare two of one kind"
        )
    if arguments.mode:
        raise UsageError("--mode is about window records: a result file of `vllm bench serve` has one arm only")
    return compare_results(reference, candidate, claims, varies=arguments.varies, twice=twice)


def _file(path: Path) -> Path:
    from pytest_specgate.adapters.storage import RECORD_NAME  # noqa: PLC0415  - likewise

    if not path.is_dir():
        return path
    if not (path / RECORD_NAME).exists():
        raise UsageError(f"{path} has no {RECORD_NAME}: name the folder of one window, or the file itself")
    return path / RECORD_NAME


def _read(path: Path, text: str) -> Window:
    """Read a window record or a result file, whichever it is.

    Raises:
        UsageError: it is neither, or broken.
    """
    from pytest_specgate.adapters.storage import load_record  # noqa: PLC0415  - likewise
    from pytest_specgate.core.bench_serve import is_result, json_value, parse_result  # noqa: PLC0415

    try:
        found = json_value(text, source=str(path))
        if isinstance(found, dict) and "schema_version" in found:
            return _checked(load_record(path), path)
        if is_result(found):
            return parse_result(text, source=str(path))
    except RecordError as error:
        raise UsageError(str(error)) from error
    raise UsageError(f"{path} is neither a window record nor a result file of `vllm bench serve --save-result`")


def _checked(record: WindowRecord, path: Path) -> WindowRecord:
    """Return a record whose pairs are pairs of its arms.

    Raises:
        RecordError: one is not.
    """
    from pytest_specgate.core.errors import SpecgateError  # noqa: PLC0415  - likewise
    from pytest_specgate.core.stored_gates import pairs_of  # noqa: PLC0415  - likewise

    try:
        pairs_of(record)
    except KeyError as error:
        raise RecordError(f"{path}: a pair of the record names {error}, and the record has no such arm") from error
    except SpecgateError as error:
        raise RecordError(f"{path}: a pair of the record is none: {error}") from error
    return record


def _status(found: Comparison) -> int:
    from pytest_specgate.core.verdict import Outcome  # noqa: PLC0415  - likewise

    statuses = {
        Outcome.PASS: EXIT_OK,
        Outcome.FAIL: EXIT_NOT_PROVED,
        Outcome.INCONCLUSIVE: EXIT_INCONCLUSIVE,
        Outcome.INVALID: EXIT_INVALID,
    }
    return statuses[found.outcome]


COMMAND = Command(
    name="compare",
    summary="two windows, or two results of `vllm bench serve`, one against the other",
    description="Compare a candidate with a reference: two window records, or two result files of `vllm bench serve"
    " --save-result`. First it says whether both are of one load (and of one machine, where they tell); only then it"
    " shows figures. Two windows have no spread of their own, so nothing passes or fails until you declare how far two"
    " windows of the same code lie apart (--cross-window, --source) and what loss you tolerate (--margin). Exit status:"
    " 0 nothing is worse by more than its margin, 1 something is, 2 wrong usage or a broken file, 3 it cannot be told,"
    " 4 the two must not be compared.",
    add_arguments=_add_arguments,
    run=_run,
    example="specgate compare main.json change.json --cross-window 3% --source 'six runs of one commit' --margin 5%",
)
