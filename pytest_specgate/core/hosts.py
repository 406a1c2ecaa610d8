"""Facts about the machine: which tell its class apart, and which change by themselves."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import JsonValue

FactState: TypeAlias = Literal["value", "not applicable", "unknown", "error"]

_GIB: Final = 2**30
_STATE: Final = "state"
_NAME_LENGTH: Final = 32
_HELD_S: Final = 1.0
"""Shorter than that clocks are held down now and then on a machine that is well."""

STABLE: Final = (
    "cpu_governor",
    "cpu_limit",
    "cpu_model",
    "cpus",
    "cpus_usable",
    "gpu_clock_limits_mhz",
    "gpu_driver",
    "gpu_ecc",
    "gpu_memory_bytes",
    "gpu_mig",
    "gpu_power_limit_w",
    "gpus",
    "kernel",
    "machine",
    "memory_bytes",
    "memory_limit_bytes",
    "numa_nodes",
    "os",
    "smt",
    "system",
    "virtualisation",
)
"""Facts that must be equal for a baseline or a calibration to apply, and that must not change within a window."""

VOLATILE: Final = (
    "cpu_mhz",
    "gpu_clocks_mhz",
    "gpu_devices",
    "gpu_memory_used_bytes",
    "gpu_processes",
    "gpu_reader",
    "gpu_temperatures_c",
    "gpu_throttled_s",
    "gpu_throttling",
    "hostname",
    "load_1m",
    "memory_free_bytes",
)
"""Facts that are recorded and shown, and never compared."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """One fact about the machine.

    Attributes:
        state: ``value``; ``not applicable`` (a GPU driver where there is no GPU), ``unknown`` (this machine does not
            tell), or ``error`` (it should have, but the reading failed).
        value: `None` unless the state is ``value``. A list has one entry for each device.
        stable: whether it belongs to the class of the machine.
        why: what stands behind ``unknown`` or ``error``.
    """

    state: FactState
    value: JsonValue = None
    stable: bool = True
    why: str = ""

    @property
    def words(self) -> str:
        """The fact as text."""
        if self.state != "value":
            return f"{self.state} ({self.why})" if self.why else self.state
        return ", ".join(map(str, self.value)) if isinstance(self.value, list) else str(self.value)


@dataclasses.dataclass(frozen=True, slots=True)
class Drift:
    """A stable fact that changed.

    Attributes:
        name: of the fact.
        before: the earlier reading.
        after: the later one.
    """

    name: str
    before: Fact
    after: Fact

    @property
    def sentence(self) -> str:
        """What happened."""
        return f"{self.name} was {self.before.words}, and is now {self.after.words}"


def known(value: JsonValue) -> Fact:
    """Return a fact that could be read."""
    return Fact("value", value)


def inapplicable(why: str = "") -> Fact:
    """Return a fact that this machine cannot have."""
    return Fact("not applicable", why=why)


def unknown(why: str = "") -> Fact:
    """Return a fact that this machine does not tell."""
    return Fact("unknown", why=why)


def failed(why: str) -> Fact:
    """Return a fact whose reading failed."""
    return Fact("error", why=why)


def stored(facts: Mapping[str, Fact]) -> dict[str, JsonValue]:
    """Return facts as JSON: a value as itself, anything else as ``{"state": ..., "why": ...}``."""
    return {
        name: fact.value if fact.state == "value" else {_STATE: fact.state, "why": fact.why}
        for name, fact in sorted(facts.items())
    }


def facts_of(host: Mapping[str, JsonValue]) -> dict[str, Fact]:
    """Read facts back from what `stored` made of them; one that no table knows is not stable."""
    return {name: _fact(value, stable=name in STABLE) for name, value in host.items()}


def _fact(value: JsonValue, *, stable: bool) -> Fact:
    states: tuple[FactState, ...] = ("not applicable", "unknown", "error")
    if value is None:
        return Fact("unknown", stable=stable)
    if isinstance(value, dict):
        state = next((state for state in states if value.get(_STATE) == state), None)
        if state is not None:
            return Fact(state, stable=stable, why=str(value.get("why", "")))
    return Fact("value", value, stable=stable)


def host_class(facts: Mapping[str, Fact]) -> str:
    """Return the name of a machine's class, safe as a folder name: ``h200x1-ab12cd34``, ``cpu-epyc-2c-1f2e3d4c``.

    Equal names mean that every stable fact is equal: a fact that cannot be read is equal only to one that neither can.
    Sizes of memory count in whole GiB.
    """
    own = {name: _compared(fact) for name, fact in facts.items() if fact.stable}
    text = json.dumps(own, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_readable(facts)}-{digest}"


def _compared(fact: Fact) -> list[JsonValue]:
    return [fact.state, _rounded(fact.value)]


def _rounded(value: JsonValue) -> JsonValue:
    """Round what is a size in bytes to GiB: kernels reserve a little more or less of it."""
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return f"{round(value / _GIB)} GiB" if isinstance(value, int) and value >= _GIB // 2 else value


def _readable(facts: Mapping[str, Fact]) -> str:
    gpus = facts.get("gpus", unknown()).value
    if isinstance(gpus, list) and gpus:
        names = [_short(str(name)) for name in gpus]
        return "-".join(f"{name}x{names.count(name)}" for name in dict.fromkeys(names))
    count = facts.get("cpus_usable", unknown()).value
    model = _short(str(facts.get("cpu_model", unknown()).value or "unknown"))
    return f"cpu-{model}-{count if isinstance(count, int) else 'some'}c"


def _short(model: str) -> str:
    """Return the telling words of a device's name, with nothing in them that a folder may not be called."""
    plain = re.sub(r"\((?:r|tm|c)\)|@.*|\b\d+-core\b", " ", model.lower())
    noise = {"nvidia", "intel", "amd", "cpu", "processor", "geforce", "tesla", "with"}
    words = [word for word in re.findall(r"[a-z0-9.]+", plain) if word not in noise]
    return "-".join(words)[:_NAME_LENGTH].strip("-.") or "unknown"


