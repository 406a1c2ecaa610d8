"""Numbers the windows that were measured of the same builds: a small note beside each record.

A window that is measured again until it passes is retried until it is green, with honest steps. Records are large, so
what counts is written beside them when a window starts, whatever comes of it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from pytest_specgate.adapters.storage import RECORD_NAME, read_stored, stable_text, write_atomically
from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.profile import sha256_of
from pytest_specgate.core.redaction import redacted_arm, redacted_profile
from pytest_specgate.core.resume import untold
from pytest_specgate.core.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.gate import Gate

NOTE_NAME: Final = "attempt.json"
SCHEMA_VERSION: Final = 1
_PLACES: Final = frozenset({"prefix", "origin"})
"""Facts about an install that are no part of its build: where it lies."""


class AttemptNote(Stored):
    """What is noted of a window when it starts.

    Attributes:
        schema_version: of this format.
        attempts: by key of a claim's subject, which attempt this is.
        continues: hash of the record that this window goes on with; empty for one that began anew.
    """

    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    attempts: dict[str, Annotated[int, Field(ge=1)]]
    continues: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What a window measures: of two windows with the same subject the second is another attempt.

    Attributes:
        pairs: all with one profile.
        gates: on these pairs, told apart by their ids: another margin, or more rounds, make no other subject.
        engine: facts about the installs of the engine, by arm.
        settings: what every server of the session is given, without secrets.
        commit: of the project; it belongs to a build that does not tell its code.
    """

    pairs: Sequence[ArmPair]
    gates: Sequence[Gate]
    engine: Mapping[str, Mapping[str, JsonValue]]
    settings: Mapping[str, JsonValue]
    commit: str

    @property
    def keys(self) -> tuple[str, ...]:
        """One key for each gate, and for each pair that has none; a run of one gate alone finds those of all."""
        gated = {gate.pair.key for gate in self.gates}
        named = [(gate.id, gate.pair) for gate in self.gates]
        return tuple(self._key(*one) for one in [*named, *(("", pair) for pair in self.pairs if pair.key not in gated)])

    def _key(self, gate: str, pair: ArmPair) -> str:
        facts = {arm.name: self.engine.get(arm.name, {}) for arm in pair.arms}
        builds: JsonValue = {
            arm: {name: value for name, value in own.items() if name not in _PLACES} for arm, own in facts.items()
        }
        return sha256_of(
            {
                "gate": gate,
                "arms": [redacted_arm(arm).key for arm in pair.arms],
                "profile": redacted_profile(pair.profile).fingerprint(),
                "builds": builds,
                "settings": dict(self.settings),
                "commit": self.commit if any(map(untold, facts.values())) else "",
            }
        )


def note_attempt(results: Path, folder: Path, subject: Subject) -> int:
    """Note in the folder of a window that it starts anew, and return which attempt at its subject it is.

    Args:
        results: folder of all windows.
        folder: of this one.
        subject: what it measures.
    """
    earlier = [note.attempts for _, note in _notes(results)]
    attempts = {key: 1 + max((found.get(key, 0) for found in earlier), default=0) for key in subject.keys}
    return _write(folder, AttemptNote(attempts=attempts))


def note_continuation(folder: Path, subject: Subject, *, attempt: int, continues: str) -> None:
    """Note in the folder of a window that it goes on with an earlier one, whose attempt it is.

    Args:
        folder: of this window.
        subject: what it measures.
        attempt: that of the earlier one.
        continues: hash of its record.
    """
    _write(folder, AttemptNote(attempts=dict.fromkeys(subject.keys, attempt), continues=continues))


def continued_in(results: Path, record_sha256: str) -> Path | None:
    """Return the record of the window that went on with a record; `None` if none did.

    To go on with one record twice would be to draw its last rounds again, until they please.
    """
    folders = (folder for folder, note in _notes(results) if note.continues == record_sha256)
    return next((folder / RECORD_NAME for folder in folders if (folder / RECORD_NAME).exists()), None)


def _write(folder: Path, note: AttemptNote) -> int:
    write_atomically(folder / NOTE_NAME, stable_text(note))
    return max(note.attempts.values(), default=1)


def _notes(results: Path) -> Iterator[tuple[Path, AttemptNote]]:
    """Yield the notes of all windows, with their folders; what cannot be read is passed over."""
    for path in sorted(results.glob(f"*/{NOTE_NAME}")):
        with contextlib.suppress(RecordError):
            yield path.parent, read_stored(path, AttemptNote, what="note of an attempt")
