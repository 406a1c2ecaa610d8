"""How far windows lie apart: few of them, declared floors, single rounds, stale baselines and slow erosion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.judge import judge
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.thresholds import NoiseFloor
from pytest_specgate.core.verdict import Outcome
from tests.core.test_baseline_update import day, gate_of
from tests.core.test_verdict_baseline import FLOOR, NIGHTS, judged, strictly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build


@pytest.mark.parametrize(("count", "more"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
def test_fewer_than_three_windows_decide_nothing(build: type[Build], *, count: int, more: int, speed: float) -> None:
    """With one or two windows and no declared floor even half the speed is no verdict; what is needed is named."""
    verdict = judged(build, speed, speed, nights=NIGHTS[:count])

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "no-cross-window-noise")
    assert verdict.summary.endswith(
        f"how far windows lie apart is not known: {count} of 3 windows are there; accept {more} more, or declare "
        f"cross_window=noise_floor('3%', source='...')"
    )
    assert (verdict.change_low, verdict.sd) == (None, None)
    assert verdict.baseline is not None
    assert len(verdict.baseline.windows) == count


@pytest.mark.parametrize(("speed", "outcome"), [(1.0, Outcome.PASS), (0.9, Outcome.FAIL), (0.95, Outcome.INCONCLUSIVE)])
def test_a_declared_floor_stands_in(build: type[Build], speed: float, outcome: Outcome) -> None:
    """One window and a declared floor across windows decide, and the source of the floor is quoted."""
    verdict = judged(build, speed, claim=build.claim(cross_window=FLOOR), nights=[1.0])

    assert verdict.outcome == outcome
    assert verdict.noise == "across windows: declared floor across windows 1 % (nights of a test)"
    assert verdict.df == 5.0


def test_windows_replace_a_declared_floor(build: type[Build]) -> None:
    """Three windows are believed instead of what was declared, and the floor is no longer quoted."""
    verdict = judged(build, 0.97, 0.97, claim=build.claim(cross_window=NoiseFloor(0.5, "a guess")))

    assert (verdict.outcome, verdict.noise) == (Outcome.PASS, "across windows: 3 windows")


def _noise(arm: str) -> ArmNoise:
    return ArmNoise(
        arm=arm, at=1, metric="output_throughput", sd=0.004, df=9.0, boots=8, builds=1, arm_sha256=arm,
        measured_at="2026-11-01T09:00:00+00:00",
    )  # fmt: skip


def test_a_single_round_needs_to_know_its_noise(build: type[Build]) -> None:
    """One round of today against windows of two: without a calibration nothing tells how far single rounds scatter."""
    gate = gate_of(build)
    file = build.accepted(gate, *(day(build, 2 + i, speed, speed) for i, speed in enumerate(NIGHTS)))
    window = build.against(gate, day(build, 28, 0.5), file)

    [alone] = judge(gate, window)
    [calibrated] = judge(gate, window.model_copy(update={"noise": (_noise("off"), _noise("k4"))}))

    assert (alone.outcome, alone.reason) == (Outcome.INCONCLUSIVE, "noise-unknown")
    assert alone.summary.endswith("nothing tells how far single rounds scatter: raise rounds, or calibrate")
    assert (calibrated.outcome, calibrated.rounds) == (Outcome.FAIL, 1)


def test_case_112_a_single_round_is_marked(build: type[Build]) -> None:
    """Case 112: a window of one round, today's or an accepted one, is named: it has no spread of its own."""
    gate = gate_of(build)
    file = build.accepted(gate, day(build, 2, 1.0), day(build, 3, 1.0, 1.0), day(build, 4, 1.0))

    [today] = judge(gate, build.against(gate, day(build, 28, 1.0), file))
    [longer] = judge(gate, build.against(gate, day(build, 28, 1.0, 1.0), file))

    told = "of one round only, which has no spread of its own: "
    assert f"{told}today's window, the window of 2026-11-02, the window of 2026-11-04" in today.flags
    assert f"{told}the window of 2026-11-02, the window of 2026-11-04" in longer.flags


def test_case_112_one_repeat_at_half_the_speed(build: type[Build]) -> None:
    """Case 112: against a baseline of one repeat, five repeats with one at half the speed are no verdict."""
    gate = gate_of(build)
    file = build.accepted(gate, day(build, 2, 1.0))

    [verdict] = judge(gate, build.against(gate, day(build, 28, 1.0, 1.0, 0.5, 1.0, 1.0), file))

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "no-cross-window-noise")
    assert verdict.change == pytest.approx(0.5**0.2 - 1)


