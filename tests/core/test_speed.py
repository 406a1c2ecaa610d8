"""The factored verdict of a window: which part of a gated speed moved, when speculation is in one of its arms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core import factors
from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.horizon import over_boots
from pytest_specgate.core.horizon_records import window_horizons
from pytest_specgate.core.judge import judge
from pytest_specgate.core.noise import declared_noise
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.stored_gates import declared_floors, stored_gate
from pytest_specgate.core.sweeps import ArmSweep, stored_sweep
from pytest_specgate.core.thresholds import LimitThreshold, NoiseFloor, Threshold
from pytest_specgate.core.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.records import BootRecord, PointRecord, WindowRecord
    from pytest_specgate.core.verdict import FactorVerdict, Verdict
    from tests.core.conftest import Build

FLOOR = NoiseFloor(0.01, "A/A windows of a test")
METRICS = ("tokens_per_step", "step_time", "decode_rate_p50", "output_throughput")
CALIBRATED = tuple(
    ArmNoise(
        arm=arm,
        at=1,
        metric=metric,
        sd=0.005,
        df=5.0,
        boots=6,
        builds=1,
        arm_sha256=arm,
        measured_at="2026-11-02T09:00:00+00:00",
    )
    for arm in ("k4", "k7", "off")
    for metric in METRICS
)


def _speculative(build: type[Build], *, candidate: int = 7) -> ArmPair:
    """Return a pair of two arms that speculate, whose acceptance is the same: 2.5 tokens a step."""
    return build.pair(reference=4, candidate=candidate)


def _verdict(  # noqa: PLR0913  - a window and its gate in one line of a test
    build: type[Build],
    speeds: Sequence[float],
    *,
    pair: ArmPair | None = None,
    metric: str = "decode_rate_p50",
    halved: bool = False,
    calibrated: bool = True,
    threshold: Threshold | None = None,
) -> Verdict:
    """Judge a claim on a candidate of these speeds, with half of the acceptance where that is asked for."""
    own = pair or _speculative(build)
    record = build.window(own, [1.0] * len(speeds), speeds)
    if halved:
        record = _halved(build, record, arm=own.candidate.name)
    record = record.model_copy(update={"noise": CALIBRATED if calibrated else ()})
    claim = threshold or Threshold(metric, 1, "not_worse", 0.03, None if calibrated else FLOOR)
    [verdict] = judge(build.gate(own, claim), record)
    return verdict


def _halved(build: type[Build], record: WindowRecord, *, arm: str) -> WindowRecord:
    """Return the window with 1.25 tokens a step in every boot of an arm: eight steps for ten tokens, two accepted."""

    def slower(point: PointRecord) -> PointRecord:
        count = len(point.requests)
        zeros = (0,) * 6
        drafted = SpeculationDelta(8 * count, 8 * 7 * count, 2 * count, (2 * count, *zeros))
        return build.point(point.requests, at=point.at, speculation=drafted)

    def edit(boot: BootRecord) -> BootRecord:
        return boot.model_copy(update={"points": tuple(map(slower, boot.points))})

    boots = tuple(edit(boot) if boot.arm == arm else boot for boot in record.boots)
    return record.model_copy(update={"boots": boots})


def _named(verdict: Verdict) -> dict[str, FactorVerdict]:
    return {factor.name: factor for factor in verdict.factors}


def test_a_slower_step_alone(build: type[Build]) -> None:
    """Steps 6 % longer with the same acceptance: tokens per step unchanged, steps per second moved by -5.7 %."""
    verdict = _verdict(build, [1 / 1.06] * 2)
    found = _named(verdict)

    assert verdict.outcome == Outcome.FAIL
    assert list(found) == [factors.TOKENS_PER_STEP, factors.STEPS_PER_SECOND]
    tokens, steps = found.values()
    assert (tokens.moved, steps.moved) == (False, True)
    assert (tokens.reference, tokens.candidate) == pytest.approx((2.5, 2.5))
    assert (steps.reference, steps.candidate) == pytest.approx((4.0, 4.0 / 1.06))
    assert steps.change == pytest.approx(1 / 1.06 - 1)
    assert tokens.change == pytest.approx(0.0, abs=1e-12)
    assert verdict.residual == pytest.approx(0.0, abs=1e-9)


def test_half_of_the_acceptance_alone(build: type[Build]) -> None:
    """1.25 instead of 2.5 tokens a step at the same step time: tokens per step moved by -50 %, steps unchanged."""
    verdict = _verdict(build, [0.5] * 2, halved=True)
    tokens, steps = verdict.factors

    assert (tokens.moved, steps.moved) == (True, False)
    assert (tokens.reference, tokens.candidate) == pytest.approx((2.5, 1.25))
    assert (tokens.change, steps.change) == pytest.approx((-0.5, 0.0), abs=1e-9)
    assert verdict.residual == pytest.approx(0.0, abs=1e-9)


def test_two_factors_that_cancel_both_moved(build: type[Build]) -> None:
    """A speed that did not change may hide two changes: half the tokens a step, steps twice as fast."""
    verdict = _verdict(build, [1.0] * 2, halved=True)
    tokens, steps = verdict.factors

    assert verdict.outcome == Outcome.PASS
    assert verdict.change == pytest.approx(0.0, abs=1e-9)
    assert (tokens.moved, steps.moved) == (True, True)
    assert (tokens.change, steps.change) == pytest.approx((-0.5, 1.0))


def test_ends_of_the_interval_enclose_the_change(build: type[Build]) -> None:
    """The interval of a factor is told as raw changes of that factor, whichever way the gated metric points."""
    for metric in ("decode_rate_p50", "tpot_p50"):
        verdict = _verdict(build, [0.9, 0.91], metric=metric)
        steps = _named(verdict)[factors.STEPS_PER_SECOND]

        assert (steps.change_low or 0) < steps.change < (steps.change_high or 0) < 0
        assert steps.change == pytest.approx(math.sqrt(0.9 * 0.91) - 1)


@pytest.mark.parametrize("metric", ["decode_rate_p50", "tpot_p50", "tpot_mean"])
def test_signs_of_factors_are_those_of_a_speed(build: type[Build], metric: str) -> None:
    """A longer TPOT is a slower speed: the factors add up to it in the direction of a speed."""
    verdict = _verdict(build, [0.9] * 2, metric=metric)
    total = math.fsum(math.log1p(factor.change) for factor in verdict.factors)

    assert total == pytest.approx(math.log(0.9))
    assert verdict.residual == pytest.approx(0.0, abs=1e-9)


def test_throughput_has_a_third_factor(build: type[Build]) -> None:
    """Sequences that decode at a time belong to a throughput; nothing is known of their noise beforehand."""
    verdict = _verdict(build, [0.9] * 2, metric="output_throughput")

    assert [factor.name for factor in verdict.factors] == [
        factors.TOKENS_PER_STEP, factors.STEPS_PER_SECOND, factors.DECODING,
    ]  # fmt: skip
    assert verdict.factors[2].change == pytest.approx(0.0, abs=1e-9)
    assert not verdict.factors[2].moved


def test_the_residual_is_what_the_factors_do_not_share(build: type[Build]) -> None:
    """First tokens are no part of decoding: where only they are slower, throughput falls and the residual holds it."""
    pair = _speculative(build)
    record = build.window(pair, [1.0] * 2, [1.0] * 2)

    def late(point: PointRecord) -> PointRecord:
        requests = [
            request.model_copy(
                update={
                    name: (getattr(request, name) or 0) + 1.0
                    for name in ("ttft_s", "first_text_s", "last_token_s", "closed_s")
                }
            )
            for request in point.requests
        ]
        return point.model_copy(update={"requests": tuple(requests)})

    boots = tuple(
        boot.model_copy(update={"points": tuple(map(late, boot.points))}) if boot.arm == "k7" else boot
        for boot in record.boots
    )
    gate = build.gate(pair, Threshold("output_throughput", 1, "not_worse", 0.05, FLOOR))
    [verdict] = judge(gate, record.model_copy(update={"boots": boots}))

    total = math.fsum(math.log1p(factor.change) for factor in verdict.factors)
    assert verdict.outcome == Outcome.FAIL
    assert [factor.change for factor in verdict.factors[:2]] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert total + (verdict.residual or 0) == pytest.approx(math.log1p(verdict.change or 0))


@pytest.mark.parametrize("metric", ["ttft_p50", "e2e_p50", "request_throughput", "tokens_per_step", "step_time"])
def test_what_is_no_decode_speed_has_no_factors(build: type[Build], metric: str) -> None:
    """A verdict on anything else carries none, and no residual."""
    verdict = _verdict(build, [1.0] * 4, threshold=Threshold(metric, 1, "not_worse", 0.05))

    assert (verdict.factors, verdict.residual) == ((), None)


def test_a_share_in_points_has_no_factors(build: type[Build]) -> None:
    """Neither has a share."""
    threshold = Threshold("acceptance_rate", 1, "not_worse", 0.3, points=True)

    assert _verdict(build, [1.0] * 4, threshold=threshold).factors == ()


def test_arms_without_speculation_have_no_factors(build: type[Build]) -> None:
    """Where neither arm speculates there is one token a step, and nothing to split."""
    off = build.arm()
    pair = ArmPair(
        reference=off, candidate=off.vary("long", args={"max_model_len": 128}), varies="args.max_model_len",
        profile=build.profile(), rounds=6,
    )  # fmt: skip

    assert _verdict(build, [1.0] * 2, pair=pair, calibrated=False).factors == ()


def test_one_arm_that_speculates_is_enough(build: type[Build]) -> None:
    """Speculation against none: one token a step against 2.5."""
    tokens, steps = _verdict(build, [1.0] * 2, pair=build.pair()).factors

    assert (tokens.reference, tokens.candidate) == pytest.approx((1.0, 2.5))
    assert (tokens.moved, steps.moved) == (True, True)


def test_factors_are_of_the_rounds_that_were_judged(build: type[Build]) -> None:
    """A round after the last look enters neither the verdict nor its factors."""
    two, three = _verdict(build, [0.9] * 2), _verdict(build, [0.9, 0.9, 0.2])

    assert (two.rounds, three.rounds) == (2, 2)
    assert two.factors == three.factors


def _longer_steps(
    build: type[Build], metric: str = "output_throughput", *, noise: Sequence[ArmNoise] = (), **fields: Any
) -> FactorVerdict:
    """Return what two rounds of steps about 6 % longer say of the step, in a claim that declares no floor."""
    pair = _speculative(build)
    record = build.window(pair, [1.0] * 2, [1 / 1.055, 1 / 1.065]).model_copy(update={"noise": tuple(noise), **fields})
    [verdict] = judge(build.gate(pair, Threshold(metric, 1, "not_worse", 0.03)), record)
    return _named(verdict)[factors.STEPS_PER_SECOND]


@pytest.mark.parametrize(
    ("metric", "moved"),
    [("step_time", True), ("decode_rate_p50", True), ("tokens_per_step", False), ("output_throughput", False)],
)
def test_a_factor_is_judged_by_its_own_calibration(build: type[Build], metric: str, *, moved: bool) -> None:
    """Two rounds show a step 6 % longer by a calibration of the step time or of the decode rate, and by no other."""
    noise = [one for one in CALIBRATED if one.metric == metric]

    assert _longer_steps(build, noise=noise).moved == moved


@pytest.mark.parametrize(
    ("metric", "moved"), [("decode_rate_p50", True), ("step_time", True), ("output_throughput", False)]
)
def test_a_floor_of_another_gate_of_the_window_tells_the_noise_of_steps(
    build: type[Build], metric: str, *, moved: bool
) -> None:
    """As for draft horizons: what any gate declares of decode rates or step times, and of nothing else."""
    other = stored_gate(build.gate(_speculative(build), Threshold(metric, 8, "not_worse", 0.03, FLOOR)))

    assert _longer_steps(build, gates=(other,)).moved == moved
    assert not _longer_steps(build).moved


@pytest.mark.parametrize(("metric", "moved"), [("decode_rate_p50", True), ("ttft_p50", False)])
def test_a_floor_of_a_sweep_tells_the_noise_of_steps(build: type[Build], metric: str, *, moved: bool) -> None:
    """A sweep declares floors for what horizons are compared by, and that of decode rates is one of steps."""
    pair = _speculative(build)
    sweep = ArmSweep(off=build.arm(), arms=(build.arm(4),), profile=pair.profile, rounds=2, noise={metric: FLOOR})

    found = _longer_steps(build, sweeps=(stored_sweep(sweep),), arms=(build.arm(), *pair.arms))

    assert found.moved == moved


def test_factors_and_draft_horizons_take_the_noise_of_steps_for_the_same(build: type[Build]) -> None:
    """Where horizons tell two step times apart by a declared floor, the factors of a throughput do."""
    pair = _speculative(build)
    own = Threshold("output_throughput", 1, "not_worse", 0.05, NoiseFloor(0.1, "a test"))
    gates = [build.gate(pair, own), build.gate(pair, Threshold("decode_rate_p50", 1, "better", 0.05, own.floor))]
    record = build.window(pair, [1.0] * 2, [1 / 2.28, 1 / 2.16])
    record = record.model_copy(update={"gates": tuple(map(stored_gate, gates))})
    [verdict] = judge(gates[0], record)
    (told,) = window_horizons(record, "record.json").drafters
    shorter, longer = (over_boots(one.step_times_s, noise=one.noise) for one in told.measured[1])

    assert (shorter.high or 0) < (longer.low or 0)
    assert _named(verdict)[factors.STEPS_PER_SECOND].moved
    assert {one.noise for one in told.measured[1]} == {declared_noise(0.1)}


def test_the_largest_declared_floor_counts_unless_a_good_calibration_replaces_it(build: type[Build]) -> None:
    """A floor of 20 % hides 6 %, beside whatever smaller one; A/A windows of both arms show it, of one arm not."""
    pair = _speculative(build)
    wide = NoiseFloor(0.2, "a test")
    claims = [Threshold("decode_rate_p50", at, "not_worse", 0.3, floor) for at, floor in ((1, FLOOR), (8, wide))]
    gates = (stored_gate(build.gate(pair, *claims, LimitThreshold("tokens_per_step", 1, "at_least", 1.0))),)
    known = [one for one in CALIBRATED if one.metric == "decode_rate_p50"]

    assert not _longer_steps(build, gates=gates).moved
    assert _longer_steps(build, gates=gates, noise=known).moved
    assert not _longer_steps(build, gates=gates, noise=[one for one in known if one.arm == "k4"]).moved


def test_gates_that_cannot_be_read_tell_nothing_of_noise(build: type[Build]) -> None:
    """A record is judged by one gate though another of its gates is broken."""
    broken: Any = ({"thresholds": [{"type": "none"}, {"type": "interval", "fields": {}}]}, {"thresholds": "none"}, {})

    assert not _longer_steps(build, gates=broken).moved


def test_one_round_of_unknown_noise_shows_levels_only(build: type[Build]) -> None:
    """Changes without an interval are shown as that, and have not moved."""
    pair = build.pair(reference=4, candidate=7, rounds=1)
    unknown = Threshold("decode_rate_p50", 1, "not_worse", 0.03)

    tokens, steps = _verdict(build, [0.5], pair=pair, calibrated=False, threshold=unknown).factors

    assert (tokens.change_low, tokens.change_high, steps.change_low) == (None, None, None)
    assert steps.change == pytest.approx(-0.5)
    assert (tokens.moved, steps.moved) == (False, False)


def test_one_round_of_a_declared_floor_shows_a_longer_step(build: type[Build]) -> None:
    """The floor of the decode rate tells how step times scatter, and nothing of tokens per step."""
    pair = build.pair(reference=4, candidate=7, rounds=1)

    tokens, steps = _verdict(build, [0.5], pair=pair, calibrated=False).factors

    assert (tokens.change_low, tokens.moved, steps.moved) == (None, False, True)


def test_a_sweep_that_cannot_be_read_keeps_no_gate_from_its_verdict(build: type[Build]) -> None:
    """Factors ask a window for noise floors, and do without those of a sweep that names a stranger."""
    pair = build.pair(candidate=4, rounds=2, requests={1: 10})
    gate = build.gate(pair, build.threshold("output_throughput", at=1))
    record = build.day(pair, 1, [1.0] * 2, [1.0] * 2).model_copy(update={"gates": (stored_gate(gate),)})
    broken = record.model_copy(update={"sweeps": ({"off": "off", "arms": ["gone"]},)})

    assert judge(gate, broken) == judge(gate, record)
    with pytest.raises(RecordError, match="a sweep of the record cannot be read"):
        list(declared_floors(broken))


def test_the_order_of_boots_is_known_to_factors(build: type[Build]) -> None:
    """A drift that the alternating order cancels does not hide a step that is longer."""
    drifts = (0.0098, -0.0102, 0.01, -0.0097)
    speeds = [math.exp(drift) / 1.01 for drift in drifts]
    pair = build.pair(reference=4, candidate=7, rounds=4)

    verdict = _verdict(build, speeds, pair=pair, threshold=Threshold("decode_rate_p50", 1, "not_worse", 0.05, FLOOR))

    assert _named(verdict)[factors.STEPS_PER_SECOND].moved


def test_factors_are_outside_the_family(build: type[Build]) -> None:
    """They are descriptive: no error rate of the gate is shared with them."""
    assert _verdict(build, [1.0] * 2, metric="output_throughput").family == 1


def test_invalid_verdicts_have_no_factors(build: type[Build]) -> None:
    """Where nothing may be judged no figure is shown, not even a descriptive one."""
    pair = _speculative(build)
    record = build.edited_point(
        build.window(pair, [1.0], [1.0]),
        arm="k7",
        edit=lambda point: point.model_copy(update={"requests": (build.failed(0), *point.requests[1:])}),
    )

    [verdict] = judge(build.gate(pair, Threshold("decode_rate_p50", 1, "not_worse", 0.05, FLOOR)), record)

    assert (verdict.outcome, verdict.factors, verdict.residual) == (Outcome.INVALID, (), None)
