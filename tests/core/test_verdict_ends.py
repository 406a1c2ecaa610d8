"""The figures that a verdict shows are those that decided it: ends of intervals, margins with allowances, zeros."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.judge import judge
from pytest_specgate.core.noise import UNKNOWN_NOISE
from pytest_specgate.core.thresholds import NoiseFloor, Threshold
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict
    from tests.core.conftest import Build

FLOOR = NoiseFloor(0.01, "A/A windows of a test")
METRICS = (
    "output_throughput", "ttft_p50", "tpot_p50", "e2e_p50",
    "decode_rate_p50", "ttft_mean", "tpot_mean", "e2e_mean",
)  # fmt: skip
WIDTH = 0.03


def _equivalent(build: type[Build], speed: float, *, family: int) -> Verdict:
    """Return the verdict of the first of several equivalences."""
    pair = build.pair(rounds=2)
    thresholds = [Threshold(name, 1, "equivalent", WIDTH, FLOOR) for name in METRICS[:family]]
    speeds = [speed * 1.004, speed / 1.004]
    return judge(build.gate(pair, *thresholds), build.window(pair, [1.0] * 2, speeds))[0]


@pytest.mark.parametrize("family", [1, 2, 8])
def test_an_equivalence_shows_the_interval_that_decided(build: type[Build], family: int) -> None:
    """PASS shows one inside the width, FAIL one outside, and only what is open shows one with an end of it inside."""
    seen = set()
    for step in range(-30, 31):
        verdict = _equivalent(build, 1 + step / 250, family=family)
        low, high = verdict.change_low, verdict.change_high
        assert low is not None
        assert high is not None
        shown = {
            Outcome.PASS: -WIDTH <= low < high <= WIDTH,
            Outcome.FAIL: high < -WIDTH or low > WIDTH,
            Outcome.INCONCLUSIVE: low < -WIDTH < high or low < WIDTH < high,
        }
        assert [word for word, holds in shown.items() if holds] == [verdict.outcome], verdict.summary
        seen.add(verdict.outcome)

    assert seen == {Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE}


def _tpot(build: type[Build], speed: float, *, allowance: float) -> Verdict:
    pair = build.pair(rounds=2)
    threshold = Threshold("tpot_p50", 1, "not_worse", 0.02, FLOOR, allowance)
    [verdict] = judge(build.gate(pair, threshold), build.window(pair, [1.0] * 2, [speed] * 2))
    return verdict


@pytest.mark.parametrize(("speed", "outcome"), [(1 / 1.1, Outcome.PASS), (1 / 1.5, Outcome.FAIL)])
def test_the_limit_is_that_of_the_allowance(build: type[Build], speed: float, outcome: Outcome) -> None:
    """30 ms of 100 ms are 30 %: that is what was judged by, and so what the sentence and the stored limit say."""
    verdict = _tpot(build, speed, allowance=0.03)

    assert verdict.outcome == outcome
    assert verdict.limit == pytest.approx(0.3)
    assert ", margin +30 %: " in verdict.summary


def _throughput(build: type[Build], allowance: float) -> Verdict:
    pair = build.pair(rounds=2)
    threshold = Threshold("output_throughput", 1, "not_worse", 0.02, FLOOR, allowance)
    record = build.window(pair, [1.0] * 2, [0.01] * 2)
    reference = judge(build.gate(pair, build.threshold()), record)[0].reference or 0.0
    exact = Threshold("output_throughput", 1, "not_worse", 0.02, FLOOR, allowance * reference)
    assert threshold.row is exact.row
    return judge(build.gate(pair, exact), record)[0]


@pytest.mark.parametrize("allowance", [1.0, 600.0])
def test_an_allowance_of_everything_is_invalid(build: type[Build], allowance: float) -> None:
    """Whoever tolerates the loss of all throughput has written no gate, and 1 % of the speed must not pass it."""
    verdict = _throughput(build, allowance)

    assert (verdict.outcome, verdict.reason, verdict.change) == (Outcome.INVALID, "allowance-too-large", None)
    assert verdict.summary.endswith("the allowance is as large as the value of off itself")


def test_an_allowance_below_everything_is_judged(build: type[Build]) -> None:
    """Nine tenths of a throughput are an allowance like any other, which a hundredth of it exceeds."""
    assert _throughput(build, 0.9).outcome == Outcome.FAIL


def test_an_allowance_larger_than_a_time_is_none_of_everything(build: type[Build]) -> None:
    """A time may grow beyond itself: 200 ms on 100 ms tolerate three times as much, and no more."""
    assert [_tpot(build, speed, allowance=0.2).outcome for speed in (1 / 2.5, 1 / 3.5)] == [Outcome.PASS, Outcome.FAIL]


@pytest.mark.parametrize("allowance", [100.0, 150.0])
def test_an_allowance_of_everything_has_a_finite_claim(allowance: float) -> None:
    """Where a later round raises the reference above it, the claim is the largest loss that has a logarithm."""
    threshold = Threshold("output_throughput", 1, "not_worse", 0.05, FLOOR, allowance)

    claim = threshold.claim_on(UNKNOWN_NOISE, reference=100.0)

    assert claim.delta == pytest.approx(-math.log(1e-9), rel=1e-6)


def _starved(build: type[Build], zeros: int) -> WindowRecord:
    """Return a window of six rounds in which no request of the candidate met its goal in so many of them."""
    pair = build.pair(goodput_limits={"ttft": "1s", "tpot": "1s"})
    speeds = [*itertools.repeat(0.01, zeros), *itertools.repeat(1.0, 6 - zeros)]
    return build.window(pair, [1.0] * 6, speeds)


@pytest.mark.parametrize(("zeros", "words"), [(1, "fell to 0 in 1 of 6 rounds: "), (6, "fell to 0: ")])
def test_a_rate_that_fell_to_nothing_says_how_often(build: type[Build], zeros: int, words: str) -> None:
    """One round of six without an answer in time is told from all of them."""
    pair = build.pair(goodput_limits={"ttft": "1s", "tpot": "1s"})
    threshold = Threshold("goodput", 1, "not_worse", 0.05, FLOOR)

    [verdict] = judge(build.gate(pair, threshold), _starved(build, zeros))

    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "fell-to-zero")
    assert words in verdict.summary


def test_what_was_stopped_says_what_was_seen_until_then(build: type[Build]) -> None:
    """A claim that another one stopped has a change and an interval, and its sentence names the change."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold(floor=None), build.threshold("ttft_p50", floor=0.01))

    stopped, _ = judge(gate, build.window(pair, [1.0] * 2, [0.8, 0.8]))

    assert stopped.reason == "stopped"
    assert stopped.change == pytest.approx(-0.2)
    assert ": stopped at round 2 of 6, worse -20.0 % until then: c1-ttft_p50-not_worse is FAIL" in stopped.summary
