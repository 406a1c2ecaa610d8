"""Calibration: what A/A windows of an arm tell of the noise of every metric at every point, kept by host class.

An A/A window boots one arm several times in a row. What differs between its boots is noise and nothing else.

History of the schema:

1. first version
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import Field

from pytest_specgate.core import identity, validity
from pytest_specgate.core.confounds import BUILD
from pytest_specgate.core.declared import FreeJson
from pytest_specgate.core.errors import InvalidError, RecordError
from pytest_specgate.core.levels import level_id
from pytest_specgate.core.metric_definitions import MetricDefinition
from pytest_specgate.core.metrics import DEFINITION_VERSION, METRICS, added_definitions, measure, rows
from pytest_specgate.core.noise import arm_noise
from pytest_specgate.core.profile import sha256_of
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.redaction import redacted_arm
from pytest_specgate.core.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import BootRecord, WindowRecord

SCHEMA_VERSION: Final = 1

Settings: TypeAlias = "Mapping[str, JsonValue]"
NO_SETTINGS: Final[Settings] = {}

_SAME: Final = 1e-9


class NoiseFigure(Stored):
    """The noise of a metric at a point, of one arm.

    Attributes:
        boots: of all windows.
        sd: standard deviation of a paired difference of two boots: log units, or points of a share as a fraction.
        df: its degrees of freedom.
    """

    boots: Annotated[int, Field(ge=2)]
    sd: Annotated[float, Field(ge=0)]
    df: Annotated[float, Field(gt=0)]


Figures: TypeAlias = dict[str, dict[str, NoiseFigure]]
"""Noise by point and metric."""


class CalibrationWindow(Stored):
    """One A/A window of one arm.

    Attributes:
        measured_at: wall-clock time of its start, ISO 8601 with zone.
        engine: build of the engine that served it.
        values: of every boot, in the order in which they ran, by point and metric, in the metric's unit.
        added_metrics: definitions of the metrics that the project had added.
    """

    measured_at: str
    engine: dict[str, FreeJson]
    values: dict[str, dict[str, tuple[float, ...]]]
    added_metrics: tuple[MetricDefinition, ...] = ()

    def values_of(self, name: str, *, at: str, definition: MetricDefinition | None) -> tuple[float, ...]:
        """Return the values of a metric at a point; none of one that was defined otherwise."""
        return self.values.get(at, {}).get(name, ()) if _alike(self.definition(name), definition) else ()

    def definition(self, name: str) -> MetricDefinition | None:
        """Return how an added metric was defined; `None` for one of the table."""
        return next((one for one in self.added_metrics if one.name == name), None)


class ArmCalibration(Stored):
    """All that is known of the noise of one arm under one load.

    Attributes:
        arm: its name when it was measured; what counts is the hash.
        arm_sha256: of its model, arguments and environment: of everything but its name and its install of the engine.
        settings_sha256: of what the session gave to every server: arguments, environment, command.
        profile_sha256: of the request profile.
        metric_definition_version: of the formulas that the values were computed with.
        windows: the A/A windows.
        noise: what they amount to, by point and metric.
    """

    arm: str
    arm_sha256: str
    settings_sha256: str
    profile_sha256: str
    metric_definition_version: int
    windows: tuple[CalibrationWindow, ...] = Field(min_length=1)
    noise: dict[str, dict[str, NoiseFigure]]

    @classmethod
    def of(
        cls, arm: Arm, profile: RequestProfile, windows: Sequence[CalibrationWindow], *, settings: Settings
    ) -> ArmCalibration:
        """Compute the noise that some windows amount to."""
        return cls(
            arm=arm.name,
            arm_sha256=arm_sha256(arm),
            settings_sha256=sha256_of(dict(settings)),
            profile_sha256=profile.fingerprint(),
            metric_definition_version=DEFINITION_VERSION,
            windows=tuple(windows),
            noise=figures(windows),
        )

    def fits(self, arm: Arm, profile: RequestProfile, *, settings: Settings) -> bool:
        """Whether it is of this arm under this load, started alike, with figures still computed in the same way."""
        mine = (self.arm_sha256, self.settings_sha256, self.profile_sha256, self.metric_definition_version)
        return mine == (arm_sha256(arm), sha256_of(dict(settings)), profile.fingerprint(), DEFINITION_VERSION)


class NoiseBook(Stored):
    """The calibrations of one host class: content of ``baselines/<host class>/noise.json``.

    Attributes:
        schema_version: of this format.
        host_class: for which it applies.
        arms: calibrations, one for each arm and load.
    """

    schema_version: Annotated[int, Field(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)] = SCHEMA_VERSION
    host_class: str
    arms: tuple[ArmCalibration, ...] = ()

    def verify(self) -> None:
        """Compute every figure anew from its values.

        Raises:
            RecordError: a figure does not follow from the values beside it.
        """
        for entry in self.arms:
            if not _close(entry.noise, figures(entry.windows)):
                raise RecordError(
                    f"the noise of arm {entry.arm} does not follow from its windows: the file was edited by hand"
                )

    def of(self, arm: Arm, profile: RequestProfile, *, settings: Settings = NO_SETTINGS) -> ArmCalibration | None:
        """Return what is known of an arm under a load."""
        return next((entry for entry in self.arms if entry.fits(arm, profile, settings=settings)), None)

    def with_window(
        self, arm: Arm, profile: RequestProfile, window: CalibrationWindow, *, settings: Settings = NO_SETTINGS
    ) -> NoiseBook:
        """Return the book with another A/A window; earlier ones of the same arm and load are kept."""
        known = self.of(arm, profile, settings=settings)
        windows = (*(known.windows if known else ()), window)
        others = [entry for entry in self.arms if entry is not known]
        entries = sorted([*others, ArmCalibration.of(arm, profile, windows, settings=settings)], key=_place)
        return self.model_copy(update={"arms": tuple(entries)})

    def noises(
        self, arms: Iterable[Arm], profile: RequestProfile, *, settings: Settings = NO_SETTINGS
    ) -> tuple[ArmNoise, ...]:
        """Return what is known of the noise of some arms under a load, as a window keeps it."""
        found = ((arm, self.of(arm, profile, settings=settings)) for arm in arms)
        return tuple(noise for arm, known in found if known is not None for noise in _noises(arm, profile, known))


def _alike(one: MetricDefinition | None, other: MetricDefinition | None) -> bool:
    """Whether values by two definitions are of one metric: that of the table, or one that was added."""
    return (one and one.compared) == (other and other.compared)


def _close(stored: Figures, computed: Figures) -> bool:
    """Whether figures are the same but for the last digits, which depend on the mathematical library."""
    one, other = (
        {(point, name): row for point, rows in found.items() for name, row in rows.items()}
        for found in (stored, computed)
    )
    return one.keys() == other.keys() and all(_same(row, other[key]) for key, row in one.items())


def _same(one: NoiseFigure, other: NoiseFigure) -> bool:
    pairs = ((one.sd, other.sd), (one.df, other.df))
    close = all(math.isclose(left, right, rel_tol=_SAME, abs_tol=_SAME) for left, right in pairs)
    return one.boots == other.boots and close


def _place(entry: ArmCalibration) -> tuple[str, ...]:
    return entry.arm, entry.arm_sha256, entry.settings_sha256, entry.profile_sha256


def _noises(arm: Arm, profile: RequestProfile, known: ArmCalibration) -> Iterator[ArmNoise]:
    here = {one.name: one for one in added_definitions()}
    for at in profile.points:
        for name, figure in known.noise.get(level_id(at), {}).items():
            if not _alike(_latest(name, known.windows), here.get(name)):
                continue
            yield ArmNoise(
                arm=arm.name,
                at=at,
                metric=name,
                sd=figure.sd,
                df=figure.df,
                boots=figure.boots,
                builds=len({sha256_of(dict(window.engine)) for window in known.windows}),
                arm_sha256=known.arm_sha256,
                measured_at=known.windows[-1].measured_at,
            )


def arm_sha256(arm: Arm) -> str:
    """Return the hash of what makes an arm: model, arguments, environment; not its name, not where its engine lies."""
    flat = redacted_arm(arm).flat()
    return sha256_of({path: value for path, value in flat.items() if path != "engine"})


def figures(windows: Sequence[CalibrationWindow]) -> dict[str, dict[str, NoiseFigure]]:
    """Return the noise by point and metric, of the windows that have at least two boots of it."""
    found: dict[str, dict[str, NoiseFigure]] = {}
    for point in sorted({point for window in windows for point in window.values}):
        names = sorted({name for window in windows for name in window.values.get(point, {})})
        known = {name: _figure(name, windows, at=point) for name in names}
        found[point] = {name: figure for name, figure in known.items() if figure is not None}
    return found


def _figure(name: str, windows: Sequence[CalibrationWindow], *, at: str) -> NoiseFigure | None:
    """Return the noise of a metric as it was last defined; earlier values of another definition are left out."""
    definition = _latest(name, windows)
    unit = definition.unit if definition else METRICS[name].unit if name in METRICS else None
    values = (window.values_of(name, at=at, definition=definition) for window in windows)
    used = [list(window) for window in values if len(window) >= 2]
    linear = unit == "share"
    if not used or (not linear and any(value <= 0 for window in used for value in window)):
        return None
    scaled = used if linear else [[math.log(value) for value in window] for window in used]
    noise = arm_noise(scaled)
    return NoiseFigure(boots=sum(map(len, used)), sd=noise.sigma, df=noise.df)


def _latest(name: str, windows: Sequence[CalibrationWindow]) -> MetricDefinition | None:
    """Return how a metric was defined in the latest window that has it; `None` for one of the table."""
    having = (window for window in reversed(windows) if any(name in point for point in window.values.values()))
    latest = next(having, None)
    return None if latest is None else latest.definition(name)


def window_of(arm: Arm, record: WindowRecord) -> CalibrationWindow:
    """Return what an A/A window measured of an arm: every metric that all of its boots have.

    Raises:
        InvalidError: a boot or a point must not be judged, or the loads of the boots differ.
    """
    boots = record.boots_of(arm.name)
    if len(boots) < 2 and not any(boot.failure for boot in boots):
        why = f": {record.stopped}" if record.stopped else ""
        raise InvalidError(f"no calibration of {arm.name}: two boots are needed, and there are {len(boots)}{why}")
    _refuse_invalid(arm, boots, record)
    return CalibrationWindow(
        measured_at=record.created_at,
        engine={name: value for name, value in record.engine.get(arm.name, {}).items() if name in BUILD},
        values={level_id(at): _values(boots, record.profile, at=at) for at in record.profile.points},
        added_metrics=record.added_metrics,
    )


def _refuse_invalid(arm: Arm, boots: Sequence[BootRecord], record: WindowRecord) -> None:
    problems = [validity.boot_problem(arm, boot, record.profile) for boot in boots]
    problems += [
        validity.point_problem(arm, point, record.profile)
        for boot, problem in zip(boots, list(problems), strict=True)
        if problem is None
        for point in boot.points
    ]
    problems.append(validity.drifted_between(boots))
    first = next((problem for problem in problems if problem is not None), None)
    if first is not None:
        raise InvalidError(f"no calibration of {arm.name}: {first.message}")
    report = identity.compare(boots, arms=1)
    if not report.identical:
        raise InvalidError(f"no calibration of {arm.name}: {report.sentence}")


def _values(boots: Sequence[BootRecord], profile: RequestProfile, *, at: Level) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    for name, row in rows().items():
        points = [boot.point(at) for boot in boots]
        values = [measure(name, point, profile).value for point in points if point is not None]
        known = tuple(value for value in values if value is not None)
        if row.gated and row.unit != "events" and len(known) == len(boots) >= 2:
            found[name] = known
    return found
