"""What a collection has seen: whether a gate that is not among its items is no more, or was only left out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclasses.dataclass(slots=True)
class Seen:
    """What was collected so far.

    Attributes:
        modules: test files that were collected without an error.
        deselected: whether any item was left out.
        failed: whether anything could not be collected.
        gates: ids of the gates that were generated, without parameters, whatever was left out afterwards.
        gate_ids: the same with their parameters: a function with three of them is three gates.
        written: the tests in the order in which they were written, before anybody has sorted or deselected any.
    """

    modules: set[Path] = dataclasses.field(default_factory=set)
    deselected: bool = False
    failed: bool = False
    gates: set[str] = dataclasses.field(default_factory=set)
    gate_ids: set[str] = dataclasses.field(default_factory=set)
    written: tuple[pytest.Item, ...] = ()


SEEN_KEY: Final = pytest.StashKey[Seen]()


def seen_of(config: pytest.Config) -> Seen:
    """Return what was collected so far."""
    return config.stash.setdefault(SEEN_KEY, Seen())


def left_out(config: pytest.Config) -> str:
    """Say by what a run was narrowed, so that it cannot tell what is there for nothing; empty for a whole run."""
    if any("::" in argument for argument in config.args):
        return "single tests were named"
    if seen_of(config).failed:
        return "not everything could be collected"
    if seen_of(config).deselected:
        return "tests were deselected"
    narrowing = ("lf", "pyargs", "stepwise", "ignore", "ignore_glob", "override_ini")
    if any(config.getoption(name, default=None) for name in narrowing):
        return "files or functions may have been left out"
    return ""


def is_gone(config: pytest.Config, gate_id: str, *, collected: Collection[str]) -> bool:
    """Whether this run can tell what of a gate's baseline is claimed: by its items, or since it is no more.

    Args:
        config: of the run.
        gate_id: of the gate whose baseline is there.
        collected: ids of the gates among the items.
    """
    seen, function = seen_of(config), gate_id.partition("[")[0]
    if function in seen.gates:
        # One that was generated and is no item was dropped by somebody who did not say so: a conftest, a plugin.
        return any(other.partition("[")[0] == function for other in collected)
    path = config.rootpath / gate_id.partition("::")[0]
    if path.exists():
        return path in seen.modules
    places = [config.invocation_params.dir / Path(argument) for argument in config.args]
    return any(path.is_relative_to(place) for place in places)
