"""Verdicts: what a gate says of one threshold, as a value."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Literal

from pydantic import PrivateAttr

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.levels import Level
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Sequence


class Outcome(enum.StrEnum):
    """The word of a verdict. Only `PASS` passes."""

    PASS = "PASS"  # noqa: S105  - a word, not a password
    """The claim is supported: the bound, not the estimate, lies within the margin."""
    FAIL = "FAIL"
    """A loss beyond the margin is shown."""
    INCONCLUSIVE = "INCONCLUSIVE"
    """Measured well, not enough of it to tell."""
    INVALID = "INVALID"
    """A measurement that must not be judged."""


class UnexpectedOutcomeError(AssertionError):
    """A test expected another outcome of its threshold."""


class FactorVerdict(Stored):
    """What became of one factor of a gated speed.

    Attributes:
        name: ``tokens per step``, ``steps per second`` or ``sequences decoding``.
        reference: geometric mean of the reference arm.
        candidate: likewise of the candidate.
        change: raw change, a fraction.
        change_low: lower end of its interval, descriptive; `None` where nothing is known of its noise.
        change_high: upper end.
        moved: whether a change was shown.
    """

    name: str
    reference: float
    candidate: float
    change: float
    change_low: float | None
    change_high: float | None
    moved: bool


class CurveVerdict(Stored):
    """What one load level of a curve shows; ratios and changes as in `Verdict`, with simultaneous intervals."""

    at: Level
    sign: Literal["better", "worse", "not shown"]
    ratios: tuple[float, ...] = ()
    change: float | None
    change_low: float | None
    change_high: float | None


class BaselineVerdict(Stored):
    """How today's window stands to those of a baseline.

    Changes are raw changes of the metric between the arms (``relative``) or of the candidate (``absolute``), fractions.

    Attributes:
        mode: ``relative`` or ``absolute``.
        today: candidate over reference today, or the level of the candidate in the metric's unit.
        level: likewise, the mean of the accepted windows.
        windows: that were accepted; likewise by window, oldest first.
        since_latest: change since the last accepted window.
        since_anchor: change since the first one that was ever accepted.
        anchor_at: when that was measured.
        latest_at: when the last one was.
        path: of the baseline file.
    """

    mode: Literal["relative", "absolute"]
    today: float
    level: float
    windows: tuple[float, ...]
    since_latest: float
    since_anchor: float
    anchor_at: str
    latest_at: str
    path: str


class Verdict(Stored):
    """The judgement of one threshold.

    Changes and margins are fractions (0.05 is 5 %); changes are raw: +0.2 is 20 % more of the metric, good or bad.

    Attributes:
        gate: id of the gate.
        threshold: its id within the gate, as ``c32-output_throughput-not_worse``.
        pair: candidate against reference, by name.
        metric: key in the metric table, or ``outputs_agree``.
        at: load level; of a curve the last one at which the candidate is claimed to be better.
        kind: ``not_worse``, ``better``, ``equivalent``, ``at_least``, ``at_most``, ``faster_only_up_to``,
            ``outputs_agree`` or ``not_worse_than_baseline``.
        points: whether changes are in points of a share (as fractions) instead of relative to the reference.
        limit: the raw change at the margin, a fraction: -0.15 for a throughput that may fall by 15 %; of limits the
            limit in the metric's unit; of ``outputs_agree`` the least share of equal answers; `None` where there is
            none.
        claim: what was to be shown, in words.
        outcome: the word.
        reason: code of the reason.
        summary: one sentence.
        detail: further lines (both values of a field that differs, the end of a server log).
        reference: geometric mean over rounds of the reference arm, in the metric's unit; `None` when INVALID.
        candidate: likewise of the candidate arm.
        ratios: signed differences by round, positive when the candidate is better: log ratios, or points.
        values: of limits, the candidate's value in every boot, in the metric's unit.
        shares: of equal answers by round, for ``outputs_agree``, which has no ratios and no change.
        change: raw change of the candidate against the reference.
        change_low: lower end of its interval.
        change_high: upper end of its interval.
        rounds: rounds judged.
        rounds_planned: n_max.
        sd: standard deviation used, log units.
        df: its degrees of freedom.
        noise: where it came from.
        f_ratio: own variance / calibrated or declared variance.
        looks: number of looks K that share the error rates.
        family: number m of thresholds of the gate that rest on an interval.
        order_effect: drift per boot, log units, when one was found.
        samples: of how many requests (gaps, steps, drafts) a boot's figure was taken, at least.
        needs_rounds: how many rounds a new run needs in all, where this one could not decide; `None` where it did, or
            where more than 20 would be asked.
        smallest_margin: smallest margin that so many rounds and this noise can decide, a raw change as a fraction.
        detectable: raw change that is called FAIL in four of five runs.
        break_even_floor: largest declared floor under which these rounds would have been decided, a fraction, where
            nothing is known of the noise.
        factors: of a speed, where an arm speculates.
        residual: log units: what the gated change has beside its factors.
        curve: what each load level shows.
        baseline: how today's window stands to those accepted before; changes are then changes since the baseline.
        flags: what a reader should know besides.
    """

    gate: str
    threshold: str
    pair: str
    metric: str
    at: Level
    kind: str
    points: bool = False
    limit: float | None = None
    claim: str
    outcome: Outcome
    reason: str
    summary: str
    detail: str = ""
    reference: float | None = None
    candidate: float | None = None
    ratios: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    change: float | None = None
    change_low: float | None = None
    change_high: float | None = None
    rounds: int = 0
    rounds_planned: int = 0
    sd: float | None = None
    df: float | None = None
    noise: str = ""
    f_ratio: float | None = None
    looks: int = 0
    family: int = 1
    order_effect: float | None = None
    samples: int | None = None
    needs_rounds: int | None = None
    smallest_margin: float | None = None
    detectable: float | None = None
    break_even_floor: float | None = None
    factors: tuple[FactorVerdict, ...] = ()
    residual: float | None = None
    curve: tuple[CurveVerdict, ...] = ()
    baseline: BaselineVerdict | None = None
    flags: tuple[str, ...] = ()

    _accepted: frozenset[Outcome] = PrivateAttr(default=frozenset({Outcome.PASS}))

    def expect(self, *outcomes: Outcome) -> None:
        """Accept other outcomes than PASS for this test, and fail at once if it is none of them.

        Raises:
            UsageError: INVALID was asked for; what was not measured is never accepted.
            UnexpectedOutcomeError: the outcome is another one.
        """
        __tracebackhide__ = True
        if Outcome.INVALID in outcomes or not outcomes:
            raise UsageError(
                "verdict.expect() takes PASS, FAIL or INCONCLUSIVE: what was not measured is never accepted"
            )
        self._accepted = frozenset(outcomes)
        if self.outcome not in outcomes:
            raise UnexpectedOutcomeError(self._mismatch(outcomes))

    def expect_pass(self) -> None:
        """Take a declared expectation back."""
        self._accepted = frozenset({Outcome.PASS})

    @property
    def accepted(self) -> bool:
        """Whether the test passes: the outcome is PASS, or one that the test declared with `expect`."""
        return self.outcome in self._accepted

    @property
    def expected(self) -> bool:
        """Whether the test declared outcomes of its own."""
        return self._accepted != {Outcome.PASS}

    @property
    def expected_outcomes(self) -> tuple[Outcome, ...]:
        """The outcomes that the test declared, in their order; none where it declared none of its own."""
        return tuple(word for word in Outcome if word in self._accepted) if self.expected else ()

    @property
    def mismatch(self) -> str:
        """That the test declared other outcomes than this one, as one sentence; empty where it is as it must be."""
        if self.accepted or not self.expected:
            return ""
        return self._mismatch(self.expected_outcomes)

    def _mismatch(self, outcomes: Sequence[Outcome]) -> str:
        return f"expected {' or '.join(outcomes)}, got {self.outcome} ({self.reason}): {self.summary}"


def change_words(change: float, *, metric_name: str, points: bool = False) -> str:
    """Name a raw change: the sign is that of the change, the word that of its direction.

    Args:
        change: a fraction: of the reference's value, or points of a share.
        metric_name: key in the metric table.
        points: whether it is in points.
    """
    rounded, unit = round(100 * change, 1), "points" if points else "%"
    if rounded == 0:
        return f"equal 0.0 {unit}"
    better = (change > 0) == metric(metric_name).higher_is_better
    return f"{'better' if better else 'worse'} {rounded:+.1f} {unit}"
