"""Gates on their way to a record: as they were written, without secrets, on arms and load that the record has."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.errors import RecordError, UsageError
from pytest_specgate.core.gate_exports import exported, gate_on
from pytest_specgate.core.records import PairRecord, WindowRecord
from pytest_specgate.core.redaction import redacted_arm, redacted_profile
from pytest_specgate.core.thresholds import CurveThreshold, LimitThreshold, NoiseFloor, Threshold

if TYPE_CHECKING:
    from pydantic import JsonValue

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.core.conftest import Build

KINDS: list[AnyThreshold] = [
    Threshold("output_throughput", 8, "not_worse", 0.05, NoiseFloor(0.01, "A/A windows of a test")),
    LimitThreshold("ttft_p50", 8, "at_most", 0.2),
    CurveThreshold(1),
]
BODY: dict[str, JsonValue] = {"api_key": "hunter2"}
ENV = {"HF_TOKEN": "hunter2", "A": "1"}


def secret_pair(build: type[Build]) -> ArmPair:
    """Return a pair whose arms and load carry secrets."""
    pair = build.pair()
    arms = {
        name: dataclasses.replace(getattr(pair, name), env=ENV) for name in ("reference", "candidate")
    }  # fmt: skip
    return dataclasses.replace(pair, **arms, profile=dataclasses.replace(pair.profile, extra_body=BODY))


def kept(build: type[Build], pair: ArmPair) -> WindowRecord:
    """Return a record of a pair, as a run writes it: without secrets."""
    record = build.window(pair, [1.0, 1.01], [1.02, 1.0])
    return record.model_copy(
        update={
            "pairs": (PairRecord.of(pair),),
            "arms": tuple(map(redacted_arm, pair.arms)),
            "profile": redacted_profile(pair.profile),
        }
    )


def sent(build: type[Build], pair: ArmPair) -> dict[str, Any]:
    """Return a gate on a pair with thresholds of several kinds, once through JSON."""
    found: dict[str, Any] = json.loads(json.dumps(exported(build.gate(pair, *KINDS))))
    return found


def test_a_gate_comes_back_on_the_pair_of_the_record(build: type[Build]) -> None:
    """Id, rounds, allowed differences and thresholds are its own; arms and load are those of the record."""
    pair = dataclasses.replace(secret_pair(build), rounds=8, allow_engine_differences={"a.b": "known for long"})
    record = kept(build, secret_pair(build))
    gate = gate_on(record, sent(build, pair))

    assert gate.thresholds == tuple(KINDS)
    assert (gate.pair.rounds, gate.pair.allow_engine_differences) == (8, {"a.b": "known for long"})
    assert gate.pair.arms == record.arms
    assert gate.pair.profile == record.profile


def test_no_secret_is_sent(build: type[Build]) -> None:
    """What is written for another process holds no more than a record would."""
    text = json.dumps(sent(build, secret_pair(build)))

    assert "hunter2" not in text
    assert text.count("[redacted]") == 3


@pytest.mark.parametrize(
    ("part", "name", "value", "sentence"),
    [
        (
            "reference",
            "env",
            {"A": "1"},
            'env.HF_TOKEN of arm off is not set in the gate, and "[redacted]" in the record',
        ),
        ("candidate", "model", "other", 'model of arm k4 is "other" in the gate, and "'),
        ("candidate", "python", "/venv/bin/python", 'engine of arm k4 is "/venv/bin/python" in the gate, and null in'),
        ("profile", "seed", 7, "seed of the load is 7 in the gate, and 0 in the record"),
        ("profile", "stop", ["x"], 'stop of the load is ["x"] in the gate, and [] in the record'),
        ("reference", "args", {"x": 1}, "args.x of arm off is 1 in the gate, and not set in the record"),
    ],
)
def test_the_first_field_that_differs_is_named(
    build: type[Build], *, part: str, name: str, value: object, sentence: str
) -> None:
    """Arms and load are compared to the letter."""
    pair = secret_pair(build)
    found = sent(build, pair)
    found[part] = {**found[part], name: value}

    with pytest.raises(UsageError) as caught:
        gate_on(kept(build, pair), found)
    assert sentence in str(caught.value)


def test_a_pair_that_was_not_measured_is_told_with_those_that_were(build: type[Build]) -> None:
    """Arms of the record that were not measured against each other are no pair of it."""
    pair = build.pair()
    record = kept(build, pair)
    turned = {**sent(build, pair)}
    turned["reference"], turned["candidate"] = turned["candidate"], turned["reference"]

    with pytest.raises(UsageError, match="it is on off against k4, and the pairs of the record are: k4 against off"):
        gate_on(record, turned)
    with pytest.raises(UsageError, match="and the pairs of the record are: none"):
        gate_on(record.model_copy(update={"pairs": ()}), turned)


@pytest.mark.parametrize(
    "change", [{"rounds": -1}, {"thresholds": []}, {"thresholds": [{"type": "limit", "fields": {}}]}]
)
def test_a_gate_that_cannot_be_read_says_which_it_is(build: type[Build], change: dict[str, object]) -> None:
    """What is no gate of this version is an error, and no gate with defaults."""
    pair = build.pair()

    with pytest.raises((UsageError, RecordError)):
        gate_on(kept(build, pair), {**sent(build, pair), **change})
