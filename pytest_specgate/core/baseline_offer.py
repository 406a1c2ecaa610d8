"""What a window offers to a baseline: figures by round, and what they were measured with."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from pytest_specgate.core.baselines import AcceptedWindow, BaselineValues
from pytest_specgate.core.confounds import BUILD, CHANGED_COMMANDS
from pytest_specgate.core.errors import InvalidError, RecordError
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metric_definitions import MetricDefinition
from pytest_specgate.core.metrics import DEFINITION_VERSION, measure
from pytest_specgate.core.profile import same, sha256_of
from pytest_specgate.core.redaction import redacted_arm
from pytest_specgate.core.verdict_parts import problem_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.metrics import Metric
    from pytest_specgate.core.records import BootRecord, WindowRecord
    from pytest_specgate.core.thresholds import BaselineThreshold

_UNCOMPARED: Final = ("client_version",)
"""Fields of a load that may change between windows: versions of libraries that send it, which a baseline outlives."""

METRIC: Final = "metric"
"""Key of an added metric in what a pair compares."""

_LONG: Final = 4
_CANDIDATE: Final = "candidate"
_SIDES: Final = ("reference", _CANDIDATE)


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What a window offers to one entry of a baseline.

    Attributes:
        threshold: that it is for.
        values: figures by round.
        definition: what was compared.
        profile: the load, as it was observed.
        samples: of how many requests (gaps, steps, drafts) a boot's figure was taken, at least.
        metric_definition_version: of the formulas that the figures were computed with.
    """

    threshold: BaselineThreshold
    values: BaselineValues
    definition: dict[str, JsonValue]
    profile: dict[str, JsonValue]
    samples: int
    metric_definition_version: int = DEFINITION_VERSION

    @property
    def definition_sha256(self) -> str:
        """Hash of what was compared."""
        return sha256_of(self.definition)

    @property
    def profile_sha256(self) -> str:
        """Hash of the load."""
        return sha256_of(self.profile)


def offer(pair: ArmPair, threshold: BaselineThreshold, record: WindowRecord) -> Offer:
    """Return what a window offers to the entry of a threshold.

    The pair as such is judgeable (`pytest_specgate.core.judge.pair_problem`).

    Raises:
        InvalidError: a point cannot be judged, or a figure is missing.
    """
    rounds = record.rounds_of(pair)
    per_chunk = threshold.row.per_chunk and threshold.mode == "relative"
    for both in rounds:
        problem = problem_at(pair, both, record, at=threshold.at, per_chunk=per_chunk)
        if problem is not None:
            raise InvalidError(problem.message, reason=problem.reason)
    reference, candidate = (
        tuple(_figure(arm, both[side], threshold, record) for both in rounds) if has else ()
        for side, (arm, has) in enumerate(zip(pair.arms, _have(pair, threshold), strict=True))
    )
    return Offer(
        threshold,
        BaselineValues(
            window=window_id(record),
            reference=tuple(value for value, _ in reference),
            candidate=tuple(value for value, _ in candidate),
        ),
        definition=definition_of(pair, record.settings, metric=threshold.row),
        profile=observed_profile(rounds[0][0]),
        samples=min(n for _, n in (*reference, *candidate)),
    )


def _have(pair: ArmPair, threshold: BaselineThreshold) -> tuple[bool, bool]:
    """Whether there is a reference that has the metric, and whether the candidate has it."""
    row = threshold.row
    reference, candidate = (arm.speculates or not row.needs_speculation for arm in pair.arms)
    deep = row.position or 0
    drafts_so_far = pair.reference.draft_horizon is None or pair.reference.draft_horizon >= deep
    return reference and drafts_so_far and not pair.alone, candidate


def _figure(arm: Arm, boot: BootRecord, threshold: BaselineThreshold, record: WindowRecord) -> tuple[float, int]:
    """Return a figure, and of how many samples it was taken."""
    point = boot.point(threshold.at)
    assert point is not None, "pair_problem() refuses boots without the point"
    found = measure(threshold.metric, point, record.profile)
    if found.value is None or found.value < 0:
        why = found.missing or f"its value is {found.value}"
        place = f"arm {arm.name} at {level_label(threshold.at)}, round {boot.round}"
        raise InvalidError(f"{place}: no {threshold.metric}: {why}", reason="missing-metric")
    return found.value, found.n


