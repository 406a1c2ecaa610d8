"""`specgate baseline show` and `history`: what baseline files hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.adapters.baseline_files import BaselineFolder, load_baseline
from pytest_specgate.cli.command import EXIT_OK, say
from pytest_specgate.core.errors import UsageError, nearest
from pytest_specgate.reporting.baseline_json import baseline_json
from pytest_specgate.reporting.baseline_show import BLOCKS, PLAIN_BLOCKS, history_lines, show_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from typing import Literal, TypeAlias

    from pytest_specgate.core.baselines import BaselineFile

    Found: TypeAlias = tuple[Path, BaselineFile]
    """A baseline, and where it lies."""

_NAMED: Final = 8
"""Names that a message lists at most."""


def show(arguments: argparse.Namespace, folder: Path) -> int:
    """List baselines, and return the exit status.

    Raises:
        UsageError: there is none of that name.
        RecordError: a file is broken.
    """
    found = _chosen(arguments, folder)
    if arguments.json:
        say(_as_json(found))
    else:
        say("\n\n".join("\n".join(show_lines(file, path=str(path))) for path, file in found))
    return EXIT_OK


def history(arguments: argparse.Namespace, folder: Path) -> int:
    """Draw baselines, and return the exit status.

    Raises:
        UsageError: there is none of that name.
        RecordError: a file is broken.
    """
    found = _chosen(arguments, folder)
    if arguments.json:
        say(_as_json(found))
        return EXIT_OK
    blocks = PLAIN_BLOCKS if arguments.ascii or not _can_print(BLOCKS) else BLOCKS
    mode: Literal["relative", "absolute"] = "absolute" if arguments.absolute else "relative"
    texts = ("\n".join(history_lines(file, path=str(path), mode=mode, blocks=blocks)) for path, file in found)
    say("\n\n".join(texts))
    return EXIT_OK


def _as_json(found: Iterable[Found]) -> str:
    stored = {"baselines": [baseline_json(file, path=str(path)) for path, file in found]}
    return json.dumps(stored, indent=2, ensure_ascii=False, allow_nan=False)


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _chosen(arguments: argparse.Namespace, folder: Path) -> Sequence[Found]:
    """Return the baselines that were asked for, each once.

    Raises:
        UsageError: nothing answers to a name.
    """
    chosen: dict[Path, BaselineFile] = {}
    for name in arguments.gates or [""]:
        own = Path(name)
        is_file = own.suffix == ".json" and own.is_file()
        chosen.update([(own, load_baseline(own))] if is_file else _named(folder, name))
    wanted = arguments.host_class
    found = [(path, file) for path, file in sorted(chosen.items()) if wanted in {None, file.host_class}]
    if not found:
        classes = _listed(sorted({file.host_class for file in chosen.values()}))
        raise UsageError(f"none of these baselines is of host class {wanted}; there are those of {classes}")
    return found


def _named(folder: Path, name: str) -> Sequence[Found]:
    """Return the baselines of a gate, or of those whose ids begin so.

    Raises:
        UsageError: there are none.
    """
    every = list(BaselineFolder(folder).files())
    if not every:
        raise UsageError(
            f"{folder} has no baseline yet: write one with pytest GATEFILE --specgate-baseline=new, or with specgate "
            f"baseline accept RECORD --reason '...'"
        )
    whole = [(path, file) for path, file in every if file.gate == name]
    found = whole or [(path, file) for path, file in every if file.gate.startswith(name)]
    if not found:
        gates = sorted({file.gate for _, file in every})
        raise UsageError(
            f"{folder} has no baseline of a gate whose id is or begins with {name!r}{nearest(name, gates)}; there are "
            f"those of {_listed(gates)}"
        )
    return found


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
