"""What gate files claim: the thresholds of gates and probes, and noise floors."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from pytest_specgate.core import metrics as table
from pytest_specgate.core.declared import fraction_of, known_keywords
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.placing import EveryLevel
from pytest_specgate.core.thresholds import (
    CALIBRATED,
    CURVE_METRIC,
    BaselineThreshold,
    CurveThreshold,
    LimitThreshold,
    NoiseFloor,
    OutputsThreshold,
    Threshold,
)
from pytest_specgate.core.units import amount_of, points_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.thresholds import AnyThreshold

    T = TypeVar("T", bound=AnyThreshold)

_ANY_LEVEL: Level = 1


def _at(level: Level | None, make: Callable[[Level], T], *, name: str) -> EveryLevel | T:
    """Return a threshold of one level, or the claim about every level; what is wrong with it is said at once."""
    if level is not None:
        return make(level)
    make(_ANY_LEVEL)
    return EveryLevel(name, make)


@known_keywords
def noise_floor(floor: str | None = None, *, source: str | None = None) -> NoiseFloor:
    """Name a noise floor: 95 % of single-round A/A differences lie within ±floor.

    Args:
        floor: a percentage with its unit, as ``"0.4%"``, or points of a share, as ``"1pp"``; without one, the floor
            that ``pytest --specgate-calibrate`` has measured on this class of machine.
        source: where a declared figure comes from; every report that rests on it quotes this.

    Raises:
        UsageError: the floor has no unit or is no positive percentage, or the source is missing.
    """
    if floor is None:
        if source is not None:
            raise UsageError("noise_floor(source=...) has no floor: the calibrated one has its source itself")
        return CALIBRATED
    if source is None:
        raise UsageError(f"noise_floor({floor!r}) needs source='...': where the figure comes from")
    fraction, points = _margin("noise_floor", floor)
    return NoiseFloor(fraction, source, points)


@overload
def not_worse(
    metric: str,
    *,
    at: None = None,
    margin: str | NoiseFloor,
    noise: NoiseFloor | None = None,
    allowance: str | None = None,
) -> EveryLevel: ...
@overload
def not_worse(
    metric: str,
    *,
    at: Level,
    margin: str | NoiseFloor,
    noise: NoiseFloor | None = None,
    allowance: str | None = None,
) -> Threshold: ...
@known_keywords
def not_worse(
    metric: str,
    *,
    at: Level | None = None,
    margin: str | NoiseFloor,
    noise: NoiseFloor | None = None,
    allowance: str | None = None,
) -> EveryLevel | Threshold:
    """Claim that the candidate is not worse than the reference by more than a margin.

    Args:
        metric: name in the metric table, as ``"output_throughput"`` or ``"ttft_p50"``.
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``, either at a temperature of its own as
            ``"8 T=0.8"``; `None` for every level of the profile.
        margin: the largest loss that is still called "not worse", as ``"0.8%"``; of a share also in points, as
            ``"2pp"``; a noise floor sets margin and noise.
        noise: noise floor; without one a calibration is used where there is one, else the rounds of the run itself have
            to show the noise (3 or more).
        allowance: a loss in the metric's unit that is tolerated in any case, as ``"1ms"``.

    Raises:
        UsageError: an unknown metric, a margin without unit, a margin and a noise floor that both name the noise.
    """
    allowed = 0.0 if allowance is None else amount_of("allowance", allowance, table.metric(metric).unit)
    if isinstance(margin, NoiseFloor):
        if noise is not None:
            raise UsageError("margin=noise_floor(...) names the noise already; leave noise= out")
        # What is calibrated of a share is in points.
        points = margin.points or (margin.fraction is None and table.metric(metric).unit == "share")
        fraction, noise = margin.fraction, margin
    else:
        fraction, points = _margin("margin", margin)

    def make(level: Level) -> Threshold:
        return Threshold(metric, level, "not_worse", fraction, noise, allowed, points)

    return _at(at, make, name="not_worse")


@overload
def better(metric: str, *, at: None = None, by: str, noise: NoiseFloor | None = None) -> EveryLevel: ...
@overload
def better(metric: str, *, at: Level, by: str, noise: NoiseFloor | None = None) -> Threshold: ...
@known_keywords
def better(metric: str, *, at: Level | None = None, by: str, noise: NoiseFloor | None = None) -> EveryLevel | Threshold:
    """Claim that the candidate is better than the reference by at least a gain.

    Args:
        metric: name in the metric table.
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``, either at a temperature of its own as
            ``"8 T=0.8"``; `None` for every level of the profile.
        by: the smallest gain that supports the claim, as ``"50%"`` of the reference's value; of a share also in points.
        noise: noise floor, as for `not_worse`.

    Raises:
        UsageError: an unknown metric, or a gain without unit.
    """
    fraction, points = _margin("by", by)

    def make(level: Level) -> Threshold:
        return Threshold(metric, level, "better", fraction, noise, 0.0, points)

    return _at(at, make, name="better")


@overload
def equivalent(metric: str, *, at: None = None, within: str, noise: NoiseFloor | None = None) -> EveryLevel: ...
@overload
def equivalent(metric: str, *, at: Level, within: str, noise: NoiseFloor | None = None) -> Threshold: ...
@known_keywords
def equivalent(
    metric: str, *, at: Level | None = None, within: str, noise: NoiseFloor | None = None
) -> EveryLevel | Threshold:
    """Claim that the candidate is neither better nor worse than the reference by more than a width.

    Args:
        metric: name in the metric table.
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``, either at a temperature of its own as
            ``"8 T=0.8"``; `None` for every level of the profile.
        within: the largest change, up or down, that is still called "equivalent", as ``"3%"``; of a share also in
            points.
        noise: noise floor, as for `not_worse`.

    Raises:
        UsageError: an unknown metric, or a width without unit.
    """
    fraction, points = _margin("within", within)

    def make(level: Level) -> Threshold:
        return Threshold(metric, level, "equivalent", fraction, noise, 0.0, points)

    return _at(at, make, name="equivalent")


@overload
def at_least(metric: str, limit: str, *, at: None = None) -> EveryLevel: ...
@overload
def at_least(metric: str, limit: str, *, at: Level) -> LimitThreshold: ...
@known_keywords
def at_least(metric: str, limit: str, *, at: Level | None = None) -> EveryLevel | LimitThreshold:
    """Claim that a metric of the candidate is at least a limit, in every boot.

    Args:
        metric: name in the metric table.
        limit: in the metric's unit, as ``"250 tokens/s"`` or ``"60%"``, or a plain number for a count, tokens included,
            as ``"2.5"``; a value equal to it keeps it. One that every boot keeps, or none can reach, is
            refused: a share lies in (0 %, 100 %], acceptance length and tokens per step of k in (1, k + 1].
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``, either at a temperature of its own as
            ``"8 T=0.8"``; `None` for every level of the profile.

    Raises:
        UsageError: an unknown metric, one of which less is better, or a limit without its unit.
    """
    value = amount_of("limit", limit, table.metric(metric).unit)

    def make(level: Level) -> LimitThreshold:
        return LimitThreshold(metric, level, "at_least", value)

    return _at(at, make, name="at_least")


@overload
def at_most(metric: str, limit: str, *, at: None = None) -> EveryLevel: ...
@overload
def at_most(metric: str, limit: str, *, at: Level) -> LimitThreshold: ...
@known_keywords
def at_most(metric: str, limit: str, *, at: Level | None = None) -> EveryLevel | LimitThreshold:
    """Claim that a metric of the candidate is at most a limit, in every boot.

    Args:
        metric: name in the metric table.
        limit: in the metric's unit, as ``"200ms"``, or a plain number for a count, tokens included; a value
            equal to it keeps it.
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``, either at a temperature of its own as
            ``"8 T=0.8"``; `None` for every level of the profile.

    Raises:
        UsageError: an unknown metric, one of which more is better, or a limit without its unit.
    """
    value = amount_of("limit", limit, table.metric(metric).unit)

    def make(level: Level) -> LimitThreshold:
        return LimitThreshold(metric, level, "at_most", value)

    return _at(at, make, name="at_most")


@known_keywords
def faster_only_up_to(last: Level, *, metric: str = CURVE_METRIC, noise: NoiseFloor | None = None) -> CurveThreshold:
    """Claim that the candidate is better up to a load level, and worse at every level beyond.

    All load levels of the profile at one temperature are judged together, with simultaneous intervals; no mean over
    them decides.

    Args:
        last: the last level at which the candidate is better: a concurrency as 8, an arrival rate as ``"4/s"``, either
            at a temperature of its own as ``"8 T=0.8"``; it is judged with the levels of that temperature.
        metric: what "better" is measured by.
        noise: noise floor of every level, as for `not_worse`.

    Raises:
        UsageError: an unknown metric.
    """
    return CurveThreshold(last, metric, noise)


@overload
def not_worse_than_baseline(
    metric: str,
    *,
    at: None = None,
    margin: str,
    mode: str | None = None,
    cross_window: NoiseFloor | None = None,
    engine: str = "any",
) -> EveryLevel: ...
@overload
def not_worse_than_baseline(
    metric: str,
    *,
    at: Level,
    margin: str,
    mode: str | None = None,
    cross_window: NoiseFloor | None = None,
    engine: str = "any",
) -> BaselineThreshold: ...
@known_keywords
def not_worse_than_baseline(  # noqa: PLR0913  - the claim, and what two windows may be compared by
    metric: str,
    *,
    at: Level | None = None,
    margin: str,
    mode: str | None = None,
    cross_window: NoiseFloor | None = None,
    engine: str = "any",
) -> EveryLevel | BaselineThreshold:
    """Claim that this window is not worse than those that were accepted as its baseline, by more than a margin.

    It is judged once, when the window has ended, by how far the accepted windows lie apart: three or more, or by a
    declared floor across windows. Baselines are written by ``pytest --specgate-baseline=new`` or
    ``specgate baseline accept``.

    Args:
        metric: name in the metric table.
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``, either at a temperature of its own as
            ``"8 T=0.8"``; `None` for every level of the profile.
        margin: the largest loss that is still called "not worse", as ``"5%"``; of a share also in points.
        mode: ``"relative"`` compares the change between both arms with that of the baseline, so that the level of the
            machine cancels, as gates do unless told otherwise; ``"absolute"`` compares the level of the candidate, as
            probes do, which have no other arm.
        cross_window: what 95 % of the differences of two windows lie within, as ``noise_floor("3%", source="...")``,
            for a baseline of fewer than three windows.
        engine: ``"any"`` compares across builds of the engine; ``"same"`` refuses windows of another build.

    Raises:
        UsageError: an unknown metric, mode or engine, a margin without unit, or a floor that is a calibration.
    """
    fraction, points = _margin("margin", margin)
    if mode not in {None, "relative", "absolute"}:
        raise UsageError(f"mode={mode!r} is neither 'relative' nor 'absolute'")
    if engine not in {"any", "same"}:
        raise UsageError(f"engine={engine!r} is neither 'any' nor 'same'")

    def make(level: Level) -> BaselineThreshold:
        return BaselineThreshold(
            metric,
            level,
            fraction,
            "absolute" if mode == "absolute" else "relative",
            cross_window,
            points,
            "same" if engine == "same" else "any",
            mode_named=mode is not None,
        )

    return _at(at, make, name="not_worse_than_baseline")


def _margin(name: str, text: str) -> tuple[float, bool]:
    """Return a margin as a fraction, and whether it is in points."""
    points = points_of(text)
    return (fraction_of(name, text), False) if points is None else (points, True)


@overload
def outputs_agree(*, at: None = None, at_least: str) -> EveryLevel: ...
@overload
def outputs_agree(*, at: Level, at_least: str) -> OutputsThreshold: ...
@known_keywords
def outputs_agree(*, at: Level | None = None, at_least: str) -> EveryLevel | OutputsThreshold:
    """Claim that both arms answer alike, letter by letter, under greedy sampling.

    Without this claim different answers are told and never judged. Floating-point sums depend on the batch, so even one
    arm may not repeat itself: reports show how far it does, and a share near that is all that can be asked for.

    Args:
        at: load level: a concurrency as 8, an arrival rate as ``"4/s"``, either at a temperature of its own as
            ``"8 T=0.8"``; `None` for every level of the profile.
        at_least: the share of answers that must be equal in every round, as ``"99%"``.

    Raises:
        UsageError: a share without unit, of nothing, or above 100 %.
    """
    share = fraction_of("at_least", at_least)

    def make(level: Level) -> OutputsThreshold:
        return OutputsThreshold(level, share)

    return _at(at, make, name="outputs_agree")
