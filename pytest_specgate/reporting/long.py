"""What a reader of a long report wants besides: values by round, boots in order, and how each server was started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.durations import seconds_of
from pytest_specgate.core.judge import first_point_problem
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import measure, metric
from pytest_specgate.core.thresholds import FASTER_ONLY_UP_TO, OUTPUTS_AGREE
from pytest_specgate.core.verdict import change_words
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.figures import unit_text, value_text
from pytest_specgate.reporting.layout import Narrowing, Table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.records import BootRecord, WindowRecord
    from pytest_specgate.core.verdict import Verdict


def round_table(pair: ArmPair, record: WindowRecord, verdicts: Sequence[Verdict], *, columns: int | None = None) -> str:
    """Return what both arms of a pair measured in each round, of what is gated; empty where nothing is.

    Only for pairs whose request profiles were found identical.
    """
    rows: list[tuple[str, ...]] = []
    for at in record.profile.points:
        if first_point_problem(pair, record, at=at) is None:
            gated = _gated(verdicts, at=at)
            here = [row for name in gated for row in _rounds(pair, record, name=name, at=at)]
            rows += [(level_label(at) if place == 0 else "", *row) for place, row in enumerate(here)]
    headers = ("load", "metric", "round", *(arm.name for arm in pair.arms), "change")
    table = Table(headers, ("right", "left", "right", "right", "right", "left"), tuple(rows))
    return table.text(columns) if rows else ""


def _gated(verdicts: Sequence[Verdict], *, at: Level) -> list[str]:
    """Return the metrics that are gated at a load level; a curve judges all levels."""
    here = [verdict for verdict in verdicts if verdict.at == at or verdict.kind == FASTER_ONLY_UP_TO]
    return list(dict.fromkeys(verdict.metric for verdict in here if verdict.kind != OUTPUTS_AGREE))


def _rounds(pair: ArmPair, record: WindowRecord, *, name: str, at: Level) -> Iterator[tuple[str, ...]]:
    row = metric(name)
    for place, both in enumerate(record.rounds_of(pair)):
        values = [_value(boot, record, name=name, at=at) for boot in both]
        shown = ["-" if value is None else value_text(row, value) for value in values]
        reference, candidate = values
        change = "-"
        if reference and candidate is not None:
            points = row.unit == "share"
            raw = candidate - reference if points else candidate / reference - 1
            change = change_words(raw, metric_name=name, points=points)
        label = f"{row.label} [{unit_text(row)}]" if place == 0 else ""
        yield (label, f"{both[0].round}", *shown, change)


def _value(boot: BootRecord, record: WindowRecord, *, name: str, at: Level) -> float | None:
    point = boot.point(at)
    return None if point is None else measure(name, point, record.profile).value


def boot_table(record: WindowRecord, *, arms: Collection[str], columns: int | None = None) -> str:
    """Return the boots of a window in their order: how long each took to be ready and in all, and what came of it.

    Args:
        record: of the window.
        arms: names of those whose figures may be read; seconds of others stand beside none, and of none alone.
        columns: width of the terminal; `None` for as wide as it takes.
    """
    boots = sorted(record.boots, key=lambda boot: (boot.round, boot.position)) if arms else []
    rows = tuple(
        (
            f"{number}",
            f"{boot.round}",
            boot.arm,
            "-" if boot.boot_s is None or boot.arm not in arms else f"{boot.boot_s:.1f}",
            f"{seconds_of(boot):.1f}" if boot.ended_at and boot.arm in arms else "-",
            "measured" if boot.failure is None else one_line(boot.failure.reason),
        )
        for number, boot in enumerate(boots, start=1)
    )
    headers = ("boot", "round", "arm", "ready after [s]", "in all [s]", "what came of it")
    table = Table(headers, ("right", "right", "left", "right", "right", "left"), rows)
    return table.text(columns, narrowings=Narrowing.of(headers, 0, 1, 3)) if rows else ""


def server_lines(record: WindowRecord) -> Iterator[str]:
    """Say how the server of each arm was started, the last time."""
    for arm in record.arms:
        commands = [boot.command for boot in record.boots_of(arm.name) if boot.command]
        if commands:
            yield one_line(f"server of {arm.name}: {commands[-1]}")
