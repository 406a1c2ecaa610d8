"""Fixtures of gate files, and the wiring of the session to the real adapters."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.options import OPTIONS_KEY
from pytest_specgate.translate import one_sentence, teller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pytest_specgate.adapters.attached import AttachingEngine
    from pytest_specgate.adapters.job_devices import JobDevices
    from pytest_specgate.adapters.leftovers import Leftovers
    from pytest_specgate.adapters.locks import MachineLock
    from pytest_specgate.adapters.server import VllmEngine
    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.errors import ServerStartError
    from pytest_specgate.core.measured import MeasuredWindow
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.options import GateOptions
    from pytest_specgate.session import GateSession
    from pytest_specgate.window import WindowPlan

SESSION_KEY: pytest.StashKey[GateSession] = pytest.StashKey()


def session_of(config: pytest.Config) -> GateSession:
    """Return the gates of a pytest session; they come into being when something first asks for them."""
    if SESSION_KEY not in config.stash:
        from pytest_specgate.session import GateSession  # noqa: PLC0415  - only gates pay for it

        options = config.stash[OPTIONS_KEY]
        workers = getattr(config, "workerinput", {}).get("workercount", 1)
        config.stash[SESSION_KEY] = GateSession(
            options,
            LocalWiring(options, root=config.rootpath, say=teller(config)),
            workers=workers,
            say=teller(config),
        )
    return config.stash[SESSION_KEY]


@pytest.fixture
def specgate_threshold(request: pytest.FixtureRequest) -> AnyThreshold:
    """The threshold that this item of a gate judges."""
    threshold: AnyThreshold = request.param
    return threshold


@pytest.fixture
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """The verdict of this item's threshold; ``verdict.expect(Outcome.FAIL)`` accepts another outcome than PASS."""
    session = session_of(request.config)
    with one_sentence():
        own = session.verdict(request.node)
    # A rerun of the test declares anew what it expects.
    own.expect_pass()
    return own


@pytest.fixture
def specgate_window(request: pytest.FixtureRequest) -> MeasuredWindow:
    """Everything that was measured for this test's pair: of its gate, or of ``@measured(pair)``."""
    with one_sentence():
        return session_of(request.config).readable(request.node)


@pytest.fixture(scope="session")
def vllm_server(request: pytest.FixtureRequest) -> Iterator[Callable[[Arm], Server]]:
    """A function that returns a running server of an arm: ``vllm_server(OFF).url``.

    The server is kept for the next test that asks for the same arm. One server runs at a time: asking for another arm,
    or measuring a window, stops it first.
    """
    session = session_of(request.config)
    yield session.server
    session.close()


@dataclasses.dataclass(slots=True)
class _KeptServer:
    """The server that `vllm_server` handed out last."""

    arm: Arm
    server: Server
    stack: contextlib.ExitStack


