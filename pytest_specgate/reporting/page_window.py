"""A window as a page shows it: whether its figures may be read, where they come from, then the plots and tables."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import math
from typing import TYPE_CHECKING, Final

from pytest_specgate.core import validity
from pytest_specgate.core.hosts import describe, facts_of, host_class, troubles
from pytest_specgate.core.levels import level_id, level_label, rate_per_s
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.outputs import incomparable
from pytest_specgate.core.quantities import bunched_sends
from pytest_specgate.core.statistics import geometric_mean
from pytest_specgate.reporting import plots
from pytest_specgate.reporting.engines import engine_lines
from pytest_specgate.reporting.evidence import counted
from pytest_specgate.reporting.figures import unit_text
from pytest_specgate.reporting.history import history_lines
from pytest_specgate.reporting.page_boots import Bar, Deviation, drift, timeline
from pytest_specgate.reporting.page_figures import LEVEL, Figures, degrees
from pytest_specgate.reporting.page_pair import Figure, PairView, pair_view
from pytest_specgate.reporting.page_tables import NOTHING, Table, load_table, speculation_table
from pytest_specgate.reporting.prompts import load_text
from pytest_specgate.reporting.window_pairs import is_on, pair_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.records import BootRecord
    from pytest_specgate.reporting.page_knee import KneeView
    from pytest_specgate.reporting.page_verdicts import Card
    from pytest_specgate.reporting.session_report import ReportedWindow

_TIME_OF_DAY: Final = slice(11, 19)
"""Of a stored time, ISO 8601."""

DRAWN: Final = ("output_throughput", "ttft_p50", "decode_rate_p50")
"""The metrics that are drawn over load."""


@dataclasses.dataclass(frozen=True, slots=True)
class BootRow:
    """One boot, as the list of boots tells it."""

    number: int
    round: int
    arm: str
    style: int
    started: str
    boot: str
    points: tuple[str, ...]
    problem: str


@dataclasses.dataclass(frozen=True, slots=True)
class WindowView:
    """A window, in the order in which a page shows it.

    Attributes:
        name: unique in its page: the anchor, and the beginning of the names of its pictures.
        title: the pairs.
        pairs: with the line on their request profiles.
        facts: host, engine, load, boots, record.
        legend: name and sample of every arm that is drawn.
        speculative: likewise of those that speculate.
        left_out: what is shown nowhere, and why.
        over_load: the plots over load levels.
        interval: what their bars are.
        acceptance: the plots over positions of a draft.
        boots: the list of boots, in the order in which they ran.
        order: the plots of boots in order.
        knee: which k; `None` where no two draft horizons met.
        speculation: what was drafted and accepted.
        load: how the points pressed.
        notes: what else a reader should know.
    """

    name: str
    title: str
    pairs: tuple[PairView, ...]
    facts: tuple[tuple[str, str], ...]
    legend: tuple[tuple[str, str], ...] = ()
    speculative: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()
    over_load: tuple[Figure, ...] = ()
    interval: str = ""
    acceptance: tuple[Figure, ...] = ()
    boots: tuple[BootRow, ...] = ()
    levels: tuple[str, ...] = ()
    order: tuple[Figure, ...] = ()
    knee: KneeView | None = None
    speculation: Table | None = None
    load: Table | None = None
    notes: tuple[str, ...] = ()


def window_view(window: ReportedWindow, cards: Sequence[Card], *, name: str, titles: Sequence[str] = ()) -> WindowView:
    """Return a window as a page shows it; without a pair that may be judged it has no figures at all.

    Args:
        window: what was measured and judged.
        cards: of its verdicts.
        name: unique in its page.
        titles: of its pairs; without them those that tell its own pairs apart.
    """
    figures = Figures(window)
    pairs = tuple(
        pair_view(
            pair,
            figures,
            [card for card in cards if is_on(pair, card.verdict, window.gates)],
            name=f"{name}-p{place}",
            title=title,
        )
        for place, (pair, title) in enumerate(zip(window.pairs, titles or pair_names([window])[0], strict=True), 1)
    )
    title = ", ".join(pair.title for pair in pairs)
    view = WindowView(name, title, pairs, tuple(_facts(window)), left_out=tuple(figures.left_out()))
    if not figures.readable:
        return view
    drawn = [arm for arm in figures.arms if any(figures.boots(arm.name, at) for at in figures.levels)]
    return dataclasses.replace(
        view,
        legend=_legend(drawn, figures),
        speculative=_legend([arm for arm in drawn if arm.speculates], figures),
        over_load=tuple(_over_load(figures, name=name)),
        interval=" ".join([_interval_words(figures), *figures.apart()]),
        acceptance=tuple(_acceptance(figures, name=name)),
        knee=_knee(figures, name=name),
        boots=tuple(_boot_rows(figures)),
        levels=tuple(map(level_label, figures.levels)),
        order=tuple(_order(figures, name=name)),
        speculation=speculation_table(figures),
        load=load_table(figures),
        notes=tuple(_notes(figures)),
    )


def _knee(figures: Figures, *, name: str) -> KneeView | None:
    if not any(arm.speculates for arm in figures.arms):
        return None
    from pytest_specgate.reporting.page_knee import knee_view  # noqa: PLC0415  - it brings scipy

    return knee_view(figures, name=name)


def _legend(arms: Sequence[Arm], figures: Figures) -> tuple[tuple[str, str], ...]:
    return tuple((arm.name, plots.swatch(figures.style(arm.name))) for arm in arms)


def _facts(window: ReportedWindow) -> Iterator[tuple[str, str]]:
    """Yield what was measured where, before any figure."""
    record = window.record
    yield "load", load_text(record)
    rounds: dict[int, list[str]] = {}
    for boot in sorted(record.boots, key=lambda boot: (boot.round, boot.position)):
        rounds.setdefault(boot.round, []).append(boot.arm)
    order = " / ".join(" ".join(arms) for arms in rounds.values()) or "none"
    state = "" if record.finished else ", UNFINISHED"
    yield "boots", f"{len(record.boots)} in {counted(len(rounds), 'round')} ({order}){state}"
    for line in history_lines(record):
        yield "history", line
    if record.stopped:
        yield "stopped", record.stopped
    host = facts_of(record.host)
    yield "host", f"{describe(host)} (class {record.host_class or host_class(host)})"
    after = [trouble for boot in record.boots for trouble in troubles(facts_of(boot.host_after))]
    for trouble in dict.fromkeys([*troubles(host), *after]):
        yield "host", trouble
    for line in engine_lines(record):
        yield "engine", line.removeprefix("engine: ")
    if record.commit:
        yield "commit", record.commit
    created = moment(record.created_at)
    yield "measured", record.created_at if created is None else f"{created.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
    yield "record", window.path


def _over_load(figures: Figures, *, name: str) -> Iterator[Figure]:
    for open_loop in (False, True):
        levels = figures.along(open_loop=open_loop)
        for number, arms in enumerate(figures.loads if levels is not None else (), 1):
            for key in DRAWN:
                lines = figures.lines(key, arms, open_loop=open_loop)
                if lines and levels is not None:
                    row = metric(key)
                    unit = unit_text(row)
                    scaled = [_in_milliseconds(line) for line in lines] if row.unit == "s" else lines
                    place = f"{name}-{key}-{'rate' if open_loop else 'load'}{_nth(number)}"
                    picture = plots.over_load(scaled, levels, name=place, title=row.label, unit=unit)
                    yield Figure(f"{row.label} [{unit}]{_of(arms, figures)}", picture, f"{row.better} is better")


def _nth(number: int) -> str:
    """Return the end of a picture's name that tells it from those of other arms."""
    return f"-{number}" if number > 1 else ""


