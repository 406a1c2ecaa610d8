"""The `specgate` command: its help, its usage errors, and `prepare-model` from the command line to its output."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import cli
from pytest_specgate.adapters import models
from pytest_specgate.adapters.models import PreparedModel
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SOURCE = Path(cli.__file__).parents[2]


@dataclass
class Preparation:
    """Stands in for `prepare_model`: keeps what it was asked and answers `prepared_now`, or raises `error`."""

    prepared_now: bool = True
    error: BaseException | None = None
    asked: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *, say: Callable[[str], None], **asked: Any) -> PreparedModel:
        """Answer like the real one."""
        self.asked = asked
        say("a step")
        if self.error is not None:
            raise self.error
        return PreparedModel(path=Path("/cache/models/Tiny"), name="Tiny", prepared_now=self.prepared_now)


@pytest.fixture
def preparation(monkeypatch: pytest.MonkeyPatch) -> Preparation:
    """Replace the preparation, and clear the variable that would choose an engine."""
    stand_in = Preparation()
    monkeypatch.setattr(models, "prepare_model", stand_in)
    monkeypatch.delenv("SPECGATE_ENGINE_PYTHON", raising=False)
    return stand_in


def as_module(*arguments: str, environment: Mapping[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `python -m pytest_specgate` as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "pytest_specgate", *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_every_command_with_its_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """A newcomer sees each command, and learns that gates run with pytest."""
    with pytest.raises(SystemExit) as left:
        cli.main(["--help"])

    told = " ".join(capsys.readouterr().out.split())
    assert left.value.code == 0
    assert "Gates themselves run with `pytest`." in told
    for command in cli.COMMANDS:
        assert f"{command.name} {command.summary}" in told


@pytest.mark.parametrize("command", cli.COMMANDS, ids=lambda command: command.name)
def test_each_command_explains_itself(command: cli.Command, capsys: pytest.CaptureFixture[str]) -> None:
    """`specgate COMMAND --help` begins with what it does."""
    with pytest.raises(SystemExit) as left:
        cli.main([command.name, "--help"])

    assert left.value.code == 0
    assert command.description[:40] in capsys.readouterr().out


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A bare `specgate` is a usage error that shows what there is."""
    status = cli.main([])

    shown = capsys.readouterr()
    assert (status, shown.out) == (2, "")
    assert "prepare-model" in shown.err


