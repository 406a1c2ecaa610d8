"""Amounts with their units, as gate files write them and reports show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.units import amount_of, amount_text, points_of

if TYPE_CHECKING:
    from pytest_specgate.core.metric_definitions import Unit

UNITS: tuple[Unit, ...] = ("s", "tokens/s", "requests/s", "tokens/s/GPU", "tokens", "requests", "share", "events")


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("200ms", "s", 0.2),
        (" 1.5 s ", "s", 1.5),
        ("250 tokens/s", "tokens/s", 250.0),
        ("250tok/s", "tokens/s", 250.0),
        ("  0.5  tokens/s ", "tokens/s", 0.5),
        ("12 tokens/s/GPU", "tokens/s/GPU", 12.0),
        ("12 tok/s/GPU", "tokens/s/GPU", 12.0),
        ("4 requests/s", "requests/s", 4.0),
        ("4/s", "requests/s", 4.0),
        ("2.5 tokens", "tokens", 2.5),
        ("2.5 tok", "tokens", 2.5),
        ("2.5", "tokens", 2.5),
        ("3 requests", "requests", 3.0),
        ("60%", "share", 0.6),
        ("0.5 %", "share", 0.005),
        ("0", "events", 0.0),
        ("12", "events", 12.0),
        ("12 times", "events", 12.0),
        (" 7 ", "events", 7.0),
    ],
)
def test_amount(text: str, unit: Unit, *, value: float) -> None:
    """A number with a unit of the metric is read in that unit, in any of its spellings."""
    assert amount_of("limit", text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("250", "tokens/s"),
        ("250 ms", "tokens/s"),
        ("250 tokens", "tokens/s"),
        ("250 tokens/s", "tokens/s/GPU"),
        ("250 Tokens/s", "tokens/s"),
        ("4", "requests/s"),
        ("4 tokens", "requests"),
        ("12 %", "events"),
        ("-1", "events"),
        ("", "events"),
        ("times", "events"),
        ("1e3 tokens", "tokens"),
        ("1.", "events"),
        (".5", "events"),
        ("nan", "events"),
        ("inf tokens", "tokens"),
        (f"{'9' * 400} tokens", "tokens"),
        (12, "events"),
        (2.5, "tokens"),
        (None, "requests"),
        (True, "events"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_no_amount(text: object, unit: Unit) -> None:
    """A missing or foreign unit, a sign, an exponent, an endless number, and anything but text is refused."""
    with pytest.raises(UsageError, match=r"^limit=.* is no amount of this metric: write a number with its unit, as '3"):
        amount_of("limit", text, unit)


@pytest.mark.parametrize(
    ("unit", "example"),
    [
        ("tokens/s", "3 tokens/s"),
        ("tokens/s/GPU", "3 tokens/s/GPU"),
        ("requests/s", "3 requests/s"),
        ("tokens", "3 tokens"),
        ("requests", "3 requests"),
        ("events", "3"),
    ],
)
def test_the_remedy_shows_an_amount_that_is_accepted(unit: Unit, example: str) -> None:
    """The message quotes what was written and an example, which can be copied as it is."""
    with pytest.raises(UsageError) as caught:
        amount_of("floor", "3 miles", unit)

    text = f"floor='3 miles' is no amount of this metric: write a number with its unit, as {example!r}"
    assert str(caught.value) == text
    assert amount_of("floor", example, unit) == 3


@pytest.mark.parametrize("text", ["5", "5 %", "0ms", 5], ids=repr)
def test_times_have_their_own_words(text: object) -> None:
    """A time without its unit, or of nothing, is refused as a duration."""
    with pytest.raises(UsageError, match=r"^limit=.* is no duration"):
        amount_of("limit", text, "s")


@pytest.mark.parametrize(("text", "words"), [("5ms", "is not a percentage"), (5, "has no unit")])
def test_shares_have_their_own_words(text: object, words: str) -> None:
    """Case 95: a share is written with its percent sign, and a bare number is refused as ambiguous."""
    with pytest.raises(UsageError, match=rf"^limit=.* {words}"):
        amount_of("limit", text, "share")


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("2pp", 0.02),
        ("2 pp", 0.02),
        (" 0.5 points ", 0.005),
        ("1 point", 0.01),
        ("0pp", 0.0),
        ("2%", None),
        ("2", None),
        ("pp", None),
        ("-2pp", None),
        ("2ppm", None),
        ("2.pp", None),
        ("two points", None),
        (2, None),
        (None, None),
    ],
    ids=repr,
)
def test_points(text: object, points: float | None) -> None:
    """Points of a share are read as a fraction, and everything else is none."""
    assert points_of(text) == points


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("s", 0.2, "200 ms"),
        ("s", 0.0004, "0.4 ms"),
        ("s", 0.9994, "999.4 ms"),
        ("s", 1.0, "1 s"),
        ("s", 12.5, "12.5 s"),
        ("s", 0.0, "0 ms"),
        ("share", 0.6, "60 %"),
        ("share", 0.005, "0.5 %"),
        ("events", 0.0, "0"),
        ("events", 12.0, "12"),
        ("tokens/s", 250.0, "250 tokens/s"),
        ("tokens/s/GPU", 2.5, "2.5 tokens/s/GPU"),
        ("requests/s", 4.0, "4 requests/s"),
        ("tokens", 3.25, "3.25 tokens"),
        ("requests", 8.0, "8 requests"),
    ],
)
def test_text_of_an_amount(unit: Unit, value: float, *, text: str) -> None:
    """An amount is shown with its unit, times below a second in milliseconds, without needless digits."""
    assert amount_text(unit, value) == text


@given(st.sampled_from(UNITS), st.integers(1, 99_999).map(lambda thousandths: thousandths / 1000))
def test_what_is_shown_can_be_written(unit: Unit, value: float) -> None:
    """The text of an amount, copied into a gate file, is the same amount."""
    assert amount_of("limit", amount_text(unit, value), unit) == pytest.approx(value, rel=1e-5)


def test_a_share_without_its_unit_is_told_its_percentage() -> None:
    """Whoever writes a fraction reads what it is in percent."""
    with pytest.raises(UsageError, match=r"^limit='0\.6' has no unit: write limit='60%' if you mean that share of 1$"):
        amount_of("limit", "0.6", "share")
