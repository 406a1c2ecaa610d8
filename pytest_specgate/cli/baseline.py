"""`specgate baseline`: look at what was accepted, accept a window, and remove what no gate claims."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.cli.command import Command
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    import argparse

_VARIABLE: Final = "SPECGATE_BASELINES"
_USUAL: Final = "baselines"


def _folder(arguments: argparse.Namespace, *, made: bool = False) -> Path:
    """Return the folder of all baselines.

    Args:
        arguments: of the command line.
        made: whether the usual one is made where it is missing; one that is named must be there.

    Raises:
        UsageError: it is empty, or is not there.
    """
    named = (("--baselines", arguments.baselines), (_VARIABLE, os.environ.get(_VARIABLE)))
    place, text = next(((place, text) for place, text in named if text is not None), ("", _USUAL))
    if not text.strip():
        raise UsageError(f"{place} is empty: name the folder of the baselines, or leave it out")
    folder = Path(text).expanduser()
    if folder.is_dir() or (made and not place):
        return folder
    if place:
        raise UsageError(f"{place} names {text!r}, and there is no such folder")
    raise UsageError(f"there is no folder {_USUAL} here: go to that of the project, or name one with --baselines")


def _add_common(parser: argparse.ArgumentParser, *, json: str) -> None:
    parser.add_argument(
        "--baselines", metavar="FOLDER",
        help=f"folder of the committed baselines (default: {_VARIABLE}, else ./{_USUAL})",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help=json)


def _add_reading(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "gates", metavar="GATE", nargs="*",
        help="id of a gate, or how it begins, as benchmarks/test_speed.py; or the path of a baseline file (default:"
        " all there are)",
    )  # fmt: skip
    parser.add_argument("--host-class", metavar="NAME", help="only of this class of machine, as its folder is called")
    _add_common(
        parser, json="print one JSON object with every window; each figure's key ends with its unit, changes are"
        " fractions, or shares where the metric is one",
    )  # fmt: skip


def _add_history(parser: argparse.ArgumentParser) -> None:
    _add_reading(parser)
    parser.add_argument(
        "--absolute", action="store_true",
        help='draw the level of the candidate, as claims with mode="absolute" compare it, instead of its change against'
        " the reference",
    )  # fmt: skip
    parser.add_argument("--ascii", action="store_true", help="draw with # and |, for terminals that lack blocks")


def _show(arguments: argparse.Namespace) -> int:
    from pytest_specgate.cli import baseline_reading  # noqa: PLC0415  - see the package's docstring

    return baseline_reading.show(arguments, _folder(arguments))


def _history(arguments: argparse.Namespace) -> int:
    from pytest_specgate.cli import baseline_reading  # noqa: PLC0415  - likewise

    return baseline_reading.history(arguments, _folder(arguments))


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("record", metavar="RECORD", type=Path, help="record.json of a window, or its folder")
    parser.add_argument(
        "--gate", metavar="ID", dest="gates", action="append", default=[],
        help="only this gate of the record; may be repeated (default: all that claim something of a baseline)",
    )  # fmt: skip
    parser.add_argument(
        "--replace", action="store_true",
        help="start the entries anew with this window, as after another load or other arms; the first window stays"
        " for comparison where it still can be compared",
    )  # fmt: skip
    parser.add_argument("--new-anchor", action="store_true", help="with --replace: forget the first window, too")
    _add_common(
        parser, json="print one JSON object with what changes, entry by entry, and what was refused; changes are"
        " fractions, or shares where the metric is one",
    )  # fmt: skip


def _add_accept(parser: argparse.ArgumentParser) -> None:
    _add_record(parser)
    parser.add_argument("--reason", metavar="TEXT", required=True, help="why, for whoever reads the file in a year")
    parser.add_argument(
        "--accept-regression", action="store_true",
        help="accept a window that is worse than the baseline by more than the margin, or failed its own gate; it is"
        " marked as such for good",
    )  # fmt: skip


def _diff(arguments: argparse.Namespace) -> int:
    from pytest_specgate.cli import baseline_accepting  # noqa: PLC0415  - likewise

    return baseline_accepting.diff(arguments, _folder(arguments, made=True))


def _accept(arguments: argparse.Namespace) -> int:
    from pytest_specgate.cli import baseline_accepting  # noqa: PLC0415  - likewise

    return baseline_accepting.accept(arguments, _folder(arguments, made=True))


def _add_prune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "gates", metavar="GATEFILE", nargs="+",
        help="gate file or folder, as pytest takes it: of gates whose files are not named nothing is removed",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    parser.add_argument(
        "--option", metavar="OPTION", action="append", default=[],
        help="an option for the pytest that collects the gates, as --option=--rootdir=project; may be repeated",
    )  # fmt: skip
    _add_common(parser, json="print one JSON object with the entries that were removed")


def _prune(arguments: argparse.Namespace) -> int:
    from pytest_specgate.cli import baseline_pruning  # noqa: PLC0415  - likewise

    return baseline_pruning.prune(arguments, _folder(arguments))


def _refuse_bare(_: argparse.Namespace) -> int:
    names = ", ".join(command.name for command in COMMAND.commands)
    raise UsageError(f"specgate baseline needs one of {names} (`specgate baseline --help` tells what each does)")


_COMMANDS: Final = (
    Command(
        name="show",
        summary="list what was accepted, and what it can decide",
        description="List the windows that baselines hold: when each was measured, its figure, what engine it ran on,"
        " and why it was accepted. Below stands the smallest margin that so many windows can decide: if the margin of a"
        " gate is finer, accept more windows. Exit status: 0 shown, 2 nothing of that name, or a broken file.",
        example="specgate baseline show benchmarks/test_speed.py",
        add_arguments=_add_reading,
        run=_show,
    ),
    Command(
        name="diff",
        summary="show what `accept` would change; nothing is written",
        description="Compare a window with the baselines of its gates, and show what `specgate baseline accept` with"
        " the same options would write. Exit status: 0 it would be accepted, 1 only with --accept-regression, 2 wrong"
        " usage or a broken file, 4 the window is INVALID and makes no baseline.",
        example="specgate baseline diff specgate-results/20261129T120000.000Z-0123456789ab",
        add_arguments=_add_record,
        run=_diff,
    ),
    Command(
        name="accept",
        summary="add a window that was measured to the baselines of its gates",
        description="Write the figures of a window, measured earlier by pytest, to the baselines of its gates, beside"
        " those that are there. Later windows are compared with all of them. Show the change first with `specgate"
        " baseline diff`. All gates of the record are written, or none. Do not pick windows by their verdict: that"
        " bends the baseline. Exit status: 0 written, 1 refused since it is a regression, 2 wrong usage or a broken"
        " file, 4 refused since the window is INVALID.",
        example="specgate baseline accept specgate-results/WINDOW --reason 'vLLM 0.33'",
        add_arguments=_add_accept,
        run=_accept,
    ),
    Command(
        name="prune",
        summary="remove entries that no gate claims any more",
        description="Collect some gate files with pytest, without measuring anything, and remove the entries of"
        " baselines that none of their gates claims. It is `pytest --specgate-baseline=prune GATEFILE`. Exit status: 0"
        " done, 2 wrong usage, or pytest cannot collect the files.",
        example="specgate baseline prune benchmarks --dry-run",
        add_arguments=_add_prune,
        run=_prune,
    ),
    Command(
        name="history",
        summary="draw how the figures went from window to window",
        description="Draw each entry in the terminal, one line a window, as its distance from the first window that was"
        " accepted: many small losses, each within the margin, add up there. Bars to the left are worse, whichever"
        " direction is better for the metric. Exit status: 0 shown, 2 nothing of that name, or a broken file.",
        example="specgate baseline history benchmarks/test_speed.py",
        add_arguments=_add_history,
        run=_history,
    ),
)

COMMAND = Command(
    name="baseline",
    summary="look at baselines, accept a window, or remove what no gate claims",
    description="Baselines are files that are committed with a project: for each gate and class of machine the windows"
    " that somebody accepted. A gate with not_worse_than_baseline(...) compares today's window with them. A test run"
    " never writes them unless it is told to.",
    example="specgate baseline show",
    add_arguments=lambda _: None,
    run=_refuse_bare,
    commands=_COMMANDS,
)