def definition_of(
    pair: ArmPair, settings: Mapping[str, JsonValue], *, metric: Metric | None = None
) -> dict[str, JsonValue]:
    """Return what a pair compares: both arms but for their names and installs, and what every server was given.

    Installs of the engine are left out, since baselines are there to be compared across them. A metric that the project
    has added belongs to it: nothing else tells a later reader what its figures are.
    """
    reference, candidate = (
        {path: value for path, value in redacted_arm(arm).flat().items() if path != "engine"} for arm in pair.arms
    )
    found: dict[str, JsonValue] = {
        **({} if pair.alone else {"reference": reference}),
        "candidate": candidate,
        "varies": list(pair.paths),
        "settings": commands_of(settings, dict(zip((arm.name for arm in pair.arms), _SIDES, strict=True))),
    }
    added = metric.definition if metric is not None else None
    return found if added is None else {**found, METRIC: added.compared}


def commands_of(settings: Mapping[str, JsonValue], names: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return the settings of a window with the changed commands of some arms only, under other names.

    Args:
        settings: what every server was given, and what the project makes of the commands of all arms.
        names: what each arm is called in the answer.
    """
    known = settings.get(CHANGED_COMMANDS)
    if not isinstance(known, dict):
        return dict(settings)
    own: dict[str, JsonValue] = {as_: known[name] for name, as_ in names.items() if name in known}
    rest = {name: value for name, value in settings.items() if name != CHANGED_COMMANDS}
    return {**rest, CHANGED_COMMANDS: own} if own else rest


def added_metrics_of(definition: Mapping[str, JsonValue]) -> tuple[MetricDefinition, ...]:
    """Return the added metric that `definition_of` has put into a definition; empty where there is none.

    Raises:
        RecordError: what stands there is none.
    """
    if METRIC not in definition:
        return ()
    try:
        return (MetricDefinition.model_validate_json(json.dumps(definition[METRIC])),)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RecordError(f"the definition of an added metric cannot be read: {place}: {first['msg']}") from error


def observed_profile(boot: BootRecord) -> dict[str, JsonValue]:
    """Return the load as it was put on a boot: all that may tell windows apart, long lists by their hash."""
    return shortened_profile(boot.profile)


def shortened_profile(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the fields of a load as baselines keep them."""
    return {name: _short(value) for name, value in fields.items() if name not in _UNCOMPARED}


def _short(value: JsonValue) -> JsonValue:
    """Return a list of equal values as that value and its count, another long one as its hash and length."""
    if not isinstance(value, list) or len(value) <= _LONG:
        return value
    if all(same(item, value[0]) for item in value):
        return {"each": value[0], "count": len(value)}
    return {"sha256": sha256_of(value), "count": len(value)}


def window_id(record: WindowRecord) -> str:
    """Return the name of a window, the same for every copy of its record; names sort by time."""
    return f"{record.created_at}-{record.profile.fingerprint()}"


def accepted_window(  # noqa: PLR0913  - the record, its pair, and who accepts it
    record: WindowRecord, pair: ArmPair, *, record_sha256: str, accepted_at: str, reason: str, regression: bool
) -> AcceptedWindow:
    """Return where the figures of a window come from.

    Args:
        record: of the window.
        pair: whose figures they are.
        record_sha256: of its file.
        accepted_at: wall-clock time, ISO 8601 with zone.
        reason: why it is accepted.
        regression: whether it is accepted although it is worse.
    """
    return AcceptedWindow(
        measured_at=record.created_at,
        accepted_at=accepted_at,
        reason=reason,
        record_sha256=record_sha256,
        commit=record.commit,
        engine=builds_of(pair, record),
        regression=regression,
    )


def builds_of(pair: ArmPair, record: WindowRecord) -> dict[str, dict[str, JsonValue]]:
    """Return the builds of the engine that a pair ran on, by what its arms are: names of arms may change."""
    sides = zip(_SIDES, pair.arms, strict=True)
    facts = ((side, record.engine.get(arm.name, {})) for side, arm in sides if side == _CANDIDATE or not pair.alone)
    return {side: {name: value for name, value in own.items() if name in BUILD} for side, own in facts}
