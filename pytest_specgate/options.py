"""Options of the plugin: declared in one table, frozen into one object.

Each option can be given on the command line, as an environment variable or in the ini file, in this order of
precedence. An empty value is a mistake, not "off": a CI variable that expands to nothing must not switch anything.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.earlier_reports import replaceable
from pytest_specgate.option_table import OPTIONS, Option
from pytest_specgate.option_values import (
    BaselineMode,
    Given,
    addresses_of,
    arguments_of,
    baseline_mode_of,
    boots_of,
    budget_of,
    host_class_of,
    is_yes,
    number_of,
    reason_of,
    refuse_one_file,
    report_file_of,
    report_key_of,
    variables_of,
    word_of,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
        require_gates: how many gates must be judged for the run to pass.
        skip_inconclusive: whether what could not be decided is reported as skipped instead of failed.
        baseline: what is done with baselines: ``check`` judges against them, ``new`` writes those that are missing,
            ``all`` adds a window to each, ``prune`` removes what no gate claims, ``off`` leaves them alone.
        baseline_reason: why a window is accepted, as it is kept; `None` for the command that did it.
        accept_regression: whether a window is accepted that is worse than what stands there, or failed its gate.
        skip_missing_baseline: whether a claim without a baseline is reported as skipped instead of failed.
        host_class: name of the class of this machine; `None` leaves it to its facts.
        resume: record of a window that died, to go on with; `None` begins anew.
        chunk_times: whether records keep the time of every chunk.
        keep_answers: whether records keep the texts of greedy answers.
        json: file for what came of the run, as JSON; `None` for none.
        markdown: likewise, as Markdown.
        html: likewise, as a page.
        report_key: what tells its Markdown from that of other jobs; empty for nothing.
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
    require_gates: int = 0
    skip_inconclusive: bool = False
    baseline: BaselineMode = "check"
    baseline_reason: str | None = None
    accept_regression: bool = False
    skip_missing_baseline: bool = False
    host_class: str | None = None
    resume: Path | None = None
    chunk_times: bool = False
    keep_answers: bool = True
    json: Path | None = None
    markdown: Path | None = None
    html: Path | None = None
    report_key: str = ""
    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def given(self) -> tuple[str, ...]:
        """The options that were set, as they would be typed, without secrets: to measure alike, and anew."""
        texts = {flag: text for flag, text in self.texts.items() if flag not in _NOT_AGAIN}
        return tuple(_typed(flag, text) for flag, text in texts.items())

    @property
    def has_calibrations(self) -> bool:
        """Whether calibrations of any class of machine were committed."""
        return any(self.baselines.glob("*/noise.json"))

    def attached_of(self, pair: ArmPair) -> tuple[str, ...]:
        """Return the names of a pair's arms whose servers run elsewhere."""
        return tuple(arm.name for arm in pair.own_arms if arm.name in self.attach)

    def rounds_of(self, arms: Iterable[str]) -> int | None:
        """Return n_max of a pair of arms, by name; `None` leaves it to the gate file.

        A server that is not booted for this window is one sample, however often it is measured.
        """
        return 1 if any(arm in self.attach for arm in arms) else self.rounds


OPTIONS_KEY: Final = pytest.StashKey[GateOptions]()


REPORTS: Final = ("json", "markdown", "html")
"""Names of the options that ask for a report."""

_LISTING: Final = (
    "help", "version", "markers", "showfixtures", "show_fixtures_per_test", "collectonly", "cacheshow",
    "specgate_plan",
)  # fmt: skip
"""Options of runs that run no test, and leave reports alone."""

_NOT_AGAIN: Final = (
    "--specgate-resume",
    "--specgate-require-gates",
    "--specgate-report-key",
    *(f"--specgate-{name}" for name in REPORTS),
)
"""Options that do not belong to a new measurement of one test: of the run, or where this one is reported."""

_WORDS: Final = {"--specgate-engine-args": True, "--specgate-engine-command": False, "--specgate-engine-env": False}
"""Options that are read as words; whether an argument among them may have several values."""


def add_options(parser: pytest.Parser) -> None:
    """Declare every option with its ini twin."""
    group = parser.getgroup("specgate", "specgate: regression gates for LLM serving")
    for option in OPTIONS:
        places = (
            "command line only"
            if option.act and not option.acts
            else f"environment: {option.variable}, ini: {option.ini}"
        )
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
    found = {option.name: _given(config, option, environment) for option in OPTIONS}
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
        require_gates=number_of(found["require_gates"], int, default=None, zero=True) or 0,
        skip_inconclusive=word_of(found["inconclusive"], "fail", "skip") == "skip",
        baseline=baseline_mode_of(found["baseline"]),
        baseline_reason=reason_of(found["baseline_reason"]),
        accept_regression=is_yes(found["accept_regression"]),
        skip_missing_baseline=word_of(found["missing_baseline"], "fail", "skip") == "skip",
        host_class=host_class_of(found["host_class"]),
        resume=here / Path(texts["resume"]).expanduser() if "resume" in texts else None,
        chunk_times=is_yes(found["chunk_times"]),
        keep_answers=word_of(found["answers"], "keep", "drop") == "keep",
        **_report_files(config, found),
        report_key=report_key_of(found["report_key"]),
        texts={
            option.flag: "" if option.switch else texts[option.name]
            for option in OPTIONS
            if option.name in texts and not (option.switch and texts[option.name] == "no")
        },
    )
    _refuse_contradiction(config, options, found["require_gates"])
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


