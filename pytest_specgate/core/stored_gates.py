"""Gates as a window record keeps them: what was claimed of what was measured, so that it can be judged again."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter, ValidationError

from pytest_specgate.core.arms import ArmPair, LonePair
from pytest_specgate.core.errors import RecordError, UsageError
from pytest_specgate.core.gate import Gate
from pytest_specgate.core.sweeps import never_booted, sweeps_of
from pytest_specgate.core.thresholds import (
    AnyThreshold,
    BaselineThreshold,
    CurveThreshold,
    LimitThreshold,
    OutputsThreshold,
    Threshold,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.floors import NoiseFloor
    from pytest_specgate.core.records import PairRecord, WindowRecord

_TYPES: Final[dict[str, TypeAdapter[AnyThreshold]]] = {
    "interval": TypeAdapter(Threshold),
    "limit": TypeAdapter(LimitThreshold),
    "curve": TypeAdapter(CurveThreshold),
    "outputs": TypeAdapter(OutputsThreshold),
    "baseline": TypeAdapter(BaselineThreshold),
}
"""What tells stored thresholds apart; fields alone would take a broken one for another."""

_NAMES: Final[dict[type[AnyThreshold], str]] = {
    Threshold: "interval",
    LimitThreshold: "limit",
    CurveThreshold: "curve",
    OutputsThreshold: "outputs",
    BaselineThreshold: "baseline",
}


_OF_PAIR: Final = ("reference", "candidate", "varies", "rounds", "allow_engine_differences")
"""Fields of a stored gate that name its pair."""


def stored_gate(gate: Gate) -> dict[str, JsonValue]:
    """Return a gate as JSON; its pair is named by its arms, which the record describes.

    Two pairs of the same arms may differ in the rest of what stands there.
    """
    pair, thresholds = gate.pair, [stored_threshold(threshold) for threshold in gate.thresholds]
    return {
        "id": gate.id,
        "reference": pair.reference.name,
        "candidate": pair.candidate.name,
        "varies": [*pair.paths],
        "rounds": pair.rounds,
        "allow_engine_differences": {**pair.allow_engine_differences},
        "thresholds": thresholds,
    }


def stored_threshold(threshold: AnyThreshold) -> JsonValue:
    """Return a threshold as JSON."""
    name = _NAMES[type(threshold)]
    return {"type": name, "fields": _TYPES[name].dump_python(threshold, mode="json")}


def gates_of(record: WindowRecord) -> tuple[Gate, ...]:
    """Return the gates that a record was judged by, on its own pairs.

    Raises:
        RecordError: a gate is not of this version, or names a pair that the record has not.
    """
    return tuple(_gate(stored, record) for stored in record.gates)


def pairs_of(record: WindowRecord) -> tuple[ArmPair, ...]:
    """Return the pairs of a record, as they were declared."""
    return tuple(declared_pair(pair, record) for pair in record.pairs)


def compared_pairs(record: WindowRecord) -> tuple[ArmPair, ...]:
    """Return the pairs of a record that compare two arms, both booted: one arm alone has no change."""
    missing = never_booted(record)
    pairs = (pair for pair in pairs_of(record) if not pair.alone)
    return tuple(pair for pair in pairs if missing.isdisjoint(arm.name for arm in pair.arms))


def title_of(pair: PairRecord) -> str:
    """Return what a pair of a record is called: ``k4 against off``, or the arm that is alone."""
    return pair.candidate if pair.reference == pair.candidate else f"{pair.candidate} against {pair.reference}"


def _gate(stored: Mapping[str, JsonValue], record: WindowRecord) -> Gate:
    names = (stored.get("reference"), stored.get("candidate"))
    # Records of older versions name the arms only.
    told = {field: stored[field] for field in _OF_PAIR if field in stored}
    pairs = ((one, one.model_dump(mode="json", include=set(told))) for one in record.pairs)
    pair = next((one for one, fields in pairs if fields == told), None)
    if pair is None:
        on = f"{names[1]} alone" if names[0] == names[1] else f"{names[1]} against {names[0]}"
        raise RecordError(f"gate {stored.get('id')} is on {on}, which the record has not")
    listed = stored.get("thresholds")
    thresholds: Sequence[JsonValue] = listed if isinstance(listed, list) else []
    try:
        return Gate(str(stored.get("id")), declared_pair(pair, record), tuple(map(threshold_of, thresholds)))
    except (ValidationError, UsageError) as error:
        raise RecordError(f"gate {stored.get('id')} of the record cannot be read: {first_problem(error)}") from error


def declared_floors(
    record: WindowRecord, *, claims: Iterable[AnyThreshold] | None = None
) -> Iterator[tuple[str, NoiseFloor]]:
    """Yield the noise floors of relative changes that gates and sweeps of a window declare, with their metrics.

    Args:
        record: of the window.
        claims: that are looked at; `None` for all of the record's gates.

    Raises:
        RecordError: no claims are given, and a gate or a sweep of the record cannot be read.
    """
    for claim in [claim for gate in gates_of(record) for claim in gate.thresholds] if claims is None else claims:
        if isinstance(claim, Threshold | CurveThreshold):
            floor = claim.floor
            if floor is not None and floor.fraction is not None and not floor.points:
                yield claim.metric, floor
    # Who brings claims asks for noise alone, and need not stop at a sweep that cannot be read.
    with contextlib.nullcontext() if claims is None else contextlib.suppress(RecordError):
        for sweep in sweeps_of(record):
            yield from sweep.noise.items()


def readable_claims(record: WindowRecord) -> Iterator[AnyThreshold]:
    """Yield the thresholds of a window's gates, without their pairs: arms that have lost secrets may make none.

    Args:
        record: of the window; what cannot be read of its gates is passed over.
    """
    for stored in record.gates:
        listed = stored.get("thresholds")
        for one in listed if isinstance(listed, list) else ():
            with contextlib.suppress(UsageError, ValidationError):
                yield threshold_of(one)


def first_problem(error: ValidationError | UsageError) -> str:
    """Return what is wrong as one line, of many errors the first, with its place as dotted text."""
    if isinstance(error, UsageError):
        return str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else first["msg"]


def threshold_of(stored: JsonValue) -> AnyThreshold:
    """Read a threshold that `stored_threshold` wrote.

    Raises:
        UsageError: it is of no known type.
        ValidationError: a field is wrong.
    """
    found = stored if isinstance(stored, dict) else {}
    adapter = _TYPES.get(str(found.get("type")))
    if adapter is None:
        raise UsageError(f"a threshold is of type {found.get('type')!r}")
    return adapter.validate_json(json.dumps(found.get("fields")))


def declared_pair(pair: PairRecord, record: WindowRecord) -> ArmPair:
    """Return a pair of a record, as it was declared; one whose two arms are one is that arm alone."""
    arms = {arm.name: arm for arm in record.arms}
    if pair.reference == pair.candidate:
        return LonePair.of(arms[pair.candidate], profile=record.profile, rounds=pair.rounds)
    return ArmPair(
        reference=arms[pair.reference],
        candidate=arms[pair.candidate],
        varies=pair.varies,
        profile=record.profile,
        rounds=pair.rounds,
        allow_engine_differences=pair.allow_engine_differences,
    )
