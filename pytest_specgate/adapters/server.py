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

import psutil

from pytest_specgate.adapters import engines
from pytest_specgate.adapters.commands import PORT, Command, unchanged
from pytest_specgate.adapters.devices import refuse_busy, require_released
from pytest_specgate.adapters.leftovers import Leftovers
from pytest_specgate.adapters.listeners import answers, held_by_others, holder_of, require_free
from pytest_specgate.adapters.models import resolve_model, served_name
from pytest_specgate.adapters.processes import DEFAULT_LIMITS, Child, StopLimits, ended_by_signals
from pytest_specgate.adapters.readiness import Waiting, wait_ready
from pytest_specgate.adapters.running import RunningServer, noted
from pytest_specgate.core.confounds import CHANGED_COMMAND, differing
from pytest_specgate.core.errors import ServerError, ServerStartError, UsageError
from pytest_specgate.core.redaction import redacted, secrets_of
from pytest_specgate.core.secret_words import redacted_command, secrets_of_environment, secrets_of_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.adapters.devices import DeviceMemory
    from pytest_specgate.adapters.locks import MachineLock
    from pytest_specgate.adapters.state import Note, ServerNotes
    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.ports import ChangedCommand

_MODULE = ("-m", "vllm.entrypoints.openai.api_server")
_QUIET = {
    # Tells the resolved configuration, which proves the arm.
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
}


def _silent(_: str) -> None:
    """Tell nobody."""


@dataclasses.dataclass(frozen=True, slots=True)
class EngineOptions:
    """How servers are started.

    Attributes:
        python: interpreter that has vLLM, unless an arm names its own.
        command: what to start instead of ``python -m vllm.entrypoints.openai.api_server``; empty for that default.
        environment: environment of this process.
        start_limit_s: longest time from the start of a process to its first answered completion.
        log_folder: where servers print to.
        arguments: further arguments of every server; those of its arm come after them, and win.
        variables: further environment variables of every server; those of its arm win.
        limits: how long each step of the end of a server may take.
        lock: held while a server runs; `None`: whoever likes may use the machine at the same time.
        leftovers: what of earlier servers could not be ended.
        notes: where running servers are noted, and what killed runs left behind is ended; `None`: nowhere.
        memory: of the devices that servers use; `None`: nothing is known of it.
        say: shows a line to the user.
        change: changes the command of an arm, for a project that has it wrapped.
    """

    python: Path
    command: tuple[str, ...]
    environment: Mapping[str, str]
    start_limit_s: float
    log_folder: Path
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)
    limits: StopLimits = DEFAULT_LIMITS
    lock: MachineLock | None = None
    leftovers: Leftovers = dataclasses.field(default_factory=Leftovers)
    notes: ServerNotes | None = None
    memory: DeviceMemory | None = None
    say: Callable[[str], None] = _silent
    change: Callable[[Arm, Sequence[str]], ChangedCommand | None] = unchanged


