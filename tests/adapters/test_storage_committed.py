"""Committed files may have been merged or edited by hand: what is wrong in them is named by file and key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.storage import NoiseFile, read_stored, stable_text
from pytest_specgate.core.baselines import AcceptedWindow, BaselineEntry, BaselineFile, BaselineValues
from pytest_specgate.core.calibration import ArmCalibration, CalibrationWindow, NoiseBook, figures
from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.profile import sha256_of

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from pytest_specgate.core.stored import Stored

SHA = "0" * 64
WINDOW = "20261129T120000.000Z-aaaaaaaaaaaa-0000000000"
DEFINITION: dict[str, JsonValue] = {"note": "x"}
PROFILE: dict[str, JsonValue] = {"seed": 0}
NOISE = "noise"
BASELINE = "baseline"
LONG = "x" * 5000


def noise_book() -> NoiseBook:
    """Return the calibration of one arm by one window of three boots."""
    window = CalibrationWindow(
        measured_at="2026-11-29T12:00:00+00:00",
        engine={"version": "1.2"},
        values={"c1": {"ttft_p50": (0.1, 0.11, 0.12)}},
    )
    entry = ArmCalibration(
        arm="off", arm_sha256=SHA, settings_sha256=SHA, profile_sha256="a" * 12, metric_definition_version=1,
        windows=(window,), noise=figures([window]),
    )  # fmt: skip
    return NoiseBook(host_class="a", arms=(entry,))


def baseline_file() -> BaselineFile:
    """Return a baseline of one gate with one entry of one window."""
    values = BaselineValues(window=WINDOW, reference=(100.0, 101.0), candidate=(150.0, 151.0))
    entry = BaselineEntry(
        metric="output_throughput", at=1, metric_definition_version=1, definition_sha256=sha256_of(DEFINITION),
        profile_sha256=sha256_of(PROFILE), anchor=values, windows=(values,),
    )  # fmt: skip
    window = AcceptedWindow(
        measured_at="2026-11-29T12:00:00+00:00", accepted_at="2026-11-29T13:00:00+00:00", reason="the first",
        record_sha256=SHA, engine={"off": {"version": "1.2"}},
    )  # fmt: skip
    return BaselineFile(
        gate="test_x.py::test_s", host_class="a", definitions={sha256_of(DEFINITION): DEFINITION},
        profiles={sha256_of(PROFILE): PROFILE}, windows={WINDOW: window}, entries={"c1-output_throughput": entry},
    )  # fmt: skip


def read(kind: str, folder: Path, *, old: str = "", new: str = "") -> Stored:
    """Write a committed file with one piece replaced, and read it."""
    path = folder / "a" / "noise.json"
    text = stable_text(noise_book() if kind == NOISE else baseline_file())
    assert old in text
    path.parent.mkdir()
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return NoiseFile(folder, "a").load() if kind == NOISE else read_stored(path, BaselineFile, what="baseline")


@pytest.mark.parametrize("kind", [NOISE, BASELINE])
def test_what_was_written_is_read(tmp_path: Path, kind: str) -> None:
    """The files that the following tests spoil are good as they are."""
    assert read(kind, tmp_path) == (noise_book() if kind == NOISE else baseline_file())


@pytest.mark.parametrize(
    ("kind", "old", "new", "key"),
    [
        (NOISE, '"host_class": "a",', '"host_class": "b",\n "host_class": "a",', "host_class"),
        (NOISE, '"ttft_p50": [', '"ttft_p50": [1.0, 2.0],\n"ttft_p50": [', "ttft_p50"),
        (NOISE, '"engine": {', '"engine": {"version": "1.1",', "version"),
        (BASELINE, '"entries": {', '"entries": {}, "entries": {', "entries"),
        (BASELINE, '"candidate":', '"candidate": [1.0, 1.0], "candidate":', "candidate"),
        (BASELINE, '"note":', '"note": "y", "note":', "note"),
    ],
)
def test_case_116_a_key_that_stands_twice_is_an_error(tmp_path: Path, kind: str, old: str, new: str, key: str) -> None:
    """Case 116: of two equal keys neither wins; file and key are named, also inside free JSON."""
    with pytest.raises(RecordError) as caught:
        read(kind, tmp_path, old=old, new=new)
    assert str(caught.value).startswith(f"{tmp_path / 'a' / 'noise.json'} is no ")
    assert str(caught.value).endswith(f": the key {key!r} stands twice in one object")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", "null", "true", '"0.1"', "[]"])
@pytest.mark.parametrize(
    ("kind", "old", "place"),
    [
        (NOISE, "0.12]", "arms.0.windows.0.values.c1.ttft_p50.2: "),
        (BASELINE, "151.0]", "entries.c1-output_throughput.anchor.candidate.1: "),
    ],
)
def test_cases_114_and_115_what_is_no_number_is_refused_with_file_and_key(
    tmp_path: Path, kind: str, old: str, place: str, value: str
) -> None:
    """Cases 114, 115: neither NaN nor an infinity nor another type is a figure; null is missing, and never 0."""
    with pytest.raises(RecordError) as caught:
        read(kind, tmp_path, old=old, new=f"{value}]")
    assert str(caught.value).startswith(f"{tmp_path / 'a' / 'noise.json'} is no ")
    assert f": {place}Input should be a " in str(caught.value)


@pytest.mark.parametrize("value", ["-0.1", "-3"])
def test_case_115_a_negative_figure_is_refused(tmp_path: Path, value: str) -> None:
    """Case 115: no metric is below 0."""
    with pytest.raises(RecordError, match=r"anchor.candidate.1: Input should be greater than or equal to 0"):
        read(BASELINE, tmp_path, old="151.0]", new=f"{value}]")


@pytest.mark.parametrize(("kind", "old"), [(NOISE, '"1.2"'), (BASELINE, '"1.2"')])
@pytest.mark.parametrize("value", ["NaN", "1e400"])
def test_case_114_free_json_has_no_nan_either(tmp_path: Path, kind: str, old: str, value: str) -> None:
    """Case 114: what the engine told of itself is JSON and nothing else."""
    with pytest.raises(RecordError, match="is no JSON number"):
        read(kind, tmp_path, old=old, new=value)


@pytest.mark.parametrize("kind", [NOISE, BASELINE])
@pytest.mark.parametrize(
    ("old", "new", "ending"),
    [
        ("{", "<<<<<<< HEAD\n{", ": line 1 is the mark of a merge conflict: resolve the merge"),
        ("{", "{,", ": the file: Invalid JSON: key must be a string at line 1 column 2"),
        (
            '"schema_version": 1', '"schema_version": 7',
            ": it has schema version 7, and this pytest-specgate knows versions up to 1: update pytest-specgate",
        ),
        ('"host_class": "a"', f'"host_class": ["{LONG}"]', "host_class: Input should be a valid string, got list"),
        ('"schema_version": 1', f'"schema_version": "{LONG}"', f", got '{LONG[:59]}..."),
    ],
    ids=["merge", "json", "version", "list", "long"],
)  # fmt: skip
def test_a_complaint_is_one_short_line(tmp_path: Path, kind: str, old: str, new: str, ending: str) -> None:
    """The place and the remedy are told, and the file is not."""
    with pytest.raises(RecordError) as caught:
        read(kind, tmp_path, old=old, new=new)
    assert str(caught.value).endswith(ending)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400"])
@pytest.mark.parametrize(("kind", "old"), [(NOISE, "0.12]"), (BASELINE, "151.0]")])
def test_what_is_no_number_is_named_as_it_was_written(tmp_path: Path, kind: str, old: str, value: str) -> None:
    """Whoever looks for it in the file finds it."""
    with pytest.raises(RecordError) as caught:
        read(kind, tmp_path, old=old, new=f"{value}]")
    assert str(caught.value).endswith(f", got {value}")


@pytest.mark.parametrize("value", ["1" * 5000, "[" * 5000 + "]" * 5000])
def test_what_no_reader_takes_is_one_sentence(tmp_path: Path, value: str) -> None:
    """Numbers of thousands of digits and endless nesting are errors of the file, and no traceback."""
    with pytest.raises(RecordError) as caught:
        read(BASELINE, tmp_path, old='"1.2"', new=value)
    assert str(caught.value).startswith(f"{tmp_path / 'a' / 'noise.json'} is no baseline: ")
