"""Measured points as entries of a pytest-benchmark file: seconds of an average boot, and how often a second that is.

A time is what it is. A rate is given by its inverse: ``ops`` is the throughput, ``mean`` the seconds of one token. So
each entry says what its readers take it for: less of ``mean`` is better, more of ``ops`` is better.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.confounds import attached_of
from pytest_specgate.core.hosts import facts_of, host_class
from pytest_specgate.core.judge import figure_problem, first_point_problem, pair_problem
from pytest_specgate.core.levels import level_id, level_label
from pytest_specgate.core.metrics import HEADLINE, is_metric, measure, metric
from pytest_specgate.core.stored import Failure
from pytest_specgate.reporting.window_pairs import verdicts_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm, ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.metrics import Metric
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.session_report import ReportedWindow, SessionReport

_FAR: Final = 1.5
"""Interquartile ranges beyond the quartiles from which a value is counted as an outlier."""


@dataclasses.dataclass(frozen=True, slots=True)
class BenchmarkPoints:
    """What a run has for a pytest-benchmark file.

    Attributes:
        entries: one an arm, load level and metric, with the value of each boot as ``stats.data``.
        left_out: what has no entry, with reason code and message, because it must not be read.
    """

    entries: tuple[dict[str, JsonValue], ...]
    left_out: tuple[dict[str, JsonValue], ...]

    def listed(self, *, data: bool) -> list[JsonValue]:
        """Return the entries; those without the value of each boot are as short as ``--benchmark-save`` wants them."""
        return [entry if data else _without_data(entry) for entry in self.entries]


@dataclasses.dataclass(frozen=True, slots=True)
class _Series:
    """A pair under the name of the function that asks for it, and what is claimed of it there."""

    name: str
    pair: ArmPair
    metrics: tuple[str, ...]
    verdicts: tuple[Verdict, ...] = ()

    def about(self, name: str, at: Level) -> list[Verdict]:
        """Return what was judged of one metric at one load level."""
        return [verdict for verdict in self.verdicts if (verdict.metric, verdict.at) == (name, at)]


def benchmark_points(report: SessionReport, measured: Mapping[str, Sequence[ArmPair]]) -> BenchmarkPoints:
    """Return the entries of all points that may be read: of pairs whose profiles are identical, and of no INVALID one.

    Args:
        report: of the run.
        measured: pairs that are measured without being judged, by the id of the function that asks for them.
    """
    entries: dict[str, dict[str, JsonValue]] = {}
    left_out: list[dict[str, JsonValue]] = []
    for window in report.windows:
        for series in _series(window, measured):
            for found in _points(series, window):
                if isinstance(found, _LeftOut):
                    left_out.append(found.json)
                else:
                    # An arm of two measured pairs is one arm.
                    entries.setdefault(str(found["fullname"]), found)
    left_out += [
        {"test": gate, "pair": None, "load": None, "metric": None, "reason": "not-measured", "message": window.message}
        for window in report.unmeasured
        for gate in window.gates
    ]
    return BenchmarkPoints(tuple(entries.values()), tuple(left_out))


def _series(window: ReportedWindow, measured: Mapping[str, Sequence[ArmPair]]) -> Iterator[_Series]:
    """Yield what the gates of a window ask for, then what tests ask for of pairs that no gate is on."""
    for gate, judged in ((one.gate, one.verdicts) for one in window.judged):
        claimed = [threshold.metric for threshold in gate.thresholds if is_metric(threshold.metric)]
        yield _Series(gate.id, gate.pair, tuple(dict.fromkeys((*HEADLINE, *claimed))), tuple(judged))
    gated = {gate.pair.key for gate in window.gates}
    here = {pair.key for pair in window.pairs} - gated
    for name, pairs in measured.items():
        yield from (_Series(name, pair, HEADLINE) for pair in pairs if pair.key in here)


@dataclasses.dataclass(frozen=True, slots=True)
class _LeftOut:
    series: _Series
    problem: Failure
    at: Level | None = None
    metric: str | None = None

    @property
    def json(self) -> dict[str, JsonValue]:
        """As it stands in the document."""
        return {
            "test": self.series.name,
            "pair": self.series.pair.title,
            "load": None if self.at is None else level_label(self.at),
            "metric": self.metric,
            "reason": self.problem.reason,
            "message": self.problem.message,
        }


def _points(series: _Series, window: ReportedWindow) -> Iterator[dict[str, JsonValue] | _LeftOut]:
    record = window.record
    if (problem := pair_problem(series.pair, record)) is not None:
        yield _LeftOut(series, problem)
        return
    for at in record.profile.points:
        if (problem := first_point_problem(series.pair, record, at=at)) is not None:
            yield _LeftOut(series, problem, at)
            continue
        for name in series.metrics:
            # Shares, counts and lengths are neither times nor rates, and would be read as one.
            if (row := metric(name)).unit == "s" or row.unit.partition("/")[1]:
                yield from _of_metric(series, window, row, at=at)


def _of_metric(
    series: _Series, window: ReportedWindow, row: Metric, *, at: Level
) -> Iterator[dict[str, JsonValue] | _LeftOut]:
    """Yield the entries of both arms, or of neither."""
    found = _values(series, window, row, at=at)
    if isinstance(found, Failure):
        yield _LeftOut(series, found, at, row.name)
        return
    for arm, values in zip(series.pair.arms, found, strict=True):
        yield _entry(arm, values, series, window, row, at=at)


def _values(series: _Series, window: ReportedWindow, row: Metric, *, at: Level) -> tuple[list[float], ...] | Failure:
    """Return the value of every boot of both arms, or why they must not be read."""
    record, judged = window.record, verdicts_on(series.pair, window.judged)
    if (problem := figure_problem(series.pair, record, judged, metric_name=row.name, at=at)) is not None:
        return problem
    sides: tuple[list[float], ...] = ([], [])
    for both in record.rounds_of(series.pair):
        for side, boot in zip(sides, both, strict=True):
            point = boot.point(at)
            assert point is not None, "pair_problem() refuses boots without the point"
            measured = measure(row.name, point, record.profile)
            if measured.value is None or measured.value <= 0:
                why = measured.missing or f"its value is {measured.value}, which has no inverse"
                return Failure(reason="missing-metric", message=f"{row.name} of {boot.arm}: {why}")
            side.append(measured.value)
    return sides


def _entry(  # noqa: PLR0913  - everything that names a point
    arm: Arm, values: Sequence[float], series: _Series, window: ReportedWindow, row: Metric, *, at: Level
) -> dict[str, JsonValue]:
    load = level_id(at)
    point = f"{arm.name}-{load}-{row.name}"
    name = f"{series.name.partition('::')[2] or series.name}[{point}]"
    return {
        "group": f"{series.pair.title}, {level_label(at)}, {row.name}",
        "name": name,
        "fullname": f"{series.name}[{point}]",
        "params": {"arm": arm.name, "load": load, "metric": row.name},
        "param": point,
        "extra_info": _extra(arm, values, series, window, row, at=at),
        "options": {},
        "stats": _stats(values if row.unit == "s" else [1 / value for value in values]),
    }


def _extra(  # noqa: PLR0913  - as above
    arm: Arm, values: Sequence[float], series: _Series, window: ReportedWindow, row: Metric, *, at: Level
) -> dict[str, JsonValue]:
    record = window.record
    return {
        "valid": True,
        "test": series.name,
        "pair": series.pair.title,
        "arm": arm.name,
        "role": "candidate" if arm == series.pair.candidate else "reference",
        "load": level_label(at),
        "metric": row.name,
        "unit": row.unit,
        "better": row.better,
        "values": [*values],
        "verdicts": [
            {"threshold": verdict.threshold, "outcome": str(verdict.outcome), "reason": verdict.reason}
            for verdict in series.about(row.name, at)
        ],
        "record": window.path,
        "measured_at": record.created_at,
        "finished": record.finished,
        "stopped": record.stopped,
        "host_class": record.host_class or host_class(facts_of(record.host)),
        "engine": dict(record.engine.get(arm.name, {})),
        "unproved": [*attached_of(arm.name, record)],
        "profile": record.profile.fingerprint(),
    }


def _stats(seconds: Sequence[float]) -> dict[str, JsonValue]:
    """Return the statistics of a pytest-benchmark entry, over boots; all but counts are seconds, ``ops`` is 1/s."""
    boots, ordered = len(seconds), sorted(seconds)
    mean, sd = statistics.mean(seconds), statistics.stdev(seconds) if boots > 1 else 0.0
    q1, q3 = (_quantile(ordered, q) for q in (0.25, 0.75))
    iqr = q3 - q1
    within = [value for value in ordered if q1 - _FAR * iqr <= value <= q3 + _FAR * iqr]
    beyond_sd = sum(abs(value - mean) > sd for value in seconds)
    beyond_iqr = boots - len(within)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": sd,
        "rounds": boots,
        "median": statistics.median(seconds),
        "iqr": iqr,
        "q1": q1,
        "q3": q3,
        "iqr_outliers": beyond_iqr,
        "stddev_outliers": beyond_sd,
        "outliers": f"{beyond_sd};{beyond_iqr}",
        "ld15iqr": within[0],
        "hd15iqr": within[-1],
        "ops": 1 / mean,
        "total": math.fsum(seconds),
        "data": [*seconds],
        "iterations": 1,
    }


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Return a quantile, numpy-linear; between equal values it is that value, to the last bit."""
    place = q * (len(ordered) - 1)
    below = int(place)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    return low + (high - low) * (place - below)


def _without_data(entry: dict[str, JsonValue]) -> dict[str, JsonValue]:
    stats = entry["stats"]
    assert isinstance(stats, dict), "_entry() made it"
    return {**entry, "stats": {name: value for name, value in stats.items() if name != "data"}}
