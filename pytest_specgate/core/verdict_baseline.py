"""Verdicts of claims about a baseline: today's window against those that were accepted before, judged once.

The rule is that of `pytest_specgate.core.cross_window`. Before any figure is compared the load, field by field, what
was compared, the formulas and the class of the machine have to agree.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import statistics
from pytest_specgate.core.baseline_fit import problem_of
from pytest_specgate.core.baseline_offer import offer
from pytest_specgate.core.baselines import NO_BASELINE
from pytest_specgate.core.cross_window import LEAST_WINDOWS, CrossLook, WindowMean, cross_look, upper_quantile
from pytest_specgate.core.errors import InvalidError
from pytest_specgate.core.known import calibrated_noise
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import BaselineVerdict, Outcome, Verdict, change_words
from pytest_specgate.core.verdict_parts import OPEN, attached, head, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.baselines import BaselineEntry, BaselineValues, KnownBaseline
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import BaselineThreshold

LATER: Final = "later"
"""Reason code of a claim that is judged when the window has ended, and asks for no round."""

STALE: Final = "stale-baseline"
EROSION: Final = "erosion"
NO_NOISE: Final = "no-cross-window-noise"
MOVED: Final = "machine-moved"
NOISE_UNKNOWN: Final = "noise-unknown"

_REASONS: Final = {"PASS": "within-margin", "FAIL": "beyond-margin", "INCONCLUSIVE": "interval-contains-margin"}
_WHY: Final = {
    "PASS": "the loss is bounded within the margin",
    "FAIL": "the whole interval lies beyond the margin",
    "INCONCLUSIVE": "the interval contains the margin, and more rounds would not narrow it: more windows do",
}
_STALE: Final = "stale baseline: today is better by more than the margin, so the baseline is of another time"
_DAY: Final = 10
_SINGLE: Final = "a window of one round has no spread of its own"


@dataclasses.dataclass(frozen=True, slots=True)
class _Case:
    """A claim with everything that its verdict rests on.

    Attributes:
        gate: of the claim.
        threshold: the claim.
        record: of today.
        known: its baseline.
        entry: of the baseline.
        today: figures of today, by round.
        within: variance of one difference of today; `None` where nothing tells it.
    """

    gate: Gate
    threshold: BaselineThreshold
    record: WindowRecord
    known: KnownBaseline
    entry: BaselineEntry
    today: BaselineValues
    within: float | None

    @property
    def lost(self) -> float:
        """How far today is from the first window that was ever accepted, signed: negative when it is worse."""
        return self.level(self.today) - self.level(self.entry.anchor)

    @property
    def eroded(self) -> bool:
        """Whether more than the margin is lost since the first window."""
        return self.lost < -self.threshold.delta

    def level(self, values: BaselineValues) -> float:
        """Return the signed mean of a window: of its differences, or of the logarithms of its candidate."""
        if self.threshold.mode == "absolute":
            return self.level_of(values.candidate)
        return _mean(self._differences(values))

    def level_of(self, figures: Sequence[float]) -> float:
        """Return the signed mean level of an arm, of logarithms or of shares."""
        sign = 1 if self.threshold.row.higher_is_better else -1
        return sign * _mean(figures if self.threshold.points else [math.log(figure) for figure in figures])

    def _differences(self, values: BaselineValues) -> tuple[float, ...]:
        return differences(self.threshold, values)

    def look(self) -> CrossLook:
        """Judge today's window."""
        return self._look(self.level(self.today), [self.level(values) for values in self.entry.windows])

    def reference_look(self, *, delta: float) -> CrossLook | None:
        """Judge the level of the reference arm alone; `None` where it has no such metric."""
        if not self.today.reference or not all(values.reference for values in self.entry.windows):
            return None
        windows = [self.level_of(values.reference) for values in self.entry.windows]
        return self._look(self.level_of(self.today.reference), windows, delta=delta, share=0.5)

    def _look(
        self, today: float, windows: Sequence[float], *, delta: float | None = None, share: float | None = None
    ) -> CrossLook:
        floor = self.threshold.cross_window
        alone = 0.5 if self.threshold.mode == "absolute" else 1.0
        counts = [values.rounds for values in self.entry.windows]
        return cross_look(
            WindowMean(today, self.today.rounds),
            [WindowMean(level, rounds) for level, rounds in zip(windows, counts, strict=True)],
            delta=self.threshold.delta if delta is None else delta,
            within=None if self.within is None else self.within * (alone if share is None else share),
            declared=None if floor is None else floor.fraction,
            family=self.gate.family,
            linear=self.threshold.points,
        )


