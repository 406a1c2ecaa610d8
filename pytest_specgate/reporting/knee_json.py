"""Draft horizons as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_specgate.core.knee import COUNTED
from pytest_specgate.core.knee_report import (
    SCHEMA_VERSION,
    KneeReport,
    LeftOut,
    ReportedAcceptance,
    ReportedAdvice,
    ReportedChange,
    ReportedDifferences,
    ReportedDuel,
    ReportedHorizon,
    ReportedRate,
    ReportedSource,
)
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.knee_words import change_sentence, duel_interval, notes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.acceptance import Estimate
    from pytest_specgate.core.advice import Duel
    from pytest_specgate.core.horizon import Horizon
    from pytest_specgate.core.knee import Knee, KneeCurve, KneeSource, LevelHorizons, ObjectiveAdvice
    from pytest_specgate.core.levels import Level


def knee_report(knee: Knee, *, at: Sequence[Level] | None = None) -> KneeReport:
    """Return what is told of draft horizons, as it is stored.

    Args:
        knee: what is told.
        at: load levels; `None` for all.
    """
    return KneeReport(
        schema_version=SCHEMA_VERSION,
        cut=knee.cut,
        sources=tuple(_source(one, at) for one in knee.sources),
        left_out=tuple(
            LeftOut(source=one_line(path), reason=why.reason, message=one_line(why.message))
            for path, why in knee.left_out
        ),
        advice=tuple(_advice(drafter, one) for drafter, found in knee.advice.items() for one in found),
        notes=tuple(notes(knee)),
    )


def _source(one: KneeSource, at: Sequence[Level] | None) -> ReportedSource:
    levels = one.levels if at is None else one.at(at)
    return ReportedSource(
        source=one_line(one.source),
        drafter=None if one.drafter is None else one_line(one.drafter),
        identity=one.identity,
        arms={f"{k}": one_line(name) for k, name in sorted(one.arms.items())},
        drafted_only=one.drafted_only,
        curves=tuple(_curve(curve) for level in levels for curve in one.curves_at(level.at)),
        horizons=tuple(_horizon(row, level) for level in levels for row in level.rows),
        ruled_out={one_line(arm): one_line(why) for arm, why in one.ruled_out.items()},
        unfinished=one_line(one.unfinished) or None,
        unproved=tuple(map(one_line, one.unproved)),
    )


def _load(at: Level | None) -> str | None:
    return None if at is None else level_label(at)


def _curve(one: KneeCurve) -> ReportedAcceptance:
    counts, length = one.curve.counts, one.curve.acceptance_length
    return ReportedAcceptance(
        k=one.k,
        load=_load(one.at),
        basis=one.curve.basis,
        samples=one.curve.sampled,
        drafts=counts.drafts,
        draft_tokens=counts.draft_tokens,
        accepted_tokens=counts.accepted_tokens,
        acceptance_length=length.value,
        acceptance_length_low=length.low,
        acceptance_length_high=length.high,
        rates=tuple(
            ReportedRate(position=position, rate=rate.value, rate_low=rate.low, rate_high=rate.high)
            for position, rate in enumerate(one.curve.rates, start=1)
        ),
        last_position=one.crossing.last,
        last_position_least=one.crossing.least,
        last_position_most=one.crossing.most,
    )


def _horizon(row: Horizon, level: LevelHorizons) -> ReportedHorizon:
    step, speed = _ends(row.step_time_s), _ends(row.speed_tokens_per_s)
    return ReportedHorizon(
        k=row.k,
        load=_load(level.at),
        measured=row.is_measured,
        tokens_per_step=row.tokens_per_step.value,
        tokens_per_step_low=row.tokens_per_step.low,
        tokens_per_step_high=row.tokens_per_step.high,
        tokens_from=row.tokens_from,
        curve_k=level.told_by(row.k),
        step_time_s=step.value,
        step_time_low_s=step.low,
        step_time_high_s=step.high,
        step_from=row.step_from,
        speed_tokens_per_s=speed.value,
        speed_low_tokens_per_s=speed.low,
        speed_high_tokens_per_s=speed.high,
    )


class _Ends(NamedTuple):
    """A figure with both ends of its interval, as far as they are known."""

    value: float | None
    low: float | None
    high: float | None


def _ends(found: Estimate | None) -> _Ends:
    return _Ends(None, None, None) if found is None else _Ends(found.value, found.low, found.high)


def _advice(drafter: str, one: ObjectiveAdvice) -> ReportedAdvice:
    found = one.advice
    return ReportedAdvice(
        drafter=None if drafter == COUNTED else one_line(drafter),
        objective=found.objective,
        metric=found.metric,
        load=_load(found.at),
        words=one.words,
        ks=found.ks,
        or_longer=one.is_open,
        best=found.best,
        basis=found.basis,
        tells=one.tells,
        duels=tuple(map(_duel, found.duels)),
        differences=tuple(
            ReportedDifferences(first=first, second=second, ids=one_line(ids)) for first, second, ids in one.differences
        ),
        noise=tuple(map(one_line, one.noise)),
        would_change=tuple(
            ReportedChange(
                kind=change.kind,
                ks=change.ks,
                load=_load(change.at),
                rounds=change.rounds,
                sentence=change_sentence(change, found.objective),
            )
            for change in one.changes
        ),
    )


def _duel(duel: Duel) -> ReportedDuel:
    row, (low, high) = metric(duel.metric), duel_interval(duel)
    unit = row.stored_key.removeprefix(row.name)
    return ReportedDuel(
        source=one_line(duel.window),
        load=level_label(duel.at),
        first=duel.first,
        second=duel.second,
        values={f"{name}{unit}": value for name, value in zip(("first", "second"), duel.values, strict=True)},
        change=duel.change,
        change_low=low,
        change_high=high,
        rounds=duel.rounds,
        decided=duel.is_decided,
    )
