"""Verdicts, and what else is known of their pairs, as flat name and value pairs, for junit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytest_specgate.core.levels import concurrency_of, level_id, level_label, rate_per_s, temperature_of
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.thresholds import FASTER_ONLY_UP_TO, LIMITS, OUTPUTS_AGREE
from pytest_specgate.names import OUTCOME_PROPERTY
from pytest_specgate.reporting.differences import differences_in_short
from pytest_specgate.reporting.history import continued_text
from pytest_specgate.reporting.outputs import outputs_in_short

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.verdict import Verdict

Property: TypeAlias = tuple[str, str | float | int]


def properties(verdict: Verdict, *, temperature: float | None = None) -> list[Property]:
    """Return what a verdict says, with units in the names; what was not measured is left out, never 0.

    An INVALID verdict carries no figures, only its outcome and reason.

    Args:
        verdict: of a threshold.
        temperature: that the requests of its load level are sent with; `None` leaves the level's own, if it has one.
    """
    unit = _unit(verdict)
    candidates: tuple[tuple[str, str | float | int | None], ...] = (
        (OUTCOME_PROPERTY, str(verdict.outcome)),
        ("specgate_reason", verdict.reason),
        ("specgate_gate", verdict.gate),
        ("specgate_pair", verdict.pair),
        ("specgate_claim", verdict.claim),
        ("specgate_metric", verdict.metric),
        ("specgate_load", level_label(verdict.at)),
        ("specgate_concurrency", concurrency_of(verdict.at)),
        ("specgate_rate_per_s", rate_per_s(verdict.at)),
        ("specgate_temperature", temperature_of(verdict.at) if temperature is None else temperature),
        (f"specgate_reference{unit}", verdict.reference),
        (f"specgate_candidate{unit}", verdict.candidate),
        ("specgate_equal_share", min(verdict.shares, default=None)),
        ("specgate_change", verdict.change),
        ("specgate_change_low", verdict.change_low),
        ("specgate_change_high", verdict.change_high),
        (f"specgate_limit{unit if verdict.kind in LIMITS else ''}", verdict.limit),
        ("specgate_rounds", verdict.rounds or None),
        ("specgate_samples", verdict.samples),
        ("specgate_noise_sd", verdict.sd),
        ("specgate_noise_df", verdict.df),
        ("specgate_noise_source", verdict.noise or None),
        ("specgate_needs_rounds", verdict.needs_rounds),
        ("specgate_smallest_margin", verdict.smallest_margin),
        *((f"specgate_{factor.name.replace(' ', '_')}_change", factor.change) for factor in verdict.factors),
        *((f"specgate_{level_id(point.at)}", f"{point.sign}") for point in verdict.curve),
    )
    return [(name, value) for name, value in candidates if value is not None]


def pair_properties(pair: ArmPair, record: WindowRecord) -> list[Property]:
    """Return what stands beside every verdict of a pair: in what its servers differ, whether answers were compared.

    An arm alone has neither. Also what came before its window: which attempt at its builds it is, and which rounds an
    earlier run has measured.
    """
    continued = [("specgate_continued", continued_text(record))] if record.continued else []
    compared: list[Property] = [
        ("specgate_engine_differences", differences_in_short(pair, record)),
        ("specgate_outputs", outputs_in_short(pair, record)),
    ]
    return [*([] if pair.alone else compared), ("specgate_attempt", record.attempt), *continued]


def _unit(verdict: Verdict) -> str:
    """Return the ending that names a metric's unit; answers that are compared, and curves, have none."""
    if verdict.kind in {OUTPUTS_AGREE, FASTER_ONLY_UP_TO}:
        return ""
    row = metric(verdict.metric)
    return row.stored_key.removeprefix(row.name)
