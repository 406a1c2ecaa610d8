"""The vocabulary of gate files: `gate` and `probe`, and with them the thresholds and noise floors of `claims`.

A gate is made of marks: each of its thresholds becomes one test item, which the plugin judges when the item runs.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_specgate.claims import (
    at_least,
    at_most,
    better,
    equivalent,
    faster_only_up_to,
    noise_floor,
    not_worse,
    not_worse_than_baseline,
    outputs_agree,
)
from pytest_specgate.core.arms import ArmPair, arms_of
from pytest_specgate.core.declared import known_keywords
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.placing import EveryLevel, placed
from pytest_specgate.core.probes import AcceptanceProbe
from pytest_specgate.core.sweeps import ArmSweep
from pytest_specgate.core.thresholds import AnyThreshold, BaselineThreshold, LimitThreshold
from pytest_specgate.names import GATE_MARK, PAIRS_MARK, THRESHOLD_FIXTURE, WINDOW_FIXTURE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_specgate.core.placing import Claim

__all__ = [
    "at_least",
    "at_most",
    "better",
    "equivalent",
    "faster_only_up_to",
    "gate",
    "measured",
    "noise_floor",
    "not_worse",
    "not_worse_than_baseline",
    "outputs_agree",
    "probe",
]

F = TypeVar("F", bound="Callable[..., Any]")


@known_keywords
def gate(pair: ArmPair, *thresholds: Claim) -> Callable[[F], F]:
    """Make a test function a gate: the pair is measured, and each threshold becomes one test item.

    A claim that names no load level becomes one threshold for every level of the profile.

    The body may be empty: every threshold is judged whatever the body does. A body that asks for the fixture
    `verdict` can look at its threshold's verdict, and accept another outcome with ``verdict.expect(...)``.

    Raises:
        UsageError: the first argument is no pair, or the others are no thresholds.
    """
    if isinstance(pair, AcceptanceProbe):
        raise UsageError("gate() takes an ArmPair first, got an AcceptanceProbe: write @probe(...)")
    if not isinstance(pair, ArmPair):
        raise UsageError(f"gate() takes an ArmPair first, got {type(pair).__name__}")
    _refuse_lone(pair)
    _refuse_strangers("gate() takes thresholds, as not_worse(...) and better(...), after its pair", thresholds)
    return _gate(pair, placed(thresholds, pair.profile))


@known_keywords
def probe(of: AcceptanceProbe, *claims: Claim) -> Callable[[F], F]:
    """Make a test function a probe: one arm is booted and measured by itself, and each claim becomes a test item.

    It is a gate in all else. A claim that names no load level stands for every level at every temperature. There is no
    second arm, so only limits and claims about a baseline can be made, and the latter compare levels.

    Raises:
        UsageError: the first argument is no probe, or a claim needs a second arm.
    """
    if not isinstance(of, AcceptanceProbe):
        raise UsageError(f"probe() takes an AcceptanceProbe first, got {type(of).__name__}")
    _refuse_strangers("probe() takes at_least(...), at_most(...) and not_worse_than_baseline(...)", claims)
    pair = of.pair
    return _gate(pair, tuple(_of_one_arm(placed(claims, pair.profile))))


def _of_one_arm(thresholds: Iterable[AnyThreshold]) -> Iterator[AnyThreshold]:
    """Yield the claims of a probe: what they say of a baseline, they say of the level of its arm.

    Raises:
        UsageError: one needs a second arm.
    """
    for threshold in thresholds:
        if isinstance(threshold, BaselineThreshold):
            if threshold.mode_named and threshold.mode == "relative":
                raise UsageError("probe() has one arm, and mode='relative' compares two: leave mode= out")
            yield dataclasses.replace(threshold, mode="absolute")
        elif isinstance(threshold, LimitThreshold):
            yield threshold
        else:
            raise UsageError(
                f"probe() has one arm, and {threshold.kind} compares two: claim at_least(...), at_most(...) or "
                f"not_worse_than_baseline(...), or write a gate on an ArmPair"
            )


def _refuse_strangers(takes: str, claims: Sequence[object]) -> None:
    strangers = [type(claim).__name__ for claim in claims if not isinstance(claim, AnyThreshold | EveryLevel)]
    if strangers or not claims:
        raise UsageError(f"{takes}; {f'got {strangers[0]}' if strangers else 'got none'}")


def _refuse_lone(pair: ArmPair) -> None:
    if pair.alone:
        raise UsageError(f"{pair.title} is one arm alone: declare an AcceptanceProbe(arm=...), and write @probe(...)")


def _gate(pair: ArmPair, thresholds: Sequence[AnyThreshold]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        with_threshold: Callable[[F], F] = pytest.mark.usefixtures(THRESHOLD_FIXTURE)
        return _mark(GATE_MARK, pair, *thresholds)(with_threshold(function))

    return decorate


@known_keywords
def measured(*pairs: ArmPair | ArmSweep | AcceptanceProbe) -> Callable[[F], F]:
    """Let a test read what was measured of some pairs, through the fixture `specgate_window`, without judging it.

    The test fails when the measurement of one of its pairs is invalid. A sweep stands for all of its pairs, and those
    that it does not have booted are no failure. A probe is one arm by itself.

    Raises:
        UsageError: an argument is no pair, sweep or probe, there is none, or they do not share one load.
    """
    if not pairs or not all(isinstance(pair, ArmPair | ArmSweep | AcceptanceProbe) for pair in pairs):
        raise UsageError("measured() takes one or more ArmPairs, ArmSweeps or AcceptanceProbes")
    for pair in pairs:
        if isinstance(pair, ArmPair):
            _refuse_lone(pair)
    whole = [pair.pair if isinstance(pair, AcceptanceProbe) else pair for pair in pairs]
    every = [one for pair in whole for one in (pair.pairs if isinstance(pair, ArmSweep) else (pair,))]
    if len({pair.profile.fingerprint() for pair in every}) > 1:
        raise UsageError("measured() takes pairs of one window, and these have different profiles")
    arms_of(every)

    def decorate(function: F) -> F:
        with_window: Callable[[F], F] = pytest.mark.usefixtures(WINDOW_FIXTURE)
        return _mark(PAIRS_MARK, *whole)(with_window(function))

    return decorate


def _mark(name: str, *args: object) -> Callable[[F], F]:
    # `with_args` because a mark called with one callable argument would decorate that argument.
    mark: Callable[[F], F] = getattr(pytest.mark, name).with_args(*args)
    return mark
