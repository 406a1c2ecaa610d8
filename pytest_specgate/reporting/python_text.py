"""Python as its formatters leave it: values, calls, and secrets as variables of the environment."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.prompt_files import PromptFile
from pytest_specgate.core.redaction import REDACTED, redacted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH: Final = 100
"""Columns of a file that is written for somebody."""

_INDENT: Final = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Items between brackets: on one line where there is room for them, else one a line.

    Attributes:
        left: what stands before the items, as ``LOAD = RequestProfile(``.
        items: the items.
        right: what stands behind them.
        whole: one a line in any case.
        is_tuple: whether a single item keeps its comma.
    """

    left: str
    items: tuple[Code, ...]
    right: str
    whole: bool = False
    is_tuple: bool = False

    @property
    def flat(self) -> str:
        """All of it on one line."""
        comma = "," if self.is_tuple and len(self.items) == 1 else ""
        return f"{self.left}{', '.join(map(_flat, self.items))}{comma}{self.right}"


Code: TypeAlias = "str | Group"


def text_of(code: Code, *, indent: int = 0, after: int = 0) -> str:
    """Return the text of an expression or a statement.

    Args:
        code: what is written.
        indent: column that it begins at.
        after: columns that follow its last line.
    """
    if isinstance(code, str):
        return code
    if not code.items or (not code.whole and indent + len(code.flat) + after <= WIDTH):
        return code.flat
    inside = indent + _INDENT
    items = "".join(f"{' ' * inside}{text_of(item, indent=inside, after=1)},\n" for item in code.items)
    return f"{code.left}\n{items}{' ' * indent}{code.right}"


def named(name: str, code: Code) -> Code:
    """Return code with something before it: ``args=``, ``"key": ``."""
    return f"{name}{code}" if isinstance(code, str) else dataclasses.replace(code, left=f"{name}{code.left}")


def call(name: str, fields: Sequence[Code], *, whole: bool = False) -> Group:
    """Return a call; before its name an assignment or a decorator's sign may stand."""
    return Group(f"{name}(", tuple(fields), ")", whole)


def imported(names: Iterable[str]) -> str:
    """Return the line, or the lines, that import names from this package."""
    found = sorted({*names})
    flat = f"from pytest_specgate import {', '.join(found)}"
    return flat if len(flat) <= WIDTH else text_of(call("from pytest_specgate import ", found, whole=True))


def literal(value: Any) -> Code:
    """Return a value as Python, with the quotation marks that formatters want."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return Group("{", tuple(named(f"{_flat(literal(key))}: ", literal(item)) for key, item in value.items()), "}")
    if isinstance(value, list | tuple):
        return _sequence(value, map(literal, value))
    if isinstance(value, PromptFile):
        return call("PromptFile", [literal(value.name)])
    # A formatter drops the sign of 1e+22.
    return repr(value).replace("e+", "e")


def word_of(name: str) -> str:
    """Return a text as a part of a variable's name."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).upper()


def is_secret_name(name: str) -> bool:
    """Whether what stands under a name is a secret."""
    return redacted("x", name=name) == REDACTED


@dataclasses.dataclass(slots=True)
class Writer:
    """Writes values as Python, and secrets as variables of the environment.

    Attributes:
        taken: names that no secret may have, since something else stands under them.
        secrets: by the variable's name; of a record, which holds none, what it holds instead.
    """

    taken: Iterable[str] = ()
    secrets: dict[str, str] = dataclasses.field(default_factory=dict)

    def value(self, value: Any, *, name: str, variable: str) -> Code:
        """Return the expression of a value; whatever is in it stays a value.

        Args:
            value: any JSON, or what a profile holds.
            name: that it stands under, which may give a secret away.
            variable: name that it has in the environment if it is one.

        Raises:
            UsageError: no environment can hold a secret.
        """
        if isinstance(value, dict):
            return Group("{", tuple(self._item(*item, name=name, variable=variable) for item in value.items()), "}")
        if isinstance(value, list | tuple):
            return _sequence(value, (self.value(item, name=name, variable=variable) for item in value))
        if isinstance(value, str) and (REDACTED in value or redacted(value, name=name) != value):
            return f"os.environ[{literal(self._kept(value, variable))}]"
        return literal(value)

    def variables(self, env: dict[str, str], *, prefix: str) -> Code:
        """Return the environment of a server; a secret keeps its own name.

        Args:
            env: the variables.
            prefix: of the names of the others, where their values hold a secret.
        """
        items = (
            named(
                f"{literal(name)}: ",
                self.value(value, name=name, variable=name if is_secret_name(name) else f"{prefix}_{word_of(name)}"),
            )
            for name, value in env.items()
        )
        return Group("{", tuple(items), "}")

    def _item(self, key: object, item: Any, *, name: str, variable: str) -> Code:
        # What stands below a secret's name is one, too.
        below = name if is_secret_name(name) else f"{key}"
        return named(f"{literal(key)}: ", self.value(item, name=below, variable=f"{variable}_{word_of(f'{key}')}"))

    def _kept(self, secret: str, variable: str) -> str:
        if "\0" in secret:
            raise UsageError(f"the secret for {variable} has a NUL, which no variable of an environment can hold")
        name, number = variable, 1
        while name in self.taken or not self._is_free(name, secret):
            number += 1
            name = f"{variable}_{number}"
        self.secrets[name] = secret
        return name

    def _is_free(self, name: str, secret: str) -> bool:
        """Whether a variable has no other secret; two that were cut out of a record are never known to be the same."""
        return name not in self.secrets or (self.secrets[name] == secret and REDACTED not in secret)


def _sequence(value: list[Any] | tuple[Any, ...], items: Iterable[Code]) -> Group:
    left, right = "[]" if isinstance(value, list) else "()"
    return Group(left, tuple(items), right, is_tuple=isinstance(value, tuple))


def _flat(code: Code) -> str:
    return code if isinstance(code, str) else code.flat


def _quoted(text: str) -> str:
    """Return a text in double quotation marks, unless single ones need fewer signs before them."""
    shown = repr(text)
    if shown.startswith('"') or text.count('"') > text.count("'"):
        return shown
    # Python takes single ones where it can, and then every one of these inside has a sign before it.
    inside = shown[1:-1].replace("\\'", "'").replace('"', '\\"')
    return f'"{inside}"'
