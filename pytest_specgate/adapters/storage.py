"""Keeps window records and calibrations as files."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import ValidationError

from pytest_specgate.core.calibration import NoiseBook
from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.json_keys import each_once
from pytest_specgate.core.migrations import VERSION, migrated
from pytest_specgate.core.records import SCHEMA_VERSION, WindowRecord
from pytest_specgate.core.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specgate.core.profile import RequestProfile

S = TypeVar("S", bound=Stored)

RECORD_NAME: Final = "record.json"
NOISE_NAME: Final = "noise.json"
_TODAY: Final = re.compile(rf'\s*\{{\s*"{VERSION}"\s*:\s*{SCHEMA_VERSION}\s*[,}}]')
"""How a record of today's schema begins: it is told from an older one without being parsed twice."""

_DEEP_BREAK: Final = re.compile(r"\n(?: {7,}| {6}(?=[\]}]))")
"""Line breaks within what lies six levels deep in a record: its requests, and the series of its counter pages."""

_CONFLICT: Final = re.compile(r"^<{7}(?: |$)", re.MULTILINE)
_BEYOND: Final = re.compile(r"(?<=[\s:,\[])-?(?:NaN|Infinity|\d[0-9.]*[eE]\+?\d{3,})")
"""What is written like a number, and is none that can be kept."""

_LONGEST_VALUE: Final = 60
_LONGEST_TEXT: Final = 200

_NUMBERS: Final = re.compile(r"\[\n\s*([-+0-9.eE,\s]+?)\n\s*\]")


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all: readers see the old text or the new one, also if this dies half-way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            os.fchmod(handle, 0o666 & ~_umask())
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Return the permissions that new files lack; a temporary file starts with fewer than a user expects."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def window_name(created_at: str, profile: RequestProfile) -> str:
    """Return the name of a window's folder: when it began (ISO 8601), and the fingerprint of its profile."""
    digits = re.sub(r"[^0-9]", "", created_at)
    return f"{digits[:8]}T{digits[8:14]}.{digits[14:17] or '000'}Z-{profile.fingerprint()}"


class FileStore:
    """Port `RecordStore`: the file ``record.json`` in the folder of a window.

    Args:
        folder: of this window; made when the record is first written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RECORD_NAME

    def save(self, record: WindowRecord) -> str:
        """Write the record, one request and one page of counters a line, and return its path."""
        write_atomically(self.path, _DEEP_BREAK.sub(" ", record.model_dump_json(indent=1)) + "\n")
        return str(self.path)


def load_record(path: Path) -> WindowRecord:
    """Read a window record; one of an older schema is brought to today's form.

    Raises:
        RecordError: the file is missing or broken, of a schema version that cannot be read, or has a name twice.
    """
    text = _text(path)
    if not _TODAY.match(text):
        text = _brought_forward(text, path=path)
    record = _validated(text, WindowRecord, path=path, what=f"window record of schema {SCHEMA_VERSION}")
    _refuse_doubles(record, path)
    return record


def _brought_forward(text: str, *, path: Path) -> str:
    """Return an older record in today's form; what is no JSON object stays as it is, and is refused by its model.

    Raises:
        RecordError: its version is missing or unknown, or cannot be brought forward.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(found, dict):
        return text
    try:
        return json.dumps(migrated(found))
    except RecordError as error:
        raise RecordError(f"{path} cannot be read as a window record: {error}") from None


def latest_records(results: Path, profile: RequestProfile) -> Iterator[WindowRecord]:
    """Yield the records of earlier windows with a profile, the latest first; what cannot be read is passed over."""
    for path in sorted(results.glob(f"*-{profile.fingerprint()}/{RECORD_NAME}"), reverse=True):
        with contextlib.suppress(RecordError):
            yield load_record(path)


