"""What verdicts say in every corner: before the first look, and of a window that never began."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core import planning
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.judge import judge
from pytest_specgate.core.noise import Noise
from pytest_specgate.core.records import ArmNoise, StartUpRecord
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.thresholds import CALIBRATED, NoiseFloor, Threshold
from pytest_specgate.core.verdict import Outcome, UnexpectedOutcomeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specgate.core.records import PointRecord
    from pytest_specgate.core.thresholds import AnyThreshold
    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build, Speed

DAY = "2026-11-02T09:00:00+00:00"
FLOOR = NoiseFloor(0.01, "A/A windows of a test")


def _loss(fraction: float = 0.05, metric: str = "output_throughput", *, allowance: float = 0.0) -> Threshold:
    return Threshold(metric, 1, "not_worse", fraction, FLOOR, allowance)


def _judged(
    build: type[Build],
    *thresholds: AnyThreshold,
    speeds: Sequence[Speed],
    rounds: int = 6,
    final: bool = True,
) -> tuple[Verdict, ...]:
    """Judge a gate against a reference of speed 1."""
    pair = build.pair(rounds=rounds)
    record = build.window(pair, [1.0] * len(speeds), speeds)
    return judge(build.gate(pair, *thresholds), record, final=final)


def _noise(arm: str, metric: str, *, sd: float) -> ArmNoise:
    return ArmNoise(arm=arm, at=1, metric=metric, sd=sd, df=10.0, boots=6, builds=1, arm_sha256=arm, measured_at=DAY)


def test_a_window_that_never_began_leaves_every_claim_undecided(build: type[Build]) -> None:
    """Without a single boot nothing is INVALID: each claim says why nothing was measured."""
    pair = build.pair()
    record = build.window(pair, [], []).model_copy(update={"stopped": "the time budget leaves no round"})

    verdicts = judge(build.gate(pair, _loss(), _loss(metric="ttft_p50")), record)

    assert [(one.outcome, one.reason) for one in verdicts] == [(Outcome.INCONCLUSIVE, "stopped")] * 2
    assert verdicts[0].summary == (
        "INCONCLUSIVE: output throughput at c=1 not worse by more than 5 %: nothing was measured: "
        "the time budget leaves no round"
    )
    assert (verdicts[1].threshold, verdicts[1].gate) == ("c1-ttft_p50-not_worse", "test_gate.py::test_gate")
    assert (verdicts[1].detail, verdicts[1].rounds, verdicts[1].change) == ("", 0, None)


@pytest.mark.parametrize("stopped", ["", "the time budget was used up after 1 of 6 rounds"])
def test_a_window_with_one_arm_only_is_invalid(build: type[Build], stopped: str) -> None:
    """What began and has no round is INVALID, whatever ended it; so is an empty window that nothing stopped."""
    pair = build.pair()
    half = build.window(pair, [1.0], []).model_copy(update={"stopped": stopped})

    [begun] = judge(build.gate(pair, _loss()), half)
    [empty] = judge(build.gate(pair, _loss()), build.window(pair, [], []))

    assert (begun.outcome, begun.reason) == (Outcome.INVALID, "not-measured")
    assert (empty.outcome, empty.reason) == (Outcome.INVALID, "not-measured")


def test_before_the_first_look_a_claim_has_no_interval(build: type[Build]) -> None:
    """While a gate runs, one round of a claim that is judged at two has a change, no interval, and no estimate."""
    [verdict] = _judged(build, _loss(), speeds=[0.9], final=False)

    assert verdict.summary == (
        "INCONCLUSIVE: output throughput at c=1 worse -10.0 %, margin -5 %: next look at 2 rounds"
    )
    assert verdict.noise == "not estimated before the first look; floor 1 % (A/A windows of a test)"
    assert (verdict.change_low, verdict.change_high, verdict.break_even_floor) == (None, None, None)


def test_two_rounds_of_unknown_noise_have_no_break_even_floor(build: type[Build]) -> None:
    """The largest floor that decides is that of one round by itself; for two there is no such formula."""
    threshold = Threshold("output_throughput", 1, "not_worse", 0.05)

    one, two = (_judged(build, threshold, speeds=[0.9] * count, rounds=count)[0] for count in (1, 2))

    assert (one.break_even_floor or 0) > 0
    assert (two.reason, two.break_even_floor) == ("noise-unknown", None)


def test_a_margin_of_nothing_is_told_as_nothing(build: type[Build]) -> None:
    """A claim that tolerates no loss at all has a limit of 0 %, also in its sentence."""
    [loss] = _judged(build, Threshold("ttft_p50", 1, "not_worse", 0.0, FLOOR), speeds=[0.8] * 2)
    [even] = _judged(build, Threshold("ttft_p50", 1, "equivalent", 0.0, FLOOR), speeds=[0.8] * 2)

    assert loss.summary.endswith(", margin +0 %: the whole interval lies beyond the margin")
    assert even.summary.endswith(", within ±0 %: the whole interval lies outside")
    assert (loss.limit, even.limit) == (0.0, 0.0)


def test_the_limit_is_that_of_the_larger_allowance(build: type[Build]) -> None:
    """An allowance of 20 ms on a TTFT of 100 ms moves the limit of 5 % to 20 %; one of 1 ms leaves it."""
    large, small = (
        _judged(build, _loss(metric="ttft_p50", allowance=allowance), speeds=[1.0] * 2)[0]
        for allowance in (0.020, 0.001)
    )

    assert large.limit == pytest.approx(0.2)
    assert small.limit == pytest.approx(0.05)
    assert "margin +20 %" in large.summary


def test_an_equivalence_within_the_calibrated_floor_has_its_limit(build: type[Build]) -> None:
    """The width that a calibration sets is the limit of the verdict."""
    pair = build.pair()
    threshold = Threshold("output_throughput", 1, "equivalent", None, CALIBRATED)
    noise = tuple(_noise(arm, "output_throughput", sd=0.005) for arm in ("off", "k4"))
    record = build.window(pair, [1.0] * 2, [1.0] * 2).model_copy(update={"noise": noise})

    [verdict] = judge(build.gate(pair, threshold), record)

    assert verdict.limit == pytest.approx(-math.expm1(1.959964 * 0.005))


def test_prospects_of_a_family(build: type[Build]) -> None:
    """What two thresholds of a gate can decide is planned for both of them."""
    speeds = [0.98, 0.98, 0.96, 0.96, 0.985, 0.955]
    threshold = _loss(0.043)
    verdict, _ = _judged(build, threshold, _loss(metric="ttft_p50"), speeds=speeds)
    [alone] = _judged(build, threshold, speeds=speeds)
    seen = Noise(verdict.sd or 0, FLOOR.noise.df)

    smallest = planning.smallest_margin(noise=seen, n_max=6, family=2)
    detectable = planning.detectable(-math.log1p(-0.043), noise=seen, n_max=6, family=2)
    assert smallest is not None
    assert detectable is not None
    assert verdict.smallest_margin == pytest.approx(-math.expm1(-smallest))
    assert verdict.detectable == pytest.approx(math.expm1(-detectable))
    assert (verdict.smallest_margin or 0) > (alone.smallest_margin or 0)
    assert (verdict.detectable or 0) < (alone.detectable or 0)


def test_a_loss_beyond_a_familys_margin_needs_more_rounds(build: type[Build]) -> None:
    """FAIL shares its error rate with the gate, so an undecided loss needs more rounds beside other thresholds."""
    speeds = [0.944, 0.94, 0.957, 0.935, 0.956, 0.934]
    others = [_loss(metric=name) for name in ("ttft_p50", "tpot_p50", "e2e_p50")]

    alone, *_ = _judged(build, _loss(), speeds=speeds)
    among, *_ = _judged(build, _loss(), *others, speeds=speeds)

    assert (alone.outcome, among.outcome) == (Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE)
    assert (alone.needs_rounds, among.needs_rounds) == (14, 20)


def test_a_claim_that_goes_on_says_how_many_rounds_it_needs(build: type[Build]) -> None:
    """Between two looks of a running gate the number of rounds is told like after the last one."""
    [verdict] = _judged(build, _loss(0.043), speeds=[0.98, 0.965], final=False)

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "open")
    assert (verdict.needs_rounds or 0) > 2


def _accepting(build: type[Build], *accepted: int) -> Callable[[PointRecord], PointRecord]:
    """Return an edit: of 40 drafts so many tokens were accepted at each position."""
    drafted = SpeculationDelta(40, 40 * len(accepted), sum(accepted), accepted)
    return lambda point: build.point(point.requests, at=point.at, speculation=drafted)


def test_the_mean_of_a_share_is_plain(build: type[Build]) -> None:
    """In points both levels are plain means over the rounds, not geometric ones."""
    pair = build.pair(reference=4, candidate=7)
    record = build.window(pair, [1.0] * 4, [1.0] * 4)
    record = build.edited_point(record, arm="k4", edit=_accepting(build, 30, 10, 0, 0))
    record = build.edited_point(record, arm="k7", edit=_accepting(build, 20, 10, 10, 0, 0, 0, 0))

    [verdict] = judge(build.gate(pair, Threshold("acceptance_rate", 1, "not_worse", 0.3, points=True)), record)

    assert verdict.reference == pytest.approx((40 + 3 * 60) / (4 * 160))
    assert verdict.candidate == pytest.approx((40 + 3 * 60) / (4 * 280))


def test_a_metric_that_fell_to_zero_has_its_samples(build: type[Build]) -> None:
    """Of how many requests the nothing was measured stands in the verdict."""
    pair = build.pair(goodput_limits={"ttft": "100ms"})
    threshold = Threshold("goodput", 1, "not_worse", 0.05, FLOOR)

    [verdict] = judge(build.gate(pair, threshold), build.window(pair, [1.0] * 2, [0.9] * 2))

    assert (verdict.reason, verdict.samples) == ("fell-to-zero", 10)


def _strict(build: type[Build], speed: float) -> Verdict:
    """Judge a TTFT under strict, of servers that do not differ."""
    pair = build.pair()
    start = StartUpRecord(config={"seed": 0}, lines={"ready": 1})
    record = build.window(pair, [1.0] * 2, [speed] * 2)
    boots = tuple(boot.model_copy(update={"startup": start}) for boot in record.boots)
    [verdict] = judge(
        build.gate(pair, _loss(metric="ttft_p50")), record.model_copy(update={"boots": boots, "strict": True})
    )
    return verdict


def test_an_implausible_gain_under_strict(build: type[Build]) -> None:
    """A gain that is not believed names the metric, its load and what to look for, and no measured figure."""
    verdict = _strict(build, 100 / 3)

    assert (verdict.outcome, verdict.reason) == (Outcome.INVALID, "implausible-gain")
    assert verdict.summary == (
        "TTFT p50 at c=1 better by a factor of more than 4: a gain of this size is not believed on a claim of "
        "'not worse': did both arms do the same work?"
    )


@pytest.mark.parametrize(("speed", "outcome"), [(3.9, Outcome.PASS), (4.1, Outcome.INVALID)])
def test_four_times_as_fast_is_the_most_that_is_believed(build: type[Build], speed: float, outcome: Outcome) -> None:
    """Under strict a claim of "not worse" believes a quarter of the time, and nothing less."""
    assert _strict(build, speed).outcome == outcome


def test_an_outcome_that_was_not_expected_is_shown_at_the_test(build: type[Build]) -> None:
    """Pytest shows the line of the test, not the inside of `expect`."""
    [verdict] = _judged(build, _loss(), speeds=[1.0] * 2)

    with pytest.raises(UnexpectedOutcomeError) as raised:
        verdict.expect(Outcome.FAIL)

    assert raised.traceback[-1].ishidden(raised)


def test_the_refusal_to_expect_what_was_not_measured(build: type[Build]) -> None:
    """The whole sentence says which outcomes can be expected, and why not this one."""
    [verdict] = _judged(build, _loss(), speeds=[1.0] * 2)

    with pytest.raises(UsageError) as refused:
        verdict.expect(Outcome.INVALID)

    assert str(refused.value) == (
        "verdict.expect() takes PASS, FAIL or INCONCLUSIVE: what was not measured is never accepted"
    )


def test_what_was_stopped_tells_its_change_in_points(build: type[Build]) -> None:
    """A share that was open when its gate stopped says how far it was, in the unit of its margin."""
    pair = build.pair(reference=4, candidate=7)
    gate = build.gate(pair, Threshold("acceptance_rate", 1, "not_worse", 0.05, points=True))

    [verdict] = judge(gate, build.window(pair, [1.0] * 2, [1.0] * 2))

    assert verdict.reason == "stopped"
    assert verdict.summary.endswith("stopped at round 2 of 6, worse -16.1 points until then: the window ended")


def test_a_margin_in_points_may_be_the_calibrated_floor(build: type[Build]) -> None:
    """The steps of a share are held against a margin that only the calibration knows."""
    pair = build.pair(reference=4, candidate=7)
    record = build.window(pair, [1.0] * 2, [1.0] * 2)
    threshold = Threshold("acceptance_rate", 1, "not_worse", None, CALIBRATED, points=True)
    coarse, fine = (
        record.model_copy(update={"noise": tuple(_noise(arm, "acceptance_rate", sd=sd) for arm in ("k4", "k7"))})
        for sd in (0.05, 0.001)
    )

    [resolved], [unresolved] = (judge(build.gate(pair, threshold), one) for one in (coarse, fine))

    assert resolved.limit == pytest.approx(-1.959964 * 0.05)
    assert (unresolved.outcome, unresolved.reason) == (Outcome.INVALID, "cannot-be-resolved")
