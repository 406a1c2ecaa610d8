"""The outside world of a window, without processes, sockets and clocks: every port is a fake that keeps a diary."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.counters import CounterPage, Sample
from pytest_specgate.core.errors import ScrapeError, ServerDiedError
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.levels import Level, level_id
from pytest_specgate.core.ports import CpuReading, Ports
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import ChunkGaps, ClientRecord, PointLoad, RequestRecord, WindowRecord
from pytest_specgate.core.thresholds import NoiseFloor, Threshold
from pytest_specgate.window import CalibrationPlan, WindowPlan, calibrate, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.progress import Begun, Step

CLIENT = ClientRecord(
    processes=1,
    wall_s=10.0,
    cpu_s=0.5,
    busiest_cpu_share=0.05,
    lag_p50_s=0.001,
    lag_p95_s=0.002,
    lag_p99_s=0.002,
    lag_max_s=0.004,
    late_sends_p95_s=None,
)
"""A client that was never near its limits."""

TOKENS = 11
"""Output tokens of every answer."""

CORPUS = "\n\n".join(f"Paragraph {number} tells of nothing in particular." for number in range(20))


@dataclasses.dataclass
class Boot:
    """Port `Server`: one boot of an arm in this world."""

    world: World
    arm: Arm
    number: int
    answered: int = 0
    model: str = "tiny"
    boot_s: float = 30.0

    @property
    def attached(self) -> bool:
        """Whether the world has it run elsewhere."""
        return self.world.attached

    @property
    def url(self) -> str:
        """No real address."""
        return f"http://{self.arm.name}"

    @property
    def command(self) -> str:
        """What was started."""
        return f"serve {self.arm.name}"

    def ensure_alive(self, *, wait_s: float = 0.0) -> None:  # noqa: ARG002  - a fake's death takes no time
        """Raise if the world has declared the server dead."""
        if self.world.dead:
            raise ServerDiedError("its server left with exit code 9", exit_code=9, log_tail="last words")

    def startup_log(self) -> str:
        """Return what it printed while it started."""
        return "INFO 11-29 12:00:00 [x.py:1] Application startup complete.\n"

    def log_tail(self) -> str:
        """Return the end of its log."""
        return f"log of {self.arm.name}"

    def process_ids(self) -> frozenset[int]:
        """Return made-up ids."""
        return frozenset({100 + self.number})

    def cleaned(self, text: str) -> str:
        """Return a text as it is: no secret was given."""
        return text

    def page(self) -> CounterPage:
        """Return the counters after what was answered so far; speculation accepts 3, 2, 1, 0, ... of every four."""
        labels = {"engine": "0", "model_name": self.model}
        tokens = self.answered * TOKENS
        values = {
            counters.PREFIX_QUERIES: 0,
            counters.PREFIX_HITS: 0,
            counters.RUNNING: 0,
            counters.GENERATION_TOKENS: tokens,
            f"{counters.STEPS[0]}_count": self.answered * (4 if self.arm.speculates else TOKENS - 1),
            f"{counters.STEPS[0]}_sum": self.answered * self.world.step_s.get(self.arm.name, 0.4),
        }
        samples = [Sample(name=name, labels=labels, value=value) for name, value in values.items()]
        finished = {**labels, "finished_reason": "length"}
        samples.append(Sample(name=counters.FINISHED, labels=finished, value=self.answered))
        if k := self.world.counted_k(self.arm):
            accepted = [self.answered * share for share in (3, 2, 1, *[0] * k)[:k]]
            drafted = {counters.DRAFTS: 4, counters.DRAFT_TOKENS: 4 * k}
            samples += [Sample(name=name, labels=labels, value=self.answered * n) for name, n in drafted.items()]
            samples.append(Sample(name=counters.ACCEPTED_TOKENS, labels=labels, value=sum(accepted)))
            samples += [
                Sample(name=counters.ACCEPTED_PER_POSITION, labels={**labels, "position": str(place)}, value=value)
                for place, value in enumerate(accepted)
            ]
        return CounterPage(samples=tuple(samples))


class World:
    """Ports `Engine`, `LoadDriver`, `ServerPages`, `PromptSource`, `RecordStore` and `Progress`, and their diary.

    Attributes:
        speeds: how fast each arm is; all times are divided by it.
        step_s: what the decode steps of an answer take together, by arm; 0.4 for others.
        diary: what happened, in order, one line each.
        sent: bodies by arm, boot number and part (``warm-up``, ``c1``, ...).
        at: what happens before a step of a boot, by arm, boot number and step.
        failing: parts whose first request fails, by arm, boot number and part.
        resolved: speculative configurations that servers resolve instead of what was declared, by arm.
        config: what else servers resolve.
        client: how the load client fares at every point.
        gaps: that it finds at every point.
        saved: every state that was stored.
        told: every line of progress.
        begun: every boot that was told to begin.
        steps: what each boot then did, with its arm.
        dead: whether the running server has left.
        attached: whether servers run elsewhere.
        boot_takes_s: what every boot takes on the host's clock.
        files: of the user, by path.
    """

    def __init__(self) -> None:
        self.speeds: dict[str, float] = {}
        self.step_s: dict[str, float] = {}
        self.diary: list[str] = []
        self.sent: dict[tuple[str, int, str], list[bytes]] = {}
        self.at: dict[tuple[str, int, str], Callable[[Boot], None]] = {}
        self.failing: set[tuple[str, int, str]] = set()
        self.resolved: dict[str, JsonValue] = {}
        self.config: dict[str, JsonValue] = {"other": 1}
        self.client = CLIENT
        self.gaps: ChunkGaps | None = None
        self.saved: list[WindowRecord] = []
        self.told: list[str] = []
        self.begun: list[Begun] = []
        self.steps: list[tuple[str, str]] = []
        self.dead = False
        self.attached = False
        self.boot_takes_s = 60.0
        self.files: dict[str, str] = {}
        self._boots: Counter[str] = Counter()

    def measure(self, *pairs: ArmPair, gates: Sequence[Gate] = (), until_s: float | None = None) -> WindowRecord:
        """Measure a window in this world."""
        return measure(WindowPlan(pairs, tuple(gates), until_s=until_s), self.ports())

    def calibrate(self, *arms: Arm, profile: RequestProfile, boots: int) -> WindowRecord:
        """Boot arms several times in a row in this world."""
        return calibrate(CalibrationPlan(arms, profile, boots), self.ports())

    def ports(self) -> Ports:
        """Return the outside world; each boot takes `boot_takes_s`."""
        host = FakeHost(lambda: self.boot_takes_s * sum(self._boots.values()))
        return Ports(engine=self, load=self, pages=self, prompts=self, host=host, store=self, progress=self)

    def starts(self) -> list[str]:
        """Return the arms in the order of their boots."""
        return [line.removeprefix("start ") for line in self.diary if line.startswith("start ")]

    def counted_k(self, arm: Arm) -> int:
        """Return how many draft positions an arm's server counts."""
        config = self.resolved.get(arm.name, arm.args.get("speculative_config"))
        k = config["num_speculative_tokens"] if isinstance(config, dict) else 0
        assert isinstance(k, int)
        return k

    @contextlib.contextmanager
    def start(self, arm: Arm) -> Iterator[Boot]:
        """Boot an arm."""
        self._boots[arm.name] += 1
        boot = Boot(self, arm, self._boots[arm.name])
        self._step(boot, "start")
        self.diary.append(f"start {arm.name}")
        try:
            yield boot
        finally:
            self.diary.append(f"stop {arm.name}")
            self.dead = False
            self._step(boot, "stop")

    def intent(self, _: Arm) -> str:
        """Say what is done."""
        return "starting its server"

    def facts(self, arm: Arm) -> dict[str, JsonValue]:
        """Return the engine's facts."""
        return {"version": f"1.0 of {arm.name}"}

    def run_point(self, server: Any, bodies: Sequence[bytes], *, at: Level, profile: RequestProfile) -> PointLoad:
        """Answer every body."""
        boot: Boot = server
        part = "warm-up" if len(bodies) == profile.warmup_requests and boot.answered == 0 else level_id(at)
        self._step(boot, part)
        self.diary.append(f"{part}: {len(bodies)} at {at}")
        self.sent[boot.arm.name, boot.number, part] = list(bodies)
        boot.answered += len(bodies)
        speed = self.speeds.get(boot.arm.name, 1.0)
        failed = (boot.arm.name, boot.number, part) in self.failing
        requests = tuple(
            answer(index, body, speed=speed, failed=failed and index == 0) for index, body in enumerate(bodies)
        )
        return PointLoad(requests=requests, gaps=self.gaps, client=self.client)

    def counters(self, server: Any) -> CounterPage:
        """Scrape once."""
        return self._scrape(server, "counters")

    def settled_counters(self, server: Any, *, before: CounterPage, output_tokens: int) -> CounterPage:
        """Scrape after a load."""
        page = self._scrape(server, "settled")
        rise = page.total(counters.GENERATION_TOKENS) - before.total(counters.GENERATION_TOKENS)
        self.diary.append("agreed" if rise == output_tokens else f"never agreed: {rise:g}, not {output_tokens}")
        return page

    def resolved_config(self, server: Any) -> dict[str, JsonValue]:
        """Return what the server resolved."""
        self._step(server, "config")
        arm: Arm = server.arm
        return {"speculative_config": self.resolved.get(arm.name, arm.args.get("speculative_config")), **self.config}

    def resolved_environment(self, server: Any) -> dict[str, JsonValue]:
        """Return nothing."""
        assert isinstance(server, Boot)
        return {}

    def tokenize(self, server: Any, text: str, _: Mapping[str, JsonValue] | None = None) -> list[int]:
        """Return one token a byte, whatever the requests ask for."""
        assert isinstance(server, Boot)
        if self.diary[-1] != "tokenize":
            self.diary.append("tokenize")
        return list(text.encode())

    def tokenize_chat(self, server: Any, messages: Sequence[JsonValue], extra: Mapping[str, JsonValue]) -> list[int]:
        """Return one token a byte of what is said, after what steers the template, between two of the template."""
        said = [str(message["content"]) for message in messages if isinstance(message, dict)]
        return [1, *self.tokenize(server, "".join([json.dumps(extra.get("chat_template_kwargs")), *said])), 2]

    def text(self, name: str) -> str:
        """Return the corpus."""
        assert name == "prose"
        return CORPUS

    def file(self, path: str) -> str:
        """Return a user's file."""
        return self.files[path]

    def save(self, record: WindowRecord) -> str:
        """Keep a state."""
        self.saved.append(record)
        return "record.json"

    def say(self, line: str) -> None:
        """Keep a line."""
        self.told.append(line)

    def begin(self, boot: Begun) -> None:
        """Keep what is told of a boot that begins."""
        self.begun.append(boot)
        self.say(boot.line)

    def step(self, step: Step) -> None:
        """Keep what a boot does, and the line of it."""
        self.steps.append((self.begun[-1].arm, step.text))
        if line := step.line(self.begun[-1].arm):
            self.say(line)

    def end(self, *, failed: bool) -> None:
        """Keep whether a boot failed."""
        self.steps.append((self.begun[-1].arm, "failed" if failed else "ended"))

    def leave(self, _: Boot) -> None:
        """Let the running server leave."""
        self.dead = True

    def leave_with_pages(self, _: Boot) -> None:
        """Let the running server leave while a page is asked for."""
        self.dead = True
        raise ScrapeError("/metrics cannot be had: ConnectError refused")

    def _scrape(self, boot: Boot, step: str) -> CounterPage:
        self._step(boot, step)
        self.diary.append(step)
        return boot.page()

    def _step(self, boot: Boot, step: str) -> None:
        act = self.at.get((boot.arm.name, boot.number, step))
        if act is not None:
            act(boot)


