"""A sweep through the front door: which arms boot, what is said of the others, and the gate file that it ends with."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.core.advice import advice
from pytest_specgate.core.horizon_records import window_horizons
from pytest_specgate.reporting.snippet import gate_snippet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

pytestmark = pytest.mark.alone

# A draft token costs 1 ms: for one user k=2 gives 2.6 tokens in 6 ms and k=7 no more in 11; off gives one in 4 ms, and
# wins as soon as four users draft together.
_SWEEP = """\
    ARGS = {"step_s": 0.004, "step_s_per_draft_token": 0.001, "acceptance": [0.9, 0.8, 0.05]}
    LOAD = load(requests={1: 10, 4: 12})
    OFF = arm("off", **ARGS)
    # Times to first token are some milliseconds here, and a busy machine doubles them.
    SPEED, START = noise_floor("20%", source="made up"), noise_floor("60%", source="made up")
    FLOORS = {"decode_rate_p50": SPEED, "output_throughput": SPEED, "ttft_p50": START}

    def spec(k):
        return arm(f"k{k}", k=k, **ARGS)

    SWEEP = arm_sweep(OFF, spec, ks=(1, 2, 4, 7), profile=LOAD, noise=FLOORS, most=2)


    @measured(SWEEP)
    def test_which_k(specgate_window):
        booted = {boot.arm for boot in specgate_window.record.boots}
        assert booted | set(specgate_window.record.ruled_out) == {"off", "k1", "k2", "k4", "k7"}
    """

_REFUSED = """\
    @measured(arm_sweep(arm("off"), lambda k: arm("off", k=k), ks=(1, 2), profile=load(requests={1: 10})))
    def test_which_k(): pass
    """


@pytest.fixture(scope="module")
def folder(new_gate_folder: Callable[[], GateFolder]) -> GateFolder:
    """A folder with the sweep."""
    gates = new_gate_folder()
    gates.write("test_sweep.py", _SWEEP)
    return gates


@pytest.fixture(scope="module")
def swept(folder: GateFolder) -> GateRun:
    """The sweep, once; its report is written, too."""
    return folder.run("--specgate-markdown=report.md")


def _rounds(run: GateRun) -> list[list[str]]:
    boots = run.record.boots
    return [[boot.arm for boot in boots if boot.round == number] for number in sorted({one.round for one in boots})]


def test_only_who_can_win_is_booted_and_only_who_may_lead_again(swept: GateRun) -> None:
    """The scouts, the two that are predicted best, and in the second round nobody who is beaten in everything."""
    first, second = _rounds(swept)

    assert swept.exit_code == 0, swept.output
    assert first == ["off", "k7", "k1", "k2"]
    assert {"off", "k2"} <= {*second} <= {"off", "k2", "k1"}
    assert {"k4", "k7"} <= swept.record.ruled_out.keys() <= {"k4", "k7", "k1"}


def test_the_reasons_are_sentences_with_figures(swept: GateRun) -> None:
    """By prediction, or by what was measured."""
    reasons = swept.record.ruled_out

    assert reasons["k4"].startswith("k=4 is predicted ")
    assert "% slower than k=2 at c=1, and " in reasons["k4"]
    assert reasons["k7"].startswith("k=7 is beaten at c=1 by k=")
    assert "; at c=4 by off (output throughput better +" in reasons["k7"]


def test_the_run_tells_them_when_it_finds_them(swept: GateRun) -> None:
    """Before the next server starts, and in the summary below the pair."""
    lines = swept.output.splitlines()
    said = lines.index(f"specgate: k4 is not booted: {swept.record.ruled_out['k4']}")

    assert said < lines.index("specgate: round 1 of 2: k1: starting its server")
    assert f"not booted: {swept.record.ruled_out['k4']}" in swept.table("k4 against off")
    assert "INVALID" not in swept.output
    assert "no figures" not in swept.output
    assert re.search(r"^pin it: specgate knee \S+ --snippet test_k[12]\.py$", swept.output, re.MULTILINE)
    assert "k4 against off: not booted: " in (swept.folder / "report.md").read_text(encoding="utf-8")


def test_a_plan_tells_the_least_and_the_most(folder: GateFolder) -> None:
    """Two boots in any case, and eight at most."""
    run = folder.run("--specgate-plan")

    assert "boots: 2 to 8 (5 arms, 1 to 2 rounds)" in run.output
    assert "sweep: off and k7 are booted first; then at most 2 of k1, k2, k4, unless" in run.output


def test_the_gate_file_that_pins_it_is_collected_and_judged(swept: GateRun, gate_folder: GateFolder) -> None:
    """Written from the record, it runs as it is on the engine that was measured; what k=2 has lost is not claimed.

    How fast a busy machine is decides the claims of time: they are judged, and only that of acceptance has to pass.
    """
    [found] = window_horizons(swept.record, "results/record.json").drafters
    noise = {(found.window, name): known for name, known in found.noise.items()}
    text = gate_snippet(swept.record, advice(found.figures, noise=noise, predicted={}), k=2, path=found.window)
    gate_folder.write("test_sweep.py", "")
    (gate_folder.folder / "test_sweep.py").write_text(text, encoding="utf-8")
    run = gate_folder.run()
    outcomes = {name.partition("[")[2].rstrip("]"): case.outcome for name, case in run.cases.items()}

    assert run.exit_code in {0, 1}, run.output
    assert {*outcomes} == _claimed(text)
    assert outcomes["c1-acceptance_length-at_least"] == "PASS"
    assert {*outcomes.values()} <= {"PASS", "FAIL", "INCONCLUSIVE"}


def _claimed(text: str) -> set[str]:
    """Return the ids of the claims of a gate file."""
    found = re.findall(r"^    (better|not_worse|at_least)\(\"(\w+)\", (?:\"[^\"]*\", )?at=(\d+)", text, re.MULTILINE)
    return {f"c{at}-{metric}-{kind}" for kind, metric, at in found}


def test_a_sweep_that_cannot_be_is_refused_at_collection(gate_folder: GateFolder) -> None:
    """One sentence, and no server."""
    gate_folder.write("test_sweep.py", _REFUSED)
    run = gate_folder.run()

    assert run.exit_code == 2
    assert ": ArmPair: both arms are called 'off'; give each its own name" in run.output
    assert "starting its server" not in run.output
