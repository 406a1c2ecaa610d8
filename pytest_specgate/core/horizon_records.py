"""What window records tell of draft horizons: identity first, then only points that may be judged."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final, TypeAlias

from pytest_specgate.core import identity, validity
from pytest_specgate.core.acceptance_samples import check_drafts, curve_of, decoded_of
from pytest_specgate.core.advice import OBJECTIVES, HorizonFigures
from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.confounds import other_start, unlisted_differences
from pytest_specgate.core.decode_figures import decode_figures
from pytest_specgate.core.errors import ScrapeError, UsageError
from pytest_specgate.core.horizon import Measured
from pytest_specgate.core.horizon_noise import declared_known, horizon_noise, of_steps
from pytest_specgate.core.judge import first_point_problem
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import measure
from pytest_specgate.core.profile import ends_of
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.stored_gates import declared_floors, pairs_of
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.floors import NoiseFloor
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.records import BootRecord, PointRecord, WindowRecord

    _Points: TypeAlias = Mapping[str, dict[Level, list[tuple[BootRecord, PointRecord]]]]

_OF_STEPS: Final = ("acceptance_rate", "acceptance_length", "tokens_per_step", "step_time")
"""Metrics that tell acceptance, and what steps give and cost: where one of them is INVALID, none of it is told."""

_SPECULATION: Final = "args.speculative_config"
_HORIZON: Final = "num_speculative_tokens"
_NONE_DRAFTED: Final = Failure(
    reason="not-measured", message="no arm that speculates was booted, so nothing is told of draft horizons"
)
_TOLD_BY_REQUEST: Final = "args.per_request_spec_decode_metrics"
"""An argument that only a speculative arm can have, and that changes what is told and not how it is served."""


@dataclasses.dataclass(frozen=True, slots=True)
class DrafterHorizons:
    """The horizons of one drafter in one window: arms that differ in k alone, and the one without speculation.

    Attributes:
        window: where the record lies.
        identity: whether all its boots got the same requests, as a sentence.
        drafter: its name: ``ngram``, ``draft_model /models/small``.
        arms: name of each horizon's arm.
        measured: tokens per step, step times and curves, by load level.
        figures: what horizons are compared by.
        noise: of a paired difference, by metric, where anything tells it.
        noise_words: who tells it, by metric.
        ends: the lowest and the highest load that horizons are compared at, as `pytest_specgate.core.profile.ends_of`
            has them; `None` where it is not told.
        settings: what its arms share, by dotted path: everything but the horizon.
    """

    window: str
    identity: str
    drafter: str
    arms: Mapping[int, str]
    measured: Mapping[Level, tuple[Measured, ...]]
    figures: tuple[HorizonFigures, ...]
    noise: Mapping[str, Noise]
    noise_words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ends: tuple[Level, Level] | None = None
    settings: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class WindowHorizons:
    """What one window tells of horizons.

    Attributes:
        drafters: each with the horizons that were measured.
        left_out: why something is not among them, a reason each.
        finished: whether it ran to its end.
        stopped: why it ended before its last round; empty when nothing stopped it.
        ends: the lowest and the highest load, as its drafters have them.
    """

    drafters: tuple[DrafterHorizons, ...]
    left_out: tuple[Failure, ...]
    finished: bool = True
    stopped: str = ""
    ends: tuple[Level, Level] | None = None

    @property
    def is_invalid(self) -> bool:
        """Whether nothing of it may be looked at; a window in which no arm speculates may, and tells nothing."""
        return not self.drafters and any(one != _NONE_DRAFTED for one in self.left_out)


def window_horizons(
    record: WindowRecord, path: str, *, floors: Mapping[str, NoiseFloor] | None = None
) -> WindowHorizons:
    """Return what a window tells of horizons.

    Args:
        record: of the window.
        path: where it lies.
        floors: noise floors by metric, which replace what the record tells.
    """
    left_out: list[Failure] = []
    found: tuple[DrafterHorizons, ...] = ()
    if problem := _window_problem(record):
        left_out.append(problem)
    else:
        arms = [arm for arm in record.arms if _usable(arm, record, left_out)]
        told = [_drafter(members, record, path, floors or {}, left_out) for members in _families(arms)]
        found = tuple(one for one in told if one is not None and (one.measured or one.figures))
    if not found and not left_out:
        left_out.append(_NONE_DRAFTED)
    return WindowHorizons(
        found, tuple(dict.fromkeys(left_out)), record.finished, record.stopped, ends=ends_of(record.profile)
    )


def _drafter(
    members: Sequence[Arm],
    record: WindowRecord,
    path: str,
    floors: Mapping[str, NoiseFloor],
    left_out: list[Failure],
) -> DrafterHorizons | None:
    """Return what is told of the arms of one drafter; `None` where they may not be compared."""
    boots = [boot for arm in members for boot in record.boots_of(arm.name)]
    report = identity.compare(boots, arms=min(2, len(members)))
    if problem := _family_problem(members, record, report):
        left_out.append(problem)
        return None
    points = {arm.name: _points(arm, record, left_out) for arm in members}
    _refuse_unlike(members, record, points, left_out)
    left_out += _missing(members, record, points)
    refused, ends = _refused(members, record), ends_of(record.profile)
    measured = _measured(members, record, points, left_out, refused)
    noise = horizon_noise(members, record.noise, declared_floors(record), ends=ends)
    noise.update({name: declared_known(floor) for name, floor in floors.items()})
    return DrafterHorizons(
        path,
        report.sentence if len(boots) > 1 else identity.OF_ONE_BOOT,
        _drafter_of(next(arm for arm in members if arm.speculates)),
        {arm.draft_horizon or 0: arm.name for arm in members},
        {at: tuple(dataclasses.replace(one, noise=of_steps(noise)) for one in here) for at, here in measured.items()},
        tuple(_figures(members, record, points, refused, path=path)),
        {name: known.noise for name, known in noise.items()},
        {name: known.words for name, known in noise.items()},
        ends,
        _settings(next(arm for arm in members if arm.speculates)),
    )


def _window_problem(record: WindowRecord) -> Failure | None:
    """Return why nothing of a window may be looked at."""
    boots = sorted(record.boots, key=lambda boot: boot.started_at)
    if served := [boot for boot in boots if boot.failure is None]:
        return validity.drifted_between(served)
    failed = next((boot.failure for boot in boots if boot.failure is not None), None)
    if failed is None:
        return Failure(reason="not-measured", message="the window holds no boot")
    return Failure(reason=failed.reason, message=f"the window holds no boot that served: {failed.message}")


def _family_problem(arms: Sequence[Arm], record: WindowRecord, report: identity.IdentityReport) -> Failure | None:
    """Return why arms of one drafter may not be compared: other requests, or servers that differ in something else."""
    if report.differences:
        fields = ", ".join(difference.field for difference in report.differences)
        names = ", ".join(arm.name for arm in arms)
        return Failure(reason="profile-mismatch", message=f"{names}: {report.sentence}; other: {fields}")
    problems = (
        unlisted_differences(pair, record) if record.strict else other_start(pair, record)
        for pair in _pairs_among(arms, record)
    )
    return next((problem for problem in problems if problem is not None), None)


def _refuse_unlike(arms: Sequence[Arm], record: WindowRecord, points: _Points, left_out: list[Failure]) -> None:
    """Take out the levels at which a declared pair among some arms may not be judged, though each arm may."""
    for pair in _pairs_among(arms, record):
        for at in record.profile.points:
            if all(at in points[arm.name] for arm in pair.arms):
                problem = first_point_problem(pair, record, at=at)
                if problem is not None:
                    left_out.append(problem)
                    for own in points.values():
                        own.pop(at, None)


def _pairs_among(arms: Sequence[Arm], record: WindowRecord) -> list[ArmPair]:
    # By name: the arms of a record have lost their secrets.
    names = {arm.name for arm in arms}
    return [pair for pair in pairs_of(record) if not pair.alone and {arm.name for arm in pair.arms} <= names]


def _refused(arms: Sequence[Arm], record: WindowRecord) -> frozenset[tuple[object, object]]:
    """Return the metrics of pairs among some arms that a verdict calls INVALID, each with its load level."""
    titles = {pair.title for pair in _pairs_among(arms, record)}
    return frozenset(
        (verdict.get("metric"), verdict.get("at"))
        for verdict in record.verdicts
        # A baseline that does not fit says nothing against what was measured today.
        if verdict.get("outcome") == Outcome.INVALID
        and verdict.get("kind") != NOT_WORSE_THAN_BASELINE
        and verdict.get("pair") in titles
    )


def _usable(arm: Arm, record: WindowRecord, left_out: list[Failure]) -> bool:
    boots = record.boots_of(arm.name)
    problems = (validity.boot_problem(arm, boot, record.profile) for boot in boots)
    problem = next((one for one in problems if one is not None), None)
    if problem is not None:
        left_out.append(problem)
    if arm.speculates and arm.draft_horizon is None:
        text = f"arm {arm.name} declares speculation without a horizon, so its k is not known"
        left_out.append(Failure(reason="arm-not-as-declared", message=text))
        return False
    return bool(boots) and problem is None


def _families(arms: Sequence[Arm]) -> Iterator[list[Arm]]:
    """Yield the arms of each drafter, those without speculation that differ in nothing else first."""
    for key in dict.fromkeys(_family(arm) for arm in arms if arm.speculates):
        base = key[0]
        off = [arm for arm in arms if not arm.speculates and _family(arm)[0] == base]
        own: dict[int, Arm] = {}
        for arm in [*off, *(arm for arm in arms if arm.speculates and _family(arm) == key)]:
            own.setdefault(arm.draft_horizon or 0, arm)
        yield [own[k] for k in sorted(own)]


def _family(arm: Arm) -> tuple[str, str]:
    """Return what arms of one drafter share: everything else, and the drafter itself."""
    shared = sorted(_settings(arm).items())
    drafting = [item for item in shared if item[0].startswith(_SPECULATION)]
    return repr([item for item in shared if item not in drafting]), repr(drafting)


def _settings(arm: Arm) -> dict[str, JsonValue]:
    """Return what an arm shares with all others of its drafter, by dotted path."""
    own = {f"{_SPECULATION}.{_HORIZON}", _TOLD_BY_REQUEST}
    return {path: value for path, value in arm.flat().items() if path not in own}


def _drafter_of(arm: Arm) -> str:
    """Return a drafter's name: its method, and its model where it has one."""
    config = arm.args.get("speculative_config")
    parts: dict[str, JsonValue] = config if isinstance(config, dict) else {}
    told = [str(parts[name]) for name in ("method", "model") if parts.get(name)]
    return " ".join(told) or "drafter"


