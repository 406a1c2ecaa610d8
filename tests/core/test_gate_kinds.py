"""Gates of several kinds: what is refused when they are declared, and when they stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import api
from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.judge import judge, needs_more_rounds
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.thresholds import OutputsThreshold, Threshold
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.core.verdict_parts import OPEN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.core.conftest import Build, Speed

FLOOR = api.noise_floor("1%", source="A/A windows of a test")


def _noise(arm: str, *, df: float = 5.0, sd: float = 0.002, at: Level = 1, metric: str = "ttft_p50") -> ArmNoise:
    return ArmNoise(
        arm=arm,
        at=at,
        metric=metric,
        sd=sd,
        df=df,
        boots=6,
        builds=1,
        arm_sha256=arm,
        measured_at="2026-11-02T09:00:00+00:00",
    )


def _refused(build: type[Build], *thresholds: AnyThreshold, **pair: Any) -> str | None:
    """Return why a gate is refused, `None` when it is not."""
    try:
        build.gate(build.pair(**pair), *thresholds).check()
    except UsageError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("threshold", "message"),
    [
        (api.faster_only_up_to(1), None),
        (api.faster_only_up_to(8), "claims something of the levels beyond c=8, and the profile has none"),
        (api.faster_only_up_to(2), "2"),
        (api.faster_only_up_to(1, metric="goodput"), "goodput needs limits"),
        (api.faster_only_up_to(1, metric="ttft_p90"), "ttft_p90 at c=1 needs 50 requests, the profile has 10"),
        (api.faster_only_up_to(1, metric="acceptance_rate"), "compares two speculative arms"),
        (api.faster_only_up_to(1, metric="inter_chunk_p50"), "is a time per chunk"),
        (api.at_most("ttft_p50", at=1, limit="1s"), None),
        (api.at_most("ttft_p90", at=1, limit="1s"), "ttft_p90 at c=1 needs 50 requests, the profile has 10"),
        (api.at_most("ttft_p50", at=2, limit="1s"), "2"),
        (api.at_least("acceptance_rate", at=1, limit="60%"), None),
        (api.at_least("goodput", at=1, limit="1 requests/s"), "goodput needs limits"),
        (api.at_most("inter_chunk_p50", at=1, limit="1s"), None),
        (api.equivalent("output_throughput", at=1, within="99%"), None),
        (api.equivalent("output_throughput", at=1, within="100%"), "allows output_throughput to vanish, or to double"),
        (api.equivalent("ttft_p50", at=1, within="150%"), "equivalent within 150 %"),
        (OutputsThreshold(1, 0.99), None),
    ],
)
def test_kinds_that_the_load_cannot_support(build: type[Build], threshold: AnyThreshold, message: str | None) -> None:
    """Limits and curves are held against points, requests and arms like any claim; a limit looks at one arm only."""
    told = _refused(build, threshold)

    assert (told is None) == (message is None)
    assert message is None or message in (told or "")


def test_a_curve_needs_support_at_every_level(build: type[Build]) -> None:
    """The level that has too few requests is named, also where it is not the claimed one."""
    told = _refused(build, api.faster_only_up_to(1, metric="ttft_p50"), requests={1: 10, 8: 9})

    assert told is not None
    assert "ttft_p50 at c=8 needs 10 requests, the profile has 9" in told


def test_a_limit_on_speculation_looks_at_the_candidate(build: type[Build]) -> None:
    """An acceptance rate of an arm without speculation is refused, in the candidate alone."""
    limit = api.at_least("acceptance_rate", at=1, limit="60%")
    backwards = ArmPair(
        reference=build.arm(4), candidate=build.arm(), varies="args.speculative_config", profile=build.profile()
    )

    assert _refused(build, limit) is None
    with pytest.raises(UsageError, match="acceptance_rate exists in speculative arms only, and off is none"):
        build.gate(backwards, limit).check()


@pytest.mark.parametrize(
    ("gain", "width", "at", "refused"),
    [("10%", "5%", 1, True), ("5%", "5%", 1, False), ("2%", "5%", 1, False), ("10%", "5%", 8, False)],
)
def test_claims_that_exclude_each_other(build: type[Build], gain: str, width: str, *, at: Level, refused: bool) -> None:
    """Better by 10 % and equivalent within 5 % cannot both hold of one metric at one load, in whichever order."""
    better = api.better("output_throughput", at=1, by=gain)
    even = api.equivalent("output_throughput", at=at, within=width)

    for order in ((better, even), (even, better)):
        told = _refused(build, *order)
        assert (told is not None) == refused
        assert not refused or "exclude each other: leave one out" in (told or "")


@pytest.mark.parametrize(
    "twice",
    [
        (api.faster_only_up_to(1), api.faster_only_up_to(1, noise=FLOOR)),
        (api.at_most("ttft_p50", at=1, limit="1s"), api.at_most("ttft_p50", at=1, limit="2s")),
        (api.equivalent("ttft_p50", at=1, within="3%"), api.equivalent("ttft_p50", at=1, within="4%")),
    ],
)
def test_one_claim_of_a_kind(build: type[Build], twice: Sequence[AnyThreshold]) -> None:
    """Two claims of one kind about one metric at one point are one too many."""
    assert "is declared twice" in (_refused(build, *twice) or "")


def test_kinds_stand_beside_each_other(build: type[Build]) -> None:
    """A limit, an equivalence, a loss and a curve of one metric at one point are different claims."""
    told = _refused(
        build,
        api.not_worse("output_throughput", at=1, margin="5%"),
        api.equivalent("output_throughput", at=1, within="5%"),
        api.at_least("output_throughput", at=1, limit="1 tokens/s"),
        api.faster_only_up_to(1),
    )

    assert told is None


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_curve_of_unknown_noise_can_never_be_decided(build: type[Build], rounds: int) -> None:
    """With two rounds and no floor a curve is refused like any interval; a limit needs neither."""
    pair = build.pair(rounds=rounds)

    build.gate(pair, api.at_most("ttft_p50", at=1, limit="1s")).check_decidable()
    build.gate(pair, api.faster_only_up_to(1, noise=FLOOR)).check_decidable()
    with pytest.raises(UsageError, match="c1-output_throughput-faster_only_up_to can never be decided"):
        build.gate(pair, api.faster_only_up_to(1)).check_decidable()


def test_a_calibration_makes_two_rounds_decidable(build: type[Build]) -> None:
    """What this machine knows counts when a gate is checked; too little of it does not."""
    gate = build.gate(build.pair(rounds=2), api.not_worse("ttft_p50", at=1, margin="5%"))

    gate.check_decidable([_noise("off"), _noise("k4")])
    with pytest.raises(UsageError, match="calibrate"):
        gate.check_decidable([_noise("off", df=1.0), _noise("k4", df=1.0)])


def test_a_calibrated_margin_is_checked_before_anything_runs(build: type[Build]) -> None:
    """A margin that is the calibrated floor needs a calibration at collection, and not after the measurement."""
    gate = build.gate(build.pair(), api.not_worse("ttft_p50", at=1, margin=api.noise_floor()))

    gate.check_decidable([_noise("off"), _noise("k4")])
    with pytest.raises(UsageError, match="run pytest --specgate-calibrate"):
        gate.check_decidable()


@pytest.mark.parametrize(
    ("threshold", "fine"),
    [
        (api.not_worse("ttft_p50", at=1, margin="0.1%", noise=FLOOR), True),
        (api.not_worse("ttft_p50", at=1, margin="5%", noise=FLOOR), False),
        (api.equivalent("ttft_p50", at=1, within="0.1%", noise=FLOOR), True),
        (api.equivalent("ttft_p50", at=1, within="5%", noise=FLOOR), False),
        (api.better("ttft_p50", at=1, by="0.1%", noise=FLOOR), False),
        (api.not_worse("ttft_p50", at=1, margin="0.1%"), False),
        (api.not_worse("ttft_p50", at=1, margin="0.1%", noise=FLOOR, allowance="1ms"), False),
        (api.faster_only_up_to(1, noise=FLOOR), False),
    ],
)
def test_margins_that_are_too_fine(build: type[Build], threshold: Threshold, *, fine: bool) -> None:
    """A margin below what rounds and noise can decide is told, with the smallest usable one; gains are no margins."""
    told = list(build.gate(build.pair(), threshold).too_fine())

    assert bool(told) == fine
    assert not fine or "the smallest usable one is 0.73 %" in told[0]


def test_a_finer_margin_is_usable_with_a_quieter_calibration(build: type[Build]) -> None:
    """What was calibrated counts instead of what was declared."""
    gate = build.gate(build.pair(), api.not_worse("ttft_p50", at=1, margin="0.3%", noise=FLOOR))

    assert len(list(gate.too_fine())) == 1
    assert list(gate.too_fine([_noise("off", sd=0.001), _noise("k4", sd=0.001)])) == []


def test_the_family_is_that_of_the_intervals(build: type[Build]) -> None:
    """Losses, gains, equivalences and curves share the error rate; limits and counts of answers do not."""
    gate = build.gate(
        build.pair(),
        api.not_worse("ttft_p50", at=1, margin="5%"),
        api.at_most("ttft_p50", at=1, limit="1s"),
        api.equivalent("tpot_p50", at=1, within="5%"),
        api.faster_only_up_to(1),
        OutputsThreshold(1, 0.99),
    )

    assert gate.family == 3
    assert [threshold.kind for threshold in gate.intervals] == ["not_worse", "equivalent", "faster_only_up_to"]


def test_looks_of_a_threshold_follow_what_is_known(build: type[Build]) -> None:
    """A calibration brings the first look forward to two rounds, for its own metric and load only."""
    gate = build.gate(
        build.pair(), api.not_worse("ttft_p50", at=1, margin="5%"), api.not_worse("ttft_p50", at=8, margin="5%")
    )
    known = [_noise("off"), _noise("k4")]

    first, second = gate.intervals
    assert (gate.plan(first).looks, gate.plan(first, known).looks) == ((4, 6), (2, 4, 6))
    assert gate.plan(second, known).looks == (4, 6)
    assert gate.plan(first, known).family == 2


def test_a_curve_is_planned_by_the_levels_of_its_temperature(build: type[Build]) -> None:
    """A level of another temperature without a calibration makes it wait for nothing."""
    curve = api.faster_only_up_to(1, metric="ttft_p50")
    gate = build.gate(build.pair(requests={1: 10, 8: 16, "8 T=0.8": 16}), curve)
    noises = [_noise(arm, at=at) for at in (1, 8) for arm in ("off", "k4")]

    assert gate.plan(curve, noises).looks == (2, 4, 6)


def test_a_curve_is_planned_by_its_least_known_level(build: type[Build]) -> None:
    """One level without a calibration makes the curve wait for four rounds."""
    curve = api.faster_only_up_to(1, metric="ttft_p50")
    gate = build.gate(build.pair(), curve)
    one = [_noise("off"), _noise("k4")]
    both = [*one, _noise("off", at=8), _noise("k4", at=8)]

    assert (gate.plan(curve, one).looks, gate.plan(curve, both).looks) == ((4, 6), (2, 4, 6))


def _mixed(build: type[Build], rounds: int, *, quiet: float = 1.0, unknown: float = 1.0) -> list[tuple[Outcome, str]]:
    """Return what a running gate says of a calibrated claim, and of one of which nothing is known."""
    pair = build.pair()
    calibrated = api.not_worse("ttft_p50", at=1, margin="5%", noise=FLOOR)
    gate = build.gate(pair, calibrated, api.not_worse("tpot_p50", at=8, margin="5%"))
    speeds: list[Speed] = [{1: quiet, 8: unknown * (1 + 0.001 * (i % 3))} for i in range(rounds)]
    verdicts = judge(gate, build.window(pair, [1.0] * rounds, speeds), final=False)
    return [(verdict.outcome, verdict.reason) for verdict in verdicts]


def test_looks_that_differ_share_one_run(build: type[Build]) -> None:
    """A claim with looks at 2, 4, 6 and one at 4, 6: what passed at two rounds is judged again at four."""
    passed, still_open = (Outcome.PASS, "within-margin"), (Outcome.INCONCLUSIVE, OPEN)

    assert _mixed(build, 2) == [passed, still_open]
    assert _mixed(build, 3) == [still_open, still_open]
    assert _mixed(build, 4) == [passed, passed]


def test_a_fail_at_the_earlier_look_stops_the_other(build: type[Build]) -> None:
    """A loss that shows at two rounds ends the gate, before the other claim had its first look."""
    pair = build.pair()
    gate = build.gate(
        pair,
        api.not_worse("ttft_p50", at=1, margin="5%", noise=FLOOR),
        api.not_worse("tpot_p50", at=8, margin="5%"),
    )
    record = build.window(pair, [1.0] * 2, [0.8] * 2)

    running, final = judge(gate, record, final=False), judge(gate, record)

    assert not needs_more_rounds(running)
    assert [(verdict.outcome, verdict.reason) for verdict in final] == [
        (Outcome.FAIL, "beyond-margin"), (Outcome.INCONCLUSIVE, "stopped"),
    ]  # fmt: skip
    assert "stopped at round 2 of 6" in final[1].summary
    assert final[1].summary.endswith(": c1-ttft_p50-not_worse is FAIL")


def test_a_pass_is_not_sticky(build: type[Build]) -> None:
    """What passed at two rounds and fails at four is a FAIL: the interval printed and the word always agree."""
    pair = build.pair()
    gate = build.gate(
        pair,
        api.not_worse("ttft_p50", at=1, margin="5%", noise=api.noise_floor("3%", source="A/A windows of a test")),
        api.not_worse("tpot_p50", at=8, margin="5%"),
    )
    slow: Speed = {1: 0.7, 8: 1.0}
    record = build.window(pair, [1.0] * 4, [1.0, 1.0, slow, slow])
    early = build.window(pair, [1.0] * 2, [1.0] * 2)

    assert judge(gate, early, final=False)[0].outcome == Outcome.PASS
    assert judge(gate, record)[0].outcome != Outcome.PASS


def test_a_gate_whose_open_claims_are_futile_stops(build: type[Build]) -> None:
    """A pass and a claim that cannot be decided any more ask for no round; a pass and an open one do."""
    pair = build.pair(rounds=6)
    claims = (
        api.not_worse("ttft_p50", at=1, margin="50%", noise=FLOOR),
        api.not_worse("tpot_p50", at=1, margin="3%", noise=FLOOR),
    )
    speed = 1 / 1.03
    record = build.window(pair, [1.0] * 4, [speed, speed * 1.001, speed, speed * 0.999])

    verdicts = judge(build.gate(pair, *claims), record, final=False)

    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASS, Outcome.INCONCLUSIVE]
    assert verdicts[1].reason == "futile"
    assert not needs_more_rounds(verdicts)


def test_a_budget_names_itself_as_what_stopped(build: type[Build]) -> None:
    """An open claim of a window that ran out of time says so, and not that it merely ended."""
    pair = build.pair()
    stopped = "the time budget was used up after 1 of 6 rounds"
    record = build.window(pair, [1.0], [1.0]).model_copy(update={"stopped": stopped})

    verdicts = judge(
        build.gate(pair, api.not_worse("ttft_p50", at=1, margin="5%", noise=FLOOR), api.faster_only_up_to(1)), record
    )

    assert [verdict.reason for verdict in verdicts] == ["stopped", "stopped"]
    assert all("stopped at round 1 of 6" in verdict.summary for verdict in verdicts)
    assert all(verdict.summary.endswith(f": {stopped}") for verdict in verdicts)


def test_what_decided_is_named_before_a_budget(build: type[Build]) -> None:
    """A FAIL stopped the gate, whatever else ended the window."""
    pair = build.pair()
    record = build.window(pair, [1.0] * 2, [0.8] * 2).model_copy(update={"stopped": "the time budget was used up"})
    gate = build.gate(
        pair, api.not_worse("ttft_p50", at=1, margin="5%", noise=FLOOR), api.not_worse("tpot_p50", at=8, margin="5%")
    )

    assert judge(gate, record)[1].summary.endswith("c1-ttft_p50-not_worse is FAIL")


def test_case_101_no_mean_over_loads_decides(build: type[Build]) -> None:
    """Case 101: limits of 1.0 on speed-ups of 2.1 at c=1 and 0.77 at c=8: PASS and FAIL, each of its own load."""
    pair = build.pair()
    claims = [Threshold("output_throughput", at, "not_worse", 0.0, FLOOR) for at in (1, 8)]

    verdicts = judge(build.gate(pair, *claims), build.window(pair, [1.0] * 2, [{1: 2.1, 8: 0.77}] * 2))

    assert [verdict.outcome for verdict in verdicts] == [Outcome.PASS, Outcome.FAIL]
