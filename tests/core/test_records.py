"""Window records: exact storage, and refusal of what is no figure."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_specgate.core.arms import ArmPair
from pytest_specgate.core.records import SCHEMA_VERSION, BootRecord, PairRecord, RequestRecord, WindowRecord
from pytest_specgate.core.stored import Failure, Stored

if TYPE_CHECKING:
    from tests.core.conftest import Build

NUMBER = st.floats(allow_nan=False, allow_infinity=False)


def _window(build: type[Build]) -> WindowRecord:
    pair = build.pair(temperature=0.8, stop=("\n",), extra_body={"x": [1, 2.5, None, True]})
    return build.window(pair, [1.0, 1 / 3], [math.pi, 1e-9])


def test_round_trip_is_exact(build: type[Build]) -> None:
    """A window reads back from its JSON equal to itself, with arms, profile, counters and every float."""
    record = _window(build)

    assert WindowRecord.model_validate_json(record.model_dump_json()) == record


def test_a_record_read_back_writes_the_same_text(build: type[Build]) -> None:
    """Writing what was read changes no byte."""
    text = _window(build).model_dump_json(indent=1)

    assert WindowRecord.model_validate_json(text).model_dump_json(indent=1) == text


@given(time=NUMBER, start=NUMBER)
def test_every_float_survives(build: type[Build], *, time: float, start: float) -> None:
    """Any finite time is stored without loss."""
    request = build.request(ttft_s=time, sent_s=start)

    read = RequestRecord.model_validate_json(request.model_dump_json())

    assert (read.ttft_s, read.sent_s) == (time, start)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("field", ["sent_s", "ttft_s", "last_token_s", "closed_s"])
def test_case_114_no_nan_is_written(build: type[Build], *, field: str, number: float) -> None:
    """Case 114: NaN and infinity never enter a record."""
    fields = {**build.request().model_dump(), field: number}

    with pytest.raises(ValidationError, match="finite number"):
        RequestRecord.model_validate(fields)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", "[]", '"soon"'])
def test_case_114_no_nan_is_read(build: type[Build], text: str) -> None:
    """Case 114: NaN, infinity, and numbers too large for a float are refused with the name of the field."""
    fields = json.dumps({**build.request().model_dump(), "ttft_s": "HERE"}).replace('"HERE"', text)

    with pytest.raises(ValidationError, match="ttft_s"):
        RequestRecord.model_validate_json(fields)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e400", "[1, NaN]", '{"a": [{"b": Infinity}]}'])
@pytest.mark.parametrize(
    "place",
    [("host",), ("engine", "off"), ("boots", 0, "profile"), ("boots", 0, "resolved"), ("verdicts", 0)],
    ids=lambda place: ".".join(map(str, place)),
)
def test_case_114_no_nan_is_read_into_free_json(build: type[Build], *, place: tuple[str | int, ...], text: str) -> None:
    """Case 114: NaN and infinity are refused, with their place, also where any JSON may stand, at any depth."""
    window = {**json.loads(_window(build).model_dump_json()), "verdicts": [{}]}
    target: Any = window
    for part in place:
        target = target[part]
    target["x"] = "HERE"

    with pytest.raises(ValidationError, match=rf"{re.escape('.'.join(map(str, place)))}\.x"):
        WindowRecord.model_validate_json(json.dumps(window).replace('"HERE"', text))


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_case_114_no_nan_enters_free_json(build: type[Build], number: float) -> None:
    """Case 114: NaN and infinity do not enter a profile or a resolved configuration either."""
    fields = build.boot(build.arm(), build.profile()).model_dump()

    for field in ("profile", "resolved"):
        with pytest.raises(ValidationError, match=f"{field}.x"):
            BootRecord.model_validate({**fields, field: {"x": [number]}})


@pytest.mark.parametrize("value", [None, True, 0, -2.5, "NaN", [], {}, [1, {"a": None}]])
def test_free_json_is_kept(build: type[Build], value: Any) -> None:
    """Every JSON value reads back as it was, also a text that looks like no number."""
    boot = build.boot(build.arm(), build.profile()).model_copy(update={"resolved": {"x": value}})

    read = BootRecord.model_validate_json(boot.model_dump_json())

    assert json.dumps(read.resolved) == json.dumps({"x": value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ttft_s", True),
        ("ttft_s", "12"),
        ("sent_s", None),
        ("index", "3"),
        ("index", True),
        ("index", 1.5),
        ("status", 200.0),
        ("status", "200"),
        ("output_tokens", False),
        ("error", 500),
        ("finish_reason", True),
    ],
)
def test_case_115_wrong_types_are_refused(build: type[Build], *, field: str, value: Any) -> None:
    """Case 115: a value of another type than the field's is an error, in memory as in a file."""
    fields = {**build.request().model_dump(), field: value}

    with pytest.raises(ValidationError, match=field):
        RequestRecord.model_validate(fields)
    with pytest.raises(ValidationError, match=field):
        RequestRecord.model_validate_json(json.dumps(fields))


