"""Window records as files: whole or not at all, and refused with file and key when they are not what they should be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.storage import FileStore, load_record, window_name, write_atomically
from pytest_specgate.core.arms import Arm
from pytest_specgate.core.counters import CounterPage, Sample
from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.judge import judge
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import BootRecord, ClientRecord, PointRecord, RequestRecord, WindowRecord
from pytest_specgate.core.stored_gates import gates_of

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "core" / "data"
PROFILE = RequestProfile(input_tokens=8, output_tokens=3, requests={1: 10, 8: 16}, stop=("<end>",))
CLIENT = ClientRecord(
    processes=1,
    wall_s=10.0,
    cpu_s=0.5,
    busiest_cpu_share=0.05,
    lag_p50_s=0.001,
    lag_p95_s=0.002,
    lag_p99_s=0.002,
    lag_max_s=0.004,
    late_sends_p95_s=None,
)


def make_record(*, finished: bool = True) -> WindowRecord:
    """Return a record with something in every part that is stored."""
    page = CounterPage(samples=(Sample(name="vllm:generation_tokens_total", labels={"engine": "0"}, value=1.5),))
    request = RequestRecord(
        index=0,
        due_s=None,
        sent_s=0.25,
        status=200,
        error=None,
        ttft_s=0.1,
        first_text_s=0.1,
        last_token_s=0.3,
        closed_s=0.3,
        prompt_tokens=8,
        output_tokens=3,
        token_events=3,
        finish_reason="length",
        text_sha256="0" * 64,
        text=None,
        body_sha256="1" * 64,
    )
    boot = BootRecord(
        arm="off",
        round=1,
        position=0,
        pairs=("k4 against off",),
        command="serve 漢",
        started_at="2026-11-29T12:00:01+00:00",
        boot_s=30.5,
        profile={"seed": 0, "stop": ["<end>"], "revision": None, "ignore_eos": True, "temperature": 0.7},
        resolved={"speculative_config": None},
        points=(
            PointRecord(
                at=1,
                requests=(request,),
                gaps=None,
                client=CLIENT,
                before=page,
                after=page,
                gpus=None,
                other_cpu_share=None,
                repetitiveness=0.125,
            ),
        ),
    )
    return WindowRecord(
        created_at="2026-11-29T12:00:00.123+00:00",
        finished=finished,
        arms=(Arm("off", model="folder", args={"max_model_len": 64}, env={"VLLM_X": "1"}),),
        pairs=(),
        profile=PROFILE,
        host={"cpus": 2},
        engine={"off": {"version": None}},
        boots=(boot,),
    )


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The path of a stored record."""
    return Path(FileStore(tmp_path / "window").save(make_record()))


@pytest.fixture
def altered(stored: Path) -> Callable[[str, str], Path]:
    """A function that replaces one piece of the stored text, numbers and names as JSON writes them without blanks."""

    def change(old: str, new: str) -> Path:
        text = json.dumps(json.loads(stored.read_text()), separators=(",", ":"))
        assert text.count(old) == 1
        stored.write_text(text.replace(old, new))
        return stored

    return change


