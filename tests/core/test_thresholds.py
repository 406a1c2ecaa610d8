"""Thresholds by themselves: what they claim, in words and in the units of differences, and what cannot be one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.noise import LOG, UNKNOWN_NOISE, Noise, declared_noise, linear_scale
from pytest_specgate.core.plan import Claim
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.core.thresholds import (
    CALIBRATED,
    CURVE_METRIC,
    FASTER_ONLY_UP_TO,
    OUTPUTS_AGREE,
    CurveThreshold,
    LimitThreshold,
    NoiseFloor,
    OutputsThreshold,
    Threshold,
)

if TYPE_CHECKING:
    from typing import Literal

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.thresholds import AnyThreshold

    Kind = Literal["not_worse", "better", "equivalent"]
    Bound = Literal["at_least", "at_most"]

CALIBRATION = Noise(0.02, 7.0)
POINTS = NoiseFloor(0.01, "A/A of a test", points=True)


def _threshold(metric: str = "output_throughput", kind: Kind = "not_worse", **changes: Any) -> Threshold:
    return Threshold(**{"metric": metric, "at": 8, "kind": kind, "fraction": 0.05, **changes})


def _share(kind: Kind = "not_worse", **changes: Any) -> Threshold:
    return _threshold("acceptance_rate", kind, **{"fraction": 0.02, "points": True, **changes})


@pytest.mark.parametrize(
    ("metric", "kind", "claim", "limit"),
    [
        ("output_throughput", "not_worse", Claim(-math.log(0.95)), -0.05),
        ("output_throughput", "better", Claim(-math.log(1.05)), 0.05),
        ("output_throughput", "equivalent", Claim(-math.log(0.95), math.log(1.05)), -0.05),
        ("ttft_p50", "not_worse", Claim(math.log(1.05)), 0.05),
        ("ttft_p50", "better", Claim(math.log(0.95)), -0.05),
        ("ttft_p50", "equivalent", Claim(math.log(1.05), -math.log(0.95)), 0.05),
    ],
)
def test_margins_in_both_directions(metric: str, kind: Kind, *, claim: Claim, limit: float) -> None:
    """A margin is a raw change of the metric: a loss, a gain, or both, whichever direction is better."""
    threshold = _threshold(metric, kind)

    found = threshold.claim_on(UNKNOWN_NOISE)

    assert found.delta == pytest.approx(claim.delta)
    assert found.gain == (None if claim.gain is None else pytest.approx(claim.gain))
    assert threshold.limit_on(UNKNOWN_NOISE) == limit


@given(st.sampled_from(["output_throughput", "ttft_p50"]), st.floats(0.0, 0.9))
def test_equivalence_allows_one_raw_change_to_both_sides(metric: str, fraction: float) -> None:
    """Seen from the candidate, both ends of an equivalence are the same percentage of the reference."""
    threshold = _threshold(metric, "equivalent", fraction=fraction)

    claim = threshold.claim_on(UNKNOWN_NOISE)

    assert claim.gain is not None
    higher = threshold.row.higher_is_better
    ends = sorted(raw_change(end, higher_is_better=higher) for end in (-claim.delta, claim.gain))
    assert ends == pytest.approx([-fraction, fraction], abs=1e-12)


@pytest.mark.parametrize("metric", ["output_throughput", "ttft_p50"])
@pytest.mark.parametrize("fraction", [0.0, 0.004, 0.05, 0.5])
def test_a_margin_as_a_fraction_again(metric: str, fraction: float) -> None:
    """A margin in the units of differences is shown as the loss of the metric, or as the points, that it stands for."""
    relative, points = _threshold(metric, fraction=fraction), _share(fraction=fraction + 0.01)

    shown = [one.raw_of(one.claim_on(UNKNOWN_NOISE).delta) for one in (relative, points)]

    assert shown == pytest.approx([fraction, fraction + 0.01])


@pytest.mark.parametrize(
    ("kind", "claim"),
    [("not_worse", Claim(0.02)), ("better", Claim(-0.02)), ("equivalent", Claim(0.02, 0.02))],
)
def test_margins_in_points(kind: Kind, claim: Claim) -> None:
    """A margin in points of a share is a plain difference, no logarithm."""
    assert _share(kind).claim_on(UNKNOWN_NOISE) == claim


def test_scales() -> None:
    """Relative claims are judged on the log scale, points on a linear one that is as fine as its samples."""
    assert _threshold().scale(samples=50) == LOG
    assert _share().scale(samples=50) == linear_scale(0.02)
    assert _share().scale() == _share().scale(samples=0) == linear_scale(1.0)


@pytest.mark.parametrize(
    ("metric", "allowance", "reference", "delta"),
    [
        ("ttft_p50", 0.010, 0.100, math.log(1.10)),
        ("ttft_p50", 0.001, 0.100, math.log(1.05)),
        ("ttft_p50", 0.005, 0.100, math.log(1.05)),
        ("ttft_p50", 0.010, None, math.log(1.05)),
        ("output_throughput", 20.0, 100.0, -math.log(0.80)),
        ("output_throughput", 2.0, 100.0, -math.log(0.95)),
        ("output_throughput", 20.0, None, -math.log(0.95)),
        ("output_throughput", 0.0, 100.0, -math.log(0.95)),
    ],
)
def test_an_absolute_allowance(metric: str, allowance: float, *, reference: float | None, delta: float) -> None:
    """A loss in the metric's unit is tolerated too: the larger of it and the relative margin counts."""
    threshold = _threshold(metric, allowance=allowance)

    claim = threshold.claim_on(UNKNOWN_NOISE, reference=reference)

    assert claim.delta == pytest.approx(delta)
    assert claim.gain is None


