"""Starts the server and the clients under test, each as a process of its own, and leaves none behind."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any

import httpx

from benchmarks.client.driving import Load, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_ROOT = pathlib.Path(__file__).parents[2]
_CLIENT_LIMIT_S = 300.0
_STOP_LIMIT_S = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """A load client under test.

    Attributes:
        name: how tables call it.
        module: module that drives it.
        python: interpreter of the environment that it lives in.
    """

    name: str
    module: str
    python: str = sys.executable


@dataclasses.dataclass(frozen=True, slots=True)
class Truth:
    """The server, while it runs.

    Attributes:
        url: base address.
        scheduling: whether the system lets it run before the clients.
    """

    url: str
    scheduling: str

    def reset(self) -> None:
        """Start a new log."""
        httpx.post(f"{self.url}/reset", trust_env=False).raise_for_status()

    def log(self) -> dict[str, Any]:
        """Return the log; only requests of a `Load` have names."""
        log: dict[str, Any] = httpx.get(f"{self.url}/log", trust_env=False, timeout=60).raise_for_status().json()
        return log


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """A client's process that has done its point.

    Attributes:
        outcome: what the client saw.
        process_cpu_s: CPU seconds of its processes from start to end, imports included.
    """

    outcome: Outcome
    process_cpu_s: float


@contextlib.contextmanager
def truth_server(*, ttft_s: float = 0.050, interval_s: float = 0.010) -> Iterator[Truth]:
    """Start the server; it ends with the context, and also with this process."""
    options = [f"--ttft-s={ttft_s}", f"--interval-s={interval_s}", "--stop-with-stdin"]
    command = [sys.executable, "-m", "benchmarks.client.truth_server", *options]
    with _process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        started = json.loads(process.stdout.readline())
        yield Truth(started["url"], started["scheduling"])


def run_client(client: Client, load: Load, *, watch: Callable[[int], None] | None = None) -> Finished:
    """Let a client do one point.

    Args:
        client: which one.
        load: the point.
        watch: called over and over with the process id while the client runs.

    Raises:
        RuntimeError: the client failed; with what it said last.
    """
    with tempfile.TemporaryDirectory() as folder:
        output, log = pathlib.Path(folder, "outcome.json"), pathlib.Path(folder, "log.txt")
        command = [client.python, "-m", client.module, json.dumps(dataclasses.asdict(load)), str(output)]
        cpu_s = _children_cpu_s()
        with log.open("wb") as log_file, _process(command, stdout=log_file, stderr=subprocess.STDOUT) as process:
            while watch and process.poll() is None:
                watch(process.pid)
            process.wait(_CLIENT_LIMIT_S)
        if process.returncode:
            said = log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"{client.name} at c={load.concurrency} left with {process.returncode}:\n{said}")
        return Finished(Outcome.read(output), process_cpu_s=_children_cpu_s() - cpu_s)


@contextlib.contextmanager
def _process(
    command: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes],
    stderr: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process with a session of its own, and end the whole session with the context."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    with subprocess.Popen(  # noqa: S603  - starting the programs under test is its purpose
        command, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask, then force, a process and those that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_LIMIT_S)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
