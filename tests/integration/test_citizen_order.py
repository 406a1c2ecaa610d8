"""The order of tests: whoever shuffles them, a window stays together, and servers are not booted again for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder, GateRun

# A plugin that deals tests out in turn, as bad for boots as can be.
_SHUFFLES: Final = """
import itertools


def pytest_collection_modifyitems(items):
    heaps = {}
    for item in items:
        heaps.setdefault(item.originalname, []).append(item)
    dealt = itertools.chain.from_iterable(itertools.zip_longest(*heaps.values()))
    items[:] = [item for item in dealt if item is not None]
"""

_TESTS: Final = """\
    OFF, ON = arm("off"), arm("on", seed=1)
    FIRST, SECOND = pair(OFF, ON, rounds=1), pair(OFF, ON, rounds=1, profile=load(requests={1: 3}))
    TWICE = pytest.mark.parametrize("n", [1, 2])


    @TWICE
    def test_server(vllm_server, n):
        vllm_server(OFF)


    @TWICE
    @gate(FIRST, UNDECIDABLE)
    def test_first(n, verdict): verdict.expect(Outcome.INCONCLUSIVE)


    @TWICE
    def test_plain(n): pass


    @TWICE
    @gate(SECOND, UNDECIDABLE)
    def test_second(n, verdict): verdict.expect(Outcome.INCONCLUSIVE)
    """

_NO_GATES: Final = """\
    TWICE = pytest.mark.parametrize("n", [1, 2])


    @TWICE
    def test_server(vllm_server, n): pass


    @TWICE
    def test_plain(n): pass
    """


_WRITTEN: Final = """\
    PAIR = pair(arm("off"), arm("on", seed=1), rounds=1)


    def test_server(vllm_server): pass
    def test_plain(): pass


    @gate(PAIR, UNDECIDABLE)
    def test_gate(): pass


    def test_between(): pass
    def test_again(vllm_server): pass


    @gate(PAIR, UNDECIDABLE)
    def test_same(): pass
    """


def _shuffled(gates: GateFolder, tests: str) -> None:
    gates.write("test_order.py", tests)
    conftest = gates.folder / "conftest.py"
    conftest.write_text(conftest.read_text(encoding="utf-8") + _SHUFFLES, encoding="utf-8")


def _order(run: GateRun) -> list[str]:
    lines = [line.partition(" ")[0] for line in run.output.splitlines() if line.startswith("test_order.py::")]
    return [line.removeprefix("test_order.py::").partition("[")[0] for line in lines]


def test_shuffled_tests_boot_no_server_again(gate_folder: GateFolder) -> None:
    """Two windows of two boots and one server for all who ask: five boots, in whatever order the tests were dealt."""
    _shuffled(gate_folder, _TESTS)
    run = gate_folder.run(engine=gate_folder.recorded_engine())

    assert [word for word, _ in run.lifetimes].count("began") == 5
    assert (run.exit_code, run.counts) == (0, {"passed": 8})


def test_what_belongs_together_stays_together(gate_folder: GateFolder) -> None:
    """Each window, and all who ask for a server, stand at the place of their first test; other tests stay."""
    _shuffled(gate_folder, _TESTS)
    run = gate_folder.run("--collect-only", "-qq")

    assert _order(run) == [
        *["test_server"] * 2, *["test_first"] * 2, "test_plain", *["test_second"] * 2, "test_plain"
    ]  # fmt: skip


def test_nothing_is_moved_without_gates(gate_folder: GateFolder) -> None:
    """A project without gates keeps the order that its own plugins make."""
    _shuffled(gate_folder, _NO_GATES)
    run = gate_folder.run("--collect-only", "-qq")

    assert _order(run) == ["test_server", "test_plain"] * 2


def test_nothing_is_moved_that_nobody_has_shuffled(gate_folder: GateFolder) -> None:
    """The order in which tests were written is kept: who orders them means it, and fixtures of modules stay."""
    gate_folder.write("test_order.py", _WRITTEN)
    run = gate_folder.run("--collect-only", "-qq")

    assert _order(run) == ["test_server", "test_plain", "test_gate", "test_between", "test_again", "test_same"]
