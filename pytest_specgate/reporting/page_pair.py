"""A pair as a page shows it: whether its figures may be read, and then what they are and what they rest on."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import identity
from pytest_specgate.core.confounds import contradicted_of, difference_lines, differences_of, unproved_of
from pytest_specgate.core.judge import NOT_BOOTED, identity_of
from pytest_specgate.core.metrics import metric
from pytest_specgate.reporting import layout, plots
from pytest_specgate.reporting.acceptance import acceptance_of
from pytest_specgate.reporting.differences import differences_in_short
from pytest_specgate.reporting.engines import build_lines
from pytest_specgate.reporting.evidence import verdict_notes
from pytest_specgate.reporting.outputs import output_lines
from pytest_specgate.reporting.page_tables import LevelRows, Table, pair_levels
from pytest_specgate.reporting.page_verdicts import details, servers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.stored import Failure
    from pytest_specgate.reporting.page_figures import Figures
    from pytest_specgate.reporting.page_verdicts import Card, Command, Details

_SPEEDS: Final = {"output_throughput": "ink", "decode_rate_p50": "soft"}
"""The metrics whose changes are drawn over load, with the classes of their colours."""

_KIND: Final = 20
"""Width of the first column of what `difference_lines` returns."""


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A picture with what stands below it."""

    title: str
    picture: str
    caption: str = ""
    legend: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A field of the request profile that is not the same in all boots."""

    name: str
    left_boot: str
    left: str
    right_boot: str
    right: str
    remedy: str


@dataclasses.dataclass(frozen=True, slots=True)
class PairView:
    """A pair, and what of it may be shown.

    Attributes:
        title: candidate against reference, and what tells it from another such pair.
        reference: name of the arm compared against.
        candidate: name of the other.
        varies: in what they may differ.
        identity: the line that stands before every figure.
        compared: whether there were whole boots of both arms to compare.
        identical: whether the line says that the request profiles are.
        problem: why there are no figures; `None` where there are.
        fields: of the request profile that differ.
        cards: of its verdicts.
        alone: whether it is one arm, which is compared with none.
        acceptance: tables of what it accepted then.
        unneeded: whether a sweep never had one of its arms booted, which is no fault.
    """

    title: str
    reference: str
    candidate: str
    varies: str
    identity: str
    compared: bool
    identical: bool
    problem: Failure | None
    fields: tuple[Field, ...]
    cards: tuple[Card, ...]
    alone: bool = False
    acceptance: tuple[Table, ...] = ()
    levels: tuple[LevelRows, ...] = ()
    details: tuple[Details, ...] = ()
    notes: tuple[str, ...] = ()
    changes: tuple[Figure, ...] = ()
    servers: tuple[Command, ...] = ()
    in_short: str = ""
    differences: tuple[tuple[str, tuple[str, ...]], ...] = ()
    builds: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()
    outputs: str = ""
    unneeded: bool = False


def pair_view(pair: ArmPair, figures: Figures, cards: Sequence[Card], *, name: str, title: str) -> PairView:
    """Return a pair; one that must not be judged has no figures.

    Args:
        pair: the arms.
        figures: of its window.
        cards: of its verdicts.
        name: unique in its page: the beginning of the names of its pictures.
        title: what the page calls it.
    """
    record, problem = figures.window.record, figures.problem(pair)
    report = identity_of(pair, record)
    view = PairView(
        title=title,
        reference=pair.reference.name,
        candidate=pair.candidate.name,
        varies=", ".join(pair.paths),
        identity=report.sentence,
        compared=report.fields > 0,
        identical=report.identical,
        problem=problem,
        alone=pair.alone,
        fields=tuple(map(_field, report.differences)),
        cards=tuple(cards),
        servers=tuple(servers_of(pair, record)),
        in_short=differences_in_short(pair, record),
        differences=tuple(_differences(pair, record)),
        builds=tuple(build_lines(pair, record)),
        unproved=tuple(_unproved(pair, record)),
        unneeded=problem is not None and problem.reason == NOT_BOOTED,
    )
    if problem is not None:
        return view
    if pair.alone:
        found = acceptance_of(pair, record, [card.verdict for card in cards])
        tables = (_table(found.caption, found.by_level()), _table("By draft position, from 1", found.by_position(), 2))
        notes = (*found.sentences(), *verdict_notes([card.verdict for card in cards]))
        return dataclasses.replace(view, acceptance=tables, notes=notes)
    return dataclasses.replace(
        view,
        levels=tuple(pair_levels(pair, figures, cards)),
        changes=tuple(_changes(pair, figures, name=name, title=title)),
        details=tuple(one for card in cards if (one := details(card.verdict, name=card.name)) is not None),
        notes=tuple(verdict_notes([card.verdict for card in cards])),
        outputs=next(output_lines([pair], record)),
    )


def _unproved(pair: ArmPair, record: WindowRecord) -> Iterator[str]:
    """Say what of the declaration the servers do not tell, or tell otherwise."""
    for arm in pair.own_arms:
        yield from (f"{arm.name}: {contrast}" for contrast in contradicted_of(arm, record))
        yield from (f"{name}: declared for {arm.name}, not told by its server" for name in unproved_of(arm, record))


def _differences(pair: ArmPair, record: WindowRecord) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the differences of a pair's servers by kind: what kind it is, and each of them as text."""
    report = differences_of(pair, record)
    found: dict[str, list[str]] = {}
    kind = ""
    for line in () if report is None else difference_lines(report, allowed=pair.allow_engine_differences):
        kind = line[:_KIND].strip() or kind
        found.setdefault(kind, []).append(line[_KIND:].strip())
    yield from ((kind, tuple(texts)) for kind, texts in found.items())


def _changes(pair: ArmPair, figures: Figures, *, name: str, title: str) -> Iterator[Figure]:
    """Yield the change of the speeds of a pair over load levels of each kind."""
    for open_loop in (False, True):
        found = {key: tuple(figures.changes(pair, key, open_loop=open_loop)) for key in _SPEEDS}
        lines = [
            plots.Line(metric(key).label, place, cells, tone=_SPEEDS[key])
            for place, (key, cells) in enumerate(found.items())
            if cells
        ]
        levels = figures.along(open_loop=open_loop)
        if lines and levels is not None:
            place = f"{name}-{'rate' if open_loop else 'load'}-change"
            picture = plots.change_over_load(lines, levels, name=place, title=f"change of {title}")
            legend = tuple((one.name, plots.swatch(one.style, tone=one.tone)) for one in lines)
            yield Figure(f"change over {levels.name}, up is better", picture, legend=legend)


def _table(caption: str, of: layout.Table, heads: int = 1) -> Table:
    """Return a table of the terminal as one of a page; a level that stands in its first row only stands in all."""
    rows: list[tuple[str, ...]] = []
    for row in of.rows:
        rows.append((row[0] or rows[-1][0], *row[1:]))
    return Table(caption, of.headers, tuple(rows), heads)


def _field(found: identity.Difference) -> Field:
    left, right = identity.shortened(found.left, found.right)
    return Field(found.field, found.left_boot, left, found.right_boot, right, found.remedy)
