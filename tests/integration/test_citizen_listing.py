"""What pytest tells of the plugin, and what a run that has no gates pays for it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.gate_count import _STATES
from pytest_specgate.names import RUNS_PROPERTY
from pytest_specgate.option_table import OPTIONS
from pytest_specgate.time_limits import _REMEDY

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

_HEAVY: Final = (
    "pydantic", "numpy", "scipy", "httpx", "httptools", "h11", "tabulate", "prometheus_client", "psutil", "filelock",
    "rich", "jinja2", "matplotlib", "asyncio", "vllm", "torch",
)  # fmt: skip
_LISTS_MODULES: Final = """
import sys


def pytest_unconfigure():
    print("LOADED", *sorted(sys.modules))
"""
_LOADS_JUDGING: Final = """
import sys

import pytest_specgate.core.judge, pytest_specgate.reporting.markdown, pytest_specgate.session

print(*sorted(sys.modules))
"""
_ODD_PROPERTIES: Final = """
def test_odd(request):
    request.node.user_properties += [("one",), {"a": 1, "b": 2}]
"""
_INTERNALS: Final = re.compile(r"pytest\.|_pytest|FixtureRequest|request\.param|callspec|->|\bself\b|:class:|Iterator")


@pytest.fixture(scope="module")
def plain(new_gate_folder: Callable[[], GateFolder]) -> GateFolder:
    """A project without gates."""
    gates = new_gate_folder()
    (gates.folder / "test_plain.py").write_text("def test_plain(): pass\n", encoding="utf-8")
    return gates


def _loaded(run: GateRun) -> set[str]:
    (line,) = [line for line in run.output.splitlines() if line.startswith("LOADED")]
    return set(line.split()[1:])


def test_collecting_plain_tests_loads_nothing_heavy(plain: GateFolder) -> None:
    """Without gates no package that measuring needs is loaded, nor asyncio, nor more of this one than it takes."""
    (plain.folder / "conftest.py").write_text(_LISTS_MODULES, encoding="utf-8")
    # pytest-benchmark and xdist bring modules of their own.
    loaded = _loaded(plain.run("--collect-only", "-p", "no:benchmark", "-p", "no:xdist"))

    assert sorted(loaded & set(_HEAVY)) == []
    assert {name for name in loaded if name.startswith("pytest_specgate.core.")} <= {"pytest_specgate.core.errors"}
    assert {name for name in loaded if name.startswith("pytest_specgate.reporting")} == set()
    assert {name for name in loaded if name.startswith("pytest_specgate.adapters")} == set()


def test_gates_load_no_scipy_before_it_is_needed() -> None:
    """It takes a sixth of a second, which only a verdict or advice may cost: not each run that has gates."""
    command = [sys.executable, "-c", _LOADS_JUDGING]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()

    assert "pytest_specgate.core.sweeps" in loaded
    assert [name for name in loaded if name.partition(".")[0] == "scipy"] == []


def test_fixtures_say_what_they_are_for(plain: GateFolder) -> None:
    """`pytest --fixtures` has a first sentence with an example for each of ours, and nothing of how it is made."""
    shown = plain.run("--fixtures").output.partition("fixtures defined from pytest_specgate.fixtures")[2]
    entry = r"^(\w+)(?: \[session scope\])? -- .*\n    (.+)$"
    ours = dict(re.findall(entry, shown.partition("\n---")[0], flags=re.MULTILINE))

    assert set(ours) == {"specgate_threshold", "specgate_window", "verdict", "vllm_server"}
    for name, sentence in ours.items():
        assert re.fullmatch(r"[A-Z][^`]*: ``[^`]*``\.", sentence), name
        assert not _INTERNALS.search(sentence), name
        assert name in sentence.partition("``")[2], name


def test_markers_say_what_they_are_for(plain: GateFolder) -> None:
    """`pytest --markers` has for each of ours what it is for, and how it is written."""
    lines = [line for line in plain.run("--markers").output.splitlines() if "mark.specgate" in line]

    assert len(lines) == 2
    for line in lines:
        assert re.fullmatch(r"@pytest\.mark\.\w+\([^:]*\): [^;]+; written as @\w+\(.*\)\.", line)


def test_options_are_one_group_with_help_and_twins(plain: GateFolder) -> None:
    """Each option stands once in the one group, says what it does, and has an ini twin that is unset by default."""
    shown = " ".join(plain.run("--help").output.split())
    group, _, rest = shown.partition("specgate: regression gates for LLM serving:")[2].partition("[pytest]")

    for option in OPTIONS:
        assert len(re.findall(rf"{option.flag}(?![\w-])[= ]", group)) >= 1, option.flag
        assert re.fullmatch(r"[A-Z0-9].*\.", option.help), option.flag
        assert f"{option.ini} (string):" in rest, option.ini


def test_options_are_unset_where_nobody_sets_them(pytester: pytest.Pytester) -> None:
    """Neither flag nor ini twin has a value of its own: only so an environment variable can stand between the two."""
    config = pytester.parseconfig()

    assert [option.flag for option in OPTIONS if config.getoption(option.ini) is not None] == []
    assert [option.ini for option in OPTIONS if config.getini(option.ini) is not None] == []


def test_a_plain_run_may_have_odd_properties(pytester: pytest.Pytester) -> None:
    """What tests without gates put into their junit properties breaks no run into which the plugin was installed."""
    pytester.makepyfile(_ODD_PROPERTIES)

    pytester.runpytest_inprocess("-p", "no:xdist").assert_outcomes(passed=1)


def test_what_was_not_collected_is_told_first(pytester: pytest.Pytester) -> None:
    """A file that cannot be collected beside `--specgate-calibrate` is status 2, and no mistake in options."""
    pytester.makepyfile("import no_such_module")

    assert pytester.runpytest_inprocess("--specgate-calibrate").ret == pytest.ExitCode.INTERRUPTED


def test_the_page_about_other_plugins_quotes_what_is_said() -> None:
    """Sentences, states, properties and options in docs/pytest.md are those of the code."""
    page = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text(encoding="utf-8")
    options = set(re.findall(r"--specgate-[a-z-]+", page))

    assert [state for state in _STATES if f"| `{state}` |" not in page] == []
    assert f"from pytest-timeout: {_REMEDY}\n" in page
    assert f"`{RUNS_PROPERTY}`" in page
    assert options <= {option.flag for option in OPTIONS}
