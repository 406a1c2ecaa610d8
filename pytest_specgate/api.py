"""The vocabulary of gate files: `gate`, the thresholds, noise floors.

A gate is made of marks: each of its thresholds becomes one test item, which the plugin judges when the item runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_specgate.core import metrics as table
from pytest_specgate.core.arms import ArmPair, arms_of
from pytest_specgate.core.declared import fraction_of, known_keywords
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.thresholds import (
    CALIBRATED,
    CURVE_METRIC,
    AnyThreshold,
    BaselineThreshold,
    CurveThreshold,
    LimitThreshold,
    NoiseFloor,
    OutputsThreshold,
    Threshold,
)
from pytest_specgate.core.units import amount_of, points_of
from pytest_specgate.names import GATE_MARK, PAIRS_MARK, THRESHOLD_FIXTURE, WINDOW_FIXTURE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.core.levels import Level

F = TypeVar("F", bound="Callable[..., Any]")


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


@known_keywords
def not_worse(
    metric: str,
    *,
    at: Level,
    margin: str | NoiseFloor,
    noise: NoiseFloor | None = None,
    allowance: str | None = None,
) -> Threshold:
    """Claim that the candidate is not worse than the reference by more than a margin.

    Args:
        metric: name in the metric table, as ``"output_throughput"`` or ``"ttft_p50"``.
        at: load level of the point: a concurrency as 8, an arrival rate as ``"4/s"``.
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
        return Threshold(metric, at, "not_worse", margin.fraction, margin, allowed, points)
    fraction, points = _margin("margin", margin)
    return Threshold(metric, at, "not_worse", fraction, noise, allowed, points)


@known_keywords
def better(metric: str, *, at: Level, by: str, noise: NoiseFloor | None = None) -> Threshold:
    """Claim that the candidate is better than the reference by at least a gain.

    Args:
        metric: name in the metric table.
        at: load level of the point: a concurrency as 8, an arrival rate as ``"4/s"``.
        by: the smallest gain that supports the claim, as ``"50%"`` of the reference's value; of a share also in points.
        noise: noise floor, as for `not_worse`.

    Raises:
        UsageError: an unknown metric, or a gain without unit.
    """
    fraction, points = _margin("by", by)
    return Threshold(metric, at, "better", fraction, noise, 0.0, points)


@known_keywords
def equivalent(metric: str, *, at: Level, within: str, noise: NoiseFloor | None = None) -> Threshold:
    """Claim that the candidate is neither better nor worse than the reference by more than a width.

    Args:
        metric: name in the metric table.
        at: load level of the point: a concurrency as 8, an arrival rate as ``"4/s"``.
        within: the largest change, up or down, that is still called "equivalent", as ``"3%"``; of a share also in
            points.
        noise: noise floor, as for `not_worse`.

    Raises:
        UsageError: an unknown metric, or a width without unit.
    """
    fraction, points = _margin("within", within)
    return Threshold(metric, at, "equivalent", fraction, noise, 0.0, points)


@known_keywords
def at_least(metric: str, *, at: Level, limit: str) -> LimitThreshold:
    """Claim that a metric of the candidate is at least a limit, in every boot.

    Args:
        metric: name in the metric table.
        at: load level of the point: a concurrency as 8, an arrival rate as ``"4/s"``.
        limit: in the metric's unit, as ``"250 tokens/s"`` or ``"60%"``; a value equal to it keeps it.

    Raises:
        UsageError: an unknown metric, one of which less is better, or a limit without its unit.
    """
    return LimitThreshold(metric, at, "at_least", amount_of("limit", limit, table.metric(metric).unit))


@known_keywords
def at_most(metric: str, *, at: Level, limit: str) -> LimitThreshold:
    """Claim that a metric of the candidate is at most a limit, in every boot.

    Args:
        metric: name in the metric table.
        at: load level of the point: a concurrency as 8, an arrival rate as ``"4/s"``.
        limit: in the metric's unit, as ``"200ms"``, or a plain number for a count; a value equal to it keeps it.

    Raises:
        UsageError: an unknown metric, one of which more is better, or a limit without its unit.
    """
    return LimitThreshold(metric, at, "at_most", amount_of("limit", limit, table.metric(metric).unit))


@known_keywords
def faster_only_up_to(last: Level, *, metric: str = CURVE_METRIC, noise: NoiseFloor | None = None) -> CurveThreshold:
    """Claim that the candidate is better up to a load level, and worse at every level beyond.

    All load levels of the profile are judged together, with simultaneous intervals; no mean over them decides.

    Args:
        last: the last level at which the candidate is better: a concurrency as 8, an arrival rate as ``"4/s"``.
        metric: what "better" is measured by.
        noise: noise floor of every level, as for `not_worse`.

    Raises:
        UsageError: an unknown metric.
    """
    return CurveThreshold(last, metric, noise)


