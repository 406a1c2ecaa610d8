"""The options of the plugin, one row each."""

from __future__ import annotations

import dataclasses
from typing import Final

_UNJUDGED: Final = "it would keep every gate unjudged"


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One row: a name in all its spellings, and how its text is read."""

    name: str
    metavar: str
    help: str
    switch: bool = False
    """Whether the flag alone means ``yes``; environment and ini file say ``yes`` or ``no``."""
    act: str = ""
    """What it would do if it were left in an ini file or an environment, for an option that is typed each time."""
    acts: tuple[str, ...] = ()
    """The values that this is said of; all of them where there are none."""

    def is_act(self, text: str) -> bool:
        """Whether a value of it is typed each time."""
        return bool(self.act) and (not self.acts or text.strip() in self.acts)

    @property
    def flag(self) -> str:
        """How it is typed."""
        return f"--specgate-{self.name.replace('_', '-')}"

    @property
    def ini(self) -> str:
        """Its name in an ini file."""
        return f"specgate_{self.name}"

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"SPECGATE_{self.name.upper()}"


OPTIONS: Final[tuple[Option, ...]] = (
    Option(
        "engine_python",
        "PATH",
        "Python interpreter that has vLLM installed; it may be of another environment, since the plugin never imports "
        "vllm. Default: the interpreter that runs pytest.",
    ),
    Option(
        "engine_command",
        "COMMAND",
        "What to start instead of `ENGINE_PYTHON -m vllm.entrypoints.openai.api_server`; it is given the same "
        "arguments. `python` as its first word is the interpreter that runs pytest.",
    ),
    Option(
        "engine_args",
        "ARGUMENTS",
        "Further arguments of every server, as `--dtype=bfloat16`; an arm that sets one itself has its own.",
    ),
    Option(
        "engine_env",
        "VARIABLES",
        "Further environment variables of every server, as `A=1 B=2`; an arm that sets one itself has its own.",
    ),
    Option(
        "attach",
        "ARM=URL",
        "Servers that run elsewhere, as `off=http://10.0.0.5:8000 k4=http://10.0.0.6:8000`: they are measured in one "
        "round, and the report says what could not be proved of them.",
    ),
    Option(
        "image_digest",
        "DIGEST",
        "Digest of the container image that the engine comes from, as sha256:...: it is recorded and shown with the "
        "build, since nothing inside a container tells it.",
    ),
    Option("results", "FOLDER", "Where window records and server logs are kept. Default: specgate-results."),
    Option("rounds", "N", "Boots of each arm at most, for every gate: 1, 2, 3 or an even number."),
    Option("start_limit", "SECONDS", "Longest time that a server may take to become ready. Default: 600."),
    Option(
        "devices",
        "LIST",
        "GPUs that this job has to itself, as 0,1: jobs that name others run beside it. Default: the whole machine.",
    ),
    Option(
        "strict",
        "yes|no",
        "Whether engine-induced differences that a gate file does not allow make a pair INVALID. Default: no.",
        switch=True,
    ),
    Option(
        "lock_wait",
        "SECONDS",
        "Longest time to wait for other gates on this machine, 0 to fail at once. Default: 3600.",
    ),
    Option(
        "baselines",
        "FOLDER",
        "Folder of what is committed: calibrations, by class of machine. Default: baselines, beside the ini file.",
    ),
    Option(
        "calibrate",
        "yes|no",
        "Whether to boot each arm several times in a row, and write down how far its figures scatter, instead of "
        "judging. Default: no.",
        switch=True,
        act=_UNJUDGED,
    ),
    Option("calibrate_boots", "N", "Boots of each arm for a calibration, 2 or more. Default: 6."),
    Option(
        "plan",
        "yes|no",
        "Whether to print boots, requests, minutes and what can be decided by them, and do nothing. Default: no.",
        switch=True,
        act=_UNJUDGED,
    ),
    Option(
        "budget",
        "TIME",
        "Longest time for all measuring, as 40m or 1h30m: no round is begun that would not end in it, and the report "
        "says what stays undecided. Default: as long as it takes.",
    ),
    Option(
        "inconclusive",
        "fail|skip",
        "Whether a threshold that could not be decided fails, or is reported as skipped with its reason; never as "
        "passed. Default: fail.",
    ),
    Option(
        "require_gates",
        "N",
        "How many gates (test functions, not thresholds) must be judged for the run to pass: skipped, deselected and "
        "undecided ones are not, nor those that write baselines. 0 requires none. Default: 0.",
    ),
    Option(
        "baseline",
        "check|new|all|prune|off",
        "What is done with baselines: judge by them (check), write those that are missing (new), add this window to "
        "each (all), remove what no gate claims (prune), or leave them alone (off). All but check are typed each "
        "time. Default: check.",
        act="every run would write baselines, or judge nothing by them",
        acts=("new", "all", "prune", "off"),
    ),
    Option(
        "baseline_reason",
        "TEXT",
        "Why this window is accepted into baselines; it is kept beside its figures. Default: the command itself.",
        act="every window would have one reason",
    ),
    Option(
        "accept_regression",
        "yes|no",
        "Whether a window is accepted into a baseline although it is worse than what stands there by more than the "
        "margin, or has failed its own gate. Default: no.",
        switch=True,
        act="every regression would be accepted",
    ),
    Option(
        "missing_baseline",
        "fail|skip",
        "Whether a claim about a baseline that is not there fails, or is reported as skipped with its reason; never as "
        "passed. Default: fail.",
    ),
    Option(
        "host_class",
        "NAME",
        "Class of this machine, where its facts tell machines apart that are one: calibrations and baselines are kept "
        "by it. Default: what CPU, GPUs, memory and system make it.",
    ),
    Option(
        "resume",
        "RECORD",
        "Record of a window that died, to go on with after its last whole round, if machine, engine and gates agree.",
        act="every run would go on with that record",
    ),
    Option(
        "chunk_times",
        "yes|no",
        "Whether records keep the time of every chunk of every answer, compressed. Default: no.",
        switch=True,
    ),
    Option(
        "answers",
        "keep|drop",
        "Whether records keep the texts of greedy answers, or their hashes only; without texts a report cannot show "
        "where two answers part. Default: keep.",
    ),
    Option(
        "json",
        "FILE",
        "Write what came of the run into this file as one JSON object, also where it failed: verdicts, figures by arm "
        "and boot, whether it passed. `specgate schema report` prints its schema.",
    ),
    Option(
        "markdown",
        "FILE",
        "Write what came of the run into this file as Markdown, for a comment on a pull request. Where "
        "GITHUB_STEP_SUMMARY is set, the summary of the job gets the same text without this option.",
    ),
    Option(
        "html",
        "FILE",
        "Write what came of the run into this file as a page of its own, with plots. It needs the extra `report`.",
    ),
    Option(
        "report_key",
        "NAME",
        "What tells the Markdown of this job from that of others, in the comment that is its first line, where several "
        "jobs keep a comment each on one pull request.",
    ),
    Option(
        "stop_limit",
        "SECONDS",
        "Longest time that a server may take to end after SIGINT. What follows takes in proportion: half of it after "
        "SIGTERM, half for the last kill, a tenth for each step between, half for its port, three times as long for "
        "the memory of its devices. Default: 20.",
    ),
)
