"""The parts of the reference that are generated: options, commands, keys of stored files.

Usage: python docs/tools/reference.py     (rewrites what stands between the marks in docs/reference/*.md)

In a page they stand between ``<!-- generated: NAME -->`` and ``<!-- end -->``; the words around them are written by
hand. Help texts are not taken as argparse prints them, which differs from one version of Python to the next.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.cli import COMMANDS
from pytest_specgate.option_table import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_specgate.cli.command import Command
    from pytest_specgate.option_table import Option

_ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = _ROOT / "docs" / "reference"
SCHEMAS: Final = _ROOT / "docs" / "schema"
_WIDTH: Final = 100


def option_reference() -> str:
    """Return one section for each option, in the order of the table."""
    return "\n\n".join(_option(option) for option in OPTIONS)


def _option(option: Option) -> str:
    value = "" if option.switch else f"={option.metavar}"
    if option.act and not option.acts:
        places = "Typed each time: refused in the environment, the ini file and `addopts`."
    else:
        places = f"Environment: `{option.variable}`. Ini file: `{option.ini}`"
        places += ", `yes` or `no`." if option.switch else "."
        if option.acts:
            places += f" There only `{', '.join(_harmless(option))}`: the others are typed each time."
    return f"### `{option.flag}`\n\n`{option.flag}{value}`: {option.help}\n\n{places}"


def _harmless(option: Option) -> list[str]:
    return [word for word in option.metavar.split("|") if word not in option.acts]


class _Parser(argparse.ArgumentParser):
    """A parser that tells what it was given."""

    def declared(self) -> list[argparse.Action]:
        """Return options and arguments, without ``--help``."""
        return [action for action in self._actions if action.dest != "help"]


def command_reference() -> str:
    """Return one section for each command, those of `specgate baseline` included."""
    return "\n\n".join(_sections(COMMANDS, "specgate"))


def _sections(commands: Sequence[Command], program: str) -> Iterator[str]:
    for command in commands:
        yield _command(command, f"{program} {command.name}")
        yield from _sections(command.commands, f"{program} {command.name}")


def _command(command: Command, name: str) -> str:
    parser = _Parser(prog=name)
    command.add_arguments(parser)
    declared = parser.declared()
    parts = [
        f"## `{name}`",
        f"**{command.summary[0].upper()}{command.summary[1:]}.**",
        f"```text\n{_usage(name, command, declared)}\n```",
    ]
    parts.append(command.description.replace(" Exit status: ", "\n\nExit status: "))
    if declared:
        rows = [f"| `{_spelt(action)}` | {_meaning(action)} |" for action in _arguments_first(declared)]
        parts.append("\n".join(["| argument | meaning |", "|---|---|", *rows]))
    if command.example:
        parts.append(f"Example:\n\n```text\n{command.example}\n```")
    return "\n\n".join(parts)


def _usage(name: str, command: Command, declared: Sequence[argparse.Action]) -> str:
    words = [_bracketed(action) for action in declared if action.option_strings]
    words += [_bracketed(action) for action in declared if not action.option_strings]
    words += ["COMMAND ..."] if command.commands else []
    # A word of an option and its value are one word, wherever the line breaks.
    text = " ".join([name.replace(" ", "\0"), *(word.replace(" ", "\0") for word in words)])
    indent = " " * (len(name) + 1)
    lines = textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def _bracketed(action: argparse.Action) -> str:
    word = _spelt(action)
    if action.option_strings:
        return word if action.required else f"[{word}]"
    return {"+": f"{word} [{word} ...]", "*": f"[{word} ...]"}.get(str(action.nargs), word)


def _spelt(action: argparse.Action) -> str:
    metavar = action.metavar or (f"{{{','.join(action.choices)}}}" if action.choices else action.dest.upper())
    if not action.option_strings:
        return str(metavar)
    return f"{action.option_strings[-1]}{'' if action.nargs == 0 else f' {metavar}'}"


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "") % {"default": action.default, "prog": "specgate"}
    return " ".join(text.split()).replace("|", "\\|")


def _arguments_first(declared: Sequence[argparse.Action]) -> list[argparse.Action]:
    return sorted(declared, key=lambda action: bool(action.option_strings))


def schema_reference(name: str) -> str:
    """Return the keys of a stored file and of everything in it, as its published schema has them."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    parts = {str(schema["title"]): schema, **schema["$defs"]}
    return "\n\n".join(_part(title, part) for title, part in parts.items() if part.get("properties"))


def _part(title: str, part: dict[str, Any]) -> str:
    rows = [
        f"| `{key}`{_absence(key, part)} | {_kind(shape)} | {_cell(shape.get('description', ''))} |"
        for key, shape in part["properties"].items()
    ]
    head = [f"### {title}", "", _cell(part.get("description", "")), "", "| key | type | meaning |", "|---|---|---|"]
    return "\n".join([*head, *rows])


def _absence(key: str, part: dict[str, Any]) -> str:
    return "" if key in part.get("required", []) else " (optional)"


def _kind(shape: dict[str, Any]) -> str:
    """Return the type of a value in words."""
    if "$ref" in shape:
        name = str(shape["$ref"]).rpartition("/")[2]
        return "any JSON" if name == "JsonValue" else name
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(_kind(one) for one in shape["anyOf"]))
    if "const" in shape or "enum" in shape:
        return " or ".join(f"`{json.dumps(value)}`" for value in shape.get("enum", [shape.get("const")]))
    if shape.get("type") == "array":
        inside: dict[str, Any] = shape.get("items") or next(iter(shape.get("prefixItems", [])), {})
        return f"list of {_kind(inside)}"
    if shape.get("type") == "object" and isinstance(shape.get("additionalProperties"), dict):
        return f"object of {_kind(shape['additionalProperties'])}"
    return str(shape.get("type", "any JSON"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


GENERATED: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "options": ("options.md", option_reference),
    "commands": ("commands.md", command_reference),
    **{
        path.stem: ("schemas.md", lambda name=path.stem: schema_reference(name))  # type: ignore[misc]
        for path in sorted(SCHEMAS.glob("*.json"))
    },
}
"""Page and text of each generated part, by its name in the mark."""


def renewed(page: str, name: str, text: str) -> str:
    """Return a page with one generated part renewed.

    Raises:
        ValueError: the page has no such mark.
    """
    mark = re.compile(rf"(<!-- generated: {re.escape(name)} -->\n).*?(\n<!-- end -->)", re.DOTALL)
    if not mark.search(page):
        raise ValueError(f"the page has no mark for {name}")
    return mark.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page)


if __name__ == "__main__":
    for part, (file, write) in GENERATED.items():
        target = PAGES / file
        target.write_text(renewed(target.read_text(encoding="utf-8"), part, write()), encoding="utf-8")
