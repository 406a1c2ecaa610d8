"""The committed baselines of this project: of the fake engine, whose pace is its own on every machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.adapters.baseline_files import BaselineFolder

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder

pytestmark = pytest.mark.alone

ROOT: Final = Path(__file__).parents[2]
GATE: Final = "benchmarks/fake_engine/bench_gate.py"
PATIENT: Final = """
from pytest_specgate.core import validity

validity.LAG_S = 60.0  # The machine is shared with other tests: late stamps are no subject here.
"""


def test_the_fake_engine_is_measured_as_it_was(gate_folder: GateFolder) -> None:
    """The gate on the fake engine passes against its committed baseline, in a copy of the tree that holds both."""
    place = gate_folder.folder / GATE
    place.parent.mkdir(parents=True)
    shutil.copy(ROOT / GATE, place)
    shutil.copytree(ROOT / "baselines", gate_folder.folder / "baselines")
    gate_folder.write("conftest.py", PATIENT)
    run = gate_folder.run("--specgate-host-class=fake-engine", GATE)

    assert (run.exit_code, run.counts) == (0, {"passed": 5}), run.output
    assert [verdict["baseline"] is not None for verdict in run.record.verdicts] == [False, True, True, True, True]


def test_every_committed_baseline_can_be_read_and_lies_where_it_belongs() -> None:
    """Every file is of this schema, of the class whose folder it lies in, and of a gate whose file exists."""
    folder = BaselineFolder(ROOT / "baselines")
    found = list(folder.files())

    assert len(found) >= 1
    for path, file in found:
        assert path == folder.path(file.gate, host_class=file.host_class)
        assert (ROOT / file.gate.partition("::")[0]).is_file()
