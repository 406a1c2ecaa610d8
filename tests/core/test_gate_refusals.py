"""What gates refuse, word by word, and what they let stand beside each other."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from pytest_specgate import api
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.thresholds import CALIBRATED, Threshold

if TYPE_CHECKING:
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.thresholds import BaselineThreshold
    from tests.core.conftest import Build

FLOOR = api.noise_floor("1%", source="A/A windows of a test")
DAY = "2026-11-02T09:00:00+00:00"


def _noise(arm: str) -> ArmNoise:
    return ArmNoise(
        arm=arm, at=1, metric="ttft_p50", sd=0.02, df=10.0, boots=6, builds=1, arm_sha256=arm, measured_at=DAY
    )


def _message(gate: Gate) -> str:
    with pytest.raises(UsageError) as refused:
        gate.check()
    return str(refused.value)


@pytest.mark.parametrize(("last", "refused"), [("4/s", False), ("10/s", True)])
def test_levels_of_a_curve_rise_by_their_rate(build: type[Build], last: str, *, refused: bool) -> None:
    """Ten requests a second lie beyond four, in whichever order the profile lists them and whatever their texts say."""
    pair = build.pair(requests={"10/s": 10, "4/s": 10, "2/s": 10})
    gate = build.gate(pair, api.faster_only_up_to(last))

    if refused:
        assert "claims something of the levels beyond 10/s" in _message(gate)
    else:
        gate.check()


def test_a_curve_is_held_to_the_levels_of_its_temperature(build: type[Build]) -> None:
    """A level beyond it at another temperature is none, and its few requests are no matter."""
    requests = {1: 10, "1 T=0.8": 10, "8 T=0.8": 16, "32 T=1": 32}
    alone = build.gate(build.pair(requests=requests), api.faster_only_up_to(1))

    assert _message(alone) == (
        "threshold c1-output_throughput-faster_only_up_to claims something of the levels beyond c=1, and the profile "
        "has none at this temperature: add one to requests"
    )
    build.gate(build.pair(requests=requests), api.faster_only_up_to("1 T=0.8", metric="tpot_p50")).check()


def test_a_curve_may_end_before_the_last_of_three_levels(build: type[Build]) -> None:
    """A curve needs one level beyond the one that it names, which need not be the second."""
    gate = build.gate(build.pair(requests={1: 10, 8: 16, 32: 32}), api.faster_only_up_to(8))

    gate.check()

    assert gate.family == 1


def test_goodput_says_how_its_limits_are_written(build: type[Build]) -> None:
    """The refusal of goodput without limits shows an example of them."""
    gate = build.gate(build.pair(), api.not_worse("goodput", at=1, margin="5%", noise=FLOOR))

    assert _message(gate) == ("goodput needs limits: give the profile goodput_limits={'ttft': '500ms', 'tpot': '50ms'}")


def test_a_loss_may_be_tolerated_beside_an_equivalence(build: type[Build]) -> None:
    """Only a gain contradicts an equivalence: a margin wider than the width of the equivalence is no contradiction."""
    gate = build.gate(
        build.pair(),
        api.not_worse("ttft_p50", at=1, margin="10%", noise=FLOOR),
        api.equivalent("ttft_p50", at=1, within="5%", noise=FLOOR),
    )

    gate.check()

    assert gate.family == 2


def test_a_gain_of_the_calibrated_floor_excludes_nothing_yet(build: type[Build]) -> None:
    """A gain of which no size is known beforehand is not held against the width of an equivalence."""
    gate = build.gate(
        build.pair(),
        Threshold("ttft_p50", 1, "better", None, CALIBRATED),
        api.equivalent("ttft_p50", at=1, within="5%", noise=FLOOR),
    )

    gate.check()

    assert gate.family == 2


@pytest.mark.parametrize(("attached", "who"), [(("k4",), "k4"), (("off", "k4"), "off and k4")])
def test_attached_arms_that_cannot_be_decided_are_named(
    build: type[Build], attached: tuple[str, ...], who: str
) -> None:
    """An attached server gives one round, so a declared floor is the only remedy that is offered."""
    gate = build.gate(build.pair(rounds=1), api.not_worse("ttft_p50", at=1, margin="5%"))

    with pytest.raises(UsageError) as refused:
        gate.check_decidable(attached=attached)

    assert str(refused.value) == (
        f"threshold c1-ttft_p50-not_worse can never be decided with rounds=1: {who} is attached and not booted anew, "
        f"which is one round: declare a floor (noise=noise_floor('2%', source='...'))"
    )


def test_a_time_cannot_fall_by_more_than_all_of_it(build: type[Build]) -> None:
    """The gain that a time cannot have is told in percent."""
    gate = build.gate(build.pair(), api.better("ttft_p50", at=1, by="150%", noise=FLOOR))

    assert _message(gate) == "ttft_p50 cannot fall by 150 %"


def test_a_gain_before_a_fine_margin_hides_nothing(build: type[Build]) -> None:
    """Every margin of a gate is looked at, also after a claim that has none."""
    gate = build.gate(
        build.pair(),
        api.better("ttft_p50", at=1, by="5%", noise=FLOOR),
        api.not_worse("ttft_p50", at=1, margin="0.1%", noise=FLOOR),
    )

    assert [told.split(",")[0] for told in gate.too_fine()] == ["the margin of c1-ttft_p50-not_worse"]


def test_a_margin_that_is_not_calibrated_yet_is_not_too_fine(build: type[Build]) -> None:
    """A margin that is the calibrated floor has no size before a calibration, and is usable after it."""
    gate = build.gate(build.pair(), api.not_worse("ttft_p50", at=1, margin=api.noise_floor()))

    assert list(gate.too_fine()) == []
    assert list(gate.too_fine([_noise("off"), _noise("k4")])) == []


def test_the_smallest_usable_margin_grows_with_the_family(build: type[Build]) -> None:
    """Of two thresholds each has to be decided more often for both to be, so each needs a wider margin."""
    fine = api.not_worse("ttft_p50", at=1, margin="0.1%", noise=FLOOR)
    alone, paired = (
        build.gate(build.pair(), fine, *others)
        for others in ((), (api.not_worse("tpot_p50", at=1, margin="5%", noise=FLOOR),))
    )

    usable = [float(re.findall(r"is ([0-9.]+) %$", told)[0]) for gate in (alone, paired) for told in gate.too_fine()]
    assert len(usable) == 2
    assert usable[0] < usable[1]


def test_a_margin_in_points_is_too_fine_in_points(build: type[Build]) -> None:
    """The smallest usable margin of a share is told in the unit of the margin."""
    floor = api.noise_floor("1pp", source="A/A windows of a test")
    pair = build.pair(reference=4, candidate=7)
    gate = build.gate(pair, api.not_worse("acceptance_rate", at=1, margin="0.1pp", noise=floor))

    [told] = gate.too_fine()
    assert re.search(r"the smallest usable one is [0-9.]+ points$", told)


@pytest.mark.parametrize(
    ("name", "limit", "why"),
    [
        ("acceptance_length", "1", "every boot keeps: acceptance length of k4 lies between 1 and 5 tokens (k=4): "),
        ("acceptance_length", "5.01", "no boot can reach: acceptance length of k4 lies between 1 and 5 tokens (k=4): "),
        ("tokens_per_step", "0.5", "every boot keeps: tokens per step of k4 lies between 1 and 5 tokens (k=4): "),
        ("tokens_per_step", "8", "no boot can reach: tokens per step of k4 lies between 1 and 5 tokens (k=4): "),
        ("acceptance_rate", "0%", "every boot keeps: acceptance rate of k4 lies between 0 and 100 %: "),
        ("acceptance_rate_position_4", "101%", "no boot can reach: acceptance at position 4 of k4 lies between 0 and"),
    ],
)
def test_a_limit_that_decides_nothing_is_refused(build: type[Build], name: str, limit: str, why: str) -> None:
    """Its range is that of the arm's draft horizon, and stands in the sentence with what to write instead."""
    message = _message(build.gate(build.pair(), api.at_least(name, limit, at=1)))

    assert message.startswith(f"threshold c1-{name}-at_least asks for at least ")
    assert why in message
    assert " at most" in message


