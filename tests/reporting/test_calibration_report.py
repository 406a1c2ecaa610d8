"""What A/A windows told, as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.gate import Gate
from pytest_specgate.core.measured import Calibrated
from pytest_specgate.core.metrics import HEADLINE, metric
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.thresholds import LimitThreshold, NoiseFloor, Threshold
from pytest_specgate.reporting.calibration import calibration_lines
from pytest_specgate.reporting.layout import FULL, Detail, View
from pytest_specgate.reporting.session_lines import session_lines
from pytest_specgate.reporting.session_report import SessionReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.arms import ArmPair
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.thresholds import AnyThreshold
    from tests.reporting.conftest import Window


def _noise(arm: str, name: str, *, sd: float = 0.01, df: float = 3.5714, at: Level = 1) -> ArmNoise:
    return ArmNoise(
        arm=arm,
        at=at,
        metric=name,
        sd=sd,
        df=df,
        boots=6,
        builds=1,
        arm_sha256=arm,
        measured_at="2026-11-02T09:00:00+00:00",
    )


@pytest.fixture
def found(window: type[Window], k4_off: ArmPair) -> Calibrated:
    """Noise of one headline metric of two arms, and of two metrics that are no headline."""
    return Calibrated(
        record=window.of(k4_off, speeds={}).record,
        path="results/record.json",
        noise_path="baselines/gpu/noise.json",
        noise=(
            _noise("off", "ttft_p50", at=8),
            _noise("k4", "ttft_p50", sd=0.025, df=10.0),
            _noise("k4", "acceptance_rate", sd=0.004),
            _noise("k4", "step_time"),
        ),
        problems={},
    )


def _lines(found: Calibrated, pair: ArmPair, *thresholds: AnyThreshold, view: View = FULL) -> list[str]:
    gates: Sequence[Gate] = [Gate(id="test_gate.py::test_0", pair=pair, thresholds=thresholds)] if thresholds else []
    return "\n".join(calibration_lines(found, gates, view=view)).splitlines()


def _rows(lines: Sequence[str]) -> list[list[str]]:
    """Return the rows of the table, each cut where two blanks part its columns."""
    start = next(place for place, line in enumerate(lines) if line.startswith("---")) + 1
    end = next(place for place, line in enumerate(lines) if line.startswith("record: "))
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[start:end]]


def test_one_row_for_every_arm_load_and_headline_metric(found: Calibrated, k4_off: ArmPair) -> None:
    """Standard deviation, the floor that it amounts to, and its degrees of freedom; what nobody gates stays out."""
    rows = _rows(_lines(found, k4_off))

    assert rows == [
        ["off", "c=8", "TTFT p50", "6", "1 %", f"{100 * math.expm1(1.959964 * 0.01):.2g} %", "3.57"],
        ["k4", "c=1", "TTFT p50", "6", "2.5 %", f"{100 * math.expm1(1.959964 * 0.025):.2g} %", "10"],
    ]


def test_gated_metrics_are_shown_beside_the_headlines(found: Calibrated, k4_off: ArmPair) -> None:
    """A metric that a gate names has its row, whatever kind its claim is of."""
    claim = Threshold("step_time", 1, "not_worse", 0.05, NoiseFloor(0.01, "a test"))
    limit = LimitThreshold("acceptance_rate", 1, "at_least", 0.5)

    labels = [row[2] for row in _rows(_lines(found, k4_off, claim, limit))]

    assert sorted(labels) == ["TTFT p50", "TTFT p50", "acceptance rate", "step time"]
    assert "step_time" not in HEADLINE


def test_shares_are_told_in_points(found: Calibrated, k4_off: ArmPair) -> None:
    """The noise of a share is a plain difference: 0.4 points, and a floor of 1.96 times that."""
    rows = _rows(_lines(found, k4_off, LimitThreshold("acceptance_rate", 1, "at_least", 0.5)))

    [share] = [row for row in rows if row[2] == metric("acceptance_rate").label]
    assert share[4:6] == ["0.4 points", "0.78 points"]


def test_what_to_do_with_it(found: Calibrated, k4_off: ArmPair) -> None:
    """The record and the file are named, and that the file is to be committed."""
    lines = _lines(found, k4_off)

    assert lines[-2] == "record: results/record.json"
    assert lines[-1].startswith("calibrations: baselines/gpu/noise.json (commit it")


def test_arms_of_which_nothing_could_be_told_come_first(found: Calibrated, k4_off: ArmPair) -> None:
    """A problem of one arm stands above the figures of the others."""
    sentence = "no calibration of k7: arm k7: its server left"
    broken = Calibrated(found.record, found.path, found.noise_path, found.noise, {"k7": sentence})

    lines = _lines(broken, k4_off)

    assert lines[0] == sentence
    assert len(_rows(lines)) == 2


def test_the_table_says_what_a_floor_is(found: Calibrated, k4_off: ArmPair) -> None:
    """Its headline tells how to read it."""
    assert _lines(found, k4_off)[0] == (
        "noise of one round, by A/A windows (95 % of differences without a change lie within the floor)"
    )


def test_who_wants_little_sees_what_is_gated(found: Calibrated, k4_off: ArmPair) -> None:
    """Under -q the table has the gated metrics only, and all of them where nothing is gated."""
    limit = LimitThreshold("acceptance_rate", 1, "at_least", 0.5)
    short = View(Detail.SHORT)

    assert [row[2] for row in _rows(_lines(found, k4_off, limit, view=short))] == ["acceptance rate"]
    assert [row[2] for row in _rows(_lines(found, k4_off, view=short))] == ["TTFT p50", "TTFT p50"]


def test_who_wants_much_sees_boots_and_servers(found: Calibrated, k4_off: ArmPair) -> None:
    """Under -v the boots stand in their order, and how each server was started."""
    lines = _lines(found, k4_off, view=View(Detail.LONG))

    assert "boots in their order" in lines
    assert sum(line.startswith("server of ") for line in lines) == 2


def test_on_a_narrow_terminal_columns_are_left_out(found: Calibrated, k4_off: ArmPair) -> None:
    """What 50 columns cannot show is named below."""
    lines = _lines(found, k4_off, view=View(columns=50))

    assert "(not shown in 50 columns: df, boots)" in lines
    assert max(len(line) for line in lines if line.startswith(("arm", "---", "off", "k4"))) <= 50


@pytest.mark.parametrize(
    ("detail", "first", "last"),
    [
        (Detail.OUTCOME, "calibrations: baselines/gpu/noise.json", "calibrations: baselines/gpu/noise.json"),
        (Detail.NORMAL, "noise of one round, by A/A windows", ""),
    ],
)
def test_a_run_that_calibrates_ends_with_its_file(found: Calibrated, detail: Detail, first: str, last: str) -> None:
    """Under -qq nothing but where it was written to."""
    lines = list(session_lines(SessionReport(()), calibrated=[(found, [])], view=View(detail)))

    assert lines[0].startswith(first)
    assert lines[-1] == last
