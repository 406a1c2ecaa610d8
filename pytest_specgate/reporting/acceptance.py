"""Acceptance of one arm by itself: how much of what it drafted was accepted, by load level and by draft position."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.decode_figures import pooled_steps
from pytest_specgate.core.errors import ScrapeError, UsageError
from pytest_specgate.core.judge import figure_problem, first_point_problem
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric, position_metrics
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.thresholds import LIMITS
from pytest_specgate.core.units import measured_text
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.basis_words import (
    basis_sentences,
    draft_length_text,
    missing_text,
    short_drafts_sentence,
)
from pytest_specgate.reporting.evidence import counted
from pytest_specgate.reporting.figures import number
from pytest_specgate.reporting.gate_names import gate_names, with_gate
from pytest_specgate.reporting.layout import Narrowing, Table
from pytest_specgate.reporting.tables import told_outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.acceptance import AcceptanceCurve, Estimate
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, PointRecord, WindowRecord
    from pytest_specgate.core.verdict import Verdict

_BOOTS_SHOWN: Final = 3
_EXACT: Final = 1e-9
_OF_STEPS: Final = "tokens_per_step"


@dataclasses.dataclass(frozen=True, slots=True)
class LevelAcceptance:
    """What an arm accepted at one load level.

    Attributes:
        at: load level.
        curve: all boots pooled; `None` where there is none.
        tokens_per_step: likewise; `None` where the server does not count its steps.
        missing: why there is no curve, as short as a cell of a table; empty where there is one.
        problem: the same with its code and as a sentence; `None` likewise.
        untold: why intervals are not over prompts though the server was to tell of each; empty where they are.
    """

    at: Level
    curve: AcceptanceCurve | None = None
    tokens_per_step: Estimate | None = None
    missing: str = ""
    problem: Failure | None = None
    untold: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Acceptance:
    """What an arm accepted, level by level.

    Attributes:
        arm: its name.
        boots: that were pooled.
        levels: in the order of the profile.
    """

    arm: str
    boots: int
    levels: tuple[LevelAcceptance, ...]

    @property
    def caption(self) -> str:
        """What the tables are of."""
        boots = "1 boot" if self.boots == 1 else f"{self.boots} boots pooled"
        return f"acceptance of {self.arm}, {boots}, with 95 % intervals"

    @property
    def _curves(self) -> list[tuple[Level, AcceptanceCurve]]:
        return [(level.at, level.curve) for level in self.levels if level.curve is not None]

    @property
    def short(self) -> bool:
        """Whether any draft proposed less than the draft horizon."""
        return any(curve.short_drafts for _, curve in self._curves)

    def by_level(self) -> Table:
        """Return the figures of each level."""
        headers = ("load", "drafts", "draft length", "acceptance length", "acceptance rate", "tokens/step")
        rows = tuple((level_label(level.at), *_level_cells(level)) for level in self.levels)
        return Table(headers, ("right",) * len(headers), rows)

    def by_position(self) -> Table:
        """Return the rates of each draft position, from 1; of short drafts also among those that reached it."""
        headers = ("load", "position", "accepted per draft", *(["of those that proposed it"] if self.short else []))
        rows = tuple(
            (level_label(at) if place == 0 else "", *cells)
            for at, curve in self._curves
            for place, cells in enumerate(_position_cells(curve, short=self.short))
        )
        return Table(headers, ("right",) * len(headers), rows)

    def sentences(self, *, about: str = "") -> Iterator[str]:
        """Say what the intervals are over, and where drafts were shorter than the draft horizon.

        Args:
            about: the metric of a claim that the sentences stand below; empty where a table is above them, which has
                what was accepted of the drafts that proposed each position.
        """
        yield from basis_sentences(((level_label(at), curve) for at, curve in self._curves), link="at")
        for level in self.levels:
            if level.untold:
                yield f"{self.arm} at {level_label(level.at)}: what each request drafted is not used: {level.untold}"
        for at, curve in self._curves:
            if curve.short_drafts:
                name = f"{self.arm} at {level_label(at)}"
                yield _short_drafts(name, curve, about=about) if about else short_drafts_sentence(name, curve)


def acceptance_of(pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict]) -> Acceptance:
    """Return what the candidate of a pair accepted, where its figures may be read.

    The pair as such can be judged.

    Args:
        pair: of an arm alone, or of two.
        record: what was measured.
        verdicts: on the pair.
    """
    boots = record.rounds_of(pair)
    own = [boot for _, boot in boots]
    levels = tuple(_level(pair, record, verdicts, at=at, boots=own) for at in record.profile.points)
    return Acceptance(pair.candidate.name, len(boots), levels)


def _level(
    pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict], *, at: Level, boots: Sequence[BootRecord]
) -> LevelAcceptance:
    names = ("acceptance_length", "acceptance_rate", *position_metrics(pair.candidate.draft_horizon))
    found = (figure_problem(pair, record, verdicts, metric_name=name, at=at) for name in names)
    problem = first_point_problem(pair, record, at=at) or next((one for one in found if one is not None), None)
    if problem is not None:
        return LevelAcceptance(at, missing=f"not judged ({problem.reason})", problem=problem)
    points = [point for boot in boots if (point := boot.point(at)) is not None]
    # It brings scipy, which costs a fifth of a second that only intervals may.
    from pytest_specgate.core.acceptance_samples import (  # noqa: PLC0415
        NOT_ASKED,
        check_drafts,
        curve_of,
        samples_problem,
    )

    try:
        check_drafts(points)
        untold, curve = samples_problem(points), curve_of(points)
        return LevelAcceptance(
            at, curve, _tokens_per_step(points, curve), untold="" if untold == NOT_ASKED else one_line(untold)
        )
    except (UsageError, ScrapeError) as error:
        why = Failure(reason="missing-metric", message=one_line(str(error)))
        return LevelAcceptance(at, missing=why.message, problem=why)


def limit_evidence(verdict: Verdict, pair: ArmPair, record: WindowRecord) -> Iterator[str]:
    """Yield what all boots of the candidate say of a figure of acceptance; nothing for other metrics.

    Args:
        verdict: on a limit, or on a claim about a baseline; judged.
        pair: of an arm alone, or of two.
        record: what was measured.
    """
    if not (metric(verdict.metric).needs_speculation or (verdict.metric == _OF_STEPS and pair.candidate.speculates)):
        return
    # A limit is judged in the boots whose partner never came, too.
    alone, whole = record.boots_for(pair)[1], [boot for _, boot in record.rounds_of(pair)]
    level = _level(pair, record, (verdict,), at=verdict.at, boots=alone if verdict.kind in LIMITS else whole)
    curve = level.curve
    if curve is None:
        return
    drafts = counted(curve.counts.drafts, "draft")
    yield (
        f"{metric(verdict.metric).label}{'' if pair.alone else f' of {pair.candidate.name}'} in all boots: "
        f"{_figure(level, curve, verdict.metric)} ({drafts}, draft length {draft_length_text(curve)})"
    )
    yield from Acceptance(pair.candidate.name, verdict.rounds, (level,)).sentences(about=verdict.metric)


def _short_drafts(name: str, curve: AcceptanceCurve, *, about: str) -> str:
    """Return what short drafts mean for a metric: what was accepted of the drafts that proposed what it is about."""
    position = metric(about).position
    shares = [
        _bounds(*bounds) if curve.proposed is None or curve.proposed[place] else "none proposed it"
        for place, bounds in enumerate(curve.per_proposed())
    ]
    told = f"each position: {', '.join(shares)}" if position is None else f"position {position}: {shares[position - 1]}"
    told = f"accepted of the drafts that proposed {told}"
    if curve.proposed is None:
        return f"{short_drafts_sentence(name, curve)}; {told}"
    return f"{name}: {missing_text(curve)}; {told}"


def _figure(level: LevelAcceptance, curve: AcceptanceCurve, name: str) -> str:
    """Return a metric of acceptance with its interval."""
    if name == _OF_STEPS:
        return _steps_text(level)
    if name == "acceptance_length":
        return _estimate(curve.acceptance_length)
    position = metric(name).position
    return _share(curve.acceptance_rate if position is None else curve.rates[position - 1])


def _tokens_per_step(points: Sequence[PointRecord], curve: AcceptanceCurve) -> Estimate | None:
    found = pooled_steps(points)
    if found is None:
        return None
    from pytest_specgate.core.acceptance_samples import decoded_of  # noqa: PLC0415  - see above
    from pytest_specgate.core.horizon import tokens_per_step  # noqa: PLC0415  - likewise

    return tokens_per_step(found.tokens / found.steps, curve, decoded_of(points, curve))


def _steps_text(level: LevelAcceptance) -> str:
    return "-" if level.tokens_per_step is None else _estimate(level.tokens_per_step)


def _level_cells(level: LevelAcceptance) -> tuple[str, ...]:
    if level.curve is None:
        return ("-", "-", level.missing, "-", "-")
    counts = level.curve.counts
    return (
        f"{counts.drafts}",
        draft_length_text(level.curve),
        _estimate(level.curve.acceptance_length),
        _share(level.curve.acceptance_rate),
        _steps_text(level),
    )


def _position_cells(curve: AcceptanceCurve, *, short: bool) -> Iterator[tuple[str, ...]]:
    for position, (rate, bounds) in enumerate(zip(curve.rates, curve.per_proposed(), strict=True), start=1):
        yield (f"{position}", _share(rate), *([_bounds(*bounds)] if short else []))


def _estimate(found: Estimate) -> str:
    ends = "" if found.low is None or found.high is None else f" [{found.low:.2f} .. {found.high:.2f}]"
    return f"{number(found.value)}{ends}"


def _share(found: Estimate) -> str:
    ends = "" if found.low is None or found.high is None else f" [{100 * found.low:.1f} .. {100 * found.high:.1f}]"
    return f"{100 * found.value:.1f} %{ends}"


def _bounds(low: float, high: float) -> str:
    if high - low < _EXACT:
        return f"{100 * low:.1f} %"
    return f"{100 * low:.1f} .. {100 * high:.1f} %"


def acceptance_lines(
    pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict], *, columns: int | None = None
) -> Iterator[str]:
    """Yield the tables of an arm's acceptance, what its intervals are, and what was claimed of it.

    Args:
        pair: of an arm alone, or of two; it can be judged.
        record: what was measured.
        verdicts: on the pair.
        columns: width of the terminal; `None` for any width.
    """
    found = acceptance_of(pair, record, verdicts)
    yield found.caption
    level_table = found.by_level()
    yield level_table.text(columns, narrowings=Narrowing.of(level_table.headers, 1, 2, 5))
    positions = found.by_position()
    if positions.rows:
        yield ""
        yield positions.text(columns, narrowings=Narrowing.of(positions.headers, 3) if found.short else ())
    yield from found.sentences()
    limits = limit_table(record, verdicts)
    if limits.rows:
        yield ""
        yield limits.text(columns, narrowings=Narrowing.of(limits.headers, 3))


def limit_table(record: WindowRecord, verdicts: Sequence[Verdict]) -> Table:
    """Return the limits of an arm that is measured alone: its worst boot, all boots, and what was judged."""
    limits = [verdict for at in record.profile.points for verdict in verdicts if verdict.at == at]
    limits = [verdict for verdict in limits if verdict.kind in LIMITS]
    names = gate_names(limits)
    headers = ("load", "metric", "worst boot", "by boot", "outcome")
    rows = []
    for place, verdict in enumerate(limits):
        row = metric(verdict.metric)
        label = level_label(verdict.at)
        repeated = place > 0 and limits[place - 1].at == verdict.at
        worst = "-" if verdict.candidate is None else measured_text(row.unit, verdict.candidate)
        outcome = with_gate(told_outcome(verdict), verdict, names)
        rows.append(("" if repeated else label, row.label, worst, _by_boot(verdict), outcome))
    return Table(headers, ("right", "left", "right", "left", "left"), tuple(rows))


def _by_boot(verdict: Verdict) -> str:
    values = verdict.values
    unit = metric(verdict.metric).unit
    if len(values) > _BOOTS_SHOWN:
        values = (min(values), max(values))
        return " to ".join(measured_text(unit, value) for value in values)
    return ", ".join(measured_text(unit, value) for value in values) or "-"
