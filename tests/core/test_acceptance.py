"""Acceptance by position: rates, how sure they are, and what short drafts leave unknown."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_specgate.core.acceptance import AcceptanceCurve, Estimate
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.speculation import SpeculationDelta, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    Draft = tuple[int, int]
    """Tokens that a draft proposed, and how many of them were accepted."""

PUBLISHED = SpeculationDelta(3478, 13912, 5738, (2507, 1607, 1033, 591))
"""A probe at k=4 on eight GPUs."""


def counted(drafts: Sequence[Draft], k: int) -> SpeculationDelta:
    """Count drafts as a server does."""
    positions = tuple(sum(accepted > place for _, accepted in drafts) for place in range(k))
    return SpeculationDelta(len(drafts), sum(length for length, _ in drafts), sum(positions), positions)


@st.composite
def drafts(draw: st.DrawFn, *, k: int, shortest: int = 1) -> list[Draft]:
    """Draw drafts of any length up to a horizon, at least one token in all."""
    lengths = draw(st.lists(st.integers(shortest, k), min_size=1, max_size=30).filter(any))
    return [(length, draw(st.integers(0, length))) for length in lengths]


@st.composite
def curves(draw: st.DrawFn) -> AcceptanceCurve:
    """Draw a curve with none, one or several samples, some of which may have drafted nothing."""
    k = draw(st.integers(1, 6))
    samples = draw(st.lists(st.one_of(drafts(k=k), st.just([])), min_size=1, max_size=8).filter(any))
    deltas = tuple(counted(sample, k) for sample in samples)
    return AcceptanceCurve(pool(deltas), draw(st.sampled_from([(), deltas])), "prompts")


def ends(estimate: Estimate) -> tuple[float, float, float]:
    """Return lower end, value and upper end of an interval that must be there."""
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.value, estimate.high


def within(estimate: Estimate) -> bool:
    """Whether an interval contains its own estimate."""
    low, value, high = ends(estimate)
    return low <= value <= high


def width(estimate: Estimate) -> float:
    """Return the width of an interval."""
    low, _, high = ends(estimate)
    return high - low


def test_the_published_probe_comes_out_to_every_digit() -> None:
    """3478 drafts at k=4 have the rates, the acceptance rate and the length that were printed of them."""
    curve = AcceptanceCurve(PUBLISHED)

    assert curve.k == 4
    assert [f"{rate.value:.3f}" for rate in curve.rates] == ["0.721", "0.462", "0.297", "0.170"]
    assert f"{curve.acceptance_rate.value:.4f}" == "0.4124"
    assert f"{curve.acceptance_length.value:.4f}" == "2.6498"
    assert curve.short_drafts == 0
    assert curve.conditional == pytest.approx((2507 / 3478, 1607 / 2507, 1033 / 1607, 591 / 1033))
    assert curve.per_proposed() == tuple((rate.value, rate.value) for rate in curve.rates)


def test_wilsons_interval_is_the_textbook_one() -> None:
    """Of 10 in 50 the 95 % interval is 11.2 to 33.0 %."""
    (rate,) = AcceptanceCurve(SpeculationDelta(50, 50, 10, (10,))).rates

    assert (rate.low, rate.high) == pytest.approx((0.1124, 0.3304), abs=5e-5)


def test_the_interval_of_a_length_is_that_of_a_mean() -> None:
    """36 drafts that gave 0, 1, 2 and 2 tokens in turn: the half-width is 1.96 standard errors of their mean."""
    curve = AcceptanceCurve(counted([(2, 0), (2, 1), (2, 2), (2, 2)] * 9, 2))
    half = 1.959964 * float(np.std([0, 1, 2, 2])) / 6

    assert ends(curve.acceptance_length) == pytest.approx((2.25 - half, 2.25, 2.25 + half))
    # As many draft tokens in each: the rate is half the gain, and so is its interval.
    assert ends(curve.acceptance_rate) == pytest.approx((0.625 - half / 2, 0.625, 0.625 + half / 2))


def test_the_interval_over_samples_is_that_of_a_ratio_of_sums() -> None:
    """Three prompts of unequal size: Cochran's variance, and Student's t with two degrees of freedom."""
    sums = [(30, 100), (50, 60), (20, 90)]
    samples = tuple(SpeculationDelta(below, below, above, (above,)) for above, below in sums)
    (rate,) = AcceptanceCurve(pool(samples), samples, "prompts").rates
    ratio = 100 / 250
    variance = 3 / 2 * sum((above - ratio * below) ** 2 for above, below in sums) / 250**2
    half = 4.302653 * math.sqrt(variance)

    assert (rate.value, rate.low, rate.high) == pytest.approx((ratio, max(0.0, ratio - half), min(1.0, ratio + half)))


@pytest.mark.parametrize("accepted", [0, 2])
def test_drafts_that_all_gave_the_same_are_no_certainty(accepted: int) -> None:
    """A length of drafts without any scatter has an interval all the same, wider where there are fewer of them."""
    few, many = (AcceptanceCurve(counted([(2, accepted)] * count, 2)).acceptance_length for count in (1, 400))

    assert few.value == many.value == 1 + accepted
    assert width(few) > 1
    assert 0 < width(many) < 0.1
    assert within(few)


@pytest.mark.parametrize(("nothing", "little"), [((0, 0), (1, 0)), ((470, 470), (470, 469))])
def test_what_is_rare_is_no_surer_than_what_never_happened(nothing: tuple[int, int], little: tuple[int, int]) -> None:
    """One token accepted, or refused, of 470 drafts bounds what others give no better than none did."""

    def made(accepted: tuple[int, int]) -> AcceptanceCurve:
        return AcceptanceCurve(SpeculationDelta(470, 940, sum(accepted), accepted))

    for one in ("acceptance_rate", "acceptance_length"):
        never, rarely = getattr(made(nothing), one), getattr(made(little), one)
        assert (rarely.high >= never.high) if not sum(nothing) else (rarely.low <= never.low)
    assert width(made(nothing).acceptance_rate) == pytest.approx(1.959963985**2 / (470 + 1.959963985**2))


@given(curves(), st.integers(2, 9))
def test_boots_that_repeat_each_other_make_nothing_surer(curve: AcceptanceCurve, boots: int) -> None:
    """The same prompts give the same drafts in every boot: intervals are those of one boot, whatever their number."""
    one = AcceptanceCurve(curve.counts)
    all_of_them = AcceptanceCurve(pool([curve.counts] * boots), (curve.counts,) * boots, "boots", boots=boots)
    both = zip(
        [*one.rates, one.acceptance_rate, one.acceptance_length],
        [*all_of_them.rates, all_of_them.acceptance_rate, all_of_them.acceptance_length],
        strict=True,
    )

    assert all(ends(repeated) == pytest.approx(ends(single)) for single, repeated in both)


def test_samples_that_drafted_nothing_are_not_counted() -> None:
    """An interval over four prompts of which two drafted is one over two."""
    some, none = counted([(2, 1)] * 5, 2), SpeculationDelta(0, 0, 0, (0, 0))

    assert AcceptanceCurve(pool([some] * 2), (some, none, some, none), "prompts").sampled == 2
    assert AcceptanceCurve(some).sampled == 5


def test_no_position_is_no_gain_for_certain() -> None:
    """Without drafts a step gives one token, and nothing about it is uncertain."""
    assert AcceptanceCurve(PUBLISHED).length_at(0) == Estimate(1.0, 1.0, 1.0)


def test_a_rate_after_nothing_was_accepted_is_unknown() -> None:
    """What follows a position at which nothing was accepted has no conditional acceptance: it is not 0."""
    assert AcceptanceCurve(SpeculationDelta(5, 15, 3, (3, 0, 0))).conditional == (0.6, 0.0, None)


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        (SpeculationDelta(0, 0, 0, (0, 0)), "nothing was drafted, so there is no acceptance"),
        (SpeculationDelta(3, 0, 0, (0, 0)), "nothing was drafted, so there is no acceptance"),
        (SpeculationDelta(3, 6, 5, (2, 3)), "accepted tokens rise with the position"),
    ],
)
def test_counts_without_acceptance_are_refused(counts: SpeculationDelta, sentence: str) -> None:
    """Snapshots around no traffic, drafts of nothing and counts that contradict themselves source no figure."""
    with pytest.raises(UsageError, match=sentence):
        AcceptanceCurve(counts)


@pytest.mark.parametrize("sample", [SpeculationDelta(4, 8, 3, (2, 1)), SpeculationDelta(5, 10, 3, (3,))])
def test_samples_of_something_else_are_refused(sample: SpeculationDelta) -> None:
    """Samples that do not sum to the counts, or have other positions, are no samples of them."""
    with pytest.raises(UsageError, match="do not sum to its counts"):
        AcceptanceCurve(SpeculationDelta(5, 10, 3, (2, 1)), (sample,), "boots")


@pytest.mark.parametrize("proposed", [(5,), (5, 5), (6, 3), (4, 5), (5, 4, 0), (9, 0)])
def test_lengths_that_contradict_the_counts_are_refused(proposed: tuple[int, ...]) -> None:
    """Of 5 drafts with 9 tokens 5 reached position 1 and 4 position 2, and nothing else."""
    counts = SpeculationDelta(5, 9, 3, (2, 1))

    assert AcceptanceCurve(counts, proposed=(5, 4)).per_proposed() == ((0.4, 0.4), (0.25, 0.25))
    with pytest.raises(UsageError, match="what was proposed by position does not fit"):
        AcceptanceCurve(counts, proposed=proposed)


def test_more_accepted_than_proposed_is_refused() -> None:
    """A token is accepted at a position that its draft reached."""
    with pytest.raises(UsageError, match="what was proposed by position does not fit"):
        AcceptanceCurve(SpeculationDelta(4, 6, 6, (3, 3)), proposed=(4, 2))


@pytest.mark.parametrize("k", [-1, 5])
def test_horizons_that_were_not_measured_are_refused(k: int) -> None:
    """A curve of four positions tells nothing of a fifth."""
    with pytest.raises(UsageError, match=f"an acceptance curve of k=4 tells nothing of k={k}"):
        AcceptanceCurve(PUBLISHED).length_at(k)


def test_short_drafts_are_told_apart_from_refused_ones() -> None:
    """Half of the drafts stop after one token: the rate per draft halves, and the share of those proposed does not."""
    curve = AcceptanceCurve(counted([(2, 2)] * 10 + [(1, 1)] * 10, 2))

    assert [rate.value for rate in curve.rates] == [1.0, 0.5]
    assert curve.short_drafts == 10
    assert curve.per_proposed() == ((1.0, 1.0), (1.0, 1.0))


def test_a_position_that_no_draft_reached_tells_nothing() -> None:
    """It is not refused there: whether lengths are told or follow from the counts, any share is possible."""
    counts = counted([(1, 1), (1, 0)], 3)

    assert AcceptanceCurve(counts).per_proposed() == ((0.5, 0.5), (0.0, 1.0), (0.0, 1.0))
    assert AcceptanceCurve(counts, proposed=(2, 0, 0)).per_proposed() == ((0.5, 0.5), (0.0, 1.0), (0.0, 1.0))


def test_a_position_that_none_accepted_and_few_may_have_reached() -> None:
    """Nothing was accepted where it is not even sure that a draft came: the share is 0."""
    counts = counted([(3, 0), (1, 0), (1, 0)], 3)

    assert AcceptanceCurve(counts).per_proposed() == ((0.0, 0.0),) * 3


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (Estimate(2.0), None),
        (Estimate(2.0, 1.0), None),
        (Estimate(0.5, 0.0, 1.0), None),
        (Estimate(2.0, 1.0, 2 * math.e), (math.log(2), 1.0)),
    ],
)
def test_distances_in_log_units_need_two_positive_ends(
    estimate: Estimate, expected: tuple[float, float] | None
) -> None:
    """From the figure down to its lower end and up to its upper one, or nothing."""
    assert estimate.log_distances == (None if expected is None else pytest.approx(expected))


@given(curves())
def test_every_interval_contains_its_estimate_and_ends_where_shares_do(curve: AcceptanceCurve) -> None:
    """None leaves 0 to 1, or 1 to k + 1, and none excludes what it is of."""
    shares = [*curve.rates, curve.acceptance_rate]
    lengths = [curve.length_at(k) for k in range(curve.k + 1)]

    assert all(map(within, [*shares, *lengths]))
    assert all((one.low or 0.0) >= 0 and (one.high or 0.0) <= 1 for one in shares)
    assert all((one.low or 0.0) >= 1 and (one.high or 0.0) <= 1 + k for k, one in enumerate(lengths))


@given(curves())
def test_rates_never_rise_and_lengths_never_fall(curve: AcceptanceCurve) -> None:
    """A token counts only if all before it do, and each adds its rate to the length."""
    rates = [rate.value for rate in curve.rates]
    lengths = [curve.length_at(k).value for k in range(curve.k + 1)]

    assert rates == sorted(rates, reverse=True)
    assert lengths == sorted(lengths)
    assert lengths[-1] == pytest.approx(1 + sum(rates))
    assert curve.acceptance_length.value == lengths[-1]
    products = itertools.accumulate((one or 0.0 for one in curve.conditional), lambda one, other: one * other)
    assert list(products) == pytest.approx(rates)


@given(curves())
def test_an_interval_over_samples_is_never_narrower_than_one_over_drafts(curve: AcceptanceCurve) -> None:
    """Samples that happen to agree make nothing surer than independent drafts would be."""
    alone = AcceptanceCurve(curve.counts)
    both = zip(
        [*curve.rates, curve.acceptance_rate, curve.acceptance_length],
        [*alone.rates, alone.acceptance_rate, alone.acceptance_length],
        strict=True,
    )

    assert all(width(sampled) >= width(independent) - 1e-12 for sampled, independent in both)


@given(st.integers(1, 6).flatmap(lambda k: st.tuples(st.just(k), drafts(k=k))))
@example((3, [(3, 3), (3, 0), (1, 1)]))
def test_bounds_of_short_drafts_contain_the_truth(drawn: tuple[int, list[Draft]]) -> None:
    """The lengths of single drafts are hidden from the counts, and the share of those that came stays within."""
    k, made = drawn
    bounds = AcceptanceCurve(counted(made, k)).per_proposed()
    for place, (low, high) in enumerate(bounds):
        reached = [accepted > place for length, accepted in made if length > place]
        truth = sum(reached) / len(reached) if reached else 0.0

        assert 0 <= low <= truth <= high <= 1


@given(st.integers(1, 5).flatmap(lambda k: st.tuples(st.just(k), drafts(k=k, shortest=0))))
def test_drafts_that_were_refused_whole_break_nothing(drawn: tuple[int, list[Draft]]) -> None:
    """A grammar leaves drafts of no token: bounds stay shares, and lengths that are told give the truth."""
    k, made = drawn
    counts = counted(made, k)
    reached = [sum(length > place for length, _ in made) for place in range(k)]
    told = AcceptanceCurve(counts, proposed=tuple(reached)).per_proposed()

    assert all(0 <= low <= high <= 1 for low, high in AcceptanceCurve(counts).per_proposed())
    for place, (low, high) in enumerate(told):
        assert (low, high) == (
            (counts.accepted_per_position[place] / reached[place],) * 2 if reached[place] else (0, 1)
        )


def test_fewer_tokens_than_drafts_bound_the_first_position_too() -> None:
    """Three tokens in five drafts: at most three drafts came, so of three accepted tokens all were."""
    assert AcceptanceCurve(SpeculationDelta(5, 3, 3, (3, 0))).per_proposed() == ((1.0, 1.0), (0.0, 0.0))


def test_clustered_prompts_are_covered_by_prompts_and_not_by_drafts() -> None:
    """Prompts differ in acceptance: intervals over them cover the true ratio, those over drafts far too seldom."""
    random = np.random.default_rng(20261130)
    hits = {"prompts": 0, "drafts": 0}
    for _ in range(400):
        chances = random.beta(2.0, 2.0, size=40)
        sizes = random.integers(20, 60, size=40)
        accepted = random.binomial(sizes, chances)
        samples = tuple(
            SpeculationDelta(int(size), int(size), int(count), (int(count),))
            for size, count in zip(sizes, accepted, strict=True)
        )
        for basis, given_samples in (("prompts", samples), ("drafts", ())):
            (rate,) = AcceptanceCurve(pool(samples), given_samples).rates
            low, _, high = ends(rate)
            hits[basis] += low <= 0.5 <= high

    assert hits["prompts"] >= 0.9 * 400
    assert hits["drafts"] < 0.6 * 400
