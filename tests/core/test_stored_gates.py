"""Gates in a record: read back, they are the gates that were written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.judge import judge
from pytest_specgate.core.records import PairRecord, WindowRecord
from pytest_specgate.core.stored_gates import gates_of, pairs_of, stored_gate
from pytest_specgate.core.thresholds import (
    CALIBRATED,
    BaselineThreshold,
    CurveThreshold,
    LimitThreshold,
    NoiseFloor,
    OutputsThreshold,
    Threshold,
)

if TYPE_CHECKING:
    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.core.conftest import Build

FLOOR = NoiseFloor(0.01, "A/A windows of a test")
KINDS: list[AnyThreshold] = [
    Threshold("output_throughput", 8, "not_worse", 0.05, FLOOR),
    Threshold("output_throughput", 8, "not_worse", None, CALIBRATED),
    Threshold("ttft_p50", 1, "not_worse", 0.05, None, 0.001),
    Threshold("acceptance_rate", 1, "equivalent", 0.02, NoiseFloor(0.01, "made up", points=True), 0.0, points=True),
    Threshold("tpot_p50", 8, "better", 0.0),
    LimitThreshold("ttft_p50", 8, "at_most", 0.2),
    LimitThreshold("output_throughput", 1, "at_least", 250.0),
    CurveThreshold(1, "output_throughput", FLOOR),
    CurveThreshold(1),
    OutputsThreshold(8, 0.99),
    BaselineThreshold("output_throughput", 8, 0.05),
    BaselineThreshold("ttft_p50", 1, 0.05, "absolute", FLOOR, engine="same"),
    BaselineThreshold("acceptance_rate", 1, 0.02, "relative", NoiseFloor(0.01, "made up", points=True), points=True),
]


def _with_gates(build: type[Build], *thresholds: AnyThreshold) -> tuple[Any, WindowRecord]:
    """Return a gate and a record that was judged by it, once through JSON."""
    pair = build.pair()
    gate = build.gate(pair, *thresholds)
    record = build.window(pair, [1.0, 1.01], [1.02, 1.0])
    kept = record.model_copy(update={"gates": (stored_gate(gate),), "pairs": (PairRecord.of(pair),)})
    return gate, WindowRecord.model_validate_json(kept.model_dump_json())


@pytest.mark.parametrize("threshold", KINDS, ids=map(str, range(len(KINDS))))
def test_a_threshold_of_every_kind_comes_back(build: type[Build], threshold: AnyThreshold) -> None:
    """Each kind is told apart by its fields, and is equal to what was written, type included."""
    gate, record = _with_gates(build, threshold)
    (again,) = gates_of(record)

    assert again.thresholds == gate.thresholds
    assert type(again.thresholds[0]) is type(threshold)
    assert again.id == gate.id
    assert again.pair.key == gate.pair.key


def test_a_record_is_judged_as_it_was(build: type[Build]) -> None:
    """The verdicts of a gate that was read back are those of the gate, to the last digit."""
    usual = [KINDS[0], KINDS[2], KINDS[4], KINDS[5], KINDS[7], KINDS[9]]
    gate, record = _with_gates(build, *usual)
    (again,) = gates_of(record)

    assert judge(again, record) == judge(gate, record)


def test_pairs_come_back_as_they_were_declared(build: type[Build]) -> None:
    """Arms, paths, rounds and the list of allowed differences are those of the declaration."""
    _, record = _with_gates(build, KINDS[0])

    assert [pair.key for pair in pairs_of(record)] == [build.pair().key]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ({"candidate": "k9"}, "is on k9 against off, which the record has not"),
        ({"thresholds": []}, "cannot be read"),
        ({"thresholds": "all"}, "cannot be read"),
        ({"thresholds": [{"metric": "ttft_p50", "at": 8}]}, "cannot be read: a threshold is of type None"),
        ({"thresholds": [{"type": "limit", "fields": {"metric": "ttft_p50", "at": 8}}]}, "cannot be read"),
        ({"thresholds": [{"type": "curve", "fields": {"metric": "no_such", "at": 8}}]}, "cannot be read"),
        ({"thresholds": [{"type": "baseline", "fields": {"metric": "ttft_p50", "at": 8}}]}, "cannot be read"),
        (
            {"thresholds": [{"type": "baseline", "fields": {"metric": "ttft_p50", "at": 8, "fraction": -0.1}}]},
            "cannot be read",
        ),
    ],
)
def test_what_is_no_gate_is_named(build: type[Build], edit: dict[str, Any], problem: str) -> None:
    """A gate that was edited, or is of another version, is refused with its id."""
    gate, record = _with_gates(build, KINDS[0])
    broken = {**json.loads(json.dumps(record.gates[0])), **edit}

    with pytest.raises(RecordError, match=problem) as caught:
        gates_of(record.model_copy(update={"gates": (broken,)}))
    assert str(caught.value).startswith(f"gate {gate.id} ")
    assert "\n" not in str(caught.value)
