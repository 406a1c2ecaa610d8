"""Builders of small records whose figures are known beforehand, and readers of captured server output."""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from prometheus_client.parser import text_string_to_metric_families

from pytest_specgate.core import counters
from pytest_specgate.core.arms import Arm, ArmPair, arms_of, boot_order
from pytest_specgate.core.baseline_fit import known_baseline
from pytest_specgate.core.baseline_update import Acceptance, plan_update
from pytest_specgate.core.counters import CounterPage, Sample
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.identity import observed_fields
from pytest_specgate.core.profile import RequestProfile, declared_fields
from pytest_specgate.core.records import (
    BootRecord,
    ClientRecord,
    PairRecord,
    PointRecord,
    RequestRecord,
    WindowRecord,
)
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.sse import Read
from pytest_specgate.core.thresholds import BaselineThreshold, NoiseFloor, Threshold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal, TypeAlias

    from pydantic import JsonValue

    from pytest_specgate.core.baselines import BaselineFile
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.thresholds import AnyThreshold

    Speed: TypeAlias = float | Mapping[Level, float]
    """How fast a boot is: for all points, or by load level."""

# The first look of a session imports scipy, and a busy machine is no fault of the code: examples have no deadline.
settings.register_profile("core", deadline=None)
settings.load_profile("core")

DATA = Path(__file__).parent / "data"
MODEL = "tiny"
HOST_CLASS = "cpu-test-2c-0a1b2c3d"
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
"""Output tokens of every request built here."""

STEP_COUNT, STEP_SUM = (f"{counters.STEPS[0]}_{part}" for part in ("count", "sum"))
WARM_UP = {
    counters.GENERATION_TOKENS: 44.0,
    counters.PROMPT_TOKENS: 64.0,
    counters.FIRST_TOKENS: 4.0,
    counters.PREFIX_QUERIES: 64.0,
    counters.PREFIX_HITS: 0.0,
    counters.PREEMPTIONS: 0.0,
    counters.RUNNING: 0.0,
    counters.WAITING: 0.0,
    STEP_COUNT: 40.0,
    STEP_SUM: 4.0,
}
"""What four warm-up requests leave behind."""


