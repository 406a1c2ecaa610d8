"""Ports: what a window needs of the outside world. Adapters implement them, tests fake them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.counters import CounterPage
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.metric_definitions import AddedValue, MetricDefinition
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.progress import Begun, Step
    from pytest_specgate.core.records import PointLoad, PointRecord, WindowRecord


class ChangedCommand(NamedTuple):
    """What a project starts instead of a command, word by word, and who says so."""

    words: tuple[str, ...]
    by: str


class Server(Protocol):
    """A server that has answered a completion."""

    @property
    def url(self) -> str:
        """Base address, without a slash at its end."""

    @property
    def model(self) -> str:
        """Name under which the model is served."""

    @property
    def command(self) -> str:
        """What was started, as a user would type it."""

    @property
    def attached(self) -> bool:
        """Whether somebody else started it, here or elsewhere: then little can be proved of it."""

    @property
    def boot_s(self) -> float | None:
        """Seconds from the start of the process to its first answered completion; `None` where nobody saw it start."""

    def ensure_alive(self, *, wait_s: float = 0.0) -> None:
        """Raise `ServerDiedError`, with exit code and log tail, if the process has left, or leaves within `wait_s`."""

    def log_tail(self) -> str:
        """Return the last lines that the server printed, without control characters and secrets."""

    def startup_log(self) -> str:
        """Return the beginning of what the server printed, without secrets: at least up to its readiness."""

    def process_ids(self) -> frozenset[int]:
        """Return the ids of the server's processes."""

    def cleaned(self, text: str) -> str:
        """Return what the server said without secrets: those that it was given, and those that show by their form."""


class Engine(Protocol):
    """Starts servers."""

    def start(self, arm: Arm) -> AbstractContextManager[Server]:
        """Start an arm's server; leaving the context stops it and all its processes.

        Raises:
            ServerStartError: it died or was not ready in time.
        """

    def intent(self, arm: Arm) -> str:
        """Say what `start` is going to do, for a waiting user: ``starting its server``."""

    def facts(self, arm: Arm) -> dict[str, JsonValue]:
        """Return what is known of the install of the engine that an arm uses."""


class LoadDriver(Protocol):
    """Sends requests."""

    def run_point(self, server: Server, bodies: Sequence[bytes], *, at: Level, profile: RequestProfile) -> PointLoad:
        """Send bodies in order: from so many closed-loop workers, or as they arrive at a rate.

        Returns:
            One record each, failed ones too, and how the client itself fared.

        Raises:
            LoadError: the client failed, whatever the server did.
        """


class ServerPages(Protocol):
    """Reads a server's pages."""

    def counters(self, server: Server) -> CounterPage:
        """Scrape ``/metrics`` once.

        Raises:
            ScrapeError: it cannot be had, or has no series of the engine.
        """

    def settled_counters(self, server: Server, *, before: CounterPage, output_tokens: int) -> CounterPage:
        """Scrape until nothing runs and the tokens generated since `before` agree with the client's, for a while.

        Returns the last page when they never agree: that is for the judge to see.
        """

    def resolved_config(self, server: Server) -> dict[str, JsonValue]:
        """Return the engine configuration that the server resolved.

        Raises:
            ScrapeError: it does not tell.
        """

    def resolved_environment(self, server: Server) -> dict[str, JsonValue]:
        """Return the engine's own settings by environment as the server resolved them; empty if it does not tell."""

    def tokenize(self, server: Server, text: str, extra: Mapping[str, JsonValue]) -> list[int]:
        """Return the token ids of a text, special tokens included unless `extra` says otherwise.

        Args:
            server: the server.
            text: the text.
            extra: further fields of the requests to come; those that decide on special tokens are heeded.

        Raises:
            ScrapeError: the server does not tell.
        """

    def tokenize_chat(self, server: Server, messages: Sequence[JsonValue], extra: Mapping[str, JsonValue]) -> list[int]:
        """Return the token ids that a conversation becomes through the chat template, the start of the answer included.

        Args:
            server: the server.
            messages: of the conversation.
            extra: further fields of the requests to come; those that steer the template are heeded.

        Raises:
            ScrapeError: the server does not tell: its model has no chat template, say.
        """


class PromptSource(Protocol):
    """Gives texts to cut prompts from."""

    def text(self, name: str) -> str:
        """Return the corpus of a name, paragraphs separated by blank lines."""

    def file(self, path: str) -> str:
        """Return what a user's file holds.

        Raises:
            UsageError: it cannot be read.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class CpuReading:
    """CPU time of other processes.

    Attributes:
        at_s: monotonic time of the reading.
        used_s: CPU seconds used so far, over all CPUs.
    """

    at_s: float
    used_s: float

    def share_since(self, earlier: CpuReading) -> float:
        """Return the CPUs kept busy by others since an earlier reading, never below 0."""
        elapsed = self.at_s - earlier.at_s
        return max(0.0, (self.used_s - earlier.used_s) / elapsed) if elapsed > 0 else 0.0


class Host(Protocol):
    """Knows the machine and the clock."""

    def facts(self) -> dict[str, JsonValue]:
        """Return facts about the machine."""

    def now(self) -> str:
        """Return the wall-clock time in ISO 8601 with zone."""

    def clock_s(self) -> float:
        """Return the time of a clock that never goes back, in seconds."""

    def other_cpu(self, ours: frozenset[int]) -> CpuReading | None:
        """Read the CPU time that everything but `ours`, and this process, has used; `None` where it is unknown."""

    def client_version(self) -> str:
        """Return the version of the load client."""


class RecordStore(Protocol):
    """Keeps window records."""

    def save(self, record: WindowRecord) -> str:
        """Write a record, whole or not at all, and return where it is; a later state replaces an earlier one."""


class Progress(Protocol):
    """Tells a waiting user what goes on."""

    def say(self, line: str) -> None:
        """Show one line."""

    def begin(self, boot: Begun) -> None:
        """Show that a boot begins; what comes after it tells how long the window may still take."""

    def step(self, step: Step) -> None:
        """Show what the boot does now."""

    def end(self, *, failed: bool) -> None:
        """Take note that the boot has ended; the time of one that failed tells nothing of others."""


class AddedMetrics(Protocol):
    """Computes the metrics that the project adds to the table."""

    def definitions(self) -> tuple[MetricDefinition, ...]:
        """Return what is stored of them once."""

    def values(self, point: PointRecord) -> dict[str, AddedValue]:
        """Return the value of each at a point, by name, or why there is none; nothing is raised."""


class NoMetrics:
    """Port `AddedMetrics` of a project that adds none."""

    def definitions(self) -> tuple[MetricDefinition, ...]:
        """Return none."""
        return ()

    def values(self, point: PointRecord) -> dict[str, AddedValue]:  # noqa: ARG002  - there is nothing to compute
        """Return none."""
        return {}


@dataclasses.dataclass(frozen=True, slots=True)
class Ports:
    """Everything a window needs, together.

    Attributes:
        engine: starts servers.
        load: sends requests.
        pages: reads pages of servers.
        prompts: gives texts.
        host: knows the machine.
        store: keeps the record.
        progress: tells a waiting user.
        added: computes the metrics that the project adds.
    """

    engine: Engine
    load: LoadDriver
    pages: ServerPages
    prompts: PromptSource
    host: Host
    store: RecordStore
    progress: Progress
    added: AddedMetrics = dataclasses.field(default_factory=NoMetrics)
