"""Options of the plugin: declared in one table, frozen into one object.

Each option can be given on the command line, as an environment variable or in the ini file, in this order of
precedence. An empty value is a mistake, not "off": a CI variable that expands to nothing must not switch anything.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.option_values import (
    Given,
    addresses_of,
    arguments_of,
    boots_of,
    budget_of,
    is_yes,
    number_of,
    variables_of,
    word_of,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytest_specgate.core.arms import ArmPair


@dataclasses.dataclass(frozen=True, slots=True)
class GateOptions:
    """Everything a session may be told.

    Attributes:
        engine_python: interpreter that has vLLM.
        engine_command: what to start instead of vLLM's API server; empty for that default.
        engine_args: further arguments of every server, before those of its arm.
        engine_env: further environment variables of every server; those of its arm win.
        results: folder for window records and server logs.
        rounds: n_max of every pair; `None` leaves it to the gate files.
        start_limit_s: longest time that a server may take to start, in seconds.
        devices: names of the GPUs that this job may use, as ``0,1``; `None` for the whole machine.
        strict: whether doubts fail that would else be shown.
        lock_wait_s: longest time to wait for other jobs on this machine or these devices, in seconds.
        attach: base address by name of the arm, for servers that run elsewhere.
        image_digest: of the container image that the engine comes from; `None` where it is not told.
        stop_limit_s: longest time that a server may take to end after SIGINT, in seconds; all that follows scales
            with it.
        baselines: folder of what is committed: calibrations, by class of machine.
        calibrate: boots of each arm in a row for a calibration; `None` for a session that judges.
        plan: whether to print what would be done, and do nothing.
        budget_s: longest time for all measuring of the session, in seconds; `None` for as long as it takes.
        skip_inconclusive: whether what could not be decided is reported as skipped instead of failed.
        texts: the options that were set, wherever, by flag, as they were written; empty for switches.
    """

    engine_python: Path
    engine_command: tuple[str, ...]
    results: Path
    rounds: int | None
    start_limit_s: float
    devices: str | None = None
    lock_wait_s: float = 3600.0
    strict: bool = False
    engine_args: tuple[str, ...] = ()
    engine_env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    attach: Mapping[str, str] = dataclasses.field(default_factory=dict)
    image_digest: str | None = None
    stop_limit_s: float = 20.0
    baselines: Path = Path("baselines")
    calibrate: int | None = None
    plan: bool = False
    budget_s: float | None = None
    skip_inconclusive: bool = False
    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were set, as they would be typed, without secrets: to run something again alike."""
        return tuple(_typed(flag, text) for flag, text in self.texts.items())

    @property
    def has_calibrations(self) -> bool:
        """Whether calibrations of any class of machine were committed."""
        return any(self.baselines.glob("*/noise.json"))

    def attached_of(self, pair: ArmPair) -> tuple[str, ...]:
        """Return the names of a pair's arms whose servers run elsewhere."""
        return tuple(arm.name for arm in pair.arms if arm.name in self.attach)

    def rounds_of(self, arms: Iterable[str]) -> int | None:
        """Return n_max of a pair of arms, by name; `None` leaves it to the gate file.

        A server that is not booted for this window is one sample, however often it is measured.
        """
        return 1 if any(arm in self.attach for arm in arms) else self.rounds


OPTIONS_KEY: Final = pytest.StashKey[GateOptions]()


@dataclasses.dataclass(frozen=True, slots=True)
class _Option:
    """One row: a name in all its spellings, and how its text is read."""

    name: str
    metavar: str
    help: str
    switch: bool = False
    """Whether the flag alone means ``yes``; environment and ini file say ``yes`` or ``no``."""
    act: bool = False
    """Whether it is typed each time: left in an ini file or an environment, it would turn gates off for ever."""

    @property
    def flag(self) -> str:
        return f"--specgate-{self.name.replace('_', '-')}"

    @property
    def ini(self) -> str:
        return f"specgate_{self.name}"

    @property
    def variable(self) -> str:
        return f"SPECGATE_{self.name.upper()}"


