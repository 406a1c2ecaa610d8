"""docs/records.md: its gate file, its commands and its table say what is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.core.migrations import _NEVER, _STEPS
from pytest_specgate.core.records import SCHEMA_VERSION, BootRecord, PointRecord, RequestRecord, WindowRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

pytestmark = pytest.mark.alone

_PAGE: Final = (Path(__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
_GATES, _OTHERS, _LOOK = re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def shown(new_gate_folder: Callable[[], GateFolder]) -> GateRun:
    """The gate file of the page, run."""
    gates = new_gate_folder()
    for name, text in (("test_load.py", _GATES), ("test_other_margins.py", _OTHERS), ("look.py", _LOOK)):
        (gates.folder / name).write_text(text.replace("fake-model", gates.model), encoding="utf-8")
    return gates.run("test_load.py")


def told(run: GateRun, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the folder of a run."""
    return subprocess.run(
        [sys.executable, *words], cwd=run.folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_other_margins_are_judged_as_the_page_has_it(shown: GateRun) -> None:
    """The gate on another pair is listed, the other one fails, and the exit status says so."""
    (folder,) = shown.results.iterdir()
    found = told(shown, "-m", "pytest_specgate", "judge", str(folder), "--gates", "test_other_margins.py")

    assert found.returncode == 1, found.stderr
    assert found.stderr.splitlines()[0] in _PAGE
    assert found.stdout.splitlines()[0] in _PAGE
    assert found.stdout.splitlines()[-1] in _PAGE


def test_the_script_of_the_page_reads_a_record(shown: GateRun) -> None:
    """One line a boot, in the form that the page shows."""
    (record,) = shown.results.glob("*/record.json")
    found = told(shown, "look.py", str(record))

    assert found.returncode == 0, found.stderr
    lines = [re.sub(r"[0-9.]+ tokens", "x tokens", line) for line in found.stdout.splitlines()]
    assert lines == [f"{arm} 16 x tokens/s" for arm in ("off 1", "k4 1", "k4 2", "off 2")]


def test_the_table_has_every_key_of_a_record() -> None:
    """Nothing is missing in it, and nothing is in it that a record has not."""
    table = _PAGE.partition("## 2.")[2].partition("\n\nTimes")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    names = {name for cell in first for name in re.findall(r"`([a-z_]+)`", cell)}

    assert names == set(WindowRecord.model_fields)


@pytest.mark.parametrize(("model", "names"), [
    (BootRecord, ("round", "arm", "boot_s", "failure", "points")),
    (PointRecord, ("at", "requests")),
    (RequestRecord, ("ttft_s",)),
])  # fmt: skip
def test_the_keys_in_the_filters_exist(model: type[BootRecord], names: tuple[str, ...]) -> None:
    """A renamed key would leave a filter that finds nothing, and says nothing."""
    assert [name for name in names if name not in model.model_fields or f".{name}" not in _PAGE] == []


def test_the_versions_are_those_that_are_read() -> None:
    """One row a version, which says whether it can be brought to today's form."""
    rows = re.findall(r"^\| (\d+) \|.*\| (yes|no)\b", _PAGE, re.MULTILINE)

    assert rows == [
        (str(version), "yes" if version in _STEPS or version == SCHEMA_VERSION else "no")
        for version in sorted({*_NEVER, *_STEPS, SCHEMA_VERSION})
    ]
