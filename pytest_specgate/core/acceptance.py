"""Acceptance of drafts: what counts say, how sure they are, and what they promise for a shorter horizon.

A draft position is named as horizons are: position 1 is the one that k=1 drafts (vLLM labels its series from 0). A
draft token counts only if all before it were accepted, so the rates by position, each accepted / drafts, never rise,
and the rate at a position is the product of the conditional acceptances up to it.

**How sure.** Tokens of one answer are accepted or refused together, so drafts are no independent sample. Where the
engine tells what each request drafted, a rate is a ratio of sums over prompts, with the variance of that estimator
(Cochran, Sampling Techniques, 3rd ed., section 6.3; the same prompt in several boots is one sample)::

    R = sum(a_u) / sum(d_u)      var(R) = n / (n - 1) * sum((a_u - R d_u)^2) / sum(d_u)^2

Else the same over boots, which send the same prompts and so tell nothing of other prompts; else over drafts as if they
were independent, which is too narrow. No interval is narrower than the last one (Wilson's for a share). Boots repeat
the same drafts: that takes the number of one boot, since a hundred boots of one prompt are no hundred prompts.

**Shorter drafts.** A drafter may propose fewer than k tokens. A rate per draft falls then though nothing was refused.
`AcceptanceCurve.per_proposed` tells the two apart: exactly where the engine tells the length of each draft, else by
bounds from the number of draft tokens that are missing.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from scipy import special

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.speculation import SpeculationDelta, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVEL: Final = 0.95
"""Of every interval here, two-sided."""

_TAIL: Final = (1 + LEVEL) / 2

Basis: TypeAlias = Literal["prompts", "boots", "drafts"]
"""What an interval is taken over, best first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its 95 % interval; ends are `None` where nothing tells how sure it is."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def log_distances(self) -> tuple[float, float] | None:
        """From the figure down to its lower end and up to its upper one, in log units; `None` where one has no log."""
        if self.low is None or self.high is None or self.low <= 0:
            return None
        return math.log(self.value / self.low), math.log(self.high / self.value)


