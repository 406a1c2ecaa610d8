"""The page about the fake says what the code says, and its examples run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pytest_specgate.testing
from pytest_specgate.testing import EngineTruth, FakeSettings, FakeTruth, RequestTruth

if TYPE_CHECKING:
    from pydantic import BaseModel

PAGE = Path(__file__).parents[2] / "docs" / "testing-without-a-gpu.md"


def meaning(model: type[BaseModel], name: str) -> str:
    """Return the docstring of a field, on one line."""
    return " ".join((model.model_fields[name].description or "").split())


def rows(columns: int) -> set[tuple[str, ...]]:
    """Return the cells of all table rows of the page that begin with a name."""
    lines = re.findall(r"^\| (`\w+`.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {cells for cells in (tuple(line.split(" | ")) for line in lines) if len(cells) == columns}


def examples() -> list[str]:
    """Return the Python examples of the page, in order."""
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_page_lists_every_setting() -> None:
    """Each setting stands there with its default and its meaning, word for word, and no other does."""
    defaults = FakeSettings().model_dump(mode="json")
    expected = {
        (f"`{name}`", f"`{json.dumps(default)}`", meaning(FakeSettings, name)) for name, default in defaults.items()
    }

    assert rows(columns=3) == expected
    assert all(text for _, _, text in expected)


def test_the_page_lists_every_key_of_the_truth() -> None:
    """Each key of the truth stands there with its meaning, word for word, and no other does."""
    models = (RequestTruth, EngineTruth, FakeTruth)

    assert rows(columns=2) == {(f"`{name}`", meaning(model, name)) for model in models for name in model.model_fields}


def test_the_examples_run() -> None:
    """What the page shows can be pasted: gate files declare valid gates, and plain tests pass."""
    namespace: dict[str, Any] = {}
    for example in examples():
        exec(compile(example, str(PAGE), "exec"), namespace)
    plain = [name for name, value in namespace.items() if name.startswith("test_") and not hasattr(value, "pytestmark")]
    for name in plain:
        namespace[name]()

    assert plain == ["test_my_client_reports_a_broken_stream", "test_my_arithmetic"]
    assert len(examples()) == 4


@pytest.mark.parametrize("name", pytest_specgate.testing.__all__)
def test_public_names_are_documented(name: str) -> None:
    """The page mentions everything that is public."""
    assert f"`{name}" in PAGE.read_text(encoding="utf-8").replace("pytest_specgate.testing.", "")