@pytest.mark.parametrize(
    ("installed", "expected"),
    [("1.2.3", "specgate 1.2.3\n"), (None, "specgate (not installed: run from its source tree)\n")],
)
def test_version_is_that_of_the_distribution(
    installed: str | None, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The version is asked of the installation, and a bare source tree says that it is one."""

    def version(name: str) -> str:
        if installed is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(SystemExit) as left:
        cli.main(["--version"])

    assert (left.value.code, capsys.readouterr().out) == (0, expected)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["prepare"], "invalid choice: 'prepare'"),
        (["prepare-model", "--whee", "x"], "unrecognized arguments: --whee x"),
        (["prepare-model", "--wheel"], "argument --wheel: expected one argument"),
        (["prepare-model", "--wheel", "nowhere.whl"], "--wheel names 'nowhere.whl', which is no file"),
        (["prepare-model", "--engine-python", "no-such-python"], "--engine-python names 'no-such-python', which is no"),
        (["prepare-model", "--engine-python", ""], "--engine-python is empty"),
    ],
)
def test_wrong_usage_is_one_sentence(
    arguments: list[str], expected: str, preparation: Preparation, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mistake ends with status 2 and one line on stderr, before anything is prepared."""
    status = cli.main(arguments)

    shown = capsys.readouterr()
    assert (status, shown.out) == (2, "")
    assert shown.err.startswith("specgate: ")
    assert expected in shown.err
    assert shown.err.count("\n") == 1
    assert preparation.asked == {}


def test_an_empty_engine_variable_is_refused(
    preparation: Preparation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty variable is a mistake in a script, not a wish for the default."""
    monkeypatch.setenv("SPECGATE_ENGINE_PYTHON", "")

    assert cli.main(["prepare-model"]) == 2
    assert capsys.readouterr().err.startswith("specgate: SPECGATE_ENGINE_PYTHON is empty")


def test_the_engine_is_the_option_then_the_variable_then_this_interpreter(
    tmp_path: Path, preparation: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several choices the nearest to the user wins; a relative path is made absolute, and links are kept."""
    (tmp_path / "linked").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    chosen = []

    cli.main(["prepare-model"])
    chosen.append(preparation.asked["engine_python"])
    monkeypatch.setenv("SPECGATE_ENGINE_PYTHON", "./linked")
    cli.main(["prepare-model"])
    chosen.append(preparation.asked["engine_python"])
    cli.main(["prepare-model", "--engine-python", "/bin/sh"])
    chosen.append(preparation.asked["engine_python"])

    assert chosen == [Path(sys.executable), tmp_path / "linked", Path("/bin/sh")]


def test_the_wheel_is_handed_on(tmp_path: Path, preparation: Preparation) -> None:
    """`--wheel` reaches the preparation."""
    (tmp_path / "a.whl").touch()
    cli.main(["prepare-model", "--wheel", str(tmp_path / "a.whl")])

    assert preparation.asked["wheel"] == tmp_path / "a.whl"


def test_a_preparation_tells_its_steps_and_ends_with_the_path(
    preparation: Preparation, capsys: pytest.CaptureFixture[str]
) -> None:
    """Progress goes to stdout, with the time it took and the folder in the last line; stderr stays empty."""
    status = cli.main(["prepare-model"])

    shown = capsys.readouterr()
    assert (status, shown.err) == (0, "")
    assert re.fullmatch(r"a step\nprepared in \d+ s: /cache/models/Tiny\n", shown.out)


def test_a_second_preparation_says_so_in_one_line(preparation: Preparation, capsys: pytest.CaptureFixture[str]) -> None:
    """What is there already is told with its path."""
    preparation.prepared_now = False
    cli.main(["prepare-model"])

    assert capsys.readouterr().out.splitlines()[-1] == "already prepared: /cache/models/Tiny"


@pytest.mark.parametrize("prepared_now", [True, False])
def test_json_is_the_only_output(
    prepared_now: bool, preparation: Preparation, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--json` stdout is one document, whether or not there was something to do."""
    preparation.prepared_now = prepared_now
    cli.main(["prepare-model", "--json"])

    expected = {"model": "embedded:Tiny", "path": "/cache/models/Tiny", "prepared": prepared_now}
    assert json.loads(capsys.readouterr().out) == expected


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [(UsageError("no pip"), 2, "specgate: no pip\n"), (KeyboardInterrupt(), 130, "specgate: interrupted\n")],
)
def test_a_failure_has_a_sentence_and_no_traceback(
    error: BaseException, status: int, told: str, preparation: Preparation, capsys: pytest.CaptureFixture[str]
) -> None:
    """A usage error ends with 2 and an interrupt with 130, each in one line on stderr."""
    preparation.error = error

    assert cli.main(["prepare-model"]) == status
    assert capsys.readouterr().err == told


def test_the_module_is_the_command(tmp_path: Path) -> None:
    """`python -m pytest_specgate` runs the same code and hands its exit status to the shell."""
    result = as_module("prepare-model", environment={"SPECGATE_CACHE_DIR": ""}, folder=tmp_path)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "specgate: SPECGATE_CACHE_DIR is empty: name a folder or unset it\n"


def test_the_real_preparation_is_wired_to_the_command(tmp_path: Path) -> None:
    """From the shell to the engine's interpreter and back: one that is none is named, in the user's cache."""
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\necho not a python\n")
    engine.chmod(0o755)
    variables = {"SPECGATE_CACHE_DIR": str(tmp_path / "cache"), "SPECGATE_ENGINE_PYTHON": str(engine)}
    result = as_module("prepare-model", environment=variables, folder=tmp_path)

    assert result.returncode == 2
    assert result.stderr.startswith(f"specgate: {engine} did not answer as a Python interpreter")
    assert result.stderr.endswith("not a python\n")
    assert (tmp_path / "cache" / "models").is_dir()


def test_the_command_imports_no_pytest_and_nothing_slow() -> None:
    """Help and usage errors come without the packages that only some commands need."""
    heavy = "{'pytest', '_pytest', 'filelock', 'pydantic', 'numpy', 'scipy', 'httpx', 'tabulate', 'psutil'}"
    code = f"import sys; from pytest_specgate import cli; cli.main([]); print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=True
    )

    assert result.stdout == "[]\n"