@dataclasses.dataclass(frozen=True, slots=True)
class AcceptanceCurve:
    """Acceptance by draft position of one arm at one load level.

    Attributes:
        counts: everything that was drafted and accepted, pooled.
        samples: the same counts by what the intervals are taken over; they sum to `counts`. One sample, or none, leaves
            drafts as the basis.
        basis: what the samples are.
        proposed: drafts that reached each position, from position 1; `None` where the engine does not tell.
        boots: how many were pooled, each of which was sent the same prompts.

    Raises:
        UsageError: nothing was drafted, or the counts contradict each other.
    """

    counts: SpeculationDelta
    samples: tuple[SpeculationDelta, ...] = ()
    basis: Basis = "drafts"
    proposed: tuple[int, ...] | None = None
    boots: int = 1

    def __post_init__(self) -> None:
        if not self.counts.draft_tokens:
            raise UsageError("nothing was drafted, so there is no acceptance: take counters around traffic")
        if broken := self.counts.broken_identities():
            raise UsageError(f"these cannot be counts of acceptance: {'; '.join(broken)}")
        alike = all(len(sample.accepted_per_position) == self.k for sample in self.samples)
        if self.samples and (not alike or pool(self.samples) != self.counts):
            raise UsageError("the samples of an acceptance curve do not sum to its counts")
        if self.proposed is not None and not self._proposed_fits(self.proposed):
            raise UsageError("what was proposed by position does not fit the counts of an acceptance curve")

    def _proposed_fits(self, proposed: tuple[int, ...]) -> bool:
        limits = (self.counts.drafts, *proposed)
        return (
            len(proposed) == self.k
            and sum(proposed) == self.counts.draft_tokens
            and all(more >= fewer for more, fewer in itertools.pairwise(limits))
            and all(reached >= took for reached, took in zip(proposed, self.counts.accepted_per_position, strict=True))
        )

    @property
    def k(self) -> int:
        """The horizon that was measured."""
        return len(self.counts.accepted_per_position)

    @property
    def rates(self) -> tuple[Estimate, ...]:
        """Accepted / drafts by position, from position 1."""
        return tuple(self._share(position) for position in range(self.k))

    @property
    def conditional(self) -> tuple[float | None, ...]:
        """Accepted at a position / accepted at the one before it; `None` where none was accepted before it."""
        counts = (self.counts.drafts, *self.counts.accepted_per_position)
        return tuple(after / before if before else None for before, after in itertools.pairwise(counts))

    @property
    def acceptance_length(self) -> Estimate:
        """Tokens of a step that drafted: 1 + accepted / drafts."""
        return self.length_at(self.k)

    @property
    def acceptance_rate(self) -> Estimate:
        """Accepted / draft tokens."""
        sums = [(sample.accepted_tokens, sample.draft_tokens) for sample in self._several]
        rate = self.counts.accepted_tokens / self.counts.draft_tokens
        # Tokens of one draft are no independent sample either: the next one counts only if this one does.
        a_draft = self.counts.drafts / self.counts.draft_tokens
        half = max(_half_width(sums) or 0.0, a_draft * self._independent_half_width(self.k))
        return Estimate(rate, *self._with_rare(rate - half, rate + half))

    @property
    def short_drafts(self) -> int:
        """Draft tokens that were missing from drafts of fewer than k."""
        return self.k * self.counts.drafts - self.counts.draft_tokens

    def length_at(self, k: int) -> Estimate:
        """Return 1 + the sum of the rates of the first k positions: tokens of a step that drafted, were the horizon k.

        Raises:
            UsageError: k was not measured.
        """
        if not 0 <= k <= self.k:
            raise UsageError(f"an acceptance curve of k={self.k} tells nothing of k={k}")
        taken = [(sum(sample.accepted_per_position[:k]), sample.drafts) for sample in self._several]
        value = sum(self.counts.accepted_per_position[:k]) / self.counts.drafts
        half = max(_half_width(taken) or 0.0, self._independent_half_width(k))
        low, high = self._with_rare((value - half) / k, (value + half) / k) if k else (0.0, 0.0)
        return Estimate(1 + value, min(1 + value, 1 + k * low), max(1 + value, 1 + k * high))

    def per_proposed(self) -> tuple[tuple[float, float], ...]:
        """Return the least and the greatest share of the drafts that reached a position in which it was accepted.

        Both are equal where the engine tells the length of each draft; 0 and 1 where no draft reached a position. Else
        m missing draft tokens bound how many drafts can be short of it: each lacks k - position + 1 at least and k - 1
        at most, every other one k - position at most, and none that was accepted there is short. That a draft has one
        token is taken for granted, unless the counts say otherwise: only a grammar refuses drafts whole.
        """
        found = []
        for place, accepted in enumerate(self.counts.accepted_per_position):
            least, most = self._reached(place) if self.proposed is None else (self.proposed[place],) * 2
            found.append((accepted / most, accepted / least if least else 0.0) if most else (0.0, 1.0))
        return tuple(found)

    def _reached(self, place: int) -> tuple[int, int]:
        """Return how many drafts reached a position, at least and at most."""
        drafts, missing = self.counts.drafts, self.short_drafts
        shortest = 1 if self.counts.draft_tokens >= drafts else 0
        if place < shortest:
            return drafts, drafts
        least = max(self.counts.accepted_per_position[place], drafts - missing // (self.k - place))
        # Rounded up: what the others cannot lack is missing from drafts that are short.
        beyond = max(0, missing - drafts * (self.k - place - 1))
        return least, max(least, drafts + -beyond // (place + 1 - shortest))

    @property
    def sampled(self) -> int:
        """How many samples the intervals are taken over; those that drafted nothing tell nothing."""
        return self.counts.drafts if self.basis == "drafts" else sum(sample.drafts > 0 for sample in self.samples)

    @property
    def _several(self) -> tuple[SpeculationDelta, ...]:
        return self.samples if len(self.samples) > 1 else ()

    def _share(self, place: int) -> Estimate:
        accepted, drafts = self.counts.accepted_per_position[place], self.counts.drafts
        rate = accepted / drafts
        low, high = _wilson(rate, drafts / self.boots)
        half = _half_width([(sample.accepted_per_position[place], sample.drafts) for sample in self._several]) or 0.0
        return Estimate(rate, max(0.0, min(rate - half, low)), min(1.0, max(rate + half, high)))

    def _with_rare(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of a share of what drafts could give, with what the drafts of one boot may have missed.

        Where all gave the same, or all but a few, that is no proof that all do: no interval ends before that of drafts
        of which none gave anything, or all gave all.
        """
        drafts = self.counts.drafts / self.boots
        (_, least_high), (greatest_low, _) = _wilson(0.0, drafts), _wilson(1.0, drafts)
        return max(0.0, min(low, greatest_low)), min(1.0, max(high, least_high))

    def _independent_half_width(self, k: int) -> float:
        """Return the half-width of what the first k positions give a draft, for drafts independent of each other.

        Of a count j that is at least i with probability r_i, the mean square is the sum of (2 i - 1) r_i.
        """
        drafts, taken = self.counts.drafts, self.counts.accepted_per_position[:k]
        squares = sum((2 * i + 1) * count for i, count in enumerate(taken))
        # In whole numbers, so that what does not vary at all is told from what varies little.
        return _normal() * math.sqrt((squares * drafts - sum(taken) ** 2) * self.boots / drafts**3)


def _normal() -> float:
    return float(special.ndtri(_TAIL))


def _wilson(rate: float, count: float) -> tuple[float, float]:
    """Return Wilson's interval of a share (Journal of the American Statistical Association 22, 1927, p. 209)."""
    z = _normal()
    centre = (rate + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(rate * (1 - rate) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    # At shares of 0 and 1 an end is the share itself, and arithmetic may miss it.
    return max(0.0, min(rate, centre - half)), min(1.0, max(rate, centre + half))


def _half_width(sums: Sequence[tuple[int, int]]) -> float | None:
    """Return the half-width of a ratio of sums, by how its samples scatter; `None` for less than two of them."""
    sums = [one for one in sums if one[1]]
    if len(sums) < 2:
        return None
    below = sum(under for _, under in sums)
    ratio = sum(above for above, _ in sums) / below
    scatter = math.fsum((above - ratio * under) ** 2 for above, under in sums)
    variance = len(sums) / (len(sums) - 1) * scatter / (below * below)
    return float(special.stdtrit(len(sums) - 1, _TAIL)) * math.sqrt(variance)