def differences(threshold: BaselineThreshold, values: BaselineValues) -> tuple[float, ...]:
    """Return the signed differences of a window by round, of logarithms or of shares; empty for a single arm."""
    sign = 1 if threshold.row.higher_is_better else -1
    pairs = zip(values.reference, values.candidate, strict=False)
    if threshold.points:
        return tuple(sign * (candidate - reference) for reference, candidate in pairs)
    return tuple(sign * math.log(candidate / reference) for reference, candidate in pairs)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def judge_baseline(gate: Gate, threshold: BaselineThreshold, record: WindowRecord, *, final: bool) -> Verdict:
    """Judge a claim about a baseline, once the window has ended; the pair as such can be judged.

    Args:
        gate: of the claim.
        threshold: the claim.
        record: of today.
        final: whether the window has ended.
    """
    closed = closed_beforehand(gate, threshold, record.baseline(gate.id, threshold.entry_id))
    if closed is not None:
        return closed
    try:
        found = offer(gate.pair, threshold, record)
    except InvalidError as error:
        return invalid(gate, threshold, Failure(reason=error.reason, message=str(error)))
    if not final:
        return _waiting(gate, threshold, rounds=found.values.rounds)
    known = record.baseline(gate.id, threshold.entry_id)
    assert known is not None, "closed_beforehand() has a verdict for that"
    assert known.entry is not None, "likewise"
    problem = problem_of(threshold, found, known, engine=record.engine)
    if problem is not None:
        return invalid(gate, threshold, problem)
    within = _within(threshold, gate, record, found.values)
    return _judged(_Case(gate, threshold, record, known, known.entry, found.values, within))


def closed_beforehand(gate: Gate, threshold: BaselineThreshold, known: KnownBaseline | None) -> Verdict | None:
    """Return the verdict of a claim whose baseline cannot be used, whatever will be measured; `None` if it can."""
    if known is None:
        text = f"INCONCLUSIVE: {threshold.claim}: no baseline of this gate was looked up"
        return _undecided(gate, threshold, reason=NO_BASELINE, summary=text)
    if known.problem is None:
        return None
    failure = known.problem
    if failure.reason.startswith(("no-", "baselines-")):
        summary = f"INCONCLUSIVE: {threshold.claim}: {failure.message}"
        return _undecided(gate, threshold, reason=failure.reason, summary=summary)
    return invalid(gate, threshold, failure)


def _undecided(gate: Gate, threshold: BaselineThreshold, *, reason: str, summary: str = "") -> Verdict:
    return Verdict(**head(gate, threshold), outcome=Outcome.INCONCLUSIVE, reason=reason, summary=summary)


def _waiting(gate: Gate, threshold: BaselineThreshold, *, rounds: int) -> Verdict:
    """Leave a claim for later: only where nothing else decides when the gate has seen enough does it ask for rounds."""
    more = not gate.intervals and rounds < gate.pair.rounds
    return _undecided(gate, threshold, reason=OPEN if more else LATER)


def _within(threshold: BaselineThreshold, gate: Gate, record: WindowRecord, today: BaselineValues) -> float | None:
    """Return the variance of one difference of today, by its rounds and a calibration; `None` if nothing tells it."""
    values = differences(threshold, today)
    if not values:
        # A difference of two arms that scatter alike has twice the variance of one.
        values = tuple(math.sqrt(2) * (figure if threshold.points else math.log(figure)) for figure in today.candidate)
    mean = _mean(values)
    squares, df = math.fsum((value - mean) ** 2 for value in values), len(values) - 1.0
    fits = threshold.points == (threshold.row.unit == "share")
    noise = calibrated_noise(threshold.metric, gate.pair, record.noise, at=threshold.at).noise
    if fits and noise.df:
        squares, df = squares + noise.df * noise.sigma**2, df + noise.df
    return squares / df if df else None


