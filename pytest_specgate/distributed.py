"""Under xdist a worker measures, and the process that the user sees shows it: what the two tell each other."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_specgate.names import OUTCOME_PROPERTY, REASON_PROPERTY
from pytest_specgate.translate import property_of, sendable, uncaptured

if TYPE_CHECKING:
    from collections.abc import Mapping

_OUTPUT: Final = "specgate"
_CRASHED: Final = "specgate_crashed"
_JUDGED: Final = "specgate_judged"

_PROCESSES: Final = os.getpid(), os.getppid()
"""This process and the one that started it, as this module was loaded."""


TOLD_KEY: Final = pytest.StashKey[dict[str, Any]]()
"""What a worker has told at its end."""

_CRASHED_KEY: Final = pytest.StashKey[list[str]]()
_JUDGED_KEY: Final = pytest.StashKey[dict[str, tuple[str, str]]]()


class ControllerGoneError(KeyboardInterrupt):
    """The process that started this worker of xdist has died: nobody waits for what is measured."""


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker of xdist."""
    return hasattr(config, "workerinput")


def is_distributed(config: pytest.Config) -> bool:
    """Whether tests run in workers: in this process, or in some that it starts."""
    return is_worker(config) or config.getoption("dist", default="no") != "no"


def company(config: pytest.Config) -> str:
    """Say why this process must start no server, as a sentence; empty where it may."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    if workers == 1:
        return ""
    return f"gates cannot run on {workers} xdist workers: servers would share the machine; use -n 0"


def crashed_items(config: pytest.Config) -> frozenset[str]:
    """Return the node ids of the tests in which workers died before this one took their place."""
    return frozenset(getattr(config, "workerinput", {}).get(_CRASHED, ()))


def note_crash(config: pytest.Config, node_id: str) -> None:
    """Take note, in the process that starts workers, that one died in a test."""
    config.stash.setdefault(_CRASHED_KEY, []).append(node_id)


def tell_crashes(config: pytest.Config, workerinput: dict[str, Any]) -> None:
    """Tell a worker that is about to start in which tests others have died, and what these had judged."""
    workerinput[_CRASHED] = list(config.stash.get(_CRASHED_KEY, ()))
    workerinput[_JUDGED] = _heard(config)


def note_verdict(report: Any) -> None:
    """Take note, in the process that starts workers, of what one has judged: it may die before it tells more."""
    outcome, reason = (property_of(report.user_properties, name) for name in (OUTCOME_PROPERTY, REASON_PROPERTY))
    if outcome is not None and not report.skipped:
        _heard(report.node.config)[report.nodeid] = str(outcome), str(reason or "")


def judged_before(config: pytest.Config) -> Mapping[str, tuple[str, str]]:
    """Return outcome and reason by node id of what was judged by workers that died.

    The worker that takes their place knows it; where none does, the process that started them.
    """
    if is_worker(config):
        found: Mapping[str, tuple[str, str]] = getattr(config, "workerinput", {}).get(_JUDGED, {})
        return found
    return _heard(config) if is_lost(config) else {}


def is_lost(config: pytest.Config) -> bool:
    """Whether workers died, and none took their place that could tell of gates."""
    return _CRASHED_KEY in config.stash and TOLD_KEY not in config.stash


def _heard(config: pytest.Config) -> dict[str, tuple[str, str]]:
    return config.stash.setdefault(_JUDGED_KEY, {})


def stop_if_alone(config: pytest.Config) -> None:
    """Stop this process if it is a worker whose controller was killed.

    Raises:
        ControllerGoneError: it was.
    """
    pid, parent = _PROCESSES
    # In a process that was forked since, another parent is no sign of anything.
    if is_worker(config) and os.getpid() == pid and os.getppid() != parent:
        raise ControllerGoneError("the process that started this xdist worker has died")


def refuse(config: pytest.Config, sentence: str) -> None:
    """Let the process that the user sees stop the run, if this one is a worker: its own errors are seen by nobody."""
    if is_worker(config):
        _output(config)["refusal"] = sendable(sentence)


def tell(config: pytest.Config, told: dict[str, Any]) -> None:
    """Hand over what this worker has to tell, as values that can be sent."""
    _output(config)["told"] = told


def hear(config: pytest.Config, workeroutput: dict[str, Any]) -> None:
    """Take in what a worker has told.

    Raises:
        pytest.UsageError: it refuses the run.
    """
    found = workeroutput.get(_OUTPUT, {})
    if "refusal" in found:
        raise pytest.UsageError(found["refusal"])
    if "told" in found:
        config.stash[TOLD_KEY] = found["told"]


class WorkerTeller:
    """Shows a line at once from within a worker: its stderr is that of the process that the user sees."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._within = ""

    def __call__(self, line: str) -> None:
        """Show a line; silent under ``-qq``."""
        if self._config.get_verbosity() < -1:
            return
        within = os.environ.get("PYTEST_CURRENT_TEST", "collection")
        # What that process has printed since may stand in a line that has not ended.
        before, self._within = ("" if within == self._within else "\n"), within
        with uncaptured(self._config):
            sys.stderr.write(f"{before}specgate: {sendable(line)}\n")
            sys.stderr.flush()


def _output(config: pytest.Config) -> dict[str, Any]:
    output: dict[str, dict[str, Any]] = config.workeroutput  # type: ignore[attr-defined]  # xdist adds it
    return output.setdefault(_OUTPUT, {})
