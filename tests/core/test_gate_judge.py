"""Verdicts on windows whose every figure is known."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.judge import judge
from pytest_specgate.core.verdict import Outcome, Verdict, change_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.records import BootRecord
    from pytest_specgate.core.thresholds import Threshold
    from tests.core.conftest import Build, Speed

STEADY = (1.0, 1.001, 1.0, 0.999, 1.0, 1.0)


def _scaled(factor: float, rounds: int = 2) -> list[float]:
    return [factor * speed for speed in reversed(STEADY[:rounds])]


def _word(verdict: Verdict) -> str:
    assert verdict.change is not None
    return change_words(verdict.change, metric_name=verdict.metric)


def _judged(
    build: type[Build],
    threshold: Threshold,
    candidate: Sequence[Speed],
    *,
    reference: Sequence[Speed] | None = None,
    rounds: int = 6,
) -> Verdict:
    """Judge a gate of one threshold by a window of as many rounds as there are candidate speeds."""
    pair = build.pair(rounds=rounds)
    record = build.window(pair, STEADY[: len(candidate)] if reference is None else reference, candidate)
    [verdict] = judge(build.gate(pair, threshold), record)
    return verdict


@pytest.mark.parametrize("speed", [1.0, 0.97, 2.0])
def test_pass_within_the_margin(build: type[Build], speed: float) -> None:
    """A candidate whose bound lies within the margin passes after two rounds of known noise."""
    verdict = _judged(build, build.threshold(margin=0.06), _scaled(speed))

    assert (verdict.outcome, verdict.reason, verdict.rounds) == (Outcome.PASS, "within-margin", 2)


@pytest.mark.parametrize("metric", ["output_throughput", "decode_rate_p50", "ttft_p50", "tpot_p50", "e2e_p50"])
def test_fail_beyond_the_margin_in_either_direction(build: type[Build], metric: str) -> None:
    """A candidate at 0.8 of the speed fails a margin of 5 %, by lower rates as by longer times."""
    verdict = _judged(build, build.threshold(metric), _scaled(0.8))

    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, "beyond-margin")


def test_margin_of_a_lower_is_better_metric_is_a_rise(build: type[Build]) -> None:
    """A time that rises by 6 % passes a margin of 8 % and fails one of 4 %; one that falls passes both."""
    slower, faster = _scaled(1 / 1.06), _scaled(1.06)
    outcomes = [
        _judged(build, build.threshold("ttft_p50", margin=margin, floor=0.004), speeds).outcome
        for speeds in (slower, faster)
        for margin in (0.08, 0.04)
    ]

    assert outcomes == [Outcome.PASS, Outcome.FAIL, Outcome.PASS, Outcome.PASS]


def test_figures_of_a_verdict(build: type[Build]) -> None:
    """A verdict carries the level of both arms, the ratios, the raw change with its interval, and the rule's inputs."""
    verdict = _judged(build, build.threshold("ttft_p50", margin=0.3), [0.8, 0.8], reference=[1.0, 1.0])

    assert verdict.reference == pytest.approx(0.1)
    assert verdict.candidate == pytest.approx(0.125)
    assert list(verdict.ratios) == pytest.approx([math.log(0.8)] * 2)
    assert verdict.change == pytest.approx(0.25)
    assert verdict.change_low is not None
    assert verdict.change_high is not None
    assert verdict.change_low < 0.25 < verdict.change_high
    assert (verdict.rounds_planned, verdict.looks, verdict.family) == (6, 3, 1)
    assert (verdict.metric, verdict.at, verdict.kind, verdict.limit) == ("ttft_p50", 1, "not_worse", 0.3)


