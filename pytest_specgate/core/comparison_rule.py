"""How two windows are compared and judged: the rule across windows, with a declared floor and one window before."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_specgate.core import statistics
from pytest_specgate.core.baseline_values import View, level_of, mean, shown_level
from pytest_specgate.core.comparison import INDICATIVE, NOTHING, SAME_TWICE, Cell, Comparison, Guard, Mode, Row
from pytest_specgate.core.cross_window import CrossDecision, WindowMean, cross_look
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.verdict import Outcome, change_words
from pytest_specgate.core.verdict_baseline import MOVED, NO_NOISE, ZERO

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.baselines import BaselineValues
    from pytest_specgate.core.comparison_claims import Claims

FROM_NOTHING: Final = "reference-is-zero"
REFERENCE_MOVED: Final = "reference-moved"

_TOGETHER: Final = 'measure both installs in one window, varies="engine"'

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
    moves = list(_moves(cells, claims, family=family))
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
        notes=(*notes, *moves),
        caveats=(*(note for note in notes if note == SAME_TWICE), *moves),
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


def _moves(cells: Sequence[Cell], claims: Claims, *, family: int) -> Iterator[str]:
    """Say which reference arms of pairs moved: what slows both arms alike is no change between them."""
    found: dict[str, list[tuple[float, Cell]]] = {}
    for cell in cells:
        margin = cell.margin(claims)
        if cell.mode == "absolute" or margin is None or cell.problem is not None:
            continue
        rule = _Rule(cell.metric, margin, claims, family)
        for guard in cell.guards:
            if (difference := rule.shift(guard)) is not None:
                found.setdefault(guard.arm, []).append((difference, cell))
    for arm, moved in found.items():
        # A loss is what a PASS would hide, so it is named before any gain.
        difference, cell = next((one for one in moved if one[0] < 0), moved[0])
        place = metric(cell.metric).label + (f" at {level_label(cell.at)}" if cell.at is not None else "")
        more = f", and {len(moved) - 1} more" if len(moved) > 1 else ""
        remedy = f"; the builds of its engine differ: {_TOGETHER}" if cell.rebuilt else ""
        yield f"{_moved_words(arm, 'the', cell.metric, difference)} ({place}{more}){remedy}"


def _moved_words(arm: str, whose: str, name: str, difference: float) -> str:
    changed = change_words(_raw(name, difference), metric_name=name)
    return f"the machine or the engine moved: {arm}, {whose} reference, is {changed}"


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

    def shift(self, guard: Guard) -> float | None:
        """Return by how much an arm moved, in signed log units, where that is shown beyond the margin, either way."""
        if 0 in (*guard.reference.candidate, *guard.candidate.candidate):
            return None
        view = View(self.metric, "absolute", points=False)
        look = self.look(level_of(view, guard.reference), level_of(view, guard.candidate))
        return look.difference if look.upper < -self.delta or look.lower > self.delta else None

    def moved(self, cell: Cell) -> Failure | None:
        """Return that an arm moved that a level is held against; `None` if none did."""
        for guard in cell.guards:
            if 0 in (*guard.reference.candidate, *guard.candidate.candidate):
                text = f"{self.metric} of {guard.arm}, its reference, is 0, so nothing tells whether the machine moved"
                return Failure(reason=FROM_NOTHING, message=text)
            if (difference := self.shift(guard)) is not None:
                text = f"{_moved_words(guard.arm, 'its', self.metric, difference)}, so this level tells nothing"
                return Failure(reason=MOVED, message=f"{text}: {_TOGETHER if cell.rebuilt else 'use --mode relative'}")
        return None

    def hidden(self, cell: Cell) -> str:
        """Return which loss of both arms a PASS of the change between them would hide; empty if none is."""
        for guard in cell.guards if cell.rebuilt else ():
            difference = self.shift(guard)
            if difference is not None and difference < 0:
                text = _moved_words(guard.arm, "the", self.metric, difference)
                return f"{text}, and the builds of its engine differ: {_TOGETHER}"
        return ""


def _judged(row: Row, cell: Cell, rule: _Rule) -> Row:
    if cell.mode == "absolute" and (moved := rule.moved(cell)) is not None:
        plain = Row(subject=row.subject, mode=row.mode, at=row.at, metric=row.metric, valid=False)
        return _invalid(plain, moved, claimed=True)
    view = View(cell.metric, cell.mode, points=False)
    before, after = (level_of(view, values) for values in cell.windows)
    look = rule.look(before, after)
    low, high = sorted(_raw(cell.metric, bound) for bound in (look.lower, look.upper))
    outcome, reason, message = Outcome(look.decision), _REASONS[look.decision], look.reason
    if outcome == Outcome.PASS and cell.mode == "relative" and (hidden := rule.hidden(cell)):
        outcome, reason, message = Outcome.INCONCLUSIVE, REFERENCE_MOVED, hidden
    return row.model_copy(
        update={
            "outcome": outcome,
            "reason": reason,
            "message": message,
            "change_low": low,
            "change_high": high,
            "margin": _raw(cell.metric, -rule.delta),
        }
    )