@pytest.mark.parametrize(("name", "limit"), [("acceptance_length", "5"), ("acceptance_rate", "100%")])
def test_a_limit_at_the_far_end_is_possible(build: type[Build], name: str, limit: str) -> None:
    """All that can be accepted is as much as a limit may ask for."""
    build.gate(build.pair(), api.at_least(name, limit, at=1)).check()


def test_tokens_per_step_without_speculation_are_no_claim(build: type[Build]) -> None:
    """An arm that drafts nothing gives one token a step whatever happens."""
    gate = build.gate(build.pair(reference=4, candidate=None), api.at_least("tokens_per_step", "1", at=1))

    assert _message(gate).endswith("tokens per step of off lies at 1 tokens (k=0): leave it out")


TOKENS, RATE = "tokens_per_step", "acceptance_rate"


@pytest.mark.parametrize(
    ("metric", "margin", "mode", "told"),
    [
        (
            "tokens_per_step", "80%", "absolute",
            "tokens per step of k4 lies between 1 and 5 tokens (k=4), so the greatest loss is 80 %",
        ),
        (
            "tokens_per_step", "90%", "relative",
            (
                "tokens per step of k1 lies between 1 and 2 tokens (k=1) and k4 lies between 1 and 5 tokens (k=4), so "
                "the greatest loss is 90 %"
            ),
        ),
        (
            "acceptance_length", "85%", "absolute",
            "acceptance length of k4 lies between 1 and 5 tokens (k=4), so the greatest loss is 80 %",
        ),
        (
            "acceptance_rate", "100pp", "absolute",
            "acceptance rate of k4 lies between 0 and 100 %, so the greatest loss is 100 points",
        ),
    ],
)  # fmt: skip
def test_a_margin_that_no_loss_exceeds_is_refused(
    build: type[Build], metric: str, *, margin: str, mode: str, told: str
) -> None:
    """What k tokens a draft bound cannot fall without end: a claim that cannot fail is none."""
    claim = api.not_worse_than_baseline(metric, at=1, margin=margin, mode=mode)

    message = _message(build.gate(build.pair(reference=1, candidate=4), claim))

    assert message == f"threshold {claim.id} can never fail: {told}: write a margin of less"