def test_an_allowance_is_for_losses() -> None:
    """The gain that is asked for, and the gain that an equivalence tolerates, are not changed by an allowance."""
    better = _threshold("ttft_p50", "better", allowance=0.05).claim_on(UNKNOWN_NOISE, reference=0.1)
    equal = _threshold("ttft_p50", "equivalent", allowance=0.05).claim_on(UNKNOWN_NOISE, reference=0.1)

    assert better.delta == pytest.approx(math.log(0.95))
    assert (equal.delta, equal.gain) == pytest.approx((math.log(1.5), -math.log(0.95)))


@pytest.mark.parametrize(
    ("points", "margin"), [(False, math.exp(1.959964 * 0.02) - 1), (True, 1.959964 * 0.02)], ids=["percent", "points"]
)
def test_a_margin_that_is_the_calibrated_floor(points: bool, margin: float) -> None:
    """A calibrated floor as margin is the raw change, or the points, at 1.96 standard deviations."""
    metric = "acceptance_rate" if points else "ttft_p50"
    threshold = _threshold(metric, fraction=None, floor=CALIBRATED, points=points)

    assert threshold.margin_on(CALIBRATION) == pytest.approx(margin)
    assert threshold.claim_on(CALIBRATION).delta == pytest.approx(margin if points else 1.959964 * 0.02)
    assert threshold.limit_on(CALIBRATION) == pytest.approx(-margin if points else margin)


@pytest.mark.parametrize(
    ("noise", "there"),
    [(UNKNOWN_NOISE, "there is no calibration"), (Noise(0.02, 3.571), "the calibration has 3.57")],
)
def test_a_calibrated_margin_needs_a_good_calibration(noise: Noise, there: str) -> None:
    """A calibration of fewer than five degrees of freedom is no margin: the message says what to run."""
    threshold = _threshold(fraction=None, floor=CALIBRATED)

    with pytest.raises(UsageError) as caught:
        threshold.claim_on(noise)

    assert str(caught.value) == (
        "the margin of c8-output_throughput-not_worse is the calibrated floor, which needs 5 degrees of freedom, "
        f"and {there}: run pytest --specgate-calibrate (again: boots add up)"
    )


def test_five_degrees_of_freedom_are_enough_for_a_margin() -> None:
    """A calibration of five degrees of freedom is good enough, and a written margin needs none at all."""
    calibrated = _threshold(fraction=None, floor=CALIBRATED)

    assert calibrated.margin_on(Noise(0.0, 5.0)) == 0.0
    assert _threshold().margin_on(UNKNOWN_NOISE) == 0.05


@pytest.mark.parametrize(
    ("floor", "noise", "words"),
    [
        (NoiseFloor(0.004, "six A/A windows"), declared_noise(0.004), "0.4 % (six A/A windows)"),
        (POINTS, declared_noise(0.01, linear=True), "1 points (A/A of a test)"),
        (CALIBRATED, UNKNOWN_NOISE, "the calibrated floor"),
    ],
)
def test_noise_floors(floor: NoiseFloor, *, noise: Noise, words: str) -> None:
    """A declared floor is a noise with its source in words; the calibrated one is known to a calibration alone."""
    assert (floor.noise, floor.words) == (noise, words)


@pytest.mark.parametrize(
    ("fraction", "source", "field"),
    [(0.0, "A/A", "fraction"), (-0.1, "A/A", "fraction"), (1.0, "A/A", "fraction"), (0.01, "me", "source")],
)
def test_impossible_noise_floors(fraction: float, source: str, *, field: str) -> None:
    """A floor lies between nothing and everything, and has an origin."""
    with pytest.raises(UsageError, match=rf"^NoiseFloor\.{field}: "):
        NoiseFloor(fraction, source)


