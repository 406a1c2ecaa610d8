"""Records of older schemas, brought to today's form, or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_specgate.core import migrations
from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.migrations import migrated
from pytest_specgate.core.records import SCHEMA_VERSION, WindowRecord

WRITTEN_BY_2 = Path(__file__).with_name("data") / "window_record_2.json"


@pytest.fixture
def schema_2() -> dict[str, Any]:
    """A record as schema 2 had it: written by a run on the fake engine, names of machine and paths replaced."""
    found: dict[str, Any] = json.loads(WRITTEN_BY_2.read_text(encoding="utf-8"))
    return found


def test_a_record_of_today_stays_what_it_is() -> None:
    """Nothing is done to a record that needs nothing."""
    stored = {"schema_version": SCHEMA_VERSION, "anything": [1]}

    assert migrated(stored) is stored


def test_a_record_of_schema_2_becomes_one_of_today(schema_2: dict[str, Any]) -> None:
    """All that it holds is kept, and it is valid today."""
    found = migrated(schema_2)
    record = WindowRecord.model_validate_json(json.dumps(found))

    assert {**found, "schema_version": 2} == schema_2
    assert (record.schema_version, len(record.boots), len(record.verdicts)) == (SCHEMA_VERSION, 2, 1)


def test_nothing_is_invented_for_what_an_older_record_lacks(schema_2: dict[str, Any]) -> None:
    """What schema 3 adds is empty, as it is where it is not known."""
    record = WindowRecord.model_validate_json(json.dumps(migrated(schema_2)))
    added = {name for name, field in WindowRecord.model_fields.items() if name not in schema_2}

    assert added == {
        "host_class", "settings", "commit", "baselines", "attempt", "continued", "added_metrics", "sweeps", "ruled_out",
    }  # fmt: skip
    assert record.model_dump(include=added) == {
        "host_class": "", "settings": {}, "commit": "", "baselines": (), "attempt": 1, "continued": (),
        "added_metrics": (), "sweeps": (), "ruled_out": {},
    }  # fmt: skip


def test_what_is_given_is_not_changed(schema_2: dict[str, Any]) -> None:
    """Bringing a record forward makes a new one."""
    before = json.dumps(schema_2)
    migrated(schema_2)

    assert json.dumps(schema_2) == before


def test_there_is_a_step_from_every_version_that_can_be_read() -> None:
    """Whoever raises the version writes the step to it, or says why there is none."""
    known = {*migrations._STEPS, *migrations._NEVER}

    assert known == set(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize("version", [None, "3", 3.0, True, [], {}])
def test_what_names_no_version_is_no_record(version: object) -> None:
    """Only a whole number is a version; without one nothing is guessed."""
    with pytest.raises(RecordError, match=r"^schema_version is .*, and a whole number is wanted: this is no window"):
        migrated({"schema_version": version})


def test_a_record_without_version_is_refused() -> None:
    """A JSON object that is something else says so."""
    with pytest.raises(RecordError, match="schema_version is None"):
        migrated({})


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 99])
def test_a_newer_record_asks_for_a_newer_package(version: int) -> None:
    """What a later version wrote is not half understood."""
    with pytest.raises(RecordError) as caught:
        migrated({"schema_version": version})
    assert str(caught.value) == (
        f"it has schema version {version}, and this pytest-specgate knows versions up to {SCHEMA_VERSION}: "
        f"update pytest-specgate"
    )


@pytest.mark.parametrize(
    ("version", "why"), [(1, "does not know whether its client kept up"), (0, "no such"), (-1, "no")]
)
def test_a_version_that_cannot_be_brought_forward_says_why(version: int, why: str) -> None:
    """Version 1 lacks what judging needs, and versions below it never were."""
    with pytest.raises(RecordError, match=f"it has schema version {version}: .*{why}"):
        migrated({"schema_version": version})
