"""Draft horizons: where an acceptance curve has its knee, and what each k promises.

The speed of a stream is tokens per step / step time. If what a position gives does not depend on how many follow it,
one curve tells the tokens per step of every shorter horizon; what a position costs has to be measured. With the rates
r by position, products of the conditional acceptances c, a step that drafts gives::

    L(k) = 1 + r_1 + r_2 + ... + r_k        r_i = c_1 * c_2 * ... * c_i

tokens, and one that does not gives one. Where a drafter finds something to propose is a matter of the text and not of
k: a share d of all tokens lies there, and comes of steps that draft. Longer drafts take fewer steps through it, so the
share of *steps* that draft falls as k rises, and d does not. A token costs 1 step outside, and 1 / L(k) inside::

    T(k) = 1 / ((1 - d) + d / L(k))         d = (1 - 1 / T(K)) / (1 - 1 / L(K))

tokens per step, with d of the measured horizon K, less there what the ends of answers cut off; d = 1 where every step
drafts, and then T = L. Beyond K the conditional acceptance of the last position carries L(k) on.

**The other reading.** Where it counts how long the drafter has been right (n-gram drafts: text that repeats itself does
so for long), a shorter horizon gets more out of its positions than the products tell (`drafter_streaks`). Of a real
window of n-gram drafts that reading told k=1 and k=4 from k=7 to 0.7 %, the products 2 to 5 % too low. Products are
what is told; intervals of what was not measured hold both.

**How sure.** With x = d (1 - 1 / L), the share of steps that drafts save, T = 1 / (1 - x). Both d and L are ratios of
sums over the same prompts, so the variance of x is that of what each prompt adds to it (linearised, with covariance, as
in Cochran, Sampling Techniques, 3rd ed., section 6.3): drafts and accepted tokens, of all tokens that it decoded, and
what these drafts gave. The same over boots where requests tell nothing; else over steps as if they were independent,
which is too narrow. None is narrower than that of L alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from scipy import special

from pytest_specgate.core.acceptance import LEVEL, Estimate
from pytest_specgate.core.drafter_streaks import streaks_of
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.noise import UNKNOWN_NOISE, Noise
from pytest_specgate.core.speculation import LONGEST_HORIZON
from pytest_specgate.core.statistics import interval
from pytest_specgate.core.token_model import drafted_share, mixed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.acceptance import AcceptanceCurve
    from pytest_specgate.core.drafter_streaks import Streaks

CUT: Final = 0.2
"""Rate by position below which a position is taken for waste, where nothing tells what it costs."""

_TAIL: Final = (1 - LEVEL) / 2

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
        decoded: output tokens of decode steps, by sample of the curve; empty where it has none.
        noise: what is known beforehand of a paired difference of step times.
    """

    k: int
    tokens_per_step: float
    step_times_s: tuple[float, ...]
    curve: AcceptanceCurve | None
    decoded: tuple[int, ...] = ()
    noise: Noise = UNKNOWN_NOISE


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
    most = max(LONGEST_HORIZON, *curves)
    if not 1 <= longest <= most:
        raise UsageError(f"horizons up to k={longest}: write 1 to {most}")
    first = 0 if 0 in known else 1
    times = {one.k: over_boots(one.step_times_s, noise=one.noise) for one in measured if one.step_times_s}
    told = {k: _ToldCurve(one, one.curve, _streaks(one.curve)) for k, one in curves.items() if one.curve is not None}
    return tuple(_horizon(k, known, told, times) for k in range(first, longest + 1))


class _ToldCurve(NamedTuple):
    """A horizon with its curve, and what that tells if streaks count; `None` where they tell nothing."""

    one: Measured
    curve: AcceptanceCurve
    streaks: Streaks | None


