"""What a run has to report, as one JSON object: the file of ``--specgate-json``, and `specgate report --json`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.baseline_threshold import NOT_WORSE_THAN_BASELINE
from pytest_specgate.core.baselines import BASELINES_OFF, NO_BASELINE
from pytest_specgate.core.levels import concurrency_of, level_label, rate_per_s, temperature_of
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.run_reports import (
    SCHEMA_VERSION,
    BrokenTest,
    Counts,
    CurvePoint,
    ReportedCalibration,
    ReportedGate,
    ReportedThreshold,
    RunReport,
    UnmeasuredWindow,
)
from pytest_specgate.core.run_reports import ReportedWindow as WindowInShort
from pytest_specgate.core.statistics import raw_change
from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.properties import properties
from pytest_specgate.reporting.record_json import record_json

if TYPE_CHECKING:
    from pydantic import JsonValue

    from pytest_specgate.core.run_reports import Figure
    from pytest_specgate.core.verdict import Verdict
    from pytest_specgate.reporting.session_report import ReportedCalibration as Calibration
    from pytest_specgate.reporting.session_report import ReportedVerdict, ReportedWindow, SessionReport, Unjudged

NOT_JUDGED: Final = "not-judged"
"""Code of the reason why a threshold has no outcome."""

_PREFIX: Final = "specgate_"
_PLACES: Final = ("specgate_concurrency", "specgate_rate_per_s", "specgate_temperature")


def session_json(report: SessionReport) -> dict[str, JsonValue]:
    """Return a report as JSON; what is INVALID says so with its reason, and has no figures."""
    whole = RunReport(
        schema_version=SCHEMA_VERSION,
        passed=report.passed,
        summary=report.counts,
        exit_status=report.exit_status,
        shortage=report.shortage,
        counts=_counts(report),
        gates=_gates(report),
        windows=tuple(map(_window, report.windows)),
        unmeasured=tuple(
            UnmeasuredWindow(pairs=one.pairs, gates=tuple(map(_text, one.gates)), message=_text(one.message))
            for one in report.unmeasured
        ),
        broken=tuple(
            BrokenTest(node_id=_text(one.node_id), kind=one.kind, message=_text(one.message))
            for one in report.broken
        ),
        other_failures=report.besides,
        calibrated=tuple(map(_calibration, report.calibrated)),
    )  # fmt: skip
    found: dict[str, JsonValue] = whole.model_dump(mode="json", exclude_unset=True)
    return found


def session_json_text(report: SessionReport) -> str:
    """Return the text of the file; ASCII, so that it stays JSON wherever it is shown."""
    return json.dumps(session_json(report), indent=1, allow_nan=False) + "\n"


def _text(text: str) -> str:
    """Return a text that can be written: names of files may hold bytes that are no letters."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cleaned(value: JsonValue) -> JsonValue:
    """Return a JSON value all of whose texts can be written."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return {_text(name): _cleaned(item) for name, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


def _calibration(one: Calibration) -> ReportedCalibration:
    return ReportedCalibration(
        arms=one.arms,
        record=_text(one.record),
        calibrations=_text(one.calibrations),
        problems=tuple(map(_text, one.problems)),
    )


def _counts(report: SessionReport) -> Counts:
    found = report.verdicts
    verdicts = [one.verdict for one in found]
    unfounded = sum(verdict.reason in {NO_BASELINE, BASELINES_OFF} for verdict in verdicts)
    return Counts(
        collected=report.thresholds,
        judged=len(verdicts) - unfounded,
        without_baseline=unfounded,
        without_verdict=report.thresholds - len(verdicts),
        accepted=sum(verdict.accepted for verdict in verdicts),
        expected=sum(verdict.accepted and verdict.expected for verdict in verdicts),
        skipped=sum(one.skipped for one in found),
        outcomes={str(word): sum(verdict.outcome == word for verdict in verdicts) for word in Outcome},
    )


def _gates(report: SessionReport) -> tuple[ReportedGate, ...]:
    """Return the gates in the order in which they are first told of, each with all its thresholds."""
    pairs: dict[str, str] = {}
    found: dict[str, list[ReportedThreshold]] = {}
    for one in report.verdicts:
        pairs.setdefault(one.verdict.gate, one.verdict.pair)
        found.setdefault(one.verdict.gate, []).append(_judged(one))
    for left in report.unjudged:
        pairs.setdefault(left.gate.id, left.gate.pair.title)
        found.setdefault(left.gate.id, []).append(_unjudged(left))
    return tuple(
        ReportedGate(gate=_text(gate), pair=pairs[gate], thresholds=tuple(listed)) for gate, listed in found.items()
    )


def _judged(one: ReportedVerdict) -> ReportedThreshold:
    verdict = one.verdict
    valid = verdict.outcome != Outcome.INVALID
    return ReportedThreshold(
        threshold=verdict.threshold,
        node_id=_text(one.node_id),
        valid=valid,
        outcome=str(verdict.outcome),
        reason=verdict.reason,
        accepted=verdict.accepted,
        expected=verdict.expected,
        expected_outcomes=tuple(map(str, verdict.expected_outcomes)),
        skipped=one.skipped,
        metric=verdict.metric,
        kind=verdict.kind,
        load=level_label(verdict.at),
        concurrency=concurrency_of(verdict.at),
        rate_per_s=rate_per_s(verdict.at),
        temperature=temperature_of(verdict.at) if one.temperature is None else one.temperature,
        points=verdict.points,
        claim=verdict.claim,
        summary=_text(verdict.summary),
        detail=_text(verdict.detail),
        text=_text(one.text),
        noise=verdict.noise if valid else "",
        notes=tuple(map(_text, verdict.flags)),
        baseline=None if verdict.baseline is None else _text(verdict.baseline.path),
        curve=_curve(verdict) if valid else (),
        figures=_figures(verdict) if valid else None,
    )


def _unjudged(one: Unjudged) -> ReportedThreshold:
    threshold = one.threshold
    return ReportedThreshold(
        threshold=threshold.id,
        node_id=_text(one.node_id),
        valid=False,
        outcome=None,
        reason=NOT_JUDGED,
        accepted=False,
        expected=False,
        expected_outcomes=(),
        skipped=False,
        metric=threshold.metric,
        kind=threshold.kind,
        load=level_label(threshold.at),
        concurrency=concurrency_of(threshold.at),
        rate_per_s=rate_per_s(threshold.at),
        temperature=one.gate.pair.profile.temperature_at(threshold.at),
        points=bool(getattr(threshold, "points", False)),
        claim=threshold.claim,
        summary=_text(one.message),
        detail="",
        text="",
        noise="",
        notes=(),
        baseline=None,
        curve=(),
        figures=None,
    )


def _curve(verdict: Verdict) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(
            load=level_label(point.at),
            shown=point.sign,
            change=point.change,
            change_low=point.change_low,
            change_high=point.change_high,
        )
        for point in verdict.curve
    )


def _figures(verdict: Verdict) -> dict[str, Figure]:
    """Return the figures under the names that junit has, and those of single rounds and boots besides."""
    found: dict[str, Figure] = {
        name.removeprefix(_PREFIX): value
        for name, value in properties(verdict)
        if not isinstance(value, str) and name not in _PLACES
    }
    if verdict.ratios:
        # Of a baseline the change is another quantity: what happened since, and not between the arms.
        name = "change_by_round" if verdict.kind != NOT_WORSE_THAN_BASELINE else "arm_change_by_round"
        found[name] = tuple(_raw(verdict, ratio) for ratio in verdict.ratios)
    if verdict.shares:
        found["equal_share_by_round"] = verdict.shares
    if verdict.values:
        row = metric(verdict.metric)
        found[f"candidate_by_boot{row.stored_key.removeprefix(row.name)}"] = verdict.values
    if verdict.baseline is not None:
        found["change_since_latest"] = verdict.baseline.since_latest
        found["change_since_first"] = verdict.baseline.since_anchor
    return found


def _raw(verdict: Verdict, ratio: float) -> float:
    """Return a signed difference of one round as a raw change: a fraction, or of a share."""
    higher = metric(verdict.metric).higher_is_better
    if verdict.points:
        return ratio if higher else -ratio
    return raw_change(ratio, higher_is_better=higher)


def _window(window: ReportedWindow) -> WindowInShort:
    """Return a window in short; its verdicts stand with their gates."""
    short = record_json(window.record, path=window.path, judged=window.judged)
    kept = {name: _cleaned(short[name]) for name in WindowInShort.model_fields if not name.startswith("knee")}
    told = WindowInShort.model_validate_json(json.dumps(kept))
    if not any(arm.speculates for arm in window.record.arms):
        return told
    from pytest_specgate.reporting.knee_json import knee_report  # noqa: PLC0415  - it brings scipy
    from pytest_specgate.reporting.window_knee import window_knee  # noqa: PLC0415  - likewise

    knee = window_knee(window.record, window.path)
    if isinstance(knee, str):
        return told.model_copy(update={"knee_problem": knee})
    return told if knee is None else told.model_copy(update={"knee": knee_report(knee)})
