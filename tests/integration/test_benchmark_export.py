"""`--benchmark-json`: measured points in the file of pytest-benchmark, beside its own results or without them."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from pytest_specgate.benchmark_export import BenchmarkExport, register_export

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.integration.conftest import GateFolder, GateRun

pytest.importorskip("pytest_benchmark", reason="pytest-benchmark is not installed")

_GATES = """\
    LOAD = load(requests={1: 10})
    OFF, SLOW, DEAD = arm("off"), arm("slow", step_s=0.008), arm("dead", die_after_requests=3)


    @gate(pair(OFF, SLOW, profile=LOAD, rounds=1), SPEED)
    def test_speed(verdict):
        verdict.expect(Outcome.FAIL, Outcome.INCONCLUSIVE)


    @gate(pair(OFF, DEAD, profile=LOAD, rounds=1), SPEED)
    def test_death(): pass
    """

_MEASURED = """\
    PAIR = pair(arm("off"), arm("other", seed=1), profile=load(requests={1: 10}), rounds=1)


    @measured(PAIR)
    def test_window(specgate_window):
        assert specgate_window.record.finished
    """

_SKIPPED = """\
    @pytest.mark.skip(reason="not today")
    @gate(pair(arm("off"), arm("other", seed=1), rounds=1), SPEED)
    def test_speed(): pass
    """

_NOT_IMPORTED = """\
    import sys


    def test_plain(request):
        assert request.config.pluginmanager.hasplugin("benchmark")
        assert not request.config.pluginmanager.hasplugin("specgate-benchmark-export")
        assert "pytest_specgate.reporting.benchmark_json" not in sys.modules
    """

_OF_ITS_OWN = """\
    def test_sum(benchmark):
        benchmark.pedantic(sum, args=([1, 2],), rounds=3)
    """

# Asking for the facts about the processor takes a second, and is the user's to change.
_NO_FACTS = """

def pytest_benchmark_generate_machine_info():
    return {"node": "here"}
"""
_NO_NUMBER = """

def pytest_benchmark_update_json(output_json):
    output_json["machine_info"]["temperature"] = float("nan")
