"""What a verdict rests on, line by line: values, noise, interval, factors of a speed, what more rounds would bring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.arms import MAXIMUM_ROUNDS
from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.factors import STEPS_PER_SECOND
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.percent import signed
from pytest_specgate.core.plan import ALPHA_FAIL, ALPHA_PASS
from pytest_specgate.core.planning import MOST_ROUNDS
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.core.thresholds import FASTER_ONLY_UP_TO, LIMITS, OUTPUTS_AGREE
from pytest_specgate.core.units import measured_text, rounded_up
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.reporting.baselines import baseline_evidence
from pytest_specgate.reporting.figures import number, percent, span, two_digits, unit_text, value_text
from pytest_specgate.reporting.gate_names import names_for_thresholds, thresholds_text
from pytest_specgate.reporting.tables import noise_line, shares_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.verdict import FactorVerdict, Verdict


def evidence_lines(verdict: Verdict, gate: Gate) -> Iterator[str]:
    """Yield what a judged verdict rests on; the claim stands among it."""
    if verdict.kind == OUTPUTS_AGREE:
        yield f"equal answers by round: {shares_text(verdict)}"
        yield f"claim: {verdict.claim}"
    elif verdict.kind in LIMITS:
        values = [measured_text(metric(verdict.metric).unit, value) for value in verdict.values]
        yield f"by boot of {gate.pair.candidate.name}: {', '.join(values)}"
        yield f"claim: {verdict.claim}"
    elif verdict.kind == NOT_WORSE_THAN_BASELINE:
        yield from baseline_evidence(verdict, gate)
    elif verdict.kind == FASTER_ONLY_UP_TO:
        yield from _curve_lines(verdict)
        yield f"claim: {verdict.claim}"
    else:
        yield from _interval_lines(verdict, gate)


def _curve_lines(verdict: Verdict) -> Iterator[str]:
    for point in verdict.curve:
        change = "-" if point.change is None else change_words(point.change, metric_name=verdict.metric)
        shown = f"shown {point.sign}" if point.sign != "not shown" else "no change shown"
        yield f"{level_label(point.at)}: {change}, interval {span(point.change_low, point.change_high)}: {shown}"
    if verdict.noise:
        yield f"noise: {verdict.noise}"
    if verdict.curve:
        levels, looks = counted(len(verdict.curve), "level"), counted(verdict.looks, "look")
        yield f"intervals: two-sided, {100 * ALPHA_PASS:g} % in all for {levels} and {looks}"


def _interval_lines(verdict: Verdict, gate: Gate) -> Iterator[str]:
    row = metric(verdict.metric)
    if verdict.reference is not None and verdict.candidate is not None:
        reference, candidate = (value_text(row, value) for value in (verdict.reference, verdict.candidate))
        mean = "means" if verdict.points else "geometric means"
        yield (
            f"{gate.pair.reference.name} {reference}, {gate.pair.candidate.name} {candidate} {unit_text(row)} "
            f"({mean} of {counted(verdict.rounds, 'round')}; by round: {_by_round(verdict)})"
        )
    yield from factor_lines(verdict)
    yield noise_line(verdict)
    yield f"claim: {verdict.claim}"
    yield from prospect_lines(verdict)
    if verdict.sd is None:
        return
    shared = f"{counted(verdict.looks, 'look')} and, for FAIL, {counted(verdict.family, 'threshold')} of the gate"
    levels = f"in all {100 * ALPHA_PASS:g} % for PASS and {100 * ALPHA_FAIL:g} % for FAIL"
    yield f"interval: one-sided bounds, {levels}, shared by {shared}"


def _by_round(verdict: Verdict) -> str:
    higher = metric(verdict.metric).higher_is_better
    if verdict.points:
        return ", ".join(f"{signed(ratio if higher else -ratio)} points" for ratio in verdict.ratios)
    return ", ".join(percent(raw_change(ratio, higher_is_better=higher)) for ratio in verdict.ratios)


def factor_lines(verdict: Verdict) -> Iterator[str]:
    """Say which factor of a speed moved, and what is left of the gated change beside them; nothing for others."""
    if verdict.factors and verdict.residual is not None:
        texts = [_factor_text(factor) for factor in verdict.factors]
        yield f"speed: {', '.join(texts)}; residual {percent(raw_change(verdict.residual, higher_is_better=True))}"


def _factor_text(factor: FactorVerdict) -> str:
    """Return a factor with both values; steps per second are told as the time of a step, as people speak of it."""
    name, change = factor.name, factor.change
    values, unit = (factor.reference, factor.candidate), ""
    if name == STEPS_PER_SECOND:
        name, change, unit = "step time", 1 / (1 + change) - 1, " ms"
        values = (1000 / factor.reference, 1000 / factor.candidate)
    shown = f"{number(values[0])} -> {number(values[1])}{unit}"
    if factor.change_low is None:
        return f"{name} {percent(change)} ({shown}, its noise is not known)"
    return (
        f"{name} {percent(change)} ({shown})"
        if factor.moved
        else f"{name} no change shown ({shown}, {percent(change)})"
    )


def verdict_notes(verdicts: Sequence[Verdict], *, among: Sequence[Verdict] = ()) -> Iterator[str]:
    """Yield what stands beside the verdicts of a pair, also those that passed: noise, factors, and what to know.

    What several verdicts have in common is said once, with the thresholds that it concerns.

    Args:
        verdicts: to say something of.
        among: all of the pair, where these are only some of them.
    """
    names = names_for_thresholds((verdict.gate, verdict.threshold) for verdict in among or verdicts)
    for label, lines in (
        ("noise", lambda verdict: [verdict.noise] if verdict.noise else []),
        ("", lambda verdict: list(factor_lines(verdict))),
        ("note", lambda verdict: list(verdict.flags)),
    ):
        found: dict[str, list[Verdict]] = {}
        for verdict in verdicts:
            for line in lines(verdict):
                found.setdefault(line, []).append(verdict)
        for line, concerned in found.items():
            yield f"{thresholds_text(concerned, names)}: {f'{label}: ' if label else ''}{line}"


def prospect_lines(verdict: Verdict) -> Iterator[str]:
    """Say what this noise and so many rounds can show, and what an undecided claim needs."""
    unit = "points" if verdict.points else "%"
    if verdict.smallest_margin is not None and verdict.detectable is not None:
        yield (
            f"with {counted(verdict.rounds_planned, 'round')} of this noise: smallest usable margin "
            f"{rounded_up(100 * verdict.smallest_margin)} {unit}, "
            f"a change of {_signed(100 * verdict.detectable)} {unit} is called FAIL in four of five runs"
        )
    if verdict.break_even_floor is not None:
        yield f"this would be decided under any declared floor up to {100 * verdict.break_even_floor:.3g} %"


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{two_digits(value)}"


def needs_lines(verdict: Verdict, again: str) -> Iterator[str]:
    """Yield what to run next for a claim that could not be decided."""
    if verdict.kind == FASTER_ONLY_UP_TO:
        more = min(MAXIMUM_ROUNDS, max(4, 2 * verdict.rounds_planned))
        yield f"more rounds narrow the intervals of all levels: {again} --specgate-rounds={more}"
        return
    if verdict.needs_rounds is None and verdict.sd is not None:
        yield f"more than {MOST_ROUNDS} rounds would be needed: change the margin, or make the machine quieter"
        yield f"measure again (a new sample, not a correction): {again}"
        return
    more = verdict.needs_rounds or min(MAXIMUM_ROUNDS, max(4, 2 * verdict.rounds_planned))
    yield f"a new run needs about {more} rounds: {again} --specgate-rounds={more}"


def counted(count: int, what: str) -> str:
    """Return a number with its noun: ``1 round``, ``2 rounds``."""
    return f"{count} {what}{'s' if count != 1 else ''}"


def is_undecided(verdict: Verdict) -> bool:
    """Whether more rounds could decide it."""
    others = {"stopped", "outputs-not-repeatable"}
    more = verdict.reason not in others and verdict.kind != NOT_WORSE_THAN_BASELINE
    return verdict.outcome == Outcome.INCONCLUSIVE and more