def _horizon(
    k: int, known: Mapping[int, Measured], curves: Mapping[int, _ToldCurve], times: Mapping[int, Estimate]
) -> Horizon:
    tokens, tokens_from = _tokens(k, known, curves)
    step = _step(k, times)
    if step is None:
        return Horizon(k, tokens, tokens_from, None, None, None)
    time, step_from = step
    return Horizon(k, tokens, tokens_from, time, step_from, _quotient(tokens, time))


def _tokens(k: int, known: Mapping[int, Measured], curves: Mapping[int, _ToldCurve]) -> tuple[Estimate, Origin]:
    """Return tokens per step: as measured, of the nearest longer curve, or of the longest one carried on."""
    if k == 0:
        # Without speculation a step gives one token, by definition.
        return Estimate(1.0, 1.0, 1.0), "measured" if 0 in known else "from the curve"
    length = min((length for length in curves if length >= k), default=max(curves))
    one, curve, streaks = curves[length]
    if length >= k:
        return _of_curve(one, curve, k, streaks=streaks), "measured" if length == k else "from the curve"
    longer = curve.acceptance_length.value + _further(curve, k)
    return Estimate(mixed(_drafted_share(one, curve), longer)), "extrapolated"


def tokens_per_step(value: float, curve: AcceptanceCurve, decoded: Sequence[int]) -> Estimate:
    """Return measured tokens per step with their 95 % interval, as far as something tells how they scatter.

    Args:
        value: output tokens of a decode step, drafted or not, pooled over boots.
        curve: acceptance of the same steps.
        decoded: output tokens of decode steps, by sample of the curve; empty where it has none.
    """
    if not 1 <= value <= curve.k + 1:
        # No step gives such a number, so nothing that is derived from steps tells how sure it is.
        return Estimate(value)
    return _of_curve(Measured(curve.k, value, (), curve, tuple(decoded)), curve, curve.k)


def _of_curve(one: Measured, curve: AcceptanceCurve, k: int, *, streaks: Streaks | None = None) -> Estimate:
    """Return tokens per step of a horizon that a curve reaches, with their interval where something tells it."""
    share, length = _drafted_share(one, curve), curve.length_at(k)
    value = one.tokens_per_step if k == curve.k else mixed(share, length.value)
    scatter = _independent_half_width if curve.basis == "drafts" else _half_width
    half = 0.0 if share == 1 else scatter(one, curve, k)
    if half is None or length.low is None or length.high is None:
        return Estimate(value)
    other = None if streaks is None or k == curve.k else streaks.length(k)
    readings = [1 - 1 / value, *([] if other is None else [1 - 1 / mixed(share, other)])]
    least, most = max(0.0, min(readings) - half), min(k / (k + 1), max(readings) + half)
    beside = 0.0 if other is None else other - length.value
    return Estimate(
        value,
        min(value, 1 / (1 - least), mixed(share, max(1.0, length.low + min(0.0, beside)))),
        max(value, 1 / (1 - most), mixed(share, min(k + 1.0, length.high + max(0.0, beside)))),
    )


def _streaks(curve: AcceptanceCurve) -> Streaks | None:
    """Return what a curve tells of shorter horizons if streaks count; `None` where none is shorter, or nothing fits."""
    if curve.k == 1 or not curve.counts.accepted_tokens:
        return None
    return streaks_of([rate.value for rate in curve.rates])


def _drafted_share(one: Measured, curve: AcceptanceCurve) -> float:
    """Return the share of tokens that come of steps that draft, 1 where no token was accepted and nothing tells it."""
    share = drafted_share(one.tokens_per_step, curve.acceptance_length.value)
    return 1.0 if share is None else share