def _points(
    arm: Arm, record: WindowRecord, left_out: list[Failure]
) -> dict[Level, list[tuple[BootRecord, PointRecord]]]:
    """Return the points of an arm by level, where those of all boots may be judged."""
    found: dict[Level, list[tuple[BootRecord, PointRecord]]] = {}
    for at in record.profile.points:
        own = [(boot, point) for boot in record.boots_of(arm.name) if (point := boot.point(at)) is not None]
        problems = (validity.point_problem(arm, point, record.profile) for _, point in own)
        problem = next((one for one in problems if one is not None), None)
        if problem is None:
            found[at] = own
        else:
            left_out.append(problem)
    return found


def _measured(
    arms: Sequence[Arm],
    record: WindowRecord,
    points: _Points,
    left_out: list[Failure],
    refused: Collection[tuple[object, object]],
) -> dict[Level, tuple[Measured, ...]]:
    found: dict[Level, tuple[Measured, ...]] = {}
    for at in record.profile.points:
        if any((name, at) in refused for name in _OF_STEPS):
            continue
        here = []
        for arm in arms:
            own = [point for _, point in points[arm.name].get(at, ())]
            one = _one(arm, record, own, at=at) if own else None
            if isinstance(one, Failure):
                left_out.append(one)
            elif one is not None:
                here.append(one)
        if any(one.curve is not None for one in here):
            found[at] = tuple(here)
    return found