def _of(arms: Sequence[Arm], figures: Figures) -> str:
    """Return the end of a title that names the arms, where others got other requests."""
    return f", {', '.join(arm.name for arm in arms)}" if len(figures.loads) > 1 else ""


def _in_milliseconds(line: plots.Line) -> plots.Line:
    cells = (
        dataclasses.replace(
            cell,
            mean=1000 * cell.mean,
            values=tuple(1000 * value for value in cell.values),
            low=None if cell.low is None else 1000 * cell.low,
            high=None if cell.high is None else 1000 * cell.high,
        )
        for cell in line.cells
    )
    return dataclasses.replace(line, cells=tuple(cells))


def _interval_words(figures: Figures) -> str:
    """Say what points, dots and bars of the plots over load are."""
    counts = {
        degrees([figures.values(arm.name, at, DRAWN[0]) for arm in arms])
        for arms in figures.loads
        for open_loop in (False, True)
        for at in figures.drawn(open_loop=open_loop)
    } - {0}
    if not counts:
        return "Points: single boots. There is one of each arm, so nothing tells how far boots scatter."
    df = " to ".join(str(end) for end in dict.fromkeys((min(counts), max(counts))))
    return (
        f"Points: geometric means over boots; small dots: single boots; bars: {100 * LEVEL:.0f} % t intervals of the "
        f"means, their scatter pooled over the arms at a level ({df} degrees of freedom). Claims are judged by the "
        f"paired differences of rounds, not by these bars."
    )


def _acceptance(figures: Figures, *, name: str) -> Iterator[Figure]:
    for at, (number, arms) in itertools.product(figures.levels, enumerate(figures.loads, 1)):
        lines = figures.acceptance(at, arms)
        if lines:
            place = f"{name}-acceptance-{level_id(at)}{_nth(number)}".replace(".", "_")
            title = f"accepted by position at {level_label(at)}{_of(arms, figures)}"
            yield Figure(title, plots.by_position(lines, name=place, title=title))