class NoiseFile:
    """The calibrations of a host class: ``noise.json`` in its folder under the baselines.

    Args:
        baselines: folder of all host classes.
        host_class: whose calibrations they are.
    """

    def __init__(self, baselines: Path, host_class: str) -> None:
        self.path = baselines / host_class / NOISE_NAME
        self._host_class = host_class

    def load(self) -> NoiseBook:
        """Return what is known, nothing where there is no file.

        Raises:
            RecordError: the file is broken, of another schema version or host class, or was edited by hand.
        """
        if not self.path.exists():
            return NoiseBook(host_class=self._host_class)
        book = read_stored(self.path, NoiseBook, what="calibration of this version")
        if book.host_class != self._host_class:
            raise RecordError(f"{self.path} is of host class {book.host_class}: it was moved or copied by hand")
        try:
            book.verify()
        except RecordError as error:
            raise RecordError(f"{self.path}: {error}") from None
        return book

    def save(self, book: NoiseBook) -> None:
        """Write the file anew, with sorted keys and one list of numbers a line."""
        write_atomically(self.path, stable_text(book))


def stable_text(stored: Stored) -> str:
    """Return what is committed as text: the same data gives the same bytes, and a small change a small difference."""
    text = json.dumps(stored.model_dump(mode="json"), sort_keys=True, indent=1, allow_nan=False, ensure_ascii=False)
    return _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


def read_stored(path: Path, model: type[S], *, what: str) -> S:
    """Read a file that is committed, and so may have been merged or edited by hand.

    Args:
        path: of the file.
        model: what it holds.
        what: it is, for messages.

    Raises:
        RecordError: the file is missing or broken, holds something else, or has a key twice; the key is named.
    """
    text = _text(path)
    found = _validated(text, model, path=path, what=what)
    try:
        json.loads(text, object_pairs_hook=each_once)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is no {what}: {error}") from None
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} cannot be read: {error}") from error


def _validated(text: str, model: type[S], *, path: Path, what: str) -> S:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise RecordError(f"{path} is no {what}: {_complaint(error, text)}") from error


def _complaint(error: ValidationError, text: str) -> str:
    """Say what is wrong with a file in one line, however long the file is: of many errors the first."""
    conflict = _CONFLICT.search(text)
    if conflict is not None:
        line = text.count("\n", 0, conflict.start()) + 1
        return f"line {line} is the mark of a merge conflict: resolve the merge"
    found = error.errors(include_url=False)
    for one in found:
        if one["loc"] == (VERSION,) and one["type"] == "less_than_equal":
            return (
                f"it has schema version {_shown(one['input'], text)}, and this pytest-specgate knows versions up to "
                f"{one['ctx']['le']}: update pytest-specgate"
            )
    first = found[0]
    if first["type"] == "json_invalid":
        return f"the file: {_short(first['msg'], _LONGEST_TEXT)}"
    place = _short(".".join(map(str, first["loc"])) or "the file", _LONGEST_TEXT)
    return f"{place}: {_short(first['msg'], _LONGEST_TEXT)}, got {_shown(first['input'], text)}"


def _shown(found: object, text: str) -> str:
    """Return a value of a file as it is shown: numbers as they were written, and of a long one its beginning."""
    if isinstance(found, float) and not math.isfinite(found):
        written = (one[0] for one in _BEYOND.finditer(text) if str(float(one[0])) == str(found))
        return _short(next(written, str(found)), _LONGEST_VALUE)
    if isinstance(found, str):
        return _short(repr(found[:_LONGEST_VALUE]), _LONGEST_VALUE)
    if isinstance(found, int) and found.bit_length() > _LONGEST_VALUE:
        return "a number of many digits"
    return str(found) if isinstance(found, bool | int | float) else type(found).__name__


def _short(text: str, most: int) -> str:
    """Return a text that fits into a message and cannot steer a terminal."""
    clean = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    return clean if len(clean) <= most else f"{clean[:most]}..."


def _refuse_doubles(record: WindowRecord, path: Path) -> None:
    """Refuse a record in which something stands twice that is looked up by its name: one would hide the other.

    Raises:
        RecordError: two arms, two gates or two boots of a round share their name.
    """
    names = (
        *(("arm", one.name) for one in record.arms),
        *(("gate", str(one.get("id"))) for one in record.gates),
        *(("boot", f"{one.arm} in round {one.round}") for one in record.boots),
    )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise RecordError(f"{path} holds {twice[0]} {_short(twice[1], _LONGEST_TEXT)} twice: it was edited by hand")
