"""Times of chunks as text: short, exact to half a microsecond, and refused when damaged."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.chunk_times import decode, encode
from pytest_specgate.core.errors import RecordError

TIMES = (0.05, 0.05, 0.0712345, 0.1000004, 7.25)


@given(st.lists(st.floats(0, 1e5), max_size=60).map(sorted))
def test_times_come_back_within_half_a_microsecond(times_s: list[float]) -> None:
    """Every time comes back, in its place, as exact as promised, however many stand before it."""
    found = decode(encode(times_s))

    assert len(found) == len(times_s)
    assert all(abs(one - other) <= 0.5e-6 + 1e-10 for one, other in zip(found, times_s, strict=True))


@given(st.lists(st.integers(-(2**52), 2**52), max_size=30))
def test_whole_microseconds_come_back_as_they_were(times_us: list[int]) -> None:
    """Nothing is lost of a time that is whole microseconds, in any order, even before the send."""
    times_s = tuple(at_us / 1e6 for at_us in times_us)

    assert decode(encode(times_s)) == times_s


def test_the_form_is_the_documented_one() -> None:
    """Base 85 of zlib of the bytes by their weight: a record of today must be readable for years."""
    steps_us = np.array([50_000, 0, 21_234, 28_766, 7_150_000], dtype="<i8")
    planes = bytes(itertools.chain.from_iterable(zip(*(step.tobytes() for step in steps_us), strict=True)))

    assert zlib.decompress(base64.b85decode(encode(TIMES))) == planes
    assert decode(base64.b85encode(zlib.compress(planes, 1)).decode()) == (0.05, 0.05, 0.071234, 0.1, 7.25)


def test_the_text_needs_no_escapes_in_json() -> None:
    """What stands in the record is the text itself."""
    text = encode([number * 0.0123456 for number in range(500)])

    assert json.dumps(text) == f'"{text}"'
    assert text.isascii()


def test_a_chunk_takes_few_bytes() -> None:
    """Chunks some 20 ms apart, unevenly by 1 ms, take at most 3 bytes each: far fewer than written-out numbers."""
    generator = np.random.default_rng(0)
    times_s = 0.05 + np.cumsum(generator.normal(0.020, 0.001, 256))

    assert len(encode(times_s.tolist())) < 3 * 256


def test_no_times_are_no_trouble() -> None:
    """An answer without token events has none to keep."""
    assert decode(encode(())) == ()


def _b85(data: bytes) -> str:
    return base64.b85encode(data).decode()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "chunk times cannot be read: ''... has no proper end: the record is damaged"),
        ("not this", "chunk times cannot be read: bad base85 character"),
        ("zeité", "chunk times cannot be read: "),
        (_b85(b"no zlib."), "chunk times cannot be read: Error -3 while decompressing data: "),
        (_b85(zlib.compress(b"12345678")[:-1]), "has no proper end: the record is damaged"),
        (_b85(zlib.compress(b"12345678") + b"more"), "has no proper end: the record is damaged"),
        (_b85(zlib.compress(b"123456789")), "chunk times end within a number, after 9 bytes: the record is damaged"),
    ],
)
def test_a_damaged_text_is_refused(text: str, message: str) -> None:
    """Whatever `encode` never made is an error of the record, with a sentence that says what is wrong with it."""
    with pytest.raises(RecordError) as raised:
        decode(text)

    assert message in str(raised.value)


@given(place=st.integers(0), other=st.sampled_from("0aZ~"))
def test_a_changed_character_changes_no_time_unnoticed(place: int, other: str) -> None:
    """The checksum finds what was changed by hand; a last character may also stand for the same bytes."""
    text = encode(TIMES)
    place %= len(text)
    found = None
    with contextlib.suppress(RecordError):
        found = decode(text[:place] + other + text[place + 1 :])

    assert found in {None, decode(text)}