def _judged(case: _Case) -> Verdict:
    threshold, look = case.threshold, case.look()
    if look.lower is None or look.upper is None:
        return _without_noise(case, look)
    if (moved := _moved(case)) is not None:
        return invalid(case.gate, threshold, moved)
    outcome, reason = Outcome(look.decision), _REASONS[look.decision]
    verdict = _figures(case, look)
    low, high = sorted(threshold.raw(bound) for bound in (look.lower, look.upper))
    unit = "points" if threshold.points else "%"
    span = f", interval {100 * low:+.1f} to {100 * high:+.1f} {unit}"
    margin = f", margin {100 * threshold.declared_limit:+.3g} {unit}"
    judged = verdict.model_copy(
        update={
            "outcome": outcome,
            "reason": reason,
            "change_low": low,
            "change_high": high,
            "sd": look.sd,
            "df": look.df,
            "smallest_margin": None if look.smallest_margin is None else abs(threshold.raw(-look.smallest_margin)),
            "summary": f"{outcome}: {_told(case, look)}{span}{margin}: {_WHY[look.decision]}",
        }
    )
    return _strictly(judged, case, look) if case.record.strict else judged


def _strictly(verdict: Verdict, case: _Case, look: CrossLook) -> Verdict:
    """Let no pass stand that rests on a stale baseline, or on a slow erosion that none of its steps shows."""
    if verdict.outcome != Outcome.PASS:
        return verdict
    if case.eroded:
        shown = _erosion_shown(case, look)
        outcome = Outcome.FAIL if shown else Outcome.INCONCLUSIVE
        return verdict.model_copy(
            update={"outcome": outcome, "reason": EROSION, "summary": f"{outcome}: {_erosion_text(case)}"}
        )
    if look.stale:
        summary = f"{Outcome.INCONCLUSIVE}: {_told(case, look)}: {_STALE}, and strict accepts no stale baseline"
        return verdict.model_copy(update={"outcome": Outcome.INCONCLUSIVE, "reason": STALE, "summary": summary})
    return verdict


def _erosion_shown(case: _Case, look: CrossLook) -> bool:
    """Whether the loss since the first window is shown to be beyond the margin: both are single windows."""
    assert look.window_sd is not None, "a look with bounds has a noise"
    half = upper_quantile(look.df, family=case.gate.family) * math.sqrt(2) * look.window_sd
    return case.lost + half < -case.threshold.delta


def _erosion_text(case: _Case) -> str:
    threshold, anchor = case.threshold, case.known.windows[case.entry.anchor.window]
    changed = change_words(threshold.raw(case.lost), metric_name=threshold.metric, points=threshold.points)
    steps = change_words(
        threshold.raw(case.level(case.today) - case.level(case.entry.latest)),
        metric_name=threshold.metric,
        points=threshold.points,
    )
    return (
        f"erosion: {threshold.row.label} at {level_label(threshold.at)} {changed} since the first accepted window "
        f"({anchor.measured_at[:_DAY]}), beyond the margin, though only {steps} since the last one"
    )


def _without_noise(case: _Case, look: CrossLook) -> Verdict:
    """Leave a claim undecided of which no noise across windows is known."""
    count = len(case.entry.windows)
    reason, why = NO_NOISE, (
        f"how far windows lie apart is not known: {count} of {LEAST_WINDOWS} windows are there; accept "
        f"{LEAST_WINDOWS - count} more, or declare cross_window=noise_floor('3%', source='...')"
    )  # fmt: skip
    if count >= LEAST_WINDOWS:
        reason, why = NOISE_UNKNOWN, (
            "one round of today is compared with windows of more, and nothing tells how far single rounds scatter: "
            "raise rounds, or calibrate"
        )  # fmt: skip
    summary = f"INCONCLUSIVE: {_told(case, look)}: {why}"
    return _figures(case, look).model_copy(
        update={"outcome": Outcome.INCONCLUSIVE, "reason": reason, "summary": summary}
    )


