"""The fake's tokenizer."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.testing.tokenizer import VOCABULARY_SIZE, Tokenizer, split_pieces, token_id


@given(st.text())
def test_pieces_joined_are_the_text(text: str) -> None:
    """No character is lost, whatever the text."""
    assert "".join(split_pieces(text)) == text


@given(st.text(st.characters(exclude_categories=[])))
def test_every_id_is_in_the_vocabulary(text: str) -> None:
    """Ids are indices below the size of the vocabulary, for lone surrogates too."""
    assert all(0 <= number < VOCABULARY_SIZE for number in Tokenizer().encode(text))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("greenhouse door", ["gree", "nhou", "se", " door"]),
        ("13 boxes.", ["1", "3", " boxe", "s", "."]),
        ("a\n\n    b", ["a", "\n", "\n", "   ", " b"]),
        ("été", ["été"]),
    ],
)
def test_pieces_look_like_sub_words(text: str, pieces: list[str]) -> None:
    """Letters come in runs of four with their blank, digits and punctuation one by one."""
    assert split_pieces(text) == pieces


def test_counts_of_two_texts_need_not_add() -> None:
    """A cut inside a word changes the number of tokens, as with a real tokenizer."""
    tokenizer = Tokenizer()

    assert len(tokenizer.encode("re" + "st")) < len(tokenizer.encode("re")) + len(tokenizer.encode("st"))


def test_encoded_text_decodes_to_itself() -> None:
    """The pieces of an encoded text are remembered."""
    tokenizer = Tokenizer()
    text = "There were 13 boxes,\n  all painted before noon."

    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_unknown_ids_decode_to_distinct_words() -> None:
    """An id nobody encoded still has a text of its own."""
    tokenizer = Tokenizer()
    words = {tokenizer.piece(number) for number in range(0, VOCABULARY_SIZE, 97)}

    assert len(words) == len(range(0, VOCABULARY_SIZE, 97))


def test_two_processes_agree_on_ids() -> None:
    """Ids do not depend on the process or its hash seed, so both arms see the same tokenizer."""
    script = "from pytest_specgate.testing.tokenizer import token_id; print(token_id(' noon'))"
    printed = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout

    assert int(printed) == token_id(" noon")