def names(folder: Path) -> list[str]:
    """Return what lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_a_record_comes_back_as_it_was(stored: Path) -> None:
    """What is read equals what was written, absent values included."""
    assert load_record(stored) == make_record()
    assert stored.name == "record.json"


def test_a_record_is_text_that_people_can_read(stored: Path) -> None:
    """Indented UTF-8 with a line end at its end, and absent values as null, never as NaN."""
    text = stored.read_bytes().decode("utf-8")

    assert text.startswith('{\n "schema_version": 3,\n')
    assert text.endswith("}\n")
    assert "serve 漢" in text
    assert "NaN" not in text


def test_a_later_state_replaces_an_earlier_one(tmp_path: Path) -> None:
    """Two saves leave one file, with the second state, and nothing beside it."""
    store = FileStore(tmp_path / "window")
    first = store.save(make_record(finished=False))
    second = store.save(make_record(finished=True))

    assert first == second == str(store.path)
    assert names(tmp_path / "window") == ["record.json"]
    assert load_record(store.path).finished


def test_nothing_is_made_before_the_first_save(tmp_path: Path) -> None:
    """A window that never starts leaves no empty folder."""
    FileStore(tmp_path / "window")

    assert names(tmp_path) == []


def _fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("owner", "step"), [(os, "fsync"), (Path, "replace")])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, step: str
) -> None:
    """A full disk, before or while the new file takes its place, leaves what was there."""
    path = tmp_path / "file.txt"
    write_atomically(path, "old")
    monkeypatch.setattr(owner, step, _fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new")

    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_a_text_that_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    """Half a character at the end of a long text is found out before the old file is touched."""
    path = tmp_path / "file.txt"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new" * 100_000 + "\ud800")

    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def test_an_interrupt_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of a write is no different from a full disk."""
    path = tmp_path / "file.txt"
    write_atomically(path, "old")
    monkeypatch.setattr(os, "fsync", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, "new")

    assert path.read_text() == "old"
    assert names(tmp_path) == ["file.txt"]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_line_ends_are_written_as_they_are(tmp_path: Path) -> None:
    """The bytes do not depend on the system."""
    write_atomically(tmp_path / "deep" / "file.txt", "a\nb é\n")

    assert (tmp_path / "deep" / "file.txt").read_bytes() == "a\nb é\n".encode()


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_permissions_of_any_new_file(tmp_path: Path, mask: int, mode: int) -> None:
    """Who collects the results need not be who ran the tests: the user's umask decides, and is left as it was."""
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "file.txt", "text")
    finally:
        left = os.umask(before)

    assert (tmp_path / "file.txt").stat().st_mode & 0o777 == mode
    assert left == mask


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_case_114_what_is_no_number_is_refused_with_file_and_key(
    altered: Callable[[str, str], Path], value: str
) -> None:
    """Case 114: a literal NaN or an infinity, also as an exponent too large, names the file and the key."""
    path = altered('"ttft_s":0.1', f'"ttft_s":{value}')

    with pytest.raises(RecordError) as caught:
        load_record(path)
    assert str(caught.value) == (
        f"{path} is no window record of schema 3: boots.0.points.0.requests.0.ttft_s: "
        f"Input should be a finite number, got {value}"
    )


@pytest.mark.parametrize(
    ("part", "named"), [("boots", "boot off in round 1"), ("arms", "arm off"), ("gates", "gate test_x")]
)
def test_what_stands_twice_is_refused(tmp_path: Path, part: str, named: str) -> None:
    """Of two boots, arms or gates of one name neither wins: the record was edited."""
    FileStore(tmp_path).save(make_record())
    path = tmp_path / "record.json"
    stored = {**json.loads(path.read_text(encoding="utf-8"))}
    stored["gates"] = [{"id": "test_x"}]
    path.write_text(json.dumps({**stored, part: [*stored[part], stored[part][0]]}), encoding="utf-8")

    with pytest.raises(RecordError) as caught:
        load_record(path)
    assert str(caught.value) == f"{path} holds {named} twice: it was edited by hand"


def test_case_114_null_is_missing_and_not_zero(altered: Callable[[str, str], Path]) -> None:
    """Case 114: null comes back as an absent value."""
    record = load_record(altered('"ttft_s":0.1', '"ttft_s":null'))

    assert record.boots[0].points[0].requests[0].ttft_s is None


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"ttft_s":0.1', '"ttft_s":[]', "boots.0.points.0.requests.0.ttft_s: "),
        ('"ttft_s":0.1', '"ttft_s":"0.1"', "boots.0.points.0.requests.0.ttft_s: "),
        ('"ttft_s":0.1', '"ttft_s":true', "boots.0.points.0.requests.0.ttft_s: "),
        (
            '"output_tokens":3,"token_events"',
            '"output_tokens":3.5,"token_events"',
            "boots.0.points.0.requests.0.output_",
        ),
        ('"ttft_s":0.1', '"quick_s":0.1', "boots.0.points.0.requests.0."),
        ('"ttft_s":0.1', '"ttft_s":0.1,"ttft_ms":100', "boots.0.points.0.requests.0.ttft_ms: "),
        ('"finished":true', '"finished":null', "finished: "),
        ('"name":"off"', '"name":"two words"', "arms.0.name: "),
        ('"input_tokens":8', '"input_tokens":"8"', "profile.input_tokens: "),
        ('"at":1', '"concurrency":1', "boots.0.points.0."),
        ('"at":1', '"at":true', "boots.0.points.0.at: "),
        ('"cpus":2', '"cpus":NaN', "host.cpus: "),
        ('"temperature":0.7', '"temperature":NaN', "boots.0.profile.temperature: "),
    ],
)
def test_case_115_a_wrong_value_is_refused_with_file_and_key(
    altered: Callable[[str, str], Path], old: str, new: str, place: str
) -> None:
    """Case 115: wrong types, missing keys and unknown keys name the file and the key."""
    path = altered(old, new)

    with pytest.raises(RecordError) as caught:
        load_record(path)
    assert str(caught.value).startswith(f"{path} is no window record of schema 3: {place}")


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        ('"schema_version":null', "schema_version is None, and a whole number is wanted: this is no window record"),
        ('"schema_version":"3"', "schema_version is '3', and a whole number is wanted"),
        ('"schema_version":true', "schema_version is True, and a whole number is wanted"),
        ('"schema_version":3.0', "schema_version is 3.0, and a whole number is wanted"),
        ('"version":3', "schema_version is None, and a whole number is wanted"),
        ('"schema_version":0', "it has schema version 0: there is no such version"),
        ('"schema_version":1', "it has schema version 1: it does not know whether its client kept up with the server"),
        ('"schema_version":4', "versions up to 3: update pytest-specgate"),
    ],
)
def test_a_version_that_cannot_be_read_is_refused_with_its_reason(
    altered: Callable[[str, str], Path], new: str, sentence: str
) -> None:
    """Unknown, newer and hopeless versions name the file, what was found, and what to do."""
    path = altered('"schema_version":3', new)

    with pytest.raises(RecordError) as caught:
        load_record(path)
    assert str(caught.value).startswith(f"{path} cannot be read as a window record: ")
    assert sentence in str(caught.value)