def _boot_rows(figures: Figures) -> Iterator[BootRow]:
    for number, boot, problem in _boots(figures):
        shown = [boot.point(at) if boot in figures.boots(boot.arm, at) else None for at in figures.levels]
        yield BootRow(
            number=number,
            round=boot.round,
            arm=boot.arm,
            style=figures.style(boot.arm),
            started=boot.started_at[_TIME_OF_DAY],
            boot=NOTHING if boot.boot_s is None else f"{boot.boot_s:.1f}",
            points=tuple(NOTHING if point is None else f"{point.client.wall_s:.1f}" for point in shown),
            problem=problem,
        )


def _boots(figures: Figures) -> Iterator[tuple[int, BootRecord, str]]:
    """Yield the boots of a window as they ran: number, boot, and the code of what is wrong with it, if anything is."""
    arms, profile = {arm.name: arm for arm in figures.arms}, figures.window.record.profile
    for number, boot in enumerate(figures.window.record.boots, start=1):
        problem = validity.boot_problem(arms[boot.arm], boot, profile)
        yield number, boot, "" if problem is None else problem.reason


def _order(figures: Figures, *, name: str) -> Iterator[Figure]:
    """Yield the plots of boots in the order in which they ran."""
    bars = tuple(_bars(figures))
    if bars:
        picture = timeline(bars, name=f"{name}-time", title="boots in order")
        yield Figure("boots in order", picture, "light: starting up; full: serving")
    found = tuple(_deviations(figures))
    if len({one.number for one in found}) > len({one.arm for one in found}):
        label = metric(DRAWN[0]).label
        title = f"{label} of a boot against the mean of its arm"
        picture = drift(found, boots=len(figures.window.record.boots), name=f"{name}-drift", title=title)
        yield Figure(title, picture, "marker: all load levels together; small dots: each of them")


def _bars(figures: Figures) -> Iterator[Bar]:
    """Yield when each boot ran; nothing where a time in the record cannot be read, or the clock was set back."""
    starts = [moment(boot.started_at) for boot in figures.window.record.boots]
    known = [start for start in starts if start is not None]
    if len(known) < len(starts) or _set_back(figures):
        return
    for (number, boot, problem), start in zip(_boots(figures), known, strict=True):
        begun = (start - known[0]).total_seconds()
        ready = None if boot.boot_s is None else begun + boot.boot_s
        yield Bar(number, boot.arm, figures.style(boot.arm), begun, ready, begun + _lasted(boot, start), problem)


def _set_back(figures: Figures) -> bool:
    """Whether the clock of the machine was set back while boots ran: then nobody knows how long they took."""
    times = [moment(time) for boot in figures.window.record.boots for time in (boot.started_at, boot.ended_at)]
    known = [time for time in times if time is not None]
    return known != sorted(known)


def moment(text: str) -> dt.datetime | None:
    """Return a stored time, one without a zone as UTC; `None` for a text that is none."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


def _lasted(boot: BootRecord, start: dt.datetime) -> float:
    """Return how long a boot lasted, in seconds: as it was recorded, or at least as long as what is known of it."""
    ended = moment(boot.ended_at)
    if ended is not None:
        return (ended - start).total_seconds()
    return (boot.boot_s or 0.0) + math.fsum(point.client.wall_s for point in boot.points)


def _deviations(figures: Figures) -> Iterator[Deviation]:
    """Yield how far each boot's throughput lies from the mean of its arm, over the levels that all its boots have."""
    record = figures.window.record
    numbers = {(boot.arm, boot.round): number for number, boot in enumerate(record.boots, start=1)}
    for arm in figures.arms:
        found: dict[int, list[float]] = {}
        for at in figures.levels:
            values = figures.values(arm.name, at, DRAWN[0])
            if values and min(values) > 0:
                mean = geometric_mean(values)
                for boot, value in zip(figures.boots(arm.name, at, DRAWN[0]), values, strict=True):
                    found.setdefault(boot.round, []).append(value / mean)
        for number, ratios in found.items():
            levels = tuple(ratio - 1 for ratio in ratios)
            yield Deviation(
                numbers[arm.name, number], arm.name, figures.style(arm.name), geometric_mean(ratios) - 1, levels
            )


def _notes(figures: Figures) -> Iterator[str]:
    yield from (text for key in DRAWN for text in figures.missing(key))
    if _set_back(figures):
        yield "boots are not drawn over time: their times in the record run backwards, as after a clock was set back"
    texts = []
    for at in figures.levels:
        shares = {
            arm.name: [share for point in figures.points(arm.name, at) if (share := bunched_sends(point)) is not None]
            for arm in figures.arms
        }
        known = [f"{arm} {100 * sum(found) / len(found):.0f} %" for arm, found in shares.items() if found]
        if known and rate_per_s(at) is None:
            texts.append(f"{level_label(at)} {', '.join(known)}")
    if texts:
        yield f"sends in bunches after the first wave ({'; '.join(texts)}): where arms differ, so does their TTFT"
    if (reason := incomparable(figures.window.record.profile)) is not None:
        yield reason