class FakeHost:
    """Port `Host`: a machine on which others use half a CPU, and whose clock ticks once a reading."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._ticks = 0
        self._clock = clock

    def facts(self) -> dict[str, JsonValue]:
        """Return the machine's facts."""
        return {"cpus": 2}

    def now(self) -> str:
        """Return the time."""
        self._ticks += 1
        return f"2026-11-29T12:00:{self._ticks:02d}+00:00"

    def clock_s(self) -> float:
        """Return the time that all boots took so far."""
        return self._clock()

    def other_cpu(self, ours: frozenset[int]) -> CpuReading | None:
        """Read the CPU time of others, unknown in every third boot."""
        self._ticks += 1
        return None if ours == {103} else CpuReading(at_s=self._ticks, used_s=self._ticks / 2)

    def client_version(self) -> str:
        """Return the client's version."""
        return "fake 1.0"


def answer(index: int, body: bytes, *, speed: float, failed: bool = False) -> RequestRecord:
    """Return a complete answer, or one that was refused."""
    complete: dict[str, Any] = {"status": 200, "error": None, "ttft_s": 0.1 / speed, "last_token_s": 1.1 / speed}
    refused: dict[str, Any] = {"status": 500, "error": "HTTP 500: engine died", "ttft_s": None, "last_token_s": None}
    return RequestRecord(
        index=index,
        due_s=None,
        sent_s=index * 1.2 / speed,
        first_text_s=None,
        closed_s=1.1 / speed,
        prompt_tokens=24,
        output_tokens=None if failed else TOKENS,
        token_events=0 if failed else TOKENS,
        finish_reason=None if failed else "length",
        text_sha256="0" * 64,
        text=None,
        body_sha256=hashlib.sha256(body).hexdigest(),
        **(refused if failed else complete),
    )


