"""Records as commands take them: the file, or the folder of a window."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from pytest_specgate.core.errors import RecordError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_specgate.core.records import WindowRecord


def record_at(given: Path) -> tuple[WindowRecord, Path]:
    """Read a window record, and return it with the path of its file.

    Args:
        given: the file, or the folder that it lies in.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    from pytest_specgate.adapters.storage import RECORD_NAME, load_record  # noqa: PLC0415  - see the package's docstring

    path = given / RECORD_NAME if given.is_dir() else given
    if given.is_dir() and not path.exists():
        raise UsageError(f"{given} has no {RECORD_NAME}: name the folder of one window, or the file itself")
    try:
        return load_record(path), path
    except RecordError as error:
        raise UsageError(str(error)) from error


@contextlib.contextmanager
def opened_record(given: Path) -> Iterator[tuple[WindowRecord, Path]]:
    """Read a window record, and know the metrics that its project has added while a block lasts.

    Args:
        given: the file, or the folder that it lies in.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    from pytest_specgate.core.metrics import with_added  # noqa: PLC0415  - see the package's docstring

    record, path = record_at(given)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(with_added(record.added_metrics))
        except RecordError as error:
            raise UsageError(f"{path}: {error}") from error
        yield record, path


def with_records(given: Sequence[Path]) -> list[Path]:
    """Return files and folders of records, and say which folders hold none: ``*`` names those of logs, too.

    Args:
        given: files, and folders of windows; where no folder holds a record all of them are returned, to be refused.
    """
    from pytest_specgate.adapters.storage import RECORD_NAME  # noqa: PLC0415  - likewise

    empty = [path for path in given if path.is_dir() and not (path / RECORD_NAME).exists()]
    if len(empty) == len(given):
        return list(given)
    for path in empty:
        sys.stderr.write(f"specgate: {path} has no {RECORD_NAME}, so it is left out\n")
    return [path for path in given if path not in empty]


def once(given: Sequence[Path], *, told: str) -> list[Path]:
    """Return each file once, and say which was named again: what it tells would count twice.

    Args:
        given: files, and folders of windows.
        told: what becomes of one that was named again: ``it is shown once``.
    """
    from pytest_specgate.adapters.storage import RECORD_NAME  # noqa: PLC0415  - likewise

    found: dict[Path, Path] = {}
    for one in given:
        place = (one / RECORD_NAME if one.is_dir() else one).resolve()
        if place in found:
            sys.stderr.write(f"specgate: {one} is {found[place]}, given twice: {told}\n")
        found.setdefault(place, one)
    return list(found.values())
