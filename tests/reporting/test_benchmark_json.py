"""Entries for pytest-benchmark files: seconds and their inverse, names that stay, and nothing that must not be read."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.verdict import Outcome
from pytest_specgate.reporting.benchmark_json import BenchmarkPoints, _stats, benchmark_points
from pytest_specgate.reporting.session_report import ReportedVerdict, ReportedWindow, SessionReport, Unmeasured

if TYPE_CHECKING:
    from pytest_specgate.core.arms import ArmPair
    from tests.reporting.conftest import Window

RECORD = "specgate-results/one/record.json"
HEADLINE = ("output_throughput", "ttft_p50", "tpot_p50", "decode_rate_p50", "e2e_p50")
# What pytest-benchmark's own documents have, and tools such as its `compare` read.
STATS = {
    "min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers", "stddev_outliers",
    "outliers", "ld15iqr", "hd15iqr", "ops", "total", "data", "iterations",
}  # fmt: skip


def points(window: Window, **measured: tuple[ArmPair, ...]) -> BenchmarkPoints:
    """Return the entries of a window whose gates were all judged."""
    verdicts = tuple(
        ReportedVerdict(verdict, verdict.gate) for judged in window.judged() for verdict in judged.verdicts
    )
    reported = ReportedWindow(window.record, RECORD, window.pairs, window.gates, verdicts)
    return benchmark_points(SessionReport((reported,), thresholds=len(verdicts)), measured)


def named(found: BenchmarkPoints) -> dict[str, dict[str, Any]]:
    """Return the entries by full name; each name occurs once."""
    listed = {str(entry["fullname"]): entry for entry in json.loads(json.dumps(found.entries, allow_nan=False))}
    assert len(listed) == len(found.entries)
    return listed


def test_every_arm_load_and_headline_has_one_entry(window: type[Window], k4_off: ArmPair) -> None:
    """An entry is named by its gate as parametrised tests are, and grouped with the same point of the other arm."""
    found = named(points(window.of(k4_off, speeds={"k4": 1.25}).gated()))

    assert set(found) == {
        f"test_gate.py::test_0[{arm}-{load}-{metric}]"
        for arm in ("off", "k4")
        for load in ("c1", "c8")
        for metric in HEADLINE
    }
    entry = found["test_gate.py::test_0[k4-c8-ttft_p50]"]
    assert entry["name"] == "test_0[k4-c8-ttft_p50]"
    assert entry["group"] == "k4 against off, c=8, ttft_p50"
    assert (entry["param"], entry["params"]) == ("k4-c8-ttft_p50", {"arm": "k4", "load": "c8", "metric": "ttft_p50"})
    assert set(entry["stats"]) == STATS


def test_a_time_is_seconds_and_a_rate_is_operations_a_second(window: type[Window], k4_off: ArmPair) -> None:
    """`mean` is the time, or the time of one token; `ops` is its inverse, so that of a throughput is the throughput."""
    found = named(points(window.of(k4_off, speeds={"off": 1.0, "k4": 1.25}).gated()))
    time = found["test_gate.py::test_0[k4-c1-ttft_p50]"]["stats"]
    rate = found["test_gate.py::test_0[k4-c1-decode_rate_p50]"]

    assert (time["mean"], time["ops"]) == (pytest.approx(0.08), pytest.approx(12.5))
    assert (rate["stats"]["ops"], rate["stats"]["mean"]) == (pytest.approx(12.5), pytest.approx(0.08))
    assert rate["extra_info"]["values"] == pytest.approx([12.5, 12.5])
    assert (rate["extra_info"]["unit"], rate["extra_info"]["better"]) == ("tokens/s", "higher")


def test_rounds_are_boots(window: type[Window], k4_off: ArmPair) -> None:
    """Statistics are over boots, the sampling unit, and not over requests; the value of each is in `data`."""
    found = named(points(window.of(k4_off, speeds={"k4": [1.0, 1.25]}).gated()))
    stats = found["test_gate.py::test_0[k4-c1-ttft_p50]"]["stats"]

    assert (stats["rounds"], stats["data"]) == (2, pytest.approx([0.1, 0.08]))
    assert (stats["min"], stats["max"], stats["total"]) == pytest.approx((0.08, 0.1, 0.18))
    assert stats["stddev"] == pytest.approx(statistics.stdev([0.1, 0.08]))


def test_an_entry_tells_where_it_comes_from_and_what_was_judged(window: type[Window], k4_off: ArmPair) -> None:
    """`extra_info` leads back to pair, machine, build, record and the outcome of what was claimed of this point."""
    found = named(points(window.of(k4_off, speeds={"k4": 0.5}).gated(at=8)))
    extra = found["test_gate.py::test_0[off-c8-output_throughput]"]["extra_info"]

    assert extra["verdicts"] == [
        {"threshold": "c8-output_throughput-not_worse", "outcome": "FAIL", "reason": "beyond-margin"}
    ]
    assert (extra["valid"], extra["role"], extra["pair"]) == (True, "reference", "k4 against off")
    assert (extra["record"], extra["load"], extra["engine"]["version"]) == (RECORD, "c=8", "0.32.0")
    assert extra["host_class"].startswith("cpu")
    assert found["test_gate.py::test_0[k4-c1-output_throughput]"]["extra_info"]["verdicts"] == []


def test_claimed_metrics_have_entries_at_every_load(window: type[Window], k4_off: ArmPair) -> None:
    """What a gate names is exported beside the headline; shares and counts are neither times nor rates, and are not."""
    gated = window.of(k4_off, speeds={"k4": 1.25}).gated("step_time").gated("acceptance_rate", margin=0.5)
    found = named(points(gated))

    assert "test_gate.py::test_0[k4-c8-step_time]" in found
    assert "test_gate.py::test_1[k4-c8-step_time]" not in found
    assert not any("acceptance" in name for name in found)


def test_no_number_before_identity(window: type[Window], k4_off: ArmPair) -> None:
    """Case 139: a pair whose request profiles differ has no entry, and the document says why."""
    found = points(window.of(k4_off, speeds={}).gated().with_field("k4", 2, temperature=0.7))

    assert found.entries == ()
    (left,) = found.left_out
    assert (left["test"], left["pair"], left["reason"]) == (
        "test_gate.py::test_0",
        "k4 against off",
        "profile-mismatch",
    )
    assert (left["load"], left["metric"]) == (None, None)


def test_an_invalid_point_is_left_out_in_both_arms(window: type[Window], k4_off: ArmPair) -> None:
    """Case 139: a point with failed requests has no figure in either arm; the other load levels keep theirs."""
    broken = window.of(k4_off, speeds={}).gated().with_requests("k4", 1, at=8, error="HTTP 500", status=500)
    found = points(broken)

    assert {str(entry["param"]).split("-")[1] for entry in found.entries} == {"c1"}
    assert [(left["load"], left["reason"]) for left in found.left_out] == [("c=8", "failed-requests")]


def test_a_metric_that_a_boot_lacks_is_left_out(window: type[Window], k4_off: ArmPair) -> None:
    """A mean over the boots that have a value is not the mean: no entry, and a reason."""
    broken = window.of(k4_off, speeds={}).gated().with_requests("off", 1, at=1, ttft_s=None)
    found = points(broken)
    here = [left for left in found.left_out if left["load"] == "c=1"]

    assert "test_gate.py::test_0[off-c8-ttft_p50]" in named(found)
    assert "test_gate.py::test_0[off-c1-ttft_p50]" not in named(found)
    assert here
    assert all(left["message"] for left in here)


def test_an_invalid_verdict_takes_its_figures_away(window: type[Window], k4_off: ArmPair) -> None:
    """Case 139: what was judged INVALID has no figure; that a baseline does not fit says nothing against today's."""
    gated = window.of(k4_off, speeds={}).gated()
    verdict = gated.verdict().model_copy(update={"outcome": Outcome.INVALID, "reason": "implausible-gain"})
    for kind, left in (("not_worse", ["implausible-gain"]), ("not_worse_than_baseline", [])):
        judged = ReportedVerdict(verdict.model_copy(update={"kind": kind}), verdict.gate)
        reported = ReportedWindow(gated.record, RECORD, gated.pairs, gated.gates, (judged,))
        found = benchmark_points(SessionReport((reported,), thresholds=1), {})

        assert [one["reason"] for one in found.left_out] == left
        assert ("test_gate.py::test_0[k4-c1-output_throughput]" in named(found)) is not bool(left)


