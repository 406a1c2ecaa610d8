"""Baseline files: what they hold, what is refused when one is read, and what an update leaves alone."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_specgate.core.baselines import (
    AcceptedWindow,
    BaselineEntry,
    BaselineFile,
    BaselineValues,
    KnownBaseline,
    entry_id,
    file_name,
)
from pytest_specgate.core.profile import sha256_of
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from pydantic import JsonValue

ARMS: dict[str, JsonValue] = {"reference": {"model": "tiny"}, "candidate": {"model": "tiny", "args.k": 4}}
LOAD: dict[str, JsonValue] = {"temperature": 0.0, "requests.c1": 10}
SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*-[0-9a-f]{10}\.json")
HOSTILE = {
    "cases 116": "a/test_x.py::test_s[k4]",
    "another folder": "b/test_x.py::test_s[k4]",
    "a class": "a/test_x.py::TestS::test_s[k4]",
    "upwards": "../../etc/passwd::test_s",
    "only dots": "..",
    "one dot": ".",
    "nothing": "",
    "a root": "/",
    "backslashes": "c:\\gates\\test.py::test_s",
    "a device": "con",
    "umlauts": "prüfung.py::test_größe",
    "one emoji": "test.py::test[\N{ROCKET}]",
    "another emoji": "test.py::test[\N{FIRE}]",
    "half a character": "test.py::test[\ud83d]",
    "upper case": "Test.py::test_s",
    "lower case": "test.py::test_s",
    "a line": "test.py::test_s\nx",
    "nul": "test.py::test_s\0",
    "long": "x" * 5000,
    "longer": "x" * 5001,
    "long and different at its start": "y" + "x" * 5000,
}


def values(window: str = "w1", *, candidate: tuple[float, ...] = (2.0, 3.0)) -> BaselineValues:
    """Return figures of a window of two rounds."""
    return BaselineValues(window=window, reference=(1.0,) * len(candidate), candidate=candidate)


def entry(metric: str = "output_throughput", *windows: str, anchor: str = "w1", **changes: Any) -> BaselineEntry:
    """Return an entry of some windows, by default of one."""
    fields = {
        "metric": metric,
        "at": 8,
        "metric_definition_version": 2,
        "definition_sha256": sha256_of(ARMS),
        "profile_sha256": sha256_of(LOAD),
        "anchor": values(anchor),
        "windows": tuple(map(values, windows or ("w1",))),
    }
    return BaselineEntry.model_validate({**fields, **changes})


def accepted(*windows: str) -> dict[str, AcceptedWindow]:
    """Return where some windows come from."""
    return {
        name: AcceptedWindow(
            measured_at="2026-11-02T12:00:00+00:00",
            accepted_at="2026-11-02T13:00:00+00:00",
            reason="a test",
            record_sha256="0" * 64,
            engine={"reference": {"version": "0.32.0"}, "candidate": {"version": "0.32.0"}},
        )
        for name in windows
    }


def file_of(*entries: BaselineEntry) -> BaselineFile:
    """Return a file of some entries, by default of one."""
    made = BaselineFile(host_class="h200x1", gate="test_gate.py::test_gate")
    for one in entries or (entry(),):
        made = made.with_entry(one, windows=accepted(*one.window_ids), definition=ARMS, profile=LOAD)
    return made


@pytest.mark.parametrize("gate", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_gate_id_has_a_safe_name(gate: str) -> None:
    """Whatever a gate is called, its file has one short name that is safe on every file system."""
    name = file_name(gate)

    assert SAFE.fullmatch(name)
    assert len(name) <= 100
    assert ".." not in name.partition("-")[0]


def test_case_116_names_of_files_are_distinct() -> None:
    """Case 116: equal functions of other folders and classes, and ids that differ anywhere, have files of their own."""
    names = [file_name(gate).lower() for gate in HOSTILE.values()]

    assert len(set(names)) == len(names)


@given(ids=st.lists(st.text(st.characters(codec=None)), min_size=2, max_size=8, unique=True))
def test_any_two_ids_have_two_files(ids: list[str]) -> None:
    """Names are safe and distinct for any text, also where letter case is not told apart."""
    names = [file_name(gate) for gate in ids]

    assert all(SAFE.fullmatch(name) for name in names)
    assert len({name.lower() for name in names}) == len(names)


def test_a_name_is_readable_and_stays() -> None:
    """The end of an id, which tells most, can be read in the name, and the name never changes."""
    assert file_name("benchmarks/test_gate.py::test_k4[8]") == "benchmarks-test_gate.py-test_k4-8-2fe2669043.json"


@pytest.mark.parametrize(
    ("metric", "at", "name"),
    [
        ("output_throughput", 1, "c1-output_throughput"),
        ("output_throughput", 8, "c8-output_throughput"),
        ("output_throughput", "8/s", "r8-output_throughput"),
        ("ttft_p50", "0.5/s", "r0.5-ttft_p50"),
    ],
)
def test_case_116_entries_of_a_file_are_distinct(metric: str, at: Any, name: str) -> None:
    """Case 116: entries are called by metric and load level; a concurrency and a rate of one number are two."""
    assert entry_id(metric, at=at) == name


def test_a_file_reads_back_as_it_was() -> None:
    """A file of several entries and windows reads back equal to itself."""
    made = file_of(entry("output_throughput", "w1", "w2"), entry("ttft_p50", "w2", "w3", anchor="w2"))

    assert BaselineFile.model_validate_json(made.model_dump_json()) == made


def test_an_update_of_one_entry_leaves_all_others() -> None:
    """Case 108: a new entry, or one that changes, leaves the others and where they come from as they are."""
    before = file_of(entry("output_throughput", "w1", "w2"), entry("ttft_p50", "w2"), entry("tpot_p50"))
    after = before.with_entry(
        entry("ttft_p50", "w2", "w3", anchor="w2"), windows=accepted("w3"), definition=ARMS, profile=LOAD
    )

    for name in ("c8-output_throughput", "c8-tpot_p50"):
        assert after.entries[name] == before.entries[name]
    assert [one.window for one in after.entries["c8-ttft_p50"].windows] == ["w2", "w3"]
    assert {name: after.windows[name] for name in before.windows} == before.windows


def test_what_no_entry_points_at_goes() -> None:
    """Windows, loads and arms that only a removed entry knew are removed with it; shared ones stay."""
    other: dict[str, JsonValue] = {**LOAD, "requests.c1": 20}
    odd = entry("ttft_p50", "w2", "w3", anchor="w2", profile_sha256=sha256_of(other))
    whole = file_of(entry("output_throughput", "w1", "w2")).with_entry(
        odd, windows=accepted("w2", "w3"), definition=ARMS, profile=other
    )

    rest = whole.without(frozenset({"c8-ttft_p50"}))

    assert set(whole.windows) == {"w1", "w2", "w3"}
    assert rest == file_of(entry("output_throughput", "w1", "w2"))
    assert whole.without(frozenset(whole.entries)) == BaselineFile(host_class="h200x1", gate="test_gate.py::test_gate")


def test_a_window_stays_while_it_is_an_anchor() -> None:
    """Where the anchor comes from is kept after newer windows took its place."""
    made = file_of(entry("output_throughput", "w5", anchor="w1"))

    assert set(made.windows) == {"w1", "w5"}


def test_what_a_hash_stands_for_is_not_replaced() -> None:
    """Arms and loads that the file has stay as they are, so that their hash stays true."""
    made = file_of()

    again = made.with_entry(entry("tpot_p50"), windows={}, definition={"other": 1}, profile={"other": 1})

    assert (again.definitions, again.profiles) == (made.definitions, made.profiles)
    BaselineFile.model_validate_json(again.model_dump_json())


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e400", "true", '"12"', "-3", "[]", "null", "{}"])
@pytest.mark.parametrize("side", ["reference", "candidate"])
def test_cases_114_and_115_a_figure_is_a_number(side: str, text: str) -> None:
    """Cases 114, 115: a figure is a finite number of 0 or more; anything else is refused with file key and place."""
    stored = file_of().model_dump(mode="json")
    stored["entries"]["c8-output_throughput"]["windows"][0][side][0] = "HERE"

    with pytest.raises(ValidationError, match=rf"entries.c8-output_throughput.windows.0.{side}.0"):
        BaselineFile.model_validate_json(json.dumps(stored).replace('"HERE"', text))


@pytest.mark.parametrize("text", ["null", "[]", "3", "true", '"2.0"'])
def test_case_115_a_list_of_figures_is_one(text: str) -> None:
    """Case 115: a window without figures of its candidate, or with something else in their place, is refused."""
    stored = file_of().model_dump(mode="json")
    stored["entries"]["c8-output_throughput"]["windows"][0]["candidate"] = "HERE"

    with pytest.raises(ValidationError, match=r"entries.c8-output_throughput.windows.0"):
        BaselineFile.model_validate_json(json.dumps(stored).replace('"HERE"', text))


@pytest.mark.parametrize("text", ["NaN", "1e400", "[1, Infinity]"])
@pytest.mark.parametrize("part", ["definitions", "profiles"])
def test_case_114_no_nan_in_what_was_compared(part: str, text: str) -> None:
    """Case 114: a load or an arm of a file holds nothing that JSON cannot say."""
    stored = file_of().model_dump(mode="json")
    next(iter(stored[part].values()))["x"] = "HERE"

    with pytest.raises(ValidationError, match=rf"{part}\.[0-9a-f]+\.x"):
        BaselineFile.model_validate_json(json.dumps(stored).replace('"HERE"', text))


@pytest.mark.parametrize("version", ["0", "2", "null", "true", '"1"', "1.5"])
def test_a_file_of_another_schema_is_refused(version: str) -> None:
    """Only files of this version of the format are read."""
    stored = {**file_of().model_dump(mode="json"), "schema_version": "HERE"}

    with pytest.raises(ValidationError, match="schema_version"):
        BaselineFile.model_validate_json(json.dumps(stored).replace('"HERE"', version))


def _edited(edit: dict[tuple[str, ...], Any]) -> str:
    stored = file_of(entry("output_throughput", "w1", "w2")).model_dump(mode="json")
    for place, value in edit.items():
        target = stored
        for part in place[:-1]:
            target = target[part]
        if value is None:
            del target[place[-1]]
        else:
            target[place[-1]] = value
    return json.dumps(stored)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ({("definitions", sha256_of(ARMS), "candidate"): {}}, f"definitions.{sha256_of(ARMS)[:12]} does not have this"),
        (
            {("profiles", sha256_of(LOAD), "requests.c1"): 11},
            f"profiles.{sha256_of(LOAD)[:12]} does not have this hash",
        ),
        ({("profiles", sha256_of(LOAD)): None}, "points at a definition or a profile that is not there"),
        ({("definitions", sha256_of(ARMS)): None}, "points at a definition or a profile that is not there"),
        ({("windows", "w2"): None}, "entries.c8-output_throughput has window w2, of which nothing else is known"),
        ({("entries", "c8-output_throughput", "at"): 1}, "entries.c8-output_throughput is about c1-output_throughput"),
        ({("entries", "c8-output_throughput", "metric"): "ttft_p50"}, "c8-output_throughput is about c8-ttft_p50"),
        ({("entries", "c8-output_throughput", "anchor", "window"): "w0"}, "has window w0, of which nothing else"),
        ({("surprise",): 1}, "surprise"),
        ({("gate",): None}, "gate"),
        ({("windows", "w1", "reason"): ""}, "windows.w1.reason"),
        ({("windows", "w1", "record_sha256"): "abc"}, "windows.w1.record_sha256"),
        ({("windows", "w1", "regression"): 1}, "windows.w1.regression"),
    ],
)
def test_a_file_that_was_edited_by_hand_is_refused(edit: dict[tuple[str, ...], Any], told: str) -> None:
    """Names, hashes and references of a file have to fit together; what does not is named."""
    with pytest.raises(ValidationError, match=re.escape(told)):
        BaselineFile.model_validate_json(_edited(edit))


def test_arms_of_a_window_have_the_same_rounds() -> None:
    """Figures are paired by round; a window of an arm that has no such metric has none of it."""
    with pytest.raises(ValidationError, match="another number of rounds"):
        BaselineValues(window="w1", reference=(1.0,), candidate=(1.0, 2.0))

    assert BaselineValues(window="w1", reference=(), candidate=(1.0, 2.0)).rounds == 2


@pytest.mark.parametrize("windows", [("w2", "w1"), ("w1", "w1")])
def test_windows_are_sorted_and_stand_once(windows: tuple[str, ...]) -> None:
    """A window that stands twice would count twice."""
    with pytest.raises(ValidationError, match="sorted by their ids, and each stands once"):
        entry("output_throughput", *windows)


def test_an_entry_has_a_window() -> None:
    """An entry without windows is nothing to compare with."""
    with pytest.raises(ValidationError, match="windows"):
        entry(windows=())


def test_the_latest_window_is_the_last() -> None:
    """The newest window stands last, whatever the anchor is."""
    assert entry("output_throughput", "w2", "w7", anchor="w9").latest == values("w7")


def test_what_was_known_is_whole() -> None:
    """What a record keeps of a baseline has a reason why there is none, or an entry whose windows are all explained."""
    with pytest.raises(ValidationError, match="neither a baseline nor a reason"):
        KnownBaseline(gate="g", entry_id="c8-output_throughput")
    with pytest.raises(ValidationError, match="c8-output_throughput has window w1, of which nothing else is known"):
        KnownBaseline(gate="g", entry_id="c8-output_throughput", entry=entry())

    missing = Failure(reason="no-baseline", message="there is none")
    assert KnownBaseline(gate="g", entry_id="c8-output_throughput", problem=missing).entry is None
    assert KnownBaseline(gate="g", entry_id="x", entry=entry(), windows=accepted("w1")).problem is None
