"""The installed plugin: where it lies, what it exports, what it costs, what pytest tells of it."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import pytest_specgate

if TYPE_CHECKING:
    from tests.integration.conftest import GateFolder

_HEAVY: Final = {"pydantic", "numpy", "scipy", "httpx", "psutil", "prometheus_client", "tabulate", "vllm", "torch"}
_PLAIN: Final = """\
    import sys


    def test_plain():
        assert {heavy} & set(sys.modules) == set()
    """


def _installed_editable() -> bool:
    origin = importlib.metadata.distribution("pytest-specgate").read_text("direct_url.json") or "{}"
    return bool(json.loads(origin).get("dir_info", {}).get("editable"))


def test_the_installed_package_is_under_test() -> None:
    """Tests run against the wheel in the environment, not against the folder of the same name beside them."""
    if _installed_editable():
        pytest.skip("installed editable: the source tree is what is installed")
    site = Path(str(importlib.metadata.distribution("pytest-specgate").locate_file("")))
    file = pytest_specgate.__file__

    assert file is not None
    assert Path(file).resolve().is_relative_to(site.resolve())
    assert Path(__file__).parents[2] / "pytest_specgate" != Path(file).parent


def test_everything_listed_can_be_imported() -> None:
    """`__all__` is sorted as ruff sorts it, complete, and each of its names loads from where it lives."""
    for name in pytest_specgate.__all__:
        assert getattr(pytest_specgate, name) is not None
    assert set(pytest_specgate.__all__) == set(pytest_specgate._HOMES)
    assert set(pytest_specgate.__all__) <= set(dir(pytest_specgate))


def test_a_public_name_is_the_object_of_its_home() -> None:
    """A lazily loaded name is no copy: `isinstance` works whatever way a class was imported."""
    for name, home in pytest_specgate._HOMES.items():
        module = importlib.import_module(f"pytest_specgate.{home}")
        assert getattr(pytest_specgate, name) is getattr(module, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt import fails as it does for any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Armpair'"):
        _ = pytest_specgate.Armpair


def test_importing_the_package_is_cheap() -> None:
    """`import pytest_specgate` loads none of the heavy packages, nor pytest itself."""
    code = f"import sys, pytest_specgate; print(sorted(({_HEAVY!r} | {{'pytest'}}) & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stdout == "[]\n"


def test_an_unused_plugin_imports_nothing_heavy(gate_folder: GateFolder) -> None:
    """A pytest run without gates pays for none of the packages that measuring needs."""
    gate_folder.write("plain.py", _PLAIN.format(heavy=_HEAVY))
    run = gate_folder.run("plain.py")

    assert (run.exit_code, run.cases["test_plain"].failure) == (0, None)


def test_markers_are_listed(gate_folder: GateFolder) -> None:
    """`pytest --markers` explains both marks by the decorators that make them."""
    shown = gate_folder.run("--markers").output

    assert "@pytest.mark.specgate(pair, *thresholds): a regression gate; written as @gate(" in shown
    assert "@pytest.mark.specgate_pairs(*pairs): measures pairs without judging them" in shown


def test_fixtures_are_listed(gate_folder: GateFolder) -> None:
    """`pytest --fixtures` shows what a gate file may ask for, each with its sentence."""
    shown = gate_folder.run("--fixtures").output

    for name in ("verdict", "specgate_window", "vllm_server"):
        line = next(line for line in shown.splitlines() if line.startswith(name))
        assert "pytest_specgate/fixtures.py" in line
    assert "no docstring available" not in shown.partition("fixtures defined from pytest_specgate")[2]


def test_options_are_listed_with_their_twins(gate_folder: GateFolder) -> None:
    """`pytest --help` names each option in all its spellings."""
    shown = " ".join(gate_folder.run("--help").output.split())

    for name in ("engine-python", "engine-command", "results", "rounds", "start-limit"):
        twin = name.replace("-", "_")
        assert f"--specgate-{name}=" in shown
        assert f"(environment: SPECGATE_{twin.upper()}, ini: specgate_{twin})" in shown


def test_the_plugin_can_be_switched_off(gate_folder: GateFolder) -> None:
    """`-p no:specgate` leaves a run as if the plugin were not installed."""
    gate_folder.write("plain.py", "def test_plain(): pass\n")
    run = gate_folder.run("-p", "no:specgate", "plain.py", engine=None)

    assert (run.exit_code, run.counts) == (0, {"passed": 1})
    assert "specgate" not in run.output.partition("plugins:")[2].partition("\n")[0]


def test_the_plugin_is_registered_under_its_name() -> None:
    """The entry point that makes pytest find the plugin exists once."""
    points = [point for point in importlib.metadata.entry_points(group="pytest11") if point.name == "specgate"]

    assert {point.value for point in points} == {"pytest_specgate.plugin"}