class VllmEngine:
    """Port `Engine`: launches servers on this machine, on loopback, each on a free port of its own."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._facts: dict[Path, dict[str, JsonValue]] = {}
        self._starts = 0

    def intent(self, _: Arm) -> str:
        """Say that a server is started."""
        return "starting its server"

    def facts(self, arm: Arm) -> dict[str, JsonValue]:
        """Return what is known of the install of the engine that an arm uses."""
        own = engines.build_environment({**self._options.environment, **self._environment(arm)})
        if change := self.changed_command(arm):
            own[CHANGED_COMMAND] = change
        if self._options.command:
            return {"command": redacted_command(self._options.command), **own}
        return {**self._probe(self._python(arm)), **own}

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
        elif not self._is_program(self._launcher(arm)[0], arm):
            raise UsageError(f"--specgate-engine-command: there is no program {self._launcher(arm)[0]!r}")
        changed = self._command(arm).changed
        if changed is not None and not self._is_program(changed.words[0], arm):
            raise UsageError(f"{changed.by} starts {changed.words[0]!r} for arm {arm.name}: there is no such program")

    def _is_program(self, word: str, arm: Arm) -> bool:
        return shutil.which(word, path={**self._options.environment, **arm.env}.get("PATH")) is not None

    def changed_command(self, arm: Arm) -> str:
        """Return what the project makes of the command of an arm, without secrets; empty where it changes nothing."""
        return self._command(arm).change

    def check_pair(self, pair: ArmPair) -> None:
        """Refuse a pair whose arms vary the engine but would run the same one.

        Raises:
            UsageError: both interpreters belong to one environment, or to two with the same build in them.
        """
        if "engine" not in pair.paths:
            return
        reference, candidate = (self._probe(self._python(arm)) for arm in pair.arms)
        if reference["prefix"] == candidate["prefix"]:
            raise UsageError(f"{pair.title} varies the engine, but both arms run the install in {reference['prefix']}")
        releases = not (reference["development"] or candidate["development"])
        if releases and not differing(reference, candidate):
            raise UsageError(
                f"{pair.title} varies the engine, but {reference['prefix']} and {candidate['prefix']} hold the same "
                f"build: {reference['distribution']} {reference['version']}, with the same files"
            )

    @contextlib.contextmanager
    def start(self, arm: Arm) -> Iterator[RunningServer]:
        """Start an arm's server; leaving the context stops it and all its processes.

        Raises:
            ServerStartError: it left or was not ready in time, or others use the machine; `command` is empty where
                nothing was started.
            ServerError: something of it could not be ended, or still holds the port or a device's memory; or of an
                earlier server of this session.
        """
        self._options.leftovers.refuse()
        with self._options.lock or contextlib.nullcontext():
            self._make_sure_of_the_machine()
            port = _free_port()
            with ended_by_signals(), self._vacated(port), self._running(arm, port=port) as server:
                yield server

    def _make_sure_of_the_machine(self) -> None:
        """End what killed runs left, and refuse to measure beside others."""
        if self._options.notes is not None:
            self._options.notes.reap()
        if self._options.memory is not None:
            refuse_busy(self._options.memory, ours=_own_processes(), limit_s=self._options.limits.follow_s)

    @contextlib.contextmanager
    def _vacated(self, port: int) -> Iterator[None]:
        """Make sure, after the block, that the machine is as it was before it."""
        memory, limits = self._options.memory, self._options.limits
        before = memory.used_bytes() if memory is not None else None

        def require() -> None:
            with self._options.leftovers.kept(lambda: answers(port)):
                require_free(port, limit_s=limits.port_s)
            if memory is not None:
                require_released(memory, before=before, limit_s=limits.memory_s)

        try:
            yield
        except Exception:
            # What failed first is what the user has to know; an impatient one is not kept waiting.
            try:
                require()
            except ServerError as error:
                self._options.say(str(error))
            raise
        require()

    @contextlib.contextmanager
    def _running(self, arm: Arm, *, port: int) -> Iterator[RunningServer]:
        started = time.monotonic()
        url, model = f"http://127.0.0.1:{port}", served_name(arm.model)
        own = self._command(arm).at(port)
        command = self._as_typed(own, self._environment(arm))
        child = self._child(arm, own, command=command)
        with self._noting(child, command) as note, self._stopped(child):
            try:
                waiting = Waiting(
                    child,
                    note=lambda: noted(child, note),
                    say=lambda line: self._options.say(f"{arm.name}: {line}"),
                )
                wait_ready(waiting, url=url, model=model, limit_s=self._options.start_limit_s)
                if not (self._options.command or own.changed) or _runs_python(child):
                    _refuse_stranger(child, port)
            except ServerStartError as error:
                error.command = command
                raise
            boot_s = time.monotonic() - started
            yield RunningServer(
                arm=arm.name, url=url, model=model, command=command, boot_s=boot_s, child=child, note=note
            )

    @contextlib.contextmanager
    def _stopped(self, child: Child) -> Iterator[None]:
        """Stop a process tree when the context ends, however it ends."""
        try:
            yield
        finally:
            with self._options.leftovers.kept(lambda: bool(child.processes())):
                child.stop()

    def _child(self, arm: Arm, own: Command, *, command: str) -> Child:
        self._starts += 1
        environment = {**self._options.environment, **self._environment(arm)}
        try:
            child = Child(
                own.words,
                environment=environment,
                log=self._options.log_folder / f"server-{self._starts:02d}-{arm.name}.log",
                secrets=self._secrets(arm, own, environment),
                limits=self._options.limits,
            )
        except OSError as error:
            raise ServerStartError(f"its server cannot be started: {error}", command=command) from error
        if not child.adopts and self._starts == 1:
            self._options.say(
                "this system does not tell of orphans: a process that leaves its server's session can leak"
            )
        return child

    @contextlib.contextmanager
    def _noting(self, child: Child, command: str) -> Iterator[Note | None]:
        """Note a server for later runs while it runs; one that could not be ended stays noted."""
        if self._options.notes is None:
            yield None
            return
        note = self._options.notes.add([child.pid], supervisor=child.supervisor_pid, command=command)
        try:
            yield note
        finally:
            if not child.processes():
                note.remove()

    def _secrets(self, arm: Arm, own: Command, environment: Mapping[str, str]) -> list[str]:
        """Return the secret texts that a server is given, whoever gives them, longest first."""
        given = dataclasses.replace(arm, env={**self._options.variables, **arm.env})
        found = {
            *secrets_of(given),
            *secrets_of_words(self._options.arguments, lists=True),
            *secrets_of_words(self._options.command),
            *own.secrets,
            *secrets_of_environment(environment),
        }
        return sorted(found, key=lambda text: (-len(text), text))

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

    def _command(self, arm: Arm) -> Command:
        """Return what is started for an arm, the port left open."""
        model = resolve_model(arm.model, environment=self._options.environment)
        own = ("--model", model, "--served-model-name", served_name(arm.model))
        place = ("--host", "127.0.0.1", "--port", PORT)
        arguments = (*own, *place, *self._options.arguments, *engine_flags(self._resolved(arm)))
        command = Command(tuple(self._launcher(arm)), arguments)
        return dataclasses.replace(command, changed=self._options.change(arm, command.words))

    def _resolved(self, arm: Arm) -> dict[str, JsonValue]:
        """Return the arguments of an arm, with the folder of a draft model that is an embedded one.

        Raises:
            UsageError: that model is unknown, not prepared, or its folder is damaged.
        """
        config = arm.args.get("speculative_config")
        if not isinstance(config, dict) or not isinstance(drafter := config.get("model"), str):
            return arm.args
        model = resolve_model(drafter, environment=self._options.environment)
        return {**arm.args, "speculative_config": {**config, "model": model}}

    @staticmethod
    def _as_typed(own: Command, environment: Mapping[str, str]) -> str:
        """Return the command as a user would type it, without secrets."""
        settings = [shlex.quote(f"{name}={redacted(value, name=name)}") for name, value in environment.items()]
        return " ".join([*settings, own.typed])

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
        return {**_QUIET, **safe, **local, **faster, **self._options.variables, **arm.env}


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


def _refuse_stranger(child: Child, port: int) -> None:
    """Make sure that the process that answers is ours.

    Raises:
        ServerStartError: the port belongs to another process.
    """
    if held_by_others(port, ours=child.processes()):
        raise ServerStartError(f"another process answers on port {port}: {holder_of(port)}", log_tail=child.log_tail())


def _runs_python(child: Child) -> bool:
    """Whether a child is a Python program, which serves itself; who hands on to a container need not listen."""
    with contextlib.suppress(psutil.Error):
        return Path(psutil.Process(child.pid).exe()).name.startswith(("python", "pypy"))
    return False


def _own_processes() -> frozenset[int]:
    """Return the ids of this process and all that it has started."""
    own = psutil.Process()
    return frozenset({own.pid, *(process.pid for process in own.children(recursive=True))})


def _free_port() -> int:
    """Return a port that nothing answers on.

    Raises:
        ServerStartError: something does, though it seemed free.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    if answers(port):
        raise ServerStartError(f"port {port} is in use already, by {holder_of(port)}")
    return port