def _one(arm: Arm, record: WindowRecord, points: Sequence[PointRecord], *, at: Level) -> Measured | Failure:
    figures = decode_figures(record, arm, at)
    if isinstance(figures, Failure):
        return figures
    try:
        if arm.speculates:
            check_drafts(points)
        curve = curve_of(points) if arm.speculates else None
        decoded = () if curve is None else decoded_of(points, curve)
    except (UsageError, ScrapeError) as error:
        return Failure(reason="missing-metric", message=f"arm {arm.name} at {level_label(at)}: {error}")
    k = arm.draft_horizon or 0
    return Measured(k, figures.tokens_per_step, figures.step_times_s, curve, decoded)


def _figures(
    arms: Sequence[Arm],
    record: WindowRecord,
    points: _Points,
    refused: Collection[tuple[object, object]],
    *,
    path: str,
) -> Iterator[HorizonFigures]:
    for arm in arms:
        for at, own in points[arm.name].items():
            values = {name: _values(name, [point for _, point in own], record) for name in OBJECTIVES.values()}
            yield HorizonFigures(
                window=path,
                arm=arm.name,
                k=arm.draft_horizon or 0,
                at=at,
                rounds=tuple(boot.round for boot, _ in own),
                places=tuple(boot.position for boot, _ in own),
                values={name: found for name, found in values.items() if found and (name, at) not in refused},
            )


def _missing(arms: Sequence[Arm], record: WindowRecord, points: _Points) -> Iterator[Failure]:
    """Yield why horizons are not compared by a metric at points that may be judged, each reason once."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in OBJECTIVES.values():
        for arm in arms:
            for at, own in points[arm.name].items():
                told = (measure(name, point, record.profile).missing for _, point in own)
                if why := next(filter(None, told), None):
                    found.setdefault((name, why), []).append(f"{arm.name} at {level_label(at)}")
    for (name, why), places in found.items():
        yield Failure(reason="missing-metric", message=f"no {name} of {', '.join(places)}: {why}")


def _values(name: str, points: Sequence[PointRecord], record: WindowRecord) -> tuple[float, ...]:
    """Return a metric of each boot; empty where one of them has none."""
    found = [measure(name, point, record.profile).value for point in points]
    known = tuple(value for value in found if value is not None and value > 0)
    return known if len(known) == len(found) else ()
