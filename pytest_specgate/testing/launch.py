"""Start a fake vLLM in a process of its own, and stop it."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from pytest_specgate.core.errors import ServerDiedError, ServerStartError
from pytest_specgate.testing.settings import FakeSettings
from pytest_specgate.testing.truth import FakeTruth

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ENGINE_COMMAND: Final = "python -m pytest_specgate.testing.fake_vllm"
"""Value of ``--specgate-engine-command`` that makes the fake the engine of a gate file. Its first word means the
interpreter that runs pytest."""

_START_LIMIT_S: Final = 30.0
_STOP_LIMIT_S: Final = 5.0
_ANSWER_LIMIT_S: Final = 60.0
_POLL_S: Final = 0.01
_LISTENING: Final = re.compile(r"running on (http://\S+)")


@dataclasses.dataclass(frozen=True, slots=True)
class RunningFake:
    """A fake vLLM that answers.

    Attributes:
        url: base address, without a slash at its end.
        process: the server's process.
    """

    url: str
    process: subprocess.Popen[bytes]
    _output: IO[bytes]

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self.process.pid

    def truth(self, *, after: int = 0) -> FakeTruth:
        """Return what the server really did until now; best asked when no load runs, for it answers between two steps.

        Args:
            after: number of a request; only later ones are listed.

        Raises:
            ServerDiedError: the server does not answer any more.
        """
        return FakeTruth.model_validate_json(self._get(f"/fake/truth?after={after}"))

    def metrics(self) -> str:
        """Return the text of ``/metrics``.

        Raises:
            ServerDiedError: the server does not answer any more.
        """
        return self._get("/metrics").decode()

    def _get(self, target: str) -> bytes:
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=_ANSWER_LIMIT_S)
        try:
            with contextlib.closing(connection):
                connection.request("GET", target)
                return connection.getresponse().read()
        except (OSError, http.client.HTTPException) as error:
            raise ServerDiedError(
                f"the fake vLLM at {self.url} does not answer {target} any more: {error!r}",
                exit_code=self.process.poll(),
                log_tail=self.log(),
            ) from None

    def log(self) -> str:
        """Return what the server has printed so far; to be asked inside the block."""
        return _read(self._output)


@contextlib.contextmanager
def fake_vllm(  # noqa: PLR0913  - each is one thing to say of a server, and all have defaults
    settings: FakeSettings | None = None,
    *,
    speculative_config: Mapping[str, Any] | None = None,
    model: str = "fake-model",
    environment: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    wait_until_healthy: bool = True,
) -> Iterator[RunningFake]:
    """Run a fake vLLM on a free loopback port while the block lasts.

    As engine of a gate file it is started by the plugin instead: give `ENGINE_COMMAND` to
    ``--specgate-engine-command``, and settings to arms: ``Arm("slow", model="m", args={"fake": {"step_s": 0.01}})``.

    Args:
        settings: the programmed behaviour; the default is a healthy server.
        speculative_config: value of ``--speculative-config``; `None` leaves speculation off.
        model: name of the model.
        environment: variables set for the server beside those of this process.
        arguments: further command line flags: ``["--data-parallel-size", "2"]``.
        wait_until_healthy: whether to wait until ``/health`` says so, or only until the port listens.

    Yields:
        The server, which answers.

    Raises:
        ServerStartError: the process left, or did not answer in time.
    """
    command = [sys.executable, "-m", "pytest_specgate.testing.fake_vllm", "--model", model, "--port", "0", *arguments]
    settings = FakeSettings() if settings is None else settings
    command += ["--fake", settings.model_dump_json(exclude_unset=True)]
    if speculative_config is not None:
        command += ["--speculative-config", json.dumps(dict(speculative_config))]
    limit_s = _START_LIMIT_S + settings.boot_s + (settings.healthy_after_s if wait_until_healthy else 0.0)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603  - our own module, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            url = _wait(process, output, limit_s=limit_s, healthy=wait_until_healthy)
            yield RunningFake(url, process, output)
        finally:
            _stop(process, settings)


def _wait(process: subprocess.Popen[bytes], output: IO[bytes], *, limit_s: float, healthy: bool) -> str:
    """Return the address of the server once it answers."""
    give_up_s = time.monotonic() + limit_s
    while time.monotonic() < give_up_s:
        if process.poll() is not None:
            break
        listening = _LISTENING.search(_read(output))
        if listening is not None and (not healthy or _healthy(listening[1])):
            return listening[1]
        time.sleep(_POLL_S)
    exit_code, log = process.poll(), _read(output)
    what = f"did not answer within {limit_s:g} s" if exit_code is None else f"left with exit code {exit_code}"
    raise ServerStartError(
        f"the fake vLLM {what}; its output was: {log.strip() or '(none)'}", exit_code=exit_code, log_tail=log
    )


def _healthy(url: str) -> bool:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_STOP_LIMIT_S)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", "/health")
        return connection.getresponse().status == http.client.OK
    return False


def _read(output: IO[bytes]) -> str:
    """Read the output file from its start without moving the offset that the server writes at."""
    size = os.fstat(output.fileno()).st_size
    return os.pread(output.fileno(), size, 0).decode("utf-8", "replace")


def _stop(process: subprocess.Popen[bytes], settings: FakeSettings) -> None:
    """End the process, gently first if it would hear that."""
    deaf_to = {signal.SIGINT: settings.ignore_sigint, signal.SIGTERM: settings.ignore_sigterm}
    heard = next((number for number, ignored in deaf_to.items() if not ignored), signal.SIGKILL)
    if process.poll() is None:
        process.send_signal(heard)
    try:
        process.wait(_STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
