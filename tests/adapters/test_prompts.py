"""The texts that come with the package: real, long enough, and cut to exact lengths."""

from __future__ import annotations

import json
import re
import unicodedata
import zlib
from typing import TYPE_CHECKING

import pytest

from pytest_specgate.adapters.prompts import LocalPrompts, check_files
from pytest_specgate.core.corpus import build_prompts
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.core.prompt_files import PromptFile
from pytest_specgate.testing.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

CORPORA = ("prose", "code")


def count(text: str) -> int:
    """Return the number of tokens, by the fake vLLM's tokenizer."""
    return len(Tokenizer().encode(text))


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_is_enough_text(name: str) -> None:
    """Thousands of tokens in dozens of paragraphs: the order of paragraphs alone gives every prompt its own text."""
    text = LocalPrompts().text(name)
    paragraphs = [part for part in text.split("\n\n") if part.strip()]

    assert count(text) > 4096
    assert len(paragraphs) >= 30
    assert len(set(paragraphs)) == len(paragraphs)


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_is_clean_text(name: str) -> None:
    """There are no control characters but line ends and tabs, no replacement characters, no blanks before line ends."""
    text = LocalPrompts().text(name)

    assert {unicodedata.category(character) for character in set(text) - {"\n", "\t"}}.isdisjoint(
        {"Cc", "Cf", "Co", "Cs", "Cn"}
    )
    assert "\ufffd" not in text
    assert not re.search(r"[ \t]\n", text)


def test_the_corpora_differ_in_kind() -> None:
    """Repetitive text is easy to draft: both corpora compress like text, and not like filler."""
    texts = [LocalPrompts().text(name).encode() for name in CORPORA]

    assert texts[0] != texts[1]
    assert all(len(zlib.compress(text)) / len(text) > 0.2 for text in texts)


@pytest.mark.parametrize("name", CORPORA)
def test_prompts_of_an_exact_length_can_be_cut(name: str) -> None:
    """Every prompt of a window has the length that was asked for, and none occurs twice."""
    profile = RequestProfile(input_tokens=96, output_tokens=8, requests={1: 10, 8: 16}, prompts="code")
    prompts = build_prompts(
        profile,
        source=LocalPrompts().text(name),
        source_sha256="",
        model="tiny",
        tokenize=lambda prompt: Tokenizer().encode(str(prompt)),
    )
    texts = [json.loads(body)["prompt"] for bodies in (prompts.warmup, *prompts.points.values()) for body in bodies]

    assert {count(text) for text in texts} == {96}
    assert len(set(texts)) == len(texts) == 4 + 10 + 16


def test_random_tokens_are_drawn_from_all_corpora() -> None:
    """The text for random tokens is that of both corpora, whose tokens are those of a real vocabulary."""
    source = LocalPrompts()

    assert source.text("random") == f"{source.text('prose')}\n\n{source.text('code')}"


def test_a_file_is_read_from_the_root_folder(tmp_path: Path) -> None:
    """Paths are relative to the root folder, absolute ones stay, and line ends are not touched."""
    (tmp_path / "mine.txt").write_bytes("naïve\r\n".encode())

    assert LocalPrompts(tmp_path).file("mine.txt") == "naïve\r\n"
    assert LocalPrompts().file(str(tmp_path / "mine.txt")) == "naïve\r\n"


def test_a_missing_file_is_named_with_the_place_it_was_looked_for(tmp_path: Path) -> None:
    """The sentence has the path as written, where it was looked for, and what it is relative to."""
    with pytest.raises(UsageError) as raised:
        LocalPrompts(tmp_path).file("mine.txt")

    assert str(raised.value) == (
        f"PromptFile('mine.txt') cannot be read: there is no such file at {tmp_path / 'mine.txt'} (paths are relative "
        "to pytest's root folder)"
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """What the system says is repeated."""
    (tmp_path / "mine.txt").mkdir()

    with pytest.raises(UsageError, match=r"^PromptFile\('mine\.txt'\) cannot be read: Is a directory at "):
        LocalPrompts(tmp_path).file("mine.txt")


def test_a_file_of_another_encoding_is_refused(tmp_path: Path) -> None:
    """The first byte that is not UTF-8 is named."""
    (tmp_path / "mine.txt").write_bytes("naïve".encode("latin-1"))

    with pytest.raises(UsageError, match=r"^PromptFile\('mine\.txt'\) is no UTF-8 text: byte 2 of "):
        LocalPrompts(tmp_path).file("mine.txt")


def test_files_of_profiles_are_checked(tmp_path: Path) -> None:
    """A profile with a file is checked against it, one with a corpus is not."""
    (tmp_path / "mine.txt").write_text("One.\n\nTwo.\n")
    mine = RequestProfile(input_tokens=None, output_tokens=8, requests={1: 10}, prompts=PromptFile("mine.txt"))
    prose = RequestProfile(input_tokens=9, output_tokens=8, requests={1: 10})
    check_files([prose], root=tmp_path)

    with pytest.raises(
        UsageError, match=r"^mine\.txt has 2 prompts, and the profile needs 14, 4 of them for the warm-up"
    ):
        check_files([prose, mine], root=tmp_path)
