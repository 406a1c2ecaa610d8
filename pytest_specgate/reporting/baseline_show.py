"""Accepted windows as text: where the figures of a baseline come from, what they can decide, and their course."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal

from tabulate import tabulate

from pytest_specgate.core.baseline_offer import added_metrics_of
from pytest_specgate.core.baselines import file_name
from pytest_specgate.core.cross_window import LEAST_WINDOWS
from pytest_specgate.core.levels import level_label, level_order
from pytest_specgate.core.metrics import with_added
from pytest_specgate.reporting.baseline_series import Series
from pytest_specgate.reporting.baselines import level_text, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specgate.core.baselines import AcceptedWindow, BaselineEntry, BaselineFile
    from pytest_specgate.reporting.baseline_series import SeriesWindow

BLOCKS: Final = "█│"
"""What a course is drawn with where the terminal can show it."""

PLAIN_BLOCKS: Final = "#|"
"""And where it cannot."""

_WIDTH: Final = 40
_WIDEST: Final = 1e300
"""A change beyond any measurement is drawn as this one, whose sums are numbers still."""

_MINUTE: Final = 16
_DAY: Final = 10
_COMMIT_SHOWN: Final = 10


def show_lines(file: BaselineFile, *, path: str) -> Iterator[str]:
    """Yield everything that a baseline holds, entry by entry.

    Args:
        file: the baseline.
        path: of it.
    """
    yield from _head(file, path)
    for entry in ordered(file):
        with with_added(added_metrics_of(file.definitions[entry.definition_sha256])):
            views = Series.views(file, entry)
            lines = [_title(views[0]), _table(views), *map(_spread_line, views), *map(_total_line, views)]
        yield from ("", *lines)


def history_lines(
    file: BaselineFile, *, path: str, mode: Literal["relative", "absolute"] = "relative", blocks: str = BLOCKS
) -> Iterator[str]:
    """Yield the course of every entry, one line a window, as changes since the first window.

    Args:
        file: the baseline.
        path: of it.
        mode: whether the change between the arms is drawn, or the level of the candidate.
        blocks: a step of the plot, and the line of the first window.
    """
    yield from _head(file, path)
    for entry in ordered(file):
        with with_added(added_metrics_of(file.definitions[entry.definition_sha256])):
            series = Series.of(file, entry, mode=mode)
            lines = [_title(series), *_course(series, blocks), _total_line(series)]
        yield from ("", *lines)


def ordered(file: BaselineFile) -> Sequence[BaselineEntry]:
    """Return the entries of a file by load level, then by metric."""
    return sorted(file.entries.values(), key=lambda entry: (level_order(entry.at), entry.metric))


def _head(file: BaselineFile, path: str) -> Iterator[str]:
    yield f"{one_line(file.gate)} on {one_line(file.host_class)}"
    yield f"file: {path}"
    wanted = PurePath(file.host_class, file_name(file.gate))
    if PurePath(path).parts[-2:] != wanted.parts:
        yield f"note: no gate is judged by this file here: it would have to be {wanted} in the folder of baselines"


def _title(series: Series) -> str:
    better = "more" if series.row.higher_is_better else "less"
    return (
        f"{series.entry.id}: {series.row.label} at {level_label(series.entry.at)}, {_view(series)}; {better} is better"
    )


def _view(series: Series) -> str:
    words = "candidate - reference" if series.by.points else "candidate / reference"
    return words if series.by.mode == "relative" else "candidate"


def _figure(series: Series, window: SeriesWindow) -> str:
    return _level_text(series, series.figure(window))


def _level_text(series: Series, level: float | None) -> str:
    return "-" if level is None else level_text(series.by, level)


def _table(views: Sequence[Series]) -> str:
    columns = [_view(series) for series in views]
    headers = ["window", "rounds", *columns, "since first", "engine", "commit", "marks", "reason"]
    align = ("left", "right", *["right"] * len(columns), *["left"] * 5)
    rows = []
    for same in zip(*(series.windows for series in views), strict=True):
        figures = [_figure(series, window) for series, window in zip(views, same, strict=True)]
        rows.append(_row(views[0], same[0], figures))
    return tabulate(rows, headers=headers, colalign=align, disable_numparse=True, tablefmt="simple")


def _row(series: Series, window: SeriesWindow, figures: Sequence[str]) -> list[str]:
    accepted = window.accepted
    commit = one_line(accepted.commit[:_COMMIT_SHOWN]) or "-"
    head = [_when(accepted), f"{window.values.rounds}", *figures, series.words(window), engine_text(accepted), commit]
    return [*head, ", ".join(_marks(window)) or "-", one_line(accepted.reason)]


def _when(accepted: AcceptedWindow) -> str:
    return one_line(accepted.measured_at[:_MINUTE].replace("T", " "))


def engine_text(accepted: AcceptedWindow) -> str:
    """Return the engine of a window: once where both arms ran on one, else reference -> candidate; a dash for none."""
    known = [accepted.engine[side] for side in ("reference", "candidate") if side in accepted.engine]
    builds = [
        f"{build.get('distribution', 'vllm')} {build['version']}" if "version" in build else "-" for build in known
    ]
    return one_line(" -> ".join(dict.fromkeys(builds))) or "-"


def _marks(window: SeriesWindow) -> Iterator[str]:
    """Say what sets a window apart."""
    if window.values.rounds == 1:
        yield "one round"
    if window.accepted.regression:
        yield "regression"
    if not window.compared:
        yield "replaced"


def _spread_line(series: Series) -> str:
    """Say what today's window is compared with, and the smallest margin that can be decided so."""
    count = len(series.entry.windows)
    many = f"{count} window{'s' if count != 1 else ''}"
    level = f"{_view(series)}: mean {_level_text(series, series.mean)} of {many}"
    if series.sd is None or series.smallest_margin is None:
        more = LEAST_WINDOWS - count
        why = f"{more} more tell it" if more > 0 else "a figure is 0"
        return f"{level}; how far windows lie apart is not known: {why}"
    unit = "points" if series.by.points else "%"
    spread = f"sd across windows {100 * series.sd:.2g} {unit}"
    return f"{level}; {spread}; smallest margin that these can decide: {100 * series.smallest_margin:.2g} {unit}"


