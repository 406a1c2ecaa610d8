"""Gates and pytest-randomly: no server is booted more often because tests were shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder

pytest.importorskip("pytest_randomly", reason="needs pytest-randomly: tox run -e plugins")

_TESTS: Final = """\
    OFF = arm("off")
    PAIR = pair(OFF, arm("on", seed=1), rounds=1)


    @pytest.mark.parametrize("n", range(4))
    def test_server(vllm_server, n):
        vllm_server(OFF)


    @pytest.mark.parametrize("n", range(4))
    @gate(PAIR, UNDECIDABLE)
    def test_gate(n, verdict):
        verdict.expect(Outcome.INCONCLUSIVE)
    """


def test_shuffled_tests_boot_three_servers(gate_folder: GateFolder) -> None:
    """Two boots of a window and one server for all who ask, although the seed deals the tests out in turn."""
    gate_folder.write("test_order.py", _TESTS)
    run = gate_folder.run("-p", "randomly", "--randomly-seed=3", engine=gate_folder.recorded_engine())

    assert [word for word, _ in run.lifetimes].count("began") == 3
    assert (run.exit_code, run.counts) == (0, {"passed": 8})


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_shuffled_tests_stay_together(seed: str, gate_folder: GateFolder) -> None:
    """Whatever the seed, tests of the window follow each other, and so do those that ask for a server."""
    gate_folder.write("test_order.py", _TESTS)
    run = gate_folder.run("-p", "randomly", f"--randomly-seed={seed}", "--collect-only", "-qq")
    lines = [line for line in run.output.splitlines() if line.startswith("test_order.py::")]
    names = [line.removeprefix("test_order.py::").partition("[")[0] for line in lines]

    assert sorted(names) in (names, names[::-1])
    assert len(names) == 8
