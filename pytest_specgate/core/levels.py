"""Load levels: how hard a point presses.

A whole number is a **concurrency** (closed loop: so many workers, each sending its next request when its last one
ended); a text such as ``"4/s"`` is an **arrival rate** (open loop: requests arrive on their own schedule, whatever the
server does).
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
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"a concurrency of {value} sends nothing: write 1 or more")
        return value
    match = _RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or not 0 < float(match["number"]) < math.inf:
        raise ValueError(f"{value!r} is no load level: write a concurrency as 8, an arrival rate as '4/s'")
    return f"{_shortest(float(match['number']))}/s"


def _shortest(number: float) -> str:
    text = f"{decimal.Decimal(repr(number)):f}"
    return text.removesuffix(".0")


Level: TypeAlias = Annotated[int | str, BeforeValidator(_level)]
"""A concurrency, or an arrival rate with its unit."""


def rate_per_s(at: Level) -> float | None:
    """Return the arrival rate of an open-loop level, in requests per second; `None` for a concurrency."""
    return float(at.removesuffix("/s")) if isinstance(at, str) else None


def concurrency_of(at: Level) -> int | None:
    """Return the number of closed-loop workers; `None` for an arrival rate."""
    return None if isinstance(at, str) else at


def level_label(at: Level) -> str:
    """Return a level as people read it: ``c=8``, ``4/s``."""
    return at if isinstance(at, str) else f"c={at}"


def level_id(at: Level) -> str:
    """Return a level as a part of names and keys: ``c8``, ``r4``."""
    return f"r{at.removesuffix('/s')}" if isinstance(at, str) else f"c{at}"


def level_order(at: Level) -> tuple[bool, float]:
    """Sort key: concurrencies first, each kind rising."""
    rate = rate_per_s(at)
    return (False, float(at)) if rate is None else (True, rate)
