"""Draft horizons: where a curve has its knee, and what each k promises."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.acceptance import AcceptanceCurve, Estimate
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.horizon import Measured, crossing, horizons, over_boots, tokens_per_step
from pytest_specgate.core.noise import declared_noise
from pytest_specgate.core.speculation import LONGEST_HORIZON, SpeculationDelta, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.horizon import Horizon

K7 = (44225, 29747, 19984, 13513, 9086, 6095, 3840)
"""The published counts of k=7 by position, of 60944 drafts."""

K4 = (2508, 1607, 1033, 590)
"""Those of the probe with k=4, of 3478 drafts."""


def curve(positions: Sequence[int], drafts: int) -> AcceptanceCurve:
    """Return a curve whose drafts were all of full length."""
    return AcceptanceCurve(SpeculationDelta(drafts, drafts * len(positions), sum(positions), tuple(positions)))


def measured(
    positions: Sequence[int], drafts: int, *, tokens: float | None = None, times: Sequence[float] = ()
) -> Measured:
    """Return a horizon with its curve; without other tokens per step each of its steps drafted."""
    found = curve(positions, drafts)
    return Measured(found.k, found.acceptance_length.value if tokens is None else tokens, tuple(times), found)


def off(*times: float) -> Measured:
    """Return what was measured without speculation."""
    return Measured(0, 1.0, times, None)


def by_k(found: Sequence[Horizon]) -> dict[int, Horizon]:
    """Return horizons by k."""
    return {one.k: one for one in found}


@st.composite
def curves(draw: st.DrawFn) -> AcceptanceCurve:
    """Return any curve of full drafts."""
    drafts = draw(st.integers(1, 5000))
    positions = draw(st.lists(st.integers(0, drafts), min_size=1, max_size=9))
    return curve(sorted(positions, reverse=True), drafts)


def test_the_published_curves_disagree_on_where_the_cut_is_crossed() -> None:
    """The window of k=7 crosses 20 % between positions 4 and 5, the probe of k=4 between 3 and 4."""
    long, short = crossing(curve(K7, 60944)), crossing(curve(K4, 3478))

    assert (long.least, long.last, long.most, long.is_beyond) == (4, 4, 4, False)
    assert (short.least, short.last, short.most, short.is_beyond) == (3, 3, 3, False)


def test_an_interval_that_holds_the_cut_leaves_it_open() -> None:
    """The third position is 20 % on the spot: its interval reaches to both sides."""
    found = crossing(curve((80, 50, 20, 2), 100))

    assert (found.least, found.last, found.most) == (2, 3, 3)


def test_a_curve_above_the_cut_tells_of_no_crossing() -> None:
    """A longer horizon has to tell; and where no position reaches the cut, none is worth it."""
    assert crossing(curve((90, 80), 100)).is_beyond
    assert (crossing(curve((0, 0), 1000)).last, crossing(curve((0, 0), 1000)).most) == (0, 0)


@given(curves(), st.floats(0.01, 0.99))
def test_the_ends_of_a_crossing_hold_it(found: AcceptanceCurve, cut: float) -> None:
    """Whatever the counts are, least <= last <= most <= k."""
    one = crossing(found, cut)

    assert 0 <= one.least <= one.last <= one.most <= one.measured == found.k


@pytest.mark.parametrize("cut", [0.0, 1.0, -0.2, math.nan])
def test_a_cut_is_a_share(cut: float) -> None:
    """0 and 1 cut nothing, or everything."""
    with pytest.raises(UsageError, match="write a share between 0 and 1"):
        crossing(curve((1,), 2), cut)


@given(curves(), st.floats(0.1, 1.0))
def test_tokens_per_step_rise_with_k_by_the_products_of_acceptances(found: AcceptanceCurve, share: float) -> None:
    """1 / (1 - d + d / (1 + c_1 + c_1 c_2 + ...)), with the share d of tokens of the measured horizon."""
    mixed = 1 / (1 - share + share / found.acceptance_length.value)
    one = Measured(found.k, mixed, (), found)
    tokens = [row.tokens_per_step.value for row in horizons([one], up_to=found.k + 3)]
    products = itertools.accumulate((c or 0.0 for c in found.conditional), lambda a, b: a * b)
    expected = [1 / (1 - share + share / (1 + total)) for total in itertools.accumulate(products)]

    assert tokens == pytest.approx(sorted(tokens))
    assert tokens[: found.k] == pytest.approx(expected)
    assert tokens[found.k - 1] == one.tokens_per_step


@given(curves(), st.floats(0.1, 1.0), st.lists(st.integers(1, 50), min_size=2, max_size=9))
def test_measured_tokens_per_step_lie_in_their_interval(found: AcceptanceCurve, share: float, parts: list[int]) -> None:
    """Whatever the counts are; the interval is that of the horizon, over single steps where nothing else tells one."""
    value = 1 / (1 - share + share / found.acceptance_length.value)
    sampled = AcceptanceCurve(pool([found.counts] * len(parts)), (found.counts,) * len(parts), "prompts")
    decoded = [part * found.counts.drafts for part in parts]
    one = tokens_per_step(value, sampled, decoded)
    [*_, row] = horizons([Measured(found.k, value, (), sampled, tuple(decoded))])

    assert one == row.tokens_per_step
    assert one.low is not None
    assert one.high is not None
    assert 1 <= one.low <= value <= one.high <= found.k + 1 + 1e-9
    alone = tokens_per_step(value, found, ())
    assert alone.low is not None
    assert alone.high is not None
    assert 1 <= alone.low <= value <= alone.high <= found.k + 1 + 1e-9


@pytest.mark.parametrize("value", [0.0, 0.5, 5.5])
def test_tokens_per_step_that_no_step_gives_have_no_interval(value: float) -> None:
    """A step of k=4 gives 1 to 5 tokens."""
    assert tokens_per_step(value, curve(K4, 3478), ()) == Estimate(value)


MEASURED: Final = {
    1: (1260, 928, SpeculationDelta(444, 444, 344, (344,))),
    2: (1260, 834, SpeculationDelta(350, 700, 454, (250, 204))),
    4: (1260, 748, SpeculationDelta(264, 1046, 550, (172, 136, 126, 116))),
    7: (1260, 706, SpeculationDelta(222, 1492, 598, (138, 94, 88, 78, 70, 66, 64))),
}
"""Tokens decoded, decode steps and drafts of a window of vLLM with n-gram drafts at c=1, by horizon."""


def test_the_share_of_tokens_that_drafts_give_does_not_depend_on_k() -> None:
    """Of a real window: the share of steps that draft falls from 48 % to 31 %, that of tokens stays at 60 %."""
    steps = [counts.drafts / steps for _, steps, counts in MEASURED.values()]
    lengths = [AcceptanceCurve(counts).acceptance_length.value for _, _, counts in MEASURED.values()]
    saved = [1 - steps / decoded for decoded, steps, _ in MEASURED.values()]
    tokens = [one / (1 - 1 / length) for one, length in zip(saved, lengths, strict=True)]

    assert steps == pytest.approx([0.478, 0.420, 0.353, 0.314], abs=0.001)
    assert lengths == pytest.approx([1.775, 2.297, 3.083, 3.694], abs=0.001)
    assert tokens == pytest.approx([0.60] * 4, abs=0.005)


@pytest.mark.parametrize(("longest", "shorter"), [(7, (1, 2, 4)), (4, (1, 2))])
def test_a_long_horizon_tells_the_tokens_per_step_of_shorter_ones(longest: int, shorter: Sequence[int]) -> None:
    """Within 5 % of what the same window measured, with drafts in a third of the steps."""
    decoded, steps, counts = MEASURED[longest]
    found = by_k(horizons([Measured(longest, decoded / steps, (), AcceptanceCurve(counts))]))
    told = {k: found[k].tokens_per_step.value for k in shorter}

    assert told == pytest.approx({k: MEASURED[k][0] / MEASURED[k][1] for k in shorter}, rel=0.05)
    for k in shorter:
        one = found[k].tokens_per_step
        assert one.low is not None
        assert one.high is not None
        assert one.low < MEASURED[k][0] / MEASURED[k][1] < one.high
    assert found[longest].tokens_per_step.value == decoded / steps


def test_an_interval_from_a_longer_curve_holds_what_boots_without_samples_measured() -> None:
    """Of a real window at c=32 in which requests told nothing: k=4 gave 1.888 tokens a step, and k=7 alone tells it.

    Products say 1.816 there, and boots that repeat each other say nothing of how sure that is.
    """
    counts = SpeculationDelta(2832, 19608, 9606, (1883, 1413, 1325, 1195, 1133, 1079, 1025))
    counts = dataclasses.replace(counts, accepted_tokens=sum(counts.accepted_per_position))
    boots = AcceptanceCurve(pool([counts] * 2), (counts,) * 2, "boots", boots=2)
    four = by_k(horizons([Measured(7, 2.036, (), boots, (8064, 8064))]))[4].tokens_per_step

    assert four.value == pytest.approx(1.82, abs=0.01)
    assert four.low is not None
    assert four.high is not None
    assert four.low < four.value < 1.888 < four.high < 2.0


def _prompts(random: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return drafts and accepted tokens by position, and tokens decoded, of prompts that differ in all of these."""
    drafts = 8 + random.poisson(12, count)
    acceptance = random.beta(4, 2, count)
    columns = [drafts]
    for _ in range(4):
        columns.append(random.binomial(columns[-1], acceptance))
    found = np.stack(columns, axis=1)
    return found, found.sum(axis=1) + random.poisson(random.gamma(1.5, 20, count))


