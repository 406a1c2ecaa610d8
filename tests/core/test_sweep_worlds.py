"""Worlds in which it is known who wins: no prediction of a sweep may rule the fastest horizon out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.acceptance import AcceptanceCurve
from pytest_specgate.core.arms import Arm, arms_of
from pytest_specgate.core.horizon import Measured
from pytest_specgate.core.horizon_records import DrafterHorizons
from pytest_specgate.core.records import WindowRecord
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.sweep_decision import _not_promising
from pytest_specgate.core.sweeps import arm_sweep
from tests.core.test_sweeps import FLOORS, LOAD, OFF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.levels import Level


def _spec(k: int) -> Arm:
    return OFF.vary(f"k{k}", args={"speculative_config": {"method": "ngram", "num_speculative_tokens": k}})


@dataclasses.dataclass(frozen=True)
class _World:
    """What horizons really give and cost.

    Attributes:
        ks: horizons.
        times: seconds of a step at the shortest, and of every draft token beyond the free ones, by level.
        free: draft tokens that cost nothing.
        curve: exact acceptance.
        most: horizons that may be booted.
    """

    ks: tuple[int, ...]
    times: Mapping[Level, tuple[float, float]]
    free: int
    curve: AcceptanceCurve
    most: int

    def step_s(self, k: int, at: Level) -> float:
        base, each = self.times[at]
        return base + each * max(0, k - self.free)

    def tokens(self, k: int) -> float:
        return self.curve.length_at(k).value if k else 1.0

    def speeds(self, at: Level) -> dict[int, float]:
        return {k: self.tokens(k) / self.step_s(k, at) for k in (0, *self.ks)}

    def measured(self, k: int, at: Level) -> Measured:
        return Measured(k, self.tokens(k), (self.step_s(k, at),) * 2, self.curve if k else None)

    def never_booted(self) -> set[int]:
        """Return the horizons that are ruled out once both scouts were booted."""
        sweep = arm_sweep(OFF, _spec, ks=self.ks, profile=LOAD, noise=FLOORS, most=self.most)
        last = self.ks[-1]
        found = DrafterHorizons(
            window="here", drafter="ngram", identity="", arms={0: "off", last: f"k{last}"},
            measured={at: (self.measured(0, at), self.measured(last, at)) for at in self.times},
            figures=(), noise={name: floor.noise for name, floor in FLOORS.items()},
        )  # fmt: skip
        record = WindowRecord(
            created_at="", finished=False, arms=arms_of(sweep.pairs), pairs=(), profile=LOAD, host={}, engine={}
        )
        # The scouts were booted, and are nobody who could be ruled out by a prediction.
        out = _not_promising(sweep, record, found, kept={f"k{last}"})
        return {int(name.removeprefix("k")) for name in out}


@st.composite
def _worlds(draw: st.DrawFn) -> _World:
    """Return horizons whose steps cost by the token."""
    ks = tuple(sorted(draw(st.sets(st.integers(1, 12), min_size=2, max_size=6))))
    accepted, left = [], 10_000
    for _ in range(ks[-1]):
        left = draw(st.integers(0, left))
        accepted.append(left)
    delta = SpeculationDelta(10_000, 10_000 * ks[-1], sum(accepted), tuple(accepted))
    times: dict[Level, tuple[float, float]] = {
        at: (draw(st.floats(0.001, 0.1)), draw(st.floats(0, 0.05))) for at in (1, 8)
    }
    return _World(ks, times, 0, AcceptanceCurve(delta), draw(st.integers(2, 4)))


@given(world=_worlds())
def test_the_fastest_is_never_ruled_out_where_steps_cost_by_the_token(world: _World) -> None:
    """Neither at the lowest load nor at the highest: exact acceptance and a straight line leave no room for it."""
    assert not _clearly_fastest(world) & world.never_booted()


@given(world=_worlds(), free=st.integers(0, 12))
def test_the_fastest_is_never_ruled_out_where_steps_rise_late(world: _World, free: int) -> None:
    """The first tokens of a draft may cost nothing: where there is room for all, no prediction drops the winner."""
    late = dataclasses.replace(world, free=free, most=len(world.ks) + 1)

    assert not _clearly_fastest(late) & late.never_booted()


def test_a_short_horizon_that_costs_nothing_wins_against_a_steep_line() -> None:
    """Two tokens for the time of one, beside 12 of which 10 cost: the line to k=12 would have called it slow."""
    counts = (9_900, 100, *[0] * 10)
    curve = AcceptanceCurve(SpeculationDelta(10_000, 120_000, sum(counts), counts))
    world = _World((1, 12), {1: (0.01, 0.05), 8: (0.01, 0.05)}, 2, curve, 2)

    assert _clearly_fastest(world) == {1}
    assert world.never_booted() == set()


def _clearly_fastest(world: _World) -> set[int]:
    """Return who is fastest at one of both levels, by more than a rounding error."""
    return {max(own, key=own.__getitem__) for at in world.times if _is_clear([*(own := world.speeds(at)).values()])}


def _is_clear(speeds: Sequence[float]) -> bool:
    """Whether one is faster than all others by more than a rounding error."""
    first, second, *_ = sorted(speeds, reverse=True)
    return first > 1.000001 * second
