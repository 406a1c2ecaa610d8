"""Draft horizons: where an acceptance curve has its knee, and what each k promises.

The speed of a stream is tokens per step / step time. What a position gives does not depend on how many follow it, so
one curve tells the tokens per step of every shorter horizon; what a position costs has to be measured::

    tokens per step of k = 1 + s * (r_1 + r_2 + ... + r_k)        r_i = c_1 * c_2 * ... * c_i

with the rates r by position, which are products of the conditional acceptances c, and s for what a step makes of them:
the share of steps that draft, less what the ends of answers cut off; s is taken from the measured horizon.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from scipy import special

from pytest_specgate.core.acceptance import LEVEL, Estimate
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.acceptance import AcceptanceCurve

CUT: Final = 0.2
"""Rate by position below which a position is taken for waste, where nothing tells what it costs."""

MOST: Final = 64
"""A horizon beyond this is a slip of the finger."""

Origin: TypeAlias = Literal["measured", "from the curve", "interpolated", "extrapolated"]
"""Where a figure of a horizon comes from."""


@dataclasses.dataclass(frozen=True, slots=True)
class Crossing:
    """Where the rates of a curve fall under a cut.

    Attributes:
        cut: the rate.
        last: last position whose rate reaches it; 0 where none does.
        least: the same by the lower ends of the intervals.
        most: the same by their upper ends.
        measured: positions of the curve.
    """

    cut: float
    last: int
    least: int
    most: int
    measured: int

    @property
    def is_beyond(self) -> bool:
        """Whether the curve does not fall under the cut where it was measured, so that a longer one has to tell."""
        return self.most == self.measured


def crossing(curve: AcceptanceCurve, cut: float = CUT) -> Crossing:
    """Return where a curve falls under a cut.

    Raises:
        UsageError: the cut is no share between 0 and 1.
    """
    if not 0 < cut < 1:
        raise UsageError(f"a cut of {cut:g} is none: write a share between 0 and 1, as 0.2")
    rates = curve.rates
    return Crossing(
        cut,
        last=_leading([rate.value for rate in rates], cut),
        least=_leading([rate.value if rate.low is None else rate.low for rate in rates], cut),
        most=_leading([rate.value if rate.high is None else rate.high for rate in rates], cut),
        measured=curve.k,
    )


def _leading(rates: Sequence[float], cut: float) -> int:
    return len(list(itertools.takewhile(lambda rate: rate >= cut, rates)))


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of one horizon at one load level.

    Attributes:
        k: the horizon; 0 without speculation.
        tokens_per_step: output tokens of a decode step, pooled over boots.
        step_times_s: seconds of a decode step, by boot.
        curve: acceptance by position; `None` without speculation.
    """

    k: int
    tokens_per_step: float
    step_times_s: tuple[float, ...]
    curve: AcceptanceCurve | None


@dataclasses.dataclass(frozen=True, slots=True)
class Horizon:
    """What a horizon gives and costs at one load level.

    Attributes:
        k: the horizon; 0 without speculation.
        tokens_per_step: output tokens of a decode step.
        tokens_from: where that comes from.
        step_time_s: seconds of a decode step; `None` where nothing tells.
        step_from: where that comes from; `None` likewise.
        speed_tokens_per_s: of one stream, tokens per step / step time; `None` likewise.
    """

    k: int
    tokens_per_step: Estimate
    tokens_from: Origin
    step_time_s: Estimate | None
    step_from: Origin | None
    speed_tokens_per_s: Estimate | None

    @property
    def is_measured(self) -> bool:
        """Whether the horizon itself was."""
        return self.tokens_from == "measured" and self.step_from in {"measured", None}


def horizons(measured: Sequence[Measured], *, up_to: int | None = None) -> tuple[Horizon, ...]:
    """Return what each horizon gives and costs, from 0 or 1 up to the longest that was measured, or further.

    Args:
        measured: one load level of one window; each horizon once, at least one of them speculative.
        up_to: the longest horizon to be told of; `None` for the longest that was measured.

    Raises:
        UsageError: no curve is there, a horizon is there twice, or the longest one wanted cannot be.
    """
    known = {one.k: one for one in measured}
    if len(known) < len(measured):
        raise UsageError(f"a horizon is there twice: {', '.join(f'k={one.k}' for one in measured)}")
    curves = {one.k: one for one in measured if one.curve is not None}
    if not curves:
        raise UsageError("no arm speculates here, so there is no acceptance to tell of")
    longest = max(curves) if up_to is None else up_to
    if not 1 <= longest <= MOST:
        raise UsageError(f"horizons up to k={longest}: write 1 to {MOST}")
    first = 0 if 0 in known else 1
    times = {one.k: over_boots(one.step_times_s) for one in measured if one.step_times_s}
    return tuple(_horizon(k, known, curves, times) for k in range(first, longest + 1))