def _tokens_of(counts: np.ndarray, decoded: np.ndarray, k: int) -> float:
    """Return the tokens per step that drafts of k give these prompts."""
    share, length = counts.sum() / decoded.sum(), counts[:, : k + 1].sum() / counts[:, 0].sum()
    return float(1 / (1 - share + share / length))


def _told_by(counts: np.ndarray, decoded: np.ndarray) -> dict[int, Horizon]:
    """Return the horizons that these prompts tell of, as a window of k=4."""
    samples = [SpeculationDelta(row[0], 4 * row[0], sum(row[1:]), tuple(row[1:])) for row in counts.tolist()]
    found = AcceptanceCurve(pool(samples), tuple(samples), "prompts")
    own = tuple(decoded.tolist())
    return by_k(horizons([Measured(4, sum(own) / (sum(own) - found.counts.accepted_tokens), (), found, own)]))


def test_intervals_of_tokens_per_step_hold_the_truth() -> None:
    """In 95 % of windows of 16 prompts, within what 300 windows tell: prompts differ in how often they draft, too."""
    random = np.random.default_rng(7)
    truth = {k: _tokens_of(*_prompts(random, 400_000), k) for k in (1, 2, 4)}
    windows = [_told_by(*_prompts(random, 16)) for _ in range(300)]
    held = dict.fromkeys(truth, 0)
    for found, k in itertools.product(windows, truth):
        low, high = found[k].tokens_per_step.low, found[k].tokens_per_step.high
        assert low is not None
        assert high is not None
        held[k] += low <= truth[k] <= high

    assert {k: count for k, count in held.items() if not 270 <= count <= 299} == {}