class Declare:
    """What gate files declare, in short."""

    @staticmethod
    def arm(k: int | None = None, **env: str) -> Arm:
        """Return an arm with draft horizon k, or with speculation off."""
        off = Arm("off", model="folder/tiny", args={"max_model_len": 64}, env=env)
        config: dict[str, JsonValue] = {"method": "ngram", "num_speculative_tokens": k}
        return off if k is None else off.vary(f"k{k}", args={"speculative_config": config})

    @staticmethod
    def profile(**changes: Any) -> RequestProfile:
        """Return a profile with ten requests at c=1 and sixteen at c=8."""
        fields: Mapping[str, Any] = {"input_tokens": 24, "output_tokens": TOKENS, "requests": {1: 10, 8: 16}}
        return RequestProfile(**{**fields, **changes})

    @classmethod
    def pair(cls, reference: int | None, candidate: int, *, rounds: int = 2, **profile: Any) -> ArmPair:
        """Return a pair of arms by their draft horizons."""
        return ArmPair(
            reference=cls.arm(reference),
            candidate=cls.arm(candidate),
            varies="args.speculative_config",
            profile=cls.profile(**profile),
            rounds=rounds,
        )

    @staticmethod
    def gate(pair: ArmPair, *, floor: float = 0.01) -> Gate:
        """Return a gate on throughput at c=8 with a margin of 5 %, by default on a machine with little noise."""
        noise = NoiseFloor(floor, "A/A windows of a test")
        threshold = Threshold(metric="output_throughput", at=8, kind="not_worse", fraction=0.05, floor=noise)
        return Gate(id=f"test_gate.py::{pair.title}", pair=pair, thresholds=(threshold,))


@pytest.fixture
def world() -> World:
    """A world in which everything works."""
    return World()


@pytest.fixture(scope="session")
def declare() -> type[Declare]:
    """Builders of declarations."""
    return Declare
