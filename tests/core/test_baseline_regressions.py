"""What a window that is worse needs before it may become a baseline: nothing is taken in silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.baseline_offer import window_id
from pytest_specgate.core.judge import judge
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.verdict import Outcome
from tests.core.test_baseline_update import FLOOR, day, gate_of, plan

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord
    from tests.core.conftest import Build


@pytest.mark.parametrize("mode", ["append", "replace"])
@pytest.mark.parametrize(
    ("metric", "speed", "words"),
    [
        ("output_throughput", 0.9, "worse -10.0 %"),
        ("ttft_p50", 0.9, "worse +11.1 %"),
        ("output_throughput", 1.2, None),
        ("ttft_p50", 1.2, None),
        ("output_throughput", 0.951, None),
        ("ttft_p50", 1 / 1.049, None),
    ],
)
def test_case_142_a_loss_beyond_the_margin_is_a_regression(
    build: type[Build], *, mode: Any, metric: str, speed: float, words: str | None
) -> None:
    """Case 142: a loss by the estimate, in the direction of the metric, has to be accepted as one, and is marked."""
    gate = gate_of(build, build.claim(metric))
    file = build.accepted(gate, day(build, 2))

    window = day(build, 3, speed, speed)
    update = plan(build, gate, window, file, mode=mode)

    since = [f"c1-{metric} (relative) {words} since {what}" for what in ("the baseline", "the first accepted window")]
    told = f"{since[0]}, beyond its margin; {since[1]}, beyond its margin"
    assert update.regressions == ((told,) if words else ())
    assert update.after.windows[window_id(window)].regression == bool(words)
    assert not any(update.after.windows[name].regression for name in file.windows if name in update.after.windows)


@pytest.mark.parametrize(
    ("nights", "speed", "since"), [((1.0, 1.1), 0.99, "the baseline"), ((1.0, 0.91), 0.94, "the first accepted window")]
)
def test_a_loss_is_told_by_what_it_is_a_loss_of(
    build: type[Build], *, nights: tuple[float, ...], speed: float, since: str
) -> None:
    """The mean of the accepted windows and the first one are two things: each loss beyond the margin is told alone."""
    gate = gate_of(build)
    file = build.accepted(gate, *(day(build, 2 + i, night) for i, night in enumerate(nights)))

    [told] = plan(build, gate, day(build, 9, speed), file).regressions

    assert told.count("since") == 1
    assert told.endswith(f" since {since}, beyond its margin")


def test_a_regression_in_points_is_told_in_points(build: type[Build]) -> None:
    """The unit of a loss is that of its margin."""
    claim = build.claim("acceptance_rate", margin=0.02, points=True)
    gate = build.gate(build.pair(reference=7), claim)
    file = build.accepted(gate, day(build, 2, 1.0, reference=7))

    def fewer(point: PointRecord) -> PointRecord:
        # 36 of 160 draft tokens are accepted instead of 60.
        return build.point(point.requests, at=1, speculation=SpeculationDelta(40, 160, 36, (20, 10, 6, 0)))

    worse = build.edited_point(day(build, 3, 1.0, reference=7), arm="k4", edit=fewer)
    update = plan(build, gate, worse, file)

    assert update.regressions[0].startswith("c1-acceptance_rate (relative) worse -15.0 points since the baseline")


def test_a_regression_of_an_older_window_is_marked(build: type[Build]) -> None:
    """It is the window that was accepted now which is marked, wherever its time puts it."""
    gate = gate_of(build)
    file = build.accepted(gate, day(build, 2), day(build, 9))
    late = day(build, 5, 0.5, 0.5)

    after = plan(build, gate, late, file).after

    assert [name[8:10] for name, window in after.windows.items() if window.regression] == ["05"]


def test_a_window_that_fails_its_own_gate_is_a_regression(build: type[Build]) -> None:
    """An arm that is shown to be worse than the other one is not taken in silently either."""
    gate = build.gate(build.pair(), build.threshold(), build.claim())

    window = day(build, 2, 0.7, 0.7)
    update = plan(build, gate, window, None)

    assert update.failed == ("c1-output_throughput-not_worse",)
    assert update.regressions == ("c1-output_throughput-not_worse is FAIL",)
    assert update.after.windows[window_id(window)].regression


def test_an_undecided_window_is_accepted(build: type[Build]) -> None:
    """Choosing windows by their verdict would make their spread look smaller: INCONCLUSIVE ones are taken in."""
    gate = build.gate(build.pair(), build.threshold(margin=0.001), build.claim())
    window = day(build, 2, 1.0, 1.03)
    [own, _] = judge(gate, window)

    update = plan(build, gate, window, None)

    assert own.outcome == Outcome.INCONCLUSIVE
    assert (update.writes, update.regressions) == (True, ())


def test_case_110_erosion_in_steps_inside_the_margin(build: type[Build]) -> None:
    """Case 110: of ten windows, each with times 4 % longer, the second is +8.2 % against the committed value, and FAIL.

    Who accepts them all the same is told with every window beyond the first that it is a regression, and at the end
    that 48 % were lost since the first accepted window.
    """
    claim = build.claim("tpot_p50", margin=0.05, mode="absolute", cross_window=FLOOR)
    gate = gate_of(build, claim)
    series = [day(build, number + 1, *[1.04**-number] * 2) for number in range(11)]
    committed = build.accepted(gate, series[0])

    verdicts = [judge(gate, build.against(gate, window, committed))[0] for window in series[1:3]]
    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASS, Outcome.FAIL]
    assert verdicts[1].change == pytest.approx(0.0816)
    assert "worse +8.2 %" in verdicts[1].summary

    file, told = committed, []
    for window in series[1:]:
        update = plan(build, gate, window, file)
        told.append(update.regressions)
        file = update.after
    assert told[0] == ()
    assert all(len(sentences) == 1 for sentences in told[1:])
    assert "c1-tpot_p50 (absolute) worse +48.0 % since the first accepted window, beyond its margin" in told[-1][0]
    [change] = plan(build, gate, series[-1], committed).changes
    assert change.verdicts[0].baseline is not None
    assert change.verdicts[0].baseline.since_anchor == pytest.approx(0.4802, abs=1e-4)
