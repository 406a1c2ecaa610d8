"""What a claim about a baseline rests on: the scatter of today's rounds, and how sure the levels of windows are."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.baseline_case import BaselineCase
from pytest_specgate.core.baseline_offer import offer
from pytest_specgate.core.baseline_values import View
from pytest_specgate.core.baselines import BaselineValues
from pytest_specgate.core.judge import judge
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.thresholds import NoiseFloor
from pytest_specgate.core.verdict import Outcome
from tests.core.test_baseline_update import day, gate_of
from tests.core.test_verdict_baseline import judged, strictly

if TYPE_CHECKING:
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build


def noisy(window: WindowRecord, metric: str, sd: float) -> WindowRecord:
    """Return a window of which both arms were calibrated."""
    noises = [
        ArmNoise(
            arm=arm, at=1, metric=metric, sd=sd, df=9.0, boots=8, builds=1, arm_sha256=arm, measured_at="2026-11-01"
        )
        for arm in (arm.name for arm in window.arms)
    ]  # fmt: skip
    return window.model_copy(update={"noise": tuple(noises)})


def test_the_scatter_of_a_candidate_alone_counts_twice(build: type[Build]) -> None:
    """Where only the candidate has a metric a difference has twice its variance, and no order takes any out."""
    gate = gate_of(build, build.claim("acceptance_length", mode="absolute"))
    window = build.against(gate, day(build, 28, *[1.0] * 4), build.accepted(gate, day(build, 2)))
    [known] = window.baselines
    assert known.entry is not None
    drifting = [0.0098, -0.0102, 0.0100, -0.0097]
    found = offer(gate.pair, gate.baselines[0], window)
    lengths = BaselineValues(
        window=found.values.window, reference=(), candidate=tuple(2.5 * math.exp(drift) for drift in drifting)
    )

    case = BaselineCase(gate, gate.baselines[0], window, known, known.entry, dataclasses.replace(found, values=lengths))

    assert case.within == pytest.approx(2 * statistics.variance(drifting))


@pytest.mark.parametrize(("pace", "flagged"), [(1.025, False), (1.035, True)])
def test_one_arm_has_half_the_variance_of_a_difference(build: type[Build], *, pace: float, flagged: bool) -> None:
    """One round of today, calibrated at 2 %: its reference is unusual beyond t * 1 %, half the variance of a pair."""
    gate = gate_of(build)
    file = build.accepted(gate, *(day(build, 2 + number, 1.0, 1.0) for number in range(3)))
    window = noisy(day(build, 28, pace, pace=pace), "output_throughput", 0.02)

    [verdict] = judge(gate, build.against(gate, window, file))

    assert any("not its usual self" in flag for flag in verdict.flags) == flagged


@pytest.mark.parametrize(("points", "reason"), [(False, "noise-unknown"), (True, "within-margin")])
def test_a_calibration_of_a_share_is_in_points(build: type[Build], *, points: bool, reason: str) -> None:
    """Calibrations of shares say how far points scatter, and nothing of their ratio."""
    pair = {"reference": 7}
    gate = gate_of(build, build.claim("acceptance_rate", margin=0.2, points=points), **pair)
    file = build.accepted(gate, *(day(build, 2 + number, 1.0, 1.0, **pair) for number in range(3)))
    window = noisy(day(build, 28, 1.0, **pair), "acceptance_rate", 0.002)

    [verdict] = judge(gate, build.against(gate, window, file))

    assert verdict.reason == reason


def test_shares_are_no_finer_than_their_samples(build: type[Build]) -> None:
    """Three windows of equal shares leave the step of one sample as the least that is believed."""
    pair = {"reference": 7}
    gate = gate_of(build, build.claim("acceptance_rate", margin=0.2, points=True), **pair)
    file = build.accepted(gate, *(day(build, 2 + number, 1.0, 1.0, **pair) for number in range(3)))

    [verdict] = judge(gate, build.against(gate, day(build, 28, 1.0, 1.0, **pair), file))

    assert verdict.samples == 40
    assert verdict.sd == pytest.approx(1 / 40 / math.sqrt(2) * math.sqrt(4 / 3))


def test_a_level_is_not_called_unusual_twice(build: type[Build]) -> None:
    """In absolute mode the reference is a guard, and not told again within the margin."""
    verdict = judged(build, 0.98, 0.98, pace=0.98, claim=build.claim(mode="absolute"))

    assert (verdict.outcome, verdict.flags) == (Outcome.PASS, ())


FLOOR = NoiseFloor(0.01, "nights of a test")
HALF = 2.015048 * math.sqrt(2) * math.log(1.01) / 1.959964 / math.sqrt(2)
"""Half-width of the difference of two single windows, by the declared floor of 1 % and its five degrees of freedom."""


def _since_first(build: type[Build], lost: float) -> Verdict:
    """Return the strict verdict of a window like the last one, which has lost so much, in logs, since the first."""
    gate = gate_of(build, build.claim(cross_window=FLOOR))
    speed = math.exp(-lost)
    first = build.accepted(gate, day(build, 2, 1.0, 1.0))
    last = build.accepted(gate, day(build, 3, speed, speed))
    [old], [new] = first.entries.values(), last.entries.values()
    entry = new.model_copy(update={"anchor": old.anchor})
    file = last.model_copy(update={"entries": {entry.id: entry}, "windows": {**first.windows, **last.windows}})
    [verdict] = judge(gate, build.against(gate, strictly(day(build, 28, speed, speed)), file))
    return verdict


@pytest.mark.parametrize(("beyond", "outcome"), [(0.9 * HALF, Outcome.INCONCLUSIVE), (1.1 * HALF, Outcome.FAIL)])
def test_erosion_is_shown_where_two_single_windows_show_it(
    build: type[Build], *, beyond: float, outcome: Outcome
) -> None:
    """The loss since the first window is shown where it is beyond the margin by the noise of two single windows."""
    verdict = _since_first(build, -math.log(0.95) + beyond)

    assert (verdict.outcome, verdict.reason) == (outcome, "erosion")


def test_erosion_begins_beyond_the_margin(build: type[Build]) -> None:
    """A loss of as much as the margin since the first window is within it."""
    assert _since_first(build, -math.log(0.95)).outcome == Outcome.PASS


def test_one_sudden_loss_is_no_erosion(build: type[Build]) -> None:
    """A step beyond the margin in a single window is told as what it is, and not as a loss in small steps."""
    gate = gate_of(build, build.claim(cross_window=FLOOR))
    file = build.accepted(gate, *(day(build, 2 + number, 1.0, 1.0) for number in range(2)))

    [verdict] = judge(gate, build.against(gate, day(build, 28, 0.8, 0.8), file))

    assert verdict.outcome == Outcome.FAIL
    assert not [flag for flag in verdict.flags if "erosion" in flag]


@pytest.mark.parametrize(
    ("metric", "mode", "shown", "points"),
    [
        ("output_throughput", "relative", "relative", False),
        ("output_throughput", "absolute", "absolute", False),
        ("acceptance_length", "relative", "absolute", False),
        ("acceptance_rate", "absolute", "absolute", True),
    ],
)
def test_an_entry_is_looked_at_as_far_as_it_goes(
    build: type[Build], *, metric: str, mode: Any, shown: str, points: bool
) -> None:
    """An entry without a reference has levels only; shares are looked at in points."""
    gate = gate_of(build, build.claim(metric, mode="absolute"))
    [entry] = build.accepted(gate, day(build, 2)).entries.values()

    assert View.of(entry, mode=mode) == View(metric, shown, points)  # type: ignore[arg-type]  # one of the two