_OPTIONS: Final = (
    _Option(
        "engine_python",
        "PATH",
        "Python interpreter that has vLLM installed; it may be of another environment, since the plugin never imports "
        "vllm. Default: the interpreter that runs pytest.",
    ),
    _Option(
        "engine_command",
        "COMMAND",
        "What to start instead of `ENGINE_PYTHON -m vllm.entrypoints.openai.api_server`; it is given the same "
        "arguments. `python` as its first word is the interpreter that runs pytest.",
    ),
    _Option(
        "engine_args",
        "ARGUMENTS",
        "Further arguments of every server, as `--dtype=bfloat16`; an arm that sets one itself has its own.",
    ),
    _Option(
        "engine_env",
        "VARIABLES",
        "Further environment variables of every server, as `A=1 B=2`; an arm that sets one itself has its own.",
    ),
    _Option(
        "attach",
        "ARM=URL",
        "Servers that run elsewhere, as `off=http://10.0.0.5:8000 k4=http://10.0.0.6:8000`: they are measured in one "
        "round, and the report says what could not be proved of them.",
    ),
    _Option(
        "image_digest",
        "DIGEST",
        "Digest of the container image that the engine comes from, as sha256:...: it is recorded and shown with the "
        "build, since nothing inside a container tells it.",
    ),
    _Option("results", "FOLDER", "Where window records and server logs are kept. Default: specgate-results."),
    _Option("rounds", "N", "Boots of each arm at most, for every gate: 1, 2, 3 or an even number."),
    _Option("start_limit", "SECONDS", "Longest time that a server may take to become ready. Default: 600."),
    _Option(
        "devices",
        "LIST",
        "GPUs that this job has to itself, as 0,1: jobs that name others run beside it. Default: the whole machine.",
    ),
    _Option(
        "strict",
        "yes|no",
        "Whether engine-induced differences that a gate file does not allow make a pair INVALID. Default: no.",
        switch=True,
    ),
    _Option(
        "lock_wait",
        "SECONDS",
        "Longest time to wait for other gates on this machine, 0 to fail at once. Default: 3600.",
    ),
    _Option(
        "baselines",
        "FOLDER",
        "Folder of what is committed: calibrations, by class of machine. Default: baselines, beside the ini file.",
    ),
    _Option(
        "calibrate",
        "yes|no",
        "Whether to boot each arm several times in a row, and write down how far its figures scatter, instead of "
        "judging. Default: no.",
        switch=True,
        act=True,
    ),
    _Option("calibrate_boots", "N", "Boots of each arm for a calibration, 2 or more. Default: 6."),
    _Option(
        "plan",
        "yes|no",
        "Whether to print boots, requests, minutes and what can be decided by them, and do nothing. Default: no.",
        switch=True,
        act=True,
    ),
    _Option(
        "budget",
        "TIME",
        "Longest time for all measuring, as 40m or 1h30m: no round is begun that would not end in it, and the report "
        "says what stays undecided. Default: as long as it takes.",
    ),
    _Option(
        "inconclusive",
        "fail|skip",
        "Whether a threshold that could not be decided fails, or is reported as skipped with its reason; never as "
        "passed. Default: fail.",
    ),
    _Option(
        "stop_limit",
        "SECONDS",
        "Longest time that a server may take to end after SIGINT. What follows takes in proportion: half of it after "
        "SIGTERM, half for the last kill, a tenth for each step between, half for its port, three times as long for "
        "the memory of its devices. Default: 20.",
    ),
)
_WORDS: Final = {"--specgate-engine-args": True, "--specgate-engine-command": False, "--specgate-engine-env": False}
"""Options that are read as words; whether an argument among them may have several values."""


def add_options(parser: pytest.Parser) -> None:
    """Declare every option with its ini twin."""
    group = parser.getgroup("specgate", "specgate: regression gates for LLM serving")
    for option in _OPTIONS:
        places = "command line only" if option.act else f"environment: {option.variable}, ini: {option.ini}"
        twins = f"{option.help} ({places})"
        if option.switch:
            group.addoption(option.flag, dest=option.ini, action="store_const", const="yes", default=None, help=twins)
        else:
            group.addoption(option.flag, dest=option.ini, metavar=option.metavar, default=None, help=twins)
        parser.addini(option.ini, option.help, type="string", default=None)