@known_keywords
def not_worse_than_baseline(  # noqa: PLR0913  - the claim, and what two windows may be compared by
    metric: str,
    *,
    at: Level,
    margin: str,
    mode: str = "relative",
    cross_window: NoiseFloor | None = None,
    engine: str = "any",
) -> BaselineThreshold:
    """Claim that this window is not worse than those that were accepted as its baseline, by more than a margin.

    It is judged once, when the window has ended, by how far the accepted windows lie apart: three or more, or by a
    declared floor across windows. Baselines are written by ``pytest --specgate-baseline=new`` or
    ``specgate baseline accept``.

    Args:
        metric: name in the metric table.
        at: load level of the point: a concurrency as 8, an arrival rate as ``"4/s"``.
        margin: the largest loss that is still called "not worse", as ``"5%"``; of a share also in points.
        mode: ``"relative"`` compares the change between both arms with that of the baseline, so that the level of the
            machine cancels; ``"absolute"`` compares the level of the candidate.
        cross_window: what 95 % of the differences of two windows lie within, as ``noise_floor("3%", source="...")``,
            for a baseline of fewer than three windows.
        engine: ``"any"`` compares across builds of the engine; ``"same"`` refuses windows of another build.

    Raises:
        UsageError: an unknown metric, mode or engine, a margin without unit, or a floor that is a calibration.
    """
    fraction, points = _margin("margin", margin)
    if mode not in {"relative", "absolute"}:
        raise UsageError(f"mode={mode!r} is neither 'relative' nor 'absolute'")
    if engine not in {"any", "same"}:
        raise UsageError(f"engine={engine!r} is neither 'any' nor 'same'")
    return BaselineThreshold(
        metric,
        at,
        fraction,
        "relative" if mode == "relative" else "absolute",
        cross_window,
        points,
        "same" if engine == "same" else "any",
    )


def _margin(name: str, text: str) -> tuple[float, bool]:
    """Return a margin as a fraction, and whether it is in points."""
    points = points_of(text)
    return (fraction_of(name, text), False) if points is None else (points, True)


@known_keywords
def outputs_agree(*, at: Level, at_least: str) -> OutputsThreshold:
    """Claim that both arms answer alike, letter by letter, under greedy sampling.

    Without this claim different answers are told and never judged. Floating-point sums depend on the batch, so even one
    arm may not repeat itself: reports show how far it does, and a share near that is all that can be asked for.

    Args:
        at: load level of the point: a concurrency as 8, an arrival rate as ``"4/s"``.
        at_least: the share of answers that must be equal in every round, as ``"99%"``.

    Raises:
        UsageError: a share without unit, of nothing, or above 100 %.
    """
    return OutputsThreshold(at, fraction_of("at_least", at_least))


@known_keywords
def gate(pair: ArmPair, *thresholds: AnyThreshold) -> Callable[[F], F]:
    """Make a test function a gate: the pair is measured, and each threshold becomes one test item.

    The body may be empty: every threshold is judged whatever the body does. A body that asks for the fixture
    `verdict` can look at its threshold's verdict, and accept another outcome with ``verdict.expect(...)``.

    Raises:
        UsageError: the first argument is no pair, or the others are no thresholds.
    """
    if not isinstance(pair, ArmPair):
        raise UsageError(f"gate() takes an ArmPair first, got {type(pair).__name__}")
    given: tuple[object, ...] = thresholds
    strangers = [type(threshold).__name__ for threshold in given if not isinstance(threshold, AnyThreshold)]
    if strangers or not thresholds:
        what = f"got {strangers[0]}" if strangers else "got none"
        raise UsageError(f"gate() takes thresholds, as not_worse(...) and better(...), after its pair; {what}")

    def decorate(function: F) -> F:
        with_threshold: Callable[[F], F] = pytest.mark.usefixtures(THRESHOLD_FIXTURE)
        return _mark(GATE_MARK, pair, *thresholds)(with_threshold(function))

    return decorate


@known_keywords
def measured(*pairs: ArmPair) -> Callable[[F], F]:
    """Let a test read what was measured of some pairs, through the fixture `specgate_window`, without judging it.

    The test fails when the measurement of one of its pairs is invalid.

    Raises:
        UsageError: an argument is no pair, there is none, or they do not share one load.
    """
    if not pairs or not all(isinstance(pair, ArmPair) for pair in pairs):
        raise UsageError("measured() takes one or more ArmPairs")
    if len({pair.profile.fingerprint() for pair in pairs}) > 1:
        raise UsageError("measured() takes pairs of one window, and these have different profiles")
    arms_of(pairs)

    def decorate(function: F) -> F:
        with_window: Callable[[F], F] = pytest.mark.usefixtures(WINDOW_FIXTURE)
        return _mark(PAIRS_MARK, *pairs)(with_window(function))

    return decorate


def _mark(name: str, *args: object) -> Callable[[F], F]:
    # `with_args` because a mark called with one callable argument would decorate that argument.
    mark: Callable[[F], F] = getattr(pytest.mark, name).with_args(*args)
    return mark
