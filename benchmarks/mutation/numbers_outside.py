"""Numbers outside functions: constants and defaults of fields, which are read once, when a module is imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SMALL = 0.1
"""By what share of itself a fraction is changed, in both directions."""

FIRST = ("test_rule", "test_noise", "test_planning", "test_statistics", "test_intervals", "test_verdict_interval")
"""Tests that notice most of these changes, so that few of the others have to run."""


def survivors_of(path: Path, *, folder: Path, environment: Mapping[str, str]) -> tuple[int, list[str]]:
    """Try every number of a module, and return how many changes that were and those that no test noticed.

    Args:
        path: of the module.
        folder: root of its tree.
        environment: variables of the tests.
    """
    original = path.read_bytes()
    tried, survivors = 0, []
    try:
        for line, changed in changes(original):
            path.write_bytes(changed)
            tried += 1
            if _tests_pass(folder, environment):
                old, new = (text.splitlines()[line - 1].decode() for text in (original, changed))
                survivors.append(f"# {path.name}:{line}\n-{old}\n+{new}")
    finally:
        path.write_bytes(original)
    return tried, survivors


def changes(source: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the module with one number changed each time, and the line of that number."""
    lines = source.splitlines(keepends=True)
    for number in _numbers(ast.parse(source).body):
        line, start, end = number.lineno - 1, number.col_offset, number.end_col_offset
        for value in _others(number.value):
            changed = lines[line][:start] + repr(value).encode() + lines[line][end:]
            yield number.lineno, b"".join([*lines[:line], changed, *lines[line + 1 :]])


def _numbers(statements: list[ast.stmt]) -> Iterator[ast.Constant]:
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            yield from _numbers(statement.body)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            inside = ast.walk(statement.value)
            yield from (one for one in inside if isinstance(one, ast.Constant) and type(one.value) in {int, float})


def _others(value: object) -> list[object]:
    if isinstance(value, float) and value:
        return [value * (1 - SMALL), value * (1 + SMALL)]
    assert isinstance(value, int | float)
    return [value + 1]


def _tests_pass(folder: Path, environment: Mapping[str, str]) -> bool:
    first = [f"tests/core/{name}.py" for name in FIRST]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *first, "tests/core"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)  # noqa: S603  - our own interpreter, no shell
    return done.returncode == 0
