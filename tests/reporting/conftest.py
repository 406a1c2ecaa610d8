"""Windows whose figures are known beforehand, and what the reports make of them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import counters
from pytest_specgate.core.arms import Arm, ArmPair, arms_of, boot_order
from pytest_specgate.core.counters import CounterPage, Sample
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.identity import observed_fields
from pytest_specgate.core.judge import judge
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.profile import RequestProfile, declared_fields
from pytest_specgate.core.records import BootRecord, ClientRecord, PairRecord, PointRecord, RequestRecord, WindowRecord
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.thresholds import NoiseFloor, Threshold
from pytest_specgate.reporting.messages import Judged, failure_text, window_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    from pydantic import JsonValue

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.verdict import Verdict

TOKENS = 11
PROFILE = RequestProfile(input_tokens=16, output_tokens=TOKENS, requests={1: 10, 8: 16})


def arm(k: int | None = None) -> Arm:
    """Return an arm with draft horizon k, or with speculation off."""
    off = Arm("off", model="folder", args={"max_model_len": 64})
    config: dict[str, JsonValue] = {"method": "ngram", "num_speculative_tokens": k}
    return off if k is None else off.vary(f"k{k}", args={"speculative_config": config})


def pair(
    reference: int | None = None, candidate: int = 4, *, rounds: int = 2, profile: RequestProfile = PROFILE
) -> ArmPair:
    """Return a pair of arms by their draft horizons."""
    return ArmPair(
        reference=arm(reference),
        candidate=arm(candidate),
        varies="args.speculative_config",
        profile=profile,
        rounds=rounds,
    )


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


def request(index: int, *, speed: float) -> RequestRecord:
    """Return a complete answer: TTFT and TPOT of 100 ms, E2E latency of 1100 ms, all divided by the speed."""
    return RequestRecord(
        index=index,
        due_s=None,
        sent_s=0.0,
        status=200,
        error=None,
        ttft_s=0.1 / speed,
        first_text_s=0.1 / speed,
        last_token_s=1.1 / speed,
        closed_s=1.2 / speed,
        prompt_tokens=16,
        output_tokens=TOKENS,
        token_events=TOKENS,
        finish_reason="length",
        text_sha256="0" * 64,
        text=None,
        body_sha256=f"{index:064x}",
    )


def page(answered: int, k: int | None) -> CounterPage:
    """Return the counters after some answers: 4 drafts, and 3, 2, 1, 0, ... accepted by position, for each of them."""
    labels = {"engine": "0", "model_name": "folder"}
    per_answer: dict[str, float] = {
        counters.PREFIX_QUERIES: 0,
        counters.PREFIX_HITS: 0,
        counters.GENERATION_TOKENS: TOKENS,
        f"{counters.STEPS[0]}_count": 4 if k else TOKENS - 1,
        f"{counters.STEPS[0]}_sum": 0.4,
        counters.PREFIX_QUERIES: 16,
        counters.PREFIX_HITS: 0,
        counters.PREEMPTIONS: 0,
        counters.RUNNING: 0,
    }
    accepted = (3, 2, 1, *[0] * (k or 0))[: k or 0]
    if k:
        per_answer |= {counters.DRAFTS: 4, counters.DRAFT_TOKENS: 4 * k, counters.ACCEPTED_TOKENS: sum(accepted)}
    samples = [Sample(name=name, labels=labels, value=float(answered * value)) for name, value in per_answer.items()]
    length = {**labels, "finished_reason": "length"}
    samples.append(Sample(name=counters.FINISHED, labels=length, value=float(answered)))
    for place, count in enumerate(accepted):
        here = {**labels, "position": str(place)}
        samples.append(Sample(name=counters.ACCEPTED_PER_POSITION, labels=here, value=float(answered * count)))
    return CounterPage(samples=tuple(samples))


def boot(of: Arm, *, number: int, position: int, speed: float, pairs: Sequence[ArmPair]) -> BootRecord:
    """Return a boot whose points ran at a known speed."""
    profile = pairs[0].profile
    points = tuple(
        PointRecord(
            at=at,
            requests=tuple(request(index, speed=speed) for index in range(count)),
            gaps=None,
            client=CLIENT,
            gpus=0,
            before=page(4, of.draft_horizon),
            after=page(4 + count, of.draft_horizon),
            other_cpu_share=0.25,
            repetitiveness=0.125,
        )
        for at, count in profile.requests.items()
    )
    return BootRecord(
        arm=of.name,
        round=number,
        position=position,
        pairs=tuple(one.title for one in pairs if of in one.arms),
        command=f"serve folder --port {8000 + position}",
        started_at="2026-11-29T12:00:00+00:00",
        boot_s=30.0,
        profile={**declared_fields(profile), **observed_fields(points)},
        resolved={},
        points=points,
    )


@dataclasses.dataclass(frozen=True)
class Window:
    """A window, the gates on it, and what is reported.

    Attributes:
        record: what was measured.
        pairs: of the window.
        gates: on its pairs.
    """

    record: WindowRecord
    pairs: tuple[ArmPair, ...]
    gates: tuple[Gate, ...] = ()

    @classmethod
    def of(cls, *pairs: ArmPair, speeds: Mapping[str, float | Sequence[float]], rounds: int = 2) -> Window:
        """Return a window whose boots ran at known speeds, alike in all rounds or one a round."""
        boots = []
        for number in range(1, rounds + 1):
            for position, booted in enumerate(boot_order(arms_of(pairs), number)):
                given = speeds.get(booted.name, 1.0)
                speed = given if isinstance(given, float) else given[number - 1]
                boots.append(boot(booted, number=number, position=position, speed=speed, pairs=pairs))
        record = WindowRecord(
            created_at="2026-11-29T12:00:00+00:00",
            finished=True,
            arms=arms_of(pairs),
            pairs=tuple(map(PairRecord.of, pairs)),
            profile=pairs[0].profile,
            host={"cpus": 2},
            engine={"off": {"distribution": "vllm", "version": "0.32.0", "torch": "2.13", "python": "3.12"}},
            boots=tuple(boots),
        )
        return cls(record, pairs)

    def edited(self, name: str, number: int, *, edit: Callable[[BootRecord], BootRecord]) -> Window:
        """Return the window with one boot changed."""
        boots = [edit(one) if (one.arm, one.round) == (name, number) else one for one in self.record.boots]
        return dataclasses.replace(self, record=self.record.model_copy(update={"boots": tuple(boots)}))

    def with_field(self, name: str, number: int, **fields: Any) -> Window:
        """Return the window with another request profile in one boot."""
        return self.edited(name, number, edit=lambda one: one.model_copy(update={"profile": {**one.profile, **fields}}))

    def with_death(self, name: str, number: int, *, measured: int = 0) -> Window:
        """Return the window with a boot that died after so many points."""
        failure = Failure(reason="server-died", message=f"arm {name}: its server left", detail="one\nlast words")
        return self.edited(
            name,
            number,
            edit=lambda one: one.model_copy(update={"failure": failure, "points": one.points[:measured]}),
        )

    def with_point(self, name: str, number: int, *, at: Level, edit: Callable[[PointRecord], PointRecord]) -> Window:
        """Return the window with one point changed."""

        def change(one: BootRecord) -> BootRecord:
            points = [edit(point) if point.at == at else point for point in one.points]
            return one.model_copy(update={"points": tuple(points)})

        return self.edited(name, number, edit=change)

    def with_requests(self, name: str, number: int, *, at: Level, **changes: Any) -> Window:
        """Return the window with every request of one point changed."""

        def edit(point: PointRecord) -> PointRecord:
            requests = tuple(request.model_copy(update=changes) for request in point.requests)
            return point.model_copy(update={"requests": requests})

        return self.with_point(name, number, at=at, edit=edit)

    def gated(  # noqa: PLR0913  - a gate in one line of a test
        self,
        metric: str = "output_throughput",
        *,
        at: Level = 1,
        kind: Literal["not_worse", "better"] = "not_worse",
        margin: float = 0.05,
        floor: float = 0.01,
        place: int = 0,
    ) -> Window:
        """Return the window with one more gate on one of its pairs."""
        noise = NoiseFloor(floor, "A/A windows of a test")
        threshold = Threshold(metric=metric, at=at, kind=kind, fraction=margin, floor=noise)
        gate = Gate(id=f"test_gate.py::test_{len(self.gates)}", pair=self.pairs[place], thresholds=(threshold,))
        return dataclasses.replace(self, gates=(*self.gates, gate))

    def judged(self) -> list[Judged]:
        """Return every gate with its verdicts."""
        return [Judged(gate, judge(gate, self.record)) for gate in self.gates]

    def verdict(self) -> Verdict:
        """Return the verdict of the last gate."""
        return self.judged()[-1].verdicts[0]

    def lines(self) -> list[str]:
        """Return the lines of the summary."""
        texts = window_lines(self.record, pairs=self.pairs, judged=self.judged(), record_path="results/record.json")
        return "\n".join(texts).splitlines()

    def failure(self, again: str = "pytest 'test_gate.py::test_0[c1-output_throughput-not_worse]'") -> list[str]:
        """Return the lines of the failure text of the last gate."""
        text = failure_text(
            self.verdict(),
            gate=self.gates[-1],
            record=self.record,
            record_path="results/record.json",
            again=again,
        )
        return text.splitlines()

    def row(self, label: str, at: Level = 1) -> str:
        """Return the table's row of a metric at a load level, with single blanks between its words."""
        lines = self.lines()
        start = next(place for place, line in enumerate(lines) if line.split()[:1] == [level_label(at)])
        return " ".join(next(line for line in lines[start:] if label in line).split())


@pytest.fixture(scope="session")
def window() -> type[Window]:
    """Windows with known figures."""
    return Window


@pytest.fixture(scope="session")
def k4_off() -> ArmPair:
    """The pair k4 against off."""
    return pair()


@pytest.fixture(scope="session")
def open_loop() -> ArmPair:
    """The pair k4 against off, in an open loop beside a closed one."""
    return pair(profile=RequestProfile(input_tokens=16, output_tokens=TOKENS, requests={1: 10, "4/s": 12}))


@pytest.fixture(scope="session")
def k7_k4() -> ArmPair:
    """The pair k7 against k4."""
    return pair(4, 7)
