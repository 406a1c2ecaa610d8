"""A gate in a pytest run: one item a threshold, selected and counted as such."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

_SHAPES = """\
    PAIR = pair(arm("off"), arm("k4", k=4), varies="args.speculative_config", rounds=6)
    CLAIMS = (not_worse("output_throughput", at=1, margin="5%"), better("request_throughput", at=1, by="5%"))


    @pytest.mark.parametrize("size", ["small", "large"])
    @gate(PAIR, *CLAIMS)
    def test_sizes(size): pass


    class TestGroup:
        @gate(PAIR, *CLAIMS)
        def test_method(self): pass


    @measured(PAIR)
    def test_look(specgate_window): pass


    def test_server(vllm_server): pass
    """

_EMBEDDED = """\
    ONE, TWO = (Arm(f"seed{seed}", model=EMBEDDED_MODEL, args={"seed": seed}) for seed in (1, 2))


    @gate(pair(ONE, TWO, varies="args.seed"), SPEED)
    def test_gate(): pass
    """

_TWO_CLAIMS = """\
    PAIR = pair(arm("fast", step_s=0.003), arm("slow", step_s=0.025), profile=load(requests={1: 2}))


    @gate(PAIR, SPEED, better("request_throughput", at=1, by="1%", noise=FLOOR))
    def test_two(): pass
    """


@pytest.fixture(scope="module")
def selected(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """One of two thresholds, chosen with `-k`."""
    gates = new_gate_folder()
    gates.write("test_two.py", _TWO_CLAIMS)
    return gates.run("-k", "c1-output_throughput-not_worse", "--specgate-rounds=1")


def test_each_threshold_is_one_test_case(healthy: GateRun) -> None:
    """Four thresholds of two gates give four test cases, whose ids name point, metric and kind."""
    assert list(healthy.cases) == [
        "test_k4[c1-decode_rate_p50-better]",
        "test_k4[c2-output_throughput-not_worse]",
        "test_k4[c2-e2e_p50-not_worse]",
        "test_k7[c2-output_throughput-not_worse]",
        "test_window",
    ]
    assert healthy.counts == {"passed": 5}


def test_the_session_counts_its_thresholds(slowed: GateRun) -> None:
    """The last line of the summary counts every outcome once, and says how many thresholds did not run."""
    counted = "11 of 12 thresholds judged: 2 PASS, 8 FAIL (1 of them expected), 1 INCONCLUSIVE"

    assert slowed.summary.partition("\n===")[0].endswith(f"\n{counted}")
    assert slowed.cases["test_never_runs[c1-output_throughput-not_worse]"].outcome is None


def test_ids_hold_for_methods_and_further_parameters(gate_folder: GateFolder) -> None:
    """Classes and other parameters keep their usual place in the ids."""
    gate_folder.write("test_shapes.py", _SHAPES)
    run = gate_folder.run("--collect-only", "-q", "-q")

    assert run.exit_code == 0
    for claim in ("c1-output_throughput-not_worse", "c1-request_throughput-better"):
        for size in ("small", "large"):
            assert f"test_sizes[{claim}-{size}]" in run.output or f"test_sizes[{size}-{claim}]" in run.output
        assert f"TestGroup::test_method[{claim}]" in run.output


def test_collecting_needs_neither_engine_nor_model(gate_folder: GateFolder) -> None:
    """`--collect-only` works where no gate could run, and starts nothing."""
    gate_folder.write("test_embedded.py", _EMBEDDED)
    variables = {"SPECGATE_CACHE_DIR": str(gate_folder.folder / "empty"), "SPECGATE_ENGINE_PYTHON": "/nowhere/python"}
    run = gate_folder.run("--collect-only", engine=None, variables=variables)

    assert run.exit_code == 0
    assert "test_gate[c1-output_throughput-not_worse]" in run.output
    assert not run.results.exists()


def test_one_selected_threshold_is_measured_and_judged(selected: GateRun) -> None:
    """`-k` for a single threshold measures its window all the same, and runs that item only."""
    assert list(selected.cases) == ["test_two[c1-output_throughput-not_worse]"]
    assert [boot.arm for boot in selected.record.boots] == ["fast", "slow"]
    assert selected.cases["test_two[c1-output_throughput-not_worse]"].outcome == "FAIL"
    assert "\n1 of 1 threshold judged: 1 FAIL\n" in selected.summary


def test_selecting_does_not_shrink_the_family(selected: GateRun) -> None:
    """The error rates are shared by all thresholds that the gate declares, selected or not."""
    verdicts = selected.record.verdicts

    assert [verdict["threshold"] for verdict in verdicts] == [
        "c1-output_throughput-not_worse",
        "c1-request_throughput-better",
    ]
    assert {verdict["family"] for verdict in verdicts} == {2}


def test_a_failed_gate_alone_fails_the_run(selected: GateRun) -> None:
    """A FAIL is exit status 1."""
    assert (selected.exit_code, selected.counts) == (1, {"failed": 1, "deselected": 1})


def test_a_run_without_gates_says_nothing(gate_folder: GateFolder) -> None:
    """Tests that are no gates get neither a summary nor a folder of results."""
    gate_folder.write("plain.py", "def test_plain(): pass\n")
    run = gate_folder.run("plain.py")

    assert (run.exit_code, run.counts) == (0, {"passed": 1})
    assert run.summary == ""
    assert not run.results.exists()
