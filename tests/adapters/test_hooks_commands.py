"""Commands of servers as a project changes them: what is started, what is shown of it, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_specgate.adapters.commands import PORT, Command
from pytest_specgate.adapters.server import VllmEngine
from pytest_specgate.core.arms import Arm, ArmPair
from pytest_specgate.core.baseline_offer import definition_of
from pytest_specgate.core.calibration import CalibrationWindow
from pytest_specgate.core.errors import InvalidError, ServerStartError, UsageError
from pytest_specgate.core.ports import ChangedCommand
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.options import GateOptions
from pytest_specgate.project_hooks import no_hooks
from pytest_specgate.window import WindowPlan
from pytest_specgate.wiring import LocalWiring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.adapters.conftest import MakeEngine

OWN = (("python", "-m", "engine"), ("--model", "m", "--port", PORT))
TELLS_AND_LEAVES = "import json, sys; print(json.dumps(sys.argv[1:])); sys.exit(1)"
COMMANDS: Final = "changed_commands"
NICE: Final = "nice {command}"
WINDOW: Final = CalibrationWindow(
    measured_at="2026-11-29T12:00:00+00:00", engine={}, values={"c1": {"tpot_p50": (0.1, 0.11, 0.1)}}
)
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


def test_a_change_that_is_a_secret_is_told_apart() -> None:
    """What is cut out of a command stands in it as a digest, without which a wrapper of one arm would be hidden."""
    whole = (*OWN[0], *OWN[1])
    one, same, other = (changed("run", "--api-key", word, *whole).change for word in ("key one", "key one", "key two"))

    assert one == same != other
    assert one.startswith("run --api-key '[redacted]' {command} (sha256 ")
    assert "sha256" not in changed("run", "--api-keys-file", "k", *whole).typed


def test_the_secrets_of_an_arm_are_no_part_of_its_change() -> None:
    """Two arms with one wrapper and two keys of their own are started alike."""
    found = set()
    for key in ("one", "two"):
        own = ("--api-key", key, "--port", PORT)
        words = ("bash", "-c", f"exec {shlex.join((*OWN[0], *own))}")
        found.add(Command(OWN[0], own, changed=ChangedCommand(words, "a hook")).change)

    assert found == {"bash -c 'exec {command}'"}


def test_a_command_inside_a_word_is_shown_in_short() -> None:
    """As a shell is given it, with a port that needs no quotes."""
    own = changed("bash", "-c", f"cd /tmp && exec {shlex.join((*OWN[0], *OWN[1]))}")

    assert own.change == "bash -c 'cd /tmp && exec {command}'"
    assert own.at(8000).change == own.change
    assert own.at(8000).words == ("bash", "-c", "cd /tmp && exec python -m engine --model m --port 8000")
    assert own.at(8000).typed == "bash -c 'cd /tmp && exec python -m engine --model m --port 8000'"


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


OFF = Arm("off", model="tiny", args={"fake": {}})
LOAD = RequestProfile(input_tokens=8, output_tokens=2, requests={1: 10})
SEED, MORE = (OFF.vary(name, args={"fake": {"seed": seed}}) for seed, name in enumerate(("seed", "more"), 1))


def paired(candidate: Arm) -> ArmPair:
    """Return a pair with another seed."""
    return ArmPair(reference=OFF, candidate=candidate, varies="args.fake", profile=LOAD)


def wired(folder: Path, *wrapped: str, pairs: Sequence[ArmPair] | None = None, **more: Any) -> LocalWiring:
    """Return a session on the fake engine in which a project wraps some arms, once its pairs were checked."""
    options = GateOptions(
        engine_python=Path(sys.executable), engine_command=("python", "-m", "pytest_specgate.testing.fake_vllm"),
        results=folder / "results", rounds=None, start_limit_s=20.0, baselines=folder / "baselines",
        host_class="here",
    )  # fmt: skip

    def change(arm: Arm, command: Sequence[str]) -> ChangedCommand | None:
        return ChangedCommand(("nice", *command), "a hook") if arm.name in wrapped else None

    hooks = dataclasses.replace(no_hooks(), change=change, changes=bool(wrapped), **more)
    environment = {"SPECGATE_STATE_DIR": str(folder), "PATH": os.environ["PATH"]}
    wiring = LocalWiring(options, root=folder, say=lambda _: None, hooks=hooks, environment=environment)
    wiring.check([paired(SEED)] if pairs is None else pairs)
    return wiring


def test_a_change_belongs_to_its_arm(tmp_path: Path) -> None:
    """A session tells which arm it is of, and a calibration knows that of its own arm only."""
    plain, nice = wired(tmp_path), wired(tmp_path, "seed")

    assert plain._settings_of([OFF, SEED]) == plain._settings == nice._settings_of([OFF])
    assert nice._settings_of([OFF, SEED]) == {**plain._settings, "changed_commands": {"seed": "nice {command}"}}
    assert nice._settings_of_arm(OFF) == plain._settings
    assert nice._settings_of_arm(SEED) == {**plain._settings, "changed_command": "nice {command}"}


def test_calibrations_do_not_cross_a_change_of_their_own_arm(tmp_path: Path) -> None:
    """That of the other arm of a pair is none of their business."""
    plain, nice = wired(tmp_path), wired(tmp_path, "seed")
    book = plain._noise_file.load()
    for arm in (OFF, SEED):
        book = book.with_window(arm, LOAD, WINDOW, settings=plain._settings_of_arm(arm))
    plain._noise_file.save(book)

    assert [noise.arm for noise in plain.noise((OFF, SEED), LOAD)] == ["off", "seed"]
    assert [noise.arm for noise in nice.noise((OFF, SEED), LOAD)] == ["off"]


def test_baselines_do_not_cross_a_swap_of_the_arms(tmp_path: Path) -> None:
    """Which side is wrapped belongs to what a pair compares, and other pairs of the session do not."""
    one, other = wired(tmp_path, "seed"), wired(tmp_path, "off")
    more = wired(tmp_path, "seed", "more", pairs=[paired(SEED), paired(MORE)])
    plain, pair = wired(tmp_path), paired(SEED)
    found = [definition_of(pair, session._settings_of([OFF, SEED, MORE])) for session in (one, other, more, plain)]

    assert found[0] == found[2] == {**found[3], "settings": {**plain._settings, COMMANDS: {"candidate": NICE}}}
    assert found[1] == {**found[3], "settings": {**plain._settings, COMMANDS: {"reference": NICE}}}
    assert COMMANDS not in str(found[3])


def test_an_attempt_does_not_depend_on_other_pairs(tmp_path: Path) -> None:
    """A pair alone is the next attempt of the same pair among others, whatever wraps the arms of these."""
    session = wired(tmp_path, "more", pairs=[paired(SEED), paired(MORE)])
    engine = session._engine(tmp_path)
    found = []
    for name, pairs in (("first", (paired(SEED), paired(MORE))), ("second", (paired(SEED),))):
        folder = tmp_path / "results" / name
        folder.mkdir(parents=True)
        found.append(session._history.facts(WindowPlan(pairs, ()), engine, record=folder / "record.json"))

    assert [COMMANDS in facts.settings for facts in found] == [True, False]
    assert [facts.attempt for facts in found] == [1, 2]


def test_a_server_is_refused_on_a_refused_machine(tmp_path: Path) -> None:
    """A test that asks for one itself measures as well as a gate."""
    session = wired(tmp_path, vetoes=lambda _: ("not here",))
    with pytest.raises(InvalidError) as caught:
        session.server(OFF)

    assert str(caught.value) == "INVALID (host-vetoed): nothing is measured on this host: not here"
