"""Verdicts on their way to the hook of a project."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.distributed import WorkerTeller, is_worker
from pytest_specgate.gate_items import as_typed
from pytest_specgate.project_hooks import call_verdict_hook
from pytest_specgate.translate import Teller

if TYPE_CHECKING:
    from pytest_specgate.session import GateSession


def tell_verdict(item: pytest.Item, session: GateSession) -> None:
    """Let the project know how an item was judged, once its body has said what it accepts."""
    gate = session.windows.gate(item)
    closed = session.windows.closed(item) is not None
    problem = call_verdict_hook(
        item,
        verdict=session.verdict(item).model_copy(),
        gate=copy.deepcopy(gate),
        record_path=None if closed else session.measured(item).path,
        node_id=as_typed(item),
    )
    if problem:
        _warn(item, problem)


def _warn(item: pytest.Item, problem: str) -> None:
    try:
        warnings.warn(pytest.PytestWarning(problem), stacklevel=2)
    except pytest.PytestWarning:
        # Warnings are errors here, and this one must not be one of a verdict.
        item.add_report_section("call", "specgate", problem)
        say = WorkerTeller(item.config) if is_worker(item.config) else Teller(item.config)
        say(problem)
