"""What a load client under test is told and what it brings back: one process, one point, files of JSON between.

Also runs in the engine's environment, so it needs nothing but the standard library and psutil.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PROMPT = "word " * 128


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """One closed-loop point.

    Attributes:
        url: base address of the server, without a slash at its end.
        concurrency: workers.
        per_worker: requests that each worker sends on average.
        tokens: token events of every answer.
    """

    url: str
    concurrency: int
    per_worker: int
    tokens: int

    @property
    def count(self) -> int:
        """Number of requests."""
        return self.concurrency * self.per_worker

    def request_ids(self) -> list[str]:
        """Return the names under which the requests are found in the server's log."""
        return [f"r{index}" for index in range(self.count)]

    def bodies(self) -> list[bytes]:
        """Return the bodies of the requests; the server takes their names from the field ``user``."""
        return [json.dumps(self._body(request_id), separators=(",", ":")).encode() for request_id in self.request_ids()]

    def _body(self, request_id: str) -> dict[str, Any]:
        return {
            "model": "truth",
            "prompt": PROMPT,
            "max_tokens": self.tokens,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            "user": request_id,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """One request as the client saw it.

    Attributes:
        request_id: its name in the server's log.
        sent_s: when it was sent, by a clock of the client's choice.
        ttft_s: from there to the first token event.
        last_s: from there to the last token event.
        absolute: whether `sent_s` is of the monotonic clock of the machine, as the server's log is.
    """

    request_id: str
    sent_s: float
    ttft_s: float
    last_s: float
    absolute: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A point as the client saw it.

    Attributes:
        requests: the requests, in any order.
        cpu_s: CPU seconds that the point took, in all processes of the client, parsing included.
    """

    requests: list[Seen]
    cpu_s: float

    @property
    def wall_s(self) -> float:
        """Seconds from the first sending to the last token event."""
        return max(seen.sent_s + seen.last_s for seen in self.requests) - min(seen.sent_s for seen in self.requests)

    @classmethod
    def read(cls, path: pathlib.Path) -> Outcome:
        """Read what a client's process wrote."""
        stored = json.loads(path.read_text())
        return cls([Seen(**seen) for seen in stored["requests"]], cpu_s=stored["cpu_s"])


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all its descendants, those that have ended included."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(map(_cpu_seconds_of, family))


def _cpu_seconds_of(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def outcome_of(requests: Iterable[Seen], *, cpu_since_s: float) -> Outcome:
    """Return the outcome of a point that has just ended."""
    return Outcome(list(requests), cpu_s=cpu_seconds() - cpu_since_s)


def drive(run: Callable[[Load], Outcome]) -> None:
    """Be a client's process: ``python -m benchmarks.client.drive_... LOAD_JSON OUTPUT_FILE``."""
    load, output = Load(**json.loads(sys.argv[1])), pathlib.Path(sys.argv[2])
    output.write_text(json.dumps(dataclasses.asdict(run(load))))
