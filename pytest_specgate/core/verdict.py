"""Verdicts: what a gate says of one threshold, as a value."""

from __future__ import annotations

import enum

from pydantic import PrivateAttr

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.levels import Level
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.records import Stored


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


class Verdict(Stored):
    """The judgement of one threshold.

    Changes and margins are fractions (0.05 is 5 %); changes are raw: +0.2 is 20 % more of the metric, good or bad.

    Attributes:
        gate: id of the gate.
        threshold: its id within the gate, as ``c32-output_throughput-not_worse``.
        pair: candidate against reference, by name.
        metric: key in the metric table, or ``outputs_agree``.
        at: load level.
        kind: ``not_worse``, ``better`` or ``outputs_agree``.
        limit: the raw change at the margin, a fraction: -0.15 for a throughput that may fall by 15 %; of
            ``outputs_agree`` the least share of equal answers.
        claim: what was to be shown, in words.
        outcome: the word.
        reason: code of the reason.
        summary: one sentence.
        detail: further lines (both values of a field that differs, the end of a server log).
        reference: geometric mean over rounds of the reference arm, in the metric's unit; `None` when INVALID.
        candidate: likewise of the candidate arm.
        ratios: signed log ratios by round, positive when the candidate is better.
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
        flags: what a reader should know besides.
    """

    gate: str
    threshold: str
    pair: str
    metric: str
    at: Level
    kind: str
    limit: float
    claim: str
    outcome: Outcome
    reason: str
    summary: str
    detail: str = ""
    reference: float | None = None
    candidate: float | None = None
    ratios: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
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
            words = " or ".join(outcomes)
            raise UnexpectedOutcomeError(f"expected {words}, got {self.outcome} ({self.reason}): {self.summary}")

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
    def kind_words(self) -> str:
        """The kind of the claim in words: ``not worse than``, ``better than``."""
        return f"{self.kind.replace('_', ' ')} than"


def change_words(change: float, *, metric_name: str) -> str:
    """Name a raw change: the sign is that of the change, the word that of its direction."""
    percent = round(100 * change, 1)
    if percent == 0:
        return "equal 0.0 %"
    better = (change > 0) == metric(metric_name).higher_is_better
    return f"{'better' if better else 'worse'} {percent:+.1f} %"
