"""Gates and pytest-timeout: a limit that ends measuring says what to do, and leaves no server."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Final

import psutil
import pytest

from tests.integration.conftest import GateRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder

pytest.importorskip("pytest_timeout", reason="needs pytest-timeout: tox run -e plugins")

_PATIENCE_S: Final = 60.0
_REMEDY: Final = (
    "a window is measured inside its first test: mark its tests with @pytest.mark.timeout(0), and limit measuring by "
    "--specgate-budget"
)
_ENDLESS: Final = """\
    PAIR = pair(arm("off", step_s=0.05), arm("on", step_s=0.05, seed=1), profile=load(requests={1: 4000}))


    @gate(PAIR, SPEED)
    def test_first(): pass


    @gate(PAIR, SPEED)
    def test_second(): pass


    def test_plain(): pass
    """

_EXEMPT: Final = """\
    @pytest.mark.timeout(0)
    @gate(pair(arm("off"), arm("on", seed=1), rounds=1), UNDECIDABLE)
    def test_exempt(verdict):
        verdict.expect(Outcome.INCONCLUSIVE)
    """


def _limits(method: str) -> tuple[str, ...]:
    return "--timeout=2", f"--timeout-method={method}", "-p", "no:randomly"


@pytest.fixture(scope="module")
def signalled(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """A window that takes minutes, two seconds for each test, and a signal that ends it."""
    gates = new_gate_folder()
    gates.write("test_endless.py", _ENDLESS)
    return gates.run(*_limits("signal"), engine=gates.recorded_engine())


@pytest.fixture(scope="module")
def killed(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """A window that takes minutes, two seconds for each test, and a thread that ends all of pytest."""
    gates = new_gate_folder()
    gates.write("test_endless.py", _ENDLESS)
    done = subprocess.run(
        gates.command(*_limits("thread")),
        cwd=gates.folder,
        env=gates.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )
    # Its supervising process ends a server that was left behind, and needs a moment.
    until_s = time.monotonic() + _PATIENCE_S
    while _serves(gates) and time.monotonic() < until_s:
        time.sleep(0.05)
    return GateRun(gates.folder, done.returncode, done.stdout, gates.end_servers())


def _serves(gates: GateFolder) -> bool:
    return any(gates.model in (process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


@pytest.mark.parametrize("test", ["test_first", "test_second"])
def test_a_limit_tells_the_remedy(test: str, signalled: GateRun) -> None:
    """The test that measured, and at once every other test of its window, fail with the limit and what to do."""
    failure = str(signalled.cases[f"{test}[c1-output_throughput-not_worse]"].failure)

    assert f"Timeout (>2.0s) from pytest-timeout: {_REMEDY}" in failure


def test_a_window_is_not_begun_again_after_a_limit(signalled: GateRun) -> None:
    """One server was started and ended, other tests run, and what can be gone on with is told."""
    assert [word for word, _ in signalled.lifetimes] == ["began", "ended"]
    assert (signalled.exit_code, signalled.counts) == (1, {"failed": 2, "passed": 1})
    assert "specgate: to go on after its last whole round: the same run, and --specgate-resume=" in signalled.output
    assert signalled.survivors == ()


def test_a_limit_that_ends_pytest_is_told_before(killed: GateRun) -> None:
    """Method `thread` lets nobody speak afterwards: the remedy stands in the output before measuring begins."""
    before, sentence, after = killed.output.partition(
        f"specgate: pytest-timeout ends this process after 2 s (method thread), and {_REMEDY}\n"
    )

    assert sentence
    assert "starting its server" not in before
    assert "starting its server" in after
    assert (killed.exit_code, killed.survivors) == (1, ())


def test_a_gate_without_a_limit_is_measured(gate_folder: GateFolder) -> None:
    """`@pytest.mark.timeout(0)` is all that a gate needs, whatever the limit of the other tests."""
    gate_folder.write("test_exempt.py", _EXEMPT)
    run = gate_folder.run("--timeout=1", "--timeout-method=thread")

    assert (run.exit_code, run.counts) == (0, {"passed": 1})
    assert "pytest-timeout ends" not in run.output
