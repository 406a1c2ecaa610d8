"""`specgate knee`: which k to run, by what windows and acceptance curves tell."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.cli.command import EXIT_INCONCLUSIVE, EXIT_INVALID, EXIT_OK, Command, read_text, say
from pytest_specgate.cli.horizon_arguments import horizon, levels_of
from pytest_specgate.cli.knee_snippet import write_snippet
from pytest_specgate.cli.records import once, opened_record, with_records
from pytest_specgate.core.errors import RecordError, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.floors import NoiseFloor
    from pytest_specgate.core.knee import CountedCurve, Knee, MeasuredWindow
    from pytest_specgate.core.levels import Level

_SOURCE_LENGTH: Final = 3
_REPORTS: Final = {
    "the report of a run": {"windows", "unmeasured"},
    "what `specgate knee --json` prints": {"sources", "advice"},
    "what `specgate probe --json` prints": {"levels", "limits"},
}
"""What has a schema version, too, by keys that no window record has."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "inputs", metavar="RECORD", type=Path, nargs="+",
        help="record.json of a window, or its folder; or what `specgate counters BEFORE AFTER --json` printed, which"
        " tells a curve and no window",
    )  # fmt: skip
    parser.add_argument(
        "--cut", metavar="SHARE", default="0.2",
        help="rate by position below which a position is taken for waste where nothing tells what it costs: 0.2 (the"
        " default) or 20%%",
    )  # fmt: skip
    parser.add_argument(
        "--up-to", metavar="K", type=horizon,
        help="longest horizon to be told of; beyond what was measured it is extrapolated, and says so",
    )  # fmt: skip
    parser.add_argument(
        "--noise", metavar="METRIC=FLOOR", action="append", default=[],
        help="noise floor of a metric, as output_throughput=8%%, in place of what the records tell; may be repeated,"
        " and needs --noise-source",
    )  # fmt: skip
    parser.add_argument("--noise-source", metavar="TEXT", help="where these floors come from")
    parser.add_argument(
        "--at", metavar="LEVEL", action="append",
        help="load level to show figures of: 8 for a concurrency, 4/s for an arrival rate, '8 T=0.8' for one at a"
        " temperature of its own; may be repeated; the lowest and the highest one without it, with --json all of them",
    )  # fmt: skip
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true",
        help="print one JSON object, as `specgate schema knee` describes it; times in seconds, shares as fractions",
    )  # fmt: skip
    form.add_argument(
        "--snippet", metavar="FILE",
        help="write the gate file that pins a horizon against off, as a window measured both, into FILE, which must not"
        " be there yet; - prints it; exit status: 0 written, 2 no window has what can be pinned, 4 no window may be"
        " read",
    )  # fmt: skip
    parser.add_argument(
        "--k", metavar="K", type=horizon,
        help="horizon that --snippet pins; without it, of those that the advice for one user leaves, the one that the"
        " fewest other objectives rule out (then the best one, then the shortest), where anything has beaten off",
    )  # fmt: skip
    parser.add_argument(
        "--drafter", metavar="NAME", help="drafter that --snippet pins, as the report names it, where there are several"
    )


def _run(arguments: argparse.Namespace) -> int:
    from pytest_specgate.core.knee import MeasuredWindow, check_levels, knee_of  # noqa: PLC0415  - see the package's docstring

    _check_form(arguments)
    cut, floors = _cut(arguments.cut), _floors(arguments.noise, arguments.noise_source)
    at = None if arguments.at is None else levels_of(arguments.at)
    windows: list[MeasuredWindow] = []
    counted: list[CountedCurve] = []
    for path in with_records(once(arguments.inputs, told="it counts once")):
        found = _read(path, floors)
        if isinstance(found, MeasuredWindow):
            windows.append(found)
        else:
            counted.append(found)
    knee = knee_of(windows, counted, cut=cut, up_to=arguments.up_to)
    if at is not None:
        check_levels(knee.sources, at)
    is_invalid = not counted and all(window.is_invalid for window in windows)
    if arguments.snippet is None:
        _show(arguments, knee, at)
    else:
        _say_left_out(knee)
    if is_invalid:
        return EXIT_INVALID
    if arguments.snippet is None:
        return EXIT_OK if knee.tells else EXIT_INCONCLUSIVE
    write_snippet(knee, arguments.snippet, k=arguments.k, drafter=arguments.drafter, floors=floors)
    return EXIT_OK


def _check_form(arguments: argparse.Namespace) -> None:
    """Refuse what only a gate file needs where none is wanted.

    Raises:
        UsageError: it is so.
    """
    given = [name for name in ("k", "drafter") if getattr(arguments, name) is not None]
    if given and arguments.snippet is None:
        what = {"k": "horizon", "drafter": "drafter"}[given[0]]
        raise UsageError(f"--{given[0]} names the {what} that --snippet pins: give --snippet FILE, too")


def _show(arguments: argparse.Namespace, knee: Knee, at: Sequence[Level] | None) -> None:
    from pytest_specgate.reporting.knee import knee_lines  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.knee_json import knee_report  # noqa: PLC0415  - likewise

    if arguments.json:
        # ASCII, so that it stays JSON on every terminal.
        say(json.dumps(knee_report(knee, at=at).model_dump(mode="json"), indent=2, allow_nan=False))
        return
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    say("\n".join(knee_lines(knee, at=at, columns=columns)).strip("\n"))


