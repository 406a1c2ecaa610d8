"""The file of calibrations, the text of committed files, and the records of earlier windows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.adapters.storage import (
    NOISE_NAME,
    RECORD_NAME,
    FileStore,
    NoiseFile,
    latest_records,
    stable_text,
    window_name,
)
from pytest_specgate.core.arms import Arm
from pytest_specgate.core.calibration import CalibrationWindow, NoiseBook
from pytest_specgate.core.errors import RecordError
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.records import WindowRecord

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOST = "cpu-2x-test"
PROFILE = RequestProfile(input_tokens=8, output_tokens=3, requests={1: 10, 8: 16})
OFF, K4 = (Arm(name, model="folder", args={"seed": seed}) for seed, name in enumerate(("off", "k4")))


def _window(*values: float, metric: str = "ttft_p50", day: int = 2) -> CalibrationWindow:
    return CalibrationWindow(
        measured_at=f"2026-11-{day:02d}T09:00:00+00:00", engine={"vllm": "0.32.0"}, values={"c1": {metric: values}}
    )


def _book(*arms: Arm) -> NoiseBook:
    book = NoiseBook(host_class=HOST)
    for arm in arms:
        book = book.with_window(arm, PROFILE, _window(0.1, 0.11, 0.105))
    return book


@pytest.fixture
def noise_file(tmp_path: Path) -> NoiseFile:
    """A file with the calibrations of two arms."""
    file = NoiseFile(tmp_path / "baselines", HOST)
    file.save(_book(OFF, K4))
    return file


def test_no_file_is_an_empty_book(tmp_path: Path) -> None:
    """Where nothing was calibrated nothing is known, of the right class of machine, and nothing is made."""
    file = NoiseFile(tmp_path / "baselines", HOST)

    assert file.load() == NoiseBook(host_class=HOST)
    assert list(tmp_path.iterdir()) == []


def test_a_book_comes_back_as_it_was(noise_file: NoiseFile) -> None:
    """Figures, windows and values survive."""
    assert noise_file.load() == _book(OFF, K4)


def test_each_host_class_has_a_folder(noise_file: NoiseFile, tmp_path: Path) -> None:
    """The file lies under the name of its class, and another class knows nothing of it."""
    assert noise_file.path == tmp_path / "baselines" / HOST / NOISE_NAME
    assert NoiseFile(tmp_path / "baselines", "gpu-h200").load().arms == ()


def test_case_119_the_same_data_give_the_same_bytes(noise_file: NoiseFile) -> None:
    """Case 119: arms that were added in another order, and a book that was read and written again, change no byte."""
    first = noise_file.path.read_bytes()

    noise_file.save(_book(K4, OFF))
    second = noise_file.path.read_bytes()
    noise_file.save(noise_file.load())

    assert first == second == noise_file.path.read_bytes()
    assert first.endswith(b"}\n")
    assert b"\r" not in first


def test_case_119_keys_are_sorted_at_every_depth(noise_file: NoiseFile) -> None:
    """Case 119: keys come in one order, whatever the models list first."""

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert [name for name, _ in pairs] == sorted(name for name, _ in pairs)
        return dict(pairs)

    text = noise_file.path.read_text(encoding="utf-8")

    assert json.loads(text, object_pairs_hook=check)["host_class"] == HOST


def test_case_119_a_list_of_numbers_is_one_line(noise_file: NoiseFile) -> None:
    """Case 119: another window changes the lines of its arm only, and the values of a metric stand on one of them."""
    before = noise_file.path.read_text(encoding="utf-8").splitlines()
    noise_file.save(noise_file.load().with_window(K4, PROFILE, _window(0.2, 0.21, day=3)))
    after = noise_file.path.read_text(encoding="utf-8").splitlines()

    assert '"ttft_p50": [0.1, 0.11, 0.105]' in [line.strip() for line in before]
    assert '"ttft_p50": [0.2, 0.21]' in [line.strip() for line in after]
    arms = [place for place, line in enumerate(before) if line.strip() == '"arm": "off",']
    assert before[arms[0] :][:8] == after[after.index(before[arms[0]], 0) :][:8]
    # k4 stands first: its new window and new figures, and nothing of the other arm.
    changed = set(after) - set(before)
    assert all(word not in " ".join(changed) for word in ("off", "0.105"))


@pytest.mark.parametrize("values", [(1e-9, 123456789.123), (0.1 + 0.2, 1 / 3), (1.0, 2e20)])
def test_numbers_keep_every_digit(tmp_path: Path, values: tuple[float, float]) -> None:
    """What is read is to the last bit what was written: figures are computed anew from it."""
    file = NoiseFile(tmp_path, HOST)
    file.save(NoiseBook(host_class=HOST).with_window(OFF, PROFILE, _window(*values)))

    assert file.load().arms[0].windows[0].values["c1"]["ttft_p50"] == values


def test_texts_keep_their_letters(tmp_path: Path) -> None:
    """Names are readable in the file, umlauts included."""
    window = _window(1.0, 2.0).model_copy(update={"engine": {"command": "größer"}})
    text = stable_text(NoiseBook(host_class=HOST).with_window(OFF, PROFILE, window))

    assert '"command": "größer' in text
    assert text.encode("utf-8").decode("utf-8") == text


def test_case_114_nothing_but_numbers_is_written(tmp_path: Path) -> None:
    """Case 114: NaN stands in no committed file; the file that was there stays."""
    file = NoiseFile(tmp_path, HOST)
    file.save(_book(OFF))
    before = file.path.read_bytes()
    [arm] = _book(OFF).arms
    figure = arm.noise["c1"]["ttft_p50"].model_copy(update={"sd": float("nan")})
    wrong = NoiseBook(host_class=HOST).model_copy(
        update={"arms": (arm.model_copy(update={"noise": {"c1": {"ttft_p50": figure}}}),)}
    )

    with pytest.raises(ValueError, match="not JSON compliant"):
        file.save(wrong)

    assert file.path.read_bytes() == before
    assert [path.name for path in file.path.parent.iterdir()] == [NOISE_NAME]


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda text: text.replace("0.105", "0.106"), "does not follow from its windows: the file was edited by hand"),
        (lambda text: text.replace('"df": 1.6', '"df": 16.0'), "was edited by hand"),
        (lambda text: text.replace(HOST, "gpu-h200"), "is of host class gpu-h200: it was moved or copied by hand"),
        (lambda text: text.replace('"schema_version": 1', '"schema_version": 2'), "update pytest-specgate"),
        (lambda text: text.replace("0.105", "NaN"), "c1.ttft_p50"),
        (lambda text: text.replace("0.105", "1e400"), "c1.ttft_p50"),
        (lambda text: text.replace("0.105", "null"), "c1.ttft_p50"),
        (lambda text: text.replace("0.105", '"0.105"'), "c1.ttft_p50"),
        (lambda text: text.replace("0.105", "true"), "c1.ttft_p50"),
        (lambda text: text.replace('"boots": 3', '"boots": 1'), "boots"),
        (lambda text: text.replace('"arm": ', '"alarm": '), "arms.0"),
        (lambda text: text[:-20], "is no calibration of this version"),
        (lambda _: "", "is no calibration of this version"),
        (lambda _: "[]", "is no calibration of this version"),
    ],
    ids=[
        "value", "figure", "moved", "version", "nan", "huge", "null", "text", "bool", "boots", "key", "cut", "empty",
        "list",
    ],
)  # fmt: skip
def test_case_114_and_115_a_file_that_is_wrong_is_named(
    noise_file: NoiseFile, edit: Callable[[str], str], sentence: str
) -> None:
    """Cases 114, 115: what was edited, moved or broken is refused in one sentence with file and place."""
    noise_file.path.write_text(edit(noise_file.path.read_text(encoding="utf-8")), encoding="utf-8")

    with pytest.raises(RecordError) as caught:
        noise_file.load()

    assert str(noise_file.path) in str(caught.value)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_case_107_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    """Case 107: what cannot be read is told as that."""
    file = NoiseFile(tmp_path, HOST)
    file.path.mkdir(parents=True)

    with pytest.raises(RecordError, match="cannot be read"):
        file.load()


def _record(created_at: str, profile: RequestProfile = PROFILE) -> WindowRecord:
    return WindowRecord(
        created_at=created_at, finished=True, arms=(OFF, K4), pairs=(), profile=profile, host={}, engine={}
    )


def _saved(results: Path, created_at: str, profile: RequestProfile = PROFILE) -> Path:
    """Write a record into the folder of its window, and return the folder."""
    folder = results / window_name(created_at, profile)
    FileStore(folder).save(_record(created_at, profile))
    return folder


def test_the_latest_record_comes_first(tmp_path: Path) -> None:
    """Records are listed by the time of their windows, however they were written."""
    days = ["2026-11-03T09:00:00.000+00:00", "2026-12-01T08:00:00.000+00:00", "2026-11-03T09:00:00.500+00:00"]
    for day in days:
        _saved(tmp_path, day)

    assert [record.created_at for record in latest_records(tmp_path, PROFILE)] == [days[1], days[2], days[0]]


def test_records_of_another_load_are_left_out(tmp_path: Path) -> None:
    """Times under another profile tell nothing."""
    _saved(tmp_path, "2026-11-03T09:00:00.000+00:00", RequestProfile(input_tokens=9, output_tokens=3, requests={1: 10}))

    assert list(latest_records(tmp_path, PROFILE)) == []


def test_a_record_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    """An older one is better than none: a broken file, or one of another schema, stops nobody."""
    good, broken, other = (_saved(tmp_path, f"2026-11-0{day}T09:00:00.000+00:00") / RECORD_NAME for day in (1, 2, 3))
    broken.write_text("{", encoding="utf-8")
    other.write_text(good.read_text(encoding="utf-8").replace('"schema_version": 3', '"schema_version": 99'))

    assert [record.created_at for record in latest_records(tmp_path, PROFILE)] == ["2026-11-01T09:00:00.000+00:00"]


def test_no_results_are_no_records(tmp_path: Path) -> None:
    """A folder that does not exist, and one with other things in it, have none."""
    (tmp_path / f"notes-{PROFILE.fingerprint()}").mkdir()

    assert list(latest_records(tmp_path / "never", PROFILE)) == []
    assert list(latest_records(tmp_path, PROFILE)) == []


@pytest.mark.parametrize("text", ["[1,  2]", "serve [ 3 ]", "[\n1,\n2\n]"])
def test_texts_that_look_like_lists_are_left_alone(text: str) -> None:
    """Only lists of numbers are put on one line, not what stands in a text."""
    window = _window(1.0, 2.0).model_copy(update={"engine": {"command": text}})
    book = NoiseBook(host_class=HOST).with_window(OFF, PROFILE, window)

    assert NoiseBook.model_validate_json(stable_text(book)) == book