def test_where_requests_tell_nothing_single_steps_do() -> None:
    """One boot without samples: as if steps were independent in whether they draft and in what they accept."""
    seldom, always = measured((800, 400), 1000, tokens=1.5), measured((800, 400), 1000)
    (_, part), (_, whole) = horizons([seldom]), horizons([always])
    length = curve((800, 400), 1000).acceptance_length
    # 1000 of 2400 steps draft, and accept 2, 1 or 0 tokens in 400, 400 and 200 of them.
    half = 1.959963985 * math.sqrt((400 * 4 + 400) / 2400 - 0.5**2) / math.sqrt(2400)
    ends = [part.tokens_per_step.low, part.tokens_per_step.high]

    assert (part.tokens_per_step.value, part.tokens_from) == (1.5, "measured")
    assert ends == pytest.approx([1.5 - half, 1.5 + half], abs=0.001)
    assert whole.tokens_per_step.low == pytest.approx(length.low)
    assert whole.tokens_per_step.high == pytest.approx(length.high)


@given(curves(), st.floats(0.5, 12.0))
def test_figures_that_contradict_each_other_break_nothing(found: AcceptanceCurve, tokens: float) -> None:
    """Tokens per step of counters may be of other traffic than their drafts: 1 token at least, or what was measured."""
    rows = horizons([Measured(found.k, tokens, (), found)], up_to=found.k + 2)

    assert all(row.tokens_per_step.value >= 1 or row.k == found.k for row in rows)
    assert all(math.isfinite(row.tokens_per_step.value) for row in rows)


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=4), st.lists(st.floats(0.001, 1.0), min_size=1, max_size=4))
def test_a_speed_is_tokens_over_time(before: list[float], after: list[float]) -> None:
    """Of each horizon, measured or not; its interval holds it."""
    for row in horizons([off(*before), measured((80, 50, 20), 100, times=after)]):
        assert row.step_time_s is not None
        assert row.speed_tokens_per_s is not None
        speed = row.speed_tokens_per_s
        assert speed.value == pytest.approx(row.tokens_per_step.value / row.step_time_s.value)
        assert (speed.low is None) == (min(len(before), len(after)) < 2 and _lies_between_single(row, before, after))
        assert speed.low is None or speed.high is None or speed.low <= speed.value <= speed.high


