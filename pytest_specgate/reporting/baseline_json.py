"""Baselines as JSON for other tools: every key of a figure ends with its unit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core.baseline_offer import added_metrics_of
from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric, with_added
from pytest_specgate.reporting.baseline_series import Series
from pytest_specgate.reporting.baseline_show import ordered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

    from pytest_specgate.core.baseline_threshold import BaselineThreshold
    from pytest_specgate.core.baseline_update import EntryChange, Update
    from pytest_specgate.core.baselines import BaselineEntry, BaselineFile
    from pytest_specgate.reporting.baseline_series import SeriesWindow


def baseline_json(file: BaselineFile, *, path: str) -> dict[str, JsonValue]:
    """Return everything that a baseline holds.

    Args:
        file: the baseline.
        path: of it.
    """
    entries: list[JsonValue] = []
    for entry in ordered(file):
        with with_added(added_metrics_of(file.definitions[entry.definition_sha256])):
            entries.append(_entry(file, entry))
    return {"path": path, "gate": file.gate, "host_class": file.host_class, "entries": entries}


def _entry(file: BaselineFile, entry: BaselineEntry) -> dict[str, JsonValue]:
    views = Series.views(file, entry)
    windows: list[JsonValue] = [
        _window(same[0]) | {key: value for pair in zip(views, same, strict=True) for key, value in _figures(*pair)}
        for same in zip(*(series.windows for series in views), strict=True)
    ]
    return {
        "entry": entry.id,
        "metric": entry.metric,
        "load": level_label(entry.at),
        "metric_definition_version": entry.metric_definition_version,
        "windows": windows,
        **{series.by.mode: _summary(series) for series in views},
    }


def _window(window: SeriesWindow) -> dict[str, JsonValue]:
    accepted = window.accepted
    return {
        "measured_at": accepted.measured_at,
        "accepted_at": accepted.accepted_at,
        "reason": accepted.reason,
        "rounds": window.values.rounds,
        "first": window.first,
        "compared": window.compared,
        "regression": accepted.regression,
        "commit": accepted.commit,
        "record_sha256": accepted.record_sha256,
        "engine": {side: dict(build) for side, build in accepted.engine.items()},
    }


def _figures(series: Series, window: SeriesWindow) -> Iterator[tuple[str, JsonValue]]:
    """Yield the figure of a window in one view, and its change since the first, each with its key."""
    since = None if window.since_first is None else series.raw(window.since_first) + 0.0
    yield _figure_key(series), series.figure(window)
    candidate = "candidate_" if series.by.mode == "absolute" else ""
    yield f"{candidate}change_since_first_{_change_unit(series)}", since


def _summary(series: Series) -> dict[str, JsonValue]:
    """Return what today's window is compared with in one view."""
    latest = series.latest
    since = None if latest.since_first is None else series.raw(latest.since_first) + 0.0
    unit = _change_unit(series)
    return {
        f"mean_{_figure_key(series)}": series.mean,
        f"sd_{'share' if series.by.points else 'log'}": series.sd,
        f"smallest_margin_{unit}": series.smallest_margin,
        f"change_since_first_{unit}": since,
        "words": series.words(latest),
    }


def _figure_key(series: Series) -> str:
    if series.by.mode == "absolute":
        return f"candidate_{series.row.stored_key}{'_share' if series.by.points else ''}"
    return "difference_share" if series.by.points else "ratio"


def _change_unit(series: Series) -> str:
    return "share" if series.by.points else "fraction"


def update_json(update: Update, *, path: str) -> dict[str, JsonValue]:
    """Return what a window changes in the baseline of one gate.

    Args:
        update: the change.
        path: of the file.
    """
    entries: list[JsonValue] = [_change(change, claim) for change in update.changes for claim in change.claims]
    regressions: list[JsonValue] = list(update.regressions)
    return {
        "gate": update.gate,
        "host_class": update.after.host_class,
        "path": path,
        "entries": entries,
        "regressions": regressions,
    }


def _change(change: EntryChange, claim: BaselineThreshold) -> dict[str, JsonValue]:
    """Return what becomes of an entry, as one claim about it sees that."""
    verdict = next((one for one in change.verdicts if one.threshold == claim.id), None)
    found = verdict.baseline if verdict is not None else None
    unit = "share" if claim.points else "fraction"
    return {
        "entry": change.entry_id,
        "threshold": claim.id,
        "mode": claim.mode,
        "metric_unit": metric(claim.metric).unit,
        "what": change.kind,
        "windows_before": 0 if change.before is None else len(change.before.windows),
        "windows_after": len(change.after.windows),
        "outcome": None if verdict is None else str(verdict.outcome),
        "reason": "" if verdict is None else verdict.reason,
        f"change_{unit}": None if verdict is None else verdict.change,
        f"change_since_latest_{unit}": None if found is None else found.since_latest,
        f"change_since_first_{unit}": None if found is None else found.since_anchor,
        "regression": change.regression,
    }