def _total_line(series: Series) -> str:
    """Say what was lost or gained since the first window."""
    first, last = series.anchor, series.latest
    day = f"{_view(series)} since the first window ({one_line(first.accepted.measured_at[:_DAY])})"
    if first is last:
        return f"{day}: it is the latest"
    return f"{day}: {series.words(last)} ({_figure(series, first)} -> {_figure(series, last)})"


def _course(series: Series, blocks: str) -> Iterator[str]:
    """Draw each window as the distance from the first, worse to the left."""
    changes = [max(-_WIDEST, min(_WIDEST, window.since_first or 0.0)) for window in series.windows]
    left, right = -min(0.0, *changes), max(0.0, *changes)
    step = (left + right) / _WIDTH
    texts = [_course_texts(series, window) for window in series.windows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    gaps = 2 * sum(width > 0 for width in widths)
    if step:
        unit = "points" if series.by.points else "%"
        yield f"{' ' * (sum(widths) + gaps)}worse < first > better, {blocks[0]} = {100 * step:.2g} {unit}"
    for row, change in zip(texts, changes, strict=True):
        cells = "".join(f"{text.ljust(width)}  " for text, width in zip(row, widths, strict=True) if width)
        yield f"{cells}{_bar(change, left=left, step=step, blocks=blocks)}"


def _course_texts(series: Series, window: SeriesWindow) -> tuple[str, str, str, str]:
    return _when(window.accepted), _figure(series, window), series.words(window), ", ".join(_marks(window))


def _bar(change: float, *, left: float, step: float, blocks: str) -> str:
    if not step:
        return blocks[1]
    zero, length = round(left / step), round(abs(change) / step)
    if change < 0:
        return f"{' ' * (zero - length)}{blocks[0] * length}{blocks[1]}"
    return f"{' ' * zero}{blocks[1]}{blocks[0] * length}"
