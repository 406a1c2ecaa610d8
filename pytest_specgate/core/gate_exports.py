"""Gates on their way from pytest, which knows gate files, to a command that judges a record by them."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from pytest_specgate.core.arms import Arm
from pytest_specgate.core.errors import RecordError, UsageError
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.profile import RequestProfile, same
from pytest_specgate.core.redaction import redacted_arm, redacted_profile
from pytest_specgate.core.stored_gates import declared_pair, first_problem, stored_threshold, threshold_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    }


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
        UsageError: the record has no such pair; the first thing that differs is named.
        RecordError: a pair of the record, or the exported gate, cannot be read.
    """
    names = [found[side]["name"] for side in ("reference", "candidate")]
    stored = next((one for one in record.pairs if [one.reference, one.candidate] == names), None)
    if stored is None:
        known = ", ".join(f"{one.candidate} against {one.reference}" for one in record.pairs) or "none"
        raise UsageError(f"it is on {names[1]} against {names[0]}, and the pairs of the record are: {known}")
    try:
        pair = declared_pair(stored, record)
        _refuse_others(found, _measured(pair))
        thresholds = tuple(map(threshold_of, found["thresholds"]))
        allowed = dict(found["allow_engine_differences"])
        own = dataclasses.replace(pair, rounds=found["rounds"], allow_engine_differences=allowed)
        return Gate(str(found["id"]), own, thresholds)
    except ValidationError as error:
        raise RecordError(f"gate {found['id']} cannot be read: {first_problem(error)}") from error


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
