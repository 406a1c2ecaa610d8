"""Runs that leave reports, and how their JSON is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import jsonschema

from pytest_specgate.core.schemas import published
from tests.integration.conftest import FAKE_ENGINE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

EARLIER: Final = {
    "json": '{"schema_version": 1, "passed": true}',
    "markdown": "<!-- specgate -->\n### specgate: 1 PASS\n",
    "html": '<!DOCTYPE html>\n<head>\n<meta name="generator" content="pytest-specgate">\n</head>\n',
}
"""Reports that an earlier run may have left, by the name of the option."""


def read(folder: Path, name: str = "out.json") -> dict[str, Any]:
    """Return the JSON report of a folder, which is valid by its published schema."""
    found: dict[str, Any] = json.loads((folder / name).read_text(encoding="utf-8"))
    jsonschema.validate(found, published("report"))
    return found


def plain(pytester: pytest.Pytester, *arguments: str, text: str = "def test_plain(): pass\n") -> pytest.RunResult:
    """Run pytest without a gate, in this process."""
    pytester.makepyfile(test_plain=text)
    others = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return pytester.runpytest_inprocess(*others, f"--specgate-engine-command={FAKE_ENGINE}", *arguments)
