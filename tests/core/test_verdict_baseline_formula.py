"""Verdicts about a baseline against the formulas of the rule across windows, computed anew with another library."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_specgate.core.baselines import BaselineValues
from pytest_specgate.core.judge import judge
from pytest_specgate.core.thresholds import NoiseFloor
from tests.core.test_baseline_update import day

if TYPE_CHECKING:
    from pytest_specgate.core.baselines import BaselineFile
    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.core.conftest import Build

UNIT = {"ttft_p50": 0.1, "decode_rate_p50": 10.0}
"""Value of a metric at speed 1; a time falls with the speed, a rate rises."""

LEAST_SD = 0.0005
"""No interval is built on less than 0.05 % a round."""

Window = list[tuple[float, float]]
"""Logarithms of the speeds of reference and candidate, round by round."""

PACE = st.floats(-0.1, 0.1)
WINDOWS = st.lists(st.lists(st.tuples(PACE, PACE), min_size=1, max_size=3), min_size=1, max_size=5)


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """What the formulas say: signed difference, bounds, and the word."""

    difference: float
    lower: float | None
    upper: float | None
    word: str


def _level(window: Window, *, mode: str) -> float:
    return statistics.fmean(candidate - (reference if mode == "relative" else 0) for reference, candidate in window)


def expected(  # noqa: PLR0913  - the symbols of one formula
    today: Window, windows: list[Window], *, mode: str, delta: float, floor: float | None, family: int
) -> Expected:
    """Compute bounds by the formulas alone; speeds are signed already, since more speed is better by either metric."""
    levels = [_level(window, mode=mode) for window in windows]
    difference = _level(today, mode=mode) - statistics.fmean(levels)
    count = len(windows)
    if count >= 3:
        rounds = statistics.harmonic_mean([len(window) for window in windows])
        between = max(statistics.variance(levels), LEAST_SD**2 / rounds)
        short = max(0.0, 1 / len(today) - 1 / rounds)
        if short > 0 and len(today) == 1:
            return Expected(difference, None, None, "INCONCLUSIVE")
        own = statistics.variance([c - r for r, c in today]) if len(today) > 1 else 0.0
        within = max(own, LEAST_SD**2) / (2 if mode == "absolute" else 1)
        variance, df = between * (1 + 1 / count) + within * short, count - 1.0
    elif floor is not None:
        variance, df = (math.log1p(floor) / 1.959964) ** 2 / 2 * (1 + 1 / count), 5.0
    else:
        return Expected(difference, None, None, "INCONCLUSIVE")
    lower = difference - float(stats.t.ppf(0.95, df)) * math.sqrt(variance)
    upper = difference + float(stats.t.ppf(1 - 0.05 / family, df)) * math.sqrt(variance)
    word = "PASS" if lower >= -delta - 1e-9 else "FAIL" if upper < -delta - 1e-9 else "INCONCLUSIVE"
    return Expected(difference, lower, upper, word)


def _file(build: type[Build], gate: Any, windows: list[Window], *, metric: str) -> BaselineFile:
    """Return a baseline that holds some windows of any figures."""
    made = build.accepted(gate, day(build, 2, 1.0))
    [entry] = made.entries.values()
    sign = 1 if metric == "decode_rate_p50" else -1
    values = tuple(
        BaselineValues(
            window=f"w{number}",
            reference=tuple(UNIT[metric] * math.exp(sign * reference) for reference, _ in window),
            candidate=tuple(UNIT[metric] * math.exp(sign * candidate) for _, candidate in window),
        )
        for number, window in enumerate(windows)
    )
    known = next(iter(made.windows.values()))
    entry = entry.model_copy(update={"anchor": values[0], "windows": values})
    kept = {one.window: known for one in values}
    return made.model_copy(update={"entries": {entry.id: entry}, "windows": kept})


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    today=st.lists(st.tuples(PACE, PACE), min_size=1, max_size=3),
    windows=WINDOWS,
    metric=st.sampled_from(sorted(UNIT)),
    mode=st.sampled_from(["relative", "absolute"]),
    margin=st.floats(0.001, 0.3),
    floor=st.none() | st.floats(0.001, 0.2),
    beside=st.integers(0, 3),
)
def test_numbers_follow_from_the_formulas(  # noqa: PLR0913  - everything that a verdict depends on
    build: type[Build],
    *,
    today: Window,
    windows: list[Window],
    metric: str,
    mode: Any,
    margin: float,
    floor: float | None,
    beside: int,
) -> None:
    """Difference, bounds and word are those of the formulas, for rates and times, by change and by level."""
    declared = None if floor is None else NoiseFloor(floor, "made up")
    claim = build.claim(metric, margin=margin, mode=mode, cross_window=declared)
    others: list[AnyThreshold] = [build.threshold("e2e_p50"), build.threshold("tpot_p50"), build.claim("e2e_p50")]
    gate = build.gate(build.pair(), claim, *others[:beside])
    file = _file(build, build.gate(build.pair(), claim), windows, metric=metric)
    speeds = [[math.exp(pace) for pace in side] for side in zip(*today, strict=True)]
    window = build.against(gate, build.day(build.pair(), 28, *speeds), file)

    verdict = judge(gate, window)[0]
    rises = metric == "decode_rate_p50"
    delta = -math.log1p(-margin) if rises else math.log1p(margin)
    wanted = expected(today, windows, mode=mode, delta=delta, floor=floor, family=beside + 1)

    if verdict.reason == "machine-moved":
        reference = [[(0.0, pace) for pace, _ in one] for one in (today, *windows)]
        guard = expected(reference[0], reference[1:], mode="absolute", delta=delta, floor=floor, family=beside + 1)
        assert mode == "absolute"
        assert guard.lower is not None
        return
    raw = [None if one is None else math.expm1(one if rises else -one) for one in (wanted.lower, wanted.upper)]
    low, high = raw if rises else reversed(raw)
    assert verdict.outcome == wanted.word
    assert verdict.change == pytest.approx(math.expm1(wanted.difference if rises else -wanted.difference), abs=1e-9)
    assert verdict.change_low == (None if low is None else pytest.approx(low, rel=1e-6, abs=1e-9))
    assert verdict.change_high == (None if high is None else pytest.approx(high, rel=1e-6, abs=1e-9))
    assert verdict.family == beside + 1


@given(
    today=st.lists(st.tuples(PACE, PACE), min_size=2, max_size=3),
    windows=st.lists(st.lists(st.tuples(PACE, PACE), min_size=2, max_size=2), min_size=3, max_size=4),
    margin=st.floats(0.001, 0.3),
)
def test_the_guard_of_a_level_is_the_same_rule(
    build: type[Build], *, today: Window, windows: list[Window], margin: float
) -> None:
    """A machine has moved exactly where the reference alone, by the same rule, lies beyond the margin, up or down."""
    claim = build.claim("decode_rate_p50", margin=margin, mode="absolute")
    gate = build.gate(build.pair(), claim)
    file = _file(build, gate, windows, metric="decode_rate_p50")
    speeds = [[math.exp(pace) for pace in side] for side in zip(*today, strict=True)]
    [verdict] = judge(gate, build.against(gate, build.day(build.pair(), 28, *speeds), file))

    # The variance of today's rounds does not count here: no window of the baseline has more of them.
    alone = [[(0.0, pace) for pace, _ in one] for one in (today, *windows)]
    guard = expected(alone[0], alone[1:], mode="absolute", delta=-math.log1p(-margin), floor=None, family=1)
    assert guard.lower is not None
    assert guard.upper is not None
    moved = guard.upper < math.log1p(-margin) or guard.lower > -math.log1p(-margin)
    assert (verdict.reason == "machine-moved") == moved


@pytest.mark.parametrize("metric", sorted(UNIT))
def test_windows_that_agree_to_the_last_digit_are_no_proof(build: type[Build], metric: str) -> None:
    """Three equal windows leave an interval of the least that is believed, not one of no width."""
    gate = build.gate(build.pair(), build.claim(metric))
    same: list[Window] = [[(0.0, 0.0), (0.0, 0.0)]] * 3
    file = _file(build, gate, same, metric=metric)

    [verdict] = judge(gate, build.against(gate, day(build, 28, 1.0, 1.0), file))

    assert verdict.sd == pytest.approx(LEAST_SD / math.sqrt(2) * math.sqrt(4 / 3))
    assert verdict.change_low is not None
    assert verdict.change_low < 0


@pytest.mark.parametrize("mode", ["relative", "absolute"])
def test_rounds_that_drift_alike_are_known_by_their_order(build: type[Build], mode: Any) -> None:
    """Of four rounds a drift of both arms is taken out of their scatter, as in every verdict; half is of one arm."""
    drifting = [0.0098, -0.0102, 0.0100, -0.0097]
    gate = build.gate(build.pair(), build.claim("decode_rate_p50", mode=mode))
    longer: list[Window] = [[(0.0, level)] * 6 for level in (0.0, 0.004, -0.004)]
    file = _file(build, gate, longer, metric="decode_rate_p50")
    window = day(build, 28, *map(math.exp, drifting))

    [verdict] = judge(gate, build.against(gate, window, file))

    first, second = drifting[::2], drifting[1::2]
    squares = sum((x - statistics.fmean(half)) ** 2 for half in (first, second) for x in half)
    within = max(squares / 2, LEAST_SD**2) * (1 / 4 - 1 / 6) / (2 if mode == "absolute" else 1)
    assert verdict.sd == pytest.approx(math.sqrt(statistics.variance([0.0, 0.004, -0.004]) * 4 / 3 + within))
