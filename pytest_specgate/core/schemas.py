"""JSON schemas of what is stored, for those who read it with other tools."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

from pytest_specgate.core.acceptance_report import AcceptanceReport
from pytest_specgate.core.baselines import BaselineFile
from pytest_specgate.core.calibration import NoiseBook
from pytest_specgate.core.knee_report import KneeReport
from pytest_specgate.core.records import WindowRecord
from pytest_specgate.core.run_reports import RunReport

if TYPE_CHECKING:
    from pytest_specgate.core.stored import Stored

KINDS: Final[dict[str, type[Stored]]] = {
    "record": WindowRecord,
    "baseline": BaselineFile,
    "noise": NoiseBook,
    "report": RunReport,
    "knee": KneeReport,
    "acceptance": AcceptanceReport,
}
"""What is stored, or printed for programs, by the word for it on the command line."""

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_VERSION: Final = "schema_version"
_ATTRIBUTE: Final = re.compile(r"^    (\w+): (.*(?:\n {8,}.*)*)", re.MULTILINE)


def published(kind: str) -> dict[str, Any]:
    """Return the JSON schema of what is stored.

    Args:
        kind: a key of `KINDS`.
    """
    found = KINDS[kind].model_json_schema()
    definitions = {name: _described(part) for name, part in found.pop("$defs", {}).items()}
    whole = _described(found)
    # It has a default in code and is written in every file: without it nobody could tell what a file is.
    required = [_VERSION, *(name for name in whole["required"] if name != _VERSION)]
    return {"$schema": _DIALECT, **whole, "required": required, "$defs": definitions}


def _described(part: dict[str, Any]) -> dict[str, Any]:
    """Move what a docstring says of attributes to the properties, and leave out titles that only repeat names."""
    text, _, attributes = inspect.cleandoc(part.get("description", "")).partition("\n\nAttributes:\n")
    meanings = {name: " ".join(meaning.split()) for name, meaning in _ATTRIBUTE.findall(attributes)}
    properties = {
        name: {**{key: value for key, value in shape.items() if key != "title"}, **_meaning(meanings.get(name))}
        for name, shape in part.get("properties", {}).items()
    }
    return {**part, **_meaning(" ".join(text.split())), **({"properties": properties} if properties else {})}


def _meaning(text: str | None) -> dict[str, str]:
    return {"description": text.replace("`None`", "null").replace("``", "`")} if text else {}