@pytest.mark.parametrize(
    ("threshold", "claim", "margin"),
    [
        (_threshold(), "output throughput at c=8 not worse by more than 5 %", "5 %"),
        (_threshold("ttft_p50", "better"), "TTFT p50 at c=8 better by at least 5 %", "5 %"),
        (_threshold("ttft_p50", "equivalent", at="4/s"), "TTFT p50 at 4/s within 5 %", "5 %"),
        (_threshold("ttft_p50", allowance=0.001), "TTFT p50 at c=8 not worse by more than 5 % or 1 ms", "5 % or 1 ms"),
        (_share(), "acceptance rate at c=8 not worse by more than 2 points", "2 points"),
        (
            _threshold(fraction=None, floor=CALIBRATED),
            "output throughput at c=8 not worse by more than its calibrated floor",
            "its calibrated floor",
        ),
        (
            _threshold(fraction=None, floor=CALIBRATED, allowance=3.0),
            "output throughput at c=8 not worse by more than its calibrated floor or 3 tokens/s",
            "its calibrated floor or 3 tokens/s",
        ),
    ],
)
def test_claims_in_words(threshold: Threshold, claim: str, *, margin: str) -> None:
    """A claim names metric, load level, kind, and margin with its unit."""
    assert (threshold.claim, threshold.margin_words) == (claim, margin)


@pytest.mark.parametrize(
    ("threshold", "name"),
    [
        (_threshold(), "c8-output_throughput-not_worse"),
        (_threshold("ttft_p50", "equivalent", at="2.5/s"), "r2.5-ttft_p50-equivalent"),
        (LimitThreshold("ttft_p50", 8, "at_most", 0.2), "c8-ttft_p50-at_most"),
        (CurveThreshold(8), "c8-output_throughput-faster_only_up_to"),
        (OutputsThreshold(at=8, share=1.0), "c8-outputs_agree"),
    ],
)
def test_ids(threshold: AnyThreshold, name: str) -> None:
    """An id names load level, metric and kind, and holds nothing that a file name could not."""
    assert threshold.id == name


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"metric": "achieved_concurrency"}, "achieved_concurrency has no better direction: it is shown, and cannot"),
        ({"metric": "preemptions"}, "preemptions is a count, which has no ratio: use at_most('preemptions', limit="),
        ({"metric": "tfft_p50"}, "there is no metric 'tfft_p50'; did you mean 'ttft_p50'?"),
        ({"points": True}, "points belong to shares, and output_throughput is none: write its margin in percent"),
        ({"floor": POINTS}, "the margin and the noise floor of output_throughput have two units: write both in one"),
        (
            {"metric": "acceptance_rate", "points": True, "floor": NoiseFloor(0.01, "A/A")},
            "the margin and the noise floor of acceptance_rate have two units: write both in one",
        ),
        ({"fraction": None}, "a margin that is a calibrated floor needs that floor as noise"),
        ({"fraction": -0.1}, "Threshold.fraction: "),
        ({"allowance": -1.0}, "Threshold.allowance: "),
    ],
)
def test_impossible_thresholds(fields: dict[str, Any], message: str) -> None:
    """What cannot be judged is refused where it is written, with a sentence that says why."""
    with pytest.raises(UsageError) as caught:
        _threshold(**fields)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    "threshold",
    [
        _share(floor=POINTS),
        _share(fraction=None, floor=CALIBRATED),
        _threshold("acceptance_rate", floor=NoiseFloor(0.01, "A/A")),
        _threshold(fraction=None, floor=NoiseFloor(0.01, "A/A")),
    ],
)
def test_units_that_go_together(threshold: Threshold) -> None:
    """A margin goes with a floor of its own unit and with the calibrated one, a share may also be judged in percent."""
    assert threshold.row.name == threshold.metric


@pytest.mark.parametrize(
    ("kind", "value", "keeps"),
    [
        ("at_most", 0.2, True),
        ("at_most", 0.2 * (1 + 0.9e-9), True),
        ("at_most", 0.2 * (1 + 1e-7), False),
        ("at_most", 0.1, True),
        ("at_least", 0.2, True),
        ("at_least", 0.2 * (1 - 0.9e-9), True),
        ("at_least", 0.2 * (1 - 1e-7), False),
        ("at_least", 0.3, True),
    ],
)
def test_a_limit_is_inclusive(kind: Bound, value: float, *, keeps: bool) -> None:
    """A value equal to its limit keeps it, within a billionth of the two."""
    metric = "ttft_p50" if kind == "at_most" else "acceptance_rate"

    assert LimitThreshold(metric, 8, kind, 0.2).keeps(value) == keeps


