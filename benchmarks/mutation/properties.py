"""Properties as methods: mutmut changes nothing in decorated functions."""

from __future__ import annotations

import ast


def as_methods(source: str) -> str:
    """Return a module whose properties are methods until the line after them makes properties of them."""
    lines = source.splitlines()
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and _is_property(node)]
    for node in sorted(found, key=lambda node: node.lineno, reverse=True):
        decorator = node.decorator_list[0]
        indent = " " * node.col_offset
        lines.insert(node.end_lineno or node.lineno, f"{indent}{node.name} = property({node.name})")
        del lines[decorator.lineno - 1]
    return "\n".join(lines) + "\n"


def _is_property(node: ast.FunctionDef) -> bool:
    return [ast.unparse(decorator) for decorator in node.decorator_list] == ["property"]
