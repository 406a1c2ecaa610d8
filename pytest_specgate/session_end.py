"""How a run of gates ends: its exit status, the lines of its summary, and what a worker hands over."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.collection import seen_of
from pytest_specgate.distributed import TOLD_KEY, is_worker, judged_before, tell
from pytest_specgate.fixtures import SESSION_KEY
from pytest_specgate.gate_count import GateCount
from pytest_specgate.options import OPTIONS_KEY
from pytest_specgate.run_contents import judges, shortage_of
from pytest_specgate.translate import sendable, view_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """What a process that ran tests knows at its end.

    Attributes:
        lines: of the terminal summary.
        refused: whether a threshold was judged, and not accepted.
        gates: how many were seen, collected and judged.
    """

    lines: tuple[str, ...] = ()
    refused: bool = False
    gates: GateCount = dataclasses.field(default_factory=GateCount)


def finish(session: pytest.Session) -> None:
    """Let no exit status of 0 stand beside a verdict that was not accepted, or beside too few gates."""
    config = session.config
    if is_worker(config):
        found = _found(config, lines=True)
        lines = [sendable(line) for line in found.lines]
        tell(config, {"lines": lines, "refused": found.refused, "gates": dataclasses.asdict(found.gates)})
        return
    pruned = config.stash[OPTIONS_KEY].baseline == "prune"
    if pruned and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
    enforce(session)


def enforce(session: pytest.Session) -> None:
    """Make a green exit status red where a verdict was not accepted, or where too few gates were judged."""
    config = session.config
    if is_worker(config):
        return
    found = _found(config)
    if session.exitstatus == pytest.ExitCode.OK and found.refused:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    green = {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    if session.exitstatus in green and shortage_of(config, found.gates):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def summary_lines(config: pytest.Config) -> list[str]:
    """Return the lines of the terminal summary: of the windows, then whether too few gates were judged."""
    found = _found(config, lines=True)
    return [*found.lines, *_count_lines(config, found.gates)]


def _count_lines(config: pytest.Config, gates: GateCount) -> Iterator[str]:
    shortage = shortage_of(config, gates)
    if shortage:
        yield shortage
    elif judges(config) and (gates.nothing or config.stash[OPTIONS_KEY].require_gates):
        yield gates.sentence


def _judged_before(config: pytest.Config) -> Iterator[str]:
    """Yield how many verdicts a worker has told that died since: their tables and records were its own."""
    outcomes = collections.Counter(outcome for outcome, _ in judged_before(config).values())
    if outcomes:
        told = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items())
        yield f"judged by an xdist worker that died later, its tables with it: {told}"


def _found(config: pytest.Config, *, lines: bool = False) -> _Found:
    """Return what a worker has told this process; what it knows itself, where none did."""
    if TOLD_KEY in config.stash:
        told = config.stash[TOLD_KEY]
        return _Found(tuple(told["lines"]), refused=told["refused"], gates=GateCount(**told["gates"]))
    session, seen = config.stash.get(SESSION_KEY, None), len(seen_of(config).gate_ids)
    if session is None:
        return _Found(tuple(_judged_before(config)), gates=GateCount(seen))
    shown = (*session.summary(view_of(config)), *_judged_before(config)) if lines else ()
    return _Found(shown, refused=session.refused, gates=session.ledger.count(seen=seen))