def _moved(case: _Case) -> Failure | None:
    """Return that the machine is another today: the level of the reference left its own baseline, too."""
    if case.threshold.mode != "absolute":
        return None
    delta = case.threshold.delta
    look = case.reference_look(delta=delta)
    if look is None or look.upper is None or look.lower is None or (look.upper >= -delta and look.lower <= delta):
        return None
    changed = change_words(case.threshold.raw(look.difference), metric_name=case.threshold.metric)
    return Failure(
        reason=MOVED,
        message=(
            f"{case.threshold.claim}: the machine moved: {case.gate.pair.reference.name}, the reference, is {changed} "
            f"than its own baseline, so the level of {case.gate.pair.candidate.name} tells nothing: use mode='relative'"
        ),
    )


def _figures(case: _Case, look: CrossLook) -> Verdict:
    """Return a verdict with all its figures and without its word."""
    threshold, values, entry = case.threshold, case.today, case.entry
    return Verdict(
        **head(case.gate, threshold),
        points=threshold.points,
        outcome=Outcome.INCONCLUSIVE,
        reason="",
        summary="",
        reference=_plain(case, values.reference) if values.reference else None,
        candidate=_plain(case, values.candidate),
        ratios=differences(threshold, values),
        change=threshold.raw(look.difference),
        rounds=values.rounds,
        noise=f"across windows: {look.source}{_floor_words(case, look)}",
        looks=1,
        baseline=BaselineVerdict(
            mode=threshold.mode,
            today=_shown(case, case.level(values)),
            level=_shown(case, _mean([case.level(one) for one in entry.windows])),
            windows=tuple(_shown(case, case.level(one)) for one in entry.windows),
            since_latest=threshold.raw(case.level(values) - case.level(entry.latest)),
            since_anchor=threshold.raw(case.level(values) - case.level(entry.anchor)),
            anchor_at=case.known.windows[entry.anchor.window].measured_at,
            latest_at=case.known.windows[entry.latest.window].measured_at,
            path=case.known.path,
        ),
        flags=(*_flags(case, look), *attached(case.gate.pair, case.record)),
    )


def _plain(case: _Case, figures: Sequence[float]) -> float:
    return _mean(figures) if case.threshold.points else statistics.geometric_mean(figures)


def _shown(case: _Case, level: float) -> float:
    """Return a signed level as people read it: candidate over reference, a difference of shares, or a value."""
    unsigned = level if case.threshold.row.higher_is_better else -level
    return unsigned if case.threshold.points else math.exp(unsigned)


def _floor_words(case: _Case, look: CrossLook) -> str:
    floor = case.threshold.cross_window
    return f" {floor.words}" if floor is not None and look.source.startswith("declared") else ""


def _told(case: _Case, look: CrossLook) -> str:
    """Say what was found, in words."""
    threshold = case.threshold
    changed = change_words(threshold.raw(look.difference), metric_name=threshold.metric, points=threshold.points)
    of = case.gate.pair.title if threshold.mode == "relative" else f"{case.gate.pair.candidate.name} (absolute)"
    count = len(case.entry.windows)
    windows = f"{count} accepted window{'s' if count != 1 else ''}"
    return f"{threshold.row.label} at {level_label(threshold.at)} of {of} {changed} since its baseline of {windows}"


def _flags(case: _Case, look: CrossLook) -> Iterator[str]:
    """Say what a reader should know besides."""
    if look.stale:
        yield _STALE
    if case.eroded:
        yield _erosion_text(case)
    if min(values.rounds for values in (case.today, *case.entry.windows)) == 1:
        yield _SINGLE
    if (unusual := _unusual(case)) is not None:
        yield unusual


def _unusual(case: _Case) -> str | None:
    """Say that the reference arm is not its usual self; `None` where it is, or where nothing tells."""
    look = case.reference_look(delta=0.0) if case.threshold.mode == "relative" else None
    if look is None or look.lower is None or look.upper is None or look.lower <= 0 <= look.upper:
        return None
    threshold = case.threshold
    changed = change_words(threshold.raw(look.difference), metric_name=threshold.metric, points=threshold.points)
    return f"{case.gate.pair.reference.name}, the reference, is not its usual self: {changed} since the baseline"
