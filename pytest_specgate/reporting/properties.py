"""Verdicts as flat name and value pairs, for junit."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pytest_specgate.core.gate import OUTPUTS_AGREE
from pytest_specgate.core.levels import concurrency_of, level_label, rate_per_s
from pytest_specgate.core.metrics import metric
from pytest_specgate.names import OUTCOME_PROPERTY

if TYPE_CHECKING:
    from pytest_specgate.core.verdict import Verdict

Property: TypeAlias = tuple[str, str | float | int]


def properties(verdict: Verdict) -> list[Property]:
    """Return what a verdict says, with units in the names; what was not measured is left out, never 0.

    An INVALID verdict carries no figures, only its outcome and reason.
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
        (f"specgate_reference{unit}", verdict.reference),
        (f"specgate_candidate{unit}", verdict.candidate),
        ("specgate_equal_share", min(verdict.shares, default=None)),
        ("specgate_change", verdict.change),
        ("specgate_change_low", verdict.change_low),
        ("specgate_change_high", verdict.change_high),
        ("specgate_limit", verdict.limit),
        ("specgate_rounds", verdict.rounds or None),
        ("specgate_samples", verdict.samples),
        ("specgate_noise_sd", verdict.sd),
        ("specgate_noise_df", verdict.df),
        ("specgate_noise_source", verdict.noise or None),
    )
    return [(name, value) for name, value in candidates if value is not None]


def _unit(verdict: Verdict) -> str:
    """Return the ending that names a metric's unit; answers that are compared have none."""
    if verdict.kind == OUTPUTS_AGREE:
        return ""
    row = metric(verdict.metric)
    return row.stored_key.removeprefix(row.name)
