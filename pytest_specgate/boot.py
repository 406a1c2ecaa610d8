"""One boot of a window: start a server, prove it, warm it up, and measure each of its points between two scrapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_specgate.core.confounds import CHANGED_COMMAND
from pytest_specgate.core.differences import STARTED_AS, StartUp
from pytest_specgate.core.errors import LoadError, ScrapeError, ServerDiedError, ServerError, ServerStartError
from pytest_specgate.core.identity import observed_fields, sent_hash
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.progress import Step
from pytest_specgate.core.proof import UNNAMED, UNSEEN, other_build, speculation_of, unproved, untold
from pytest_specgate.core.records import PointRecord
from pytest_specgate.core.redaction import redacted, redacted_arm
from pytest_specgate.core.resolved import flattened, gpus_of
from pytest_specgate.core.startup_log import startup_lines
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.validity import failed_requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.counters import CounterPage
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.ports import Ports, Server
    from pytest_specgate.core.profile import ProfileFields
    from pytest_specgate.core.records import PointLoad, RequestRecord
    from pytest_specgate.prompting import Prompter

_LEAVING_S: Final = 2.0
_REASONS: Final = {
    ServerDiedError: "server-died",
    ServerStartError: "server-start",
    ScrapeError: "page-unreadable",
    LoadError: "client-failed",
}


class Boot:
    """One boot of an arm while it runs.

    Attributes:
        arm: which is booted.
        command: what was started, as a user would type it; empty before.
        boot_s: from the start of the process to its first answer; `None` before, and where nobody saw it start.
        profile: the request profile as it was put on this server, as far as it came.
        resolved: what the server told of its speculation (method, model and k) and of its GPUs.
        startup: what the start is compared by; `None` when the server does not tell, or did not come that far.
        unproved: what nobody can prove of a server that was attached.
        points: those measured so far.
        left_running: whether the server could not be ended.
    """

    def __init__(self, ports: Ports, arm: Arm, *, prompter: Prompter) -> None:
        self._ports = ports
        self._prompter = prompter
        self._gpus: int | None = None
        self.arm = arm
        self.command = ""
        self.boot_s: float | None = None
        self.profile: ProfileFields = {}
        self.resolved: ProfileFields = {}
        self.startup: StartUp | None = None
        self.unproved: tuple[str, ...] = ()
        self.points: list[PointRecord] = []
        self.left_running = False

    def run(self) -> Failure | None:
        """Start the server and measure; trouble with it is returned, not raised: the first that occurred."""
        failure = None
        try:
            with self._ports.engine.start(self.arm) as server:
                self.command, self.boot_s = server.command, server.boot_s
                failure = self._served(server)
                words = "leaving its server" if server.attached else "stopping its server"
                self._ports.progress.step(Step("stopping", words=words))
        except ServerError as error:
            self.command = self.command or error.command
            self.left_running = not isinstance(error, ServerStartError)
            failure = failure or self._failure(error)
        return failure

    def _served(self, server: Server) -> Failure | None:
        try:
            try:
                return self._serve(server)
            except ScrapeError:
                server.ensure_alive()
                raise
        except (ServerError, ScrapeError, LoadError) as error:
            return self._failure(error)

    def _failure(self, error: ServerError | ScrapeError | LoadError) -> Failure:
        return Failure(
            reason=_REASONS.get(type(error), "server-not-stopped"),
            message=f"arm {self.arm.name}: {error}",
            detail=getattr(error, "log_tail", ""),
        )

    def _serve(self, server: Server) -> Failure | None:
        """Prove a fresh server, warm it up and measure its points."""
        page = self._ports.pages.counters(server)
        if (failure := self._disproved(server, page)) is not None:
            return failure
        prompts = self._prompter.requests(server)
        self.profile = self._prompter.fields(self.arm, server)
        self._ports.progress.step(Step("warm-up", requests=len(prompts.warmup)))
        warmup = self._send(server, prompts.warmup, at=1).requests
        self.profile["warmup_prompts_sha256"] = sent_hash(warmup)
        if bad := next((request for request in warmup if request.error), None):
            return Failure(reason="warm-up-failed", message=f"arm {self.arm.name}: warm-up failed: {bad.error}")
        page = self._settled(server, before=page, requests=warmup)
        for at, bodies in prompts.points.items():
            self._ports.progress.step(Step("point", at=at, requests=len(bodies)))
            point = self._point(server, bodies, at=at, before=page)
            self.points.append(point)
            if point.failed:
                return failed_requests(self.arm, point, log_tail=server.log_tail())
            page = point.after
        self.profile |= observed_fields(self.points)
        return None

    def _disproved(self, server: Server, page: CounterPage) -> Failure | None:
        """Take what a server tells of itself, and return why it is not the arm that was declared."""
        config = self._told(server)
        if config is not None:
            self._gpus, self.startup = gpus_of(config), self._startup(server, config)
            self.resolved = {"speculative_config": speculation_of(self.startup.config), "gpus": self._gpus}
        if server.attached and not page.models():
            self.unproved = (*self.unproved, UNNAMED)
        other = other_build(self.arm, self._ports.engine.facts(self.arm), version=page.version)
        return other or unproved(
            redacted_arm(self.arm),
            config=self.startup.config if self.startup else None,
            page=page,
            model=server.model,
            launched=not server.attached,
        )

    def _told(self, server: Server) -> dict[str, JsonValue] | None:
        """Return the configuration that a server resolved; an attached one need not tell."""
        self.unproved = UNSEEN if server.attached else ()
        try:
            return self._ports.pages.resolved_config(server)
        except ScrapeError as error:
            if not server.attached:
                raise
            self.unproved = (*UNSEEN, untold(str(error)))
            return None

    def _startup(self, server: Server, config: ProfileFields) -> StartUp:
        """Return what the start of a server is compared by, without secrets."""
        # Before it is flattened: only the name of the whole gives away that what lies deep inside it is a secret.
        known, settings = redacted(config), redacted(self._ports.pages.resolved_environment(server))
        assert isinstance(known, dict), "a mapping stays one"
        assert isinstance(settings, dict), "and so does the other"
        changed = self._ports.engine.facts(self.arm).get(CHANGED_COMMAND)
        own = {STARTED_AS: changed} if changed else {}
        return StartUp({**flattened(known, settings), **own}, startup_lines(server.startup_log()))

    def _point(self, server: Server, bodies: Sequence[bytes], *, at: Level, before: CounterPage) -> PointRecord:
        ours = server.process_ids()
        cpu_before = self._ports.host.other_cpu(ours)
        load = self._send(server, bodies, at=at)
        cpu_after = self._ports.host.other_cpu(ours)
        after = self._settled(server, before=before, requests=load.requests)
        point = PointRecord(
            at=at,
            requests=load.requests,
            gaps=load.gaps,
            client=load.client,
            before=before,
            after=after,
            gpus=self._gpus,
            other_cpu_share=cpu_after.share_since(cpu_before) if cpu_before and cpu_after else None,
            repetitiveness=self._prompter.repetitiveness(at),
        )
        return point.model_copy(update={"added": self._ports.added.values(point)})

    def _send(self, server: Server, bodies: Sequence[bytes], *, at: Level) -> PointLoad:
        load = self._ports.load.run_point(server, bodies, at=at, profile=self._prompter.profile)
        failed = sum(request.error is not None for request in load.requests)
        try:
            # A dying server breaks its connections before it leaves.
            server.ensure_alive(wait_s=_LEAVING_S if failed else 0.0)
        except ServerDiedError as error:
            text = f"{error}; {failed} of {len(load.requests)} requests at {level_label(at)} failed"
            raise ServerDiedError(text, exit_code=error.exit_code, log_tail=error.log_tail) from None
        return load

    def _settled(self, server: Server, *, before: CounterPage, requests: Sequence[RequestRecord]) -> CounterPage:
        if any(request.error is not None for request in requests):
            # Its tokens are unknown, so the counts cannot be expected to agree; the point is invalid in any case.
            return self._page_or(before, server)
        tokens = sum(request.output_tokens or 0 for request in requests)
        return self._ports.pages.settled_counters(server, before=before, output_tokens=tokens)

    def _page_or(self, before: CounterPage, server: Server) -> CounterPage:
        try:
            return self._ports.pages.counters(server)
        except ScrapeError:
            return before
