"""`specgate judge RECORD --gates FILE`: other thresholds on what was measured, if it is what they ask for."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.conftest import _HEALTHY_GATES, GateRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder

_SAME: Final = _HEALTHY_GATES.partition("    @gate(")[0]


@pytest.fixture
def judge_by(
    healthy: GateRun, new_gate_folder: Callable[[], GateFolder]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that judges the record of the healthy run by a gate file: its arms, and these lines."""
    (record,) = healthy.results.glob("*/record.json")
    folder = new_gate_folder()
    model = str(json.loads(record.read_text())["arms"][0]["model"])

    def judge(gates: str, *arguments: str, head: str = _SAME) -> subprocess.CompletedProcess[str]:
        path = folder.write("test_other.py", head + gates)
        path.write_text(path.read_text().replace(folder.model, model))
        command = [sys.executable, "-m", "pytest_specgate", "judge", str(record), "--gates", "test_other.py"]
        return subprocess.run(
            [*command, *arguments], cwd=folder.folder, env=folder.environment(), capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip

    return judge


_LOOSE: Final = """
    @gate(K4_OFF, better("decode_rate_p50", at=1, by="10%", noise=FLOOR))
    def test_loose(): pass
    """
_TIGHT: Final = """
    @gate(K4_OFF, at_most("ttft_p50", at=1, limit="1ms"), at_least("acceptance_rate", at=1, limit="10%"))
    def test_tight(): pass
    """
_OTHER_ARM: Final = """
    NEW = arm("k4", k=4, step_s=0.005, acceptance=[0.95])

    @gate(pair(OFF, NEW, varies=("args.speculative_config", "args.fake"), profile=LOAD), SPEED)
    def test_other_arm(): pass
    """


def test_other_thresholds_are_judged_by_the_figures_of_the_record(
    judge_by: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """A smaller gain passes, and a limit that no boot kept fails, though the run had neither."""
    loose, tight = judge_by(_LOOSE, "--json"), judge_by(_TIGHT, "--json")
    found = [[(one["gate"], one["outcome"]) for one in json.loads(run.stdout)] for run in (loose, tight)]

    assert (loose.returncode, tight.returncode) == (0, 1), loose.stderr + tight.stderr
    assert found[0] == [("test_other.py::test_loose", "PASS")]
    assert found[1] == [("test_other.py::test_tight", "FAIL"), ("test_other.py::test_tight", "PASS")]


def test_the_report_shows_the_pair_and_the_claims_of_the_file(
    judge_by: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """The table has the outcome of the new claim, and pairs that no gate of the file is on are left as they are."""
    found = judge_by(_TIGHT)

    assert "k4 against off (args.speculative_config varies)" in found.stdout
    assert "FAIL (at most 1 ms)" in found.stdout
    assert "measure again (a new sample, not a correction): pytest test_other.py::test_tight" in found.stdout
    assert found.stdout.rstrip().endswith("2 of 2 thresholds judged: 1 PASS, 1 FAIL")


def test_rounds_may_be_others(judge_by: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A gate that plans more rounds than were measured is judged by its own plan: what is open stays undecided."""
    more = _LOOSE.replace("K4_OFF", "K4_OFF.with_rounds(8)")
    found = judge_by(more, "--json")
    (verdict,) = json.loads(found.stdout)

    assert (verdict["rounds_planned"], verdict["rounds"]) == (8, 2)
    assert found.returncode in {0, 3}
    assert judge_by(more).stdout.count("k4 against off (args.speculative_config varies)") == 1


def test_gates_on_other_arms_are_listed_with_what_differs(
    judge_by: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """The first field that differs is named, and the others are judged all the same."""
    found = judge_by(_LOOSE + _OTHER_ARM, "--json")

    verdict, other = json.loads(found.stdout)
    sentence = "args.fake.step_s of arm k4 is 0.005 in the gate, and 0.004 in the record"

    assert found.returncode == 3, found.stderr
    assert (verdict["gate"], verdict["valid"]) == ("test_other.py::test_loose", True)
    assert other == {
        "finished": True, "valid": False, "gate": "test_other.py::test_other_arm", "outcome": None,
        "reason": "not-judged", "summary": sentence,
    }  # fmt: skip
    assert found.stderr == (
        "not judged: test_other.py::test_other_arm: args.fake.step_s of arm k4 is 0.005 in the gate, and 0.004 in the "
        "record\n"
    )


def test_gates_that_are_not_judged_count(judge_by: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """The last line counts every threshold of the file, and a FAIL wins over what was not judged."""
    loose, tight = judge_by(_LOOSE + _OTHER_ARM), judge_by(_TIGHT + _OTHER_ARM)

    assert (loose.returncode, tight.returncode) == (3, 1)
    assert loose.stdout.rstrip().endswith("1 of 2 thresholds judged: 1 PASS")
    assert tight.stdout.rstrip().endswith("2 of 3 thresholds judged: 1 PASS, 1 FAIL")


@pytest.mark.parametrize(
    ("head", "gates", "sentence"),
    [
        (_SAME, _OTHER_ARM, "args.fake.step_s of arm k4 is 0.005 in the gate, and 0.004 in the record"),
        (_SAME.replace("output_tokens=32", "output_tokens=16"), _LOOSE, "output_tokens of the load is 16 in the gate"),
        (_SAME.replace("1: 10, 2: 10", "1: 10, 2: 12"), _LOOSE,
         'requests of the load is {"1": 10, "2": 12} in the gate'),
        (_SAME, _LOOSE.replace("K4_OFF", "pair(OFF, K7, varies='args.speculative_config', profile=LOAD)"),
         "it is on k7 against off, and the pairs of the record are: k4 against off, k7 against k4"),
        (_SAME.replace("ARGS = {", 'ARGS = {"env": {"A": "1"}, '), _LOOSE,
         'env.A of arm off is "1" in the gate, and not set in the record'),
    ],
    ids=["arm", "load", "points", "pair", "environment"],
)  # fmt: skip
def test_a_file_of_which_nothing_fits_is_a_usage_error(
    judge_by: Callable[..., subprocess.CompletedProcess[str]], head: str, gates: str, sentence: str
) -> None:
    """Another arm, another load or a pair that was not measured: nothing is judged, and the reason is told."""
    found = judge_by(gates, head=head)

    assert (found.returncode, found.stdout) == (2, "")
    assert sentence in found.stderr
    assert found.stderr.splitlines()[-1] == (
        "specgate: no gate of test_other.py is on arms and load of this record: what differs stands above"
    )


@pytest.mark.parametrize(
    ("gates", "sentence"),
    [
        ("    @gate(K4_OFF, not_worse('ttft_p51', at=1, margin='5%'))\n    def test_x(): pass", "did you mean"),
        ("    import nothing_of_this_name\n", "nothing_of_this_name"),
        ("    def test_plain(): pass\n", "test_other.py has no gate: name a gate file, a folder or a test id"),
    ],
    ids=["misspelt", "import", "no gate"],
)
def test_a_gate_file_that_cannot_be_read_is_shown_as_pytest_has_it(
    judge_by: Callable[..., subprocess.CompletedProcess[str]], gates: str, sentence: str
) -> None:
    """Mistakes in a gate file are told by pytest, with their place; nothing is judged, and no traceback is ours."""
    found = judge_by(gates)

    assert (found.returncode, found.stdout) == (2, "")
    assert sentence in found.stderr
    assert found.stderr.splitlines()[-1].startswith("specgate: ")
    assert "pytest_specgate/cli" not in found.stderr


def test_options_reach_the_pytest_that_reads_the_file(
    judge_by: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """With `--option` the file is read as a run would: here only one of its gates."""
    found = judge_by(_LOOSE + _TIGHT, "--json", "--option=-k", "--option=loose")

    assert found.returncode == 0, found.stderr
    assert {one["gate"] for one in json.loads(found.stdout)} == {"test_other.py::test_loose"}
