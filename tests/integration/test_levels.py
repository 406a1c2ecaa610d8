"""Load levels through the front door: an arrival rate beside a concurrency, and a client that could not keep up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

_OPEN_LOOP = """\
    LOAD = load(requests={1: 4, "40/s": 12}, goodput_limits={"e2e": "60s"}, burstiness=2.0)
    ONE, TWIN = arm("one", step_s=0.003), arm("twin", step_s=0.003, seed=1)


    @gate(
        pair(ONE, TWIN, profile=LOAD, rounds=1),
        not_worse("output_throughput", at="40/s", margin="90%", noise=FLOOR),
        not_worse("goodput", at="40/s", margin="90%", noise=FLOOR),
        not_worse("step_time", at=1, margin="900%", noise=FLOOR),
    )
    def test_open(): pass
    """

_NEVER_IN_TIME = """\
    from pytest_specgate.core import validity

    validity.LAG_S, validity.LAG_SHARE = -1.0, 0.0
    """

_CLOSED_LOOP = """\
    ONE, TWIN = arm("one"), arm("twin", seed=1)

    @gate(pair(ONE, TWIN, rounds=1), SPEED)
    def test_late(): pass
    """


@pytest.fixture(scope="module")
def opened(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Two alike arms, judged in a closed and in an open loop."""
    gates = new_gate_folder()
    gates.write("test_open.py", _OPEN_LOOP)
    return gates.run()


def test_a_rate_has_its_own_test_ids(opened: GateRun) -> None:
    """Thresholds at a rate are test cases named by it, and are judged like those at a concurrency."""
    assert {name: case.outcome for name, case in opened.cases.items()} == {
        "test_open[r40-output_throughput-not_worse]": "PASS",
        "test_open[r40-goodput-not_worse]": "PASS",
        "test_open[c1-step_time-not_worse]": "PASS",
    }
    assert opened.exit_code == 0


def test_a_rate_is_told_as_such(opened: GateRun) -> None:
    """Head, progress, table and properties have the rate with its unit."""
    properties = opened.cases["test_open[r40-goodput-not_worse]"].properties

    assert "4 requests at c=1, 12 requests at 40/s" in opened.summary
    assert "one: 40/s, 12 requests" in opened.output
    assert any(line.split()[:1] == ["40/s"] for line in opened.table("twin against one").splitlines())
    assert (properties["specgate_load"], properties["specgate_rate_per_s"]) == ("40/s", "40.0")
    assert properties["specgate_samples"] == "12"
    assert "specgate_concurrency" not in properties


def test_requests_arrive_by_the_schedule_of_the_profile(opened: GateRun) -> None:
    """Both arms meant to send at the same times: the first at 0, the last after 11 gaps of the mean."""
    points = [point for boot in opened.record.boots for point in boot.points if point.at == "40/s"]
    schedules = {tuple(request.due_s for request in point.requests) for point in points}

    [schedule] = schedules
    assert len(points) == 2
    assert schedule[0] == 0.0
    assert schedule[-1] == pytest.approx(11 / 40)
    assert all(request.due_s is None for point in opened.record.boots[0].points[:1] for request in point.requests)
    assert all(point.client.late_sends_p95_s is not None for point in points)


def test_a_client_that_was_late_is_invalid(gate_folder: GateFolder) -> None:
    """Figures of a client that stamps too late are not judged: INVALID, exit status 1, no figure, and what to do."""
    gate_folder.write("test_late.py", _CLOSED_LOOP)
    gate_folder.write("conftest.py", _NEVER_IN_TIME)
    run = gate_folder.run()
    [case] = run.cases.values()

    assert (run.exit_code, case.outcome, case.properties["specgate_reason"]) == (1, "INVALID", "client-saturated")
    assert "the load client was saturated: its event loop ran " in str(case.failure)
    assert "press less" in str(case.failure)
    assert "not judged (client-saturated): arm one at c=1: the load client was saturated" in run.summary
    assert "tokens/s]" not in run.summary