@pytest.mark.parametrize(("field", "value"), [("round", "1"), ("position", True), ("pairs", "k4 against off")])
def test_case_115_wrong_types_of_a_boot_are_refused(build: type[Build], *, field: str, value: Any) -> None:
    """Case 115: a boot whose round is a text, say, is refused with the name of the field."""
    fields = json.loads(build.boot(build.arm(), build.profile()).model_dump_json())

    with pytest.raises(ValidationError, match=field):
        BootRecord.model_validate_json(json.dumps({**fields, field: value}))


def test_case_114_null_is_missing_not_zero(build: type[Build]) -> None:
    """Case 114: `null` reads back as missing."""
    text = build.request(ttft_s=None).model_dump_json()

    assert '"ttft_s":null' in text
    assert RequestRecord.model_validate_json(text).ttft_s is None


@pytest.mark.parametrize(
    "field", sorted(RequestRecord.model_fields.keys() - {"chunk_times", "speculation", "speculation_problem"})
)
def test_nothing_is_invented_for_a_missing_field(build: type[Build], field: str) -> None:
    """A stored request without one of its fields is refused, not completed, but for what is kept only where asked."""
    fields = build.request().model_dump()
    del fields[field]

    with pytest.raises(ValidationError, match=field):
        RequestRecord.model_validate(fields)


def test_unknown_keys_are_refused(build: type[Build]) -> None:
    """A key of another schema is refused at any depth, with its place."""
    fields = json.loads(_window(build).model_dump_json())
    fields["boots"][1]["points"][0]["requests"][2]["tttf_s"] = 1.0

    with pytest.raises(ValidationError, match=r"boots\.1\.points\.0\.requests\.2\.tttf_s"):
        WindowRecord.model_validate_json(json.dumps(fields))


def test_records_cannot_be_changed(build: type[Build]) -> None:
    """What was measured stays as it was measured."""
    record = build.request()

    with pytest.raises(ValidationError, match="frozen"):
        record.ttft_s = 1.0


def test_every_record_is_of_the_strict_kind() -> None:
    """Whatever is stored refuses unknown keys, other types and NaN, and is frozen."""
    config = Stored.model_config

    assert (config["frozen"], config["extra"], config["strict"]) == (True, "forbid", True)
    assert not config["allow_inf_nan"]


def test_a_new_record_has_the_schema_of_today(build: type[Build]) -> None:
    """A record says in which schema it was written."""
    assert _window(build).schema_version == SCHEMA_VERSION == 3


@pytest.mark.parametrize("version", [0, 1, 2, 4, 99, "3", None, True, [3]])
def test_another_schema_version_is_refused(build: type[Build], version: Any) -> None:
    """A record of another schema is not judged as if it were of this one."""
    fields = {**json.loads(_window(build).model_dump_json()), "schema_version": version}

    with pytest.raises(ValidationError, match="schema_version"):
        WindowRecord.model_validate_json(json.dumps(fields))


def test_boots_of_an_arm_come_by_round(build: type[Build]) -> None:
    """The boots of an arm are in the order of their rounds, wherever they lie in the record."""
    record = _window(build)
    turned = record.model_copy(update={"boots": tuple(reversed(record.boots))})

    assert [(boot.arm, boot.round) for boot in turned.boots_of("k4")] == [("k4", 1), ("k4", 2)]
    assert turned.boots_of("k7") == ()


