"""The gate file that pins a draft horizon: what was measured once becomes a claim that every later run is held to."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core import planning
from pytest_specgate.core.advice import OBJECTIVES
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.horizon_records import declared_floors, window_horizons
from pytest_specgate.core.levels import level_label, temperature_of
from pytest_specgate.core.metrics import metric
from pytest_specgate.core.noise import UNKNOWN_NOISE
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.prompt_files import PromptFile
from pytest_specgate.core.redaction import REDACTED
from pytest_specgate.core.statistics import geometric_mean, raw_change
from pytest_specgate.core.verdict import change_words
from pytest_specgate.reporting.baselines import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.advice import Advice, HorizonFigures
    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.floors import NoiseFloor
    from pytest_specgate.core.horizon_records import DrafterHorizons
    from pytest_specgate.core.levels import Level
    from pytest_specgate.core.noise import Noise
    from pytest_specgate.core.records import PairRecord, WindowRecord

_WIDTH: Final = 100
_FAMILY: Final = len(OBJECTIVES)
"""Claims of the gate that share its error rates."""

_ROUNDS_UNKNOWN: Final = 4
"""Rounds where nothing tells the noise beforehand, so that they have to."""

_MARGIN_UNKNOWN: Final = 0.1
_FLOORS: Final = 1.5
"""Least margin, in noise floors: the claim is to stop a loss, and not the noise."""

_ACCEPTED: Final = 0.9
"""Share of the measured acceptance length that is claimed."""

_PART: Final = "part of another text"


def gate_snippet(record: WindowRecord, told: Sequence[Advice], *, k: int, path: str, drafter: str | None = None) -> str:
    """Return the text of a gate file that pins a draft horizon against speculation off, as it was measured.

    Args:
        record: of a window in which the two met.
        told: advice by objective, which stands at the top of the file.
        k: the horizon.
        path: where the record lies.
        drafter: its name, where a window has several.

    Raises:
        UsageError: the horizon is off, or the window has not both of them with figures at a common load level.
    """
    if k < 1:
        raise UsageError("no gate file pins k=0: where speculation is off there is nothing to hold it to")
    met = _met(record, k=k, path=path, drafter=drafter)
    parts = [
        _head(record, told, k=k, path=path),
        _imports(met),
        _arms(met),
        _profile(record.profile),
        *_floors(met),
        _pair(met),
        _gate(met),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


@dataclasses.dataclass(frozen=True, slots=True)
class _Met:
    """A horizon and off, which met in one window.

    Attributes:
        k: the horizon.
        off: arm without speculation.
        arm: arm of the horizon.
        found: what the window tells of horizons.
        compared: what they are compared by, each metric with its load level.
        floors: that were declared, by metric.
        pair: of the record, where the two are one.
        rounds: of the gate.
        profile: the load.
    """

    k: int
    off: Arm
    arm: Arm
    found: DrafterHorizons
    compared: Mapping[str, Level]
    floors: Mapping[str, NoiseFloor]
    pair: PairRecord | None
    rounds: int
    profile: RequestProfile

    @property
    def name(self) -> str:
        """Of the horizon's arm in the file."""
        return f"K{self.k}"

    def gain(self, name: str) -> float:
        """Return the mean log ratio by which the horizon is better than off, over their common rounds."""
        off, arm = (_by_round(self.found, k, name, self.compared[name]) for k in (0, self.k))
        shared = sorted(off.keys() & arm.keys())
        ratio = math.log(geometric_mean([arm[n] for n in shared]) / geometric_mean([off[n] for n in shared]))
        return ratio if metric(name).higher_is_better else -ratio

    def change(self, name: str) -> float:
        """Return the same as a raw change of the metric, a fraction."""
        return raw_change(self.gain(name), higher_is_better=metric(name).higher_is_better)

    def noise(self, name: str) -> Noise:
        """Return what is known of the noise of a paired difference."""
        return self.found.noise.get(name, UNKNOWN_NOISE)


def _met(record: WindowRecord, *, k: int, path: str, drafter: str | None) -> _Met:
    drafters = [one for one in window_horizons(record, path).drafters if drafter in (None, one.drafter)]
    found = next((one for one in drafters if {0, k} <= one.arms.keys()), None)
    if found is None:
        raise UsageError(f"{path} has no two readable arms, off and k={k}, so no gate file can be written from it")
    arms = {arm.name: arm for arm in record.arms}
    off, arm = arms[found.arms[0]], arms[found.arms[k]]
    compared = _compared(found, k=k)
    if not compared:
        raise UsageError(f"{path} has no load level at which off and k={k} can be compared")
    pair = next((one for one in record.pairs if (one.reference, one.candidate) == (off.name, arm.name)), None)
    rounds = 2 if pair is None else pair.rounds
    known = all(found.noise.get(name, UNKNOWN_NOISE).df for name in compared)
    return _Met(
        k, off, arm, found, compared, _largest_floors(record), pair,
        rounds if known else max(rounds, _ROUNDS_UNKNOWN), record.profile,
    )  # fmt: skip


