"""The wiring of a session to the real adapters: servers on this machine, files in the project."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.adapters.attached import AttachingEngine, check_addresses
from pytest_specgate.adapters.client import HttpLoadDriver
from pytest_specgate.adapters.commit import commit_of
from pytest_specgate.adapters.engines import IMAGE_DIGEST
from pytest_specgate.adapters.host import LocalHost
from pytest_specgate.adapters.job_devices import JobDevices
from pytest_specgate.adapters.leftovers import Leftovers
from pytest_specgate.adapters.lock_folder import lock_folder
from pytest_specgate.adapters.locks import MachineLock
from pytest_specgate.adapters.processes import DEFAULT_LIMITS
from pytest_specgate.adapters.progress import WatchedProgress, unwatched
from pytest_specgate.adapters.prompts import LocalPrompts, check_files
from pytest_specgate.adapters.scrape import HttpPages
from pytest_specgate.adapters.server import EngineOptions, VllmEngine
from pytest_specgate.adapters.state import ServerNotes, state_folder
from pytest_specgate.adapters.storage import FileStore, NoiseFile, latest_records, window_name
from pytest_specgate.baseline_wiring import SessionBaselines, short
from pytest_specgate.core.arms import arms_of
from pytest_specgate.core.calibration import window_of
from pytest_specgate.core.confounds import CHANGED_COMMAND, CHANGED_COMMANDS
from pytest_specgate.core.durations import boot_seconds
from pytest_specgate.core.errors import InvalidError, ServerStartError
from pytest_specgate.core.hosts import facts_of, host_class
from pytest_specgate.core.measured import Calibrated, MeasuredWindow
from pytest_specgate.core.ports import Ports
from pytest_specgate.core.redaction import redacted
from pytest_specgate.core.secret_words import redacted_words
from pytest_specgate.project_hooks import no_hooks
from pytest_specgate.resume_wiring import SessionHistory
from pytest_specgate.window import calibrate, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.adapters.progress import Watch
    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.baseline_update import Update
    from pytest_specgate.core.baselines import KnownBaseline
    from pytest_specgate.core.calibration import NoiseBook
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.ports import Server
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import ArmNoise
    from pytest_specgate.core.resume import TakenOver
    from pytest_specgate.core.thresholds import BaselineThreshold
    from pytest_specgate.options import GateOptions
    from pytest_specgate.project_hooks import ProjectHooks
    from pytest_specgate.session_window import Unclaimed
    from pytest_specgate.window import CalibrationPlan, WindowPlan

VETOED: Final = "host-vetoed"
"""Reason code of what is not measured since the project refuses this machine."""

_LOOKED_AT: Final = 5
"""Records that are read for the time of a boot: a window does not wait for the reading of all that ever ran."""


@dataclasses.dataclass(slots=True)
class _KeptServer:
    """The server that `vllm_server` handed out last."""

    arm: Arm
    server: Server
    stack: contextlib.ExitStack


class LocalWiring:
    """Wires the session to real servers on this machine, and to the files of the project."""

    def __init__(  # noqa: PLR0913  - what a session is told, and how it tells
        self,
        options: GateOptions,
        *,
        root: Path,
        say: Callable[[str], None],
        watch: Watch | None = None,
        hooks: ProjectHooks | None = None,
        before_server: Callable[[], None] = lambda: None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._options = options
        self._root = root
        self._environment = environment
        self._kept: _KeptServer | None = None
        self._servers: AttachingEngine | None = None
        self._dead: list[tuple[Arm, ServerStartError]] = []
        self._until_s: float | None = None
        self._say = say
        self._hooks = hooks or no_hooks()
        self._watch = watch or unwatched
        self._before_server = before_server

    @functools.cached_property
    def _lock(self) -> MachineLock:
        """The right to use the machine: one object for the session, which may take it again and again."""
        folder = lock_folder(self._environment, say=self._say)
        return MachineLock(self._options.devices, folder=folder, wait_s=self._options.lock_wait_s, say=self._say)

    @functools.cached_property
    def _devices(self) -> JobDevices:
        """The devices of this job: one object for the session, which tells only once what cannot be checked."""
        options = self._options
        return JobDevices(options.devices, variables=options.engine_env, environment=self._environment, say=self._say)

    def _check_devices(self, arms: Iterable[Arm]) -> None:
        self._devices.check(arm for arm in arms if arm.name not in self._options.attach)

    @functools.cached_property
    def _leftovers(self) -> Leftovers:
        """What could not be ended: one object for the session, so that nothing is started beside it, by whomever."""
        return Leftovers()

    def check(self, pairs: Sequence[ArmPair]) -> None:
        """Raise `UsageError` for what would stop a pair from being measured."""
        check_files([pair.profile for pair in pairs], root=self._root)
        names = {arm.name for pair in pairs for arm in pair.arms}
        check_addresses(self._options.attach, arms=names, say=self._say)
        self._check_devices(arm for pair in pairs for arm in pair.arms)
        engine = self._engine(self._options.results)
        for pair in pairs:
            for arm in pair.arms:
                engine.check(arm)
            engine.check_pair(pair)

    @functools.cached_property
    def _host(self) -> LocalHost:
        return LocalHost(gpus=self._devices.facts)

    @functools.cached_property
    def _noise_file(self) -> NoiseFile:
        """The calibrations of this class of machine."""
        return NoiseFile(self._options.baselines, self._host_class)

    @functools.cached_property
    def _host_class(self) -> str:
        """The class of this machine: by its facts, unless the user names it."""
        return self._options.host_class or host_class(facts_of(self._host.facts()))

    @functools.cached_property
    def _baselines(self) -> SessionBaselines:
        return SessionBaselines(self._options, host_class=self._host_class, settings=self._settings_of)

    @functools.cached_property
    def _history(self) -> SessionHistory:
        """What earlier windows mean for this session; the project's commit is that before it writes anything."""
        return SessionHistory(
            self._options.results,
            host=self._host,
            host_class=self._host_class,
            settings=self._settings_of,
            commit=commit_of(self._root, self._environment),
        )

    def resumed(self, record: Path, plans: Sequence[WindowPlan]) -> tuple[int, TakenOver]:
        """Return which window goes on with the record of one that died, by its place, and what it takes over."""
        return self._history.resumed(record, plans, self._engine(self._options.results))

    def baselines(self, gates: Iterable[Gate]) -> tuple[KnownBaseline, ...]:
        """Return what is known of the baselines that some gates are judged against.

        Raises:
            RecordError: one cannot be read.
        """
        return self._baselines.known(gates)

    def baseline_update(self, gate: Gate, thresholds: Sequence[BaselineThreshold], measured: MeasuredWindow) -> Update:
        """Return what a measured window would change in the baseline of a gate; nothing is written."""
        return self._baselines.update(gate, thresholds, measured, now=self._host.now())

    def save_baseline(self, update: Update) -> str:
        """Write an update, and return the path of its file."""
        return self._baselines.save(update)

    def unclaimed_baselines(self, gates: Iterable[Gate], *, gone: Callable[[str], bool]) -> Iterator[Unclaimed]:
        """Yield what no gate claims in the baseline files of all classes of machine."""
        return self._baselines.unclaimed(gates, gone=gone)

    def prune_baseline(self, unclaimed: Unclaimed) -> None:
        """Remove what no gate claims."""
        self._baselines.prune(unclaimed)

    def noise(self, arms: Sequence[Arm], profile: RequestProfile) -> tuple[ArmNoise, ...]:
        """Return the calibrations of this machine that apply to some arms; none where one of them runs elsewhere.

        Raises:
            RecordError: the file with them cannot be read.
        """
        if not self._options.has_calibrations or any(arm.name in self._options.attach for arm in arms):
            return ()
        return self._noises(self._noise_file.load(), arms, profile)

    def _noises(self, book: NoiseBook, arms: Iterable[Arm], profile: RequestProfile) -> tuple[ArmNoise, ...]:
        found = (book.noises([arm], profile, settings=self._settings_of_arm(arm)) for arm in arms)
        return tuple(itertools.chain.from_iterable(found))

    @property
    def _settings(self) -> dict[str, JsonValue]:
        """What every server of the session is given, without secrets: calibrations do not cross it."""
        options = self._options
        return {
            "args": [*redacted_words(list(options.engine_args), lists=True)],
            "env": {name: redacted(value, name=name) for name, value in options.engine_env.items()},
            "command": [*redacted_words(list(options.engine_command), lists=False)],
        }

    def _settings_of(self, arms: Iterable[Arm]) -> dict[str, JsonValue]:
        """Return what the servers of some arms are given, with what the project makes of their commands, by name."""
        changed: dict[str, JsonValue] = {arm.name: change for arm in arms if (change := self._change(arm))}
        return {**self._settings, **({CHANGED_COMMANDS: changed} if changed else {})}

    def _settings_of_arm(self, arm: Arm) -> dict[str, JsonValue]:
        """Return what the servers of an arm are given, whatever it is called."""
        change = self._change(arm)
        return {**self._settings, **({CHANGED_COMMAND: change} if change else {})}

    def _change(self, arm: Arm) -> str:
        return self._engine(self._options.results).changed_command(arm) if self._hooks.changes else ""

    def boot_seconds(self, arms: Sequence[Arm], profile: RequestProfile) -> Mapping[str, float] | None:
        """Return what a boot of each arm took in the latest window that tells; `None` where none of the last does."""
        records = itertools.islice(latest_records(self._options.results, profile), _LOOKED_AT)
        return next((found for record in records if (found := boot_seconds(arms, record)) is not None), None)

    def measure(self, plan: WindowPlan, say: Callable[[str], None]) -> MeasuredWindow:
        """Measure a window; its record and the logs of its servers go into a folder of its own.

        Raises:
            InvalidError: the project refuses this machine.
        """
        self._refuse_vetoed_host()
        within, times = plan, self.boot_seconds(arms_of(plan.pairs), plan.profile) or {}
        if (until_s := self._deadline_s()) is not None:
            within = dataclasses.replace(within, until_s=until_s, round_s=math.fsum(times.values()))
        with self._ports(plan.profile, say, earlier=times) as (ports, path):
            facts = self._history.facts(plan, ports.engine, record=Path(path))
            return MeasuredWindow(measure(dataclasses.replace(within, facts=facts), ports), path)

    def calibrate(self, plan: CalibrationPlan, say: Callable[[str], None]) -> Calibrated:
        """Run A/A windows, and add what they tell to the calibrations of this machine.

        Raises:
            InvalidError: nothing can be told of any of the arms, or the project refuses this machine.
            RecordError: the file with the calibrations cannot be read.
        """
        self._refuse_vetoed_host()
        self._noise_file.load()
        times = self.boot_seconds(plan.arms, plan.profile) or {}
        with self._ports(plan.profile, say, earlier=times) as (ports, path):
            record = calibrate(dataclasses.replace(plan, until_s=self._deadline_s()), ports)
            book, problems = self._noise_file.load(), dict[str, str]()
            for arm in plan.arms:
                try:
                    window = window_of(arm, record)
                except InvalidError as error:
                    problems[arm.name] = str(error)
                else:
                    book = book.with_window(arm, plan.profile, window, settings=self._settings_of_arm(arm))
            if len(problems) == len(plan.arms):
                raise InvalidError(f"{'; '.join(problems.values())} (record: {path})")
            self._noise_file.save(book)
        noises = self._noises(book, plan.arms, plan.profile)
        return Calibrated(record, path, short(self._noise_file.path), noises, problems)

    @functools.cached_property
    def vetoes(self) -> tuple[str, ...]:
        """Why the project refuses to measure on this machine; empty where it does not."""
        return self._hooks.vetoes(self._host.facts)

    def _refuse_vetoed_host(self) -> None:
        if self.vetoes:
            text = f"nothing is measured on this host: {'; '.join(self.vetoes)}"
            raise InvalidError(f"INVALID ({VETOED}): {text}", reason=VETOED)

    def _deadline_s(self) -> float | None:
        """Return when the budget of the session ends, counted from the first time that this is asked."""
        if self._options.budget_s is not None and self._until_s is None:
            self._until_s = self._host.clock_s() + self._options.budget_s
        return self._until_s

    @contextlib.contextmanager
    def _ports(
        self, profile: RequestProfile, say: Callable[[str], None], *, earlier: Mapping[str, float]
    ) -> Iterator[tuple[Ports, str]]:
        """Give the outside world to a window, and the place of its record."""
        folder = self._options.results / window_name(self._host.now(), profile)
        store = FileStore(folder)
        progress = WatchedProgress(say, clock_s=self._host.clock_s, earlier=earlier)
        with self._lock:
            ports = Ports(
                engine=self._engine(folder),
                load=HttpLoadDriver(keep_answers=self._options.keep_answers, chunk_times=self._options.chunk_times),
                pages=HttpPages(series=self._hooks.added.series),
                prompts=LocalPrompts(self._root),
                host=self._host,
                store=store,
                progress=progress,
                added=self._hooks.added,
            )
            try:
                with progress.shown(self._watch):
                    yield ports, short(store.path)
            except KeyboardInterrupt as error:
                error.add_note(f"what was measured so far is in {short(store.path)}")
                say(f"interrupted; what was measured so far is in {short(store.path)}")
                say(f"to go on after its last whole round: the same run, and --specgate-resume={short(store.path)}")
                raise

    def server(self, arm: Arm) -> Server:
        """Return a running server of an arm; another arm's is stopped first.

        Raises:
            InvalidError: the project refuses this machine.
        """
        self._refuse_vetoed_host()
        if self._kept is not None and self._kept.arm.key == arm.key:
            self._kept.server.ensure_alive()
            return self._kept.server
        self.stop_server()
        for dead, error in self._dead:
            if dead.key == arm.key:
                raise error
        return self._start(arm)

    def _start(self, arm: Arm) -> Server:
        if self._servers is None:
            self._servers = self._engine(self._options.results / f"servers-{os.getpid()}")
        self._servers.check(arm)
        self._check_devices([arm])
        self._say(f"{arm.name}: {self._servers.intent(arm)}")
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
        options = self._options
        launcher = self._launcher(log_folder)
        return AttachingEngine(
            options.attach, launcher=launcher, wait_s=options.start_limit_s, before=self._before_server
        )

    def _launcher(self, log_folder: Path) -> VllmEngine:
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
                change=self._hooks.change,
            )
        )