def test_boots_are_paired_by_round(build: type[Build]) -> None:
    """The arms of a pair are paired in the rounds in which both were booted, in the order of the rounds."""
    pair = build.pair()
    record = build.window(pair, [1.0] * 3, [1.0] * 2)
    turned = record.model_copy(update={"boots": tuple(reversed(record.boots))})

    rounds = [(left.arm, right.arm, left.round, right.round) for left, right in turned.rounds_of(pair)]

    assert rounds == [("off", "k4", 1, 1), ("off", "k4", 2, 2)]


def test_boots_for_a_pair_are_those_that_ran_for_it(build: type[Build]) -> None:
    """Of an arm that two pairs share, each pair has the boots that ran for it, paired or not, by round."""
    pair, other = build.pair(), build.pair(candidate=7)
    record = build.window(pair, [1.0] * 3, [1.0] * 2)
    titles = {1: (pair.title, other.title), 2: (pair.title,), 3: (other.title,)}
    boots = [boot.model_copy(update={"pairs": titles[boot.round]}) for boot in reversed(record.boots)]
    shared = record.model_copy(update={"boots": tuple(boots)})

    seen = [
        [[(boot.arm, boot.round) for boot in boots_of_arm] for boots_of_arm in shared.boots_for(one)]
        for one in (pair, other)
    ]

    assert seen == [[[("off", 1), ("off", 2)], [("k4", 1), ("k4", 2)]], [[("off", 1), ("off", 3)], []]]
    assert [left.round for left, _ in shared.rounds_of(pair)] == [1, 2]
    assert shared.rounds_of(other) == ()


def test_a_turned_pair_has_boots_of_its_own(build: type[Build]) -> None:
    """A pair with reference and candidate exchanged is another pair, for which nothing was booted."""
    pair = build.pair()
    record = build.window(pair, [1.0], [1.0])
    turned = dataclasses.replace(pair, reference=pair.candidate, candidate=pair.reference)

    assert record.boots_for(turned) == ((), ())


def test_points_of_a_boot_by_concurrency(build: type[Build]) -> None:
    """A point is found by its concurrency, and there is none where none was measured."""
    boot = build.boot(build.arm(), build.profile())

    assert boot.point(8) is boot.points[1]
    assert boot.point(4) is None


def test_completed_and_failed_requests(build: type[Build]) -> None:
    """Every request of a point is either completed or failed."""
    point = build.point([build.request(0), build.failed(1), build.request(2)])

    assert [request.index for request in point.completed] == [0, 2]
    assert [request.index for request in point.failed] == [1]


def test_a_pair_is_stored_by_names(build: type[Build]) -> None:
    """A pair is stored by the names of its arms, its paths and its rounds."""
    stored = PairRecord.of(build.pair(rounds=4))

    assert stored == PairRecord(reference="off", candidate="k4", varies=("args.speculative_config",), rounds=4)


@pytest.mark.parametrize(("varies", "paths"), [(["env.A"], ("env.A",)), (("env",), ("env",)), ("env.A", ("env.A",))])
def test_paths_of_a_pair_are_stored_as_a_tuple(build: type[Build], *, varies: Any, paths: tuple[str, ...]) -> None:
    """However the paths of a pair were written, they are stored and read back in one form."""
    off = build.arm().vary("off", env={"A": "a"})
    pair = ArmPair(reference=off, candidate=off.vary("b", env={"A": "b"}), varies=varies, profile=build.profile())

    stored = PairRecord.of(pair)

    assert stored.varies == paths
    assert PairRecord.model_validate_json(stored.model_dump_json()) == stored


def test_a_failure_needs_no_detail() -> None:
    """A failure is a reason and a sentence; further lines are optional."""
    assert Failure(reason="server-died", message="it died").detail == ""


@pytest.mark.parametrize("changes", [{"temperature": "0"}, {"requests": {"1": True}}, {"input_tokens": 1.5}])
def test_a_stored_profile_is_checked_like_a_written_one(build: type[Build], changes: dict[str, Any]) -> None:
    """A profile of the wrong types in a file is refused when it is read."""
    fields = json.loads(_window(build).model_dump_json())
    fields["profile"] |= changes

    with pytest.raises(ValidationError, match=rf"profile\.{next(iter(changes))}"):
        WindowRecord.model_validate_json(json.dumps(fields))
