"""`specgate compare`: two records or two result files, one against the other, from the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.integration.conftest import GateRun

JUDGED = ("--cross-window", "3%", "--source", "six windows of one commit", "--margin", "5%")


def stored(*, speed: float = 1.0, **changes: Any) -> dict[str, Any]:
    """Return what `vllm bench serve --save-result` writes of a server that is faster by a factor."""
    found: dict[str, Any] = {
        "date": "20261130-041120", "endpoint_type": "openai", "backend": "openai", "label": None, "model_id": "m",
        "tokenizer_id": "t", "num_prompts": 50, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 8,
        "duration": 10 / speed, "completed": 50, "failed": 0, "total_input_tokens": 5000, "total_output_tokens": 1000,
        "request_throughput": 5 * speed, "request_goodput": None, "output_throughput": 100 * speed,
        "median_ttft_ms": 50 / speed, "p99_ttft_ms": 90 / speed, "median_tpot_ms": 10 / speed,
        "mean_tpot_ms": 11 / speed, "median_itl_ms": 12 / speed,
    }  # fmt: skip
    return {**found, **changes}


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    """Write a result file and return its path."""

    def write(name: str, **changes: Any) -> str:
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(stored(**changes)), encoding="utf-8")
        return str(path)

    return write


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command; return its exit status and what it wrote to either stream."""
    status = main(["compare", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def plain(text: str) -> list[str]:
    """Return lines with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_case_136_the_exit_status_says_what_came_of_it(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 136: a regression ends with 1, equal files with 0, a gain with 0, what cannot be told with 3."""
    base, slow, near = file("base"), file("slow", speed=0.8), file("near", speed=0.97)
    found = {name: told(capsys, base, name, *JUDGED)[0] for name in (slow, base, near)}

    assert found == {slow: 1, base: 0, near: 3}
    assert told(capsys, slow, base, *JUDGED)[0] == 0


def test_case_136_all_differences_are_listed(file: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """Case 136: a first FAIL hides no second one, and figures that are not judged stand beside it."""
    status, text, _ = told(capsys, file("base"), file("slow", speed=0.8), *JUDGED)
    lines = plain(text)

    assert status == 1
    assert "output throughput [tokens/s] 100.0 80.00 worse -20.0 % -22.4 .. -16.4 % FAIL (not worse than -5 %)" in lines
    assert any(line.startswith("TPOT p50 [ms] 10.00 12.50 worse +25.0 %") and "FAIL" in line for line in lines)
    assert "TPOT mean [ms] 11.00 13.75 worse +25.0 % - -" in lines
    assert "FAIL: 3 of 3: output throughput, TTFT p50, TPOT p50" in lines
    assert lines[-1] == "judged by a floor across windows of 3 % (six windows of one commit): FAIL"


def test_case_136_equal_files_pass_and_are_named_as_such(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two copies of one file pass with a floor, and a note says that nothing was compared."""
    status, text, _ = told(capsys, file("base"), file("copy"), *JUDGED)

    assert status == 0
    assert (
        "note: both are one and the same window: no difference was to be expected, and this shows nothing of a change"
        in text
    )
    assert "PASS: 3 of 3" in plain(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is no JSON"),
        (json.dumps(stored()).replace("50.0", "NaN", 1), "nan is no JSON number, got NaN"),
        (json.dumps(stored(median_ttft_ms=True)), "median_ttft_ms: Input should be a valid number, got true"),
        (json.dumps(stored(completed=None)), "has no completed"),
        ('{"schema_version": 99}', "cannot be read as a window record"),
        ("[1]", "is neither a window record nor a result file"),
        ('{"requests_per_s": 3}', "is neither a window record nor a result file"),
    ],
)
def test_case_136_a_broken_file_ends_with_2(
    file: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str], *, text: str, sentence: str
) -> None:
    """Cases 114, 115 and 136: one sentence that names the file and the key, and no figure."""
    path = tmp_path / "broken.json"
    path.write_text(text, encoding="utf-8")
    status, out, error = told(capsys, file("base"), str(path))

    assert (status, out) == (2, "")
    assert str(path) in error
    assert sentence in error
    assert len(error.splitlines()) == 1


def test_without_a_floor_nothing_passes_or_fails(file: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """Everything is labelled, the command says what would decide, and what the files cannot prove stands before all."""
    status, text, _ = told(capsys, file("base"), file("slow", speed=0.5))
    lines = plain(text)

    assert status == 3
    assert lines[2] == "load: 9 of 9 fields identical, as far as the files tell"
    assert lines[3].startswith("not proved: seed; dataset and prompts;")
    assert "output throughput [tokens/s] 100.0 50.00 worse -50.0 % indicative" in lines
    assert lines[-1].startswith("INCONCLUSIVE (indicative: two windows): two windows have no spread of their own")
    assert not {"PASS", "FAIL"} & set(text.replace(":", " ").split())


def test_case_142_words_follow_the_direction(file: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """Case 142: the sign is that of the change, the word that of its direction."""
    changed = {"output_throughput": 120.0, "total_output_tokens": 1000, "duration": 10 / 1.2, "request_throughput": 6.0}
    _, text, _ = told(capsys, file("base"), file("other", **changed, median_ttft_ms=60.0))
    lines = plain(text)

    assert "output throughput [tokens/s] 100.0 120.0 better +20.0 % indicative" in lines
    assert "TTFT p50 [ms] 50.00 60.00 worse +20.0 % indicative" in lines


def test_case_139_a_mismatch_shows_both_values_and_no_figure(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 139: files of two loads end with 4; fields and values are there, and nothing that could be scraped."""
    files = file("base"), file("other", speed=2.0, max_concurrency=32)
    status, text, _ = told(capsys, *files, *JUDGED)
    again, stdout, _ = told(capsys, *files, *JUDGED, "--json")
    found = json.loads(stdout)

    assert (status, again) == (4, 4)
    assert plain(text)[-3:] == ["max_concurrency", "reference: 8", "candidate: 32"]
    assert "tokens/s" not in text
    assert (found["valid"], found["reason"], found["rows"]) == (False, "profile-mismatch", [])
    assert found["differences"] == [{"field": "max_concurrency", "reference": 8, "candidate": 32}]


def test_case_139_rows_that_are_not_valid_have_no_figures(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 139: units stand in the names of levels; a row without a value has a reason instead."""
    status, stdout, _ = told(capsys, file("base"), file("slow", speed=0.8, median_ttft_ms=None), *JUDGED, "--json")
    found = json.loads(stdout)
    rows: Mapping[str, Mapping[str, Any]] = {row["metric"]: row for row in found["rows"]}

    assert (status, found["valid"], found["outcome"]) == (1, True, "FAIL")
    assert rows["tpot_p50"]["reference_s"] == pytest.approx(0.010)
    assert rows["output_throughput"]["candidate_tokens_per_s"] == pytest.approx(80.0)
    assert rows["output_throughput"]["change"] == pytest.approx(-0.2)
    assert (rows["ttft_p50"]["valid"], rows["ttft_p50"]["reason"]) == (False, "missing-metric")
    assert not [name for name in rows["ttft_p50"] if name.startswith(("reference", "candidate", "change"))]
    assert found["unproved"]
    assert found["files"]["reference"].endswith("base.json")


def test_metadata_that_differs_by_purpose(file: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """A commit in the metadata makes two loads of two files until it is said to vary."""
    files = file("base", commit="abc"), file("other", commit="def")

    assert told(capsys, *files)[0] == 4
    assert told(capsys, *files, "--varies", "commit")[0] == 3


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--margin", "5%"], "two windows have no spread to judge by"),
        (["--cross-window", "3%", "--source", "six windows"], "nothing says what loss is still called"),
        (["--cross-window", "3%", "--margin", "5%"], "say where it comes from"),
        (["--cross-window="], "--cross-window is empty"),
        (["--margin", ""], "--margin is empty"),
        (["--mode", "relative"], "--mode is about window records"),
        (["--mode", "both"], "invalid choice"),
        (["--varies", "gpu"], "--varies gpu: `--metadata` of neither file has that name"),
    ],
)
def test_case_135_what_cannot_be_meant_is_a_usage_error(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str], *, arguments: list[str], sentence: str
) -> None:
    """Case 135: an empty value switches nothing off; half a claim says which half is missing, and why."""
    status, out, error = told(capsys, file("base"), file("other"), *arguments)

    assert (status, out) == (2, "")
    assert sentence in error
    assert len(error.splitlines()) == 1


def test_case_135_an_empty_path_is_not_the_working_directory(
    file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 135: a CI variable that expands to nothing names no file."""
    status, _, error = told(capsys, "", file("base"))

    assert status == 2
    assert "empty" in error


def test_help_is_for_newcomers(capsys: pytest.CaptureFixture[str]) -> None:
    """What the two files are, why nothing passes by itself, and what each exit status means."""
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    text = " ".join(capsys.readouterr().out.split())

    assert "two result files of `vllm bench serve --save-result`" in text
    assert "Two windows have no spread of their own" in text
    assert "0 nothing is worse by more than its margin" in text


def test_secrets_are_neither_printed_nor_exported(file: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """Metadata under a secret's name, or of a secret's form, is cut out of differences and notes."""
    secrets = "sk-abcdefghijklmnopqrstuvwx", "hf_ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    files = file("base"), file("other", api_key=secrets[0], remark=f"with {secrets[1]}")
    varied = [*files, "--varies", "api_key", "--varies", "remark"]
    texts = [told(capsys, *arguments)[1] for arguments in (files, (*files, "--json"), varied, (*varied, "--json"))]

    assert not [text for text in texts for secret in secrets if secret in text]
    assert all("[redacted]" in text for text in texts)


def test_texts_of_files_forge_no_lines(file: Callable[..., str], capsys: pytest.CaptureFixture[str]) -> None:
    """Line ends, escapes and marks of direction are shown, and not obeyed."""
    files = file("base"), file("other", model_id="m\x1b[31mred\nPASS: 4 of 4\u202e")
    _, text, _ = told(capsys, *files)
    _, found, _ = told(capsys, *files, "--json")
    _, _, error = told(capsys, files[0], file("named", **{"a\nPASS: 1 of 1": "x"}), "--varies", "b")

    assert not [line for line in f"{text}{error}".splitlines() if line.startswith("PASS")]
    assert "\\x1b[31mred\\nPASS: 4 of 4\\u202e" in text
    assert not {"\x1b", "\u202e"} & set(text + found)


def test_a_file_written_anew_is_the_same_window(
    file: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What counts is what a file holds, not how it is laid out; the last line says so too."""
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps(stored(), indent=4, sort_keys=True), encoding="utf-8")
    status, text, _ = told(capsys, file("base"), str(path), *JUDGED)

    assert status == 0
    assert plain(text)[-1].endswith(
        "PASS; both are one and the same window: no difference was to be expected, and this shows nothing of a change"
    )


def test_a_folder_without_a_record_is_named(
    file: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It holds no window, and the remedy is said."""
    status, _, error = told(capsys, str(tmp_path), file("base"))

    assert status == 2
    assert "has no record.json: name the folder of one window, or the file itself" in error


# Records of windows.


def record_of(run: GateRun) -> Path:
    """Return the one record of a run."""
    (path,) = run.results.glob("*/record.json")
    return path


def slower(record: dict[str, Any], *, arm: str, factor: float) -> dict[str, Any]:
    """Return a record in which every time of an arm is longer, as measured on another day."""
    times = ("sent_s", "ttft_s", "first_text_s", "last_token_s", "closed_s")
    for boot in record["boots"]:
        for request in (one for point in boot["points"] for one in point["requests"] if boot["arm"] == arm):
            request |= {name: request[name] * factor for name in times}
    return {**record, "created_at": "2030-01-02T03:04:05+00:00"}


@pytest.fixture
def edited(healthy: GateRun, tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], dict[str, Any]]], str]:
    """Write a changed copy of a record and return its path."""

    def write(edit: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
        path = tmp_path / "record.json"
        path.write_text(json.dumps(edit(json.loads(record_of(healthy).read_text(encoding="utf-8")))), encoding="utf-8")
        return str(tmp_path)

    return write


def test_two_records_are_compared_by_their_pairs(
    healthy: GateRun, edited: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A lost gain fails its pair; identity stands before the table, and levels beside it are not judged."""
    other = edited(lambda record: slower(record, arm="k4", factor=2.0))
    status, text, _ = told(capsys, str(record_of(healthy)), other, *JUDGED)
    lines = plain(text)

    assert status == 1
    assert lines[2].startswith("request profile: ")
    assert "k4 against off (relative: the change between the arms, then and now)" in lines
    assert any("worse -50.0 %" in line and "FAIL (not worse than -5 %)" in line for line in lines)
    assert text.index("request profile") < text.index("k4 against off")


def test_one_record_twice_passes_and_says_so(healthy: GateRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder is as good as its record."""
    path = record_of(healthy)
    status, text, _ = told(capsys, str(path), str(path.parent), *JUDGED)

    assert status == 0
    assert (
        "note: both are one and the same window: no difference was to be expected, and this shows nothing of a change"
        in text
    )
    assert "FAIL" not in text


def test_records_of_two_machines_are_not_compared(
    healthy: GateRun, edited: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Both classes are named, and no figure is."""
    other = edited(lambda record: {**record, "host_class": "h200x1-0a1b2c3d", "host": {}})
    status, text, _ = told(capsys, str(record_of(healthy)), other)

    assert status == 4
    assert "INVALID (foreign-host): the windows were measured on two machines" in text
    assert "h200x1-0a1b2c3d" in text
    assert "%" not in text


def test_a_record_and_a_result_file_are_never_compared(
    healthy: GateRun, file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Their figures are measured in two ways."""
    status, _, error = told(capsys, file("base"), str(record_of(healthy)))

    assert status == 2
    assert "is a window record and " in error
    assert "compare two of one kind" in error


def test_metadata_belongs_to_result_files(healthy: GateRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A record has none that could vary."""
    path = str(record_of(healthy))
    status, _, error = told(capsys, path, path, "--varies", "commit")

    assert status == 2
    assert "--varies is about the metadata of result files" in error


def test_a_pair_that_is_none_names_the_file(
    healthy: GateRun, edited: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A record whose pair differs in more than it varies is refused by its path."""

    def differ(record: dict[str, Any]) -> dict[str, Any]:
        record["arms"][0]["env"] = {"NOTE": "x"}
        return record

    status, _, error = told(capsys, edited(differ), str(record_of(healthy)))

    assert status == 2
    assert "record.json: a pair of the record is none: ArmPair: " in error


def test_the_last_line_names_a_reference_that_moved(
    healthy: GateRun, edited: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Times of both arms that double cancel, and a reader of one line sees that they did."""
    other = edited(lambda record: slower(slower(record, arm="k4", factor=2.0), arm="off", factor=2.0))
    status, text, _ = told(capsys, str(record_of(healthy)), other, *JUDGED)

    assert status == 0
    assert "PASS; the machine or the engine moved: off, the reference, is worse -50.0 % (" in plain(text)[-1]
