"""Commands of servers as a project changes them: what is started, what is shown of it, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.commands import PORT, Command
from pytest_specgate.adapters.server import VllmEngine
from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.errors import ServerStartError, UsageError
from pytest_specgate.core.ports import ChangedCommand
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.options import GateOptions
from pytest_specgate.project_hooks import no_hooks
from pytest_specgate.wiring import LocalWiring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.adapters.conftest import MakeEngine

OWN = (("python", "-m", "engine"), ("--model", "m", "--port", PORT))
TELLS_AND_LEAVES = "import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(1)"
TOKEN = "hf_abcdefghijklmnopqrst"


def changed(*words: str) -> Command:
    """Return the command of a project that starts something else."""
    return Command(*OWN, changed=ChangedCommand(words, "a hook"))


def test_a_command_that_nobody_changes_is_what_it_was() -> None:
    """Only the port is put in, and nothing is told of a change."""
    own = Command(*OWN).at(8000)

    assert own.words == ("python", "-m", "engine", "--model", "m", "--port", "8000")
    assert (own.typed, own.change) == ("python -m engine --model m --port 8000", "")


def test_a_wrapped_command_is_shown_in_short_and_whole() -> None:
    """What stands before and after the command is told; the port is put in wherever it is spoken of."""
    whole = (*OWN[0], *OWN[1])
    own = changed("docker", "run", "-p", f"{PORT}:{PORT}", "image", *whole, "--more").at(8000)

    assert own.words == (
        "docker",
        "run",
        "-p",
        "8000:8000",
        "image",
        *OWN[0],
        "--model",
        "m",
        "--port",
        "8000",
        "--more",
    )
    assert own.typed == "docker run -p 8000:8000 image python -m engine --model m --port 8000 --more"
    assert changed("nice", *whole).change == "nice {command}"


def test_a_command_of_its_own_is_shown_as_it_is() -> None:
    """Where the original does not stand in a row, all words are told."""
    assert changed("other", "--port", PORT).change == "other --port '{port}'"


def test_secrets_that_a_project_puts_in_are_shown_nowhere() -> None:
    """Neither in short nor whole, and its log is cleaned of them."""
    own = changed("docker", "run", "-e", f"HF_TOKEN={TOKEN}", "--api-key", "words-of-a-secret", *OWN[0], *OWN[1])

    for text in (own.change, own.at(8000).typed):
        assert "[redacted]" in text
        assert TOKEN not in text
        assert "words-of-a-secret" not in text
    assert own.secrets == {TOKEN, "words-of-a-secret"}


def wrapping(engine: VllmEngine, *before: str) -> VllmEngine:
    """Return an engine whose commands a project wraps."""

    def change(_: Arm, command: Sequence[str]) -> ChangedCommand:
        return ChangedCommand((*before, *command), "pytest_specgate_engine_command of conftest.py")

    return VllmEngine(dataclasses.replace(engine._options, change=change))


def test_what_is_started_is_the_changed_command(make_engine: MakeEngine) -> None:
    """The wrapper gets the whole command, with a port, and the message shows it as it was."""
    engine = wrapping(make_engine(TELLS_AND_LEAVES), sys.executable, "-S", "-c", TELLS_AND_LEAVES, "wrapped")
    with pytest.raises(ServerStartError) as caught, engine.start(Arm("off", model="tiny")):
        pass
    told = json.loads(next(line for line in caught.value.log_tail.splitlines() if line.startswith("[")))

    assert told[:2] == ["wrapped", sys.executable]
    assert told[told.index("--port") + 1].isdecimal()
    assert f"wrapped {sys.executable} -S -c" in caught.value.command


def test_the_facts_of_an_engine_tell_the_change(make_engine: MakeEngine) -> None:
    """They stand in the record, by arm; a command that nobody changes has none."""
    plain = make_engine()
    arm = Arm("off", model="tiny")

    assert wrapping(plain, "nice", "-n", "1").facts(arm)["changed_command"] == "nice -n 1 {command}"
    assert "changed_command" not in plain.facts(arm)


def test_a_wrapper_that_is_not_there_is_refused_before_anything_starts(make_engine: MakeEngine) -> None:
    """The sentence names who gave it, for which arm, and the program."""
    with pytest.raises(UsageError) as caught:
        wrapping(make_engine(), "no-such-wrapper").check(Arm("off", model="tiny"))

    assert str(caught.value) == (
        "pytest_specgate_engine_command of conftest.py starts 'no-such-wrapper' for arm off: there is no such program"
    )


def wired(folder: Path, *before: str) -> LocalWiring:
    """Return a session on the fake engine whose commands a project wraps, once its arms were checked."""
    options = GateOptions(
        engine_python=Path(sys.executable), engine_command=("python", "-m", "pytest_specgate.testing.fake_vllm"),
        results=folder / "results", rounds=None, start_limit_s=20.0, baselines=folder / "baselines",
    )  # fmt: skip

    def change(arm: Arm, command: Sequence[str]) -> ChangedCommand | None:
        return ChangedCommand((*before, *command), "a hook") if before and arm.name == "off" else None

    hooks = dataclasses.replace(no_hooks(), change=change)
    wiring = LocalWiring(
        options, root=folder, say=lambda _: None, hooks=hooks, environment={
            "SPECGATE_STATE_DIR": str(folder), "PATH": os.environ["PATH"],
        },
    )  # fmt: skip
    off = Arm("off", model="tiny", args={"fake": {}})
    load = RequestProfile(input_tokens=8, output_tokens=2, requests={1: 10})
    seed = off.vary("seed", args={"fake": {"seed": 1}})
    wiring.check([ArmPair(reference=off, candidate=seed, varies="args.fake", profile=load)])
    return wiring


def test_calibrations_and_baselines_do_not_cross_a_change(tmp_path: Path) -> None:
    """What the project makes of its commands belongs to what every server of the session is given."""
    plain, nice = wired(tmp_path)._settings, wired(tmp_path, "nice")._settings

    assert "changed_commands" not in plain
    assert nice == {**plain, "changed_commands": ["nice {command}", "{command}"]}