def test_a_record_of_today_is_parsed_once(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is told by how the text begins: records of many megabytes are not read twice."""
    monkeypatch.setattr(json, "loads", _fail)

    assert load_record(stored) == make_record()


def test_the_version_may_stand_anywhere(stored: Path) -> None:
    """A tool that sorts the keys of a record leaves it readable."""
    stored.write_text(json.dumps(json.loads(stored.read_text()), sort_keys=True))

    assert load_record(stored) == make_record()


def test_a_record_of_schema_2_is_read_and_judged_as_it_was() -> None:
    """A file that an earlier version wrote gives its verdict again; what it did not know stays unknown."""
    record = load_record(DATA / "window_record_2.json")
    (gate,) = gates_of(record)
    (verdict,) = judge(gate, record)

    assert (record.schema_version, record.host_class, record.commit, record.attempt) == (3, "", "", 1)
    assert (record.settings, record.baselines, record.continued) == ({}, (), ())
    assert {**record.verdicts[0], "baseline": None} == verdict.model_dump(mode="json")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e400", "true", '"x"'])
def test_an_older_record_is_checked_like_one_of_today(tmp_path: Path, value: str) -> None:
    """A wrong value in a record of schema 2 names file and key, as it stands in today's form."""
    path = tmp_path / "record.json"
    text = (DATA / "window_record_2.json").read_text()
    assert text.count('"repetitiveness": 0.0') == 2
    path.write_text(text.replace('"repetitiveness": 0.0', f'"repetitiveness": {value}', 1))

    with pytest.raises(RecordError) as caught:
        load_record(path)
    assert str(caught.value).startswith(
        f"{path} is no window record of schema 3: boots.0.points.0.repetitiveness: Input should be a "
    )


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b"[" * 99999])
def test_a_file_that_is_no_json_object_is_named(stored: Path, content: bytes) -> None:
    """Cut, empty or foreign files are an error with the path."""
    stored.write_bytes(content)

    with pytest.raises(RecordError) as caught:
        load_record(stored)
    assert str(caught.value).startswith(f"{stored} ")


@pytest.mark.parametrize("missing", [True, False], ids=["missing", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, missing: bool) -> None:
    """A path that does not exist, or is a folder, is an error with the path and the reason."""
    path = tmp_path / "record.json" if missing else tmp_path

    with pytest.raises(RecordError, match=r"cannot be read: .*(No such file|Is a directory)") as caught:
        load_record(path)
    assert str(caught.value).startswith(f"{path} ")


@pytest.mark.parametrize(
    ("created_at", "start"),
    [
        ("2026-11-29T12:34:56.789+00:00", "20261129T123456.789Z-"),
        ("2026-11-29T12:34:56+00:00", "20261129T123456.000Z-"),
    ],
)
def test_the_folder_of_a_window_tells_when_and_what(created_at: str, start: str) -> None:
    """Names sort by time, and windows with the same load share the ending."""
    assert window_name(created_at, PROFILE) == f"{start}{PROFILE.fingerprint()}"