def _lies_between_single(row: Horizon, before: list[float], after: list[float]) -> bool:
    """Whether a step time that a horizon rests on is of a single boot."""
    rests_on = {0: [before], 3: [after]}.get(row.k, [before, after])
    return any(len(times) < 2 for times in rests_on)


def test_a_shorter_horizon_is_told_by_the_nearest_longer_curve() -> None:
    """k=3 by the curve of k=4, k=5 by that of k=7; what was measured is called measured."""
    found = by_k(horizons([measured(K7, 60944), measured(K4, 3478)]))

    assert sorted(found) == [1, 2, 3, 4, 5, 6, 7]
    assert found[3].tokens_per_step.value == pytest.approx(1 + sum(K4[:3]) / 3478)
    assert found[5].tokens_per_step.value == pytest.approx(1 + sum(K7[:5]) / 60944)
    assert [found[k].tokens_from for k in (3, 4, 5, 7)] == ["from the curve", "measured", "from the curve", "measured"]
    assert all(one.is_measured == (one.k in {4, 7}) for one in found.values())
    assert {one.speed_tokens_per_s for one in found.values()} == {None}


def test_step_times_lie_on_lines_between_what_was_measured() -> None:
    """Between off and k=2, and between k=2 and k=4; beyond, on the line of the two longest, without an interval."""
    rows = [
        off(0.010, 0.010),
        measured((8, 4), 10, times=(0.014, 0.014)),
        measured((8, 4, 2, 1), 10, times=(0.022,) * 2),
    ]
    found = by_k(horizons(rows, up_to=6))
    times = {k: one.step_time_s.value for k, one in found.items() if one.step_time_s is not None}

    assert times == pytest.approx({0: 0.010, 1: 0.012, 2: 0.014, 3: 0.018, 4: 0.022, 5: 0.026, 6: 0.030})
    assert [found[k].step_from for k in (0, 1, 2, 6)] == ["measured", "interpolated", "measured", "extrapolated"]
    assert (found[0].tokens_per_step, found[0].is_measured) == (Estimate(1.0, 1.0, 1.0), True)
    assert found[6].step_time_s is not None
    assert (found[6].step_time_s.low, found[6].step_time_s.high) == (None, None)
    assert (found[6].tokens_from, found[6].tokens_per_step.low) == ("extrapolated", None)
    assert found[6].speed_tokens_per_s is not None
    assert found[6].speed_tokens_per_s.low is None


def test_a_line_that_falls_is_not_carried_on_through_zero() -> None:
    """Where the noise has the longer of two horizons cheaper, further ones are no cheaper than that."""
    rows = [measured((8,), 10, times=(0.75,)), measured((8, 4), 10, times=(0.5,))]
    found = horizons(rows, up_to=9)

    assert [one.step_time_s for one in found[2:]] == [Estimate(0.5)] * 7
    assert all(one.speed_tokens_per_s is not None and one.speed_tokens_per_s.value > 0 for one in found)


def test_a_line_from_off_is_not_carried_on() -> None:
    """A first draft token costs more than a further one, so two times of which one is off tell nothing beyond."""
    found = by_k(horizons([off(0.010), measured((8, 4), 10, times=(0.014,))], up_to=3))

    assert (found[3].step_time_s, found[3].step_from, found[3].speed_tokens_per_s) == (None, None, None)
    assert found[1].step_time_s is not None
    assert found[1].step_time_s.value == pytest.approx(0.012)
    assert found[1].step_time_s.low is None


