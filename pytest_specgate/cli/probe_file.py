"""The gate file that `specgate probe` writes: whole, readable, and without a secret, so that it can be kept."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.prompt_files import PromptFile
from pytest_specgate.core.redaction import REDACTED, redacted
from pytest_specgate.reporting.baselines import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.probes import AcceptanceProbe
    from pytest_specgate.core.profile import RequestProfile

NAME: Final = "acceptance_probe.py"
"""Of the file: pytest takes it when it is named, and does not collect it when it looks through folders."""

_WIDTH: Final = 100


@dataclasses.dataclass(frozen=True, slots=True)
class GateFile:
    """A gate file that was written for somebody.

    Attributes:
        text: all of it.
        secrets: what it takes from the environment, by the variable's name.
    """

    text: str
    secrets: Mapping[str, str]


@dataclasses.dataclass(slots=True)
class _Writer:
    """Writes values as Python, and secrets as variables of the environment.

    Attributes:
        taken: names that no secret may have, since something else stands under them.
        secrets: by the variable's name.
    """

    taken: Iterable[str]
    secrets: dict[str, str] = dataclasses.field(default_factory=dict)

    def value(self, value: JsonValue, *, name: str, variable: str) -> str:
        """Return the expression of a value; whatever is in it stays a value.

        Args:
            value: any JSON.
            name: that it stands under, which may give a secret away.
            variable: name that it has in the environment if it is one.
        """
        if isinstance(value, dict):
            parts = [self._item(key, item, name=name, variable=variable) for key, item in value.items()]
            return self._between("{", parts, "}")
        if isinstance(value, list):
            parts = [self.value(item, name=name, variable=variable) for item in value]
            return self._between("[", parts, "]")
        if isinstance(value, str) and redacted(value, name=name) != value:
            return f"os.environ[{_literal(self._kept(value, variable))}]"
        return _literal(value)

    def _item(self, key: str, item: JsonValue, *, name: str, variable: str) -> str:
        # What stands below a secret's name is one, too.
        below = name if _secret(name) else key
        return f"{_literal(key)}: {self.value(item, name=below, variable=f'{variable}_{_word(key)}')}"

    def _between(self, left: str, parts: Sequence[str], right: str) -> str:
        line = f"{left}{', '.join(parts)}{right}"
        if len(line) <= _WIDTH or len(parts) < 2:
            return line
        inside = "".join(f"    {_indented(part)},\n" for part in parts)
        return f"{left}\n{inside}{right}"

    def _kept(self, secret: str, variable: str) -> str:
        if "\0" in secret:
            raise UsageError(f"the secret for {variable} has a NUL, which no variable of an environment can hold")
        name, number = variable, 1
        while name in self.taken or self.secrets.get(name, secret) != secret:
            number += 1
            name = f"{variable}_{number}"
        self.secrets[name] = secret
        return name


def gate_file(probe: AcceptanceProbe, limits: Sequence[tuple[str, str]], *, again: str) -> GateFile:
    """Return the gate file of a probe.

    Args:
        probe: what is measured.
        limits: metric and least value, as they are written in a gate file; without any, nothing is judged.
        again: options with which pytest measures it again.
    """
    # Of variables that are no secrets by their name, the process of pytest must not see what is meant for the server.
    writer = _Writer(taken=[name for name in probe.arm.env if not _secret(name)])
    body = [*_arm_lines(probe.arm, writer), *_profile_lines(probe.profile), *_probe_lines(probe, limits)]
    names = ["AcceptanceProbe", "Arm", "RequestProfile", "at_least" if limits else "measured"]
    names += ["PromptFile"] if isinstance(probe.profile.prompts, PromptFile) else []
    names += ["probe"] if limits else []
    head = [*_head(writer, again), *(["import os", ""] if writer.secrets else [])]
    imports = f"from pytest_specgate import {', '.join(sorted(names))}"
    return GateFile("\n".join([*head, imports, "", *body, ""]), dict(writer.secrets))


def _head(writer: _Writer, again: str) -> list[str]:
    lines = ['"""Acceptance of one speculative arm. `specgate probe` has written it; pytest measures it again."""', ""]
    lines += [f"# {one_line(f'pytest {NAME} {again}'.rstrip())}"]
    lines += [f"# Secrets are taken from the environment: {', '.join(writer.secrets)}"] if writer.secrets else []
    return [*lines, ""]


def _arm_lines(arm: Arm, writer: _Writer) -> list[str]:
    fields = [_literal(arm.name), f"model={writer.value(arm.model, name='model', variable='PROBE_MODEL')}"]
    fields.append(f"args={writer.value(dict(arm.args), name='args', variable='PROBE')}")
    if arm.env:
        fields.append(f"env={{{', '.join(_variable(name, value, writer) for name, value in arm.env.items())}}}")
    return [*_call("ARM = Arm", fields), ""]


def _variable(name: str, value: str, writer: _Writer) -> str:
    variable = name if _secret(name) else f"PROBE_{_word(name)}"
    return f"{_literal(name)}: {writer.value(value, name=name, variable=variable)}"


def _profile_lines(profile: RequestProfile) -> list[str]:
    prompts = profile.prompts
    source = f"PromptFile({_literal(prompts.path)})" if isinstance(prompts, PromptFile) else _literal(prompts)
    counts = ", ".join(f"{_literal(at)}: {count}" for at, count in profile.requests.items())
    fields = [f"input_tokens={profile.input_tokens!r}", f"output_tokens={profile.output_tokens!r}"]
    return _call("LOAD = RequestProfile", [*fields, f"requests={{{counts}}}", f"prompts={source}"])


def _probe_lines(probe: AcceptanceProbe, limits: Sequence[tuple[str, str]]) -> list[str]:
    fields = ["arm=ARM", "profile=LOAD", f"temperatures={probe.temperatures!r}", f"boots={probe.boots!r}"]
    claims = [f"at_least({_literal(metric)}, {_literal(limit)})" for metric, limit in limits]
    mark = _call("@probe", ["PROBE", *claims]) if limits else ["@measured(PROBE)"]
    told = "Enough of what the arm drafts is accepted." if limits else "Measured, to be looked at."
    lines = _call("PROBE = AcceptanceProbe", fields)
    return [*lines, "", "", *mark, "def test_acceptance() -> None:", f'    """{told}"""']


def _call(name: str, fields: Sequence[str]) -> list[str]:
    line = f"{name}({', '.join(fields)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return [line]
    return [f"{name}(", *(f"    {_indented(field)}," for field in fields), ")"]


def _literal(value: object) -> str:
    """Return a plain value as Python, with the quotes that most code has."""
    plain = isinstance(value, str) and value.isprintable() and not {'"', "\\"} & set(value)
    return f'"{value}"' if plain else repr(value)


def _indented(text: str) -> str:
    # Within a text a line feed is written as two letters, so each one here ends a line of ours.
    return text.replace("\n", "\n    ")


def _word(name: str) -> str:
    return re.sub(r"\W+", "_", name, flags=re.ASCII).upper()


def _secret(name: str) -> bool:
    return redacted("x", name=name) == REDACTED
