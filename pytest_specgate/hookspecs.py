"""Hooks of the plugin: what a conftest.py, or another plugin, may change in how gates are measured and judged.

A hook is a function of one of these names in a conftest.py. It may leave out arguments that it does not need. Where the
plugin may be missing, mark the function with ``@pytest.hookimpl(optionalhook=True)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.added_metrics import AddedMetric
    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.verdict import Verdict


def pytest_specgate_metrics(config: pytest.Config) -> Sequence[AddedMetric]:  # type: ignore[empty-body]
    """Add metrics to the table, for gates to name like any other.

    The function of a metric is called once a point, when its counters have settled, with everything that was measured
    there: the rows of its requests, and the counters before and after. The value is stored in the record with the
    definition of the metric, so that `specgate judge` and `specgate report` need neither the function nor this hook.
    A function that returns `None`, or raises, or returns what is no number of 0 or more leaves the metric without a
    value at this point: a gate on it is INVALID (``missing-metric``) and says why.

    It is called once, when pytest has read its options; for a conftest.py that is found later, when it is.

    Args:
        config: of the pytest session.

    Returns:
        The metrics; none is an empty list.

    Example:
        Time that requests waited in the scheduler's queue, from series of ``/metrics`` that are not kept otherwise::

            from pytest_specgate import AddedMetric, PointRecord

            QUEUE_TIME = "vllm:request_queue_time_seconds"


            def queue_time_mean(point: PointRecord) -> float:
                counters = point.counters  # what the server counted during the point
                return counters.total(f"{QUEUE_TIME}_sum") / counters.count(f"{QUEUE_TIME}_count")


            def pytest_specgate_metrics() -> list[AddedMetric]:
                return [
                    AddedMetric(
                        name="queue_time_mean",
                        unit="s",
                        better="lower",
                        formula="sum of times in the queue / requests that ended",
                        compute=queue_time_mean,
                        series=(f"{QUEUE_TIME}_sum", f"{QUEUE_TIME}_count"),
                    )
                ]
    """


@pytest.hookspec(firstresult=True)
def pytest_specgate_engine_command(config: pytest.Config, arm: Arm, command: tuple[str, ...]) -> list[str] | None:
    """Change the command that starts the server of an arm: wrap it, as with ``numactl``, ``nsys`` or ``docker run``.

    It is asked once for each arm of a session, before anything is started, and what it returns is used at every start
    of that arm. Both arms of a pair are asked alike. What was really started stands in the record, in reports and in
    messages, without secrets. A change of one arm only, or of two arms in two ways, makes their pair INVALID, unless it
    allows this (``allow_engine_differences={"started_as": "..."}``). Calibrations and baselines do not cross a change.

    The command is the whole of it: program, arguments, address. ``{port}`` stands for the port, which is chosen anew at
    each start, and must be in what is returned. The environment is no part of the command: it is that of this process
    with the settings of the arm, and a container has to be told of what it needs of it.

    Args:
        config: of the pytest session.
        arm: whose server it is; a copy, nothing is changed by changing it.
        command: what would be started, word by word.

    Returns:
        What is started instead, word by word; `None` to leave it as it is. The first answer that is not `None` counts.

    Example:
        Each server on the CPUs and the memory of one node::

            def pytest_specgate_engine_command(command: tuple[str, ...]) -> list[str]:
                return ["numactl", "--cpunodebind=0", "--membind=0", *command]
    """


def pytest_specgate_veto_host(config: pytest.Config, facts: Mapping[str, JsonValue]) -> str | None:
    """Refuse to measure on this machine, before anything is started on it.

    It is asked once, when the first window of the session is to be measured or calibrated. Where any answer is a
    reason, nothing is measured: every test of a gate and every ``@measured`` test fails with all the reasons, and none
    is skipped; `vllm_server` starts nothing. With ``--specgate-plan`` and ``--collect-only`` the reasons are told, and
    nothing fails. A hook that raises refuses as well: nobody knows then what it would have said.

    Args:
        config: of the pytest session.
        facts: of this machine, as ``host`` has them in a record: ``facts["gpus"]`` is a list of names,
            ``facts["gpu_power_limit_w"]`` one of numbers. What the machine does not have or tell is a mapping with its
            ``state``.

    Returns:
        Why not here, in a sentence; `None` where nothing is wrong.

    Example:
        Only on a host whose GPUs are H200 with their full power::

            def pytest_specgate_veto_host(facts):
                gpus = facts["gpus"] if isinstance(facts["gpus"], list) else []
                if not gpus or any("H200" not in name for name in gpus):
                    return f"gates are measured on H200, and this host has {', '.join(gpus) or 'no GPU'}"
                if any(limit < 700 for limit in facts["gpu_power_limit_w"]):
                    return "a GPU has a power limit below 700 W"
                return None
    """


def pytest_specgate_verdict(
    config: pytest.Config, verdict: Verdict, gate: Gate, record_path: str | None, node_id: str
) -> None:
    r"""Take notice of a verdict, as to send it somewhere.

    It is called once for each test of a gate that was judged, after its body, whatever the outcome; under xdist in the
    worker that judged. A window that could not be measured gives no verdict. Nothing that it does changes an outcome:
    what it gets are copies, and what it raises is shown as a warning.

    Args:
        config: of the pytest session.
        verdict: the judgement; ``verdict.accepted`` says whether the test took it for a pass.
        gate: the claims that it is one of.
        record_path: where the record of the window lies; `None` where the claim was decided without measuring.
        node_id: of the test, as a user would type it.

    Example:
        One line a verdict, for a program that reads them::

            import json
            from pathlib import Path


            def pytest_specgate_verdict(verdict, record_path, node_id):
                told = {"test": node_id, "outcome": verdict.outcome, "accepted": verdict.accepted}
                with Path("verdicts.jsonl").open("a") as file:
                    file.write(json.dumps({**told, "record": record_path}) + "\n")
    """