def test_the_first_draft_token_may_cost_as_much_as_all() -> None:
    """Of a real window: the line from off to k=4 says 148.7 ms for k=1; it took 180.9, which the interval holds."""
    noise = declared_noise(0.04)
    known = [
        Measured(0, 1.0, (0.1128, 0.1128), None, noise=noise),
        dataclasses.replace(measured((2536, 2006, 1869, 1721), 3513, times=(0.2562, 0.2562)), noise=noise),
    ]
    one, four = (by_k(horizons(known))[k] for k in (1, 4))

    assert one.step_time_s is not None
    assert four.step_time_s is not None
    assert one.step_time_s.value == pytest.approx(0.1128 + (0.2562 - 0.1128) / 4)
    assert one.step_time_s.high == four.step_time_s.high
    assert one.step_time_s.low is not None
    assert one.step_time_s.low < 0.1809 < (one.step_time_s.high or 0)
    speed = one.speed_tokens_per_s
    assert speed is not None
    assert speed.low is not None
    assert speed.high is not None
    assert speed.low < one.tokens_per_step.value / 0.1809 < speed.value < speed.high
    assert speed.value - speed.low > 2 * (speed.high - speed.value)


def test_a_curve_is_carried_on_with_its_last_conditional_acceptance() -> None:
    """Half of the drafts pass each position: 1 + 1/2 + 1/4, and further 1/8 and 1/16."""
    found = by_k(horizons([measured((8, 4), 16)], up_to=4))

    assert found[4].tokens_per_step.value == pytest.approx(1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16)


def test_where_nothing_was_accepted_more_of_it_gives_nothing() -> None:
    """One token a step, whatever k is."""
    assert {row.tokens_per_step.value for row in horizons([measured((0, 0), 16)], up_to=4)} == {1.0}


def test_what_cannot_be_told_is_refused() -> None:
    """Horizons without a curve, twice the same one, and lengths that are a slip of the finger."""
    one = measured((8, 4), 16)
    with pytest.raises(UsageError, match="no arm speculates here"):
        horizons([off(0.1)])
    with pytest.raises(UsageError, match="a horizon is there twice: k=2, k=2"):
        horizons([one, one])
    for length in (0, LONGEST_HORIZON + 1):
        with pytest.raises(UsageError, match=f"write 1 to {LONGEST_HORIZON}"):
            horizons([one], up_to=length)


def test_what_was_measured_is_told_however_long_it_is() -> None:
    """The limit is for horizons that somebody asks for, and takes nothing from a window of k=100."""
    one = measured((8,) * 100, 16)

    assert [row.k for row in horizons([one], up_to=100)] == [row.k for row in horizons([one])] == [*range(1, 101)]
    with pytest.raises(UsageError, match="up to k=101: write 1 to 100"):
        horizons([one], up_to=101)


def test_boots_tell_how_sure_a_time_is() -> None:
    """The geometric mean, and Student's t of the logarithms; a single boot tells no interval."""
    found = over_boots((0.010, 0.0121))
    half = 12.706204736 * math.log(1.21) / 2

    assert found.value == pytest.approx(0.011)
    assert [found.low, found.high] == pytest.approx([0.011 * math.exp(-half), 0.011 * math.exp(half)])
    assert (over_boots((0.25,)).low, over_boots((0.25,)).high) == (None, None)
    assert over_boots((0.25,)).value == pytest.approx(0.25)


def test_a_known_noise_is_pooled_with_how_boots_differ() -> None:
    """Two boots alone have one degree of freedom, and t = 12.7; a floor of 5 % is worth five more."""
    noise = declared_noise(0.05)
    variance = (5 * noise.sigma**2 / 2 + 2 * (math.log(1.02) / 2) ** 2) / 6
    found = over_boots((1.0, 1.02), noise=noise)
    single = over_boots((1.0,), noise=noise)

    alone = over_boots((1.0, 1.02))
    for one, half in (
        (found, 2.446911849 * math.sqrt(variance / 2)),
        (single, 2.570581836 * noise.sigma / math.sqrt(2)),
        (alone, 12.706204736 * math.log(1.02) / 2),
    ):
        assert one.log_distances == pytest.approx((half, half))


def test_step_times_of_a_single_boot_have_an_interval_where_their_noise_is_known() -> None:
    """So has what lies between two of them."""
    noise = declared_noise(0.05)
    before, after = off(0.010), measured((8, 4), 10, times=(0.014,))
    rows = horizons([dataclasses.replace(one, noise=noise) for one in (before, after)])

    assert [row.step_time_s is not None and row.step_time_s.low is not None for row in rows] == [True] * 3
