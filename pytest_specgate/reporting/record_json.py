"""A window record in short, for programs: what was measured where, what of it is valid, what was judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core import validity
from pytest_specgate.core.hosts import facts_of, host_class
from pytest_specgate.core.judge import first_point_problem, identity_of, pair_problem
from pytest_specgate.core.levels import level_id
from pytest_specgate.core.metrics import measure, rows
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.stored_gates import pairs_of
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, WindowRecord


def record_json(record: WindowRecord, *, path: str) -> dict[str, JsonValue]:
    """Return a record in short; what is INVALID says so with its reason, and has no figures.

    Args:
        record: to describe.
        path: where it lies.
    """
    pairs = pairs_of(record)
    return {
        "record": path,
        "created_at": record.created_at,
        "finished": record.finished,
        "stopped": record.stopped,
        "strict": record.strict,
        "attempt": record.attempt,
        "continued": [earlier.model_dump(mode="json") for earlier in record.continued],
        "commit": record.commit,
        "host_class": record.host_class or host_class(facts_of(record.host)),
        "engine": {arm: dict(facts) for arm, facts in record.engine.items()},
        "profile": record.profile.fingerprint(),
        "added_metrics": [one.model_dump(mode="json") for one in record.added_metrics],
        "pairs": [_pair(pair, record) for pair in pairs],
        "arms": [_arm(arm, pairs, record) for arm in record.arms],
        "verdicts": [verdict_json(verdict) for verdict in record.verdicts],
    }


def verdict_json(stored: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a verdict with a word on whether its figures may be read: an INVALID one has none."""
    return {"valid": stored.get("outcome") != Outcome.INVALID, **stored}


def _problem(problem: Failure) -> dict[str, JsonValue]:
    return {"valid": False, "reason": problem.reason, "message": problem.message, "detail": problem.detail}


def _pair(pair: ArmPair, record: WindowRecord) -> dict[str, JsonValue]:
    report, problem = identity_of(pair, record), pair_problem(pair, record)
    found: dict[str, JsonValue] = {
        "pair": pair.title,
        "reference": pair.reference.name,
        "candidate": pair.candidate.name,
        "varies": list(pair.paths),
        "identity": {
            "fields": report.fields,
            "identical": report.fields - len(report.differences),
            "differing": [difference.field for difference in report.differences],
        },
        "rounds": len(record.rounds_of(pair)),
    }
    if problem is not None:
        return {**found, **_problem(problem)}
    points: dict[str, JsonValue] = {}
    for at in record.profile.points:
        at_point = first_point_problem(pair, record, at=at)
        points[level_id(at)] = {"valid": True} if at_point is None else _problem(at_point)
    return {**found, "valid": True, "points": points}


def _arm(arm: Arm, pairs: Sequence[ArmPair], record: WindowRecord) -> dict[str, JsonValue]:
    """Describe an arm, with what each of its boots measured where that may be read."""
    boots, problem = _readable(arm, pairs, record)
    if problem is not None:
        return {"arm": arm.name, **_problem(problem)}
    points: dict[str, JsonValue] = {level_id(at): _point(arm, boots, record, at=at) for at in record.profile.points}
    return {"arm": arm.name, "valid": True, "boots": len(boots), "points": points}


def _readable(arm: Arm, pairs: Sequence[ArmPair], record: WindowRecord) -> tuple[Sequence[BootRecord], Failure | None]:
    """Return the boots of an arm that its valid pairs have, or else the first problem of its pairs or boots."""
    mine = [pair for pair in pairs if arm in pair.arms]
    problems = [pair_problem(pair, record) for pair in mine]
    valid = [pair for pair, problem in zip(mine, problems, strict=True) if problem is None]
    every = record.boots_of(arm.name)
    if mine:
        rounds = {boot.round for pair in valid for boots in record.boots_for(pair) for boot in boots}
        return [boot for boot in every if boot.round in rounds], None if valid else _first(problems)
    problems = [validity.boot_problem(arm, boot, record.profile) for boot in every]
    problems.append(validity.drifted_between(every))
    if not every:
        problems.append(Failure(reason="not-measured", message=f"the window ended before {arm.name} ran"))
    return every, _first(problems)


def _first(problems: Iterable[Failure | None]) -> Failure | None:
    return next((problem for problem in problems if problem is not None), None)


def _point(arm: Arm, boots: Sequence[BootRecord], record: WindowRecord, *, at: Level) -> dict[str, JsonValue]:
    """Return every metric of a point, boot by boot in the unit that its key names; null where a boot has none."""
    points = [point for boot in boots if (point := boot.point(at)) is not None]
    problem = _first(validity.point_problem(arm, point, record.profile) for point in points)
    if problem is not None:
        return _problem(problem)
    values: dict[str, JsonValue] = {}
    for name, row in rows().items():
        found = [measure(name, point, record.profile).value for point in points]
        if any(value is not None for value in found):
            values[row.stored_key] = [*found]
    return {"valid": True, "values": values}