def _compared(found: DrafterHorizons, *, k: int) -> dict[str, Level]:
    """Return what the two can be compared by: of one user's speed the lowest load level, of the others the highest.

    Levels with a temperature of their own come last: the same load is there at that of the profile.
    """
    levels: dict[str, Level] = {}
    for what, name in OBJECTIVES.items():
        shared = [
            at for at in found.measured if _by_round(found, 0, name, at).keys() & _by_round(found, k, name, at).keys()
        ]
        shared = [at for at in shared if temperature_of(at) is None] or shared
        if shared:
            levels[name] = shared[0] if what == "per-user speed" else shared[-1]
    return levels


def _by_round(found: DrafterHorizons, k: int, name: str, at: Level) -> dict[int, float]:
    figures = (one for one in found.figures if (one.k, one.at) == (k, at))
    one: HorizonFigures | None = next(figures, None)
    return {} if one is None else dict(zip(one.rounds, one.values.get(name, ()), strict=False))


def _largest_floors(record: WindowRecord) -> dict[str, NoiseFloor]:
    """Return the floor of each metric: of several that were declared, the largest."""
    floors: dict[str, NoiseFloor] = {}
    for name, floor in declared_floors(record):
        known = floors.get(name)
        if known is None or (known.fraction or 0.0) < (floor.fraction or 0.0):
            floors[name] = floor
    return floors


def _head(record: WindowRecord, told: Sequence[Advice], *, k: int, path: str) -> str:
    lines = [
        f"k={k}, as it was measured against speculation off: a gate file that holds every later run to it.",
        f"record: {path}, of {record.created_at}",
        *(f"{one.objective} ({_where(one)}): {one.words}" for one in told),
    ]
    return "\n".join(f"# {one_line(line)}" for line in lines)


def _where(told: Advice) -> str:
    label = metric(told.metric).label
    return label if told.at is None else f"{label} at {level_label(told.at)}"


def _imports(met: _Met) -> str:
    kinds = {_kind(met, name)[0] for name in met.compared}
    names = ["Arm", "ArmPair", *(["PromptFile"] if isinstance(met.profile.prompts, PromptFile) else [])]
    names += ["RequestProfile", "at_least", *(["better"] if "better" in kinds else []), "gate"]
    names += [*(["noise_floor"] if met.floors else []), *(["not_worse"] if "not_worse" in kinds else [])]
    return f"from pytest_specgate import {', '.join(names)}"


def _arms(met: _Met) -> str:
    """Return both arms; what stood under a secret's name is in no record, and is named in a comment."""
    own = {name: value for name, value in met.arm.args.items() if met.off.args.get(name) != value}
    off: dict[str, Any] = {"model": met.off.model, "args": met.off.args, "env": met.off.env, "python": met.off.python}
    lines = [*_secrets(off), f"OFF = Arm(\n    {_flat(met.off.name)},\n{_keywords(off)})"]
    lines += [*_secrets({"args": own}), f"{met.name} = OFF.vary({_flat(met.arm.name)}, args={_python(own, indent=4)})"]
    return "\n".join(lines)


def _profile(profile: RequestProfile) -> str:
    fields = RequestProfile.__pydantic_fields__  # type: ignore[attr-defined]  # of a pydantic dataclass
    changed = {
        name: getattr(profile, name)
        for name, field in fields.items()
        if field.is_required() or getattr(profile, name) != field.get_default(call_default_factory=True)
    }
    return "\n".join([*_secrets(changed), f"LOAD = RequestProfile(\n{_keywords(changed)})"])


def _keywords(values: Mapping[str, Any]) -> str:
    """Return keyword arguments, one a line; those that are empty or a secret are left out."""
    kept = {name: _without_secrets(value) for name, value in values.items() if value not in ({}, None)}
    shown = {name: value for name, value in kept.items() if value is not _PART}
    return "".join(f"    {name}={_python(value, indent=4)},\n" for name, value in shown.items())


def _python(value: Any, *, indent: int) -> str:
    """Return a value as Python writes it, on one line where there is room for it."""
    plain = _without_secrets(value)
    flat, inside = _flat(plain), " " * (indent + 4)
    if len(flat) + indent <= _WIDTH or not isinstance(plain, dict):
        return flat
    items = "".join(f"{inside}{_flat(name)}: {_python(item, indent=indent + 4)},\n" for name, item in plain.items())
    return f"{{\n{items}{' ' * indent}}}"


