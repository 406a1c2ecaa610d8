"""Verdicts of claims about a change: `not_worse`, `better`, `equivalent`, each judged by an interval."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core import planning, statistics
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.flags import flags
from pytest_specgate.core.known import known_noise
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.noise import Noise
from pytest_specgate.core.percent import signed
from pytest_specgate.core.rounds import Rounds, rounds_at
from pytest_specgate.core.speed import factor_fields
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import Outcome, Verdict, change_words
from pytest_specgate.core.verdict_parts import OPEN, attached, head, invalid, problem_at

if TYPE_CHECKING:
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.known import Known
    from pytest_specgate.core.noise import Scale
    from pytest_specgate.core.plan import Claim, Plan
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.statistics import Look
    from pytest_specgate.core.thresholds import Threshold

MOST_PLAUSIBLE: Final = math.log(4)
"""Gain, in log units, beyond which a claim of 'not worse' is not believed under strict: something was not measured."""

_IMPLAUSIBLE: Final = "a gain of this size is not believed on a claim of 'not worse': did both arms do the same work?"
_MARK: Final = {"not_worse": "margin", "better": "asked for", "equivalent": "within ±"}
_WHY: Final = {
    ("PASS", "not_worse"): "the loss is bounded within the margin",
    ("PASS", "better"): "the gain is bounded above what was asked for",
    ("PASS", "equivalent"): "the change is bounded on both sides",
    ("FAIL", "not_worse"): "the whole interval lies beyond the margin",
    ("FAIL", "better"): "the whole interval falls short of what was asked for",
    ("FAIL", "equivalent"): "the whole interval lies outside",
}
_REASONS: Final = {"PASS": "within-margin", "FAIL": "beyond-margin", "INCONCLUSIVE": "interval-contains-margin"}


@dataclasses.dataclass(frozen=True, slots=True)
class _Case:
    """A threshold with everything that its verdict rests on.

    Attributes:
        gate: of the threshold.
        threshold: the claim in words.
        record: the measurements.
        rounds: of which it is judged.
        known: what is known of the noise beforehand.
        scale: of the differences.
        claim: in the units of the differences.
        look: at the rounds.
    """

    gate: Gate
    threshold: Threshold
    record: WindowRecord
    rounds: Rounds
    known: Known
    scale: Scale
    claim: Claim
    look: Look

    @property
    def plan(self) -> Plan:
        """The looks of the threshold."""
        return self.gate.plan(self.threshold, self.record.noise)

    def raw(self, difference: float) -> float:
        """Return a signed difference as a raw change, a fraction."""
        higher = self.threshold.row.higher_is_better
        if self.threshold.points:
            return difference if higher else -difference
        return statistics.raw_change(difference, higher_is_better=higher)

    @property
    def limit(self) -> float:
        """The raw change at the margin that was judged by: that of the allowance, where it is the larger one."""
        if self.threshold.kind == "not_worse":
            return self.raw(-self.claim.delta)
        return self.threshold.limit_on(self.known.noise)

    def ends(self) -> tuple[float | None, float | None]:
        """Return both ends of the interval that decided, as raw changes.

        Of a loss these are the bounds of PASS and of FAIL; an equivalence is decided by both ends of one level: that of
        PASS, or the wider one of FAIL, which contains an end of the width where neither is shown.
        """
        look = self.look
        low, high = (look.lower, look.upper)
        if self.claim.gain is not None:
            low, high = (look.lower, look.pass_upper) if look.decision == "PASS" else (look.fail_lower, look.upper)
        if low is None or high is None:
            return None, None
        ends = [self.raw(bound) for bound in (low, high)]
        return min(ends), max(ends)


def judge_interval(gate: Gate, threshold: Threshold, record: WindowRecord, *, final: bool) -> Verdict:
    """Judge a threshold whose boots are all usable.

    A window that stopped between two looks keeps the verdict of the last one.
    """
    for both in record.rounds_of(gate.pair):
        problem = problem_at(gate.pair, both, record, at=threshold.at, per_chunk=threshold.row.per_chunk)
        if problem is not None:
            return invalid(gate, threshold, problem)
    rounds = rounds_at(gate.pair, record, metric_name=threshold.metric, at=threshold.at)
    if isinstance(rounds, Failure):
        return invalid(gate, threshold, rounds)
    if (verdict := _from_nothing(gate, threshold, rounds)) is not None:
        return verdict
    if threshold.row.higher_is_better and threshold.allowance >= rounds.reference.mean():
        text = f"{threshold.claim}: the allowance is as large as the value of {gate.pair.reference.name} itself"
        return invalid(gate, threshold, Failure(reason="allowance-too-large", message=text))
    looks = [count for count in gate.plan(threshold, record.noise).looks if count <= rounds.count]
    seen = rounds.first(looks[-1]) if final and looks else rounds
    try:
        return _judged(_case(gate, threshold, record, seen))
    except UsageError as error:
        return invalid(gate, threshold, Failure(reason="no-calibration", message=str(error)))


def _from_nothing(gate: Gate, threshold: Threshold, rounds: Rounds) -> Verdict | None:
    """Judge rounds in which a metric is 0, of which no ratio can be formed; `None` when it never is.

    A rate that fell to nothing is the largest loss there is, and measured: it fails. A reference that has nothing is no
    measure for anything.
    """
    row = threshold.row
    of = f"{row.label} at {level_label(threshold.at)}"
    if threshold.points:
        return None
    if 0 in rounds.reference.values:
        text = f"{of} is 0 in {gate.pair.reference.name}, so there is nothing to compare with: use at_least or at_most"
        return invalid(gate, threshold, Failure(reason="reference-is-zero", message=text))
    if 0 not in rounds.candidate.values:
        return None
    times = rounds.candidate.values.count(0)
    where = "" if times == rounds.count else f" in {times} of {rounds.count} rounds"
    return Verdict(
        **head(gate, threshold),
        outcome=Outcome.FAIL,
        reason="fell-to-zero",
        summary=f"FAIL: {of} fell to 0{where}: {change_words(-1.0, metric_name=row.name)}",
        reference=rounds.reference.mean(),
        candidate=0.0,
        change=-1.0,
        rounds=rounds.count,
        samples=rounds.samples,
    )


def _case(gate: Gate, threshold: Threshold, record: WindowRecord, rounds: Rounds) -> _Case:
    known = known_noise(threshold, gate.pair, record.noise)
    scale = threshold.scale(samples=rounds.samples)
    reference = None if threshold.points else rounds.reference.mean()
    claim = threshold.claim_on(known.noise, reference=reference)
    look = statistics.look(
        rounds.differences(higher_is_better=threshold.row.higher_is_better, linear=threshold.points),
        delta=claim.delta,
        gain=claim.gain,
        noise=known.noise,
        plan=gate.plan(threshold, record.noise),
        candidate_first=rounds.candidate_first,
        scale=scale,
    )
    return _Case(gate, threshold, record, rounds, known, scale, claim, look)


def _judged(case: _Case) -> Verdict:
    look, threshold, rounds = case.look, case.threshold, case.rounds
    bounded = threshold.points and threshold.kind != "better"
    if bounded and case.scale.least_sd > threshold.margin_on(case.known.noise) / 2:
        text = f"{threshold.claim}: its steps of {100 * case.scale.least_sd:.2g} points cannot resolve that margin"
        return invalid(case.gate, threshold, Failure(reason="cannot-be-resolved", message=text))
    if case.record.strict and threshold.kind == "not_worse" and look.mean > MOST_PLAUSIBLE and not threshold.points:
        # Whatever is INVALID has no figure: the number that was measured is not told.
        gain = f"better by a factor of more than {math.exp(MOST_PLAUSIBLE):g}"
        text = f"{threshold.row.label} at {level_label(threshold.at)} {gain}: {_IMPLAUSIBLE}"
        return invalid(case.gate, threshold, Failure(reason="implausible-gain", message=text))
    low, high = case.ends()
    told = flags(threshold, case.gate.pair, look=look, rounds=rounds, known=case.known)
    verdict = Verdict(
        **head(case.gate, threshold, limit=case.limit),
        points=threshold.points,
        outcome=Outcome.INCONCLUSIVE if look.decision == "CONTINUE" else Outcome(look.decision),
        reason=_reason(look),
        summary="",
        reference=rounds.reference.mean(linear=threshold.points),
        candidate=rounds.candidate.mean(linear=threshold.points),
        ratios=rounds.differences(higher_is_better=threshold.row.higher_is_better, linear=threshold.points),
        change=case.raw(look.mean),
        change_low=low,
        change_high=high,
        rounds=rounds.count,
        sd=look.sd,
        df=look.df,
        noise=_noise_words(case),
        f_ratio=look.f_ratio,
        looks=len(case.plan.looks),
        order_effect=look.order_effect,
        samples=rounds.samples,
        flags=(*told, *attached(case.gate.pair, case.record)),
        **_prospects(case),
        **factor_fields(case.gate, threshold, case.record, gated=look.mean, count=rounds.count),
    )
    return verdict.model_copy(update={"summary": _summary(verdict, case)})


def _prospects(case: _Case) -> dict[str, Any]:
    """Return what more rounds, another margin or a declared floor would bring."""
    look, plan, family, known = case.look, case.plan, case.gate.family, case.known.noise
    if look.sd is None:
        alone = not plan.looks and case.rounds.count == 1
        floor = planning.break_even_floor(look.mean, delta=case.claim.delta) if alone else None
        return {"break_even_floor": floor}
    seen = Noise(look.sd, known.df)
    n_max = case.gate.pair.rounds
    smallest = planning.smallest_margin(noise=seen, n_max=n_max, family=family)
    detectable = planning.detectable(case.claim.delta, noise=seen, n_max=n_max, family=family)
    open_still = look.decision in {"INCONCLUSIVE", "CONTINUE"}
    needs = planning.rounds_after(look, claim=case.claim, rounds=case.rounds.count, noise=known, family=family)
    return {
        "needs_rounds": needs if open_still else None,
        "smallest_margin": None if smallest is None else abs(case.raw(-smallest)),
        "detectable": None if detectable is None else case.raw(-detectable),
    }


def _reason(look: Look) -> str:
    if look.decision == "CONTINUE":
        return OPEN
    if look.decision == "INCONCLUSIVE" and look.lower is None:
        return "noise-unknown"
    return "futile" if look.reason.startswith("futile") else _REASONS[look.decision]


def _summary(verdict: Verdict, case: _Case) -> str:
    threshold = case.threshold
    unit = "points" if threshold.points else "%"
    low, high = verdict.change_low, verdict.change_high
    span = "" if low is None or high is None else f", interval {signed(low)} to {signed(high)} {unit}"
    changed = change_words(case.raw(case.look.mean), metric_name=threshold.metric, points=threshold.points)
    limit = 100 * (abs(verdict.limit or 0.0) if threshold.kind == "equivalent" else (verdict.limit or 0.0))
    sign = "" if threshold.kind == "equivalent" else "+"
    claimed = f"{_MARK[threshold.kind]} {limit:{sign}.3g} {unit}".replace("± ", "±")
    why = _WHY.get((case.look.decision, threshold.kind), case.look.reason)
    return f"{verdict.outcome}: {threshold.row.label} at {level_label(threshold.at)} {changed}{span}, {claimed}: {why}"


def _noise_words(case: _Case) -> str:
    source = "not estimated before the first look" if case.look.sd is None and case.plan.looks else case.look.source
    if not case.known.calibrated:
        source = source.replace("calibrated", "declared").replace("calibration", "declared floor")
        source = source.replace("own (no declared floor)", "own (no calibration)")
    return f"{source}; {case.known.words}" if case.known.words else source