@pytest.mark.parametrize(("value", "keeps"), [(0.0, True), (1.0, False)])
def test_case_93_a_limit_of_nothing(value: float, *, keeps: bool) -> None:
    """Case 93: no preemption keeps a limit of none, one does not, and nothing is divided by zero."""
    assert LimitThreshold("preemptions", 8, "at_most", 0.0).keeps(value) == keeps
    assert LimitThreshold("goodput", 8, "at_least", 0.0).keeps(value)


@pytest.mark.parametrize(
    ("metric", "kind", "value", "claim"),
    [
        ("ttft_p50", "at_most", 0.2, "TTFT p50 at c=8 at most 200 ms in every boot of the candidate"),
        ("acceptance_rate", "at_least", 0.6, "acceptance rate at c=8 at least 60 % in every boot of the candidate"),
        ("preemptions", "at_most", 0.0, "preemptions at c=8 at most 0 in every boot of the candidate"),
        (
            "tokens_per_chunk",
            "at_least",
            1.0,
            "tokens per chunk at c=8 at least 1 tokens in every boot of the candidate",
        ),
    ],
)
def test_claims_of_limits(metric: str, kind: Bound, *, value: float, claim: str) -> None:
    """A limit bounds a metric on its bad side, and one without a better direction on either."""
    assert LimitThreshold(metric, 8, kind, value).claim == claim


@pytest.mark.parametrize(
    ("metric", "kind", "value", "message"),
    [
        ("ttft_p50", "at_least", 1.0, "at_least bounds ttft_p50 on its good side, since lower is better: use at_most"),
        ("goodput", "at_most", 1.0, "at_most bounds goodput on its good side, since higher is better: use at_least"),
        ("tfft_p50", "at_most", 1.0, "there is no metric 'tfft_p50'; did you mean 'ttft_p50'?"),
        ("ttft_p50", "at_most", -0.1, "LimitThreshold.value: "),
    ],
)
def test_impossible_limits(metric: str, kind: Bound, *, value: float, message: str) -> None:
    """Case 92: a bound on the good side of a metric is refused, so is one of an unknown metric, or below zero."""
    with pytest.raises(UsageError) as caught:
        LimitThreshold(metric, 8, kind, value)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("threshold", "limit"),
    [
        (_threshold(), -0.05),
        (_threshold(fraction=None, floor=CALIBRATED), None),
        (LimitThreshold("ttft_p50", 8, "at_most", 0.2), 0.2),
        (CurveThreshold(8), None),
        (OutputsThreshold(at=8, share=0.99), 0.99),
    ],
)
def test_limits_that_are_declared(threshold: AnyThreshold, limit: float | None) -> None:
    """A claim tells its limit before any run, unless it has none or a calibration is needed for it."""
    assert threshold.declared_limit == limit


@pytest.mark.parametrize(
    ("threshold", "metric", "claim"),
    [
        (CurveThreshold(8), CURVE_METRIC, "output throughput better up to c=8, and worse at every level beyond"),
        (CurveThreshold("4/s", "ttft_p50"), "ttft_p50", "TTFT p50 better up to 4/s, and worse at every level beyond"),
    ],
)
def test_claims_of_curves(threshold: CurveThreshold, metric: str, *, claim: str) -> None:
    """A curve claims output throughput where no metric is named, and says both halves of its claim."""
    assert (threshold.claim, threshold.kind) == (claim, FASTER_ONLY_UP_TO)
    assert (threshold.metric, threshold.row.name, threshold.floor) == (metric, metric, None)


@pytest.mark.parametrize("metric", ["achieved_concurrency", "preemptions"])
def test_impossible_curves(metric: str) -> None:
    """A curve needs a direction and a ratio."""
    with pytest.raises(UsageError, match=f"{metric} has no better direction, or no ratio: a curve cannot be drawn"):
        CurveThreshold(8, metric)


@pytest.mark.parametrize(("at", "label"), [(8, "c=8"), ("4/s", "4/s")])
def test_claims_of_answers(at: Level, label: str) -> None:
    """Equal answers are claimed at one level, of every round."""
    threshold = OutputsThreshold(at=at, share=0.99)

    assert threshold.claim == f"answers at {label} equal in at least 99 % of each round"
    assert threshold.metric == threshold.kind == OUTPUTS_AGREE


@pytest.mark.parametrize(("share", "text"), [(0.0, "0"), (-0.1, "-10"), (1.01, "101")])
def test_impossible_shares_of_answers(share: float, text: str) -> None:
    """A share of equal answers lies above nothing and up to all of them."""
    with pytest.raises(UsageError, match=f"at_least='{text}%': a share of equal answers lies above 0 % and up to 100"):
        OutputsThreshold(at=8, share=share)
