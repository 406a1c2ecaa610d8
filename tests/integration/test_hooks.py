"""Hooks through the front door: the examples of their specifications, run on the fake engine, and their page."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_specgate import cli, hookspecs
from pytest_specgate.adapters.storage import load_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specgate.core.records import WindowRecord
    from tests.integration.conftest import GateFolder, GateRun

PAGE: Final = (Path(__file__).parents[2] / "docs" / "hooks.md").read_text(encoding="utf-8")
HOOKS: Final = tuple(name for name in vars(hookspecs) if name.startswith("pytest_specgate_"))
SUM, COUNT = (f"vllm:request_queue_time_seconds_{part}" for part in ("sum", "count"))
NUMACTL: Final = '#!/bin/sh\nshift 2\nexec "$@"\n'
"""Stands for the program of this name, which may be missing here."""


def example(hook: str) -> str:
    """Return the example of a specification."""
    text = inspect.getdoc(getattr(hookspecs, hook)) or ""
    return textwrap.dedent(text.partition("::\n\n")[2]).strip() + "\n"


def gates_of_page() -> str:
    """Return the gate file of the page."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (found,) = (block for block in blocks if "@gate(" in block)
    return found


def written(gates: GateFolder, *hooks: str, more: str = "") -> None:
    """Write a conftest.py with the examples of some hooks, and the gate file of the page."""
    gates.write("test_queue.py", "")
    head = (gates.folder / "conftest.py").read_text(encoding="utf-8")
    gates.write("conftest.py", "\n\n".join([head, *map(example, hooks), more]))
    text = gates_of_page().replace("fake-model", gates.model)
    (gates.folder / "test_queue.py").write_text(text, encoding="utf-8")


@dataclasses.dataclass(frozen=True)
class Run:
    """The run of the examples.

    Attributes:
        run: what came of it.
        record: of its window.
        path: of the record.
    """

    run: GateRun
    record: WindowRecord
    path: Path


@pytest.fixture(scope="module")
def shown(new_gate_folder: Callable[[], GateFolder]) -> Run:
    """The metric, the command and the verdict hook of the specifications, in one run of the page's gates."""
    gates = new_gate_folder()
    written(gates, "pytest_specgate_metrics", "pytest_specgate_engine_command", "pytest_specgate_verdict")
    own = gates.folder / "bin"
    own.mkdir()
    (own / "numactl").write_text(NUMACTL, encoding="utf-8")
    (own / "numactl").chmod(0o755)
    variables = {"PATH": f"{own}{os.pathsep}{os.environ['PATH']}"}
    run = gates.run("test_queue.py", "--specgate-rounds=1", variables=variables)
    (path,) = run.results.glob("*/record.json")
    return Run(run, load_record(path), path)


def row_of(output: str) -> str:
    """Return the row of the added metric in the table of the pair."""
    return next(line for line in output.splitlines() if "queue time mean [ms]" in line and "PASS" in line)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_page_has_the_example_of_each_specification(hook: str) -> None:
    """Both say the same, to the letter."""
    assert f"```python\n{example(hook)}```" in PAGE


def test_a_gate_on_an_added_metric_passes(shown: Run) -> None:
    """It is judged like any other: by its interval, and by its limit in every boot."""
    assert (shown.run.exit_code, shown.run.counts) == (0, {"passed": 2})
    assert {verdict["metric"] for verdict in shown.record.verdicts} == {"queue_time_mean"}


def test_it_is_shown_with_its_unit_and_direction(shown: Run) -> None:
    """In the table, in the junit properties and in the form of the page."""
    properties = shown.run.cases["test_two_at_a_time[c4-queue_time_mean-better]"].properties

    assert "  better -" in row_of(shown.run.output)
    assert {"specgate_reference_s", "specgate_candidate_s"} <= properties.keys()
    assert "queue time mean [ms]" in PAGE


def test_its_values_are_those_of_the_counters_in_the_record(shown: Run) -> None:
    """The series that it names are in the pages of every point, and give the value that is stored."""
    points = [point for boot in shown.record.boots for point in boot.points]

    assert len(points) == 2
    for point in points:
        assert point.added["queue_time_mean"].value == point.counters.total(SUM) / point.counters.count(COUNT)
        assert point.added["queue_time_mean"].n == 12


def test_what_was_started_is_told(shown: Run) -> None:
    """Every boot shows its whole command, and the line about the engine says in short what the project makes of it."""
    own = "numactl --cpunodebind=0 --membind=0"

    assert [f"{own} " in boot.command for boot in shown.record.boots] == [True] * 2
    assert all("{port}" not in boot.command for boot in shown.record.boots)
    assert f", started as {own} {{command}}" in shown.run.output
    assert shown.record.settings["changed_commands"] == dict.fromkeys(("one", "two"), f"{own} {{command}}")


def test_a_change_of_both_arms_is_no_difference(shown: Run) -> None:
    """Only what sets the servers apart is shown with the verdicts of a pair."""
    (pair,) = shown.record.pairs

    assert [one for one in pair.differences or () if one["id"] == "started_as"] == []


def test_every_verdict_is_heard_once(shown: Run) -> None:
    """In the order of the tests, with what the test made of it, and where the record lies."""
    lines = [json.loads(line) for line in (shown.run.folder / "verdicts.jsonl").read_text().splitlines()]
    record = str(shown.path.relative_to(shown.run.folder))

    assert lines == [
        {"test": f"test_queue.py::test_two_at_a_time[c4-queue_time_mean-{kind}]", "outcome": "PASS", "accepted": True,
         "record": record}
        for kind in ("better", "at_most")
    ]  # fmt: skip


def test_it_is_judged_again_where_nobody_has_the_hook(shown: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """This process knows no such metric: the record says what it is, and gives the same verdicts to the last digit."""
    status = cli.main(["judge", str(shown.path), "--json"])
    found = json.loads(capsys.readouterr().out)

    assert status == 0
    assert found == [{"finished": True, "valid": True, **verdict} for verdict in shown.record.verdicts]


def test_its_report_has_the_same_table(shown: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Row by row, from the record alone; the short form has the values under the name with the unit."""
    shown_again = cli.main(["report", str(shown.path)]), capsys.readouterr().out
    short = cli.main(["report", str(shown.path), "--json"]), json.loads(capsys.readouterr().out)

    assert (shown_again[0], short[0]) == (0, 0)
    assert row_of(shown.run.output) in shown_again[1]
    (window,) = short[1]["windows"]
    assert len(window["arms"][0]["points"]["c4"]["values"]["queue_time_mean_s"]) == 1


def test_a_record_of_an_added_metric_is_compared(shown: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """A margin names it, though this process knows it from the record only."""
    claims = ["--cross-window=3%", "--source=a test", "--margin=queue_time_mean=5%"]
    status = cli.main(["compare", str(shown.path), str(shown.path), *claims, "--json"])
    found = json.loads(capsys.readouterr().out)

    assert status == 0
    assert "queue_time_mean" in json.dumps(found)


_ONE_ARM: Final = """
    def pytest_specgate_engine_command(arm, command):
        return ["nice", "-n", "1", *command] if arm.name == "two" else None


    def pytest_specgate_verdict(verdict, node_id):
        if verdict.kind == "at_most":
            raise ValueError("no database")


    def pytest_specgate_metrics():
        from pytest_specgate import AddedMetric

        fields = {"unit": "s", "better": "lower", "formula": "x"}
        return [AddedMetric(name="queue_time_mean", compute=lambda point: 1 / (point.requests[0].index), **fields)]
    """


@pytest.fixture(scope="module")
def failing(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """In a worker of xdist: a metric that divides by zero, a wrapper of one arm only, a verdict hook that fails."""
    gates = new_gate_folder()
    written(gates, more=textwrap.dedent(_ONE_ARM))
    file = gates.folder / "test_queue.py"
    text = file.read_text(encoding="utf-8")
    allowed = 'rounds=2, allow_engine_differences={"started_as": "looked at"})'
    file.write_text(text.replace("rounds=2)", allowed), encoding="utf-8")
    return gates.run("test_queue.py", "-n", "1", "--specgate-rounds=1")


def test_a_function_that_fails_makes_its_metric_missing(failing: GateRun) -> None:
    """The window runs to its end, and every claim about the metric is INVALID with the sentence of the page."""
    sentence = "arm two at c=4: no queue_time_mean: its function failed: ZeroDivisionError: division by zero"
    failures = [str(case.failure) for case in failing.cases.values()]

    assert failing.record.finished
    assert failing.counts == {"failed": 2, "warnings": 1}
    assert all("INVALID (missing-metric): arm " in text for text in failures)
    assert any(sentence in text for text in failures)
    assert f"INVALID (missing-metric): {sentence}" in PAGE


def test_a_change_of_one_arm_stands_with_every_verdict(failing: GateRun) -> None:
    """Where the pair allows it, it is shown beside the engine-induced ones, and each failure names both commands."""
    (pair,) = failing.record.pairs
    found = {one["id"]: one for one in pair.differences or ()}

    assert found["started_as"]["candidate"] == "nice -n 1 {command}"
    assert all("nice -n 1 " in str(case.failure) for case in failing.cases.values())
    assert 'undeclared          started_as: (absent) -> "nice -n 1 {command}" allowed: looked at' in failing.output
    assert 'undeclared          started_as: (absent) -> "nice -n 1 {command}"\n' in PAGE


def test_a_verdict_hook_that_fails_is_a_warning(failing: GateRun) -> None:
    """Once, for the verdict it failed at, with the test; the outcome is what it was."""
    text = " ".join(failing.output.split())

    assert (
        text.count("PytestWarning: pytest_specgate_verdict of conftest.py failed, and the verdict of test_queue.py")
        == 1
    )
    assert "stays as it is: ValueError: no database" in text


_VETO: Final = """
    def pytest_specgate_veto_host(config):
        return "this is not the partition for measuring"
    """
_MEASURED: Final = """

    @measured(PAIR)
    def test_read(specgate_window): pass
    """


@pytest.fixture(scope="module")
def vetoed(new_gate_folder: Callable[[], GateFolder]) -> GateFolder:
    """A folder whose conftest.py refuses the machine, beside a plugin that does so with another reason."""
    gates = new_gate_folder()
    written(gates, "pytest_specgate_metrics", "pytest_specgate_veto_host")
    gates.write("house.py", _VETO)
    file = gates.folder / "test_queue.py"
    text = file.read_text(encoding="utf-8").replace("gate, noise", "gate, measured, noise")
    file.write_text(text + textwrap.dedent(_MEASURED), encoding="utf-8")
    return gates


def test_nothing_is_measured_on_a_refused_machine(vetoed: GateFolder) -> None:
    """Every item fails with the reasons, that of a fixture too, none is skipped, and no server is started."""
    run = vetoed.run("test_queue.py", "-p", "house", variables={"PYTHONPATH": str(vetoed.folder)})
    head = "InvalidError: INVALID (host-vetoed): nothing is measured on this host: "

    assert (run.exit_code, run.counts) == (1, {"failed": 2, "errors": 1})
    for case in run.cases.values():
        assert head in str(case.failure)
        assert "this is not the partition for measuring" in str(case.failure)
    assert list(run.folder.glob("specgate-results*/*/*.log")) == []
    assert head in PAGE


@pytest.mark.parametrize("option", ["--specgate-plan", "--collect-only"])
def test_a_refused_machine_is_told_of_and_nothing_fails(vetoed: GateFolder, option: str) -> None:
    """What only looks ahead works anywhere."""
    run = vetoed.run("test_queue.py", "-p", "house", option, variables={"PYTHONPATH": str(vetoed.folder)})

    assert run.exit_code == 0
    assert "specgate: nothing would be measured on this host: this is not the partition for measuring" in run.output


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"gpus": {"state": "not applicable", "why": ""}}, "gates are measured on H200, and this host has no GPU"),
        ({"gpus": ["NVIDIA A100"]}, "gates are measured on H200, and this host has NVIDIA A100"),
        ({"gpus": ["NVIDIA H200"], "gpu_power_limit_w": [500]}, "a GPU has a power limit below 700 W"),
        ({"gpus": ["NVIDIA H200"], "gpu_power_limit_w": [700]}, None),
    ],
    ids=["none", "other", "weak", "right"],
)
def test_the_veto_of_the_page_says_what_it_means(facts: dict[str, Any], reason: str | None) -> None:
    """Each branch of the example, with facts as the machine gives them."""
    names: dict[str, Any] = {}
    exec(example("pytest_specgate_veto_host"), names)

    assert names["pytest_specgate_veto_host"](facts) == reason


def test_a_misspelt_added_metric_is_an_error_at_collection(gate_folder: GateFolder) -> None:
    """The nearest name is the added one, also where its conftest.py was found after the session began."""
    written(gate_folder, "pytest_specgate_metrics")
    below = gate_folder.folder / "perf"
    below.mkdir()
    (gate_folder.folder / "conftest.py").rename(below / "conftest.py")
    text = (gate_folder.folder / "test_queue.py").read_text(encoding="utf-8")
    (gate_folder.folder / "test_queue.py").rename(below / "test_good.py")
    (below / "test_bad.py").write_text(text.replace('better("queue_time_mean"', 'better("queue_time_meen"'))
    run = gate_folder.run("--collect-only", ".")

    assert run.exit_code == 2
    assert "test_good.py" in run.output
    assert "there is no metric 'queue_time_meen'; did you mean 'queue_time_mean'?" in run.output
    assert "Traceback" not in run.output


_MISTAKE: Final = """\
    from pytest_specgate import AddedMetric


    def pytest_specgate_metrics():
        return [AddedMetric(name="waits", unit="ms", better="lower", formula="x", compute=lambda point: 1.0)]
    """


def test_a_mistake_in_an_added_metric_stops_the_session(gate_folder: GateFolder) -> None:
    """One sentence that names hook, place and mistake, and no traceback."""
    gate_folder.write("test_nothing.py", "")
    gate_folder.write("conftest.py", _MISTAKE)
    run = gate_folder.run("--collect-only")

    assert run.exit_code == 4
    assert "ERROR: pytest_specgate_metrics of conftest.py: AddedMetric.unit: input should be 's'" in run.output
    assert "Traceback" not in run.output
    assert "INTERNALERROR" not in run.output


def test_what_is_no_command_stops_the_session(gate_folder: GateFolder) -> None:
    """Before anything is started, with the plugin that gave it."""
    written(gate_folder, "pytest_specgate_metrics", more="def pytest_specgate_engine_command(): return 'numactl'\n")
    run = gate_folder.run("test_queue.py")
    sentence = (
        "pytest_specgate_engine_command of conftest.py returned a str, and a list of words is wanted, for arm one"
    )

    assert run.exit_code == 4
    assert f"ERROR: {sentence}" in run.output
    assert list(run.folder.glob("specgate-results*/*/*.log")) == []