class Build:
    """At speed v every time of a boot is divided by v: TTFT 0.1/v s, TPOT 0.1/v s, decode rate 10 v tokens/s."""

    model = MODEL

    @staticmethod
    def profile(**changes: object) -> RequestProfile:
        """Return a profile with ten requests at c=1 and sixteen at c=8."""
        fields: dict[str, object] = {"input_tokens": 16, "output_tokens": TOKENS, "requests": {1: 10, 8: 16}}
        return RequestProfile(**{**fields, **changes})  # type: ignore[arg-type]  # checked by the class itself

    @staticmethod
    def arm(k: int | None = None) -> Arm:
        """Return an arm with draft horizon k, or with speculation off."""
        off = Arm("off", model="folder", args={"max_model_len": 64})
        config: dict[str, JsonValue] = {"method": "ngram", "num_speculative_tokens": k}
        return off if k is None else off.vary(f"k{k}", args={"speculative_config": config})

    @classmethod
    def pair(
        cls, *, reference: int | None = None, candidate: int | None = 4, rounds: int = 6, **profile: object
    ) -> ArmPair:
        """Return a pair of arms that differ in speculation, named by their draft horizons."""
        return ArmPair(
            reference=cls.arm(reference),
            candidate=cls.arm(candidate),
            varies="args.speculative_config",
            profile=cls.profile(**profile),
            rounds=rounds,
        )

    @staticmethod
    def threshold(
        metric: str = "output_throughput",
        at: Level = 1,
        *,
        margin: float = 0.05,
        floor: float | None = 0.01,
        kind: Literal["not_worse", "better"] = "not_worse",
    ) -> Threshold:
        """Return a threshold, by default one with a declared noise floor of 1 %."""
        declared = None if floor is None else NoiseFloor(floor, "A/A windows of a test")
        return Threshold(metric=metric, at=at, kind=kind, fraction=margin, floor=declared)

    @staticmethod
    def gate(pair: ArmPair, *thresholds: AnyThreshold) -> Gate:
        """Return a gate."""
        return Gate(id="test_gate.py::test_gate", pair=pair, thresholds=thresholds)

    @staticmethod
    def request(index: int = 0, *, speed: float = 1.0, **changes: object) -> RequestRecord:
        """Return a complete answer of eleven tokens, sent at the start of its point."""
        fields: dict[str, object] = {
            "index": index,
            "due_s": None,
            "sent_s": 0.0,
            "status": 200,
            "error": None,
            "ttft_s": 0.1 / speed,
            "first_text_s": 0.1 / speed,
            "last_token_s": 0.1 / speed + 0.1 / speed * (TOKENS - 1),
            "closed_s": 1.2 / speed,
            "prompt_tokens": 16,
            "output_tokens": TOKENS,
            "token_events": TOKENS,
            "finish_reason": "length",
            "text_sha256": "0" * 64,
            "text": None,
            "body_sha256": f"{index:064x}",
        }
        return RequestRecord.model_validate({**fields, **changes})

    @classmethod
    def failed(cls, index: int = 0, *, error: str = "HTTP 500: engine died") -> RequestRecord:
        """Return a request that got no token."""
        return cls.request(index, status=500, error=error, ttft_s=None, last_token_s=None, output_tokens=None)

    @staticmethod
    def page(
        values: Mapping[str, float], *, positions: Sequence[int] = (), finished: Mapping[str, int], model: str = MODEL
    ) -> CounterPage:
        """Return a page of one engine with plain counters, the per-position counter, and finished requests."""
        labels = {"engine": "0", "model_name": model}
        samples = [Sample(name=name, labels=labels, value=value) for name, value in values.items()]
        for position, value in enumerate(positions):
            by_position = {**labels, "position": str(position)}
            samples.append(Sample(name=counters.ACCEPTED_PER_POSITION, labels=by_position, value=value))
        for reason, count in finished.items():
            by_reason = {**labels, "finished_reason": reason}
            samples.append(Sample(name=counters.FINISHED, labels=by_reason, value=count))
        return CounterPage(samples=tuple(samples))

    @staticmethod
    def drafted(requests: int, *, k: int) -> SpeculationDelta:
        """Return what `requests` requests draft at 2.5 tokens a step: k tokens in each of four drafts a request."""
        positions = tuple(requests * share for share in (3, 2, 1, *([0] * k)))[:k]
        return SpeculationDelta(4 * requests, 4 * requests * k, sum(positions), positions)

    @classmethod
    def snapshots(
        cls, requests: Sequence[RequestRecord], *, speculation: SpeculationDelta | None = None
    ) -> tuple[CounterPage, CounterPage]:
        """Return the pages before and after some requests; warm-up traffic is in both."""
        before, rises = dict(WARM_UP), cls._rises(requests)
        zeros: tuple[int, ...] = ()
        if speculation is not None:
            zeros = (0,) * len(speculation.accepted_per_position)
            before |= dict.fromkeys((counters.DRAFTS, counters.DRAFT_TOKENS, counters.ACCEPTED_TOKENS), 0.0)
            rises[counters.DRAFTS] = speculation.drafts
            rises[counters.DRAFT_TOKENS] = speculation.draft_tokens
            rises[counters.ACCEPTED_TOKENS] = speculation.accepted_tokens
            rises[STEP_COUNT] -= sum(speculation.accepted_per_position)
        after = {name: value + rises.get(name, 0) for name, value in before.items()}
        positions = speculation.accepted_per_position if speculation else ()
        return (
            cls.page(before, positions=zeros, finished={"length": 4, "abort": 0}),
            cls.page(after, positions=positions, finished={"length": 4 + len(requests), "abort": 0}),
        )

    @staticmethod
    def _rises(requests: Sequence[RequestRecord]) -> dict[str, float]:
        """Return what a server counts of some requests without drafts: a step for every token but the first."""
        count = len(requests)
        tokens = sum(request.output_tokens or 0 for request in requests)
        prompts = sum(request.prompt_tokens or 0 for request in requests)
        return {
            counters.GENERATION_TOKENS: tokens,
            counters.PROMPT_TOKENS: prompts,
            counters.FIRST_TOKENS: count,
            counters.PREFIX_QUERIES: prompts,
            STEP_COUNT: tokens - count,
            STEP_SUM: math.fsum((request.last_token_s or 0) - (request.ttft_s or 0) for request in requests),
        }

    @staticmethod
    def risen(point: PointRecord, name: str, rise: float, **labels: str) -> PointRecord:
        """Return the point with a counter of its later page raised."""
        samples = [
            sample.model_copy(update={"value": sample.value + rise})
            if sample.name == name and labels.items() <= sample.labels.items()
            else sample
            for sample in point.after.samples
        ]
        return point.model_copy(update={"after": CounterPage(samples=tuple(samples))})

    @classmethod
    def point(
        cls, requests: Sequence[RequestRecord], *, at: Level = 1, speculation: SpeculationDelta | None = None
    ) -> PointRecord:
        """Return a point of some requests, with counters that agree with them."""
        before, after = cls.snapshots(requests, speculation=speculation)
        return PointRecord(
            at=at,
            requests=tuple(requests),
            gaps=None,
            client=CLIENT,
            before=before,
            after=after,
            gpus=0,
            other_cpu_share=0.1,
            repetitiveness=0.125,
        )

    @classmethod
    def boot(cls, arm: Arm, profile: RequestProfile, *, speed: Speed = 1.0, number: int = 1) -> BootRecord:
        """Return a boot whose points ran at a known speed."""
        points = []
        for at, count in profile.requests.items():
            pace = speed if isinstance(speed, int | float) else speed[at]
            requests = [cls.request(index, speed=pace) for index in range(count)]
            drafted = cls.drafted(count, k=arm.draft_horizon) if arm.draft_horizon else None
            points.append(cls.point(requests, at=at, speculation=drafted))
        return BootRecord(
            arm=arm.name,
            round=number,
            position=0,
            pairs=(),
            command=f"serve {arm.model}",
            started_at="2026-11-29T12:00:00+00:00",
            boot_s=30.0,
            profile={**declared_fields(profile), **observed_fields(points)},
            resolved={"speculative_config": arm.args.get("speculative_config")},
            points=tuple(points),
        )

    @classmethod
    def window(cls, pair: ArmPair, reference: Sequence[Speed], candidate: Sequence[Speed]) -> WindowRecord:
        """Return a window whose boots ran at known speeds, round by round."""
        speeds = {pair.reference.name: reference, pair.candidate.name: candidate}
        boots = [
            cls.boot(arm, pair.profile, speed=speeds[arm.name][number - 1], number=number).model_copy(
                update={"position": position, "pairs": (pair.title,)}
            )
            for number in range(1, max(len(reference), len(candidate)) + 1)
            for position, arm in enumerate(boot_order(pair.arms, number))
            if number <= len(speeds[arm.name])
        ]
        return WindowRecord(
            created_at="2026-11-29T12:00:00+00:00",
            finished=True,
            arms=arms_of([pair]),
            pairs=(PairRecord.of(pair),),
            profile=pair.profile,
            host={"cpu": "a test's"},
            engine={arm.name: {"vllm": "0.32.0"} for arm in pair.arms},
            boots=tuple(boots),
        )

    @staticmethod
    def claim(
        metric: str = "output_throughput", at: Level = 1, *, margin: float = 0.05, **how: Any
    ) -> BaselineThreshold:
        """Return a claim about a baseline, by default about the change between the arms."""
        return BaselineThreshold(metric, at, margin, **how)

    @classmethod
    def day(cls, pair: ArmPair, number: int, reference: Sequence[Speed], candidate: Sequence[Speed]) -> WindowRecord:
        """Return a window of a day of November, on one class of machine."""
        made_at = f"2026-11-{number:02d}T12:00:00.000+00:00"
        window = cls.window(pair, reference, candidate)
        return window.model_copy(update={"created_at": made_at, "host_class": HOST_CLASS})

    @staticmethod
    def accepting(mode: Literal["new", "append", "replace"] = "append", **changes: Any) -> Acceptance:
        """Return who accepts a window, and why."""
        return Acceptance(**{
            "mode": mode, "reason": "a test", "accepted_at": "2026-11-29T13:00:00+00:00", "record_sha256": "0" * 64,
            **changes,
        })  # fmt: skip

    @classmethod
    def accepted(cls, gate: Gate, *windows: WindowRecord, file: BaselineFile | None = None) -> BaselineFile:
        """Return the baseline that holds some windows."""
        for window in windows:
            file = plan_update(gate, window, file, how=cls.accepting()).after
        assert file is not None
        return file

    @staticmethod
    def against(gate: Gate, window: WindowRecord, file: BaselineFile | None, **changes: Any) -> WindowRecord:
        """Return a window that knows the baselines of its gate."""
        where = {"path": "baselines/file.json", "host_class": HOST_CLASS, "settings": window.settings, **changes}
        found = {claim.entry_id: known_baseline(gate, claim, file, **where) for claim in gate.baselines}
        return window.model_copy(update={"baselines": tuple(found.values())})

    @staticmethod
    def edited(
        record: WindowRecord, *, arm: str, number: int = 1, edit: Callable[[BootRecord], BootRecord]
    ) -> WindowRecord:
        """Return the window with one of its boots changed."""
        boots = [edit(boot) if (boot.arm, boot.round) == (arm, number) else boot for boot in record.boots]
        return record.model_copy(update={"boots": tuple(boots)})

    @classmethod
    def edited_point(
        cls, record: WindowRecord, *, arm: str, at: Level = 1, edit: Callable[[PointRecord], PointRecord]
    ) -> WindowRecord:
        """Return the window with one point of an arm's first boot changed."""

        def change(boot: BootRecord) -> BootRecord:
            points = [edit(point) if point.at == at else point for point in boot.points]
            return boot.model_copy(update={"points": tuple(points)})

        return cls.edited(record, arm=arm, edit=change)


class Captured:
    """What a real server sent, kept under ``data/``."""

    @staticmethod
    def page(name: str) -> CounterPage:
        """Return every series of an exposition page, wanted or not."""
        text = (DATA / f"{name}.txt").read_text(encoding="utf-8")
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return CounterPage(
            samples=tuple(Sample(name=one.name, labels=dict(one.labels), value=one.value) for one in samples)
        )

    @staticmethod
    def reads(name: str) -> tuple[Read, ...]:
        """Return the network reads of a streamed answer."""
        lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        return tuple(Read(row["t_ms"] / 1000, base64.b64decode(row["bytes_b64"])) for row in rows)


@pytest.fixture(scope="session")
def build() -> type[Build]:
    """Builders of records with known figures."""
    return Build


@pytest.fixture(scope="session")
def captured() -> type[Captured]:
    """Readers of captured server output."""
    return Captured
