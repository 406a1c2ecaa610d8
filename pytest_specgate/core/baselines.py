"""Baselines: windows that were accepted on purpose, for later windows to be judged against.

One file holds what one gate accepted on one class of machine. Each of its entries is about one metric at one load
level, and stands for itself: an update of one leaves all others as they are.

History of the schema:

1. first version
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import Field, model_validator

from pytest_specgate.core.declared import FreeJson
from pytest_specgate.core.levels import Level, level_id
from pytest_specgate.core.profile import sha256_of
from pytest_specgate.core.stored import Failure, Stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from pydantic import JsonValue

SCHEMA_VERSION: Final = 1

NO_BASELINE: Final = "no-baseline"
FOREIGN_HOST: Final = "foreign-host"
OTHER_DEFINITION: Final = "other-definition"
OTHER_PROFILE: Final = "other-profile"
OTHER_ENGINE: Final = "other-engine"
BASELINES_OFF: Final = "baselines-off"
"""Codes of reasons why a window cannot be judged against a baseline."""

STALE: Final = "stale-baseline"
EROSION: Final = "erosion"
STRICT_REASONS: Final = (STALE, EROSION)
"""Codes of reasons why strict accepts no pass: they fail, and are never skipped."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_READABLE: Final = 80
_DIGEST: Final = 10

