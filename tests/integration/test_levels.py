"""Load levels through the front door: an arrival rate beside a concurrency, and a client that could not keep up."""

from __future__ import annotations

import json
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

_TWO_TEMPERATURES = """\
    LOAD = load(requests={1: 2, "1 T=0.8": 2})
    OFF, K4 = arm("off"), arm("k4", k=4)


    @gate(
        pair(OFF, K4, varies="args.speculative_config", profile=LOAD, rounds=1),
        outputs_agree(at=1, at_least="1%"),
        *[at_least("output_throughput", at=at, limit="1 tokens/s") for at in (1, "1 T=.80")],
    )
    def test_both(): pass
    """

_ENGINE_THAT_TELLS = """\
    import json, os, pathlib

    from pytest_specgate.testing import completions
    from pytest_specgate.testing.main import main

    accept = completions.Completions.accept

    def told(self, request, received):
        with pathlib.Path(f"sent-{os.getpid()}.jsonl").open("a") as file:
            body = json.loads(received.body)
            print(json.dumps([body["temperature"], body["prompt"]]), file=file)
        return accept(self, request, received)

    completions.Completions.accept = told
    raise SystemExit(main())
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


@pytest.fixture(scope="module")
def warmed(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Two arms at two temperatures, whose servers write down what they are sent."""
    gates = new_gate_folder()
    gates.write("test_warm.py", _TWO_TEMPERATURES)
    gates.write("engine.py", _ENGINE_THAT_TELLS)
    return gates.run(engine="python engine.py")


def test_two_temperatures_are_measured_in_one_boot(warmed: GateRun) -> None:
    """Each server is sent the warm-up and the one level at 0, then the other at 0.8, and no prompt twice."""
    sent = [
        [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        for path in warmed.folder.glob("sent-*.jsonl")
    ]
    # Before the warm-up each server is asked whether it answers at all.
    ours = [[(temperature, prompt) for temperature, prompt in one if prompt != "Hello"] for one in sent]

    assert len(warmed.record.boots) == len(sent) == 2
    assert [[temperature for temperature, _ in one] for one in ours] == [[0.0] * 3 + [0.8] * 2] * 2
    assert sorted(ours[0]) == sorted(ours[1])
    assert len({prompt for _, prompt in ours[0]}) == 5
    assert [[point.at for point in boot.points] for boot in warmed.record.boots] == [[1, "1 T=0.8"]] * 2


def test_a_temperature_has_its_own_test_ids(warmed: GateRun) -> None:
    """A level is a test case and a row of its own; answers are compared and kept at the greedy one alone."""
    properties = warmed.cases["test_both[c1-t0.8-output_throughput-at_least]"].properties
    rows = [line.partition("output throughput")[0].strip() for line in warmed.table("k4 against off").splitlines()]
    texts = {(point.at, request.text is None) for boot in warmed.record.boots for point in boot.points
             for request in point.requests}  # fmt: skip

    assert {name: case.outcome for name, case in warmed.cases.items()} == {
        "test_both[c1-outputs_agree]": "PASS",
        "test_both[c1-output_throughput-at_least]": "PASS",
        "test_both[c1-t0.8-output_throughput-at_least]": "PASS",
    }
    assert (properties["specgate_load"], properties["specgate_temperature"]) == ("c=1 T=0.8", "0.8")
    assert warmed.cases["test_both[c1-output_throughput-at_least]"].properties["specgate_temperature"] == "0.0"
    assert {"c=1", "c=1 T=0.8"} <= set(rows)
    assert texts == {(1, False), ("1 T=0.8", True)}
    assert "outputs at c=1 T=0.8 cannot be compared: at temperature 0.8 every answer" in warmed.summary


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
