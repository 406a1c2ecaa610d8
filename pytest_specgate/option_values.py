"""Values of options: read from text, or refused in one sentence that names the place."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

import pytest

from pytest_specgate.earlier_reports import foreign
from pytest_specgate.names import REPORT_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

N = TypeVar("N", int, float)
D = TypeVar("D", float, None)

BaselineMode: TypeAlias = Literal["check", "new", "all", "prune", "off"]
"""What a session does with baselines."""

_HOST_CLASS: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
_SHORTEST_REASON: Final = 3
_OWN_ARGUMENTS: Final = ("model", "served-model-name", "host", "port")
_BUDGET: Final = re.compile(r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """What the user wrote, and where."""

    place: str
    text: str


def words_of(given: Given | None) -> list[str]:
    """Read words as a shell would; none where nothing was given."""
    if given is None:
        return []
    try:
        return shlex.split(given.text)
    except ValueError as error:
        raise pytest.UsageError(f"{given.place} cannot be read as words: {error}") from None


def arguments_of(given: Given | None) -> tuple[str, ...]:
    """Read arguments of servers; those that decide what is measured, and where, are not given by hand."""
    words = tuple(words_of(given))
    for word in words:
        name = word.partition("=")[0].removeprefix("--").replace("_", "-")
        # A beginning of a name is the name, to the parser of the engine.
        own = next(
            (known for known in _OWN_ARGUMENTS if word.startswith("--") and name and known.startswith(name)), None
        )
        if given is not None and own is not None:
            raise pytest.UsageError(f"{given.place} has --{own}, which is set by the gate itself: leave it out")
    return words


def variables_of(given: Given | None) -> dict[str, str]:
    """Read words as ``NAME=VALUE``."""
    pairs = [word.partition("=") for word in words_of(given)]
    for (name, equals, _), before in zip(pairs, ["", *(name for name, _, _ in pairs)], strict=False):
        if given is not None and not (name and equals):
            # It may be the rest of a secret whose quotes were forgotten.
            what = f"a word after {before}=" if before else repr(name + equals)
            raise pytest.UsageError(f"{given.place} has {what}, which is no NAME=VALUE: put values in quotes")
    return {name: value for name, _, value in pairs}


def addresses_of(given: Given | None) -> dict[str, str]:
    """Read addresses by name of the arm."""
    if given is None:
        return {}
    # Runs without this option, and those of projects without gates, need not load it.
    from pytest_specgate.core.addresses import address_problem, shown_address  # noqa: PLC0415

    urls = {name: url.rstrip("/") for name, url in variables_of(given).items()}
    for name, url in urls.items():
        if problem := address_problem(url, whose=name):
            raise pytest.UsageError(f"{given.place} has {name}={shown_address(url)}: {problem}")
    return urls


def boots_of(given: Given | None) -> int:
    """Read the boots of a calibration; 6 where nothing was given."""
    boots = number_of(given, int, default=None)
    if given is not None and boots is not None and boots < 2:
        raise pytest.UsageError(
            f"{given.place}={given.text}: one boot has nothing to be compared with, write 2 or more"
        )
    return boots or 6


def budget_of(given: Given | None) -> float | None:
    """Read a time as ``40m`` or ``1h30m``, in seconds; `None` where nothing was given."""
    match = None if given is None else _BUDGET.fullmatch(given.text.strip())
    parts = {} if match is None else {name: float(text) for name, text in match.groupdict().items() if text}
    seconds = sum(amount * _SECONDS[unit] for unit, amount in parts.items())
    if given is not None and not seconds:
        raise pytest.UsageError(f"{given.place}={given.text} is no time: write it with its unit, as 40m or 1h30m")
    return seconds or None


def word_of(given: Given | None, default: str, other: str) -> str:
    """Read one of two words."""
    if given is not None and given.text not in {default, other}:
        raise pytest.UsageError(f"{given.place}={given.text} is neither {other} nor {default}")
    return default if given is None else given.text


def baseline_mode_of(given: Given | None) -> BaselineMode:
    """Read what is done with baselines; ``check`` where nothing was given."""
    modes: tuple[BaselineMode, ...] = get_args(BaselineMode)
    mode = next((known for known in modes if given is not None and given.text == known), None)
    if given is not None and mode is None:
        raise pytest.UsageError(f"{given.place}={given.text} is none of {', '.join(modes)}")
    return mode or "check"


def reason_of(given: Given | None) -> str | None:
    """Read why a window is accepted, on one line; `None` where nothing was given."""
    text = None if given is None else " ".join(given.text.split())
    if given is not None and text is not None and len(text) < _SHORTEST_REASON:
        raise pytest.UsageError(f"{given.place}={given.text} says too little: write why this window is accepted")
    return text


def host_class_of(given: Given | None) -> str | None:
    """Read the name of a class of machine, which is that of a folder, too."""
    if given is not None and not _HOST_CLASS.fullmatch(given.text):
        raise pytest.UsageError(
            f"{given.place}={given.text} is no class of machine: write up to 64 small letters, digits, '.' and '-'"
        )
    return None if given is None else given.text


def report_key_of(given: Given | None) -> str:
    """Read what tells one Markdown report from others."""
    if given is not None and not re.fullmatch(REPORT_KEY, given.text):
        raise pytest.UsageError(
            f"{given.place}={given.text} is no name: write up to 64 letters, digits, '.', '_' and single '-'"
        )
    return "" if given is None else given.text


def report_file_of(given: Given | None, *, folder: Path, kind: str) -> Path | None:
    """Read the path of a file that is written at the end, and find out now whether it can be; links are followed.

    What lies there already is replaced, so it must be a report of that kind: a forgotten FILE names the next word.

    Args:
        given: what the user wrote.
        folder: where a relative path begins.
        kind: of the report: ``json``, ``markdown`` or ``html``.
    """
    if given is None:
        return None
    try:
        path = (folder / Path(given.text).expanduser()).resolve()
        problem = _unwritable(path, given.text) or foreign(path, kind)
    except (OSError, RuntimeError) as error:
        problem = f"no such file can be written: {getattr(error, 'strerror', None) or error}"
    if problem:
        raise pytest.UsageError(f"{given.place}={given.text}: {problem}")
    return path


def _unwritable(path: Path, text: str) -> str:
    """Say why a file cannot be written; empty where nothing speaks against it."""
    if path.is_dir() or text.endswith("/"):
        return "a file is wanted, and that is a folder: add a name"
    if path.exists() and not path.is_file():
        return "that is no ordinary file, and it would be replaced: name another one"
    if not path.parent.is_dir():
        return f"there is no folder {Path(text).parent}: make it first"
    return "" if os.access(path.parent, os.W_OK | os.X_OK) else f"nothing can be written into {path.parent}"


def refuse_one_file(files: Mapping[str, Path | None], found: Mapping[str, Given | None]) -> None:
    """Refuse one file for two reports, of which the second would replace the first.

    Args:
        files: by name of the option; `None` where none was given.
        found: what the user wrote, likewise.
    """
    seen: dict[Path, str] = {}
    for name, path in files.items():
        given = found[name]
        if path is None or given is None:
            continue
        if path in seen:
            raise pytest.UsageError(f"{seen[path]} and {given.place} name one file, {given.text}: give each its own")
        seen[path] = given.place


def is_yes(given: Given | None) -> bool:
    """Read ``yes`` or ``no``; the latter where nothing was given."""
    return word_of(given, "no", "yes") == "yes"


def number_of(given: Given | None, kind: Callable[[str], N], *, default: D, zero: bool = False) -> N | D:
    """Read a number above 0, or from 0 on."""
    if given is None:
        return default
    what = "a whole number" if kind is int else "a number"
    limit = "of at least 0" if zero else "above 0"
    refusal = pytest.UsageError(f"{given.place}={given.text} is not {what} {limit}")
    try:
        number = kind(given.text)
    except ValueError:
        raise refusal from None
    if not (0 < number < float("inf") or (zero and number == 0)):
        raise refusal
    return number