def _half_width(one: Measured, curve: AcceptanceCurve, k: int) -> float | None:
    """Return the half-width of the share of steps that drafts of k save, by how samples scatter; `None` without."""
    samples, decoded = curve.samples, sum(one.decoded)
    if len(samples) < 2 or len(one.decoded) != len(samples) or not decoded:
        return None
    drafts, length = curve.counts.drafts, curve.length_at(k).value
    share = (drafts + curve.counts.accepted_tokens) / decoded
    by_share, by_length = (1 - 1 / length) / decoded, share / length**2 / drafts
    added = [
        by_share * (sample.drafts + sample.accepted_tokens - share * own)
        + by_length * (sum(sample.accepted_per_position[:k]) - (length - 1) * sample.drafts)
        for sample, own in zip(samples, one.decoded, strict=True)
    ]
    count = len(samples)
    variance = count / (count - 1) * math.fsum(each * each for each in added)
    return float(special.stdtrit(count - 1, 1 - _TAIL)) * math.sqrt(variance)


def _independent_half_width(one: Measured, curve: AcceptanceCurve, k: int) -> float:
    """Return the same as if steps were independent of each other, in whether they draft and in what they accept."""
    counts, beyond = curve.counts, one.tokens_per_step - 1
    steps = max(counts.drafts, counts.accepted_tokens / beyond) if beyond > 0 else counts.drafts
    taken = counts.accepted_per_position[:k]
    mean, square = sum(taken) / steps, sum((2 * place + 1) * count for place, count in enumerate(taken)) / steps
    half = float(special.ndtri(1 - _TAIL)) * math.sqrt(max(0.0, square - mean**2) * curve.boots / steps)
    return half / (1 + mean) ** 2


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
        line = _on_line(k, below[-1], above[0], times)
        return (line if below[-1] else _up_to(times[above[0]], line)), "interpolated"
    # A first draft token costs more than a further one: a line from off would be too steep beyond.
    speculative = [one for one in below if one]
    if len(speculative) < 2:
        return None
    nearest, longest = speculative[-2:]
    # Where the noise has the longer one cheaper, the line falls, through zero in the end.
    return Estimate(max(_on_line(k, nearest, longest, times).value, times[longest].value)), "extrapolated"


def _on_line(k: int, left: int, right: int, times: Mapping[int, Estimate]) -> Estimate:
    share = (k - left) / (right - left)

    def between(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else one + share * (other - one)

    before, after = times[left], times[right]
    value = before.value + share * (after.value - before.value)
    return Estimate(value, between(before.low, after.low), between(before.high, after.high))


def _up_to(longer: Estimate, line: Estimate) -> Estimate:
    """Return a step time on the line from off to a longer horizon, with all that lies between the two as its interval.

    The first draft token costs more than a further one (a drafter has to run at all), so the line is the least that
    such a step takes; the step of the longer horizon is the most.
    """
    if line.high is None or longer.high is None:
        return line
    return Estimate(line.value, line.low, max(line.high, longer.high))


def _quotient(tokens: Estimate, time: Estimate) -> Estimate:
    """Return tokens / time with the interval of two independent figures.

    Recovered from the distances of either from its ends, in log units (MOVER: Zou and Donner, Statistics in Medicine
    27, 2008, p. 1693): they need not be symmetric.
    """
    speed, more, less = tokens.value / time.value, tokens.log_distances, time.log_distances
    if more is None or less is None:
        return Estimate(speed)
    down, up = math.hypot(more[0], less[1]), math.hypot(more[1], less[0])
    return Estimate(speed, speed * math.exp(-down), speed * math.exp(up))


def over_boots(values: Sequence[float], *, noise: Noise = UNKNOWN_NOISE) -> Estimate:
    """Return the geometric mean of positive values, and its 95 % interval.

    Args:
        values: by boot.
        noise: what is known beforehand of a paired difference of two boots, pooled with how these differ as the
            decision rule does; without any a single boot has no interval.
    """
    logs = [math.log(value) for value in values]
    # A single boot scatters by a factor of the square root of 2 less than a difference of two.
    of_one = Noise(noise.sigma / math.sqrt(2), noise.df)
    found = interval(logs, noise=of_one, tail=_TAIL, candidate_first=[False] * len(logs))
    if found is None:
        return Estimate(math.exp(logs[0]))
    return Estimate(math.exp(found.mean), math.exp(found.low), math.exp(found.high))