def drift(before: Mapping[str, Fact], after: Mapping[str, Fact]) -> tuple[Drift, ...]:
    """Return the stable facts that differ between two readings.

    A fact that only one of them could read differs: nobody knows whether it is what it was.
    """
    absent = unknown("not read")
    names = sorted(name for name, fact in {**after, **before}.items() if fact.stable)
    found = ((name, before.get(name, absent), after.get(name, absent)) for name in names)
    return tuple(Drift(name, first, second) for name, first, second in found if _compared(first) != _compared(second))


def describe(facts: Mapping[str, Fact]) -> str:
    """Return one line about a machine: its devices, and what fixes how fast they are."""
    return "; ".join(_parts(facts))


def _parts(facts: Mapping[str, Fact]) -> Iterator[str]:
    gpus = facts.get("gpus", unknown())
    if isinstance(gpus.value, list) and gpus.value:
        names = [str(name) for name in gpus.value]
        yield ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
        for name, unit in (("gpu_power_limit_w", " W"), ("gpu_driver", "")):
            text = ", ".join(dict.fromkeys(_value(facts, name).split(", ")))
            yield f"{name.removeprefix('gpu_').removesuffix('_w').replace('_', ' ')} {text}{unit}"
    elif gpus.state in {"unknown", "error"}:
        yield f"GPUs {gpus.words}"
    yield f"{_value(facts, 'cpus_usable')} of {_value(facts, 'cpus')} CPUs {_value(facts, 'cpu_model')}"
    memory = facts.get("memory_bytes", unknown()).value
    yield f"{_rounded(memory) if isinstance(memory, int) else 'unknown'} memory"
    yield f"kernel {_value(facts, 'kernel')}"


def _value(facts: Mapping[str, Fact], name: str) -> str:
    return facts.get(name, unknown()).words


def troubles(facts: Mapping[str, Fact]) -> tuple[str, ...]:
    """Return what a reader should know of the machine's state: devices that are throttled, or shared with others."""
    return (*_throttled(facts), *_shared(facts), *_unread(facts))


def _throttled(facts: Mapping[str, Fact]) -> Iterator[str]:
    for name, reason in _by_gpu(facts, "gpu_throttling"):
        if reason:
            yield f"{name} is throttled: {reason}"
    for name, held in _by_gpu(facts, "gpu_throttled_s"):
        reasons = [reason for reason, seconds in _seconds(held) if seconds >= _HELD_S]
        if reasons:
            yield f"{name} was throttled while it worked: {', '.join(reasons)}"


def _seconds(held: JsonValue) -> Iterator[tuple[str, float]]:
    for reason, seconds in held.items() if isinstance(held, dict) else ():
        if isinstance(seconds, int | float):
            yield reason, seconds


def _shared(facts: Mapping[str, Fact]) -> Iterator[str]:
    for name, count in _by_gpu(facts, "gpu_processes"):
        if count:
            yield f"{name} is in use by other processes ({count})"


def _by_gpu(facts: Mapping[str, Fact], name: str) -> Iterator[tuple[str, JsonValue]]:
    """Give a fact of each GPU, which is called as its job calls it: a job need not have the first of a machine."""
    values, called = (facts.get(fact, unknown()).value for fact in (name, "gpu_devices"))
    names = dict(enumerate(called)) if isinstance(called, list) else {}
    for place, value in enumerate(values if isinstance(values, list) else []):
        own = str(names.get(place, place))
        yield f"GPU {own}" if own.isdecimal() else own, value


def _unread(facts: Mapping[str, Fact]) -> Iterator[str]:
    for name, fact in sorted(facts.items()):
        if fact.state == "error":
            yield f"{name} could not be read: {fact.why}"
