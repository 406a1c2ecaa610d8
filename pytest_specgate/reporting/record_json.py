"""A window record in short, for programs: what was measured where, what of it is valid, what was judged."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specgate.core import validity
from pytest_specgate.core.hosts import facts_of, host_class
from pytest_specgate.core.judge import figure_problem, first_point_problem, identity_of, pair_problem
from pytest_specgate.core.levels import level_id
from pytest_specgate.core.metrics import measure, metric, position_metrics, rows
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.stored_gates import pairs_of
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.acceptance_levels import levels_of
from pytest_specgate.reporting.window_pairs import verdicts_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.messages import Judged


@dataclasses.dataclass(frozen=True, slots=True)
class _Judged:
    """A pair of a record with what keeps its figures from being shown.

    Attributes:
        pair: the arms.
        problem: why none may be; `None` where they may.
        verdicts: on the pair.
        rounds: that both arms ran.
    """

    pair: ArmPair
    problem: Failure | None
    verdicts: Sequence[Verdict]
    rounds: frozenset[int]


def record_json(record: WindowRecord, *, path: str, judged: Iterable[Judged]) -> dict[str, JsonValue]:
    """Return a record in short; what is INVALID says so with its reason, and has no figures.

    Args:
        record: to describe.
        path: where it lies.
        judged: the gates on its pairs, with their verdicts.
    """
    known = tuple(judged)
    pairs = [_judged(pair, record, known) for pair in pairs_of(record)]
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
        "temperatures": {level_id(at): record.profile.temperature_at(at) for at in record.profile.points},
        "added_metrics": [one.model_dump(mode="json") for one in record.added_metrics],
        "pairs": [_pair(one, record) for one in pairs],
        "ruled_out": {**record.ruled_out},
        "arms": [_arm(arm, [one for one in pairs if arm in one.pair.arms], record) for arm in record.arms],
        "verdicts": [verdict_json(verdict) for verdict in record.verdicts],
    }


def _judged(pair: ArmPair, record: WindowRecord, known: Sequence[Judged]) -> _Judged:
    rounds = frozenset(reference.round for reference, _ in record.rounds_of(pair))
    return _Judged(pair, pair_problem(pair, record), verdicts_on(pair, known), rounds)


def verdict_json(stored: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a verdict with a word on whether its figures may be read: an INVALID one has none."""
    return {"valid": stored.get("outcome") != Outcome.INVALID, **stored}


def _problem(problem: Failure) -> dict[str, JsonValue]:
    return {"valid": False, "reason": problem.reason, "message": problem.message, "detail": problem.detail}


def _pair(judged: _Judged, record: WindowRecord) -> dict[str, JsonValue]:
    pair, report = judged.pair, identity_of(judged.pair, record)
    found: dict[str, JsonValue] = {
        "pair": pair.title,
        "reference": None if pair.alone else pair.reference.name,
        "candidate": pair.candidate.name,
        "varies": list(pair.paths),
        "identity": {
            "fields": report.fields,
            "identical": report.fields - len(report.differences),
            "differing": [difference.field for difference in report.differences],
        },
        "rounds": len(judged.rounds),
    }
    if judged.problem is not None:
        return {**found, **_problem(judged.problem)}
    points: dict[str, JsonValue] = {}
    for at in record.profile.points:
        at_point = first_point_problem(pair, record, at=at)
        points[level_id(at)] = {"valid": True} if at_point is None else _problem(at_point)
    return {**found, "valid": True, "points": points, **_acceptance(judged, record)}


def _acceptance(judged: _Judged, record: WindowRecord) -> dict[str, JsonValue]:
    """Return what an arm that was measured alone accepted, with intervals; nothing of pairs, or without speculation."""
    pair = judged.pair
    if not (pair.alone and pair.candidate.speculates):
        return {}
    levels = levels_of(pair, record, judged.verdicts)
    return {"acceptance": [level.model_dump(mode="json") for level in levels]}


