"""The page about the request profile names every field that is compared, every argument, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.core.profile import RequestProfile

if TYPE_CHECKING:
    from tests.window.conftest import Declare, World

PAGE = Path(__file__).parents[2] / "docs" / "request-profile.md"


def _first_cells(title: str) -> list[str]:
    """Return the names in the first column of the first table under a title."""
    part = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    table = part.partition("|---")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_compared_field_is_in_the_table(world: World, declare: type[Declare]) -> None:
    """The table has the fields of a measured boot, once each, with the load level as a placeholder."""
    record = world.measure(declare.pair(None, 4, requests={1: 10, "1 T=0.8": 10, "4/s": 16}))
    fields = {re.sub(r"\.[cr][0-9.]+(-t[0-9.]+)?$", ".<load>", name) for name in record.boots[0].profile}
    listed = _first_cells("Every field that is compared")

    assert len(set(listed)) == len(listed)
    assert set(listed) == fields


def test_every_argument_is_in_the_table() -> None:
    """The table of arguments has the fields of the class, once each."""
    listed = _first_cells("What a gate file says")

    assert len(set(listed)) == len(listed)
    assert set(listed) == set(RequestProfile.__annotations__)
