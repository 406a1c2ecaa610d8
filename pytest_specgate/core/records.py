"""Window records: what was measured, complete enough to judge it again elsewhere, with other thresholds.

History of the schema:

1. first version
2. what servers resolved and printed at their start, the machine before and after each boot; points by load level
   (`at`), what the client knows of its own health, gaps between chunks, number of GPUs, repetitiveness, answers of
   greedy requests, what could not be proved of attached servers; by pair, in what its servers differ besides what
   varies, and which of these differences are allowed
3. the class of the machine by name, what every server of the session was given, the commit of the project; baselines
   that gates were judged against; attempts of one window, times of chunks; metrics that the project adds, with their
   values; what each request drafted and accepted; sweeps of draft horizons, and which arms these ruled out

Version 1 never left its workshop: it does not know whether its client kept up, so nothing measured by it can be judged.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.baselines import KnownBaseline
from pytest_specgate.core.continuations import Continuation
from pytest_specgate.core.counters import CounterDelta, CounterPage
from pytest_specgate.core.declared import FreeJson
from pytest_specgate.core.levels import Level, concurrency_of, level_label
from pytest_specgate.core.metric_definitions import AddedValue, MetricDefinition
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.request_speculation import RequestSpeculation
from pytest_specgate.core.stored import Failure, Stored

SCHEMA_VERSION: Final = 3


class RequestRecord(Stored):
    """One request as the client saw it. Times are seconds; those of events count from the send of the request.

    Attributes:
        index: place in the sending order of its point, from 0.
        due_s: when an open loop meant to send it, after the start of the point; `None` in a closed loop.
        sent_s: when it was sent, after the start of the point.
        status: HTTP status; `None` when no answer came.
        error: why it does not count; `None` for a complete answer.
        ttft_s: to the first token event.
        first_text_s: to the first visible text.
        last_token_s: to the last token event.
        closed_s: to the last read of the stream.
        prompt_tokens: counted by the server.
        output_tokens: counted by the server.
        token_events: number of token events.
        finish_reason: as the server sent it.
        text_sha256: hash of the answer.
        text: the answer, without secrets; `None` where sampling makes every answer another, and where answers were not
            to be kept. An English answer of 1024 tokens takes some 4.5 kB, most of a request's place in the record.
        body_sha256: hash of the body as sent.
        chunk_times: time of every token event, as `pytest_specgate.core.chunk_times` writes and reads it; `None` where
            they were not to be kept, and where there was none.
        speculation: what it drafted and accepted; `None` where the server does not tell, or is not believed.
        speculation_problem: why the server is not believed; `None` where it is, and where it told nothing.
    """

    index: int
    due_s: float | None
    sent_s: float
    status: int | None
    error: str | None
    ttft_s: float | None
    first_text_s: float | None
    last_token_s: float | None
    closed_s: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    token_events: int
    finish_reason: str | None
    text_sha256: str
    text: str | None
    body_sha256: str
    chunk_times: str | None = None
    speculation: RequestSpeculation | None = None
    speculation_problem: str | None = None


class ChunkGaps(Stored):
    """Gaps between successive token events, over all complete answers of a point; each gap counts once.

    Attributes:
        count: number of gaps.
        sum_s: their sum.
        p50_s: median, numpy-linear.
        p90_s: 90th percentile.
        p95_s: 95th percentile.
        p99_s: 99th percentile.
        max_s: the longest.
    """

    count: Annotated[int, Field(ge=1)]
    sum_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    max_s: float


class ClientRecord(Stored):
    """How the load client itself fared at a point: whether what it measured is the server and not the client.

    Attributes:
        processes: number of processes that sent the load.
        wall_s: from the start of the point to the end of its last answer.
        cpu_s: CPU time of all these processes.
        busiest_cpu_share: CPU time / wall of the busiest of them: 1 is a process that never rests.
        lag_p50_s: median lateness of a timer in the event loops: how late a read may have been stamped.
        lag_p95_s: its 95th percentile, in the worst process: for 5 % of the time the loop was later than that.
        lag_p99_s: its 99th percentile, likewise.
        lag_max_s: the worst.
        late_sends_p95_s: 95th percentile of the delay between the time a request was due and its sending, in an open
            loop; `None` in a closed loop.
    """

    processes: int
    wall_s: float
    cpu_s: float
    busiest_cpu_share: float
    lag_p50_s: float
    lag_p95_s: float
    lag_p99_s: float
    lag_max_s: float
    late_sends_p95_s: float | None


class PointLoad(Stored):
    """What the load client brings back from a point.

    Attributes:
        requests: every request, failed ones too, in sending order.
        gaps: between token events; `None` when there was none.
        client: its own health.
    """

    requests: tuple[RequestRecord, ...]
    gaps: ChunkGaps | None
    client: ClientRecord


class PointRecord(Stored):
    """One load level of one boot.

    Attributes:
        at: load level: number of closed-loop workers, or arrival rate.
        requests: every request, failed ones too, in sending order.
        gaps: between token events; `None` when there was none.
        client: health of the load client.
        before: counters before its first request.
        after: counters after its last answer, once they had settled.
        gpus: GPUs that the server runs on, 0 on a CPU; `None` where it does not tell.
        other_cpu_share: CPU time of processes that are not ours, in CPUs; `None` where it is unknown.
        repetitiveness: share of the 4-grams of tokens of its prompts that stand earlier in the same prompt.
        added: values of the metrics that the project has added, by name.
    """

    at: Level
    requests: tuple[RequestRecord, ...]
    gaps: ChunkGaps | None
    client: ClientRecord
    before: CounterPage
    after: CounterPage
    gpus: int | None
    other_cpu_share: float | None
    repetitiveness: float | None
    added: dict[str, AddedValue] = Field(default_factory=dict)

    @property
    def label(self) -> str:
        """The load level as people read it."""
        return level_label(self.at)

    @property
    def concurrency(self) -> int | None:
        """Number of closed-loop workers; `None` in an open loop."""
        return concurrency_of(self.at)

    @property
    def completed(self) -> tuple[RequestRecord, ...]:
        """Requests that ended well."""
        return tuple(request for request in self.requests if request.error is None)

    @property
    def failed(self) -> tuple[RequestRecord, ...]:
        """Requests that did not."""
        return tuple(request for request in self.requests if request.error is not None)

    @property
    def counters(self) -> CounterDelta:
        """What the server counted during the point."""
        return CounterDelta(self.before, self.after)


class StartUpRecord(Stored):
    """What a server resolved and printed while it started, as far as two arms are compared by it.

    The first boot of a window holds all of it, the others only what differs from that one
    (`pytest_specgate.core.differences.compacted`).

    Attributes:
        config: resolved configuration, dotted path to value.
        lines: normalised start-up lines, and how often each was printed.
    """

    config: dict[str, FreeJson]
    lines: dict[str, int]


class BootRecord(Stored):
    """One start of one arm's server.

    Attributes:
        arm: name of the arm.
        round: from 1.
        position: place in the round's boot order, from 0.
        pairs: titles of the pairs that it was booted for: a decided pair boots no more, its partner's pair may.
        command: what was started, as a user would type it.
        started_at: wall-clock time, ISO 8601 with zone.
        ended_at: likewise, when its server was gone; empty in older records.
        boot_s: from the start of the process to its first answered completion; `None` when that never came.
        profile: request profile as it was put on this boot, observed fields included.
        resolved: resolved configuration that the server reported, as far as it was used.
        startup: what it resolved and printed; `None` when it did not come that far.
        host_before: facts about the machine before its start.
        host_after: and after its end.
        points: those measured, in order.
        failure: what went wrong, `None` when nothing did.
        unproved: what could not be proved of a server that was attached instead of started, one phrase each; empty
            for those that were started.
    """

    arm: str
    round: int
    position: int
    pairs: tuple[str, ...]
    command: str
    started_at: str
    ended_at: str = ""
    boot_s: float | None
    profile: dict[str, FreeJson]
    resolved: dict[str, FreeJson]
    startup: StartUpRecord | None = None
    host_before: dict[str, FreeJson] = Field(default_factory=dict)
    host_after: dict[str, FreeJson] = Field(default_factory=dict)
    points: tuple[PointRecord, ...]
    failure: Failure | None = None
    unproved: tuple[str, ...] = ()

    def point(self, at: Level) -> PointRecord | None:
        """Return the point at a load level, `None` if it was not measured."""
        return next((point for point in self.points if point.at == at), None)


class PairRecord(Stored):
    """A pair by the names of its arms, which the record describes once.

    Attributes:
        reference: name of the arm compared against.
        candidate: name of the arm judged.
        varies: dotted paths in which the two differ.
        rounds: n_max.
        allow_engine_differences: reason by id, so that a strict verdict can be repeated from the record alone.
        differences: in what the servers differ, noise included; `None` while that is not known.
    """

    reference: str
    candidate: str
    varies: tuple[str, ...]
    rounds: int
    allow_engine_differences: dict[str, str] = Field(default_factory=dict)
    differences: tuple[dict[str, FreeJson], ...] | None = None

    @classmethod
    def of(cls, pair: ArmPair) -> PairRecord:
        """Describe a declared pair."""
        first, second = (arm.name for arm in pair.arms)
        allowed = pair.allow_engine_differences
        return cls(
            reference=first, candidate=second, varies=pair.paths, rounds=pair.rounds, allow_engine_differences=allowed
        )


class ArmNoise(Stored):
    """What A/A windows told of the noise of one metric of one arm at one point, before a window ran.

    Attributes:
        arm: name of the arm.
        at: load level.
        metric: key in the metric table.
        sd: standard deviation of a paired difference of two boots: log units, or a fraction for a share.
        df: its degrees of freedom.
        boots: that it was taken of.
        builds: of the engine that these windows had.
        arm_sha256: of the arm that was calibrated: arms that differ only in their install of the engine share it.
        measured_at: wall-clock time of the latest of these windows.
    """

    arm: str
    at: Level
    metric: str
    sd: Annotated[float, Field(ge=0)]
    df: Annotated[float, Field(gt=0)]
    boots: int
    builds: int
    arm_sha256: str
    measured_at: str


class WindowRecord(Stored):
    """All boots of one or more pairs with one profile, on one machine, in one go.

    Attributes:
        schema_version: of this format.
        created_at: wall-clock time of its start, ISO 8601 with zone.
        finished: whether the window ran to its end.
        stopped: why it ended before its last round though some thresholds were open; empty when nothing stopped it.
        strict: whether unlisted engine-induced differences make a pair INVALID.
        arms: as declared; secrets are replaced.
        pairs: as declared.
        profile: the load, as declared.
        host: facts about the machine.
        engine: facts about the installs of the engine, by arm.
        noise: calibrations that applied when it started.
        added_metrics: definitions of the metrics that the project has added, whose values its points hold.
        host_class: name of the class of the machine, as its facts make it, or as it was declared.
        settings: what every server of the session was given, without secrets.
        commit: of the project that was measured; empty where it is not known.
        baselines: what its gates are judged against, as it was known before it started.
        attempt: how many windows were measured of this pair of builds with this load, this one included.
        continued: what earlier runs measured of this window before they died, oldest first.
        gates: what was claimed of its pairs, as `pytest_specgate.core.stored_gates` writes and reads it.
        boots: in the order in which they ran.
        verdicts: as judged at the end, one mapping a threshold.
        sweeps: of draft horizons, as `pytest_specgate.core.sweeps` writes and reads them.
        ruled_out: why an arm of a sweep was booted no more, or never, one sentence by name.
    """

    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    created_at: str
    finished: bool
    stopped: str = ""
    strict: bool = False
    arms: tuple[Arm, ...]
    pairs: tuple[PairRecord, ...]
    profile: RequestProfile
    host: dict[str, FreeJson]
    engine: dict[str, dict[str, FreeJson]]
    noise: tuple[ArmNoise, ...] = ()
    added_metrics: tuple[MetricDefinition, ...] = ()
    host_class: str = ""
    settings: dict[str, FreeJson] = Field(default_factory=dict)
    commit: str = ""
    baselines: tuple[KnownBaseline, ...] = ()
    attempt: Annotated[int, Field(ge=1)] = 1
    continued: tuple[Continuation, ...] = ()
    gates: tuple[dict[str, FreeJson], ...] = ()
    boots: tuple[BootRecord, ...] = ()
    verdicts: tuple[dict[str, FreeJson], ...] = ()
    sweeps: tuple[dict[str, FreeJson], ...] = ()
    ruled_out: dict[str, str] = Field(default_factory=dict)

    def baseline(self, gate: str, entry_id: str) -> KnownBaseline | None:
        """Return what was known of the baseline of one entry; `None` when nothing was looked up."""
        return next((one for one in self.baselines if (one.gate, one.entry_id) == (gate, entry_id)), None)

    def boots_of(self, arm: str) -> tuple[BootRecord, ...]:
        """Return the boots of one arm, by round."""
        return tuple(sorted((boot for boot in self.boots if boot.arm == arm), key=lambda boot: boot.round))

    def boots_for(self, pair: ArmPair) -> tuple[tuple[BootRecord, ...], tuple[BootRecord, ...]]:
        """Return the boots of the reference and of the candidate that ran for a pair, by round."""
        reference, candidate = (
            tuple(boot for boot in self.boots_of(arm.name) if pair.title in boot.pairs and boot.round <= pair.rounds)
            for arm in pair.arms
        )
        return reference, candidate

    def rounds_of(self, pair: ArmPair) -> tuple[tuple[BootRecord, BootRecord], ...]:
        """Return the boots of a pair, round by round, for the rounds in which both arms were booted for it."""
        left, right = ({boot.round: boot for boot in boots} for boots in self.boots_for(pair))
        return tuple((left[number], right[number]) for number in sorted(left.keys() & right.keys()))
