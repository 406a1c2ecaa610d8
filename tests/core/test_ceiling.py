"""The ceiling of speculation: the published arithmetic, what a target needs, and its edges."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.ceiling import (
    LIMITS,
    UNDRAFTED,
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
    """Steps alone reach 30 tokens/s: no draft token need be accepted, and k=1 is the least horizon there is."""
    found = needs(30)

    assert (found.reachable, found.acceptance_rate, found.conditional_acceptance) == (True, 0.0, 0.0)
    assert found.k_at_perfect_acceptance == 1


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
        ({"step_time_s": 0.0}, "a step time of 0 s is none"),
        ({"step_time_s": math.nan}, "a step time of nan s is none"),
        ({"step_time_s": 1e-310}, "a step time of 1e-310 s is none"),
        ({"tokens_per_step": 5.01}, "a step of k=4 gives between 1 and 5 tokens, and not 5.01"),
        ({"tokens_per_step": 0.99}, "a step of k=4 gives between 1 and 5 tokens, and not 0.99"),
        ({"tokens_per_step": math.nan}, "and not nan"),
        ({"target_tokens_per_s": 0.0}, "a target of 0 tokens/s is none"),
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
    assert (found.k_at_perfect_acceptance + 1) / step_time_s >= target * (1 - 1e-6)
    assert found.k_at_perfect_acceptance == 1 or found.k_at_perfect_acceptance / step_time_s < target
    assert found.reachable == (found.k_at_perfect_acceptance <= k)
    assert (found.acceptance_rate is None) == (found.conditional_acceptance is None) == (not found.reachable)
    if found.acceptance_rate is not None and found.conditional_acceptance is not None:
        wanted = max(1.0, target * step_time_s)
        assert 1 + found.acceptance_rate * k == pytest.approx(wanted)
        assert summed(found.conditional_acceptance, k) == pytest.approx(wanted)
        assert 0 <= found.acceptance_rate <= 1
        assert 0 <= found.conditional_acceptance <= 1


FIGURES = DecodeFigures(4, 0.02338, 2.6498, 0.43, (0.023, 0.02376), (2.6, 2.6996))


def test_an_arm_has_the_ceiling_of_its_figures() -> None:
    """Pooled figures make the ceiling, and those of each boot stand beside it."""
    found = arm_ceiling(FIGURES, arm="k4", at=8, target_tokens_per_s=200)

    assert (found.arm, found.at, found.valid, found.reason, found.drafts_seldom) == ("k4", 8, True, None, True)
    assert (found.step_times_s, found.tokens_per_steps) == ((0.023, 0.02376), (2.6, 2.6996))
    assert found.ceiling == published(200)


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
