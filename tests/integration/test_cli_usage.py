"""What all commands have in common: a help that explains, `--json`, and wrong usage told in one sentence."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

import pytest

from pytest_specgate import cli

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def leaves(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that does something, those of commands within commands included."""
    inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in inner:
        for name, subparser in action.choices.items():
            yield from leaves(subparser, (*words, name))
    if not inner:
        yield words


LEAVES = list(leaves(cli._parser()))


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must be refused, and return its one line on stderr without the program's name."""
    status = cli.main(arguments)
    shown = capsys.readouterr()

    assert (status, shown.out) == (2, "")
    assert shown.err.startswith("specgate: ")
    assert shown.err.count("\n") == 1
    return shown.err.removeprefix("specgate: ")


def helped(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the help of a command as one line."""
    with pytest.raises(SystemExit) as left:
        cli.main([*words, "--help"])

    assert left.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_every_command_of_the_table_is_looked_at() -> None:
    """The tests below find the commands by their parsers."""
    assert {words[0] for words in LEAVES} == {command.name for command in cli.COMMANDS}


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_help_says_what_a_command_does_and_how_it_ends(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer reads a description, a meaning for every option, and what each exit status means."""
    text = helped(capsys, *words)
    description = text.partition("positional arguments:")[0].partition("options:")[0]

    assert len(description) > 200, "usage and a sentence or two"
    assert "xit status" in text
    assert "--json" in text
    assert "==SUPPRESS==" not in text


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_option_and_argument_has_a_help(words: tuple[str, ...]) -> None:
    """None is left to be guessed by its name."""
    parser = cli._parser()
    for word in words:
        (inner,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = inner.choices[word]

    assert [action.dest for action in parser._actions if not action.help] == []


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_an_unknown_option_is_one_sentence(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever else is missing, the command ends with 2 and names where to look."""
    told = refused(capsys, *words, "--no-such-option")

    assert re.search(rf"\(`specgate {words[0]}[a-z ]* --help` lists what there is\)$", told)


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
@pytest.mark.parametrize(("given", "named"), [("", "an argument"), (" ", "an argument"), ("--gates=", "--gates")])
def test_case_135_an_empty_value_is_a_usage_error(
    words: tuple[str, ...], given: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case 135: a CI variable that expands to nothing neither switches anything off nor means this folder."""
    assert refused(capsys, *words, given) == f"{named} is empty: give it a value or leave it out\n"


@pytest.mark.parametrize("option", ["--wheel", "--keep", "--gates", "--boots", "--model"])
def test_case_135_an_option_and_nothing_after_it(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Case 135: with a blank between option and value it is the option that is named."""
    assert refused(capsys, "judge", option, "") == f"{option} is empty: give it a value or leave it out\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["judge", "nowhere.json"], "nowhere.json cannot be read: "),
        (["judge", "record.txt", "--gates", "nowhere.py"], "record.txt is no window record"),
        (["judge", "folder"], "folder has no record.json: name the folder of one window"),
        (["judge", "folder", "--option=-v"], "--option is for the pytest that reads --gates"),
        (["report", "nowhere.json"], "nowhere.json cannot be read: "),
        (["report", "folder"], "folder has no record.json: name the folder of one window"),
        (["report"], "the following arguments are required: RECORD"),
        (["calibrate", "nowhere.py"], "nowhere.py: there is no such file or folder"),
        (["calibrate", "nowhere.py::test_x"], "nowhere.py: there is no such file or folder"),
        (["calibrate", "folder", "--boots=1"], "one boot has nothing to be compared with"),
        (["counters", "nowhere.txt", "record.txt"], "nowhere.txt cannot be read: No such file or directory"),
        (["counters", "folder", "folder"], "folder cannot be read: Is a directory"),
        (["stream", "nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file or directory"),
        (["stream", "folder"], "folder cannot be read: Is a directory"),
        (["prepare-model", "--wheel", "folder"], "--wheel names 'folder', which is no file"),
        (["selftest", "--slow", "5"], "--slow='5' is not a percentage"),
        (["selftest", "--keep", "record.txt"], "--keep record.txt cannot be used: "),
        (["schema", "verdict"], "invalid choice: 'verdict'"),
        (["schema"], "the following arguments are required: KIND"),
    ],
)
def test_what_is_not_there_is_named(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Missing files, folders without a record, and values that cannot be meant."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "record.txt").write_text("text")

    assert sentence in refused(capsys, *arguments)


def test_one_broken_record_of_many_hides_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`specgate report` names each that it cannot show, and ends with 2."""
    status = cli.main(["report", str(tmp_path), str(tmp_path / "nowhere.json")])

    assert status == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