"""

_UNITS = ((1.0, "sec"), (1e3, "msec"), (1e6, "usec"), (1e9, "nsec"))


def extracted(path: Path) -> dict[str, tuple[float, str, str]]:
    """Read the file as github-action-benchmark does for the tool `pytest`: name, iterations a second, range, extra."""
    found = {}
    for bench in json.loads(path.read_text(encoding="utf-8"))["benchmarks"]:
        stats = bench["stats"]
        mean = float(stats["mean"])
        scale, unit = next(one for one in _UNITS if mean * one[0] >= 1)
        extra = f"mean: {mean * scale} {unit}\nrounds: {int(stats['rounds'])}"
        assert bench["fullname"] not in found
        found[str(bench["fullname"])] = (float(stats["ops"]), f"stddev: {float(stats['stddev'])}", extra)
    return found


def document(run: GateRun) -> dict[str, Any]:
    """Return the whole file of a run."""
    found: dict[str, Any] = json.loads((run.folder / "out.json").read_text(encoding="utf-8"))
    return found


def made(folder: GateFolder, **files: str) -> GateFolder:
    """Return a folder with these gate files, plain tests and a conftest, each by its name without ending."""
    for name, text in files.items():
        folder.write(f"{name}.py", text)
    with (folder.folder / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(_NO_FACTS)
    return folder


@pytest.fixture(scope="module")
def alone(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """Gates only, one slower and one whose server dies: no test uses the fixture of pytest-benchmark."""
    return made(new_gate_folder(), test_gates=_GATES).run("--benchmark-json=out.json", "-W", "error")


def test_gates_alone_leave_the_file(alone: GateRun) -> None:
    """Where pytest-benchmark would write nothing, the file is there, made by its own hooks, and one line says so."""
    found = document(alone)

    assert (alone.exit_code, alone.counts) == (1, {"failed": 1, "passed": 1})
    assert found["machine_info"] == {"node": "here"}
    assert {"commit_info", "datetime", "version"} <= set(found)
    assert "specgate: 10 figures of gates (1 left out, since they must not be read) in out.json" in alone.output
    assert "Not saving anything" not in alone.output


def test_a_reader_of_pytest_benchmark_reads_throughputs(alone: GateRun) -> None:
    """What github-action-benchmark takes for iterations a second is the throughput that the report shows."""
    found = extracted(alone.folder / "out.json")
    values = {at: found[f"test_gates.py::test_speed[{at}-c1-output_throughput]"] for at in ("off", "slow")}
    table = alone.table("slow against off")

    speed, spread, extra = values["off"]
    mean, _, rest = extra.removeprefix("mean: ").partition(" ")
    assert (spread, rest) == ("stddev: 0.0", "msec\nrounds: 1")
    assert float(mean) == pytest.approx(1e3 / speed)
    assert values["off"][0] > values["slow"][0]
    assert all(f"{value[0]:.4g}" in table for value in values.values())


def test_no_number_of_an_invalid_pair(alone: GateRun) -> None:
    """Case 139: a pair whose server died has no entry; the document names it, with its reason."""
    found = document(alone)

    assert not any("dead" in bench["fullname"] or "test_death" in bench["fullname"] for bench in found["benchmarks"])
    assert found["specgate"]["entries"] == len(found["benchmarks"]) == 10
    assert [(left["test"], left["reason"]) for left in found["specgate"]["left_out"]] == [
        ("test_gates.py::test_death", "server-died")
    ]


def test_pytest_benchmark_compares_the_file(alone: GateRun) -> None:
    """Its own command shows both arms of a point side by side, as results of one group."""
    command = [sys.executable, "-m", "pytest_benchmark", "compare", "out.json", "--columns=mean,ops,rounds"]
    shown = subprocess.run(command, cwd=alone.folder, capture_output=True, text=True, check=True).stdout

    assert "benchmark 'slow against off, c=1, ttft_p50': 2 tests" in shown
    assert "test_speed[slow-c1-ttft_p50]" in shown


def test_beside_benchmarks_of_its_own(gate_folder: GateFolder) -> None:
    """Results of pytest-benchmark and measured points stand in one file and in one saved run; its table is its own."""
    folder = made(gate_folder, test_window=_MEASURED, test_sum=_OF_ITS_OWN)
    run = folder.run("--benchmark-json=out.json", "--benchmark-save=run", "--benchmark-columns=mean")
    (saved,) = (run.folder / ".benchmarks").rglob("*_run.json")
    names = [bench["fullname"] for bench in document(run)["benchmarks"]]
    kept = json.loads(saved.read_text(encoding="utf-8"))["benchmarks"]

    assert (run.exit_code, run.counts) == (0, {"passed": 2})
    assert names[0] == "test_sum.py::test_sum"
    assert "test_window.py::test_window[other-c1-output_throughput]" in names
    assert [bench["fullname"] for bench in kept] == names
    assert not any("data" in bench["stats"] for bench in kept)
    assert "specgate: 10 figures of gates in out.json" in run.output
    assert "benchmark: 1 tests" in run.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--benchmark-json=out.json", "--benchmark-only"], "0 figures of gates in out.json"),
        (["--benchmark-json=out.json", "-n", "1"], "0 figures of gates in out.json"),
        (["--benchmark-json=out.json", "--benchmark-disable"], "out.json was not written, since --benchmark-disable"),
        (["--benchmark-save=run"], "0 figures of gates not saved, since no test used the fixture of pytest-benchmark"),
    ],
)
def test_what_was_not_measured_is_said(arguments: list[str], line: str, gate_folder: GateFolder) -> None:
    """Case 130: skipped gates leave an empty list and no old figures; the summary says that nothing was judged.

    A worker of xdist writes the file, too: that pytest-benchmark disables itself there is its own affair.
    """
    folder = made(gate_folder, test_skipped=_SKIPPED)
    old = folder.write("out.json", '{"benchmarks": "of an earlier run"}')
    run = folder.run(*arguments)

    assert (run.exit_code, run.counts) == (0, {"skipped": 1})
    assert "0 of 1 threshold judged" in run.output
    assert f"\nspecgate: {line}" in run.output
    assert (json.loads(old.read_text(encoding="utf-8"))["benchmarks"] == []) is line.endswith("in out.json")


def test_a_place_where_nothing_can_be_written_is_refused(gate_folder: GateFolder) -> None:
    """A file that could not be written in the end is a usage error before anything is measured."""
    run = made(gate_folder, test_skipped=_SKIPPED).run("--benchmark-json=pytest.ini/out.json")

    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: --benchmark-json={run.folder}/pytest.ini/out.json cannot be written: " in run.output


@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_a_document_that_cannot_be_written_makes_no_run_green(workers: list[str], gate_folder: GateFolder) -> None:
    """Case 114: a number that JSON has not, put there by a hook of the user, is refused, and the run is red."""
    folder = made(gate_folder, test_plain="def test_plain(): pass", test_skipped=_SKIPPED)
    with (folder.folder / "conftest.py").open("a", encoding="utf-8") as file:
        file.write(_NO_NUMBER)
    run = folder.run("--benchmark-json=out.json", *workers)

    assert (run.exit_code, run.counts) == (1, {"passed": 1, "skipped": 1})
    assert "\nspecgate: --benchmark-json: out.json was not written: Out of range float values" in run.output
    assert not (run.folder / "out.json").exists()


def test_older_releases_open_the_file_themselves(tmp_path: Path) -> None:
    """The option may be an open file instead of a path: the export knows its place, and does not take it away."""
    registered: list[BenchmarkExport] = []
    with (tmp_path / "out.json").open("wb") as file:
        options = {"benchmark_json": file}
        register_export(
            cast(
                "pytest.Config",
                SimpleNamespace(
                    getoption=lambda name, default=None: options.get(name, default),
                    pluginmanager=SimpleNamespace(register=lambda plugin, _: registered.append(plugin)),
                ),
            )
        )

    (export,) = registered
    assert (export._file, export._opened) == (tmp_path / "out.json", True)


def test_gates_do_not_need_it(gate_folder: GateFolder) -> None:
    """Where no file was asked for, nothing of the export is imported."""
    gate_folder.write("test_skipped.py", _SKIPPED)
    gate_folder.write("test_zero.py", _NOT_IMPORTED)

    assert gate_folder.run().counts == {"passed": 1, "skipped": 1}
