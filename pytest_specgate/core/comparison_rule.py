"""How two windows are compared and judged: the rule across windows, with a declared floor and one window before."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_specgate.core import statistics
from pytest_specgate.core.baseline_values import View, level_of, mean, shown_level
from pytest_specgate.core.comparison import INDICATIVE, NOTHING, Cell, Comparison, Guard, Mode, Row
from pytest_specgate.core.cross_window import CrossDecision, WindowMean, cross_look
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.core.verdict_baseline import MOVED, NO_NOISE, ZERO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.baselines import BaselineValues
    from pytest_specgate.core.comparison_claims import Claims

FROM_NOTHING: Final = "reference-is-zero"

_REASONS: Final = {"PASS": "within-margin", "FAIL": "beyond-margin", "INCONCLUSIVE": "interval-contains-margin"}


def compared(  # noqa: PLR0913  - the figures, the claims, and what is known of both windows
    cells: Sequence[Cell],
    claims: Claims,
    *,
    identity: str,
    mode: Mode = "absolute",
    unproved: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Comparison:
    """Compare two windows of one load, figure by figure.

    Args:
        cells: their figures.
        claims: what is claimed of them.
        identity: how many fields of their loads are identical, in words.
        mode: what is judged.
        unproved: what they cannot prove.
        notes: what a reader should know besides.
    """
    family = max(1, sum(cell.margin(claims) is not None for cell in cells))
    rows = [_row(cell, claims, family=family) for cell in cells]
    words = {row.outcome for row in rows}
    order = (Outcome.FAIL, Outcome.INVALID, Outcome.INCONCLUSIVE)
    outcome, reason, message = next((word for word in order if word in words), Outcome.PASS), "", ""
    if outcome == Outcome.PASS and claims.floor is None:
        outcome, reason, message = Outcome.INCONCLUSIVE, NO_NOISE, INDICATIVE
    elif outcome == Outcome.PASS and Outcome.PASS not in words:
        outcome, reason, message = Outcome.INVALID, NOTHING, "no figure with a margin stands in both windows"
    return Comparison(
        valid=True,
        outcome=outcome,
        reason=reason,
        message=message,
        mode=mode,
        identity=identity,
        unproved=tuple(unproved),
        notes=tuple(notes),
        floor=claims.floor.words if claims.floor is not None else "",
        rows=tuple(rows),
    )


def _row(cell: Cell, claims: Claims, *, family: int) -> Row:
    """Compare one figure, and judge it if something is claimed of it."""
    row = Row(subject=cell.subject, mode=cell.mode, at=cell.at, metric=cell.metric, valid=True)
    margin = cell.margin(claims)
    problem = cell.problem or _from_nothing(cell) or (cell.apart if margin is not None else None)
    if problem is not None:
        return _invalid(row, problem, claimed=margin is not None or (cell.claimed and not cell.metric))
    view = View(cell.metric, cell.mode, points=False)
    before = _level(view, cell.windows[0])
    if _fell(cell):
        lost = {"reference": before.shown, "candidate": 0.0, "change": -1.0, "reason": ZERO, "message": "it fell to 0"}
        return row.model_copy(update={**lost, "outcome": None if margin is None else Outcome.FAIL})
    after = _level(view, cell.windows[1])
    row = row.model_copy(update={"reference": before.shown, "candidate": after.shown})
    if cell.apart is not None:
        return row.model_copy(update={"reason": cell.apart.reason, "message": cell.apart.message})
    if metric(cell.metric).unit == "events":
        return row
    row = row.model_copy(update={"change": _raw(cell.metric, after.signed - before.signed)})
    return row if margin is None else _judged(row, cell, _Rule(cell.metric, margin, claims, family))


def _invalid(row: Row, problem: Failure, *, claimed: bool) -> Row:
    message = f"{problem.message}\n{problem.detail}".rstrip()
    outcome = Outcome.INVALID if claimed else None
    return row.model_copy(update={"valid": False, "reason": problem.reason, "message": message, "outcome": outcome})


class _Level(NamedTuple):
    """The level of a window: as people read it, and as windows are compared by it."""

    shown: float
    signed: float


def _level(view: View, values: BaselineValues) -> _Level:
    if metric(view.metric).unit == "events":
        return _Level(mean(values.candidate), math.nan)
    signed = level_of(view, values)
    alone = view.mode == "absolute" and values.rounds == 1
    return _Level(values.candidate[0] if alone else shown_level(view, signed), signed)


def _from_nothing(cell: Cell) -> Failure | None:
    """Return that what a figure is compared with is 0: it has no ratio to anything; counts need none."""
    before, after = cell.windows
    if metric(cell.metric).unit == "events" or 0 not in (*before.reference, *before.candidate, *after.reference):
        return None
    text = f"{metric(cell.metric).label} is 0 in what it is compared with, so nothing can be said of its change"
    return Failure(reason=FROM_NOTHING, message=text)


def _fell(cell: Cell) -> bool:
    """Whether a rate or a share fell to nothing, the largest loss there is, in some round of the candidate window."""
    return metric(cell.metric).unit != "events" and 0 in cell.windows[1].candidate


def _raw(name: str, difference: float) -> float:
    return statistics.raw_change(difference, higher_is_better=metric(name).higher_is_better)


class _Look(NamedTuple):
    """What two windows show, given how far they may lie apart, in signed log units: positive is better."""

    decision: CrossDecision
    reason: str
    difference: float
    lower: float
    upper: float


@dataclasses.dataclass(frozen=True, slots=True)
class _Rule:
    """How one figure is judged."""

    metric: str
    margin: float
    claims: Claims
    family: int

    @property
    def delta(self) -> float:
        """The margin in log units."""
        return statistics.log_margin(self.margin, higher_is_better=metric(self.metric).higher_is_better)

    def look(self, before: float, after: float) -> _Look:
        """Judge the signed level of the candidate window against that of the reference window."""
        floor = self.claims.floor
        assert floor is not None, "nothing is claimed without one"
        # Rounds tell nothing where a floor stands for the noise: cross_look() drops their term.
        windows = [WindowMean(level, 1) for level in (before, after)]
        found = cross_look(windows[1], windows[:1], delta=self.delta, declared=floor.fraction, family=self.family)
        assert found.lower is not None, "a declared floor gives bounds"
        assert found.upper is not None, "likewise"
        return _Look(found.decision, found.reason, found.difference, found.lower, found.upper)

    def moved(self, guards: Sequence[Guard]) -> Failure | None:
        """Return that an arm moved that the level is held against; `None` if none did."""
        view = View(self.metric, "absolute", points=False)
        for guard in guards:
            if 0 in (*guard.reference.candidate, *guard.candidate.candidate):
                text = f"{self.metric} of {guard.arm}, its reference, is 0, so nothing tells whether the machine moved"
                return Failure(reason=FROM_NOTHING, message=text)
            look = self.look(level_of(view, guard.reference), level_of(view, guard.candidate))
            if look.upper < -self.delta or look.lower > self.delta:
                changed = change_words(_raw(self.metric, look.difference), metric_name=self.metric)
                text = f"the machine moved: {guard.arm}, its reference, is {changed}, too, so this level tells nothing"
                return Failure(reason=MOVED, message=f"{text}: use --mode relative")
        return None


def _judged(row: Row, cell: Cell, rule: _Rule) -> Row:
    if (moved := rule.moved(cell.guards)) is not None:
        plain = Row(subject=row.subject, mode=row.mode, at=row.at, metric=row.metric, valid=False)
        return _invalid(plain, moved, claimed=True)
    view = View(cell.metric, cell.mode, points=False)
    before, after = (level_of(view, values) for values in cell.windows)
    look = rule.look(before, after)
    low, high = sorted(_raw(cell.metric, bound) for bound in (look.lower, look.upper))
    return row.model_copy(
        update={
            "outcome": Outcome(look.decision),
            "reason": _REASONS[look.decision],
            "message": look.reason,
            "change_low": low,
            "change_high": high,
            "margin": _raw(cell.metric, -rule.delta),
        }
    )