def _arm(arm: Arm, mine: Sequence[_Judged], record: WindowRecord) -> dict[str, JsonValue]:
    """Describe an arm by its pairs, with what each of its boots measured where that may be read."""
    boots, problem = _readable(arm, mine, record)
    if problem is not None:
        return {"arm": arm.name, **_problem(problem)}
    points: dict[str, JsonValue] = {}
    for at in record.profile.points:
        found = _point_of_pairs(boots, mine, record, at=at) if mine else _point(arm, boots, record, at=at)
        points[level_id(at)] = found
    return {"arm": arm.name, "valid": True, "boots": len(boots), "points": points}


def _readable(arm: Arm, mine: Sequence[_Judged], record: WindowRecord) -> tuple[Sequence[BootRecord], Failure | None]:
    """Return the boots of an arm that its valid pairs have, or else the first problem of its pairs or boots."""
    every = record.boots_of(arm.name)
    if mine:
        valid = [one for one in mine if one.problem is None]
        # A boot whose partner never ran is in no figure: nothing tells whether both had the same load.
        rounds = {number for one in valid for number in one.rounds}
        return [boot for boot in every if boot.round in rounds], None if valid else mine[0].problem
    problems = [validity.boot_problem(arm, boot, record.profile) for boot in every]
    problems.append(validity.drifted_between(every))
    if not every:
        problems.append(Failure(reason="not-measured", message=f"the window ended before {arm.name} ran"))
    return every, _first(problems)


def _first(problems: Iterable[Failure | None]) -> Failure | None:
    return next((problem for problem in problems if problem is not None), None)


def _point_of_pairs(
    boots: Sequence[BootRecord], mine: Sequence[_Judged], record: WindowRecord, *, at: Level
) -> dict[str, JsonValue]:
    """Describe a point of an arm by its pairs: a boot is shown where one of them can be judged."""
    valid = [one for one in mine if one.problem is None]
    problems = [first_point_problem(one.pair, record, at=at) for one in valid]
    judged = [one for one, problem in zip(valid, problems, strict=True) if problem is None]
    if not judged:
        problem = _first(problems)
        assert problem is not None, "no pair can be judged here"
        return _problem(problem)

    def shown(name: str) -> set[int]:
        found = [
            one.rounds
            for one in judged
            if figure_problem(one.pair, record, one.verdicts, metric_name=name, at=at) is None
        ]
        return set().union(*found)

    return _values(boots, record, at=at, shown=shown)


def _point(arm: Arm, boots: Sequence[BootRecord], record: WindowRecord, *, at: Level) -> dict[str, JsonValue]:
    """Describe a point of an arm that is in no pair."""
    points = [point for boot in boots if (point := boot.point(at)) is not None]
    problem = _first(validity.point_problem(arm, point, record.profile) for point in points)
    every = {boot.round for boot in boots}
    return _values(boots, record, at=at, shown=lambda _: every) if problem is None else _problem(problem)


def _values(
    boots: Sequence[BootRecord], record: WindowRecord, *, at: Level, shown: Callable[[str], set[int]]
) -> dict[str, JsonValue]:
    """Return every metric of a point, boot by boot in the unit that its key names; null where there is nothing to show.

    Args:
        boots: of an arm.
        record: with their load.
        at: load level.
        shown: returns the rounds whose values of a metric may be shown.
    """
    points = [(boot.round, point) for boot in boots if (point := boot.point(at)) is not None]
    values: dict[str, JsonValue] = {}
    for name in (*rows(), *position_metrics(_horizon(boots, record))):
        rounds = shown(name)
        found = [measure(name, point, record.profile).value if number in rounds else None for number, point in points]
        if any(value is not None for value in found):
            values[metric(name).stored_key] = [*found]
    return {"valid": True, "values": values}


def _horizon(boots: Sequence[BootRecord], record: WindowRecord) -> int | None:
    """Return the draft horizon that an arm declares, by its boots; `None` where speculation is off."""
    names = {boot.arm for boot in boots}
    return next((arm.draft_horizon for arm in record.arms if arm.name in names), None)
