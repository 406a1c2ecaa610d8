"""The gate file that `specgate probe` writes: whole, readable, and without a secret, so that it can be kept."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.prompt_files import PromptFile
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.python_text import Writer, call, imported, is_secret_name, literal, named, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.probes import AcceptanceProbe
    from pytest_specgate.core.profile import RequestProfile

NAME: Final = "acceptance_probe.py"
"""Of the file: pytest takes it when it is named, and does not collect it when it looks through folders."""


@dataclasses.dataclass(frozen=True, slots=True)
class GateFile:
    """A gate file that was written for somebody.

    Attributes:
        text: all of it.
        secrets: what it takes from the environment, by the variable's name.
    """

    text: str
    secrets: Mapping[str, str]


def gate_file(probe: AcceptanceProbe, limits: Sequence[tuple[str, str]], *, again: str) -> GateFile:
    """Return the gate file of a probe.

    Args:
        probe: what is measured.
        limits: metric and least value, as they are written in a gate file; without any, nothing is judged.
        again: options with which pytest measures it again.
    """
    # Of variables that are no secrets by their name, the process of pytest must not see what is meant for the server.
    writer = Writer(taken=[name for name in probe.arm.env if not is_secret_name(name)])
    body = [*_arm_lines(probe.arm, writer), *_profile_lines(probe.profile), *_probe_lines(probe, limits)]
    names = ["AcceptanceProbe", "Arm", "RequestProfile", "at_least" if limits else "measured"]
    names += ["PromptFile"] if isinstance(probe.profile.prompts, PromptFile) else []
    names += ["probe"] if limits else []
    head = [*_head(writer, again), *(["import os", ""] if writer.secrets else [])]
    return GateFile("\n".join([*head, imported(names), "", *body, ""]), dict(writer.secrets))


def _head(writer: Writer, again: str) -> list[str]:
    lines = ['"""Acceptance of one speculative arm. `specgate probe` has written it; pytest measures it again."""', ""]
    lines += [f"# {one_line(f'pytest {NAME} {again}'.rstrip())}"]
    lines += [f"# Secrets are taken from the environment: {', '.join(writer.secrets)}"] if writer.secrets else []
    return [*lines, ""]


def _arm_lines(arm: Arm, writer: Writer) -> list[str]:
    fields = [
        literal(arm.name),
        named("model=", writer.value(arm.model, name="model", variable="PROBE_MODEL")),
        named("args=", writer.value(dict(arm.args), name="args", variable="PROBE")),
    ]
    if arm.env:
        fields.append(named("env=", writer.variables(dict(arm.env), prefix="PROBE")))
    return [text_of(call("ARM = Arm", fields)), ""]


def _profile_lines(profile: RequestProfile) -> list[str]:
    names = ("input_tokens", "output_tokens", "requests", "prompts")
    fields = [named(f"{name}=", literal(getattr(profile, name))) for name in names]
    return [text_of(call("LOAD = RequestProfile", fields))]


def _probe_lines(probe: AcceptanceProbe, limits: Sequence[tuple[str, str]]) -> list[str]:
    own = {"temperatures": probe.temperatures, "boots": probe.boots}
    fields = ["arm=ARM", "profile=LOAD", *(named(f"{name}=", literal(value)) for name, value in own.items())]
    claims = [call("at_least", [literal(metric), literal(limit)]) for metric, limit in limits]
    mark = call("@probe", ["PROBE", *claims]) if limits else "@measured(PROBE)"
    told = "Enough of what the arm drafts is accepted." if limits else "Measured, to be looked at."
    lines = [text_of(call("PROBE = AcceptanceProbe", fields)), "", "", text_of(mark)]
    return [*lines, "def test_acceptance() -> None:", f'    """{told}"""']