Figure: TypeAlias = Annotated[float, Field(ge=0)]
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class BaselineValues(Stored):
    """The figures of one window for one entry, by round, in the metric's unit.

    Attributes:
        window: id of the window, as `BaselineFile.windows` lists it.
        reference: of the reference arm; empty where that arm has no such metric.
        candidate: of the candidate arm.
    """

    window: str
    reference: tuple[Figure, ...]
    candidate: Annotated[tuple[Figure, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _paired(self) -> Self:
        if self.reference and len(self.reference) != len(self.candidate):
            raise ValueError("reference and candidate have another number of rounds")
        return self

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.candidate)


class AcceptedWindow(Stored):
    """Where the figures of a window come from, and why they were accepted.

    Attributes:
        measured_at: wall-clock time of its start, ISO 8601 with zone.
        accepted_at: when it was accepted, likewise.
        reason: why, in the words of whoever accepted it.
        record_sha256: of the file of its record.
        commit: of the project that was measured; empty where it is not known.
        engine: builds of the engine, of ``reference`` and ``candidate``.
        regression: whether it was accepted although it was worse than what stood there, or failed its own gate.
    """

    measured_at: str
    accepted_at: str
    reason: Annotated[str, Field(min_length=3)]
    record_sha256: Sha256
    commit: str = ""
    engine: dict[str, dict[str, FreeJson]]
    regression: bool = False


class BaselineEntry(Stored):
    """Everything that was accepted for one metric at one load level.

    Attributes:
        metric: key in the metric table.
        at: load level.
        metric_definition_version: of the formulas that the figures were computed with.
        definition_sha256: of what was compared: both arms, and what every server was given.
        profile_sha256: of the load, as it was observed.
        anchor: the first window that was accepted; it stays when others come and go, so that slow erosion is seen.
        windows: those that today's window is compared with, oldest first.
    """

    metric: str
    at: Level
    metric_definition_version: int
    definition_sha256: Sha256
    profile_sha256: Sha256
    anchor: BaselineValues
    windows: Annotated[tuple[BaselineValues, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        names = [values.window for values in self.windows]
        if names != sorted(set(names)):
            raise ValueError("windows are sorted by their ids, and each stands once")
        return self

    @property
    def id(self) -> str:
        """Name within the file: ``c8-output_throughput``."""
        return entry_id(self.metric, at=self.at)

    @property
    def window_ids(self) -> frozenset[str]:
        """Ids of all windows that the entry speaks of."""
        return frozenset({self.anchor.window, *(values.window for values in self.windows)})

    @property
    def latest(self) -> BaselineValues:
        """The window that was measured last."""
        return self.windows[-1]


class BaselineFile(Stored):
    """What one gate accepted on one class of machine.

    Attributes:
        schema_version: of this format.
        host_class: the class of machine.
        gate: id of the gate.
        definitions: what was compared, by its hash.
        profiles: the loads, as they were observed, by their hash.
        windows: where the figures come from, by id.
        entries: by metric and load level.
    """

    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    host_class: str
    gate: str
    definitions: dict[Sha256, dict[str, FreeJson]] = Field(default_factory=dict)
    profiles: dict[Sha256, dict[str, FreeJson]] = Field(default_factory=dict)
    windows: dict[str, AcceptedWindow] = Field(default_factory=dict)
    entries: dict[str, BaselineEntry] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Yield what does not fit together: hashes, names, and what entries point at."""
        for name, parts in (("definitions", self.definitions), ("profiles", self.profiles)):
            for digest, part in parts.items():
                if sha256_of(part) != digest:
                    yield f"{name}.{digest[:12]} does not have this hash: it was edited by hand"
        for name, entry in self.entries.items():
            if name != entry.id:
                yield f"entries.{name} is about {entry.id}"
            if entry.definition_sha256 not in self.definitions or entry.profile_sha256 not in self.profiles:
                yield f"entries.{name} points at a definition or a profile that is not there"
            for window in sorted(entry.window_ids - self.windows.keys()):
                yield f"entries.{name} has window {window}, of which nothing else is known"

    def with_entry(
        self,
        entry: BaselineEntry,
        *,
        windows: dict[str, AcceptedWindow],
        definition: dict[str, JsonValue],
        profile: dict[str, JsonValue],
    ) -> BaselineFile:
        """Return the file with an entry, new or instead of the one of its name; all others stay as they are.

        Args:
            entry: to stand there.
            windows: where its figures come from, by id; those that the file knows already need not be named.
            definition: what was compared, where the file has none of that hash.
            profile: the load, likewise.
        """
        return self._trimmed(
            definitions={entry.definition_sha256: definition, **self.definitions},
            profiles={entry.profile_sha256: profile, **self.profiles},
            windows={**self.windows, **windows},
            entries={**self.entries, entry.id: entry},
        )

    def without(self, entries: frozenset[str]) -> BaselineFile:
        """Return the file without some entries."""
        return self._trimmed(entries={name: entry for name, entry in self.entries.items() if name not in entries})

    def _trimmed(self, **changes: object) -> BaselineFile:
        """Return the file with changes, and without what no entry points at any more."""
        changed = self.model_copy(update=changes)
        entries = changed.entries.values()
        definitions = {entry.definition_sha256 for entry in entries}
        profiles = {entry.profile_sha256 for entry in entries}
        windows = {window for entry in entries for window in entry.window_ids}
        return changed.model_copy(
            update={
                "definitions": {key: part for key, part in changed.definitions.items() if key in definitions},
                "profiles": {key: part for key, part in changed.profiles.items() if key in profiles},
                "windows": {key: part for key, part in changed.windows.items() if key in windows},
            }
        )


class KnownBaseline(Stored):
    """What a window knew of the baseline of one entry before it ran: its record is judged by this, anywhere.

    Attributes:
        gate: id of the gate.
        entry_id: of the entry.
        path: of the file, as a user would type it; empty where there is none.
        problem: why it cannot be used; `None` when it can.
        entry: what was accepted; `None` where there is nothing.
        windows: where its figures come from, by id.
        profile: the load that it was measured under.
        definition: what was compared.
    """

    gate: str
    entry_id: str
    path: str = ""
    problem: Failure | None = None
    entry: BaselineEntry | None = None
    windows: dict[str, AcceptedWindow] = Field(default_factory=dict)
    profile: dict[str, FreeJson] = Field(default_factory=dict)
    definition: dict[str, FreeJson] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.entry is None and self.problem is None:
            raise ValueError("there is neither a baseline nor a reason why there is none")
        for window in sorted(self.entry.window_ids - self.windows.keys() if self.entry else ()):
            raise ValueError(f"{self.entry_id} has window {window}, of which nothing else is known")
        return self

    @property
    def switched_off(self) -> bool:
        """Whether it was left alone on purpose."""
        return self.problem is not None and self.problem.reason == BASELINES_OFF


def entry_id(metric: str, *, at: Level) -> str:
    """Return the name of an entry within its file: ``c8-output_throughput``."""
    return f"{level_id(at)}-{metric}"


def file_name(gate: str) -> str:
    """Return the name of a gate's file: readable, safe on every file system, and another one for every gate."""
    digest = hashlib.sha256(gate.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    readable = _UNSAFE.sub("-", gate)[-_READABLE:].strip("-._")
    return f"{readable or 'gate'}-{digest}.json"