class LocalWiring:
    """Wires the session to real servers on this machine. Adapters are imported when they are first needed."""

    def __init__(
        self,
        options: GateOptions,
        *,
        root: Path,
        say: Callable[[str], None],
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._options = options
        self._root = root
        self._environment = environment
        self._kept: _KeptServer | None = None
        self._servers: AttachingEngine | None = None
        self._dead: list[tuple[Arm, ServerStartError]] = []
        self._say = say

    @functools.cached_property
    def _lock(self) -> MachineLock:
        """The right to use the machine: one object for the session, which may take it again and again."""
        from pytest_specgate.adapters.lock_folder import lock_folder  # noqa: PLC0415  - only gates pay for it
        from pytest_specgate.adapters.locks import MachineLock  # noqa: PLC0415

        folder = lock_folder(self._environment, say=self._say)
        return MachineLock(self._options.devices, folder=folder, wait_s=self._options.lock_wait_s, say=self._say)

    @functools.cached_property
    def _devices(self) -> JobDevices:
        """The devices of this job: one object for the session, which tells only once what cannot be checked."""
        from pytest_specgate.adapters.job_devices import JobDevices  # noqa: PLC0415  - only gates pay for it

        options = self._options
        return JobDevices(options.devices, variables=options.engine_env, environment=self._environment, say=self._say)

    def _check_devices(self, arms: Iterable[Arm]) -> None:
        self._devices.check(arm for arm in arms if arm.name not in self._options.attach)

    @functools.cached_property
    def _leftovers(self) -> Leftovers:
        """What could not be ended: one object for the session, so that nothing is started beside it, by whomever."""
        from pytest_specgate.adapters.leftovers import Leftovers  # noqa: PLC0415  - only gates pay for it

        return Leftovers()

    def check(self, pairs: Sequence[ArmPair]) -> None:
        """Raise `UsageError` for what would stop a pair from being measured."""
        from pytest_specgate.adapters.attached import check_addresses  # noqa: PLC0415  - only gates pay for it
        from pytest_specgate.adapters.prompts import check_files  # noqa: PLC0415

        check_files([pair.profile for pair in pairs], root=self._root)
        names = {arm.name for pair in pairs for arm in pair.arms}
        check_addresses(self._options.attach, arms=names, say=self._say)
        self._check_devices(arm for pair in pairs for arm in pair.arms)
        engine = self._engine(self._options.results)
        for pair in pairs:
            for arm in pair.arms:
                engine.check(arm)
            engine.check_pair(pair)

    def measure(self, plan: WindowPlan, say: Callable[[str], None]) -> MeasuredWindow:
        """Measure a window; its record and the logs of its servers go into a folder of its own."""
        from pytest_specgate.adapters.client import HttpLoadDriver  # noqa: PLC0415  - only gates pay for it
        from pytest_specgate.adapters.host import LocalHost  # noqa: PLC0415
        from pytest_specgate.adapters.prompts import LocalPrompts  # noqa: PLC0415
        from pytest_specgate.adapters.scrape import HttpPages  # noqa: PLC0415
        from pytest_specgate.adapters.storage import FileStore, window_name  # noqa: PLC0415
        from pytest_specgate.core.measured import MeasuredWindow  # noqa: PLC0415
        from pytest_specgate.core.ports import Ports  # noqa: PLC0415
        from pytest_specgate.window import measure  # noqa: PLC0415

        host = LocalHost(gpus=self._devices.facts)
        folder = self._options.results / window_name(host.now(), plan.profile)
        store = FileStore(folder)
        with self._lock, contextlib.closing(HttpPages()) as pages:
            ports = Ports(
                engine=self._engine(folder),
                load=HttpLoadDriver(),
                pages=pages,
                prompts=LocalPrompts(self._root),
                host=host,
                store=store,
                progress=_Progress(say),
            )
            try:
                return MeasuredWindow(measure(plan, ports), _short(store.path))
            except KeyboardInterrupt:
                say(f"interrupted; what was measured so far is in {_short(store.path)}")
                raise

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm; another arm's is stopped first."""
        if self._kept is not None and self._kept.arm.key == arm.key:
            self._kept.server.ensure_alive()
            return self._kept.server
        self.stop_server()
        for dead, error in self._dead:
            if dead.key == arm.key:
                raise error
        return self._start(arm)

    def _start(self, arm: Arm) -> Server:
        from pytest_specgate.core.errors import ServerStartError  # noqa: PLC0415  - only gates pay for it

        if self._servers is None:
            self._servers = self._engine(self._options.results / f"servers-{os.getpid()}")
        self._servers.check(arm)
        self._check_devices([arm])
        if arm.name not in self._options.attach:
            self._say(f"{arm.name}: starting its server")
        stack = contextlib.ExitStack()
        try:
            server = stack.enter_context(self._servers.start(arm))
        except ServerStartError as error:
            # It would take as long to fail for the next test that asks for it; a machine in use may be free by then.
            if error.command:
                self._dead.append((arm, error))
            raise
        self._kept = _KeptServer(arm, server, stack)
        return server

    def stop_server(self) -> None:
        """Stop the server that `server` started, if it still runs."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.stack.close()

    def _engine(self, log_folder: Path) -> AttachingEngine:
        from pytest_specgate.adapters.attached import AttachingEngine  # noqa: PLC0415  - only gates pay for it

        options = self._options
        launcher = self._launcher(log_folder)
        return AttachingEngine(options.attach, launcher=launcher, wait_s=options.start_limit_s)

    def _launcher(self, log_folder: Path) -> VllmEngine:
        from pytest_specgate.adapters.engines import IMAGE_DIGEST  # noqa: PLC0415  - only gates pay for it
        from pytest_specgate.adapters.processes import DEFAULT_LIMITS  # noqa: PLC0415
        from pytest_specgate.adapters.server import EngineOptions, VllmEngine  # noqa: PLC0415
        from pytest_specgate.adapters.state import ServerNotes, state_folder  # noqa: PLC0415

        image = {IMAGE_DIGEST: self._options.image_digest} if self._options.image_digest else {}
        limits = DEFAULT_LIMITS.scaled(self._options.stop_limit_s)
        return VllmEngine(
            EngineOptions(
                python=self._options.engine_python,
                command=self._options.engine_command,
                environment={**self._environment, **image},
                start_limit_s=self._options.start_limit_s,
                log_folder=log_folder,
                arguments=self._options.engine_args,
                # What a job has to itself is also all that its servers see.
                variables={**self._devices.variables, **self._options.engine_env},
                limits=limits,
                lock=self._lock,
                leftovers=self._leftovers,
                notes=ServerNotes(state_folder(self._environment) / "servers", say=self._say, limits=limits),
                memory=self._devices.memory,
                say=self._say,
            )
        )


def _short(path: Path) -> str:
    """Return a path as a user in this folder would type it."""
    here = path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


@dataclasses.dataclass(frozen=True, slots=True)
class _Progress:
    """Port `Progress`: hands lines on."""

    say: Callable[[str], None]