@pytest.mark.parametrize(
    "claim",
    [
        api.not_worse_than_baseline(TOKENS, at=1, margin="79%", mode="absolute"),
        api.not_worse_than_baseline(TOKENS, at=1, margin="89%", mode="relative"),
        api.not_worse_than_baseline(RATE, at=1, margin="99%", mode="absolute"),
        api.not_worse_than_baseline(RATE, at=1, margin="150pp", mode="relative"),
        api.not_worse_than_baseline("ttft_p50", at=1, margin="300%", mode="absolute"),
    ],
)
def test_a_margin_that_a_loss_may_exceed_stands(build: type[Build], claim: BaselineThreshold) -> None:
    """Just below the greatest loss a claim may still fail, and a time has none."""
    build.gate(build.pair(reference=1, candidate=4), claim).check()


def test_a_horizon_that_nobody_declared_bounds_nothing(build: type[Build]) -> None:
    """An arm whose k is left to the server may draft any number of tokens."""
    arm = build.arm().vary("some", args={"speculative_config": {"method": "eagle3"}})
    pair = dataclasses.replace(build.pair(), candidate=arm)

    build.gate(pair, api.not_worse_than_baseline(TOKENS, at=1, margin="95%", mode="absolute")).check()


K4_AND_K7 = "k4 lies between 1 and 5 tokens (k=4) and k7 lies between 1 and 8 tokens (k=7)"
SHARES = "acceptance rate of k4 lies between 0 and 100 % and k7 lies between 0 and 100 %"
LENGTHS = f"acceptance length of {K4_AND_K7}"