def test_pairs_without_a_gate_are_named_by_who_measures_them(
    window: type[Window], k4_off: ArmPair, k7_k4: ArmPair
) -> None:
    """A pair that is measured without being judged has entries under its test; a gated one has those of its gate."""
    both = window.of(k4_off, k7_k4, speeds={"k4": 1.25}).gated()
    found = named(points(both, **{"test_all.py::test_all": (k4_off, k7_k4)}))

    assert "test_all.py::test_all[k7-c1-ttft_p50]" in found
    assert "test_all.py::test_all[off-c1-ttft_p50]" not in found
    assert "test_gate.py::test_0[off-c1-ttft_p50]" in found


def test_an_arm_of_two_measured_pairs_has_one_entry(window: type[Window], k4_off: ArmPair, k7_k4: ArmPair) -> None:
    """Case 116: names are distinct, also where one test measures two pairs that share an arm."""
    found = named(points(window.of(k4_off, k7_k4, speeds={}), **{"test_all.py::test_all": (k4_off, k7_k4)}))

    assert len(found) == 3 * 2 * len(HEADLINE)


def test_a_window_that_was_not_measured_is_named(k4_off: ArmPair) -> None:
    """A server that did not start leaves no figure, but a reason for each gate that waited for it."""
    missed = Unmeasured((k4_off.title,), ("test_gate.py::test_0",), "off did not start")
    found = benchmark_points(SessionReport((), unmeasured=(missed,), thresholds=1), {})

    assert found.entries == ()
    assert [(left["test"], left["message"]) for left in found.left_out] == [
        ("test_gate.py::test_0", "off did not start")
    ]


