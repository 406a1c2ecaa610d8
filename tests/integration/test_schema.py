"""`specgate schema`, the files in docs/schema, and what runs really write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jsonschema
import pytest

from pytest_specgate import cli
from pytest_specgate.core import acceptance_report, baselines, calibration, knee_report, records, run_reports
from pytest_specgate.core.schemas import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.conftest import GateFolder, GateRun

_PUBLISHED: Final = Path(__file__).parents[2] / "docs" / "schema"
_FILES: Final = {
    "record": f"window-record-{records.SCHEMA_VERSION}.json",
    "baseline": f"baseline-{baselines.SCHEMA_VERSION}.json",
    "noise": f"noise-{calibration.SCHEMA_VERSION}.json",
    "report": f"report-{run_reports.SCHEMA_VERSION}.json",
    "knee": f"knee-{knee_report.SCHEMA_VERSION}.json",
    "acceptance": f"acceptance-{acceptance_report.SCHEMA_VERSION}.json",
}
_WHAT_COUNTS: Final = ("$defs", "$ref", "anyOf", "additionalProperties", "enum", "items", "properties", "type")
_GATES: Final = """\
    PAIR = pair(arm("one"), arm("two", seed=1))

    @gate(PAIR, SPEED, not_worse_than_baseline("output_throughput", at=1, margin="90%", cross_window=FLOOR))
    def test_one(): pass
    """


def skeleton(schema: Any) -> Any:
    """Return the names, types and required keys of a schema: another pydantic may add keywords, or order them."""
    if isinstance(schema, list):
        return [skeleton(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: skeleton(schema[key]) for key in _WHAT_COUNTS if key in schema and key not in {"properties", "$defs"}}
    for key in ("properties", "$defs"):
        if key in schema:
            found[key] = {name: skeleton(part) for name, part in schema[key].items()}
    return {**found, "required": sorted(schema.get("required", ()))}


def published(kind: str) -> dict[str, Any]:
    """Return a schema as it lies in the docs."""
    found: dict[str, Any] = json.loads((_PUBLISHED / _FILES[kind]).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("kind", _FILES)
def test_the_published_schema_is_what_the_command_prints(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys, types and what is required agree; `specgate schema KIND > docs/schema/FILE` mends it where not."""
    status = cli.main(["schema", kind])
    printed = capsys.readouterr().out

    assert status == 0
    assert skeleton(json.loads(printed)) == skeleton(published(kind))
    assert printed.endswith("}\n")


def test_nothing_else_is_published() -> None:
    """Of each kind there is the schema of its version and no other."""
    assert sorted(path.name for path in _PUBLISHED.iterdir()) == sorted(_FILES.values())
    assert set(_FILES) == set(KINDS)


@pytest.fixture(scope="module")
def written(new_gate_folder: Callable[[], GateFolder]) -> dict[str, list[Path]]:
    """Files of every kind, as runs on the fake engine write them."""
    gates = new_gate_folder()
    gates.write("test_gate.py", _GATES)
    gates.run("--specgate-baseline=new", "--specgate-json=report.json")
    gates.run("--specgate-calibrate", "--specgate-calibrate-boots=2")
    committed = sorted((gates.folder / "baselines").rglob("*.json"))
    return {
        "record": sorted((gates.folder / "specgate-results").rglob("record.json")),
        "baseline": [path for path in committed if path.name != "noise.json"],
        "noise": [path for path in committed if path.name == "noise.json"],
        "report": [gates.folder / "report.json"],
    }


@pytest.mark.parametrize("kind", sorted(_FILES.keys() - {"knee", "acceptance"}))
def test_what_runs_write_is_valid_by_the_published_schema(written: dict[str, list[Path]], kind: str) -> None:
    """A window that judged, one that calibrated, and the files that they committed."""
    validator = jsonschema.Draft202012Validator(published(kind))

    assert len(written[kind]) == (2 if kind == "record" else 1)
    for path in written[kind]:
        assert [error.message for error in validator.iter_errors(json.loads(path.read_text()))] == []


def test_records_with_failures_are_valid_too(faulty: GateRun) -> None:
    """Servers that died leave records of the same form."""
    (path,) = faulty.results.glob("*/record.json")

    jsonschema.validate(json.loads(path.read_text()), published("record"))


def test_what_is_no_record_is_told(healthy: GateRun) -> None:
    """A schema that takes everything would prove nothing: unknown keys, other types and versions are refused."""
    (path,) = healthy.results.glob("*/record.json")
    record, validator = json.loads(path.read_text()), jsonschema.Draft202012Validator(published("record"))
    spoilt: list[dict[str, Any]] = [
        {**record, "finished": "yes"},
        {**record, "schema_version": 2},
        {**record, "further": 1},
        {key: value for key, value in record.items() if key != "schema_version"},
        {**record, "boots": [{**record["boots"][0], "round": "1"}]},
    ]

    assert validator.is_valid(record)
    assert [validator.is_valid(one) for one in spoilt] == [False] * 5
