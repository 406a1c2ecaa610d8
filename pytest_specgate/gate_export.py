"""What was collected and calibrated as JSON, for our own commands, which need not know pytest then.

It is a plugin of its own: ``pytest -p pytest_specgate.gate_export --specgate-export=FILE``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_specgate.fixtures import session_of
from pytest_specgate.names import GATE_MARK, PAIRS_MARK
from pytest_specgate.options import OPTIONS_KEY

if TYPE_CHECKING:
    from collections.abc import Generator

    from pydantic import JsonValue

    from pytest_specgate.core.measured import Calibrated

_OPTION: Final = "--specgate-export"
_CALIBRATED: Final = pytest.StashKey[dict[str, "Calibrated"]]()
_HANDLED: Final = (Exception, pytest.skip.Exception, pytest.fail.Exception)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the file."""
    parser.addoption(_OPTION, metavar="FILE", required=True, help="where to write gates and calibrations, as JSON")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Keep what a calibrated item told; such an item ends by being skipped, or fails when an arm told nothing."""
    try:
        return (yield)
    except _HANDLED:
        _keep(item)
        raise


def _keep(item: pytest.Item) -> None:
    gated = any(item.get_closest_marker(name) for name in (GATE_MARK, PAIRS_MARK))
    if not gated or item.config.stash[OPTIONS_KEY].calibrate is None:
        return
    try:
        # Measured by now, or failed for good: asked again it tells the same.
        found = session_of(item.config).calibrate(item)
    except _HANDLED:
        return
    item.config.stash.setdefault(_CALIBRATED, {})[found.path] = found


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write what was collected and what was calibrated."""
    calibrated = session.config.stash.get(_CALIBRATED, {}).values()
    answer = {"gates": _gates(session), "calibrations": [_calibration(found) for found in calibrated]}
    Path(session.config.getoption(_OPTION)).write_text(json.dumps(answer), encoding="utf-8")


def _gates(session: pytest.Session) -> list[JsonValue]:
    """Return the gates of all items, each once, in the order of the file."""
    items = [item for item in getattr(session, "items", ()) if item.get_closest_marker(GATE_MARK) is not None]
    if not items:
        return []
    from pytest_specgate.core.gate_exports import exported  # noqa: PLC0415  - only gates pay for it

    found = [session_of(session.config).windows.gate(item) for item in items]
    return [*{gate.id: exported(gate) for gate in found if gate is not None}.values()]


def _calibration(found: Calibrated) -> dict[str, JsonValue]:
    return {
        "record": found.path,
        "calibrations": found.noise_path,
        "noise": [noise.model_dump(mode="json") for noise in found.noise],
        "problems": dict(found.problems),
    }
