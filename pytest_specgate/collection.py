"""What a collection has seen: whether a gate that is not among its items is no more, or was only left out."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

import pytest


@dataclasses.dataclass(slots=True)
class Seen:
    """What was collected so far.

    Attributes:
        modules: test files that were collected without an error.
        deselected: whether any item was left out.
    """

    modules: set[Path] = dataclasses.field(default_factory=set)
    deselected: bool = False


SEEN_KEY: Final = pytest.StashKey[Seen]()


def seen_of(config: pytest.Config) -> Seen:
    """Return what was collected so far."""
    return config.stash.setdefault(SEEN_KEY, Seen())


def left_out(config: pytest.Config) -> str:
    """Say by what a run was narrowed, so that it cannot tell what is there for nothing; empty for a whole run."""
    if any("::" in argument for argument in config.args):
        return "single tests were named"
    if seen_of(config).deselected:
        return "tests were deselected"
    if any(config.getoption(name, default=None) for name in ("lf", "pyargs", "stepwise", "ignore", "ignore_glob")):
        return "files may have been left out"
    return ""


def is_gone(config: pytest.Config, gate_id: str) -> bool:
    """Whether a gate that was not collected is no more: its file was collected whole, or does not exist any more."""
    path = config.rootpath / gate_id.partition("::")[0]
    if path.exists():
        return path in seen_of(config).modules
    places = [config.invocation_params.dir / Path(argument) for argument in config.args]
    return any(path.is_relative_to(place) for place in places)
