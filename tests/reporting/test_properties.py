"""Verdicts as junit properties: flat names that carry their units, and nothing that was not measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.properties import pair_properties, properties

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.verdict import Verdict
    from tests.reporting.conftest import Window

FIGURES = {
    "specgate_change", "specgate_change_low", "specgate_change_high", "specgate_rounds", "specgate_noise_sd",
    "specgate_noise_df", "specgate_noise_source", "specgate_samples", "specgate_smallest_margin",
}  # fmt: skip
DECLARED = {
    "specgate_outcome", "specgate_reason", "specgate_gate", "specgate_pair", "specgate_claim", "specgate_metric",
    "specgate_load", "specgate_concurrency", "specgate_limit",
}  # fmt: skip


def shown(verdict: Verdict) -> dict[str, str | float | int]:
    """Return the properties by name; each name occurs once."""
    listed = properties(verdict)
    assert len(dict(listed)) == len(listed)
    return dict(listed)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("ttft_p50", "_s"),
        ("output_throughput", "_tokens_per_s"),
        ("request_throughput", "_per_s"),
        ("decode_rate_p50", "_tokens_per_s"),
    ],
)
def test_names_carry_the_unit(window: type[Window], k4_off: ArmPair, metric: str, unit: str) -> None:
    """Stored times are seconds, and every value's name says what it is in."""
    names = set(shown(window.of(k4_off, speeds={"k4": 1.2}).gated(metric, margin=0.3).verdict()))

    factors = {name for name in names if name.endswith(("step_change", "second_change", "decoding_change"))}
    assert names - factors == DECLARED | FIGURES | {f"specgate_reference{unit}", f"specgate_candidate{unit}"}
    assert bool(factors) == metric.startswith(("output", "decode"))


def test_values_are_those_of_the_verdict(window: type[Window], k4_off: ArmPair) -> None:
    """Figures are plain numbers: seconds, fractions of 1, counts."""
    found = shown(window.of(k4_off, speeds={"k4": 1.25}).gated("ttft_p50", margin=0.05).verdict())

    assert found["specgate_outcome"] == "PASS"
    assert found["specgate_gate"] == "test_gate.py::test_0"
    assert found["specgate_pair"] == "k4 against off"
    assert (found["specgate_metric"], found["specgate_concurrency"]) == ("ttft_p50", 1)
    assert found["specgate_reference_s"] == pytest.approx(0.1)
    assert found["specgate_candidate_s"] == pytest.approx(0.08)
    assert found["specgate_change"] == pytest.approx(-0.2)
    assert found["specgate_limit"] == pytest.approx(0.05)
    assert found["specgate_rounds"] == 2
    assert "A/A windows of a test" in str(found["specgate_noise_source"])


def test_ends_of_the_interval_are_in_order(window: type[Window], k4_off: ArmPair) -> None:
    """Low is below the change and high above it, whichever direction is better."""
    for metric in ("ttft_p50", "output_throughput"):
        found = shown(window.of(k4_off, speeds={"k4": [1.2, 1.3]}).gated(metric).verdict())
        low, change, high = (float(found[f"specgate_change{end}"]) for end in ("_low", "", "_high"))

        assert low < change < high


def test_an_invalid_verdict_has_no_figures(window: type[Window], k4_off: ArmPair) -> None:
    """Case 139: outcome, reason and what was declared, and no figure that a dashboard could pick up."""
    verdict = window.of(k4_off, speeds={}).with_death("k4", 2, measured=1).gated().verdict()
    found = shown(verdict)

    assert set(found) == DECLARED
    assert (found["specgate_outcome"], found["specgate_reason"]) == ("INVALID", "server-died")


def test_what_is_missing_is_left_out_and_not_zero(window: type[Window], k4_off: ArmPair) -> None:
    """Without bounds there are no properties for them."""
    verdict = window.of(k4_off, speeds={}).gated().verdict()
    bare = verdict.model_copy(update={"change_low": None, "change_high": None, "sd": None, "df": None})

    assert (
        shown(bare)
        .keys()
        .isdisjoint({"specgate_change_low", "specgate_change_high", "specgate_noise_sd", "specgate_noise_df"})
    )


def test_a_change_of_zero_is_a_figure(window: type[Window], k4_off: ArmPair) -> None:
    """Measured and unchanged is not missing."""
    assert shown(window.of(k4_off, speeds={}).gated().verdict())["specgate_change"] == pytest.approx(0.0)


def test_an_expectation_changes_no_property(window: type[Window], k4_off: ArmPair) -> None:
    """What a test accepts is not part of what was measured: a FAIL that it declared is still written down as FAIL."""
    verdict = window.of(k4_off, speeds={"k4": 0.5}).gated().verdict()
    before = shown(verdict)
    verdict.expect(Outcome.FAIL)

    assert shown(verdict) == before
    assert before["specgate_outcome"] == "FAIL"


def test_what_stands_beside_every_verdict_is_a_property_too(window: type[Window], k4_off: ArmPair) -> None:
    """With junit alone a reader learns in what the servers differ, and whether answers were compared."""
    one = window.of(k4_off, speeds={})
    found = dict(pair_properties(k4_off, one.record))
    dead = dict(pair_properties(k4_off, one.with_death("k4", 2).record))

    assert str(found["specgate_outputs"]).startswith("outputs: 52 of 52 answers equal between k4 and off")
    assert str(found["specgate_engine_differences"]).startswith("not known")
    assert str(dead["specgate_outputs"]).startswith("outputs were not compared")
