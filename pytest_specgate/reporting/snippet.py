"""The gate file that pins a draft horizon: what was measured once becomes a claim that every later run is held to."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core.levels import level_label
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.pinning import met_off
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.prompt_files import PromptFile
from pytest_specgate.reporting.baselines import one_line
from pytest_specgate.reporting.knee_words import pin_note
from pytest_specgate.reporting.python_text import (
    WIDTH,
    Writer,
    call,
    imported,
    is_secret_name,
    literal,
    named,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_specgate.core.advice import Advice
    from pytest_specgate.core.floors import NoiseFloor
    from pytest_specgate.core.pinning import Claim, Met
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.reporting.python_text import Code

_INSIDE: Final = WIDTH - 4
"""Columns inside the brackets of a gate."""

_ACCEPTED: Final = 0.9
"""Share of the measured acceptance length that is claimed."""


def gate_snippet(  # noqa: PLR0913  - the record, and which horizon of it
    record: WindowRecord,
    told: Sequence[Advice],
    *,
    k: int,
    path: str,
    arm: str | None = None,
    floors: Mapping[str, NoiseFloor] | None = None,
) -> str:
    """Return the text of a gate file that pins a draft horizon against speculation off, as it was measured.

    What the horizon has lost is claimed by nobody, and a comment says so. Records hold no secrets: where one stood the
    file takes it from the environment.

    Args:
        record: of a window in which the two met.
        told: advice by objective, which stands at the top of the file, and at whose level a gain or a loss is shown.
        k: the horizon.
        path: where the record lies.
        arm: name of the horizon's arm, where a window has several drafters.
        floors: noise floors by metric, which replace what the record tells.

    Raises:
        UsageError: the horizon is off, has lost in everything, or the window has not both of them with figures at a
            common load level.
    """
    met = met_off(record, k=k, path=path, told=told, arm=arm, floors=floors)
    claims = met.claims()
    writer = Writer(taken=[name for name in met.off.env if not is_secret_name(name)])
    body = [*_arms(met, writer), "", _profile(met.profile, writer), *_floors(met, claims), "", _pair(met), "", ""]
    head = [*_head(record, told, writer, k=k, path=path), "", *(["import os", ""] if writer.secrets else [])]
    return "\n".join([*head, _imports(met, claims), "", *body, *_gate(met, claims), ""])


def _head(record: WindowRecord, told: Sequence[Advice], writer: Writer, *, k: int, path: str) -> Iterator[str]:
    yield from _comment(f"k={k}, as it was measured against speculation off: later runs are held to it.")
    yield from _comment(f"record: {path}, of {record.created_at}")
    if not record.finished:
        why = f": {record.stopped}" if record.stopped else ""
        yield from _comment(f"the window did not run to its end{why}")
    for one in told:
        yield from _comment(f"{one.objective} ({_where(one)}): {one.words}")
    if note := pin_note(told, k):
        yield from _comment(note)
    if writer.secrets:
        yield from _comment(f"Secrets are taken from the environment: {', '.join(writer.secrets)}")


def _comment(text: str, *, width: int = WIDTH) -> list[str]:
    """Return a comment; what is too long goes on in further lines."""
    return textwrap.wrap(
        one_line(text), width, initial_indent="# ", subsequent_indent="#   ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _where(told: Advice) -> str:
    label = metric(told.metric).label
    return label if told.at is None else f"{label} at {level_label(told.at)}"


def _imports(met: Met, claims: Iterable[Claim]) -> str:
    names = ["Arm", "ArmPair", "RequestProfile", "gate", *(one.kind for one in claims if one.kind is not None)]
    names += ["PromptFile"] if isinstance(met.profile.prompts, PromptFile) else []
    names += ["noise_floor"] if any(_has_floor(met, one) for one in claims) else []
    names += ["at_least"] if _limit(met) is not None else []
    return imported(names)


def _arms(met: Met, writer: Writer) -> list[str]:
    off, own = met.off, {name: value for name, value in met.arm.args.items() if met.off.args.get(name) != value}
    fields: list[Code] = [
        literal(off.name),
        named("model=", writer.value(off.model, name="model", variable="OFF_MODEL")),
    ]
    if off.args:
        fields.append(named("args=", writer.value(dict(off.args), name="args", variable="OFF")))
    if off.env:
        fields.append(named("env=", writer.variables(dict(off.env), prefix="OFF")))
    if off.python is not None:
        fields.append(named("python=", literal(off.python)))
    changed = named("args=", writer.value(own, name="args", variable=_name(met)))
    return [
        text_of(call("OFF = Arm", fields, whole=True)),
        text_of(call(f"{_name(met)} = OFF.vary", [literal(met.arm.name), changed])),
    ]


def _name(met: Met) -> str:
    """Return the name of the horizon's arm in the file."""
    return f"K{met.k}"