@pytest.mark.parametrize(
    ("claim", "told"),
    [
        (
            api.not_worse(RATE, at=1, margin="100 points"),
            f"fail: {SHARES}, so the greatest loss is 100 points: write a margin of less",
        ),
        (
            api.not_worse(RATE, at=1, margin="150 points"),
            f"fail: {SHARES}, so the greatest loss is 100 points: write a margin of less",
        ),
        (
            api.not_worse("acceptance_length", at=1, margin="80%"),
            f"fail: {LENGTHS}, so the greatest loss is 80 %: write a margin of less",
        ),
        (
            api.not_worse("acceptance_length", at=1, margin="5%", allowance="4 tokens"),
            f"fail: {LENGTHS}, so the greatest loss is 80 %: write a margin and an allowance of less",
        ),
        (
            api.equivalent(RATE, at=1, within="100 points"),
            f"fail: {SHARES}, so the greatest change is 100 points: write a width of less",
        ),
        (
            api.better("acceptance_length", at=1, by="700%"),
            f"pass: {LENGTHS}, so the greatest gain is 700 %: ask for less",
        ),
        (
            api.better(RATE, at=1, by="100 points"),
            f"pass: {SHARES}, so the greatest gain is 100 points: ask for less",
        ),
    ],
)  # fmt: skip
def test_a_claim_between_two_arms_that_decides_nothing_is_refused(
    build: type[Build], claim: Threshold, told: str
) -> None:
    """A margin that no loss exceeds never fails, and a gain beyond all never passes: the sentence has the bound."""
    message = _message(build.gate(build.pair(reference=4, candidate=7), claim))

    assert message == f"threshold {claim.id} can never {told}"


@pytest.mark.parametrize(
    "claim",
    [
        api.not_worse(RATE, at=1, margin="99 points"),
        api.not_worse("acceptance_length", at=1, margin="79%", allowance="3.9 tokens"),
        api.not_worse("acceptance_length", at=1, margin=api.noise_floor()),
        api.equivalent(RATE, at=1, within="99 points"),
        api.equivalent("acceptance_length", at=1, within="85%"),
        api.better("acceptance_length", at=1, by="699%"),
        api.better(RATE, at=1, by="99 points"),
        api.better(RATE, at=1, by="900%"),
    ],
)
def test_a_claim_between_two_arms_that_may_go_either_way_stands(build: type[Build], claim: Threshold) -> None:
    """Just inside the bounds a claim passes or fails, an equivalence by a gain, too; a ratio of shares has no bound."""
    build.gate(build.pair(reference=4, candidate=7), claim).check()


@pytest.mark.parametrize(
    ("reference", "candidate", "claim", "told"),
    [
        (4, 4, api.not_worse("acceptance_length", at=1, margin="85%"), "the greatest loss is 80 %: write a margin of"),
        (4, 4, api.better("acceptance_length", at=1, by="500%"), "the greatest gain is 400 %: ask for less"),
        (None, 4, api.not_worse(TOKENS, at=1, margin="5%"), "there is no loss: leave it out"),
        (None, 4, api.not_worse(TOKENS, at=1, margin=api.noise_floor()), "there is no loss: leave it out"),
        (None, 4, api.better(TOKENS, at=1, by="400%"), "the greatest gain is 400 %: ask for less"),
        (4, None, api.better(TOKENS, at=1, by="0%"), "there is no gain: leave it out"),
        (4, None, api.equivalent(TOKENS, at=1, within="80%"), "the greatest change is 80 %: write a width of less"),
    ],
)
def test_bounds_of_a_claim_are_those_of_its_two_arms(
    build: type[Build], *, reference: int | None, candidate: int | None, claim: Threshold, told: str
) -> None:
    """A loss is measured from the most of the reference, a gain from its least: without speculation both are 1."""
    arms = [build.arm(k) for k in (reference, candidate)]
    if reference == candidate:
        arms[1] = arms[0].vary("new", args={"max_model_len": 128})
    pair = dataclasses.replace(
        build.pair(),
        reference=arms[0],
        candidate=arms[1],
        varies="args.max_model_len" if reference == candidate else "args.speculative_config",
    )

    assert f", so {told}" in _message(build.gate(pair, claim))


def test_no_horizon_gives_fewer_tokens_than_none(build: type[Build]) -> None:
    """Against an arm without speculation a loss is impossible whatever k is, and a gain may be of any size."""
    arm = build.arm().vary("some", args={"speculative_config": {"method": "eagle3"}})
    pair = dataclasses.replace(build.pair(), candidate=arm)

    build.gate(pair, api.better(TOKENS, at=1, by="900%")).check()
    assert _message(build.gate(pair, api.not_worse(TOKENS, at=1, margin="5%"))) == (
        "threshold c1-tokens_per_step-not_worse can never fail: tokens per step of off lies at 1 tokens (k=0) and some "
        "lies at 1 tokens or more, so there is no loss: leave it out"
    )
