"""JSON schemas of stored files: complete, self-contained, and explained key by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from pytest_specgate.core.records import SCHEMA_VERSION, RequestRecord, WindowRecord
from pytest_specgate.core.schemas import KINDS, published

if TYPE_CHECKING:
    from collections.abc import Iterator


def parts(schema: object) -> Iterator[dict[str, Any]]:
    """Yield every mapping inside a schema."""
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from parts(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from parts(value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_a_schema(kind: str) -> None:
    """It is valid by its own dialect, has no address of its own, and refers to nothing outside."""
    schema = published(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    references = {part["$ref"] for part in parts(schema) if "$ref" in part}

    assert "$id" not in schema
    assert references <= {f"#/$defs/{name}" for name in schema["$defs"]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_names_the_version_that_a_file_must_have(kind: str) -> None:
    """A file without version is none, and one of another version is not described by this schema."""
    schema = published(kind)
    version = schema["properties"]["schema_version"]

    assert schema["required"][0] == "schema_version"
    assert version["minimum"] == version["maximum"] == version["default"]


def test_every_key_of_a_record_has_a_meaning() -> None:
    """What a docstring says of an attribute stands beside the key, in the words of JSON; titles are left out."""
    schema = published("record")
    request = schema["$defs"]["RequestRecord"]
    silent = [name for name, shape in schema["properties"].items() if not shape.get("description")]

    assert silent == []
    assert list(request["properties"]) == list(RequestRecord.model_fields)
    assert request["description"].startswith("One request as the client saw it.")
    assert request["properties"]["error"]["description"] == "why it does not count; null for a complete answer."
    assert not any("Attributes:" in part.get("description", "") for part in parts(schema["$defs"]))
    assert not any("title" in shape for shape in request["properties"].values())


def test_the_keys_are_those_of_the_model() -> None:
    """Nothing is left out of a record, and nothing unknown is allowed in it."""
    schema = published("record")

    assert list(schema["properties"]) == list(WindowRecord.model_fields)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["schema_version"]["maximum"] == SCHEMA_VERSION


def test_a_schema_is_the_same_each_time() -> None:
    """What is published is a copy: changing it changes no later one."""
    first = published("noise")
    first["properties"].clear()

    assert published("noise")["properties"]
    assert published("noise") == published("noise")
