"""A window of a project that adds metrics: their functions see what was measured, and their values are kept."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core import counters
from pytest_specgate.core.added_metrics import AddedMetric, MetricFunctions
from pytest_specgate.core.judge import judge
from pytest_specgate.window import WindowPlan, measure

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord
    from tests.window.conftest import Declare, World


def tokens_per_request(point: PointRecord) -> float:
    """Return a figure of both sides: what the server counted, by request as the client saw it."""
    return point.counters.count(counters.GENERATION_TOKENS) / len(point.completed)


def broken(point: PointRecord) -> float:
    """Fail at one load only."""
    if point.concurrency == 8:
        raise ValueError("not at c=8")
    return 1.0


def test_values_and_definitions_are_in_the_record(world: World, declare: type[Declare]) -> None:
    """Each point of each boot has its values; one that fails is missing there, and the window goes on."""
    added = tuple(
        AddedMetric(name=name, unit="tokens", better="higher", formula=name, compute=compute)
        for name, compute in (("tokens_per_request", tokens_per_request), ("broken", broken))
    )
    ports = dataclasses.replace(world.ports(), added=MetricFunctions(added))
    record = measure(WindowPlan((declare.pair(None, 4, rounds=1),), ()), ports)
    values = [
        [(name, found.value) for name, found in point.added.items()] for boot in record.boots for point in boot.points
    ]

    assert [one.name for one in record.added_metrics] == ["tokens_per_request", "broken"]
    assert (
        values
        == [
            [("tokens_per_request", 11.0), ("broken", 1.0)],
            [("tokens_per_request", 11.0), ("broken", None)],
        ]
        * 2
    )
    assert record.boots[0].points[1].added["broken"].missing == "its function failed: ValueError: not at c=8"


def test_a_project_that_adds_none_stores_none(world: World, declare: type[Declare]) -> None:
    """Nothing stands in the record for it."""
    record = world.measure(declare.pair(None, 4, rounds=1))

    assert record.added_metrics == ()
    assert [point.added for boot in record.boots for point in boot.points] == [{}] * 4


def test_a_changed_command_of_one_arm_is_a_second_variable(world: World, declare: type[Declare]) -> None:
    """Nobody has declared it: the window ends after a round, INVALID by default, unless the pair allows it."""
    plain = world.facts
    world.facts = lambda arm: {  # type: ignore[method-assign]  # an engine that a project wraps
        **plain(arm), **({"changed_command": "nice {command}"} if arm.name == "k4" else {}),
    }  # fmt: skip
    pair = declare.pair(None, 4, rounds=3)
    allowed = dataclasses.replace(pair, allow_engine_differences={"started_as": "looked at"})
    gates = [declare.gate(one) for one in (pair, allowed)]
    record, other = (measure(WindowPlan((gate.pair,), (gate,)), world.ports()) for gate in gates)
    [verdict], [accepted] = (judge(gate, one) for gate, one in zip(gates, (record, other), strict=True))
    (told,) = record.pairs
    found = {one["id"]: one for one in told.differences or ()}

    assert (found["started_as"]["kind"], found["started_as"]["candidate"]) == ("undeclared", "nice {command}")
    assert record.engine["k4"]["changed_command"] == "nice {command}"
    assert (verdict.outcome, verdict.reason, len(record.boots)) == ("INVALID", "engine-differences", 2)
    assert verdict.detail == 'undeclared          started_as: (absent) -> "nice {command}"'
    assert accepted.outcome != "INVALID"