def test_verdicts_name_their_gate(build: type[Build]) -> None:
    """Every verdict carries the id of the gate that asked, so that two gates of equal thresholds stay apart."""
    pair = build.pair()
    gate = build.gate(pair, build.threshold(), build.threshold(at=8))
    other = dataclasses.replace(gate, id="test_gate.py::test_other")
    record = build.window(pair, STEADY[:2], _scaled(1.0))

    seen = [[verdict.gate for verdict in judge(one, record)] for one in (gate, other)]

    assert seen == [["test_gate.py::test_gate"] * 2, ["test_gate.py::test_other"] * 2]


def test_summary_has_word_interval_margin_and_reason(build: type[Build]) -> None:
    """The sentence of a verdict says word, direction, change, interval, margin and reason."""
    verdict = _judged(build, build.threshold(), [0.8, 0.8], reference=[1.0, 1.0])

    words = "FAIL: output throughput at c=1 worse -20.0 %, interval -20.7 to -19.3 %, margin -5 %: "
    assert verdict.summary.startswith(words)
    assert len(verdict.summary) > len(words)
    assert verdict.pair == "k4 against off"


@pytest.mark.parametrize(("speed", "outcome"), [(1.6, Outcome.PASS), (1.4, Outcome.FAIL), (1.0, Outcome.FAIL)])
def test_better_asks_for_the_gain_itself(build: type[Build], *, speed: float, outcome: Outcome) -> None:
    """A claim of 50 % more passes only when the bound, not the estimate, is above it."""
    verdict = _judged(build, build.threshold(kind="better", margin=0.5), _scaled(speed))

    assert verdict.outcome == outcome


@pytest.mark.parametrize(
    ("metric", "speed", "outcome"),
    [("decode_rate_p50", 0.8, Outcome.FAIL), ("tpot_p50", 1.25, Outcome.PASS), ("ttft_p50", 1 / 1.2, Outcome.FAIL)],
)
def test_case_92_directions(build: type[Build], *, metric: str, speed: float, outcome: Outcome) -> None:
    """Case 92: decode rate 100 -> 80 fails, TPOT 10 -> 8 passes, TTFT 50 -> 60 fails, at a margin of 10 %."""
    assert _judged(build, build.threshold(metric, margin=0.1), _scaled(speed)).outcome == outcome


def test_case_92_acceptance_that_falls_is_worse(build: type[Build]) -> None:
    """Case 92: an acceptance rate that falls from 0.375 to 0.214 fails a margin of 10 %."""
    pair = build.pair(reference=4, candidate=7)
    record = build.window(pair, STEADY[:2], STEADY[:2])

    [verdict] = judge(build.gate(pair, build.threshold("acceptance_rate", margin=0.1)), record)

    assert (verdict.outcome, _word(verdict)) == (Outcome.FAIL, "worse -42.9 %")


def test_the_interval_contains_the_margin_at_the_end(build: type[Build]) -> None:
    """A loss equal to the margin is inconclusive when the rounds are used up."""
    verdict = _judged(build, build.threshold(), [0.95, 0.95], reference=[1.0, 1.0], rounds=2)

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "interval-contains-margin")
    assert verdict.change == pytest.approx(-0.05)


def test_futile_rounds_are_given_up(build: type[Build]) -> None:
    """A loss so near the margin that more rounds would not help is inconclusive before they are spent."""
    ratios = (-0.0045, -0.0052, -0.003, -0.006)
    floor = math.expm1(1.959964 * 0.002)
    threshold = build.threshold(margin=-math.expm1(-0.004), floor=floor)

    verdict = _judged(build, threshold, [math.exp(ratio) for ratio in ratios], reference=[1.0] * 4)

    assert (verdict.outcome, verdict.reason, verdict.rounds) == (Outcome.INCONCLUSIVE, "futile", 4)


def test_unknown_noise_is_never_a_pass(build: type[Build]) -> None:
    """Two rounds of unknown noise tell nothing, however large the difference; the change is shown without interval."""
    verdict = _judged(build, build.threshold(floor=None), [5.0, 5.0], reference=[1.0, 1.0], rounds=2)

    assert (verdict.outcome, verdict.reason) == (Outcome.INCONCLUSIVE, "noise-unknown")
    assert (verdict.change_low, verdict.change_high, verdict.sd) == (None, None, None)
    assert "interval" not in verdict.summary


