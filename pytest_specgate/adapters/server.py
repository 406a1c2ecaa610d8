"""Starts vLLM servers: one process tree each, ready when a completion was answered, gone when the context ends."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import shutil
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil

from pytest_specgate.adapters import engines
from pytest_specgate.adapters.models import resolve_model, served_name
from pytest_specgate.adapters.processes import Child, ended_by_signals, wait_until
from pytest_specgate.core.errors import ServerDiedError, ServerStartError, UsageError
from pytest_specgate.core.profile import ENDPOINT
from pytest_specgate.core.records import redacted, redacted_arm, redacted_text, secrets_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair

_MODULE = ("-m", "vllm.entrypoints.openai.api_server")
_POLL_S = 0.1
_ASK_S = 5.0
_PASSING = frozenset({408, 425, 429})
"""Refusals that time may cure: time-out, too early, too many requests."""
_QUIET = {
    # Tells the resolved configuration, which proves the arm.
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
}


@dataclasses.dataclass(frozen=True, slots=True)
class EngineOptions:
    """How servers are started.

    Attributes:
        python: interpreter that has vLLM, unless an arm names its own.
        command: what to start instead of ``python -m vllm.entrypoints.openai.api_server``; empty for that default.
        environment: environment of this process.
        start_limit_s: longest time from the start of a process to its first answered completion.
        log_folder: where servers print to.
    """

    python: Path
    command: tuple[str, ...]
    environment: Mapping[str, str]
    start_limit_s: float
    log_folder: Path


@dataclasses.dataclass(frozen=True, slots=True)
class RunningServer:
    """Port `Server`: a server that has answered a completion."""

    arm: str
    url: str
    model: str
    command: str
    boot_s: float
    child: Child

    def ensure_alive(self, *, wait_s: float = 0.0) -> None:
        """Raise `ServerDiedError` if the process has left, or leaves within `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        while (code := self.child.exit_code()) is None and time.monotonic() < deadline:
            wait_until(deadline, pause_s=_POLL_S)
        if code is not None:
            tail = self.child.log_tail()
            raise ServerDiedError(f"its server left with exit code {code}{_last(tail)}", exit_code=code, log_tail=tail)

    def log_tail(self) -> str:
        """Return the last lines that the server printed."""
        return self.child.log_tail()

    def process_ids(self) -> frozenset[int]:
        """Return the ids of the server's processes."""
        return self.child.processes()


class VllmEngine:
    """Port `Engine`: launches servers on this machine, on loopback, each on a free port of its own."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._facts: dict[Path, dict[str, JsonValue]] = {}
        self._starts = 0

    def facts(self, arm: Arm) -> dict[str, JsonValue]:
        """Return what is known of the install of the engine that an arm uses."""
        if self._options.command:
            return {"command": redacted_text(shlex.join(self._options.command))}
        return dict(self._probe(self._python(arm)))

    def check(self, arm: Arm) -> None:
        """Find out what would stop an arm from starting, before anything is started.

        Raises:
            UsageError: no such interpreter or program, no vLLM in it, or a model that is not prepared.
        """
        resolve_model(arm.model, environment=self._options.environment)
        if not self._options.command:
            engines.require_vllm(self._python(arm), self._probe(self._python(arm)))
        elif arm.python is not None:
            raise UsageError(f"arm {arm.name} names an engine of its own, which --specgate-engine-command overrides")
        elif shutil.which(self._launcher(arm)[0], path={**self._options.environment, **arm.env}.get("PATH")) is None:
            raise UsageError(f"--specgate-engine-command: there is no program {self._launcher(arm)[0]!r}")

    def check_pair(self, pair: ArmPair) -> None:
        """Refuse a pair whose arms vary the engine but would run the same install.

        Raises:
            UsageError: both interpreters belong to one environment.
        """
        if "engine" not in pair.paths:
            return
        prefixes = [self._probe(self._python(arm))["prefix"] for arm in pair.arms]
        if prefixes[0] == prefixes[1]:
            raise UsageError(f"{pair.title} varies the engine, but both arms run the install in {prefixes[0]}")

    @contextlib.contextmanager
    def start(self, arm: Arm) -> Iterator[RunningServer]:
        """Start an arm's server; leaving the context stops it and all its processes."""
        port = _free_port()
        argv = [*self._launcher(arm), *self._arguments(arm, port=port)]
        environment = self._environment(arm)
        self._starts += 1
        started = time.monotonic()
        log = self._options.log_folder / f"server-{self._starts:02d}-{arm.name}.log"
        command = self._as_typed(arm, environment, port=port)
        whole = {**self._options.environment, **environment}
        try:
            child = Child(argv, environment=whole, log=log, secrets=secrets_of(arm))
        except OSError as error:
            raise ServerStartError(f"its server cannot be started: {error}", command=command) from error
        url, model = f"http://127.0.0.1:{port}", served_name(arm.model)
        with ended_by_signals(), _stopped(child):
            try:
                _wait_ready(child, url=url, model=model, limit_s=self._options.start_limit_s)
                if not self._options.command:
                    _refuse_stranger(child, port)
            except ServerStartError as error:
                error.command = command
                raise
            boot_s = time.monotonic() - started
            yield RunningServer(arm=arm.name, url=url, model=model, command=command, boot_s=boot_s, child=child)

    def _python(self, arm: Arm) -> Path:
        return Path(arm.python).expanduser().absolute() if arm.python else self._options.python

    def _probe(self, python: Path) -> dict[str, JsonValue]:
        if python not in self._facts:
            self._facts[python] = engines.probe(python)
        return self._facts[python]

    def _launcher(self, arm: Arm) -> Sequence[str]:
        if not self._options.command:
            return (str(self._python(arm)), *_MODULE)
        program, *rest = self._options.command
        # Tests and self-tests name our own modules; they live where this process found them.
        return (sys.executable if program in {"python", "python3"} else program, *rest)

    def _arguments(self, arm: Arm, *, port: int) -> list[str]:
        model = resolve_model(arm.model, environment=self._options.environment)
        own = ["--model", model, "--served-model-name", served_name(arm.model)]
        return [*own, "--host", "127.0.0.1", "--port", str(port), *engine_flags(arm.args)]

    def _as_typed(self, arm: Arm, environment: Mapping[str, str], *, port: int) -> str:
        """Return the command as a user would type it, without secrets."""
        settings = [shlex.quote(f"{name}={redacted(value, name=name)}") for name, value in environment.items()]
        argv = [*self._launcher(arm), *self._arguments(redacted_arm(arm), port=port)]
        return " ".join([*settings, redacted_text(shlex.join(argv))])

    def _environment(self, arm: Arm) -> dict[str, str]:
        """Return what is set for an arm besides what this process has; the arm's own values win."""
        model = resolve_model(arm.model, environment=self._options.environment)
        offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"} if Path(model).is_dir() else {}
        local = {name: value for name, value in offline.items() if name not in self._options.environment}
        libraries = None
        if not self._options.command and not self._options.environment.get("LD_PRELOAD"):
            libraries = engines.preload(self._probe(self._python(arm)))
        faster = {"LD_PRELOAD": libraries} if libraries else {}
        # Away from the working directory: a checkout of vLLM there would be served instead of the install.
        safe = {} if self._options.command else {"PYTHONSAFEPATH": "1"}
        return {**_QUIET, **safe, **local, **faster, **arm.env}


def engine_flags(args: Mapping[str, JsonValue]) -> list[str]:
    """Return engine arguments as a command line.

    ``True`` gives ``--x``, ``False`` gives ``--no-x``, a mapping gives JSON, a list repeats its values.
    """
    flags: list[str] = []
    for name, value in args.items():
        dashed = name.replace("_", "-")
        if isinstance(value, bool):
            flags.append(f"--{dashed}" if value else f"--no-{dashed}")
        elif isinstance(value, dict):
            flags += [f"--{dashed}", json.dumps(value, sort_keys=True)]
        elif isinstance(value, list):
            flags += [f"--{dashed}", *(item if isinstance(item, str) else json.dumps(item) for item in value)]
        elif value is not None:
            flags += [f"--{dashed}", str(value)]
    return flags


@contextlib.contextmanager
def _stopped(child: Child) -> Iterator[None]:
    """Stop a process tree when the context ends, however it ends."""
    try:
        yield
    finally:
        child.stop()


def _wait_ready(child: Child, *, url: str, model: str, limit_s: float) -> None:
    """Return when the model is listed and has answered one tiny completion.

    Raises:
        ServerStartError: the child left, serves another model, refuses completions, or was not ready in time.
    """
    deadline = time.monotonic() + limit_s
    with httpx.Client(base_url=url, trust_env=False, timeout=_ASK_S) as client:
        while (unready := _unready(client, model, deadline=deadline)) is not None:
            code = child.exit_code()
            if code is not None:
                tail = child.log_tail()
                message = f"its server left while starting, with exit code {code}{_last(tail)}"
                raise ServerStartError(message, exit_code=code, log_tail=tail)
            if not wait_until(deadline, pause_s=_POLL_S):
                message = f"its server was not ready within {limit_s:g} s, {unready} (raise --specgate-start-limit)"
                raise ServerStartError(message, log_tail=child.log_tail())


def _unready(client: httpx.Client, model: str, *, deadline: float) -> str | None:
    """Return why a server cannot be used yet, `None` once it can."""
    try:
        answer = client.get("/v1/models")
        names = [str(entry["id"]) for entry in answer.json()["data"]] if answer.is_success else []
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return "it does not list its models"
    if names and model not in names:
        raise ServerStartError(f"its server serves {', '.join(names)}, not {model}")
    return _refusal(client, model, deadline=deadline) if names else "it lists no model"


def _refusal(client: httpx.Client, model: str, *, deadline: float) -> str | None:
    """Ask for one token; return why it did not come, `None` when it did."""
    body = {"model": model, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
    try:
        answer = client.post(ENDPOINT, json=body, timeout=max(_ASK_S, deadline - time.monotonic()))
    except httpx.HTTPError as error:
        return f"a completion ended with {type(error).__name__}"
    if answer.is_success:
        return None
    said = f"HTTP {answer.status_code}: {redacted_text(answer.text)[:200]}"
    if answer.is_client_error and answer.status_code not in _PASSING:
        raise ServerStartError(f"its server refuses a completion with {said}")
    return f"a completion was answered with {said}"


def _refuse_stranger(child: Child, port: int) -> None:
    """Make sure that the process that answers is ours.

    Raises:
        ServerStartError: the port belongs to another process.
    """
    ours = child.processes()
    listening = {
        connection.pid
        for connection in _connections()
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
    }
    if listening and not listening & ours:
        raise ServerStartError(f"another process answers on port {port}", log_tail=child.log_tail())


def _connections() -> Sequence[psutil._ntuples.sconn]:
    """Return the TCP connections of this machine; none where only a privileged user may see them."""
    try:
        return psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return ()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _last(tail: str) -> str:
    """Return the last line of a log as the end of a sentence."""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    return f": {lines[-1][:200]}" if lines else ", having printed nothing"