@pytest.mark.parametrize("strict", [False, True])
def test_a_window_far_better_makes_its_baseline_stale(build: type[Build], *, strict: bool) -> None:
    """Better by more than the margin passes with a flag, and is no pass under strict."""
    verdict = judged(build, 1.3, 1.3, strict=strict)

    told = "stale baseline: today is better by more than the margin, so the baseline is of another time"
    assert told in verdict.flags
    if strict:
        assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "stale-baseline")
        assert verdict.summary.endswith(f"{told}, and strict accepts no stale baseline")
    else:
        assert (verdict.outcome, verdict.reason) == (Outcome.PASS, "within-margin")


SLOW = (1.0, 0.97, 0.94)
"""Three nights, each 3 % slower: of a margin of 5 % no step is beyond, and their sum is."""


def eroded(build: type[Build], speed: float, *, strict: bool, nights: Sequence[float] = SLOW, **how: Any) -> Verdict:
    """Return the verdict of a window after nights that were replaced one by one, so that only the anchor is old."""
    gate = gate_of(build, build.claim(cross_window=FLOOR, **how))
    file = build.accepted(gate, day(build, 2, nights[0], nights[0]))
    entry = file.entries["c1-output_throughput"]
    later = build.accepted(gate, *(day(build, 3 + i, night, night) for i, night in enumerate(nights[1:])))
    moved = later.entries["c1-output_throughput"].model_copy(update={"anchor": entry.anchor})
    whole = later.model_copy(update={"entries": {moved.id: moved}, "windows": {**file.windows, **later.windows}})
    window = day(build, 28, speed, speed)
    [verdict] = judge(gate, build.against(gate, strictly(window) if strict else window, whole))
    return verdict


def test_case_110_slow_erosion_is_named(build: type[Build]) -> None:
    """Case 110: a window within the margin of its baseline, but beyond it since the first one, says so."""
    verdict = eroded(build, 0.94, strict=False)

    assert verdict.outcome == Outcome.PASS
    assert verdict.flags[0] == (
        "erosion: output throughput at c=1 worse -6.0 % since the first accepted window (2026-11-02), beyond the "
        "margin, and equal 0.0 % since the last one (2026-11-04)"
    )
    assert verdict.baseline is not None
    assert verdict.baseline.since_anchor == pytest.approx(-0.06)
    assert (verdict.baseline.anchor_at[:10], verdict.baseline.latest_at[:10]) == ("2026-11-02", "2026-11-04")


@pytest.mark.parametrize(
    ("speed", "nights", "outcome"),
    [(0.945, SLOW, Outcome.INCONCLUSIVE), (0.90, (1.0, 0.92, 0.91), Outcome.FAIL)],
)
def test_case_110_erosion_is_no_pass_under_strict(
    build: type[Build], *, speed: float, nights: tuple[float, ...], outcome: Outcome
) -> None:
    """Case 110: under strict it fails where the loss since the first window is shown, and is undecided before that."""
    verdict = eroded(build, speed, strict=True, nights=nights)

    assert (verdict.outcome, verdict.reason) == (outcome, "erosion")
    assert verdict.summary.startswith(f"{outcome}: erosion: output throughput at c=1 worse -")
    assert eroded(build, speed, strict=False, nights=nights).outcome == Outcome.PASS


def test_a_loss_in_one_step_is_no_erosion(build: type[Build]) -> None:
    """Against a baseline whose only window is the first one there is nothing slow about a loss."""
    verdict = judged(build, 0.8, 0.8, claim=build.claim(cross_window=FLOOR), nights=[1.0])

    assert verdict.outcome == Outcome.FAIL
    assert not [flag for flag in verdict.flags if "erosion" in flag]


@pytest.mark.parametrize("strict", [False, True])
def test_strict_changes_no_other_verdict(build: type[Build], *, strict: bool) -> None:
    """A plain pass and a plain fail are the same under strict."""
    assert judged(build, 1.0, 1.0, strict=strict).outcome == Outcome.PASS
    assert judged(build, 0.8, 0.8, strict=strict).reason == "beyond-margin"