def test_saved_runs_may_be_without_data(window: type[Window], k4_off: ArmPair) -> None:
    """`--benchmark-save` keeps statistics only, unless `--benchmark-save-data` asks for the value of each boot."""
    found = points(window.of(k4_off, speeds={}).gated())

    assert all("data" in entry["stats"] for entry in found.listed(data=True))  # type: ignore[call-overload,index,operator]
    assert {frozenset(entry["stats"]) for entry in found.listed(data=False)} == {frozenset(STATS - {"data"})}  # type: ignore[call-overload,index,arg-type]


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=12))
def test_statistics_are_in_order(seconds: list[float]) -> None:
    """Quartiles lie in the right order within the range, and every value is counted once as inlier or outlier."""
    found: dict[str, Any] = _stats(seconds)
    slack = 1e-9 * found["max"]

    assert found["min"] <= found["q1"] + slack <= found["median"] + 2 * slack <= found["q3"] + 3 * slack
    assert found["q3"] <= found["max"] + slack
    assert found["min"] <= found["ld15iqr"] <= found["hd15iqr"] <= found["max"]
    assert found["ops"] * found["mean"] == pytest.approx(1)
    assert found["iqr_outliers"] == sum(not found["ld15iqr"] <= value <= found["hd15iqr"] for value in seconds)


@given(st.floats(1e-6, 1e3), st.integers(1, 9))
def test_equal_boots_have_no_spread(value: float, boots: int) -> None:
    """Boots that are equal to the last bit have no outliers, and that value everywhere."""
    found: dict[str, Any] = _stats([value] * boots)

    assert {found[name] for name in ("min", "max", "mean", "median", "q1", "q3", "ld15iqr", "hd15iqr")} == {value}
    assert (found["stddev"], found["iqr"], found["outliers"]) == (0, 0, "0;0")
