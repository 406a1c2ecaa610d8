"""The use case: drive all boots of a window through the ports and return its record.

One server at a time; each arm once a round, in an order that reverses every round; every point between two counter
scrapes. Whatever goes wrong with a server becomes part of the record, so that the judge can name it.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core.arms import arms_of, boot_order
from pytest_specgate.core.corpus import build_prompts
from pytest_specgate.core.differences import StartUp, compacted
from pytest_specgate.core.errors import (
    LoadError,
    ScrapeError,
    ServerDiedError,
    ServerError,
    ServerStartError,
    UsageError,
)
from pytest_specgate.core.identity import observed_fields, sent_hash
from pytest_specgate.core.judge import judge, needs_more_rounds
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import DEFINITION_VERSION
from pytest_specgate.core.profile import declared_fields, messages_of, sha256_of, sha256_of_text
from pytest_specgate.core.prompt_files import PromptFile, token_ids
from pytest_specgate.core.records import (
    BootRecord,
    Failure,
    PairRecord,
    PointRecord,
    StartUpRecord,
    WindowRecord,
    redacted,
    redacted_arm,
    redacted_profile,
)
from pytest_specgate.core.resolved import disproved, flattened, gpus_of
from pytest_specgate.core.startup_log import startup_lines
from pytest_specgate.core.validity import NOT_AS_DECLARED, failed_requests, unproved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.corpus import PromptSet
    from pytest_specgate.core.counters import CounterPage
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.ports import Ports, Server
    from pytest_specgate.core.profile import ProfileFields, RequestProfile
    from pytest_specgate.core.prompt_files import Prompt
    from pytest_specgate.core.records import PointLoad, RequestRecord

TOKENIZER_PROBE = 'Straße, naïve café: 12345 tokens — {"key": [1.5, true]}\n\tdef f(x): return x ** 2 # 漢字'
"""A text whose token ids tell tokenizers apart."""

TEMPLATE_PROBE: list[JsonValue] = [
    {"role": "user", "content": TOKENIZER_PROBE},
    {"role": "assistant", "content": "42"},
    {"role": "user", "content": " Why? "},
]
"""A conversation whose token ids tell chat templates apart."""

_LEAVING_S = 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class WindowPlan:
    """What a window has to measure.

    Attributes:
        pairs: all with one profile; a pair without a gate is measured for all of its rounds.
        gates: gates on these pairs; a pair whose gates are all decided boots no more.
        strict: whether engine-induced differences that a pair does not allow make it INVALID.
    """

    pairs: tuple[ArmPair, ...]
    gates: tuple[Gate, ...]
    strict: bool = False

    def __post_init__(self) -> None:
        if len({pair.profile.fingerprint() for pair in self.pairs}) != 1:
            raise UsageError("the pairs of one window must share one request profile")
        arms_of(self.pairs)

    @property
    def profile(self) -> RequestProfile:
        """The load of every pair."""
        return self.pairs[0].profile

    @property
    def rounds(self) -> int:
        """Rounds at most."""
        return max(pair.rounds for pair in self.pairs)

    def open_pairs(self, record: WindowRecord, *, rounds_done: int) -> tuple[ArmPair, ...]:
        """Return the pairs that need another round."""
        return tuple(pair for pair in self.pairs if rounds_done < pair.rounds and self._open(pair, record))

    def broken(self, pair: ArmPair, record: WindowRecord) -> bool:
        """Whether a boot of a pair failed: it is invalid then, and more boots would only cost time."""
        return any(boot.failure for boots in record.boots_for(pair) for boot in boots)

    def _open(self, pair: ArmPair, record: WindowRecord) -> bool:
        if not record.boots:
            return True
        if self.broken(pair, record):
            return False
        own = [gate for gate in self.gates if gate.pair.key == pair.key]
        return not own or any(needs_more_rounds(judge(gate, record, final=False)) for gate in own)


def measure(plan: WindowPlan, ports: Ports) -> WindowRecord:
    """Measure a window; its record is stored after every boot, so also when this is interrupted.

    Raises:
        UsageError: something in the declaration cannot be carried out (no prompt of this length, say).
    """
    return _Window(plan, ports).run()


class _Window:
    """A window while it runs."""

    def __init__(self, plan: WindowPlan, ports: Ports) -> None:
        self._plan = plan
        self._ports = ports
        self._prompts: PromptSet | None = None
        self._left_running = False
        self._first_start: StartUp | None = None
        arms = arms_of(plan.pairs)
        self._record = WindowRecord(
            created_at=ports.host.now(),
            finished=False,
            strict=plan.strict,
            arms=tuple(map(redacted_arm, arms)),
            pairs=tuple(map(PairRecord.of, plan.pairs)),
            profile=redacted_profile(plan.profile),
            host=ports.host.facts(),
            engine={arm.name: ports.engine.facts(arm) for arm in arms},
        )

    def run(self) -> WindowRecord:
        self._keep()
        for number in range(1, self._plan.rounds + 1):
            pairs = self._plan.open_pairs(self._record, rounds_done=number - 1)
            for position, arm in enumerate(boot_order(arms_of(pairs), number)):
                self._boot_for(pairs, arm, number=number, position=position)
        verdicts = [verdict for gate in self._plan.gates for verdict in judge(gate, self._record)]
        self._keep(finished=True, verdicts=tuple(verdict.model_dump(mode="json") for verdict in verdicts))
        return self._record

    def _boot_for(self, pairs: Sequence[ArmPair], arm: Arm, *, number: int, position: int) -> None:
        """Boot an arm for those pairs of a round that can still become valid.

        Nothing more is booted beside a server that could not be ended: two would share the machine.
        """
        own = [pair for pair in pairs if arm in pair.arms and not self._plan.broken(pair, self._record)]
        if self._left_running or not own:
            return
        self._say(f"round {number} of {self._plan.rounds}: {arm.name}: starting its server")
        titles = tuple(pair.title for pair in pairs if arm in pair.arms)
        boot = self._boot(arm, number=number, position=position, pairs=titles)
        self._keep(boots=(*self._record.boots, boot))

    def _keep(self, **changes: object) -> None:
        self._record = self._record.model_copy(update=changes)
        self._ports.store.save(self._record)

    def _say(self, line: str) -> None:
        self._ports.progress.say(line)

    def _boot(self, arm: Arm, *, number: int, position: int, pairs: tuple[str, ...]) -> BootRecord:
        boot = _Boot(self._ports, arm)
        started_at = self._ports.host.now()
        host_before = self._ports.host.facts()
        failure = boot.attempt(self._serve)
        self._left_running = boot.left_running
        if failure is not None:
            self._say(failure.message)
        return BootRecord(
            arm=arm.name,
            round=number,
            position=position,
            pairs=pairs,
            command=boot.command,
            started_at=started_at,
            boot_s=boot.boot_s,
            profile=boot.profile,
            resolved=boot.resolved,
            startup=self._kept(boot.startup),
            host_before=host_before,
            host_after=self._ports.host.facts(),
            points=tuple(boot.points),
            failure=failure,
        )

    def _serve(self, boot: _Boot, server: Server) -> Failure | None:
        """Prove a fresh server, warm it up and measure its points."""
        page = self._ports.pages.counters(server)
        config = self._ports.pages.resolved_config(server)
        gpus = gpus_of(config)
        boot.startup = self._startup(server, config)
        boot.resolved = {"speculative_config": config.get("speculative_config"), "gpus": gpus}
        if disproof := disproved(redacted_arm(boot.arm).args, boot.startup.config, env=redacted_arm(boot.arm).env):
            text = f"arm {boot.arm.name}: {'; '.join(proof.sentence for proof in disproof)}"
            return Failure(reason=NOT_AS_DECLARED, message=text)
        failure = unproved(boot.arm, speculative_config=config.get("speculative_config"), page=page, model=server.model)
        if failure is not None:
            return failure
        prompts = self._prompts = self._prompts or self._build_prompts(server)
        boot.profile = self._profile_fields(boot.arm, server, prompts)
        warmup = self._send(server, prompts.warmup, at=1).requests
        boot.profile["warmup_prompts_sha256"] = sent_hash(warmup)
        if bad := next((request for request in warmup if request.error), None):
            return Failure(reason="warm-up-failed", message=f"arm {boot.arm.name}: warm-up failed: {bad.error}")
        page = self._settled(server, before=page, requests=warmup)
        for at, bodies in prompts.points.items():
            self._say(f"{boot.arm.name}: {level_label(at)}, {len(bodies)} requests")
            point = self._point(server, bodies, at=at, before=page, gpus=gpus)
            boot.points.append(point)
            if point.failed:
                return failed_requests(boot.arm, point, log_tail=server.log_tail())
            page = point.after
        boot.profile |= observed_fields(boot.points)
        return None

    def _startup(self, server: Server, config: ProfileFields) -> StartUp:
        """Return what the start of a server is compared by, without secrets."""
        flat = redacted(flattened(config, self._ports.pages.resolved_environment(server)))
        assert isinstance(flat, dict), "a mapping stays one"
        return StartUp(flat, startup_lines(server.startup_log()))

    def _kept(self, start: StartUp | None) -> StartUpRecord | None:
        """Return what is stored of a start: of all but the first, what differs from the first."""
        if start is None:
            return None
        self._first_start = self._first_start or start
        kept = start if self._first_start is start else compacted(start, first=self._first_start)
        return StartUpRecord(config=dict(kept.config), lines=dict(kept.lines))

    def _point(
        self, server: Server, bodies: Sequence[bytes], *, at: Level, before: CounterPage, gpus: int | None
    ) -> PointRecord:
        ours = server.process_ids()
        cpu_before = self._ports.host.other_cpu(ours)
        load = self._send(server, bodies, at=at)
        cpu_after = self._ports.host.other_cpu(ours)
        after = self._settled(server, before=before, requests=load.requests)
        share = cpu_after.share_since(cpu_before) if cpu_before and cpu_after else None
        return PointRecord(
            at=at,
            requests=load.requests,
            gaps=load.gaps,
            client=load.client,
            before=before,
            after=after,
            gpus=gpus,
            other_cpu_share=share,
            repetitiveness=self._prompts.repetitiveness.get(at) if self._prompts else None,
        )

    def _send(self, server: Server, bodies: Sequence[bytes], *, at: Level) -> PointLoad:
        load = self._ports.load.run_point(server, bodies, at=at, profile=self._plan.profile)
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

    def _build_prompts(self, server: Server) -> PromptSet:
        profile = self._plan.profile
        length = "" if profile.input_tokens is None else f" of {profile.input_tokens} tokens"
        self._say(f"making prompts{length} from {profile.source}")
        named = profile.prompts
        source = (
            self._ports.prompts.file(named.name) if isinstance(named, PromptFile) else self._ports.prompts.text(named)
        )
        return build_prompts(
            profile,
            source=source,
            source_sha256=sha256_of_text(source),
            model=server.model,
            tokenize=lambda prompt: self._tokenize(server, prompt),
        )

    def _tokenize(self, server: Server, prompt: Prompt) -> Sequence[int]:
        """Return the token ids that the server makes of a prompt."""
        profile, pages = self._plan.profile, self._ports.pages
        if profile.api == "chat":
            return pages.tokenize_chat(server, messages_of(prompt), profile.extra_body)
        return pages.tokenize(server, prompt) if isinstance(prompt, str) else token_ids(prompt)

    def _chat_template_sha256(self, server: Server) -> str | None:
        """Return the hash of what the chat template makes of a probe; `None` where no template is used."""
        if self._plan.profile.api != "chat":
            return None
        return sha256_of([*self._tokenize(server, TEMPLATE_PROBE)])

    def _profile_fields(self, arm: Arm, server: Server, prompts: PromptSet) -> ProfileFields:
        return {
            **declared_fields(self._plan.profile),
            "prompt_source_sha256": prompts.source_sha256,
            "model": arm.model,
            "revision": arm.args.get("revision"),
            "tokenizer_sha256": sha256_of(list(self._ports.pages.tokenize(server, TOKENIZER_PROBE))),
            "chat_template_sha256": self._chat_template_sha256(server),
            "client_version": self._ports.host.client_version(),
            "metric_definition_version": DEFINITION_VERSION,
        }


class _Boot:
    """One boot while it runs: what is known of it so far."""

    def __init__(self, ports: Ports, arm: Arm) -> None:
        self._ports = ports
        self.arm = arm
        self.command = ""
        self.boot_s: float | None = None
        self.profile: ProfileFields = {}
        self.resolved: ProfileFields = {}
        self.startup: StartUp | None = None
        self.points: list[PointRecord] = []
        self.left_running = False

    def attempt(self, serve: _Serve) -> Failure | None:
        """Start the server and let `serve` use it; trouble with the server is returned, not raised.

        The first thing that went wrong is returned; `left_running` tells when the server could not be ended.
        """
        failure = None
        try:
            with self._ports.engine.start(self.arm) as server:
                self.command, self.boot_s = server.command, server.boot_s
                failure = self._served(serve, server)
        except ServerError as error:
            self.command = self.command or error.command
            self.left_running = not isinstance(error, ServerStartError)
            failure = failure or self._failure(error)
        return failure

    def _served(self, serve: _Serve, server: Server) -> Failure | None:
        try:
            try:
                return serve(self, server)
            except ScrapeError:
                server.ensure_alive()
                raise
        except (ServerError, ScrapeError, LoadError) as error:
            return self._failure(error)

    def _failure(self, error: ServerError | ScrapeError | LoadError) -> Failure:
        reasons = {
            ServerDiedError: "server-died",
            ServerStartError: "server-start",
            ScrapeError: "page-unreadable",
            LoadError: "client-failed",
        }
        return Failure(
            reason=reasons.get(type(error), "server-not-stopped"),
            message=f"arm {self.arm.name}: {error}",
            detail=getattr(error, "log_tail", ""),
        )


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    _Serve: TypeAlias = Callable[[_Boot, Server], Failure | None]
