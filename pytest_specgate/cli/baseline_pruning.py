"""`specgate baseline prune`: pytest says what gates there are, and what none of them claims goes."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.adapters.baseline_files import BaselineFolder
from pytest_specgate.cli.command import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, say
from pytest_specgate.core.errors import UsageError
from pytest_specgate.reporting.baselines import one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    Entries: TypeAlias = Mapping[tuple[Path, str], frozenset[str]]
    """Entries by the path of their file below the folder, and their gate."""


def prune(arguments: argparse.Namespace, folder: Path) -> int:
    """Remove what no gate claims, or say what that is, and return the exit status.

    Raises:
        UsageError: pytest cannot collect the gate files.
        RecordError: a baseline is broken.
    """
    before = _entries(folder)
    with _pruned(folder, copied=arguments.dry_run) as own:
        status, text = _collected(arguments, own)
        if status == EXIT_INTERRUPTED:
            return status
        if status != EXIT_OK:
            sys.stderr.write(text)
            raise UsageError("pytest cannot collect these gate files: its words stand above, and nothing was removed")
        after = _entries(own)
    removed = {place: names - after.get(place, frozenset()) for place, names in before.items()}
    _tell(arguments, folder, {place: names for place, names in removed.items() if names})
    return EXIT_OK


def _entries(folder: Path) -> Entries:
    files = BaselineFolder(folder).files()
    return {(path.relative_to(folder), file.gate): frozenset(file.entries) for path, file in files}


@contextlib.contextmanager
def _pruned(folder: Path, *, copied: bool) -> Iterator[Path]:
    """Give the folder that is pruned: itself, or a copy of it that nobody keeps."""
    if not copied:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="specgate-prune-") as own:
        yield Path(shutil.copytree(folder, Path(own) / "baselines"))


def command_line(arguments: argparse.Namespace, folder: Path) -> list[str]:
    """Return what is run: pytest, as the interpreter of this process has it."""
    own = ["--specgate-baseline=prune", f"--specgate-baselines={folder}"]
    return [sys.executable, "-m", "pytest", *own, *arguments.option, *arguments.gates]


def _collected(arguments: argparse.Namespace, folder: Path) -> tuple[int, str]:
    """Run pytest, and return the exit status that it makes, with what it printed."""
    interrupted = False
    with tempfile.TemporaryFile() as kept, subprocess.Popen(  # noqa: S603  - our own interpreter, no shell
        command_line(arguments, folder), stdin=subprocess.DEVNULL, stdout=kept, stderr=subprocess.STDOUT
    ) as process:  # fmt: skip
        while process.poll() is None:
            try:
                process.wait()
            except KeyboardInterrupt:
                # pytest was interrupted, too, and is not left behind.
                interrupted = True
        kept.seek(0)
        text = kept.read().decode("utf-8", "replace")
    if interrupted:
        return EXIT_INTERRUPTED, text
    return (EXIT_USAGE if process.returncode else EXIT_OK), text


def _tell(arguments: argparse.Namespace, folder: Path, removed: Entries) -> None:
    if arguments.json:
        entries = [
            {"path": str(folder / path), "gate": gate, "entry": name}
            for (path, gate), names in removed.items()
            for name in sorted(names)
        ]
        say(json.dumps({"dry_run": arguments.dry_run, "removed": entries}, indent=2, ensure_ascii=False))
        return
    for (path, gate), names in removed.items():
        what = "would be removed" if arguments.dry_run else "removed"
        say(f"{what}: {', '.join(sorted(names))} of {one_line(gate)} ({folder / path})")
    if not removed:
        say("nothing to remove: every baseline of these files is claimed by a gate")
    elif not arguments.dry_run:
        say(f"next: git status {folder}")
