"""The texts that come with the package: real, long enough, and cut to exact lengths."""

from __future__ import annotations

import json
import re
import unicodedata
import zlib

import pytest

from pytest_specgate.adapters.prompts import PackagedCorpus
from pytest_specgate.core.corpus import build_prompts
from pytest_specgate.core.profile import RequestProfile
from pytest_specgate.testing.tokenizer import Tokenizer

CORPORA = ("prose", "code")


def count(text: str) -> int:
    """Return the number of tokens, by the fake vLLM's tokenizer."""
    return len(Tokenizer().encode(text))


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_is_enough_text(name: str) -> None:
    """Thousands of tokens in dozens of paragraphs: the order of paragraphs alone gives every prompt its own text."""
    text = PackagedCorpus().text(name)
    paragraphs = [part for part in text.split("\n\n") if part.strip()]

    assert count(text) > 4096
    assert len(paragraphs) >= 30
    assert len(set(paragraphs)) == len(paragraphs)


@pytest.mark.parametrize("name", CORPORA)
def test_a_corpus_is_clean_text(name: str) -> None:
    """There are no control characters but line ends and tabs, no replacement characters, no blanks before line ends."""
    text = PackagedCorpus().text(name)

    assert {unicodedata.category(character) for character in set(text) - {"\n", "\t"}}.isdisjoint(
        {"Cc", "Cf", "Co", "Cs", "Cn"}
    )
    assert "\ufffd" not in text
    assert not re.search(r"[ \t]\n", text)


def test_the_corpora_differ_in_kind() -> None:
    """Repetitive text is easy to draft: both corpora compress like text, and not like filler."""
    texts = [PackagedCorpus().text(name).encode() for name in CORPORA]

    assert texts[0] != texts[1]
    assert all(len(zlib.compress(text)) / len(text) > 0.2 for text in texts)


@pytest.mark.parametrize("name", CORPORA)
def test_prompts_of_an_exact_length_can_be_cut(name: str) -> None:
    """Every prompt of a window has the length that was asked for, and none occurs twice."""
    profile = RequestProfile(input_tokens=96, output_tokens=8, requests={1: 10, 8: 16}, prompts="code")
    prompts = build_prompts(
        profile, source=PackagedCorpus().text(name), source_sha256="", model="tiny", count_tokens=count
    )
    texts = [json.loads(body)["prompt"] for bodies in (prompts.warmup, *prompts.points.values()) for body in bodies]

    assert {count(text) for text in texts} == {96}
    assert len(set(texts)) == len(texts) == 4 + 10 + 16