def _say_left_out(knee: Knee) -> None:
    """Say what no gate file can be written from; standard output is for the file."""
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise

    for source, failure in knee.left_out:
        sys.stderr.write(one_line(f"specgate: left out: {source}: {failure.message} ({failure.reason})") + "\n")


def _cut(text: str) -> float:
    share = text.strip().removesuffix("%")
    try:
        found = float(share) / (100 if share != text.strip() else 1)
    except ValueError:
        found = 0.0
    if not 0 < found < 1:
        raise UsageError(f"--cut={text!r} is no share between 0 and 1: write 0.2 or 20%")
    return found


def _floors(texts: Sequence[str], source: str | None) -> dict[str, NoiseFloor]:
    from pytest_specgate.core.advice import OBJECTIVES  # noqa: PLC0415  - likewise
    from pytest_specgate.core.declared import fraction_of  # noqa: PLC0415  - likewise
    from pytest_specgate.core.floors import NoiseFloor  # noqa: PLC0415  - likewise

    if bool(texts) != (source is not None) or (source is not None and len(source.strip()) < _SOURCE_LENGTH):
        raise UsageError(
            "a noise floor is a measured figure: give --noise METRIC=FLOOR, and where it comes from, with "
            "--noise-source 'six A/A windows'"
        )
    found: dict[str, NoiseFloor] = {}
    for text in texts:
        name, _, amount = (part.strip() for part in text.partition("="))
        if name not in OBJECTIVES.values():
            first, *others = OBJECTIVES.values()
            raise UsageError(
                f"--noise={text!r}: horizons are compared by {', '.join((first, *others))}: write one of these, as "
                f"--noise {first}={amount or '8%'}"
            )
        if name in found:
            raise UsageError(f"--noise={text!r}: {name} has a floor already: give each metric one")
        fraction = fraction_of("--noise", amount)
        if not 0 < fraction < 1:
            raise UsageError(f"--noise={text!r} is no floor: write more than 0 % and less than 100 %")
        found[name] = NoiseFloor(fraction, (source or "").strip())
    return found


def _read(path: Path, floors: Mapping[str, NoiseFloor]) -> MeasuredWindow | CountedCurve:
    """Read a window record, or what counters said.

    Raises:
        UsageError: it is neither, a report, broken, or tells of no draft.
    """
    keys = {} if path.is_dir() else _keys(path)
    if path.is_dir() or "schema_version" in keys:
        if (what := _report_of(keys)) is not None:
            raise UsageError(f"{path} is {what}, and no window record: give the record.json of a window")
        return _window(path, floors)
    from pytest_specgate.core.analysis import CounterAnalysis  # noqa: PLC0415  - likewise
    from pytest_specgate.core.knee import counted_curve  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise

    try:
        return counted_curve(CounterAnalysis.model_validate_json(read_text(path)), str(path))
    except ValueError as error:
        wanted = "neither a window record nor what `specgate counters BEFORE AFTER --json` prints"
        raise UsageError(one_line(f"{path} is {wanted}: {_first(error)}")) from error


def _keys(path: Path) -> Mapping[str, object]:
    """Return the outermost keys of a JSON file; none where it is no object."""
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    return found if isinstance(found, dict) else {}


def _report_of(keys: Mapping[str, object]) -> str | None:
    """Return what a file with a schema version is, where it is a report; `None` for what may be a window record."""
    return next((what for what, marks in _REPORTS.items() if marks <= keys.keys()), None)


def _first(error: ValueError) -> str:
    from pydantic import ValidationError  # noqa: PLC0415  - likewise

    from pytest_specgate.core.stored_gates import first_problem  # noqa: PLC0415  - likewise

    return first_problem(error) if isinstance(error, ValidationError) else str(error)


def _window(given: Path, floors: Mapping[str, NoiseFloor]) -> MeasuredWindow:
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.window_knee import measured_window  # noqa: PLC0415  - likewise

    with opened_record(given) as (record, path):
        try:
            return measured_window(record, str(path), floors=floors)
        except RecordError as error:
            raise UsageError(one_line(f"{path}: {error}")) from error


COMMAND = Command(
    name="knee",
    summary="which k to run: acceptance by position, what each draft horizon gives and costs, advice by objective",
    description="Show what window records tell of draft horizons: acceptance by position and where it falls under a"
    " cut, tokens per step, step time and speed of every k, measured or predicted, and which k to run for the speed of"
    " one user, for the throughput of a batch and for latency. Two horizons are compared only where they met in one"
    " window; who is beaten by nobody is left, so the advice may be a range, and it says what it rests on and which"
    " measurement would change it. Exit status: 0 shown, 2 wrong usage or a broken file, 3 nothing tells which k, 4 no"
    " window may be read.",
    example="specgate knee specgate-results/* --noise output_throughput=8% --noise-source 'six A/A windows'",
    add_arguments=_add_arguments,
    run=_run,
)