def _horizon(
    k: int, known: Mapping[int, Measured], curves: Mapping[int, Measured], times: Mapping[int, Estimate]
) -> Horizon:
    tokens, tokens_from = _tokens(k, known, curves)
    step = _step(k, times)
    if step is None:
        return Horizon(k, tokens, tokens_from, None, None, None)
    time, step_from = step
    return Horizon(k, tokens, tokens_from, time, step_from, _quotient(tokens, time))


def _tokens(k: int, known: Mapping[int, Measured], curves: Mapping[int, Measured]) -> tuple[Estimate, Origin]:
    """Return tokens per step: as measured, of the nearest longer curve, or of the longest one carried on."""
    if k == 0:
        # Without speculation a step gives one token, by definition.
        return Estimate(1.0, 1.0, 1.0), "measured" if 0 in known else "from the curve"
    longer = [length for length in curves if length >= k]
    if longer:
        length = min(longer)
        return _of_curve(curves[length], k), "measured" if length == k else "from the curve"
    longest = curves[max(curves)]
    assert longest.curve is not None, "these have one"
    whole = _of_curve(longest, longest.k)
    return Estimate(whole.value + _made_of(longest) * _further(longest.curve, k)), "extrapolated"


def _of_curve(one: Measured, k: int) -> Estimate:
    assert one.curve is not None, "these have one"
    length, made = one.curve.length_at(k), _made_of(one)
    ends = [None if end is None else 1 + made * (end - 1) for end in (length.low, length.high)]
    return Estimate(1 + made * (length.value - 1), *ends)


def _made_of(one: Measured) -> float:
    """Return what a step makes of what a draft gives: the share of steps that draft, less what ends cut off."""
    assert one.curve is not None, "these have one"
    gain = one.curve.acceptance_length.value - 1
    return (one.tokens_per_step - 1) / gain if gain else 0.0


def _further(curve: AcceptanceCurve, k: int) -> float:
    """Return what the positions beyond a curve would add, were their conditional acceptance that of its last one."""
    again = curve.conditional[-1] or 0.0
    rate = curve.rates[-1].value
    return math.fsum(rate * again**further for further in range(1, k - curve.k + 1))


def _step(k: int, times: Mapping[int, Estimate]) -> tuple[Estimate, Origin] | None:
    """Return the step time: as measured, on the line between its neighbours, or on that of the two longest."""
    if k in times:
        return times[k], "measured"
    below, above = sorted(one for one in times if one < k), sorted(one for one in times if one > k)
    if below and above:
        return _on_line(k, below[-1], above[0], times), "interpolated"
    # A first draft token costs more than a further one: a line from off would be too steep beyond.
    speculative = [one for one in below if one]
    if len(speculative) < 2:
        return None
    nearest, longest = speculative[-2:]
    return Estimate(_on_line(k, nearest, longest, times).value), "extrapolated"


def _on_line(k: int, left: int, right: int, times: Mapping[int, Estimate]) -> Estimate:
    share = (k - left) / (right - left)

    def between(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else one + share * (other - one)

    before, after = times[left], times[right]
    value = before.value + share * (after.value - before.value)
    return Estimate(value, between(before.low, after.low), between(before.high, after.high))


def _quotient(tokens: Estimate, time: Estimate) -> Estimate:
    """Return tokens / time with the interval of two independent figures, in log units."""
    speed, one, other = tokens.value / time.value, tokens.log_half_width, time.log_half_width
    if one is None or other is None:
        return Estimate(speed)
    half = math.hypot(one, other)
    return Estimate(speed, speed * math.exp(-half), speed * math.exp(half))


def over_boots(values: Sequence[float]) -> Estimate:
    """Return the geometric mean of positive values, and its 95 % interval by how boots differ (Student's t)."""
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Estimate(math.exp(mean))
    variance = math.fsum((one - mean) ** 2 for one in logs) / (len(logs) - 1)
    half = float(special.stdtrit(len(logs) - 1, (1 + LEVEL) / 2)) * math.sqrt(variance / len(logs))
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half))