def _profile(profile: RequestProfile, writer: Writer) -> str:
    """Return the load; what has a default and is left at it is not written."""
    fields = RequestProfile.__pydantic_fields__  # type: ignore[attr-defined]  # of a pydantic dataclass
    changed: dict[str, Any] = {
        name: getattr(profile, name)
        for name, field in fields.items()
        if field.is_required() or getattr(profile, name) != field.get_default(call_default_factory=True)
    }
    written = [
        named(f"{name}=", writer.value(value, name=name, variable=f"LOAD_{name.upper()}"))
        for name, value in changed.items()
    ]
    return text_of(call("LOAD = RequestProfile", written, whole=True))


def _percent(fraction: float) -> Code:
    return literal(f"{100 * fraction:.6g}%")


def _has_floor(met: Met, claim: Claim) -> bool:
    return claim.kind is not None and claim.metric in met.floors


def _floors(met: Met, claims: Iterable[Claim]) -> list[str]:
    lines = []
    for one in claims:
        if _has_floor(met, one):
            floor = met.floors[one.metric]
            made = call("noise_floor", [_percent(floor.fraction or 0.0), named("source=", literal(floor.source))])
            lines.append(f"    {text_of(named(f'{literal(one.metric)}: ', made), indent=4, after=1)},")
    return ["", "FLOORS = {", *lines, "}"] if lines else []


def _pair(met: Met) -> str:
    allowed = {} if met.pair is None else met.pair.allow_engine_differences
    varies = ("args.speculative_config",) if met.pair is None else met.pair.varies
    fields: list[Code] = ["reference=OFF", f"candidate={_name(met)}"]
    fields += [named("varies=", literal(varies[0] if len(varies) == 1 else varies)), "profile=LOAD"]
    fields += [f"rounds={met.rounds}"]
    fields += [named("allow_engine_differences=", literal(dict(allowed)))] if allowed else []
    return text_of(call("PAIR = ArmPair", fields, whole=True))


def _gate(met: Met, claims: Sequence[Claim]) -> list[str]:
    lines = ["PAIR,", *(line for one in claims for line in _claim(met, one)), *_acceptance(met)]
    return [
        "@gate(", *(f"    {line}" for line in lines), ")",
        f"def test_k{met.k}_against_off() -> None:", f'    """{_told(met, claims)}"""',
    ]  # fmt: skip


def _told(met: Met, claims: Sequence[Claim]) -> str:
    """Return what was measured, in a sentence."""
    won = [metric(one.metric).label for one in claims if one.won]
    if not won:
        return f"k={met.k} was measured better than off in nothing by more than the noise."
    *most, last = won
    listed = f"{', '.join(most)} and {last}" if most else last
    return f"k={met.k} was measured better than off in {listed}."


def _claim(met: Met, claim: Claim) -> Iterator[str]:
    if claim.kind is None:
        what = f"{metric(claim.metric).label} at {level_label(claim.at)}"
        yield from _comment(f"not claimed: {what}, measured {claim.words}", width=_INSIDE)
        return
    yield from _comment(f"measured: {claim.words}", width=_INSIDE)
    keyword = "by" if claim.kind == "better" else "margin"
    fields = [literal(claim.metric), named("at=", literal(claim.at)), named(f"{keyword}=", _percent(claim.fraction))]
    fields += [f"noise=FLOORS[{literal(claim.metric)}]"] if _has_floor(met, claim) else []
    yield f"{text_of(call(claim.kind, fields), indent=4, after=1)},"


def _acceptance(met: Met) -> Iterator[str]:
    """Yield the claim that drafts are still accepted: nothing else tells a drafter that no longer fits its model."""
    length, limit = _acceptance_length(met), _limit(met)
    if length is not None and limit is not None:
        at = named("at=", literal(next(iter(met.compared.values()))))
        yield f"# measured: {length:.3f}"
        claim = call("at_least", [literal("acceptance_length"), literal(f"{limit:g}"), at])
        yield f"{text_of(claim, indent=4, after=1)},"


def _limit(met: Met) -> float | None:
    """Return the least acceptance length that is claimed; `None` where it would be that of no accepted draft token."""
    length = _acceptance_length(met)
    limit = 0.0 if length is None else math.floor(100 * _ACCEPTED * length) / 100
    return limit if limit > 1 else None


def _acceptance_length(met: Met) -> float | None:
    measured = met.found.measured.get(next(iter(met.compared.values())), ())
    curve = next((one.curve for one in measured if one.k == met.k), None)
    return None if curve is None else curve.acceptance_length.value
