"""Baselines that no gate claims: named, removed on purpose, and never those that this run merely has not seen."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.adapters.baseline_files import load_baseline
from tests.integration.test_baselines import (
    CLASS,
    HERE,
    WIDE,
    baseline,
    copied,  # noqa: F401  - a fixture
    gate_file,
    written,  # noqa: F401  - a fixture
)

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder


def test_a_baseline_that_no_gate_claims_is_listed_and_pruned(copied: GateFolder) -> None:  # noqa: F811  - the fixture
    """Case 118: a whole run names what is there for nothing, a filtered one is silent, strict fails, prune removes."""
    less = gate_file().replace('not_worse_than_baseline("request_throughput", at=1, margin="60%", ' + WIDE + ")", "")
    copied.write("test_gate.py", less)
    stranger = copied.folder / "baselines" / "other-class"
    shutil.copytree(copied.folder / "baselines" / CLASS, stranger)
    dry = ("--specgate-plan", HERE)
    whole, filtered = (copied.run(*dry, *more) for more in ([], ["-k", "not_worse_than_baseline"]))
    copied.write("test_gate.py", less.replace("SPEED,", ""))
    strict = copied.run(*dry, "--specgate-strict")
    pruned = copied.run(HERE, "--specgate-baseline=prune")

    assert "unused baseline" in whole.output
    assert "c1-request_throughput of test_gate.py::test_speed, which does not claim it" in whole.output
    assert "unused baseline" not in filtered.output
    assert (strict.exit_code, "unused baseline" in strict.output) == (4, True)
    assert pruned.exit_code == 0
    assert {path.parent.name: sorted(load_baseline(path).entries) for path in copied.folder.glob("baselines/*/*")} == {
        CLASS: ["c1-output_throughput"],
        "other-class": ["c1-output_throughput"],
    }


def test_the_baseline_of_a_file_that_is_gone_is_pruned_and_no_other(copied: GateFolder) -> None:  # noqa: F811  - the fixture
    """Only what this run has seen whole is judged unused: another test file that was not named keeps its baseline."""
    copied.write("test_other.py", "def test_nothing():\n    pass\n")
    (copied.folder / "elsewhere").mkdir()
    kept = copied.run(HERE, "test_other.py", "--specgate-baseline=prune")
    there = baseline(copied.folder).exists()
    (copied.folder / "test_gate.py").unlink()
    gone = copied.run(HERE, "--specgate-baseline=prune")

    assert (kept.exit_code, there) == (0, True)
    assert gone.exit_code == 0
    assert "which is no gate any more" in gone.output
    assert not list(copied.folder.glob("baselines/*/*.json"))


LEFT_OUT: Final = {
    "a class that cannot be collected": (
        {
            "test_gate.py": gate_file().replace("def test_speed", "def test_other")
            + """

class TestIt:
    @gate(PAIR, not_worse("output_throughput", at=7, margin="30%", noise=FLOOR))
    def test_broken(self): pass
"""
        },
        "not everything could be collected",
    ),
    "a conftest that drops items": (
        {"conftest.py": "def pytest_collection_modifyitems(items):\n    items[:] = []\n"},
        "nothing to remove",
    ),
}


@pytest.mark.parametrize("how", LEFT_OUT)
def test_prune_keeps_what_this_run_cannot_tell_to_be_gone(copied: GateFolder, how: str) -> None:  # noqa: F811  - the fixture
    """A typo in a class, and a conftest that drops gates without a word, never remove a baseline."""
    files, sentence = LEFT_OUT[how]
    before = baseline(copied.folder).read_bytes()
    for name, text in files.items():
        copied.write(name, text)
    run = copied.run("--specgate-baseline=prune")

    assert sentence in run.output
    assert baseline(copied.folder).read_bytes() == before


def test_prune_under_another_root_folder_removes_nothing(copied: GateFolder) -> None:  # noqa: F811  - the fixture
    """Gates have other names under another root folder, where every baseline would look like nobody's."""
    inner = copied.folder / "inner"
    inner.mkdir()
    (copied.folder / "test_gate.py").rename(inner / "test_gate.py")
    before = baseline(copied.folder).read_bytes()
    run = copied.run("--rootdir=inner", "--specgate-baselines=baselines", "--specgate-baseline=prune", "inner")

    assert "nothing to remove" in run.output
    assert baseline(copied.folder).read_bytes() == before
