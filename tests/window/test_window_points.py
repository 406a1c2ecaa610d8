"""What a window keeps of each point: load levels of both kinds, the client's health, the server's accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.errors import LoadError, ScrapeError
from pytest_specgate.core.judge import judge
from pytest_specgate.core.records import ChunkGaps
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import PointLoad
    from tests.window.conftest import Boot, Declare, World

GAPS = ChunkGaps(count=100, sum_s=10.0, p50_s=0.1, p90_s=0.1, p95_s=0.1, p99_s=0.1, max_s=0.1)


def test_every_load_level_is_measured_in_order(world: World, declare: type[Declare]) -> None:
    """Closed loops from light to heavy, then open ones; each is sent under its own level, told, and recorded."""
    record = world.measure(declare.pair(None, 4, requests={"4/s": 12, 8: 16, "0.5/s": 5, 1: 10}))

    assert [part for arm, number, part in world.sent if (arm, number) == ("off", 1)] == [
        "warm-up", "c1", "c8", "r0.5", "r4",
    ]  # fmt: skip
    assert [point.at for point in record.boots[0].points] == [1, 8, "0.5/s", "4/s"]
    assert "off: 4/s, 12 requests" in world.told
    assert "r4: 12 at 4/s" in world.diary


def test_an_open_loop_is_part_of_the_profile(world: World, declare: type[Declare]) -> None:
    """Its rate, its burstiness, its schedule and what came of it are fields that are compared."""
    record = world.measure(declare.pair(None, 4, requests={"4/s": 12}, burstiness=0.5))
    profile = record.boots[0].profile

    assert (profile["arrival"], profile["arrival_rates_per_s"], profile["arrival_burstiness"]) == (
        "open loop",
        [4.0],
        0.5,
    )
    assert profile["observed_output_tokens.r4"] == [11] * 12
    assert profile.keys() >= {"arrivals_sha256.r4", "client_processes.r4", "prompt_set_sha256.r4", "requests.r4"}


def test_the_health_of_the_client_is_kept(world: World, declare: type[Declare]) -> None:
    """How the client fared, and the gaps that it found, stand in each point; a saturated one is left to the judge."""
    world.client = world.client.model_copy(update={"busiest_cpu_share": 0.99, "processes": 3})
    world.gaps = GAPS
    pair = declare.pair(None, 4)
    record = world.measure(pair)
    points = [point for boot in record.boots for point in boot.points]

    assert {(point.client.busiest_cpu_share, point.gaps) for point in points} == {(0.99, GAPS)}
    assert record.boots[0].profile["client_processes.c8"] == 3
    [verdict] = judge(declare.gate(pair), record)
    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "client-saturated")


@pytest.mark.parametrize(
    ("config", "gpus"),
    [
        ({"device_config": {"device": "cpu"}}, 0),
        (
            {
                "device_config": {"device": "cuda"},
                "parallel_config": {"world_size": 4, "data_parallel_size": 2},
            },
            8,
        ),
        ({"device_config": {"device": "cuda"}}, None),
    ],
)
def test_the_servers_accelerators_are_kept(
    world: World, declare: type[Declare], *, config: dict[str, Any], gpus: int | None
) -> None:
    """The number of GPUs that the server resolved stands with the boot and with each of its points."""
    world.config = config
    record = world.measure(declare.pair(None, 4))

    assert [boot.resolved["gpus"] for boot in record.boots] == [gpus] * 4
    assert {point.gpus for boot in record.boots for point in boot.points} == {gpus}


def test_a_client_that_fails_ends_the_boot(world: World, declare: type[Declare]) -> None:
    """A load process that left is no fault of the server, which is stopped; the pair is invalid for that reason."""

    def fail(_: Boot) -> None:
        raise LoadError("a process of the load client left with exit code -9")

    world.at["k4", 1, "c8"] = fail
    pair = declare.pair(None, 4)
    record = world.measure(pair)
    boot = record.boots_of("k4")[0]

    assert boot.failure is not None
    assert boot.failure.reason == "client-failed"
    assert boot.failure.message == "arm k4: a process of the load client left with exit code -9"
    assert [point.at for point in boot.points] == [1]
    assert world.diary[-1] == "stop k4"
    [verdict] = judge(declare.gate(pair), record)
    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "client-failed")


REFUSAL = "HTTP 400: The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."


def test_case_79_a_parameter_that_one_arm_refuses(
    world: World, declare: type[Declare], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 79: ten answers in one arm and ten refusals in the other: INVALID in the server's words, with no figure."""
    honest = world.run_point

    def choosy(server: Boot, bodies: Sequence[bytes], *, at: Level, profile: RequestProfile) -> PointLoad:
        load = honest(server, bodies, at=at, profile=profile)
        if server.arm.name == "off" or len(bodies) == profile.warmup_requests:
            return load
        refused = {"status": 400, "error": REFUSAL, "ttft_s": None, "last_token_s": None, "output_tokens": None}
        requests = tuple(request.model_copy(update=refused) for request in load.requests)
        return load.model_copy(update={"requests": requests})

    monkeypatch.setattr(world, "run_point", choosy)
    pair = declare.pair(None, 4, min_p=0.05)
    record = world.measure(pair)
    [verdict] = judge(declare.gate(pair), record)

    assert [point.completed == () for boot in record.boots for point in boot.points] == [False, False, True]
    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "failed-requests")
    assert verdict.summary == f"arm k4 at c=1: 10 of 10 requests failed, the first with: {REFUSAL}"
    assert (verdict.reference, verdict.candidate) == (None, None)


@pytest.mark.parametrize("readable", [True, False])
def test_the_last_page_of_a_failed_point_is_kept_as_far_as_it_can_be_had(
    world: World, declare: type[Declare], *, readable: bool
) -> None:
    """With a failed request counters cannot agree: they are read once, and where they cannot, none are made up."""
    world.failing.add(("k4", 1, "c1"))

    def refuse(boot: Boot) -> None:
        if boot.answered > 4 and not readable:
            raise ScrapeError("/metrics answered HTTP 503")

    world.at["k4", 1, "counters"] = refuse
    record = world.measure(declare.pair(None, 4))
    [point] = record.boots_of("k4")[0].points

    assert point.failed
    assert (point.after == point.before) is not readable
    failure = record.boots_of("k4")[0].failure
    assert failure is not None
    assert failure.reason == "failed-requests"