def _given(config: pytest.Config, option: Option, environment: Mapping[str, str]) -> Given | None:
    sources = (
        (option.flag, config.getoption(option.ini)),
        (option.variable, environment.get(option.variable)),
        (option.ini, config.getini(option.ini)),
    )
    for place, value in sources:
        if value is None:
            continue
        if option.is_act(value) and (place != option.flag or not _typed_now(config, option.flag)):
            left = "addopts" if place == option.flag else place
            what = f"{option.flag}={value}" if option.acts else option.flag
            raise pytest.UsageError(f"{left}: {what} is typed each time; set for good, {option.act}")
        if not value.strip():
            raise pytest.UsageError(f"{place} is empty: give it a value or leave it out")
        return Given(place, str(value))
    return None


def _typed_now(config: pytest.Config, flag: str) -> bool:
    """Whether a flag stands on the command line or in a file named there, and not in ``addopts``."""
    words = _in_files(config.invocation_params.args, folder=config.invocation_params.dir)
    return hasattr(config, "workerinput") or any(word == flag or word.startswith(f"{flag}=") for word in words)


def _in_files(words: Iterable[object], *, folder: Path) -> Iterator[str]:
    """Yield the words of a command line, and in place of ``@file`` those of that file, as argparse does."""
    for word in map(str, words):
        if not word.startswith("@"):
            yield word
            continue
        try:
            lines = (folder / word[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            lines = []
        yield from _in_files(lines, folder=folder)


def _folder(config: pytest.Config, text: str | None) -> Path:
    """Return the folder of what is committed: as typed here, or beside the ini file."""
    return config.rootpath / "baselines" if text is None else config.invocation_params.dir / Path(text).expanduser()


def _report_files(config: pytest.Config, found: Mapping[str, Given | None]) -> dict[str, Path | None]:
    """Return the files that the run is reported in; nothing is, where tests are only listed."""
    if config.getoption("collectonly"):
        return {}
    files = {name: report_file_of(found[name], folder=config.invocation_params.dir, kind=name) for name in REPORTS}
    refuse_one_file(files, found)
    given = found["html"]
    if given is not None and importlib.util.find_spec("jinja2") is None:
        raise pytest.UsageError(f"{given.place} needs jinja2: pip install 'pytest-specgate[report]'")
    return files


def remove_earlier_reports(config: pytest.Config, *, environment: Mapping[str, str] = os.environ) -> None:
    """Remove what an earlier run has reported, before this one can be refused: it must not be taken for its report.

    Nothing is removed but reports of our own; what else is wrong with an option is said where options are read.

    Args:
        config: of which no more is known yet than the options that were typed, and the ini file.
        environment: in which options may stand, too.
    """
    typed = config.known_args_namespace
    if any(getattr(typed, name, None) for name in _LISTING) or getattr(typed, "specgate_baseline", None) == "prune":
        return
    for option in (option for option in OPTIONS if option.name in REPORTS):
        text = getattr(typed, option.ini, None) or environment.get(option.variable) or config.getini(option.ini)
        if text:
            with contextlib.suppress(OSError, RuntimeError, ValueError):
                path = (config.invocation_params.dir / Path(text).expanduser()).resolve()
                if path.is_file() and replaceable(path, option.name):
                    path.unlink()


def _calibrate(found: Mapping[str, Given | None]) -> int | None:
    """Return the boots of a calibration, `None` where none was asked for."""
    boots = boots_of(found["calibrate_boots"])
    if is_yes(found["calibrate"]) and is_yes(found["plan"]):
        raise pytest.UsageError(
            f"--specgate-plan and --specgate-calibrate exclude each other: a calibration is {boots} boots of each arm"
        )
    return boots if is_yes(found["calibrate"]) else None


def _refuse_contradiction(config: pytest.Config, options: GateOptions, required: Given | None) -> None:
    """Refuse to require gates of a run that judges none, if both were typed; where one is set for good, it waits."""
    acts = {
        "--specgate-plan": options.plan,
        "--specgate-calibrate": options.calibrate is not None,
        "--specgate-baseline=prune": options.baseline == "prune",
    }
    typed = required is not None and options.require_gates and _typed_now(config, required.place)
    for flag, given in acts.items():
        if given and typed:
            raise pytest.UsageError(f"{flag} judges nothing, and --specgate-require-gates wants gates judged: drop one")


def _refuse_missing(options: GateOptions, given: Given | None) -> GateOptions:
    """Refuse a folder of calibrations that is not there, unless this run makes it."""
    if given is not None and options.calibrate is None and not options.baselines.is_dir():
        raise pytest.UsageError(f"{given.place}={given.text}: there is no such folder")
    return options
