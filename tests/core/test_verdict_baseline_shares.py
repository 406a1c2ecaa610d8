"""Verdicts about a baseline where no ratio says anything: shares in points, and rates that fell to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.judge import judge
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.thresholds import NoiseFloor
from pytest_specgate.core.verdict import Outcome
from tests.core.test_baseline_update import day
from tests.core.test_verdict_baseline import judged

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord, WindowRecord
    from tests.core.conftest import Build


def _rate(build: type[Build], window: WindowRecord, *positions: int) -> WindowRecord:
    """Return a window whose candidate accepted so many draft tokens of 160, by position."""

    def drafted(point: PointRecord) -> PointRecord:
        speculation = SpeculationDelta(40, 160, sum(positions), (*positions, *[0] * (4 - len(positions))))
        return build.point(point.requests, at=1, speculation=speculation)

    return build.edited_point(window, arm="k4", edit=drafted)


@pytest.mark.parametrize("mode", ["relative", "absolute"])
@pytest.mark.parametrize(
    ("positions", "outcome", "words"),
    [
        (((30, 20, 10), (30, 20, 10)), Outcome.PASS, "equal 0.0 points"),
        (((30, 20, 10), (20, 10, 6)), Outcome.FAIL, "worse -15.0 points"),
        (((20, 10, 6), (30, 20, 10)), Outcome.PASS, "better +15.0 points"),
    ],
)
def test_shares_are_judged_in_points(
    build: type[Build], *, mode: Any, positions: tuple[tuple[int, ...], ...], outcome: Outcome, words: str
) -> None:
    """A margin in points is a plain difference of shares, by the change between the arms and by the level."""
    floor = NoiseFloor(0.01, "nights of a test", points=True)
    claim = build.claim("acceptance_rate", margin=0.05, points=True, mode=mode, cross_window=floor)
    gate = build.gate(build.pair(reference=7), claim)
    before, after = positions
    file = build.accepted(gate, _rate(build, day(build, 2, 1.0, reference=7), *before))
    window = _rate(build, day(build, 28, 1.0, reference=7), *after)

    [verdict] = judge(gate, build.against(gate, window, file))

    assert (verdict.outcome, verdict.points) == (outcome, True)
    assert words in verdict.summary
    assert "margin -5 points" in verdict.summary
    assert verdict.change == pytest.approx((sum(after) - sum(before)) / 160)
    assert verdict.baseline is not None
    assert verdict.baseline.level == pytest.approx(sum(before) / 160 - (60 / 280 if mode == "relative" else 0))


def test_a_machine_that_moved_is_told_in_points(build: type[Build]) -> None:
    """The level of a share of the reference is told in the unit of the margin."""
    floor = NoiseFloor(0.01, "nights of a test", points=True)
    claim = build.claim("acceptance_rate", margin=0.05, points=True, mode="absolute", cross_window=floor)
    pair = {"reference": 4, "candidate": 7}
    gate = build.gate(build.pair(**pair), claim)
    file = build.accepted(gate, day(build, 2, 1.0, **pair))

    [verdict] = judge(gate, build.against(gate, _rate(build, day(build, 28, 1.0, **pair), 20, 10, 6), file))

    assert verdict.reason == "machine-moved"
    assert "k4, the reference, is worse -15.0 points since its own baseline" in verdict.summary


def test_a_margin_finer_than_a_share_is_not_resolved(build: type[Build]) -> None:
    """A share of 40 drafts has steps of 2.5 points: a margin of 4 points is more than they can tell."""
    floor = NoiseFloor(0.001, "nights of a test", points=True)
    claim = build.claim("acceptance_rate", margin=0.04, points=True, cross_window=floor)
    gate = build.gate(build.pair(reference=7), claim)
    file = build.accepted(gate, day(build, 2, 1.0, reference=7))

    [verdict] = judge(gate, build.against(gate, day(build, 28, 1.0, reference=7), file))

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "cannot-be-resolved")
    assert verdict.summary.endswith("its steps of 2.5 points cannot resolve that margin")


LIMITS: dict[str, Any] = {"goodput_limits": {"ttft": "150ms"}}


@pytest.mark.parametrize("mode", ["relative", "absolute"])
@pytest.mark.parametrize(
    ("speeds", "pace", "outcome", "reason"),
    [
        ((0.5, 0.5), 1.0, Outcome.FAIL, "fell-to-zero"),
        ((0.5, 1.0), 1.0, Outcome.FAIL, "fell-to-zero"),
        ((1.0, 1.0), 0.5, Outcome.INVALID, "reference-is-zero"),
        ((0.5, 0.5), 0.5, Outcome.INVALID, "reference-is-zero"),
    ],
)
def test_case_94_what_fell_to_nothing_is_worse_by_all_of_it(  # noqa: PLR0913  - modes crossed with speeds and words
    build: type[Build], *, mode: Any, speeds: tuple[float, ...], pace: float, outcome: Outcome, reason: str
) -> None:
    """Case 94: a rate of 0 against one that was some is the largest loss there is; a reference of 0 is no measure."""
    verdict = judged(build, *speeds, pace=pace, claim=build.claim("goodput", mode=mode), **LIMITS)

    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    if outcome == Outcome.FAIL:
        where = "" if speeds == (0.5, 0.5) else " in 1 of 2 rounds"
        assert verdict.summary == f"FAIL: goodput at c=1 fell to 0{where}: worse -100.0 %"
        assert (verdict.change, verdict.candidate) == (-1.0, 0.0)
    else:
        assert verdict.summary == "goodput at c=1 is 0 in off, so there is nothing to compare with"


def test_a_share_of_nothing_is_judged_in_points(build: type[Build]) -> None:
    """In points a share of 0 is a value like any other."""
    floor = NoiseFloor(0.01, "nights of a test", points=True)
    claim = build.claim("acceptance_rate", margin=0.05, points=True, cross_window=floor)
    gate = build.gate(build.pair(reference=7), claim)
    file = build.accepted(gate, day(build, 2, 1.0, reference=7))

    [verdict] = judge(gate, build.against(gate, _rate(build, day(build, 28, 1.0, reference=7), 0), file))

    assert verdict.outcome == Outcome.FAIL
    assert verdict.change == pytest.approx(-60 / 160)
