"""Declarations: the values a user writes in a gate file, checked where they are written."""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, dataclass_transform

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic.dataclasses import dataclass

from pytest_specgate.core.errors import UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_core import ErrorDetails

T = TypeVar("T")
C = TypeVar("C", bound="Callable[..., Any]")

_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, arbitrary_types_allowed=False)
_HUGE = 1e9
_PERCENT = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*%\s*")
_DURATION = re.compile(r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>ms|s)\s*")


def _finite(value: JsonValue) -> JsonValue:
    """Refuse NaN and infinity inside free JSON, where pydantic lets them pass."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no JSON number")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _finite(item)
    return value


FreeJson: TypeAlias = Annotated[JsonValue, AfterValidator(_finite)]
"""Any JSON value, and nothing that JSON cannot say."""


@dataclass_transform(frozen_default=True, field_specifiers=(Field,))
def declaration(cls: type[T]) -> type[T]:
    """Make a frozen, strictly checked dataclass whose mistakes are one-sentence `UsageError`s."""
    made: type[Any] = dataclass(config=_CONFIG, frozen=True)(cls)
    construct = made.__init__

    @functools.wraps(construct)
    def checked(self: object, *args: object, **kwargs: object) -> None:
        try:
            construct(self, *args, **kwargs)
        except ValidationError as error:
            known = list(made.__pydantic_fields__)
            raise UsageError(_sentence(cls.__name__, _clearest(error), known=known)) from None

    made.__init__ = checked
    return made


def known_keywords(function: C) -> C:
    """Turn a misspelt keyword of a gate-file function into a `UsageError` that names the nearest one."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]

    @functools.wraps(function)
    def checked(*args: object, **kwargs: object) -> object:
        for keyword in kwargs:
            if keyword not in names:
                raise UsageError(f"{function.__name__}() has no keyword {keyword!r}{nearest(keyword, names)}")
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise UsageError(str(error)) from None
            raise

    return checked  # type: ignore[return-value]  # same signature, checked at run time


def fraction_of(name: str, text: object) -> float:
    """Read a percentage such as ``"0.4%"`` as a fraction (0.004).

    Args:
        name: what the user called it, for the message.
        text: what the user wrote; anything but a non-negative number followed by ``%`` is refused.

    Raises:
        UsageError: the value has no unit, is negative, or is not a number.
    """
    match = _PERCENT.fullmatch(text) if isinstance(text, str) else None
    if match and math.isfinite(float(match["number"])):
        return float(match["number"]) / 100
    if isinstance(text, int | float) and not isinstance(text, bool) and 0 <= text < _HUGE:
        raise UsageError(f"{name}={text!r} has no unit: write {name}='{text:g}%' if you mean {text:g} percent")
    raise UsageError(f"{name}={text!r} is not a percentage: write a non-negative number with its unit, as {name}='5%'")


def seconds_of(name: str, text: object) -> float:
    """Read a duration such as ``"200ms"`` or ``"1.5s"`` in seconds.

    Args:
        name: what the user called it, for the message.
        text: what the user wrote; anything but a positive number followed by ``ms`` or ``s`` is refused.

    Raises:
        UsageError: the value has no unit, or is not positive.
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    seconds = float(match["number"]) / (1000 if match["unit"] == "ms" else 1) if match else 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"{name}={text!r} is no duration: write a positive number with its unit, as '200ms' or '1.5s'")
    return seconds


def _clearest(error: ValidationError) -> ErrorDetails:
    """Pick the mistake to name: a wrong name explains the missing one, not the other way round."""
    by_type: dict[str, ErrorDetails] = {details["type"]: details for details in reversed(error.errors())}
    for kind in ("unexpected_keyword_argument", "unexpected_positional_argument"):
        if kind in by_type:
            return by_type[kind]
    return error.errors()[0]


def _sentence(owner: str, error: ErrorDetails, *, known: Sequence[str]) -> str:
    place = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"])
    match error["type"]:
        case "unexpected_keyword_argument":
            return f"{owner} has no field {place!r}{nearest(place, known)}"
        case "unexpected_positional_argument":
            return f"{owner} takes its fields by name, as {owner}({known[0]}=...), got {_short(error['input'])}"
        case "missing" | "missing_argument" | "missing_keyword_only_argument":
            return f"{owner} needs {place!r}"
        case "value_error":
            return f"{owner}: {message.removeprefix('Value error, ')}"
        case _:
            place = known[int(place)] if place.isdigit() else place
            return f"{owner}.{place}: {message[0].lower()}{message[1:]}, got {_short(error['input'])}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
