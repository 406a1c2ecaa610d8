"""Draft horizons: where a curve has its knee, and what each k promises."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.acceptance import AcceptanceCurve, Estimate
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.horizon import MOST, Measured, crossing, horizons, over_boots
from pytest_specgate.core.speculation import SpeculationDelta

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
    """1 + s * (c_1 + c_1 c_2 + ...), with s of the measured horizon."""
    length = found.acceptance_length.value
    one = Measured(found.k, 1 + share * (length - 1), (), found)
    tokens = [row.tokens_per_step.value for row in horizons([one], up_to=found.k + 3)]
    products = itertools.accumulate((c or 0.0 for c in found.conditional), lambda a, b: a * b)
    expected = [1 + share * total for total in itertools.accumulate(products)]

    assert tokens == sorted(tokens)
    assert tokens[: found.k] == pytest.approx(expected)
    assert tokens[found.k - 1] == pytest.approx(one.tokens_per_step)


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


def test_a_line_from_off_is_not_carried_on() -> None:
    """A first draft token costs more than a further one, so two times of which one is off tell nothing beyond."""
    found = by_k(horizons([off(0.010), measured((8, 4), 10, times=(0.014,))], up_to=3))

    assert (found[3].step_time_s, found[3].step_from, found[3].speed_tokens_per_s) == (None, None, None)
    assert found[1].step_time_s is not None
    assert found[1].step_time_s.value == pytest.approx(0.012)
    assert found[1].step_time_s.low is None


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
    for length in (0, MOST + 1):
        with pytest.raises(UsageError, match=f"write 1 to {MOST}"):
            horizons([one], up_to=length)


def test_boots_tell_how_sure_a_time_is() -> None:
    """The geometric mean, and Student's t of the logarithms; a single boot tells no interval."""
    found = over_boots((0.010, 0.0121))
    half = 12.706204736 * math.log(1.21) / 2

    assert found.value == pytest.approx(0.011)
    assert [found.low, found.high] == pytest.approx([0.011 * math.exp(-half), 0.011 * math.exp(half)])
    assert (over_boots((0.25,)).low, over_boots((0.25,)).high) == (None, None)
    assert over_boots((0.25,)).value == pytest.approx(0.25)