def test_case_97_rounds_within_noise(build: type[Build]) -> None:
    """Case 97: three A/A rounds that scatter by 9 % neither pass nor fail a margin of 3 %."""
    reference = [1 / tpot for tpot in (10.0, 10.6, 9.7)]
    candidate = [1 / tpot for tpot in (10.9, 10.1, 10.5)]
    threshold = build.threshold("tpot_p50", margin=0.03, floor=None)

    verdict = _judged(build, threshold, candidate, reference=reference, rounds=3)

    assert verdict.outcome == Outcome.INCONCLUSIVE
    assert _word(verdict) == "worse +4.0 %"


def test_case_100_a_good_round_does_not_outweigh_bad_ones(build: type[Build]) -> None:
    """Case 100: all rounds are judged together; a last round that is fine makes no pass of two that are not."""
    verdict = _judged(build, build.threshold(floor=None), [0.8, 0.8, 1.0], reference=[1.0] * 3, rounds=3)

    assert len(verdict.ratios) == 3
    assert verdict.outcome != Outcome.PASS


@pytest.mark.parametrize(("speed", "outcome"), [(1.0, Outcome.PASS), (0.8, Outcome.FAIL)])
def test_two_arms_that_are_alike_are_judged_like_any(build: type[Build], *, speed: float, outcome: Outcome) -> None:
    """A pair of two equal arms under two names is judged by the same rule as any other pair."""
    pair = ArmPair(reference=build.arm(4), candidate=build.arm(4).vary("again"), varies=(), profile=build.profile())

    [verdict] = judge(build.gate(pair, build.threshold()), build.window(pair, STEADY[:2], _scaled(speed)))

    assert (verdict.outcome, verdict.pair) == (outcome, "again against k4")


def test_case_101_each_concurrency_is_judged_on_its_own(build: type[Build]) -> None:
    """Case 101: 2.1 times as fast at c=1 and 0.77 at c=8 passes at c=1 and fails at c=8."""
    pair = build.pair()
    gate = build.gate(pair, *(build.threshold(at=at, kind="better", margin=0.0) for at in (1, 8)))
    record = build.window(pair, STEADY[:2], [{1: 2.1, 8: 0.77}] * 2)

    verdicts = judge(gate, record)

    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASS, Outcome.FAIL]
    assert [verdict.accepted for verdict in verdicts] == [True, False]


def test_family_counts_every_threshold_of_the_gate(build: type[Build]) -> None:
    """A loss that fails alone by a hair is inconclusive among eight thresholds, and the verdict says m."""
    pair = build.pair(rounds=2)
    others = [build.threshold(name, at) for at in (1, 8) for name in ("ttft_p50", "tpot_p50", "e2e_p50")]
    threshold = build.threshold(floor=0.01, margin=0.05)
    record = build.window(pair, [1.0, 1.0], [0.94, 0.94])

    [alone] = judge(build.gate(pair, threshold), record)
    among, *_ = judge(build.gate(pair, threshold, *others, build.threshold(at=8)), record)

    assert (alone.outcome, alone.family) == (Outcome.FAIL, 1)
    assert (among.outcome, among.family) == (Outcome.INCONCLUSIVE, 8)


def test_noise_words_quote_the_source_of_a_declared_floor(build: type[Build]) -> None:
    """What rests on a declared floor says so, with the floor and its source."""
    declared = _judged(build, build.threshold(), [1.0], reference=[1.0], rounds=1)
    own = _judged(build, build.threshold(floor=None), STEADY[:4])

    assert declared.noise == "declared; floor 1 % (A/A windows of a test)"
    assert own.noise == "own (no calibration)"


