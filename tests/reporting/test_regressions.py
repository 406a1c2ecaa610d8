"""Faults of reports that were found and mended: each stays a test."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.gate import Gate
from pytest_specgate.core.judge import judge
from pytest_specgate.core.speculation import pool
from pytest_specgate.core.thresholds import NoiseFloor, Threshold
from pytest_specgate.reporting import tables
from pytest_specgate.reporting.messages import failure_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.speculation import SpeculationDelta
    from tests.reporting.conftest import Window


def test_speculation_of_a_boot_of_an_invalid_pair_is_not_shown(
    window: type[Window], k4_off: ArmPair, k7_k4: ArmPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An arm of a healthy and of an invalid pair shows what it did for the healthy one alone."""
    shown = window.of(k4_off, k7_k4, speeds={}).with_field("k4", 2, seed=9)
    shown = shown.edited("k4", 2, edit=lambda boot: boot.model_copy(update={"pairs": (k7_k4.title,)}))
    boots = tuple(boot for boot in shown.record.boots if (boot.arm, boot.round) != ("off", 2))
    shown = dataclasses.replace(shown, record=shown.record.model_copy(update={"boots": boots}))
    pooled: list[int] = []

    def counted(deltas: Sequence[SpeculationDelta]) -> SpeculationDelta:
        pooled.append(len(deltas))
        return pool(deltas)

    monkeypatch.setattr(tables, "pool", counted)
    lines = shown.lines()

    assert any(line.startswith("no figures (profile-mismatch)") for line in lines)
    assert pooled == [1, 1]


def test_a_gate_stopped_by_another_threshold_is_not_helped_by_rounds(window: type[Window], k4_off: ArmPair) -> None:
    """A threshold that stayed open because another failed is not advised to take more rounds."""
    pair = k4_off.with_rounds(6)
    record = window.of(pair, speeds={"k4": 0.5}, rounds=2).record
    fails = Threshold("output_throughput", 1, "not_worse", 0.05, NoiseFloor(0.01, "A/A of a test"))
    opens = Threshold("tpot_p50", 8, "not_worse", 1.05, NoiseFloor(0.05, "A/A of a test"))
    gate = Gate(id="g", pair=pair, thresholds=(fails, opens))
    verdict = judge(gate, record)[1]
    text = failure_text(verdict, gate=gate, record=record, record_path="r", again="pytest x")

    assert verdict.reason == "stopped"
    assert "--specgate-rounds" not in text


@pytest.mark.parametrize(
    ("margin", "words"), [(0.0001, "-0.01 %"), (0.0004, "-0.04 %"), (0.1004, "-10.04 %"), (0.15, "-15 %")]
)
def test_a_margin_is_shown_as_it_was_written(
    window: type[Window], k4_off: ArmPair, *, margin: float, words: str
) -> None:
    """A fine margin is not rounded away: "not worse than -0 %" would be another claim."""
    verdict = window.of(k4_off, speeds={}).gated("output_throughput", margin=margin).verdict()

    assert tables.claim_text(verdict) == f"not worse than {words}"


def test_a_small_noise_is_not_shown_as_none(window: type[Window], k4_off: ArmPair) -> None:
    """A standard deviation of a fraction of a percent keeps its digits, and so does the floor it amounts to."""
    verdict = window.of(k4_off, speeds={}).gated("output_throughput").verdict().model_copy(update={"sd": 0.0016})

    assert "sd of a round 0.16 % (floor 0.31 %)" in tables.noise_line(verdict)
