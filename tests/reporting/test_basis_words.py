"""What intervals are over, and how far drafts were shorter than k, in the words that every report shares."""

from __future__ import annotations

import pytest

from pytest_specgate.core.acceptance import AcceptanceCurve
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.reporting.basis_words import (
    basis_sentences,
    basis_text,
    draft_length_text,
    short_drafts_sentence,
)


def _curve(missing: int, *, drafts: int = 4000) -> AcceptanceCurve:
    return AcceptanceCurve(SpeculationDelta(drafts, 4 * drafts - missing, drafts, (drafts, 0, 0, 0)))


@pytest.mark.parametrize(
    ("missing", "shown"),
    [(0, "4.00 of 4"), (1000, "3.75 of 4"), (20, "3.995 of 4"), (16, "3.996 of 4"), (1, "3.9998 of 4")],
)
def test_a_draft_length_below_k_is_never_shown_as_k(missing: int, shown: str) -> None:
    """Where a token is missing, the length has as many digits as show it."""
    assert draft_length_text(_curve(missing)) == shown


def test_short_drafts_are_told_with_what_is_missing() -> None:
    """Two tokens of many are the number that tells why the sentence is there at all."""
    assert short_drafts_sentence("k4 at c=1", _curve(2, drafts=234)) == (
        "k4 at c=1: draft length 3.99 of 4, 2 of 936 draft tokens missing: a lower rate at late positions may be "
        "shorter drafts, and not refusal"
    )


def test_where_the_engine_told_the_length_of_each_draft_nothing_is_left_open() -> None:
    """Rates by position are per draft, and the sentence says what that means, without a perhaps."""
    told = AcceptanceCurve(SpeculationDelta(40, 158, 60, (30, 20, 10, 0)), proposed=(40, 40, 40, 38))

    assert short_drafts_sentence("k4", told) == (
        "k4: draft length 3.95 of 4, 2 of 160 draft tokens missing: rates by position count these as not accepted"
    )


def test_each_basis_is_told_once() -> None:
    """Names stand where there is more than one, and not where all intervals are over the same."""
    one, other = _curve(0, drafts=10), _curve(0, drafts=12)

    assert basis_text(one) == "over 10 drafts as if these were independent, which is too narrow"
    assert list(basis_sentences([("c=1", one), ("c=8", one)], link="at")) == [f"intervals: 95 %, {basis_text(one)}"]
    assert [line.partition(": ")[0] for line in basis_sentences([("c=1", one), ("c=8", other)], link="at")] == [
        "intervals at c=1",
        "intervals at c=8",
    ]