def test_rounds_that_scatter_more_than_declared_say_so(build: type[Build]) -> None:
    """A floor that the rounds contradict is dropped, and named as declared, not as calibrated."""
    verdict = _judged(build, build.threshold(), [0.8, 1.2], reference=[1.0, 1.0])

    assert verdict.noise.startswith("own (declared floor rejected); floor 1 %")


@pytest.mark.parametrize("metric", ["output_throughput", "ttft_p50"])
def test_case_91_a_large_gain_on_not_worse_is_flagged(build: type[Build], metric: str) -> None:
    """Case 91: a candidate that is far better on a claim of "not worse" passes with a flag; a small gain has none."""
    threshold = build.threshold(metric)

    large, small = _judged(build, threshold, _scaled(1.12)), _judged(build, threshold, _scaled(1.08))

    assert ["check that both arms did the same work" in flag for flag in large.flags] == [True]
    assert small.flags == ()


def test_a_gain_that_was_asked_for_is_not_flagged(build: type[Build]) -> None:
    """A claim of "better" expects a gain."""
    assert _judged(build, build.threshold(kind="better"), _scaled(1.5)).flags == ()


def test_order_effect_is_reported(build: type[Build]) -> None:
    """A drift that the alternating order shows is removed from the noise and reported in the verdict."""
    speeds = [math.exp(x) for x in (0.0098, -0.0102, 0.01, -0.0097)]

    verdict = _judged(build, build.threshold(floor=None), speeds, reference=[1.0] * 4)

    assert verdict.order_effect == pytest.approx(0.0099, abs=1e-4)
    assert verdict.noise.endswith("order effect +0.99 % per boot removed")


def test_order_effect_follows_the_order_in_which_boots_came(build: type[Build]) -> None:
    """Where the candidate booted first in odd rounds, the same figures are a drift of the opposite sign."""
    pair = build.pair()
    speeds = [math.exp(x) for x in (0.0098, -0.0102, 0.01, -0.0097)]
    record = build.window(pair, [1.0] * 4, speeds)
    turned = [boot.model_copy(update={"position": 1 - boot.position}) for boot in record.boots]

    gate = build.gate(pair, build.threshold(floor=None))
    [verdict] = judge(gate, record.model_copy(update={"boots": tuple(turned)}))

    assert verdict.order_effect == pytest.approx(-0.0099, abs=1e-4)


def test_rhythms_of_the_two_arms_are_told_apart(build: type[Build]) -> None:
    """Lockstep in one arm and a trickle, but for one pair of sends, in the other: 100 % and 25 % in bunches."""
    pair = build.pair()
    sends = [0.0] * 8 + [1.0, 1.001, *(2.0 + 0.1 * index for index in range(6))]

    def trickle(boot: BootRecord) -> BootRecord:
        one, eight = boot.points
        requests = [one.model_copy(update={"sent_s": at}) for one, at in zip(eight.requests, sends, strict=True)]
        return boot.model_copy(update={"points": (one, eight.model_copy(update={"requests": tuple(requests)}))})

    record = build.window(pair, STEADY[:2], STEADY[:2])
    for number in (1, 2):
        record = build.edited(record, arm="k4", number=number, edit=trickle)
    [verdict] = judge(build.gate(pair, build.threshold("ttft_p50", 8)), record)

    assert "in bunches: reference 100 %, candidate 25 %" in " ".join(verdict.flags)


def test_ttft_is_shown_with_how_bunched_the_sends_were(build: type[Build]) -> None:
    """A verdict on TTFT under load says how bunched the sends of both arms were; others, and c=1, do not."""
    pair = build.pair()
    thresholds = [build.threshold(name, at) for name, at in (("ttft_p50", 8), ("e2e_p50", 8), ("ttft_p50", 1))]

    ttft, e2e, single = judge(build.gate(pair, *thresholds), build.window(pair, STEADY[:2], STEADY[:2]))

    assert "in bunches: reference 100 %, candidate 100 %" in " ".join(ttft.flags)
    assert (e2e.flags, single.flags) == ((), ())
