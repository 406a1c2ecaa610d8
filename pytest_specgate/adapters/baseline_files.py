"""Keeps baselines as files: one for each gate and class of machine, committed with the project."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from pytest_specgate.adapters.storage import NOISE_NAME, read_stored, stable_text, write_atomically
from pytest_specgate.core.baselines import BaselineFile, file_name
from pytest_specgate.core.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WHAT: Final = "baseline of this version"


class BaselineFolder:
    """The baselines of a project, by class of machine.

    Args:
        folder: of all classes of machine.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, gate: str, *, host_class: str) -> Path:
        """Return where the baseline of a gate lies, or would lie."""
        return self._folder / host_class / file_name(gate)

    def load(self, gate: str, *, host_class: str) -> BaselineFile | None:
        """Return the baseline of a gate on a class of machine; `None` where there is none.

        Raises:
            RecordError: the file is broken, of another schema version, or of another gate.
        """
        path = self.path(gate, host_class=host_class)
        if not path.exists():
            return None
        file = load_baseline(path)
        if file.gate != gate:
            raise RecordError(f"{path} is the baseline of {file.gate}, not of {gate}: it was moved or copied by hand")
        return file

    def elsewhere(self, gate: str, *, host_class: str) -> tuple[str, ...]:
        """Return the other classes of machine that have a baseline of a gate."""
        found = self._folder.glob(f"*/{file_name(gate)}")
        return tuple(sorted(path.parent.name for path in found if path.parent.name != host_class))

    def files(self) -> Iterator[tuple[Path, BaselineFile]]:
        """Yield every baseline of every class of machine, sorted by path.

        Raises:
            RecordError: a file is broken, or of another schema version.
        """
        for path in sorted(self._folder.glob("*/*.json")):
            if path.name != NOISE_NAME:
                yield path, load_baseline(path)

    def save(self, file: BaselineFile, *, before: BaselineFile | None, at: Path | None = None) -> Path:
        """Write a baseline whole, or remove it when nothing is left in it, unless somebody else changed it meanwhile.

        Args:
            file: what is to stand there.
            before: what stood there when it was read.
            at: where it lies, for one that was moved by hand; `None` for where it belongs.

        Raises:
            RecordError: something else stands there now.
        """
        path = at or self.path(file.gate, host_class=file.host_class)
        now = load_baseline(path) if path.exists() else None
        if now != before:
            raise RecordError(f"{path} was changed by somebody else in the meantime: run this again")
        if file.entries:
            write_atomically(path, stable_text(file))
        else:
            path.unlink(missing_ok=True)
        return path


def load_baseline(path: Path) -> BaselineFile:
    """Read one baseline file.

    Raises:
        RecordError: it is missing, broken, or of another schema version.
    """
    return read_stored(path, BaselineFile, what=_WHAT)


def sha256_of_file(path: Path) -> str:
    """Return the hash of a file's bytes.

    Raises:
        RecordError: it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}") from error
