"""The factored verdict: what a speed is made of, and which part of it moved."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_specgate.core import counters
from pytest_specgate.core.factors import (
    DECODING,
    STEPS_PER_SECOND,
    TOKENS_PER_STEP,
    Factors,
    factors,
    names_of,
)
from pytest_specgate.core.metrics import METRICS
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise
from pytest_specgate.core.plan import Plan
from tests.core.conftest import STEP_COUNT, STEP_SUM

if TYPE_CHECKING:
    from pytest_specgate.core.records import PointRecord
    from tests.core.conftest import Build

KNOWN = Noise(0.01, 10.0)
ALL = (TOKENS_PER_STEP, STEPS_PER_SECOND, DECODING)


@dataclasses.dataclass(frozen=True)
class Counted:
    """What a server counts at a point, and how long the point lasts."""

    tokens: int = 1000
    steps: int = 500
    seconds: float = 20.0
    span: float = 5.0

    def point(self, build: type[Build]) -> PointRecord:
        """Return a point of one long answer with these counters."""
        zeros = dict.fromkeys((counters.GENERATION_TOKENS, counters.FIRST_TOKENS, STEP_COUNT, STEP_SUM), 0.0)
        rises = {
            counters.GENERATION_TOKENS: self.tokens + 1.0,
            counters.FIRST_TOKENS: 1.0,
            STEP_COUNT: float(self.steps),
            STEP_SUM: self.seconds,
        }
        point = build.point([build.request(last_token_s=self.span, closed_s=self.span)])
        before, after = (build.page(values, finished={"length": 0}) for values in (zeros, rises))
        return point.model_copy(update={"before": before, "after": after})


COUNTED = st.builds(
    Counted,
    tokens=st.integers(1, 10**6),
    steps=st.integers(1, 10**6),
    seconds=st.floats(0.01, 1e4),
    span=st.floats(0.01, 1e4),
)


def _split(
    build: type[Build],
    *rounds: tuple[Counted, Counted],
    name: str = "output_throughput",
    gated: float = 0.0,
    noise: Noise = KNOWN,
    plan: Plan | None = None,
) -> Factors | None:
    return factors(
        name,
        [(reference.point(build), candidate.point(build)) for reference, candidate in rounds],
        gated=gated,
        noise=dict.fromkeys(ALL, noise),
        plan=plan or Plan((2, 4, 6)),
        candidate_first=[i % 2 == 1 for i in range(len(rounds))],
    )


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("output_throughput", ALL),
        ("output_throughput_per_gpu", ALL),
        ("decode_rate_p50", ALL[:2]),
        ("tpot_mean", ALL[:2]),
        ("tpot_pooled", ALL[:2]),
        ("tpot_p99", ALL[:2]),
        ("ttft_p50", ()),
        ("e2e_mean", ()),
        ("request_throughput", ()),
        ("step_time", ()),
        ("tokens_per_step", ()),
    ],
)
def test_factors_of_a_metric(name: str, names: tuple[str, ...]) -> None:
    """A decode speed has two factors, output throughput a third one, and what is no decode speed has none."""
    assert name in METRICS
    assert names_of(name) == names


def test_levels_of_the_factors(build: type[Build]) -> None:
    """Each factor has its level in both arms: tokens per step, steps per second, and sequences decoding at a time."""
    found = _split(build, (Counted(1000, 500, 20.0, 5.0), Counted(1500, 500, 25.0, 5.0)))

    assert found is not None
    assert [one.name for one in found.factors] == [TOKENS_PER_STEP, STEPS_PER_SECOND, DECODING]
    assert [one.reference for one in found.factors] == pytest.approx([2.0, 25.0, 4.0])
    assert [one.candidate for one in found.factors] == pytest.approx([3.0, 20.0, 5.0])
    means = [math.log(3 / 2), math.log(20 / 25), math.log(5 / 4)]
    assert [one.mean for one in found.factors] == pytest.approx(means)


def test_levels_are_geometric_means_over_rounds(build: type[Build]) -> None:
    """The levels shown have the mean change as their ratio: 1 and 4 make 2, and a tenfold change is tenfold."""
    slow, fast = (
        (Counted(tokens=100), Counted(tokens=1000)),
        (Counted(tokens=400), Counted(tokens=4000)),
    )

    found = _split(build, slow, fast)

    assert found is not None
    first = found.factors[0]
    assert (first.reference, first.candidate) == pytest.approx((200 / 500, 2000 / 500))
    assert first.mean == pytest.approx(math.log(10))


@given(rounds=st.lists(st.tuples(COUNTED, COUNTED), min_size=1, max_size=4), gated=st.floats(-1, 1))
def test_factors_of_a_throughput_add_up(
    build: type[Build], rounds: list[tuple[Counted, Counted]], *, gated: float
) -> None:
    """Three factors make up the change of decoded tokens per second of a point; what is left is the residual."""
    found = _split(build, *rounds, gated=gated)

    assert found is not None
    ratios = [math.log((b.tokens / b.span) / (a.tokens / a.span)) for a, b in rounds]
    total = math.fsum(one.mean for one in found.factors)
    assert total == pytest.approx(math.fsum(ratios) / len(ratios), abs=1e-9)
    assert total + found.residual == pytest.approx(gated, abs=1e-9)


@given(rounds=st.lists(st.tuples(COUNTED, COUNTED), min_size=1, max_size=4), name=st.sampled_from(["tpot_mean"]))
def test_factors_of_a_decode_speed_add_up(
    build: type[Build], rounds: list[tuple[Counted, Counted]], *, name: str
) -> None:
    """The changes of two factors are that of decoded tokens per second of decoding: nothing is left of that speed."""
    ratios = [math.log((b.tokens / b.seconds) / (a.tokens / a.seconds)) for a, b in rounds]

    found = _split(build, *rounds, name=name, gated=math.fsum(ratios) / len(ratios))

    assert found is not None
    assert len(found.factors) == 2
    assert found.residual == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("name", "count"), [("output_throughput", 3), ("decode_rate_p50", 2)])
@pytest.mark.parametrize("looks", [(2,), (2, 4, 6)])
def test_intervals_of_factors(build: type[Build], name: str, *, count: int, looks: tuple[int, ...]) -> None:
    """The interval of a factor is two-sided at 5 % shared by the looks; that it moved is shared by the factors too."""
    slight = Counted(tokens=1010), Counted(tokens=1020)
    error = math.sqrt((math.log(1020 / 1010) ** 2 / 2 + 10e-4) / 11 / 2)
    half, strict = (error * float(stats.t.isf(0.05 / (2 * len(looks) * share), 11)) for share in (1, count))

    found = _split(build, *((Counted(), slight[i]) for i in range(2)), name=name, plan=Plan(looks, family=9))

    assert found is not None
    change = found.factors[0].change
    assert change is not None
    assert (change.high - change.mean, change.mean - change.low) == pytest.approx((half, half), rel=1e-9)
    assert found.factors[0].moved == (change.mean > strict)


@pytest.mark.parametrize(("share", "moved"), [(1.01, True), (0.99, False)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_factor_that_moved(build: type[Build], share: float, *, sign: int, moved: bool) -> None:
    """A factor has moved, up or down, when the stricter of its intervals excludes zero."""
    # Two equal rounds: the calibrated variance over 11 degrees of freedom, three looks, three factors.
    strict = float(stats.t.isf(0.05 / (2 * 3 * 3), 11)) * math.sqrt(10e-4 / 11 / 2)
    seconds = 20.0 * math.exp(-sign * share * strict)
    steady = Counted(), Counted(seconds=seconds, span=5.0 * seconds / 20.0)

    found = _split(build, steady, steady)

    assert found is not None
    assert [one.moved for one in found.factors] == [False, moved, False]


def test_a_shown_change_need_not_have_moved(build: type[Build]) -> None:
    """A change between the two levels has an interval without zero, and is not called moved."""
    loose, strict = (float(stats.t.isf(0.05 / (6 * n), 11)) * math.sqrt(10e-4 / 11 / 2) for n in (1, 3))
    seconds = 20.0 * math.exp(-(loose + strict) / 2)
    steady = Counted(), Counted(seconds=seconds)

    found = _split(build, steady, steady)

    assert found is not None
    change = found.factors[1].change
    assert change is not None
    assert change.excludes_zero
    assert not found.factors[1].moved


def test_each_factor_has_its_own_noise(build: type[Build]) -> None:
    """What is known of the noise of one factor says nothing of another."""
    both = Counted().point(build), Counted(tokens=1050, steps=525).point(build)

    found = factors(
        "decode_rate_p50",
        [both, both],
        gated=0.0,
        noise={TOKENS_PER_STEP: Noise(0.2, 10.0), STEPS_PER_SECOND: Noise(0.001, 10.0)},
        plan=Plan((2,)),
        candidate_first=[False, True],
    )

    assert found is not None
    assert [one.moved for one in found.factors] == [False, True]
    widths = [one.change.high - one.change.low for one in found.factors if one.change is not None]
    assert widths[0] > 100 * widths[1]


def test_a_drift_is_left_out_of_factors(build: type[Build]) -> None:
    """The order of boots is known to every factor: a drift that it cancels does not widen its interval."""
    rounds = [(Counted(), Counted(seconds=20.0 * math.exp(x))) for x in (0.0098, -0.0102, 0.01, -0.0097)]

    found = _split(build, *rounds, noise=UNKNOWN_NOISE, plan=Plan((4,)))

    assert found is not None
    change = found.factors[1].change
    assert change is not None
    assert change.high - change.low == pytest.approx(2 * 4.302653 * 0.0005 / 2, rel=1e-5)


@pytest.mark.parametrize("looks", [(), (1,)])
def test_a_round_of_unknown_noise_has_levels_only(build: type[Build], looks: tuple[int, ...]) -> None:
    """One round without any variance shows levels and changes, no interval, and nothing has moved."""
    found = _split(build, (Counted(), Counted(tokens=5000)), noise=UNKNOWN_NOISE, plan=Plan(looks))

    assert found is not None
    assert [(one.change, one.moved) for one in found.factors] == [(None, False)] * 3
    assert found.factors[0].mean == pytest.approx(math.log(5))


def test_without_looks_the_level_is_that_of_one(build: type[Build]) -> None:
    """A plan that never decides has intervals at the full level: they are descriptive."""
    steady = Counted(), Counted(seconds=19.0)

    none, one = (_split(build, steady, steady, plan=Plan(looks)) for looks in ((), (2,)))

    assert none is not None
    assert none == one


@pytest.mark.parametrize("name", ["ttft_p50", "request_throughput"])
def test_what_is_no_speed_has_no_factors(build: type[Build], name: str) -> None:
    """A metric that does not come from decode steps is not split."""
    assert _split(build, (Counted(), Counted()), name=name) is None


@pytest.mark.parametrize(
    "strange", [Counted(tokens=0), Counted(steps=0), Counted(seconds=0.0), Counted(steps=0, seconds=0.0)]
)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["output_throughput", "decode_rate_p50"])
def test_a_factor_of_nothing_is_not_shown(build: type[Build], strange: Counted, *, first: bool, name: str) -> None:
    """Case 93: where nothing was decoded in a round of an arm, no factor is made up, and nothing is divided by zero."""
    both = (strange, Counted()) if first else (Counted(), strange)

    assert _split(build, (Counted(), Counted()), both, name=name) is None


def test_counters_that_do_not_tell(build: type[Build]) -> None:
    """A server without decode steps has no factors; neither has a point in which nothing completed."""
    point = Counted().point(build)
    blind = point.model_copy(update={"after": point.after.model_copy(update={"samples": point.after.samples[:2]})})
    empty = point.model_copy(update={"requests": (build.failed(),)})

    found = [
        factors(
            "output_throughput",
            [(point, other)],
            gated=0.0,
            noise=dict.fromkeys(ALL, KNOWN),
            plan=Plan((1,)),
            candidate_first=[False],
        )
        for other in (point, blind, empty)
    ]

    assert found[0] is not None
    assert found[1:] == [None, None]


def test_speculation_in_the_factors(build: type[Build]) -> None:
    """2.5 tokens per step in as much time show as 2.5 times the tokens per step and as fewer steps per second."""
    window = build.window(build.pair(), [1.0, 1.0], [1.25, 1.25])
    rounds = window.rounds_of(build.pair())
    both = [(left.points[0], right.points[0]) for left, right in rounds]

    found = factors(
        "decode_rate_p50",
        both,
        gated=math.log(1.25),
        noise=dict.fromkeys(ALL, KNOWN),
        plan=Plan((2, 4, 6)),
        candidate_first=[False, True],
    )

    assert found is not None
    assert [one.mean for one in found.factors] == pytest.approx([math.log(2.5), math.log(1.25 / 2.5)])
    assert found.residual == pytest.approx(0.0, abs=1e-12)
