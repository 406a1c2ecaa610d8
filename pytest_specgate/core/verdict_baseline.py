"""Verdicts of claims about a baseline: today's window against those that were accepted before, judged once.

The rule is that of `pytest_specgate.core.cross_window`. Before any figure is compared the load, field by field, what
was compared, the formulas and the class of the machine have to agree.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import statistics
from pytest_specgate.core.baseline_case import BaselineCase
from pytest_specgate.core.baseline_closed import closed_beforehand, undecided
from pytest_specgate.core.baseline_fit import problem_of
from pytest_specgate.core.baseline_offer import builds_of, offer
from pytest_specgate.core.baseline_values import differences, mean, shown_level
from pytest_specgate.core.baselines import BASELINES_OFF, EROSION, STALE
from pytest_specgate.core.cross_window import LEAST_WINDOWS, CrossLook, upper_quantile
from pytest_specgate.core.errors import InvalidError
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.percent import signed
from pytest_specgate.core.rule import SLACK
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import BaselineVerdict, Outcome, Verdict, change_words
from pytest_specgate.core.verdict_parts import OPEN, attached, head, invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.baselines import BaselineValues, KnownBaseline
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.thresholds import BaselineThreshold

LATER: Final = "later"
"""Reason code of a claim that is judged when the window has ended, and asks for no round."""

NO_NOISE: Final = "no-cross-window-noise"
MOVED: Final = "machine-moved"
NOISE_UNKNOWN: Final = "noise-unknown"
ZERO: Final = "fell-to-zero"

_REASONS: Final = {"PASS": "within-margin", "FAIL": "beyond-margin", "INCONCLUSIVE": "interval-contains-margin"}
_WHY: Final = {
    "PASS": "the loss is bounded within the margin",
    "FAIL": "the whole interval lies beyond the margin",
    "INCONCLUSIVE": "the interval contains the margin, and more rounds would not narrow it: more windows do",
}
_STALE: Final = "stale baseline: today is better by more than the margin, so the baseline is of another time"
_DAY: Final = 10


def judge_baseline(gate: Gate, threshold: BaselineThreshold, record: WindowRecord, *, final: bool) -> Verdict:
    """Judge a claim about a baseline, once the window has ended; the pair as such can be judged.

    Args:
        gate: of the claim.
        threshold: the claim.
        record: of today.
        final: whether the window has ended.
    """
    known = record.baseline(gate.id, threshold.entry_id)
    closed = closed_beforehand(gate, threshold, known)
    if closed is not None and final:
        return closed
    try:
        found = offer(gate.pair, threshold, record)
    except InvalidError as error:
        return invalid(gate, threshold, Failure(reason=error.reason, message=str(error)))
    if not final or known is None or known.entry is None:
        return _waiting(gate, threshold, known, rounds=found.values.rounds)
    problem = problem_of(threshold, found, known, engine=builds_of(gate.pair, record))
    if problem is not None:
        return invalid(gate, threshold, problem)
    case = BaselineCase(gate, threshold, record, known, known.entry, found)
    return _from_nothing(case) or _judged(case)


def _waiting(gate: Gate, threshold: BaselineThreshold, known: KnownBaseline | None, *, rounds: int) -> Verdict:
    """Leave a claim for later: only where nothing else decides when the gate has seen enough does it ask for rounds.

    A window whose baseline is missing, or of another load, asks for them, too: it may become the baseline.
    """
    off = known is not None and known.problem is not None and known.problem.reason == BASELINES_OFF
    more = not gate.intervals and not off and rounds < gate.pair.rounds
    return undecided(gate, threshold, reason=OPEN if more else LATER)


def _from_nothing(case: BaselineCase) -> Verdict | None:
    """Judge rounds in which a metric is 0, of which no ratio can be formed; `None` when it never is."""
    threshold, today = case.threshold, case.today
    of = f"{threshold.row.label} at {level_label(threshold.at)}"
    if threshold.points:
        return None
    if 0 in today.reference:
        text = f"{of} is 0 in {case.gate.pair.reference.name}, so there is nothing to compare with"
        return invalid(case.gate, threshold, Failure(reason="reference-is-zero", message=text))
    if 0 not in today.candidate:
        return None
    times = today.candidate.count(0)
    where = "" if times == today.rounds else f" in {times} of {today.rounds} rounds"
    return Verdict(
        **head(case.gate, threshold),
        outcome=Outcome.FAIL,
        reason=ZERO,
        summary=f"FAIL: {of} fell to 0{where}: {change_words(-1.0, metric_name=threshold.metric)}",
        reference=statistics.geometric_mean(today.reference) if today.reference else None,
        candidate=0.0,
        change=-1.0,
        rounds=today.rounds,
        samples=case.found.samples,
    )


def _judged(case: BaselineCase) -> Verdict:
    threshold, look = case.threshold, case.look()
    if look.lower is None or look.upper is None:
        return _without_noise(case, look)
    if (problem := _too_fine(case) or _moved(case)) is not None:
        return invalid(case.gate, threshold, problem)
    outcome, reason = Outcome(look.decision), _REASONS[look.decision]
    verdict = _figures(case, look)
    low, high = sorted(threshold.raw(bound) for bound in (look.lower, look.upper))
    unit = "points" if threshold.points else "%"
    span = f", interval {signed(low)} to {signed(high)} {unit}"
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


def _strictly(verdict: Verdict, case: BaselineCase, look: CrossLook) -> Verdict:
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


def _erosion_shown(case: BaselineCase, look: CrossLook) -> bool:
    """Whether the loss since the first window is shown to be beyond the margin: both are single windows."""
    assert look.window_sd is not None, "a look with bounds has a noise"
    half = upper_quantile(look.df, family=case.gate.family) * math.sqrt(2) * look.window_sd
    return case.lost + half < -case.threshold.delta - SLACK


def _erosion_text(case: BaselineCase) -> str:
    threshold, anchor = case.threshold, case.known.windows[case.entry.anchor.window]
    step = case.words(case.level(case.today) - case.level(case.entry.latest))
    return (
        f"erosion: {threshold.row.label} at {level_label(threshold.at)} {case.words(case.lost)} since the first "
        f"accepted window ({anchor.measured_at[:_DAY]}), beyond the margin, and {step} since the last one "
        f"({case.known.windows[case.entry.latest.window].measured_at[:_DAY]})"
    )


def _without_noise(case: BaselineCase, look: CrossLook) -> Verdict:
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


def _too_fine(case: BaselineCase) -> Failure | None:
    """Return that the samples of a share are too few to see its margin."""
    threshold, step = case.threshold, case.scale.least_sd
    if not threshold.points or step <= threshold.fraction / 2:
        return None
    text = f"{threshold.claim}: its steps of {100 * step:.2g} points cannot resolve that margin"
    return Failure(reason="cannot-be-resolved", message=text)


def _moved(case: BaselineCase) -> Failure | None:
    """Return that the machine is another today: the level of the reference left its own baseline, too."""
    if case.threshold.mode != "absolute":
        return None
    delta = case.threshold.delta
    look = case.reference_look(delta=delta)
    if look is None or look.upper is None or look.lower is None or (look.upper >= -delta and look.lower <= delta):
        return None
    reference, candidate = (arm.name for arm in case.gate.pair.arms)
    return Failure(
        reason=MOVED,
        message=(
            f"{case.threshold.claim}: the machine moved: {reference}, the reference, is {case.words(look.difference)} "
            f"since its own baseline, so the level of {candidate} tells nothing: use "
            f"mode='relative', or start the baseline anew if the machine stays so"
        ),
    )


def _figures(case: BaselineCase, look: CrossLook) -> Verdict:
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
        samples=case.found.samples,
        noise=f"across windows: {look.source}{_floor_words(case, look)}",
        looks=1,
        baseline=BaselineVerdict(
            mode=threshold.mode,
            today=shown_level(threshold, case.level(values)),
            level=shown_level(threshold, mean([case.level(one) for one in entry.windows])),
            windows=tuple(shown_level(threshold, case.level(one)) for one in entry.windows),
            since_latest=threshold.raw(case.level(values) - case.level(entry.latest)),
            since_anchor=threshold.raw(case.level(values) - case.level(entry.anchor)),
            anchor_at=case.known.windows[entry.anchor.window].measured_at,
            latest_at=case.known.windows[entry.latest.window].measured_at,
            path=case.known.path,
        ),
        flags=(*_flags(case, look), *attached(case.gate.pair, case.record)),
    )


def _plain(case: BaselineCase, figures: Sequence[float]) -> float:
    return mean(figures) if case.threshold.points else statistics.geometric_mean(figures)


def _floor_words(case: BaselineCase, look: CrossLook) -> str:
    floor = case.threshold.cross_window
    return f" {floor.words}" if floor is not None and look.source.startswith("declared") else ""


def _told(case: BaselineCase, look: CrossLook) -> str:
    """Say what was found, in words."""
    threshold, changed = case.threshold, case.words(look.difference)
    of = case.gate.pair.title if threshold.mode == "relative" else f"{case.gate.pair.candidate.name} (absolute)"
    count = len(case.entry.windows)
    windows = f"{count} accepted window{'s' if count != 1 else ''}"
    return f"{threshold.row.label} at {level_label(threshold.at)} of {of} {changed} since its baseline of {windows}"


def _flags(case: BaselineCase, look: CrossLook) -> Iterator[str]:
    """Say what a reader should know besides."""
    if look.stale:
        yield _STALE
    if case.eroded:
        yield _erosion_text(case)
    if single := [_window_name(case, values) for values in (case.today, *case.entry.windows) if values.rounds == 1]:
        yield f"of one round only, which has no spread of its own: {', '.join(single)}"
    if (unusual := _unusual(case)) is not None:
        yield unusual


def _window_name(case: BaselineCase, values: BaselineValues) -> str:
    known = case.known.windows.get(values.window)
    return "today's window" if known is None else f"the window of {known.measured_at[:_DAY]}"


def _unusual(case: BaselineCase) -> str | None:
    """Say that the reference arm is not its usual self; `None` where it is, or where nothing tells."""
    look = case.reference_look(delta=0.0) if case.threshold.mode == "relative" else None
    if look is None or look.lower is None or look.upper is None or look.lower <= 0 <= look.upper:
        return None
    name, changed = case.gate.pair.reference.name, case.words(look.difference)
    return f"{name}, the reference, is not its usual self: {changed} since the baseline"
