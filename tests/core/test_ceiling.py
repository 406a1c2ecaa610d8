"""The ceiling of speculation: the published arithmetic, what a target needs, and its edges."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.ceiling import (
    LIMITS,
    UNDRAFTED,
    WHERE_IT_DRAFTS,
    ArmCeiling,
    Ceiling,
    TargetNeeds,
    arm_ceiling,
    ceiling,
    ceilings,
)
from pytest_specgate.core.decode_figures import DecodeFigures
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.stored import Failure

STEPS = st.floats(1e-4, 10.0)
SPEEDS = st.floats(1e-2, 1e5)


def published(target: float | None = None) -> Ceiling:
    """Return the ceiling of the published k=4 window."""
    return ceiling(step_time_s=0.02338, tokens_per_step=2.6498, k=4, target_tokens_per_s=target)


def needs(target: float, *, step_time_s: float = 0.02338, tokens_per_step: float = 2.6498, k: int = 4) -> TargetNeeds:
    """Return what a target needs."""
    found = ceiling(step_time_s=step_time_s, tokens_per_step=tokens_per_step, k=k, target_tokens_per_s=target).target
    assert found is not None
    return found


def summed(conditional: float, k: int) -> float:
    """Return the tokens of a step with equal acceptance at each position, one product after the other."""
    tokens, rate = 1.0, 1.0
    for _ in range(k):
        rate *= conditional
        tokens += rate
    return tokens


def test_the_published_ceiling_comes_out() -> None:
    """23.38 ms, 2.6498 tokens per step and k=4 give 113.3 and 213.9 tokens/s."""
    found = published()

    assert (f"{found.speed_tokens_per_s:.1f}", f"{found.ceiling_tokens_per_s:.1f}") == ("113.3", "213.9")
    assert found.share_of_ceiling == pytest.approx(found.speed_tokens_per_s / found.ceiling_tokens_per_s)
    assert found.target is None


def test_the_published_target_needs_nearly_perfect_drafts() -> None:
    """200 tokens/s need an acceptance length of 4.68, or steps of 13.25 ms; k=4 could reach them, and k=3 not."""
    found = needs(200)

    assert f"{found.tokens_per_step:.2f}" == "4.68"
    assert (found.reachable, found.k_at_perfect_acceptance) == (True, 4)
    assert found.acceptance_rate == pytest.approx(0.919, abs=5e-4)
    assert found.conditional_acceptance == pytest.approx(0.9665, abs=5e-5)
    assert summed(found.conditional_acceptance or 0.0, 4) == pytest.approx(200 * 0.02338)
    assert (found.step_time_s, found.step_time_at_ceiling_s) == pytest.approx((0.013249, 0.025))


def test_a_target_above_the_ceiling_has_no_acceptance() -> None:
    """No share of accepted tokens gives 250 tokens/s: what it would need is absent, and not 1."""
    found = needs(250)

    assert (found.reachable, found.acceptance_rate, found.conditional_acceptance) == (False, None, None)
    assert found.k_at_perfect_acceptance == 5


def test_a_target_below_one_token_a_step_needs_no_draft() -> None:
    """Steps alone reach 30 tokens/s: no draft token need be accepted, and no speculation is needed for it."""
    found = needs(30)

    assert (found.reached, found.reachable, found.acceptance_rate, found.conditional_acceptance) == (True, True, 0, 0)
    assert (found.acceptance_length, found.k_at_perfect_acceptance) == (1, 0)


@pytest.mark.parametrize(
    ("target", "step_time_s", "k"), [(100, 0.07, 6), (1000, 0.003, 2), (213.85799828913602, 0.02338, 4)]
)
def test_the_ceiling_itself_is_within_reach(target: float, step_time_s: float, k: int) -> None:
    """100 x 0.07 is more than 7 to a computer, and still what seven tokens in 70 ms give."""
    found = needs(target, step_time_s=step_time_s, tokens_per_step=1.5, k=k)

    assert (found.reachable, found.k_at_perfect_acceptance) == (True, k)
    assert (found.acceptance_rate, found.conditional_acceptance) == pytest.approx((1.0, 1.0))
    assert (found.acceptance_rate or 0.0) <= 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"k": 0}, "k=0 drafts nothing: write 1 to 1000"),
        ({"k": -3}, "k=-3 drafts nothing"),
        ({"k": 1001}, "k=1001 is no draft horizon"),
        ({"step_time_s": 0.0}, "a step time of 0 s is none: write that of a decode step, as 23.38ms"),
        ({"step_time_s": math.nan}, "a step time of nan s is none"),
        ({"step_time_s": 1e-310}, "a step time of 1e-310 s is none"),
        (
            {"tokens_per_step": 5.01},
            "and not 5.01: write output tokens / decode steps of a sequence, or the k that was served",
        ),
        ({"tokens_per_step": 0.99}, "a step of k=4 gives between 1 and 5 tokens, and not 0.99"),
        ({"tokens_per_step": math.nan}, "and not nan"),
        (
            {"target_tokens_per_s": 0.0},
            "a target of 0 tokens/s is none: write a speed above 0, as '200 tokens/s'",
        ),
        ({"target_tokens_per_s": math.inf}, "a target of inf tokens/s is none"),
    ],
)
def test_figures_that_are_none_are_refused(changes: dict[str, float], sentence: str) -> None:
    """What cannot be is named with its value."""
    figures: dict[str, float] = {"step_time_s": 0.02, "tokens_per_step": 2.5, "k": 4, **changes}
    with pytest.raises(UsageError) as refused:
        ceiling(**figures)  # type: ignore[arg-type]  # k is a whole number in every row

    assert sentence in str(refused.value)


@given(STEPS, st.integers(1, 12), st.floats(0, 1), SPEEDS)
def test_what_a_target_needs_reaches_it(step_time_s: float, k: int, share: float, target: float) -> None:
    """Each lever alone gives the target, and what is out of reach has none of acceptance."""
    tokens = 1 + share * k
    found = needs(target, step_time_s=step_time_s, tokens_per_step=tokens, k=k)

    assert tokens / found.step_time_s == pytest.approx(target)
    assert (k + 1) / found.step_time_at_ceiling_s == pytest.approx(target)
    least = found.k_at_perfect_acceptance
    assert least is not None, "without the share of drafting steps some horizon always does"
    assert (least + 1) / step_time_s >= target * (1 - 1e-6)
    assert least == 0 or least / step_time_s < target
    assert found.reachable == (least <= k)
    assert found.most_tokens_per_step == k + 1
    assert (found.acceptance_rate is None) == (found.conditional_acceptance is None) == (not found.reachable)
    if found.acceptance_rate is not None and found.conditional_acceptance is not None:
        wanted = max(1.0, target * step_time_s)
        assert 1 + found.acceptance_rate * k == pytest.approx(wanted)
        assert summed(found.conditional_acceptance, k) == pytest.approx(wanted)
        assert 0 <= found.acceptance_rate <= 1
        assert 0 <= found.conditional_acceptance <= 1


def mixed(share: float, length: float) -> float:
    """Return tokens per step by counting the steps of a token: one outside, and a part of one where drafts are."""
    return 1 / (1 - share + share / length)


def test_acceptance_helps_only_where_it_drafts() -> None:
    """With half of the tokens from drafting steps, 1.6 tokens a step need four in each of these, and not 1.6."""
    found = ceiling(
        step_time_s=0.02, tokens_per_step=mixed(0.5, 2), k=4, target_tokens_per_s=80, drafted_token_share=0.5
    ).target

    assert found is not None
    assert (found.tokens_per_step, found.acceptance_length) == pytest.approx((1.6, 4.0))
    assert found.acceptance_rate == pytest.approx(0.75)
    assert summed(found.conditional_acceptance or 0.0, 4) == pytest.approx(4.0)
    assert found.most_tokens_per_step == pytest.approx(1 / 0.6)
    assert found.step_time_at_ceiling_s == pytest.approx(1 / 0.6 / 80)
    assert (found.reached, found.reachable, found.k_at_perfect_acceptance) == (False, True, 3)


@pytest.mark.parametrize(("target", "k"), [(88, 7), (101, None)])
def test_perfect_drafts_may_not_reach_a_target_below_the_ceiling(target: float, k: int | None) -> None:
    """Steps of k=4 give 5 tokens at most, and half of them drafted 1.67: beyond 2 no horizon helps either."""
    found = ceiling(
        step_time_s=0.02, tokens_per_step=mixed(0.5, 2), k=4, target_tokens_per_s=target, drafted_token_share=0.5
    )

    assert found.ceiling_tokens_per_s == 250
    assert found.target is not None
    assert (found.target.reachable, found.target.acceptance_length) == (False, None)
    assert (found.target.acceptance_rate, found.target.conditional_acceptance) == (None, None)
    assert found.target.k_at_perfect_acceptance == k


@given(st.floats(0.01, 1), st.integers(1, 12), st.floats(0.01, 1), st.floats(0.1, 20))
def test_what_is_needed_where_it_drafts_gives_the_target(share: float, k: int, accepted: float, wanted: float) -> None:
    """The acceptance length that is named gives the tokens per step, and what is reached now is within reach."""
    now = mixed(share, 1 + accepted * k)
    found = ceiling(
        step_time_s=0.01, tokens_per_step=now, k=k, target_tokens_per_s=100 * wanted, drafted_token_share=share
    ).target

    assert found is not None
    assert found.reached == (now / 0.01 >= 100 * wanted)
    assert found.reachable or not found.reached
    assert found.most_tokens_per_step == pytest.approx(mixed(share, k + 1))
    if found.acceptance_length is not None:
        assert mixed(share, found.acceptance_length) == pytest.approx(max(1.0, wanted), rel=1e-6)
        assert summed(found.conditional_acceptance or 0.0, k) == pytest.approx(found.acceptance_length, rel=1e-6)
    else:
        assert wanted > found.most_tokens_per_step * (1 - 1e-6)


FIGURES = DecodeFigures(4, 0.02338, 2.6498, 0.43, (0.023, 0.02376), (2.6, 2.6996))


def test_an_arm_has_the_ceiling_of_its_figures() -> None:
    """Pooled figures make the ceiling, and those of each boot stand beside it."""
    found = arm_ceiling(FIGURES, arm="k4", at=8, target_tokens_per_s=200)

    assert (found.arm, found.at, found.valid, found.reason, found.drafts_seldom) == ("k4", 8, True, None, True)
    assert (found.step_times_s, found.tokens_per_steps) == ((0.023, 0.02376), (2.6, 2.6996))
    assert found.ceiling == published(200)
    assert (found.acceptance_length, found.drafted_token_share, found.targets_where_it_drafts) == (None, None, False)


def test_the_share_of_tokens_where_it_drafts_follows_from_the_acceptance_length() -> None:
    """2.6498 tokens a step, and 4 in those that draft: 83 % of tokens come from these, and limit what they can give."""
    found = arm_ceiling(FIGURES, arm="k4", at=8, acceptance_length=4.0, target_tokens_per_s=113)
    share = (1 - 1 / 2.6498) / 0.75

    assert found.drafted_token_share == pytest.approx(share)
    assert found.targets_where_it_drafts
    assert found.ceiling is not None
    assert found.ceiling.target is not None
    assert found.ceiling.target.acceptance_length == pytest.approx(113 * 0.02338 * 4.0 / 2.6498, rel=0.01)
    assert ceilings((found,)).notes == (UNDRAFTED, WHERE_IT_DRAFTS, *LIMITS)
    assert ceilings((arm_ceiling(FIGURES, arm="k4", at=8, acceptance_length=4.0),)).notes == (UNDRAFTED, *LIMITS)


def test_drafts_that_are_perfect_already_can_give_no_more() -> None:
    """Answers that end inside a draft keep perfect drafts of k=4 at 4.7 tokens a step, whatever is asked for."""
    figures = DecodeFigures(4, 0.01, 4.7, 1.0, (0.01,), (4.7,))
    now, more = (
        arm_ceiling(figures, arm="k4", at=1, acceptance_length=5.0, target_tokens_per_s=target).ceiling
        for target in (470, 485)
    )

    assert now is not None
    assert more is not None
    assert now.target is not None
    assert more.target is not None
    assert (now.target.reached, now.target.reachable, more.target.reached) == (True, True, False)
    assert (more.target.reachable, more.target.acceptance_rate) == (False, None)
    assert more.target.most_tokens_per_step == pytest.approx(4.7)


@pytest.mark.parametrize(("tokens", "length", "share"), [(1.0, 1.0, 0.43), (2.6498, 2.6498, 1.0), (2.65, 2.6498, 1.0)])
def test_all_tokens_of_steps_that_always_draft_are_where_it_drafts(tokens: float, length: float, share: float) -> None:
    """As many tokens a step as in those that draft are all of them; where nothing is accepted the steps tell."""
    figures = dataclasses.replace(FIGURES, tokens_per_step=tokens)

    assert arm_ceiling(figures, arm="k4", at=8, acceptance_length=length).drafted_token_share == share


def test_an_arm_that_cannot_be_judged_has_a_reason_and_no_figure() -> None:
    """Why there is nothing is all that there is."""
    found = arm_ceiling(Failure(reason="server-died", message="it died"), arm="k4", at="4/s", target_tokens_per_s=200)

    assert found == ArmCeiling(arm="k4", at="4/s", valid=False, reason="server-died", message="it died")


def test_what_is_not_said_stands_with_every_ceiling() -> None:
    """Steps without drafts are named where there are some, and nothing is explained where nothing is shown."""
    shown = arm_ceiling(FIGURES, arm="k4", at=1)
    refused = arm_ceiling(Failure(reason="server-died", message="it died"), arm="k4", at=8)

    assert ceilings((ArmCeiling(ceiling=published()),)).notes == LIMITS
    assert ceilings((refused, shown), unproved=("attached",)).notes == ("attached", UNDRAFTED, *LIMITS)
    assert ceilings((refused, shown)).valid
    none = ceilings((refused,), record="record.json")
    assert (none.valid, none.reason, none.message, none.notes) == (False, "server-died", "it died", ())
