"""Load levels: how hard a point presses, and at which temperature.

A whole number is a **concurrency** (closed loop: so many workers, each sending its next request when its last one
ended); a text such as ``"4/s"`` is an **arrival rate** (open loop: requests arrive on their own schedule, whatever the
server does). Either may be followed by a sampling **temperature** of its own, ``"8 T=0.8"`` or ``"4/s T=0.8"``; without
one it is sent at that of the profile.
"""

from __future__ import annotations

import decimal
import math
import re
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import BeforeValidator

if TYPE_CHECKING:
    from pydantic import ValidationInfo

_RATE: Final = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)\s*/\s*s")
_WITH_TEMPERATURE: Final = re.compile(r"(?P<load>[^=]*?)\s*T\s*=\s*(?P<temperature>.*)", re.DOTALL)
# Python reads no number of more than 4300 digits.
_WORKERS: Final = re.compile(r"[0-9]{1,4000}")
_TEMPERATURE: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+")
_PART: Final = " T="


def _level(value: object, info: ValidationInfo) -> Level:
    """Normalise a level; keys of JSON objects are texts, also those that stand for numbers."""
    if isinstance(value, str) and info.mode == "json" and value.isdecimal():
        value = int(value)
    return normal_level(value)


def normal_level(value: object) -> Level:
    """Return the one spelling of a level.

    Raises:
        ValueError: it is none.
    """
    match = _WITH_TEMPERATURE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return _normal_load(value, written=value)
    load, temperature = match["load"], match["temperature"]
    number = float(temperature) if _TEMPERATURE.fullmatch(temperature) else math.nan
    if not math.isfinite(number):
        raise ValueError(f"{value!r} has no temperature that can be sent: write a number of 0 or more, as '8 T=0.8'")
    workers = int(load) if _WORKERS.fullmatch(load) else load
    return with_temperature(_normal_load(workers, written=value), number)


def _normal_load(value: object, *, written: object) -> Level:
    """Return the one spelling of a level without a temperature; messages quote what was written."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"a concurrency of {value} sends nothing: write 1 or more")
        return value
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not 0 < float(match["number"]) < math.inf:
        forms = "write a concurrency as 8, an arrival rate as '4/s'"
        more = ", either with a temperature of its own as '8 T=0.8'" if "=" in f"{written}" else ""
        raise ValueError(f"{written!r} is no load level: {forms}{more}")
    return f"{_shortest(float(match['number']))}/s"


def _shortest(number: float) -> str:
    text = f"{decimal.Decimal(repr(number)):f}"
    return text.removesuffix(".0")


Level: TypeAlias = Annotated[int | str, BeforeValidator(_level)]
"""A concurrency, or an arrival rate with its unit; either of them with a temperature of its own."""


def temperature_of(at: Level) -> float | None:
    """Return the temperature of a level's own; `None` for that of the profile."""
    _, own, temperature = f"{at}".partition(_PART)
    return float(temperature) if own else None


def with_temperature(at: Level, temperature: float) -> Level:
    """Return the same load with a temperature of its own, in place of one that it may have.

    Raises:
        ValueError: the temperature is negative, or no finite number.
    """
    if not 0 <= temperature < math.inf:
        raise ValueError(f"a temperature of {temperature:g} cannot be sent: write a number of 0 or more")
    # A sum has no sign at 0.
    return f"{without_temperature(at)}{_PART}{_shortest(float(temperature) + 0.0)}"


def without_temperature(at: Level) -> Level:
    """Return the same load at the temperature of the profile."""
    load, own, _ = f"{at}".partition(_PART)
    if not own:
        return at
    return int(load) if load.isdecimal() else load


def rate_per_s(at: Level) -> float | None:
    """Return the arrival rate of an open-loop level, in requests per second; `None` for a concurrency."""
    load = without_temperature(at)
    return float(load.removesuffix("/s")) if isinstance(load, str) else None


def concurrency_of(at: Level) -> int | None:
    """Return the number of closed-loop workers; `None` for an arrival rate."""
    load = without_temperature(at)
    return None if isinstance(load, str) else load


def level_label(at: Level) -> str:
    """Return a level as people read it: ``c=8``, ``4/s``, ``c=8 T=0.8``."""
    return f"{at}" if concurrency_of(at) is None else f"c={at}"


def level_told(at: Level, temperature: float | None) -> str:
    """Return a level as people read it, with the temperature that its name leaves to the profile, unless that is 0.

    ``c=8 (temperature 0.8)``: no name of a level is written like this, so nobody takes it for ``c=8 T=0.8``.

    Args:
        at: the level.
        temperature: that it is sent with; `None` where that is not known.
    """
    label = level_label(at)
    return f"{label} (temperature {temperature:g})" if temperature and temperature_of(at) is None else label


def level_id(at: Level) -> str:
    """Return a level as a part of names and keys: ``c8``, ``r4``, ``c8-t0.8``."""
    load, own, temperature = f"{at}".partition(_PART)
    kind = "r" if load.endswith("/s") else "c"
    return f"{kind}{load.removesuffix('/s')}{'-t' if own else ''}{temperature}"


def level_order(at: Level) -> tuple[bool, float, float]:
    """Sort key: concurrencies first, each kind rising; those of one load by temperature, that of the profile first."""
    rate, temperature = rate_per_s(at), temperature_of(at)
    number = float(concurrency_of(at) or 0) if rate is None else rate
    return rate is not None, number, -1.0 if temperature is None else temperature