def _flat(value: Any) -> str:
    """Return a value as Python writes it, with the quotation marks that its formatters want."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_flat(name)}: {_flat(item)}' for name, item in value.items())}}}"
    if isinstance(value, list | tuple):
        items = ", ".join(map(_flat, value))
        left, right = "[]" if isinstance(value, list) else ("(", ",)" if len(value) == 1 else ")")
        return f"{left}{items}{right}"
    if isinstance(value, PromptFile):
        return f"PromptFile({_flat(value.name)})"
    return repr(value)


def _percent(fraction: float) -> str:
    return f'"{100 * fraction:.6g}%"'


def _without_secrets(value: Any) -> Any:
    """Return a value without what a record keeps of a secret; `_PART` where nothing is left."""
    if isinstance(value, dict):
        parts = {name: _without_secrets(item) for name, item in value.items()}
        return {name: item for name, item in parts.items() if item is not _PART}
    return _PART if _has_secret(value) else value


def _has_secret(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_secret, value))
    return isinstance(value, str) and REDACTED in value


def _secrets(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield a comment that names what a record does not tell, so that a user can put it back."""
    places = list(_secret_places("", dict(values)))
    if places:
        yield f"# left out, since records hold no secrets (put them back): {one_line(', '.join(places))}"


def _secret_places(place: str, value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _secret_places(f"{place}.{name}" if place else name, item)
    elif _has_secret(value):
        yield place


def _floors(met: _Met) -> Iterator[str]:
    lines = [
        f"    {_flat(name)}: noise_floor({_percent(floor.fraction or 0.0)}, source={_flat(floor.source)}),"
        for name, floor in met.floors.items()
        if name in met.compared
    ]
    if lines:
        yield "\n".join(["FLOORS = {", *lines, "}"])


def _pair(met: _Met) -> str:
    allowed = {} if met.pair is None else met.pair.allow_engine_differences
    varies = ("args.speculative_config",) if met.pair is None else met.pair.varies
    more = f"    allow_engine_differences={_python(allowed, indent=4)},\n" if allowed else ""
    return (
        f"PAIR = ArmPair(\n    reference=OFF,\n    candidate={met.name},\n"
        f"    varies={_flat(varies[0] if len(varies) == 1 else varies)},\n"
        f"    profile=LOAD,\n    rounds={met.rounds},\n{more})"
    )


def _gate(met: _Met) -> str:
    claims = [line for name in met.compared for line in _claim(met, name)]
    text = "\n".join(f"    {line}" for line in [*claims, *_acceptance(met)])
    what = f'"""k={met.k} is worth it."""'
    return f"\n@gate(\n    PAIR,\n{text}\n)\ndef test_k{met.k}_against_off() -> None:\n    {what}"


def _claim(met: _Met, name: str) -> Iterator[str]:
    """Yield a claim below what was measured for it."""
    kind, fraction = _kind(met, name)
    words = change_words(met.change(name), metric_name=name)
    guess = "" if met.noise(name).df else "; nothing tells its noise, so the margin is a guess"
    noise = f", noise=FLOORS[{_flat(name)}]" if name in met.floors else ""
    keyword = "by" if kind == "better" else "margin"
    yield f"# measured: {words}{guess}"
    yield f"{kind}({_flat(name)}, at={_flat(met.compared[name])}, {keyword}={_percent(fraction)}{noise}),"


def _kind(met: _Met, name: str) -> tuple[str, float]:
    """Return which claim is made, and its gain or margin: half of what was gained, or all that was lost and the noise.

    A gain is claimed of one user's speed alone, which is what speculation is for, and where its noise can show it.
    """
    row, gain = metric(name), met.gain(name)
    least = _decidable(met, name)
    sign = 1.0 if row.higher_is_better else -1.0
    if OBJECTIVES["per-user speed"] == name and gain > least:
        claimed = min(abs(math.expm1(sign * gain)) / 2, abs(math.expm1(sign * (gain - least))))
        if (percent := math.floor(100 * claimed + 1e-9)) >= 1:
            return "better", percent / 100
    lost = max(0.0, -gain) + least
    return "not_worse", math.ceil(100 * abs(math.expm1(-sign * lost)) - 1e-9) / 100


def _decidable(met: _Met, name: str) -> float:
    """Return the smallest margin, in log units, that the rounds of the gate can decide: no less than 1.5 floors."""
    noise = met.noise(name)
    if not noise.df:
        return math.log1p(_MARGIN_UNKNOWN)
    smallest = planning.smallest_margin(noise=noise, n_max=met.rounds, family=_FAMILY) or 0.0
    floor = met.floors.get(name)
    least = 0.0 if floor is None or floor.fraction is None else math.log1p(_FLOORS * floor.fraction)
    return max(smallest, least)


def _acceptance(met: _Met) -> Iterator[str]:
    """Yield the claim that drafts are still accepted: nothing else tells a drafter that no longer fits its model."""
    at, levels = next(iter(met.compared.values())), met.found.measured
    curve = next((one.curve for one in levels[at] if one.k == met.k), None)
    if curve is not None:
        length = curve.acceptance_length.value
        yield f"# measured: {length:.3f}"
        limit = f"{math.floor(100 * _ACCEPTED * length) / 100:g}"
        yield f"at_least({_flat('acceptance_length')}, {_flat(limit)}, at={_flat(at)}),"
