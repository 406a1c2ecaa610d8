"""Gates on their way from pytest, which knows gate files, to a command that judges a record by them."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from pytest_specgate.core.arms import Arm
from pytest_specgate.core.errors import RecordError, UsageError
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.metric_definitions import MetricDefinition
from pytest_specgate.core.profile import RequestProfile, same
from pytest_specgate.core.redaction import redacted_arm, redacted_profile
from pytest_specgate.core.stored_gates import declared_pair, first_problem, stored_threshold, threshold_of, title_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import JsonValue

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import WindowRecord

_ARM: Final = TypeAdapter(Arm)
_PROFILE: Final = TypeAdapter(RequestProfile)


def exported(gate: Gate) -> dict[str, JsonValue]:
    """Return a gate as JSON, with its arms and its load, without secrets: as a record would hold them."""
    pair = gate.pair
    return {
        "id": gate.id,
        **_measured(pair),
        "rounds": pair.rounds,
        "allow_engine_differences": dict(pair.allow_engine_differences),
        "thresholds": [stored_threshold(threshold) for threshold in gate.thresholds],
        "added_metrics": [one.model_dump(mode="json") for one in _added(gate)],
    }


def _added(gate: Gate) -> Iterator[MetricDefinition]:
    """Yield the definitions of the added metrics that a gate names, each once."""
    rows = {threshold.metric: threshold.row for threshold in gate.thresholds if hasattr(threshold, "row")}
    yield from (row.definition for row in rows.values() if row.definition is not None)


def _measured(pair: ArmPair) -> dict[str, JsonValue]:
    """Return what must be equal for a record to hold what a gate asks for."""
    return {
        "reference": _ARM.dump_python(redacted_arm(pair.reference), mode="json"),
        "candidate": _ARM.dump_python(redacted_arm(pair.candidate), mode="json"),
        "profile": _PROFILE.dump_python(redacted_profile(pair.profile), mode="json"),
    }


def gate_on(record: WindowRecord, found: Mapping[str, Any]) -> Gate:
    """Return an exported gate on the pair of a record that it asks for; rounds and thresholds are its own.

    Raises:
        UsageError: the record has no such pair, or defines a metric otherwise; the first thing that differs is named.
        RecordError: a pair of the record, or the exported gate, cannot be read.
    """
    names = [found[side]["name"] for side in ("reference", "candidate")]
    stored = next((one for one in record.pairs if [one.reference, one.candidate] == names), None)
    if stored is None:
        known = ", ".join(map(title_of, record.pairs)) or "none"
        wanted = f"{names[1]} alone" if names[0] == names[1] else f"{names[1]} against {names[0]}"
        raise UsageError(f"it is on {wanted}, and the pairs of the record are: {known}")
    _refuse_other_metrics(found, record)
    try:
        pair = declared_pair(stored, record)
        _refuse_others(found, _measured(pair))
        thresholds = tuple(map(threshold_of, found["thresholds"]))
        allowed = dict(found["allow_engine_differences"])
        own = dataclasses.replace(pair, rounds=found["rounds"], allow_engine_differences=allowed)
        return Gate(str(found["id"]), own, thresholds)
    except ValidationError as error:
        raise RecordError(f"gate {found['id']} cannot be read: {first_problem(error)}") from error


def _refuse_other_metrics(wanted: Mapping[str, Any], record: WindowRecord) -> None:
    """Name the first metric that the gate's project adds, and the record has not, or defines otherwise."""
    known = {one.name: one for one in record.added_metrics}
    for stored in wanted.get("added_metrics", ()):
        one = MetricDefinition.model_validate_json(json.dumps(stored))
        if one.name not in known:
            raise UsageError(f"it names {one.name}, which its project adds, and which was not computed for the record")
        for name, value in one.compared.items():
            if (before := known[one.name].compared[name]) != value:
                asked, had = json.dumps(value), json.dumps(before)
                raise UsageError(f"{name} of metric {one.name} is {asked} in the gate, and {had} in the record")


def _refuse_others(wanted: Mapping[str, Any], measured: Mapping[str, Any]) -> None:
    """Name the first field in which arms or load differ."""
    for part in ("reference", "candidate", "profile"):
        owner = "the load" if part == "profile" else f"arm {wanted[part]['name']}"
        left, right = (_fields(side[part], flat=part != "profile") for side in (wanted, measured))
        for name in [*left, *(name for name in right if name not in left)]:
            if name not in left or name not in right or not same(left[name], right[name]):
                asked, had = (json.dumps(side[name]) if name in side else "not set" for side in (left, right))
                raise UsageError(f"{name} of {owner} is {asked} in the gate, and {had} in the record")


def _fields(stored: Mapping[str, JsonValue], *, flat: bool) -> dict[str, JsonValue]:
    return _ARM.validate_json(json.dumps(stored)).flat() if flat else dict(stored)