def read_options(config: pytest.Config, *, environment: Mapping[str, str] = os.environ) -> GateOptions:
    """Freeze the options of a session.

    Raises:
        pytest.UsageError: an empty or unreadable value.
    """
    found = {option.name: _given(config, option, environment) for option in _OPTIONS}
    texts = {name: given.text for name, given in found.items() if given is not None}
    here = config.invocation_params.dir
    options = GateOptions(
        # Not resolved: a virtual environment's interpreter is a link, and only its own path means that environment.
        engine_python=here / Path(texts.get("engine_python", sys.executable)).expanduser(),
        engine_command=tuple(words_of(found["engine_command"])),
        engine_args=arguments_of(found["engine_args"]),
        engine_env=variables_of(found["engine_env"]),
        attach=addresses_of(found["attach"]),
        image_digest=texts.get("image_digest"),
        results=here / Path(texts.get("results", "specgate-results")).expanduser(),
        rounds=number_of(found["rounds"], int, default=None),
        start_limit_s=number_of(found["start_limit"], float, default=600.0),
        devices=texts.get("devices"),
        strict=is_yes(found["strict"]),
        lock_wait_s=number_of(found["lock_wait"], float, default=3600.0, zero=True),
        stop_limit_s=number_of(found["stop_limit"], float, default=20.0),
        baselines=_folder(config, texts.get("baselines")),
        calibrate=_calibrate(found),
        plan=is_yes(found["plan"]),
        budget_s=budget_of(found["budget"]),
        skip_inconclusive=word_of(found["inconclusive"], "fail", "skip") == "skip",
        texts={
            option.flag: "" if option.switch else texts[option.name]
            for option in _OPTIONS
            if option.name in texts and not (option.switch and texts[option.name] == "no")
        },
    )
    return _refuse_missing(options, found["baselines"])


def _typed(flag: str, text: str) -> str:
    """Return an option as a user would type it, without secrets."""
    if not text:
        return flag
    if flag in _WORDS:
        from pytest_specgate.core.secret_words import redacted_words  # noqa: PLC0415  - only failures pay for it

        words = shlex.split(text)
        shown = redacted_words(words, lists=_WORDS[flag])
        text = text if shown == words else shlex.join(shown)
    return f"{flag}={shlex.quote(text)}"


def _given(config: pytest.Config, option: _Option, environment: Mapping[str, str]) -> Given | None:
    sources = (
        (option.flag, config.getoption(option.ini)),
        (option.variable, environment.get(option.variable)),
        (option.ini, config.getini(option.ini)),
    )
    for place, value in sources:
        if value is None:
            continue
        if option.act and (place != option.flag or not _typed_now(config, option.flag)):
            left = "addopts" if place == option.flag else place
            raise pytest.UsageError(
                f"{left}: {option.flag} is typed each time; set for good, it would keep every gate unjudged"
            )
        if not value.strip():
            raise pytest.UsageError(f"{place} is empty: give it a value or leave it out")
        return Given(place, str(value))
    return None


def _typed_now(config: pytest.Config, flag: str) -> bool:
    """Whether a flag stands on the command line itself, and not in ``addopts`` or ``PYTEST_ADDOPTS``."""
    return hasattr(config, "workerinput") or flag in config.invocation_params.args


def _folder(config: pytest.Config, text: str | None) -> Path:
    """Return the folder of what is committed: as typed here, or beside the ini file."""
    return config.rootpath / "baselines" if text is None else config.invocation_params.dir / Path(text).expanduser()


def _calibrate(found: Mapping[str, Given | None]) -> int | None:
    """Return the boots of a calibration, `None` where none was asked for."""
    boots = boots_of(found["calibrate_boots"])
    if is_yes(found["calibrate"]) and is_yes(found["plan"]):
        raise pytest.UsageError(
            f"--specgate-plan and --specgate-calibrate exclude each other: a calibration is {boots} boots of each arm"
        )
    return boots if is_yes(found["calibrate"]) else None


def _refuse_missing(options: GateOptions, given: Given | None) -> GateOptions:
    """Refuse a folder of calibrations that is not there, unless this run makes it."""
    if given is not None and options.calibrate is None and not options.baselines.is_dir():
        raise pytest.UsageError(f"{given.place}={given.text}: there is no such folder")
    return options
